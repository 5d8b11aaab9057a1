"""What a run rejects from outside: in the request, the agent, a stored session, or a reply.

Codes, rules and places are those of AGN-036. A layer above the loop checks every step by the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from strictreply.loop._manifest_checks import is_text, manifest_errors
from strictreply.loop._run_state import Progress
from strictreply.loop.invoke_result import InvokeCode as Code
from strictreply.loop.invoke_result import InvokeError, InvokeResult
from strictreply.loop.values import (
    AgentPipelineContextType,
    Envelope,
    PipelineStep,
    ResponseKind,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A state in which a step must not end."""

    rule: str
    """Id of the rule."""
    code: Code
    """Code of the error."""
    path: str
    """Where it is, as a JSON Pointer into the context of AGN-036."""
    breaks: Callable[[Envelope, Progress], bool]
    """Whether a request and the progress after the step break the rule."""


def _lacks_input(request: Envelope, _: Progress) -> bool:
    # AcceptedReply is checked only if the request has an owner, like the rules of a type.
    parts = request.tool_results or request.input_artifacts or request.clip_board_images
    has_input = bool(parts) or is_text(request.instructions)
    return not has_input and is_text(request.org) and is_text(request.user)


def _has_no_words(_: Envelope, state: Progress) -> bool:
    response = state.response
    is_final = response is not None and response.kind is ResponseKind.FINAL
    return response is not None and is_final and not is_text(response.primary_output_text)


def _of_session(restorer: PipelineStep) -> tuple[Refusal, Refusal]:
    """Return the refusals of a stored session."""
    place = f"{restorer.name.lower()}.post"
    return (
        Refusal(
            f"{place}.session_populated",
            Code.SESSION_MISSING,
            "/session",
            lambda _, state: not is_text(state.session.id),
        ),
        Refusal(
            f"{place}.session_mode",
            Code.SESSION_MODE_MISSING,
            "/session/mode",
            lambda _, state: is_text(state.session.id) and not is_text(state.session.mode),
        ),
    )


_WAITING: Final = PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER
_WAITING_SESSION, _WAITING_MODE = _of_session(_WAITING)

REFUSALS: Final[Mapping[PipelineStep, tuple[Refusal, ...]]] = {
    PipelineStep.REQUEST_HANDLER: (
        Refusal("core.org", Code.CORE_ORG, "/envelope/org", lambda got, _: not is_text(got.org)),
        Refusal(
            "core.user", Code.CORE_USER, "/envelope/user", lambda got, _: not is_text(got.user)
        ),
        Refusal("core.input", Code.INPUT_MISSING, "/envelope", _lacks_input),
    ),
    **{
        step: (
            Refusal(
                f"{step.name.lower()}.post.agent_context_populated",
                Code.AGENT_CONTEXT_MISSING,
                "/agent_context",
                lambda _, state: state.agent is None or not is_text(state.agent.id),
            ),
        )
        for step in (PipelineStep.AGENT_CONTEXT_RESOLVER, PipelineStep.AGENT_CONTEXT_LOADER)
    },
    PipelineStep.SESSION_RESTORER: _of_session(PipelineStep.SESSION_RESTORER),
    _WAITING: (
        _WAITING_SESSION,
        Refusal(
            "client_tool_call_session_restorer.post.turn_same",
            Code.TURN_NOT_SAME,
            "/turn/id",
            lambda request, state: state.turn.id != request.turn_id,
        ),
        _WAITING_MODE,
    ),
    PipelineStep.RESPONSE_BUILDER: (
        Refusal(
            "response.mode_display_name",
            Code.RESPONSE_MODE,
            "/built/response/mode_display_name",
            lambda _, state: not is_text(state.session.mode_display_name),
        ),
        Refusal(
            "response.final.primary_output_text",
            Code.OUTPUT_TEXT_MISSING,
            "/built/response/primary_output_text",
            _has_no_words,
        ),
    ),
}
"""The refusals after each step.

Data without a row was made by strictreply, or checked before; a PipelineObserver proves it.
"""
REFUSED_BEHIND: Final = frozenset({*REFUSALS, PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER})
"""The steps after which something may be refused."""


def errors_left(step: PipelineStep, request: Envelope, state: Progress) -> tuple[InvokeError, ...]:
    """Return the errors after a step."""
    if step is PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER and state.resolved is not None:
        return manifest_errors(state.resolved, at="/tool_call_manifest")

    rows = REFUSALS.get(step, ())
    broken = [row for row in rows if row.breaks(request, state)]
    return tuple([row.code.error(row.rule, path=row.path) for row in broken]) if broken else ()


def type_of(envelope: Envelope) -> AgentPipelineContextType | InvokeResult:
    """Return a request's type.

    If it has none, return INVALID_REQUEST for each missing or blank member.
    """
    if not envelope.session_id and not envelope.turn_id and not envelope.tool_results:
        return AgentPipelineContextType.INITIAL

    ids: dict[str, object] = {"session_id": envelope.session_id, "turn_id": envelope.turn_id}
    missing = [name for name, id_ in ids.items() if not isinstance(id_, str) or not id_.strip()]

    if not missing:
        continued = AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION
        return continued if envelope.tool_results else AgentPipelineContextType.FOLLOW_ON

    if len(missing) == len(ids) and not envelope.tool_results:
        return AgentPipelineContextType.INITIAL

    broken = Code.INVALID_REQUEST.error
    errors = (broken(f"request.{name}_present", path=f"/envelope/{name}") for name in missing)
    return InvokeResult(errors=tuple(errors))
