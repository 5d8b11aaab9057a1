"""What is sent.

It is the caller's messages, the last bad reply as the assistant's own turn, one correction, nothing
else.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from strictreply import Contract, Invalid, RetryPolicy, TieredSteering, Tool
from strictreply.core import CallPlan, judge, shape
from strictreply.core.calls import Again
from strictreply.core.forms import draft_of
from strictreply.retry._asking import (
    Asked,
    BadReply,
    Correction,
    Resend,
    correction_for,
    first_turn,
    next_turn,
)
from strictreply.retry._scoping import scope_of
from strictreply.wires import WIRES
from support.loops import some
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, call, completion

SEARCH = Tool.from_json_schema("search", SCHEMA)
WEATHER = Tool.from_json_schema("weather", OTHER_SCHEMA)


class Invoice(BaseModel):
    """A structured answer."""

    total: int


def ask_of(
    *, policy: RetryPolicy | None = None, request: dict[str, Any] | None = None, **declared: Any
) -> CallPlan:
    """Shape one request against a contract."""
    contract = Contract(**{"tools": [SEARCH, WEATHER], **declared})
    terms, base = shape(contract, {"model": "m", "messages": USER, **(request or {})})
    return CallPlan(terms, base, policy or RetryPolicy(), TieredSteering())


def body(turn: Asked) -> dict[str, Any]:
    """Return the request of a turn as it is sent."""
    return WIRES["chat"].written(turn.request)


def corrected(ask: CallPlan, message: dict[str, Any], tier: int = 1) -> Correction:
    """Make the request that follows a bad message."""
    verdict = judge(ask.contract, message)
    assert isinstance(verdict, Invalid)
    draft = draft_of(message)
    bad = BadReply(draft, verdict.issues, scope_of(ask.contract, draft, verdict.issues))
    return correction_for(ask, first_turn(ask), bad, Again(tier))


def message(content: str | None = None, calls: Any = ()) -> dict[str, Any]:
    """Return a bare assistant message."""
    return dict(completion(content, calls)["choices"][0]["message"])


def test_the_first_request_is_the_callers_with_the_contract_in_it() -> None:
    """Native: the tools and whether several may be called; the rest is the caller's own."""
    request = body(first_turn(ask_of(request={"temperature": 0})))
    assert request == {
        "model": "m",
        "messages": USER,
        "temperature": 0,
        "tools": [SEARCH.definition, WEATHER.definition],
        "parallel_tool_calls": False,
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("required", "required"),
        ("none", "none"),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_tool_choice_is_sent_as_the_api_spells_it(choice: str, sent: Any) -> None:
    """A word stays a word, a tool's name becomes a named choice, ``auto`` is the API's default."""
    asked = (
        choice
        if choice in {"auto", "required", "none"}
        else {"type": "function", "function": {"name": choice}}
    )
    assert body(first_turn(ask_of(request={"tool_choice": asked}))).get("tool_choice") == sent


def test_a_structured_answer_is_asked_for_where_one_may_come() -> None:
    """``response_format`` holds the answer's schema, unless a tool is demanded or the caller has
    one already.
    """
    asked = body(first_turn(ask_of(answer=Invoice)))["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["name"] == "Invoice"
    assert asked["json_schema"]["schema"]["properties"].keys() == {"total"}

    assert "response_format" not in body(
        first_turn(ask_of(answer=Invoice, request={"tool_choice": "required"}))
    )
    own = {"type": "json_object"}
    assert (
        body(first_turn(ask_of(answer=Invoice, request={"response_format": own})))[
            "response_format"
        ]
        == own
    )


def test_answering_by_tool_adds_that_tool() -> None:
    """With ``answer_style="tool"`` final_answer is one of the tools, and one must be called."""
    request = body(first_turn(ask_of(answer_style="tool")))
    assert [tool["function"]["name"] for tool in request["tools"]] == [
        "search",
        "weather",
        "final_answer",
    ]

    assert request["tool_choice"] == "required"
    none = body(first_turn(ask_of(answer_style="tool", request={"tool_choice": "none"})))
    assert [tool["function"]["name"] for tool in none["tools"]] == ["final_answer"]
    assert none["tool_choice"] == "required"


@pytest.mark.req("T21")
def test_a_text_correction_shows_schema_fault_and_bad_text() -> None:
    """The second request holds the JSON Schema of the union, the path of the fault and the bad text
    verbatim.
    """
    ask = ask_of(channel="text")
    bad = '{"answer": 42, "tool": "search"}'
    turn = corrected(ask, message('{"answer": 42}'))
    texts = [turn["content"] for turn in body(turn)["messages"]]
    schema = json.loads(texts[0].rpartition("\n")[2])
    branches = schema["anyOf"]
    assert any("tool" in branch["properties"] for branch in branches)
    assert any("answer" in branch["properties"] for branch in branches)

    assert body(turn)["messages"][-2] == {"role": "assistant", "content": '{"answer": 42}'}
    assert "/answer: must be a string" in texts[-1]
    assert body(corrected(ask, message(bad)))["messages"][-2]["content"] == bad


def test_instructions_stand_behind_the_callers_own() -> None:
    """The text channel's instructions end the caller's first turn, or make one: many templates take
    only one.
    """
    messages = body(first_turn(ask_of(channel="text")))["messages"]
    assert [turn["role"] for turn in messages] == ["system", "user"]
    assert messages[0]["content"].startswith(USER[0]["content"])
    assert messages[1] == USER[1]

    alone = body(first_turn(ask_of(channel="text", request={"messages": USER[1:]})))["messages"]
    assert [turn["role"] for turn in alone] == ["system", "user"]
    parts = [{"role": "developer", "content": [{"type": "text", "text": "a"}]}, USER[1]]
    parted = body(first_turn(ask_of(channel="text", request={"messages": parts})))["messages"]
    assert [part["type"] for part in parted[0]["content"]] == ["text", "text"]

    assert len(parts[0]["content"]) == 1
    odd = [
        MappingProxyType({"role": "system", "content": ({"type": "text", "text": "a"},)}),
        USER[1],
    ]
    merged = body(first_turn(ask_of(channel="text", request={"messages": odd})))["messages"]
    assert [part["type"] for part in merged[0]["content"]] == ["text", "text"]


def test_the_union_takes_the_place_of_the_callers_format() -> None:
    """In the text channel a ``json_schema`` response format is spelled for the union, or the server
    would refuse it.
    """
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    request = body(first_turn(ask_of(channel="text", request={"response_format": wanted})))
    assert "anyOf" in request["response_format"]["json_schema"]["schema"]
    plain = {"type": "json_object"}
    assert (
        body(first_turn(ask_of(channel="text", request={"response_format": plain})))[
            "response_format"
        ]
        == plain
    )


def test_where_a_switch_is_allowed_the_correction_is_still_exact() -> None:
    """The whole reply is retried, but what was broken is shown as for one call."""
    ask = ask_of(policy=RetryPolicy(allow_other_tool=True))
    turn = corrected(ask, message(calls=[call("search", {"query": 1})]), tier=2)
    assert len(body(turn)["tools"]) == 2
    assert "Schema of /query" in body(turn)["messages"][-1]["content"]


def test_a_forced_call_is_asked_for_without_a_format() -> None:
    """Re-asking one call, nothing is said of how content should look."""
    wanted = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {**SCHEMA, "additionalProperties": False}},
    }
    ask = ask_of(request={"response_format": wanted})
    assert body(first_turn(ask))["response_format"] == wanted
    assert "response_format" not in body(
        corrected(ask, message(calls=[call("search", {"query": 1})]))
    )


