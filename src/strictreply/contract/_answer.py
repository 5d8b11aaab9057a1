"""The kinds of a direct answer: text, an instance of a pydantic type, or JSON of a schema.

An answer can also be followed while it is still written.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import partial
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Generic, Union, get_args, get_origin

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, RootModel, TypeAdapter
from pydantic.fields import FieldInfo

from strictreply.contract._fidelity.documents import paths_of
from strictreply.contract._models import (
    UNREADABLE,
    ByText,
    adapter_of,
    document_of,
    instance_of,
    kept_on,
)
from strictreply.contract._own_rules import own_issues
from strictreply.contract._tagged import with_required_tags
from strictreply.contract._tool import Tool
from strictreply.reading._incremental import Partial
from strictreply.schema import Schema
from strictreply.values._drafts import Draft
from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue, pointer_tokens, quote
from strictreply.values._limits import JSON, Extra, Formats, Work
from strictreply.values._replies import A_co, Invalid, ToolCall, Verdict

# the tool that carries the answer with ``answer_style="tool"`` (requirement T14)
FINAL_ANSWER = "final_answer"
_VALUES = (bool, int, float, complex, bytes, list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class Answer(Generic[A_co]):
    """The kind of answer that a contract accepts."""

    schema: Schema | None = None
    """The schema of the answer; None for text."""
    adapter: TypeAdapter[Any] | None = None
    """Converts the answer into an instance; None for text and plain JSON Schemas."""
    blank: bool = False
    """Whether a text of only whitespace is accepted."""
    name: str = "answer"
    """The name of the schema in ``response_format``."""
    kind: Any = None
    """The type of the instance; None without an adapter."""
    extra: Extra = "forbid"
    """What happens to keys that the schema does not mention: ``forbid`` rejects them."""

    @classmethod
    def of(
        cls,
        kind: object,
        *,
        extra: Extra = "forbid",
        formats: Formats = "assert",
        blank: bool = False,
        is_strangers: bool = False,
    ) -> Answer[Any]:
        """Compile ``str``, a pydantic type or a JSON Schema; return an Answer unchanged.

        With ``is_strangers`` the schema is rejected if no example of it can be built. Raises
        ContractError for anything else.
        """
        if isinstance(kind, Answer):
            return kind
        if kind is str:
            return cls(blank=blank)

        how = (cls, extra, formats, is_strangers)
        make = partial(cls._made, extra=extra, formats=formats, is_strangers=is_strangers)
        if isinstance(kind, Mapping):
            answer, length = _DESCRIBED.get(kind, how, make)
            _DESCRIBED.trim([length])
            return answer

        if inspect.isroutine(kind):  # pydantic would treat it as a type, and call it
            raise ContractError("answer= must be str, a type or a JSON Schema, not a function")
        if isinstance(kind, Tool):
            raise ContractError("answer= must be str, a type or a JSON Schema; a tool is in tools=")
        if _is_instance(kind):
            name = type(kind).__name__
            several = "; for several, write list[…]" if isinstance(kind, list | tuple) else ""
            raise ContractError(
                f"answer= takes the type {name} itself, not an instance of it{several}"
            )

        return kept_on(kind, how, partial(make, kind))

    @classmethod
    def _made(
        cls, kind: object, *, extra: Extra, formats: Formats, is_strangers: bool
    ) -> Answer[object]:
        adapter = None if isinstance(kind, Mapping) else adapter_of(kind, "answer")
        document: Any = (
            kind if adapter is None else with_required_tags(document_of(adapter, "answer"))
        )
        title = document.get("title") if adapter is None else getattr(kind, "__name__", "")
        schema = Schema.compile(
            document,
            extra=extra,
            formats=formats,
            root_closed=False,
            unicode_patterns=adapter is not None,
        )
        schema.require_example("the answer", is_strangers=is_strangers)

        # response_format accepts letters, digits, _ and -, at most 64
        title = title if isinstance(title, str) else ""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", title)[:64] or "answer"
        kind = None if adapter is None else kind
        return cls(schema, adapter, name=name, kind=kind, extra=extra)

    @property
    def is_text(self) -> bool:
        """Whether any text is an answer: there is no schema, and no subclass that judges."""
        return self.schema is None and type(self) is Answer

    @property
    def document(self) -> JSON:
        """The JSON Schema of the answer that the model sees."""
        return {"type": "string", "minLength": 1} if self.schema is None else self.schema.shown

    def judge(self, value: JSON, at: str, work: Work | None = None) -> object | Invalid:
        """Return the typed answer for a JSON value, or Invalid with its faults.

        ``at`` and ``work`` are as in :meth:`Schema.check`.
        """
        if self.schema is None:
            return self._judge_text(value, at)

        work = Work() if work is None else work
        issues = self.schema.check(
            value, at=at, place="answer", work=work, built=self.adapter is not None
        )
        if self.adapter is None:
            return Invalid(issues) if issues else value

        how: dict[str, Any]
        if issues:
            how = {"schema": self.schema, "place": "answer", "work": work}
            own = own_issues(self.adapter, value, issues, at=at, **how)
            return Invalid((*issues, *own))

        how = {"place": "answer", "work": work, "extra": self.extra}
        return instance_of(self.adapter, value, at=at, names=self.schema.names, **how)

    def _judge_text(self, value: JSON, at: str) -> str | Invalid:
        """Judge a text, which must not be blank."""
        if not isinstance(value, str):
            return Invalid(
                (Issue.of(Code.SHAPE_WRONG_TYPE, at, expected="a string", found=quote(value)),)
            )

        if not value.strip() and not (self.blank and value):
            return Invalid((Issue.of(Code.SHAPE_EMPTY, at, found=quote(value)),))

        return value

    # subclasses override the next two methods
    def judge_draft(self, draft: Draft) -> Verdict | None:  # noqa: ARG002
        """Judge a whole native reply; None, as here, leaves that to the contract.

        A subclass overrides it for an answer that is more than a text.
        """
        return None

    def calls_in(self, answer: object) -> tuple[ToolCall, ...]:  # noqa: ARG002
        """Return the calls inside a typed answer, in the order of ``tool_calls``; here none."""
        return ()


_DESCRIBED: ByText[Answer[Any]] = ByText()


# By the name of a member in JSON: its attribute, its type, and its reader; the reader is None if
# reading needs the whole object.
def _is_instance(kind: object) -> bool:
    """Return whether a value was given in place of its type."""
    if isinstance(kind, BaseModel):
        return True
    if hasattr(kind, "__get_pydantic_core_schema__"):  # an object that describes a type
        return False

    return isinstance(kind, _VALUES) or (is_dataclass(kind) and not isinstance(kind, type))


_Members = dict[str, tuple[str, Any, "TypeAdapter[Any] | None"]]


class PartialAnswer:
    """Builds the typed answer of one stream while it arrives.

    ``names`` are the member names of the contract.
    """

    def __init__(
        self,
        kind: object,
        adapter: TypeAdapter[object],
        names: Collection[str],
        extra: Extra = "forbid",
    ) -> None:
        self._root = _Open(kind, adapter, extra)
        self._names = names
        self._is_lost = False

    def grown(self, partial: Partial[object]) -> object:
        """Return the answer with all that is final; None until there is something to show."""
        if not self._is_lost:
            steps: list[str] | None = None
            if partial.open:
                steps = [pointer_tokens(path)[-1] for path in partial.open[1:]]

            self._is_lost = not self._root.grow(partial.value, steps, self._names)

        return self._root.made


class _Open:
    """A value that is still arriving: a model or a list, with its final parts.

    A value of any other type is not shown until it is complete.
    """

    def __init__(self, kind: Any, adapter: TypeAdapter[object], extra: Extra) -> None:
        kind = _bare(kind)
        self._extra: Extra = extra
        self._adapter = adapter
        item: Any = next(iter(get_args(kind)), None) if get_origin(kind) is list else None
        of_item = None if item is None else _adapter(item, None)

        self._members = _members_of(kind)
        self._items = None if of_item is None else (item, of_item)
        self._count = 0  # of the members or items that are final
        self._child: tuple[str, _Open] | None = None

        self.made: Any = None
        if self._members is not None:
            self.made = _without_members(kind)
        elif self._items is not None:
            self.made = []

    def grow(self, value: JSON, steps: list[str] | None, names: Collection[str]) -> bool:
        """Add what is final, and return whether the type accepts it.

        ``steps`` lead to the open value; None if none is open.
        """
        if steps is None:
            whole = instance_of(self._adapter, value, at="", names=names, extra=self._extra)
            self.made = self.made if isinstance(whole, Invalid) else whole
            return not isinstance(whole, Invalid)

        open_count = len(steps[:1])
        fresh: Iterable[tuple[str, JSON]]

        if isinstance(value, dict) and self._members is not None:
            fresh = [*islice(reversed(value.items()), open_count, len(value) - self._count)][::-1]
        elif isinstance(value, list) and self._items is not None:
            final = range(self._count, len(value) - open_count)
            fresh = [(str(index), value[index]) for index in final]
        else:
            return True

        self._count = len(value) - open_count
        fits = all(self._take(key, whole, None, names) for key, whole in fresh)
        if not fits or not steps:
            return fits

        inner: Any = value
        key = steps[0]
        inner = inner[key if isinstance(value, dict) else int(key)]
        return self._take(key, inner, steps[1:], names)

    def _take(self, key: str, value: JSON, steps: list[str] | None, names: Collection[str]) -> bool:
        of_item = (key, *(self._items or (None, None)))
        attribute, kind, adapter = (self._members or {}).get(key, of_item)
        if adapter is None:
            return True  # of no member of the model, or shown with the whole

        if steps is None:
            shown = instance_of(adapter, value, at="", names=names, extra=self._extra)
            fits = not isinstance(shown, Invalid)
        else:
            if self._child is None or self._child[0] != key:
                self._child = key, _Open(kind, adapter, self._extra)

            fits = self._child[1].grow(value, steps, names)
            shown = self._child[1].made
            if shown is None:
                return fits

        if fits and isinstance(self.made, list):
            self.made[int(key) :] = [shown]
        elif fits:
            vars(self.made)[attribute] = shown
            self.made.model_fields_set.add(attribute)

        return fits


def _without_members(kind: type[BaseModel]) -> BaseModel:
    """Return an instance without any member.

    No default stands for what is not there yet, and no default is made.
    """
    made = kind.__new__(kind)
    state: dict[str, Any] = {
        "__dict__": {},
        "__pydantic_fields_set__": set(),
        "__pydantic_private__": None,
        "__pydantic_extra__": {} if kind.model_config.get("extra") == "allow" else None,
    }
    BaseModel.__setstate__(made, state)  # as pydantic itself makes one of a pickle
    return made


def _bare(kind: object) -> object:
    """Return a type without its annotations, and without the None beside it in a union."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]

    others = [one for one in get_args(kind) if one is not type(None)]
    is_optional = get_origin(kind) in (Union, UnionType) and len(others) == 1
    return _bare(others[0]) if is_optional else kind


