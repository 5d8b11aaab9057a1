"""Targets: what is aimed at is judged by the right gate.

Its spelling is Python that finds it again.
"""

from __future__ import annotations

import ast
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply.core.tools import with_schema_rules
from strictreply.testing import ReplyPlace
from strictreply.testing._steps import PROSE, Target, keywords, spelled


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


@sr.tool
def decorated(query: str) -> None:
    """Search the shop, declared where it is defined."""


class Refund(BaseModel):
    """Refund an order."""

    order: int

    class Line(BaseModel):
        """One line of it."""

        amount: float


class Shop:
    """A shop with a method for a tool."""

    def find(self, query: str) -> None:
        """Find something."""


weather = sr.Tool.from_json_schema(
    "weather", {"type": "object", "properties": {"city": {"type": "string"}}}
)
named_otherwise = sr.Tool.from_json_schema("get-weather", {"type": "object", "properties": {}})
as_written = sr.Tool.from_json_schema(
    "open", {"type": "object"}, extra="schema", formats="annotate"
)
known = {
    "type": "function",
    "function": {"name": "known", "parameters": {"type": "object", "properties": {}}},
}
MCP = {"name": "mcp", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
LISTED = [{**known}, {**known, "function": {"name": "unknown", "parameters": {"type": "object"}}}]
MAPPED = {"lamp": {"name": "lamp", "inputSchema": {"type": "object"}}}
TOOLS = [
    search,
    decorated,
    Refund,
    Refund.Line,
    weather,
    named_otherwise,
    as_written,
    known,
    MCP,
    Shop().find,
]
ANSWERS = [
    Refund,
    list[int],
    int | None,
    Literal["a", "b"],
    {"type": "object", "properties": {}},
    Refund.Line,
]


def schema_of(tool: Any) -> Any:
    """Return the schema of a tool's arguments."""
    made = sr.Tool.of(tool)
    return made.name, made.parameters.source, made.extra, made.formats


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("place", ["call", "union"])
def test_the_gate_of_a_tool_takes_its_clean_reply(tool: object, place: ReplyPlace) -> None:
    """The reply that faults are made of is good in its place."""
    target = Target.of(tool, place=place)
    verdict = target.contract.check(target.clean)
    assert isinstance(verdict, sr.Valid)
    assert isinstance(verdict.reply, sr.ToolCall)
    assert verdict.reply.tool == target.name


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_gate_of_an_answer_takes_its_clean_reply(answer: object) -> None:
    """A structured answer is judged by its own schema, and its codes say that it is one."""
    target = Target.of(answer, place="json")
    assert isinstance(target.contract.check(target.clean), sr.Valid)
    assert (target.name, target.code("args.type"), target.code("json.syntax")) == (
        "",
        "answer.type",
        "json.syntax",
    )


def test_without_a_tool_a_reply_is_prose() -> None:
    """Plain text has no schema, no source, and any text for its value."""
    target = Target.of()
    assert (target.value, target.place, target.source, target.schema) == (PROSE, "prose", "", None)
    assert Target.of(args="Hi").text("Hi") == "Hi"
    assert isinstance(target.contract.check(target.clean), sr.Valid)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_is_spelled_as_python_that_works(tool: object) -> None:
    """The spelling, read as Python beside the user's names, is a tool with that name and schema."""
    again = eval(spelled(tool), {**globals(), "Tool": sr.Tool})  # noqa: S307 - our own words
    assert schema_of(again) == schema_of(tool)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_spelled_as_python_that_works(answer: object) -> None:
    """The spelling of a type is the type, that of a JSON Schema the schema."""
    import typing  # noqa: PLC0415 - a name for the spelling of typing's own

    # The text is our own.
    assert eval(spelled(answer, tool=False), {**globals(), "typing": typing}) == answer  # noqa: S307


def test_a_name_is_used_only_where_it_is_one() -> None:
    """A Tool or a definition is spelled by the variable of a module that holds that very object,
    else written out.
    """
    named = {
        "search": search,
        "decorated": decorated,
        "Refund": Refund,
        "Refund.Line": Refund.Line,
        "weather": weather,
    }
    named |= {
        "known": known,
        "named_otherwise": named_otherwise,
        "MCP": MCP,
        "LISTED[1]": LISTED[1],
    }
    named |= {"MAPPED['lamp']": MAPPED["lamp"]}
    assert {name: spelled(tool) for name, tool in named.items()} == {name: name for name in named}

    local = sr.Tool.from_json_schema(
        "weather", {"type": "object", "properties": {"city": {"type": "string"}}}
    )
    assert (
        ast.literal_eval(spelled(local)) == with_schema_rules(local, "schema", "assert").definition
    )
    open_one = sr.Tool.from_json_schema(
        "open", {"type": "object"}, extra="schema", formats="annotate"
    )
    assert spelled(open_one).startswith("Tool.from_openai({")

    class Local(BaseModel):
        """A model that no module has."""

    assert spelled(Local) == "Local"


class Sleeper:
    """What loads itself when it is looked at, as the modules of an SDK do."""

    woken = 0

    def __getattribute__(self, name: str) -> Any:
        """Count who asks for an attribute, as isinstance() does for the class."""
        Sleeper.woken += 1
        return super().__getattribute__(name)


SLEEPER = Sleeper()


def test_looking_for_a_name_wakes_nothing() -> None:
    """Of the values of strangers' modules only the type is asked: none loads itself because a name
    is looked for.
    """
    assert not isinstance(SLEEPER, str)
    before = Sleeper.woken
    assert before
    assert spelled(sr.Tool.from_json_schema("unheard_of", {"type": "object"})).startswith("{")
    assert Sleeper.woken == before


def test_keywords_are_spelled_as_python_takes_them() -> None:
    """Names that are no identifiers, or words of the language, come as a mapping."""
    assert keywords({"a": 1, "b": "x"}) == ", a=1, b='x'"
    assert keywords({"a": 1, "class": 2, "user-id": 3}) == ", a=1, **{'class': 2, 'user-id': 3}"
    assert keywords({}) == ""


def test_given_arguments_are_part_of_the_spelling() -> None:
    """An example is made again by itself, given arguments are not."""
    assert Target.of(search).call() == "search"
    assert (
        Target.of(search, args={"query": "x"}).call("'/query'")
        == "search, '/query', args={'query': 'x'}"
    )
    assert Target.of(search, place="union").call(place=True) == "search, place='union'"
    assert Target.of(args="Hi").call(place=True) == "args='Hi'"


def test_a_schema_without_an_example_asks_for_arguments() -> None:
    """A pattern that no sample fits needs an example of the user's."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^[q]{7}z$"}},
        "required": ["a"],
    }
    tool = sr.Tool.from_json_schema("hard", schema)

    with pytest.raises(ValueError, match="args="):
        Target.of(tool)

    assert Target.of(tool, args={"a": "qqqqqqqz"}).value == {"a": "qqqqqqqz"}
