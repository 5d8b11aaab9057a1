"""The typed stream: what a reply says while it comes, and the one reply that was accepted.

Everything before the end is provisional: it is taken back when the reply does not fit, and the next one begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from strictreply.client._relay import Came, Relay
from strictreply.reading._incremental import Partial
from strictreply.retry._flow import AsksFor
from strictreply.values._attempts import Attempt
from strictreply.values._issues import Issue
from strictreply.values._replies import A_co, AssistantReply
from strictreply.wires._wire import Assembly


@dataclass(frozen=True, slots=True)
class Provisional(Generic[A_co]):
    """More of a text that is still coming.

    ``delta`` is the new piece of the content; ``partial`` a structured answer as far as it has come, None for any
    other content.
    """

    delta: str
    partial: Partial[A_co] | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """What was shown since the last event of this kind is not part of the reply.

    ``issues`` says what was wrong with it; empty when the stream failed on the way.
    """

    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class Accepted(Generic[A_co]):
    """The end of a stream: the reply, valid by the contract."""

    reply: AssistantReply[A_co]


StreamEvent: TypeAlias = Provisional[A_co] | Retracted | Accepted[A_co]
"""What a typed stream yields: any number of the first two, then one :class:`Accepted`."""


class EventRelay(Relay):
    """Shows each piece of the content as it comes, and takes back what did not fit."""

    def begin(self, asks_for: AsksFor) -> None:
        """Begin with the stream of one ask; what is asked for to be put into a message is not shown."""
        super().begin(asks_for)
        self._is_shown = asks_for == "reply"
        self._has_shown = False

    def opened(self, source: object) -> list[object]:  # noqa: ARG002 - nobody asked for the SDK's own object
        """Return nothing: there is no response to give out."""
        return []

    def passed(self, came: Came, assembly: Assembly) -> list[Provisional[Any]]:  # noqa: ARG002
        """Return the new piece of the content."""
        text = assembly.delta.get("content")
        if not self._is_shown or not isinstance(text, str) or not text:
            return []
        self._has_shown = True
        return [Provisional(text, self.veto.partial())]

    def rejected(self, attempt: Attempt) -> list[Retracted]:
        """Return that what was shown is taken back."""
        shown, self._has_shown = self._has_shown, False
        return [Retracted(attempt.issues)] if shown else []
