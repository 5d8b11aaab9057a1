"""What is told of a run while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from strictreply.pipeline._effects import ToolOutcome
from strictreply.values._attempts import Attempt
from strictreply.values._replies import ToolCall

if TYPE_CHECKING:
    from strictreply.running._runs import Run


@dataclass(frozen=True, slots=True)
class AttemptMade:
    """The model was asked once, and its reply judged."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call is about to be run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call was run; ``outcome`` holds its result, and the exception that the model was told the type of."""

    call: ToolCall
    outcome: ToolOutcome


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run came to an answer, or waits for the client: the last event of a stream."""

    run: Run


RunEvent: TypeAlias = "AttemptMade | ToolStarted | ToolFinished | RunEnded"

OnEvent: TypeAlias = Callable[[RunEvent], None]
"""Told of every event as it happens; calls of one reply that run at the same time tell from threads of their own."""
