"""The metrics of calls: one outcome each, what judging cost, and what the caller adds."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import openai
import pytest
from tenacity import wait_none

import strictreply as sr
from strictreply.core import CallPlan
from strictreply.integrations.otel import OpenTelemetry, instrument
from strictreply.testing import ScriptedModel, ok
from support.loops import some
from support.scripted import USER, Server, call, completion, refusal, status
from support.tracers.recorded import ASK, GOOD, SEARCH, WRONG, Recorded
from support.tracers.recorders import needs

REFUND = sr.Tool.from_json_schema("refund", {"type": "object", "additionalProperties": False})
INVENTED = completion(calls=[call("zq_invented", {"zq_key": 1})])
DOWN = 503
MODEL = SimpleNamespace(base_url="http://model.invalid/v1")
UNFIT = sr.Attempt(
    number=1,
    request={"model": "m"},
    raw=WRONG,
    issues=(sr.Issue.of(sr.Code.CALL_ID_MISSING, "/tool_calls/0"),),
    usage=sr.Usage(10, 5, 15),
    seconds=2.5,
    observed=True,
)
FIT = sr.Attempt(number=1, request={"model": "m"}, raw=GOOD, seconds=0.5)
FAILED = sr.Attempt(number=1, request={"model": "m"}, failure="timeout: late", seconds=0.5)


@pytest.fixture(params=["sync", "async"])
def twin(request: pytest.FixtureRequest) -> str:
    """Both twins."""
    needs("opentelemetry.sdk")
    return str(request.param)


def telemetry_of(recorded: Recorded) -> OpenTelemetry:
    """Return what observes the calls of a client."""
    telemetry: OpenTelemetry = recorded.client._guard.settings.telemetry
    return telemetry


def plan(enforced: frozenset[str] | None = frozenset()) -> CallPlan:
    """Return the plan of a call as a client makes it, with what is enforced of it."""
    plans: list[CallPlan] = []

    class Planned:
        """Keeps the plan of each call."""

        @contextmanager
        def call(self, ask: CallPlan, client: object, *, seen: bool) -> Generator[None]:
            """Keep the plan."""
            plans.append(ask)
            yield

        def observed(
            self, ask: CallPlan, client: object, attempt: sr.Attempt, *, judging: float
        ) -> None:
            """Keep nothing: no call of this client is only observed."""

        def unjudged(self, client: object, api: str, model: str, why: str) -> None:
            """Keep nothing."""

    wrapped: Any = sr.wrap(Server(GOOD).client(), tools=[SEARCH]).observed_by(Planned())
    wrapped.reply(**ASK)
    return replace(plans[0], enforced=enforced)


def outcomes(recorded: Recorded) -> Counter[tuple[str | None, ...]]:
    """Return how many calls there were of each outcome, tool and code."""
    names = ("strictreply.call.outcome", "gen_ai.tool.name", "strictreply.issue.code")
    found: Counter[tuple[str | None, ...]] = Counter()
    for metric, point in recorded.points:
        if metric == "strictreply.calls":
            found[tuple(map(point.attributes.get, names))] += point.value
    return found


@pytest.mark.parametrize(
    ("answers", "outcome", "tool", "code", "attempts"),
    [
        ([GOOD], "ok", "search", None, 1),
        ([DOWN, GOOD], "ok", "search", None, 2),
        ([WRONG, GOOD], "fixed", "search", "args.maximum", 2),
        ([WRONG], "rejected", "search", "args.maximum", 3),
        ([INVENTED], "rejected", None, "tool.unknown", 3),
        ([refusal()], "halted", None, "reply.refusal", 1),
        ([DOWN], "failed", None, None, 2),
        ([WRONG, DOWN], "failed", "search", "args.maximum", 3),
    ],
)
def test_each_call_has_one_outcome(
    answers: list[Any],
    outcome: str,
    tool: str | None,
    code: str | None,
    attempts: int,
    twin: str,
) -> None:
    """It is counted once, with the tool of the last reply and the code of the last bad one; so are
    its asks and its time, and its span has the word.
    """
    policy = sr.RetryPolicy(max_retries=2, transport_retries=1, wait=wait_none())
    # a response is read once: each test has its own
    server = Server(*(status(one) if one == DOWN else one for one in answers))
    recorded = Recorded(server, twin, policy=policy)
    try:
        recorded.reply()
    except sr.CallFailed:
        assert outcome in {"rejected", "halted", "failed"}

    assert outcomes(recorded) == {(outcome, tool, code): 1}
    [parent] = [one for one in recorded.spans.values() if one.parent is None]
    assert parent.attributes["strictreply.call.outcome"] == outcome

    found = {name: point for name, point in recorded.points if hasattr(point, "count")}
    assert found["strictreply.call.attempts"].sum == attempts
    assert found["strictreply.call.duration"].count == 1
    assert found["strictreply.call.duration"].sum > 0


def test_a_call_that_its_caller_ends_is_abandoned(twin: str) -> None:
    """A bug in a check, and a stream that is left, are no verdict on the model."""

    def broken(_args: Any) -> None:
        raise ZeroDivisionError

    recorded = Recorded(Server(GOOD), twin)
    with pytest.raises(ZeroDivisionError):
        recorded.reply(tools=[replace(SEARCH, check=broken)])
    assert outcomes(recorded) == {("abandoned", None, None): 1}


def test_a_stream_that_is_left_is_abandoned() -> None:
    """Closed before its end, its call is counted as that and not as a failure."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    model = ScriptedModel(then=ok.answer("a long answer of several words"))
    with model.openai() as sdk:
        client: Any = sr.wrap(sdk).observed_by(telemetry_of(recorded))
        stream = client.stream(model="m", messages=USER)
        next(iter(stream))
        stream.close()

    assert outcomes(recorded) == {("abandoned", None, None): 1}


