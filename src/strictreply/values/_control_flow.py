"""Exceptions and values by which frameworks control a program.

They are neither faults of a model or a tool, nor results of a tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from strictreply.values._errors import AbortRun, ContractError

# By module and name, because strictreply does not import frameworks.
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
    """Return whether an exception is a signal that must reach its framework."""
    kinds = type(error).__mro__
    return any((kind.__module__, kind.__qualname__) in _SIGNALS for kind in kinds)


def ending_in(error: Exception) -> Exception | None:
    """Return the exception that ends the run or is a framework's signal; None for neither.

    Groups (PEP 654) are searched at any depth. An AbortRun takes precedence over a signal.
    """
    leaves = list(_leaves(error))
    aborts = (leaf for leaf in leaves if isinstance(leaf, AbortRun))
    return next(aborts, None) or next(filter(is_control_flow, leaves), None)


def _leaves(error: Exception) -> Iterator[Exception]:
    """Yield an exception, or the exceptions of a group in their order."""
    pending = [error]
    while pending:
        one = pending.pop()
        if isinstance(one, ExceptionGroup):
            pending += reversed(one.exceptions)
        else:
            yield one


def signal_of(tool: str, result: Any) -> Exception | None:
    """Return the exception to raise for a LangGraph ``Command`` that a tool returned.

    A Command for the parent graph is passed to it, as from a node. Any other Command requires a
    graph of ``to_langgraph``. None if the result is not a Command.
    """
    several = type(result) in {list, tuple}  # iterating anything else may run code of its own
    results: Any = result if several else (result,)
    if not any(_is_command(each) for each in results):
        return None

    if not several and result.graph is not None:
        signal: Exception = import_module("langgraph.errors").ParentCommand(result)
        return signal

    return ContractError(
        f"the tool {tool!r} returned a Command of LangGraph: return exactly one Command, in a "
        "graph of to_langgraph, or one with graph=Command.PARENT"
    )


def _is_command(value: object) -> bool:
    kinds = type(value).__mro__
    return any((kind.__module__, kind.__qualname__) == _COMMAND for kind in kinds)
