"""The line goes the three walks, and validates before and after each step.

It stops with nothing half applied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strictreply.core import drive
from strictreply.loop import MemorySessionStore, SessionStore, SQLiteSessionStore
from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeFailed
from strictreply.loop.values import (
    AgentResponse,
    LineStatus,
    PipelineStep,
    ResponseKind,
    ToolCallManifest,
    Turn,
)
from strictreply.pipeline import (
    AgentPipelineContext,
    AgentPipelineContextValidator,
    LineResult,
    ResponsePayload,
    ResponseType,
)
from strictreply.pipeline._line import StepBody, line_flow
from support.pipeline.walking import App, answer, answering, asking, call, context

LOOP = AgentPipelineContextValidator(allow_server_tool_calls=True)
HERE = call("price")
CLIENTS = call("map", client=True)

STEP = PipelineStep
INITIAL = [STEP.REQUEST_HANDLER, STEP.AGENT_CONTEXT_RESOLVER, STEP.AGENT_SESSION_CREATOR]
FOLLOW_ON = [STEP.REQUEST_HANDLER, STEP.SESSION_RESTORER, STEP.AGENT_CONTEXT_LOADER]
CONTINUATION = [
    STEP.REQUEST_HANDLER,
    STEP.CLIENT_TOOL_CALL_SESSION_RESTORER,
    STEP.CLIENT_TOOL_CONTINUATION_RESOLVER,
    STEP.AGENT_CONTEXT_LOADER,
]
ASKED = [STEP.PROMPT_CONTENT_PROVIDER_INITIALIZER, STEP.REASONER, STEP.LLM_CLIENT]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    """Make an empty store of each kind."""
    return (
        MemorySessionStore()
        if request.param == "memory"
        else SQLiteSessionStore(tmp_path / "sessions.db")
    )


def responded(line: LineResult) -> AgentResponse:
    """Return the response of a line that completed."""
    assert (line.status, line.errors, line.cause) == (LineStatus.COMPLETED, (), None)
    assert line.context.built is not None
    return line.context.built.response


def walked(line: LineResult) -> list[PipelineStep]:
    """Return the steps that a line entered."""
    return [entry.step for entry in line.trace]


def refused(line: LineResult) -> list[InvokeCode]:
    """Return the codes that a line failed with."""
    assert line.status is LineStatus.FAILED
    return [error.code for error in line.errors]


@pytest.mark.req("P43")
def test_the_three_walks_end_to_end(store: SessionStore) -> None:
    """Initial, continuation and follow-on, one process each, go their legal paths, valid before and
    after each step.
    """
    begun = App(store, (HERE, CLIENTS))
    initial = begun.turn(asking())
    waiting = responded(initial)
    assert walked(initial) == [*INITIAL, *ASKED, STEP.REASONER, STEP.RESPONSE_BUILDER]

    assert (waiting.kind, waiting.tool_calls, begun.ran) == (
        ResponseKind.CLIENT_TOOL_CONTINUATION,
        (CLIENTS,),
        ["price"],
    )

    resumed = App(store, (HERE,), "done")
    continuation = resumed.turn(answering(waiting, answer("map")))
    done = responded(continuation)

    assert walked(continuation) == [
        *CONTINUATION,
        *ASKED,
        STEP.REASONER,
        STEP.LLM_CLIENT,
        STEP.RESPONSE_BUILDER,
    ]
    assert (done.kind, done.primary_output_text, done.turn_id) == (
        ResponseKind.FINAL,
        "done",
        waiting.turn_id,
    )

    manifest = continuation.context.tool_call_manifest
    assert manifest is not None
    assert [result.name for result in manifest.tool_call_results] == ["price", "map"]

    again = App(store, "and more", first_id=8)
    follow_on = again.turn(asking(session_id=done.session_id, turn_id=done.turn_id))
    more = responded(follow_on)

    assert walked(follow_on) == [*FOLLOW_ON, *ASKED, STEP.RESPONSE_BUILDER]
    assert (more.session_id, more.turn_id) == (done.session_id, "t8")
    session = store.session(more.session_id)
    assert session is not None

    assert session.last_turn_id == "t8"

    for step, before, after in (*begun.steps, *resumed.steps, *again.steps):
        assert LOOP.validate_pre_step(before, step).errors == ()
        assert LOOP.validate_post_step(after, step).errors == ()


@pytest.mark.req("P66")
def test_the_same_results_twice_are_consumed(store: SessionStore) -> None:
    """The second submit of the same results fails with ALREADY_CONSUMED, and asks no model."""
    waiting = responded(App(store, (CLIENTS,)).turn(asking()))
    responded(App(store, "done").turn(answering(waiting, answer("map"))))
    assert refused(App(store).turn(answering(waiting, answer("map")))) == [
        InvokeCode.ALREADY_CONSUMED
    ]


@pytest.mark.req("P66")
def test_the_same_results_twice_are_consumed_while_the_turn_waits_again(
    store: SessionStore,
) -> None:
    """Also when the turn waits for other results by then, which can still be sent."""
    waiting = responded(App(store, (CLIENTS,)).turn(asking()))
    again = responded(
        App(store, (call("light", client=True),)).turn(answering(waiting, answer("map")))
    )
    repeated = App(store).turn(answering(waiting, answer("map")))
    assert refused(repeated) == [InvokeCode.ALREADY_CONSUMED, InvokeCode.MISSING_RESULT]

    assert (
        responded(App(store, "done").turn(answering(again, answer("light")))).primary_output_text
        == "done"
    )


@pytest.mark.req("P66")
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"result_json": "{bad"}, InvokeCode.RESULT_NOT_JSON),
        ({"name": "other"}, InvokeCode.NAME_MISMATCH),
        ({"tool_call_id": "tc-other"}, InvokeCode.UNKNOWN_CALL),
    ],
)
def test_a_submit_that_failed_may_be_corrected(
    store: SessionStore, wrong: dict[str, str], code: InvokeCode
) -> None:
    """Results that a rule refuses, inside the step or behind it, leave the manifest: the corrected
    ones succeed.
    """
    waiting = responded(App(store, (CLIENTS,)).turn(asking()))
    failed = App(store).turn(answering(waiting, answer("map", **wrong)))
    assert (failed.step, code in refused(failed)) == (STEP.CLIENT_TOOL_CONTINUATION_RESOLVER, True)
    assert (
        responded(App(store, "done").turn(answering(waiting, answer("map")))).primary_output_text
        == "done"
    )


def effect_of(function: Callable[[AgentPipelineContext], Any]) -> StepBody:
    """Make a body whose effect is to call a function."""

    def body(ctx: AgentPipelineContext) -> Generator[Any, Any, Any]:
        return (yield partial(function, ctx))

    return body


class Line:
    """One initial request on the line, with bodies to change.

    ``log`` has who was asked and what ran, in order.
    """

    def __init__(self, *says: Any) -> None:
        """Take the bodies of the small app."""
        self.app = App(MemorySessionStore(), *(says or ("hi",)))
        self.bodies = {step: effect_of(body) for step, body in self.app.bodies.items()}
        self.log: list[str] = []
        self.answers: list[bool] = []
        self.now = 0.0
        self.first = context(asking())

    def replace(self, step: PipelineStep, function: Callable[[AgentPipelineContext], Any]) -> None:
        """Replace the action of a step."""
        self.bodies[step] = effect_of(function)

    def run(self, validator: AgentPipelineContextValidator = LOOP, **options: Any) -> LineResult:
        """Drive the line."""
        options |= {"validator": validator, "cancelled": self.cancelled, "clock": lambda: self.now}
        return drive(line_flow(self.first, self.bodies, **options), self.perform)

    def cancelled(self) -> bool:
        """Answer as a test wants, no when it wants nothing."""
        self.log.append("cancelled?")
        return self.answers.pop(0) if self.answers else False

    def perform(self, effect: Callable[[], Any]) -> Any:
        """Call a body; it takes a second."""
        self.log.append("body")
        self.now += 1
        return effect()


@pytest.mark.req("P44")
def test_a_step_is_looked_after_in_order() -> None:
    """Each step asks whether it is cancelled, runs its body and asks again; seven steps lead to an
    answer.
    """
    line = Line()
    assert line.run().status is LineStatus.COMPLETED
    assert line.log == ["cancelled?", "body", "cancelled?"] * 7


@pytest.mark.req("P44")
def test_a_step_that_finds_something_wrong_runs_no_body() -> None:
    """Pre-validation comes first: nobody is even asked whether it is cancelled."""
    line = Line()
    line.replace(STEP.AGENT_CONTEXT_RESOLVER, lambda ctx: line.log.append("resolver"))
    line.replace(
        STEP.REQUEST_HANDLER, lambda ctx: replace(ctx, session=line.app.create(ctx).session)
    )
    done = line.run()
    assert (done.status, done.step) == (LineStatus.FAILED, STEP.AGENT_CONTEXT_RESOLVER)

    assert line.log == ["cancelled?", "body", "cancelled?"]
    assert {error.rule.split(".")[0] for error in done.errors} == {"agent_context_resolver"}


@pytest.mark.req("P44")
def test_a_step_that_leaves_something_wrong_is_the_last() -> None:
    """Post-validation comes after the body and its cancel check; the next step is not entered."""
    line = Line()
    line.replace(STEP.AGENT_CONTEXT_RESOLVER, lambda ctx: ctx)
    done = line.run()
    assert (done.status, done.step) == (LineStatus.FAILED, STEP.AGENT_CONTEXT_RESOLVER)
    assert line.log == ["cancelled?", "body", "cancelled?"] * 2
    assert {error.rule.split(".")[0] for error in done.errors} == {"agent_context_resolver"}


def test_the_seconds_of_each_step_are_told() -> None:
    """The trace has each step that was entered with its time and how it came out."""
    line = Line()
    line.replace(STEP.AGENT_SESSION_CREATOR, lambda ctx: ctx)
    done = line.run()
    assert [(entry.step, entry.seconds, entry.status) for entry in done.trace] == [
        (STEP.REQUEST_HANDLER, 1.0, LineStatus.COMPLETED),
        (STEP.AGENT_CONTEXT_RESOLVER, 1.0, LineStatus.COMPLETED),
        (STEP.AGENT_SESSION_CREATOR, 1.0, LineStatus.FAILED),
    ]


@pytest.mark.req("P70")
@pytest.mark.parametrize(
    ("answers", "ran"), [([True], 0), ([False, True], 1), ([False, False, True], 1)]
)
def test_a_cancelled_line_is_aborted_not_failed(answers: list[bool], ran: int) -> None:
    """Cancelled before a body it is not run, cancelled after it what it did is dropped: aborted,
    without errors.
    """
    line = Line()
    line.answers = answers
    done = line.run()
    assert (done.status, done.errors, done.cause) == (LineStatus.ABORTED, (), None)
    assert line.log.count("body") == ran
    assert done.context == line.first
    assert done.trace[-1].status is LineStatus.ABORTED


@pytest.mark.req("P70")
def test_cancelled_goes_before_what_a_step_left() -> None:
    """A step that was cancelled while it ran is aborted, whatever it gave or raised by then."""
    line = Line()
    line.bodies[STEP.REQUEST_HANDLER] = raising(ValueError("secret"))
    line.answers = [False, True]
    done = line.run()
    assert (done.status, done.errors, type(done.cause)) == (LineStatus.ABORTED, (), ValueError)


def raising(error: BaseException) -> StepBody:
    """Make a body that raises."""

    def body(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
        yield from ()
        raise error

    return body


@pytest.mark.req("P44")
def test_what_a_body_raises_is_an_error_of_its_step() -> None:
    """An exception fails the step as STEP_RAISED, with the exception as the cause and none of its
    text in the words.
    """
    line = Line()
    line.bodies[STEP.AGENT_SESSION_CREATOR] = raising(ValueError("secret"))
    done = line.run()
    assert (done.status, done.step) == (LineStatus.FAILED, STEP.AGENT_SESSION_CREATOR)

    assert [(error.code, error.rule) for error in done.errors] == [
        (InvokeCode.STEP_RAISED, "line.body_returns")
    ]
    assert "secret" not in str(done.errors)
    assert str(done.cause) == "secret"


def test_a_body_may_fail_with_errors_of_its_own() -> None:
    """The step fails with the errors of InvokeFailed."""
    line = Line()
    error = InvokeError(code=InvokeCode.NOT_FOUND, rule="app.known", message="there is none")
    line.bodies[STEP.AGENT_CONTEXT_RESOLVER] = raising(InvokeFailed((error,)))
    assert line.run().errors == (error,)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()])
def test_what_is_no_exception_goes_through(error: BaseException) -> None:
    """An interrupt is nobody's failure: it leaves the line as it came."""
    line = Line()
    line.bodies[STEP.AGENT_CONTEXT_RESOLVER] = raising(error)
    with pytest.raises(type(error)):
        line.run()


