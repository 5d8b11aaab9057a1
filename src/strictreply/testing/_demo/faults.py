"""The faults that real models make, with their shares, and how each spoils a draft.

The shares were counted over recorded replies of some 160 models: of failed native calls 79 % are wrong in the
arguments only, 13 % name an unknown tool, 7 % are not JSON or cut; of failed JSON written as content 52 % hold
scalars as strings, 34 % a fence or prose around good JSON, 6 % are not JSON, 4.5 % cut.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, cast

from strictreply.testing._demo.drafts import Draft, Target
from strictreply.values._json import JSONObject


class Fault(StrEnum):
    """The kinds of faults of this model."""

    MISSING_REQUIRED = "missing_required"
    STRINGIFIED = "stringified"
    WRONG_TYPE = "wrong_type"
    EXTRA_KEY = "extra_key"
    NULL_OPTIONAL = "null_optional"
    ENUM_CASE = "enum_case"
    UNKNOWN_TOOL = "unknown_tool"
    LEAKED_NAME = "leaked_name"
    NOT_JSON = "not_json"
    CUT = "cut"
    FENCED = "fenced"
    PROSE = "prose"


SHARES: Mapping[str, Mapping[Fault, float]] = {
    "call": {
        Fault.EXTRA_KEY: 24.0,
        Fault.STRINGIFIED: 17.0,
        Fault.MISSING_REQUIRED: 14.0,
        Fault.NULL_OPTIONAL: 10.0,
        Fault.WRONG_TYPE: 9.0,
        Fault.ENUM_CASE: 5.0,
        Fault.UNKNOWN_TOOL: 10.4,
        Fault.LEAKED_NAME: 2.6,
        Fault.NOT_JSON: 3.5,
        Fault.CUT: 3.5,
    },
    "content": {
        Fault.STRINGIFIED: 52.0,
        Fault.FENCED: 20.0,
        Fault.PROSE: 14.0,
        Fault.NOT_JSON: 6.0,
        Fault.CUT: 4.5,
    },
}
"""Weights of the faults of native calls, and of JSON written as content; a fault that cannot be made is left out."""

_REMARKS = {"explanation": "The user asked for this.", "confidence": "high", "reasoning": "This fits best."}
_LEAK = "<|channel|>commentary"
_VALUE_FAULTS = frozenset(
    {
        Fault.MISSING_REQUIRED,
        Fault.STRINGIFIED,
        Fault.WRONG_TYPE,
        Fault.EXTRA_KEY,
        Fault.NULL_OPTIONAL,
        Fault.ENUM_CASE,
    }
)
_FORMS: Mapping[Fault, tuple[str, str]] = {
    Fault.FENCED: ("```json\n", "\n```"),
    Fault.PROSE: ("Sure! Here is the JSON you asked for:\n\n", "\n\nLet me know if you need more."),
}


def draw(
    target: Target, rng: random.Random, *, avoid: Collection[Fault] = (), values_only: bool = False
) -> tuple[Fault, Draft] | None:
    """Draw a fault by its share among those that can be made of ``target``; None when none can.

    ``values_only`` draws only faults of the arguments, when there is one; ``avoid`` names faults not to make.
    """
    shares = SHARES["call" if target.place == "call" else "content"]
    made = {fault: draft for fault in shares if fault not in avoid and (draft := spoil(target, fault, rng))}
    wrong_values = {fault: draft for fault, draft in made.items() if fault in _VALUE_FAULTS}
    made = wrong_values if values_only and wrong_values else made
    if not made:
        return None
    fault = rng.choices(list(made), weights=[shares[fault] for fault in made])[0]
    return fault, made[fault]


def spoil(target: Target, fault: Fault, rng: random.Random) -> Draft | None:
    """Write ``target`` with one fault; None when that fault cannot be made of it."""
    if target.place == "prose":
        return None
    if fault in _VALUE_FAULTS:
        return _spoiled_value(target, fault, rng)
    draft = target.clean
    match fault:
        case Fault.UNKNOWN_TOOL:
            return replace(draft, tool=rng.choice([_camel(target.tool), f"{target.tool}_tool"]))
        case Fault.LEAKED_NAME:
            return replace(draft, tool=target.tool + _LEAK)
        case Fault.NOT_JSON:
            single = draft.text.replace('"', "'")
            return replace(draft, text=single if single != draft.text else draft.text + "}")
        case Fault.CUT:
            cut = replace(draft, text=draft.text[: max(1, len(draft.text) * 2 // 3)], cut=True)
            return None if cut.is_json else cut
        case _:
            before, after = _FORMS[fault]
            return replace(draft, text=before + draft.text + after)


def _spoiled_value(target: Target, fault: Fault, rng: random.Random) -> Draft | None:
    """Spoil the arguments so that their schema refuses them."""
    if target.schema is None or not isinstance(target.value, dict) or not isinstance(target.schema.source, Mapping):
        return None
    schema = target.schema
    candidates = _candidates(fault, target.value, target.schema.source)
    refused = [candidate for candidate in candidates if schema.check(candidate)]
    return target.write(rng.choice(refused)) if refused else None


def _candidates(fault: Fault, value: JSONObject, schema: Mapping[str, Any]) -> Iterable[JSONObject]:
    """List the ways to spoil arguments by one kind of fault; not all of them break the schema."""
    match fault:
        case Fault.MISSING_REQUIRED:
            return _without_one(value)
        case Fault.STRINGIFIED:
            return _with_string(value)
        case Fault.WRONG_TYPE:
            return _with_other_type(value)
        case Fault.EXTRA_KEY:
            return _with_remark(value)
        case Fault.NULL_OPTIONAL:
            return _with_null(value, schema)
        case _:
            return _with_other_case(value, schema)


def _camel(name: str) -> str:
    """Spell a name the way of another language."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest) if rest else f"{first}Tool"


def _without_one(value: JSONObject) -> Iterator[JSONObject]:
    """Leave out each member."""
    for name in value:
        yield {key: member for key, member in value.items() if key != name}


def _with_string(value: JSONObject) -> Iterator[JSONObject]:
    """Write each number and boolean as a string."""
    for name, member in value.items():
        if isinstance(member, bool):
            yield value | {name: str(member).lower()}
        elif isinstance(member, int | float):
            yield value | {name: str(member)}


def _with_other_type(value: JSONObject) -> Iterator[JSONObject]:
    """Join each list, wrap each other member in one."""
    for name, member in value.items():
        yield value | {
            name: ", ".join(map(str, cast("list[object]", member))) if isinstance(member, list) else [member]
        }


def _with_remark(value: JSONObject) -> Iterator[JSONObject]:
    """Add a member nobody asked for."""
    for name, remark in _REMARKS.items():
        if name not in value:
            yield value | {name: remark}


def _with_null(value: JSONObject, schema: Mapping[str, Any]) -> Iterator[JSONObject]:
    """Write null for each optional member."""
    for name in schema.get("properties", {}):
        if name not in schema.get("required", []):
            yield value | {name: None}


def _with_other_case(value: JSONObject, schema: Mapping[str, Any]) -> Iterator[JSONObject]:
    """Write each enumerated string in another case."""
    for name, declared in schema.get("properties", {}).items():
        member = value.get(name)
        if isinstance(member, str) and isinstance(declared, Mapping) and "enum" in declared:
            yield value | {name: member.upper() if member.islower() else member.lower()}
