"""Contradictions of a schema: places that no value can ever fit, found when it is declared; what is unsure is let pass.

Every step takes more values for possible than there are, so that no schema with a valid value is called impossible.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strictreply.schema._conjunctions import (
    ALL,
    FLAT,
    UNIONS,
    Conflict,
    around,
    by_bounds,
    by_size,
    by_type,
    chooses,
    conflict_at,
    conjoined_with,
    items_at,
    kind_of,
    place_of,
    required_names,
    rests,
    speaks_of,
)
from strictreply.schema._documents import Document
from strictreply.schema._engines import engine_for
from strictreply.schema._faults import Engine
from strictreply.schema._graph import Graph, Node
from strictreply.schema._references import at_pointer
from strictreply.schema._vocabulary import Applies
from strictreply.schema._words import word
from strictreply.values._errors import ContractError, ContractWarning
from strictreply.values._issues import pointer_tokens, printable

MAX_STEPS = 50_000
"""Steps of the analysis, a few hundred milliseconds: what is not looked at by then passes."""

NO_OBJECT = "its schema admits no object; Tool.from_json_schema(…, wrap_root=True) declares any other"
MAX_ROUNDS = 20
MAX_TOLD = 5
MAX_INDEX = 32

CLOSED_BY_US = 'the object admits only the keys it lists; list it under properties, or declare with extra="schema"'
TOO_FEW = 'of those that the object lists; list more under properties, or declare with extra="schema"'
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a schema in an unknown place may raise: the metaschema does not hold it to any form."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kinds of values that may fit a schema, and what speaks against the others."""

    kinds: frozenset[str]
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a schema can never admit: ``kinds`` may fit its root, ``conflicts`` say why others cannot, deepest causes.

    ``parts`` are the contradictions anywhere that a value is judged, each place once.
    """

    kinds: frozenset[str]
    conflicts: tuple[Conflict, ...] = ()
    parts: tuple[Conflict, ...] = ()


def contradictions(graph: Graph, unclosed: Document) -> Findings:
    """Find what no value can fit in a document; ``unclosed`` is the same before its objects were closed."""
    if graph.root is None:
        return Findings(frozenset() if graph.document is False else ALL)
    analysis = _Analysis(graph, unclosed)
    try:
        analysis.run()
    except _TooMuch:
        return Findings(ALL)
    root = analysis.verdicts[id(graph.root)]
    against = tuple(analysis.deepest(each) for each in root.conflicts if each.kinds)
    return Findings(root.kinds, against, tuple(analysis.parts()))


def refuse(findings: Findings, what: str, *, kinds: frozenset[str]) -> None:
    """Raise ContractError when no value of ``kinds`` fits ``what``, and warn once of parts of it that nothing fits."""
    if not findings.kinds & kinds:
        against = [conflict for conflict in findings.conflicts if conflict.kinds & kinds]
        words = against[-1].words if against else NO_OBJECT
        raise ContractError(f"nothing can ever fit {what}: {words}", path=against[-1].place if against else "")
    if findings.parts:
        told = [f"{part.place}: {part.words}" for part in findings.parts[:MAX_TOLD]]
        more = [f"and {len(findings.parts) - MAX_TOLD} more"] if len(findings.parts) > MAX_TOLD else []
        message = "; ".join([f"nothing can ever fit a part of {what}", *told, *more])
        warnings.warn(printable(message), ContractWarning, stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """Count the frames up to the first one outside of this library: the declaration that is warned of."""
    frame = inspect.currentframe()
    levels = 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("strictreply."):
        frame = frame.f_back
        levels += 1
    return levels


class _TooMuch(Exception):  # a way out of the recursion
    """The analysis took too many steps."""


class _Analysis:
    """One analysis: grows the set of schemas that some value may fit, until it grows no more."""

    __slots__ = ("_alive", "_engines", "_graph", "_steps", "_unclosed", "verdicts")

    def __init__(self, graph: Graph, unclosed: Document) -> None:
        self._graph = graph
        self._unclosed = unclosed
        self._alive: set[int] = set()
        self._engines: dict[int, Engine | None] = {}
        self._steps = 0
        self.verdicts: dict[int, Verdict] = {}

    def run(self) -> None:
        """Judge every schema; a schema that needs itself without end never comes alive."""
        unsure = [node for node in reversed(self._graph.nodes) if node.pointer is not None]
        self._alive = {id(node) for node in self._graph.nodes if node.pointer is None}
        self.verdicts = {key: Verdict(ALL) for key in self._alive}
        for _ in range(MAX_ROUNDS):
            before = len(self._alive)
            for node in unsure:
                verdict = self.verdicts[id(node)] = self._judge(conjoined_with([node]))
                if verdict.kinds:
                    self._alive.add(id(node))
            unsure = [node for node in unsure if self.verdicts[id(node)].conflicts or chooses(node)]
            if len(self._alive) == before:
                return
        raise _TooMuch

    def deepest(self, conflict: Conflict) -> Conflict:
        """Follow a conflict to the one that it comes of."""
        seen: set[int] = set()
        kinds = conflict.kinds
        while conflict.cause is not None and id(conflict.cause) not in seen:
            seen.add(id(conflict.cause))
            deeper = [each for each in self.verdicts[id(conflict.cause)].conflicts if each.kinds]
            if not deeper:
                break
            conflict = deeper[-1]
        if conflict.cause is not None:
            conflict = conflict._replace(words="it needs itself inside itself, without end", cause=None)
        return conflict._replace(kinds=kinds)

    def parts(self) -> Iterator[Conflict]:
        """Give the contradictions at the places where a value may be judged, the nearest to the root first."""
        pending = [self._graph.root] if self._graph.root else []
        seen = {id(node) for node in pending}
        told: set[str] = set()
        for node in pending:  # grows while it is walked
            for conflict in self.verdicts[id(node)].conflicts:
                if conflict.cause is None and not conflict.meant and conflict.place not in told:
                    told.add(conflict.place)
                    yield conflict
            for edge in node.edges:
                judged = edge.applies is not Applies.NOWHERE and edge.keyword not in ("not", "if")
                if judged and id(edge.target) not in seen:
                    seen.add(id(edge.target))
                    pending.append(edge.target)

    def _judge(self, conjoined: list[Node], *, unions: bool = True, deep: bool = True) -> Verdict:
        """Weigh schemas that one value must all fit; ``deep`` looks at what several of them say of one member."""
        self._steps += len(conjoined)
        if self._steps > MAX_STEPS:
            raise _TooMuch
        kinds, conflicts = ALL, list[Conflict]()
        finders = [by_type, self._by_value, by_bounds, by_size, self._by_items, self._by_members]
        for find in [*finders, self._by_union] if unions else finders:
            try:
                found = list(find(conjoined, kinds) if deep or find != self._by_members else ())
            except UNFIT:
                continue
            for conflict in found:
                if kinds & conflict.kinds or not conflict.kinds:
                    kinds -= conflict.kinds
                    if not conflict.meant or not kinds:
                        conflicts.append(conflict)
        return Verdict(kinds, tuple(conflicts))

    def _by_value(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        """Try the values that ``enum`` or ``const`` list."""
        for holder in conjoined:
            keyword = next((keyword for keyword in ("const", "enum") if keyword in holder.schema), None)
            if keyword is None:
                continue
            listed = holder.schema[keyword]
            values = listed if keyword == "enum" else [listed]
            left = [value for value in values if kind_of(value) in kinds and self._fits_all(conjoined, value)]
            words = "it lists no value" if values == [] else "no value that it lists fits the rules beside it"
            yield Conflict(
                kinds - {kind_of(value) for value in left}, place_of(holder, keyword), words, meant=bool(left)
            )
            return

    def _fits_all(self, conjoined: list[Node], value: Any) -> bool:
        return all(self._fits(node, value) for node in conjoined)

    def _fits(self, node: Node, value: Any) -> bool:
        """Whether a value fits what a schema says without other schemas."""
        self._steps += 1
        if id(node) not in self._engines:
            flat = {keyword: node.schema[keyword] for keyword in node.schema if keyword in FLAT}
            try:
                self._engines[id(node)] = engine_for(flat, formats=False) if flat else None
            except ContractError:
                self._engines[id(node)] = None
        engine = self._engines[id(node)]
        return engine is None or engine.is_valid(value)

    def _by_items(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        """Look at the items that an array must have."""
        if "array" not in kinds:
            return
        least = max((node.schema.get("minItems", 0) for node in conjoined), default=0)
        for node in conjoined:
            if "contains" in node.schema and (needed := node.schema.get("minContains", 1)) > 0:
                least = max(least, needed)
                if needed > node.schema.get("maxContains", needed):
                    yield conflict_at("array", node, "maxContains", f"at least {needed} are required")
                yield from self._impossible(
                    "array",
                    [(node, "contains", node.schema["contains"]), *rests(conjoined)],
                    "an item it must contain",
                )
        for index in range(min(math.ceil(least), MAX_INDEX)):
            yield from self._impossible(
                "array", list(items_at(conjoined, index)), f"item {index}, which there must be,"
            )

    def _by_members(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        """Look at the members that an object must have."""
        if "object" not in kinds:
            return
        required = required_names(conjoined)
        for node in conjoined:
            most = node.schema.get("maxProperties", math.inf)
            if len(required) > most:
                yield conflict_at("object", node, "maxProperties", f"{len(required)} keys are required")
            yield from self._too_few_names(node, conjoined)
        for name, holder in required.items():
            self._steps += len(conjoined)
            yield from self._refused_names(name, holder, conjoined)
            members = [
                (node, "properties", node.schema["properties"][name])
                for node in conjoined
                if name in node.schema.get("properties", ())
            ]
            yield from self._impossible("object", members, f"the required key {word(name)}", name)

    def _too_few_names(self, node: Node, conjoined: list[Node]) -> Iterator[Conflict]:
        """Count the names that a closed object may have."""
        least = max((each.schema.get("minProperties", 0) for each in conjoined), default=0)
        if least and node.schema.get("additionalProperties") is False and not node.schema.get("patternProperties"):
            names = sum(each is not False for each in node.schema.get("properties", {}).values())
            if names < least:
                words = f"at least {least} keys are required, and {names} can be there"
                if "additionalProperties" not in at_pointer(self._unclosed, pointer_tokens(node.pointer or "")):
                    words = f"{words} {TOO_FEW}"
                yield conflict_at("object", node, "additionalProperties", words)

    def _refused_names(self, name: str, holder: Node, conjoined: list[Node]) -> Iterator[Conflict]:
        """Find what admits no member of a required name."""
        for node in conjoined:
            for keyword, speaking in (("additionalProperties", [node]), ("unevaluatedProperties", None)):
                if node.schema.get(keyword) is not False:
                    continue
                if any(speaks_of(each, name, own=speaking is not None) for each in speaking or around(node)):
                    continue
                before = at_pointer(self._unclosed, pointer_tokens(node.pointer or ""))
                words = f"{keyword} admits no such key" if keyword in before else CLOSED_BY_US
                words = f"the key {word(name)} is required, but {words}"
                yield Conflict(frozenset({"object"}), place_of(holder, "required"), words)
            names = node.schema.get("propertyNames")
            judge = self._graph.find(names)
            if names is False or (judge is not None and not self._fits_all(conjoined_with([judge]), name)):
                yield conflict_at("object", node, "propertyNames", f"the key {word(name)} is required, but not allowed")

    def _impossible(
        self, kind: str, places: list[tuple[Node, str, Any]], what: str, *tokens: str
    ) -> Iterator[Conflict]:
        """Say that something there must be is held to schemas that nothing fits, one by one or together."""
        nodes: list[Node] = []
        for holder, keyword, schema in places:
            node = self._graph.find(schema)
            dead = node is not None and id(node) not in self._alive
            if schema is False or (dead and self._is_forbidden(node)):
                yield conflict_at(kind, holder, keyword, f"{what} is forbidden", *tokens)
            elif node is not None and dead:
                yield Conflict(frozenset({kind}), node.pointer or "", f"{what} can be no value", node)
            elif node is not None:
                nodes.append(node)
        if len(nodes) > 1:
            together = self._judge(conjoined_with(nodes), unions=False, deep=False)
            if not together.kinds:
                inner = together.conflicts[-1]
                yield Conflict(frozenset({kind}), inner.place, f"{what} can be no value: {inner.words}")

    def _is_forbidden(self, node: Node | None) -> bool:
        """Whether a schema admits nothing because its author says so, as ``{"not": {}}`` does."""
        verdict = self.verdicts.get(id(node))
        return verdict is not None and all(conflict.meant for conflict in verdict.conflicts)

    def _by_union(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        """Weigh each form of a union together with what stands around it."""
        for node in conjoined:
            for keyword in UNIONS:
                forms = node.schema.get(keyword)
                if not isinstance(forms, list) or any(form is True for form in forms):
                    continue
                forms_left = [self._form(form, conjoined, kinds) for form in forms]
                possible = frozenset[str]().union(*(verdict.kinds for verdict in forms_left))
                against = [conflict for verdict in forms_left for conflict in verdict.conflicts]
                if possible:
                    yield Conflict(kinds - possible, place_of(node, keyword), "no form fits", meant=True)
                    yield from (each._replace(kinds=frozenset()) for each in against)
                elif against:
                    yield against[-1]._replace(kinds=kinds)
                else:
                    yield Conflict(kinds, place_of(node, keyword), "no form fits")

    def _form(self, form: Any, conjoined: list[Node], kinds: frozenset[str]) -> Verdict:
        """Weigh one form of a union; a conflict is given only when the form is impossible."""
        node = self._graph.find(form)
        if form is False:
            return Verdict(frozenset())
        if node is None:
            return Verdict(kinds)
        if id(node) not in self._alive:
            return Verdict(frozenset(), (Conflict(kinds, node.pointer or "", "it can be no value", node),))
        verdict = self._judge(conjoined_with([*conjoined, node]), unions=False)
        if verdict.kinds:
            return verdict
        words = f"this form can never be taken: {verdict.conflicts[-1].words}"
        return Verdict(frozenset(), (Conflict(kinds, node.pointer or "", words),))