@pytest.mark.req("P44")
@pytest.mark.parametrize(
    "step",
    [STEP.AGENT_CONTEXT_RESOLVER, STEP.AGENT_SESSION_CREATOR, STEP.REASONER, STEP.LLM_CLIENT],
)
def test_nothing_of_a_failed_step_is_kept(step: PipelineStep) -> None:
    """The context is as the last good step left it, even if the body had already made a new one."""
    line = Line((HERE,), "hi")
    found: list[AgentPipelineContext] = []
    good = line.bodies[step]

    def body(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
        found.append(ctx)
        yield from good(ctx)
        raise ValueError

    line.bodies[step] = body
    done = line.run()
    assert (done.status, done.step) == (LineStatus.FAILED, step)
    assert done.context is found[-1]


@pytest.mark.parametrize("given", [None, {}, "context", InvokeFailed])
def test_a_body_gives_a_context_or_fails(given: object) -> None:
    """Any other result than a context is BAD_STEP_RESULT, and is not inspected."""
    line = Line()
    line.replace(STEP.AGENT_CONTEXT_RESOLVER, lambda ctx: given)
    done = line.run()
    assert [(error.code, error.rule) for error in done.errors] == [
        (InvokeCode.BAD_STEP_RESULT, "line.context_given")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"correlation_id": "d"},
        {"time_stamp": "2027-01-01T00:00:00Z"},
        {"envelope": asking("something else")},
    ],
)
def test_the_request_is_as_it_was_received(change: dict[str, Any]) -> None:
    """After the RequestHandler no step changes the request (X15); the member is named."""
    line = Line()
    resolve = line.app.load_contexts
    line.replace(STEP.AGENT_CONTEXT_RESOLVER, lambda ctx: replace(resolve(ctx), **change))
    done = line.run()
    assert [(error.code, error.rule, error.path) for error in done.errors] == [
        (InvokeCode.CONTEXT_CHANGED, "line.context_kept", f"/{name}") for name in change
    ]