def test_a_cancelled_call_is_abandoned() -> None:
    """A task that is cancelled while it waits is no failure of the model."""
    needs("opentelemetry.sdk")
    server = Server(GOOD)
    asked = anyio.Event()

    async def forever(_request: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    server.ahandle = forever  # type: ignore[method-assign, assignment]

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: recorded.client.reply(**ASK))
            await asked.wait()
            tasks.cancel_scope.cancel()

    recorded = Recorded(server, "async")
    asyncio.run(cancelled())
    assert outcomes(recorded) == {("abandoned", None, None): 1}


@pytest.mark.parametrize(
    ("enforced", "mode"),
    [(None, "enforce"), (frozenset(), "observe"), (frozenset({"refund"}), "partial")],
)
def test_all_that_is_recorded_has_the_mode(enforced: frozenset[str] | None, mode: str) -> None:
    """Spans and metrics say whether all faults were enforced, none, or those of some tools."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    with telemetry_of(recorded).call(plan(enforced), MODEL, seen=False) as observed:
        assert observed is not None
        with observed.asking({"model": "m"}):
            pass
        observed.judged(FIT)

    attributes = [dict(one.attributes) for one in recorded.spans.values()]
    attributes += [dict(point.attributes) for _, point in recorded.points]
    assert {one["strictreply.mode"] for one in attributes} == {mode}
    assert len(attributes) == 2 + 4


def test_a_call_whose_last_reply_was_only_observed_is_observed() -> None:
    """Where some tools are enforced, a call may end so; what that reply took is no waste."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    rejected = replace(UNFIT, observed=False)
    ask = plan(frozenset({"refund"}))
    with telemetry_of(recorded).call(ask, MODEL, seen=False) as observed:
        assert observed is not None
        observed.judged(rejected)
        observed.judged(replace(UNFIT, number=2))

    assert outcomes(recorded) == {("observed", "search", "call.id_missing"): 1}
    counts = recorded.counts
    assert counts["strictreply.attempts", "search", "rejected"] == 1
    assert counts["strictreply.attempts", "search", "observed"] == 1
    assert counts["strictreply.rejected.tokens", "input", "search", "call.id_missing"] == 10
    assert counts["strictreply.issues", "search", "call.id_missing"] == 2


@pytest.mark.parametrize(
    ("attempt", "outcome", "code", "word", "kind"),
    [
        (FIT, "ok", None, "accepted", None),
        (UNFIT, "observed", "call.id_missing", "observed", None),
        (FAILED, "failed", None, "failed", "timeout"),
    ],
)
def test_an_observed_reply_is_a_call_and_an_ask(
    attempt: sr.Attempt, outcome: str, code: str | None, word: str, kind: str | None
) -> None:
    """It has a span as long as its call took, one of each count, and what judging it cost; no
    tokens are counted as wasted.
    """
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    before = time.time_ns()
    telemetry_of(recorded).observed(plan(), MODEL, attempt, judging=0.0003)

    [span] = recorded.spans.values()
    assert span.name == "invoke_workflow strictreply"
    assert span.attributes["strictreply.call.outcome"] == outcome
    assert span.attributes["strictreply.mode"] == "observe"
    assert span.attributes["server.address"] == "model.invalid"
    assert span.attributes.get("error.type") == kind
    assert span.attributes.get("strictreply.issue.codes") == (code and (code,))
    assert span.status.status_code.name == ("UNSET" if kind is None else "ERROR")
    assert span.start_time >= before - attempt.seconds * 1e9
    assert span.end_time - span.start_time >= attempt.seconds * 1e9 - 1

    tool = None if kind else "search"
    assert outcomes(recorded) == {(outcome, tool, code): 1}
    metrics = dict(recorded.points)
    assert metrics["strictreply.attempts"].attributes["strictreply.attempt.outcome"] == word
    assert metrics["strictreply.judge.duration"].sum == 0.0003
    assert metrics["strictreply.call.duration"].sum == attempt.seconds
    assert metrics["strictreply.call.attempts"].sum == 1
    assert "strictreply.rejected.tokens" not in metrics


