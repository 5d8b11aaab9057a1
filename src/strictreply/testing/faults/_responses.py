"""How a function that makes an HTTP response becomes an entry of the catalogue; no fault stands here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from strictreply.testing._steps import Kind
from strictreply.testing._targets import Place, Target
from strictreply.testing._wire import HTTPReply
from strictreply.testing.faults._catalogue import ANYWHERE, Entry, Spoiled
from strictreply.testing.faults._making import entry_of, spoiled
from strictreply.values._json import JSON

Response: TypeAlias = Callable[[Target], HTTPReply | None]
"""Makes the faulty response from a good reply; None when it cannot be made of that one."""


def response_fault(
    kind: Kind, code: str, *, places: tuple[Place, ...] = ANYWHERE, needs: Mapping[str, JSON] | None = None
) -> Callable[[Response], Entry]:
    """Make the entry of a function that gives the response; see :class:`Entry` for the arguments."""

    def decorate(respond: Response) -> Entry:
        """Make the entry of a response."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Serve the response in place of the good reply."""
            reply = respond(target)
            if reply is not None:
                yield spoiled(reply)

        return entry_of(respond, make, kind, code, places, needs)

    return decorate


def as_sent(target: Target) -> bytes:
    """Give the body of the good reply as an API without streaming sends it."""
    return HTTPReply.json(200, target.clean).body
