"""Faults of an object's keys: missing, added, renamed, or at another level than the schema has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from strictreply.testing._steps import CANARY
from strictreply.testing.faults._breaking import MAX_SIZE, Members, Values, at_member, at_place
from strictreply.testing.faults._spots import Spot
from strictreply.values._json import JSON, JSONObject

_REMARKS = ("explanation", "reasoning", "thoughts", "confidence", "note")
_WRAPPERS = ("args", "arguments", "parameters", "input", "data")


@at_member("args.required")
def missing_required(spot: Spot) -> Members:
    """A required key is missing."""
    for name in spot.listed("required", conditional=False):
        if name in _members(spot):
            yield name, _without(spot.value, name)


@at_place("args.required")
def empty_object(spot: Spot) -> Values:
    """An object that has required keys is empty."""
    if spot.kind == "object":
        yield {}


@at_member("args.dependent_required")
def dependent_key_missing(spot: Spot) -> Members:
    """A key is missing that another key, which is there, requires."""
    for trigger, needed in ((key, names) for rule in spot.rules("dependentRequired") for key, names in rule.items()):
        for member in _value_for(spot, trigger) if spot.kind == "object" else ():
            for name in needed:
                complete = {**_members(spot), **{other: one for other in needed for one in _value_for(spot, other)}}
                yield name, _without({**complete, trigger: member}, name)


@at_place("args.extra_key")
def extra_key(spot: Spot) -> Values:
    """The arguments have a key that the schema does not know."""
    if spot.kind == "object" and not spot.path:
        yield {**spot.value, f"{CANARY}_key": CANARY}


@at_place("args.extra_key")
def nested_extra_key(spot: Spot) -> Values:
    """An object inside the arguments has a key that the schema does not know."""
    if spot.kind == "object" and spot.path:
        yield {**spot.value, f"{CANARY}_key": CANARY}


@at_place("args.no_keys")
def key_where_none_allowed(spot: Spot) -> Values:
    """An object that may have no keys has one, such as the arguments of a tool without parameters."""
    if spot.kind == "object":
        yield {f"{CANARY}_key": CANARY}


@at_place("args.extra_key")
def commentary_key(spot: Spot) -> Values:
    """The arguments have a key in which the model explains itself."""
    if spot.kind == "object" and not spot.path:
        yield from ({**spot.value, name: f"because {CANARY}"} for name in _REMARKS if name not in spot.value)


@at_member("args.extra_key")
def misspelled_key(spot: Spot) -> Members:
    """Two letters of a key have changed places."""
    for name, whole in _having_each(spot):
        swapped = name[:1] + re.sub(r"([^\W_])(?!\1)([^\W_])", r"\2\1", name[1:], count=1)
        yield name, _renamed(whole, name, swapped if swapped != name else f"{name}s")


@at_member("args.extra_key")
def key_in_other_case(spot: Spot) -> Members:
    """A key is written in another case, such as camelCase for snake_case."""
    for name, whole in _having_each(spot):
        first, *rest = name.split("_")
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
        for other in (first + "".join(map(str.capitalize, rest)), snake, name.capitalize(), name.upper(), name.lower()):
            if other != name:
                yield name, _renamed(whole, name, other)


@at_member("args.extra_key")
def flattened_object(spot: Spot) -> Members:
    """The members of an inner object stand one level too high."""
    for name, whole, inner in _having_objects(spot):
        yield name, {**_without(whole, name), **inner}


@at_member("args.extra_key")
def dotted_key(spot: Spot) -> Members:
    """The members of an inner object are written as dotted keys of the outer one."""
    for name, whole, inner in _having_objects(spot):
        yield name, {**_without(whole, name), **{f"{name}.{key}": value for key, value in inner.items()}}


@at_place("args.extra_key")
def arguments_under_a_key(spot: Spot) -> Values:
    """The arguments are wrapped in another object, as the value of a key like args."""
    if spot.kind == "object" and not spot.path:
        yield from ({name: spot.value} for name in _WRAPPERS)


@at_place("args.extra_key")
def schema_instead_of_arguments(spot: Spot) -> Values:
    """The schema is given back in place of arguments that fit it."""
    if spot.kind == "object" and not spot.path:
        named = ("type", "properties", "required")
        yield {"type": "object"} | {key: rule for key in named for rule in reversed([*spot.rules(key)])}


@at_place("args.min_properties")
def too_few_properties(spot: Spot) -> Values:
    """An object has fewer keys than it must have."""
    required = [name for name in spot.listed("required") if name in _members(spot)]
    ordered = dict.fromkeys([*required, *_members(spot)])
    for least in spot.rules("minProperties"):
        yield {name: spot.value[name] for name in list(ordered)[: max(0, int(least) - 1)]}


@at_place("args.max_properties")
def too_many_properties(spot: Spot) -> Values:
    """An object has more keys than it may have."""
    for most in (int(rule) for rule in spot.rules("maxProperties") if rule < MAX_SIZE and spot.kind == "object"):
        grown: JSONObject = dict(spot.value)
        named = (str(name) for rule in spot.rules("properties") for name in rule)
        numbered = (f"{CANARY}{number}" for number in range(most + 1))
        for name in chain(named, spot.unnamed(), numbered):
            if len(grown) <= most and name not in grown:
                grown[name] = (*_value_for(spot, name), CANARY)[0]
        yield grown


@at_place("args.property_names")
def bad_property_name(spot: Spot) -> Values:
    """A key has a name that the schema does not allow."""
    if spot.kind == "object" and spot.states("propertyNames"):
        for name in (CANARY, CANARY.upper(), f"{CANARY} key!", f"{CANARY}.{CANARY}", CANARY * 100, ""):
            yield {**spot.value, name: (*_value_for(spot, name), CANARY)[0]}


@at_member("args.forbidden")
def forbidden_key(spot: Spot) -> Members:
    """A key is there that the schema names only to forbid it."""
    for name in (name for rule in spot.rules("properties") for name, schema in rule.items() if schema is False):
        if spot.kind == "object":
            yield name, {**spot.value, name: CANARY}


def _members(spot: Spot) -> JSONObject:
    """Give the members of the object that stands at a place; none when it is no object."""
    return dict(spot.value) if spot.kind == "object" else {}


def _having_each(spot: Spot) -> Iterator[tuple[str, JSONObject]]:
    """Give each member that has a name in the schema, with a good object that has it."""
    for name in dict.fromkeys(name for rule in spot.rules("properties") for name in rule):
        for member in _value_for(spot, name) if spot.kind == "object" else ():
            whole = {**_members(spot), name: member}
            if spot.parts.fits(spot.judges[0].node, whole):
                yield name, whole


def _having_objects(spot: Spot) -> Iterator[tuple[str, JSONObject, JSONObject]]:
    """Give each member that is an object and not empty, with a good object that has it."""
    for name, whole in _having_each(spot):
        if isinstance(whole[name], dict) and whole[name]:
            yield name, whole, whole[name]


def _without(whole: JSONObject, name: str) -> JSONObject:
    """Leave out a member."""
    return {key: value for key, value in whole.items() if key != name}


def _renamed(whole: JSONObject, name: str, other: str) -> JSONObject:
    """Give a member another name."""
    return {other if key == name else key: value for key, value in whole.items()}


def _value_for(spot: Spot, name: str) -> Iterator[JSON]:
    """Give a good value for a member: the one that is there, or an example."""
    if name in _members(spot):
        yield spot.value[name]
    elif spot.below(name):
        yield from spot.examples_below(name)
    else:
        yield CANARY
