"""The findings of pydantic or a user's own check, as issues that hold none of the model's words.

A word of a message that occurs anywhere in the model's text becomes ``[value]``. English function words, the schema's
names, words of one or two letters and punctuation stay. A check that encodes values is not stopped.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from strictreply.values._errors import ContractError
from strictreply.values._issues import FOUND_CHARS, Category, Issue, pointer, pointer_tokens, quote
from strictreply.values._limits import JSON

Findings: TypeAlias = Iterable[Issue] | None
"""What a user's check finds: issues, or None when all is well."""
_MAX_ISSUES, _MAX_DETAILS, _MAX_READ, _MAX_WORDS = 32, 200, 400, 200
_MAX_SEARCHED = 60_000_000
_MIN_WORD, _MIN_GLUED = 3, 5
_REFUSED = "refused by a check"
_BETWEEN, _BLANK = "|", "\0"  # no escape changes the former
_WORD = re.compile(r"[^\W_]+")
# letters that are spelled out, or scripts of short words, are read as one: a row of words of one or two letters
_UNIT = re.compile(r"[^\W_]{3,}|[^\W_]{1,2}(?:[\W_]+[^\W_]{1,2}(?![^\W_]))*")
# what hangs on a value goes with it: other values, the backslash of an escape, marks and quotes beyond ASCII
_BLANKS = re.compile(rf"(?:[^\w\0-\x7f]|\\)*{_BLANK}(?:[\W_]*{_BLANK})?[^\w\0-\x7f]*")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and any are as at be been before after between both but by can cannot does each either equal exactly few "
        "fewer for from greater has have if in into is it its least less longer many may more most must neither no nor "
        "not of on one only or other same shorter should some than that the their them then there these they this "
        "those to too was were when which will with within without"
    )
)
_SCALARS = frozenset({str, int, float, bool, type(None)})


def check_issues(
    outcome: ValueError | Findings, args: object, *, at: str = "", names: Collection[str] = (), place: str = "args"
) -> tuple[Issue, ...]:
    """Turn what a check raised or returned into issues that hold none of the model's words.

    ``args`` is what was checked, as JSON or typed: a word of at least three letters that occurs in it, whatever its
    case, becomes ``[value]``, unless it is a function word or a word of ``names``, the schema's member names. ``at``
    points to it; member names below that are not in ``names`` are shown as ``*``. A ValueError gets the code
    ``<place>.check``, pydantic's one issue for each of its errors, or one for all when there are over 200. At most 32
    issues are reported; of a message the first 400 characters are read, and at most 200 reported. Raises ContractError
    when the check returned neither issues nor None.
    """
    if outcome is None:
        return ()
    complaint = _Complaint(args, at, names, place)
    if isinstance(outcome, ValidationError):
        return tuple(complaint.from_pydantic(outcome))
    if isinstance(outcome, ValueError):
        return (complaint.issue(at, _text_of(outcome)),)
    try:
        return tuple(complaint.from_user(issue) for issue in islice(_issues(outcome), _MAX_ISSUES))
    except ValueError as error:
        # a check that is a generator raises only when it is read
        if isinstance(error, ContractError):
            raise
        return check_issues(error, args, at=at, names=names, place=place)


def _text_of(error: Exception) -> str:
    try:
        return str.__str__(str(error))[:_MAX_READ]
    except Exception:  # noqa: BLE001 - a user's exception may raise anything in __str__; the value is refused anyway
        return ""


def _issues(outcome: object) -> Iterator[Issue]:
    for issue in outcome if isinstance(outcome, Iterable) else (outcome,):
        if not isinstance(issue, Issue):
            raise ContractError(f"a check must return issues or None, or raise ValueError; not {type(issue).__name__}")
        yield issue


