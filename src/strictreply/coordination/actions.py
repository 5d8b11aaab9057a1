"""The actions of agents: their names, members and words, the verdict on one, and all codes.

The names are those of the published Validation API, as is the form of the calls in ``call_tool``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from functools import cache, lru_cache
from typing import Literal, TypeAlias, cast

from strictreply import Category, ContractError, Issue, StrictReplyError, Tool, ToolCall
from strictreply.core import JSON, Extra, JSONObject
from strictreply.core.text import Worded, compact, quote
from strictreply.schema import Schema, SchemaRule

__all__ = [
    "ActionType",
    "AgentInvocation",
    "AgentReplyCode",
    "Branch",
    "BranchType",
    "CoordinationCode",
    "DeclarationError",
    "Origin",
    "Permitted",
    "Source",
    "StateError",
    "ValidationResult",
]


class CategorisedCode(Worded):
    """A code of coordination; all of them are corrected, none ends a loop."""

    def at(self, path: str, *, hint: str = "", found: str = "", **words: object) -> Issue:
        """Report this fault at a JSON Pointer.

        ``words`` fill the template and never come from a reply or a state.
        """
        return Issue.of(self, path, hint=hint, found=found, **words)


_ACTION = Category.ACTION_ERROR
_DENIED = Category.PERMISSION_ERROR
_MISSING = f"action.{SchemaRule.REQUIRED}"


class AgentReplyCode(CategorisedCode):
    """The faults of an agent's reply, in addition to the core's codes."""

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
        "has a request for an agent that is not in {names}",
    )
    ACTION_REQUEST_MISPLACED = (
        "action.request_misplaced",
        "must be in {names}, next to the agent_name that it is for",
    )
    ACTION_CHECK_FAILED = (
        "action.check_failed",
        "the check {name} failed on this action",
        Category.UNKNOWN,
    )
    TOPOLOGY_NOT_ALLOWED = (
        "topology.not_allowed",
        "must be an agent that may follow; the agents are: {names}",
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

    They are mistakes of the application; an agent cannot correct them.
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
        "no agent has an edge to User or End, so a run could not finish",
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
    STATE_RUN_WAITS = "state.run_waits", "a run of this thread has not ended; {remedy}"


class DeclarationError(ContractError):
    """A topology or a route table is declared wrongly.

    ``issues`` has every fault, at least one.
    """

    def __init__(self, what: str, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        """Every fault found, at least one."""
        super().__init__(_listed(f"{what} is declared wrongly", self.issues))


class StateError(StrictReplyError, ValueError):
    """A state, or an update of it, cannot be used for routing.

    ``issues`` has every fault. ``str()`` shows no value of the state.
    """

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        """Every fault found."""
        super().__init__(_listed("the state cannot be used", self.issues))

    @classmethod
    def raise_for(cls, issues: Iterable[Issue]) -> None:
        """Raise the error if there are issues."""
        if found := tuple(issues):
            raise cls(found)

    def __reduce__(self) -> tuple[type[StateError], tuple[tuple[Issue, ...]]]:
        return type(self), (self.issues,)

    def to_dict(self) -> JSONObject:
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
    """The type of a branch; some actions are permitted only in some types."""

    SIMPLE = "simple"
    """One agent after the other."""
    CONVERSATION = "conversation"
    """Agents that talk in turns."""
    PARALLEL = "parallel"
    """One of several branches at once."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a run; a run without parallel agents has only the main branch."""

    id: str = "main"
    """Id of the branch."""
    type: BranchType = BranchType.SIMPLE
    """Type of the branch."""
    agents: tuple[str, ...] = ()
    """The agents that take part in its conversation."""
    turns: int = 0
    """Turns of its conversation so far."""
    max_turns: int = 5
    """Most turns of its conversation."""
    is_parallel_spawn: bool = False
    """Whether every hand-over to several agents needs a request for each."""


