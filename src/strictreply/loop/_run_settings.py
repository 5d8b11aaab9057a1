"""The settings that several runs share, and how a run is opened with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from strictreply import AsyncStrictClient, Contract, StrictClient
from strictreply.core import JSONObject, Wire
from strictreply.core.tools import refuse_unrunnable
from strictreply.loop._policy import LoopPolicy
from strictreply.loop._run_steps import RunLoop, RunObserver
from strictreply.loop.values import AgentContext, Envelope
from strictreply.wires import wire_named

DEFAULT_AGENT: Final = AgentContext(id="default")
DEFAULT_LOOP: Final = LoopPolicy()
NO_CONTEXT: Final = object()
"""Stands for no context, because None may itself be a context."""

# These keywords do not change a contract.
_SHAPELESS: Final = frozenset({"model", "stream"})
_NUMBERED: Final = WeakKeyDictionary[Contract[Any], Contract[Any]]()
"""Contracts whose replies may repeat ids, by the contract that they were made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of runs; with equal settings a run can be continued in any process."""

    client: StrictClient | AsyncStrictClient
    """The client that sends the requests."""
    keywords: JSONObject
    """The keywords of every request; its contract lets replies repeat ids of earlier calls."""
    contract: Contract
    """The contract that replies are checked against; its tools have the context."""
    wire: Wire
    """The API of the requests."""
    policy: LoopPolicy
    """The bounds of a turn."""
    agent: AgentContext
    """The agent that answers."""

    @classmethod
    def of(
        cls,
        client: StrictClient | AsyncStrictClient,
        keywords: JSONObject,
        *,
        policy: LoopPolicy = DEFAULT_LOOP,
        agent: AgentContext = DEFAULT_AGENT,
        context: object = NO_CONTEXT,
    ) -> RunSettings:
        """Make the settings of runs whose requests have these keywords.

        Raises ContractError for keywords that cannot be checked, for an async tool of a sync
        client, and for a tool that takes a context if there is none.
        """
        is_shaped = not keywords.keys() <= _SHAPELESS
        contract = client.contract_for(**keywords) if is_shaped else client.contract
        if context is not NO_CONTEXT:
            tools = tuple(tool.with_context(context) for tool in contract.tools)
            contract = contract.replace(tools=tools)

        # Before any request: a sync run could not await it.
        for tool in contract.by_name.values():
            if tool.function is not None:
                refuse_unrunnable(tool, awaited=isinstance(client, AsyncStrictClient))

        return cls(
            client=client,
            keywords=_numbering(client, keywords),
            contract=contract,
            wire=wire_named(keywords.get("api") or client.api),
            policy=policy,
            agent=agent,
        )

    def opened(
        self,
        request: Envelope,
        *,
        new_id: Callable[[], str],
        correlation_id: str,
        time_stamp: str,
        cancelled: Callable[[], bool] | None = None,
        observer: RunObserver | None = None,
    ) -> RunLoop:
        """Open a run for :func:`run_flow`.

        ``new_id`` makes the ids of sessions and turns; ``correlation_id`` names the request in
        logs, and its claim; ``time_stamp`` is ISO 8601. ``cancelled`` is called between two steps,
        None never ends the run; ``observer`` may refuse a step, None for nobody.
        """
        return RunLoop(
            request=request,
            contract=self.contract,
            policy=self.policy,
            agent=self.agent,
            model=str(self.keywords.get("model", "")),
            new_id=new_id,
            correlation_id=correlation_id,
            time_stamp=time_stamp,
            cancelled=cancelled,
            observer=observer,
            replay=self.wire.replay,
        )


def _numbering(client: StrictClient | AsyncStrictClient, keywords: JSONObject) -> JSONObject:
    """Let replies repeat the ids of earlier calls.

    A turn numbers these itself (fw-ai/fireconnect#16).
    """
    contract: Contract = keywords.get("contract") or client.contract
    numbered = _NUMBERED.get(contract)
    if numbered is None:
        numbered = _NUMBERED[contract] = contract.replace(ids_may_repeat=True)
    return {**keywords, "contract": numbered}
