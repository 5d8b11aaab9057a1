"""Stored replies of a server: fetched like the SDK fetches them, and judged.

A stored reply cannot be retried: an invalid one raises, with one attempt.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anyio

from strictreply.client._sending import NOTHING
from strictreply.client._stored_demands import demands
from strictreply.contract._contract import Contract
from strictreply.retry._asking import CallPlan
from strictreply.retry._failures import failure_of
from strictreply.retry._policy import RetryPolicy
from strictreply.sdks._bounds import bounded
from strictreply.sdks._low_requests import Stored
from strictreply.sdks._posting import is_raw
from strictreply.sdks._shapes import RawResponse
from strictreply.sdks._transport import CallForm, Transport
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.wires._bodies import ENVELOPE_FACTOR
from strictreply.wires._members import peek
from strictreply.wires._wire import Wire


def stored_reply(client: object, wire: Wire, stored: Stored) -> object:
    """Fetch and judge a stored reply; return the same object as the SDK."""
    fetching = _Fetching(client, wire, stored)
    with fetching.fetch():
        stored.came = fetching.transport.fetch(stored)
        if is_raw(stored.came):
            stored.came.http_response.read()

    ask = fetching.ask()
    if ask is None:
        return stored.result(stored.came, fetching.replaced())

    return fetching.client._answered(ask, fetching.way)  # noqa: SLF001


async def astored_reply(client: object, wire: Wire, stored: Stored) -> object:
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
    """One stored reply, which is fetched, and then judged by the loop.

    It is not reported to telemetry, because its tokens were counted when it was made.
    """

    def __init__(self, client: Any, wire: Wire, stored: Stored) -> None:
        self.client = client.observed_by(None)
        guard = self.client._guard  # noqa: SLF001
        self.contract: Contract = guard.contract
        self.policy: RetryPolicy = guard.settings.policy
        self.transport: Transport = guard.namespaces.transport(stored.path)
        self.way = CallForm("true", stored.path, posting=stored)
        self._stored = stored
        self._wire = wire
        self._left: float | None = None

    @contextmanager
    def fetch(self) -> Generator[None]:
        """Bound the fetch inside, and store its failure of the transport as the result."""
        deadline = self.policy.deadline
        begun = time.monotonic()
        try:
            with bounded(deadline, self.contract.limits.reply_bytes * ENVELOPE_FACTOR):
                yield
        except Exception as error:  # noqa: BLE001 - any other failure is raised again
            failure_of(error)
            self._stored.came = error
        finally:
            if deadline is not None:
                self._left = max(0.0, deadline - (time.monotonic() - begun))

    def ask(self) -> CallPlan | None:
        """Return the call that judges the response; None if it has no reply."""
        came = self._stored.came
        is_stream = self._stored.is_stream
        plain: JSON = {}
        if not isinstance(came, Exception):
            plain = self._plain()
            if is_stream:
                plain = last_response(self._wire, came, self.contract.limits)
            elif not self._wire.storing.has_reply(plain, self._stored.verb == "get"):
                return None

        keywords = demands(self.contract, self._wire, plain)
        keywords[self._wire.conversation] = []

        now = self.client._guard.settings.rollout.now()  # noqa: SLF001
        ask: CallPlan = self.client._ask(  # noqa: SLF001
            keywords, now, drop_in=self._wire, answer=self._stored.answer, way=self.way
        )
        once = replace(ask.policy, max_retries=0, transport_retries=0, deadline=self._left)
        model = peek(plain, "model")
        base = replace(ask.base, model=model if isinstance(model, str) else "", is_stream=is_stream)
        return replace(ask, base=base, policy=once)

    def replaced(self) -> JSONObject | None:
        """Return a response without its unfinished text; None to leave it unchanged."""
        return self._wire.storing.emptied(self._plain())

    def _plain(self) -> JSON:
        return self.transport.read(self._stored.came, self.contract.limits).plain


def last_response(wire: Wire, source: RawResponse, limits: Limits) -> JSON:
    """Return the last response that the events of a stream hold, which says what was asked."""
    reader = wire.reader()
    events = [*reader.feed(source.http_response.content), *reader.end()]
    found = [wire.storing.response_in(wire.read_event(one, limits).plain) for one in events]
    return next((one for one in reversed(found) if one is not None), {})
