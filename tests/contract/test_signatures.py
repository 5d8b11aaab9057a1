"""What a function's parameters and docstring become."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TextIO

import pytest
from pydantic import BaseModel, Field, ImportString

from strictreply import Contract, ContractError, Tool

MARK = object()


class Inner(BaseModel):
    """A model inside."""

    a: int = 1


@dataclass
class Point:
    """A dataclass inside."""

    x: int
    y: int = 0


GOOGLE = """Find things.

    Slowly, but well.

    Args:
        query: what to look for
        limit: how many

    Returns:
        What was found.
    """
NUMPY = """Find things.

    Slowly, but well.

    Parameters
    ----------
    query : str
        what to look for
    limit : int
        how many

    Returns
    -------
    list
        What was found.
    """
SPHINX = """Find things.

    Slowly, but well.

    :param query: what to look for
    :param limit: how many
    :returns: What was found.
    """


def properties(function: Callable[..., object]) -> dict[str, Any]:
    """Return the member schemas of a function's parameters."""
    source: Any = Tool.from_function(function).parameters.source
    return dict(source["properties"])


def call(function: Callable[..., Any], args: dict[str, Any]) -> Any:
    """Call a function by its tool."""
    tool = Tool.from_function(function)
    return tool.run(tool.build(args))


def described(text: str) -> tuple[str, dict[str, str]]:
    """Return the descriptions of a tool with this docstring, and of its parameters."""

    def find(query: str, limit: int) -> None: ...

    find.__doc__ = text
    members = properties(find)
    told = {name: one["description"] for name, one in members.items() if "description" in one}
    return Tool.from_function(find).description, told


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstring_styles(text: str) -> None:
    """Each of the three docstring styles gives the prose without its sections, and the parameters'
    descriptions.
    """
    summary, parameters = described(text)
    assert summary.split() == ["Find", "things.", "Slowly,", "but", "well."]
    assert parameters == {"query": "what to look for", "limit": "how many"}


@pytest.mark.parametrize(
    "text",
    ["", "Just: a sentence.", "Args:", ":param", "Parameters\n----------\n", "Args:\n     : :\n"],
)
def test_docstring_odd(text: str) -> None:
    """Reading any docstring does not fail."""
    assert described(text)[1] == {}


def test_field_description_wins() -> None:
    """A description in Field wins over the docstring's, which fills in where there is none."""

    def find(
        query: Annotated[str, Field(description="own")], limit: Annotated[int, Field(ge=1)]
    ) -> None:
        """Find.

        Args:
            query: told
            limit: told
        """

    assert properties(find)["query"]["description"] == "own"
    assert properties(find)["limit"] == {
        "description": "told",
        "minimum": 1,
        "type": "integer",
    }


def test_kinds_of_parameters() -> None:
    """Positional-only, plain and keyword-only parameters all reach the function, defaults where
    left out.
    """

    def mixed(a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    assert call(mixed, {"a": 1}) == (1, 2, 3, 4)
    assert call(mixed, {"a": 1, "c": 5, "d": 6}) == (1, 2, 5, 6)


def test_defaults_are_the_function_own() -> None:
    """A default reaches the function as it is, also one that is no JSON, and a mutable one is not
    shared.
    """

    # The mutable default is the point.
    def keep(mark: Any = MARK, items: list[int] = []) -> tuple[Any, list[int]]:  # noqa: B006
        items.append(1)
        return mark, items

    assert call(keep, {})[0] is MARK
    assert call(keep, {})[1] == [1]
    assert call(keep, {})[1] == [1]


def test_field_as_default() -> None:
    """A Field given as the default is the constraint and the default it speaks of."""

    def take(
        limit: int = Field(7, ge=3),
        items: list[int] = Field(default_factory=list),  # noqa: B008
    ) -> tuple[int, list[int]]:
        return limit, items

    assert call(take, {}) == (7, [])
    assert properties(take)["limit"]["minimum"] == 3


def test_alias() -> None:
    """An alias is the name in the schema; the function gets its own parameter."""

    def call_it(class_: Annotated[str, Field(alias="class")]) -> str:
        return class_

    assert list(properties(call_it)) == ["class"]
    assert call(call_it, {"class": "a"}) == "a"


def test_local_types() -> None:
    """Types local to the place of definition are found, though annotations are only text."""

    class Local(BaseModel):
        n: int

    def take(local: Local, literal: Literal["x"] = "x") -> int:
        return local.n

    assert call(take, {"local": {"n": 3}}) == 3


@pytest.mark.parametrize(
    "name", ["schema", "json", "copy", "validate", "dict", "model_name", "construct", "fields"]
)
def test_names_that_models_have(name: str) -> None:
    """A parameter may be named like a method of pydantic's models, silently."""
    namespace: dict[str, Any] = {}
    # The names come from a table.
    exec(f"def take({name}: int = 1, *, other: int = 2): return {name}, other", namespace)  # noqa: S102
    assert call(namespace["take"], {name: 5}) == (5, 2)


@pytest.mark.parametrize("name", ["_x", "__x", "model_config", "model_extra", "model_dump"])
def test_names_that_pydantic_keeps(name: str) -> None:
    """A parameter whose name pydantic would lose is refused, and the remedy works."""
    namespace: dict[str, Any] = {"Annotated": Annotated, "Field": Field}
    exec(f"def take({name}: int): ...", namespace)  # noqa: S102 - names by table
    with pytest.raises(ContractError, match=name):
        Tool.from_function(namespace["take"])
    exec(f"def take(x: Annotated[int, Field(alias={name!r})]): return x", namespace)  # noqa: S102
    assert call(namespace["take"], {name: 4}) == 4


def test_deprecated_parameter_is_quiet() -> None:
    """Calling a function with a deprecated parameter warns nobody."""

    def take(old: Annotated[int, Field(deprecated=True)] = 1) -> int:
        return old

    assert call(take, {"old": 2}) == 2


class Service:
    """An object with every kind of method."""

    def __init__(self) -> None:
        """Store a number to add."""
        self.base = 10

    def add(self, n: int) -> int:
        """Add."""
        return self.base + n

    @classmethod
    def make(cls, n: int) -> tuple[type, int]:
        """Make."""
        return cls, n

    @staticmethod
    def same(n: int) -> int:
        """Return the argument."""
        return n

    def __call__(self, n: int) -> int:
        """Call."""
        return n + 1


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (Service().add, 13),
        (Service.make, (Service, 3)),
        (Service.same, 3),
        (Service(), 4),
        (functools.partial(pow, exp=2), None),
    ],
    ids=["bound", "class", "static", "object", "builtin partial"],
)
def test_callables(function: Callable[..., Any], result: object) -> None:
    """Bound methods lose self or cls; objects are called; what has no annotations is refused."""
    if result is None:
        with pytest.raises(ContractError):
            Tool.from_function(function)
        return
    assert list(properties(function)) == ["n"]
    assert call(function, {"n": 3}) == result


