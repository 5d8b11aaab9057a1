"""Reading definitions of tools.

OpenAI's members are read, a vendor's are kept, misspelt ones are refused.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError, Tool

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("abcä", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcä", max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
VENDOR = st.dictionaries(st.integers(0, 99).map("vendor_{}".format), PLAIN, max_size=4)


@given(beside=VENDOR, within=VENDOR)
def test_members_of_vendors_are_kept_where_they_stood(
    beside: dict[str, Any], within: dict[str, Any]
) -> None:
    """Whatever JSON stands beside the function and within it is read as an equal copy; nothing else
    changes.
    """
    definition = {"type": "function", "function": {"name": "t", **within}, **beside}
    before = copy.deepcopy(definition)
    written = Tool.from_openai(definition).definition
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    function = {"name": "t", "parameters": nothing, **within}
    assert written == {"type": "function", "function": function, **beside}
    assert definition == before


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, float("nan"), "\udc80", b"x"],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("at", ["", "/function"])
def test_members_of_vendors_are_plain_json(at: str, value: object) -> None:
    """A member that is no JSON is refused at its place, and not left to fail when it is sent."""
    inside = {"name": "t", **({"cache": value} if at else {})}
    with pytest.raises(ContractError) as caught:
        Tool.from_openai(
            {"type": "function", "function": inside, **({} if at else {"cache": value})}
        )
    assert caught.value.path == f"{at}/cache"


def test_members_of_entries() -> None:
    """An MCP entry is read from a mapping or an object alike, and refused where it has no name."""
    entry = {"name": "a", "inputSchema": {"type": "object"}}
    assert Tool.from_mcp(entry).definition == Tool.from_mcp(SimpleNamespace(**entry)).definition
    for nameless in ({}, object()):
        with pytest.raises(ContractError) as caught:
            Tool.from_mcp(nameless)
        assert caught.value.path == "/name"


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "key", ["parametersJsonSchema", "parameter_schema", "inputs", "input_schema", "properties"]
)
def test_a_schema_under_another_name_is_refused(key: str) -> None:
    """Taken for a vendor's member it would leave a tool without parameters, and every call of it
    invalid.
    """
    value = SCHEMA["properties"] if key == "properties" else SCHEMA
    with pytest.raises(ContractError) as raised:
        Tool.from_openai({"type": "function", "function": {"name": "f", key: value}})
    assert raised.value.path == f"/function/{key}"


@pytest.mark.parametrize("key", ["x-strict", "x-description", "x-parameters"])
def test_extensions_are_a_vendors_own(key: str) -> None:
    """Members that begin with ``x-`` are extensions by custom, and no misspelling."""
    written = Tool.from_openai({"name": "f", "parameters": SCHEMA, key: "y"}).definition
    assert written["function"][key] == "y"