class ActionType(StrEnum):
    """The next action; the values are those of ``next_action``."""

    INVOKE_AGENT = "invoke_agent"
    """Hand over to other agents."""
    PARALLEL_INVOKE = "parallel_invoke"
    """Hand over to two or more agents at once."""
    CALL_TOOL = "call_tool"
    """Call tools."""
    FINAL_RESPONSE = "final_response"
    """Give the answer of the run."""
    END_CONVERSATION = "end_conversation"
    """End the conversation of this branch."""
    WAIT_AND_AGGREGATE = "wait_and_aggregate"
    """Wait for the other branches."""
    ERROR_RECOVERY = "error_recovery"
    """Bring an error to the person."""
    TERMINAL_ERROR = "terminal_error"
    """End the run with an error."""
    AUTO_RETRY = "auto_retry"  # the system's own
    """Do the same step again; only the system asks for it."""
    TERMINATE_WORKFLOW = "terminate_workflow"
    """End the whole run."""
    ASK_USER = "ask_user"
    """Ask the person a question."""

    def check(self, action: JSONObject, extra: ExtraKeys = "forbid") -> tuple[Issue, ...]:
        """Return the faults in the shape of an action of this type.

        With ``extra="allow"`` unknown members pass. Permissions are not checked here.
        """
        issues = schema_of(self, extra).check(action, place="action")
        # a missing member has its own code (requirement X9)
        missing = AgentReplyCode.ACTION_MISSING_FIELD.value
        return tuple(
            replace(issue, code=missing) if issue.code == _MISSING else issue for issue in issues
        )


class Origin(StrEnum):
    """Who chose an action; only actions of the system need no permission."""

    MODEL = "model"
    """The model wrote it."""
    SYSTEM = "system"
    """The application or this library made it."""


@dataclass(frozen=True, slots=True)
class AgentInvocation:
    """One agent to hand over to.

    ``instance_id`` distinguishes invocations of the same agent.
    """

    agent_name: str
    """The agent to hand over to."""
    request: JSON = None
    """What it is asked; None for nothing."""
    instance_id: str = ""
    """Tells invocations of the same agent apart."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """What one agent may do at one moment; ``agents`` are the agents that it may hand over to."""

    agent: str
    """The name of the agent."""
    actions: tuple[ActionType, ...] = ()
    """The permitted actions."""
    agents: tuple[str, ...] = ()
    """The agents that it may hand over to."""
    tools: tuple[str, ...] = ()
    """The tools that it may call."""

    def action_refusal(self, action: ActionType) -> Issue:
        """Report an action that is not permitted.

        The code belongs to the action's first need that no permitted action has.
        """
        met = {need for other in self.actions for need in SHAPES[other].needs}
        lacking = [need for need in SHAPES[action].needs if need not in met]
        code = LACKING[lacking[0]] if lacking else AgentReplyCode.ACTION_NOT_PERMITTED
        names = self.agents if code is AgentReplyCode.TOPOLOGY_NOT_ALLOWED else self.actions
        return code.at("/next_action", names=listed(names), found=quote(action.value))

    def agent_refusal(self, name: str, at: str, *, hint: str = "") -> Issue:
        """Report an agent, at a JSON Pointer, to which this agent may not hand over."""
        names = listed(self.agents)
        return AgentReplyCode.TOPOLOGY_NOT_ALLOWED.at(at, names=names, hint=hint, found=quote(name))


# Actions with an answer as their content.
ANSWERING = frozenset({ActionType.FINAL_RESPONSE, ActionType.TERMINATE_WORKFLOW})
_ENDING = ANSWERING | {ActionType.END_CONVERSATION, ActionType.TERMINAL_ERROR}


@dataclass(frozen=True, slots=True)
class Source:
    """How a reply was read.

    ``response_format`` is its format, empty for native calls. ``notes`` are faults that do not make
    it invalid, and ``lenient`` the lenient steps that were needed.
    """

    response_format: str = ""
    """The name of the format; empty for native calls."""
    notes: tuple[Issue, ...] = ()
    """Faults that did not count."""
    lenient: tuple[str, ...] = ()
    """The lenient steps that were taken."""


UNREAD = Source()  # the source of a result that was not read from a reply


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The verdict on one reply."""

    is_valid: bool
    """Whether the reply fits."""
    action_type: ActionType | None = None
    """The action of a valid reply; None for an invalid one."""
    parsed_response: JSONObject | None = None
    """The valid reply as it was read; None for an invalid one."""
    error_message: str | None = None
    """What is wrong, without text of the model; None for a valid reply."""
    retry_suggestion: str | None = None
    """What to retry with; None if a retry would not help."""
    invocations: list[AgentInvocation] = field(default_factory=list[AgentInvocation])
    """The agents to hand over to."""
    tool_calls: list[JSONObject] = field(default_factory=list[JSONObject])
    """The tool calls as plain JSON."""
    issues: tuple[Issue, ...] = ()
    """The faults of an invalid reply; empty for a valid one."""
    origin: Origin = Origin.MODEL
    """Who chose the action."""
    calls: tuple[ToolCall, ...] = ()
    """``tool_calls`` with typed arguments."""
    permitted: Permitted | None = None
    """What the agent was permitted to do; None if the reply was not judged."""
    source: Source = UNREAD
    """How the reply was read."""

    @property
    def next_agents(self) -> list[str]:
        """The agents to hand over to, in order."""
        return [invocation.agent_name for invocation in self.invocations]

    @property
    def next_agent(self) -> str | None:
        """The one agent to hand over to; None if there is none or several."""
        return self.next_agents[0] if len(self.invocations) == 1 else None

    @property
    def error_category(self) -> Category | None:
        """The category of the first fault; None for a valid result."""
        return self.issues[0].category if self.issues else None

    @property
    def code(self) -> str:
        """The code of the first fault; empty for a valid result."""
        return self.issues[0].code if self.issues else ""

    @property
    def final_response(self) -> JSON:
        """The answer of a final response, text or an object.

        None for any other result.
        """
        answers = self.is_valid and self.action_type in ANSWERING
        parsed = self.parsed_response if answers else None
        return None if parsed is None else parsed["content"]

    @property
    def should_end_branch(self) -> bool:
        """Whether this action ends the branch."""
        return self.is_valid and self.action_type in _ENDING

    @property
    def requires_tool_continuation(self) -> bool:
        """Whether the agent continues with the results of tools."""
        return self.is_valid and self.action_type is ActionType.CALL_TOOL


