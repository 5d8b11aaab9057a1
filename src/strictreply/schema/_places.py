"""The places of a schema that a provider may treat in its own way, and questions about them.

How a provider handles a keyword can depend on what is next to it, above it or below it. The
functions here are questions about this, and :mod:`strictreply.schema._providers` names them in its
rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from strictreply.schema._documents import at_pointer, is_pointer, objects_in
from strictreply.schema._vocabulary import (
    DRAFT_04,
    DRAFT_06,
    DRAFT_07,
    DRAFT_2019,
    DRAFT_2020,
    HOLDERS,
    OWN,
    REFERENCES,
    TYPES,
    as_list,
    children,
    declared_draft,
    json_type,
)
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._limits import JSONObject

ROOT: Final = "(root)"
"""The whole schema, as a place."""
OPEN: Final = "(open object)"
"""An object that does not say whether it may have other members."""
OPTIONAL: Final = "(optional member)"
"""An object some members of which may be left out."""
UNTYPED: Final = "(no type)"
"""A schema without a type, neither in itself nor through another keyword."""
BOOLEAN: Final = "(boolean)"
"""A schema that is ``true`` or ``false``."""
BARE_OBJECT: Final = "(object without properties)"
"""An object that names no member."""
BARE_ARRAY: Final = "(array without items)"
"""An array that has no rule about its items."""

KEYWORDS: Final = frozenset(
    {
        *OWN,
        *HOLDERS,
        *REFERENCES,
        "$dynamicAnchor",
        "dependentRequired",
        "maxContains",
        "minContains",
        "required",
    }
) - {"$defs", "definitions", "contentSchema"}
"""The keywords that can reject a value."""

_STRING: Final = (
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "contentEncoding",
    "contentMediaType",
)
_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY: Final = (
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
)
_OBJECT: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
)
JUDGED_TYPES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_STRING, frozenset({"string"})),
    **dict.fromkeys(_NUMBER, frozenset({"integer", "number"})),
    **dict.fromkeys(_ARRAY, frozenset({"array"})),
    **dict.fromkeys(_OBJECT, frozenset({"object"})),
}
"""The types that a keyword applies to; a keyword that is not listed applies to all."""

UNIONS: Final = ("anyOf", "oneOf")
"""The keywords whose forms are alternatives."""
_COMPOSED: Final = (*UNIONS, "allOf")
_SAYS_A_TYPE: Final = ("type", "$ref", *_COMPOSED)
_SINCE: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("contains", "propertyNames", "const"), (DRAFT_04,)),
    **dict.fromkeys(("if", "then", "else"), (DRAFT_04, DRAFT_06)),
    **dict.fromkeys(
        (
            "dependentRequired",
            "dependentSchemas",
            "minContains",
            "maxContains",
            "unevaluatedItems",
            "unevaluatedProperties",
        ),
        (DRAFT_04, DRAFT_06, DRAFT_07),
    ),
    **dict.fromkeys(
        ("prefixItems", "$dynamicRef", "$dynamicAnchor"),
        (DRAFT_04, DRAFT_06, DRAFT_07, DRAFT_2019),
    ),
}
"""The drafts that do not know a keyword of newer drafts."""


@dataclass(frozen=True)
class SchemaDocument:
    """A whole schema, with facts about it that are computed once."""

    root: JSONObject
    """The document as plain JSON."""
    is_tool: bool = True
    """Whether it describes the arguments of a tool; False for an answer."""
    verdicts: dict[tuple[int, bool], bool | None] = field(default_factory=dict, compare=False)
    """What is known about the forms of its unions."""

    def find(self, reference: str) -> Any:
        """Return the target of a reference; None if it has no target in the document."""
        if not is_pointer(reference):
            return None

        tokens = pointer_tokens(unquote(reference[1:]))
        return self.at(tokens)

    def at(self, tokens: list[str]) -> Any:
        """Return the value at steps from the root; None if there is none."""
        try:
            return at_pointer(self.root, tokens)
        except (LookupError, TypeError, ValueError):
            return None

    @cached_property
    def recursive(self) -> frozenset[str]:
        """The references that lead to a schema which has, at some depth, the same reference."""
        below: dict[str, set[str]] = {}
        pending = ["#", *_references_in(self.root)]
        while pending:
            reference = pending.pop()
            if reference not in below:
                below[reference] = _references_in(self.find(reference))
                pending.extend(below[reference])

        return frozenset(each for each in below if each in _reached(each, below))

    @cached_property
    def has_names_of_its_own(self) -> bool:
        """Whether a schema has an ``$id`` or an ``$anchor``, which references can use."""
        return any("$id" in each or "$anchor" in each for each, _ in objects_in(self.root))

    @cached_property
    def draft(self) -> str:
        """The draft that the document declares; 2020-12 if it declares none or an unknown one."""
        declared = self.root.get("$schema")
        if not isinstance(declared, str):
            return DRAFT_2020

        address = declared.rstrip("#")
        known = (DRAFT_04, DRAFT_06, DRAFT_07, DRAFT_2019)
        return next((draft for draft in known if draft == address), DRAFT_2020)


def _references_in(value: object) -> set[str]:
    found: set[str] = set()
    pending = [value]
    while pending:
        schema = pending.pop()
        if not isinstance(schema, dict):
            continue

        if isinstance(reference := schema.get("$ref"), str):
            found.add(reference)
        pending.extend(child for keyword, _, child, _ in children(schema) if keyword != "$defs")

    return found


def _reached(start: str, below: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    pending = list(below[start])
    while pending:
        reference = pending.pop()
        if reference not in reached:
            reached.add(reference)
            pending.extend(below.get(reference, ()))

    return reached


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A keyword of a schema, or a property of the schema that has no keyword."""

    keyword: str
    """The keyword, or the word in brackets if it is not a keyword."""
    found: JSONObject | bool
    """The sub-schema that contains it."""
    path: str
    """The JSON Pointer of that sub-schema."""
    document: SchemaDocument
    """The whole schema."""
    under: str = ""
    """The keyword whose sub-schema it is; empty for the root."""

    @property
    def schema(self) -> JSONObject:
        """The sub-schema; empty for one that is ``true`` or ``false``."""
        return self.found if isinstance(self.found, dict) else {}

    @property
    def value(self) -> Any:
        """The value of the keyword; None if it is not a keyword."""
        return self.schema.get(self.keyword)

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the keyword, or else of the sub-schema."""
        return pointer(self.path, self.keyword) if self.keyword in self.schema else self.path

    def beside(self, keyword: str) -> SchemaPlace:
        """Return another keyword of the same sub-schema as a place."""
        return SchemaPlace(keyword, self.found, self.path, self.document, self.under)


Asked: TypeAlias = Callable[[SchemaPlace], bool]
"""A question about a place."""


def places_of(
    found: JSONObject | bool, path: str, document: SchemaDocument, under: str
) -> Iterator[SchemaPlace]:
    """Yield the places of one sub-schema: each keyword, and each property without a keyword."""
    if isinstance(found, bool):
        yield SchemaPlace(BOOLEAN, found, path, document, under)
        return

    traits = [name for name, is_so in TRAITS.items() if is_so(found)]
    names = [*([] if path else [ROOT]), *traits, *(name for name in found if name in KEYWORDS)]
    for name in names:
        yield SchemaPlace(name, found, path, document, under)


def types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a schema names; all types if it names none."""
    named = {name for name in as_list(schema.get("type", [])) if isinstance(name, str)}
    return frozenset(named) if named else frozenset(TYPES)


