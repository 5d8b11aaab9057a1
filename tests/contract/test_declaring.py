"""The laws of declaring many tools: which one is wrong, what is sent, and what is left out."""

from __future__ import annotations

import json
import typing
import urllib.error
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, Field, create_model
from typing_extensions import Doc, Unpack

import strictreply as sr
from support.scripted import call

GOOD = {"name": "good", "inputSchema": {"type": "object"}}
BAD = {
    "name": "bad_one",
    "inputSchema": {"type": "object", "properties": {"n": {"minimum": "1"}}},
}
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """A page of items."""

    items: list[Item]


class Session:
    """What no model can write."""


class Filters(TypedDict):
    """Members of keyword arguments."""

    city: Annotated[str, "Where to look"]
    limit: NotRequired[int]


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of a function's parameters."""
    made: dict[str, Any] = sr.Tool.of(function).definition["function"]["parameters"]
    return made


def test_the_bad_tool_is_named() -> None:
    """Of many tools the error names the one that is wrong."""
    with pytest.raises(sr.ContractError, match="bad_one") as caught:
        sr.Contract(tools=[GOOD, BAD])
    assert caught.value.path == "/properties/n/minimum"


def test_quarantine_leaves_out_what_is_wrong() -> None:
    """With quarantine each bad tool is left out with a warning, and its fault is kept by name."""
    tools = [GOOD, BAD, {"name": "none", "inputSchema": {}}, dict(GOOD), {"inputSchema": {}}]
    with pytest.warns(sr.ContractWarning) as caught:
        contract = sr.Contract(tools=tools, quarantine=True)

    assert [tool.name for tool in contract.tools] == ["good"]
    assert list(contract.quarantined) == ["bad_one", "none", "good tools[3]", "tools[4]"]
    assert contract.quarantined["bad_one"].path == "/properties/n/minimum"
    assert len(caught) == 4
    assert sr.Contract(tools=[GOOD]).quarantined == {}


def test_parameters_that_no_model_writes_are_named() -> None:
    """A parameter of the program's own is named, with what to do about it."""

    def find(session: Session, query: str) -> None: ...

    def notify(query: str, on_done: Callable[[str], None] | None = None) -> None: ...

    with pytest.raises(sr.ContractError, match=r"'session' of find\(\).*sr.Context\[Session\]"):
        sr.Tool.of(find)
    try:
        assert "on_done" in parameters(notify)["properties"]
    except sr.ContractError as error:
        assert "'on_done'" in str(error)  # noqa: PT017 - versions of pydantic differ


def test_names_of_classes_and_functions() -> None:
    """A generic class gets a valid name, and a name that no API takes says what to do."""

    def größe(a: int) -> int:  # noqa: PLC2401 - the case
        return a

    assert sr.Tool.of(Page[int]).name == "Page_int"
    with pytest.raises(sr.ContractError, match="name="):
        sr.Tool.of(größe)


def test_words_of_annotations_are_descriptions() -> None:
    """A text in Annotated and a Doc describe a parameter; Field still wins."""

    def add(
        a: Annotated[int, "first"],
        b: Annotated[int, Doc("second")],
        c: Annotated[int, "lost", Field(description="third")],
    ) -> None: ...

    described = [each["description"] for each in parameters(add)["properties"].values()]
    assert described == ["first", "second", "third"]


def test_keyword_arguments_of_a_typed_dict() -> None:
    """``**kwargs: Unpack[…]`` is as many parameters as the TypedDict has; what was left out is not
    passed on.
    """

    def find(query: str, **filters: Unpack[Filters]) -> dict[str, Any]:
        return {"query": query, **filters}

    tool = sr.Tool.of(find)
    assert parameters(find)["required"] == ["query", "city"]
    assert parameters(find)["properties"]["city"]["description"] == "Where to look"
    assert "default" not in parameters(find)["properties"]["limit"]

    args: dict[str, Any] = {"query": "a", "city": "Oslo"}
    assert tool.run(tool.build(args)) == args
    assert tool.run(tool.build(args | {"limit": 3})) == args | {"limit": 3}


@pytest.mark.parametrize("unpack", [typing.Unpack, Unpack])
def test_every_spelling_of_unpack(unpack: Any) -> None:
    """``Unpack`` of typing and of typing_extensions differ before Python 3.12, and mean one."""

    def find(**filters: Any) -> dict[str, Any]:
        return filters

    find.__annotations__["filters"] = unpack[Filters]
    assert parameters(find)["required"] == ["city"]
    tool = sr.Tool.of(find)
    assert tool.run(tool.build({"city": "Oslo"})) == {"city": "Oslo"}


