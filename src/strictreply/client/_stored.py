"""Replies that a server has stored: fetched as the SDK fetches them, and judged.

Such a reply is not asked for again: one that does not fit raises, with one attempt.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anyio

from strictreply.client._sending import NOTHING
from strictreply.client._stored_demands import demands
from strictreply.contract._contract import Contract
from strictreply.retry._asking import Ask
from strictreply.retry._failures import failure_of
from strictreply.retry._policy import RetryPolicy
from strictreply.sdks._bounds import bounded
from strictreply.sdks._low_requests import Stored
from strictreply.sdks._posting import is_raw
from strictreply.sdks._transport import Transport, Way
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.wires._bodies import ENVELOPE_FACTOR
from strictreply.wires._chat import CHAT
from strictreply.wires._endings import error_in
from strictreply.wires._members import peek
from strictreply.wires._wire import Wire

_WITHOUT_REPLY = frozenset({"queued", "in_progress", "cancelled", "failed"})
"""The statuses of a stored response that has no reply, or none yet."""


def stored_reply(client: Any, wire: Wire, stored: Stored) -> Any:
    """Fetch a stored reply; return what the SDK would, once the reply is judged."""
    fetching = _Fetching(client, wire, stored)
    with fetching.fetch():
        stored.came = fetching.transport.fetch(stored)
        if is_raw(stored.came):
            stored.came.http_response.read()

    ask = fetching.ask()
    if ask is None:
        return stored.result(stored.came, fetching.replaced())

    return fetching.client._answered(ask, fetching.way)  # noqa: SLF001


async def astored_reply(client: Any, wire: Wire, stored: Stored) -> Any:
    """Fetch a stored reply like :func:`stored_reply`."""
    stored.is_async = True
    fetching = _Fetching(client, wire, stored)
    deadline = fetching.policy.deadline

    with fetching.fetch(), NOTHING if deadline is None else anyio.fail_after(deadline):
        stored.came = await fetching.transport.fetch(stored)
        if is_raw(stored.came):
            await stored.came.http_response.aread()

    ask = fetching.ask()
    if ask is None:
        return await stored.result(stored.came, fetching.replaced())

    return await fetching.client._answered(ask, fetching.way)  # noqa: SLF001


class _Fetching:
    """One stored reply: fetched, and then asked of the loop, which judges it.

    Nobody observes it: its tokens were counted when it was made.
    """

    def __init__(self, client: Any, wire: Wire, stored: Stored) -> None:
        self.client = client.observed_by(None)
        guard = self.client._guard  # noqa: SLF001
        self.contract: Contract = guard.contract
        self.policy: RetryPolicy = guard.settings.policy
        self.transport: Transport = guard.namespaces.transport(wire)
        self.way = Way("true", posting=stored)
        self._stored = stored
        self._wire = wire
        self._left: float | None = None

    @contextmanager
    def fetch(self) -> Generator[None]:
        """Bound what is fetched inside, and keep the failure of the transport that it raises."""
        deadline = self.policy.deadline
        begun = time.monotonic()
        try:
            with bounded(deadline, self.contract.limits.reply_bytes * ENVELOPE_FACTOR):
                yield
        except Exception as error:  # noqa: BLE001 - what is no such failure is raised again
            failure_of(error)
            self._stored.came = error
        finally:
            if deadline is not None:
                self._left = max(0.0, deadline - (time.monotonic() - begun))

    def ask(self) -> Ask | None:
        """Return the call that judges what came; None where no reply came."""
        came = self._stored.came
        is_stream = self._stored.is_stream
        plain: JSON = {}
        if not isinstance(came, Exception):
            plain = _told_in(self._wire, came, self.contract.limits) if is_stream else self._plain()
            if not is_stream and not _has_reply(self._wire, self._stored.verb, plain):
                return None

        keywords = demands(self.contract, self._wire, plain)
        if self._stored.answer is not None:
            keywords["response_format"] = self._stored.answer
        if is_stream:
            keywords["stream"] = True

        model = peek(plain, "model")
        keywords["model"] = model if isinstance(model, str) else ""
        keywords[self._wire.conversation] = []

        ask: Ask = self.client._ask(keywords, drop_in=self._wire, way=self.way)  # noqa: SLF001
        once = replace(ask.policy, max_retries=0, transport_retries=0, deadline=self._left)
        return replace(ask, policy=once)

    def replaced(self) -> JSONObject | None:
        """Return a response that has no reply without what was written so far; None: as it is."""
        plain = self._plain()
        is_begun = isinstance(plain, dict) and bool(plain.get("output"))
        return {**plain, "output": []} if is_begun and isinstance(plain, dict) else None

    def _plain(self) -> JSON:
        return self.transport.read(self._stored.came, self.contract.limits).plain


def _has_reply(wire: Wire, verb: str, plain: JSON) -> bool:
    """Return whether what came is to be judged: it has a reply, an error in its place, or nothing.

    Below the path of chat completions a server may answer a post in another way.
    """
    if not isinstance(plain, Mapping):
        return True
    if wire is CHAT:
        return verb == "get" or "choices" in plain or bool(error_in(plain))

    return not _is_waiting(plain)


def _is_waiting(plain: Mapping[str, Any]) -> bool:
    """Return whether a response has no reply by its status, or without one by its own error.

    An error in place of a response has no id.
    """
    status = plain.get("status")
    if status is None:
        has_failed = isinstance(plain.get("error"), Mapping) and not plain.get("output")
        return has_failed and isinstance(plain.get("id"), str)

    return isinstance(status, str) and status in _WITHOUT_REPLY


def _told_in(wire: Wire, source: Any, limits: Limits) -> JSON:
    """Return the last response that the events of a stream hold, which says what was asked."""
    reader = wire.reader()
    events = [*reader.feed(source.http_response.content), *reader.end()]
    told = [peek(wire.read_event(one, limits).plain, "response") for one in events]
    held = [one for one in told if isinstance(one, dict)]
    return held[-1] if held else {}
