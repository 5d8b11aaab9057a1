"""Faults as issues: which branch was meant, which words say it, which known word is near.

An issue is the schema's word only: paths hold the names that the schema knows, hints and lists are its own. What the
model wrote stands in ``found`` alone, so that a correction never repeats it as if it were an instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import islice

from strictreply.reading._decoding import masked_pointer
from strictreply.schema._engines import SchemaParts
from strictreply.schema._examining import Examination, SchemaFault
from strictreply.schema._places import MAX_HOMES, homes, missing_members
from strictreply.schema._vocabulary import (
    BRIEF_LIST_CHARS,
    KEYWORDS,
    MAX_LIST_CHARS,
    STATEMENTS,
    SchemaRule,
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

MAX_CHARS = 64
MAX_WORDS = 256
CUTOFF = 0.7
CELLS = 120  # pairs of characters that cost one step of work to compare


def single_issue(rule: SchemaRule, *, at: str, place: str) -> tuple[Issue, ...]:
    """Return the one fault of a whole value as an issue."""
    return (_issue(place, rule, at),)


def _issue(place: str, rule: SchemaRule, path: str, expected: str = "", found: str = "", hint: str = "") -> Issue:
    message = rule.template.format(expected=expected)
    return Issue(f"{place}.{rule}", Category.FORMAT_ERROR, path, message, hint, found)


class Explainer:
    """Explains what is wrong with values of one schema; only ``names`` may stand in a path as member names."""

    __slots__ = ("_homes", "_names", "_parts")

    def __init__(self, parts: SchemaParts, names: frozenset[str]) -> None:
        self._parts = parts
        self._names = names
        self._homes: dict[str, list[str]] | None = None

    def issues(self, value: JSON, work: Work, *, at: str, place: str) -> tuple[Issue, ...]:
        """Report what is wrong with a value that does not fit: at most 32 issues, each once, and at least one.

        When the work is used up, the issues found so far stand, and one more says that there may be others.
        """
        examination = Examination(self._parts, work)
        found: dict[Issue, SchemaFault] = {}
        whole = True
        try:
            examination.run(value)
        except (Spent, RecursionError):
            whole = False
        settled = islice(_settled(examination.faults), MAX_FAULTS)
        for fault, issue in ((each, issue) for each in settled for issue in self._issues(each, work, at, place)):
            found.setdefault(issue, fault)
            if len(found) == MAX_ISSUES:
                break
        told = tuple(_with_what_came(found, place))
        if not whole:
            return (*told[: MAX_ISSUES - 1], *single_issue(SchemaRule.UNEXAMINED, at=at, place=place))
        return told or single_issue(SchemaRule.INVALID, at=at, place=place)

    def _issues(self, fault: SchemaFault, work: Work, at: str, place: str) -> Iterator[Issue]:
        rule = KEYWORDS.get(fault.keyword, SchemaRule.INVALID)
        path = masked_pointer(at, fault.path, self._names)
        if rule in (SchemaRule.REQUIRED, SchemaRule.DEPENDENT_REQUIRED):
            for name in fault.names:
                members = missing_members(self._parts.graph, fault.schema, fault.path, name)
                yield _issue(place, rule, pointer(path, name), required_words(member.schema for member in members))
        elif rule is SchemaRule.PROPERTY_NAMES:
            yield from (_issue(place, rule, path, found=quote(name)) for name in fault.names)
        elif fault.keyword in STATEMENTS:
            yield from self._refused_keys(fault, work, at, place)
        else:
            hint, expected = _hint(fault, work), ""
            if fault.keyword in ("anyOf", "oneOf"):
                node = self._parts.graph.find(fault.schema)
                forms = node.targets(fault.keyword)[:MAX_FORMS] if node else []
                expected = either([form_words(form.resolved().schema) for form in forms])
            elif fault.schema is not None:
                expected = expected_words(fault.keyword, fault.schema, BRIEF_LIST_CHARS if hint else MAX_LIST_CHARS)
            yield _issue(place, rule, path, expected or "what the schema says", quote(fault.found), hint)

    def _refused_keys(self, fault: SchemaFault, work: Work, at: str, place: str) -> Iterator[Issue]:
        node = self._parts.graph.find(fault.schema)
        judges = node.judges() if node else ()
        allowed = list(dict.fromkeys(name for judge in judges for name in judge.schema.get("properties", ())))
        unused = [key for key in allowed if isinstance(fault.found, dict) and key not in fault.found]
        rule = SchemaRule.EXTRA_KEY if allowed else SchemaRule.NO_KEYS
        path = masked_pointer(at, fault.path, self._names)
        here = masked_pointer("", ("*" if isinstance(token, int) else token for token in fault.path), self._names)
        for name in fault.names:
            near = self.home_of(name, at, here) or did_you_mean(name, unused, work)
            shown = list_words(allowed, BRIEF_LIST_CHARS if near else MAX_LIST_CHARS)
            yield _issue(place, rule, path, shown, quote(name), near)

    def home_of(self, name: str, at: str, refused: str | None = None) -> str:
        """Return the words for where a refused key belongs, empty when the schema does not know its name elsewhere.

        ``refused`` is the place of the object that refused it, None for an object outside of the schema.
        """
        if self._homes is None:
            self._homes = homes(self._parts.graph)  # once: a reply may have many such keys, and most have none
        places = [place for place in self._homes.get(name, ()) if place != refused]
        if not 0 < len(places) <= MAX_HOMES:
            return ""
        top = refused is not None
        shown = ["at the top level" if top and not place else f"in {shown_place(at + place)}" for place in places]
        return f"{word(name)} belongs {either(shown)}"


def _with_what_came(found: dict[Issue, SchemaFault], place: str) -> Iterator[Issue]:
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


def _settled(faults: Iterable[SchemaFault]) -> Iterator[SchemaFault]:
    """Replace the fault of a union by those of the branch that a value plainly meant, where one is clearly nearest.

    "must be one of three forms" helps nobody who meant the second and forgot a key. Nearest is the branch whose type
    fits, then whose constants fit, then that misses and exceeds the fewest keys.
    """
    for fault in faults:
        ranked = sorted((_distance(branch, fault.path), index) for index, branch in enumerate(fault.branches))
        nearest = ranked[0][0] if ranked else (True,)
        if len(ranked) == 1 or (ranked and not nearest[0] and nearest < ranked[1][0]):
            yield from _settled(fault.branches[ranked[0][1]])
        else:
            yield fault


def _distance(branch: tuple[SchemaFault, ...], path: tuple[str | int, ...]) -> tuple[bool, bool, int]:
    here = [fault for fault in branch if fault.path == path]
    wrong_type = any(fault.keyword in ("type", "const", "enum", "false") for fault in here)
    wrong_tag = any(len(fault.path) == len(path) + 1 and fault.keyword in ("const", "enum") for fault in branch)
    return wrong_type, wrong_tag, sum(max(1, len(fault.names)) for fault in here)


def _hint(fault: SchemaFault, work: Work) -> str:
    schema, wrong = fault.schema or {}, fault.found
    if not isinstance(wrong, str):
        return ""
    if fault.keyword in ("enum", "const"):
        listed = schema.get("enum", ()) if fault.keyword == "enum" else [schema.get("const")]
        return did_you_mean(wrong, [text for text in listed if isinstance(text, str)], work)
    if fault.keyword != "type":
        return ""
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    digits = wrong.removeprefix("-").replace(".", "", 1)
    number = "number" in types or ("integer" in types and "." not in wrong)
    quoted = number and digits.isascii() and digits.isdigit()
    boolean = "boolean" in types and wrong.lower() in ("true", "false")
    return "write it without quotes" if quoted or boolean else ""


def nearest(text: str, known: Iterable[str], work: Work, *, cutoff: float = CUTOFF) -> str | None:
    """Return the known word that is most like a text, letter case aside; None when none is near, or work is short.

    At most 256 words of at most 64 characters are compared, each for the steps that its length costs.
    """
    if len(text) > MAX_CHARS:
        return None
    matcher = SequenceMatcher(b=text.lower())
    best, found = cutoff, None
    for number, each in enumerate(known):
        if number == MAX_WORDS:
            break
        if len(each) > MAX_CHARS or 2 * min(len(each), len(text)) < best * (len(each) + len(text)):
            continue  # their lengths alone keep them apart
        if not work.afford(1 + len(each) * len(text) // CELLS):
            return None
        matcher.set_seq1(each.lower())
        if matcher.quick_ratio() >= best and (ratio := matcher.ratio()) >= best and (found is None or ratio > best):
            best, found = ratio, each
    return found


def did_you_mean(text: str, known: Iterable[str], work: Work) -> str:
    """Return ``did you mean …?`` with the known word that is near to a text; empty when none is."""
    near = nearest(text, known, work)
    return "" if near is None else f"did you mean {word(near)}?"
