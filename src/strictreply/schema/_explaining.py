"""Describes faults as issues, in words of the schema only, and builds small example values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, TypeAlias

from strictreply.reading._decoding import masked_pointer
from strictreply.schema._documents import Node, described_names
from strictreply.schema._engines import (
    SchemaParts,
    engine_for,
    homes,
    knows_member,
    listed_values,
    missing_members,
)
from strictreply.schema._examining import Examination, SchemaFault, Steps
from strictreply.schema._vocabulary import (
    BRIEF_LIST_CHARS,
    FORMAT_SAMPLES,
    KEYWORDS,
    MAX_LIST_CHARS,
    OTHER_FORM,
    STATEMENTS,
    TYPES,
    Applies,
    SchemaRule,
    as_list,
    either,
    expected_words,
    form_words,
    json_type,
    list_words,
    required_words,
    word,
)
from strictreply.values._issues import Issue, came_words, pointer, quote, shown_place
from strictreply.values._limits import JSON, JSONObject, Spent, Work

MAX_ISSUES = 32
MAX_FAULTS = 256
MAX_FORMS = 8
MAX_TOLD = 3  # faults of each branch of a union that are reported together
MAX_CHARS = 64
MAX_WORDS = 256
CUTOFF = 0.7
# the places of one name that are shown; with more, it is unclear which one was meant
MAX_HOMES = 2
CELLS = 120  # pairs of characters that cost one step of work to compare


def rule_issue(
    place: str, rule: SchemaRule, path: str, expected: str = "", found: str = "", hint: str = ""
) -> Issue:
    """Return a broken rule as an issue.

    Only ``found`` quotes the model, so that its words cannot act as instructions.
    """
    message = rule.template.format(expected=expected)
    return Issue(f"{place}.{rule}", rule.category, path, message, hint, found)


class Explainer:
    """Explains what is wrong with values of one schema.

    Only ``names`` may occur in a path as member names.
    """

    def __init__(self, parts: SchemaParts, names: frozenset[str]) -> None:
        self._parts = parts
        self._names = names
        self._homes: dict[str, list[str]] | None = None

    def issues(self, value: JSON, work: Work, *, at: str, place: str) -> tuple[Issue, ...]:
        """Return at least one and at most 32 different issues.

        If the work is used up, the last issue says so.
        """
        examination = Examination(self._parts, work)
        last: tuple[Issue, ...] = ()
        try:
            examination.run(value)
        except (Spent, RecursionError):
            last = (rule_issue(place, SchemaRule.UNEXAMINED, at),)

        found = dict[Issue, SchemaFault]()
        settled = islice(_settled(examination.faults, {}), MAX_FAULTS)
        pairs = ((issue, each) for each in settled for issue in self._issues(each, work, at, place))
        for issue, fault in pairs:
            found.setdefault(issue, fault)
            if len(found) == MAX_ISSUES:
                break

        issues = tuple(_with_what_came(found, place))[: MAX_ISSUES - len(last)] + last
        return issues or (rule_issue(place, SchemaRule.INVALID, at),)

    def _issues(self, fault: SchemaFault, work: Work, at: str, place: str) -> Iterator[Issue]:
        """Yield the issues of a fault, with the member that causes it, if there is one."""
        for issue in self._issues_of(fault, work, at, place):
            if fault.because:
                words = f"{issue.message} because {word(fault.because)} is present"
                yield replace(issue, message=words)
            else:
                yield issue

    def _issues_of(self, fault: SchemaFault, work: Work, at: str, place: str) -> Iterator[Issue]:
        rule = KEYWORDS.get(fault.keyword, SchemaRule.INVALID)
        path = masked_pointer(at, fault.path, self._names)

        if rule in (SchemaRule.REQUIRED, SchemaRule.DEPENDENT_REQUIRED):
            for name in fault.names:
                members = missing_members(self._parts.graph, fault.schema, fault.path, name)
                words = required_words(member.schema for member in members)
                yield rule_issue(place, rule, pointer(path, name), words)
        elif rule is SchemaRule.PROPERTY_NAMES:
            words = _name_words(fault.schema)
            yield from (
                rule_issue(place, rule, path, words, found=quote(name)) for name in fault.names
            )
        elif fault.keyword in STATEMENTS:
            yield from self._refused_keys(fault, work, at, place)
        elif ways := self._ways(fault, work, at, place):
            yield from _either_way(ways, rule_issue(place, rule, path, found=quote(fault.found)))
        else:
            hint = _hint(fault, work)
            chars = BRIEF_LIST_CHARS if hint else MAX_LIST_CHARS
            expected = self._expected(fault, chars)
            yield rule_issue(place, rule, path, expected, quote(fault.found), hint)

    def _expected(self, fault: SchemaFault, chars: int) -> str:
        """Return what a keyword requires, for the template of its rule."""
        expected = ""
        match fault.keyword:
            case "oneOf":
                return self._several_words(fault)
            case "anyOf":
                node = self._parts.graph.find(fault.schema)
                forms = node.targets("anyOf") if node else []
                words = [form_words(form.resolved().schema) for form in forms[:MAX_FORMS]]
                expected = either(words, len(forms[MAX_FORMS:]))
            case "not" | "contains":
                expected = expected_words(fault.keyword, self._with_target(fault))
            case keyword if fault.schema is not None:
                expected = expected_words(keyword, fault.schema, chars)
            case _:
                pass

        return expected or "what the schema says"

    def _with_target(self, fault: SchemaFault) -> Mapping[str, object]:
        """Return the schema of a fault with the target of its keyword in its place."""
        schema = fault.schema or {}
        node = self._parts.graph.find(fault.schema)
        targets = node.targets(fault.keyword) if node else []
        return {**schema, fault.keyword: targets[0].resolved().schema} if targets else schema

    def _several_words(self, fault: SchemaFault) -> str:
        """Return which forms of a ``oneOf`` fit although only one may: by number, and by words."""
        node = self._parts.graph.find(fault.schema)
        forms = node.targets("oneOf") if node else []
        named: list[str] = []
        for index in fault.fitting[:MAX_FORMS]:
            schema = forms[index].resolved().schema if index < len(forms) else {}
            words = form_words(schema)
            named.append(f"form {index + 1} ({word(schema) if words == OTHER_FORM else words})")

        return f"; it fits {' and '.join(named)}" if len(named) > 1 else ""

    def _ways(self, fault: SchemaFault, work: Work, at: str, place: str) -> list[tuple[Issue, ...]]:
        """Return what would make a value fit each branch that accepts its type.

        Empty if the words for the branches say more than the type.
        """
        if fault.keyword == "anyOf":
            node = self._parts.graph.find(fault.schema)
            forms = node.targets("anyOf")[:MAX_FORMS] if node else []
            words = {form_words(form.resolved().schema) for form in forms}
            if TYPES[json_type(fault.found)] not in words:
                return []

        ways: dict[tuple[Issue, ...], None] = {}
        for branch in _taking(fault)[:MAX_FORMS]:
            leaves = [_leaf_of(each) for each in branch[:MAX_TOLD]]
            issues = [next(self._issues(leaf, work, at, place), None) for leaf in leaves]
            ways[tuple(dict.fromkeys(issue for issue in issues if issue is not None))] = None

        return list(ways)

    def _refused_keys(self, fault: SchemaFault, work: Work, at: str, place: str) -> Iterator[Issue]:
        node = self._parts.graph.find(fault.schema)
        allowed = list(dict.fromkeys(described_names(node.judges()))) if node else []
        unused = [
            key for key in allowed if isinstance(fault.found, dict) and key not in fault.found
        ]
        patterns = list(dict.fromkeys(_patterns_of(node))) if node else []
        matching = [f"keys that match {list_words(patterns)}"] if patterns else []
        rule = SchemaRule.EXTRA_KEY if allowed or patterns else SchemaRule.NO_KEYS

        path = masked_pointer(at, fault.path, self._names)
        tokens = ("*" if isinstance(token, int) else token for token in fault.path)
        here = masked_pointer("", tokens, self._names)

        for name in fault.names:
            near = self.home_of(name, at, here) or did_you_mean(name, unused, work)
            chars = BRIEF_LIST_CHARS if near else MAX_LIST_CHARS
            listed = [list_words(allowed, chars)] if allowed else []
            words = " and ".join([*listed, *matching])
            yield rule_issue(place, rule, path, words, quote(name), near)

    def home_of(self, name: str, at: str, refused: str | None = None) -> str:
        """Return words for the place where a key belongs, empty if unknown.

        ``refused`` is the place in the value where the key was rejected, None if it is outside of
        it.
        """
        # cached: a reply may have many such keys, and most replies have none
        if self._homes is None:
            self._homes = homes(self._parts.graph)

        places = [place for place in self._homes.get(name, ()) if place != refused]
        if not 0 < len(places) <= MAX_HOMES:
            return ""

        top = refused is not None
        words = [
            "at the top level" if top and not place else f"in {shown_place(at + place)}"
            for place in places
        ]
        return f"{word(name)} belongs {either(words)}"


def _name_words(schema: Mapping[str, object] | None) -> str:
    """Return words for the names of members, as far as a few words can describe them."""
    named = schema.get("propertyNames") if schema is not None else None
    if not isinstance(named, dict):
        return "what the schema says"
    if isinstance(named.get("pattern"), str):
        return f"text that matches {word(named['pattern'])}"

    rules = [key for key in ("minLength", "maxLength") if key in named]
    lengths = [
        f"{'at least' if key == 'minLength' else 'at most'} {expected_words(key, named)}"
        for key in rules
    ]
    known = form_words(named)
    if known not in (OTHER_FORM, TYPES["string"]):
        return known

    return f"text of {' and '.join(lengths)}" if lengths else "what the schema says"


def _patterns_of(node: Node) -> Iterator[str]:
    """Yield the patterns for names of members that an object does not list."""
    for judge in node.judges():
        patterns = judge.schema.get("patternProperties")
        if isinstance(patterns, dict):
            yield from (pattern for pattern, below in patterns.items() if below is not False)


def _with_what_came(found: dict[Issue, SchemaFault], place: str) -> Iterator[Issue]:
    """Add to the first fault of each empty object that it was empty.

    A model that is not told so repeats ``{}``.
    """
    first = {fault.path: issue for issue, fault in reversed(found.items())}
    for issue, fault in found.items():
        wrong = fault.found if first[fault.path] is issue else None
        if wrong == {} and fault.path:
            yield replace(issue, message=f"{issue.message}; the object came without keys")
        elif wrong in ({}, []) and not fault.path:
            yield replace(issue, message=f"{issue.message}; {came_words(wrong, place)}")
        else:
            yield issue


def _settled(
    faults: Iterable[SchemaFault], known: dict[int, list[SchemaFault]]
) -> Iterator[SchemaFault]:
    """Replace the fault of a union by those of the nearest branch, or by those of all branches.

    The nearest branch has the same type; then the same constants; then the fewest wrong keys.
    ``known`` records the replacement of each fault.
    """
    for fault in faults:
        if id(fault) not in known:
            known[id(fault)] = list(islice(_told_for(fault, known), MAX_FAULTS))

        yield from known[id(fault)]


def _told_for(fault: SchemaFault, known: dict[int, list[SchemaFault]]) -> Iterable[SchemaFault]:
    branches = enumerate(fault.branches)
    ranked = sorted((_distance(branch, fault.path), index) for index, branch in branches)
    nearest = ranked[0][0] if ranked else (True,)
    # Never choose a branch of another type, or one of two equally near branches: a wrong guess
    # misleads the model.
    if len(ranked) == 1 or (ranked and not nearest[0] and nearest < ranked[1][0]):
        return _settled(fault.branches[ranked[0][1]], known)

    first, *others = [list(_settled(branch, known)) for branch in _taking(fault)] or [[]]
    return first if others and all(each == first for each in others) else [fault]


def _taking(fault: SchemaFault) -> list[tuple[SchemaFault, ...]]:
    """Return the faults of each branch of a union that accepts the type of the value."""
    return [each for each in fault.branches if each and not _distance(each, fault.path)[0]]


def _leaf_of(fault: SchemaFault) -> SchemaFault:
    """Return the first fault that does not belong to a union, along the first possible branches."""
    while near := _taking(fault):
        fault = near[0][0]

    return fault


def _either_way(ways: list[tuple[Issue, ...]], union: Issue) -> Iterator[Issue]:
    """Yield the issue of a union in which any of ``ways`` is enough."""
    if len(ways) == 1:
        yield from ways[0]
        return

    sentences = [" and ".join(_told_in(issue, union.path) for issue in way) for way in ways]
    yield replace(union, message="; or ".join(sentences))


def _told_in(issue: Issue, path: str) -> str:
    below = issue.path.removeprefix(path)
    return f"its {shown_place(below)} {issue.message}" if below else issue.message


def _distance(branch: tuple[SchemaFault, ...], path: Steps) -> tuple[bool, bool, int]:
    here = [fault for fault in branch if fault.path == path]
    wrong_type = any(fault.keyword in ("type", "const", "enum", "false") for fault in here)
    # A constant one level below is usually a tag ({"kind": "circle"}). It decides the branch before
    # the keys do.
    below = [fault for fault in branch if len(fault.path) == len(path) + 1]
    wrong_tag = any(fault.keyword in ("const", "enum") for fault in below)
    return wrong_type, wrong_tag, sum(max(1, len(fault.names)) for fault in here)


def _hint(fault: SchemaFault, work: Work) -> str:
    schema = fault.schema or {}
    wrong = fault.found
    if not isinstance(wrong, str):
        return ""

    if fault.keyword in ("enum", "const"):
        listed = schema.get("enum", ()) if fault.keyword == "enum" else [schema.get("const")]
        return did_you_mean(wrong, [text for text in listed if isinstance(text, str)], work)

    types = as_list(schema.get("type")) if fault.keyword == "type" else []
    digits = wrong.removeprefix("-").replace(".", "", 1)
    is_number = digits.isascii() and digits.isdigit()
    takes_number = "number" in types or ("integer" in types and "." not in wrong)
    is_boolean = "boolean" in types and wrong.lower() in ("true", "false")
    return "write it without quotes" if (is_number and takes_number) or is_boolean else ""


def nearest(text: str, known: Iterable[str], work: Work, *, cutoff: float = CUTOFF) -> str | None:
    """Return the most similar of the first 256 words, ignoring letter case.

    None if no word is similar, or if the work is used up.
    """
    if len(text) > MAX_CHARS:
        return None

    matcher = SequenceMatcher(b=text.lower())
    best = cutoff
    found = None

    for number, each in enumerate(known):
        if number == MAX_WORDS:
            break
        if len(each) > MAX_CHARS or 2 * min(len(each), len(text)) < best * (len(each) + len(text)):
            continue  # their lengths alone differ too much
        if not work.afford(1 + len(each) * len(text) // CELLS):
            return None

        matcher.set_seq1(each.lower())
        if matcher.quick_ratio() < best:
            continue

        ratio = matcher.ratio()
        if ratio > best or (ratio == best and found is None):
            best = ratio
            found = each

    return found


def did_you_mean(text: str, known: Iterable[str], work: Work) -> str:
    """Return ``did you mean …?`` with the known word nearest to a text; empty if there is none."""
    near = nearest(text, known, work)
    return "" if near is None else f"did you mean {word(near)}?"


MAX_DEPTH = 12
# the depth limit of an instance with values at optional places
MAX_FULL_DEPTH = 48
MAX_BRANCHES = 4
MAX_ITEMS = 64
MAX_TEXT = 4_000
ANY_MEMBER = "*"
# items that keep their index if they are wanted; those with a higher index are shown as the first
MAX_KEPT_ITEMS = 8
# Places of an instance, each as the tokens of its JSON Pointer; ``*`` is a member whose name the
# schema does not specify.
Places: TypeAlias = tuple[tuple[str, ...], ...]
# by index, or by the keyword that applies to all items
ItemNodes: TypeAlias = dict[str | int | None, Node]
# Texts that are tried for a pattern, the likeliest first; no text is made from the pattern itself.
PATTERN_SAMPLES = (  # noqa: SIM905 - as a list these would take 38 lines
    "text a A 0 1 12 123 1234 12345 123456 abc ABC AB AAA a1 A1 AB12 "
    "name_1 a-1 A-1 ABC-123 AB-1234 1.0 1.0.0 v1.0.0 12:00 2025-01-31 #000000 "
    "+12025550100 202-555-0100 name@example.com https://example.com/ /a a.b en-US USD"
).split()
# The literal beginning of a pattern, without a last character that has a quantifier.
PREFIX = re.compile(r"\^?((?:(?:\\[^\w\s]|[^\\.\[\](){}*+?|^$])(?![*+?{|]))*)")
TEXT_RULES = frozenset({"type", "minLength", "maxLength", "pattern", "format"})
OBJECT_RULES = frozenset(
    {"properties", "required", "minProperties", "patternProperties", "additionalProperties"}
)
NUMBER_RULES = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
# The type of a schema that does not state it, by the keywords that it has.
TELLING = (
    ("object", OBJECT_RULES),
    ("array", frozenset({"items", "prefixItems", "minItems", "contains"})),
    ("number", NUMBER_RULES),
)
# The types of schemas without a type, by branch, if no keyword implies one, or if that was tried.
UNTOLD = ("string", "integer", "object", "null")
# The part of a condition that an instance is made for, by branch.
CONDITIONS = ("", "then", "else", "")


def proposals(
    node: Node | None,
    wanted: Places = (),
    *,
    full: bool = False,
    kind: str = "",
    work: Work | None = None,
) -> Iterator[JSON]:
    """Yield small instances of a schema, one for each branch of its unions.

    An instance has values at those of the ``wanted`` places that exist; with ``full`` at every
    described place, once each. ``kind`` is the type for schemas that do not state one. The
    iteration ends when ``work`` is used up; each value takes one step.
    """
    work = Work() if work is None else work
    depth = max(map(len, wanted), default=0)
    for branch in range(MAX_BRANCHES if node else 0):
        for defaults in (False,) if full else (True, False):
            maker = _Maker(branch, work, depth, defaults=defaults, full=full)
            try:
                yield maker.made(node, 0, wanted=wanted, kind=kind)
            except (ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
                # the schema contradicts itself: the metaschema does not check unknown keywords
                continue
            except Spent:
                return


def contains(value: JSON, place: tuple[str, ...]) -> bool:
    """Return whether an instance of :func:`proposals` has a value at a wanted place."""
    if not place:
        return True

    token = place[0]
    inner = list[JSON]()

    if isinstance(value, dict):
        if token in value:
            inner = [value[token]]
        elif token == ANY_MEMBER:
            inner = list(value.values())
    elif isinstance(value, list) and token.isdecimal():
        inner = value[_kept(token) :][:1]

    return any(contains(part, place[1:]) for part in inner)


def _kept(token: str) -> int:
    return int(token) if len(token) < MAX_KEPT_ITEMS and int(token) < MAX_KEPT_ITEMS else 0


def _below(wanted: Places, token: str | int) -> Places:
    if isinstance(token, str):
        return tuple(place[1:] for place in wanted if place[:1] == (token,))

    items = [place for place in wanted if place and place[0].isdecimal()]
    return tuple(place[1:] for place in items if _kept(place[0]) == token)


def excludes_all(schema: Mapping[str, object]) -> bool:
    """Return whether a schema allows no value."""
    excluded = schema.get("not")
    return excluded is True or excluded == {}


class _Maker:
    """One way to make an instance.

    It decides which branch of each union is used, whether defaults are, and whether optional places
    get values. Each described place gets one at most once, which ends recursion.
    """

    def __init__(self, branch: int, work: Work, depth: int, *, defaults: bool, full: bool) -> None:
        self._branch = branch
        self._work = work
        self._defaults = defaults
        self._full = full
        self._max_depth = MAX_FULL_DEPTH if full else MAX_DEPTH + depth
        self._filled: set[int] = set()

    def made(
        self, node: Node | None, depth: int, nth: int = 0, wanted: Places = (), kind: str = ""
    ) -> Any:
        """Make the ``nth`` value for a schema with the ``wanted`` places.

        If ``node`` is None, any value will do. ``kind`` is the type if the schema states none.
        """
        self._work.take()
        if depth > self._max_depth:
            raise LookupError

        wanted = tuple(place for place in wanted if place)
        schema, members, items = self._merged(node, wanted)
        # A default is not used if it must contain a wanted place, because it may be empty.
        if given := _listed(schema, default=self._defaults and nth == 0 and not wanted):
            return given[(nth + self._branch) % len(given)]

        declared = schema.get("type", kind)
        if isinstance(declared, list):
            declared = kind if kind in declared else str(declared[self._branch % len(declared)])

        if not declared:
            kinds = (kind for kind, rules in TELLING if not rules.isdisjoint(schema))
            other = UNTOLD[self._branch]
            is_first = self._branch == 0 or self._defaults or self._full
            declared = next(kinds, other) if is_first else other

        match declared:
            case "object":
                return self._object(schema, members, depth, nth, wanted)
            case "array":
                return self._array(schema, items, depth, wanted)
            case "string":
                return _text(schema, nth)
            case "boolean":
                return nth % 2 == 0
            case "null":
                return None
            case kind:
                return _number(schema, nth, whole=kind == "integer")

    def _merged(
        self, node: Node | None, wanted: Places
    ) -> tuple[JSONObject, dict[str, Node], ItemNodes]:
        schema: dict[str, Any] = {}
        members: dict[str, Node] = {}
        items: ItemNodes = {}

        for judge in self._chosen(node, wanted) if node else ():
            names = [*schema.get("required", ()), *judge.schema.get("required", ())]
            required = list(dict.fromkeys(names))
            listed = schema.get("properties", {}) | judge.schema.get("properties", {})
            schema = {**judge.schema, **schema, "required": required, "properties": listed}

            for edge in judge.along(Applies.MEMBER, Applies.ITEM):
                if edge.keyword == "properties":
                    name = str(edge.token)
                    known = edge.target if self._branch % 2 else members.get(name, edge.target)
                    members[name] = known
                elif edge.keyword in ("additionalProperties", "patternProperties"):
                    members.setdefault(ANY_MEMBER, edge.target)
                elif edge.keyword in ("prefixItems", "items", "contains"):
                    key = edge.keyword if edge.token is None else edge.token
                    items.setdefault(key, edge.target)

        for name in ("required", "properties"):
            if name in schema and not schema[name]:
                del schema[name]

        return schema, members, items

    def _chosen(self, node: Node, wanted: Places) -> list[Node]:
        chosen = [node]
        for judge in chosen:  # grows while it is walked
            for keyword in ("$ref", "allOf", "anyOf", "oneOf", CONDITIONS[self._branch]):
                targets = judge.targets(keyword)
                if keyword in ("anyOf", "oneOf") and targets:
                    tokens = [place[0] for place in wanted]
                    knowing = [
                        each for each in targets if all(knows_member(each, one) for one in tokens)
                    ]
                    forms = knowing or targets
                    targets = [forms[self._branch % len(forms)]]

                chosen += [target for target in targets if target not in chosen]

        return chosen

    def _fills(self, node: Node, depth: int) -> bool:
        """Return whether an optional place gets a value; one that must stay empty gets none."""
        if not self._full or depth > self._max_depth - MAX_DEPTH:
            return False
        if id(node) in self._filled or excludes_all(node.schema):
            return False

        self._filled.add(id(node))
        return True

    def _object(
        self, schema: JSONObject, members: dict[str, Node], depth: int, nth: int, wanted: Places
    ) -> JSONObject:
        listed = schema.get("properties", {})
        heads = [place[0] for place in wanted]
        heads += [name for name, node in members.items() if self._fills(node, depth)]
        if ANY_MEMBER in heads and ANY_MEMBER not in members and members:
            heads = [*heads, next(iter(members))]
        extra = [head for head in heads if head in members or listed.get(head) is True]
        names = list(dict.fromkeys([*schema.get("required", ()), *extra]))

        for name in names:  # grows while it is walked
            for keyword in ("dependentRequired", "dependencies"):
                beside = schema.get(keyword, {}).get(name)
                if isinstance(beside, list):
                    names += [other for other in beside if other not in names]

        missing = int(schema.get("minProperties", 0)) - len(names)
        if missing > 0:
            free = [name for name in members if name not in (*names, ANY_MEMBER)]
            free += [f"name{index}" for index in range(min(missing, MAX_ITEMS))]
            names += free[:missing]

        most = max(len(schema.get("required", ())), schema.get("maxProperties", len(names)))
        made = {
            name: self.made(
                members.get(name, members.get(ANY_MEMBER)), depth + 1, nth, _below(wanted, name)
            )
            for name in names[: int(most)]
        }
        if ANY_MEMBER not in heads or ANY_MEMBER not in made:
            return made

        own = _open_name(schema)
        return {own if name == ANY_MEMBER else name: value for name, value in made.items()}

    def _array(
        self, schema: JSONObject, items: ItemNodes, depth: int, wanted: Places
    ) -> list[object]:
        contained = "contains" in items and schema.get("minContains", 1)
        lengths = [1 + _kept(place[0]) for place in wanted if place[0].isdecimal()]
        if self._full:
            listed = sum(isinstance(key, int) for key in items)
            filled = [key for key, node in items.items() if self._fills(node, depth)]
            ends = [1 + (key if isinstance(key, int) else listed) for key in filled]
            lengths += [end for end in ends if end <= schema.get("maxItems", end)]

        least = max(int(schema.get("minItems", 0)), int(contained), *lengths, 0)
        if least > MAX_ITEMS:
            raise LookupError

        rest = items.get("contains" if contained else "items")
        varied = bool(schema.get("uniqueItems"))
        made: list[Any] = []

        for index in range(least):
            node = items.get(index, rest)
            made.append(self.made(node, depth + 1, index * varied, _below(wanted, index)))

        return made


def _listed(schema: JSONObject, *, default: bool) -> list[object]:
    listed = listed_values(schema)
    if not listed and default and "default" in schema:
        return [schema["default"]]

    return listed


def _open_name(schema: JSONObject) -> str:
    """Return a name that a schema allows for a member whose name it does not specify."""
    named = schema.get("propertyNames")
    patterns = schema.get("patternProperties")
    rules: dict[str, Any] = {}
    if isinstance(named, dict):
        rules = named
    elif patterns:
        rules = {"pattern": next(iter(patterns))}

    listed = rules.get("enum")
    return str(listed[0]) if listed else _text({"type": "string", **rules}, 0)


def _text(schema: JSONObject, nth: int) -> str:
    least = int(schema.get("minLength", 0))
    most = int(schema.get("maxLength", MAX_TEXT))
    if least > MAX_TEXT:
        raise LookupError

    sample = FORMAT_SAMPLES.get(str(schema.get("format")), "text" if nth == 0 else f"text{nth}")
    fitted = sample[:most].ljust(least, "x")
    if "pattern" not in schema:
        return fitted

    rules = {keyword: schema[keyword] for keyword in TEXT_RULES & schema.keys()}
    engine = engine_for(rules, formats=True)
    begins = PREFIX.match(str(schema["pattern"]))
    prefix = begins[1].replace("\\", "") if begins else ""
    prefixed = [prefix + text for text in ("", *PATTERN_SAMPLES)] if prefix else []
    given = [schema.get("default"), *as_list(schema.get("examples"))]
    texts = (fitted, *PATTERN_SAMPLES, *prefixed, *given)
    known = (text for text in texts if isinstance(text, str) and engine.is_valid(text))
    fitting = list(islice(known, nth + 1)) or [fitted]
    return fitting[nth % len(fitting)]


def _number(schema: JSONObject, nth: int, *, whole: bool) -> int | float:
    low: float = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high: float = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    step: float = schema.get("multipleOf", 1)
    start = math.floor(min(max(1 + nth, low), high) / step)

    excluded = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    for number in (index * step for index in (start, start + 1, start - 1, 0)):
        if low <= number <= high and number not in excluded:
            return number

    return start * step if whole else (low + high) / 2
