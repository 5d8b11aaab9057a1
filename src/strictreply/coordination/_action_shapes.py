"""The table of actions: for each its JSON Schema, its words for a model, who may use it, how an example is made.

Everything that is said about an action, to a judge or to a model, is read from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import Any, Literal, TypeAlias

from strictreply.contract._describing import compact
from strictreply.contract._tool import Tool
from strictreply.coordination._actions import ActionType, Permitted
from strictreply.coordination._coordination_codes import AgentReplyCode
from strictreply.schema import Schema
from strictreply.values._json import JSON, Extra, JSONObject

ExtraKeys: TypeAlias = Literal["forbid", "allow"]
"""Whether an action may have members that its shape does not name (requirement X3)."""

MAX_LISTED = 20
MAX_INVOCATIONS = 128
"""How many agents one action may hand over to at once."""


class Need(Enum):
    """What an agent needs for an action."""

    NEXT_AGENT = auto()
    FINISH = auto()
    USER = auto()
    TOOLS = auto()
    CONVERSATION = auto()
    PARALLEL = auto()
    LEAVE = auto()  # the application says so expressly
    SYSTEM = auto()  # no agent has it

    @property
    def code(self) -> AgentReplyCode:
        """The code of the fault of an agent that lacks it."""
        return _LACKING.get(self, AgentReplyCode.ACTION_NOT_PERMITTED)


_LACKING = {
    Need.NEXT_AGENT: AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    Need.FINISH: AgentReplyCode.TOPOLOGY_MAY_NOT_FINISH,
    Need.USER: AgentReplyCode.TOPOLOGY_NO_USER,
}
Tools: TypeAlias = Mapping[str, Tool]
Example: TypeAlias = Callable[[Permitted, Tools], "JSONObject | None"]


@dataclass(frozen=True, slots=True)
class ActionShape:
    """One action, which an agent may use when it has all of ``needs``, the system always when ``systemic`` (X8).

    ``properties`` are its members beside ``next_action`` and ``thought``. ``words`` say what it does; ``{agents}`` and
    ``{tools}`` in them are filled with what is permitted. ``example`` are the members of a valid example, or makes
    them: None when there is none to be made.
    """

    words: str
    needs: tuple[Need, ...]
    example: JSONObject | Example = field(default_factory=dict[str, JSON])
    properties: JSONObject = field(default_factory=dict[str, JSON])
    required: tuple[str, ...] = ()
    systemic: bool = False

    def told(self, allowed: Permitted) -> str:
        """Return what the action does and with whom, for a model that is ``allowed`` to use it."""
        return self.words.format(agents=listed(allowed.agents), tools=listed(allowed.tools))


def listed(names: tuple[str, ...]) -> str:
    """List names as text, the first twenty of them."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(names[:MAX_LISTED]) or "none") + more


def document_of(action: ActionType) -> JSONObject:
    """Return the JSON Schema of an action as a model is shown it; ``thought`` is always optional (requirement M39)."""
    shape = SHAPES[action]
    members = {"thought": {"type": "string"}, "next_action": {"const": action.value}}
    return {"type": "object", "properties": members | shape.properties, "required": ["next_action", *shape.required]}


def union_document(allowed: Permitted) -> JSONObject:
    """Return the JSON Schema of all that an agent may reply, with the names that are permitted spelt out."""
    return {"anyOf": [_narrowed(document_of(action), allowed) for action in allowed.actions]}


def _narrowed(schema: JSON, allowed: Permitted) -> JSON:
    if schema is _NAME or schema is _TOOL:
        return {"enum": list(allowed.agents if schema is _NAME else allowed.tools)}
    if isinstance(schema, dict):
        return {key: _narrowed(part, allowed) for key, part in schema.items()}
    return [_narrowed(part, allowed) for part in schema] if isinstance(schema, list) else schema


@cache
def schema_of(action: ActionType, extra: ExtraKeys = "forbid") -> Schema:
    """Return the compiled schema of an action; with ``extra="allow"`` members that it does not name pass."""
    return Schema.compile(document_of(action), extra=closing(extra))


def closing(extra: ExtraKeys) -> Extra:
    """Return the core's word for ``extra``: a schema as written is open to members that it does not name."""
    return "forbid" if extra == "forbid" else "schema"


@cache
def member_names() -> frozenset[str]:
    """Return every member name that an action speaks of: only these may stand in a path."""
    return frozenset[str]().union(*(schema_of(action).names for action in SHAPES))


def without_nulls(action: JSONObject, kind: ActionType) -> JSONObject:
    """Copy an action without the optional members that are null: the published formats say ``Optional`` of them.

    That holds for the members of its parts, and for those of other actions that the printed ``AgentResponse`` fills
    with null, or that are optional there. A member that the action needs stays, and any other.
    """
    schema: Any = document_of(kind)
    needed = schema["required"]
    given = {key: part for key, part in action.items() if part is not None or key in needed or key not in _OPTIONAL}
    return {key: _part_without_nulls(part, schema["properties"].get(key)) for key, part in given.items()}


