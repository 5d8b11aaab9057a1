"""The rules a value can break against a schema: one stable name each, with the words that report it."""

from __future__ import annotations

from strictreply.values._issues import Worded


class Rule(Worded):
    """What a value breaks; an issue's code is ``args.<rule>`` or ``answer.<rule>``.

    ``template`` holds the words; the names in braces are filled from the schema, never from the value.
    """

    TYPE = "type", "must be {expected}"
    ENUM = "enum", "must be one of {expected}"
    CONST = "const", "must be {expected}"
    REQUIRED = "required", "is required{expected}"
    DEPENDENT_REQUIRED = "dependent_required", "is required{expected}, because another key is there"
    EXTRA_KEY = "extra_key", "allowed keys: {expected}"
    NO_KEYS = "no_keys", "must have no keys"
    PROPERTY_NAMES = "property_names", "has a key whose name is not allowed"
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
    FORMAT = "format", "must be {expected}"
    CONTENT = "content", "must be encoded as {expected}"
    MIN_ITEMS = "min_items", "must have at least {expected}"
    MAX_ITEMS = "max_items", "must have at most {expected}"
    EXTRA_ITEMS = "extra_items", "must have at most {expected}"
    UNIQUE_ITEMS = "unique_items", "must have no two equal items"
    CONTAINS = "contains", "must hold {expected} of the kind the schema asks for"
    ANY_OF = "any_of", "must be {expected}"
    ONE_OF = "one_of", "must fit exactly one of the allowed forms"
    NOT = "not", "must not be what the schema excludes"
    FORBIDDEN = "forbidden", "must be left out"
    TOO_COMPLEX = "too_complex", "is too large or too deep for the choices of its schema"
    UNEXAMINED = "unexamined", "may have more faults: it is too large or too complex to examine all of it"
    INVALID = "invalid", "must fit the schema"
    UNREADABLE = "unreadable", "must be plain JSON"


KEYWORDS = {
    "type": Rule.TYPE,
    "enum": Rule.ENUM,
    "const": Rule.CONST,
    "required": Rule.REQUIRED,
    "dependentRequired": Rule.DEPENDENT_REQUIRED,
    "additionalProperties": Rule.EXTRA_KEY,
    "unevaluatedProperties": Rule.EXTRA_KEY,
    "propertyNames": Rule.PROPERTY_NAMES,
    "minProperties": Rule.MIN_PROPERTIES,
    "maxProperties": Rule.MAX_PROPERTIES,
    "minimum": Rule.MINIMUM,
    "maximum": Rule.MAXIMUM,
    "exclusiveMinimum": Rule.EXCLUSIVE_MINIMUM,
    "exclusiveMaximum": Rule.EXCLUSIVE_MAXIMUM,
    "multipleOf": Rule.MULTIPLE_OF,
    "minLength": Rule.MIN_LENGTH,
    "maxLength": Rule.MAX_LENGTH,
    "pattern": Rule.PATTERN,
    "format": Rule.FORMAT,
    "contentEncoding": Rule.CONTENT,
    "contentMediaType": Rule.CONTENT,
    "minItems": Rule.MIN_ITEMS,
    "maxItems": Rule.MAX_ITEMS,
    "items": Rule.EXTRA_ITEMS,
    "additionalItems": Rule.EXTRA_ITEMS,
    "unevaluatedItems": Rule.EXTRA_ITEMS,
    "uniqueItems": Rule.UNIQUE_ITEMS,
    "contains": Rule.CONTAINS,
    "anyOf": Rule.ANY_OF,
    "oneOf": Rule.ONE_OF,
    "not": Rule.NOT,
    "false": Rule.FORBIDDEN,
}
"""The rule behind each keyword that can refuse a value; ``false`` is the schema that admits nothing."""
