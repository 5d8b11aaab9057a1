"""Entries: what is made is proved, and is made again from its source.

What cannot be made says what can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply import Issue
from strictreply.testing import (
    Fault,
    HTTPReply,
    Kind,
    ReplyPlace,
    ScriptedModel,
    error_reply,
    faults,
    ok,
)
from strictreply.testing._steps import Target
from strictreply.testing.faults import Entry, FaultNotMade
from strictreply.testing.faults._catalogue import (
    ANYWHERE,
    LEAKED_MARKER,
    WRITTEN,
    Spoiled,
    collected,
    is_refused,
    response_entry,
)
from support.testing.faults.spoken import CANARY


def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> None:
    """Search the shop."""


def ping() -> None:
    """Take nothing."""


class Refund(BaseModel):
    """Refund an order."""

    order: int
    notes: list[str]


async def ask_somebody(args: object) -> list[Issue]:
    """Refuse nothing, after asking."""
    raise AssertionError(args)


CHECKED = sr.Tool.from_function(search, name="checked", check=ask_somebody)
DEFINITION: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get-weather",
        "parameters": {"type": "object", "properties": {"a/b": {"type": "integer"}}},
    },
}


def made_of(code: str, *texts: str, places: tuple[ReplyPlace, ...] = WRITTEN) -> Entry:
    """Make an entry that serves these texts in place of the arguments."""

    def make(target: Target) -> Iterator[Spoiled]:
        """Serve each."""
        yield from (
            Spoiled(target.completion(text), f"/{number}") for number, text in enumerate(texts)
        )

    return Entry("made", Kind.JSON, code, "A test made it.", places, make)


def test_only_what_the_gate_refuses_is_made() -> None:
    """A candidate that is valid, or refused with another code than promised, is no fault."""
    found = list(
        made_of(
            "json.syntax", '{"query": "x"}', "{", f'{{"query" "{CANARY}"}}', '{"query": 5}'
        ).all_for(search)
    )
    assert [fault.at for fault in found] == ["/2"]
    assert (found[0].kind, found[0].code, found[0].invented[0]) == (
        Kind.JSON,
        "json.syntax",
        CANARY,
    )


def test_a_fault_with_another_code_than_declared_says_which() -> None:
    """Whoever declares an entry with a wrong code is told the code of the verdict."""
    with pytest.raises(faults.FaultNotMade) as told:
        made_of("json.syntax", '{"query": 5}')(search)
    assert "args.type" in str(told.value)


def test_a_broken_rule_of_an_answer_has_an_answers_code() -> None:
    """The same entry says ``args`` of a call and ``answer`` of a structured answer, and is proved
    by that.
    """
    entry = made_of("args.type", '{"order": "x", "notes": []}')
    assert entry(Refund).code == "args.type"
    assert entry(Refund, place="json").code == "answer.type"


def test_a_users_check_is_not_asked() -> None:
    """A value that fits the schema is not tried on a check, which may be async and need more than a
    test has.
    """
    assert list(made_of("args.type", '{"query": "x"}').all_for(CHECKED)) == []


def test_needs_are_part_of_the_proof() -> None:
    """A fault under a keyword alone is refused with it, and good without."""
    target = Target.of(search)
    served = target.contract.check(target.clean)
    assert isinstance(served, sr.Valid)
    fault = Fault("f", target.clean, "", code="tool.forbidden", needs={"tool_choice": "none"})
    assert is_refused(fault, target)
    assert not is_refused(Fault("f", target.clean, "", code="tool.forbidden"), target)


def test_what_is_no_completion_is_taken_at_its_word() -> None:
    """An HTTP response is not judged as a reply."""
    entry = Entry(
        "e", Kind.HTTP, "rate_limit", "S.", ANYWHERE, lambda _: [Spoiled(error_reply(429, "no"))]
    )
    assert entry().code == "rate_limit"
    assert isinstance(entry().served, HTTPReply)


@pytest.mark.parametrize(
    "tool",
    [search, ping, Refund, CHECKED, DEFINITION],
    ids=["function", "ping", "model", "tool", "dict"],
)
def test_each_fault_is_made_again_from_its_source(tool: object) -> None:
    """The source of every fault of the catalogue is Python that makes the same fault, whatever
    declared the tool.
    """
    found = list(faults.all_for(tool, kinds=list(Kind)))
    assert {fault.kind for fault in found} >= set(Kind) - {Kind.ARGS}

    for fault in found:
        again = eval(fault.source, {**globals(), "Tool": sr.Tool})  # noqa: S307 - our own words
        assert (again.id, again.code, again.place, again.needs) == (
            fault.id,
            fault.code,
            fault.place,
            fault.needs,
        )

        assert again.served == fault.served


@pytest.mark.parametrize(
    ("fault", "source"),
    [
        (faults.wrong_type(search, "limit"), "faults.wrong_type(search, '/limit')"),
        (
            faults.wrong_type(search, "/limit", place="union"),
            "faults.wrong_type(search, '/limit', place='union')",
        ),
        (
            faults.wrong_type(Refund, "order", place="json"),
            "faults.wrong_type(Refund, '/order', place='json')",
        ),
        (faults.rate_limited_seconds(), "faults.rate_limited_seconds()"),
        (
            faults.wrong_type(search, "query", args={"query": "tea", "limit": 2}),
            "faults.wrong_type(search, '/query', args={'query': 'tea', 'limit': 2})",
        ),
    ],
)
def test_sources_are_as_short_as_they_may_be(fault: Fault, source: str) -> None:
    """Only what is not usual is spelled: the place, and arguments that were given."""
    assert fault.source == source


def test_a_place_is_a_member_or_a_pointer() -> None:
    """A member's name means that member, also one that a pointer would escape."""
    assert faults.wrong_type(DEFINITION, "a/b", args={"a/b": 1}).at == "/a~1b"
    assert faults.wrong_type(Refund, "/notes", args={"order": 1, "notes": ["a"]}).at == "/notes"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (faults.wrong_type, "needs a tool"),
        (lambda: faults.wrong_type(search, "limt"), "/limt, but at /query, /limit"),
        (lambda: faults.wrong_type(search, place="prose"), "call, union, json, not as 'prose'"),
        (lambda: faults.wrong_type(search, place="native"), "not as 'native'"),  # type: ignore[arg-type]
        (lambda: faults.missing_required(ping), "nothing in its schema"),
        (
            lambda: made_of("json.syntax", "{", places=("json",))(search),
            "written as json, so give place=",
        ),
    ],
)
def test_what_cannot_be_made_says_what_can(make: Any, told: str) -> None:
    """A missing tool, a misspelt member, a wrong place and a tool without anything to break are
    told apart.
    """
    with pytest.raises(FaultNotMade, match=told):
        make()


