"""Applies a type's own rules to the parts of a value that fit its schema.

A value with faults does not become an instance. Its valid members are still checked by their own
types, so that one correction reports both. Rules of a whole object do not run, and neither do rules
that read other members, because those will change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema, to_json

from strictreply.contract._fidelity.iterables import iterates, read_at_once, whole_validator
from strictreply.contract._kept_on_adapter import kept_on_adapter
from strictreply.contract._models import check_issues
from strictreply.schema import Schema
from strictreply.values._issues import Issue, pointer
from strictreply.values._limits import JSON, Work

MAX_OWN = 32
STEPS = 20  # of the reply's work, for each member that is built
_WRAPPERS = frozenset({"default", "nullable", "definitions"})
_ARRAYS = frozenset({"list", "set", "frozenset", "deque", "generator"})
_FUNCTIONS = frozenset({"function-after", "function-before", "function-wrap", "function-plain"})


@dataclass(slots=True)
class _Shape:
    """The parts of a type, without the rules around it."""

    members: dict[str, _Part] | None = None
    """The members of an object by their names in JSON; None for any other type."""
    item: _Part | None = None
    """The type of an array's items after ``first``; None for any other type."""
    first: tuple[_Part, ...] = ()
    """The types of the first items of a tuple."""
    value: _Part | None = None
    """The type of a mapping's values; None for any other type."""
    key: _Part | None = None
    """The type of a mapping's keys; None for any other type."""
    tag: str | None = None
    """The member that says which of ``tagged`` an object is; None if there is none."""
    tagged: dict[str, _Part] = field(default_factory=dict["str", "_Part"])
    """The types of a tagged union, by tag."""


@dataclass
class _Part:
    """A type inside another one."""

    schema: Any
    definitions: list[CoreSchema]
    shape: _Shape

    @cached_property
    def rule(self) -> SchemaValidator | None:
        """Builds a value of this type by itself; None if that is impossible."""
        if not _stands_alone(self.schema):
            return None

        made: Any = self.schema
        if used := _definitions_of(made, self.definitions):
            made = core_schema.definitions_schema(made, used)

        with suppress(SchemaError):
            if iterates(made):  # its items would be read only on access
                return whole_validator(read_at_once(made))
            return SchemaValidator(made)

        return None


_Node: TypeAlias = Mapping[str, Any]
"""One node of a core schema; its ``type`` determines the other members."""


@dataclass(slots=True)
class _Reader:
    """Reads the core schema that pydantic makes of a type."""

    definitions: list[CoreSchema] = field(default_factory=list)
    known: dict[int, _Shape] = field(default_factory=dict["int", "_Shape"])

    def part(self, schema: _Node) -> _Part:
        """Read one type and the types of its parts, each of them once."""
        inner = self._inner(schema)
        if id(inner) in self.known:
            return _Part(schema, self.definitions, self.known[id(inner)])

        shape = self.known[id(inner)] = _Shape()
        shape.members = self._members(inner)
        if inner["type"] in _ARRAYS:
            shape.item = self.part(inner.get("items_schema") or _ANY)
        elif inner["type"] == "tuple":
            shape.first, shape.item = self._of_tuple(inner)
        elif inner["type"] == "dict":
            shape.value = self.part(inner.get("values_schema") or _ANY)
            shape.key = self.part(inner.get("keys_schema") or _ANY)
        elif inner["type"] == "tagged-union" and isinstance(inner["discriminator"], str):
            shape.tag = inner["discriminator"]
            shape.tagged = {str(tag): self.part(each) for tag, each in inner["choices"].items()}

        return _Part(schema, self.definitions, shape)

    def _inner(self, schema: _Node) -> _Node:
        """Follow references and wrappers to an object or an array."""
        for _ in range(MAX_OWN):
            kind = schema["type"]
            if kind == "definition-ref":
                refs: dict[str | None, _Node] = {one.get("ref"): one for one in self.definitions}
                schema = refs.get(schema["schema_ref"], _ANY)
            elif kind == "json-or-python":  # how pydantic describes a Sequence
                schema = schema["json_schema"]
            elif kind in ("model", "dataclass") or kind in _WRAPPERS or kind in _FUNCTIONS:
                schema = schema.get("schema", _ANY)
            else:
                break

        return schema

    def _of_tuple(self, schema: _Node) -> tuple[tuple[_Part, ...], _Part | None]:
        """Return the first items of a tuple, and the type of the others if their number is free."""
        parts = [self.part(each) for each in schema["items_schema"]]
        index = schema.get("variadic_item_index")
        if index is None:
            return tuple(parts), None
        # an item after any number of items has no fixed place
        return tuple(parts[:index]), parts[index] if index == len(parts) - 1 else None

    def _members(self, schema: _Node) -> dict[str, _Part] | None:
        kind = schema["type"]
        if kind in ("model-fields", "typed-dict"):
            fields = schema["fields"].items()
        elif kind == "dataclass-args":
            fields = [(one["name"], one) for one in schema["fields"]]
        else:
            return None

        members: dict[str, _Part] = {}
        for name, each in fields:
            spelled = each.get("validation_alias", name)
            for choice in [[spelled]] if isinstance(spelled, str) else spelled:
                if isinstance(choice, list) and len(choice) == 1:  # one of AliasChoices
                    members[str(choice[0])] = self.part(each["schema"])

        return members