def test_the_request_handler_may_stamp_the_request() -> None:
    """The first step completes the request; what it leaves is what the others are held to."""
    line = Line()
    line.first = replace(line.first, time_stamp="", correlation_id="")
    stamp = "2026-01-01T00:00:00Z"
    line.replace(
        STEP.REQUEST_HANDLER, lambda ctx: replace(ctx, time_stamp=stamp, correlation_id="c")
    )
    done = line.run()
    assert (done.status, done.context.correlation_id) == (LineStatus.COMPLETED, "c")


@pytest.mark.req("P40")
@pytest.mark.parametrize("change", [{"correlation_id": "d"}, {"turn": Turn(id="other")}])
def test_the_response_builder_changes_nothing_else(change: dict[str, Any]) -> None:
    """The last step adds the response; with any other change, even under a new fingerprint, it
    fails.
    """
    line = Line()

    build = line.app.build
    line.replace(STEP.RESPONSE_BUILDER, lambda ctx: build(replace(ctx, **change)))
    done = line.run()
    assert [(error.code, error.path) for error in done.errors] == [
        (InvokeCode.CONTEXT_CHANGED, f"/{name}") for name in change
    ]

    assert done.context.built is None


def test_a_step_without_a_body_is_a_failure() -> None:
    """A walk that the bodies do not serve stops where it would go on."""
    line = Line()
    del line.bodies[STEP.AGENT_SESSION_CREATOR]
    done = line.run()
    assert (done.step, [error.code for error in done.errors]) == (
        STEP.AGENT_SESSION_CREATOR,
        [InvokeCode.NO_STEP_BODY],
    )


