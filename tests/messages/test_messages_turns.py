"""Messages of Anthropic's API are judged, and a bad one goes back as the API takes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.messages import ASKED, MESSAGES, SEARCH, message, text, thought, use

CONTRACT = sr.Contract(tools=[SEARCH], parallel=True)
COUNT = sr.Contract(answer={"type": "object", "properties": {"n": {"type": "integer"}}})
SERVER_USE = {"type": "server_tool_use", "id": "srv_a", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srv_a", "content": []}


def correction(*replies: Any, contract: Any = CONTRACT, **asked: Any) -> Any:
    """Return the request that follows these replies."""
    step = contract.next_request({**ASKED, **asked}, api="messages")
    for reply in replies:
        assert step.request is not None
        step = contract.next_request(step.request, reply)

    return step


JUDGED: dict[str, tuple[Any, Any]] = {
    "a text": (message(text("tea")), sr.DirectAnswer("tea")),
    "a text that citations split": (
        message(
            text("Tea "), {**text("is"), "citations": [{"type": "char_location"}]}, text(" hot.")
        ),
        sr.DirectAnswer("Tea is hot."),
    ),
    "thoughts before it": (message(thought(), text("tea")), sr.DirectAnswer("tea")),
    "a call": (message(use({"query": "tea"})), sr.ToolCall("search", {"query": "tea"}, "toolu_a")),
    "a call with its caller": (
        message({**use({"query": "tea"}), "caller": {"type": "direct"}}),
        sr.ToolCall("search", {"query": "tea"}, "toolu_a"),
    ),
    "several calls": (
        message(use({"query": "a"}, "toolu_1"), use({"query": "b"}, "toolu_2")),
        sr.ToolCalls(
            (
                sr.ToolCall("search", {"query": "a"}, "toolu_1"),
                sr.ToolCall("search", {"query": "b"}, "toolu_2"),
            )
        ),
    ),
    "tools that the server runs": (
        message(text("I look. "), SERVER_USE, SERVER_RESULT, text("Tea.")),
        sr.DirectAnswer("I look. Tea."),
    ),
    "a result that continues an earlier turn": (
        message(SERVER_RESULT, text("Tea.")),
        sr.DirectAnswer("Tea."),
    ),
    "a block that is not known": (
        message({"type": "hologram", "light": 3}, text("tea")),
        sr.DirectAnswer("tea"),
    ),
    "a stop sequence": (
        message(text("tea"), stop="stop_sequence", stop_sequence="."),
        sr.DirectAnswer("tea"),
    ),
}


@pytest.mark.parametrize("name", JUDGED)
def test_what_fits_is_read(name: str) -> None:
    """Text blocks are joined, calls are calls, and all else passes."""
    came, reply = JUDGED[name]
    verdict = CONTRACT.check(came)
    assert isinstance(verdict, sr.Valid)
    assert verdict.reply == reply
    assert verdict.lenient == ()


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": (message(), "reply.empty"),
    "thoughts alone": (message(thought("hm")), "reply.empty"),
    "a refusal": (
        message(stop="refusal", stop_details={"type": "refusal", "category": "bio"}),
        "reply.refusal",
    ),
    "a cut": (message(text("te"), stop="max_tokens"), "reply.truncated"),
    "a cut beside a whole call": (
        message(use({"query": "tea"}), stop="max_tokens"),
        "reply.truncated",
    ),
    "a full context": (
        message(text("te"), stop="model_context_window_exceeded"),
        "reply.truncated",
    ),
    "a pause": (message(text("I look."), SERVER_USE, stop="pause_turn"), "reply.paused"),
    "a tool that is not declared": (message(use({}, name="fly")), "tool.unknown"),
    "a wrong type": (message(use({"query": 1})), "args.type"),
    "a key that is not declared": (message(use({"query": "a", "when": 1})), "args.extra_key"),
    "no input": (message(use({})), "args.required"),
    "an input that never was JSON": (message(use('{"query": "te')), "json.incomplete"),
    "an input that is no object": (message(use(["tea"])), "shape.wrong_type"),
    "an input whose key comes twice": (
        message(use('{"query": "a", "query": "b"}')),
        "json.duplicate_key",
    ),
    "a promised call": (message(text("I call."), stop="tool_use"), "call."),
    "a text of numbers": (message({"type": "text", "text": 3}), "reply.content"),
    "a block without a type": (message({"type": 3}), "envelope.malformed"),
    "no content": ({**message(), "content": None}, "envelope.malformed"),
    "the caller's role": (message(text("tea"), role="user"), "reply.role"),
    "an error": (
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "envelope.error",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_has_its_code(name: str) -> None:
    """Each fault has the code that it has on any other API."""
    came, code = REFUSED[name]
    verdict = CONTRACT.check(came)
    assert isinstance(verdict, sr.Invalid)
    assert verdict.issues[0].code.startswith(code)


def test_a_structured_answer_is_read_behind_its_prefill() -> None:
    """What the caller has begun is judged with what continues it, and not handed back twice."""
    turns = [*ASKED["messages"], {"role": "assistant", "content": '{"n":'}]
    done = correction(message(text(" 5}")), contract=COUNT, messages=turns)
    assert done.verdict.reply == sr.DirectAnswer({"n": 5})
    assert done.completion == message(text(" 5}"))

    again = correction(message(text(' "x"}')), contract=COUNT, messages=turns)
    assert again.verdict.issues[0].path == "/content/n"
    assert again.request["messages"][-1]["role"] == "user"
    fixed = COUNT.next_request(again.request, message(text('{"n": 5}')))
    assert isinstance(fixed.verdict, sr.Valid)


def test_every_call_is_answered_in_the_next_turn_results_first() -> None:
    """The turn goes back as it came, and its calls have one result each, in order."""
    blocks = [
        thought("", "sig1"),
        text("I look."),
        use({"query": 1}, "toolu_1"),
        use({"query": "b"}, "toolu_2"),
        use({"query": "c", "x": 1}, "toolu_3"),
    ]
    step = correction(message(*blocks))
    *before, assistant, answered = step.request["messages"]
    assert before == ASKED["messages"]
    assert assistant == {"role": "assistant", "content": blocks}
    assert answered["role"] == "user"
    assert [one["type"] for one in answered["content"]] == ["tool_result"] * 3
    assert [one["tool_use_id"] for one in answered["content"]] == ["toolu_1", "toolu_2", "toolu_3"]
    assert all(one["is_error"] for one in answered["content"])
    assert "/query" in answered["content"][0]["content"]


@pytest.mark.parametrize("given", ['{"query": "te', '["tea"]', '{"a": 1, "a": 2}', "null", ""])
def test_an_input_that_is_no_object_is_wrapped(given: str) -> None:
    """The API takes objects alone: the words stand in one, under the name that its page gives."""
    step = correction(message(use(given)))
    (call,) = step.request["messages"][-2]["content"]
    expected = {"INVALID_JSON": given} if given else {"INVALID_JSON": ""}
    assert call["input"] == expected
    assert step.request["messages"][-1]["content"][0]["tool_use_id"] == "toolu_a"


def test_a_name_that_the_api_refuses_is_quoted() -> None:
    """A call whose name cannot stand in a conversation is told in words."""
    step = correction(message(use({"query": "a"}, name="not a name")))
    assistant, answered = step.request["messages"][-2:]
    assert [block["type"] for block in assistant["content"]] == ["text"]
    assert [block["type"] for block in answered["content"]] == ["text"]


def test_an_empty_reply_is_no_turn() -> None:
    """The API takes no empty content: there is none in what is sent."""
    for reply in (message(), message(text("")), message(text(" \n"))):
        turns = correction(reply).request["messages"]
        assert all(turn["content"] for turn in turns)
        blocks = [one for turn in turns[1:] for one in turn["content"]]
        assert all(block["text"].strip() for block in blocks)
        assert turns[-1]["role"] == "user"


def test_long_replies_go_back_whole() -> None:
    """Nothing of a turn is left out, however long it is."""
    long = "x" * 20_000
    step = correction(message(text(long), use({"query": 1, "limit": long})))
    assert step.request["messages"][-2]["content"][0] == text(long)
    assert step.request["messages"][-2]["content"][1]["input"]["limit"] == long


def test_corrections_behind_signatures_are_appended() -> None:
    """Tools, system and all turns before stay as they were: each follows the last."""
    asked = {"system": [{**text("S"), "cache_control": {"type": "ephemeral"}}]}
    first = correction(message(thought("a", "s1"), use({"query": 1}, "toolu_1")), **asked)
    second = CONTRACT.next_request(
        first.request, message(thought("b", "s2"), use({"query": 2}, "toolu_2"))
    )
    assert second.request is not None
    before = first.request["messages"]
    assert second.request["messages"][: len(before)] == before
    for name in ("system", "tools", "model", "max_tokens"):
        assert second.request[name] == first.request[name]


def test_no_thought_stands_behind_an_input_that_was_written_otherwise() -> None:
    """Thoughts behind a call that is read as one without arguments are bound to what it was."""
    ping = {"name": "ping", "input_schema": {"type": "object", "properties": {}}}
    contract = sr.Contract(tools=[SEARCH, ping], parallel=True)
    bad = use({"query": 1}, "toolu_3")

    for given, kept in ((None, ["s1"]), ({}, ["s1", "s2"])):
        called = {**use({}, "toolu_2", name="ping"), "input": given}
        reply = message(thought("a", "s1"), called, thought("b", "s2"), bad)
        step = correction(reply, contract=contract)

        turn = step.request["messages"][-2]["content"]
        thoughts = [block["signature"] for block in turn if block["type"] == "thinking"]
        assert thoughts == kept
        assert [block["id"] for block in turn if block["type"] == "tool_use"] == [
            "toolu_2",
            "toolu_3",
        ]


def test_nothing_signed_behind_a_correction_is_handed_back() -> None:
    """The message has the thoughts of the first reply where it calls, and else none."""
    first = correction(message(thought("a", "s1"), use({"query": 1}, "toolu_1")))
    good = message(thought("b", "s2"), use({"query": "tea"}, "toolu_2"))
    done: Any = CONTRACT.next_request(first.request, good)
    assert done.completion["content"][0] == thought("a", "s1")
    assert done.completion["content"][1]["input"] == {"query": "tea"}

    whole = correction(message(thought("a", "s1"), use({}, name="fly")))
    told: Any = CONTRACT.next_request(whole.request, message(thought("b", "s2"), text("tea")))
    assert told.completion["content"] == [text("tea")]


@pytest.mark.parametrize("thinking", [{"type": "enabled", "budget_tokens": 500}, None])
def test_a_choice_of_ours_is_given_up_beside_manual_thinking(thinking: Any) -> None:
    """What the API refuses is not sent; a choice of the caller's own stays."""
    policy = sr.RetryPolicy(escalation=["forced_tool"])
    asked = {**ASKED} if thinking is None else {**ASKED, "thinking": thinking}
    wrong = [message(use({}, name=f"fly{number}")) for number in range(3)]
    step = CONTRACT.next_request(asked, *wrong, policy=policy, api="messages")
    assert step.request is not None
    forced = step.request.get("tool_choice", {}).get("type") in ("any", "tool")
    assert forced == (thinking is None)

    own = {**asked, "tool_choice": {"type": "any"}}
    kept = CONTRACT.next_request(own, api="messages")
    assert kept.request is not None
    assert kept.request["tool_choice"]["type"] == "any"


