"""The rules that several steps share, before it is known where they stand; :mod:`.steps` places them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from strictreply.pipeline._kinds import PipelineStep
from strictreply.pipeline._results import InvokeCode
from strictreply.pipeline._rules.core import is_continuation
from strictreply.pipeline._rules.reading import has_entries, is_null, is_object, is_populated, is_present
from strictreply.pipeline._rules.rule import (
    Breaches,
    Condition,
    Profile,
    Rule,
    Stage,
    Subject,
    always,
    unless,
    where,
    where_each,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A rule that is not placed yet; the members are those of :class:`Rule`."""

    name: str
    code: InvokeCode
    message: str
    breaches: Breaches
    when: Condition = always
    profile: Profile = "published"

    def at(self, step: PipelineStep, section: str, stage: Stage) -> Rule:
        """Make the rule of one step, with an id such as ``session_restorer.pre.session_null``."""
        return Rule(
            id=f"{step.name.lower()}.{stage}.{self.name}",
            section=section,
            stage=stage,
            step=step,
            code=self.code,
            message=self.message,
            breaches=self.breaches,
            when=self.when,
            profile=self.profile,
        )

    def extended(self) -> Clause:
        """Ask the same in the extended profile alone."""
        return replace(self, profile="extended")


def _is_same_turn(subject: Subject) -> bool:
    """Tell whether there is a turn, and it is the one that the envelope names."""
    turn_id = subject["/turn/id"]
    return is_present(turn_id) and turn_id == subject["/envelope/turn_id"]


REQUEST_IDS: Final = Clause(
    name="ids_present",
    code=InvokeCode.REQUEST_ID_MISSING,
    message="the request must name the session and the turn that it goes on with",
    breaches=where_each(("/envelope/session_id", "/envelope/turn_id"), is_present),
)
TOOL_RESULTS: Final = Clause(
    name="tool_results_present",
    code=InvokeCode.TOOL_RESULTS_MISSING,
    message="the request must bring one tool result at least",
    breaches=where("/envelope/tool_results", has_entries),
)

SESSION: Final = Clause(
    name="session_populated",
    code=InvokeCode.SESSION_MISSING,
    message="there must be a session with an id",
    breaches=where("/session", is_populated),
)
TURN: Final = Clause(
    name="turn_populated",
    code=InvokeCode.TURN_MISSING,
    message="there must be a turn with an id",
    breaches=where("/turn", is_populated),
)
AGENT_CONTEXT: Final = Clause(
    name="agent_context_populated",
    code=InvokeCode.AGENT_CONTEXT_MISSING,
    message="there must be an agent context with an id",
    breaches=where("/agent_context", is_populated),
)
CONVERSATION_CONTEXT: Final = Clause(
    name="conversation_context_populated",
    code=InvokeCode.CONVERSATION_CONTEXT_MISSING,
    message="there must be a conversation context with an id",
    breaches=where("/conversation_context", is_populated),
)

NO_SESSION: Final = Clause(
    name="session_null",
    code=InvokeCode.SESSION_NOT_NULL,
    message="there must be no session yet",
    breaches=where("/session", is_null),
)
NO_TURN: Final = Clause(
    name="turn_null",
    code=InvokeCode.TURN_NOT_NULL,
    message="there must be no turn yet",
    breaches=where("/turn", is_null),
)
NO_AGENT_CONTEXT: Final = Clause(
    name="agent_context_null",
    code=InvokeCode.AGENT_CONTEXT_NOT_NULL,
    message="there must be no agent context yet",
    breaches=where("/agent_context", is_null),
)
NO_CONVERSATION_CONTEXT: Final = Clause(
    name="conversation_context_null",
    code=InvokeCode.CONVERSATION_CONTEXT_NOT_NULL,
    message="there must be no conversation context yet",
    breaches=where("/conversation_context", is_null),
)

MODE: Final = Clause(
    name="session_mode",
    code=InvokeCode.SESSION_MODE_MISSING,
    message="the mode of the session must not be blank",
    breaches=where("/session/mode", is_present),
    when=lambda subject: is_populated(subject["/session"]),
)
ANOTHER_TURN: Final = Clause(
    name="turn_differs",
    code=InvokeCode.TURN_NOT_NEW,
    message="the turn must be another than the one that the request follows on",
    breaches=unless(lambda subject: not _is_same_turn(subject), "/turn/id"),
)
SAME_TURN: Final = Clause(
    name="turn_same",
    code=InvokeCode.TURN_NOT_SAME,
    message="there must be a turn, the one that the request goes on with",
    breaches=unless(_is_same_turn, "/turn/id"),
)

READY: Final = Clause(
    name="prompt_ready",
    code=InvokeCode.PROMPT_NOT_READY,
    message="the prompt must be ready",
    breaches=where("/prompt/ready", lambda ready: ready is True),
)
MANIFEST_THERE: Final = Clause(
    name="manifest_not_null",
    code=InvokeCode.NULL_MANIFEST,
    message="a continuation must have a manifest",
    breaches=where("/tool_call_manifest", is_object),
    when=is_continuation,
)
MANIFEST_NOT_EMPTY: Final = Clause(
    name="manifest_not_empty",
    code=InvokeCode.EMPTY_MANIFEST,
    message="a continuation must answer one call at least",
    breaches=unless(lambda subject: subject["/tool_call_manifest/tool_calls"] not in ([], ()), "/tool_call_manifest"),
    when=is_continuation,
)
"""What the definition of a valid manifest leaves open (requirement P63)."""
