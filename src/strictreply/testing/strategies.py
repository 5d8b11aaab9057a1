"""Hypothesis strategies: good arguments, good replies, and replies that no strict gate lets through.

All of them shrink: to the example that the schema gives, and to the first fault of the catalogue at its first place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

try:
    from hypothesis import strategies as st

    from strictreply.testing._generating import values_of
except ImportError as error:
    raise ImportError(
        "hypothesis or hypothesis-jsonschema is not installed: pip install 'strictreply[testing]'"
    ) from error

from strictreply.contract._tool import Tool
from strictreply.testing import faults, ok
from strictreply.testing._steps import Fault, Kind, Step
from strictreply.testing._targets import Place, Target
from strictreply.testing.faults._catalogue import Entry
from strictreply.testing.faults._spots import spots_of
from strictreply.values._json import JSON
from strictreply.values._replies import Valid

REPLY_KINDS = (Kind.ARGS, Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ENVELOPE, Kind.FINISH)
"""The kinds of faults that a completion can have, the simplest first; the others are faults of its delivery."""

_Draw: TypeAlias = st.DrawFn


def valid_arguments(tool: object, *, place: Place = "call") -> st.SearchStrategy[JSON]:
    """Make arguments that a tool takes, as JSON; with ``place="json"`` answers of a type or a JSON Schema.

    ``tool`` is a Tool, whatever a Tool is made of, or the JSON Schema of arguments. hypothesis-jsonschema makes the
    values; the strict gate takes or leaves each, the tool's own model included. Where it takes none, the arguments are
    small examples: one for each branch and optional member of the schema.

    Raises ContractError when the declaration is wrong, ValueError when no example could be made.
    """
    return _arguments(Target.of(_declared(tool, place), place=place))


def valid_replies(tool: object, *, place: Place = "call") -> st.SearchStrategy[Step]:
    """Make good replies with all sorts of arguments: steps of a script, each a whole completion as ``served``."""
    declared = _declared(tool, place)
    arguments = _arguments(Target.of(declared, place=place))
    return arguments.map(lambda args: ok.reply(declared, place=place, args=args))


def invalid_replies(
    tool: object, *, place: Place = "call", kinds: Collection[Kind] = REPLY_KINDS
) -> st.SearchStrategy[Fault]:
    """Make faults of good replies with all sorts of arguments: steps of a script, each with the code it deserves.

    ``kinds`` chooses among the catalogue. Faults that are none without certain keywords in the request
    (:attr:`strictreply.testing._steps.Fault.needs`) are left out.

    Raises ValueError when no fault of these kinds can be made, and what :func:`valid_arguments` raises.
    """
    declared = _declared(tool, place)
    target = Target.of(declared, place=place)
    entries = [entry for entry in _ordered(kinds) if place in entry.places and not entry.needs]
    makeable = [entry for entry in entries if next(entry.all_for(declared, place=place), None)]
    if not makeable:
        raise ValueError(f"no fault of {target.name or 'this answer'} is of the kinds {', '.join(kinds)}")
    return _spoiled(declared, place, makeable, _arguments(target))


@st.composite
def _spoiled(
    draw: _Draw, declared: object, place: Place, entries: list[Entry], arguments: st.SearchStrategy[JSON]
) -> Fault:
    """Draw an entry, arguments, and one of the places where the entry can spoil them; else those of the example.

    The code is drawn before the entry: a property is often one of the code, and then the first entry with it is found.
    """
    code = draw(st.sampled_from(list(dict.fromkeys(entry.code for entry in entries))))
    entry = draw(st.sampled_from([entry for entry in entries if entry.code == code]))
    args = draw(arguments)
    made = list(entry.all_for(declared, place=place, args=args)) or list(entry.all_for(declared, place=place))
    return draw(st.sampled_from(made))


def _arguments(target: Target) -> st.SearchStrategy[JSON]:
    """Make values that fit, the target's own first."""
    examples = list(_examples(target))
    if not examples:
        raise ValueError(f"no example could be made that {target.name or 'the answer'} takes")
    chosen = st.sampled_from(examples)
    values = None if target.schema is None else values_of(target.schema)
    return chosen if values is None else chosen | _made(values, chosen, target)


@st.composite
def _made(draw: _Draw, values: st.SearchStrategy[JSON], examples: st.SearchStrategy[JSON], target: Target) -> JSON:
    """Draw a value; when the gate refuses it an example instead, so that none is drawn in vain."""
    value = draw(values)
    return value if _is_taken(target, value) else draw(examples)


def _examples(target: Target) -> Iterator[JSON]:
    """Give the example of a schema, and those that have other members and other branches."""
    grounds = [spot.ground for spot in spots_of(target.schema, target.value)] if target.schema is not None else []
    seen: list[JSON] = []
    for ground in (target.value, *grounds):
        if ground not in seen and _is_taken(target, ground):
            seen.append(ground)
            yield ground


def _is_taken(target: Target, value: JSON) -> bool:
    """Ask the gate."""
    return isinstance(target.contract.check(target.completion(target.text(value))), Valid)


def _ordered(kinds: Collection[Kind]) -> list[Entry]:
    """Give the entries of some kinds, the simplest kind first."""
    order = {kind: index for index, kind in enumerate((*REPLY_KINDS, *Kind))}
    chosen = [entry for entry in faults.CATALOGUE.values() if entry.kind in kinds]
    return sorted(chosen, key=lambda entry: order[entry.kind])


def _declared(tool: object, place: Place) -> Any:
    """Take the JSON Schema of arguments for a tool, too; what an answer must be is taken as it is."""
    if place == "json" or not isinstance(tool, Mapping) or {"function", "inputSchema", "name"} & tool.keys():
        return tool
    return Tool.from_json_schema("tool", tool)