def test_a_paused_turn_is_continued() -> None:
    """It is sent back as it came, no user behind it, and what comes is judged behind it."""
    paused = message(text("I look. "), SERVER_USE, stop="pause_turn")
    step = correction(paused)
    assert step.request["messages"][-1] == {"role": "assistant", "content": paused["content"]}

    done: Any = CONTRACT.next_request(step.request, message(SERVER_RESULT, text("Tea.")))
    assert done.verdict.reply == sr.DirectAnswer("I look. Tea.")
    whole = [*paused["content"], SERVER_RESULT, text("Tea.")]
    assert done.completion["content"] == whole

    bad: Any = CONTRACT.next_request(step.request, message(SERVER_RESULT, use({"query": 1})))
    assert bad.request["messages"][-2]["content"] == [
        *paused["content"],
        SERVER_RESULT,
        use({"query": 1}),
    ]


def test_turns_are_continued_a_bounded_number_of_times() -> None:
    """A turn that never ends ends the call."""
    paused = message(SERVER_USE, stop="pause_turn")
    policy = sr.RetryPolicy(max_continuations=2)
    step = CONTRACT.next_request(ASKED, paused, paused, paused, policy=policy, api="messages")
    assert isinstance(step.error, sr.ReplyHalted)
    assert step.error.reason == "paused"
    assert len(step.attempts) == 3


