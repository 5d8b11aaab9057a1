"""Nodes under guard: each execution counts once, and nothing that a node returns can lose a request to a human.

A guarded node returns what the node returned and the fields that follow from it, so it fits LangGraph and loops of your
own alike.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from strictreply.coordination._runs.fields import Field, Fields, count, field_issues, flag
from strictreply.coordination._runs.human_turn import adopted, ledger_of, pending_requests
from strictreply.coordination._runs.ledger import ledger_issues, merge_ledgers
from strictreply.coordination._runs.next_node import explain_route, history_limit, record_route
from strictreply.coordination._runs.routes import Routes
from strictreply.coordination._runs.run_metrics import Activity, RunMetrics, measured
from strictreply.coordination._runs.states import AgentState, Now, S, changed, increment_loop_count, require, utc_now

Update: TypeAlias = Mapping[str, Any]
"""What a node returns: the fields it changes, or a whole state."""

Node = TypeVar("Node", bound=Callable[..., Any])

_UPDATE: Fields = {
    "loop_count": Field(count, required=False),
    "requires_human_input": Field(flag, required=False),
    "human_requests": Field(ledger_issues, required=False),
}


def counted(
    node: Node,
    *,
    name: str | None = None,
    routes: Routes | None = None,
    metrics: RunMetrics | None = None,
    now: Now = utc_now,
) -> Node:
    """Guard a node, a function of the state or an async one: each execution adds 1 to ``loop_count`` (R21).

    Whatever the node itself does with the count, it is one more than before; guarding twice still counts once. What
    it returns goes through :func:`apply_update`. With ``routes`` the decision that follows is recorded in
    ``routing_history``, and with ``metrics`` the execution is counted, both under ``name``, which is the function's
    own unless given. Raises StateError when the node returns what is no update.
    """
    label = name or _name_of(node)

    def finished(state: AgentState, returned: object) -> dict[str, Any]:
        """Make the update that leaves the guarded node."""
        update = _read_update(returned)
        after = changed(apply_update(state, update), loop_count=increment_loop_count(state)["loop_count"])
        if routes is not None:
            decision = explain_route(after, routes=routes)
            after = record_route(after, decision, source=label, now=now, limit=history_limit(routes))
        return _difference(state, update, after)

    @functools.wraps(node)
    def run(state: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run a plain node once."""
        with measured(metrics, Activity.NODE_EXECUTIONS, label):
            returned = node(state, *args, **kwargs)
        return finished(state, returned)

    @functools.wraps(node)
    async def run_async(state: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run an async node once."""
        with measured(metrics, Activity.NODE_EXECUTIONS, label):
            returned = await node(state, *args, **kwargs)
        return finished(state, returned)

    return cast("Node", run_async if _is_async(node) else run)


def apply_update(state: S, update: Update | None) -> S:
    """Give the state after an update, with every request to a human that either of them knows (requirement R27).

    A request stays pending until the ledger says otherwise: an update cannot lower the flag over it, and a flag that
    was set by hand gets a request of its own. Raises StateError for an update that is no mapping, or mistyped.
    """
    fields = _read_update(update)
    before = adopted(state)
    ledger = merge_ledgers(ledger_of(before), fields.get("human_requests", []))
    after = adopted(changed(before, **{**fields, "human_requests": ledger}))
    return changed(after, requires_human_input=bool(pending_requests(after)))


def _read_update(returned: object) -> dict[str, Any]:
    """Read what a node returned; None is no change, as in LangGraph."""
    if returned is None:
        return {}
    require(field_issues(returned, _UPDATE))
    return dict(cast("Update", returned))


def _difference(state: Mapping[str, Any], update: Update, after: Mapping[str, Any]) -> dict[str, Any]:
    """Give the fields that the node named, and those that are not as before."""
    missing = object()
    return {
        key: value
        for key, value in after.items()
        if key in update or ((old := state.get(key, missing)) is not value and old != value)
    }


def _name_of(node: object) -> str:
    """Give the name of a function, or of an object's class."""
    return str(getattr(node, "__name__", type(node).__name__))


def _is_async(node: Callable[..., Any]) -> bool:
    """Tell whether a node must be awaited: a coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(node) or inspect.iscoroutinefunction(getattr(node, "__call__", None))  # noqa: B004