def text_of(schema: Mapping[str, Any], keyword: str) -> str:
    """Return the text of a keyword; empty if it has another type."""
    value = schema.get(keyword)
    return value if isinstance(value, str) else ""


def count_of(schema: Mapping[str, Any], keyword: str) -> int:
    """Return the whole number of a keyword; 0 if it has another type."""
    value = schema.get(keyword)
    return value if isinstance(value, int) else 0


def is_object(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema describes an object."""
    return "object" in as_list(schema.get("type")) or isinstance(schema.get("properties"), dict)


def members_of(schema: Mapping[str, Any]) -> JSONObject:
    """Return the members that an object names, with their schemas."""
    members = schema.get("properties")
    return members if isinstance(members, dict) else {}


def required_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the members that an object must have."""
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def optional_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the members that an object names but does not require."""
    required = set(required_of(schema))
    return [name for name in members_of(schema) if name not in required]


def is_open(schema: Mapping[str, Any]) -> bool:
    """Return whether an object has no rule about other members."""
    return (
        is_object(schema)
        and "additionalProperties" not in schema
        and schema.get("unevaluatedProperties") is not False
    )


def says_no_type(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema has no type, neither in itself nor through another keyword."""
    return not any(keyword in schema for keyword in _SAYS_A_TYPE)


def _is_bare_object(schema: Mapping[str, Any]) -> bool:
    return "object" in as_list(schema.get("type")) and "properties" not in schema


def _is_bare_array(schema: Mapping[str, Any]) -> bool:
    is_array = "array" in as_list(schema.get("type"))
    return is_array and "items" not in schema and "prefixItems" not in schema


TRAITS: Final[Mapping[str, Callable[[JSONObject], bool]]] = {
    OPEN: is_open,
    OPTIONAL: lambda schema: bool(optional_of(schema)),
    UNTYPED: says_no_type,
    BARE_OBJECT: _is_bare_object,
    BARE_ARRAY: _is_bare_array,
}
"""The properties of a sub-schema that have no keyword, by the word for each."""


def is_idle(place: SchemaPlace) -> bool:
    """Return whether a keyword is about types that its schema does not allow."""
    judged = JUDGED_TYPES.get(place.keyword)
    return judged is not None and judged.isdisjoint(types_of(place.schema))


def is_unknown_to_draft(place: SchemaPlace) -> bool:
    """Return whether the draft that the document declares has no such keyword."""
    return place.document.draft in _SINCE.get(place.keyword, ())


def is_not_object(place: SchemaPlace) -> bool:
    """Return whether a schema does not say that it is an object."""
    return place.schema.get("type") != "object"


def is_composed(place: SchemaPlace) -> bool:
    """Return whether a schema is composed of others."""
    return any(keyword in place.schema for keyword in _COMPOSED)


def is_tools_composed(place: SchemaPlace) -> bool:
    """Return whether the arguments of a tool are composed of other schemas."""
    return place.document.is_tool and is_composed(place)


def is_tools_not_object(place: SchemaPlace) -> bool:
    """Return whether the arguments of a tool do not say that they are an object."""
    return place.document.is_tool and is_not_object(place)


def is_false(place: SchemaPlace) -> bool:
    """Return whether the keyword, or the whole schema, is ``false``."""
    return place.value is False or place.found is False


def is_not_false(place: SchemaPlace) -> bool:
    """Return whether neither the keyword nor the whole schema is ``false``."""
    return not is_false(place)


def is_empty(place: SchemaPlace) -> bool:
    """Return whether the keyword has an empty list."""
    return isinstance(place.value, list) and not place.value


def is_list(place: SchemaPlace) -> bool:
    """Return whether the keyword has a list."""
    return isinstance(place.value, list)


def is_written_as_fraction(place: SchemaPlace) -> bool:
    """Return whether a number is written with a point or an exponent, as in ``3.0``."""
    return isinstance(place.value, float)


def has_text_rules_alone(place: SchemaPlace) -> bool:
    """Return whether a schema without a type and without values has rules for a text."""
    schema = place.schema
    has_rules = any(keyword in schema for keyword in ("pattern", "minLength", "maxLength"))
    return has_rules and "enum" not in schema and "const" not in schema


def has_siblings(place: SchemaPlace) -> bool:
    """Return whether there is anything except definitions next to the keyword."""
    return bool(place.schema.keys() - {place.keyword, "$defs", "definitions"})


def has_composite_values(place: SchemaPlace) -> bool:
    """Return whether the values of ``enum`` or ``const`` include an object or an array."""
    return any(isinstance(each, dict | list) for each in values_of(place))


def values_of(place: SchemaPlace) -> list[Any]:
    """Return the values that ``enum`` or ``const`` allows."""
    return [place.value] if place.keyword == "const" else as_list(place.value)


def has_no_literals(place: SchemaPlace) -> bool:
    """Return whether neither ``enum`` nor ``const`` lists the plain values."""
    schema = place.schema
    enum = schema.get("enum")
    is_enum = isinstance(enum, list) and bool(enum) and all(map(_is_plain, enum))
    return not is_enum and not ("const" in schema and _is_plain(schema["const"]))


def _is_plain(value: object) -> bool:
    return not isinstance(value, dict | list)


def leads_nowhere(place: SchemaPlace) -> bool:
    """Return whether a reference points out of its document, or has no target in it."""
    return isinstance(place.value, str) and place.document.find(place.value) is None


def may_lead_to_name(place: SchemaPlace) -> bool:
    """Return whether a reference may point to a sub-schema by that schema's own name."""
    return leads_nowhere(place) and place.document.has_names_of_its_own


def leads_elsewhere(place: SchemaPlace) -> bool:
    """Return whether a reference is not a pointer into its own document."""
    return not (isinstance(place.value, str) and is_pointer(place.value))


def leads_beyond_definitions(place: SchemaPlace) -> bool:
    """Return whether a reference is neither ``#`` nor a pointer to a definition of the root."""
    if leads_elsewhere(place):
        return True

    match pointer_tokens(str(place.value)[1:]):
        case [] | ["$defs" | "definitions", _]:
            return False
        case _:
            return True


def leads_beyond_raw_pointer(place: SchemaPlace) -> bool:
    """Return whether a reference has no target if its escapes are not decoded."""
    reference = str(place.value)
    if not reference.startswith("#/"):
        return True

    return place.document.at(reference[2:].split("/")) is None


def is_recursive(place: SchemaPlace) -> bool:
    """Return whether a reference leads, at some depth, to itself."""
    return isinstance(place.value, str) and place.value in place.document.recursive


def refers_inside(place: SchemaPlace) -> bool:
    """Return whether one of the schemas of the keyword is a reference."""
    return any(isinstance(each, dict) and "$ref" in each for each in as_list(place.value))


def is_one(place: SchemaPlace) -> bool:
    """Return whether the keyword has a list, or names, with exactly one entry."""
    return isinstance(place.value, list | dict) and len(place.value) == 1


def names_unknown_member(place: SchemaPlace) -> bool:
    """Return whether the object requires a member that it does not name."""
    return bool(set(required_of(place.schema)) - members_of(place.schema).keys())


def types_are_said_by_values(place: SchemaPlace) -> bool:
    """Return whether each value of ``enum`` or ``const`` next to it has one of the types."""
    schema = place.schema
    values = as_list(schema["enum"]) if "enum" in schema else [schema.get("const")]
    named = types_of(schema)
    allowed = named | {"integer"} if "number" in named else named
    has_values = "enum" in schema or "const" in schema
    return has_values and all(json_type(value) in allowed for value in values)


def types_are_said_by_forms(place: SchemaPlace) -> bool:
    """Return whether each form of a union next to it names one of the types itself."""
    forms = [form for keyword in UNIONS for form in as_list(place.schema.get(keyword, []))]
    named = types_of(place.schema)
    return bool(forms) and all(
        isinstance(form, dict) and "type" in form and types_of(form) <= named for form in forms
    )


def has_closed_form(place: SchemaPlace) -> bool:
    """Return whether one form of a union or of ``allOf`` next to it is an object with members."""
    forms = [form for keyword in _COMPOSED for form in as_list(place.schema.get(keyword, []))]
    return any(members_of(_followed(form, place.document)) for form in forms)


def names_members(place: SchemaPlace) -> bool:
    """Return whether the object names members, or has a rule about other members."""
    return (
        "properties" in place.schema or place.schema.get("additionalProperties", True) is not True
    )


def _followed(form: object, document: SchemaDocument) -> JSONObject:
    """Return the target of a form's reference, or the form; empty if it is not an object."""
    if isinstance(form, dict) and isinstance(reference := form.get("$ref"), str):
        form = document.find(reference)

    return form if isinstance(form, dict) else {}


def merges_exactly(place: SchemaPlace) -> bool:
    """Return whether the parts of ``allOf`` are objects all of whose members are required."""
    parts = [_followed(part, place.document) for part in as_list(place.value)]
    is_members = all(is_object(part) and members_of(part) for part in parts)
    return is_members and not any(optional_of(part) for part in parts)


def is_whole_tuple(place: SchemaPlace) -> bool:
    """Return whether an array must have exactly as many items as its ``prefixItems``."""
    length = len(as_list(place.value))
    schema = place.schema
    is_closed = schema.get("items") is False or schema.get("maxItems") == length
    return is_closed and schema.get("minItems") == length


def is_beside_whole_tuple(place: SchemaPlace) -> bool:
    """Return whether the bounds of an array add nothing to its ``prefixItems``."""
    return "prefixItems" in place.schema and is_whole_tuple(place.beside("prefixItems"))


def is_ended_tuple(place: SchemaPlace) -> bool:
    """Return whether an array has no items after ``prefixItems``, or describes them."""
    schema = place.schema
    says_more = "items" in schema or "unevaluatedItems" in schema
    return says_more or schema.get("maxItems") == len(as_list(place.value))


def has_fewer_places_than_items(place: SchemaPlace) -> bool:
    """Return whether an array without ``items`` requires more items than it describes."""
    schema = place.schema
    if schema.get("items") not in (None, False) or schema.get("unevaluatedItems"):
        return False

    least = max(count_of(schema, "minItems"), count_of(schema, "minContains"))
    return "items" not in schema and least > len(as_list(schema.get("prefixItems") or []))


def demands_unnamed_members(place: SchemaPlace) -> bool:
    """Return whether an object requires more members than it names or describes."""
    schema = place.schema
    says_more = any(
        schema.get(keyword) not in (None, False)
        for keyword in (
            "additionalProperties",
            "unevaluatedProperties",
            "patternProperties",
            "propertyNames",
        )
    )
    return not says_more and count_of(schema, "minProperties") > len(members_of(schema))


def bounds_optional_members(place: SchemaPlace) -> bool:
    """Return whether the number of members is bounded and some of them are optional."""
    # llguidance can count them if at most one is left to choose, and no other is allowed
    schema = place.schema
    members = members_of(schema)
    optional = [name for name in optional_of(schema) if members[name] is not False]
    required = len(members) - len(optional_of(schema))
    least = max(count_of(schema, "minProperties") - required, 0)
    has_most = "maxProperties" in schema
    if not optional or not (least or has_most):
        return False

    most = max(count_of(schema, "maxProperties") - required, 0)
    is_closed = schema.get("additionalProperties") is False
    is_one_more = least <= 1 and (most == 1 or not has_most)
    return not (is_closed and is_one_more and "patternProperties" not in schema)


def has_other_than(formats: frozenset[str]) -> Asked:
    """Return the question whether a format is not one of these."""

    def is_other(place: SchemaPlace) -> bool:
        return text_of(place.schema, place.keyword) not in formats

    return is_other


def may_be_text(place: SchemaPlace) -> bool:
    """Return whether a schema allows a text."""
    return "string" in types_of(place.schema)


def is_of(*types: str) -> Asked:
    """Return the question whether a schema names one of these types."""

    def names_one(place: SchemaPlace) -> bool:
        named = as_list(place.schema.get("type", []))
        return any(name in types for name in named)

    return names_one


def both(*asked: Asked) -> Asked:
    """Return the question whether the answer to all of these is yes."""

    def all_are(place: SchemaPlace) -> bool:
        return all(each(place) for each in asked)

    return all_are


def is_under(*keywords: str) -> Asked:
    """Return the question whether a sub-schema is under one of these keywords."""

    def stands_under(place: SchemaPlace) -> bool:
        return place.under in keywords

    return stands_under


def is_not_under(*keywords: str) -> Asked:
    """Return the question whether a sub-schema is not under any of these keywords."""

    def stands_elsewhere(place: SchemaPlace) -> bool:
        return place.under not in keywords

    return stands_elsewhere


_LOOKS: Final = re.compile(r"\(\?(?:<?[=!])")
_LOOKS_BEHIND: Final = re.compile(r"\(\?<[=!]")
_BACK: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(?:[1-9]|k<)")
_BOUNDARY: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[bB]")
_CATEGORY: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[pP]")
_FLAGS: Final = re.compile(r"\(\?[a-z-]")
_OPEN_COUNT: Final = re.compile(r"\{,\d+\}")
_NO_GBNF_ESCAPE: Final = re.compile(
    r"""\\(?![\[\](){}^$.|*+?\-\\"nrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"""
)
_GROUP: Final = re.compile(r"\(\?(?!:)")
_CLASS: Final = re.compile(r"\[(?:[^\]\\]|\\.)*\]")
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)


