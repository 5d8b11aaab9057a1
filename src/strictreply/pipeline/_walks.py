"""The three legal walks: what a request is, which step comes first, and which comes after another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strictreply.pipeline._kinds import AgentPipelineContextType, PipelineStep
from strictreply.pipeline._results import InvokeCode, InvokeError, InvokeResult
from strictreply.pipeline._values import AgentPipelineContext, AgentToolCall, Envelope
from strictreply.values._errors import ContractError

_IDS: Final = ("session_id", "turn_id")
_SHARED: Final = (PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER, PipelineStep.REASONER)

OPENINGS: Final[Mapping[AgentPipelineContextType, tuple[PipelineStep, ...]]] = MappingProxyType(
    {
        AgentPipelineContextType.INITIAL: (
            PipelineStep.REQUEST_HANDLER,
            PipelineStep.AGENT_CONTEXT_RESOLVER,
            PipelineStep.AGENT_SESSION_CREATOR,
            *_SHARED,
        ),
        AgentPipelineContextType.FOLLOW_ON: (
            PipelineStep.REQUEST_HANDLER,
            PipelineStep.SESSION_RESTORER,
            PipelineStep.AGENT_CONTEXT_LOADER,
            *_SHARED,
        ),
        AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION: (
            PipelineStep.REQUEST_HANDLER,
            PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
            PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
            PipelineStep.AGENT_CONTEXT_LOADER,
            *_SHARED,
        ),
    }
)
"""How each walk begins, until the Reasoner; from there all go Reasoner and LLMClient in turns (requirement P43)."""

ROUND: Final = (PipelineStep.LLM_CLIENT, PipelineStep.RESPONSE_BUILDER)
"""The steps that follow on the Reasoner in every walk."""


def type_of(envelope: Envelope) -> AgentPipelineContextType | InvokeResult:
    """Tell what a request is from what it brings (requirement P26).

    Nothing is an Initial, a session and a turn a FollowOn, these with tool results a ClientToolCallContinuation. Of
    anything else the result names each member that is missing, with INVALID_REQUEST; a blank one counts as missing.
    """
    missing = [name for name in _IDS if not _has_text(getattr(envelope, name))]
    if not missing:
        continued = AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION
        return continued if envelope.tool_results else AgentPipelineContextType.FOLLOW_ON
    if len(missing) == len(_IDS) and not envelope.tool_results:
        return AgentPipelineContextType.INITIAL
    return InvokeResult(errors=tuple(_missing(name) for name in missing))


def first_step(ctx: AgentPipelineContext) -> PipelineStep:
    """Give the step that a request enters by."""
    return OPENINGS.get(ctx.type, (PipelineStep.REQUEST_HANDLER,))[0]


def next_step(ctx: AgentPipelineContext, done: PipelineStep) -> PipelineStep | None:
    """Give the step that follows on ``done``, when ``done`` left ``ctx`` behind; None after the ResponseBuilder.

    After the LLMClient come calls that are run here to the Reasoner. After the Reasoner comes the LLMClient, unless
    calls wait for the client. Raises ContractError when the walk of the request's type does not go by ``done``.
    """
    match done:
        case PipelineStep.RESPONSE_BUILDER:
            return None
        case PipelineStep.LLM_CLIENT:
            here = any(not call.requires_client_execution for call in _pending(ctx))
            return PipelineStep.REASONER if here else PipelineStep.RESPONSE_BUILDER
        case PipelineStep.REASONER:
            waits = any(call.requires_client_execution for call in _pending(ctx))
            return PipelineStep.RESPONSE_BUILDER if waits else PipelineStep.LLM_CLIENT
        case _:
            return _next_of_opening(ctx, done)


def steps_of(kind: AgentPipelineContextType) -> tuple[PipelineStep, ...]:
    """Give every step of a walk once, in the order in which they are first met."""
    return (*OPENINGS[kind], *ROUND)


def _next_of_opening(ctx: AgentPipelineContext, done: PipelineStep) -> PipelineStep:
    """Give the step after one that stands before the Reasoner."""
    opening = OPENINGS.get(ctx.type, ())
    if done not in opening:
        raise ContractError(f"step {int(done)} is not on the walk of this request; see strictreply.pipeline._walks")
    return opening[opening.index(done) + 1]


def _pending(ctx: AgentPipelineContext) -> tuple[AgentToolCall, ...]:
    """Give the calls of the model's last reply that have no result yet."""
    return () if ctx.outgoing_manifest is None else ctx.outgoing_manifest.pending


def _has_text(value: object) -> bool:
    """Tell whether an id is there."""
    return isinstance(value, str) and bool(value.strip())


def _missing(name: str) -> InvokeError:
    """Report an id without which the request means nothing."""
    return InvokeError(
        code=InvokeCode.INVALID_REQUEST,
        rule=f"request.{name}_present",
        message="a request names both its session and its turn, or neither; tool results need both",
        path=f"/envelope/{name}",
    )
