"""The table of actions, and what one agent may do at one moment.

The table has the schema, words, needs and an example of each action.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from strictreply.contract._channels import compact
from strictreply.contract._contract import Contract
from strictreply.contract._models import Findings
from strictreply.contract._quarantine import by_name
from strictreply.contract._tool import Tool
from strictreply.coordination._actions import (
    ActionType,
    AgentReplyCode,
    Branch,
    BranchType,
    Origin,
    Permitted,
)
from strictreply.coordination._topology import USER, Topology
from strictreply.schema import Schema
from strictreply.values._errors import ContractError
from strictreply.values._issues import Issue, quote
from strictreply.values._limits import DEFAULT_LIMITS, JSON, Extra, JSONObject, Limits

# What becomes of members that the shape of an action does not name (X3).
ExtraKeys: TypeAlias = Literal["forbid", "allow"]
MAX_LISTED = 20
MAX_INVOCATIONS = 128  # how many agents one action may hand over to at once


class Need(StrEnum):
    """What an agent needs for an action."""

    NEXT_AGENT = auto()
    FINISH = auto()
    USER = auto()
    TOOLS = auto()
    CONVERSATION = auto()
    PARALLEL = auto()
    LEAVE = auto()  # the application permits it expressly
    SYSTEM = auto()  # no agent has it


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
    """What an agent must have to use it, all of it."""
    example: JSONObject | Example = field(default_factory=dict[str, JSON])
    """The members of an example, or the function that makes them."""
    properties: JSONObject = field(default_factory=dict[str, JSON])
    """Its members by name, all required but the ``optional`` ones."""
    optional: tuple[str, ...] = ()
    """Names of the members that may be left out."""
    systemic: bool = False
    """Whether the system may always use it (X8)."""

    def described(self, allowed: Permitted) -> str:
        """Return what the action does and with whom, for a model that is ``allowed`` to use it."""
        return self.words.format(agents=listed(allowed.agents), tools=listed(allowed.tools))


def listed(names: tuple[str, ...]) -> str:
    """Return names as one text, the first twenty of them."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(names[:MAX_LISTED]) or "none") + more


def _object(properties: JSONObject, *optional: str) -> JSONObject:
    required: list[JSON] = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def document_of(action: ActionType) -> JSONObject:
    """Return the JSON Schema of an action as a model is shown it.

    ``thought`` is always optional (requirement M39).
    """
    shape = SHAPES[action]
    members: JSONObject = {"thought": _STRING, "next_action": {"const": action.value}}
    return _object(members | shape.properties, "thought", *shape.optional)


@lru_cache(maxsize=1_024)
def action_schema(allowed: Permitted, extra: ExtraKeys) -> Schema:
    """Return the schema of all that an agent may reply, permitted names as enumerations.

    The schemas are kept: branches are of few kinds.
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
    """Return the compiled schema of an action.

    With ``extra="allow"`` members that it does not name pass.
    """
    return Schema.compile(document_of(action), extra="forbid" if extra == "forbid" else "schema")


@cache
def member_names() -> frozenset[str]:
    """Return every member name that an action speaks of: only these may stand in a path."""
    return frozenset[str]().union(*(schema_of(action).names for action in SHAPES))


def without_nulls(action: JSONObject, kind: ActionType) -> JSONObject:
    """Return a copy of an action without the nulls of members that may be omitted, at any depth.

    They are the members that the action, or the printed ``AgentResponse``, may omit.
    """
    return cast("JSONObject", _without_nulls(action, document_of(kind), _OPTIONAL))


def _without_nulls(value: JSON, schema: Any, omissible: frozenset[str] | None = None) -> JSON:
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
# The names of agents and tools: a model is shown those that are permitted instead.
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
_ABOUT_ERROR: JSONObject = {"type": _TEXT, "message": _TEXT, "provider": _STRING}
_ABOUT_ERROR["retry_after"] = {"type": "number", "minimum": 0}  # seconds
_ERROR_DETAILS: JSON = _object(_ABOUT_ERROR, "provider", "retry_after")
_AGENTS: JSON = {"type": "array", "items": _NAME, "minItems": 2, "maxItems": MAX_INVOCATIONS}
_REQUESTS: JSON = {"type": "object", "additionalProperties": _ANYTHING_ASKED}
_INVOKED: JSON = {"anyOf": [_NAME, _ONE_INVOCATION, _INVOCATIONS]}
_INVOCATION: JSONObject = {"action_input": _INVOKED, "request": _ANYTHING_ASKED}
_CALLS: JSONObject = {"tool_calls": {"type": "array", "items": _TOOL_CALL, "minItems": 1}}
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
        _INVOCATION,
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
        _CALLS,
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
"""The members that may be null.

