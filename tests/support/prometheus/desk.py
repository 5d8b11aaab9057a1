"""A program as a team would run it: a support desk that is guarded, instrumented and scraped.

It calls a scripted model over loopback through the openai SDK and serves its metrics on a free
port of loopback, whose address it prints. Each line of its input makes it play the day once, a
known number of calls of each outcome; it prints a line when they are through, and ends with its
input. It needs what ``make test-prometheus`` installs.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import openai
from opentelemetry.exporter.prometheus import (  # type: ignore[import-not-found]  # of its lane
    PrometheusMetricReader,
)
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import (  # type: ignore[import-not-found]  # of its lane
    CollectorRegistry,
    start_http_server,
)
from tenacity import wait_none

import strictreply as sr
from strictreply.core import CallPlan
from strictreply.integrations.otel import OpenTelemetry, instrument
from strictreply.testing import ScriptedModel, Step, faults, ok


@sr.tool
def find_order(number: int) -> str:
    """Look up an order."""
    return f"order {number}"


@sr.tool
def refund(order: int, reason: str) -> str:
    """Give the money back."""
    return f"{order}: {reason}"


FOUND = ok.call(find_order, number=1042)
REFUNDED = ok.call(refund, order=1042, reason="broken")
NUMBER_AS_TEXT = faults.number_as_text(find_order)
CUT_OFF = faults.cut_in_string(refund)
ALONE = sr.RetryPolicy(max_retries=0)
POLICY = sr.RetryPolicy(max_retries=1, transport_retries=1, wait=wait_none())


@dataclass(frozen=True)
class Calls:
    """So many calls of a model that end alike."""

    model: str
    count: int
    outcome: str
    steps: tuple[Step, ...]


DAY = (
    Calls("gpt-5", 5, "ok", (FOUND,)),
    Calls("gpt-5", 3, "ok", (REFUNDED,)),
    Calls("gpt-5", 1, "halted", (faults.refusal(),)),
    Calls("gpt-5", 1, "fixed", (CUT_OFF, REFUNDED)),
    Calls("gpt-5", 1, "failed", (faults.bad_gateway(), faults.bad_gateway())),
    Calls("gpt-5-mini", 4, "ok", (FOUND,)),
    Calls("gpt-5-mini", 3, "fixed", (NUMBER_AS_TEXT, FOUND)),
    Calls("gpt-5-mini", 1, "rejected", (NUMBER_AS_TEXT, NUMBER_AS_TEXT)),
    Calls("gpt-5-nano", 2, "ok", (REFUNDED,)),
)
"""What the enforced calls of a day come to."""
OBSERVED = 2
"""How many replies that do not fit are handed on, to find_order, by gpt-5-mini."""
UNJUDGED = ("fault", "request", "request")
"""Why replies of gpt-5-nano are handed on without a verdict."""
ABANDONED = 1
"""How many streams of gpt-5-nano are left."""
JUDGING = 0.00035
"""The seconds that judging an observed reply takes."""


class Desk:
    """The desk at work."""

    def __init__(self, meters: MeterProvider, model: ScriptedModel, sdk: openai.OpenAI) -> None:
        self._model = model
        wrapped = sr.wrap(sdk, tools=[find_order, refund], policy=POLICY)
        self._client: Any = instrument(
            wrapped, meter_provider=meters, attributes={"tenant": "shop"}
        )

    def play(self) -> None:
        """Make the calls of one day."""
        for calls in DAY:
            for _ in range(calls.count):
                self._model.script(*calls.steps)
                with suppress(sr.CallFailed):
                    self._client.reply(model=calls.model, messages="Help the customer.")

        for _ in range(OBSERVED):
            self._observe()
        telemetry: OpenTelemetry = self._client._guard.settings.telemetry
        for why in UNJUDGED:
            telemetry.unjudged(self._client.unwrapped, "chat", "gpt-5-nano", why)
        for _ in range(ABANDONED):
            self._model.script(ok.answer("a long answer of several words"))
            stream = self._client.stream(model="gpt-5-nano", messages="Help the customer.")
            next(iter(stream))
            stream.close()

    def _observe(self) -> None:
        """Hand a reply on that does not fit."""
        self._model.script(NUMBER_AS_TEXT)
        handed_on = self._client.observed_by(HandedOn(self._client._guard.settings.telemetry))
        with suppress(sr.CallFailed):
            handed_on.reply(model="gpt-5-mini", messages="Help the customer.", policy=ALONE)


class HandedOn:
    """Records the first reply of each call as one that was only observed."""

    def __init__(self, telemetry: OpenTelemetry) -> None:
        self._telemetry = telemetry

    @contextmanager
    def call(self, ask: CallPlan, client: object, *, seen: bool) -> Generator[Judged]:
        """Note what becomes of the call, and record that."""
        judged = Judged()
        try:
            yield judged
        finally:
            observed = replace(judged.attempts[0], observed=True)
            plan = replace(ask, enforced=frozenset())
            self._telemetry.observed(plan, client, observed, judging=JUDGING)


class Judged:
    """Keeps the attempts of a call."""

    def __init__(self) -> None:
        self.attempts: list[sr.Attempt] = []

    def asking(self, request: object) -> AbstractContextManager[None]:
        """Return what is entered while a request is sent: nothing."""
        return nullcontext()

    def judged(self, attempt: sr.Attempt) -> None:
        """Keep an attempt."""
        self.attempts.append(attempt)


def main() -> None:
    """Serve the metrics until the input ends, and play a day for each line of it."""
    registry = CollectorRegistry()
    meters = MeterProvider([PrometheusMetricReader(registry=registry)])
    metrics, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    model = ScriptedModel()
    with model.serve() as server, openai.OpenAI(base_url=server.base_url, api_key="none") as sdk:
        desk = Desk(meters, model, sdk)
        sys.stdout.write(f"127.0.0.1:{metrics.server_port}\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            desk.play()
            sys.stdout.write("played\n")
            sys.stdout.flush()

    metrics.shutdown()
    metrics.server_close()
    thread.join()
    meters.shutdown()


if __name__ == "__main__":
    main()
