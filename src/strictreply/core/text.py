"""Texts for messages: foreign text is quoted and capped, places are JSON Pointers."""

from strictreply.reading._decoding import masked_pointer
from strictreply.values._issues import (
    Worded,
    capped,
    compact,
    counted,
    pointer,
    pointer_tokens,
    printable,
    printable_json,
    printable_lines,
    quote,
)
from strictreply.values._limits import utf8_size
from strictreply.values._replies import plain, type_name

__all__ = [
    "Worded",
    "capped",
    "compact",
    "counted",
    "masked_pointer",
    "plain",
    "pointer",
    "pointer_tokens",
    "printable",
    "printable_json",
    "printable_lines",
    "quote",
    "type_name",
    "utf8_size",
]
