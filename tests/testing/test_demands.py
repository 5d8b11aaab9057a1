"""A request says what a reply must be; what only the prompt says, the user says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply import ContractError
from strictreply.testing import HTTPReply, assistant, completion, faults, native_call
from strictreply.testing._scripts import Demand, DemandHints

USER = {"role": "user", "content": "Refund order 7."}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "done"}


def tool(name: str) -> dict[str, Any]:
    """Define a tool with one required member."""
    parameters = {
        "type": "object",
        "properties": {"order": {"type": "integer"}},
        "required": ["order"],
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


class Order(BaseModel):
    """A structured answer."""

    number: int


SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "Order", "schema": Order.model_json_schema()},
}


# The default is a frozen value.
def demand(*turns: dict[str, Any], hints: DemandHints = DemandHints(), **keywords: Any) -> Demand:  # noqa: B008
    """Read a request."""
    return Demand({"model": "m", "messages": [USER, *turns], **keywords}, hints)


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        (demand(), ["prose"]),
        (demand(tools=[tool("a")]), ["call"]),
        (demand(tools=[tool("a"), tool("b")]), ["call", "call"]),
        (demand(tools=[tool("a"), tool("b")], tool_choice="required"), ["call", "call"]),
        (
            demand(
                tools=[tool("a"), tool("b")],
                tool_choice={"type": "function", "function": {"name": "b"}},
            ),
            ["call"],
        ),
        (demand(tools=[tool("a")], tool_choice="none"), ["prose"]),
        (demand(tools=[tool("a")], response_format=SCHEMA), ["call", "json"]),
        (demand(tools=[tool("a")], response_format=SCHEMA, tool_choice="required"), ["call"]),
        (demand(response_format=SCHEMA), ["json"]),
        (demand(response_format={"type": "json_object"}), ["json"]),
        (
            demand(response_format={"type": "json_object"}, hints=DemandHints(answer=Order)),
            ["json"],
        ),
        (demand(hints=DemandHints(answer=Order)), ["json"]),
        (demand(hints=DemandHints(tools=(tool("a"),))), ["union"]),
        (demand(tools=[tool("a")], hints=DemandHints(tools=(tool("b"),))), ["call"]),
    ],
)
def test_a_request_says_where_a_reply_is_written(asked: Demand, places: list[str]) -> None:
    """Tools are called natively unless only the prompt names them; a format asks for JSON; else it
    is plain text.
    """
    assert [target.place for target in asked.targets] == places
    assert all(isinstance(asked.contract.check(target.clean), sr.Valid) for target in asked.targets)


@pytest.mark.parametrize(
    ("asked", "called"),
    [
        (demand(tools=[tool("a"), tool("b")]), "a"),
        (demand(RESULT, tools=[tool("a"), tool("b")]), None),
        (demand(RESULT, tools=[tool("a"), tool("b")], tool_choice="required"), "b"),
        (demand(RESULT, RESULT, RESULT, tools=[tool("a"), tool("b")], tool_choice="required"), "b"),
        (demand(RESULT, tools=[tool("a")], response_format=SCHEMA), None),
        (demand(RESULT, USER, tools=[tool("a")]), "a"),
        (demand(), None),
    ],
)
def test_good_replies_lead_to_an_end(asked: Demand, called: str | None) -> None:
    """A call comes first, then an answer, or the next tool where only calls may come."""
    served = asked.good()
    assert isinstance(served, dict)
    verdict = asked.contract.check(served)
    assert isinstance(verdict, sr.Valid)
    assert (verdict.reply.tool if isinstance(verdict.reply, sr.ToolCall) else None) == called


def test_what_the_user_calls_good_comes_first() -> None:
    """Given arguments are those of the first reply; the other tools get examples."""
    asked = demand(tools=[tool("a"), tool("b")], hints=DemandHints(args={"order": 1042}))
    assert [target.value == {"order": 1042} for target in asked.targets] == [True, False]
    assert demand(hints=DemandHints(args="Done, sir.")).targets[0].value == "Done, sir."


@pytest.mark.parametrize(
    "asked",
    [
        demand(
            tools=[{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}]
        ),
        demand(tools=[tool("a")], hints=DemandHints(args={"order": "x"})),
        demand(tools=[tool("a")], tool_choice="b"),
        demand(response_format={"type": "grammar"}),
    ],
)
def test_what_cannot_be_replied_to_is_said(asked: Demand) -> None:
    """A request beyond any verdict, and good arguments that do not fit, raise with a reason."""
    with pytest.raises((ContractError, ValueError)):
        assert asked.targets


def test_only_what_is_no_matter_of_the_verdict_is_needed() -> None:
    """A fault's needs are missing from a request that lacks them, but for what the verdict itself
    decides.
    """
    needs: dict[str, Any] = {"stream": True, "tool_choice": "required"}
    assert demand().missing(needs) == {"stream": True}
    assert demand(stream=True).missing(needs) == {}
    unasked: dict[str, Any] = {"stream": False}
    assert [
        one.missing(unasked) for one in (demand(), demand(stream=False), demand(stream=None))
    ] == [{}, {}, {}]
    assert demand(stream=True).missing(unasked) == unasked


def test_words_name_the_tools() -> None:
    """The words of a demand name the tools, and state whether the request streams."""
    told = demand(tools=[tool("a"), tool("b")], stream=True).words
    assert ("a, b" in told, "stream" in told) == (True, True)
    assert (
        len(
            {
                demand().words,
                demand(response_format=SCHEMA).words,
                demand(hints=DemandHints(tools=(tool("a"),))).words,
            }
        )
        == 3
    )


def test_several_calls_fit_unless_they_are_forbidden() -> None:
    """The API's default lets a model call several tools at once."""
    from strictreply.testing import faults  # noqa: PLC0415

    two = faults.CATALOGUE["two_calls"](tool("a"))
    assert not demand(tools=[tool("a")]).refuses(two)
    assert demand(tools=[tool("a")], parallel_tool_calls=False).refuses(two)


