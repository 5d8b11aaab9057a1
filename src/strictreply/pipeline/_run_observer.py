"""AGN-036 for runs of the tool loop: each step is checked against the rules, and may be refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

from strictreply.loop import Progress, RunLoop
from strictreply.loop.invoke_result import InvokeError
from strictreply.loop.values import ToolCallManifest
from strictreply.pipeline._line import errors_before, errors_behind
from strictreply.pipeline._validator import LOOP_VALIDATOR, AgentPipelineContextValidator
from strictreply.pipeline._values import (
    AgentPipelineContext,
    BuiltResponse,
    ConversationContext,
    PromptContent,
    ResponsePayload,
    ResponseType,
    fingerprint,
)


@dataclass(frozen=True, slots=True)
class PipelineObserver:
    """Checks the rules of AGN-036 before and after every step of a run.

    Pass it to ``run`` as ``observer=``. A run that breaks a rule ends at that step with
    InvokeFailed; nothing else changes. It has no state, so one observer serves all runs.
    ``validator`` should allow calls that are run here between two requests, as the default does.
    """

    validator: AgentPipelineContextValidator = LOOP_VALIDATOR
    """The rules; it should allow calls that are run between two requests."""

    def before(self, run: RunLoop, state: Progress) -> tuple[InvokeError, ...]:
        """Return the errors of the context before a step."""
        return errors_before(self.validator, context_of(run, state), run.step)

    def after(self, run: RunLoop, state: Progress) -> tuple[InvokeError, ...]:
        """Return the errors of the context after a step."""
        ctx = context_of(run, run.state)
        return errors_behind(self.validator, ctx, run.step, context_left(run, state))


def context_left(run: RunLoop, state: Progress) -> AgentPipelineContext:
    """Return the context after a step; a response's fingerprint is that of the context before."""
    ctx = context_of(run, state)
    if state.response is None:
        return ctx

    hash_ = fingerprint(context_of(run, run.state))
    return replace(ctx, built=BuiltResponse(response=state.response, fingerprint=hash_))


def context_of(run: RunLoop, state: Progress) -> AgentPipelineContext:
    """Return a state of a run as the context of AGN-036, without the response."""
    payload = None
    if state.answer is not None:
        payload = ResponsePayload(primary_output_text=state.answer, usage=state.usage)

    conversation = None
    if state.agent is not None:
        conversation = ConversationContext(id=run.conversation, model=run.model)

    prompt = PromptContent()
    if state.prompt is not None:
        prompt = PromptContent(ready=True, messages=state.prompt)

    return AgentPipelineContext(
        type=run.kind,
        time_stamp=run.time_stamp,
        correlation_id=run.correlation_id,
        envelope=run.request,
        session=state.session if state.session.id else None,
        turn=state.turn if state.turn.id else None,
        agent_context=state.agent,
        conversation_context=conversation,
        prompt=prompt,
        tool_call_manifest=state.resolved,
        outgoing_manifest=state.manifest,
        response_payload=payload,
        response_type=_response_type(state.manifest, has_answer=state.answer is not None),
    )


def _response_type(manifest: ToolCallManifest | None, *, has_answer: bool) -> ResponseType:
    if has_answer:
        return ResponseType.FINAL
    if manifest is None:
        return ResponseType.NOT_READY

    is_clients = all(call.requires_client_execution for call in manifest.pending)
    return ResponseType.TOOL_CONTINUATION if is_clients else ResponseType.SERVER_TOOLS
