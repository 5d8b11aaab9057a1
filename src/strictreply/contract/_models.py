"""Python types as contracts: the schema for the model, and instances made from JSON.

Also turns what pydantic and user checks report into issues without the model's words.
"""

from __future__ import annotations

import json
import operator
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import islice
from threading import Lock
from types import FunctionType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, to_json

from strictreply.contract._described import describe
from strictreply.contract._fidelity.core_schemas import OF_EXTRAS, fidelity_of
from strictreply.contract._fidelity.documents import JsonDocument, imports, inlined_root
from strictreply.contract._forgotten_returns import refuse_forgotten_returns
from strictreply.values._errors import ContractError
from strictreply.values._issues import FOUND_CHARS, Category, Issue, pointer, pointer_tokens, quote
from strictreply.values._limits import JSON, Extra, JSONObject, Work
from strictreply.values._replies import Invalid

Findings: TypeAlias = Iterable[Issue] | None
"""The result of a user's check: issues, or None if there are none."""
_MAX_ISSUES = 32
_MAX_DETAILS = 200
_MAX_READ = 400
_MAX_WORDS = 200
_MAX_SEARCHED = 60_000_000
_MIN_WORD = 3
_MIN_GLUED = 5
_REFUSED = "refused by a check"
_BETWEEN = "|"  # no escape changes it
_BLANK = "\0"
_WORD = re.compile(r"[^\W_]+")
# A series of words of one or two letters is read as one word: spelled-out letters, or a script with
# short words.
_UNIT = re.compile(r"[^\W_]{3,}|[^\W_]{1,2}(?:[\W_]+[^\W_]{1,2}(?![^\W_]))*")
# what adjoins a value is hidden with it: other values, the backslash of an escape, marks and quotes
# beyond ASCII
_BLANKS = re.compile(rf"(?:[^\w\0-\x7f]|\\)*{_BLANK}(?:[\W_]*{_BLANK})?[^\w\0-\x7f]*")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "a an and any are as at be been before after between both but by can cannot does each "
        "either equal exactly few fewer for from greater has have if in into is it its least less "
        "longer many may more most must neither no nor not of on one only or other same shorter "
        "should some than that the their them then there these they this those to too was were "
        "when which will with within without"
    )
)
_SCALARS = frozenset({str, int, float, bool, type(None)})


def check_issues(
    outcome: ValueError | Findings,
    args: object,
    *,
    at: str = "",
    names: Collection[str] = (),
    place: str = "args",
) -> tuple[Issue, ...]:
    """Return what a check raised or returned as at most 32 issues without the model's words.

    ``args`` is the checked value, as JSON or typed. A word of three or more letters that occurs in
    it, in any case, becomes ``[value]``, unless it is a function word or a word of ``names``, the
    schema's member names. A check that encodes values can evade this. ``at`` points to the checked
    value; member names below it that are not in ``names`` become ``*``. Raises ContractError if the
    check returned neither issues nor None.
    """
    if outcome is None:
        return ()

    complaint = _Complaint(args, at, names, place)
    if isinstance(outcome, ValidationError):
        return tuple(complaint.from_pydantic(outcome))
    if isinstance(outcome, ValueError):
        return (complaint.issue(at, _text_of(outcome)),)

    try:
        found = cast("object", outcome)  # a check may return anything
        listed = found if isinstance(found, Iterable) else (found,)
        return tuple(complaint.from_user(issue) for issue in islice(listed, _MAX_ISSUES))
    except ValueError as error:
        # a check that is a generator raises only when it is iterated
        refuse_own_failure(error)
        return check_issues(error, args, at=at, names=names, place=place)


# HTTP clients, whose errors may be ValueErrors, such as that for an invalid URL
_CLIENTS = frozenset({"aiohttp", "httpcore", "httpx", "httpx2", "openai", "requests", "urllib3"})