def test_calls_that_are_run_here_need_to_be_allowed() -> None:
    """Under the published rule alone the LLMClient may not leave a call for the server (X13)."""
    done = Line((HERE,), "hi").run(AgentPipelineContextValidator())
    assert (done.status, done.step) == (LineStatus.FAILED, STEP.LLM_CLIENT)
    assert Line((HERE,), "hi").run(LOOP).status is LineStatus.COMPLETED


def test_the_response_builder_sees_the_published_rule() -> None:
    """Whatever is allowed between two asks, the response is built from an answer or from the
    client's calls alone.
    """
    line = Line((HERE, CLIENTS))

    def reason(ctx: AgentPipelineContext) -> AgentPipelineContext:
        return replace(ctx, response_type=ResponseType.TOOL_CONTINUATION)

    line.replace(STEP.REASONER, reason)
    done = line.run()
    assert (done.status, done.step) == (LineStatus.FAILED, STEP.RESPONSE_BUILDER)
    assert {error.rule.split(".")[0] for error in done.errors} == {"llm_client"}


def test_an_answer_beside_calls_is_refused() -> None:
    """A model's reply is one or the other: the line stops at the step that left both."""
    line = Line()

    def ask(ctx: AgentPipelineContext) -> AgentPipelineContext:
        both = ToolCallManifest(tool_calls=(CLIENTS,))
        return replace(
            ctx, response_payload=ResponsePayload(primary_output_text="hi"), outgoing_manifest=both
        )

    line.replace(STEP.LLM_CLIENT, ask)
    done = line.run()
    assert (done.step, InvokeCode.BOTH in refused(done)) == (STEP.LLM_CLIENT, True)
