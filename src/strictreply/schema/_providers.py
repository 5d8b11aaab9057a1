"""What each provider does with each keyword of a schema: one table.

A cell says what happens to a keyword, under which condition, and the evidence. What is not known
for certain is ``UNKNOWN``, never refused: this table never holds back something that a provider
would accept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias, get_args

from strictreply.schema import _places as at
from strictreply.schema._disjoint import is_maybe_unproven, is_surely_unproven, may_overlap
from strictreply.schema._documents import objects_in
from strictreply.schema._places import Asked, SchemaDocument, SchemaPlace
from strictreply.schema._vocabulary import as_list
from strictreply.values._limits import JSONObject

Provider: TypeAlias = Literal[
    "openai",
    "anthropic",
    "gemini",
    "vllm",
    "llamacpp",
    "llguidance",
    "bedrock",
    "mistral",
]
"""A provider with a strict mode, or a server or library that enforces schemas."""

PROVIDERS: Final[tuple[Provider, ...]] = get_args(Provider)
"""All providers, in the order of the table."""


class Treatment(StrEnum):
    """What a provider does with a keyword."""

    ENFORCED = "enforced"  # no reply can break it
    NARROWED = "narrowed"  # accepted, but some valid replies become impossible
    DROPPED = "dropped"  # accepted silently, and not enforced
    DESCRIBED = "described"  # its SDK moves it into the description; nothing enforces it
    REFUSED = "refused"  # an error: nothing is generated
    UNKNOWN = "unknown"  # not known


@dataclass(frozen=True, slots=True)
class CellCase:
    """What happens to a keyword under a condition."""

    treatment: Treatment
    """What the provider does with it."""
    source: str
    """The evidence: a file at a commit, a page, a thread, or a run."""
    when: Asked | None = None
    """The condition; None for all other cases."""
    is_always: bool = False
    """Whether it also applies if the provider does not read the keyword."""
    reaches_below: bool = True
    """Whether sub-schemas below the keyword are treated separately."""


Cell: TypeAlias = tuple[CellCase, ...]
"""The cases of a keyword; the first whose condition holds counts."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one provider does with schemas."""

    title: str
    """The provider, and the parameter of its API."""
    cells: Mapping[str, Cell]
    """The cases of each known keyword."""
    otherwise: CellCase
    """What happens to every other keyword."""
    reads: Callable[[SchemaPlace], Collection[str] | None] | None = None
    """Which keywords are read at a place, None for all; None if all are read everywhere."""
    unread: CellCase | None = None
    """What happens to a keyword that is not read."""
    reads_definitions: bool = True
    """Whether unused definitions are read."""
    is_handed_on: Callable[[SchemaDocument], bool] | None = None
    """Whether another backend reads a whole schema before this one; None for never."""
    taker: Callable[[SchemaDocument], Provider | None] | None = None
    """The backend that accepts what this one rejects, None if unknown; None if it is an error."""


_OPENAI_GUIDE: Final = "developers.openai.com/api/docs/guides/structured-outputs, supported schemas"
_OPENAI_PROFILE: Final = "UnitVectorY-Labs/jsonschemaprofiles schemas/openai_202602.yaml@57d66e1"
_OPENAI_KEYS: Final = "pydantic/pydantic-ai profiles/openai.py@009b91a, _STRICT_INCOMPATIBLE_KEYS"
_ANTHROPIC_GUIDE: Final = "platform.claude.com/docs, structured outputs, JSON Schema limitations"
_ANTHROPIC_SDK: Final = "anthropic 2.14.0 lib/_parse/_transform.py"
_GEMINI_SDK: Final = "google-genai 3.6.1 types.py, response_json_schema"
_GEMINI_PROFILE: Final = "UnitVectorY-Labs/jsonschemaprofiles schemas/gemini_202602.yaml@57d66e1"
_XGRAMMAR: Final = "run: xgrammar 0.2.9"
_VLLM_CHECK: Final = "vllm-project/vllm v1/structured_output/backend_xgrammar.py@030141c"
_LLAMACPP: Final = "run: ggml-org/llama.cpp@0c1e570 common/json-schema-to-grammar.cpp"
_LLGUIDANCE: Final = "run: llguidance 1.9.1"
_BEDROCK_GUIDE: Final = "docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html"

_E: Final = Treatment.ENFORCED
_N: Final = Treatment.NARROWED
_D: Final = Treatment.DROPPED
_S: Final = Treatment.DESCRIBED
_R: Final = Treatment.REFUSED
_U: Final = Treatment.UNKNOWN


def _each(keywords: str, *cases: CellCase) -> dict[str, Cell]:
    """Return the same cases for several keywords."""
    return dict.fromkeys(keywords.split(), cases)


