"""The kinds of a direct answer: text, JSON that fits a schema, or the instance of a type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from strictreply import Contract, ContractError, DirectAnswer, Invalid, Valid
from strictreply.core import Answer
from support.openai_shapes import message


def refuse_test_orders(value: str) -> str:
    """A validator of the user's own, that quotes what it refuses."""
    if value.startswith("test"):
        raise ValueError(f"{value!r} is a test order")
    return value


class Invoice(BaseModel):
    """An answer as a pydantic model."""

    order: Annotated[str, AfterValidator(refuse_test_orders)]
    total: float = Field(ge=0)
    due: date


@dataclass
class Point:
    """An answer as a dataclass."""

    x: int
    y: int = 0


class Mood(TypedDict):
    """An answer as a TypedDict."""

    mood: Literal["good", "bad"]


SCHEMA = {
    "title": "An Invoice!",
    "type": "object",
    "properties": {"total": {"type": "number"}},
    "required": ["total"],
}


@pytest.mark.req("T25")
@pytest.mark.parametrize(
    ("kind", "spelled", "expected"),
    [
        (str, "hi", "hi"),
        (
            Invoice,
            '{"order": "a1", "total": 2, "due": "2026-01-31"}',
            Invoice(order="a1", total=2.0, due=date(2026, 1, 31)),
        ),
        (Point, '{"x": 1}', Point(1)),
        (Mood, '{"mood": "good"}', {"mood": "good"}),
        (SCHEMA, '{"total": 2}', {"total": 2}),
        (list[int], "[1, 2]", [1, 2]),
        (Literal["yes", "no"], '"yes"', "yes"),
        (Invoice | Point, '{"x": 1, "y": 2}', Point(1, 2)),
    ],
)
def test_the_typed_answer_comes_back(kind: Any, spelled: str, expected: object) -> None:
    """The reply holds the parsed object, an instance where the answer was declared by a type, in
    both channels.
    """
    native = Contract(answer=kind).check(message(spelled))
    quoted = f'"{spelled}"' if kind is str else spelled
    text = Contract(answer=kind, channel="text").check(f'{{"answer": {quoted}}}')
    for verdict in (native, text):
        assert isinstance(verdict, Valid)
        assert isinstance(verdict.reply, DirectAnswer)
        assert verdict.reply.answer == expected
        assert type(verdict.reply.answer) is type(expected)


@pytest.mark.parametrize(
    ("kind", "spelled", "code", "path"),
    [
        (Invoice, '{"order": "a1", "total": -1, "due": "2026-01-31"}', "answer.minimum", "/total"),
        (Invoice, '{"order": "a1", "total": "2", "due": "2026-01-31"}', "answer.type", "/total"),
        (Invoice, '{"order": "a1", "total": 2, "due": "tomorrow"}', "answer.format", "/due"),
        (
            Invoice,
            '{"order": "a1", "total": 2, "due": "2026-01-31", "vat": 1}',
            "answer.extra_key",
            "",
        ),
        (Invoice, '{"order": "test1", "total": 2, "due": "2026-01-31"}', "answer.check", "/order"),
        (Point, '{"x": 1.5}', "answer.type", "/x"),
        (Point, '{"y": 1}', "answer.required", "/x"),
        (Mood, '{"mood": "fair"}', "answer.enum", "/mood"),
        (SCHEMA, "{}", "answer.required", "/total"),
        (list[int], '["1"]', "answer.type", "/0"),
        (Literal["yes", "no"], '"maybe"', "answer.enum", ""),
    ],
)
def test_an_answer_that_does_not_fit(kind: Any, spelled: str, code: str, path: str) -> None:
    """Nothing is coerced, objects are closed, and the path goes on from where the answer stands."""
    for contract, reply, root in (
        (Contract(answer=kind), message(spelled), "/content"),
        (Contract(answer=kind, channel="text"), f'{{"answer": {spelled}}}', "/answer"),
        (
            Contract(answer=kind, channel="text", answer_style="tool"),
            f'{{"tool": "final_answer", "args": {{"answer": {spelled}}}}}',
            "/args/answer",
        ),
    ):
        verdict = contract.check(reply)
        assert isinstance(verdict, Invalid)
        assert [(issue.code, issue.path) for issue in verdict.issues] == [(code, root + path)]


def test_a_validators_words_hold_no_answer() -> None:
    """The message of a type's validator is shown without the value it refused."""
    verdict = Contract(answer=Invoice).check(
        message('{"order": "test-secret", "total": 2, "due": "2026-01-31"}')
    )
    assert isinstance(verdict, Invalid)
    assert "secret" not in verdict.summary
    assert "secret" in verdict.issues[0].found


def test_extra_schema_takes_the_answers_schema_as_written() -> None:
    """With ``extra="schema"`` an answer may have members that its schema does not forbid."""
    reply = message('{"total": 2, "more": 1}')
    assert isinstance(Contract(answer=SCHEMA).check(reply), Invalid)
    assert Contract(answer=SCHEMA, extra="schema").check(reply) == Valid(
        DirectAnswer({"total": 2, "more": 1})
    )


def test_an_open_schema_stays_open() -> None:
    """A schema that lists no properties says nothing about members, so any object answers."""
    assert Contract(answer={"type": "object"}).check(message('{"any": 1}')) == Valid(
        DirectAnswer({"any": 1})
    )


def test_formats_can_be_remarks() -> None:
    """``formats="annotate"`` lets a format be a remark in the answer's schema."""
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date"}}}
    reply = message('{"at": "tomorrow"}')
    assert isinstance(Contract(answer=schema).check(reply), Invalid)
    assert isinstance(Contract(answer=schema, formats="annotate").check(reply), Valid)


@pytest.mark.parametrize(
    "kind", ["Nothing", object(), lambda: None, {"type": "strnig"}, {"$ref": "#/nowhere"}]
)
def test_an_answer_that_cannot_be_declared(kind: object) -> None:
    """An answer that is neither text, type nor schema is refused when it is declared."""
    with pytest.raises(ContractError):
        Contract(answer=kind)


@pytest.mark.parametrize("kind", [3, 1.5, True, b"x", [Point], (Point,), {1}, Point(1)])
def test_a_value_in_place_of_a_type_is_named(kind: object) -> None:
    """The error says that the type itself is taken, instead of what pydantic says of the value."""
    with pytest.raises(ContractError, match="itself, not"):
        Contract(answer=kind)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Invoice, "Invoice"),
        (Point, "Point"),
        (SCHEMA, "An_Invoice_"),
        ({"type": "object"}, "answer"),
        ({"title": "é" * 100}, "_" * 64),
        (list[int], "list"),
    ],
)
def test_an_answers_schema_has_a_name_that_servers_take(kind: object, name: str) -> None:
    """``response_format`` needs a name of at most 64 letters, digits, ``_`` and ``-``."""
    assert Answer.of(kind).name == name


def test_the_document_is_what_the_model_is_shown() -> None:
    """Text is shown as a string that is not empty, anything else as its own schema."""
    assert Answer.of(str).document == {"type": "string", "minLength": 1}
    assert Answer.of(SCHEMA).document == {**SCHEMA, "additionalProperties": False}
    assert Answer.of(SCHEMA, extra="schema").document == SCHEMA
