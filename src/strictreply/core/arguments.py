"""Checks of arguments, with errors that say what to write instead."""

from strictreply.values._errors import how_to_install, must_be, must_have, without_exception
from strictreply.values._field_words import FieldWords
from strictreply.values._limits import is_count, is_duration
from strictreply.values._mistakes import (
    IN_AGENTS,
    IN_POLICIES,
    IN_RUNS,
    ON_RUNS,
    helpful,
    refuse_foreign,
    with_hints,
)

__all__ = [
    "IN_AGENTS",
    "IN_POLICIES",
    "IN_RUNS",
    "ON_RUNS",
    "FieldWords",
    "helpful",
    "how_to_install",
    "is_count",
    "is_duration",
    "must_be",
    "must_have",
    "refuse_foreign",
    "with_hints",
    "without_exception",
]
