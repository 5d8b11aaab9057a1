"""The JSON Schemas of what strictreply takes and gives; ``schemas/`` in the repository holds them as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from strictreply import Attempt, Issue
from strictreply.values._limits import JSONObject

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_POINTER = "^(/([^~/]|~[01])*)*$"
_SAYS_SOMETHING: JSONObject = {"type": "string", "pattern": r"\S"}

_REMARKS: Mapping[str, Mapping[str, JSONObject]] = {
    "Issue": {
        "code": {"description": "What is wrong: dotted and stable, to be matched on.", "pattern": r"^\S+$"},
        "category": {"description": "The class of failure, for decisions such as whom to tell."},
        "path": {
            "description": "JSON Pointer (RFC 6901) to the fault, from the root of what was judged: the assistant "
            "message in the native channel, going on through the JSON in arguments; the JSON in content in the text "
            "channel; the response for envelope codes.",
            "pattern": _POINTER,
        },
        "message": {"description": "The rule that was broken, in words that never come from the model."},
        "hint": {"description": "The nearest remedy, in words that never come from the model; empty when none."},
        "found": {
            "description": "An excerpt of what the model wrote, escaped; empty when none. Keep it out of prompts.",
            "maxLength": 120,
        },
    },
    "Attempt": {
        "number": {"description": "Counts from 1.", "minimum": 1},
        "request": {"description": "The request that was sent; left out unless raw replies are asked for."},
        "raw": {
            "description": "The response as it came, null when the transport failed; left out unless raw replies are "
            "asked for."
        },
        "issues": {"description": "The faults of the reply; empty when it was accepted, or when the transport failed."},
        "failure": {"description": "How the transport failed; null when a response came."},
        "correction": {
            "description": "The correction that asked for this attempt; null for the first one and when the "
            "same request was sent again."
        },
        "tier": {"description": "How far the correction had escalated, from 1; 0 without a correction.", "minimum": 0},
        "scope": {
            "description": "The part that was asked for again: the tools of calls, the pointer to a value in an "
            "answer, or a tool and the pointer to a value inside its arguments; null for a whole reply."
        },
        "escalation": {
            "description": "The step of the policy that was taken last: forced_tool, response_format, model:<name>, "
            "human or keywords; null when none was."
        },
        "refused": {"description": "The keywords that strictreply had added and the endpoint refused."},
        "vetoed": {"description": "Where the stream was closed before its end; null when it was not."},
        "leniency": {"description": "The lenient steps that were needed to read the reply, by name."},
        "usage": {"description": "The tokens as the provider counted them; 0 where it did not say."},
        "seconds": {"description": "How long the call took.", "minimum": 0},
    },
    "Vetoed": {
        "at": {"description": "The bytes of the reply that had come.", "minimum": 0},
        "saved": {"description": "The tokens that the rest of a valid reply would have taken at least.", "minimum": 0},
    },
    "Usage": {name: {"minimum": 0} for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
}
"""What the types of these members do not say."""

_ON_REQUEST = frozenset({"request", "raw"})  # left out of an attempt unless ``raw=True``


def published_schemas() -> dict[str, JSONObject]:
    """Return every published schema by its file name without ``.json``."""
    schemas = {
        "assistant-reply": ("A valid reply, as strictreply returns it", _GIVEN_REPLY),
        "assistant-reply.text": ("A reply in the text channel: the JSON in the content", _TEXT_REPLY),
        "assistant-reply.native": ("A reply in the native channel: an assistant message", _NATIVE_REPLY),
        "issue": ("One fault of a reply", _described(Issue)),
        "attempt": ("One request to a model and its outcome", _described(Attempt)),
    }
    return {name: {"$schema": _DRAFT, "title": title, **schema} for name, (title, schema) in schemas.items()}


def _described(kind: type[Any]) -> JSONObject:
    """Describe a value as its ``to_dict`` writes it, which has no member beside these."""
    schema = TypeAdapter(kind).json_schema(mode="serialization")
    parts = {name: _object_of(name, part) for name, part in schema.pop("$defs", {}).items()}
    described = _object_of(kind.__name__, schema)
    return described | {"$defs": parts} if parts else described


def _object_of(name: str, schema: JSONObject) -> JSONObject:
    """Close an object schema, and put our remarks in the place of pydantic's; other schemas keep what holds."""
    held = {key: value for key, value in schema.items() if key not in {"title", "description", "default"}}
    if "properties" not in schema:
        return held
    remarks = _REMARKS[name]
    properties = {member: _object_of("", part) | remarks[member] for member, part in schema["properties"].items()}
    return _object(properties, optional=_ON_REQUEST)


def _open_object(properties: JSONObject, required: Iterable[str]) -> JSONObject:
    return {"type": "object", "properties": properties, "required": [*required]}


def _object(properties: JSONObject, *, optional: frozenset[str] = frozenset()) -> JSONObject:
    required = [name for name in properties if name not in optional]
    return _open_object(properties, required) | {"additionalProperties": False}


_CALL = _object({"tool": {"type": "string"}, "args": {}, "id": {"type": "string"}}, optional=frozenset({"id"}))
_CALLS: JSONObject = {"type": "array", "items": {"$ref": "#/$defs/call"}, "minItems": 2}
_ANSWER: JSONObject = {"description": "Text, or JSON where the contract names the kind of answer."}
_GIVEN_REPLY: JSONObject = {
    "anyOf": [{"$ref": "#/$defs/call"}, _object({"calls": _CALLS}), _object({"answer": _ANSWER})],
    "$defs": {"call": _CALL},
}
"""The typed union as ``to_dict`` writes it; only native calls have an id."""

_TOOL_NAME: JSONObject = {"type": "string", "minLength": 1, "description": "The name of a declared tool."}
_ARGS: JSONObject = {"type": "object", "description": "Arguments that are valid for that tool."}
_TEXT_ANSWER = _SAYS_SOMETHING | {"description": "Text; where a contract names another kind of answer, that instead."}
_TEXT_REPLY: JSONObject = {"anyOf": [_object({"tool": _TOOL_NAME, "args": _ARGS}), _object({"answer": _TEXT_ANSWER})]}
"""The union of the text channel (requirements T1 to T3)."""

_ARGUMENTS: JSONObject = {
    "type": "string",
    "contentMediaType": "application/json",
    "description": "The JSON text of an object that is valid for the tool.",
}
_FUNCTION = _open_object({"name": _TOOL_NAME, "arguments": _ARGUMENTS}, ("name", "arguments"))
_CALL_MEMBERS: JSONObject = {"id": _SAYS_SOMETHING, "type": {"const": "function"}, "function": _FUNCTION}
_NATIVE_CALL = _open_object(_CALL_MEMBERS, ("id", "function"))
_NATIVE_CALLS: JSONObject = {"type": "array", "items": _NATIVE_CALL, "minItems": 1}
_NO_CALLS: JSONObject = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
_NATIVE_REPLY: JSONObject = {
    "type": "object",
    "properties": {"role": {"const": "assistant"}, "refusal": {"enum": [None, ""]}, "function_call": {"type": "null"}},
    "anyOf": [
        {"properties": {"tool_calls": _NATIVE_CALLS}, "required": ["tool_calls"]},
        {"properties": {"content": _SAYS_SOMETHING, "tool_calls": _NO_CALLS}, "required": ["content"]},
    ],
}
"""An assistant message with calls, or with an answer; members that are not ours are free."""
