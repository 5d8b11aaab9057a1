"""``Contract.next_request``: the client's own loop as data, one step at a time."""

from __future__ import annotations

import json
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from pydantic import BaseModel
from tenacity import wait_none

import strictreply as sr
from support.scripted import (
    OTHER_SCHEMA,
    SCHEMA,
    USER,
    Server,
    StatusError,
    call,
    completion,
    truncated,
)

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
CONTRACT = sr.Contract(tools=[SEARCH])
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
UNKNOWN = completion(calls=[call("find", {"query": "tea"})])
REQUEST: dict[str, Any] = {"model": "m", "messages": USER}
POLICY = sr.RetryPolicy(wait=wait_none())
REPLIES = [
    GOOD,
    WRONG,
    UNKNOWN,
    completion("text"),
    truncated(),
    completion(calls=[call("search", "{")]),
    {"error": {}},
]


SEVERAL = sr.Contract(
    tools=[SEARCH, sr.Tool.from_json_schema("weather", OTHER_SCHEMA)], parallel=True
)
REPAIRS = [
    completion(calls=[call("search", {"query": 1}, "a"), call("weather", {"city": 2}, "b")]),
    completion(
        calls=[call("weather", {"city": "Oslo"}, "c"), call("search", {"query": "tea"}, "d")]
    ),
    completion(calls=[call("search", {"query": "tea"}), call("weather", {"city": 3})]),
    completion(calls=[call("weather", {"city": "Rome"})]),
    completion('{"tool": "search", "args": {"query": 1}}'),
    completion('{"query": "tea"}'),
    WRONG,
    UNKNOWN,
]
POLICIES = [
    POLICY,
    sr.RetryPolicy(keep_prompt_cache=True, wait=wait_none()),
    sr.RetryPolicy(
        max_retries=5,
        wait=wait_none(),
        escalation=["forced_tool", "response_format", "model", "human"],
        models=["m", "large"],
        ask_human=lambda context: None if context.tier > 6 else "tell",
    ),
]


class Invoice(BaseModel):
    """What an answer holds."""

    number: int


def test_a_valid_response_leaves_nothing_to_ask() -> None:
    """The verdict holds the typed reply; there is no request and no error."""
    step = CONTRACT.next_request(REQUEST, GOOD)
    assert step.verdict == sr.Valid(sr.ToolCall("search", {"query": "tea"}, id="call_a"))
    assert (step.request, step.error, step.completion) == (None, None, GOOD)


def test_an_invalid_response_gives_the_request_that_corrects_it() -> None:
    """The next request is the caller's messages, the bad reply and one correction, with the failing
    tool forced.
    """
    step = CONTRACT.next_request(REQUEST, WRONG)
    assert isinstance(step.verdict, sr.Invalid)
    assert step.verdict.issues[0].code == "args.type"
    assert step.request is not None

    assert step.request["messages"][: len(USER)] == USER
    assert step.request["messages"][len(USER)]["role"] == "assistant"
    assert step.request["tool_choice"] == {"type": "function", "function": {"name": "search"}}
    assert step.attempts[0].issues == step.verdict.issues

    assert REQUEST == {"model": "m", "messages": USER}


def test_without_a_response_the_first_request_is_made() -> None:
    """It carries what the contract says: its tools."""
    step = CONTRACT.next_request(REQUEST)
    assert step.verdict is None
    assert step.request is not None
    assert step.request["tools"] == [SEARCH.definition]
    assert json.loads(json.dumps(step.request))["messages"] == USER


@given(st.lists(st.sampled_from(REPLIES), min_size=1, max_size=6))
def test_the_steps_are_those_of_a_wrapped_client(replies: list[Any]) -> None:
    """Whatever comes, each request, the end and its story are those of the client's loop; kept or
    played again.
    """
    compare(CONTRACT, POLICY, replies)


@given(
    st.sampled_from([SEVERAL, SEVERAL.replace(channel="text", parallel=False)]),
    st.sampled_from(POLICIES),
    st.lists(st.sampled_from(REPAIRS), min_size=1, max_size=7),
)
def test_repairs_and_escalations_are_those_of_a_wrapped_client(
    contract: sr.Contract[str], policy: sr.RetryPolicy, replies: list[Any]
) -> None:
    """The same holds for scopes over several calls, payloads, cached requests, and each step of
    escalation.
    """
    compare(contract, policy, replies)


