"""Python types as contracts: the JSON Schema that a model is shown, the instance made of JSON, each compiled once.

Programs name their tools and their ``response_format`` anew with every request; compiling them costs more than that.
"""

from __future__ import annotations

import json
import operator
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from threading import Lock
from types import FunctionType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import core_schema, to_json

from strictreply.contract._complaints import check_issues
from strictreply.contract._fidelity import fidelity_of
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, JSONObject, Work
from strictreply.values._replies import Invalid

T = TypeVar("T")
Adapter: TypeAlias = TypeAdapter[Any]
KEPT_CHARS = 1_000_000  # of JSON texts whose results are kept: some thousand tools, about 50 MB of compiled schemas
KEPT_REQUESTS = 4  # as large as the current one, kept in any case, so that no number of tools is too large
_ATTRIBUTE = "__strictreply_compiled__"
# The attributes of a class or function that a declaration reads, and a program may replace while it runs.
_READ = ("__name__", "__doc__", "__defaults__", "__kwdefaults__", "__code__", "__pydantic_core_schema__")


class _Kept:
    """What was made of one class or function: by how it was asked for, with the state that it was made from."""

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        self.made: dict[tuple[object, ...], tuple[list[object], Any]] = {}

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        """Travel empty: a class or function that is pickled by value, or copied, takes its attributes along."""
        return _Kept, ()


def kept_on(owner: object, how: tuple[object, ...], make: Callable[[], T]) -> T:
    """Return what ``make`` makes of a class or function, by ``how``, kept in an attribute of that where possible."""
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
    """What was made of JSON texts, those used last: only its text tells a definition from another. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: OrderedDict[tuple[str, tuple[object, ...]], T] = OrderedDict()
        self._chars = 0

    def get(self, value: object, how: tuple[object, ...], make: Callable[[Any], T]) -> tuple[T, int]:
        """Return what ``make`` makes of JSON, kept by its text, and the length of that; 0 for what is no plain JSON."""
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return make(value), 0
        key = (text, how)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key], len(text)
        made = make(json.loads(text))
        with self._lock:
            self._chars += 0 if key in self._made else len(text)
            return self._made.setdefault(key, made), len(text)

    def trim(self, used: Iterable[int]) -> None:
        """Let go of what was used longest ago; ``used`` are the lengths of the texts of the request at hand."""
        most = max(KEPT_CHARS, KEPT_REQUESTS * sum(used))
        with self._lock:
            while self._chars > most:
                (text, _), _ = self._made.popitem(last=False)
                self._chars -= len(text)


# pydantic and ``typing`` raise these for a type that describes no JSON.
UNREADABLE = (PydanticUserError, AttributeError, NameError, RuntimeError, SyntaxError, TypeError, ValueError)
_KEYS: dict[str, JSONObject] = {
    "bool": {"enum": ["true", "false"]},
    "int": {"pattern": "^(?:0|-?[1-9][0-9]*)$"},
    "float": {"pattern": r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"},
}
"""How keys that are not text are spelled in JSON: each in one way, as RFC 8259 does values."""


def adapter_of(kind: Any, name: str) -> Adapter:
    """Return pydantic's reader of a type; raises ContractError, saying ``name``, when it has none."""
    try:
        return TypeAdapter(kind)
    except UNREADABLE as error:
        raise ContractError(f"{name!r} has a type that pydantic cannot read: {first_line(error)}") from error


def document_of(adapter: Adapter, name: str) -> JSONObject:
    """Return the JSON Schema of a type, its root never a reference; ContractError, saying ``name``, if it has none."""
    try:
        document = adapter.json_schema(schema_generator=_ModelSchema)
    except UNREADABLE as error:
        raise ContractError(f"{name!r} has no JSON Schema: {first_line(error)}") from error
    target = document.get("$ref", "").removeprefix("#/$defs/")
    return {**document["$defs"][target], "$defs": document["$defs"]} if target else document


def instance_of(
    adapter: Adapter, value: JSON, *, at: str, names: Collection[str], place: str = "args", work: Work | None = None
) -> Any | Invalid:
    """Return the typed value of JSON that fits the type's schema.

    What the type's own validators refuse comes back as ``<place>.check`` issues below ``at``; what pydantic would
    change in silence, such as an integer that no float holds, as ``<place>.not_representable`` issues.
    """
    text = to_json(value)  # not Python objects: so a strict model takes a date from its text, and base64 is decoded
    try:
        made = adapter.validate_json(text)
    except ValidationError as error:
        return Invalid(check_issues(error, value, at=at, names=names, place=place))
    differing = fidelity_of(adapter).issues(value, text, at=at, names=names, place=place, work=work)
    return Invalid(differing) if differing else made


def first_line(error: Exception) -> str:
    """Return the first line of what went wrong: pydantic adds advice and addresses that do not fit here."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class _ModelSchema(GenerateJsonSchema):
    """pydantic's JSON Schema without what a model need not read, and without what no value could fit."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's hook
        """Leave out titles made from member names: tokens that say nothing."""
        return False

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JSONObject:
        """Write a time without offset as a format of its own: ``date-time`` demands one (RFC 3339 section 5.6)."""
        written = super().datetime_schema(schema)
        naive = schema.get("tz_constraint") == "naive" and written.get("format") == "date-time"
        return written | {"format": "date-time-local"} if naive else written

    def dict_schema(self, schema: core_schema.DictSchema) -> JSONObject:
        """Add how keys are spelled that are no text: pydantic leaves it open, and reads ``"01"`` and ``" 1"`` as 1."""
        spelled = _KEYS.get(schema.get("keys_schema", {}).get("type", ""))
        return super().dict_schema(schema) | ({"propertyNames": spelled} if spelled else {})

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JSONObject:
        """Drop the pattern of decimals: some pydantic versions write a lookahead, which linear-time engines refuse."""
        written = super().decimal_schema(schema)
        for spelling in written.get("anyOf", ()):
            spelling.pop("pattern", None)
        return written