def test_partial_settles_arguments() -> None:
    """Arguments that a partial sets are not parameters of the tool."""

    def take(a: int, b: int, c: int) -> tuple[int, int, int]:
        return a, b, c

    partial = functools.partial(take, 1, b=2)
    assert list(properties(partial)) == ["c"]
    assert call(partial, {"c": 3}) == (1, 2, 3)


def test_wrapped_function() -> None:
    """A function under functools.wraps is read by what it wraps."""

    def inner(n: int) -> int:
        """Do it."""
        return n

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert Tool.from_function(outer).description == "Do it."
    assert call(outer, {"n": 2}) == 2


def no_annotation(x) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Lack a type."""


def variadic(*many: int) -> None:
    """Take any number."""


def named(**rest: int) -> None:
    """Take any names."""


def unknown_name(x: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Annotate a parameter with an unknown type."""


def no_json(x: TextIO) -> None:
    """Take what JSON cannot spell."""


@pytest.mark.parametrize(
    ("function", "named_thing"),
    [
        (no_annotation, "'x'"),
        (variadic, "many"),
        (named, "rest"),
        (unknown_name, "Nowhere"),
        (no_json, "TextIO"),
        (Service.add, "'self'"),
        (print, "args"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_refusals(function: Callable[..., object], named_thing: str) -> None:
    """A parameter that a schema cannot describe is refused by name, when it is declared."""
    with pytest.raises(ContractError) as caught:
        Tool.from_function(function)
    assert named_thing in str(caught.value)


def test_instances() -> None:
    """Arguments are an instance named after the function, read by attribute, and frozen."""

    def find_flight(point: Point, inner: Inner | None = None) -> None:
        """Find."""

    args: Any = Tool.from_function(find_flight).build({"point": {"x": 1}})
    assert repr(args) == "FindFlightArgs(point=Point(x=1, y=0), inner=None)"
    with pytest.raises(ValueError, match="frozen"):
        args.point = None


def test_a_function_that_yields_is_refused() -> None:
    """Its code would run when its result is read, outside every bound: ContractError, sync and
    async.
    """

    def pages(query: str) -> Iterator[str]:
        yield query

    async def later(query: str) -> AsyncIterator[str]:
        yield query

    for function in (pages, later):
        with pytest.raises(ContractError):
            Tool.from_function(function)


ANY_IMPORT: Any = ImportString


class Hook(BaseModel):
    """A model that would import what it is told."""

    code: ImportString[Callable[..., Any]]


@pytest.mark.parametrize(
    "kind",
    [
        ANY_IMPORT,
        list[ANY_IMPORT],
        ANY_IMPORT | None,
        dict[str, Annotated[ANY_IMPORT, Field(description="a name")]],
        Hook,
        list[Hook],
    ],
    ids=str,
)
def test_no_model_imports_code(kind: Any) -> None:
    """A type that imports what its text names is refused wherever it is declared."""

    def act(given: Any) -> None:
        """Act."""

    act.__annotations__["given"] = kind
    for declare in (lambda: Tool.from_function(act), lambda: Contract(answer=kind)):
        with pytest.raises(ContractError, match=r"ImportString.*Literal or an Enum"):
            declare()


def test_an_iterable_arrives_as_a_list() -> None:
    """Items of an Iterable are read before the tool runs, and may be read again."""

    def total(numbers: Iterable[int]) -> int:
        """Add."""
        return sum(numbers) + len(list(numbers))

    tool = Tool.from_function(total)
    args: Any = tool.build({"numbers": [1, 2]})
    assert args.numbers == [1, 2]
    assert tool.run(args) == 5