# How an action's unknown members are treated (X3).
ExtraKeys: TypeAlias = Literal["forbid", "allow"]
MAX_NAMES = 20
MAX_INVOCATIONS = 128  # how many agents one action may hand over to at once


class Need(StrEnum):
    """What an agent needs for an action."""

    NEXT_AGENT = auto()
    FINISH = auto()
    USER = auto()
    TOOLS = auto()
    CONVERSATION = auto()
    PARALLEL = auto()
    LEAVE = auto()  # the application must permit it explicitly
    SYSTEM = auto()  # agents never have it


# The fault of an agent that has not met a need.
LACKING = dict.fromkeys(Need, AgentReplyCode.ACTION_NOT_PERMITTED) | {
    Need.NEXT_AGENT: AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    Need.FINISH: AgentReplyCode.TOPOLOGY_MAY_NOT_FINISH,
    Need.USER: AgentReplyCode.TOPOLOGY_NO_USER,
}

Tools: TypeAlias = Mapping[str, Tool]
Example: TypeAlias = Callable[[Permitted, Tools], "JSONObject | None"]


@dataclass(frozen=True, slots=True)
class ActionShape:
    """One action: who may use it, and its members."""

    words: str
    """What the action does. {agents} and {tools} stand for those that are permitted."""
    needs: tuple[Need, ...]
    """Everything that an agent must have to use it."""
    example: JSONObject | Example = field(default_factory=dict[str, JSON])
    """The members of an example, or the function that makes them."""
    properties: JSONObject = field(default_factory=dict[str, JSON])
    """Its members by name; all except the ``optional`` ones are required."""
    optional: tuple[str, ...] = ()
    """Names of the members that may be left out."""
    systemic: bool = False
    """Whether the system may always use it (X8)."""

    def described(self, allowed: Permitted) -> str:
        """Return what the action does and with whom, for a model that is ``allowed`` to use it."""
        return self.words.format(agents=listed(allowed.agents), tools=listed(allowed.tools))


