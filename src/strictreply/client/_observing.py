"""One observed call: the original client makes it, and its reply is judged separately.

Nothing here raises an Exception into the program. A failure is logged by its type and place, and
counted as a reply without a verdict.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from strictreply.client._relay import Relay
from strictreply.client._sending import CallIO, Io, called, whole_reply
from strictreply.client._stored import last_response
from strictreply.client._stored_demands import demands
from strictreply.contract._contract import Check, Checked, aperform_check, perform_check
from strictreply.contract._definitions import given
from strictreply.contract._driving import Done, adrive, advanced, drive, unharmed
from strictreply.retry._asking import CallPlan
from strictreply.retry._failures import Failure, classify, failure_of
from strictreply.retry._flow import Call, Failed, Replied, observed_flow
from strictreply.sdks._low_requests import Stored
from strictreply.sdks._observing import Brought
from strictreply.sdks._transport import Transport
from strictreply.values._errors import ContractError
from strictreply.values._issues import printable
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.values._replies import Attempt
from strictreply.wires._bodies import ENVELOPE_FACTOR
from strictreply.wires._wire import Wire

Unjudged: TypeAlias = Literal["fault", "request", "abandoned"]
"""Why a reply has no verdict.

``fault`` is a bug in strictreply, ``request`` a request whose reply cannot be judged, and
``abandoned`` a stream that the caller left.
"""

_TOO_LARGE = Failure("response_too_large", retryable=False)

logger = logging.getLogger("strictreply")


class Observation:
    """One call of a wrapped client whose reply is handed on unchanged, and judged separately."""

    def __init__(self, client: Any, *, is_judged: bool) -> None:
        """Observe a call of a wrapped client; with ``is_judged`` False do nothing."""
        self._client = client
        self.is_judged = is_judged
        self._begun = time.monotonic()
        self._planning = 0.0
        self._plan: CallPlan | None = None
        self._path = ""
        self._sent: JSONObject = {}
        self._wire: Wire | None = None
        self._stored: Stored | None = None

    @property
    def most_bytes(self) -> int:
        """The most bytes of a stream to keep for judging; 0 if it will not be judged."""
        if self._plan is None and self._stored is None:
            return 0

        limits: Limits = self._client.contract.limits
        return limits.reply_bytes * ENVELOPE_FACTOR

    def asks(
        self,
        wire: Wire,
        path: str,
        sent: JSONObject | None,
        keywords: Callable[[], JSONObject],
    ) -> None:
        """Read what a request demands of its reply, before it is sent.

        ``sent`` has the members of the request, and ``keywords`` returns the keywords to read.
        ``sent`` None means that they are the same.
        """
        if not self.is_judged:
            return

        self._wire = wire
        self._path = path
        self._sent = given(sent or {})
        try:
            read = keywords()
            if sent is None:
                self._sent = given(read)
            self._plan = self._planned(read)
        except Exception as error:  # noqa: BLE001 - a bug in strictreply must not fail the call
            self.failed(error)

        self._planning = time.monotonic() - self._begun

    def fetches(self, wire: Wire, path: str, stored: Stored) -> None:
        """Judge a stored reply by the request that it repeats."""
        if self.is_judged:
            self._wire = wire
            self._path = path
            self._stored = stored

    def judge(self, came: Brought) -> None:
        """Judge the result of a call, and report the verdict."""
        if self._wire is None:
            return

        begun = time.monotonic()
        try:
            flow = self._flow(came)
            if flow is not None:
                attempt = drive(flow, perform_check)
                self._report(attempt, begun)
                with unharmed("on_attempt"):
                    noted = self._tell(attempt)
                    if inspect.iscoroutine(noted):
                        noted.close()  # an async client whose task was cancelled
        except Exception as error:  # noqa: BLE001 - a bug in strictreply must not fail the call
            self.failed(error)

    async def ajudge(self, came: Brought) -> None:
        """Judge like :meth:`judge`, for an async client."""
        if self._wire is None:
            return

        begun = time.monotonic()
        try:
            flow = self._flow(came)
            if flow is not None:
                attempt = await adrive(flow, aperform_check)
                self._report(attempt, begun)
                with unharmed("on_attempt"):
                    noted = self._tell(attempt)
                    if noted is not None:
                        await noted
        except Exception as error:  # noqa: BLE001 - as in judge()
            self.failed(error)

    def _flow(self, came: Brought) -> Generator[Check, Checked, Attempt] | None:
        """Return the flow that judges a reply; None if there is nothing to judge."""
        ask = self._asked(came)
        event = None if ask is None else self._event(ask, came)
        return None if ask is None or event is None else observed_flow(ask, self._sent, event)

    def failed(self, error: Exception) -> None:
        """Count a reply without a verdict, and log why."""
        is_request = isinstance(error, ContractError | NotImplementedError)
        with unharmed("telemetry"):
            self.unjudged("request" if is_request else "fault")

        if is_request:
            logger.info("a reply cannot be judged: %s", printable(str(error)))
        else:
            with unharmed("judging an observed reply"):
                raise error

    def unjudged(self, why: Unjudged) -> None:
        """Count a reply that was handed on without a verdict."""
        telemetry = self._client._guard.settings.telemetry  # noqa: SLF001
        api = "" if self._wire is None else self._wire.name
        if telemetry is not None:
            model = self._sent.get("model")
            telemetry.unjudged(self._client.unwrapped, api, str(model or ""), why)

    def _asked(self, came: Brought) -> CallPlan | None:
        """Return the plan of the call; None if no reply to it can be judged."""
        if self._stored is not None:
            keywords = self._stored_keywords(self._stored, came)
            if keywords is None:
                return None

            plan = self._planned(keywords, self._stored.answer)
            self._plan = replace(plan, base=replace(plan.base, is_stream=came.is_stream))

        return self._plan

    def _planned(self, keywords: JSONObject, answer: Any = None) -> CallPlan:
        plan: CallPlan = self._client._beside_plan(self._wire, keywords, answer)  # noqa: SLF001
        return plan

    def _stored_keywords(self, stored: Stored, came: Brought) -> JSONObject | None:
        """Return the request's keywords that a stored reply repeats; None if there is no reply."""
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
        transport: Transport = self._client._guard.namespaces.transport(self._path)  # noqa: SLF001
        return transport

    def _event(self, ask: CallPlan, came: Brought) -> Replied | Failed | None:
        """Return the result of the call as an event of the loop; None for nothing to judge."""
        seconds = time.monotonic() - self._begun
        error = came.error
        if error is not None and not came.is_stream and came.http is None:
            failure = classify(error) if isinstance(error, Exception) else None
            return None if failure is None else Failed(failure, seconds)
        if came.is_too_large:
            return Failed(_TOO_LARGE, seconds)

        is_literate = ask.contract.dialects != "strict"
        source = came.source(is_events=ask.base.is_stream)
        if not ask.base.is_stream:
            if came.is_stream and not came.is_ended:
                self.unjudged("abandoned")
                return None

            sent = self._transport.read(source, ask.contract.limits)
            return whole_reply(sent, ask.wire, seconds, is_literate=is_literate)

        sending = CallIO(self._transport, ask.contract.limits)
        sending.is_literate = is_literate
        relay = Relay(ask.contract, ask.wire, stops_early=False)
        event = _followed(self._sent, sending, relay, source)

        if came.is_stream and isinstance(error, Exception):
            return Failed(failure_of(error), seconds, cut=relay.assembly.came())
        # without HTTP, an iterator that the caller left does not show whether it had ended
        is_whole = came.is_ended or (relay.assembly.is_done and came.http is not None)
        if came.is_stream and not is_whole:
            self.unjudged("abandoned")
            return None

        return replace(event, seconds=seconds, before=0.0)

    def _report(self, attempt: Attempt, begun: float) -> None:
        """Report an attempt to telemetry."""
        judging = self._planning + time.monotonic() - begun
        telemetry = self._client._guard.settings.telemetry  # noqa: SLF001
        if telemetry is not None:
            with unharmed("telemetry"):
                telemetry.observed(self._plan, self._client.unwrapped, attempt, judging=judging)

    def _tell(self, attempt: Attempt) -> Awaitable[None] | None:
        """Report an attempt to the ledger and ``on_attempt``; return its awaitable, if any."""
        ledger = self._client._ledger_of(self._plan)  # noqa: SLF001
        told: Awaitable[None] | None = self._client._told(attempt, ledger)  # noqa: SLF001
        return told


def _followed(sent: JSONObject, sending: CallIO, relay: Relay, source: object) -> Replied | Failed:
    """Follow a stream that has already arrived, as the loop follows one."""
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
