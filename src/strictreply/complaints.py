"""What pydantic or a user's own check says against arguments, as issues that hold none of the model's words."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from itertools import chain, islice, takewhile
from typing import Any, TypeAlias

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from strictreply.errors import ContractError
from strictreply.issues import FOUND_CHARS, Category, Issue, pointer, pointer_tokens, quote
from strictreply.typing import JSON

Checked: TypeAlias = Iterable[Issue] | None
"""What a user's check finds: issues, or None when all is well."""

_MAX_ISSUES = 32
_MAX_WORDS = 200
_MAX_ERROR_TEXT = 2_000
_MIN_ECHO = 3
_CUT_ECHO = 16
_REFUSED = "refused by a check"
_BLANK = "\0"
_ENCODER = json.JSONEncoder()


def check_issues(
    outcome: ValueError | Checked,
    args: object,
    *,
    at: str = "",
    names: Collection[str] = (),
    place: str = "args",
) -> tuple[Issue, ...]:
    """Turn what a check raised or returned into issues that hold none of the model's words.

    ``args`` is what was checked, as JSON or typed: its strings, keys and numbers of three characters and more become
    ``[value]`` in the messages. ``at`` points to it; of the member names below only those in ``names`` (the
    schema's) are shown, others are ``*``. A ValueError gets the code ``<place>.check``, pydantic's one issue for
    each of its errors. At most 32 issues are reported.

    Raises ContractError when the check returned neither issues nor None.
    """
    if outcome is None:
        return ()
    complaint = _Complaint.about(args, at=at, names=names, place=place)
    if isinstance(outcome, ValidationError):
        details = outcome.errors(include_url=False, include_input=False)
        return tuple(complaint.from_pydantic(detail) for detail in details[:_MAX_ISSUES])
    if isinstance(outcome, ValueError):
        return (complaint.issue(at, str(outcome)),)
    try:
        return tuple(complaint.from_user(issue) for issue in islice(_issues(outcome), _MAX_ISSUES))
    except ValueError as error:
        # a check that is a generator raises only when it is read
        if isinstance(error, ContractError):
            raise
        return check_issues(error, args, at=at, names=names, place=place)


def _issues(outcome: object) -> Iterator[Issue]:
    """Read what a check returned, refusing what is no issue."""
    for issue in outcome if isinstance(outcome, Iterable) else (outcome,):
        if not isinstance(issue, Issue):
            raise ContractError(f"a check returns issues or None, not {type(issue).__name__}; or it raises ValueError")
        yield issue


@dataclass(frozen=True, slots=True)
class _Complaint:
    """One value under complaint: where it stands, and the texts in it that must not be repeated."""

    value: JSON
    at: str
    names: Collection[str]
    place: str
    echoes: Mapping[str, Collection[str]]

    @classmethod
    def about(cls, value: Any, *, at: str, names: Collection[str], place: str) -> _Complaint:
        """Take a value as JSON or typed; names of the schema are our words, and may be repeated."""
        return cls(value, at, names, place, _echoes(value, names))

    def issue(self, path: str, words: str, found: str = "") -> Issue:
        """Report one fault in a developer's words, made safe."""
        message = _safe(words, self.echoes) or _REFUSED
        return Issue(f"{self.place}.check", Category.FORMAT_ERROR, path, message, "", found)

    def from_pydantic(self, detail: ErrorDetails) -> Issue:
        """Report one of pydantic's errors: the validator's own words where it raised, else pydantic's."""
        cause = detail.get("ctx", {}).get("error")
        path, value = self._locate(detail["loc"])
        return self.issue(path, str(cause) if isinstance(cause, Exception) else detail["msg"], quote(value))

    def from_user(self, issue: Issue) -> Issue:
        """Take an issue that a check made: its words made safe, its path set below ours."""
        tokens = (
            token if token in self.names or (token.isascii() and token.isdecimal()) else "*"
            for token in pointer_tokens(issue.path)
        )
        return replace(
            issue,
            path=pointer(self.at, *tokens),
            message=_safe(issue.message, self.echoes) or _REFUSED,
            hint=_safe(issue.hint, self.echoes),
            found=issue.found if _presentable(issue.found) else quote(issue.found),
        )

    def _locate(self, loc: tuple[int | str, ...]) -> tuple[str, JSON]:
        """Follow pydantic's location where it names members; it names union branches and missing keys, too."""
        path, value = self.at, self.value
        for token in loc:
            if isinstance(value, list) and isinstance(token, int) and token < len(value):
                path, value = pointer(path, token), value[token]
            elif isinstance(value, dict) and token in value:
                path, value = pointer(path, token if token in self.names else "*"), value[str(token)]
        return path, value


