"""The laws of ``strictreply.contract._models``.

Models are compiled once, kept while the owner lives, never stale.
"""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, create_model, field_validator
from typing_extensions import TypedDict

from strictreply import Contract, Tool
from strictreply.contract._models import BYTES_OF_CHAR, KEPT_BYTES, KEPT_REQUESTS, ByText, kept_on
from strictreply.core import Answer
from strictreply.core.tools import tools_of
from support.openai_shapes import message

KEPT_CHARS = KEPT_BYTES // BYTES_OF_CHAR


class Refund(BaseModel):
    """Pay money back."""

    order: str


@dataclass
class Line:
    """A line of an order."""

    count: int


class Place(TypedDict):
    """A place."""

    city: str


def search(query: str) -> str:
    """Find things."""
    return query


def definition(number: int) -> dict[str, Any]:
    """Return a tool definition like no other."""
    return {
        "type": "function",
        "function": {"name": f"tool_{number}", "parameters": {"type": "object"}},
    }


@pytest.mark.parametrize("declaration", [Refund, Line, Place, search])
def test_a_class_or_function_is_compiled_once(declaration: object) -> None:
    """Declaring the same class or function again returns the same tool; other strictness is another
    tool.
    """
    assert Tool.of(declaration) is Tool.of(declaration)
    assert Tool.of(declaration, extra="schema") is not Tool.of(declaration)
    assert Tool.of(declaration, formats="annotate") is not Tool.of(declaration)


@pytest.mark.parametrize("kind", [Refund, Line, Place, {"type": "object", "title": "Made_here"}])
def test_an_answer_is_compiled_once(kind: object) -> None:
    """The same type or schema as the answer of two requests is compiled once, and is no tool."""
    assert Answer.of(kind) is Answer.of(kind)
    assert Answer.of(kind, extra="schema") is not Answer.of(kind)
    assert isinstance(Answer.of(kind), Answer)


def test_no_number_of_definitions_is_too_large() -> None:
    """A request may bring more definitions than are kept for all others together: none is compiled
    again.
    """
    definitions = [definition(number) for number in range(700)]
    first = tools_of(definitions)
    again = tools_of(copy.deepcopy(definitions))
    assert len(first) == 700
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_what_is_kept_by_text_is_bounded() -> None:
    """The texts used longest ago go first, and of the request at hand none is let go."""
    kept = ByText[object]()
    texts = [str(number) * (KEPT_CHARS // 100) for number in range(10)]
    for text in texts * 30:
        _, length = kept.get(text, (), lambda _: object())
        kept.trim([length])

    first, length = kept.get(texts[0], (), lambda _: object())
    assert kept.get(texts[0], (), lambda _: object())[0] is first
    large = ["x" * KEPT_CHARS + str(number) for number in range(3)]
    made = [kept.get(text, (), lambda _: object()) for text in large]
    kept.trim([length for _, length in made])

    assert [kept.get(text, (), lambda _: object()) for text in large] == made
    kept.trim([1])
    assert kept.get(large[0], (), lambda _: object()) != made[0]
    assert KEPT_REQUESTS > 1


def test_definitions_given_one_by_one_are_bounded_too() -> None:
    """A program that declares definitions without end, one at a time, keeps the last ones only."""

    def large(number: int) -> dict[str, Any]:
        function = {"name": f"tool_{number}", "description": "x" * (KEPT_CHARS // 10)}
        return {"type": "function", "function": function}

    first = Tool.of(large(0))
    assert Tool.of(large(0)) is first

    for number in range(1, 12):
        Tool.of(large(number))

    assert Tool.of(large(0)) is not first


def test_what_is_no_plain_json_is_made_anew() -> None:
    """A value without a text is given to the maker as it is, each time."""
    kept = ByText[object]()
    value = {"a": {1, 2}}
    assert kept.get(value, (), lambda given: given) == (value, 0)
    assert kept.get(value, (), lambda given: [given])[0] == [value]


def made_function() -> Callable[[str], str]:
    """Return a function of its own."""

    def made(query: str) -> str:
        return query

    return made


@pytest.mark.parametrize("make", [lambda: create_model("Made", order=(str, ...)), made_function])
def test_what_is_kept_dies_with_its_owner(make: Callable[[], Any]) -> None:
    """A class or function that nobody holds any more is collected, with what was made of it."""
    owner = make()
    Tool.of(owner)
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "text", ['{"price": 1.5}', '{"price": "x"}', '{"price": 9007199254740993}']
)
def test_what_a_check_needs_dies_with_the_type(text: str) -> None:
    """A type that a reply was checked against is freed, also if its values had to be compared or
    its own rules were asked.
    """

    class Priced(BaseModel):
        """A price with a rule of its own."""

        price: float

        @field_validator("price")
        @classmethod
        def _is_positive(cls, price: float) -> float:
            assert price > 0
            return price

    told = weakref.ref(Priced)
    Contract(answer=Priced).check(message(text))

    del Priced
    gc.collect()
    assert told() is None


def test_a_copy_of_the_attributes_is_not_taken_for_the_owner() -> None:
    """A wrapper that took over a function's attributes is a tool of its own."""
    Tool.of(search)

    @functools.wraps(search)
    def wrapper(query: str) -> str:
        return search(query)

    assert Tool.of(wrapper).function is wrapper
    assert Tool.of(search).function is search


def test_a_subclass_is_not_taken_for_its_base() -> None:
    """The tool of a class is not used for its subclasses."""
    Tool.of(Refund)

    class Larger(Refund):
        """Pay more back."""

        amount: int

    assert Tool.of(Larger).name == "Larger"
    assert "amount" in Tool.of(Larger).parameters.names


def test_a_change_of_the_owner_is_seen() -> None:
    """New words of a function, other defaults, or a model that was built anew, are another
    declaration.
    """

    def find(query: str, limit: int = 3) -> str:
        """Find little."""
        return query * limit

    assert Tool.of(find).description == "Find little."
    find.__doc__ = "Find much."
    assert Tool.of(find).description == "Find much."
    find.__defaults__ = (9,)

    source: Any = Tool.of(find).parameters.source
    assert source["properties"]["limit"]["default"] == 9

    class Open(BaseModel):
        size: int

    before = Tool.of(Open)
    Open.model_rebuild(force=True)
    assert Tool.of(Open) is not before
    assert Tool.of(Open) is Tool.of(Open)


def test_what_is_kept_does_not_travel() -> None:
    """Pickling or copying the attributes of a class or function leaves out the compiled tool."""
    Tool.of(search)
    attributes = vars(search)
    # The pickle is our own.
    assert pickle.loads(pickle.dumps(attributes)).keys() == attributes.keys()  # noqa: S301
    ((name, kept),) = [one for one in copy.deepcopy(attributes).items() if "strictreply" in one[0]]
    assert kept.made == {}
    assert vars(search)[name].made


def test_an_owner_that_holds_no_attribute() -> None:
    """For a type that cannot hold attributes, and for a value that is no type, the result is made
    each time.
    """
    assert kept_on(int, (), list) is not kept_on(int, (), list)
    assert kept_on(list[int], (), list) is not kept_on(list[int], (), list)
    assert kept_on(Refund, ("a test",), list) is kept_on(Refund, ("a test",), list)


def test_a_failure_is_not_kept() -> None:
    """A failed compilation is tried again: a type that a model refers to may be defined later."""
    outcomes = iter([ValueError("not yet"), [1]])

    def make() -> object:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(ValueError, match="not yet"):
        kept_on(Refund, ("fails",), make)

    assert kept_on(Refund, ("fails",), make) == [1]