def test_what_the_caller_says_of_parallel_calls_is_sent() -> None:
    """An explicit keyword goes out as it came; without one only a prohibition is sent."""
    assert (
        body(first_turn(ask_of(request={"parallel_tool_calls": True})))["parallel_tool_calls"]
        is True
    )
    assert body(first_turn(ask_of()))["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body(first_turn(ask_of(parallel=True)))
    assert "parallel_tool_calls" not in body(
        first_turn(ask_of(tools=[], request={"parallel_tool_calls": True}))
    )


@pytest.mark.req("T28")
def test_an_argument_correction_asks_for_just_that_call() -> None:
    """It carries the failing call, its faults and that tool's schema; not another tool's."""
    turn = corrected(ask_of(), message(calls=[call("search", {"limit": 1})]))
    request = body(turn)
    assert request["tools"] == [SEARCH.definition]
    replayed, answered = request["messages"][-2:]
    assert replayed["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"limit": 1}'}

    assert answered["role"] == "tool"
    assert "/query" in answered["content"]
    assert "weather" not in json.dumps(request)
    assert "city" not in json.dumps(request)


def test_requests_hold_the_conversation_and_one_correction() -> None:
    """Each retry is the caller's messages, the last bad reply and one correction, never the pile of
    them (X28).
    """
    ask = ask_of()
    first = corrected(ask, message("", [call("bogus", {})]))
    assert body(first)["messages"][:2] == USER
    assert len(body(first)["messages"]) == 4
    second = correction_for(
        ask, first, BadReply(draft_of(message("  ")), judge_issues(ask, message("  "))), Again(2)
    )
    assert body(second)["messages"][:2] == USER
    assert [turn["role"] for turn in body(second)["messages"][2:]] == ["assistant", "user"]
    assert "bogus" not in json.dumps(body(second)["messages"])


def judge_issues(ask: CallPlan, bad: dict[str, Any]) -> Any:
    """Return the faults of a bad message."""
    verdict = judge(ask.contract, bad)
    assert isinstance(verdict, Invalid)
    return verdict.issues


def test_tier_zero_is_the_same_request() -> None:
    """A plain repeat sends what was sent."""
    ask = ask_of()
    turn = corrected(ask, message(""))
    assert next_turn(ask, turn, None, Again(0)) == Resend(turn)


def test_escalation_comes_with_the_third_correction() -> None:
    """The policy's own keywords are sent from the third correction on."""
    ask = ask_of(policy=RetryPolicy(escalation={"model": "stronger"}))
    models = [body(corrected(ask, message(""), tier))["model"] for tier in (1, 2, 3, 4)]
    assert models == ["m", "m", "stronger", "stronger"]


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_room_is_doubled_where_the_caller_set_a_limit(key: str) -> None:
    """A cut reply raises the limit that cut it; without a limit there is nothing to raise."""
    issues = judge_issues(ask_of(), completion("x", finish_reason="length"))
    for request, expected in (({key: 8}, 16), ({}, None)):
        ask = ask_of(request=request)
        turn = correction_for(
            ask, first_turn(ask), BadReply(draft_of(message("x")), issues), Again(1)
        )
        assert body(turn).get(key) == expected


def after_cuts(ask: CallPlan, count: int) -> list[Asked]:
    """Make the requests that follow so many cut replies."""
    issues = judge_issues(ask, completion("x", finish_reason="length"))
    turns: list[Asked] = [first_turn(ask)]
    for tier in range(1, count + 1):
        turns.append(
            correction_for(ask, turns[-1], BadReply(draft_of(message("x")), issues), Again(tier))
        )
    return turns


@given(st.integers(1, 10**7), st.none() | st.integers(0, 10**8), st.integers(1, 12))
def test_v6_room_grows_to_the_cap_and_no_further(said: int, most: int | None, cuts: int) -> None:
    """The limit doubles up to the policy's cap, four times the caller's by default, and is never
    lowered.
    """
    ask = ask_of(policy=RetryPolicy(max_reply_tokens=most), request={"max_tokens": said})
    limits = [body(turn)["max_tokens"] for turn in after_cuts(ask, cuts)]
    cap = 4 * said if most is None else max(said, most)
    assert limits == [min(said * 2**number, cap) for number in range(cuts + 1)]
    assert all(
        isinstance(turn, Correction) and ("shorter" in turn.text or "least" in turn.text)
        for turn in after_cuts(ask, cuts)[1:]
    )


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("said", [True, False, 0, -5, 4096.0, "4096", None])
def test_v6_what_is_no_limit_is_never_raised(key: str, said: object) -> None:
    """A bool, zero, a negative number and what is no whole number go out as they came."""
    for turn in some(after_cuts(ask_of(request={key: said}), 3)):
        assert body(turn)[key] is said


def test_v6_other_faults_leave_the_room_as_it_is() -> None:
    """A limit that was raised stays for the corrections after it; another fault raises nothing."""
    ask = ask_of(request={"max_tokens": 8})
    cut = after_cuts(ask, 1)[-1]
    other = correction_for(
        ask, cut, BadReply(draft_of(message("  ")), judge_issues(ask, message("  "))), Again(2)
    )
    assert (body(cut)["max_tokens"], body(other)["max_tokens"], other.raises) == (16, 16, 1)


@given(st.text(max_size=300), st.text(max_size=100), st.text(max_size=30))
def test_no_byte_of_the_model_stands_in_another_turn(
    content: str, arguments: str, name: str
) -> None:
    """Text of the model is replayed only as its own assistant turn."""
    mark = "CANARY-7f3a"
    ask = ask_of()
    bad = message(mark + content, [call(name + mark, mark + arguments, mark)])
    turn = corrected(ask, bad)
    for one in body(turn)["messages"]:
        assert one["role"] == "assistant" or mark not in json.dumps(one)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_any_bad_message_makes_a_next_request(extra: Any) -> None:
    """For a bad message of any shape the next request can be made and is JSON."""
    ask = ask_of()
    for bad in (
        {"role": "assistant", "content": extra},
        {"role": "assistant", "tool_calls": extra},
    ):
        verdict = judge(ask.contract, bad)
        if isinstance(verdict, Invalid):
            json.dumps(body(corrected(ask, bad)))
