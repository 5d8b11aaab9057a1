"""The rules a value can break against a schema: one stable name each, with the words that report it."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """What a value breaks; an issue's code is ``args.<rule>`` or ``answer.<rule>``.

    ``template`` holds the words; the names in braces are filled from the schema, never from the value.
    """

    template: str

    def __new__(cls, value: str, template: str) -> Rule:
        """Attach the words to the stable name."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.template = template
        return member

    TYPE = "type", "must be {expected}"
    ENUM = "enum", "must be one of {expected}"
    CONST = "const", "must be {expected}"
    REQUIRED = "required", "must have the key {expected}"
    EXTRA_KEY = "extra_key", "has a key that is not allowed; allowed: {expected}"
    NO_KEYS = "no_keys", "must not have any key"
    DEPENDENT_REQUIRED = "dependent_required", "must have the key {expected} beside {beside}"
    MINIMUM = "minimum", "must be at least {expected}"
    MAXIMUM = "maximum", "must be at most {expected}"
    EXCLUSIVE_MINIMUM = "exclusive_minimum", "must be more than {expected}"
    EXCLUSIVE_MAXIMUM = "exclusive_maximum", "must be less than {expected}"
    MULTIPLE_OF = "multiple_of", "must be a multiple of {expected}"
    MIN_LENGTH = "min_length", "must have at least {expected} characters"
    MAX_LENGTH = "max_length", "must have at most {expected} characters"
    PATTERN = "pattern", "must match the pattern {expected}"
    FORMAT = "format", "must be {expected}"
    MIN_ITEMS = "min_items", "must have at least {expected} items"
    MAX_ITEMS = "max_items", "must have at most {expected} items"
    UNIQUE_ITEMS = "unique_items", "must not have equal items"
    CONTAINS = "contains", "must have an item that {expected}"
    MIN_PROPERTIES = "min_properties", "must have at least {expected} keys"
    MAX_PROPERTIES = "max_properties", "must have at most {expected} keys"
    PROPERTY_NAMES = "property_names", "has a key that is not allowed"
    ANY_OF = "any_of", "must be {expected}"
    ONE_OF = "one_of", "must fit exactly one of the allowed forms"
    NOT = "not", "must not be what the schema excludes"
    EXTRA_ITEMS = "extra_items", "has more items than allowed"
    FORBIDDEN = "forbidden", "must be left out"
    CONTENT = "content", "must be encoded as the schema says"
    TOO_COMPLEX = "too_complex", "is nested too deep for a schema that branches at each level"