TOOLS: dict[str, Any] = {
    "a definition": SEARCH,
    "one with its type": {**SEARCH, "type": "custom"},
    "one with all that the API takes": {
        **SEARCH,
        "description": "Finds.",
        "strict": True,
        "cache_control": {"type": "ephemeral"},
        "defer_loading": True,
        "eager_input_streaming": True,
        "input_examples": [{"query": "tea"}],
        "allowed_callers": ["direct"],
    },
    "a tool of the API": {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
    "a tool of the API that the program runs": {"type": "bash_20250124", "name": "bash"},
    "a toolset": {"type": "mcp_toolset", "mcp_server_name": "m"},
}


@pytest.mark.parametrize("name", TOOLS)
def test_tools_of_a_request_are_sent_as_they_came(name: str) -> None:
    """All members pass, in the order of the caller, and only the caller's own are judged."""
    other = {"name": "other", "input_schema": {"type": "object", "properties": {}}}
    request = MESSAGES.read({**ASKED, "tools": [TOOLS[name], other]})
    contract = sr.Contract()
    step = contract.next_request({**ASKED, "tools": [TOOLS[name], other]}, api="messages")
    assert step.request is not None
    sent = step.request["tools"][0]
    closed = {**sent}
    if "input_schema" in sent:
        closed["input_schema"] = {
            key: value
            for key, value in sent["input_schema"].items()
            if key != "additionalProperties"
        }

    assert closed == TOOLS[name]
    assert request.given_tools is not None


def test_calls_of_the_apis_tools_that_the_program_runs_pass() -> None:
    """Their input is any object: the API alone knows their schema."""
    tools = [{"type": "bash_20250124", "name": "bash"}]
    came = message(use({"command": "ls"}, name="bash"))
    step = sr.Contract().next_request({**ASKED, "tools": tools}, came, api="messages")
    assert isinstance(step.verdict, sr.Valid)
    assert step.verdict.reply == sr.ToolCall("bash", {"command": "ls"}, "toolu_a")


CHOICES: dict[str, Any] = {
    "any": {"type": "any"},
    "one": {"type": "tool", "name": "search"},
    "one at a time": {"type": "auto", "disable_parallel_tool_use": True},
    "none": {"type": "none"},
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_held_and_sent(name: str) -> None:
    """What a request demands of the calls is demanded of the reply."""
    asked = {**ASKED, "tools": [SEARCH], "tool_choice": CHOICES[name]}
    first = sr.Contract().next_request(asked, api="messages")
    assert first.request is not None
    kept = {**first.request["tool_choice"]}
    assert {**kept, **CHOICES[name]} == kept

    several = message(use({"query": "a"}, "toolu_1"), use({"query": "b"}, "toolu_2"))
    wrong = {"any": message(text("tea")), "one": message(text("tea")), "none": several}
    refused = sr.Contract().next_request(asked, wrong.get(name, several), api="messages")
    assert isinstance(refused.verdict, sr.Invalid)


@pytest.mark.parametrize(
    "wanted",
    [
        {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}},
        {"output_format": {"type": "json_schema", "schema": {}}},
    ],
)
def test_a_demanded_format_is_held_and_stays_at_its_place(wanted: Any) -> None:
    """Both places of the API are read, and written where they were."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    place = wanted.get("output_config", {}).get("format") or wanted["output_format"]
    place["schema"] = schema
    asked = {**ASKED, **wanted}
    good: Any = sr.Contract().next_request(asked, message(text('{"n": 1}')), api="messages")
    assert good.verdict.reply == sr.DirectAnswer({"n": 1})

    bad: Any = sr.Contract().next_request(asked, message(text('{"n": "1"}')), api="messages")
    assert bad.verdict.issues[0].code == "answer.type"
    (name,) = wanted
    assert bad.request[name].keys() == wanted[name].keys()


def test_prompt_caches_keep_their_place() -> None:
    """The breakpoints of the caller stand where they were, in every correction."""
    mark = {"cache_control": {"type": "ephemeral"}}
    turns = [{"role": "user", "content": [{**text("find tea"), **mark}]}]
    asked = {"system": [{**text("S"), **mark}], "messages": turns, "tools": [{**SEARCH, **mark}]}
    wrong = message(use({"query": 1}))
    first = sr.Contract().next_request({**ASKED, **asked}, wrong, api="messages")
    assert first.request is not None
    assert first.request["system"] == asked["system"]
    assert first.request["messages"][0] == turns[0]
    assert first.request["tools"][0]["cache_control"] == mark["cache_control"]
    assert json.dumps(first.request).count("cache_control") == 3


def test_cached_tokens_count() -> None:
    """The API counts them beside the others, and each is paid for."""
    used = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 7,
        "output_tokens": 5,
    }
    step = CONTRACT.next_request(ASKED, message(text("tea"), usage=used), api="messages")
    assert step.attempts[0].usage == sr.Usage(117, 5, 122)