def create(recorded: Recorded, twin: str, **more: Any) -> None:
    """Make a call by the SDK's own method, and take what it raises of its own."""
    completions = recorded.client.chat.completions

    async def awaited() -> None:
        with suppress(openai.APIStatusError):
            await completions.create(**ASK, **more)

    if twin == "async":
        asyncio.run(awaited())
        return
    with suppress(openai.APIStatusError):
        completions.create(**ASK, **more)


@pytest.mark.parametrize(
    ("answer", "request_", "outcome", "tool", "code"),
    [
        (GOOD, {}, "ok", "search", None),
        (WRONG, {}, "observed", "search", "args.maximum"),
        (INVENTED, {}, "observed", None, "tool.unknown"),
        (DOWN, {}, "failed", None, None),
        (GOOD, {"n": 2}, "unjudged", None, None),
    ],
)
def test_a_client_that_only_observes_counts_its_calls(
    answer: Any, request_: Any, outcome: str, tool: str | None, code: str | None, twin: str
) -> None:
    """Each call of the SDK's own method is counted once, in the mode of its client."""
    server = Server(status(answer) if answer == DOWN else answer)
    recorded = Recorded(
        server, twin, mode="observe", patch=lambda client: client.with_options(max_retries=0)
    )
    create(recorded, twin, **request_)

    assert outcomes(recorded) == {(outcome, tool, code): 1}
    assert {point.attributes["strictreply.mode"] for _, point in recorded.points} == {"observe"}
    judged = [
        point.count for name, point in recorded.points if name == "strictreply.judge.duration"
    ]
    assert judged == ([] if outcome == "unjudged" else [1])


@pytest.mark.parametrize(
    ("enforced", "answers", "outcome"),
    [
        ({"search"}, [WRONG, GOOD], "fixed"),
        ({"refund"}, [WRONG], "observed"),
        ({"refund"}, [GOOD], "ok"),
    ],
)
def test_a_client_that_enforces_some_tools_counts_its_calls(
    enforced: set[str], answers: list[Any], outcome: str, twin: str
) -> None:
    """A reply for a tool that is not enforced is handed on, and no waste."""
    settings: dict[str, Any] = {"mode": "observe", "enforce": enforced}
    recorded = Recorded(Server(*answers), twin, tools=[SEARCH, REFUND], **settings)
    create(recorded, twin)
    assert outcomes(recorded) == {
        (outcome, "search", None if outcome == "ok" else "args.maximum"): 1
    }
    assert {point.attributes["strictreply.mode"] for _, point in recorded.points} == {"partial"}
    wasted = [name for name, _ in recorded.points if name == "strictreply.rejected.tokens"]
    assert bool(wasted) is (outcome == "fixed")


def test_a_reply_without_a_verdict_is_counted_by_its_reason() -> None:
    """It is a call, too, of the outcome ``unjudged``, and has no span."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    for why in ("fault", "fault", "request", "abandoned"):
        telemetry_of(recorded).unjudged(MODEL, "chat", "m", why)

    counts = recorded.counts
    assert counts == {
        ("strictreply.calls", "unjudged"): 4,
        ("strictreply.unjudged", "fault"): 2,
        ("strictreply.unjudged", "request"): 1,
        ("strictreply.unjudged", "abandoned"): 1,
    }
    assert not recorded.spans
    assert {point.attributes["strictreply.mode"] for _, point in recorded.points} == {"observe"}


class Hostile:
    """A client whose address raises."""

    @property
    def base_url(self) -> str:
        """Raise."""
        raise RuntimeError("zq words")


def test_no_fault_of_the_recording_reaches_an_observed_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What the recording of an observed reply raises is logged by its type, without its words."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    ask = plan()
    telemetry_of(recorded).observed(ask, Hostile(), UNFIT, judging=0.0)
    telemetry_of(recorded).unjudged(Hostile(), "chat", "m", "fault")
    assert [one.levelname for one in caplog.records] == ["ERROR", "ERROR"]
    assert all("RuntimeError" in one.getMessage() for one in some(caplog.records))
    assert "zq words" not in caplog.text


def test_nothing_observed_is_recorded_where_instrumentation_is_suppressed() -> None:
    """OpenTelemetry's own key silences these as it does the calls."""
    needs("opentelemetry.sdk")
    context: Any = importlib.import_module("opentelemetry.context")
    recorded = Recorded(Server(GOOD))
    ask = plan()
    token = context.attach(context.set_value("suppress_instrumentation", True))
    try:
        telemetry_of(recorded).observed(ask, MODEL, UNFIT, judging=0.0)
        telemetry_of(recorded).unjudged(MODEL, "chat", "m", "fault")
    finally:
        context.detach(token)

    assert not recorded.spans
    assert not recorded.points