def test_bad_arguments_and_bad_tools_are_errors_of_their_own() -> None:
    """Arguments that do not fit, and declarations of no tool, raise before any fault is made."""
    with pytest.raises(ValueError, match="search"):
        faults.wrong_type(search, args={"query": 5})
    with pytest.raises(sr.ContractError):
        faults.wrong_type(5)


def test_whole_texts_of_the_model_are_its_own() -> None:
    """An app that quotes the arguments of a bad reply echoes it, whatever the fault; good arguments
    are nobody's.
    """
    told = faults.trailing_comma(search)
    served: Any = told.served
    text = served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert text in told.invented

    model = ScriptedModel(told, ok.reply(search))
    turn = {"role": "user", "content": "tea"}
    model({"model": "m", "messages": [turn]})
    model(
        {
            "model": "m",
            "messages": [turn, {"role": "user", "content": f"this is not JSON: {text!r}"}],
        }
    )

    with pytest.raises(AssertionError):
        model.assert_no_echo()


def test_an_entry_is_named_for_the_variable_that_holds_it() -> None:
    """A row of a table is named when the catalogue is put together, kind by kind; what has a name
    keeps it.
    """
    shape = response_entry(
        Kind.SHAPE, "shape.empty", "Nothing is wrong.", lambda target: target.clean
    )
    syntax = made_of("json.syntax", "{")
    found = collected({"harmless": shape, "other": syntax, "no_entry": 5})
    assert found == {"made": syntax, "harmless": shape}
    assert list(found) == ["made", "harmless"]
    assert shape.name == "harmless"


def test_a_row_of_a_table_is_the_entry_as_declared() -> None:
    """Kind, code, summary, places and needs are those given; without places it can be written
    anywhere.
    """
    needs = {"tool_choice": "required"}
    entry = response_entry(
        Kind.TOOL, "tool.unknown", "Nothing is wrong.", lambda _: None, ("call",), needs
    )
    assert (entry.summary, entry.kind, entry.code) == (
        "Nothing is wrong.",
        Kind.TOOL,
        "tool.unknown",
    )

    assert (entry.places, entry.needs) == (("call",), needs)
    assert (
        response_entry(Kind.TOOL, "tool.unknown", "S.", error_reply(429, "no")).places == ANYWHERE
    )


@pytest.mark.parametrize("code", ["json.syntax", "tool.unknown"])
def test_an_entry_that_spoils_nothing_makes_no_fault(code: str) -> None:
    """The clean reply passes the gate: it is never served as a fault, and asking for it says so."""
    entry = response_entry(
        Kind.JSON, code, "Nothing is wrong.", lambda target: target.clean, ("call", "union")
    )
    collected({"harmless": entry})
    assert not list(entry.all_for(ping))
    assert not list(entry.all_for(ping, place="union"))
    with pytest.raises(FaultNotMade, match=r"faults\.harmless"):
        entry(ping)


def test_an_entry_that_promises_another_code_makes_no_fault() -> None:
    """Refused is not enough: the gate must say what the entry does."""
    entry = response_entry(
        Kind.JSON, "json.syntax", "S.", lambda target: target.completion("{"), ("call",)
    )
    assert not list(entry.all_for(ping))


def test_what_only_the_model_can_have_written_is_invented() -> None:
    """The canary and the leaked marker are told wherever they stand, in JSON and in a body."""
    served: tuple[Any, ...] = (
        {"a": [f"the {CANARY}"]},
        HTTPReply.json(200, CANARY),
        {"a": "b"},
        {"a": LEAKED_MARKER},
    )
    entry = made_of("json.syntax")
    target = Target.of(ping)
    told = [entry._fault(target, Spoiled(one), again=False).invented for one in served]
    assert told == [(CANARY,), (CANARY,), (), (LEAKED_MARKER,)]


def test_what_the_user_gave_is_not_invented() -> None:
    """A canary in the good arguments is the user's."""
    fault = made_of("args.type", f'{{"query": "{CANARY}", "limit": ""}}')(
        search, args={"query": CANARY}
    )
    assert CANARY not in fault.invented


def test_a_fault_knows_where_it_was_put() -> None:
    """The pointer is kept."""
    assert [fault.at for fault in made_of("json.syntax", "{,", '{"query" 5}').all_for(search)] == [
        "/0",
        "/1",
    ]
