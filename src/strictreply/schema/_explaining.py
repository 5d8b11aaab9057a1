"""Faults as issues: which branch was meant, which words say it, what is near; no rule is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from strictreply.reading._decoding import masked_pointer
from strictreply.schema._engines import Parts
from strictreply.schema._examining import Examination
from strictreply.schema._faults import Engine, Fault
from strictreply.schema._graph import Graph, Node
from strictreply.schema._nearness import did_you_mean
from strictreply.schema._parts import MAX_HOMES, homes, missing_members
from strictreply.schema._rules import KEYWORDS, Rule
from strictreply.schema._vocabulary import Applies
from strictreply.schema._words import (
    BRIEF_LIST_CHARS,
    MAX_LIST_CHARS,
    either,
    expected_words,
    form_words,
    list_words,
    required_words,
    word,
)
from strictreply.values._issues import Category, Issue, came_words, pointer, quote, shown_place
from strictreply.values._json import JSON
from strictreply.values._limits import Spent, Work

MAX_ISSUES = 32
MAX_FAULTS = 256
MAX_FORMS = 8
KEY_RULES = ("additionalProperties", "unevaluatedProperties")


class Explainer:
    """Says in words what is wrong with values of one schema."""

    __slots__ = ("_graph", "_homes", "_names", "_parts")

    def __init__(self, graph: Graph, engine: Engine, names: frozenset[str]) -> None:
        """Explain by the document that ``engine`` compiled; only ``names`` may stand in a path as member names."""
        self._graph = graph
        self._parts = Parts(graph, engine)
        self._names = names
        self._homes: dict[str, list[str]] | None = None

    def issues(self, value: JSON, work: Work, *, at: str, place: str) -> tuple[Issue, ...]:
        """Report what is wrong with a value that does not fit: at most 32 issues, each once, and at least one.

        When the work is used up, the issues found so far stand, and one more says that there may be others.
        """
        examination = Examination(self._parts, work)
        found: dict[Issue, Fault] = {}
        whole = True
        try:
            examination.run(value)
        except (Spent, RecursionError):
            whole = False
        settled = islice(self._settled(examination.faults), MAX_FAULTS)
        for fault, issue in ((each, issue) for each in settled for issue in self._issues(each, work, at, place)):
            found.setdefault(issue, fault)
            if len(found) == MAX_ISSUES:
                break
        told = tuple(_with_what_came(found, place))
        if not whole:
            return (*told[: MAX_ISSUES - 1], *self.single(Rule.UNEXAMINED, at=at, place=place))
        return told or self.single(Rule.INVALID, at=at, place=place)

    def single(self, rule: Rule, *, at: str, place: str) -> tuple[Issue, ...]:
        """Report one fault of the whole value."""
        return (Issue(f"{place}.{rule}", Category.FORMAT_ERROR, at, rule.template),)

    def _settled(self, faults: Iterable[Fault]) -> Iterator[Fault]:
        """Replace the fault of a union by those of the branch that was plainly meant."""
        for fault in faults:
            meant = meant_branch(fault)
            if meant is None:
                yield fault
            else:
                yield from self._settled(meant)

    def _issues(self, fault: Fault, work: Work, at: str, place: str) -> Iterator[Issue]:
        """Report one fault; each key that is missing or too many is an issue of its own."""
        rule = KEYWORDS.get(fault.keyword, Rule.INVALID)
        path = masked_pointer(at, fault.path, self._names)
        wrong = fault.found

        def issue(rule: Rule, expected: str, found: str, hint: str = "", *, member: str | None = None) -> Issue:
            message = rule.template.format(expected=expected)
            where = path if member is None else pointer(path, member)
            return Issue(f"{place}.{rule}", Category.FORMAT_ERROR, where, message, hint, found)

        if rule in (Rule.REQUIRED, Rule.DEPENDENT_REQUIRED):
            for name in fault.names:
                members = missing_members(self._graph, fault.schema, fault.path, name)
                yield issue(rule, required_words(member.schema for member in members), "", member=name)
        elif fault.keyword in KEY_RULES:
            allowed = self.allowed_keys(fault.schema)
            broken = rule if allowed else Rule.NO_KEYS
            here = masked_pointer("", ("*" if isinstance(token, int) else token for token in fault.path), self._names)
            for name in fault.names:
                near = self.home_of(name, at, here) or did_you_mean(name, _unused(allowed, wrong), work)
                yield issue(broken, list_words(allowed, _room(near)), quote(name), near)
        elif rule is Rule.PROPERTY_NAMES:
            yield from (issue(rule, "", quote(name)) for name in fault.names)
        else:
            hint = _hint(fault, wrong, work)
            yield issue(rule, self._expected(fault, hint), quote(wrong), hint)

    def home_of(self, name: str, at: str, refused: str | None = None) -> str:
        """Return the words for where a refused key belongs, empty when the schema does not know its name elsewhere.

        ``refused`` is the place of the object that refused it, None for an object outside of the schema; a name that
        the schema knows is the schema's word.
        """
        if self._homes is None:
            self._homes = homes(self._graph)  # once: a reply may have many such keys, and most have none
        places = [place for place in self._homes.get(name, ()) if place != refused]
        if not 0 < len(places) <= MAX_HOMES:
            return ""
        top = refused is not None
        shown = ["at the top level" if top and not place else f"in {shown_place(at + place)}" for place in places]
        return f"{word(name)} belongs {either(shown)}"

    def allowed_keys(self, schema: Mapping[str, Any] | None) -> list[str]:
        """Name the members that a schema and all that judge the same value with it list."""
        node = self._graph.find(schema)
        keys: dict[str, None] = {}
        pending, seen = [node] if node else [], set[int]()
        while pending:
            node = pending.pop(0)
            if id(node) not in seen:
                seen.add(id(node))
                keys |= dict.fromkeys(node.schema.get("properties", ()))
                pending.extend(edge.target for edge in node.along(Applies.HERE) if edge.keyword not in ("not", "if"))
        return list(keys)

    def _expected(self, fault: Fault, hint: str) -> str:
        """Say what the keyword asks for."""
        if fault.schema is None:
            return "what the schema says"
        if fault.keyword not in ("anyOf", "oneOf"):
            return expected_words(fault.keyword, fault.schema, _room(hint))
        node = self._graph.find(fault.schema)
        edges = [edge for edge in node.edges if edge.keyword == fault.keyword][:MAX_FORMS] if node else []
        return either([form_words(_plain(edge.target)) for edge in edges]) or "what the schema says"


def _with_what_came(found: dict[Issue, Fault], place: str) -> Iterator[Issue]:
    """Add to the first fault of each empty object that it was empty: a model that is not told repeats ``{}``."""
    first = {fault.path: issue for issue, fault in reversed(found.items())}
    for issue, fault in found.items():
        wrong = fault.found if first[fault.path] is issue else None
        if wrong == {} and fault.path:
            yield replace(issue, message=f"{issue.message}; the object came without keys")
        elif wrong in ({}, []) and not fault.path:
            yield replace(issue, message=f"{issue.message}; {came_words(wrong, place)}")
        else:
            yield issue


def _room(hint: str) -> int:
    """Return how many characters of a list are shown: a hint that names the nearest takes its place."""
    return BRIEF_LIST_CHARS if hint else MAX_LIST_CHARS


def meant_branch(fault: Fault) -> tuple[Fault, ...] | None:
    """Choose the branch of a union that a value plainly meant; None when no branch is clearly nearest.

    Nearest is the branch whose type fits, then whose constants fit, then that misses and exceeds the fewest keys.
    """
    if len(fault.branches) == 1:
        return fault.branches[0]
    if not fault.branches:
        return None
    ranked = sorted((_distance(branch, fault.path), index) for index, branch in enumerate(fault.branches))
    (nearest, index), (second, _) = ranked[:2]
    return fault.branches[index] if nearest < second and not nearest[0] else None


def _distance(branch: tuple[Fault, ...], path: tuple[str | int, ...]) -> tuple[bool, bool, int]:
    """Measure how far a value is from a branch."""
    here = [fault for fault in branch if fault.path == path]
    wrong_type = any(fault.keyword in ("type", "const", "enum", "false") for fault in here)
    wrong_tag = any(len(fault.path) == len(path) + 1 and fault.keyword in ("const", "enum") for fault in branch)
    return wrong_type, wrong_tag, sum(max(1, len(fault.names)) for fault in here)


def _plain(node: Node) -> dict[str, Any]:
    """Follow a schema that only refers to another, so that it can be named."""
    for _ in range(8):
        targets = [edge.target for edge in node.edges if edge.keyword == "$ref"]
        if len(targets) != 1 or "type" in node.schema:
            break
        node = targets[0]
    return node.schema


def _unused(allowed: list[str], wrong: JSON) -> list[str]:
    """Give the allowed keys that an object does not have yet."""
    return [key for key in allowed if isinstance(wrong, dict) and key not in wrong]


def _hint(fault: Fault, wrong: object, work: Work) -> str:
    """Name the nearest remedy, in the schema's words."""
    schema = fault.schema or {}
    if not isinstance(wrong, str):
        return ""
    if fault.keyword == "enum":
        return did_you_mean(wrong, [text for text in schema.get("enum", ()) if isinstance(text, str)], work)
    if fault.keyword == "const" and isinstance(schema.get("const"), str):
        return did_you_mean(wrong, [schema["const"]], work)
    if fault.keyword == "type" and _is_quoted_scalar(wrong, schema.get("type")):
        return "write it without quotes"
    return ""


def _is_quoted_scalar(text: str, declared: object) -> bool:
    """Whether a text spells a number or a boolean that the schema wants bare."""
    types = declared if isinstance(declared, list) else [declared]
    if "boolean" in types and text.lower() in ("true", "false"):
        return True
    digits = text.removeprefix("-").replace(".", "", 1)
    return digits.isascii() and digits.isdigit() and ("number" in types or ("integer" in types and "." not in text))