def test_the_buckets_fit_what_is_recorded() -> None:
    """Asks are counted one by one up to 5, calls measured from 10 ms to minutes, judging from 10
    microseconds.
    """
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    telemetry_of(recorded).observed(plan(), MODEL, FIT, judging=0.00003)
    bounds = {
        name: point.explicit_bounds
        for name, point in recorded.points
        if hasattr(point, "explicit_bounds")
    }
    assert bounds["strictreply.call.attempts"][:5] == (1, 2, 3, 4, 5)
    assert bounds["strictreply.call.duration"][:8] == (
        *(0.01, 0.02, 0.04, 0.08),
        *(0.16, 0.32, 0.64, 1.28),
    )
    assert bounds["strictreply.call.duration"][-1] == 163.84
    assert bounds["strictreply.judge.duration"][0] == 0.00001


TENANT = ContextVar("TENANT", default="none")


def test_what_the_caller_adds_is_read_for_each_call(twin: str) -> None:
    """A function gives the tenant of the call at hand; it is on every span and every metric."""
    recorded = Recorded(
        Server(WRONG, GOOD), twin, attributes=lambda: {"tenant": TENANT.get(), "canary": True}
    )
    for tenant in ("a", "b"):
        token = TENANT.set(tenant)
        recorded.reply()
        TENANT.reset(token)

    attributes = [dict(one.attributes) for one in recorded.spans.values()]
    attributes += [dict(point.attributes) for _, point in recorded.points]
    assert {(one["tenant"], one["canary"]) for one in attributes} == {("a", True), ("b", True)}

    calls = {
        point.attributes["tenant"]: point.attributes["strictreply.call.outcome"]
        for name, point in recorded.points
        if name == "strictreply.calls"
    }
    assert calls == {"a": "fixed", "b": "ok"}


def test_a_mapping_is_added_to_observed_and_unjudged_replies() -> None:
    """They have what the other calls have."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD), attributes={"team": "desk"})
    telemetry_of(recorded).observed(plan(), MODEL, UNFIT, judging=0.0)
    telemetry_of(recorded).unjudged(MODEL, "chat", "m", "fault")
    attributes = [dict(one.attributes) for one in recorded.spans.values()]
    attributes += [dict(point.attributes) for _, point in recorded.points]
    assert {one["team"] for one in some(attributes)} == {"desk"}


def raising() -> Mapping[str, str]:
    """Fail, as code of others does."""
    raise LookupError("zq words")


@pytest.mark.parametrize(
    ("given", "kept", "is_logged"),
    [
        (raising, {}, True),
        (lambda: None, {}, True),
        (lambda: {"a": ["zq words"], "b": 1.5, 3: "zq words", "": "zq words"}, {"b": 1.5}, True),
        (lambda: {"a": None, "half": "zq words \ud800", "c": False}, {"c": False}, True),
        (lambda: {"strictreply.mode": "zq words", "gen_ai.request.model": "zq words"}, {}, False),
    ],
)
def test_wrong_attributes_are_left_out(
    given: Any, kept: dict[str, object], is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """No call fails by them and no words of theirs are logged; names of ours stay ours."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD), attributes=given)
    recorded.reply()
    ours = ("gen_ai.", "strictreply.")
    for _, point in some(recorded.points):
        attributes = dict(point.attributes)
        added = {name: value for name, value in attributes.items() if not name.startswith(ours)}
        assert added == kept
        assert attributes["strictreply.mode"] == "enforce"

    logged = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert bool(logged) is is_logged
    assert "zq words" not in caplog.text


async def awaited() -> Mapping[str, str]:
    """Give attributes too late."""
    return {}


@pytest.mark.parametrize("given", ["tenant", 3, {"tenant": ["a"]}, {3: "a"}, awaited])
def test_what_can_be_no_attributes_is_refused_at_once(given: Any) -> None:
    """A declaration fails where it stands, not at each call."""
    needs("opentelemetry.sdk")
    with pytest.raises(TypeError, match="attributes="):
        instrument(sr.wrap(Server(GOOD).client()), attributes=given)


def test_instrumenting_twice_with_other_attributes_is_refused() -> None:
    """The same ones are taken, as the providers are."""
    needs("opentelemetry.sdk")
    first = instrument(sr.wrap(Server(GOOD).client()), attributes={"team": "desk"})
    assert instrument(first, attributes={"team": "desk"}) is first
    with pytest.raises(ValueError, match="another attributes"):
        instrument(first, attributes={"team": "shop"})
