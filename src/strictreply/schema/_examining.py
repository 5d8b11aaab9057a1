"""Finds the faults of an invalid value.

Every keyword of the schema is checked at every place of the value, within a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, TypeAlias

from strictreply.schema._counted import UNIT_STEPS, beyond_judgements, is_beside_length
from strictreply.schema._documents import Node
from strictreply.schema._engines import (
    COMPILING,
    SchemaEngine,
    SchemaParts,
    UnionChoice,
    kind_of,
    tag_key,
)
from strictreply.schema._vocabulary import LENGTHS, OWN, REFERENCES, STATEMENTS, WHOLE, Applies
from strictreply.schema._work import size_of
from strictreply.values._limits import JSON, JSONObject, Spent, Work

MAX_FAULTS = 40  # faults of one value, and of one branch, after which the search stops
MAX_NAMES = 64  # members that one fault lists
# Members or items that are examined one by one; of more than these, the engine finds the invalid
# ones by bisection.
FEW = 2
FEW_DYNAMIC = 16  # the same, for parts whose meaning depends on the path to them
AT_ONCE = 256
# how many values make a part of a value large, and the limit for counting
LARGE = 128
MAX_SIZE = 1_000_000
NAMES_PER_STEP = 8
PER_STEP = 100  # how many values the engine judges in one step
COMPILED_PER_STEP = 2  # how many members of one schema are compiled in one step
# the member names and indexes to a place of the value
Steps: TypeAlias = "tuple[str | int, ...]"
_Part: TypeAlias = "tuple[str | int, JSON]"  # a member or an item, after its name or index


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """One keyword that rejects one place of a value."""

    keyword: str
    """The keyword; ``false`` for a schema that accepts nothing."""
    path: Steps
    """Member names and indexes to the place."""
    schema: Mapping[str, Any] | None = None
    """The schema with the keyword; None if it is unknown."""
    names: tuple[str, ...] = ()
    """Names of the members that are missing, superfluous, or rejected."""
    branches: tuple[tuple[SchemaFault, ...], ...] = ()
    """The faults of a union, by branch; empty when more than one of ``oneOf`` fits."""
    because: str = ""
    """The member that causes the fault, for ``dependentRequired`` and the like."""
    fitting: tuple[int, ...] = ()
    """The branches of ``oneOf`` that fit, if several do."""
    weight: int = 1
    """How many faults it stands for: those of its heaviest branch."""
    found: JSON = field(default=None, compare=False)
    """The value at the place."""


class _Enough(Exception):
    """Ends the recursion, because enough faults have been found."""


class Examination:
    """One search for the faults of one value.

    ``faults`` has what was found, even if the budget ended the search.
    """

    def __init__(self, parts: SchemaParts, work: Work) -> None:
        self._parts = parts
        self._work = work
        self._known: dict[tuple[int, Steps], tuple[SchemaFault, ...]] = {}
        self._used: set[tuple[object, ...]] = set()
        self._cut: Exception | None = None
        self._weight = 0  # of the faults
        # the meaning of a dynamic reference depends on the path to it
        self._is_dynamic = parts.is_dynamic
        self._few = FEW_DYNAMIC if self._is_dynamic else FEW
        self.faults: list[SchemaFault] = []

    def run(self, value: JSON) -> None:
        """Search the whole value.

        Raises Spent if the work is used up, and RecursionError if the value is nested too deep.
        """
        with suppress(_Enough):
            self._sub(self._parts.graph.document, value, (), is_wrong=True)

        if self._cut is not None:
            raise self._cut

    def _add(
        self, keyword: str, path: Steps, schema: JSONObject | None, found: JSON, **more: Any
    ) -> None:
        self._extend((SchemaFault(keyword, path, schema, found=found, **more),))

    def _extend(self, faults: tuple[SchemaFault, ...]) -> None:
        self.faults += faults
        self._weight += sum(fault.weight for fault in faults)
        if self._weight >= MAX_FAULTS:
            raise _Enough

    def _sub(self, schema: object, value: JSON, path: Steps, *, is_wrong: bool = False) -> None:
        """Find the faults of a value by one schema; ``is_wrong`` says that it has some."""
        if schema is False:
            self._add("false", path, None, value)
        elif isinstance(schema, dict):
            node = self._parts.graph.find(schema)
            if node is None:
                return

            # valid parts are skipped, so that a fault deep in a large value is reached
            if is_wrong or not self._is_passed_over(schema, value, path):
                self._examine(node, value, path)

    def _is_passed_over(self, schema: JSONObject, value: JSON, path: Steps) -> bool:
        if self._is_dynamic and not (path and size_of(value, LARGE) == LARGE):
            return False

        return self.passes(schema, value)

    def _examine(self, node: Node, value: JSON, path: Steps) -> None:
        self._work.take()

        for keyword in self._parts.spoken(node.schema):
            if keyword in OWN:
                if not self._fits(node, keyword, value):
                    self._add(keyword, path, node.schema, value)
            else:
                kind, look = self._LOOKS.get(keyword, (object, None))
                if look is not None and isinstance(value, kind):
                    look(self, keyword, node, value, path)

    def _fits(self, node: Node, keyword: str, value: JSON) -> bool:
        expected = node.schema[keyword]

        if keyword in LENGTHS:
            kind, compare = LENGTHS[keyword]
            if not isinstance(value, kind):
                return True

            return compare(len(value), expected)  # type: ignore[arg-type]

        if keyword == "pattern" and is_beside_length(node.schema, value):
            return True  # so long a text is not matched: its length is the fault

        if isinstance(value, dict | list):
            if keyword not in (*WHOLE, "type"):
                return True
            if keyword == "type":  # an empty one has the same type
                value = type(value)()

        return self._holds((id(node.schema), keyword), {keyword: expected}, value)

    def _holds(self, key: tuple[object, ...], schema: JSONObject, value: JSON) -> bool:
        return self._judged(self._engine(key, schema), value)

    def _judged(self, engine: SchemaEngine, value: JSON) -> bool:
        """Return whether a value fits, and count the work."""
        beyond = beyond_judgements(engine.costs, value)
        if isinstance(value, dict | list) or beyond:
            size = size_of(value, MAX_SIZE)
            self._work.take(1 + size // PER_STEP + beyond // UNIT_STEPS)

        return engine.is_valid(value, self._work)

    def _engine(
        self, key: tuple[object, ...], schema: JSONObject, members: int = 0
    ) -> SchemaEngine:
        """Return the engine of a part with so many members.

        The cost of compiling is counted at the first use here, even if it was compiled before, so
        that the same value always has the same faults.
        """
        if key not in self._used:
            self._work.take(COMPILING + members // COMPILED_PER_STEP)
            self._used.add(key)

        return self._parts.engine(key, schema)

    def passes(self, below: dict[str, object] | bool, value: JSON) -> bool:
        """Return whether a value fits a sub-schema; raise Spent if the work is used up."""
        if isinstance(below, bool):
            return below
        return self._holds((id(below), "whole"), {"allOf": [self._parts.refer(below)]}, value)

    def _matching(self, pattern: str, value: dict[str, JSON]) -> list[str]:
        self._work.take(1 + len(value) // 8)
        engine = self._engine(("pattern", pattern), {"pattern": pattern})
        return [name for name in value if engine.is_valid(name, self._work)]

    def _needed(self, keyword: str, node: Node, value: dict[str, JSON], path: Steps) -> None:
        rule = node.schema[keyword]
        lists = [("", rule)]
        if keyword != "required":
            lists = [(name, rule[name]) for name in rule if name in value]

        for because, needed in lists:
            if not isinstance(needed, list):
                self._dependent(because, needed, value, path)
                continue

            absent = (name for name in needed if name not in value)
            if missing := tuple(islice(absent, MAX_NAMES)):
                broken = "dependentRequired" if keyword == "dependencies" else keyword
                self._add(broken, path, node.schema, value, names=missing, because=because)

    def _dependent(self, because: str, schema: object, value: JSON, path: Steps) -> None:
        """Examine what a schema requires because a member is present."""
        start = len(self.faults)
        try:
            self._sub(schema, value, path)
        finally:
            later = self.faults[start:]
            self.faults[start:] = [replace(fault, because=because) for fault in later]

    def _members(self, keyword: str, node: Node, value: dict[str, JSON], path: Steps) -> None:
        members = node.schema[keyword]
        if keyword == "properties":
            self._described(keyword, node, [name for name in members if name in value], value, path)
            return

        for pattern, below in members.items():
            matching = self._matching(pattern, value)
            self._each(below, ((each, value[each]) for each in matching), path)

    def _described(
        self, keyword: str, node: Node, tokens: list[Any], value: Any, path: Steps
    ) -> None:
        """Examine members or items that each have their own schema."""
        members = node.schema[keyword]
        if len(tokens) <= self._few or self._is_dynamic:
            for token in tokens:
                self._sub(members[token], value[token], (*path, token))

            return

        key = (id(node.schema), keyword, "described")
        described: dict[str, Any] = {}
        if not self._parts.has(key):
            pairs = members.items() if isinstance(members, dict) else enumerate(members)
            described = {str(token): self._parts.refer(below) for token, below in pairs}

        engine = self._engine(key, {"properties": described}, len(members))

        def fit(some: list[_Part]) -> bool:
            self._work.take(len(members) // PER_STEP)
            return self._judged(engine, {str(token): part for token, part in some})

        for token, part in self._wrong([(token, value[token]) for token in tokens], fit):
            self._sub(members[token], part, (*path, token), is_wrong=True)

    def _other_members(self, keyword: str, node: Node, value: dict[str, JSON], path: Steps) -> None:
        own = keyword == "additionalProperties"
        spoken = self._named(node, value) if own else self._evaluated_names(node, value, keyword)
        below = node.schema[keyword]
        others = (name for name in value if name not in spoken)

        if below is not False:
            self._each(below, ((name, value[name]) for name in others), path)
        elif names := tuple(islice(others, MAX_NAMES)):
            self._add(keyword, path, node.schema, value, names=names)

    def _named(self, node: Node, value: dict[str, JSON]) -> set[str]:
        patterns = node.schema.get("patternProperties", ())
        matching = {name for pattern in patterns for name in self._matching(pattern, value)}
        return matching.union(name for name in node.schema.get("properties", ()) if name in value)

    def _property_names(
        self, keyword: str, node: Node, value: dict[str, JSON], path: Steps
    ) -> None:
        below = {keyword: self._parts.refer(node.schema[keyword])}
        engine = self._engine((id(node.schema), keyword), below)
        refused: list[str] = []

        try:
            for index, name in enumerate(value):
                if index % NAMES_PER_STEP == 0:
                    self._work.take()
                if not engine.is_valid({name: None}, self._work):
                    refused.append(name)
                if len(refused) == MAX_NAMES:
                    break
        finally:
            if refused:
                self._add(keyword, path, node.schema, value, names=tuple(refused))

    def _items(self, keyword: str, node: Node, value: list[JSON], path: Steps) -> None:
        below = node.schema[keyword]
        if isinstance(below, list):  # prefixItems, or items in 2019-09
            tokens = list(range(min(len(below), len(value))))
            self._described(keyword, node, tokens, value, path)
            return

        evaluated = set[int]()
        if keyword == "unevaluatedItems":
            start, evaluated = self._evaluated_items(node, value, keyword)
        elif keyword == "items":
            first = node.schema.get("prefixItems", [])
            start = len(first) if isinstance(first, list) else len(value)
        else:  # additionalItems needs a list before it
            first = node.schema.get("items")
            start = len(first) if isinstance(first, list) else len(value)

        later = islice(enumerate(value), start, None)
        rest = ((index, item) for index, item in later if index not in evaluated)

        # if contained items may be anywhere, the superfluous ones cannot be identified
        taken = keyword == "unevaluatedItems" and any(
            "contains" in judge.schema for judge in node.judges()
        )
        if below is not False or taken:
            self._each(below, rest, path)
        elif any(True for _ in rest):
            self._add(keyword, path, node.schema, value)

    def _contains(self, keyword: str, node: Node, value: list[JSON], path: Steps) -> None:
        named = [name for name in ("minContains", "maxContains") if name in node.schema]
        rule: dict[str, Any] = {name: node.schema[name] for name in named}
        rule[keyword] = self._parts.refer(node.schema[keyword])
        if not self._holds((id(node.schema), keyword), rule, value):
            self._add(keyword, path, node.schema, value)

    def _each(self, below: object, parts: Iterable[_Part], path: Steps) -> None:
        left = iter(parts)
        items = {"items": self._parts.refer(below)}

        def fit(some: list[_Part]) -> bool:
            return self._holds((id(below), "each"), items, [value for _, value in some])

        while some := list(islice(left, AT_ONCE)):
            if below is False or len(some) <= self._few:
                for token, part in some:
                    self._sub(below, part, (*path, token))
            else:
                for token, part in self._wrong(some, fit):
                    self._sub(below, part, (*path, token), is_wrong=True)

    def _wrong(
        self,
        parts: list[_Part],
        fit: Callable[[list[_Part]], bool],
    ) -> Iterator[_Part]:
        """Yield the parts that do not fit, found by bisection, in order."""
        pending = [parts]

        while pending:
            some = pending.pop()
            if fit(some):
                continue

            if len(some) == 1:
                yield some[0]
            else:
                half = len(some) // 2
                pending += [some[half:], some[:half]]

    def _same_value(self, keyword: str, node: Node, value: JSON, path: Steps) -> None:
        condition = node.schema[keyword]
        if keyword == "allOf":
            for below in condition:
                self._sub(below, value, path)
        elif keyword == "if":
            self._sub(
                node.schema.get("then" if self.passes(condition, value) else "else"), value, path
            )
        elif self.passes(condition, value):
            self._add("not", path, node.schema, value)

    def _any_of(self, keyword: str, node: Node, value: JSON, path: Steps) -> None:
        listed = node.schema[keyword]
        rule = {keyword: [self._parts.refer(below) for below in listed]}
        if self._holds((id(node.schema), keyword), rule, value):
            return

        nodes = [found for below in listed if (found := self._parts.graph.find(below)) is not None]
        choice = self._parts.choice(node, keyword, nodes) if len(nodes) == len(listed) else None
        indexes = range(len(nodes)) if choice is None else self._meant(choice, value, path)
        branches = tuple(self._branch(nodes[index], value, path) for index in indexes)

        if len(branches) == 1:
            self._extend(branches[0])
        elif self._cut is not None:
            return  # all of them together show which branch was meant, or none does
        elif branches or choice is None:
            # none if several branches of oneOf fit
            wrong = branches if all(branches) else ()
            weight = max([1, *(sum(fault.weight for fault in each) for each in wrong)])
            fitting = tuple(
                index for index, each in zip(indexes, branches, strict=True) if not each
            )
            more: dict[str, Any] = {"branches": wrong, "weight": weight, "fitting": fitting}
            self._add(keyword, path, node.schema, value, **more)

    def _meant(self, choice: UnionChoice, value: JSON, path: Steps) -> tuple[int, ...]:
        kind = kind_of(value)
        if kind not in choice.branches:
            self._add("type", path, {"type": list(choice.types)}, value)
            return ()

        if kind not in choice.tags or not isinstance(value, dict):
            return choice.branches[kind]

        # The tag alone decides: faults of branches that the value did not name would mislead the
        # model.
        tag = choice.tags[kind]
        if tag.name not in value:
            if not tag.is_required:
                return choice.branches[kind]

            self._add("required", path, {"required": [tag.name]}, value, names=(tag.name,))
            return ()

        label = value[tag.name]
        index = tag.branches.get(tag_key(label)) if isinstance(label, str | int) else None
        if index is not None:
            return (index,)

        self._add("enum", (*path, tag.name), {"enum": list(tag.values)}, label)
        return ()

    def _branch(self, node: Node, value: JSON, path: Steps) -> tuple[SchemaFault, ...]:
        """Return the faults of a value by one branch, as far as they were found.

        If the work is used up, the faults so far are kept, and nothing more is examined.
        """
        key = (id(node), path)
        if key not in self._known and self._cut is None:
            outer = (self.faults, self._weight)
            self.faults = []
            self._weight = 0

            try:
                with suppress(_Enough):
                    self._examine(node, value, path)
            except (Spent, RecursionError) as error:
                self._cut = error
            finally:
                found = self.faults
                self.faults, self._weight = outer

            self._known[key] = tuple(found)

        return self._known.get(key, ())

    def _reference(self, keyword: str, node: Node, value: JSON, path: Steps) -> None:
        """Follow a reference.

        Of the possible targets of a dynamic reference, one is used that the value does not fit.
        """
        reference = node.schema[keyword]
        targets = node.targets(keyword)
        if keyword == "$recursiveRef":
            targets += node.targets("$dynamicRef")

        if not targets:
            led = node.scope.lookup(reference)
            self._sub(None if led is None else led[0], value, path)
        elif targets[0].pointer is None:  # a published metaschema is judged as a whole
            if not self._holds((id(node.schema), "$ref"), {"$ref": reference}, value):
                self._add("$ref", path, node.schema, value)
        elif len(targets) == 1:
            self._examine(targets[0], value, path)
        else:
            # the outermost schema comes first
            targets.sort(key=lambda target: target is not self._parts.graph.root)
            branches = (self._branch(target, value, path) for target in targets)
            self._extend(next(filter(None, branches), ()))

    def _evaluated_names(self, node: Node, value: dict[str, JSON], asking: str = "") -> set[str]:
        """Return the members that a schema evaluates (2020-12 section 11).

        Its keyword ``asking`` is ignored.
        """
        self._work.take()
        if any(keyword in node.schema and keyword != asking for keyword in STATEMENTS):
            return set(value)

        # more than in the specification if a branch does not fit: its members then have their own
        # faults
        beside = (self._evaluated_names(each, value) for each in self._beside(node, value))
        return self._named(node, value).union(*beside)

    def _evaluated_items(
        self, node: Node, value: list[JSON], asking: str = ""
    ) -> tuple[int, set[int]]:
        self._work.take()
        schema = node.schema
        rests = ("additionalItems", "unevaluatedItems")

        items = schema.get("items")
        if isinstance(items, dict | bool):
            return len(value), set()
        if any(keyword in schema and keyword != asking for keyword in rests):
            return len(value), set()

        first = items if isinstance(items, list) else schema.get("prefixItems", ())
        count = len(first)
        evaluated = set[int]()

        if "contains" in schema and self._parts.contains_evaluates:
            below = self._parts.refer(schema["contains"])
            engine = self._engine((id(schema), "contained"), {"items": below})
            self._work.take(len(value) // 8)
            evaluated = {
                index for index, item in enumerate(value) if engine.is_valid([item], self._work)
            }

        for beside in self._beside(node, value):
            further, also = self._evaluated_items(beside, value)
            count = max(count, further)
            evaluated |= also

        return count, evaluated

    def _beside(self, node: Node, value: JSON) -> Iterator[Node]:
        """Yield the other schemas next to a schema that evaluate the same value."""
        taken: set[str] = set()
        if "if" in node.schema:
            taken = {"if", "then"} if self.passes(node.schema["if"], value) else {"else"}

        for edge in node.along(Applies.HERE):
            match edge.keyword:
                case "anyOf" | "oneOf":
                    targets = node.targets(edge.keyword)
                    fitting = [each for each in targets if self.passes(each.schema, value)]
                    any_fits = fitting or True in node.schema[edge.keyword]
                    says = edge.target in fitting or not any_fits
                case "if" | "then" | "else":
                    says = edge.keyword in taken
                case "dependentSchemas":
                    says = isinstance(value, dict) and edge.token in value
                case keyword:
                    # the second keyword is older than the one that asks
                    says = keyword not in ("not", "dependencies")

            if says:
                yield edge.target

    # How each keyword that applies schemas, or is about members, is examined, and for which types.
    _LOOKS: ClassVar[Mapping[str, tuple[type, Callable[..., None]]]] = {
        **dict.fromkeys(
            ("required", "dependentRequired", "dependentSchemas", "dependencies"), (dict, _needed)
        ),
        **dict.fromkeys(("properties", "patternProperties"), (dict, _members)),
        **dict.fromkeys(STATEMENTS, (dict, _other_members)),
        "propertyNames": (dict, _property_names),
        **dict.fromkeys(
            ("prefixItems", "items", "additionalItems", "unevaluatedItems"), (list, _items)
        ),
        "contains": (list, _contains),
        **dict.fromkeys(("allOf", "not", "if"), (object, _same_value)),
        **dict.fromkeys(("anyOf", "oneOf"), (object, _any_of)),
        **dict.fromkeys(REFERENCES, (object, _reference)),
    }
