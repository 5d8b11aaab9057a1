"""The keywords of JSON Schema: what each applies to, its rule, and the words for the rule."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from strictreply.values._errors import ContractError
from strictreply.values._issues import CORRECTED, Guidance, Worded, capped, json_words
from strictreply.values._limits import JSONObject

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_07 = "http://json-schema.org/draft-07/schema"
DRAFT_06 = "http://json-schema.org/draft-06/schema"
DRAFT_04 = "http://json-schema.org/draft-04/schema"
DRAFT_03 = "http://json-schema.org/draft-03/schema"
DRAFTS = (DRAFT_2020, DRAFT_2019, DRAFT_07, DRAFT_06)  # the drafts that the engines support
_IGLU = "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0"
# The draft for each known ``$schema``, spelled with ``http``. A hyper-schema is its draft with
# links.
DIALECTS = {
    **{draft.replace("https://", "http://"): draft for draft in (*DRAFTS, DRAFT_04, DRAFT_03)},
    "http://json-schema.org/schema": "",  # whatever draft is the newest
    "http://spec.openapis.org/oas/3.1/dialect/base": DRAFT_2020,  # OpenAPI 3.1 section 4.8.24
    _IGLU: DRAFT_04,
}

# The types of JSON, with their words.
TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


class Applies(Enum):
    """What a sub-schema applies to, relative to the value of the schema around it."""

    HERE = "the same value"
    MEMBER = "a member of the object"
    ITEM = "an item of the array"
    NAME = "a member's name"
    NOWHERE = "nothing until it is referenced"


# The keywords with one sub-schema, a list of them, or a map of them, and what these apply to.
ONE = {
    **dict.fromkeys(("not", "if", "then", "else"), Applies.HERE),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties"), Applies.MEMBER),
    "propertyNames": Applies.NAME,
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems", "contains"), Applies.ITEM),
    "contentSchema": Applies.NOWHERE,
}
LISTS = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), Applies.HERE),
    **dict.fromkeys(("prefixItems", "items"), Applies.ITEM),
}
MAPS = {
    **dict.fromkeys(("properties", "patternProperties"), Applies.MEMBER),
    **dict.fromkeys(("dependentSchemas", "dependencies"), Applies.HERE),
    **dict.fromkeys(("$defs", "definitions"), Applies.NOWHERE),
}
# The keywords that limit the length of an array or an object.
LENGTHS: dict[str, tuple[type, Callable[[Any, Any], bool]]] = {
    "minItems": (list, operator.ge),
    "maxItems": (list, operator.le),
    "minProperties": (dict, operator.ge),
    "maxProperties": (dict, operator.le),
}
# The keywords that examine a container as a whole.
WHOLE = ("enum", "const", "uniqueItems")
# The keywords about a value itself, not its parts.
OWN = frozenset(
    {
        "type",
        *LENGTHS,
        *WHOLE,
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "contentEncoding",
        "contentMediaType",
    }
)
# The keywords about all members that no other keyword mentions.
STATEMENTS = ("additionalProperties", "unevaluatedProperties")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
HOLDERS = frozenset({*ONE, *LISTS, *MAPS})
# The keywords for which null, which no draft allows, is how serializers write a missing value.
UNSET_BY_NULL = HOLDERS.union(
    REFERENCES,
    (
        "$anchor",
        "$comment",
        "$id",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "dependentRequired",
        "deprecated",
        "description",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "id",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "nullable",
        "pattern",
        "readOnly",
        "required",
        "title",
        "uniqueItems",
        "writeOnly",
    ),
)
# The keywords whose sub-schemas judge the same value.
IN_PLACE = frozenset(
    {
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependencies",
        *REFERENCES,
    }
)


def declared_draft(document: JSONObject) -> str:
    """Return the draft that a document declares, empty if it declares none.

    Raises ContractError for an unknown ``$schema``.
    """
    declared = document.get("$schema")
    if declared is None or declared == "":
        return ""

    if isinstance(declared, str):
        address = declared.partition("#")[0].rstrip("/").replace("https://", "http://")
        draft = DIALECTS.get(address.replace("/hyper-schema", "/schema"))
        if draft is not None:
            return draft

    known = "2020-12, 2019-09, draft-07, draft-06, draft-04 or draft-03"
    raise ContractError(
        f"$schema must name JSON Schema {known}; without $schema it is 2020-12", path="/$schema"
    )


def draft_of(document: JSONObject | bool) -> str:
    """Return the draft of a document, 2020-12 by default."""
    declared = document.get("$schema", "") if isinstance(document, dict) else ""
    return next((draft for draft in DRAFTS if draft == declared.removesuffix("#")), DRAFT_2020)


def ignores_siblings(document: JSONObject | bool) -> bool:
    """Return whether ``$ref`` disables the keywords next to it, as it did until draft-07."""
    return draft_of(document) in (DRAFT_07, DRAFT_06)


def children(schema: JSONObject) -> Iterator[tuple[str, str | int | None, object, Applies]]:
    """Yield each sub-schema, boolean or not, in the schema's own order.

    Each comes after its keyword and the name or index below that, which is None for a keyword with
    only one sub-schema, and before what it applies to.
    """
    for keyword, value in schema.items():
        if keyword not in HOLDERS:
            continue

        if isinstance(value, list) and keyword in LISTS:
            yield from ((keyword, index, item, LISTS[keyword]) for index, item in enumerate(value))
        elif isinstance(value, dict) and keyword in MAPS:
            yield from ((keyword, name, item, MAPS[keyword]) for name, item in value.items())
        elif keyword in ONE:
            yield keyword, None, value, ONE[keyword]


_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
}


def as_list(value: object) -> list[Any]:
    """Return a list unchanged, and anything else as a list of one."""
    return value if isinstance(value, list) else [value]


def json_type(value: object) -> str:
    """Return the JSON type of a value.

    A number without a fraction is an integer (2020-12 section 4.2.3).
    """
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"

    known = _JSON_TYPES.get(value.__class__)
    if known is not None:
        return known

    return next((name for kind, name in _JSON_TYPES.items() if isinstance(value, kind)), "null")


class SchemaRule(Worded):
    """The schema rules; a broken rule has the code ``args.<rule>`` or ``answer.<rule>``.

    The names in braces in ``template`` are filled from the schema, never from the value.
    """

    TYPE = "type", "must be {expected}"
    ENUM = "enum", "must be one of {expected}"
    CONST = "const", "must be {expected}"
    REQUIRED = "required", "is required{expected}"
    DEPENDENT_REQUIRED = (
        "dependent_required",
        "is required{expected}",
    )
    EXTRA_KEY = (
        "extra_key",
        "remove the other keys; allowed: {expected}",
        *CORRECTED,
        Guidance(
            to_do=(
                'Nothing, or declare the key. `extra="schema"` accepts every key that the schema '
                "does not forbid."
            ),
        ),
    )
    NO_KEYS = (
        "no_keys",
        "must have no keys",
        *CORRECTED,
        Guidance(to_do="Nothing: the tool takes no arguments."),
    )
    PROPERTY_NAMES = "property_names", "each key must be {expected}"
    MIN_PROPERTIES = "min_properties", "must have at least {expected}"
    MAX_PROPERTIES = "max_properties", "must have at most {expected}"
    MINIMUM = "minimum", "must be at least {expected}"
    MAXIMUM = "maximum", "must be at most {expected}"
    EXCLUSIVE_MINIMUM = "exclusive_minimum", "must be more than {expected}"
    EXCLUSIVE_MAXIMUM = "exclusive_maximum", "must be less than {expected}"
    MULTIPLE_OF = "multiple_of", "must be a multiple of {expected}"
    MIN_LENGTH = "min_length", "must have at least {expected}"
    MAX_LENGTH = "max_length", "must have at most {expected}"
    PATTERN = "pattern", "must match the pattern {expected}"
    FORMAT = (
        "format",
        "must be {expected}",
        *CORRECTED,
        Guidance(to_do='Nothing. `formats="annotate"` turns off the check of formats.'),
    )
    CONTENT = (
        "content",
        "must be encoded as {expected}",
        *CORRECTED,
        Guidance(
            comes=(
                "A string is not encoded as its `contentEncoding` or `contentMediaType` demands."
            )
        ),
    )
    MIN_ITEMS = "min_items", "must have at least {expected}"
    MAX_ITEMS = "max_items", "must have at most {expected}"
    EXTRA_ITEMS = "extra_items", "must have at most {expected}"
    UNIQUE_ITEMS = "unique_items", "must have no two equal items"
    CONTAINS = "contains", "must contain {expected}"
    ANY_OF = "any_of", "must be {expected}"
    ONE_OF = "one_of", "must fit exactly one of the allowed forms{expected}"
    NOT = "not", "must not {expected}"
    FORBIDDEN = "forbidden", "must be left out"
    TOO_COMPLEX = (
        "too_complex",
        "is too complex to check: {expected}",
        *CORRECTED,
        Guidance(
            to_do=(
                "In the schema, limit the size of what the issue names: `maxLength` next to a slow "
                "pattern, `maxItems` for an array. `anyOf` is fast if each form has a `const`."
            ),
            comes=(
                "Checking a value would take too much work: a text is too long for its pattern, a "
                "number has too many digits, or there are too many values for the choices "
                "(`anyOf`, `oneOf`) of the schema. The message says which."
            ),
        ),
    )
    UNEXAMINED = (
        "unexamined",
        "may have more faults: it is too large or too complex to examine all of it",
        *CORRECTED,
        Guidance(
            to_do="Nothing: the reply is rejected and retried.",
            comes="Added to other issues if a value is too large to look for more of them.",
        ),
    )
    INVALID = (
        "invalid",
        "must fit the schema",
        *CORRECTED,
        Guidance(
            to_do="Nothing: the reply is rejected and retried.",
            comes="The value breaks the schema, but the broken rule could not be named.",
        ),
    )
    UNREADABLE = (
        "unreadable",
        "must be plain JSON",
        *CORRECTED,
        Guidance(
            to_do="Nothing: replies of a model never have this code.",
            comes="A mapping passed to `contract.check` by your code has a value that is not JSON.",
        ),
    )


_OF_SEVERAL = {
    SchemaRule.EXTRA_KEY: STATEMENTS,
    SchemaRule.EXTRA_ITEMS: ("items", "additionalItems", "unevaluatedItems"),
    SchemaRule.CONTENT: ("contentEncoding", "contentMediaType"),
    SchemaRule.FORBIDDEN: ("false",),
    **dict.fromkeys((SchemaRule.NO_KEYS, SchemaRule.TOO_COMPLEX, SchemaRule.UNEXAMINED), ()),
    **dict.fromkeys((SchemaRule.INVALID, SchemaRule.UNREADABLE), ()),
}


def _keyword_of(rule: SchemaRule) -> str:
    """Return the keyword of a rule, ``minItems`` for ``min_items``."""
    return re.sub("_(.)", lambda found: found[1].upper(), rule)


KEYWORDS = {
    **{keyword: rule for rule, keywords in _OF_SEVERAL.items() for keyword in keywords},
    **{_keyword_of(rule): rule for rule in SchemaRule if rule not in _OF_SEVERAL},
}
"""The rule of each keyword that can reject a value; ``false`` is a schema that accepts nothing."""
BRIEF_LIST_CHARS = 32  # next to a hint with the nearest value
MAX_LIST_CHARS = 64
MAX_FORMS_CHARS = 120
MAX_WORD_CHARS = 120
MAX_FORM_CHARS = 60
OTHER_FORM = "what another form allows"
# Words for each format, and a typical text of it (None if there is none).
FORMATS = {
    "date": ("a date, YYYY-MM-DD", "2025-01-31"),
    "date-time": ("a date and time as in RFC 3339, 2025-01-31T12:00:00Z", "2025-01-31T12:00:00Z"),
    "time": ("a time as in RFC 3339, 12:00:00Z", "12:00:00Z"),
    "duration": ("an ISO 8601 duration, P1DT2H", "P1D"),
    "email": ("an email address", "name@example.com"),
    "idn-email": ("an email address", "name@example.com"),
    "hostname": ("a host name", "example.com"),
    "idn-hostname": ("a host name", "example.com"),
    "ipv4": ("an IPv4 address", "192.0.2.1"),
    "ipv6": ("an IPv6 address", "2001:db8::1"),
    "uri": ("a URI with its scheme", "https://example.com/"),
    "uri-reference": ("a URI or a relative reference", "/path"),
    "iri": ("an IRI with its scheme", "https://example.com/"),
    "iri-reference": ("an IRI or a relative reference", "/path"),
    "uri-template": ("a URI template", "/path/{name}"),
    "uuid": ("a UUID", "123e4567-e89b-42d3-a456-426614174000"),
    "json-pointer": ("a JSON Pointer", "/name"),
    "relative-json-pointer": ("a relative JSON Pointer", "0"),
    "regex": ("a regular expression", None),
}
FORMAT_SAMPLES = {name: sample for name, (_, sample) in FORMATS.items() if sample is not None}
"""A text of each format that has one."""

# What ``minLength`` and similar keywords count.
COUNTED = {"Length": "character", "Items": "item", "Properties": "key"}


def expected_words(
    keyword: str, schema: Mapping[str, Any], list_chars: int = MAX_LIST_CHARS
) -> str:
    """Return what ``keyword`` of ``schema`` requires, for the template of its rule."""
    value = schema.get(keyword)

    match keyword:
        case "type":
            return types_words(as_list(value))
        case "enum" if isinstance(value, list):
            return list_words(value, list_chars)
        case "format":
            known = FORMATS.get(str(value))
            return f"in the format {word(value)}" if known is None else known[0]
        case "items" | "additionalItems" | "unevaluatedItems":
            return plural(len(schema.get("prefixItems", ())), "item")
        case "contains":
            return _contained_words(schema)
        case "not":
            return _excluded_words(value)
        case _ if keyword[3:] in COUNTED and keyword[:3] in ("min", "max"):
            return plural(value, COUNTED[keyword[3:]])
        case _:
            return word(value)


def _contained_words(schema: Mapping[str, object]) -> str:
    """Return how many items ``contains`` requires, and of which kind."""
    least = schema.get("minContains", 1)
    most = schema.get("maxContains")
    count = f"at least {plural(least, 'item')}"
    if most is not None and most == least:
        count = f"exactly {plural(most, 'item')}"
    elif most is not None:
        count = f"{word(least)} to {plural(most, 'item')}"

    kind = exact_words(schema.get("contains"))
    is_one = 1 in (most, least if most is None else most)
    if kind is not None:
        return f"{count} that {'is' if is_one else 'are each'} {kind}"
    return f"{count} that {'fits' if is_one else 'fit'} the schema {word(schema.get('contains'))}"


def _excluded_words(schema: object) -> str:
    """Return words for what ``not`` excludes: a pattern, a type, values, or any schema."""
    is_pattern = isinstance(schema, dict) and schema.keys() <= {"type", "pattern"}
    pattern = schema.get("pattern") if isinstance(schema, dict) and is_pattern else None
    if pattern is not None:
        return f"match the pattern {word(pattern)}"

    kind = exact_words(schema)
    return f"match the schema {word(schema)}" if kind is None else f"be {kind}"


def exact_words(schema: object) -> str | None:
    """Return words that describe a schema completely; None if only the schema itself does."""
    if (
        isinstance(schema, dict)
        and len(schema) == 1
        and not {"type", "const", "enum"}.isdisjoint(schema)
    ):
        return form_words(schema)
    return None


def word(value: object) -> str:
    """Return one value of the schema as JSON, capped."""
    return capped(json_words(value), MAX_WORD_CHARS)


def plural(count: object, noun: str) -> str:
    """Return a noun with its number."""
    return f"{word(count)} {noun}" if count == 1 else f"{word(count)} {noun}s"


def types_words(types: Iterable[object]) -> str:
    """Return the words for types: ``a string or null``."""
    return either([TYPES.get(str(name), word(name)) for name in types])


def either(words: Iterable[str], more: int = 0) -> str:
    """Return alternatives joined by ``or``, at most about 120 characters; the others are counted.

    ``more`` is the number that ``words`` leaves out.
    """
    every = list(dict.fromkeys(words))
    listed = _fitting(every, MAX_FORMS_CHARS)
    left = len(every) - len(listed) + more
    if len(every) + more < 2:  # noqa: PLR2004 - one needs no "or"
        return "".join(every)

    last = f"{left} more forms" if left else listed.pop()
    return f"{', '.join(listed)} or {last}"


def list_words(values: Iterable[object], chars: int = MAX_LIST_CHARS) -> str:
    """Return values of the schema as JSON, up to a number of characters; the others are counted.

    At least the first is shown.
    """
    every = list(values)
    # words are made only for what is shown, because an enum may be long
    listed = _fitting(map(word, every), chars)
    more = f" and {len(every) - len(listed)} more" if len(listed) < len(every) else ""
    return ", ".join(listed) + more


def _fitting(words: Iterable[str], chars: int) -> list[str]:
    fitting = list[str]()
    size = 0

    for text in words:
        size += len(text) + 2
        if fitting and size > chars:
            break

        fitting.append(text)

    return fitting


def required_words(schemas: Iterable[Mapping[str, object]]) -> str:
    """Return what a missing member must be, such as `` (a string)``.

    It is empty if its schemas differ, or if the words for them are long.
    """
    forms = {form_words(schema) for schema in schemas}
    words = forms.pop() if len(forms) == 1 else ""
    return f" ({words})" if words not in ("", OTHER_FORM) and len(words) <= MAX_FORM_CHARS else ""


def form_words(schema: Mapping[str, Any]) -> str:
    """Return words for one branch of a union.

    They are its constants, its format or type, or the required keys of an object.
    """
    if "const" in schema:
        return word(schema["const"])
    if isinstance(schema.get("enum"), list):
        return f"one of {list_words(schema['enum'])}"

    types = types_words(as_list(schema.get("type") or []))
    required = schema.get("required")
    if isinstance(required, list) and required and types in ("", TYPES["object"]):
        return f"an object with {list_words(required)}"
    if schema.get("format") in FORMATS:
        return FORMATS[str(schema["format"])][0]

    return types or OTHER_FORM
