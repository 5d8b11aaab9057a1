"""The laws of ``strictreply.contract._tool``.

They are about declaring a tool in any way, building its arguments, running it.
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from strictreply import (
    ContractError,
    ContractWarning,
    Invalid,
    Issue,
    Tool,
    ToolCall,
    ToolExecutionError,
    tool,
)
from strictreply.core import Formats
from strictreply.core.tools import must_be_awaited, with_schema_rules
from support.shared_data import SHARED, needs_shared

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/"


def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> list[str]:
    """Search the web.

    Args:
        query: what to look for
        limit: how many
    """
    return [query] * limit


class Refund(BaseModel):
    """Pay back an order."""

    order: int


class Line(BaseModel):
    """A part with a validator's place in a path."""

    count: int = Field(ge=0)


@dataclass
class Entry:
    """An MCP tools/list entry as an SDK gives it: an object."""

    name: Any = "weather"
    description: Any = "Tell the weather."
    # The name is the protocol's.
    inputSchema: Any = field(default_factory=lambda: copy.deepcopy(PLACE))  # noqa: N815


MCP_ENTRY = {
    "name": "weather",
    "title": "Weather",
    "description": "Tell the weather.",
    "inputSchema": PLACE,
    "annotations": {"readOnlyHint": True},
}
CLOSED = {**PLACE, "additionalProperties": False}
FUNCTION = {"name": "weather", "description": "Tell the weather.", "parameters": PLACE}
TOLD = {"type": "function", "function": {**FUNCTION, "parameters": CLOSED}}
DEFINITION = {"type": "function", "function": FUNCTION}


def codes(built: object) -> list[str]:
    """Return the codes of a refusal."""
    assert isinstance(built, Invalid)
    return [issue.code for issue in built.issues]


@pytest.mark.parametrize(
    "declaration",
    [
        Tool.from_json_schema("weather", PLACE, "Tell the weather."),
        DEFINITION,
        FUNCTION,
        {"type": "function", **FUNCTION},
        MCP_ENTRY,
        Entry(),
    ],
    ids=["Tool", "openai", "bare function", "flat", "mcp", "mcp object"],
)
def test_ways_to_declare_a_schema(declaration: object) -> None:
    """All ways to declare the same JSON Schema tool give the same definition; arguments stay a
    dict.
    """
    declared = Tool.of(declaration)
    assert declared.definition == TOLD
    assert declared.build({"place": "Paris"}) == {"place": "Paris"}
    assert declared.parameters.check({"place": "Paris", "more": 1})


def test_from_function() -> None:
    """A function's tool has its name and its docstring as description, and builds an instance."""
    declared = Tool.of(search)
    assert declared.definition == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Search the web.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "what to look for"},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 20,
                        "default": 5,
                        "description": "how many",
                    },
                },
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    }

    args: Any = declared.build({"query": "a"})
    assert (args.query, args.limit) == ("a", 5)


def test_from_model() -> None:
    """A model's tool is named after it, its docstring said once; arguments are its instance."""
    declared = Tool.of(Refund)
    assert declared.name == "Refund"
    assert declared.definition["function"]["description"] == "Pay back an order."
    assert "description" not in declared.definition["function"]["parameters"]
    assert declared.build({"order": 1}) == Refund(order=1)


def test_given_words_win() -> None:
    """A name and a description that are given stand for the function's or the model's own."""
    for declared in (
        Tool.from_function(search, name="find", description="Find."),
        Tool.from_model(Refund, name="find", description="Find."),
    ):
        assert (declared.name, declared.description) == ("find", "Find.")
        assert declared.definition["function"]["description"] == "Find."


@pytest.mark.parametrize(
    "declaration",
    [
        None,
        5,
        "search",
        ["search"],
        int,
        list[int],
        lambda: None,
        {},
        {"type": "web_search"},
        object(),
    ],
    ids=lambda declaration: type(declaration).__name__,
)
def test_what_is_no_tool(declaration: object) -> None:
    """Any other value among the tools is a ContractError."""
    with pytest.raises(ContractError):
        Tool.of(declaration)


@given(name=st.text(NAME_CHARACTERS, min_size=1, max_size=128))
def test_names(name: str) -> None:
    """1 to 128 letters, digits and _ - . : / are a name."""
    assert Tool.from_json_schema(name, {}).name == name


