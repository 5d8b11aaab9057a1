"""The values of judging agents.

Codes, actions, the branch of an agent, what is permitted, and the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from strictreply.values._errors import ContractError, StrictReplyError
from strictreply.values._issues import Category, Issue, Worded
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import ToolCall


class CategorisedCode(Worded):
    """A code of coordination; all of them are corrected, none ends a loop."""

    def at(self, path: str, *, hint: str = "", found: str = "", **words: object) -> Issue:
        """Report this fault at a JSON Pointer.

        ``words`` fill the template and never come from a reply or a state.
        """
        return Issue.of(self, path, hint=hint, found=found, **words)


_ACTION = Category.ACTION_ERROR
_DENIED = Category.PERMISSION_ERROR


class AgentReplyCode(CategorisedCode):
    """The faults of an agent's reply, beside the core's codes."""

    ACTION_MISSING_FIELD = "action.missing_field", "is required"
    ACTION_UNKNOWN = "action.unknown", "no such action; the actions here are: {names}", _ACTION
    ACTION_NOT_PERMITTED = (
        "action.not_permitted",
        "may not be used here; the actions are: {names}",
        _ACTION,
    )
    ACTION_NO_QUESTION = "action.no_question", "the question must not be blank", _ACTION
    ACTION_REQUEST_UNKNOWN = (
        "action.request_unknown",
        "holds a request for an agent that is not in {names}",
    )
    ACTION_REQUEST_MISPLACED = (
        "action.request_misplaced",
        "must be in {names}, beside the agent_name it is for",
    )
    ACTION_CHECK_FAILED = (
        "action.check_failed",
        "the check {name} failed on this action",
        Category.UNKNOWN,
    )
    TOPOLOGY_NOT_ALLOWED = (
        "topology.not_allowed",
        "must be an agent that may follow; those are: {names}",
        _DENIED,
    )
    TOPOLOGY_MAY_NOT_FINISH = (
        "topology.may_not_finish",
        "this agent may not finish; the actions are: {names}",
        _DENIED,
    )
    TOPOLOGY_NO_USER = (
        "topology.no_user",
        "this agent may not ask the user; the actions are: {names}",
        _DENIED,
    )
    FORMAT_MALFORMED = "format.malformed", "must be {expected}"
    FORMAT_CHANGED = (
        "format.changed",
        "must be written in {name}, like this agent's earlier replies",
    )
    FORMAT_PROCESSOR_FAILED = "format.processor_failed", "the processor {name} failed on this reply"


class CoordinationCode(CategorisedCode):
    """The faults of a declaration or a state.

    They are mistakes of the application, which no agent can correct.
    """

    TOPOLOGY_MALFORMED = "topology.malformed", "must be {expected}"
    TOPOLOGY_BAD_NAME = "topology.bad_name", "an agent's name must be text that is not blank"
    TOPOLOGY_DUPLICATE_AGENT = "topology.duplicate_agent", "is declared twice"
    TOPOLOGY_DUPLICATE_EDGE = "topology.duplicate_edge", "is declared twice"
    TOPOLOGY_UNKNOWN_AGENT = "topology.unknown_agent", "names no declared agent"
    TOPOLOGY_RESERVED = "topology.reserved", "{reason}"
    TOPOLOGY_NO_ENTRY = (
        "topology.no_entry",
        "cannot be inferred from the edges; pass entry=, or give User an edge",
    )
    TOPOLOGY_UNREACHABLE = "topology.unreachable", "cannot be reached from the entry: {entries}"
    TOPOLOGY_NO_FINISH = (
        "topology.no_finish",
        "no agent has an edge to User or End, so no run could finish",
    )
    TOPOLOGY_UNKNOWN_PAIR = "topology.unknown_pair", "is marked as a conversation, but has no edge"
    ROUTES_BAD_NAME = "routes.bad_name", "must be text, not blank, without spaces around it"
    ROUTES_DUPLICATE = "routes.duplicate", "is declared twice"
    ROUTES_MISSING_NODE = "routes.missing_node", "must be among the nodes"
    ROUTES_BAD_RULE = "routes.bad_rule", "must be {expected}"
    ROUTES_BAD_LIMIT = "routes.bad_limit", "must be {expected}"
    ROUTES_NO_WEIGHT = "routes.no_weight", "at least one strategy needs a weight above 0"
    STATE_NOT_OBJECT = "state.not_object", "must be a mapping of text to values"
    STATE_MISSING_FIELD = "state.missing_field", "is required"
    STATE_WRONG_TYPE = "state.wrong_type", "must be {expected}"
    STATE_NEGATIVE = "state.negative", "must be 0 or more"
    STATE_BLANK = "state.blank", "must not be blank"
    STATE_UNKNOWN_NODE = "state.unknown_node", "must be null or one of {nodes}"
    STATE_UNKNOWN_WORD = "state.unknown_word", "must be one of {expected}"
    STATE_NOT_JSON = "state.not_json", "must be plain JSON that reads back equal"
    STATE_RUN_WAITS = "state.run_waits", "a run of this thread is not over; {remedy}"


class DeclarationError(ContractError):
    """A topology or a route table is declared wrongly.

    ``issues`` holds every fault found, at least one.
    """

    def __init__(self, what: str, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__(_listed(f"{what} is declared wrongly", self.issues))


class StateError(StrictReplyError, ValueError):
    """A state, or an update, lacks what routing needs.

    ``issues`` holds all faults, ``str()`` no value of the state.
    """

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__(_listed("the state cannot be used", self.issues))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.issues,)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON."""
        return super().to_dict() | {"issues": [issue.to_dict() for issue in self.issues]}


