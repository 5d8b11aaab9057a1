"""Findings of ``lint``: their codes and severities, and the report."""

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
    """The provider refuses the schema."""
    WARNING = "warning"
    """The schema costs replies, or makes a model err."""
    NOTE = "note"
    """Good to know."""


class FindingCode(StrEnum):
    """Stable codes of findings."""

    REFUSED = "provider.refused"
    """The API or server answers with an error: nothing is generated."""
    NARROWED = "provider.narrowed"
    """The schema is accepted, and replies that fit it become impossible."""
    DROPPED = "provider.dropped"
    """The keyword is accepted, and nothing enforces it."""
    DESCRIBED = "provider.described"
    """The provider's own SDK moves the keyword into the description."""
    ENFORCED = "provider.enforced"
    """How many of all rules no reply can break, and which tools have others."""
    CONVERTED = "provider.converted"
    """strictreply sends the schema in a form that the strict mode accepts."""
    AS_DECLARED = "provider.as_declared"
    """strictreply sends the schema as it is, without strict mode."""
    OVER_LIMIT = "provider.over_limit"
    """The schema is too large, too deep or too long."""
    NAME_REFUSED = "provider.name_refused"
    """The provider does not accept the name."""
    SIZE = "cost.size"
    """What all schemas cost in each request."""
    SIMILAR_NAMES = "tools.similar_names"
    """The names of tools are much alike."""
    SAME_REQUIRED = "tools.same_required"
    """Tools require the same members."""
    NO_DESCRIPTION = "schema.no_description"
    """A description is missing."""
    ROOT_NOT_OBJECT = "schema.root_not_object"
    """The root of the schema is not an object."""
    ROOT_WITHOUT_PROPERTIES = "schema.root_without_properties"
    """The root of the schema has no properties."""
    OPEN_OBJECT = "schema.open_object"
    """An object allows any key."""
    AMBIGUOUS_UNION = "schema.ambiguous_union"
    """A value may fit several parts of a union."""
    OPTIONAL_TAG = "schema.optional_tag"
    """The tag of a union may be left out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of ``lint`` about a schema, with a suggestion."""

    code: FindingCode
    """Stable code of the finding."""
    severity: Severity
    """How much it matters."""
    message: str
    """The finding in words."""
    instead: str
    """What to write instead."""
    provider: Provider | None = None
    """The provider that it concerns; None for all of them."""
    tool: str | None = None
    """The name of the tool; None for the answer, or for the whole request."""
    is_answer: bool = False
    """Whether it concerns the answer."""
    path: str = ""
    """JSON Pointer to the place in the schema; empty for its root."""
    source: str = ""
    """The evidence: a file at a commit, a page, a thread or a run; empty if the schema shows it."""

    @property
    def place(self) -> str:
        """The tool (or ``answer``, ``request``) and the path, for people."""
        whose = "answer" if self.is_answer else self.tool or "request"
        return f"{whose} {shown_place(self.path)}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return asdict(self) | {"code": self.code.value, "severity": self.severity.value}


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of ``lint``."""

    findings: tuple[Finding, ...]
    """All findings, the most severe first."""
    providers: tuple[Provider, ...]
    """The providers that the report covers."""

    @property
    def ok(self) -> bool:
        """Whether no finding is an error, so no provider rejects a request for its schemas."""
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
        """The number of findings of each severity, in words."""
        counts = [(each, sum(one.severity is each for one in self.findings)) for each in Severity]
        return ", ".join(counted(count, severity.value) for severity, count in counts)

    def __str__(self) -> str:
        """Return the report as text: two lines for each finding, the second with the suggestion."""
        width = max((len(finding.provider or "") for finding in self.findings), default=0)
        lines = []
        for finding in self.findings:
            head = f"{finding.severity:<7}  {finding.provider or '':<{width}}  "
            lines.append(f"{head}{finding.place}: {finding.message}")
            lines.append(f"{' ' * len(head)}instead: {finding.instead}")

        return "\n".join([*lines, self.summary])


TRAIT_WORDS: Final[Mapping[str, str]] = {
    at.ROOT: "a root that is not one object",
    at.OPEN: "an object without additionalProperties",
    at.OPTIONAL: "an optional member",
    at.UNTYPED: "a schema without a type",
    at.BOOLEAN: "true or false as a schema",
    at.BARE_OBJECT: "an object without properties",
    at.BARE_ARRAY: "an array without items",
}
"""Words for traits of a schema that are not keywords."""

_SAID: Final = "state the rule in the description"
_TAGGED: Final = "anyOf, in which each form has a required member with its own const"
_LISTED: Final = "an array of objects with two members, one for the name and one for the value"
INSTEAD: Final[Mapping[str, str]] = {
    at.ROOT: "an object with one member that has the current schema",
    at.OPEN: '"additionalProperties": false',
    at.OPTIONAL: 'require every member, and allow null for optional ones: {"type": '
    '["string", "null"]}',
    at.UNTYPED: 'a "type"',
    at.BOOLEAN: "a schema with a type",
    at.BARE_OBJECT: f'"properties" with its members, or {_LISTED}',
    at.BARE_ARRAY: '"items" with the schema of an item',
    "type": "one type, or anyOf with a schema for each",
    "enum": "only strings, numbers, true, false and null",
    "const": "a string, a number, true, false or null",
    "required": "name only members that are in properties",
    "properties": "put the members into each form of the union",
    "additionalProperties": _LISTED,
    "patternProperties": _LISTED,
    "propertyNames": f"{_LISTED}; put the rule on the name",
    "unevaluatedProperties": '"additionalProperties": false, next to a list of all members',
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
    "allOf": "one schema that merges the parts",
    "anyOf": "complete forms, without other keywords next to anyOf",
    "items": "one schema for all items, or prefixItems for a tuple",
    "prefixItems": "an object with a member for each position",
    "additionalItems": "items next to prefixItems",
    "minItems": f"a required member for each required item; else {_SAID}",
    "maxItems": _SAID,
    "uniqueItems": f"an object with a boolean for each value; else {_SAID}",
    "contains": f"a required member for the required item; else {_SAID}",
    "minContains": _SAID,
    "maxContains": _SAID,
    "minLength": f"a pattern such as ^.{{3,}}$ if patterns are enforced; else {_SAID}",
    "maxLength": f"a pattern such as ^.{{0,9}}$ if patterns are enforced; else {_SAID}",
    "pattern": "^…$ without look-around, back-references and \\b; or enum for a few values",
    "format": "date-time, date or time, which most providers enforce; or a pattern",
    "minimum": f"enum for a few values; else {_SAID}",
    "maximum": f"enum for a few values; else {_SAID}",
    "exclusiveMinimum": f"minimum if that is enforced, or enum for a few values; else {_SAID}",
    "exclusiveMaximum": f"maximum if that is enforced, or enum for a few values; else {_SAID}",
    "multipleOf": f"enum for a few values, or the number of steps as an integer; else {_SAID}",
    "$ref": "$ref without other keywords, to a definition in the root's $defs, not to itself",
    "$dynamicRef": "$ref to a definition in the root's $defs",
    "$recursiveRef": "$ref to a definition in the root's $defs",
    "$dynamicAnchor": "the name of a definition in the root's $defs",
    "contentEncoding": f"a pattern; else {_SAID}",
    "contentMediaType": f"the value itself instead of its text; else {_SAID}",
}
"""What to write instead of each keyword that a provider does not enforce."""