@pytest.mark.parametrize("name", ["", "a b", "a" * 129, "é", "a\n", "a\0", "<lambda>"])
def test_no_names(name: str) -> None:
    """Anything else is refused when it is declared."""
    with pytest.raises(ContractError):
        Tool.from_json_schema(name, {})


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"type": "web_search"}, "/type"),
        ({"type": "function", "function": FUNCTION, "strict": True}, "/strict"),
        ({"type": "function", "functoin": FUNCTION}, "/functoin"),
        ({"type": "function", "function": "search"}, "/function"),
        ({"type": "function", "function": {}}, "/function"),
        ({"type": "function", "function": {"name": 5}}, "/function/name"),
        ({"type": "function", "function": {"name": None}}, "/function/name"),
        ({"type": "function", "function": {**FUNCTION, "description": 5}}, "/function/description"),
        ({"type": "function", "function": {**FUNCTION, "parameters": []}}, "/function/parameters"),
        ({"type": "function", "function": {**FUNCTION, "strict": "yes"}}, "/function/strict"),
        ({"type": "function", "function": {**FUNCTION, "cache": {1, 2}}}, "/function/cache"),
        ({"type": "function", "function": FUNCTION, "cache": [{"ttl": object()}]}, "/cache/0/ttl"),
        ({"type": "function", "function": FUNCTION, 5: 1}, ""),
        ({"name": "search", "arguments": {}}, "/arguments"),
    ],
)
def test_openai_faults(definition: Mapping[str, Any], path: str) -> None:
    """A fault in an OpenAI definition is refused with the path of the member."""
    with pytest.raises(ContractError) as caught:
        Tool.from_openai(definition)
    assert caught.value.path == path


@pytest.mark.parametrize("wrap", [{"type": "function"}, {}], ids=["beside", "flat"])
def test_what_vendors_add_passes(wrap: dict[str, Any]) -> None:
    """Members that are none of OpenAI's stay in the definition, on both levels, as copies of plain
    JSON.
    """
    cache: dict[str, Any] = {"type": "ephemeral", "ttl": ["5m"]}
    function = {**FUNCTION, "cache_control": cache, "x-name": None, "arguments": 1}
    definition = (
        {**wrap, "function": function, "defer_loading": True, "cache_control": cache}
        if wrap
        else function
    )
    declared = Tool.from_openai(definition)

    beside = {"defer_loading": True, "cache_control": cache} if wrap else {}
    written = {"type": "function", "function": function, **beside}
    assert declared.definition == {**written, "function": {**function, "parameters": CLOSED}}
    assert (
        Tool.of(definition).definition
        == Tool.of(declared.definition).definition
        == declared.definition
    )

    assert Tool.of(declared, extra="schema").definition == written
    before = copy.deepcopy(declared.definition)
    cache["ttl"].append("1h")
    assert declared.definition == before


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("paramaters", "parameters"),
        ("parameter", "parameters"),
        ("PARAMETERS", "parameters"),
        ("desciption", "description"),
        ("Name", "name"),
        ("Strict", "strict"),
    ],
)
@pytest.mark.parametrize("place", ["/function", ""])
def test_misspelt_members_are_no_vendors(place: str, key: str, meant: str) -> None:
    """A near miss of a known member is refused at its path, with the word that was meant, inside
    and beside.
    """
    inside = {**FUNCTION, key: None} if place else FUNCTION
    definition = {"type": "function", "function": inside, **({} if place else {key: None})}
    with pytest.raises(ContractError, match=f"did you mean {meant}") as caught:
        Tool.of(definition)
    assert caught.value.path == f"{place}/{key}"


@pytest.mark.parametrize(
    "key", ["arguments", "args", "params", "input_schema", "inputSchema", "schema"]
)
def test_parameters_in_another_word_are_not_lost(key: str) -> None:
    """Where the parameters are missing, what another API calls them is refused: the tool would have
    none.
    """
    with pytest.raises(ContractError, match="did you mean parameters") as caught:
        Tool.of({"type": "function", "function": {"name": "weather", key: PLACE}})
    assert caught.value.path == f"/function/{key}"


def test_the_parameters_of_a_claude_tool_may_be_misspelt() -> None:
    """A member that holds the schema and is nearly Anthropic's word means Anthropic's."""
    with pytest.raises(ContractError, match="did you mean input_schema") as caught:
        Tool.of({"name": "weather", "input_shema": PLACE})
    assert caught.value.path == "/input_shema"