They are those that an action may omit, and those of the published ``AgentResponse``.
"""
_SIMPLE = Branch()


def permitted_actions(
    topology: Topology,
    agent: str,
    *,
    branch: Branch | None = None,
    tools: Collection[str] = (),
    leave: frozenset[ActionType] = frozenset(),
    allowed_agents: Iterable[str] | None = None,
    origin: Origin = Origin.MODEL,
) -> Permitted:
    """Return what ``agent`` may do with ``tools``, in ``branch``, None for a simple one.

    ``leave`` are the actions that an application permits expressly; ``allowed_agents`` narrow whom
    the agent may hand over to, None leaves all. Raises ContractError when the topology does not
    have the agent.
    """
    targets = topology.allowed_targets(agent)

    # the system needs no permission for its own actions, and may turn to the user (M49, X8)
    if origin is Origin.SYSTEM:
        systemic = tuple(one for one, shape in SHAPES.items() if shape.systemic)
        return Permitted(agent, systemic, (*targets, USER))

    if allowed_agents is not None:
        named = {name.strip() for name in allowed_agents}
        targets = tuple(target for target in targets if target in named)

    branch = branch or _SIMPLE
    takes_part = not branch.agents or agent in branch.agents
    standing = {
        Need.NEXT_AGENT: targets,
        Need.TOOLS: tools,
        Need.CONVERSATION: branch.type is BranchType.CONVERSATION and takes_part,  # M44
        Need.FINISH: topology.may_finish(agent),
        Need.USER: topology.may_ask_user(agent),
        Need.PARALLEL: branch.type is BranchType.PARALLEL,
    }
    met = frozenset(need for need, is_met in standing.items() if is_met)
    return Permitted(agent, actions_of(met, leave), targets, tuple(tools))


@cache
def actions_of(
    met: frozenset[Need], leave: frozenset[ActionType] = frozenset()
) -> tuple[ActionType, ...]:
    """Return the actions of an agent that has met these needs.

    There are few such sets: each is worked out once.
    """
    with_leave = met | {Need.LEAVE}
    actions: list[ActionType] = []
    for action, shape in SHAPES.items():
        has = with_leave if action in leave else met
        if has.issuperset(shape.needs):
            actions.append(action)

    return tuple(actions)


def refusal_of(action: ActionType, allowed: Permitted) -> Issue:
    """Report an action that is not permitted.

    The code is that of the first of its needs that no permitted action has.
    """
    met = {need for other in allowed.actions for need in SHAPES[other].needs}
    lacking = [need for need in SHAPES[action].needs if need not in met]
    code = LACKING[lacking[0]] if lacking else AgentReplyCode.ACTION_NOT_PERMITTED
    names = allowed.agents if code is AgentReplyCode.TOPOLOGY_NOT_ALLOWED else allowed.actions
    return code.at("/next_action", names=listed(names), found=quote(action.value))


def not_allowed(agent: str, at: str, allowed: tuple[str, ...], *, hint: str = "") -> Issue:
    """Report an agent that may not follow, at a JSON Pointer."""
    names = listed(allowed)
    return AgentReplyCode.TOPOLOGY_NOT_ALLOWED.at(at, names=names, hint=hint, found=quote(agent))


def action_named(name: str) -> ActionType:
    """Return an action by its name; raises ContractError, which lists those there are."""
    if name not in tuple(ActionType):
        raise ContractError(f"{name!r} is not an action; the actions are: {', '.join(ActionType)}")
    return ActionType(name)


def read_leave(names: Iterable[str]) -> frozenset[ActionType]:
    """Read the actions that an application permits expressly.

    Raises ContractError for one that is the system's own.
    """
    leave = frozenset(map(action_named, names))
    for action in leave:
        if Need.SYSTEM in SHAPES[action].needs:
            raise ContractError(
                f"{action.value!r} is reserved for the system; no agent can be permitted to use it"
            )

    return leave


# A check is given the action and what is permitted, and returns issues or raises ValueError.
ActionCheck: TypeAlias = Callable[[JSONObject, Permitted], Findings]
Checks: TypeAlias = Mapping[ActionType, tuple[ActionCheck, ...]]


@dataclass(frozen=True, slots=True)
class ActionTerms:
    """What an action is judged by."""

    permitted: Permitted
    """What the agent may do."""
    tools: Contract
    """The contract of tool calls, several at once permitted."""
    branch: Branch = _SIMPLE
    """The branch that the agent replies in."""
    extra: ExtraKeys = "forbid"
    """What becomes of keys that the action does not have."""
    checks: Checks = field(default_factory=lambda: MappingProxyType({}))
    """The application's checks by name, run last."""
    place: tuple[JSON, ...] = ()
    """Where the conversation stands, for the ids of agents' instances; empty when unknown."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """An agent as its prompt presents it (requirement M63)."""

    name: str
    """Name of the agent."""
    goal: str
    """What the agent is for."""
    instruction: str
    """How the agent is to work."""
    tools: dict[str, object] | None = None
    """Its tools by name, each anything that declares one; None for no tools."""
    tools_schema: list[JSONObject] | None = None
    """OpenAI tool definitions in place of ``tools``; None to use ``tools``."""
    input_schema: JSONObject | None = None
    """JSON Schema of what the agent is given; None for anything."""
    output_schema: JSONObject | None = None
    """JSON Schema of its answer; None for anything."""
    memory_retention: str = "session"
    """How long the application keeps the agent's memory; strictreply only carries it."""