class _Complaint:
    """A refused value, JSON or typed, in which the words of messages are searched; ``names`` may be repeated."""

    def __init__(self, value: Any, at: str, names: Collection[str], place: str) -> None:
        self._value, self._at, self._names, self._place = value, at, names, place
        self._known: dict[str, bool] = {}
        self._letters = _Letters()

    def issue(self, path: str, words: str, found: str = "") -> Issue:
        return Issue(f"{self._place}.check", Category.FORMAT_ERROR, path, self._blanked(words) or _REFUSED, "", found)

    def from_pydantic(self, error: ValidationError) -> Iterator[Issue]:
        if error.error_count() > _MAX_DETAILS:  # pydantic takes seconds to write so many out
            words = f"refused by {error.error_count()} checks"
            yield Issue(f"{self._place}.check", Category.FORMAT_ERROR, self._at, words)
            return
        for detail in error.errors(include_url=False, include_input=False)[:_MAX_ISSUES]:
            # the validator's own words where it raised, else pydantic's
            cause = detail.get("ctx", {}).get("error")
            path, value = self._locate(detail["loc"])
            yield self.issue(path, _text_of(cause) if isinstance(cause, Exception) else detail["msg"], quote(value))

    def from_user(self, issue: Issue) -> Issue:
        tokens = pointer_tokens(issue.path)
        known = [each if each in self._names or (each.isascii() and each.isdecimal()) else "*" for each in tokens]
        # one short line of ASCII, as :func:`strictreply.values._issues.quote` makes them
        is_presentable = len(issue.found) <= FOUND_CHARS and issue.found.isascii() and issue.found.isprintable()
        found, message = issue.found if is_presentable else quote(issue.found), self._blanked(issue.message) or _REFUSED
        hint = self._blanked(issue.hint)
        return replace(issue, path=pointer(self._at, *known), message=message, hint=hint, found=found)

    def _locate(self, loc: tuple[int | str, ...]) -> tuple[str, JSON]:
        """Follow pydantic's location where it names members; it names union branches and missing keys, too."""
        path, value = self._at, self._value
        for token in loc:
            if isinstance(value, list) and isinstance(token, int) and token < len(value):
                path, value = pointer(path, token), value[token]
            elif isinstance(value, dict) and token in value:
                path, value = pointer(path, token if token in self._names else "*"), value[str(token)]
        return path, value

    def _blanked(self, text: str) -> str:
        """Return a developer's words as a prompt may hold them: one line, capped, ``[value]`` for the model's words."""
        printable = "".join(char if char.isprintable() else " " for char in text[:_MAX_READ])
        composed = unicodedata.normalize("NFC", printable)
        blanked = _UNIT.sub(lambda unit: _BLANK if self._repeats(unit[0]) else unit[0], composed)
        line = " ".join(_BLANKS.sub("[value]", blanked).split())
        return line if len(line) <= _MAX_WORDS else f"{line[: _MAX_WORDS - 1]}…"

    def _repeats(self, unit: str) -> bool:
        """Return whether a word, or a row of short ones, holds anything of what the model wrote."""
        if all(word.casefold() in self._exempt for word in _WORD.findall(unit)):
            return False
        letters = unit.translate(self._letters)
        if len(letters) < _MIN_WORD:
            return False
        size = _MIN_GLUED if letters.isascii() else _MIN_WORD  # scripts without spaces glue short words
        windows = (letters[start : start + size] for start in range(len(letters) - size + 1))
        return self._wrote(letters) or any(map(self._wrote, windows))

    def _wrote(self, letters: str) -> bool:
        # each is searched once; when the work is at its bound, yes is the safe answer
        if letters not in self._known:
            spent = len(self._known) * len(self._written) > _MAX_SEARCHED
            self._known[letters] = spent or letters in self._written
        return self._known[letters]

    @cached_property
    def _written(self) -> str:
        """The letters and digits of all that the model wrote, raw and escaped as JSON and Python do."""
        raw = _BETWEEN.join(str(leaf) for leaf in _leaves(self._value) if not isinstance(leaf, bool | None))
        spellings = {spelled.strip("\"'") for spelled in (raw, json.dumps(raw), repr(raw), ascii(raw))}
        # one by one: str.translate is thirty times faster on pure ASCII
        return _BETWEEN.join(text.translate(self._letters) for text in spellings)

    @cached_property
    def _exempt(self) -> frozenset[str]:
        names = {word for name in self._names for word in _WORD.findall(name.casefold())}
        return _FUNCTION_WORDS | names | {f"{word}s" for word in names}  # "prices" is the schema's where "price" is


class _Letters(dict[int, str | None]):
    """A table for ``str.translate`` that folds case, width and accents, and keeps letters, digits and the separator."""

    def __missing__(self, code: int) -> str | None:
        # each character is folded once: texts that normalization makes eighteen times longer cost little
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        kept = "".join(char for char in folded if char.isalnum() or char == _BETWEEN)
        self[code] = kept or None  # None, not "": str.translate has a fast path for it
        return self[code]


def _leaves(value: object) -> Iterator[object]:
    """Yield the scalars that JSON or typed values are made of; members of enums are the schema's words."""
    pending, seen = [value], set[int]()
    while pending:
        part = pending.pop()
        parts = None if type(part) in _SCALARS else _parts(part)  # ABCs are slow to ask
        if parts is None:
            yield part
        elif id(part) not in seen:  # a validator may have linked children to their parents
            seen.add(id(part))
            pending += parts


def _parts(value: object) -> list[object] | None:
    """Return the parts of a container or an instance, whatever its serializers would hide; None if it has none."""
    match value:
        case Mapping():
            return [*value, *value.values()]
        case Enum():
            return []
        case str():
            return None
        case bytes():
            return [value.decode(errors="replace")]
        case SecretStr() | SecretBytes():
            return [value.get_secret_value()]
        case BaseModel():
            return [*vars(value).values(), value.model_extra]
        case Collection():
            return [*value]
        case _:
            members = fields(value) if is_dataclass(value) else ()
            return [getattr(value, member.name) for member in members] or None