def test_openai_optional_members() -> None:
    """Parameters that are missing or null mean none; strict stays in the definition."""
    for body in (
        {"name": "now"},
        {"name": "now", "parameters": None, "description": None, "strict": None},
    ):
        declared = Tool.from_openai({"type": "function", "function": body})
        assert declared.parameters.check({}) == ()
        assert declared.parameters.check({"a": 1})
        assert "strict" not in declared.definition["function"]

    assert Tool.from_openai({**FUNCTION, "strict": True}).definition["function"]["strict"] is True


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"inputSchema": PLACE}, "/name"),
        ({"name": "weather", "inputSchema": "{}"}, "/inputSchema"),
        (Entry(name=None), "/name"),
        (Entry(inputSchema=None), "/inputSchema"),
    ],
)
def test_mcp_faults(entry: object, path: str) -> None:
    """An MCP entry without a name or a schema is refused with the path."""
    with pytest.raises(ContractError) as caught:
        Tool.of(entry)
    assert caught.value.path == path


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": ["string", "null"]}, True])
def test_parameters_are_an_object(schema: Any) -> None:
    """A schema that admits no object is no tool's; neither is one that says nothing at all."""
    with pytest.raises(ContractError):
        Tool.from_json_schema("search", schema)


def test_declarations_are_copied() -> None:
    """Changing what a tool was declared by changes nothing in the tool."""
    definition = copy.deepcopy(DEFINITION)
    declared = Tool.of(definition)
    definition["function"]["parameters"]["properties"]["place"]["type"] = "integer"  # type: ignore[index]
    assert declared.definition == TOLD
    assert declared.definition is declared.definition


@pytest.mark.parametrize(
    "declaration", [search, Refund, DEFINITION], ids=["function", "model", "openai"]
)
def test_held_to(declaration: object) -> None:
    """An open twin of a tool differs in what it admits, and tells so; asked for twice, it is
    itself.
    """
    closed = Tool.of(declaration)
    opened = Tool.of(closed, extra="schema")
    fit = (
        {"query": "a"}
        if declaration is search
        else {"order": 1}
        if declaration is Refund
        else {"place": "a"}
    )
    assert closed.parameters.check({**fit, "more": 1})

    assert opened.parameters.check({**fit, "more": 1}) == ()
    assert not isinstance(opened.build({**fit, "more": 1}), Invalid)
    written, told = (one.definition["function"]["parameters"] for one in (opened, closed))
    assert told == {**written, "additionalProperties": False}

    assert Tool.of(opened) is opened
    assert with_schema_rules(opened, "schema", "assert") is opened


def test_definitions_are_compiled_once() -> None:
    """A definition given again, as requests do on every call, is the tool compiled before."""
    assert Tool.of(copy.deepcopy(DEFINITION)) is Tool.of(copy.deepcopy(DEFINITION))
    assert Tool.of(DEFINITION, extra="schema") is not Tool.of(DEFINITION)


@pytest.mark.parametrize("formats", ["assert", "annotate"])
def test_formats_reach_every_declaration(formats: Formats) -> None:
    """``formats`` says for a tool of any kind whether a format is a rule."""
    dated = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}
    refused = formats == "assert"
    for declaration in ({"name": "t", "parameters": dated}, Tool.from_json_schema("t", dated)):
        issues = Tool.of(declaration, formats=formats).parameters.check({"day": "x"})
        assert [issue.code for issue in issues] == (["args.format"] if refused else [])


def test_an_open_model_stays_open() -> None:
    """A model with extra="allow" says so in its schema, and keeps what it lets in."""

    class Open(BaseModel, extra="allow"):
        a: int

    declared = Tool.of(Open)
    assert declared.parameters.check({"a": 1, "b": 2}) == ()
    args: Any = declared.build({"a": 1, "b": 2})
    assert args.model_extra == {"b": 2}


def test_build_refuses_with_a_path() -> None:
    """A refusal by pydantic alone is an issue below the arguments."""
    declared = Tool.of(Line)
    issues = declared.build({"count": -1}, at="/tool_calls/0/function/arguments")
    assert codes(issues) == ["args.check"]
    assert issues.issues[0].path == "/tool_calls/0/function/arguments/count"


