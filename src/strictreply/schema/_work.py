"""Estimates how much work a schema can cause.

It is limited when the schema is declared, and counted for each value if unions recur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from strictreply.schema._documents import Graph, Node, SchemaEdge
from strictreply.schema._vocabulary import Applies
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject, Spent

MAX_HERE = 500  # schemas that may judge the same value
# judgements that one place of a value may cost, multiplied by the alternatives above it
MAX_LOAD = 4_000
MAX_EXPANSIONS = 30_000  # steps of the analysis itself; about 100 ms
MAX_PATTERNS = 128  # different patterns in one schema: a compiled one may take a megabyte
MAX_STEPS = 300_000  # judgements of one value by one schema that one check may make
MAX_COUNTED = 50_000  # pairs of a schema and a value that are counted before giving up
# isinstance is faster with a tuple than with a union, and is called for every value
_TREE = (dict, list)
MAX_ROUNDS = 100
TRIED_TWICE = frozenset({"anyOf", "oneOf", "if"})  # by the engines, to learn what these evaluated
# how often an item is tried by ``contains`` where the engines learn from it what it evaluated
TRIED_CONTAINED = 4
UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
# For each member or item that a place can have: the places' ids below it, with how often each is
# judged.
Below: TypeAlias = list[Counter[int]]


def load_of(graph: Graph) -> int | None:
    """Return how many judgements one place of a value may cost, None if that grows with depth.

    Raises ContractError if there may be more than the limits above allow.
    """
    patterns: set[str] = set()
    for node in graph.nodes:
        own = node.schema.get("pattern")
        if isinstance(own, str):
            patterns.add(own)

        members = node.schema.get("patternProperties")
        if isinstance(members, dict):
            patterns.update(members)

    if len(patterns) > MAX_PATTERNS:
        raise ContractError(
            f"the schema is too complex: more than {MAX_PATTERNS} patterns; leave some out"
        )

    load = _max_load(_judges_here(graph), _places(graph))
    if load <= MAX_LOAD:
        return load

    edges = {id(node): {id(edge.target) for edge in node.edges} for node in graph.nodes}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return None

    raise ContractError(
        f"the alternatives of the schema multiply to over {MAX_LOAD} checks of a value; use fewer"
    )


def _judges_here(graph: Graph) -> dict[int, int]:
    """Count the schemas that judge the same value as each node.

    Raises ContractError if a schema refers to itself endlessly, or if more than 500 judge one
    value.
    """
    nodes = {id(node): node for node in graph.nodes}
    beside = {
        id(node): [id(edge.target) for edge in node.along(Applies.HERE)] for node in graph.nodes
    }
    try:
        order = tuple(TopologicalSorter(beside).static_order())
    except CycleError as error:
        place = nodes[error.args[1][0]].pointer or ""
        words = "refer to it only inside properties or items"
        raise ContractError(f"the schema refers to itself endlessly; {words}", path=place) from None

    counts: dict[int, int] = {}
    for key in order:
        counts[key] = 1 + sum(counts[target] for target in beside[key])
        if counts[key] > MAX_HERE:
            words = f"more than {MAX_HERE} schemas apply to one value; combine fewer"
            raise ContractError(words, path=nodes[key].pointer or "")

    return counts


def _places(graph: Graph) -> dict[int, Below]:
    places: dict[int, Below] = {}
    steps = 0
    pending = [graph.root] if graph.root else []

    for place in pending:  # grows during the iteration
        if id(place) in places:
            continue

        judges = list(_judges(place))
        steps += len(judges)
        if steps > MAX_EXPANSIONS:
            raise ContractError(
                f"the schema has more than {MAX_EXPANSIONS} combinations; use fewer alternatives"
            )

        places[id(place)] = _below(judges)
        for node, _ in judges:
            pending += [edge.target for edge in node.along(Applies.MEMBER, Applies.ITEM)]

    return places


def _judges(place: Node) -> Iterator[tuple[Node, int]]:
    """Yield each schema that judges the same value, with how often it is tried.

    It is yielded once for each path that leads to it.
    """
    pending = [(place, 1, False)]
    while pending:
        node, times, watched = pending.pop()
        yield node, times
        watched = watched or not UNEVALUATED.isdisjoint(node.schema)
        for edge in node.along(Applies.HERE):
            twice = watched and edge.keyword in TRIED_TWICE
            pending.append((edge.target, times * 2 if twice else times, watched))


def _below(judges: list[tuple[Node, int]]) -> Below:
    # by whether it is a member or an item
    others: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    named: dict[tuple[bool, str | int | None], Counter[int]] = {}
    is_watched = any(not UNEVALUATED.isdisjoint(node.schema) for node, _ in judges)

    for node, times in judges:
        edges = [edge for edge in node.edges if edge.keyword in ("additionalProperties", "items")]
        rest = {edge.keyword == "additionalProperties": edge for edge in edges}

        for edge in node.along(Applies.MEMBER, Applies.ITEM):
            member = edge.applies is Applies.MEMBER

            if edge.keyword not in ("properties", "prefixItems"):
                contained = TRIED_CONTAINED if is_watched and edge.keyword == "contains" else 1
                others[member][id(edge.target)] += times * contained
                continue

            counter = named.setdefault((member, edge.token), Counter())
            counter[id(edge.target)] += times

            if member in rest:  # named members are not among the others
                counter[id(rest[member].target)] -= times

    for (member, _), counter in named.items():
        for target, times in others[member].items():
            counter[target] += times

    return [counter for counter in (*others.values(), *named.values()) if counter]


def _max_load(here: dict[int, int], places: dict[int, Below]) -> int:
    """Return the most judgements that one place can cost.

    If that grows with depth, it is a number above the limit.
    """
    loads = {key: here[key] for key in places}

    for _ in range(MAX_ROUNDS):
        before = dict(loads)

        for key in reversed(places):
            load = here[key]
            for below in places[key]:
                load = max(load, sum(loads[target] * times for target, times in below.items()))

            loads[key] = load
            if load > MAX_LOAD:
                return load

        if loads == before:
            return max(loads.values(), default=0)

    return MAX_LOAD + 1


def size_of(value: object, most: int, *, scalars: bool = True) -> int:
    """Count the values in a value, up to ``most``.

    Without ``scalars`` only objects and arrays are counted.
    """
    pending = [value]
    size = 0

    while pending and size < most:
        part = pending.pop()
        size += scalars or isinstance(part, _TREE)

        if isinstance(part, _TREE):
            if scalars and len(part) >= most:
                return most

            below = part.values() if isinstance(part, dict) else part
            if scalars:
                pending.extend(below)
            else:
                pending.extend([each for each in below if each.__class__ in _TREE])

    return min(size, most)


def judgements_of(graph: Graph, value: object, *, built: bool = False) -> int:
    """Count the judgements that checking ``value`` may take, without checking it.

    The count exceeds 300 000 if there are too many. With ``built`` it counts pydantic's work
    instead: objects and arrays, and one branch of a tagged union.
    """
    known: dict[tuple[int, int, bool], int] = {}

    def count(node: Node, value: object, *, watched: bool) -> int:
        if built and value.__class__ not in _TREE:
            return 0

        watched = watched or not UNEVALUATED.isdisjoint(node.schema)
        key = (id(node), id(value), watched)
        if key in known:
            return known[key]
        if len(known) > MAX_COUNTED:
            raise Spent

        total = 1
        for edge in entered(node, value, built=built):
            steps = count(edge.target, value, watched=watched)
            total += steps * 2 if watched and edge.keyword in TRIED_TWICE else steps

        below = parts_of(node, value)
        total += sum(count(target, part, watched=False) for target, part, _ in below)
        if total > MAX_STEPS:
            raise Spent

        known[key] = total
        return total

    try:
        return 0 if graph.root is None else count(graph.root, value, watched=False)
    except (Spent, RecursionError):
        return MAX_STEPS + 1


def entered(node: Node, value: object, *, built: bool) -> Iterator[SchemaEdge]:
    """Yield the edges to schemas that judge the same value, except branches that clearly fail."""
    tested = node.schema.get("if")
    named = None

    if built and isinstance(value, dict):
        match node.schema.get("discriminator"):  # the form of OpenAPI and pydantic
            case {"propertyName": str(tag), "mapping": dict(mapping)}:
                named = mapping.get(value[tag]) if isinstance(value.get(tag), str) else None
            case _:
                pass

    for edge in node.along(Applies.HERE):
        if edge.keyword == "then" and isinstance(tested, dict) and _plainly_fails(tested, value):
            continue

        if named is None or edge.keyword != "oneOf" or edge.target.schema.get("$ref") == named:
            yield edge


def parts_of(node: Node, value: object) -> Iterator[tuple[Node, object, str | int]]:
    """Yield the schemas of members or items, each with its value and its place."""
    if isinstance(value, dict):
        for edge in node.along(Applies.MEMBER):
            if edge.keyword == "properties":
                if edge.token in value:
                    yield edge.target, value[edge.token], str(edge.token)

                continue

            named: Container[str] = ()
            if edge.keyword == "additionalProperties":
                named = node.schema.get("properties", {})

            for name, part in value.items():
                if name not in named:
                    yield edge.target, part, name
    elif isinstance(value, list):
        for edge in node.along(Applies.ITEM):
            index = edge.token if edge.keyword == "prefixItems" else None
            if isinstance(index, int):
                yield from ((edge.target, part, index) for part in value[index : index + 1])
            else:
                yield from ((edge.target, part, number) for number, part in enumerate(value))


def _plainly_fails(test: JSONObject, value: object) -> bool:
    """Return whether a condition on a type or a tag fails.

    False if only a full check can decide.
    """
    match test:
        case {"type": "object"} if not isinstance(value, dict):
            return True
        case {"type": "object", "required": [tag], "properties": dict(members)}:
            allowed = members[tag].get("enum") if isinstance(members.get(tag), dict) else None
            if not isinstance(allowed, list) or not isinstance(value, dict):
                return False

            return value.get(tag) not in allowed
        case _:
            return False