_TEN_FORMATS: Final = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]
)
_OPENAI_FORMATS: Final = _TEN_FORMATS - {"uri"}
_GEMINI_FORMATS: Final = frozenset({"date-time", "date", "time"})
_XGRAMMAR_FORMATS: Final = _TEN_FORMATS | frozenset(
    ["uri-reference", "uri-template", "json-pointer", "relative-json-pointer"]
)
_LLGUIDANCE_FORMATS: Final = _TEN_FORMATS | {"unknown"}
_LLAMACPP_FORMATS: Final = frozenset(
    ["date-time", "date", "time", "uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5"]
)


def _not_permitted(thread: str) -> CellCase:
    """Return the case of a keyword that OpenAI's strict mode rejects with a 400."""
    return CellCase(_R, f"{_OPENAI_GUIDE}; 400 in {thread}")


_OPENAI: Final = Column(
    "OpenAI, strict: true",
    {
        at.ROOT: (
            CellCase(
                _R, "400 in cecli-dev/cecli#281: schema must have type 'object'", at.is_not_object
            ),
            CellCase(_R, "400 in Lingtai-AI/lingtai-kernel#113", at.is_composed),
            CellCase(_E, _OPENAI_GUIDE),
        ),
        at.OPEN: (CellCase(_R, f"{_OPENAI_GUIDE}; 400: additionalProperties is required"),),
        at.OPTIONAL: (CellCase(_R, f"{_OPENAI_GUIDE}; 400: required must name every key"),),
        at.UNTYPED: (
            CellCase(_R, "400: schema must have a 'type' key; pydantic/pydantic-ai#4425"),
        ),
        at.BOOLEAN: (
            CellCase(_E, _OPENAI_GUIDE, at.both(at.is_false, at.is_under("additionalProperties"))),
            CellCase(_U, _OPENAI_PROFILE),
        ),
        at.BARE_OBJECT: (
            CellCase(_R, "400 in makenotion/notion-mcp-server: object schema missing properties"),
        ),
        at.BARE_ARRAY: (
            CellCase(_R, "400: array schema missing items; pydantic/pydantic-ai#4425"),
        ),
        **_each(
            "type enum const",
            CellCase(_U, _OPENAI_PROFILE, at.has_composite_values),
            CellCase(_E, _OPENAI_GUIDE),
        ),
        **_each("properties required", CellCase(_E, _OPENAI_GUIDE)),
        "additionalProperties": (
            CellCase(_R, _OPENAI_GUIDE, at.is_not_false),
            CellCase(_E, _OPENAI_GUIDE),
        ),
        "items": (CellCase(_U, _OPENAI_PROFILE, at.is_list), CellCase(_E, _OPENAI_GUIDE)),
        **_each(
            "minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
            CellCase(_E, _OPENAI_GUIDE),
        ),
        "anyOf": (CellCase(_E, _OPENAI_GUIDE),),
        "oneOf": (_not_permitted("openai/openai-agents-python#1884, can1357/oh-my-pi#920"),),
        "allOf": (_not_permitted("makenotion/notion-mcp-server#102"),),
        **_each(
            "not if then else dependentRequired dependentSchemas",
            CellCase(_R, f"{_OPENAI_GUIDE}: not supported"),
        ),
        "uniqueItems": (_not_permitted("openclaw/clownfish#280"),),
        **_each("minLength maxLength", _not_permitted("coder/mux#1220")),
        **_each(
            "patternProperties unevaluatedProperties propertyNames minProperties maxProperties "
            "unevaluatedItems contains minContains maxContains",
            CellCase(_R, _OPENAI_KEYS),
        ),
        "pattern": (
            CellCase(_U, f"{_OPENAI_KEYS} leaves it out; others saw no 400", at.looks_around),
            CellCase(_E, _OPENAI_GUIDE),
        ),
        "format": (
            CellCase(
                _R,
                f"{_OPENAI_GUIDE}; 400: is not a valid format",
                at.has_other_than(_OPENAI_FORMATS),
            ),
            CellCase(_E, _OPENAI_GUIDE),
        ),
        "$ref": (
            CellCase(
                _R,
                "400: $ref cannot have keywords; openai 3.57.0 lib/_pydantic.py",
                at.has_siblings,
            ),
            CellCase(
                _R,
                "400: reference can only point to definitions defined at the top level",
                at.leads_beyond_definitions,
            ),
            CellCase(_E, _OPENAI_GUIDE),
        ),
    },
    CellCase(_U, _OPENAI_PROFILE),
)

_ANTHROPIC_TEXT: Final = CellCase(_S, _ANTHROPIC_SDK)


def _read_by_anthropic(place: SchemaPlace) -> Collection[str]:
    """Return the keywords that the SDK keeps in a schema, at one sub-schema."""
    schema = place.schema
    if "$ref" in schema:
        return {"$ref"}

    kept = {"type", "properties", "required", "additionalProperties", "items"}
    kept |= {
        keyword
        for keyword in ("enum", "const")
        if not at.has_composite_values(place.beside(keyword))
    }
    kept.update([keyword for keyword in ("anyOf", "oneOf", "allOf") if keyword in schema][:1])
    if at.text_of(schema, "format") in _TEN_FORMATS:
        kept.add("format")
    if schema.get("minItems") in (0, 1):
        kept.add("minItems")

    return kept