def compare(contract: sr.Contract[str], policy: sr.RetryPolicy, replies: list[Any]) -> None:
    """Play the replies to a client and step by step, and hold one to the other."""
    server = Server(*replies, GOOD)
    try:
        ended: Any = sr.wrap(server.client(), contract=contract, policy=policy).exchange(**REQUEST)
    except sr.CallFailed as error:
        ended = error

    came = chain(replies, repeat(GOOD))
    step = contract.next_request(REQUEST, policy=policy)
    responses = []
    sent = []

    while step.request is not None:
        sent.append(json.loads(json.dumps(step.request)))
        responses.append(next(came))
        step = contract.next_request(step.request, responses[-1], policy=policy)
        again = contract.next_request(REQUEST, *responses, policy=policy)
        assert (again.request, again.verdict, str(again.error)) == (
            step.request,
            step.verdict,
            str(step.error),
        )

    assert sent == [json.loads(body) for body in server.bodies]

    if isinstance(ended, sr.Exchange):
        assert isinstance(step.verdict, sr.Valid)
        assert step.verdict.reply == ended.reply
    else:
        assert type(step.error) in type(ended).__mro__
        assert step.error is not None
        assert step.error.reason == ended.reason

    assert [one.issues for one in step.attempts] == [one.issues for one in ended.attempts]


def test_a_valid_sibling_is_kept_while_one_call_is_asked_for_again() -> None:
    """The completion at the end holds both calls, the corrected one in its place."""
    contract = sr.Contract(tools=[SEARCH], parallel=True)
    both = completion(
        calls=[call("search", {"query": "tea"}, "a"), call("search", {"query": 1}, "b")]
    )
    step = contract.next_request(REQUEST, both)
    assert step.request is not None

    step = contract.next_request(
        step.request, completion(calls=[call("search", {"query": "oil"}, "c")])
    )
    assert step.completion is not None
    ids = [one["id"] for one in step.completion["choices"][0]["message"]["tool_calls"]]
    assert ids == ["a", "b"]


def test_what_repeats_the_contract_stays_what_was_declared() -> None:
    """A request that carries its own definitions gives the typed arguments of the declared tool all
    the same.
    """

    @sr.tool
    def find(query: Invoice) -> None:
        """Find."""

    contract = sr.Contract(tools=[find], answer=Invoice)
    first = contract.next_request(REQUEST).request
    assert first is not None
    stored = json.loads(json.dumps(first))
    step = contract.next_request(stored, completion(calls=[call("find", {"query": {"number": 1}})]))
    assert isinstance(step.verdict, sr.Valid)

    assert isinstance(step.verdict.reply, sr.ToolCall)
    assert step.verdict.reply.args.query == Invoice(number=1)
    step = contract.next_request(stored, completion('{"number": 2}'))
    assert step.verdict == sr.Valid(sr.DirectAnswer(Invoice(number=2)))


@pytest.mark.parametrize(
    "form", [GOOD, ChatCompletion.model_validate(GOOD), json.dumps(GOOD), json.dumps(GOOD).encode()]
)
def test_a_response_comes_in_any_form(form: Any) -> None:
    """A mapping, an object of the SDK, and JSON text or bytes are judged alike."""
    assert isinstance(CONTRACT.next_request(REQUEST, form).verdict, sr.Valid)


def test_an_exception_instead_of_a_response_is_a_failure_of_the_transport() -> None:
    """The same request is to be sent again after a pause, as often as the policy says; a bug is
    raised.
    """
    step = CONTRACT.next_request(REQUEST, StatusError(503, {"retry-after": "7"}))
    first = CONTRACT.next_request(REQUEST).request
    assert (step.verdict, step.wait, step.request) == (None, 7.0, first)
    step = CONTRACT.next_request(REQUEST, *[StatusError(503)] * 3)
    assert isinstance(step.error, sr.TransportFailed)
    with pytest.raises(KeyError):
        CONTRACT.next_request(REQUEST, KeyError("a bug"))


def test_a_response_after_the_end_is_refused() -> None:
    """A response after the end of the call is the caller's mistake."""
    with pytest.raises(sr.ContractError):
        CONTRACT.next_request(REQUEST, GOOD, GOOD)


def test_a_request_from_here_knows_how_to_go_on() -> None:
    """The policy and the steering that made it hold for what follows; others that are given take
    their place.
    """

    class Curt:
        """A steering that returns the same correction for every fault."""

        def correction(self, context: sr.CorrectionContext) -> str:
            """Return our words."""
            return f"again, {context.tier}"

    contract = sr.Contract(tools=[SEARCH])
    first = contract.next_request(REQUEST, policy=sr.RetryPolicy(max_retries=1), steering=Curt())
    assert first.request is not None
    second = contract.next_request(first.request, WRONG)
    assert second.request is not None

    assert second.attempts[0].issues
    assert "again, 1" in json.dumps(second.request["messages"])
    assert isinstance(contract.next_request(second.request, WRONG).error, sr.ReplyRejected)
    third = contract.next_request(second.request, WRONG, policy=sr.RetryPolicy(max_retries=2))
    assert third.request is not None