def _definitions_of(schema: _Node, definitions: list[CoreSchema]) -> list[CoreSchema]:
    """Return the definitions that a type refers to, directly or through others."""
    named = {one.get("ref"): one for one in definitions}
    used: list[CoreSchema] = []
    pending: list[Any] = [schema]

    for each in pending if named else ():  # grows during the iteration
        if isinstance(each, dict):
            is_reference = each.get("type") == "definition-ref"
            found = named.pop(each["schema_ref"], None) if is_reference else None
            used += [found] if found else []
            pending += [*each.values(), found]
        elif isinstance(each, list | tuple):
            pending += each

    return used


def _stands_alone(schema: _Node) -> bool:
    """Return whether no rule around a type reads more than its value."""
    while schema["type"] in _WRAPPERS or schema["type"] in _FUNCTIONS:
        function = schema.get("function")
        if isinstance(function, Mapping) and function.get("type") == "with-info":
            return False
        if "schema" not in schema:
            return True

        schema = schema["schema"]

    return True


_ANY: _Node = {"type": "any"}


def _part_of(adapter: TypeAdapter[object]) -> _Part:
    """Return the whole of an adapter's type, which is kept on the adapter."""
    return kept_on_adapter(adapter, "part", partial(_read_part, adapter))


def _read_part(adapter: TypeAdapter[object]) -> _Part:
    schema: Any = adapter.core_schema
    reader = _Reader()
    if schema["type"] == "definitions":
        reader.definitions = list(schema["definitions"])
        schema = schema["schema"]

    return reader.part(schema)


def own_issues(
    adapter: TypeAdapter[object],
    value: JSON,
    faults: tuple[Issue, ...],
    *,
    at: str,
    schema: Schema,
    place: str = "args",
    work: Work,
) -> tuple[Issue, ...]:
    """Return what the rules of a type reject in the parts of a value that fit its schema.

    ``faults`` are the faults of the schema, at least one; the other parameters are as in
    ``instance_of``. Nothing is built if that would take pydantic too much work.
    """
    if schema.is_too_much_to_build(value, work):
        return ()

    search = _Search(tuple(fault.path for fault in faults), schema.names, place, work)
    with suppress(RecursionError):
        return tuple(search.inside(_part_of(adapter), value, at))[:MAX_OWN]

    return ()


@dataclass(slots=True)
class _Search:
    faults: tuple[str, ...]
    names: Collection[str]
    place: str
    work: Work

    def inside(self, part: _Part, value: JSON, path: str) -> Iterator[Issue]:
        """Yield the faults of the parts of a value, which itself has a fault of its schema."""
        shape = part.shape
        if isinstance(value, dict) and shape.tag is not None:
            part = shape.tagged.get(str(value.get(shape.tag)), part)

        key = part.shape.key
        if isinstance(value, dict) and key is not None and path not in self.faults:
            yield from self._keys(key, value, path)

        for inner_part, inner, place in self._below(part, value, path):
            if any(fault == place for fault in self.faults):
                if isinstance(inner, dict | list):
                    yield from self.inside(inner_part, inner, place)
            elif any(fault.startswith(f"{place}/") for fault in self.faults):
                yield from self.inside(inner_part, inner, place)
            elif inner_part.rule is not None and self.work.afford(STEPS):
                yield from self._alone(inner_part.rule, inner, place)

    def _below(self, part: _Part, value: JSON, path: str) -> Iterator[tuple[_Part, JSON, str]]:
        """Yield the parts of a value with their types and places."""
        shape = part.shape
        if isinstance(value, dict):
            members = shape.members or {}
            for name, inner in value.items():
                known = members.get(name, shape.value)
                if known is not None:
                    yield known, inner, pointer(path, name if name in self.names else "*")
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                item = shape.first[index] if index < len(shape.first) else shape.item
                if item is not None:
                    yield item, inner, pointer(path, index)

    def _keys(self, key: _Part, value: dict[str, JSON], path: str) -> Iterator[Issue]:
        """Yield what the rules of a mapping's keys reject in its names."""
        for name in value if key.rule is not None else ():
            if key.rule is not None and self.work.afford(STEPS):
                yield from self._alone(key.rule, name, path)

    def _alone(self, rule: SchemaValidator, value: JSON, path: str) -> Iterator[Issue]:
        found: tuple[Issue, ...] = ()
        # any other exception of a rule is raised again when the whole value is built
        with suppress(Exception):
            try:
                rule.validate_json(to_json(value))
            except ValidationError as error:
                found = check_issues(error, value, at=path, names=self.names, place=self.place)

        yield from found