def test_what_is_no_completion_is_refused() -> None:
    """A raw response is a fault by itself."""
    from strictreply.testing import faults  # noqa: PLC0415

    fault = faults.CATALOGUE["internal_server_error"]()
    assert isinstance(fault.served, HTTPReply)
    assert demand().refuses(fault)


@pytest.mark.parametrize(
    ("said", "text", "admitted"),
    [
        ({}, None, True),
        ({"tool_choice": "none"}, None, False),
        ({"tool_choice": "required"}, "Done.", False),
    ],
)
def test_the_whole_request_says_what_is_admitted(
    said: dict[str, Any], text: str | None, admitted: bool
) -> None:
    """A call of any tool is a good reply, and text is one, unless the choice forbids it."""
    calls: list[Any] = [] if text else [native_call("b", '{"order": 7}')]
    assert (
        demand(tools=[tool("a"), tool("b")], **said).admits(completion(assistant(text, calls)))
        is admitted
    )


def called(name: str, arguments: str, id_: str = "call_1") -> dict[str, Any]:
    """Write the model's turn with one call, as the app keeps it."""
    return {"role": "assistant", "content": None, "tool_calls": [native_call(name, arguments, id_)]}


def result(id_: str = "call_1") -> dict[str, Any]:
    """Write the app's answer to a call."""
    return {"role": "tool", "tool_call_id": id_, "content": "whatever it says"}


GOOD_CALL = called("a", '{"order": 7}', "call_9")
INVALID_CALLS = [
    called("a", '{"order": "7"}'),
    called("a", '{"order": 7, "order": 8}'),
    called("x", "{}"),
    called("a", "{"),
]


@pytest.mark.parametrize("bad", INVALID_CALLS)
def test_a_tool_turn_may_be_a_correction(bad: dict[str, Any]) -> None:
    """A tool turn that answers a call which does not fit asks for it again; after the good one the
    answer comes.
    """
    tools = [tool("a"), tool("b")]
    for turns in (
        (bad, result()),
        (GOOD_CALL, result("call_9"), bad, result()),
        (bad, result(), bad, result()),
    ):
        verdict = sr.Contract(tools=tools).check(demand(*turns, tools=tools).good())
        assert isinstance(verdict, sr.Valid)
        assert isinstance(verdict.reply, sr.ToolCall)

    done = demand(bad, result(), GOOD_CALL, result("call_9"), tools=tools).good()
    verdict = sr.Contract(tools=tools).check(done)
    assert isinstance(verdict, sr.Valid)
    assert isinstance(verdict.reply, sr.DirectAnswer)


def test_one_bad_call_among_several_is_corrected() -> None:
    """Of two calls in one turn a result and a correction came back: a call is the good reply."""
    both = {**GOOD_CALL, "tool_calls": [*GOOD_CALL["tool_calls"], *INVALID_CALLS[0]["tool_calls"]]}
    for turns in ((result(), result("call_9")), (result("call_9"), result())):
        assert "tool_calls" in str(demand(both, *turns, tools=[tool("a")]).good())


def test_odd_ids_answer_no_call() -> None:
    """A tool turn whose id is no text is no app's correction: the conversation ends as after a
    result.
    """
    assert "tool_calls" not in str(
        demand({**RESULT, "tool_call_id": [{}]}, tools=[tool("a")]).good()
    )


def test_again_asks_for_the_call_whatever_the_turns_say() -> None:
    """A reply that was bad around a good call shows no fault in the conversation: who served it
    says so.
    """
    asked = demand(GOOD_CALL, result("call_9"), tools=[tool("a")])
    assert "tool_calls" not in str(asked.good())
    assert "tool_calls" in str(asked.good(again=True))


@pytest.mark.parametrize(
    ("name", "stream", "refused"),
    [
        ("stream_id_missing", True, True),
        ("stream_arguments_object", True, True),
        ("stream_id_repeated", True, True),
        ("stream_without_done", True, True),
        ("stream_hang", True, True),
        ("stream_html_page", True, True),
        ("unasked_stream", False, True),
    ],
)
def test_a_stream_is_judged_as_what_it_makes(name: str, stream: bool, refused: bool) -> None:
    """A known way of servers to stream stays a fault for apps, and so does what never ends,
    whatever it says.
    """
    asked = demand(tools=[tool("a")], stream=stream)
    (fault,) = faults.CATALOGUE[name].all_for(tool("a"), place="call")
    assert asked.refuses(fault) is refused