def refuse_own_failure(error: ValueError) -> None:
    """Raise a ValueError that is a failure of the check itself, not about the arguments.

    Such are errors of files and sockets, of other JSON, of HTTP clients, and of this library.
    """
    own = (OSError, json.JSONDecodeError, ContractError)
    homes = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if isinstance(error, own) or not _CLIENTS.isdisjoint(homes):
        raise error


def _text_of(error: Exception) -> str:
    try:
        return str.__str__(str(error))[:_MAX_READ]
    except Exception:  # noqa: BLE001
        # a user's exception may raise anything in __str__; the value is rejected anyway
        return ""


class _Complaint:
    """A rejected value, JSON or typed, whose words are removed from messages.

    The words of ``names`` may stay in a message.
    """

    def __init__(self, value: Any, at: str, names: Collection[str], place: str) -> None:
        self._value = value
        self._at = at
        self._names = names
        self._place = place
        self._known: dict[str, bool] = {}
        self._letters = _Letters()

    def issue(self, path: str, words: str, found: str = "") -> Issue:
        message = self._blanked(words) or _REFUSED
        return Issue(f"{self._place}.check", Category.FORMAT_ERROR, path, message, "", found)

    def from_pydantic(self, error: ValidationError) -> Iterator[Issue]:
        if error.error_count() > _MAX_DETAILS:  # pydantic takes seconds to describe so many
            words = f"refused by {error.error_count()} checks"
            yield Issue(f"{self._place}.check", Category.FORMAT_ERROR, self._at, words)
            return

        # a branch of a union that does not know a member says nothing about the other branches
        details = error.errors(include_url=False, include_input=False)
        details = _of_fitting_branches(details, self._value)
        telling = [detail for detail in details if detail["type"] not in OF_EXTRAS]
        for detail in (telling or details)[:_MAX_ISSUES]:
            # the validator's own text if it raised, else pydantic's
            cause = detail.get("ctx", {}).get("error")
            path, value = self._locate(detail["loc"])
            own = _PLAINER_WORDS.get(detail["type"], detail["msg"])
            words = _text_of(cause) if isinstance(cause, Exception) else own
            member = _member_of(detail)
            if member:  # a name of the type, which pydantic's text leaves out
                path = pointer(path, member)
                words = _MISSING_WORDS.get(detail["type"], words)

            yield self.issue(path, words, quote(value))

    def from_user(self, issue: object) -> Issue:
        if not isinstance(issue, Issue):
            raise ContractError(
                "a check must return issues or None, or raise ValueError; "
                f"not {type(issue).__name__}"
            )

        tokens: list[str] = []
        for each in pointer_tokens(issue.path):
            is_index = each.isascii() and each.isdecimal()
            tokens.append(each if each in self._names or is_index else "*")

        # one short line of ASCII, like the result of :func:`strictreply.values._issues.quote`
        found = issue.found
        if len(found) > FOUND_CHARS or not found.isascii() or not found.isprintable():
            found = quote(found)

        path = pointer(self._at, *tokens)
        message = self._blanked(issue.message) or _REFUSED
        hint = self._blanked(issue.hint)
        return replace(issue, path=path, message=message, hint=hint, found=found)

    def _locate(self, loc: tuple[int | str, ...]) -> tuple[str, JSON]:
        """Follow pydantic's location as far as it names members and items.

        Branches of unions and missing keys in it are skipped.
        """
        path = self._at
        value = self._value

        for token in loc:
            if isinstance(value, list) and isinstance(token, int) and token < len(value):
                path = pointer(path, token)
                value = value[token]
            elif isinstance(value, dict) and token in value:
                path = pointer(path, token if token in self._names else "*")
                value = value[str(token)]

        return path, value

    def _blanked(self, text: str) -> str:
        """Return a developer's text in a form that is safe in a prompt.

        It is one line, capped, with ``[value]`` in place of the model's words.
        """
        printable = "".join(char if char.isprintable() else " " for char in text[:_MAX_READ])
        composed = unicodedata.normalize("NFC", printable)
        blanked = _UNIT.sub(lambda unit: _BLANK if self._repeats(unit[0]) else unit[0], composed)
        line = " ".join(_BLANKS.sub("[value]", blanked).split())
        return line if len(line) <= _MAX_WORDS else f"{line[: _MAX_WORDS - 1]}…"

    def _repeats(self, unit: str) -> bool:
        """Return whether a word, or a series of short words, repeats what the model wrote."""
        if all(word.casefold() in self._exempt for word in _WORD.findall(unit)):
            return False

        letters = unit.translate(self._letters)
        if len(letters) < _MIN_WORD:
            return False

        # scripts without spaces join short words
        size = _MIN_GLUED if letters.isascii() else _MIN_WORD
        windows = (letters[start : start + size] for start in range(len(letters) - size + 1))
        return self._wrote(letters) or any(map(self._wrote, windows))

    def _wrote(self, letters: str) -> bool:
        # each is searched once; if the work is used up, True is the safe answer
        if letters not in self._known:
            is_spent = len(self._known) * len(self._written) > _MAX_SEARCHED
            self._known[letters] = is_spent or letters in self._written

        return self._known[letters]

    @cached_property
    def _written(self) -> str:
        """The letters and digits of everything that the model wrote, raw and escaped."""
        leaves = _leaves(self._value)
        raw = _BETWEEN.join(str(leaf) for leaf in leaves if not isinstance(leaf, bool | None))
        escaped = (raw, json.dumps(raw), repr(raw), ascii(raw))
        spellings = {spelled.strip("\"'") for spelled in escaped}
        # one at a time: str.translate is thirty times faster on pure ASCII
        return _BETWEEN.join(text.translate(self._letters) for text in spellings)

    @cached_property
    def _exempt(self) -> frozenset[str]:
        names = {word for name in self._names for word in _WORD.findall(name.casefold())}
        plurals = {f"{word}s" for word in names}  # "prices" is a word of the schema if "price" is
        return _FUNCTION_WORDS | names | plurals