_ANTHROPIC: Final = Column(
    "Anthropic, strict: true and output_config",
    {
        at.ROOT: (
            CellCase(_R, "400 in anthropics/claude-code#5319", at.is_tools_composed),
            CellCase(_U, _ANTHROPIC_GUIDE, at.is_not_object),
            CellCase(_E, _ANTHROPIC_GUIDE),
        ),
        at.OPEN: (CellCase(_E, f"{_ANTHROPIC_SDK} closes it"),),
        at.OPTIONAL: (CellCase(_E, f"{_ANTHROPIC_GUIDE}: few of them in a request"),),
        at.UNTYPED: (
            CellCase(_R, f"{_ANTHROPIC_SDK} raises ValueError", at.has_no_literals),
            CellCase(_E, _ANTHROPIC_SDK),
        ),
        at.BOOLEAN: (
            CellCase(_E, _ANTHROPIC_GUIDE, at.is_under("additionalProperties")),
            CellCase(_R, f"{_ANTHROPIC_SDK} raises TypeError"),
        ),
        at.BARE_OBJECT: (CellCase(_N, f"{_ANTHROPIC_SDK} leaves the empty object"),),
        at.BARE_ARRAY: (CellCase(_U, _ANTHROPIC_GUIDE),),
        "type": (
            CellCase(_E, _ANTHROPIC_GUIDE, at.types_are_said_by_values),
            CellCase(_E, _ANTHROPIC_GUIDE, at.types_are_said_by_forms),
            CellCase(_D, f"{_ANTHROPIC_SDK} leaves it out beside a union", at.is_composed),
            CellCase(_E, _ANTHROPIC_GUIDE),
        ),
        **_each("enum const", CellCase(_E, _ANTHROPIC_GUIDE)),
        "items": (
            CellCase(_R, f"{_ANTHROPIC_SDK} raises TypeError", at.is_list),
            CellCase(_E, _ANTHROPIC_GUIDE),
        ),
        **_each("properties required minItems format", CellCase(_E, _ANTHROPIC_GUIDE)),
        "additionalProperties": (
            CellCase(_E, _ANTHROPIC_GUIDE, at.is_false),
            CellCase(
                _N,
                f"{_ANTHROPIC_SDK} closes the object; {_ANTHROPIC_GUIDE}: 400",
                reaches_below=False,
            ),
        ),
        "anyOf": (CellCase(_E, _ANTHROPIC_GUIDE),),
        "oneOf": (
            CellCase(_D, f"{_ANTHROPIC_SDK} makes it anyOf", may_overlap),
            CellCase(_E, f"{_ANTHROPIC_SDK} makes it anyOf"),
        ),
        "allOf": (
            CellCase(_R, f"{_ANTHROPIC_GUIDE}: allOf with $ref", at.refers_inside),
            CellCase(_E, _ANTHROPIC_GUIDE),
        ),
        "$ref": (
            CellCase(_R, f"{_ANTHROPIC_GUIDE}: recursive schemas", at.is_recursive),
            CellCase(_R, f"{_ANTHROPIC_GUIDE}: external $ref", at.leads_elsewhere),
            CellCase(_E, _ANTHROPIC_GUIDE),
        ),
    },
    _ANTHROPIC_TEXT,
    reads=_read_by_anthropic,
    unread=_ANTHROPIC_TEXT,
)

_GEMINI: Final = Column(
    "Gemini, responseJsonSchema and parametersJsonSchema",
    {
        at.ROOT: (CellCase(_U, _GEMINI_PROFILE),),
        **_each(
            "type enum items prefixItems minItems maxItems anyOf properties additionalProperties "
            "required",
            CellCase(_U, _GEMINI_SDK, at.has_composite_values),
            CellCase(_E, _GEMINI_SDK),
        ),
        **_each(
            "minimum maximum", CellCase(_U, f"{_GEMINI_SDK} lists it; others saw it not enforced")
        ),
        "oneOf": (
            CellCase(_D, f"{_GEMINI_SDK}: as anyOf", may_overlap),
            CellCase(_E, f"{_GEMINI_SDK}: as anyOf"),
        ),
        "$ref": (
            CellCase(_U, f"{_GEMINI_SDK}: cyclic references to a limited degree", at.is_recursive),
            CellCase(_U, f"{_GEMINI_SDK}: nothing beside it", at.has_siblings),
            CellCase(_E, _GEMINI_SDK),
        ),
        "format": (
            CellCase(_D, _GEMINI_PROFILE, at.has_other_than(_GEMINI_FORMATS)),
            CellCase(_E, _GEMINI_PROFILE),
        ),
        **_each(
            "not if then else dependentRequired dependentSchemas dependencies pattern minLength "
            "maxLength exclusiveMinimum exclusiveMaximum multipleOf uniqueItems contains "
            "minContains maxContains patternProperties propertyNames minProperties maxProperties "
            "unevaluatedItems unevaluatedProperties allOf contentEncoding contentMediaType",
            CellCase(_D, f"{_GEMINI_SDK}: not supported", reaches_below=False),
        ),
    },
    CellCase(_U, _GEMINI_SDK),
)


