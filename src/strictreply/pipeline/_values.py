"""The values of AGN-036 that a run does not have: a request's context, and its fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, cast, get_args, get_type_hints

from strictreply.core import JSONObject
from strictreply.loop.values import (
    AgentContext,
    AgentPipelineContextType,
    AgentResponse,
    AgentToolCallResult,
    Envelope,
    Session,
    ToolCallManifest,
    Turn,
    Value,
)


class ResponseType(StrEnum):
    """The outcome of the model's last reply, as opposed to the type of the request."""

    NOT_READY = "NotReady"
    FINAL = "Final"
    TOOL_CONTINUATION = "ToolContinuation"
    SERVER_TOOLS = "ServerTools"
    """Calls that are run here, between two requests of one turn.

    A response is never built from them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationContext(Value):
    """The settings of a conversation."""

    id: str
    """Id of the context."""
    name: str = ""
    """Name of the context."""
    model: str = ""
    """Name of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContent(Value):
    """The prompt of the model."""

    ready: bool = False
    """Whether the prompt is composed; only the step that composes it sets this."""
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)
    """The messages of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsePayload(Value):
    """The content of the model's final reply."""

    primary_output_text: str
    """The text of the answer."""
    files: tuple[JSONObject, ...] = ()
    """The files that belong to the answer."""
    tool_results: tuple[AgentToolCallResult, ...] = ()
    """The results of calls that belong to the answer."""
    user_warnings: tuple[str, ...] = ()
    """Warnings for the user."""
    usage: JSONObject | None = None
    """The tokens of the turn; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltResponse(Value):
    """A response, with a hash of the context that it was built from."""

    response: AgentResponse
    """The response for the client."""
    fingerprint: str
    """Hash of the context that the response was built from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPipelineContext(Value):
    """All data of one request while the steps of the pipeline process it."""

    type: AgentPipelineContextType
    """The type of the request."""
    time_stamp: str
    """ISO 8601 date and time."""
    correlation_id: str
    """Id of the request in logs."""
    envelope: Envelope
    """The request as it was received."""
    session: Session | None = None
    """The session; None until a step restores or creates it."""
    turn: Turn | None = None
    """The turn; None until a step restores or creates it."""
    agent_context: AgentContext | None = None
    """The agent that answers; None until a step loads it."""
    conversation_context: ConversationContext | None = None
    """The conversation context in use; None until a step loads it."""
    prompt: PromptContent = PromptContent()
    """The prompt of the model."""
    tool_call_manifest: ToolCallManifest | None = None
    """The calls and results that a continuation answers; None for other requests."""
    outgoing_manifest: ToolCallManifest | None = None
    """The calls of the model's last reply; None when it has none."""
    response_payload: ResponsePayload | None = None
    """The answer of the model; None until there is one."""
    response_type: ResponseType = ResponseType.NOT_READY
    """The outcome of the model's last reply."""
    built: BuiltResponse | None = None
    """The response and its fingerprint; None until the ResponseBuilder has made it."""


def fingerprint(ctx: object) -> str:
    """Return the hash of a context's members except ``built``.

    The hash is SHA-256 of the canonical text in UTF-8, as 64 hexadecimal digits. Equal contexts
    have equal hashes. A mapping of the members is accepted, too; a missing member has its default,
    at every level, as in a context read from the same JSON. Raises ValueError for a value that is
    not JSON.
    """
    members = _completed(AgentPipelineContext, ctx) if isinstance(ctx, Mapping) else ctx
    content = {name: member for name, member in _members(members).items() if name != "built"}
    return sha256(canonical(content).encode()).hexdigest()


def canonical(value: object) -> str:
    """Return the canonical text of JSON: sorted keys, ASCII, ``1`` different from ``1.0``.

    Raises ValueError for a value that is not JSON.
    """
    try:
        return _CANONICAL.encode(value)
    except (TypeError, RecursionError) as error:
        message = "the value must be JSON: strings, numbers, booleans, null, arrays, objects"
        raise ValueError(message) from error


def _members(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise ValueError(f"a value of type {type(value).__name__} has no members to write as JSON")


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_members)


def _completed(kind: Any, value: Any) -> Any:
    """Return the members of a value, with defaults for the missing ones."""
    if isinstance(value, list | tuple):
        return [_completed(kind, one) for one in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value

    members = dict(cast("Mapping[str, Any]", value))
    kinds = _kinds_in(kind)
    for each in fields(kind):
        if each.name in members and each.name in kinds:
            members[each.name] = _completed(kinds[each.name], members[each.name])
        elif each.default is not MISSING:
            members.setdefault(each.name, each.default)

    return members


@lru_cache(maxsize=64)
def _kinds_in(kind: Any) -> dict[str, type[Any]]:
    """Return the Value classes of a class's fields, alone or in a tuple, by the field's name."""
    kinds: dict[str, type[Any]] = {}
    for name, hint in get_type_hints(kind).items():
        named = (hint, *get_args(hint))
        inner = [one for one in named if isinstance(one, type) and issubclass(one, Value)]
        if inner:
            kinds[name] = inner[0]

    return kinds