# Faults that the schema decides: a branch of a union with such a fault is not the one that the
# schema accepted.
_DECIDED = frozenset(
    {"missing", "missing_argument", "literal_error", "enum", "none_required", "is_instance_of"}
)


def _is_decided(detail: ErrorDetails) -> bool:
    kind = detail["type"]
    return kind in _DECIDED or kind in OF_EXTRAS or kind.endswith("_type")


def _of_fitting_branches(
    details: list[ErrorDetails], value: object, start: int = 0
) -> list[ErrorDetails]:
    """Leave out the branches of unions that the schema rejects, if it accepts another one.

    The model meant the accepted branch, and advice for the others would contradict it. The
    locations of all details are the same up to ``start``, the location of ``value``.
    """
    points: dict[object, tuple[int, object, dict[object, list[ErrorDetails]]]] = {}
    kept: set[int] = set()

    for detail in details:
        index, inner = _branch_at(detail, value, start)
        if index is None:
            kept.add(id(detail))
            continue

        loc = detail["loc"]
        _, _, branches = points.setdefault(loc[start:index], (index, inner, {}))
        branches.setdefault(loc[index], []).append(detail)

    for index, inner, branches in points.values():
        told = [_of_fitting_branches(each, inner, index + 1) for each in branches.values()]
        fitting = [each for each in told if not any(map(_is_decided, each))]
        kept.update(id(detail) for each in fitting or told for detail in each)

    return [detail for detail in details if id(detail) in kept]


def _branch_at(detail: ErrorDetails, value: Any, start: int) -> tuple[int | None, object]:
    """Return where a location first names a branch of a union, and the value of the union.

    None if it names only members and items.
    """
    loc: tuple[Any, ...] = detail["loc"]
    for index in range(start, len(loc)):
        token = loc[index]
        is_item = isinstance(value, list) and isinstance(token, int) and token < len(value)
        if is_item or (isinstance(value, dict) and token in value):
            value = value[token]
        elif detail["type"] == "missing" and index == len(loc) - 1:
            break
        else:
            return index, value

    return None, value


