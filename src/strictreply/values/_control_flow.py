"""The exceptions by which frameworks steer a program: no fault of a model, nor of a tool."""

from __future__ import annotations

from typing import Final

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


def is_control_flow(error: BaseException | None) -> bool:
    """Return whether an exception is a signal of a framework, which has to reach the framework."""
    kinds = type(error).__mro__
    return any((kind.__module__, kind.__qualname__) in _SIGNALS for kind in kinds)
