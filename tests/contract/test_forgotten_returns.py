"""Validators of models that end without ``return`` are refused where the type is declared."""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Any, Literal

import pydantic
import pytest
from pydantic import create_model, field_validator, model_validator

from strictreply import Contract, ContractError, Tool, Valid
from support.openai_shapes import message


def _after(self: Any) -> Any:
    """Check, and forget to return."""
    if self.number < 0:
        raise ValueError("negative")


def _before(_: Any, data: Any) -> Any:
    """Look, and forget to return."""
    assert data


def _wrapped(_: Any, data: Any, handler: Callable[[Any], Any]) -> Any:
    """Hand on, and forget to return."""
    handler(data)


FORGETFUL: dict[str, Any] = {
    "after": _after,
    "before": classmethod(_before),
    "wrap": classmethod(_wrapped),
}


def _line(mode: Any, function: Any) -> Any:
    """Make a model with one validator of the whole."""
    own: Any = model_validator(mode=mode)
    return create_model("Line", number=(int, ...), __validators__={"own": own(function)})


def _described(kind: Any) -> list[Any]:
    """Return ways to declare a type that has the type in it."""
    listed: Any = GenericAlias(list, (kind,))
    many = create_model("Many", lines=(listed, ...), first=(kind, ...))
    return [kind, GenericAlias(list, (kind,)), many, kind | None]


@pytest.mark.parametrize("mode", FORGETFUL)
def test_a_validator_that_forgets_to_return_is_named(mode: str) -> None:
    """Each way to declare the model is refused, as an answer and as a tool; the error has the name
    of the function.
    """
    line = _line(mode, FORGETFUL[mode])
    for kind in _described(line):
        with pytest.raises(ContractError, match=f"_{mode}"):
            Contract(answer=kind)

    for declared in (line, create_model("Args", line=(line, ...))):
        with pytest.raises(ContractError, match=f"_{mode}"):
            Tool.of(declared)


def test_a_validator_of_a_pydantic_dataclass_counts_too() -> None:
    """A dataclass of pydantic has the same validators."""

    @pydantic.dataclasses.dataclass
    class Point:
        """A point whose check forgets to return."""

        x: int

        @model_validator(mode="after")
        def _own(self) -> Any:
            assert self.x

    with pytest.raises(ContractError, match="_own"):
        Contract(answer=Point)


def _raises(_: Any) -> Any:
    raise ValueError("never")


FINE: dict[str, Any] = {
    "returns": ("after", lambda self: self),
    "one of two": ("after", lambda self: self if self.number else None),
    "or": ("before", classmethod(lambda _, data: data or None)),
    "only raises": ("after", _raises),
    "callable": ("wrap", classmethod(lambda _, data, handler: handler(data))),
}


@pytest.mark.parametrize("case", FINE)
def test_a_validator_that_may_return_a_value_is_accepted(case: str) -> None:
    """One return with a value is enough, and so is none at all."""
    mode, function = FINE[case]
    assert Contract(answer=_line(mode, function)).answer.schema is not None


@pytest.mark.parametrize("kind", [int, str, list[int], Literal["EUR"], set[str]])
@pytest.mark.parametrize("mode", ["after", "before", "wrap"])
def test_a_validator_of_a_field_that_forgets_to_return_is_named(kind: Any, mode: Any) -> None:
    """The value of a field that cannot be None would break its own type."""

    def forgets(_: Any, value: Any) -> None:
        assert value

    def forgets_to_hand_on(_: Any, value: Any, handler: Any) -> None:
        handler(value)

    validator: Any = field_validator("price", mode=mode)
    function: Any = forgets_to_hand_on if mode == "wrap" else forgets
    own = validator(classmethod(function))
    priced = create_model("Priced", price=(kind, ...), __validators__={"own": own})
    with pytest.raises(ContractError, match=r"Priced\.price.*forgets"):
        Contract(answer=priced)


def test_a_field_may_become_none() -> None:
    """A validator of a field, or around a model in a field, may return None: it is the field's
    value.
    """
    plain = create_model("Plain", number=(int, ...))

    class Order(pydantic.BaseModel):
        """An order whose note is dropped."""

        note: str | None
        line: plain | None  # type: ignore[valid-type]

        @field_validator("note", "line")
        @classmethod
        def _drop(cls, _: Any) -> None:
            return None

    verdict = Contract(answer=Order).check(message('{"note": "x", "line": {"number": 1}}'))
    assert isinstance(verdict, Valid)
    assert verdict.reply.answer == Order.model_construct(note=None, line=None)  # type: ignore[union-attr]