MAX_LISTED = 12


def _listed(headline: str, issues: tuple[Issue, ...]) -> str:
    lines = [
        f"  {issue.place}: {issue.message}{issue.hint and f'; {issue.hint}'}"
        for issue in issues[:MAX_LISTED]
    ]
    if len(issues) > MAX_LISTED:
        lines.append(f"  and {len(issues) - MAX_LISTED} more")

    return "\n".join([f"{headline}:", *lines])


class BranchType(StrEnum):
    """What kind of branch it is.

    Some actions are permitted in some kinds only (requirement M44).
    """

    SIMPLE = "simple"
    CONVERSATION = "conversation"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a run."""

    id: str = "main"
    """Name of the branch."""
    type: BranchType = BranchType.SIMPLE
    """What kind of branch it is."""
    agents: tuple[str, ...] = ()
    """The agents that take part in its conversation."""
    turns: int = 0
    """Turns that its conversation has had."""
    max_turns: int = 5
    """Most turns of its conversation."""
    is_parallel_spawn: bool = False
    """Whether every hand-over to several agents needs a request for each."""


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
    """One agent to hand over to.

    ``instance_id`` tells invocations of the same agent apart (requirement M32).
    """

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


# Actions with an answer as their content.
ANSWERING = frozenset({ActionType.FINAL_RESPONSE, ActionType.TERMINATE_WORKFLOW})
_ENDING = ANSWERING | {ActionType.END_CONVERSATION, ActionType.TERMINAL_ERROR}


@dataclass(frozen=True, slots=True)
class Source:
    """How a reply was read.

    ``response_format`` is its format, empty for native calls; ``notes`` are faults that did not
    count, ``leniency`` the lenient steps (X4).
    """

    response_format: str = ""
    notes: tuple[Issue, ...] = ()
    leniency: tuple[str, ...] = ()


UNREAD = Source()  # the source of what was never read from a reply


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The verdict on one reply (requirements M11 to M15)."""

    is_valid: bool
    """Whether the reply fits."""
    action_type: ActionType | None = None
    """The action of a valid reply; None for an invalid one."""
    parsed_response: JSONObject | None = None
    """The valid reply as it was read; None for an invalid one."""
    error_message: str | None = None
    """What is wrong, in our words; None for a valid reply."""
    retry_suggestion: str | None = None
    """What to retry with; None where a retry would not help."""
    invocations: list[AgentInvocation] = field(default_factory=list[AgentInvocation])
    """The agents to hand over to."""
    tool_calls: list[JSONObject] = field(default_factory=list[JSONObject])
    """The tool calls as plain JSON."""
    issues: tuple[Issue, ...] = ()
    """The faults of an invalid reply; empty for a valid one."""
    origin: Origin = Origin.MODEL
    """Who asked for the action."""
    calls: tuple[ToolCall, ...] = ()
    """``tool_calls`` with typed arguments."""
    permitted: Permitted | None = None
    """What the reply was judged by; None where it was not judged."""
    source: Source = UNREAD
    """How the reply was read."""

    @property
    def next_agents(self) -> list[str]:
        """The agents to hand over to, in order (requirement M12)."""
        return [invocation.agent_name for invocation in self.invocations]

    @property
    def next_agent(self) -> str | None:
        """The one agent to hand over to (requirement M13).

        None when there is no agent, or more than one.
        """
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
        """The answer of a final response, text or an object (requirement M14).

        None for any other result.
        """
        answers = self.is_valid and self.action_type in ANSWERING
        parsed = self.parsed_response if answers else None
        return None if parsed is None else parsed["content"]

    @property
    def should_end_branch(self) -> bool:
        """Whether the branch is over with this action (requirement M13)."""
        return self.is_valid and self.action_type in _ENDING

    @property
    def requires_tool_continuation(self) -> bool:
        """Whether the agent goes on with the results of tools (requirement M13)."""
        return self.is_valid and self.action_type is ActionType.CALL_TOOL