def listed(names: tuple[str, ...]) -> str:
    """Return names as one text, the first twenty of them."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return (", ".join(names[:MAX_NAMES]) or "none") + more


def _object(properties: JSONObject, *optional: str) -> JSONObject:
    required: list[JSON] = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def document_of(action: ActionType) -> JSONObject:
    """Return the JSON Schema of an action, as the model sees it.

    ``thought`` is always optional (requirement M39).
    """
    shape = SHAPES[action]
    members: JSONObject = {"thought": _STRING, "next_action": {"const": action.value}}
    return _object(members | shape.properties, "thought", *shape.optional)


@lru_cache(maxsize=1_024)
def action_schema(allowed: Permitted, extra: ExtraKeys) -> Schema:
    """Return the schema of all valid replies of an agent, with permitted names as enums.

    The schemas are cached, because there are few different ones.
    """
    branches: list[JSON] = [_narrowed(document_of(action), allowed) for action in allowed.actions]
    document: JSON = {"anyOf": branches}
    closed: Extra = "forbid" if extra == "forbid" else "schema"
    return Schema.compile(document, extra=closed, root_closed=False)


def _narrowed(schema: JSON, allowed: Permitted) -> JSON:
    if schema is _NAME or schema is _TOOL:
        return {"enum": list(allowed.agents if schema is _NAME else allowed.tools)}
    if isinstance(schema, dict):
        return {key: _narrowed(part, allowed) for key, part in schema.items()}
    if isinstance(schema, list):
        return [_narrowed(part, allowed) for part in schema]

    return schema


@cache
def schema_of(action: ActionType, extra: ExtraKeys = "forbid") -> Schema:
    """Return the compiled schema of an action; with ``extra="allow"`` unknown members pass."""
    return Schema.compile(document_of(action), extra="forbid" if extra == "forbid" else "schema")


@cache
def member_names() -> frozenset[str]:
    """Return the names of all members of actions; paths in issues contain only these."""
    return frozenset[str]().union(*(schema_of(action).names for action in SHAPES))


def without_nulls(action: JSONObject, kind: ActionType) -> JSONObject:
    """Return a copy of an action without null members that may be omitted, at any depth.

    The action, or the published ``AgentResponse``, says which members may be omitted.
    """
    return cast("JSONObject", _without_nulls(action, document_of(kind), _OPTIONAL))


def _without_nulls(
    value: JSON, schema: JSONObject, omissible: frozenset[str] | None = None
) -> JSON:
    for way in schema.get("anyOf", [schema]):
        if isinstance(value, dict) and "properties" in way:
            known = way["properties"]
            needed = way["required"]
            dropped = {key for key in omissible or known if key not in needed}
            return {
                key: _without_nulls(part, known.get(key, {}))
                for key, part in value.items()
                if part is not None or key not in dropped
            }

        if isinstance(value, list) and "items" in way:
            return [_without_nulls(part, way["items"]) for part in value]

    return value


@cache
def actions_of(
    met: frozenset[Need], leave: frozenset[ActionType] = frozenset()
) -> tuple[ActionType, ...]:
    """Return the actions of an agent that meets these needs; the results are cached."""
    with_leave = met | {Need.LEAVE}
    return tuple(
        action
        for action, shape in SHAPES.items()
        if (with_leave if action in leave else met).issuperset(shape.needs)
    )


def action_named(name: str) -> ActionType:
    """Return an action by its name; raise ContractError for an unknown name."""
    if name not in tuple(ActionType):
        raise ContractError(f"{name!r} is not an action; the actions are: {', '.join(ActionType)}")
    return ActionType(name)


def example_of(action: ActionType, allowed: Permitted, tools: Tools) -> JSONObject | None:
    """Return a valid reply that asks for a permitted action.

    None when there are no agents, or when its tools admit no example.
    """
    example = SHAPES[action].example
    members = example(allowed, tools) if callable(example) else example
    return None if members is None else {"next_action": action.value, **members}


def _invocation(allowed: Permitted, _tools: Tools) -> JSONObject | None:
    return {"action_input": allowed.agents[0], "request": _REQUEST} if allowed.agents else None


def _invocations(allowed: Permitted, _tools: Tools) -> JSONObject | None:
    agents = list((allowed.agents * 2)[:2])  # where there is one only, two instances of it
    return {"agents": agents, "agent_requests": dict.fromkeys(agents, _REQUEST)} if agents else None


def _call(allowed: Permitted, tools: Tools) -> JSONObject | None:
    for name in allowed.tools:
        arguments = tools[name].parameters.example() if name in tools else None
        if arguments is not None:
            function = {"name": name, "arguments": compact(arguments)}
            return {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}

    return None


_REQUEST = "what you want done"
_WRONG = "what went wrong"
_ERROR = {"type": "kind_of_error", "message": _WRONG}
_STRING: JSON = {"type": "string"}
_TEXT: JSON = {"type": "string", "pattern": r"\S"}
# The names of agents and tools; the model sees the permitted names instead.
_NAME: JSON = {"type": "string", "pattern": r"\S"}
_TOOL: JSON = {"type": "string"}
_ANYTHING_ASKED: JSON = {"type": ["string", "object", "array"]}
_ONE_INVOCATION: JSON = _object({"agent_name": _NAME, "request": _ANYTHING_ASKED}, "request")
_INVOCATIONS: JSON = {
    "type": "array",
    "items": _ONE_INVOCATION,
    "minItems": 1,
    "maxItems": MAX_INVOCATIONS,
}
_FUNCTION: JSON = _object({"name": _TOOL, "arguments": _STRING})
_TOOL_CALL: JSON = _object(
    {"id": _STRING, "type": {"const": "function"}, "function": _FUNCTION}, "type"
)
_ERROR_DETAILS: JSON = _object(
    {
        "type": _TEXT,
        "message": _TEXT,
        "provider": _STRING,
        "retry_after": {"type": "number", "minimum": 0},  # seconds
    },
    "provider",
    "retry_after",
)
_AGENTS: JSON = {"type": "array", "items": _NAME, "minItems": 2, "maxItems": MAX_INVOCATIONS}
_REQUESTS: JSON = {"type": "object", "additionalProperties": _ANYTHING_ASKED}
_ANSWER: tuple[JSONObject, JSONObject] = (
    {"content": "your answer"},
    {"content": {"anyOf": [_TEXT, {"type": "object"}]}},
)

# Every action (requirements M16 to M40).
SHAPES: Mapping[ActionType, ActionShape] = {
    ActionType.INVOKE_AGENT: ActionShape(
        "hand over to one of these agents: {agents}",
        (Need.NEXT_AGENT,),
        _invocation,
        {
            "action_input": {"anyOf": [_NAME, _ONE_INVOCATION, _INVOCATIONS]},
            "request": _ANYTHING_ASKED,
        },
        ("request",),
    ),
    ActionType.PARALLEL_INVOKE: ActionShape(
        "hand over to two or more of these agents at once, each with its own request: {agents}",
        (Need.NEXT_AGENT,),
        _invocations,
        {"agents": _AGENTS, "agent_requests": _REQUESTS},
        ("agent_requests",),
    ),
    ActionType.CALL_TOOL: ActionShape(
        "call one or more of these tools, the arguments of each as a JSON text: {tools}",
        (Need.TOOLS,),
        _call,
        {"tool_calls": {"type": "array", "items": _TOOL_CALL, "minItems": 1}},
    ),
    ActionType.FINAL_RESPONSE: ActionShape(
        "finish with your answer, text or an object, in content", (Need.FINISH,), *_ANSWER
    ),
    ActionType.END_CONVERSATION: ActionShape("end this conversation", (Need.CONVERSATION,)),
    ActionType.WAIT_AND_AGGREGATE: ActionShape(
        "wait until the parallel branches are done and gather what they found", (Need.PARALLEL,)
    ),
    ActionType.ERROR_RECOVERY: ActionShape(
        "report an error that the user can help with",
        (Need.USER,),
        {"error_details": _ERROR, "suggested_action": "retry"},
        {"error_details": _ERROR_DETAILS, "suggested_action": _STRING},
        ("suggested_action",),
        systemic=True,
    ),
    ActionType.TERMINAL_ERROR: ActionShape(
        "stop with an error that cannot be fixed",
        (Need.LEAVE,),
        {"error": _WRONG},
        {"error": _TEXT},
        systemic=True,
    ),
    ActionType.AUTO_RETRY: ActionShape(
        "try the same again",
        (Need.SYSTEM,),
        {"error_details": _ERROR | {"type": "timeout"}},
        {"error_details": _ERROR_DETAILS},
        systemic=True,
    ),
    ActionType.TERMINATE_WORKFLOW: ActionShape(
        "finish the whole workflow with your answer, text or an object, in content",
        (Need.FINISH, Need.LEAVE),
        *_ANSWER,
    ),
    ActionType.ASK_USER: ActionShape(
        "ask the user the question in question",
        (Need.USER,),
        {"question": "your question"},
        {"question": _STRING},
    ),
}

_OPTIONAL = frozenset({"thought", "action_input", "agents"}).union(
    *(shape.optional for shape in SHAPES.values())
)
"""The members that may be null: those that an action, or the published ``AgentResponse``, may omit.
"""
