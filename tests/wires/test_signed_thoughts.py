"""Thoughts that are signed: bound to the tools, the system prompt and all messages before them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import pytest

import strictreply as sr
from strictreply.core.forms import is_signed
from strictreply.testing import HTTPReply, SignedThoughts
from strictreply.testing.mounting import async_openai_client, openai_client
from strictreply.wires import WIRES
from strictreply.wires._thoughts import any_signed, thoughts_from
from support.scripted import USER, call, completion

JSONObject: TypeAlias = dict[str, Any]
Script: TypeAlias = list[JSONObject]

Spelling: TypeAlias = Literal["thinking_blocks", "reasoning_details", "content"]
SPELLINGS: tuple[Spelling, ...] = get_args(Spelling)


@sr.tool
def refund(order: int, note: str = "") -> str:
    """Refund an order."""
    return f"refunded {order}"


@sr.tool
def search(query: str) -> str:
    """Search the shop."""
    return f"found {query}"


def _calls(*calls: JSONObject) -> JSONObject:
    return completion(None, calls)


GOOD = _calls(call("refund", {"order": 1}, "good"))
WRONG_TYPE = _calls(call("refund", {"order": "one"}, "wrong"))
WRONG_AGAIN = _calls(call("refund", {"order": None}, "again"))
NO_JSON = _calls(call("refund", '{"order": ', "broken"))
UNKNOWN = _calls(call("refnd", {"order": 1}, "unknown"))
UNKNOWN_AGAIN = _calls(call("reffund", {"order": 1}, "unknown2"))
SAME_ID = _calls(call("refund", {"order": "one"}, "good"))
GOOD_SEARCH = call("search", {"query": "tea"}, "find")
TWO_ONE_WRONG = _calls(GOOD_SEARCH, call("refund", {"order": "one"}, "wrong"))
TWO_BOTH_WRONG = _calls(
    call("search", {"query": 1}, "find"), call("refund", {"order": "one"}, "wrong")
)
TWO_FIXED_IN_PART = _calls(
    call("search", {"query": "tea"}, "find2"), call("refund", {"order": "two"}, "wrong2")
)
TEXT_AND_WRONG = completion("Let me see.", [call("refund", {"order": "one"}, "wrong")])
TEXT_AND_UNKNOWN = completion("Let me see.", [call("refnd", {"order": 1}, "unknown")])
CUT = completion("I will ref", finish_reason="length")
LEAKED = completion('<tool_call>{"name": "refund", "arguments": {"order": 1}}</tool_call>')

SCRIPTS: dict[str, Script] = {
    "no fault": [GOOD],
    "wrong type": [WRONG_TYPE, GOOD],
    "wrong type twice": [WRONG_TYPE, WRONG_AGAIN, GOOD],
    "wrong type four times": [WRONG_TYPE, WRONG_AGAIN, WRONG_TYPE, WRONG_AGAIN, GOOD],
    "arguments that are not JSON": [NO_JSON, GOOD],
    "not JSON, then a wrong type": [NO_JSON, WRONG_TYPE, GOOD],
    "unknown tool": [UNKNOWN, GOOD],
    "unknown tool twice": [UNKNOWN, UNKNOWN_AGAIN, GOOD],
    "unknown tool, then a wrong type": [UNKNOWN, WRONG_TYPE, GOOD],
    "an id that comes again": [WRONG_TYPE, SAME_ID, GOOD],
    "one of two calls": [TWO_ONE_WRONG, GOOD],
    "one of two calls, twice": [TWO_ONE_WRONG, WRONG_AGAIN, GOOD],
    "two calls": [TWO_BOTH_WRONG, TWO_FIXED_IN_PART, GOOD],
    "one of two calls, then text": [TWO_ONE_WRONG, completion("Sure."), GOOD],
    "one of two calls, then both": [TWO_ONE_WRONG, TWO_ONE_WRONG, GOOD],
    "text beside a wrong call": [TEXT_AND_WRONG, GOOD],
    "text beside a wrong call, twice": [TEXT_AND_WRONG, WRONG_AGAIN, GOOD],
    "text beside an unknown tool": [TEXT_AND_UNKNOWN, GOOD],
    "cut": [CUT, GOOD],
    "a call as text": [LEAKED, GOOD],
    "a call as text, answered by text": [LEAKED, completion("Nothing to refund.")],
    "a wrong call, answered by text": [UNKNOWN, completion("Nothing to refund.")],
}

ENDS_STREAMED = ("cut", "one of two calls, then text")
"""The scripts that end sooner where text goes out live."""


def _served(steps: Iterator[JSONObject], _request: JSONObject) -> JSONObject:
    return next(steps)


def _model(script: Script, spelling: Spelling) -> SignedThoughts:
    """Return a model that plays a script, and then calls a tool wrongly, rightly, and ends."""
    wrong = _calls(call("search", {"query": 3}, "wrong3"))
    right = _calls(call("search", {"query": "milk"}, "right3"))
    steps = iter([*script, wrong, right, completion("Done.")])
    return SignedThoughts(lambda _request: deepcopy(next(steps)), spelling=spelling)


def _created(client: Any, messages: list[Any]) -> JSONObject:
    completed = client.chat.completions.create(model="m", messages=messages)
    return _dumped(completed.choices[0].message)


def _dumped(message: Any) -> JSONObject:
    """Return a message as the SDK has it, whose type knows no list as content."""
    return dict(message.model_dump(exclude_none=True, warnings=False))


def _created_async(client: Any, messages: list[Any]) -> JSONObject:
    async def create() -> Any:
        return await client.chat.completions.create(model="m", messages=messages)

    return _dumped(asyncio.run(create()).choices[0].message)


def _streamed(client: Any, messages: list[Any]) -> JSONObject:
    """Return the message that a caller puts together of the chunks, thoughts by the same rule."""
    assembly = WIRES["chat"].assembly()
    for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
        assembly.add(chunk.model_dump(exclude_unset=True, warnings=False))

    message = assembly.response()["choices"][0]["message"]
    return {name: value for name, value in message.items() if value is not None}


def _replied(client: Any, messages: list[Any]) -> JSONObject:
    return dict(client.exchange(model="m", messages=messages).transcript[-1])


WAYS: dict[str, Callable[[Any, list[Any]], JSONObject]] = {
    "create": _created,
    "async create": _created_async,
    "streamed": _streamed,
    "exchange": _replied,
}


def _answered(message: JSONObject) -> list[JSONObject]:
    """Return a message with the results of its calls, or with the user's next words."""
    calls = message.get("tool_calls") or ()
    results = [{"role": "tool", "tool_call_id": one["id"], "content": "done"} for one in calls]
    return [message, *(results or [{"role": "user", "content": "go on"}])]


