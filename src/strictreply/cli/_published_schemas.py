"""The JSON Schemas of what strictreply takes and gives.

The folder ``schemas/`` of the repository has them as files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from strictreply import Attempt, Issue
from strictreply.values._limits import JSONObject

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SAYS_SOMETHING: JSONObject = {"type": "string", "pattern": r"\S"}

_REMARKS: Mapping[str, str] = {
    "code": "What is wrong: dotted and stable, to be matched on.",
    "category": "The class of failure, for decisions such as whom to tell.",
    "path": "JSON Pointer (RFC 6901) to the fault, from the root of what was judged: "
    "the assistant message in the native channel, going on through the JSON in arguments; "
    "the JSON in content in the text channel; the response for envelope codes.",
    "message": "The rule that was broken, in words that never come from the model.",
    "hint": "The nearest remedy, in words that never come from the model; empty when none.",
    "found": "An excerpt of what the model wrote, escaped; empty when none. "
    "Keep it out of prompts.",
    "number": "Counts from 1.",
    "api": "The API that was asked: chat or responses.",
    "request": "The request that was sent; left out unless raw replies are asked for.",
    "raw": "The response as it came, null when the transport failed; "
    "left out unless raw replies are asked for.",
    "issues": "The faults of the reply; empty when it was accepted, or when the transport failed.",
    "failure": "How the transport failed; null when a response came.",
    "correction": "The correction that asked for this attempt; "
    "null for the first one and when the same request was sent again.",
    "tier": "How far the correction had escalated, from 1; 0 without a correction.",
    "scope": "The part that was asked for again: the tools of calls, the pointer to a value in an "
    "answer, or a tool and the pointer to a value inside its arguments; null for a whole reply.",
    "escalation": "The step of the policy that was taken last: forced_tool, response_format, "
    "model:<name>, human or keywords; null when none was.",
    "refused": "The keywords that strictreply had added and the endpoint refused.",
    "vetoed": "Where the stream was closed before its end; null when it was not.",
    "at": "The bytes of the reply that had come.",
    "saved": "The tokens that the rest of a valid reply would have taken at least.",
    "leniency": "The lenient steps that were needed to read the reply, by name.",
    "usage": "The tokens as the provider counted them, else estimated: four bytes are a token.",
    "seconds": "How long the call took.",
}
"""Descriptions of the members of issues and attempts; the names of a usage's members say enough."""

_COUNTS = ("tier", "at", "saved", "prompt_tokens", "completion_tokens", "total_tokens", "seconds")
_BOUNDS: Mapping[str, JSONObject] = {name: {"minimum": 0} for name in _COUNTS} | {
    "code": {"pattern": r"^\S+$"},
    "path": {"pattern": "^(/([^~/]|~[01])*)*$"},
    "found": {"maxLength": 120},
    "number": {"minimum": 1},
}
"""Rules that the types of these members do not express."""


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
    """Describe a value as its ``to_dict`` writes it, which has no member beside these."""
    schema = TypeAdapter(kind).json_schema(mode="serialization")
    parts = {name: _object_of(part) for name, part in schema.pop("$defs", {}).items()}
    return _object_of(schema) | ({"$defs": parts} if parts else {})


def _object_of(schema: JSONObject) -> JSONObject:
    """Close an object schema, and put our remarks in the place of pydantic's.

    Other schemas keep all but title, description and default.
    """
    if "properties" not in schema:
        dropped = {"title", "description", "default"}
        return {key: value for key, value in schema.items() if key not in dropped}

    properties: JSONObject = {}
    for name, part in schema["properties"].items():
        remark = {"description": _REMARKS[name]} if name in _REMARKS else {}
        properties[name] = _bounded(_object_of(part), _BOUNDS.get(name, {})) | remark

    # these are left out of an attempt unless ``raw=True``
    return _object(properties, "request", "raw")


def _bounded(schema: JSONObject, bounds: JSONObject) -> JSONObject:
    """Put bounds beside the type that they are of; in a choice that is not null."""
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
"""An assistant message with calls, or with an answer; members that are not ours are free."""