def test_no_model_writes_a_context() -> None:
    """A context is a whole parameter: where a model would write it, nothing is declared."""

    def nested(users: list[sr.Context[int]]) -> None: ...

    @dataclass
    class Order:
        user: sr.Context[int]

    with pytest.raises(sr.ContractError, match=r"'users' of nested\(\).*the model would write it"):
        sr.Tool.of(nested)
    with pytest.raises(sr.ContractError, match="the model would write it"):
        sr.Tool.of(Order)
    with pytest.raises(sr.ContractError, match="the model would write it"):
        sr.Contract(answer=Order)
    with pytest.raises(sr.ContractError, match="the model would write it"):
        create_model("Invoice", user=(sr.Context[int], ...))


DOCSTRINGS = {
    "google": "Search.\n\nArgs:\n    q: the q\n\nKeyword Args:\n    k: the k\n\n"
    "Note:\n    Weekdays.",
    "behind": "Search.\n\nArgs:\n    q: the q\n    k: the k\n\nWeekdays.",
    "numpy": (
        "Search.\n\nParameters\n----------\nq, k : str\n    the q the k\n\nNotes\n-----\nWeekdays."
    ),
    "sphinx": "Search.\n\n:param q: the q\n:keyword k: the k\n\n.. note:: Weekdays.",
}


@pytest.mark.parametrize("text", DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_docstrings_are_read_whole(text: str) -> None:
    """Every parameter is described, and prose and notes stay in the tool's description."""

    def search(q: str, *, k: str = "") -> None: ...

    search.__doc__ = text
    tool = sr.Tool.of(search)
    shown = tool.definition["function"]["parameters"]["properties"]
    assert "the q" in shown["q"]["description"]
    assert "the k" in shown["k"]["description"]
    assert tool.description.startswith("Search.")
    assert "Weekdays." in tool.description
    assert "the q" not in tool.description


class Cat(BaseModel):
    """A form with a default tag."""

    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    """Another form."""

    kind: Literal["dog"] = "dog"


class Pet(BaseModel):
    """A union that its tag tells apart, and a place where the default holds."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    other: Cat | None = None


def test_a_tag_with_a_default_is_required() -> None:
    """What is sent says that the tag is needed, where pydantic needs it and only there."""
    contract = sr.Contract(tools=[Pet])
    forms = contract.tools[0].definition["function"]["parameters"]["properties"]["pet"]["oneOf"]
    assert forms[0]["required"] == ["kind", "lives"]

    def verdict(args: Any) -> Any:
        return contract.check({"role": "assistant", "tool_calls": [call("Pet", args)]})

    (issue,) = verdict({"pet": {"lives": 9}}).issues
    assert issue.code == "args.required"
    assert isinstance(verdict({"pet": {"kind": "dog"}, "other": {"lives": 1}}), sr.Valid)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"anyOf": [{"properties": {"a": {}}}]}, {"type": "object"}),
    ],
)
def test_mcp_schemas_are_sent_as_openai_takes_them(schema: Any, sent: Any) -> None:
    """The root of an MCP tool's schema is an object with properties, whatever was left out."""
    made = sr.Tool.from_mcp({"name": "t", "inputSchema": schema}).definition
    assert sent.items() <= made["function"]["parameters"].items()


@pytest.mark.parametrize(
    "error",
    [
        json.JSONDecodeError("no JSON", "x", 0),
        urllib.error.URLError("down"),
        sr.ContractError("a wrong declaration"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_checks_own_failures_are_not_the_models(error: Exception) -> None:
    """What a check's own input and output raises is raised; the model is not told of it."""

    def check(args: Any) -> None:
        raise error

    tool = sr.Tool.from_json_schema("t", {"type": "object"}, check=check)
    with pytest.raises(type(error)):
        sr.Contract(tools=[tool]).check({"role": "assistant", "tool_calls": [call("t", {})]})


def test_wide_schemas_are_declared() -> None:
    """A schema of 5,000 required properties is declared, without a warning, and judges."""
    names = [f"p{index}" for index in range(5_000)]
    members = {name: {"type": "string"} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool = sr.Tool.from_json_schema(
            "wide", {"type": "object", "properties": members, "required": names}
        )

    assert tool.parameters.check(dict.fromkeys(names, "a")) == ()
    assert tool.parameters.check(dict.fromkeys(names[1:], "a")) != ()