_PLAINER_WORDS = {
    "decimal_parsing": "must be a decimal number: digits, and a point before decimals, as in 12.5",
}
_MISSING_WORDS = {
    "missing": "is required",
    "union_tag_not_found": "is required; it says which form is meant",
    "union_tag_invalid": "must name one of the forms",
}


def _member_of(detail: ErrorDetails) -> str:
    """Return the member that a detail of pydantic is about but does not locate; else empty."""
    if detail["type"] == "missing":
        last = detail["loc"][-1:]
        return str(last[0]) if last and isinstance(last[0], str) else ""
    if detail["type"] in _MISSING_WORDS:
        named = str(detail.get("ctx", {}).get("discriminator", ""))
        # a function that distinguishes forms is not a member
        return "" if named.endswith("()") else named.strip("'")

    return ""


class _Letters(dict[int, str | None]):
    """A table for ``str.translate`` that folds case, width and accents.

    It keeps letters, digits and the separator of texts.
    """

    def __missing__(self, code: int) -> str | None:
        # each character is folded once: texts that normalization makes eighteen times longer cost
        # little
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        kept = "".join(char for char in folded if char.isalnum() or char == _BETWEEN)
        self[code] = kept or None  # None, not "": str.translate has a fast path for it
        return self[code]


def _leaves(value: object) -> Iterator[object]:
    """Yield the scalars that JSON or typed values are made of.

    Members of enums are left out: they are the schema's words.
    """
    pending = [value]
    seen = set[int]()

    while pending:
        part = pending.pop()
        parts = None if type(part) in _SCALARS else _parts(part)  # ABCs are slow to ask
        if parts is None:
            yield part
        elif id(part) not in seen:  # a validator may have linked children to their parents
            seen.add(id(part))
            pending += parts


def _parts(value: object) -> list[object] | None:
    """Return the parts of a container or an instance, whatever its serializers would hide.

    None for a value without parts.
    """
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


T = TypeVar("T")
V = TypeVar("V")
Adapter: TypeAlias = TypeAdapter[Any]
# Of results that are kept: some thousand tools. What each takes is estimated from its JSON text: a
# compiled schema of a few characters takes some 8 kB, a long one some 50 bytes a character.
KEPT_BYTES = 64_000_000
BYTES_OF_EACH = 10_000
BYTES_OF_CHAR = 50
# as large as the current one, kept in any case, so that no number of tools is too large
KEPT_REQUESTS = 4
_ATTRIBUTE = "__strictreply_compiled__"
# The attributes of a class or function that a declaration reads, and a program may replace while it
# runs.
_READ = (
    "__name__",
    "__doc__",
    "__defaults__",
    "__kwdefaults__",
    "__code__",
    "__pydantic_core_schema__",
)


class _Kept:
    """What was made of one class or function, by how it was asked for.

    Each result is kept with the state of the owner that it was made from.
    """

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        self.made: dict[tuple[object, ...], tuple[list[object], Any]] = {}

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        """Travel empty: a class or function that is pickled or copied takes attributes along."""
        return _Kept, ()


