"""What the parts of a state must be, as JSON Schemas that check only the members they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Final, cast

from strictreply.coordination._actions import CoordinationCode
from strictreply.schema import Schema, SchemaRule
from strictreply.values._issues import Issue
from strictreply.values._limits import JSON, JSONObject

TEXT: Final[JSONObject] = {"type": "string"}
NAME: Final[JSONObject] = {"type": "string", "minLength": 1}
COUNT: Final[JSONObject] = {"type": "integer", "minimum": 0}
FLAG: Final[JSONObject] = {"type": "boolean"}
OBJECT: Final[JSONObject] = {"type": "object"}

_CODES: Final[Mapping[str, CoordinationCode]] = {
    SchemaRule.REQUIRED: CoordinationCode.STATE_MISSING_FIELD,
    SchemaRule.DEPENDENT_REQUIRED: CoordinationCode.STATE_MISSING_FIELD,
    SchemaRule.MINIMUM: CoordinationCode.STATE_NEGATIVE,
    SchemaRule.MIN_LENGTH: CoordinationCode.STATE_BLANK,
    SchemaRule.ENUM: CoordinationCode.STATE_UNKNOWN_WORD,
}
_NOT_ADMITTED: Final = 0.5  # stands for a value that is no JSON of a state: no schema of one admits a fraction


def record(properties: JSONObject, *, optional: Collection[str] = ()) -> JSONObject:
    """Return the schema of an object with these members, all required but the optional ones, and any others."""
    required: list[JSON] = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def optional(schema: JSONObject) -> JSONObject:
    """Return the schema of the same value, or null."""
    return {**schema, "type": [schema["type"], "null"]}


class StateSchema:
    """A JSON Schema of a part of a state; compiled when it is first used."""

    def __init__(self, document: JSONObject) -> None:
        self._document = document

    @cached_property
    def _compiled(self) -> Schema:
        return Schema.compile(self._document, extra="schema")

    def issues(self, value: object, at: str = "") -> tuple[Issue, ...]:
        """Report what is wrong with a value that stands at a JSON Pointer: at most 32 faults."""
        found: list[Issue] = []
        for issue in self._compiled.check(_named_by(self._document, value), place="state"):
            rule = issue.code.partition(".")[2]
            code = _CODES.get(rule, CoordinationCode.STATE_WRONG_TYPE)
            if rule == str(SchemaRule.TYPE) and "properties" in cast("JSONObject", self._compiled.part(issue.path)):
                code = CoordinationCode.STATE_NOT_OBJECT
            message = code.template if code is CoordinationCode.STATE_BLANK else issue.message
            came = "" if issue.found == str(_NOT_ADMITTED) else issue.found
            found.append(Issue(code.value, code.category, at + issue.path, message, issue.hint, came))
        return tuple(found)


def _named_by(schema: Any, value: object) -> JSON:
    """Copy what a schema names of a value, as plain JSON; no float, although JSON Schema takes 3.0 for an integer."""
    if isinstance(value, str):
        text = str(value) if value.strip() else ""  # NAME asks for a character; white space is none
        return text if text.isascii() else text.encode(errors="replace").decode()  # half a surrogate pair is no JSON
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_named_by(schema["items"], item) for item in items] if "items" in schema else []
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        known: Mapping[str, Any] = schema.get("properties", {})
        return {name: _named_by(part, members[name]) for name, part in known.items() if name in members}
    return _NOT_ADMITTED