def _members_of(kind: object) -> _Members | None:
    """Return the members of a model that can be shown in part.

    None for a type that only makes sense whole.
    """
    if not isinstance(kind, type) or not issubclass(kind, BaseModel) or issubclass(kind, RootModel):
        return None
    return kept_on(kind, (PartialAnswer,), lambda: _read(kind))


def _read(kind: type[BaseModel]) -> _Members | None:
    rules = kind.__pydantic_decorators__
    own_code = (
        kind.__init__ is not BaseModel.__init__
        or kind.model_post_init is not BaseModel.model_post_init
    )
    if rules.model_validators or rules.root_validators or rules.computed_fields or own_code:
        return None  # it is written for whole instances

    checking: list[Any] = [*rules.field_validators.values(), *rules.validators.values()]
    own = {name for rule in checking for name in rule.info.fields}
    members: _Members = {}

    for name, field in kind.model_fields.items():
        read: Any = field.annotation
        if field.metadata:
            read = Annotated[field.annotation, *field.metadata]

        is_alone = not (own & {name, "*"} or field.discriminator)
        adapter = _adapter(read, kind.model_config) if is_alone else None
        for spelled in _names_of(kind, name, field):
            members[spelled] = (name, field.annotation, adapter)

    return members


def _names_of(kind: type[BaseModel], name: str, field: FieldInfo) -> list[str]:
    """Return the member of an object that a model is shown for a field, if there is one."""
    alias = field.validation_alias
    listed: Any = alias
    if isinstance(alias, AliasChoices | AliasPath):
        listed = alias.convert_to_aliases()

    declared = {} if listed is None else {"validation_alias": listed}
    config: Any = kind.model_config
    return [str(path[0]) for path in paths_of(name, declared, config) if len(path) == 1][:1]


def _adapter(read: Any, config: ConfigDict | None) -> TypeAdapter[object] | None:
    """Return what reads a type by the configuration around it.

    None for a type that cannot be read by itself.
    """
    for one in (config, None):  # a model has a configuration of its own
        with suppress(*UNREADABLE):
            return TypeAdapter(read, config=one)

    return None
