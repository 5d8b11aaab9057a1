"""One turn of the tool loop: the body of each step, the walk from request to response, and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from strictreply.pipeline._invoke_result import InvokeCode, InvokeError, InvokeFailed, InvokeResult
from strictreply.pipeline._line import EffectRaised, LineResult, LineStatus, StepBody, line_flow, type_of
from strictreply.pipeline._reconciling import ask, resolve_results, turn_of, with_turns
from strictreply.pipeline._rule import RuleGroup
from strictreply.pipeline._sessions import SessionStore
from strictreply.pipeline._turn_effects import (
    TurnEffect,
    TurnState,
    TurnStep,
    UseStore,
    stored,
    substitute_result,
    suppressed_result,
    with_results,
)
from strictreply.pipeline._validator import CORE, LOOP_VALIDATOR, STEPS
from strictreply.pipeline._values import (
    AgentPipelineContext,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    BuiltResponse,
    ConversationContext,
    Envelope,
    PipelineStep,
    PromptContent,
    ResponseKind,
    ResponseType,
    Session,
    Turn,
    fingerprint,
)
from strictreply.values._limits import Message

_CONVERSATION: Final = "default"


@dataclass(slots=True, kw_only=True)
class TurnSteps(TurnState):
    """The bodies of one turn's steps, over a store, a model and tools."""

    @property
    def bodies(self) -> Mapping[PipelineStep, StepBody]:
        """The body of each step of the three walks."""
        return {
            PipelineStep.REQUEST_HANDLER: lambda ctx: ctx,  # as it is: the core rules are held to it behind this step
            PipelineStep.SESSION_RESTORER: self.restore_session,
            PipelineStep.AGENT_CONTEXT_RESOLVER: self.load_contexts,
            PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER: self.restore_turn,
            PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER: partial(resolve_results, self),
            PipelineStep.AGENT_SESSION_CREATOR: self.create_session,
            PipelineStep.AGENT_CONTEXT_LOADER: self.load_contexts,
            PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER: self.compose_prompt,
            PipelineStep.REASONER: self.reason,
            PipelineStep.LLM_CLIENT: partial(ask, self),
            PipelineStep.RESPONSE_BUILDER: self.build_response,
        }

    def create_session(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Begin a session with the caller's messages, and its first turn with the last of them."""
        *before, last = ctx.envelope.messages
        session = Session(
            id=self.new_id(),
            org=str(ctx.envelope.org),
            user=str(ctx.envelope.user),
            agent_context_id=self.agent.id,
            conversation_context_id=_CONVERSATION,
            messages=tuple(before),
        )
        return replace(ctx, session=session, turn=Turn(id=self.new_id(), messages=(last,)))

    def restore_session(self, ctx: AgentPipelineContext) -> TurnStep:
        """Go on with a session, in a new turn."""
        session = yield from self._session(ctx)
        last: Turn | None = yield from stored(lambda store: store.turn(session.id, session.last_turn_id))
        messages: list[Message] = []
        if last is not None and last.waiting is not None:  # nobody went on with it: what was said and run is kept
            results = {result.tool_call_id: result for result in last.waiting.tool_call_results}
            limit = self.policy.max_result_chars
            left = {call.tool_call_id: substitute_result(call, "Abandoned", limit) for call in last.waiting.pending}
            messages = [*last.messages, *self.result_turns(with_results(last.waiting, results | left))]
        turn = with_turns(Turn(id=self.new_id()), [*messages, *ctx.envelope.messages])
        return replace(ctx, session=session, turn=turn)

    def restore_turn(self, ctx: AgentPipelineContext) -> TurnStep:
        """Go on with the turn that waits for the client."""
        envelope = ctx.envelope
        session = yield from self._session(ctx)
        turn: Turn | None = yield from stored(lambda store: store.turn(envelope.session_id, envelope.turn_id))
        if turn is None:
            message = "no turn of this session has this id"
            raise InvokeFailed((InvokeCode.NOT_FOUND.error("loop.session", message, path="/envelope/turn_id"),))
        return replace(ctx, session=session, turn=replace(turn, waiting=None))

    def load_contexts(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Set the agent context and the conversation context."""
        conversation = ConversationContext(id=_CONVERSATION, model=self.model)
        return replace(ctx, agent_context=self.agent, conversation_context=conversation)

    def compose_prompt(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Compose what stands before the turn's own messages."""
        system = [{"role": "system", "content": self.agent.instructions}] if self.agent.instructions else []
        before = ctx.session.messages if ctx.session else ()
        return replace(ctx, prompt=PromptContent(ready=True, messages=(*system, *before)))

    def reason(self, ctx: AgentPipelineContext) -> TurnStep:
        """Run the calls that are run here; then ask again, or leave the rest to the client."""
        turn, manifest = turn_of(ctx), ctx.outgoing_manifest
        if manifest is None:
            self.refuse_endless(turn)
            return ctx
        results: dict[str, AgentToolCallResult] = {}
        wanted: list[AgentToolCall] = []
        for call in manifest.tool_calls:
            if call.tool_call_id in self.suppressed:
                results[call.tool_call_id] = suppressed_result(call)
            elif not call.requires_client_execution:
                wanted.append(call)
        results |= yield from self.run_calls(wanted)
        manifest = with_results(manifest, results)
        if manifest.pending:
            return replace(ctx, outgoing_manifest=manifest, response_type=ResponseType.TOOL_CONTINUATION)
        turn = with_turns(turn, self.result_turns(manifest))
        return replace(ctx, turn=turn, outgoing_manifest=None, response_type=ResponseType.NOT_READY)

    def build_response(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Build the response, and leave everything else as it is."""
        final = ctx.response_type is ResponseType.FINAL
        session, turn = ctx.session or Session(id=""), turn_of(ctx)
        response = AgentResponse(
            kind=ResponseKind.FINAL if final else ResponseKind.CLIENT_TOOL_CONTINUATION,
            session_id=session.id,
            turn_id=turn.id,
            mode_display_name=session.mode_display_name,
        )
        if final and ctx.response_payload is not None:
            said = ctx.response_payload
            response = replace(response, primary_output_text=said.primary_output_text, usage=said.usage)
        elif ctx.outgoing_manifest is not None:
            response = replace(response, tool_calls=ctx.outgoing_manifest.pending)
        return replace(ctx, built=BuiltResponse(response=response, fingerprint=fingerprint(ctx)))

    def _session(self, ctx: AgentPipelineContext) -> Generator[TurnEffect, Any, Session]:
        envelope = ctx.envelope
        session: Session | None = yield from stored(lambda store: store.session(envelope.session_id))
        if session is None or (session.org, session.user) != (envelope.org, envelope.user):
            message = "no session has this id in this store; a session of another process needs a shared store"
            raise InvokeFailed((InvokeCode.NOT_FOUND.error("loop.session", message, path="/envelope/session_id"),))
        if session.last_turn_id != envelope.turn_id:
            raise InvokeFailed((InvokeCode.STALE_TURN.error("loop.session", path="/envelope/turn_id"),))
        return session


JUDGED_BEHIND: Final[Mapping[PipelineStep, tuple[RuleGroup, ...]]] = {
    PipelineStep.REQUEST_HANDLER: CORE,  # the request as the caller made it: no later step may change it
    **{
        # all but the hash of the context: the line compares it member by member
        step: (tuple(r for r in STEPS[step].post or () if getattr(r, "code", None) is not InvokeCode.CONTEXT_CHANGED),)
        for step in (
            PipelineStep.AGENT_CONTEXT_RESOLVER,  # the caller's agent
            PipelineStep.AGENT_CONTEXT_LOADER,
            PipelineStep.SESSION_RESTORER,  # what a store kept
            PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
            PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,  # the client's results, and what was kept of earlier ones
            PipelineStep.RESPONSE_BUILDER,  # the model's words, and the session's; the rest is compared by the line
        )
    },
}
"""The rules of what is not of our own making, by step; ``tests/running/conftest.py`` judges all steps in full."""


def turn_flow(
    envelope: Envelope, steps: TurnSteps, *, time_stamp: str, correlation_id: str, cancelled: Callable[[], bool]
) -> Generator[TurnEffect, Any, LineResult]:
    """Take a request down the line; a turn that completed, or waits for the client, is saved in one piece.

    ``time_stamp`` is when the request came, as ISO 8601; ``correlation_id`` names it in logs. A turn that failed or was
    aborted leaves the store as it was: the client may send its results again. One that completed and could not be saved
    has failed with what the store raised, and keeps its context. Raises InvokeFailed for a request of no type.
    """
    kind = type_of(envelope)
    if isinstance(kind, InvokeResult):
        raise InvokeFailed(kind.errors)
    line = yield from line_flow(
        AgentPipelineContext(type=kind, time_stamp=time_stamp, correlation_id=correlation_id, envelope=envelope),
        steps.bodies,
        validator=LOOP_VALIDATOR,
        cancelled=cancelled,
        clock=time.perf_counter,
        judged_behind=JUDGED_BEHIND,
    )
    settle = _save(line.context, steps) if line.status is LineStatus.COMPLETED else release(steps)
    settled = (yield UseStore(settle)) if settle is not None else None
    if isinstance(settled, EffectRaised) and line.status is LineStatus.COMPLETED:
        return replace(line, status=LineStatus.FAILED, cause=settled.error)
    return line


def _save(ctx: AgentPipelineContext, steps: TurnSteps) -> Callable[[SessionStore], None] | None:
    session, turn = ctx.session, ctx.turn
    if session is None or turn is None:
        return None
    ended = turn.messages if ctx.response_type is ResponseType.FINAL else ()
    kept = replace(session, messages=session.messages + ended)
    return lambda store: store.save(kept, turn, waiting=ctx.outgoing_manifest, consumed=steps.claim)


def release(steps: TurnSteps) -> Callable[[SessionStore], None] | None:
    """Release what a turn has claimed, or may have claimed when interrupted; None when it has claimed nothing."""
    claimed, claiming = steps.claim, steps.claiming
    if claiming is None:
        return None

    def settle(store: SessionStore) -> None:
        claim = store.claim(*claiming) if claimed is None else claimed
        if not isinstance(claim, InvokeError):
            store.release(claim)

    return settle