@dataclass(frozen=True, slots=True)
class CoordinationContext:
    """What the coordination permits an agent (M63).

    ``actions`` are the permitted ones, None for those that follow from the other fields.
    """

    next_agents: list[str] = field(default_factory=list[str])
    can_return_final_response: bool = False
    actions: tuple[ActionType, ...] | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])

    @classmethod
    def of(cls, terms: ActionTerms) -> CoordinationContext:
        """Return exactly what replies are judged by."""
        return cls.of_permitted(terms.permitted, terms.tools.by_name)

    @classmethod
    def of_permitted(cls, allowed: Permitted, tools: Mapping[str, Tool]) -> CoordinationContext:
        """Return what is permitted; calls of ``tools`` can be shown as examples."""
        may_finish = ActionType.FINAL_RESPONSE in allowed.actions
        return cls(list(allowed.agents), may_finish, allowed.actions, tools)

    def permitted(self, agent: str = "") -> Permitted:
        """Return what is permitted, for an agent of this name."""
        agents = tuple(self.next_agents)
        standing = {
            Need.NEXT_AGENT: agents,
            Need.FINISH: self.can_return_final_response,
            Need.TOOLS: self.tools,
        }
        met = frozenset(need for need, is_met in standing.items() if is_met)
        actions = actions_of(met) if self.actions is None else self.actions
        return Permitted(agent, actions, agents, tuple(self.tools))


# Anything that declares tools (see Tool.of), in a list, or in a mapping by the tools' names.
Declared: TypeAlias = Iterable[object] | Mapping[str, object]


class Toolsets:
    """The compiled tools of a topology's agents, for all or by name.

    Raises ContractError for unknown agents and bad tools.
    """

    __slots__ = ("_declared", "_kept", "_limits", "_shared")

    def __init__(
        self,
        topology: Topology,
        tools: Declared | Mapping[str, Declared],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._shared = self._contract(() if isinstance(tools, Mapping) else tools)

        own = cast("Mapping[str, Declared]", tools) if isinstance(tools, Mapping) else {}
        for agent in own:
            topology.neighbours(agent)

        self._declared = {agent: self._contract(declared) for agent, declared in own.items()}
        self._kept: dict[str, tuple[tuple[object, ...], Contract]] = {}

    def of(self, agent: str, own: Declared | None = None) -> Contract:
        """Return the contract of calls of an agent's tools.

        ``own``, what the agent declares itself, goes before the rest.
        """
        if own is None:
            return self._declared.get(agent, self._shared)

        declared = tuple(own.items()) if isinstance(own, Mapping) else tuple(own)
        kept = self._kept.get(agent)
        if kept is None or kept[0] != declared:
            self._kept[agent] = kept = (declared, self._contract(own))
        return kept[1]

    def _contract(self, declared: Declared) -> Contract:
        return Contract(tools=compiled(declared).values(), parallel=True, limits=self._limits)


def compiled(declared: object) -> dict[str, Tool]:
    """Compile declarations of tools, by name; those of a mapping by their keys.

    Raises ContractError for what does not declare a tool, and for two tools of the same name.
    """
    if isinstance(declared, Mapping):
        named = cast("Mapping[str, object]", declared)
        return by_name(replace(Tool.of(tool), name=name) for name, tool in named.items())
    if isinstance(declared, Iterable) and not isinstance(declared, str):
        return by_name(Tool.of(tool) for tool in declared)

    raise ContractError(
        f"tools must be a list of tools, or a mapping by name, not {type(declared).__name__}"
    )