def _presentable(found: str) -> bool:
    """Tell whether an excerpt is one short line of ASCII, as :func:`strictreply.issues.quote` makes them."""
    return len(found) <= FOUND_CHARS and found.isascii() and found.isprintable()


def _echoes(value: object, names: Collection[str]) -> dict[str, set[str]]:
    """Index what a value says, but for ``names``, by its first three characters: a text is searched for few of them."""
    echoes: dict[str, set[str]] = {}
    for leaf in _leaves(value):
        for text in _spellings(leaf):
            if len(text) >= _MIN_ECHO and text not in names:
                echoes.setdefault(text[:_MIN_ECHO], set()).add(text)
    return echoes


def _spellings(leaf: object) -> tuple[str, ...]:
    """Give how a string or number may stand in a text: raw, trimmed, and escaped as Python and JSON do."""
    if isinstance(leaf, bool | None):
        return ()
    text = str(leaf)
    if text.isascii() and text.isalnum():
        return (text,)
    return text, text.strip(), repr(text)[1:-1], _ENCODER.encode(text)[1:-1]


def _leaves(value: object) -> Iterator[object]:
    """Walk JSON or typed values down to what they are made of; members of enums are the schema's words."""
    pending, seen = [value], set[int]()
    while pending:
        part = pending.pop()
        parts = None if type(part) is str else _parts(part)
        if parts is None:
            yield part
        elif id(part) not in seen:  # a validator may have linked children to their parents
            seen.add(id(part))
            pending += parts


def _parts(value: object) -> list[object] | None:
    """Open a container or an instance, whatever its serializers would hide; None for what has no parts."""
    match value:
        case Enum():
            return []
        case str():
            return None
        case bytes():
            return [value.decode(errors="replace")]
        case SecretStr() | SecretBytes():
            return [value.get_secret_value()]
        case BaseModel():
            return [vars(value), value.model_extra]
        case Mapping():
            return [*value, *value.values()]
        case Collection():
            return [*value]
        case _:
            members = fields(value) if is_dataclass(value) else ()
            return [getattr(value, member.name) for member in members] or None


def _safe(text: str, echoes: Mapping[str, Collection[str]]) -> str:
    """Make a developer's words fit for a prompt: one line, capped, with ``[value]`` for what the model wrote.

    A text over 2,000 characters is dropped: it can only be an echo, and the work here must stay bounded.
    """
    if len(text) > _MAX_ERROR_TEXT:
        return ""
    characters = [char if char.isprintable() else " " for char in text]
    grams = {text[index : index + _MIN_ECHO] for index in range(len(text))}
    for echo in chain.from_iterable(echoes[gram] for gram in grams & echoes.keys()):
        for start, end in _repeats(text, echo):
            characters[start:end] = _BLANK * (end - start)
    line = " ".join(re.sub(f"{_BLANK}+", "[value]", "".join(characters)).split())
    return line if len(line) <= _MAX_WORDS else f"{line[: _MAX_WORDS - 1]}…"


def _repeats(text: str, echo: str) -> Iterator[tuple[int, int]]:
    """Find where a text repeats an echo; a long one also when only its beginning is repeated, as people cut values."""
    head = echo[:_CUT_ECHO]
    start = text.find(head)
    while start >= 0:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(echo, text[start:], strict=False))
        end = start + sum(1 for _ in same)
        yield start, end
        start = text.find(head, end)
