"""Good contexts for every step of the three walks, what breaks them, and how they are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_jsonable_python

from strictreply.loop.invoke_result import InvokeResult
from strictreply.loop.values import (
    AgentContext,
    AgentPipelineContextType,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    Envelope,
    PipelineStep,
    ResponseKind,
    Session,
    ToolCallManifest,
    Turn,
)
from strictreply.pipeline import (
    AgentPipelineContext,
    AgentPipelineContextValidator,
    BuiltResponse,
    ConversationContext,
    PromptContent,
    ResponsePayload,
    ResponseType,
    RuleStage,
    fingerprint,
)
from strictreply.pipeline._rule import PipelineRule

INITIAL = AgentPipelineContextType.INITIAL
FOLLOW_ON = AgentPipelineContextType.FOLLOW_ON
CONTINUATION = AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION

_ENDING = (
    PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER,
    PipelineStep.REASONER,
    PipelineStep.LLM_CLIENT,
    PipelineStep.RESPONSE_BUILDER,
)
WALKS: Mapping[AgentPipelineContextType, tuple[PipelineStep, ...]] = {
    INITIAL: (
        PipelineStep.REQUEST_HANDLER,
        PipelineStep.AGENT_CONTEXT_RESOLVER,
        PipelineStep.AGENT_SESSION_CREATOR,
        *_ENDING,
    ),
    FOLLOW_ON: (
        PipelineStep.REQUEST_HANDLER,
        PipelineStep.SESSION_RESTORER,
        PipelineStep.AGENT_CONTEXT_LOADER,
        *_ENDING,
    ),
    CONTINUATION: (
        PipelineStep.REQUEST_HANDLER,
        PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
        PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
        PipelineStep.AGENT_CONTEXT_LOADER,
        *_ENDING,
    ),
}
"""The steps of each walk, each once, in the order of requirement P43."""

CALL = AgentToolCall(
    tool_call_id="tc1", name="toolA", arguments_json='{"a": 1}', requires_client_execution=True
)
SECOND_CALL = replace(CALL, tool_call_id="tc2", name="toolB", arguments_json="{}")
SERVER_CALL = replace(CALL, requires_client_execution=False)
RESULT = AgentToolCallResult(
    tool_call_id="tc1", name="toolA", execution_ms=12, result_json='{"ok": true}'
)
SECOND_RESULT = replace(RESULT, tool_call_id="tc2", name="toolB")
ANSWERED = ToolCallManifest(
    tool_calls=(CALL, SECOND_CALL), tool_call_results=(RESULT, SECOND_RESULT)
)
"""Two calls with their results: a valid manifest (requirement P64)."""
WAITING = ToolCallManifest(tool_calls=(CALL,))
"""A call that the client has to answer."""

ENVELOPES: Mapping[AgentPipelineContextType, Envelope] = {
    INITIAL: Envelope(org="org", user="user", instructions="Where is my order?"),
    FOLLOW_ON: Envelope(
        org="org", user="user", session_id="s1", turn_id="t1", instructions="And the other one?"
    ),
    CONTINUATION: Envelope(
        org="org", user="user", session_id="s1", turn_id="t1", tool_results=(RESULT, SECOND_RESULT)
    ),
}
SESSION = Session(id="s1", mode="general", mode_display_name="General")
TURN = Turn(id="t1", messages=({"role": "user", "content": "Where is my order?"},))
NEXT_TURN = Turn(id="t2", messages=({"role": "user", "content": "And the other one?"},))
CONTEXTS = {
    "agent_context": AgentContext(id="a1"),
    "conversation_context": ConversationContext(id="c1", model="m"),
}
PAYLOAD = ResponsePayload(primary_output_text="It is on its way.")

_LEFT: Mapping[PipelineStep, Mapping[str, Any]] = {
    PipelineStep.REQUEST_HANDLER: {},
    PipelineStep.SESSION_RESTORER: {"session": SESSION, "turn": NEXT_TURN},
    PipelineStep.AGENT_CONTEXT_RESOLVER: CONTEXTS,
    PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER: {"session": SESSION, "turn": TURN},
    PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER: {"tool_call_manifest": ANSWERED},
    PipelineStep.AGENT_SESSION_CREATOR: {"session": SESSION, "turn": TURN},
    PipelineStep.AGENT_CONTEXT_LOADER: CONTEXTS,
    PipelineStep.ACP_COMMAND_HANDLER: {},
    PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER: {
        "prompt": PromptContent(ready=True, messages=TURN.messages)
    },
    PipelineStep.REASONER: {},
    PipelineStep.LLM_CLIENT: {"response_payload": PAYLOAD, "response_type": ResponseType.FINAL},
}
"""What each step but the last leaves behind."""


def kinds_at(step: PipelineStep) -> tuple[AgentPipelineContextType, ...]:
    """Return the types of requests whose walk goes by a step; all, for a step that is on none."""
    return tuple(kind for kind, walk in WALKS.items() if step in walk) or tuple(WALKS)


def received(kind: AgentPipelineContextType) -> AgentPipelineContext:
    """Make a context as the RequestHandler does."""
    return AgentPipelineContext(
        type=kind, time_stamp="2026-01-02T03:04:05Z", correlation_id="r1", envelope=ENVELOPES[kind]
    )


def before(
    step: PipelineStep, kind: AgentPipelineContextType | None = None
) -> AgentPipelineContext:
    """Make a good context for a step's PRE rules.

    By default it is on the first walk that goes by the step.
    """
    kind = kind or kinds_at(step)[0]
    walk = WALKS[kind] if step in WALKS[kind] else (step,)
    ctx = received(kind)
    for done in walk[: walk.index(step)]:
        ctx = replace(ctx, **_LEFT[done])
    return ctx


def after(step: PipelineStep, kind: AgentPipelineContextType | None = None) -> AgentPipelineContext:
    """Make a good context for a step's POST rules.

    The LLMClient's is a final one, see :func:`waiting`.
    """
    ctx = before(step, kind)
    return built(ctx) if step is PipelineStep.RESPONSE_BUILDER else replace(ctx, **_LEFT[step])


def waiting(kind: AgentPipelineContextType = INITIAL) -> AgentPipelineContext:
    """Make a good context that the LLMClient leaves behind when the client has to answer a call."""
    ctx = before(PipelineStep.LLM_CLIENT, kind)
    return replace(ctx, outgoing_manifest=WAITING, response_type=ResponseType.TOOL_CONTINUATION)


def response_of(ctx: AgentPipelineContext) -> AgentResponse:
    """Make a good response of a context from which one can be built."""
    session = ctx.session or SESSION
    turn = ctx.turn or TURN
    parts: dict[str, Any] = {
        "session_id": session.id,
        "turn_id": turn.id,
        "mode_display_name": session.mode_display_name,
    }

    if ctx.response_payload is not None:
        text = ctx.response_payload.primary_output_text
        return AgentResponse(kind=ResponseKind.FINAL, primary_output_text=text, **parts)

    pending = ctx.outgoing_manifest.pending if ctx.outgoing_manifest else ()
    return AgentResponse(kind=ResponseKind.CLIENT_TOOL_CONTINUATION, tool_calls=pending, **parts)


def built(ctx: AgentPipelineContext, response: object = None) -> AgentPipelineContext:
    """Make a context with a response built from it: a good one, unless another is given."""
    content: Any = response_of(ctx) if response is None else response
    return replace(ctx, built=BuiltResponse(response=content, fingerprint=fingerprint(ctx)))


def changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """Put other members, named by JSON Pointers, into a value.

    Whatever it is given is put there.
    """
    for path, member in changes.items():
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
        value = _with(value, tokens, member)
    return value


def _with(value: Any, tokens: list[str], member: Any) -> Any:
    """Put one member into a value, a list or an object of any depth."""
    if not tokens:
        return member

    first, *rest = tokens

    if isinstance(value, list | tuple):
        at = int(first)
        return (*value[:at], _with(value[at], rest, member), *value[at + 1 :])

    if isinstance(value, dict):
        return value | {first: _with(value.get(first), rest, member)}

    return replace(value, **{first: _with(getattr(value, first), rest, member)})


def plain(value: object) -> Any:
    """Write a content as the JSON that another program would send."""
    return to_jsonable_python(value)


@dataclass(frozen=True, slots=True)
class Case:
    """A content that breaks one rule alone, and the good one that it was made of."""

    good: Any
    bad: Any
    options: Mapping[str, Any] = field(default_factory=dict)


def case(good: Any, changes: Mapping[str, Any], **options: Any) -> Case:
    """Break a good content by some of its members; the options are the validator's."""
    return Case(good, changed(good, changes), options)


def judged(rule: PipelineRule, content: Any, **options: Any) -> InvokeResult:
    """Ask the one validator about the content of a rule's stage."""
    validator = AgentPipelineContextValidator(**options)

    match rule.stage:
        case RuleStage.CORE:
            return validator.validate_core(content)
        case RuleStage.PRE:
            return validator.validate_pre_step(content, rule.step or 0)
        case RuleStage.POST:
            return validator.validate_post_step(content, rule.step or 0)
        case RuleStage.MANIFEST:
            return validator.validate_tool_call_manifest(content)
        case RuleStage.RESPONSE:
            ctx = built(before(PipelineStep.RESPONSE_BUILDER), content)
            return validator.validate_post_step(ctx, PipelineStep.RESPONSE_BUILDER)
        case RuleStage.ENTRY:
            return validator.validate_pre_step(received(INITIAL), content)


def codes(result: InvokeResult) -> list[str]:
    """Return the codes of a result's errors, in order."""
    return [error.code.value for error in result.errors]


def rules(result: InvokeResult) -> list[str]:
    """Return the ids of the rules that a result's errors break, in order."""
    return [error.rule for error in result.errors]