@pytest.mark.parametrize(
    "decorate", [tool, tool(), tool(name="search")], ids=["bare", "empty", "named"]
)
def test_decorator(decorate: Callable[[Callable[..., Any]], Tool]) -> None:
    """The decorator works with and without parentheses, and leaves the function callable."""
    declared = decorate(search)
    assert isinstance(declared, Tool)
    assert declared.name == "search"
    assert declared("a", limit=2) == ["a", "a"]


def test_decorator_keywords() -> None:
    """The decorator's keywords are the declaration's."""

    def check(args: Any) -> None:
        """Find nothing."""

    declared = tool(name="find", description="Find.", check=check, extra="schema")(search)
    assert (declared.name, declared.description, declared.check, declared.extra) == (
        "find",
        "Find.",
        check,
        "schema",
    )


WAYS: dict[str, Callable[..., Tool]] = {
    "function": lambda **execution: Tool.from_function(search, **execution),
    "decorator": lambda **execution: tool(**execution)(search),
    "model": lambda **execution: Tool.from_model(Refund, **execution),
    "schema": lambda **execution: Tool.from_json_schema("weather", PLACE, **execution),
    "openai": lambda **execution: Tool.from_openai(
        {"name": "weather", "parameters": PLACE}, **execution
    ),
    "mcp": lambda **execution: Tool.from_mcp(MCP_ENTRY, **execution),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_how_a_tool_is_run_is_said_in_every_way(way: Callable[..., Tool]) -> None:
    """Each declaration takes the limit and the leave to repeat, none of them unasked, and keeps
    them when reopened.
    """
    declared = with_schema_rules(way(timeout=2.5, repeatable=True), "schema", "annotate")
    assert (declared.timeout, declared.repeatable) == (2.5, True)
    assert (way().timeout, way().repeatable) == (None, False)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_no_time_limits(timeout: Any) -> None:
    """A limit that no call could keep, or that is not a number, is refused at the declaration."""
    with pytest.raises(ContractError, match="timeout"):
        Tool.from_function(search, timeout=timeout)


def test_run() -> None:
    """A function tool runs with the built arguments; a schema tool's function gets them whole."""
    declared = Tool.of(search)
    assert declared.run(declared.build({"query": "a", "limit": 2})) == ["a", "a"]
    given = Tool.from_mcp(MCP_ENTRY, function=lambda args: args["place"])
    assert given.run(given.build({"place": "Paris"})) == "Paris"
    refund = Tool.from_model(Refund, function=lambda refund: refund.order)
    assert refund.run(refund.build({"order": 3})) == 3


def broken(n: int) -> None:
    """Fail."""
    raise ValueError(n)


async def abroken(n: int) -> None:
    """Fail later."""
    raise ValueError(n)


@pytest.mark.req("T36")
@pytest.mark.parametrize("function", [broken, abroken])
def test_a_tool_that_raises(function: Callable[..., Any]) -> None:
    """An exception of a tool is a ToolExecutionError with the code TOOL_ERROR, without a word of
    schemas.
    """
    declared = Tool.of(function)
    with pytest.raises(ToolExecutionError) as caught:
        asyncio.run(declared.arun(declared.build({"n": 4}), call_id="x"))

    error = caught.value
    assert (error.tool, error.code, error.call_id) == (declared.name, "TOOL_ERROR", "x")
    assert isinstance(error.__cause__, ValueError)
    assert not {"schema", "argument", "valid", "retry"} & set(str(error).lower().split())

    if function is broken:
        with pytest.raises(ToolExecutionError):
            declared.run(declared.build({"n": 4}))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_interrupts_pass(kind: type[BaseException]) -> None:
    """Interrupts and cancellation are not a tool's errors."""

    def stop() -> None:
        raise kind

    async def astop() -> None:
        raise kind

    with pytest.raises(kind):
        Tool.of(stop).run(Tool.of(stop).build({}))

    async def awaited() -> str:
        """Catch inside the loop: some of these would end it."""
        try:
            await Tool.of(astop).arun(Tool.of(astop).build({}))
        except BaseException as error:  # noqa: BLE001 - the law is about these
            return type(error).__name__
        return ""

    assert asyncio.run(awaited()) == kind.__name__


async def later(n: int) -> int:
    """Return the argument."""
    return n


class Called:
    """An object called like an async function."""

    async def __call__(self, n: int) -> int:
        """Return the argument."""
        return n


@pytest.mark.parametrize(
    "function", [later, Called(), Called().__call__], ids=["function", "object", "method"]
)
def test_async_tools(function: Callable[..., Any]) -> None:
    """An async tool says so, is awaited by arun, and is refused by run."""
    declared = Tool.from_function(function, name="later")
    args = declared.build({"n": 2})
    assert declared.is_async
    assert asyncio.run(declared.arun(args)) == 2
    with pytest.raises(ContractError):
        declared.run(args)


def test_sync_tools_in_async_loops() -> None:
    """A sync tool may be run by arun."""
    declared = Tool.of(search)
    assert not declared.is_async
    assert asyncio.run(declared.arun(declared.build({"query": "a", "limit": 1}))) == ["a"]


def test_tools_without_function() -> None:
    """A tool without a function says so when it is run or called."""
    declared = Tool.of(DEFINITION)
    with pytest.raises(ContractError):
        declared.run({"place": "Paris"})
    with pytest.raises(ContractError):
        asyncio.run(declared.arun({"place": "Paris"}))
    with pytest.raises(ContractError):
        declared("Paris")


def test_checks_say_whether_they_are_async() -> None:
    """A check is told apart as sync or async; a tool without one has none to await."""

    def check(args: Any) -> tuple[Issue, ...]:
        """Find nothing."""
        return ()

    async def acheck(args: Any) -> tuple[Issue, ...]:
        """Find nothing, later."""
        return ()

    assert not must_be_awaited(Tool.of(search).check)
    assert not must_be_awaited(Tool.from_function(search, check=check).check)
    assert must_be_awaited(Tool.from_function(search, check=acheck).check)


def recorded_definitions() -> list[dict[str, Any]]:
    """Return each distinct tool definition of the recorded replies."""
    with gzip.open(SHARED / "corpus" / "replies.jsonl.gz", "rt", encoding="utf-8") as lines:
        tools = (tool for line in lines for tool in json.loads(line).get("tools") or ())
        return list({json.dumps(tool, sort_keys=True): tool for tool in tools}.values())


@needs_shared
# Some booleans have texts in their enum.
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@pytest.mark.slow
def test_recorded_definitions() -> None:
    """Every tool definition that real programs sent can be declared; an open one is sent as it was
    written.
    """
    definitions = recorded_definitions()
    assert len(definitions) > 1_000
    # contradictory: see tests/contract/test_corpus.py
    nothing_fits = {"get_response", "Events_3_BuyEventTickets"}

    for definition in definitions:
        if definition["function"]["name"] in nothing_fits:
            continue

        function = {key: value for key, value in definition["function"].items() if value != ""}
        assert Tool.from_openai(definition, extra="schema").definition == {
            "type": "function",
            "function": function,
        }


def test_a_call_is_run_by_its_own_tool() -> None:
    """``run`` takes a valid call as it is; a call of another tool is the program's mistake."""
    declared = Tool.of(search)
    args = declared.build({"query": "tea"})
    assert declared.run(ToolCall("search", args, "c")) == declared.run(args)
    with pytest.raises(ContractError):
        declared.run(ToolCall("other", args))


OPEN = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("declare", "definition", "words"),
    [
        (
            Tool.from_openai,
            {"type": "function", "function": {"name": "get", "parameters": OPEN, "required": []}},
            "required next to parameters",
        ),
        (
            Tool.from_openai,
            {"type": "function", "name": "get", "parameters": OPEN, "additionalProperties": False},
            "additionalProperties next to parameters",
        ),
        (
            Tool.from_openai,
            {
                "type": "function",
                "function": {"name": "get", "parameters": OPEN},
                "required": ["id"],
            },
            "required next to parameters",
        ),
        (
            Tool.from_mcp,
            {"name": "get", "inputSchema": OPEN, "required": ["id"], "$defs": {}},
            r"required and \$defs next to inputSchema",
        ),
    ],
)
def test_words_of_a_schema_beside_it_are_warned_of(
    declare: Any, definition: dict[str, Any], words: str
) -> None:
    """A ``required`` that stands beside the parameters requires nothing: whoever wrote it is told,
    at the line of the declaration.
    """
    with pytest.warns(ContractWarning, match=words) as caught:
        declare(definition)
    assert [warning.filename for warning in caught] == [__file__]


def test_members_of_vendors_are_not_warned_of() -> None:
    """What is no word of JSON Schema stays without a word."""
    definition: Any = {"name": "get", "parameters": OPEN, "cache_control": {"type": "ephemeral"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool = Tool.from_openai(definition)
    assert tool.name == "get"