def kept_on(owner: object, how: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return what ``make`` makes of a class or function.

    The result is kept by ``how`` in an attribute of the owner, where that is possible.
    """
    if not isinstance(owner, type | FunctionType):
        return make()

    kept = vars(owner).get(_ATTRIBUTE)
    if not isinstance(kept, _Kept) or kept.owner is not owner:  # functools.wraps copies attributes
        kept = _Kept(owner)
        try:
            setattr(owner, _ATTRIBUTE, kept)
        except (AttributeError, TypeError):  # a built-in type, or a metaclass that refuses
            return make()

    state, result = kept.made.get(how, (None, None))
    if state is None or not all(map(operator.is_, state, _state(owner))):
        result = make()
        kept.made[how] = _state(owner), result

    return cast("T", result)


def _state(owner: object) -> list[object]:
    return [getattr(owner, name, None) for name in _READ]


class ByText(Generic[T]):
    """What was made of the JSON texts that were used last. Thread-safe.

    Only their texts tell two definitions apart.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: OrderedDict[tuple[str, tuple[object, ...]], T] = OrderedDict()
        self._bytes = 0

    def get(self, value: V, how: tuple[object, ...], make: Callable[[V], T]) -> tuple[T, int]:
        """Return what ``make`` makes of JSON, kept by its text, and the bytes that it may take.

        They are 0 for a value that is not plain JSON, of which nothing is kept.
        """
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return make(value), 0

        key = (text, how)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key], _bytes_of(text)

        made = make(json.loads(text))
        with self._lock:
            self._bytes += 0 if key in self._made else _bytes_of(text)
            return self._made.setdefault(key, made), _bytes_of(text)

    def trim(self, used: Iterable[int]) -> None:
        """Drop what was used longest ago.

        ``used`` are the bytes that the results of the request at hand may take.
        """
        most = max(KEPT_BYTES, KEPT_REQUESTS * sum(used))
        with self._lock:
            while self._bytes > most:
                (text, _), _ = self._made.popitem(last=False)
                self._bytes -= _bytes_of(text)


def _bytes_of(text: str) -> int:
    """Estimate the memory that a schema compiled from a JSON text takes."""
    return BYTES_OF_EACH + BYTES_OF_CHAR * len(text)


# pydantic and ``typing`` raise these for a type that describes no JSON.
UNREADABLE = (
    PydanticUserError,
    AttributeError,
    NameError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def adapter_of(kind: Any, name: str) -> Adapter:
    """Return pydantic's reader of a type.

    Raises ContractError, which says ``name``, when the type has none.
    """
    try:
        return TypeAdapter(kind)
    except UNREADABLE as error:
        raise ContractError(
            f"{name!r} has a type that pydantic cannot read: {first_line(error)}"
        ) from error


def document_of(adapter: Adapter, name: str) -> JSONObject:
    """Return the JSON Schema of a type; its root is never a reference.

    Raises ContractError, which says ``name``, when the type has none, when it would import what the
    model names, and when a validator of a model in it ends without ``return``.
    """
    try:
        document = adapter.json_schema(schema_generator=JsonDocument)
    except UNREADABLE as error:
        raise ContractError(f"{name!r} has no JSON Schema: {first_line(error)}") from error

    if imports(adapter.core_schema):
        raise ContractError(
            f"{name!r} holds an ImportString: a model could import any code that is installed; "
            "list the allowed names in a Literal or an Enum"
        )

    refuse_forgotten_returns(adapter.core_schema, name)
    document = inlined_root(document)
    describe(document, adapter)
    return document


def instance_of(
    adapter: Adapter,
    value: JSON,
    *,
    at: str,
    names: Collection[str],
    place: str = "args",
    work: Work | None = None,
    extra: Extra = "forbid",
) -> Any | Invalid:
    """Return the typed value of JSON that fits the type's schema.

    Each member of the JSON is taken by a field of the value, and nothing else is in it but declared
    defaults; with ``extra="schema"`` a type may leave out members as it is configured to. Invalid
    has what its validators, or the type itself, refuse.
    """
    # not Python objects: so a strict model takes a date from its text, and base64 is decoded
    text = to_json(value)
    fidelity = fidelity_of(adapter)
    try:
        made = fidelity.made(adapter.validator, text, extra)
    except ValidationError as error:
        return Invalid(check_issues(error, value, at=at, names=names, place=place))
    except Exception:
        # what pydantic's own code raises is the value's fault, what the user's raises is not
        refused = fidelity.refused(text)
        if refused is None:
            raise
        return Invalid(check_issues(refused, value, at=at, names=names, place=place))

    differing = fidelity.issues(
        value, text, made, extra=extra, at=at, names=names, place=place, work=work
    )
    return Invalid(differing) if differing else made


def first_line(error: Exception) -> str:
    """Return the first line of what went wrong.

    Further lines are pydantic's advice and addresses, which do not fit here.
    """
    return (str(error).splitlines() or [type(error).__name__])[0]
