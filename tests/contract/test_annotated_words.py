"""The laws of words in annotations: each arrives in the schema, at its own place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import Doc, TypeAliasType, TypedDict

import strictreply as sr
from strictreply.core import JSON

T = TypeVar("T")
Metres = TypeAliasType("Metres", Annotated[float, "in metres"])
NESTED: Any = list["Tree"]
Tree = TypeAliasType("Tree", Annotated[int, "a leaf"] | NESTED)


class Item(BaseModel):
    """A model with words in all its fields."""

    amount: Annotated[int, "of the item"]
    codes: list[Annotated[str, "of a code"]] = []
    size: Optional[Annotated[int, Doc("of the size")]] = None  # noqa: UP045 - as users write it
    kind: Annotated[Literal["a"], "of the kind"] = "a"
    own: Annotated[int, "not this"] = Field(3, description="of its Field")
    inner: list[Item] = []


class Aliased(BaseModel):
    """A model whose members have other names in JSON."""

    model_config = ConfigDict(alias_generator=str.upper)

    plain: Annotated[int, "of plain"]
    chosen: Annotated[int, "of chosen"] = Field(validation_alias=AliasChoices("first", "second"))


@dataclass
class Point:
    """A dataclass of the standard library."""

    x: Annotated[int, "of x"]
    tags: dict[str, Annotated[int, "of a tag"]]


@pydantic_dataclass
class Place:
    """One of pydantic's."""

    name: Annotated[str, "of the name"]
    point: Point


class Person(TypedDict):
    """A TypedDict."""

    age: Annotated[int, "of the age"]
    nick: NotRequired[Annotated[str, "of the nick"]]
    title: Annotated[NotRequired[str], "of the title"]


class Pair(NamedTuple):
    """A NamedTuple."""

    left: Annotated[int, "of the left"]
    right: list[Annotated[int, "of a right"]]


class Page(BaseModel, Generic[T]):
    """A generic model."""

    items: list[T]


@dataclass
class Box(Generic[T]):
    """A generic dataclass."""

    first: T
    rest: Annotated[list[T], "of the rest"]


class Names(RootModel[list[Annotated[str, "of a root"]]]):
    """A model that is its one value."""


def described(schema: JSON) -> Iterator[str]:
    """Yield each description in a schema, but for those of classes."""
    if isinstance(schema, dict):
        words = schema.get("description")
        if isinstance(words, str) and not words.endswith("."):
            yield words
        for below in schema.values():
            yield from described(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from described(below)


ITEM = ["of a code", "of its Field", "of the item", "of the kind", "of the size"]
CASES: list[tuple[Any, list[str]]] = [
    (list[Annotated[int, "of an item"]], ["of an item"]),
    (Sequence[Annotated[int, "of an item"]], ["of an item"]),
    (Iterable[Annotated[int, "of an item"]], ["of an item"]),
    (set[Annotated[int, "of an item"]], ["of an item"]),
    (tuple[Annotated[int, "of one"], Annotated[str, "of two"]], ["of one", "of two"]),
    (tuple[Annotated[int, "of each"], ...], ["of each"]),
    (dict[str, Annotated[int, "of a value"]], ["of a value"]),
    (dict[Annotated[str, Field(pattern="^a")], Annotated[int, "of a value"]], ["of a value"]),
    (Optional[Annotated[int, "of a number"]], ["of a number"]),  # noqa: UP045 - another object
    (Annotated[int, "of a number"] | None, ["of a number"]),
    (Annotated[int, "of int"] | Annotated[str, Doc("of str")], ["of int", "of str"]),
    (Annotated[int, "of int"] | None | Annotated[str, "of str"], ["of int", "of str"]),
    (str | Annotated[Annotated[int, "inner"] | None, "outer"], ["inner"]),
    (list[Annotated[list[Annotated[int, "inner"]], "outer"]], ["inner", "outer"]),
    (Metres, ["in metres"]),
    (list[Metres], ["in metres"]),
    (Tree, ["a leaf"]),
    (Item, ITEM),
    (list[Item], ITEM),
    (Annotated[Item, "of one item"] | None, [*ITEM, "of one item"]),
    (Aliased, ["of chosen", "of plain"]),
    (Point, ["of a tag", "of x"]),
    (Place, ["of a tag", "of the name", "of x"]),
    (Person, ["of the age", "of the nick", "of the title"]),
    (Pair, ["of a right", "of the left"]),
    (Page[Annotated[int, "of a page"]], ["of a page"]),
    (Box[Annotated[int, "of a box"]], ["of a box", "of the rest"]),
    (Names, ["of a root"]),
]


@pytest.mark.parametrize(("kind", "words"), CASES, ids=[str(case[0]) for case in CASES])
def test_words_arrive_in_every_place(kind: Any, words: list[str]) -> None:
    """A parameter of a function, and the type of an answer, are described by their annotations."""

    def act(given: Any) -> None:
        """Act."""

    act.__annotations__["given"] = kind
    parameters = sr.Tool.from_function(act).definition["function"]["parameters"]
    assert set(described(parameters)) == set(words)

    answer = sr.Contract(answer=kind).answer
    assert set(described(answer.document)) == set(words)


@pytest.mark.parametrize("kind", [Item, Point, Place, Person])
def test_words_arrive_in_a_tool_of_a_class(kind: Any) -> None:
    """A class that is declared as a tool is described like one that is a parameter."""
    (words,) = (words for one, words in CASES if one is kind)
    parameters = sr.Tool.from_model(kind).definition["function"]["parameters"]
    assert set(described(parameters)) == set(words)


def test_words_stand_at_their_own_place() -> None:
    """The words of a branch, an item or a field are those of its own schema."""

    def act(
        a: list[Annotated[int, "of an item"]], b: Annotated[int, "of int"] | list[Item]
    ) -> None:
        """Act."""

    parameters = sr.Tool.from_function(act).definition["function"]["parameters"]
    assert parameters["properties"]["a"] == {
        "items": {"description": "of an item", "type": "integer"},
        "type": "array",
    }
    whole, many = parameters["properties"]["b"]["anyOf"]
    assert whole == {"description": "of int", "type": "integer"}
    assert many["items"] == {"$ref": "#/$defs/Item"}
    fields = parameters["$defs"]["Item"]["properties"]
    assert fields["amount"] == {"description": "of the item", "type": "integer"}
    assert fields["own"]["description"] == "of its Field"


LEAVES = st.sampled_from([int, str, bool, float])


@st.composite
def worded(draw: st.DrawFn, depth: int = 0) -> tuple[Any, int]:
    """Draw a type and how many texts its annotations have."""
    form = draw(st.sampled_from(["leaf", "list", "dict", "tuple", "optional", "union"]))
    if form == "leaf" or depth > 2:
        return Annotated[draw(LEAVES), f"words {draw(st.integers(0, 9**9))}"], 1

    few = 1 if form != "tuple" else draw(st.integers(1, 3))
    parts = [draw(worded(depth + 1)) for _ in range(few + (form == "union"))]
    inner: Any = parts[0][0]
    last: Any = parts[-1][0]
    made: dict[str, Any] = {
        "list": list[inner],
        "dict": dict[str, inner],
        "optional": inner | None,
        "tuple": tuple[tuple(part for part, _ in parts)],  # type: ignore[misc]
        "union": list[inner] | dict[str, last],
    }
    return made[form], sum(count for _, count in parts)


@given(worded())
def test_no_words_are_lost(drawn: tuple[Any, int]) -> None:
    """However types are nested, each text of an annotation is one description."""
    kind, count = drawn
    answer = sr.Contract(answer=kind).answer
    assert len(list(described(answer.document))) == count
