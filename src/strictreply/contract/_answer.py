"""What a direct answer may be: text, a pydantic type's instance, or JSON that fits a schema."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic

from pydantic import TypeAdapter

from strictreply.contract._models import adapter_of, document_of, instance_of
from strictreply.contract._reuse import ByText, kept_on
from strictreply.schema import Schema
from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._json import JSON, Extra, Formats
from strictreply.values._limits import Work
from strictreply.values._replies import A_co, Invalid, ToolCall, Verdict

FINAL_ANSWER = "final_answer"
"""The tool that carries the answer with ``answer_style="tool"`` (requirement T14)."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[A_co]):
    """The kind of answer a contract admits.

    ``schema`` is None for text. ``adapter`` makes the typed answer from JSON, None for text and plain JSON Schemas.
    ``blank`` admits text of white space only. ``name`` is what the schema is called in ``response_format``. ``kind`` is
    the type that the adapter makes.
    """

    schema: Schema | None = None
    adapter: TypeAdapter[Any] | None = None
    blank: bool = False
    name: str = "answer"
    kind: Any = None

    @classmethod
    def of(
        cls, kind: object, *, extra: Extra = "forbid", formats: Formats = "assert", blank: bool = False
    ) -> Answer[Any]:
        """Compile ``str``, a pydantic type or a JSON Schema; raises ContractError for anything else.

        An Answer is taken as it is: it knows itself how strict it is.
        """
        if isinstance(kind, Answer):
            return kind
        if kind is str:
            return cls(blank=blank)
        how = (cls, extra, formats)
        if isinstance(kind, Mapping):
            answer, length = _DESCRIBED.get(kind, how, lambda schema: cls._from_schema(schema, extra, formats))
            _DESCRIBED.trim([length])
            return answer
        if inspect.isroutine(kind):  # pydantic would take it for a type, and call it
            raise ContractError("an answer is str, a type or a JSON Schema, not a function")
        return kept_on(kind, how, lambda: cls._from_type(kind, extra, formats))

    @classmethod
    def _from_schema(cls, document: Mapping[str, Any], extra: Extra, formats: Formats) -> Answer[Any]:
        title = document.get("title")
        schema = Schema.compile(document, extra=extra, formats=formats, root_closed=False)
        schema.refuse_contradictions("the answer")
        return cls(schema, name=_schema_name(title if isinstance(title, str) else ""))

    @classmethod
    def _from_type(cls, kind: object, extra: Extra, formats: Formats) -> Answer[Any]:
        adapter = adapter_of(kind, "answer")
        schema = Schema.compile(document_of(adapter, "answer"), extra=extra, formats=formats, root_closed=False)
        schema.refuse_contradictions("the answer")
        return cls(schema, adapter, name=_schema_name(getattr(kind, "__name__", "")), kind=kind)

    @property
    def is_text(self) -> bool:
        """Whether any text is an answer: no schema, and no judgement of a kind of its own."""
        return self.schema is None and type(self) is Answer

    @property
    def document(self) -> JSON:
        """The JSON Schema of the answer, as it is shown to the model."""
        return {"type": "string", "minLength": 1} if self.schema is None else self.schema.shown

    def judge(self, value: JSON, at: str, work: Work | None = None) -> Any | Invalid:
        """Return the typed answer that ``value`` spells, or what is wrong with it; ``work`` as in ``Schema.check``."""
        if self.schema is None:
            return self._judge_text(value, at)
        issues = self.schema.check(value, at=at, place="answer", work=work, built=self.adapter is not None)
        if issues:
            return Invalid(issues)
        if self.adapter is None:
            return value
        return instance_of(self.adapter, value, at=at, names=self.schema.names, place="answer", work=work)

    def judge_message(self, message: object) -> Verdict | None:  # noqa: ARG002 - for a kind that has something to say
        """Judge a whole message of the native channel; None, as here, leaves its calls and its content to the channel.

        For a kind of answer that is more than the content, such as an action of coordination.
        """
        return None

    def calls_in(self, answer: Any) -> tuple[ToolCall, ...]:  # noqa: ARG002 - the same
        """Return the calls inside a typed answer, in the order of their ``tool_calls``; none, as here."""
        return ()

    def _judge_text(self, value: JSON, at: str) -> str | Invalid:
        """Admit text that says something (requirement T8)."""
        if not isinstance(value, str):
            return Invalid((Issue.of(Code.SHAPE_WRONG_TYPE, at, expected="a string", found=quote(value)),))
        if not value.strip() and not (self.blank and value):
            return Invalid((Issue.of(Code.SHAPE_EMPTY, at, found=quote(value)),))
        return value


_DESCRIBED: ByText[Answer[Any]] = ByText()


def _schema_name(text: str) -> str:
    """Return a name as ``response_format`` demands it: letters, digits, ``_`` and ``-``, at most 64."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)[:64] or "answer"