def _patterns_of(place: SchemaPlace) -> list[str]:
    """Return the patterns of a keyword: its text, or the names of its members."""
    value = place.value
    if isinstance(value, dict):
        return [str(name) for name in value]

    return [value] if isinstance(value, str) else []


def _is_found(expression: re.Pattern[str]) -> Asked:
    def is_in_pattern(place: SchemaPlace) -> bool:
        return any(expression.search(pattern) for pattern in _patterns_of(place))

    return is_in_pattern


looks_around: Final = _is_found(_LOOKS)
looks_behind: Final = _is_found(_LOOKS_BEHIND)
looks_back: Final = _is_found(_BACK)
has_boundary: Final = _is_found(_BOUNDARY)
has_category: Final = _is_found(_CATEGORY)
has_flags: Final = _is_found(_FLAGS)
has_open_count: Final = _is_found(_OPEN_COUNT)
has_quote: Final = _is_found(re.compile(r'"'))
has_wide_character: Final = _is_found(re.compile(r"[^\x00-\x7f]"))


def is_not_anchored(place: SchemaPlace) -> bool:
    """Return whether a pattern may match inside a longer text."""
    return not all(map(_is_whole, _patterns_of(place)))


def _is_whole(pattern: str) -> bool:
    return pattern == ".*" or (
        pattern[:1] == "^" and pattern[-1:] == "$" and not pattern.endswith("\\$")
    )


