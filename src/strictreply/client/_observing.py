"""One call that is made in the client's own way, and whose reply is judged beside.

Nothing here raises an Exception into the program: what goes wrong is logged by its type and place,
and counted as a reply without a verdict.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from strictreply.client._relay import Relay
from strictreply.client._sending import CallIO, Io, called
from strictreply.client._stored import last_response
from strictreply.client._stored_demands import demands
from strictreply.contract._contract import aperform_check, perform_check
from strictreply.contract._driving import Done, adrive, advanced, drive, unharmed
from strictreply.retry._asking import CallPlan
from strictreply.retry._failures import Failure, classify, failure_of
from strictreply.retry._flow import Call, Failed, Replied, observed_flow
from strictreply.retry._policy import RetryPolicy
from strictreply.sdks._low_requests import Stored
from strictreply.sdks._observing import Came
from strictreply.sdks._transport import CallForm, Transport
from strictreply.values._errors import ContractError
from strictreply.values._issues import printable
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Attempt
from strictreply.wires._bodies import ENVELOPE_FACTOR
from strictreply.wires._wire import Wire

Unjudged: TypeAlias = Literal["fault", "request", "abandoned"]
"""Why a reply has no verdict.

A fault of ours, a request by which no reply can be judged, or a stream that its caller left.
"""

_TOO_LARGE = Failure("response_too_large", retryable=False)

logger = logging.getLogger("strictreply")


class Observation:
    """One call of a wrapped client whose reply is handed on as it came, and judged beside."""

    def __init__(self, client: Any, *, is_judged: bool) -> None:
        """Observe a call of a wrapped client, or none where it ``is_judged`` not."""
        self._client = client
        self._is_judged = is_judged
        self._begun = time.monotonic()
        self._planning = 0.0
        self._plan: CallPlan | None = None
        self._way = CallForm()
        self._sent: JSONObject = {}
        self._wire: Wire | None = None
        self._stored: Stored | None = None
        self._call = uuid4().hex

    @property
    def most_bytes(self) -> int:
        """The bytes of a stream that are kept to be judged."""
        limits = self._client.contract.limits
        return limits.reply_bytes * ENVELOPE_FACTOR if self._is_judged else 0

    def asks(
        self,
        wire: Wire,
        path: str,
        sent: JSONObject | None,
        keywords: Callable[[], JSONObject],
    ) -> None:
        """Read what a request demands of its reply, before it is sent.

        ``sent`` has its members, and ``keywords`` returns those to read; None for the same.
        """
        if not self._is_judged:
            return

        self._wire = wire
        self._way = CallForm(path=path)
        self._sent = sent or {}
        with _counting(self):
            read = keywords()
            if sent is None:
                self._sent = dict(read)
            self._plan = self._planned(read)

        self._planning = time.monotonic() - self._begun

    def fetches(self, wire: Wire, path: str, stored: Stored) -> None:
        """Judge a stored reply, by what it says of its request."""
        if self._is_judged:
            self._wire = wire
            self._way = CallForm(path=path)
            self._stored = stored

    def judge(self, came: Came) -> None:
        """Judge what a call has brought, and report it."""
        if self._wire is None:
            return

        with _counting(self):
            begun = time.monotonic()
            ask = self._asked(came)
            event = None if ask is None else self._event(ask, came)
            if ask is None or event is None:
                return

            attempt = drive(observed_flow(ask, self._sent, event), perform_check)
            noted: Any = self._reported(ask, attempt, begun)
            if noted is not None:
                noted.close()  # of an async client whose task was cancelled

    async def ajudge(self, came: Came) -> None:
        """Do as :meth:`judge` does, for an async client."""
        if self._wire is None:
            return

        with _counting(self):
            begun = time.monotonic()
            ask = self._asked(came)
            event = None if ask is None else self._event(ask, came)
            if ask is None or event is None:
                return

            attempt = await adrive(observed_flow(ask, self._sent, event), aperform_check)
            noted = self._reported(ask, attempt, begun)
            if noted is not None:
                with unharmed("on_attempt"):
                    await noted

    def unjudged(self, why: Unjudged) -> None:
        """Count a reply that was handed on without a verdict."""
        telemetry = self._client._guard.settings.telemetry  # noqa: SLF001
        api = "" if self._wire is None else self._wire.name
        if telemetry is not None:
            model = self._sent.get("model")
            telemetry.unjudged(self._client.unwrapped, api, str(model or ""), why)

    def _asked(self, came: Came) -> CallPlan | None:
        """Return what was asked, None where no reply to it can be judged."""
        if self._stored is not None:
            keywords = self._stored_keywords(self._stored, came)
            if keywords is None:
                return None

            plan = self._planned(keywords, self._stored.answer)
            self._plan = replace(plan, base=replace(plan.base, is_stream=came.is_stream))

        if self._plan is None:
            return None

        # nothing is sent any more, so that no budget counts
        return replace(self._plan, policy=RetryPolicy(), enforced=frozenset())

    def _planned(self, keywords: JSONObject, answer: Any = None) -> CallPlan:
        plan: CallPlan = self._client._ask(  # noqa: SLF001
            keywords, drop_in=self._wire, answer=answer, way=self._way
        )
        return plan

    def _stored_keywords(self, stored: Stored, came: Came) -> JSONObject | None:
        """Return what a stored reply says of its request; None where there is no reply."""
        wire: Any = self._wire
        plain: JSON = {}
        contract = self._client.contract
        if came.error is None:
            source: Any = came.source(is_events=came.is_stream)
            plain = self._transport.read(source, contract.limits).plain
            if came.is_stream:
                plain = last_response(wire, source, contract.limits)
            elif not wire.storing.has_reply(plain, stored.verb == "get"):
                return None

        return demands(contract, wire, plain) | {wire.conversation: []}

    @property
    def _transport(self) -> Transport:
        transport: Transport = self._client._guard.namespaces.transport(self._way.path)  # noqa: SLF001
        return transport

    def _event(self, ask: CallPlan, came: Came) -> Replied | Failed | None:
        """Return what the call has brought as an event of the loop; None for nothing to judge."""
        seconds = time.monotonic() - self._begun
        is_failed = came.error is not None and (came.http is None or came.is_stream)
        if is_failed and not came.is_stream:
            failure = classify(came.error) if isinstance(came.error, Exception) else None
            return None if failure is None else Failed(failure, seconds)
        if came.is_too_large:
            return Failed(_TOO_LARGE, seconds)

        relay = Relay(ask.contract, ask.wire, stops_early=False) if ask.base.is_stream else None
        source = came.source(is_events=ask.base.is_stream)
        event = _received(self._sent, self._sending(ask), relay, source)
        if is_failed and isinstance(came.error, Exception):
            cut = None if relay is None else relay.assembly.came()
            event = Failed(failure_of(came.error), cut=cut)
        elif came.is_stream and not came.is_ended and not _is_over(ask, relay, event):
            self.unjudged("abandoned")
            return None

        return replace(event, seconds=seconds, before=0.0)

    def _sending(self, ask: CallPlan) -> CallIO:
        sending = CallIO(self._transport, ask.contract.limits)
        sending.is_literate = ask.contract.dialects != "strict"
        return sending

    def _reported(self, ask: CallPlan, attempt: Attempt, begun: float) -> Awaitable[None] | None:
        """Report an attempt; return what is to be awaited of it."""
        judging = self._planning + time.monotonic() - begun
        telemetry = self._client._guard.settings.telemetry  # noqa: SLF001
        if telemetry is not None:
            with unharmed("telemetry"):
                telemetry.observed(ask, self._client.unwrapped, attempt, judging=judging)

        told: Awaitable[None] | None = self._client._told(attempt)  # noqa: SLF001
        return told


@contextmanager
def _counting(observation: Observation) -> Generator[None]:
    """Count a reply without a verdict, where anything of ours raises an Exception; go on."""
    with unharmed("judging a reply beside"):
        try:
            yield
        except (ContractError, NotImplementedError) as error:
            logger.info("a reply is not judged: %s", printable(str(error)))
            observation.unjudged("request")
        except Exception:
            observation.unjudged("fault")
            raise


def _received(
    sent: JSONObject, sending: CallIO, relay: Relay | None, source: object
) -> Replied | Failed:
    """Read a response that has come, as the loop reads one."""
    flow = called(Call(sent, model=sent.get("model")), sending, relay)
    step = advanced(flow)
    event: object = source
    while not isinstance(step, Done):
        step = advanced(flow, event)
        event = None
        if isinstance(step, Io):
            try:
                event = step.work()
            except Exception as error:  # noqa: BLE001 - any other failure is raised again
                event = failure_of(error)

    return step.result


def _is_over(ask: CallPlan, relay: Relay | None, event: Replied | Failed) -> bool:
    """Return whether a stream that was not read to its end has said all of the reply."""
    if relay is None:
        return False
    if relay.assembly.is_done:
        return True

    return isinstance(event, Replied) and bool(ask.wire.reasons(event.response))