def _part_without_nulls(value: JSON, schema: Any) -> JSON:
    """Copy a part of an action as its schema describes it; what the schema leaves open is not looked into."""
    for way in () if schema is None else schema.get("anyOf", [schema]):
        if isinstance(value, dict) and "properties" in way:
            known, needed = way["properties"], way["required"]
            given = {key: part for key, part in value.items() if part is not None or key in needed or key not in known}
            return {key: _part_without_nulls(part, known.get(key)) for key, part in given.items()}
        if isinstance(value, list) and "items" in way:
            return [_part_without_nulls(part, way["items"]) for part in value]
    return value


def example_of(action: ActionType, allowed: Permitted, tools: Tools) -> JSONObject | None:
    """Make a valid reply that asks for a permitted action; None when there are no agents, or its tools admit none."""
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
_ERROR = {"type": "kind_of_error", "message": "what went wrong"}
_NAME: JSON = {"type": "string", "pattern": r"\S"}
_TOOL: JSON = {"type": "string"}
_TEXT: JSON = {"type": "string", "pattern": r"\S"}
_ANYTHING_ASKED: JSON = {"type": ["string", "object", "array"]}
_ONE_INVOCATION: JSON = {
    "type": "object",
    "properties": {"agent_name": _NAME, "request": _ANYTHING_ASKED},
    "required": ["agent_name"],
}
_INVOCATIONS: JSON = {"type": "array", "items": _ONE_INVOCATION, "minItems": 1, "maxItems": MAX_INVOCATIONS}
_FUNCTION: JSON = {
    "type": "object",
    "properties": {"name": _TOOL, "arguments": {"type": "string"}},
    "required": ["name", "arguments"],
}
_TOOL_CALL: JSON = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "type": {"const": "function"}, "function": _FUNCTION},
    "required": ["id", "function"],
}
_ERROR_DETAILS: JSON = {
    "type": "object",
    "properties": {
        "type": _TEXT,
        "message": _TEXT,
        "provider": {"type": "string"},
        "retry_after": {"type": "number", "minimum": 0},
    },
    "required": ["type", "message"],
}
_CONTENT: JSON = {"anyOf": [_TEXT, {"type": "object"}]}

SHAPES: Mapping[ActionType, ActionShape] = {
    ActionType.INVOKE_AGENT: ActionShape(
        "hand over to one of these agents: {agents}",
        (Need.NEXT_AGENT,),
        _invocation,
        {"action_input": {"anyOf": [_NAME, _ONE_INVOCATION, _INVOCATIONS]}, "request": _ANYTHING_ASKED},
        ("action_input",),
    ),
    ActionType.PARALLEL_INVOKE: ActionShape(
        "hand over to two or more of these agents at once, each with its own request: {agents}",
        (Need.NEXT_AGENT,),
        _invocations,
        {
            "agents": {"type": "array", "items": _NAME, "minItems": 2, "maxItems": MAX_INVOCATIONS},
            "agent_requests": {"type": "object", "additionalProperties": _ANYTHING_ASKED},
        },
        ("agents",),
    ),
    ActionType.CALL_TOOL: ActionShape(
        "call one or more of these tools, the arguments of each as a JSON text: {tools}",
        (Need.TOOLS,),
        _call,
        {"tool_calls": {"type": "array", "items": _TOOL_CALL, "minItems": 1}},
        ("tool_calls",),
    ),
    ActionType.FINAL_RESPONSE: ActionShape(
        "finish with your answer, text or an object, in content",
        (Need.FINISH,),
        {"content": "your answer"},
        {"content": _CONTENT},
        ("content",),
    ),
    ActionType.END_CONVERSATION: ActionShape("end this conversation", (Need.CONVERSATION,)),
    ActionType.WAIT_AND_AGGREGATE: ActionShape(
        "wait until the parallel branches are done and gather what they found", (Need.PARALLEL,)
    ),
    ActionType.ERROR_RECOVERY: ActionShape(
        "report an error that the user can help with",
        (Need.USER,),
        {"error_details": _ERROR, "suggested_action": "retry"},
        {"error_details": _ERROR_DETAILS, "suggested_action": {"type": "string"}},
        ("error_details",),
        systemic=True,
    ),
    ActionType.TERMINAL_ERROR: ActionShape(
        "stop with an error that nobody can mend",
        (Need.LEAVE,),
        {"error": "what went wrong"},
        {"error": _TEXT},
        ("error",),
        systemic=True,
    ),
    ActionType.AUTO_RETRY: ActionShape(
        "try the same again",
        (Need.SYSTEM,),
        {"error_details": _ERROR | {"type": "timeout"}},
        {"error_details": _ERROR_DETAILS},
        ("error_details",),
        systemic=True,
    ),
    ActionType.TERMINATE_WORKFLOW: ActionShape(
        "finish the whole workflow with your answer, text or an object, in content",
        (Need.FINISH, Need.LEAVE),
        {"content": "your answer"},
        {"content": _CONTENT},
        ("content",),
    ),
    ActionType.ASK_USER: ActionShape(
        "ask the user the question in question",
        (Need.USER,),
        {"question": "your question"},
        {"question": {"type": "string"}},
        ("question",),
    ),
}
"""Every action (requirements M16 to M40). No member of one is known to another by accident: objects are closed."""

_OPTIONAL = frozenset({"thought", "action_input", "agents"}).union(
    *(shape.properties.keys() - {*shape.required} for shape in SHAPES.values())
)
"""The members that may be null: those that an action may go without, and those of the published ``AgentResponse``."""
