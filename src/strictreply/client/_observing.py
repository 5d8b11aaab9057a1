"""What a program that observes calls has to offer; :mod:`strictreply.integrations.otel` does."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from strictreply.retry._asking import Ask
from strictreply.values._attempts import Attempt
from strictreply.values._json import JSONObject


class CallObserver(Protocol):
    """Told of the asks of one call, in order."""

    def asking(self, request: JSONObject) -> AbstractContextManager[None]:
        """Return what is entered while a request is sent and its response read."""
        ...

    def judged(self, attempt: Attempt) -> None:
        """Take what became of the ask that was made last."""
        ...


class Telemetry(Protocol):
    """Told of the calls of a wrapped client."""

    def call(self, ask: Ask, client: Any, *, seen: bool) -> AbstractContextManager[CallObserver | None]:
        """Return what is entered around a call; what the call raises passes through.

        ``client`` is the client inside; ``seen`` says that somebody else sees each ask of this call.
        """
        ...
