"""What ``lint`` finds in the schemas of a program: codes, findings, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from strictreply.schema import _places as at
from strictreply.schema._providers import Provider
from strictreply.values._issues import counted, shown_place


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingCode(StrEnum):
    """What is found, as a stable word."""

    REFUSED = "provider.refused"
    NARROWED = "provider.narrowed"
    DROPPED = "provider.dropped"
    DESCRIBED = "provider.described"
    ENFORCED = "provider.enforced"
    CONVERTED = "provider.converted"
    AS_DECLARED = "provider.as_declared"
    OVER_LIMIT = "provider.over_limit"
    NAME_REFUSED = "provider.name_refused"
    SIZE = "cost.size"
    SIMILAR_NAMES = "tools.similar_names"
    SAME_REQUIRED = "tools.same_required"
    NO_DESCRIPTION = "schema.no_description"
    ROOT_NOT_OBJECT = "schema.root_not_object"
    ROOT_WITHOUT_PROPERTIES = "schema.root_without_properties"
    OPEN_OBJECT = "schema.open_object"
    AMBIGUOUS_UNION = "schema.ambiguous_union"
    OPTIONAL_TAG = "schema.optional_tag"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that ``lint`` says of a schema, and what to write instead."""

    code: FindingCode
    """What is found."""
    severity: Severity
    """How much it matters."""
    message: str
    """What is so, in words."""
    instead: str
    """What to write instead."""
    provider: Provider | None = None
    """The provider that it is about; None for all of them."""
    tool: str | None = None
    """The name of the tool; None for the answer, or for the whole request."""
    is_answer: bool = False
    """Whether it is about the answer."""
    path: str = ""
    """The JSON Pointer of the place in the schema; empty for its root."""
    source: str = ""
    """Where it is known from: a file at a commit, a page, a thread or a run; empty for the schema
    itself.
    """

    @property
    def place(self) -> str:
        """Where it is, for people."""
        whose = "answer" if self.is_answer else self.tool or "request"
        return f"{whose} {shown_place(self.path)}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return asdict(self) | {"code": self.code.value, "severity": self.severity.value}


@dataclass(frozen=True, slots=True)
class LintReport:
    """What ``lint`` found, the most severe first."""

    findings: tuple[Finding, ...]
    """All findings."""
    providers: tuple[Provider, ...]
    """The providers that were asked for."""

    @property
    def ok(self) -> bool:
        """Whether no finding is an error: no provider refuses what would be sent."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "ok": self.ok,
            "providers": list(self.providers),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @property
    def summary(self) -> str:
        """How many findings there are of each severity."""
        counts = [(each, sum(one.severity is each for one in self.findings)) for each in Severity]
        return ", ".join(counted(count, severity.value) for severity, count in counts)

    def __str__(self) -> str:
        """Write the report as a table of text: a line for each finding, what to write below it."""
        width = max((len(finding.provider or "") for finding in self.findings), default=0)
        lines = []
        for finding in self.findings:
            head = f"{finding.severity:<7}  {finding.provider or '':<{width}}  "
            lines.append(f"{head}{finding.place}: {finding.message}")
            lines.append(f"{' ' * len(head)}instead: {finding.instead}")

        return "\n".join([*lines, self.summary])


TRAIT_WORDS: Final[Mapping[str, str]] = {
    at.ROOT: "a root that is not one object",
    at.OPEN: "an object that does not say whether it may have other members",
    at.OPTIONAL: "a member that may be left out",
    at.UNTYPED: "a schema without a type",
    at.BOOLEAN: "true or false as a schema",
    at.BARE_OBJECT: "an object without properties",
    at.BARE_ARRAY: "an array without items",
}
"""The words for what a schema is or lacks."""

_SAID: Final = "say it in the description"
_TAGGED: Final = "anyOf, with a const of its own in one required member of each form"
_LISTED: Final = "an array of objects that have the name and the value as two members"
INSTEAD: Final[Mapping[str, str]] = {
    at.ROOT: "an object, with a member for what stands there now",
    at.OPEN: '"additionalProperties": false',
    at.OPTIONAL: 'require every member, and let those that may be missing be null: {"type": '
    '["string", "null"]}',
    at.UNTYPED: 'a "type"',
    at.BOOLEAN: "a schema with a type",
    at.BARE_OBJECT: f'"properties" with its members, or {_LISTED}',
    at.BARE_ARRAY: '"items" with the schema of an item',
    "type": "one type, or anyOf with a schema for each",
    "enum": "plain values: texts, numbers, true, false or null",
    "const": "a plain value: a text, a number, true, false or null",
    "required": "name only members that stand in properties",
    "properties": "put the members into each form of the union",
    "additionalProperties": _LISTED,
    "patternProperties": _LISTED,
    "propertyNames": f"{_LISTED}, with the rule on the name",
    "unevaluatedProperties": '"additionalProperties": false, with all members named there',
    "unevaluatedItems": '"items": false after prefixItems, or an object with a member for each',
    "minProperties": f"require the members that must be there; else {_SAID}",
    "maxProperties": f"anyOf with a form for each allowed set of members; else {_SAID}",
    "dependentRequired": _TAGGED,
    "dependentSchemas": _TAGGED,
    "dependencies": _TAGGED,
    "if": _TAGGED,
    "then": _TAGGED,
    "else": _TAGGED,
    "not": f"enum with the values that are allowed; else {_SAID}",
    "oneOf": _TAGGED,
    "allOf": "one schema, with what the parts say together",
    "anyOf": "forms that say everything themselves, with nothing beside anyOf",
    "items": "one schema for all items, or prefixItems for a tuple",
    "prefixItems": "an object with a member for each position",
    "additionalItems": "items beside prefixItems",
    "minItems": f"a member for each item that must be there; else {_SAID}",
    "maxItems": _SAID,
    "uniqueItems": f"an object with a boolean for each value; else {_SAID}",
    "contains": f"a required member for the item that must be there; else {_SAID}",
    "minContains": _SAID,
    "maxContains": _SAID,
    "minLength": f"a pattern such as ^.{{3,}}$ where patterns are enforced; else {_SAID}",
    "maxLength": f"a pattern such as ^.{{0,9}}$ where patterns are enforced; else {_SAID}",
    "pattern": "^…$ without look-around, back-references and \\b, or enum for a few values",
    "format": "date-time, date or time, which most enforce, or a pattern",
    "minimum": f"enum for a few values; else {_SAID}",
    "maximum": f"enum for a few values; else {_SAID}",
    "exclusiveMinimum": f"minimum where that is enforced, enum for a few values; else {_SAID}",
    "exclusiveMaximum": f"maximum where that is enforced, enum for a few values; else {_SAID}",
    "multipleOf": f"enum for a few values, or the number of steps as an integer; else {_SAID}",
    "$ref": "a reference to a definition in $defs of the root, alone in its schema, and not to "
    "itself",
    "$dynamicRef": "$ref to a definition in $defs of the root",
    "$recursiveRef": "$ref to a definition in $defs of the root",
    "$dynamicAnchor": "the name of a definition in $defs of the root",
    "contentEncoding": f"a pattern; else {_SAID}",
    "contentMediaType": f"the value itself in the place of its text; else {_SAID}",
}
"""What to write in the place of each keyword that a provider does not enforce."""
