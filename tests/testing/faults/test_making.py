"""From a function to an entry of the catalogue."""

from __future__ import annotations

import pytest

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing._wire import HTTPReply
from strictreply.testing.faults._catalogue import FaultNotMade
from strictreply.testing.faults._making import entry_of, spoiled

PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})


def harmless() -> None:
    """Nothing is wrong."""


def test_an_entry_is_named_and_described_by_its_function() -> None:
    """The name and the docstring are those of the function, the rest is as given."""
    entry = entry_of(harmless, lambda _: [], Kind.TOOL, "tool.unknown", ("call",), {"tool_choice": "required"})
    assert (entry.name, entry.summary, entry.kind) == ("harmless", "Nothing is wrong.", Kind.TOOL)
    assert (entry.code, entry.places, entry.needs) == ("tool.unknown", ("call",), {"tool_choice": "required"})


@pytest.mark.parametrize("code", ["json.syntax", "tool.unknown"])
def test_an_entry_that_spoils_nothing_makes_no_fault(code: str) -> None:
    """The clean reply passes the gate: it is never served as a fault, and asking for it says so."""
    entry = entry_of(harmless, lambda target: [spoiled(target.clean)], Kind.JSON, code, ("call", "union"))
    assert not list(entry.all_for(PING))
    assert not list(entry.all_for(PING, place="union"))
    with pytest.raises(FaultNotMade, match=r"faults\.harmless"):
        entry(PING)


def test_an_entry_that_promises_another_code_makes_no_fault() -> None:
    """Refused is not enough: the gate must say what the entry does."""
    entry = entry_of(harmless, lambda target: [spoiled(target.completion("{"))], Kind.JSON, "json.syntax", ("call",))
    assert not list(entry.all_for(PING))


def test_what_holds_the_canary_is_invented() -> None:
    """The canary is told wherever it stands, in JSON and in a body; other texts when they are named."""
    assert spoiled({"a": [f"the {CANARY}"]}).invented == (CANARY,)
    assert spoiled(HTTPReply.json(200, CANARY)).invented == (CANARY,)
    assert spoiled({"a": "b"}).invented == ()
    assert spoiled({"a": "b"}, "/a", "odd words").invented == ("odd words",)


def test_a_fault_knows_where_it_was_put() -> None:
    """The pointer is kept."""
    assert spoiled(Target.of(PING).clean, "/limit").at == "/limit"
