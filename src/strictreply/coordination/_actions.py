"""The values that judging passes on: actions, the branch an agent replies in, what is permitted, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from strictreply.values._issues import Category, Issue
from strictreply.values._json import JSON, JSONObject
from strictreply.values._replies import ToolCall


class BranchType(StrEnum):
    """What kind of branch it is; some actions are permitted in some kinds only (requirement M44)."""

    SIMPLE = "simple"
    CONVERSATION = "conversation"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a run: ``agents`` take part in its conversation, which has had ``turns`` of ``max_turns``.

    ``is_parallel_spawn`` says that the agent may hand over to several at once only with a request for each.
    """

    id: str = "main"
    type: BranchType = BranchType.SIMPLE
    agents: tuple[str, ...] = ()
    turns: int = 0
    max_turns: int = 5
    is_parallel_spawn: bool = False


class ActionType(StrEnum):
    """What to do next; the values are the words of ``next_action`` (requirements M16 to M24)."""

    INVOKE_AGENT = "invoke_agent"
    PARALLEL_INVOKE = "parallel_invoke"
    CALL_TOOL = "call_tool"
    FINAL_RESPONSE = "final_response"
    END_CONVERSATION = "end_conversation"
    WAIT_AND_AGGREGATE = "wait_and_aggregate"
    ERROR_RECOVERY = "error_recovery"
    TERMINAL_ERROR = "terminal_error"
    AUTO_RETRY = "auto_retry"  # the system's own
    TERMINATE_WORKFLOW = "terminate_workflow"
    ASK_USER = "ask_user"


class Origin(StrEnum):
    """Who asked for an action: only the system's own need no permission (requirement X8)."""

    MODEL = "model"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class AgentInvocation:
    """One agent to hand over to; ``instance_id`` tells invocations of the same agent apart (requirement M32)."""

    agent_name: str
    request: JSON = None
    instance_id: str = ""


@dataclass(frozen=True, slots=True)
class Permitted:
    """What one agent may do at one moment, by names: ``agents`` are those it may hand over to."""

    agent: str
    actions: tuple[ActionType, ...] = ()
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


_FINAL = frozenset({ActionType.FINAL_RESPONSE, ActionType.TERMINATE_WORKFLOW})
_ENDING = _FINAL | {ActionType.END_CONVERSATION, ActionType.TERMINAL_ERROR}


@dataclass(frozen=True, slots=True)
class Source:
    """How a reply was read: in which format (empty for native calls and foreign shapes), by which lenient steps (X4).

    ``notes`` are faults that did not count: a processor that failed where another could read the reply, a format that
    changed.
    """

    response_format: str = ""
    notes: tuple[Issue, ...] = ()
    leniency: tuple[str, ...] = ()


UNREAD = Source()  # the source of what was never read from a reply


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What became of one reply (requirements M11 to M15).

    A valid result has ``action_type`` and ``parsed_response``; an invalid one has ``issues``, in our words
    ``error_message``, and a ``retry_suggestion`` where another ask may help. ``calls`` are the ``tool_calls`` with
    typed arguments, ``origin`` says who asked for the action, and ``permitted`` is what the reply was held to.
    """

    is_valid: bool
    action_type: ActionType | None = None
    parsed_response: JSONObject | None = None
    error_message: str | None = None
    retry_suggestion: str | None = None
    invocations: list[AgentInvocation] = field(default_factory=list[AgentInvocation])
    tool_calls: list[JSONObject] = field(default_factory=list[JSONObject])
    issues: tuple[Issue, ...] = ()
    origin: Origin = Origin.MODEL
    calls: tuple[ToolCall, ...] = ()
    permitted: Permitted | None = None
    source: Source = UNREAD

    @property
    def next_agents(self) -> list[str]:
        """The agents to hand over to, in order (requirement M12)."""
        return [invocation.agent_name for invocation in self.invocations]

    @property
    def next_agent(self) -> str | None:
        """The one agent to hand over to; None when there is none or more than one (requirement M13)."""
        return self.next_agents[0] if len(self.invocations) == 1 else None

    @property
    def error_category(self) -> Category | None:
        """The category of the first fault, None for a valid result (requirement M15)."""
        return self.issues[0].category if self.issues else None

    @property
    def code(self) -> str:
        """The code of the first fault, empty for a valid result."""
        return self.issues[0].code if self.issues else ""

    @property
    def final_response(self) -> JSON:
        """The answer of a final response, text or an object; None for any other result (requirement M14)."""
        parsed = self.parsed_response if self.is_valid and self.action_type in _FINAL else None
        return None if parsed is None else parsed["content"]

    @property
    def should_end_branch(self) -> bool:
        """Whether the branch is over with this action (requirement M13)."""
        return self.is_valid and self.action_type in _ENDING

    @property
    def requires_tool_continuation(self) -> bool:
        """Whether the agent goes on with the results of tools (requirement M13)."""
        return self.is_valid and self.action_type is ActionType.CALL_TOOL