def has_bare_alternatives(place: SchemaPlace) -> bool:
    """Return whether a pattern has alternatives outside of every group, as in ``^a|b$``."""
    return any(map(_has_bare_bar, _patterns_of(place)))


def _has_bare_bar(pattern: str) -> bool:
    depth = 0
    for character in _CLASS.sub("", _ESCAPE.sub("", pattern)):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth == 0:
            return True

    return False


def is_beyond_gbnf(place: SchemaPlace) -> bool:
    """Return whether llama.cpp accepts any text, because it has no grammar for the pattern."""
    return any(map(_has_no_grammar, _patterns_of(place)))


def _has_no_grammar(pattern: str) -> bool:
    if not (len(pattern) > 1 and pattern[0] == "^" and pattern[-1] == "$"):
        return pattern not in ("", ".*")

    bare = _CLASS.sub("", _ESCAPE.sub("", pattern[1:-1]))
    has_inner_anchor = "^" in bare or "$" in bare
    return bool(_NO_GBNF_ESCAPE.search(pattern) or _GROUP.search(pattern)) or has_inner_anchor


def has_unknown_schema(place: SchemaPlace) -> bool:
    """Return whether a document has a ``$schema`` that JSON Schema does not define."""
    try:
        declared_draft(place.document.root)
    except ContractError:
        return True

    return False
