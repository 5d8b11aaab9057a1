"""How much work a schema can cause, bounded when it is declared: endless and exploding ones are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from strictreply.schema._graph import Graph, Node
from strictreply.schema._vocabulary import Applies
from strictreply.values._errors import ContractError

MAX_HERE = 500
"""Schemas that may judge one and the same value."""

MAX_LOAD = 4_000
"""Judgements that one place of a value may cost, the choices above it multiplied in."""

MAX_EXPANSIONS = 30_000
"""Steps of the analysis itself; about 100 ms."""

MAX_PATTERNS = 128
"""Different patterns in one schema: a compiled one may take a megabyte."""

MAX_ROUNDS = 100
TRIED_TWICE = frozenset({"anyOf", "oneOf", "if"})  # by the engines, to learn what these evaluated
UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
NAMED = frozenset({"properties", "prefixItems"})
REST = frozenset({"additionalProperties", "items"})

Below: TypeAlias = list[Counter[int]]
"""For each member or item that a place can have: the places' ids below it, with how often each is judged."""


def load_of(graph: Graph) -> int | None:
    """Return how many judgements one place of a value may cost; None when that can grow with the value's depth.

    Raises ContractError for a schema that leads back to itself without going into the value, and for one whose
    choices multiply beyond the bound though it does not recur, and for more patterns than memory allows.
    """
    _refuse_many_patterns(graph)
    here = _judges_here(graph)
    load = _max_load(here, _places(graph))
    if load <= MAX_LOAD:
        return load
    try:
        TopologicalSorter({id(node): {id(edge.target) for edge in node.edges} for node in graph.nodes}).prepare()
    except CycleError:
        return None
    message = f"the choices of the schema multiply: more than {MAX_LOAD} judgements of one place; use fewer of them"
    raise ContractError(message)


def _refuse_many_patterns(graph: Graph) -> None:
    """Count the patterns; raises ContractError when there are too many."""
    patterns: set[str] = set()
    for node in graph.nodes:
        members = node.schema.get("patternProperties")
        written = [node.schema.get("pattern"), *(members if isinstance(members, dict) else ())]
        patterns.update(text for text in written if isinstance(text, str))
    if len(patterns) > MAX_PATTERNS:
        raise ContractError(f"the schema is too complex: more than {MAX_PATTERNS} patterns; leave some out")


def _judges_here(graph: Graph) -> dict[int, int]:
    """Count the schemas that judge the same value as each node; raises ContractError for loops and explosions."""
    nodes = {id(node): node for node in graph.nodes}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for node in graph.nodes:
        sorter.add(id(node), *(id(edge.target) for edge in node.along(Applies.HERE)))
    try:
        order = tuple(sorter.static_order())
    except CycleError as error:
        place = nodes[error.args[1][0]].pointer or ""
        message = "the schema refers to itself without end; let it do so only inside properties or items"
        raise ContractError(message, path=place) from None
    counts: dict[int, int] = {}
    for key in order:
        counts[key] = 1 + sum(counts[id(edge.target)] for edge in nodes[key].along(Applies.HERE))
        if counts[key] > MAX_HERE:
            message = f"more than {MAX_HERE} schemas judge the same value; combine fewer of them"
            raise ContractError(message, path=nodes[key].pointer or "")
    return counts


def _places(graph: Graph) -> dict[int, Below]:
    """Give the places that judge a value of their own, the root first, with what each leads to."""
    pending = [graph.root] if graph.root else []
    places: dict[int, Below] = {}
    steps = 0
    for place in pending:  # grows while it is walked
        if id(place) in places:
            continue
        judges = list(_judges(place))
        steps += len(judges)
        if steps > MAX_EXPANSIONS:
            message = f"the schema is too complex: more than {MAX_EXPANSIONS} combinations; use fewer alternatives"
            raise ContractError(message)
        places[id(place)] = _below(judges)
        pending.extend(edge.target for node, _ in judges for edge in node.along(Applies.MEMBER, Applies.ITEM))
    return places


def _judges(place: Node) -> Iterator[tuple[Node, int]]:
    """Give each schema that judges the same value, once per way that leads to it, with how often it is tried."""
    pending = [(place, 1, False)]
    while pending:
        node, times, watched = pending.pop()
        yield node, times
        watched = watched or not UNEVALUATED.isdisjoint(node.schema)
        for edge in node.along(Applies.HERE):
            twice = watched and edge.keyword in TRIED_TWICE
            pending.append((edge.target, times * 2 if twice else times, watched))


def _below(judges: list[tuple[Node, int]]) -> Below:
    """Sum up what applies to each named member or item, and to all others."""
    others: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}  # by whether it is a member or an item
    named: dict[tuple[bool, str | int | None], Counter[int]] = {}
    for node, times in judges:
        rest = {edge.keyword == "additionalProperties": edge for edge in node.edges if edge.keyword in REST}
        for edge in node.along(Applies.MEMBER, Applies.ITEM):
            member = edge.applies is Applies.MEMBER
            if edge.keyword not in NAMED:
                others[member][id(edge.target)] += times
                continue
            counter = named.setdefault((member, edge.token), Counter())
            counter[id(edge.target)] += times
            if member in rest:  # what is named is not among the rest
                counter[id(rest[member].target)] -= times
    for (member, _), counter in named.items():
        for target, times in others[member].items():
            counter[target] += times
    return [counter for counter in (*others.values(), *named.values()) if counter]


def _max_load(here: dict[int, int], places: dict[int, Below]) -> int:
    """Give the most judgements that one place can cost; anything above the bound when that grows with depth."""
    loads = {key: here[key] for key in places}
    for _ in range(MAX_ROUNDS):
        changed = False
        for key in reversed(places):
            sums = (sum(loads[target] * times for target, times in below.items()) for below in places[key])
            load = max(here[key], *sums, 0)
            changed = changed or load > loads[key]
            loads[key] = load
            if load > MAX_LOAD:
                return load
        if not changed:
            return max(loads.values(), default=0)
    return MAX_LOAD + 1