@pytest.mark.parametrize("keeps_cache", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.req("T29", "T31")
def test_no_signed_thought_is_refused(
    script: str, way: str, spelling: Spelling, keeps_cache: bool
) -> None:
    """Neither a correction nor the caller's next turns send a thought behind other messages."""
    if way == "streamed" and script in ENDS_STREAMED:
        pytest.skip("this script ends sooner where text goes out live")

    model = _model(SCRIPTS[script], spelling)
    is_async = way.startswith("async")
    raw: Any = async_openai_client(model) if is_async else openai_client(model)
    policy = sr.RetryPolicy(max_retries=5, keep_prompt_cache=keeps_cache)
    client = sr.wrap(raw, tools=[refund, search], parallel=True, policy=policy)

    history: list[Any] = list(USER)
    for _ in range(3):
        message = WAYS[way](client, history)
        history += _answered(message)

    assert model.refused == []
    assert history[-2]["content"]
    assert model.requests == len(SCRIPTS[script]) + 3


@pytest.mark.parametrize("unthinking", [{1}, {2}, {1, 3}, {2, 4}, {1, 2, 3}])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.req("T29")
def test_a_model_that_thinks_at_times_is_corrected(
    script: str, spelling: Spelling, unthinking: set[int]
) -> None:
    """A thought that first comes behind a correction goes back only behind the same messages."""
    steps = iter([*SCRIPTS[script], completion("Done.")])
    model = SignedThoughts(
        lambda _request: deepcopy(next(steps)), spelling=spelling, unthinking=unthinking
    )
    policy = sr.RetryPolicy(max_retries=5)
    client = sr.wrap(openai_client(model), tools=[refund, search], parallel=True, policy=policy)

    history: list[Any] = list(USER)
    for _ in range(2):
        message = _replied(client, history)
        history += _answered(message)

    # where the first reply was made without a thought, a correction may force the tool
    assert [words for words in model.refused if "tool_choice" not in words] == []
    assert history[-2]["content"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.req("T29")
def test_no_thought_of_next_request_is_refused(script: str, spelling: Spelling) -> None:
    """Those who send requests themselves get requests whose thoughts are taken back."""
    model = _model(SCRIPTS[script], spelling)
    raw = openai_client(model)
    policy = sr.RetryPolicy(max_retries=5)
    contract = sr.Contract(tools=[refund, search], parallel=True)

    history: list[Any] = list(USER)
    for _ in range(3):
        step = contract.next_request({"model": "m", "messages": history}, policy=policy)
        while step.request is not None:
            response = raw.chat.completions.create(**step.request)
            step = contract.next_request(step.request, response)

        assert step.completion is not None
        history = [*history, *_answered(step.completion["choices"][0]["message"])]

    assert model.refused == []
    assert history[-2]["content"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.req("T29")
def test_no_thought_of_a_tool_loop_is_refused(script: str, spelling: Spelling) -> None:
    """A run of the tool loop, and the run that goes on from it, send thoughts that are taken."""
    model = _model(SCRIPTS[script], spelling)
    policy = sr.RetryPolicy(max_retries=5)
    client = sr.wrap(openai_client(model), tools=[refund, search], parallel=True, policy=policy)

    run = sr.run(client, "My tea is late.", model="m")
    while model.requests < len(SCRIPTS[script]) + 3:
        run = sr.run(client, "Go on.", model="m", after=run)

    assert model.refused == []
    assert run.answer


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.req("T29")
def test_no_thought_of_a_batch_is_refused(spelling: Spelling) -> None:
    """Every row of a batch is corrected behind its own thoughts."""
    steps = iter([WRONG_TYPE, WRONG_AGAIN, GOOD, UNKNOWN, UNKNOWN_AGAIN, GOOD])
    model = SignedThoughts(lambda _request: deepcopy(next(steps)), spelling=spelling)
    ask = sr.batch.rows(
        sr.Contract(tools=[refund, search]),
        model="m",
        messages="text",
        client=lambda: async_openai_client(model),
        concurrency=1,
    )

    rows = ask([{"id": number, "text": "refund 1"} for number in range(2)])

    assert model.refused == []
    assert [row["attempts"] for row in rows] == [3, 3]
    assert [row["status"] for row in rows] == ["fixed", "fixed"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("channel", ["text", "native"])
@pytest.mark.req("T29")
def test_a_structured_answer_is_corrected_behind_its_thoughts(
    channel: Any, spelling: Spelling
) -> None:
    """Neither the instructions nor the format of a request change behind a signed thought."""
    wrapped = {"answer": {"order": 1}} if channel == "text" else {"order": 1}
    bad = json.dumps(wrapped).replace("1", '"one"')
    long = json.dumps(wrapped).replace("1", '"' + "long " * 100 + '"')
    steps = iter(map(completion, [bad, long, "no JSON", json.dumps(wrapped), "Done."]))
    model = SignedThoughts(lambda _request: next(steps), spelling=spelling)
    policy = sr.RetryPolicy(max_retries=5, keep_prompt_cache=False)
    answer = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
    contract = sr.Contract(answer=answer, channel=channel, tools=[search])
    client = sr.wrap(openai_client(model), contract=contract, policy=policy)

    exchange = client.exchange(model="m", messages=USER)

    assert model.refused == []
    assert len(exchange.attempts) == 4
    assert exchange.reply == sr.DirectAnswer({"order": 1})
    assert not is_signed(exchange.transcript[-1])


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.req("T29")
def test_a_caller_whose_history_is_signed_keeps_its_tools(spelling: Spelling) -> None:
    """A reply without thoughts is corrected with all tools where an earlier turn is signed."""
    steps = iter([GOOD, WRONG_TYPE, WRONG_AGAIN, GOOD])
    model = SignedThoughts(
        lambda _request: deepcopy(next(steps)), spelling=spelling, unthinking={2, 3, 4}
    )
    client = sr.wrap(openai_client(model), tools=[refund, search])

    first = _replied(client, list(USER))
    exchange = client.exchange(model="m", messages=[*USER, *_answered(first)])

    assert is_signed(first)
    assert model.refused == []
    assert len(exchange.attempts) == 3


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.req("T29")
def test_calls_are_handed_back_with_the_first_turns_thoughts(spelling: Spelling) -> None:
    """Calls carry the thoughts of the reply to the caller's own messages, a text carries none."""
    for script, signatures in (
        ([UNKNOWN, GOOD], ["signature-1"]),
        ([LEAKED, WRONG_TYPE, GOOD], ["signature-1"]),
        ([UNKNOWN, completion("No.")], []),
    ):
        steps = iter(deepcopy(script))
        model = SignedThoughts(partial(_served, steps), spelling=spelling)
        client = sr.wrap(openai_client(model), tools=[refund])
        message = _replied(client, list(USER))

        text = json.dumps(message)
        assert [f"signature-{n}" for n in range(1, 4) if f"signature-{n}" in text] == signatures


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.req("T29")
def test_a_refused_token_limit_moves_no_thought(spelling: Spelling) -> None:
    """Where the server refuses a raised limit, the correction is written once more, not twice."""
    steps = iter([WRONG_TYPE, CUT, GOOD])

    def served(request: JSONObject) -> Any:
        if request["max_tokens"] > 100:
            return HTTPReply.json(400, {"error": {"message": "max_tokens is too large"}})
        return deepcopy(next(steps))

    model = SignedThoughts(served, spelling=spelling)
    client = sr.wrap(openai_client(model), tools=[refund])
    exchange = client.exchange(model="m", messages=USER, max_tokens=100)

    roles = [message["role"] for message in exchange.attempts[-1].request["messages"]]
    assert model.refused == []
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert isinstance(exchange.reply, sr.ToolCall)
    assert refund.run(exchange.reply) == "refunded 1"


@pytest.mark.parametrize(
    ("fragments", "thoughts"),
    [
        pytest.param(
            [
                {"type": "thinking", "thinking": "a", "signature": None},
                {"type": "thinking", "thinking": "b", "signature": ""},
                {"type": "thinking", "thinking": "", "signature": "S1"},
                {"type": "thinking", "thinking": "", "signature": "S2"},
            ],
            [
                {"type": "thinking", "thinking": "ab", "signature": "S1"},
                {"type": "thinking", "thinking": "", "signature": "S2"},
            ],
            id="a signature ends a thought",
        ),
        pytest.param(
            [
                {"type": "redacted_thinking", "data": "d1"},
                {"type": "redacted_thinking", "data": "d2"},
            ],
            [
                {"type": "redacted_thinking", "data": "d1"},
                {"type": "redacted_thinking", "data": "d2"},
            ],
            id="sealed thoughts come whole",
        ),
        pytest.param(
            [
                {"type": "reasoning.text", "text": "a", "index": 0, "format": "f"},
                {"type": "reasoning.text", "text": "b", "index": 0, "format": "f"},
                {"type": "reasoning.text", "text": "c", "index": 1, "format": "f"},
            ],
            [
                {"type": "reasoning.text", "text": "ab", "index": 0, "format": "f"},
                {"type": "reasoning.text", "text": "c", "index": 1, "format": "f"},
            ],
            id="an index is a label",
        ),
        pytest.param(
            [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "b", "signature": "S"}],
                },
            ],
            [
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "ab", "signature": "S"}],
                }
            ],
            id="a summary in parts",
        ),
        pytest.param(
            ["x", None, {"type": "t"}], ["x", None, {"type": "t"}], id="what is no thought"
        ),
    ],
)
def test_fragments_of_a_thought_are_joined(fragments: list[Any], thoughts: list[Any]) -> None:
    """A stream's fragments become the thoughts that the provider signed, no more and no fewer."""
    assert thoughts_from(fragments) == thoughts


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"thinking_blocks": [{"type": "thinking", "thinking": "a", "signature": "S"}]}, True),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "a", "signature": None}]}, False),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]}, True),
        ({"content": [{"type": "redacted_thinking", "data": "d"}]}, True),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}, False),
        ({"provider_specific_fields": {"thinking_blocks": [{"signature": "S"}]}}, True),
        ({"reasoning_opaque": "sealed"}, True),
        ({"reasoning_content": "a plain thought"}, False),
        ({"tool_calls": [call("refund", {"signature": "by hand"})]}, False),
        ({"content": "my signature"}, False),
    ],
)
def test_a_signed_thought_is_told_by_its_seal(message: JSONObject, expected: bool) -> None:
    """A message is bound where a thought of it has a signature, or is sealed."""
    assert is_signed({"role": "assistant", **message}) is expected