def _read_by_type(schema: JSONObject, read: Callable[[JSONObject], set[str]]) -> set[str]:
    """Return the keywords that are read for the types of a schema."""
    kinds = as_list(schema["type"])
    return {"type"}.union(*(read({**schema, "type": kind}) for kind in kinds))


def _read_by_llamacpp(place: SchemaPlace) -> set[str]:
    """Return the keywords that llama.cpp's converter reads at one sub-schema."""
    return _llamacpp_keywords(place.schema)


def _llamacpp_keywords(schema: JSONObject) -> set[str]:
    first = next((name for name in ("$ref", "oneOf", "anyOf") if name in schema), None)
    if first is not None:
        return {first}
    if isinstance(schema.get("type"), list):
        return _read_by_type(schema, _llamacpp_keywords)

    literal = next((name for name in ("const", "enum") if name in schema), None)
    if literal is not None:
        return {literal}

    names_members = "properties" in schema or schema.get("additionalProperties", True) is not True
    kind = at.text_of(schema, "type") or _llamacpp_kind(schema, names_members=names_members)
    is_merged = "allOf" in schema and (kind == "string" or (kind == "object" and not names_members))
    return (
        {"type", "allOf"} if is_merged else {"type", *_LLAMACPP_READS.get(kind, _nothing)(schema)}
    )


def _llamacpp_kind(schema: JSONObject, *, names_members: bool) -> str:
    """Return the type that a schema without one is read as."""
    if names_members or "allOf" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"

    is_text = any(name in schema for name in ("pattern", "minLength", "maxLength"))
    return "string" if is_text or at.text_of(schema, "format") in _LLAMACPP_FORMATS else ""


def _nothing(_: JSONObject) -> set[str]:
    return set()


def _llamacpp_array(schema: JSONObject) -> set[str]:
    items = "items" if "items" in schema else "prefixItems"
    return {items} if isinstance(schema.get(items), list) else {items, "minItems", "maxItems"}


def _llamacpp_string(schema: JSONObject) -> set[str]:
    if schema.get("pattern"):
        return {"pattern"}

    return (
        {"format"}
        if at.text_of(schema, "format") in _LLAMACPP_FORMATS
        else {"minLength", "maxLength"}
    )


def _llamacpp_integer(schema: JSONObject) -> set[str]:
    least = "minimum" if "minimum" in schema else "exclusiveMinimum"
    return {least, "maximum" if "maximum" in schema else "exclusiveMaximum"}


_LLAMACPP_READS: Final[Mapping[str, Callable[[JSONObject], set[str]]]] = {
    "object": lambda _: {"properties", "required", "additionalProperties"},
    "array": _llamacpp_array,
    "string": _llamacpp_string,
    "integer": _llamacpp_integer,
}

