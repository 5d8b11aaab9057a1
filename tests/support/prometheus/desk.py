"""A program as a team would run it: a support desk that is guarded, instrumented and scraped.

It calls a scripted model over loopback through the openai SDK and serves its metrics on a free
port of loopback, whose address it prints. Each line of its input makes it play the day once, a
known number of calls of each outcome; it prints a line when they are through, and ends with its
input. It needs what ``make test-prometheus`` installs.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field
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
from strictreply.integrations.otel import instrument
from strictreply.testing import ScriptedModel, Step, faults, ok


@sr.tool
def find_order(number: int) -> str:
    """Look up an order."""
    return f"order {number}"


@sr.tool
def refund(order: int, reason: str) -> str:
    """Give the money back."""
    return f"{order}: {reason}"


def count_stock(_args: object) -> None:
    """Fail, as a check of one's own may."""
    raise ZeroDivisionError


STOCK = sr.Tool.from_json_schema(
    "stock", {"type": "object", "additionalProperties": False}, check=count_stock
)
FOUND = ok.call(find_order, number=1042)
REFUNDED = ok.call(refund, order=1042, reason="broken")
STOCKED = ok.call(STOCK)
NUMBER_AS_TEXT = faults.number_as_text(find_order)
CUT_OFF = faults.cut_in_string(refund)
DOWN = faults.bad_gateway()
POLICY = sr.RetryPolicy(max_retries=1, transport_retries=1, wait=wait_none())
MODES: dict[str, dict[str, Any]] = {
    "enforce": {},
    "observe": {"mode": "observe"},
    "partial": {"mode": "observe", "enforce": {"refund"}},
}


@dataclass(frozen=True)
class Calls:
    """So many calls of a model that end alike."""

    model: str
    count: int
    steps: tuple[Step, ...]
    mode: str = "enforce"
    request: dict[str, Any] = field(default_factory=dict[str, Any])


DAY = (
    Calls("gpt-5", 5, (FOUND,)),
    Calls("gpt-5", 2, (REFUNDED,)),
    Calls("gpt-5", 1, (REFUNDED,), "partial"),
    Calls("gpt-5", 1, (faults.refusal(),)),
    Calls("gpt-5", 1, (CUT_OFF, REFUNDED), "partial"),
    Calls("gpt-5", 1, (DOWN, DOWN)),
    Calls("gpt-5-mini", 4, (FOUND,)),
    Calls("gpt-5-mini", 3, (NUMBER_AS_TEXT, FOUND)),
    Calls("gpt-5-mini", 1, (NUMBER_AS_TEXT, NUMBER_AS_TEXT)),
    Calls("gpt-5-mini", 1, (NUMBER_AS_TEXT,), "partial"),
    Calls("gpt-5-mini", 1, (NUMBER_AS_TEXT,), "observe"),
    Calls("gpt-5-nano", 1, (REFUNDED,)),
    Calls("gpt-5-nano", 1, (REFUNDED,), "observe"),
    Calls("gpt-5-nano", 1, (STOCKED,), "observe"),
    Calls("gpt-5-nano", 2, (REFUNDED,), "observe", {"n": 2}),
)
"""The calls of a day: what they come to is in :data:`OUTCOMES` of the lane."""


class Desk:
    """The desk at work."""

    def __init__(self, meters: MeterProvider, model: ScriptedModel, sdk: openai.OpenAI) -> None:
        self._model = model
        self._clients: dict[str, Any] = {}
        for mode, chosen in MODES.items():
            wrapped = sr.wrap(sdk, tools=[find_order, refund, STOCK], policy=POLICY, **chosen)
            self._clients[mode] = instrument(
                wrapped, meter_provider=meters, attributes={"tenant": "shop"}
            )

    def play(self) -> None:
        """Make the calls of one day."""
        for calls in DAY:
            for _ in range(calls.count):
                self._model.script(*calls.steps)
                with suppress(sr.CallFailed):
                    self._create(calls.mode, calls.model, **calls.request)

        self._model.script(ok.answer("a long answer of several words"))
        stream = self._create("enforce", "gpt-5-nano", stream=True)
        next(iter(stream))
        stream.close()

    def _create(self, mode: str, model: str, **request: object) -> Any:
        messages = [{"role": "user", "content": "Help the customer."}]
        completions = self._clients[mode].chat.completions
        return completions.create(model=model, messages=messages, **request)


def main() -> None:
    """Serve the metrics until the input ends, and play a day for each line of it."""
    registry = CollectorRegistry()
    meters = MeterProvider([PrometheusMetricReader(registry=registry)])
    metrics, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    model = ScriptedModel()
    with (
        model.serve() as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as sdk,
    ):
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