@pytest.mark.parametrize(
    "written",
    [
        "{}",
        'litellm.BadRequestError: AnthropicException - {{"type":"error","error":{{"message":{}}}}}',
        "Provider returned error: {}",
    ],
)
def test_a_refused_thought_says_its_cause(written: str) -> None:
    """The caller whose own history changed reads which kind of refusal it is, and what to do."""
    words = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation."
    )
    asked: list[JSONObject] = []

    def refused(request: JSONObject) -> Any:
        asked.append(request)
        return HTTPReply.json(400, {"error": {"message": written.format(words)}})

    client = sr.wrap(openai_client(refused), tools=[refund])
    with pytest.raises(sr.TransportFailed) as told:
        client.reply(model="m", messages=USER)

    assert told.value.reason == "thought_mismatch"
    assert len(asked) == 1
    assert words in told.value.explain()


IN_PARTS = ("one of two calls", "one of two calls, twice", "two calls")
"""The scripts whose reply was completed in parts: the calls that were right stay."""


@pytest.mark.parametrize("keeps_cache", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("script", IN_PARTS)
def test_a_call_that_was_right_is_in_the_reply_with_thoughts(
    script: str, spelling: Spelling, keeps_cache: bool
) -> None:
    """Behind signed thoughts, too, each further correction says which calls are kept, and the reply
    holds all of them.
    """
    steps = iter(SCRIPTS[script])
    asked: list[list[JSONObject]] = []

    def served(request: JSONObject) -> JSONObject:
        asked.append(request["messages"])
        return deepcopy(next(steps))

    model = SignedThoughts(served, spelling=spelling)
    policy = sr.RetryPolicy(max_retries=5, keep_prompt_cache=keeps_cache)
    client = sr.wrap(openai_client(model), tools=[refund, search], parallel=True, policy=policy)
    reply = client.reply(model="m", messages=USER)
    assert isinstance(reply, sr.ToolCalls)
    told = [(one["tool"], one["args"]) for one in reply.to_dict()["calls"]]
    assert told == [("search", {"query": "tea"}), ("refund", {"order": 1, "note": ""})]
    results = {one["tool_call_id"]: one["content"] for one in asked[-1] if one["role"] == "tool"}
    kept = "find2" if script == "two calls" else "find"
    assert results[kept] == "Valid, and kept as it is."


@pytest.mark.parametrize("message", [None, "text", 5, ["text"]])
def test_what_is_no_message_holds_no_thought(message: object) -> None:
    """A conversation may hold texts and other values: none of them binds it."""
    assert is_signed(message) is False
    assert any_signed([message]) is False