_LLAMACPP_COLUMN: Final = Column(
    "llama.cpp, its own grammar",
    {
        at.ROOT: (CellCase(_E, _LLAMACPP),),
        at.OPEN: (
            CellCase(_N, f"{_LLAMACPP}: taken as closed", at.names_members),
            CellCase(_E, _LLAMACPP),
        ),
        at.BOOLEAN: (
            CellCase(_E, _LLAMACPP, at.is_under("additionalProperties")),
            CellCase(_R, f"{_LLAMACPP}: schema must be an object"),
        ),
        at.OPTIONAL: (CellCase(_E, _LLAMACPP),),
        at.UNTYPED: (
            CellCase(_N, f"{_LLAMACPP}: taken as a string", at.has_text_rules_alone),
            CellCase(_E, _LLAMACPP),
        ),
        at.BARE_OBJECT: (CellCase(_E, _LLAMACPP),),
        at.BARE_ARRAY: (CellCase(_E, _LLAMACPP),),
        "type": (
            CellCase(_R, f"{_LLAMACPP}: type must not be empty", at.is_empty),
            CellCase(_E, _LLAMACPP, at.types_are_said_by_values, is_always=True),
            CellCase(_E, _LLAMACPP, at.types_are_said_by_forms, is_always=True),
            CellCase(_E, _LLAMACPP),
        ),
        **_each(
            "enum anyOf",
            CellCase(_R, f"{_LLAMACPP}: must not be empty", at.is_empty),
            CellCase(_E, _LLAMACPP),
        ),
        "const": (CellCase(_E, _LLAMACPP),),
        "oneOf": (
            CellCase(_R, f"{_LLAMACPP}: must not be empty", at.is_empty),
            CellCase(_D, f"{_LLAMACPP}: as anyOf", may_overlap),
            CellCase(_E, _LLAMACPP),
        ),
        "allOf": (
            CellCase(
                _N,
                f"{_LLAMACPP}: read as one closed object",
                at.both(at.names_members, at.has_closed_form),
                is_always=True,
            ),
            CellCase(_E, _LLAMACPP, at.merges_exactly),
            CellCase(_N, f"{_LLAMACPP}: read as one closed object"),
        ),
        "$ref": (
            CellCase(_R, f"{_LLAMACPP}: only #/… that it finds", at.leads_beyond_raw_pointer),
            CellCase(_E, _LLAMACPP),
        ),
        "properties": (
            CellCase(_N, f"{_LLAMACPP}: a union alone counts", at.has_closed_form, is_always=True),
            CellCase(_E, _LLAMACPP),
        ),
        "required": (CellCase(_D, _LLAMACPP, at.names_unknown_member), CellCase(_E, _LLAMACPP)),
        "additionalProperties": (CellCase(_E, _LLAMACPP),),
        "patternProperties": (
            CellCase(
                _N,
                f"{_LLAMACPP}: not read, and the object is closed",
                at.names_members,
                is_always=True,
            ),
            CellCase(_D, _LLAMACPP, is_always=True, reaches_below=False),
        ),
        "items": (CellCase(_E, _LLAMACPP),),
        **_each(
            "minItems maxItems",
            CellCase(_E, _LLAMACPP, at.is_beside_whole_tuple, is_always=True),
            CellCase(_R, _LLAMACPP, at.is_written_as_fraction),
            CellCase(_E, _LLAMACPP),
        ),
        "prefixItems": (
            CellCase(
                _N,
                f"{_LLAMACPP}: `items` alone counts",
                lambda place: "items" in place.schema,
                is_always=True,
            ),
            CellCase(_E, _LLAMACPP, at.is_whole_tuple),
            CellCase(_N, f"{_LLAMACPP}: each item once"),
        ),
        "pattern": (
            CellCase(_U, _LLAMACPP, at.has_wide_character),
            CellCase(_U, _LLAMACPP, at.has_quote),
            CellCase(_D, f"{_LLAMACPP}: any text", at.is_beyond_gbnf),
            CellCase(_N, f"{_LLAMACPP}: anchored as a whole", at.has_bare_alternatives),
            CellCase(_E, _LLAMACPP),
        ),
        "format": (CellCase(_E, _LLAMACPP),),
        **_each(
            "minLength maxLength",
            CellCase(_R, _LLAMACPP, at.is_written_as_fraction),
            CellCase(_E, _LLAMACPP),
        ),
        **_each("minimum maximum exclusiveMinimum exclusiveMaximum", CellCase(_E, _LLAMACPP)),
        "uniqueItems": (
            CellCase(_E, _LLAMACPP, at.is_false, is_always=True),
            CellCase(_D, _LLAMACPP),
        ),
        "$dynamicAnchor": (CellCase(_E, _LLAMACPP, is_always=True),),
    },
    CellCase(_D, _LLAMACPP, reaches_below=False),
    reads=_read_by_llamacpp,
    unread=CellCase(_D, f"{_LLAMACPP}: not read here", reaches_below=False),
    reads_definitions=False,
)


def _read_by_xgrammar(place: SchemaPlace) -> set[str]:
    """Return the keywords that xgrammar reads at one sub-schema."""
    kind = "string" if place.under == "propertyNames" else ""
    return _xgrammar_keywords({"type": kind} | place.schema if kind else place.schema)


_FIRST_READ: Final = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")


def _xgrammar_keywords(schema: JSONObject) -> set[str]:
    first = next((name for name in _FIRST_READ if name in schema), None)
    if first is not None:
        return {first}
    if isinstance(schema.get("type"), list):
        return _read_by_type(schema, _xgrammar_keywords)

    kind = at.text_of(schema, "type") or _xgrammar_kind(schema)
    return {"type", *_XGRAMMAR_READS.get(kind, _nothing)(schema)}


def _xgrammar_kind(schema: JSONObject) -> str:
    """Return the type that a schema without one is read as."""
    if any(
        name in schema for name in ("properties", "additionalProperties", "unevaluatedProperties")
    ):
        return "object"

    is_array = any(name in schema for name in ("items", "prefixItems", "unevaluatedItems"))
    return "array" if is_array else ""


def _xgrammar_object(schema: JSONObject) -> set[str]:
    read = {"properties", "required", "patternProperties", "propertyNames"}
    others = "additionalProperties" if "additionalProperties" in schema else "unevaluatedProperties"
    return read | {others, "minProperties", "maxProperties"}


def _xgrammar_array(schema: JSONObject) -> set[str]:
    others = "items" if "items" in schema else "unevaluatedItems"
    return {"prefixItems", others, "minItems", "maxItems"}


def _xgrammar_string(schema: JSONObject) -> set[str]:
    first = next((name for name in ("format", "pattern") if name in schema), None)
    return {"minLength", "maxLength"} if first is None else {first}


