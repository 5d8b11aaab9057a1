"""What frameworks steer a program by: no fault of a model, nor of a tool, nor a tool's result."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from strictreply.values._errors import AbortRun, ContractError

# By module and name, as nothing here imports a framework.
_SIGNALS: Final = frozenset(
    {
        # interrupts, commands to a parent graph, and the end of a graph that is drained
        ("langgraph.errors", "GraphBubbleUp"),
        ("celery.exceptions", "TaskPredicate"),  # retry, ignore and reject a task
        ("pydantic_ai.exceptions", "CallDeferred"),
        ("pydantic_ai.exceptions", "ApprovalRequired"),
    }
)
_COMMAND: Final = ("langgraph.types", "Command")


def is_control_flow(error: BaseException | None) -> bool:
    """Return whether an exception is a signal of a framework, which has to reach the framework."""
    kinds = type(error).__mro__
    return any((kind.__module__, kind.__qualname__) in _SIGNALS for kind in kinds)


def ending_in(error: Exception) -> Exception | None:
    """Return what ends the run or steers the program, also in groups (PEP 654), however deep.

    An AbortRun before any signal of a framework; None where there is neither.
    """
    leaves = list(_leaves(error))
    aborts = (leaf for leaf in leaves if isinstance(leaf, AbortRun))
    return next(aborts, None) or next(filter(is_control_flow, leaves), None)


def _leaves(error: Exception) -> Iterator[Exception]:
    """Yield an exception, or those of a group, the first ones first."""
    pending = [error]
    while pending:
        one = pending.pop()
        if isinstance(one, ExceptionGroup):
            pending += reversed(one.exceptions)
        else:
            yield one


def signal_of(tool: str, result: Any) -> Exception | None:
    """Return what to raise for a ``Command`` of LangGraph that a tool returned.

    One for the graph around this one goes there, as a node's does; any other needs a graph of ours.
    None for any other result.
    """
    several = type(result) in {list, tuple}  # what else is iterated may run code of its own
    results: Any = result if several else (result,)
    if not any(_is_command(each) for each in results):
        return None

    if not several and result.graph is not None:
        signal: Exception = import_module("langgraph.errors").ParentCommand(result)
        return signal

    return ContractError(
        f"the tool {tool!r} returned a Command of LangGraph: return one alone, in a graph of "
        "to_langgraph, or one with graph=Command.PARENT"
    )


def _is_command(value: object) -> bool:
    kinds = type(value).__mro__
    return any((kind.__module__, kind.__qualname__) == _COMMAND for kind in kinds)
