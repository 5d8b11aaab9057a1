"""Texts for messages: what came from outside is quoted and capped; places are JSON Pointers."""

from strictreply.contract._channels import compact
from strictreply.reading._decoding import masked_pointer
from strictreply.schema._explaining import nearest
from strictreply.schema._vocabulary import json_type, plural
from strictreply.values._issues import (
    Worded,
    capped,
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
    "json_type",
    "masked_pointer",
    "nearest",
    "plain",
    "plural",
    "pointer",
    "pointer_tokens",
    "printable",
    "printable_json",
    "printable_lines",
    "quote",
    "type_name",
    "utf8_size",
]