_XGRAMMAR_READS: Final[Mapping[str, Callable[[JSONObject], set[str]]]] = {
    "object": _xgrammar_object,
    "array": _xgrammar_array,
    "string": _xgrammar_string,
    "integer": lambda _: {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    },
    "number": lambda _: {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}


def _is_text_in_two_ways(schema: JSONObject) -> bool:
    has_form = "pattern" in schema or "format" in schema
    return has_form and ("minLength" in schema or "maxLength" in schema)


def _is_refused_name_rule(schema: JSONObject) -> bool:
    """Return whether vLLM passes ``propertyNames`` of an object to another backend."""
    rule = schema.get("propertyNames")
    if rule is None:
        return False

    says_members = "properties" in schema or "patternProperties" in schema
    others = isinstance(schema.get("additionalProperties"), dict)
    others = others or schema.get("unevaluatedProperties", True) is not True
    return says_members or others or (isinstance(rule, dict) and _is_text_in_two_ways(rule))


def _is_refused_pattern_rule(schema: JSONObject) -> bool:
    """Return whether vLLM passes ``patternProperties`` of an object to another backend."""
    rules = schema.get("patternProperties")
    return isinstance(rules, dict) and ("properties" in schema or len(rules) > 1)


_CHECKED_BY_VLLM: Final[Mapping[str, tuple[frozenset[str], Callable[[JSONObject], bool]]]] = {
    **dict.fromkeys(
        ("uniqueItems", "contains", "minContains", "maxContains"),
        (frozenset({"array"}), lambda _: True),
    ),
    "multipleOf": (frozenset({"integer", "number"}), lambda _: True),
    "format": (
        frozenset({"string"}),
        lambda schema: at.text_of(schema, "format") not in _XGRAMMAR_FORMATS,
    ),
    **dict.fromkeys(("minLength", "maxLength"), (frozenset({"string"}), _is_text_in_two_ways)),
    "propertyNames": (frozenset({"object"}), _is_refused_name_rule),
    "patternProperties": (frozenset({"object"}), _is_refused_pattern_rule),
}
"""The types for which vLLM's own check examines a keyword, and its condition."""


def _is_handed_on(place: SchemaPlace) -> bool:
    """Return whether vLLM's own check rejects a keyword for xgrammar."""
    return _is_checked(place.keyword, place.schema)


def _is_checked(keyword: str, schema: JSONObject) -> bool:
    types, is_refused = _CHECKED_BY_VLLM[keyword]
    named = {name for name in as_list(schema.get("type", [])) if isinstance(name, str)}
    return bool(types & named) and keyword in schema and is_refused(schema)


def _is_handed_on_anywhere(document: SchemaDocument) -> bool:
    """Return whether vLLM's own check rejects anything in a document, used or not."""
    return any(
        _is_checked(keyword, each)
        for each, _ in objects_in(document.root)
        for keyword in _CHECKED_BY_VLLM
    )


def _taker_of_vllm(document: SchemaDocument) -> Provider | None:
    """Return the backend for what xgrammar rejects: guidance, or outlines for patternProperties."""
    has_patterns = any("patternProperties" in each for each, _ in objects_in(document.root))
    return None if has_patterns else "llguidance"


_HANDED_ON: Final = CellCase(_R, _VLLM_CHECK, _is_handed_on, is_always=True)

_VLLM: Final = Column(
    "vLLM, its backend auto (xgrammar, then guidance)",
    {
        at.ROOT: (CellCase(_E, _XGRAMMAR),),
        at.OPEN: (
            CellCase(_N, f"{_XGRAMMAR}: taken as closed", at.names_members),
            CellCase(_E, _XGRAMMAR),
        ),
        at.OPTIONAL: (CellCase(_E, _XGRAMMAR),),
        at.UNTYPED: (CellCase(_E, _XGRAMMAR),),
        at.BOOLEAN: (
            CellCase(_E, _XGRAMMAR, at.both(at.is_not_false, at.is_not_under("prefixItems"))),
            CellCase(
                _E,
                _XGRAMMAR,
                at.is_under(
                    "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems"
                ),
            ),
            CellCase(_R, f"{_XGRAMMAR}: cannot accept any value"),
        ),
        **dict.fromkeys(
            (at.BARE_OBJECT, at.BARE_ARRAY),
            (
                CellCase(_N, f"{_XGRAMMAR}: empty behind a $ref", at.is_under("$ref")),
                CellCase(_E, _XGRAMMAR),
            ),
        ),
        "type": (
            CellCase(_E, _XGRAMMAR, at.types_are_said_by_values, is_always=True),
            CellCase(_E, _XGRAMMAR, at.types_are_said_by_forms, is_always=True),
            CellCase(_E, _XGRAMMAR),
        ),
        "enum": (
            CellCase(_R, f"{_XGRAMMAR}: must not be empty", at.is_empty),
            CellCase(_E, _XGRAMMAR),
        ),
        **_each("const anyOf", CellCase(_E, _XGRAMMAR)),
        "oneOf": (CellCase(_D, f"{_XGRAMMAR}: as anyOf", may_overlap), CellCase(_E, _XGRAMMAR)),
        "allOf": (
            CellCase(_E, _XGRAMMAR, at.is_one),
            CellCase(_D, f"{_XGRAMMAR}: any value", reaches_below=False),
        ),
        "$ref": (
            CellCase(_D, f"{_XGRAMMAR}: any value", at.leads_elsewhere),
            CellCase(_R, f"{_XGRAMMAR}: cannot find it", at.leads_nowhere),
            CellCase(_E, _XGRAMMAR),
        ),
        "properties": (
            CellCase(_N, f"{_XGRAMMAR}: a union alone counts", at.has_closed_form, is_always=True),
            CellCase(_E, _XGRAMMAR),
        ),
        "required": (CellCase(_N, _XGRAMMAR, at.names_unknown_member), CellCase(_E, _XGRAMMAR)),
        **_each(
            "additionalProperties unevaluatedProperties unevaluatedItems", CellCase(_E, _XGRAMMAR)
        ),
        "patternProperties": (
            _HANDED_ON,
            CellCase(_N, f"{_XGRAMMAR}: anchored as a whole", at.is_not_anchored),
            CellCase(_E, _XGRAMMAR),
        ),
        "propertyNames": (_HANDED_ON, CellCase(_E, _XGRAMMAR)),
        "items": (
            CellCase(_R, f"{_XGRAMMAR}: items must not be a list", at.is_list),
            CellCase(_E, _XGRAMMAR),
        ),
        "prefixItems": (
            CellCase(_E, _XGRAMMAR, at.is_ended_tuple),
            CellCase(_N, f"{_XGRAMMAR}: taken as closed"),
        ),
        "minItems": (
            CellCase(_R, _XGRAMMAR, at.is_written_as_fraction),
            CellCase(
                _R, f"{_XGRAMMAR}: more items than it describes", at.has_fewer_places_than_items
            ),
            CellCase(_E, _XGRAMMAR),
        ),
        "maxItems": (CellCase(_R, _XGRAMMAR, at.is_written_as_fraction), CellCase(_E, _XGRAMMAR)),
        "minProperties": (
            CellCase(
                _R, f"{_XGRAMMAR}: more members than it describes", at.demands_unnamed_members
            ),
            CellCase(_E, _XGRAMMAR),
        ),
        "maxProperties": (CellCase(_E, _XGRAMMAR),),
        "uniqueItems": (
            _HANDED_ON,
            CellCase(_E, _XGRAMMAR, at.is_false, is_always=True),
            CellCase(_D, _XGRAMMAR),
        ),
        **_each("contains minContains maxContains", _HANDED_ON, CellCase(_D, _XGRAMMAR)),
        "pattern": (
            CellCase(_R, f"{_XGRAMMAR}: regular expression", at.looks_behind),
            CellCase(_D, f"{_XGRAMMAR}: any text", at.looks_around),
            CellCase(_R, f"{_XGRAMMAR}: regular expression", at.looks_back),
            CellCase(_R, f"{_XGRAMMAR}: regular expression", at.has_boundary),
            CellCase(_R, f"{_XGRAMMAR}: regular expression", at.has_category),
            CellCase(_R, f"{_XGRAMMAR}: regular expression", at.has_flags),
            CellCase(_R, f"{_XGRAMMAR}: regular expression", at.has_open_count),
            CellCase(_U, _XGRAMMAR, at.has_quote),
            CellCase(_N, f"{_XGRAMMAR}: anchored as a whole", at.is_not_anchored),
            CellCase(_N, f"{_XGRAMMAR}: anchored as a whole", at.has_bare_alternatives),
            CellCase(_E, _XGRAMMAR),
        ),
        "format": (_HANDED_ON, CellCase(_E, _XGRAMMAR)),
        **_each(
            "minLength maxLength",
            _HANDED_ON,
            CellCase(_R, _XGRAMMAR, at.is_written_as_fraction),
            CellCase(_E, _XGRAMMAR),
        ),
        **_each(
            "minimum maximum exclusiveMinimum exclusiveMaximum",
            CellCase(
                _R,
                f"{_XGRAMMAR}: must be a whole number",
                at.both(at.is_of("integer"), at.is_written_as_fraction),
            ),
            CellCase(_E, _XGRAMMAR),
        ),
        "multipleOf": (_HANDED_ON, CellCase(_D, _XGRAMMAR)),
        "$dynamicAnchor": (CellCase(_E, _XGRAMMAR, is_always=True),),
    },
    CellCase(_D, _XGRAMMAR, reaches_below=False),
    reads=_read_by_xgrammar,
    unread=CellCase(_D, f"{_XGRAMMAR}: not read here", reaches_below=False),
    reads_definitions=False,
    is_handed_on=_is_handed_on_anywhere,
    taker=_taker_of_vllm,
)

_UNIMPLEMENTED: Final = (
    CellCase(_D, f"{_LLGUIDANCE}: not of this draft", at.is_unknown_to_draft, reaches_below=False),
    CellCase(_R, f"{_LLGUIDANCE}: unimplemented keys", reaches_below=False),
)

_LLGUIDANCE_COLUMN: Final = Column(
    "llguidance",
    {
        at.ROOT: (
            CellCase(
                _R, f"{_LLGUIDANCE}: the $schema is not in its registry", at.has_unknown_schema
            ),
            CellCase(_E, _LLGUIDANCE),
        ),
        **_each(
            "not if then else dependentRequired dependentSchemas dependencies uniqueItems contains "
            "minContains maxContains propertyNames unevaluatedProperties unevaluatedItems "
            "$dynamicRef $dynamicAnchor $recursiveRef",
            *_UNIMPLEMENTED,
        ),
        **_each(
            "enum anyOf",
            CellCase(_R, f"{_LLGUIDANCE}: unsatisfiable", at.is_empty),
            CellCase(_E, _LLGUIDANCE),
        ),
        "oneOf": (
            CellCase(_R, f"{_LLGUIDANCE}: oneOf constraints are not supported", is_surely_unproven),
            CellCase(_U, _LLGUIDANCE, is_maybe_unproven),
            CellCase(_E, _LLGUIDANCE),
        ),
        "$ref": (
            CellCase(_U, _LLGUIDANCE, at.may_lead_to_name),
            CellCase(_R, f"{_LLGUIDANCE}: not in its registry", at.leads_nowhere),
            CellCase(_E, _LLGUIDANCE),
        ),
        "patternProperties": (
            CellCase(_E, f"{_LLGUIDANCE}: of no effect", at.is_idle),
            CellCase(_E, _LLGUIDANCE, at.is_one),
            CellCase(_U, f"{_LLGUIDANCE}: only disjoint patterns"),
        ),
        "pattern": (
            CellCase(_E, f"{_LLGUIDANCE}: of no effect", at.is_idle),
            CellCase(_R, f"{_LLGUIDANCE}: regex parse error", at.looks_around),
            CellCase(_R, f"{_LLGUIDANCE}: regex parse error", at.looks_back),
            CellCase(_R, f"{_LLGUIDANCE}: lookarounds not supported yet", at.has_boundary),
            CellCase(_R, f"{_LLGUIDANCE}: regex parse error", at.has_open_count),
            CellCase(_U, _LLGUIDANCE, at.has_quote),
            CellCase(_E, _LLGUIDANCE),
        ),
        "format": (
            CellCase(
                _R,
                f"{_LLGUIDANCE}: unknown format",
                at.both(at.may_be_text, at.has_other_than(_LLGUIDANCE_FORMATS)),
            ),
            CellCase(_E, _LLGUIDANCE),
        ),
        **_each(
            "minLength maxLength minItems maxItems",
            CellCase(_E, f"{_LLGUIDANCE}: of no effect", at.is_idle),
            CellCase(_R, _LLGUIDANCE, at.is_written_as_fraction),
            CellCase(_E, _LLGUIDANCE),
        ),
        **_each(
            "minProperties maxProperties",
            CellCase(_E, f"{_LLGUIDANCE}: of no effect", at.is_idle),
            CellCase(_R, _LLGUIDANCE, at.is_written_as_fraction),
            CellCase(
                _R,
                f"{_LLGUIDANCE}: only where all members are required",
                at.bounds_optional_members,
            ),
            CellCase(_E, _LLGUIDANCE),
        ),
        "prefixItems": (
            CellCase(
                _D, f"{_LLGUIDANCE}: not of this draft", at.is_unknown_to_draft, reaches_below=False
            ),
            CellCase(_E, _LLGUIDANCE),
        ),
        **_each("contentEncoding contentMediaType", CellCase(_D, _LLGUIDANCE)),
    },
    CellCase(_E, _LLGUIDANCE),
    reads_definitions=False,
)

_BEDROCK: Final = Column(
    "Amazon Bedrock Converse, toolSpec.strict and outputConfig",
    {
        **_each("type enum const anyOf properties required items", CellCase(_E, _BEDROCK_GUIDE)),
    },
    CellCase(_U, f"{_BEDROCK_GUIDE}: a subset of 2020-12, 400 at once"),
)

_MISTRAL: Final = Column(
    "Mistral, json_schema with strict: true",
    {},
    CellCase(_U, "developersdigest.tech 2026-10-18 counts it among those that enforce a schema"),
)

TABLE: Final[Mapping[Provider, Column]] = {
    "openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "vllm": _VLLM,
    "llamacpp": _LLAMACPP_COLUMN,
    "llguidance": _LLGUIDANCE_COLUMN,
    "bedrock": _BEDROCK,
    "mistral": _MISTRAL,
}
"""The table: what each provider does with each keyword."""
