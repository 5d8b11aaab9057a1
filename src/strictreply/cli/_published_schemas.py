"""The JSON Schemas of replies, issues and attempts.

The folder ``schemas/`` of the repository has them as files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from strictreply import Attempt, Issue
from strictreply.core import JSONObject
from strictreply.core.arguments import FieldWords

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SAYS_SOMETHING: JSONObject = {"type": "string", "pattern": r"\S"}

_COUNTS = ("tier", "at", "saved", "prompt_tokens", "completion_tokens", "total_tokens", "seconds")
_BOUNDS: Mapping[str, JSONObject] = {name: {"minimum": 0} for name in _COUNTS} | {
    "code": {"pattern": r"^\S+$"},
    "path": {"pattern": "^(/([^~/]|~[01])*)*$"},
    "found": {"maxLength": 120},
    "number": {"minimum": 1},
}
"""Rules that the Python types of these members do not express."""


def published_schemas() -> dict[str, JSONObject]:
    """Return every published schema by its file name without ``.json``."""
    in_text = "A reply in the text channel: the JSON in the content"
    native = "A reply in the native channel: an assistant message"
    schemas = {
        "assistant-reply": ("A valid reply, as strictreply returns it", _GIVEN_REPLY),
        "assistant-reply.text": (in_text, _TEXT_REPLY),
        "assistant-reply.native": (native, _NATIVE_REPLY),
        "issue": ("One fault of a reply", _described(Issue)),
        "attempt": ("One request to a model and its outcome", _described(Attempt)),
    }
    return {
        name: {"$schema": _DRAFT, "title": title, **schema}
        for name, (title, schema) in schemas.items()
    }


def _described(kind: type[Any]) -> JSONObject:
    """Return the schema of a value as its ``to_dict`` writes it, closed to other members."""
    adapter = TypeAdapter(kind)
    schema = adapter.json_schema(mode="serialization", schema_generator=FieldWords)
    parts = {name: _object_of(part) for name, part in schema.pop("$defs", {}).items()}
    return _object_of(schema) | ({"$defs": parts} if parts else {})


def _object_of(schema: JSONObject) -> JSONObject:
    """Close an object schema, and keep only the descriptions of its members.

    Other schemas lose title, description and default.
    """
    if "properties" not in schema:
        dropped = {"title", "description", "default"}
        return {key: value for key, value in schema.items() if key not in dropped}

    properties: JSONObject = {}
    for name, part in schema["properties"].items():
        remark = {"description": part["description"]} if "description" in part else {}
        properties[name] = _bounded(_object_of(part), _BOUNDS.get(name, {})) | remark

    # an attempt leaves these out unless ``raw=True``
    return _object(properties, "request", "raw", "reply_at")


def _bounded(schema: JSONObject, bounds: JSONObject) -> JSONObject:
    """Add bounds to a schema; in a choice, to every part that is not null."""
    if "anyOf" not in schema:
        return schema | bounds

    choices = [part if part == {"type": "null"} else part | bounds for part in schema["anyOf"]]
    return schema | {"anyOf": choices}


def _object(properties: JSONObject, *optional: str, is_open: bool = False) -> JSONObject:
    required = [name for name in properties if name not in optional]
    closing = {} if is_open else {"additionalProperties": False}
    return {"type": "object", "properties": properties, "required": required, **closing}


_CALL = _object({"tool": {"type": "string"}, "args": {}, "id": {"type": "string"}}, "id")
_CALLS: JSONObject = {"type": "array", "items": {"$ref": "#/$defs/call"}, "minItems": 2}
_ANSWER: JSONObject = {"description": "Text, or JSON where the contract names the kind of answer."}
_GIVEN: list[JSONObject] = [
    {"$ref": "#/$defs/call"},
    _object({"calls": _CALLS}),
    _object({"answer": _ANSWER}),
]
_GIVEN_REPLY: JSONObject = {"anyOf": _GIVEN, "$defs": {"call": _CALL}}
"""The typed union as ``to_dict`` writes it; only native calls have an id."""

_TOOL_NAME: JSONObject = {
    "type": "string",
    "minLength": 1,
    "description": "The name of a declared tool.",
}
_ARGS: JSONObject = {"type": "object", "description": "Arguments that are valid for that tool."}
_TEXT_ANSWER = _SAYS_SOMETHING | {
    "description": "Text; where a contract names another kind of answer, that instead."
}
_TEXT_REPLY: JSONObject = {
    "anyOf": [_object({"tool": _TOOL_NAME, "args": _ARGS}), _object({"answer": _TEXT_ANSWER})]
}
"""The union of the text channel (requirements T1 to T3)."""

_JSON_TEXT = {"description": "The JSON text of an object that is valid for the tool."}
_ARGUMENTS: JSONObject = {"type": "string", "contentMediaType": "application/json", **_JSON_TEXT}
_FUNCTION = _object({"name": _TOOL_NAME, "arguments": _ARGUMENTS}, is_open=True)
_CALL_MEMBERS: JSONObject = {
    "id": _SAYS_SOMETHING,
    "type": {"const": "function"},
    "function": _FUNCTION,
}
_NATIVE_CALLS: JSONObject = {
    "type": "array",
    "items": _object(_CALL_MEMBERS, "type", is_open=True),
    "minItems": 1,
}
_NO_CALLS: JSONObject = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
_NATIVE_REPLY: JSONObject = {
    "type": "object",
    "properties": {
        "role": {"const": "assistant"},
        "refusal": {"enum": [None, ""]},
        "function_call": {"type": "null"},
    },
    "anyOf": [
        {"properties": {"tool_calls": _NATIVE_CALLS}, "required": ["tool_calls"]},
        {
            "properties": {"content": _SAYS_SOMETHING, "tool_calls": _NO_CALLS},
            "required": ["content"],
        },
    ],
}
"""An assistant message with calls or an answer; other members may have any value."""
