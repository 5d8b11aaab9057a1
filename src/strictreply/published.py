"""The JSON Schemas of what strictreply takes and gives, for programs in any language.

``schemas/`` in the repository holds them as files; a test holds the files to this code.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from strictreply.attempts import Attempt
from strictreply.issues import Issue
from strictreply.typing import JSONObject

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def published_schemas() -> dict[str, JSONObject]:
    """Give every published schema by its file name without ``.json``."""
    return {
        "assistant-reply.text": _headed("AssistantReply in the text channel", _text_reply()),
        "assistant-reply.native": _headed("AssistantReply in the native channel: an assistant message", _native_reply()),
        "issue": _headed("One fault of a reply", _described(Issue)),
        "attempt": _headed("One ask and what became of it", _described(Attempt)),
    }


def _headed(title: str, schema: JSONObject) -> JSONObject:
    """Put the dialect and a title first."""
    return {"$schema": _DRAFT, **schema, "title": title}


def _described(kind: type[Any]) -> JSONObject:
    """Describe a value as its ``to_dict(raw=True)`` spells it: every member is there, and no other."""
    schema = TypeAdapter(kind).json_schema(mode="serialization")
    return _closed(schema)


def _closed(schema: JSONObject) -> JSONObject:
    """Close an object schema and those it defines, and require every member."""
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema = schema | {"required": list(properties), "additionalProperties": False}
    if "$defs" in schema:
        schema = schema | {"$defs": {name: _closed(part) for name, part in schema["$defs"].items()}}
    return schema


def _object(properties: JSONObject, *, optional: tuple[str, ...] = ()) -> JSONObject:
    """Describe an object of exactly these members."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text_reply() -> JSONObject:
    """Describe the union of the text channel (requirements T1 to T3)."""
    text = {"type": "string", "minLength": 1}
    return {"anyOf": [_object({"tool": text, "args": {"type": "object"}}), _object({"answer": text})]}


def _native_reply() -> JSONObject:
    """Describe an assistant message with calls, or with an answer; members that are not ours are free."""
    text = {"type": "string", "minLength": 1}
    function = {"type": "object", "properties": {"name": text, "arguments": {"type": "string"}}}
    call = {
        "type": "object",
        "properties": {
            "id": text,
            "type": {"const": "function"},
            "function": function | {"required": ["name", "arguments"]},
        },
        "required": ["id", "function"],
    }
    calls = {"properties": {"tool_calls": {"type": "array", "items": call, "minItems": 1}}, "required": ["tool_calls"]}
    no_calls = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
    answer = {"properties": {"content": text, "tool_calls": no_calls}, "required": ["content"]}
    return {"type": "object", "properties": {"role": {"const": "assistant"}}, "anyOf": [calls, answer]}
