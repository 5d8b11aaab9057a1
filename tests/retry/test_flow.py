"""The loop without I/O: what it asks for, in which order, and what it comes to."""

from __future__ import annotations

from collections.abc import Generator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from tenacity import wait_fixed

from strictreply import (
    Category,
    Contract,
    DirectAnswer,
    Issue,
    RetryPolicy,
    TieredSteering,
    Tool,
    ToolCall,
    ToolCalls,
)
from strictreply.core import CallPlan, Check, Checked, Failure, Request
from strictreply.core.calls import End
from strictreply.retry._flow import (
    Call,
    Claim,
    Ended,
    Failed,
    Noted,
    Notify,
    Outcome,
    Replied,
    Settled,
    Sleep,
    reply_flow,
)
from strictreply.wires import WIRES
from support.scripted import (
    OTHER_SCHEMA,
    SCHEMA,
    USER,
    call,
    completion,
    filtered,
    refusal,
    truncated,
)

SEARCH = Tool.from_json_schema("search", SCHEMA)
WEATHER = Tool.from_json_schema("weather", OTHER_SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
CLOCK = Tool.from_json_schema("clock", {"type": "object", "properties": {}})
TWO_WRONG = completion(
    calls=[
        call("search", {"query": 1}, "a"),
        call("clock", {}, "b"),
        call("weather", {"city": 2}, "c"),
    ]
)
TWO_CALLS = [call("search", {"query": "tea"}, "x"), call("weather", {"city": "Oslo"}, "y")]
TWO_RIGHT = completion(calls=TWO_CALLS)
OSLO = completion(calls=[call("weather", {"city": "Oslo"})])
TWO_WRONG_FIRST = completion(
    calls=[call("search", {"query": 1}, "a"), call("weather", {"city": "Oslo"}, "b")]
)


def asking(messages: list[Any], **keywords: Any) -> Request:
    """Return a request of chat completions."""
    return WIRES["chat"].read({"messages": messages, **keywords})


def flow_of(policy: RetryPolicy | None = None, **declared: Any) -> Generator[Any, Any, Outcome]:
    """Start the loop for one request."""
    contract = Contract(**{"tools": [SEARCH, WEATHER], **declared})
    base = asking(USER, model="m")
    return reply_flow(CallPlan(contract, base, policy or RetryPolicy(), TieredSteering()))


def finish(flow: Generator[Any, Any, Outcome], *events: Any) -> tuple[Outcome, list[Any]]:
    """Drive a flow by hand with these events for its calls; gives the outcome and every effect."""
    pending = list(events)
    effects: list[Any] = []
    answer: Any = None

    while True:
        try:
            effect = flow.send(answer)
        except StopIteration as stop:
            return stop.value, effects

        effects.append(effect)

        match effect:
            case Call():
                event = pending.pop(0)
                answer = event if isinstance(event, Replied | Failed) else Replied(event)
            case Sleep(seconds=seconds):
                answer = Noted(seconds)
            case Notify() | Claim():
                answer = Noted()
            case _:
                answer = Checked(())


def calls(effects: list[Any]) -> list[Call]:
    """Keep the calls."""
    return [effect for effect in effects if isinstance(effect, Call)]


def test_the_happy_path_is_one_call_and_one_note() -> None:
    """A reply that fits at once ends the loop; the completion is the one that came."""
    outcome, effects = finish(flow_of(), GOOD)
    assert isinstance(outcome, Settled)
    assert outcome.reply == ToolCall("search", {"query": "tea"}, "call_a")
    assert outcome.response == GOOD
    assert not outcome.spliced
    assert [type(effect) for effect in effects] == [Call, Notify]


@pytest.mark.req("T23")
@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_calls_are_one_and_the_retries(retries: int) -> None:
    """A model that never fits is asked exactly 1 + max_retries times."""
    outcome, effects = finish(
        flow_of(RetryPolicy(max_retries=retries)), *[completion("")] * (retries + 1)
    )
    assert isinstance(outcome, Ended)
    assert outcome.end == End("rejected", "retries")
    assert len(calls(effects)) == len(outcome.attempts) == retries + 1


def test_each_attempt_is_recorded_with_what_asked_for_it() -> None:
    """Attempts say their number, tier, scope, correction, faults, tokens and seconds."""
    outcome, _ = finish(
        flow_of(), Replied(WRONG, 1.5), Failed(Failure("timeout", retryable=True), 2.0), GOOD
    )
    assert isinstance(outcome, Settled)
    first, second, third = outcome.attempts
    assert (first.number, first.tier, first.scope, first.correction, first.seconds) == (
        1,
        0,
        None,
        None,
        1.5,
    )

    assert [issue.code for issue in first.issues] == ["args.type"]
    assert (second.tier, second.scope, second.failure, second.raw, second.usage.total_tokens) == (
        *(1, "search", "timeout"),
        *(None, 0),
    )

    assert (third.number, third.tier, third.accepted, third.usage.total_tokens) == (3, 1, True, 15)
    assert third.correction == second.correction
    assert third.request == second.request


def test_a_failed_transport_is_repeated_unchanged_after_a_pause() -> None:
    """The same request goes out again, after the pause that the policy chose."""
    flow = flow_of(RetryPolicy(wait=wait_fixed(3)))
    outcome, effects = finish(flow, Failed(Failure("connection", retryable=True)), GOOD)
    assert isinstance(outcome, Settled)
    first, second = calls(effects)
    assert first.request == second.request
    assert [effect.seconds for effect in effects if isinstance(effect, Sleep)] == [3]


def test_every_event_counts_against_the_deadline() -> None:
    """Calls, pauses and watchers spend the deadline; each call is given what is left of it."""
    flow = flow_of(RetryPolicy(deadline=10, wait=wait_fixed(2)))
    outcome, effects = finish(
        flow, Replied(completion(""), 3), Replied(completion(""), 4), Replied(GOOD, 0)
    )
    assert isinstance(outcome, Ended)
    assert outcome.end == End("halted", "deadline")
    assert [effect.timeout for effect in calls(effects)] == [10, 5]


@pytest.mark.parametrize("slow", [Noted(11), Checked((), 11)])
def test_checks_and_watchers_spend_the_deadline_too(slow: Noted | Checked) -> None:
    """Time lost in a watcher or a user's check counts like any other."""
    checked = Tool.from_json_schema("search", SCHEMA, check=lambda args: None)
    flow = flow_of(RetryPolicy(deadline=10), tools=[checked])
    refused = Issue("args.check", Category.FORMAT_ERROR, "/tool_calls/0/function/arguments", "no")
    next(flow)

    assert isinstance(flow.send(Replied(GOOD)), Check)
    noting = flow.send(Checked((refused,), slow.seconds if isinstance(slow, Checked) else 0))
    assert isinstance(noting, Notify)

    with pytest.raises(StopIteration) as ended:
        flow.send(slow if isinstance(slow, Noted) else Noted())

    assert ended.value.value.end == End("halted", "deadline")


@pytest.mark.parametrize(
    "slow", [Noted(10), Checked((), 10), Replied(GOOD, 10), Replied(GOOD, 1, 9)]
)
def test_v5_nothing_is_accepted_after_the_deadline(slow: Any) -> None:
    """A reply that fits is not accepted when it, its check, its watcher or what came before the
    call ended too late.
    """
    checked = Tool.from_json_schema("search", SCHEMA, check=lambda args: None)
    flow = flow_of(RetryPolicy(deadline=10), tools=[checked])
    next(flow)
    assert isinstance(flow.send(slow if isinstance(slow, Replied) else Replied(GOOD)), Check)

    told = flow.send(slow if isinstance(slow, Checked) else Checked(()))
    assert isinstance(told, Notify)
    # A watcher cannot know how long it will take.
    assert told.attempt.accepted is isinstance(slow, Noted)

    with pytest.raises(StopIteration) as ended:
        flow.send(slow if isinstance(slow, Noted) else Noted())

    assert ended.value.value.end == End("halted", "deadline")
    assert not any(attempt.accepted for attempt in ended.value.value.attempts)
    assert ended.value.value.attempts[-1].raw == GOOD


def test_v7_a_repeat_of_the_transport_is_claimed_and_a_correction_is_not() -> None:
    """The bucket is asked before each repeat and its wait; when it is empty the call ends as
    failed, and says why.
    """
    flow = flow_of(RetryPolicy(retry_budget=7, wait=wait_fixed(3), max_retry_after=5))
    failed = Failed(Failure("server_error", retryable=True, status_code=503))
    outcome, effects = finish(flow, WRONG, failed, {"no": "completion"}, GOOD)
    assert isinstance(outcome, Settled)

    assert [effect for effect in effects if isinstance(effect, Claim)] == [Claim(7), Claim(7)]
    again = flow_of(RetryPolicy(retry_budget=7))
    next(again)
    again.send(failed)

    assert again.send(Noted()) == Claim(7)

    with pytest.raises(StopIteration) as ended:
        again.send(Noted(granted=False))

    assert ended.value.value.end == End("failed", "retry_budget")
    assert ended.value.value.failure == failed.failure


def test_v7_without_a_quota_nothing_is_claimed() -> None:
    """``retry_budget=None`` leaves repeats to ``transport_retries`` alone."""
    outcome, effects = finish(
        flow_of(RetryPolicy(retry_budget=None)), Failed(Failure("connection", retryable=True)), GOOD
    )
    assert isinstance(outcome, Settled)
    assert not any(isinstance(effect, Claim) for effect in effects)


def test_a_pause_that_took_too_long_ends_at_the_deadline() -> None:
    """When waking comes after the deadline nothing is sent any more."""
    flow = flow_of(RetryPolicy(deadline=10, wait=wait_fixed(2)))
    next(flow)
    flow.send(Replied(completion("")))
    assert flow.send(Noted()) == Sleep(2)
    with pytest.raises(StopIteration) as stopped:
        flow.send(Noted(10.0))
    assert stopped.value.value.end == End("halted", "deadline")


@pytest.mark.parametrize(
    ("reply", "reason"), [(refusal(), "refusal"), (filtered(), "content_filter")]
)
def test_a_refusal_ends_after_one_call(reply: dict[str, Any], reason: str) -> None:
    """A refusal of the model or the provider is not asked again."""
    outcome, effects = finish(flow_of(), reply)
    assert isinstance(outcome, Ended)
    assert outcome.end == End("halted", reason)
    assert len(calls(effects)) == 1


def test_a_truncated_reply_gets_more_room() -> None:
    """The token limit is doubled each time, and nobody is told to fix JSON."""
    contract = Contract(tools=[SEARCH], channel="text")
    ask = CallPlan(contract, asking(USER, max_tokens=50), RetryPolicy(), TieredSteering())
    _, effects = finish(reply_flow(ask), truncated(), truncated(), completion('{"answer":"x"}'))
    first, second, third = (effect.request for effect in calls(effects))
    assert [first["max_tokens"], second["max_tokens"], third["max_tokens"]] == [50, 100, 200]
    corrections = [request["messages"][-1]["content"] for request in (second, third)]
    assert all("cut off" in text and "JSON" not in text for text in corrections)
    assert corrections[0] != corrections[1]


def test_a_malformed_envelope_is_sent_again_without_a_correction() -> None:
    """A response that is no completion is the server's fault: the same request goes out, on the
    transport's budget.
    """
    flow = flow_of(RetryPolicy(max_retries=0, transport_retries=1, wait=wait_fixed(0)))
    outcome, effects = finish(flow, None, {"choices": []})
    assert isinstance(outcome, Ended)
    assert outcome.end == End("failed", "malformed_response")
    assert outcome.failure is None
    assert [effect.request["messages"] for effect in calls(effects)] == [USER, USER]


@pytest.mark.parametrize(
    "response",
    [
        {"role": "assistant", "content": "a bare message"},
        {"content": "x"},
        {},
        [],
        "text",
        7,
        {"choices": ["x"]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": []}]},
        {"choices": {"0": {}}},
        {
            "error": {"message": "overloaded"},
            "choices": [{"message": {"role": "assistant", "content": "x"}}],
        },
    ],
)
def test_what_is_no_completion_is_never_accepted(response: Any) -> None:
    """A response without exactly one choice with a message ends as malformed, with one envelope
    issue each time.
    """
    outcome, _ = finish(flow_of(RetryPolicy(transport_retries=0)), response)
    assert isinstance(outcome, Ended)
    assert outcome.end == End("failed", "malformed_response")
    assert [issue.category for issue in outcome.attempts[0].issues] == [Category.API_TRANSIENT]


class TestScoped:
    """Re-asking one call only."""

    def test_only_the_failing_call_is_asked_for(self) -> None:
        """The request holds that tool alone and forces it; nothing but that call is shown again."""
        _, effects = finish(flow_of(parallel=True), TWO_WRONG_FIRST, GOOD)
        request = calls(effects)[1].request
        assert [tool["function"]["name"] for tool in request["tools"]] == ["search"]
        assert request["tool_choice"] == {"type": "function", "function": {"name": "search"}}

        assert request["parallel_tool_calls"] is False
        assistant, fixed = request["messages"][len(USER) :]
        assert [one["function"]["name"] for one in assistant["tool_calls"]] == ["search"]
        assert fixed["tool_call_id"] == assistant["tool_calls"][0]["id"]

        assert "/query" in fixed["content"]

    @pytest.mark.parametrize("at", ["message", "call", "content"])
    def test_what_a_provider_wants_back_goes_back_whole(self, at: str) -> None:
        """A message with thoughts or signatures is shown with all its calls, siblings as kept."""
        first = deepcopy(TWO_WRONG_FIRST)
        message = first["choices"][0]["message"]

        if at == "message":
            message["reasoning_content"] = "hm"
        elif at == "content":
            message["content"] = [{"type": "thinking", "thinking": "hm"}]
        else:
            message["tool_calls"][1]["extra_content"] = {"google": {"thought_signature": "x"}}

        _, effects = finish(flow_of(parallel=True), first, GOOD)
        assistant, fixed, kept = calls(effects)[1].request["messages"][len(USER) :]
        assert [one["function"]["name"] for one in assistant["tool_calls"]] == ["search", "weather"]
        assert "/query" in fixed["content"]

        assert kept["content"] == "Valid, and kept as it is."

    def test_one_well_formed_completion_comes_back(self) -> None:
        """The new arguments stand under the original id, the sibling is untouched, the order is
        kept.
        """
        fixed = completion(
            calls=[call("search", {"query": "tea", "limit": 3}, "zzz")], finish_reason="stop"
        )
        outcome, _ = finish(flow_of(parallel=True), TWO_WRONG_FIRST, fixed)
        assert isinstance(outcome, Settled)
        assert outcome.spliced

        assert outcome.reply == ToolCalls(
            (
                ToolCall("search", {"query": "tea", "limit": 3}, "a"),
                ToolCall("weather", {"city": "Oslo"}, "b"),
            )
        )
        choice = outcome.response["choices"][0]
        assert [one["id"] for one in choice["message"]["tool_calls"]] == ["a", "b"]
        assert choice["message"]["tool_calls"][1] == call("weather", {"city": "Oslo"}, "b")

        assert (choice["finish_reason"], outcome.response["usage"]) == (
            "tool_calls",
            fixed["usage"],
        )

    @pytest.mark.req("T29")
    @pytest.mark.parametrize(
        "switched",
        [
            completion(calls=[call("weather", {"city": "Oslo"})]),
            completion(
                calls=[call("search", {"query": "a"}, "x"), call("search", {"query": "b"}, "y")]
            ),
        ],
    )
    def test_another_tool_is_a_failed_attempt(self, switched: dict[str, Any]) -> None:
        """A switch is reported, and the same call is retried with its own faults."""
        outcome, effects = finish(flow_of(), WRONG, switched, GOOD)
        assert isinstance(outcome, Settled)
        assert outcome.reply == ToolCall("search", {"query": "tea"}, "call_a")
        assert [issue.code for issue in outcome.attempts[1].issues] == ["tool.switched"]
        third = calls(effects)[2].request
        assert "/query" in third["messages"][-1]["content"]
        assert third["tool_choice"] == {"type": "function", "function": {"name": "search"}}
        assert third["messages"][-2]["tool_calls"][0]["function"]["arguments"] == '{"query": 1}'

    @pytest.mark.req("T29")
    @pytest.mark.parametrize(
        ("switched", "reply"),
        [
            (
                completion(calls=[call("weather", {"city": "Oslo"})]),
                ToolCall("weather", {"city": "Oslo"}, "call_a"),
            ),
            (completion("an answer"), DirectAnswer("an answer")),
        ],
    )
    def test_a_switch_may_be_allowed(self, switched: dict[str, Any], reply: Any) -> None:
        """With ``allow_other_tool`` the other reply is judged by itself, and comes back as it
        came.
        """
        outcome, _ = finish(flow_of(RetryPolicy(allow_other_tool=True)), WRONG, switched)
        assert isinstance(outcome, Settled)
        assert (outcome.reply, outcome.response, outcome.spliced) == (reply, switched, False)

    def test_an_allowed_switch_spends_no_argument_budget(self) -> None:
        """Where a switch is allowed the whole reply is re-asked, so that ``arg_retries`` has
        nothing to count.
        """
        policy = RetryPolicy(allow_other_tool=True, arg_retries=0, max_retries=1)
        outcome, _ = finish(flow_of(policy), WRONG, GOOD)
        assert isinstance(outcome, Settled)
        assert len(outcome.attempts) == 2

    def test_an_allowed_switch_loses_no_sibling(self) -> None:
        """With an allowed switch the whole reply is retried: nothing is frozen, and nothing
        is lost.
        """
        flow = flow_of(RetryPolicy(allow_other_tool=True), parallel=True)
        outcome, effects = finish(flow, TWO_WRONG_FIRST, GOOD)
        assert isinstance(outcome, Settled)
        request = calls(effects)[1].request
        assert [tool["function"]["name"] for tool in request["tools"]] == ["search", "weather"]
        assert "tool_choice" not in request

    def test_a_cut_correction_keeps_the_frozen_siblings(self) -> None:
        """When the re-asked call is cut, it alone is retried, with more room."""
        contract = Contract(tools=[SEARCH, WEATHER], parallel=True)
        ask = CallPlan(contract, asking(USER, max_tokens=10), RetryPolicy(), TieredSteering())
        cut = completion(calls=[call("search", '{"que')], finish_reason="length")
        outcome, effects = finish(reply_flow(ask), TWO_WRONG_FIRST, cut, GOOD)
        assert isinstance(outcome, Settled)

        assert [made.scope for made in outcome.attempts] == [None, "search", "search"]
        last = calls(effects)[2].request
        assert last["max_tokens"] == 20
        # The fault in what is shown is still named.
        assert "/query" in last["messages"][-1]["content"]

        assert "token limit" not in last["messages"][-1]["content"].partition("\n")[2]
        assert isinstance(outcome.reply, ToolCalls)

    def test_several_wrong_calls_are_asked_for_in_one_request(self) -> None:
        """Their tools alone are sent and one must be called; each call's own tool turn says what is
        wrong with it.
        """
        outcome, effects = finish(
            flow_of(parallel=True, tools=[SEARCH, WEATHER, CLOCK]), TWO_WRONG, TWO_RIGHT
        )
        request = calls(effects)[1].request
        assert [tool["function"]["name"] for tool in request["tools"]] == ["search", "weather"]
        assert (request["tool_choice"], request["parallel_tool_calls"]) == ("required", True)

        _, search, weather = request["messages"][2:]
        assert ("/query" in search["content"], "/city" in search["content"]) == (True, False)
        assert ("/query" in weather["content"], "/city" in weather["content"]) == (False, True)
        assert isinstance(outcome, Settled)

        assert outcome.attempts[1].scope == "search, weather"
        assert outcome.attempts[1].correction == f"{search['content']}\n{weather['content']}"
        assert isinstance(outcome.reply, ToolCalls)
        assert [one.id for one in outcome.reply.calls] == ["a", "b", "c"]
        assert [one.args for one in outcome.reply.calls] == [{"query": "tea"}, {}, {"city": "Oslo"}]

    def test_a_partly_good_answer_keeps_what_is_good(self) -> None:
        """Of two calls asked for again, the one that is still wrong is asked for alone."""
        partly = completion(calls=[call("weather", {"city": 3}), call("search", {"query": "tea"})])
        outcome, effects = finish(
            flow_of(parallel=True, tools=[SEARCH, WEATHER, CLOCK]), TWO_WRONG, partly, OSLO
        )
        assert isinstance(outcome, Settled)
        assert [made.scope for made in outcome.attempts] == [None, "search, weather", "weather"]

        request = calls(effects)[2].request
        assert request["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
        assert [one["function"]["name"] for one in request["messages"][2]["tool_calls"]] == [
            "weather"
        ]
        assert isinstance(outcome.reply, ToolCalls)

        assert [one.args for one in outcome.reply.calls] == [{"query": "tea"}, {}, {"city": "Oslo"}]

    @pytest.mark.parametrize(
        "other",
        [
            OSLO,
            completion("done"),
            completion(calls=[*TWO_CALLS, call("search", {"query": "z"}, "call_9")]),
        ],
    )
    def test_fewer_more_or_other_calls_leave_the_frozen_message(
        self, other: dict[str, Any]
    ) -> None:
        """They are a switch, and the same calls are asked for again with their own faults."""
        flow = flow_of(parallel=True, tools=[SEARCH, WEATHER, CLOCK])
        outcome, effects = finish(flow, TWO_WRONG, other, TWO_RIGHT)
        assert isinstance(outcome, Settled)
        assert [issue.code for issue in outcome.attempts[1].issues] == ["tool.switched"]
        second, third = (effect.request for effect in calls(effects)[1:])
        assert second["messages"][2] == third["messages"][2]
        assert "/city" in third["messages"][-1]["content"]

    def test_the_words_for_several_calls_are_within_one_bound(self) -> None:
        """For any number of wrong calls the correction has at most 2 KB, and each call's turn names
        a fault.
        """
        many = completion(
            calls=[call("search", {f"key{n}": n for n in range(40)}, f"id{i}") for i in range(12)]
        )
        outcome, effects = finish(
            flow_of(RetryPolicy(max_retries=1), parallel=True), many, completion("")
        )
        assert isinstance(outcome, Ended)
        assert len(str(outcome.attempts[1].correction).encode()) <= 2000

        turns = calls(effects)[1].request["messages"][3:]
        assert ["/query" in turn["content"] for turn in turns] == [
            True
        ] * 8  # behind these none is read

    @pytest.mark.req("T31")
    def test_a_corrected_call_is_judged_again(self) -> None:
        """Wrong arguments in the correction are a failed attempt like any other."""
        still = completion(calls=[call("search", {"query": "tea", "limit": 99})])
        outcome, _ = finish(flow_of(RetryPolicy(max_retries=1)), WRONG, still)
        assert isinstance(outcome, Ended)
        assert (outcome.end, outcome.tool) == (End("rejected", "retries"), "search")
        assert [issue.code for issue in outcome.attempts[1].issues] == ["args.maximum"]

    def test_arguments_that_do_not_read_are_asked_for_alone(self) -> None:
        """Malformed JSON in the arguments of one call is fixed in that call."""
        outcome, effects = finish(flow_of(), completion(calls=[call("search", '{"query":')]), GOOD)
        assert isinstance(outcome, Settled)
        assert outcome.attempts[1].scope == "search"
        assert [turn["role"] for turn in calls(effects)[1].request["messages"][2:]] == [
            "assistant",
            "user",
        ]

    def test_the_text_channel_is_scoped_by_its_instructions(self) -> None:
        """There the arguments of that tool are asked for alone; a reply that is the whole union is
        taken as well.
        """
        wrong = completion('{"tool":"search","args":{}}')
        good = completion('{"tool":"search","args":{"query":"x"}}')
        outcome, effects = finish(flow_of(channel="text"), wrong, good)
        assert isinstance(outcome, Settled)
        assert (outcome.response, outcome.spliced) == (good, False)
        instructions = calls(effects)[1].request["messages"][0]["content"]
        assert "search" in instructions
        assert "weather" not in instructions


def test_a_users_check_is_an_effect_and_its_faults_are_corrected() -> None:
    """A check runs after the schema, and what it finds leads to a scoped correction."""
    checked = Tool.from_json_schema("search", SCHEMA, check=lambda args: None)
    flow = flow_of(tools=[checked])
    next(flow)
    effect = flow.send(Replied(GOOD))
    assert isinstance(effect, Check)

    issue = Issue(
        "args.check",
        Category.FORMAT_ERROR,
        "/tool_calls/0/function/arguments/query",
        "not for sale",
    )
    noted = flow.send(Checked((issue,), 0.25))
    assert isinstance(noted, Notify)
    assert noted.attempt.issues == (issue,)

    second = flow.send(Noted())
    assert isinstance(second, Call)
    assert second.request["messages"][-1]["content"].endswith("- /query: not for sale")


def test_the_requests_of_a_flow_never_touch_the_callers_messages() -> None:
    """The caller's list is never changed."""
    before = [dict(turn) for turn in USER]
    finish(flow_of(RetryPolicy(max_retries=3)), WRONG, completion(""), WRONG, WRONG)
    assert before == USER


GENERATED = '<function=search>{"query": 1}</function>'
TOOL_USE_FAILED = {
    "code": "tool_use_failed",
    "message": "see failed_generation",
    "failed_generation": GENERATED,
}
BAD_REQUEST = Failure("invalid_request", retryable=False, status_code=400)


def failed(error: Any = None, failure: Failure = BAD_REQUEST) -> Failed:
    """Return a call that ended with an error of the API."""
    return Failed(replace(failure, error=error))


def cut_flow(
    limit: int = 4096, policy: RetryPolicy | None = None, **declared: Any
) -> Generator[Any, Any, Outcome]:
    """Start the loop for a request with a token limit."""
    contract = Contract(**{"tools": [SEARCH, WEATHER], **declared})
    return reply_flow(
        CallPlan(
            contract,
            asking(USER, max_tokens=limit),
            policy or RetryPolicy(),
            TieredSteering(),
        )
    )


def limits(effects: list[Any]) -> list[int]:
    """Return the token limit of each request."""
    return [made.request["max_tokens"] for made in calls(effects)]


class TestTokenLimits:
    """V6, V8: the token limit that cuts a reply, and how far it is raised."""

    def test_v6_it_ends_at_the_cap(self) -> None:
        """Ten cut replies raise the limit to four times the caller's, not for ever, and end as a
        cut reply.
        """
        outcome, effects = finish(cut_flow(policy=RetryPolicy(max_retries=10)), *[truncated()] * 11)
        assert isinstance(outcome, Ended)
        assert outcome.end == End("rejected", "retries")
        assert limits(effects) == [4096, 8192, *[16384] * 9]
        assert {issue.code for issue in outcome.attempts[-1].issues} == {"reply.truncated"}

    def test_v6_a_refused_limit_is_a_cut_reply(self) -> None:
        """A 400 for a limit that we raised goes on with the limit before it, and asks for less."""
        outcome, effects = finish(
            cut_flow(), truncated("long"), failed({"code": "invalid_value"}), truncated(), GOOD
        )
        assert isinstance(outcome, Settled)
        assert limits(effects) == [4096, 8192, 4096, 4096]
        _, refused, again, _ = outcome.attempts
        assert [issue.code for issue in refused.issues] == ["reply.truncated"]

        assert (refused.failure, refused.raw) == (None, {"error": {"code": "invalid_value"}})
        messages = calls(effects)[2].request["messages"]
        assert [turn["role"] for turn in messages[2:]] == ["assistant", "user"]
        assert messages[2]["content"] == "long"

        assert again.correction != refused.correction

    def test_v6_refused_limits_end_as_a_cut_reply(self) -> None:
        """When retries end at a refused limit the call is rejected for the cut, not failed by the
        transport.
        """
        outcome, _ = finish(cut_flow(policy=RetryPolicy(max_retries=1)), truncated(), failed())
        assert isinstance(outcome, Ended)
        assert (outcome.end, outcome.failure) == (End("rejected", "retries"), None)
        assert [issue.code for issue in outcome.attempts[-1].issues] == ["reply.truncated"]

    @pytest.mark.parametrize(
        "events", [[failed()], [truncated(), failed(), failed()], [completion(""), failed()]]
    )
    def test_v6_any_other_refused_request_fails(self, events: list[Any]) -> None:
        """A 400 to the caller's own limit is the transport's failure, as before."""
        outcome, _ = finish(cut_flow(policy=RetryPolicy(max_reply_tokens=8192)), *events)
        assert isinstance(outcome, Ended)
        assert outcome.end == End("failed", "invalid_request")

    def test_v6_a_limit_that_a_longer_prompt_makes_too_much(self) -> None:
        """Raised for an earlier cut and refused beside another fault: that fault is corrected under
        the old limit.
        """
        outcome, effects = finish(cut_flow(), truncated(), WRONG, failed(), GOOD)
        assert isinstance(outcome, Settled)
        assert limits(effects) == [4096, 8192, 8192, 4096]
        codes = [[issue.code for issue in made.issues] for made in outcome.attempts]
        assert codes == [["reply.truncated"], ["args.type"], ["reply.truncated", "args.type"], []]

    def test_v8_a_cut_that_comes_as_an_error_gets_more_room(self) -> None:
        """Some servers answer a reply that met its limit with HTTP 400: the model is asked again,
        with more room.
        """
        said = (
            "Could not finish the message because max_tokens or model output limit was reached. "
            "Please try again."
        )
        outcome, effects = finish(cut_flow(), failed({"message": said, "code": None}), GOOD)
        assert isinstance(outcome, Settled)
        assert limits(effects) == [4096, 8192]

    def test_v6_a_call_re_asked_alone_keeps_its_scope(self) -> None:
        """If one call alone was cut, siblings stay frozen when the server refuses more room."""
        cut = completion(calls=[call("search", '{"que')], finish_reason="length")
        outcome, effects = finish(cut_flow(parallel=True), TWO_WRONG_FIRST, cut, failed(), GOOD)
        assert isinstance(outcome, Settled)
        assert isinstance(outcome.reply, ToolCalls)
        assert limits(effects) == [4096, 4096, 8192, 4096]
        assert [made.scope for made in outcome.attempts] == [None, "search", "search", "search"]

    @pytest.mark.parametrize("reason", ["stop", "tool_calls"])
    @pytest.mark.parametrize(
        "of", [{"calls": [call("search", {"query": "tea"})]}, {"content": "It is don"}]
    )
    def test_v8_a_relabelled_cut_gets_more_room(self, reason: str, of: dict[str, Any]) -> None:
        """A reply of as many tokens as its own request allowed is cut: asked for again, with more
        room.
        """
        relabelled = completion(**of, finish_reason=reason, tokens=(10, 50))
        outcome, effects = finish(cut_flow(50), relabelled, GOOD)
        assert isinstance(outcome, Settled)
        assert limits(effects) == [50, 100]
        assert [issue.code for issue in outcome.attempts[0].issues] == ["reply.truncated"]

    def test_v8_the_limit_is_that_of_the_attempt(self) -> None:
        """Once raised, it is the raised limit that a count is compared with."""
        at_first = completion(calls=[call("search", {"query": "tea"})], tokens=(10, 50))
        outcome, _ = finish(cut_flow(50), truncated(), at_first)
        assert isinstance(outcome, Settled)
        again, _ = finish(cut_flow(50), at_first, completion("x" * 9, tokens=(10, 100)), at_first)
        assert isinstance(again, Settled)
        assert [len(made.issues) for made in again.attempts] == [1, 1, 0]

    def test_v8_a_call_without_a_message_is_asked_for_again(self) -> None:
        """A cut that left no message is corrected like any other; it is not sent again for ever."""
        nothing = completion(None, finish_reason="length")
        nothing["choices"][0]["message"] = None
        outcome, effects = finish(cut_flow(policy=RetryPolicy(max_retries=2)), *[nothing] * 3)
        assert isinstance(outcome, Ended)
        assert outcome.end == End("rejected", "retries")
        assert len(calls(effects)) == 3


class TestErrorsOfTheModel:
    """V9: what the API reports as an error and is the model's, or its provider's, to answer for."""

    @pytest.mark.parametrize(
        "kind", [{}, {"kind": "server_error", "retryable": True, "status_code": 500}]
    )
    def test_v9_what_the_provider_could_not_read_is_corrected(self, kind: dict[str, Any]) -> None:
        """The generation in the error is replayed as the assistant's own turn, and nowhere else."""
        outcome, effects = finish(
            flow_of(), failed(TOOL_USE_FAILED, replace(BAD_REQUEST, **kind)), GOOD
        )
        assert isinstance(outcome, Settled)
        first, second = outcome.attempts
        assert [issue.code for issue in first.issues] == ["call.unreadable"]

        assert (first.failure, first.raw, second.tier) == (None, {"error": TOOL_USE_FAILED}, 1)
        replayed, correction = calls(effects)[1].request["messages"][-2:]
        assert replayed == {"role": "assistant", "content": GENERATED}
        assert correction["role"] == "user"

        assert "function=" not in correction["content"]

    @pytest.mark.parametrize("written", [None, "", {"tool_calls": []}, 7])
    def test_v9_an_error_without_a_generation_is_corrected_too(self, written: object) -> None:
        """Where the generation is not there, or no text, the assistant's turn says that nothing
        came.
        """
        outcome, effects = finish(
            flow_of(), failed(TOOL_USE_FAILED | {"failed_generation": written}), GOOD
        )
        assert isinstance(outcome, Settled)
        assert [turn["role"] for turn in calls(effects)[1].request["messages"][2:]] == [
            "assistant",
            "user",
        ]

    def test_v9_it_is_corrected_as_often_as_any_reply(self) -> None:
        """A model that never mends its call ends the call as rejected, on the budget of
        corrections.
        """
        policy = RetryPolicy(max_retries=2, transport_retries=0)
        outcome, effects = finish(flow_of(policy), *[failed(TOOL_USE_FAILED)] * 3)
        assert isinstance(outcome, Ended)
        assert (outcome.end, len(calls(effects))) == (End("rejected", "retries"), 3)

    def test_v9_a_call_re_asked_alone_keeps_its_scope(self) -> None:
        """The frozen message stays frozen when the re-asked call cannot be read."""
        outcome, _ = finish(flow_of(parallel=True), TWO_WRONG_FIRST, failed(TOOL_USE_FAILED), GOOD)
        assert isinstance(outcome, Settled)
        assert isinstance(outcome.reply, ToolCalls)

    @pytest.mark.parametrize(
        "error",
        [{"code": "content_filter"}, {"innererror": {"code": "ResponsibleAIPolicyViolation"}}],
    )
    def test_v9_a_filtered_request_is_halted_at_once(self, error: dict[str, Any]) -> None:
        """A content filter that answers with an error is the provider's last word."""
        outcome, effects = finish(flow_of(), failed(error))
        assert isinstance(outcome, Ended)
        assert (outcome.end, len(calls(effects))) == (End("halted", "content_filter"), 1)

    def test_v9_a_filter_without_a_message_is_halted_at_once(self) -> None:
        """Nothing is sent again, though there is no message to judge."""
        nothing = filtered()
        nothing["choices"][0]["message"] = None
        outcome, effects = finish(flow_of(), nothing)
        assert isinstance(outcome, Ended)
        assert (outcome.end, len(calls(effects))) == (End("halted", "content_filter"), 1)

    def test_v9_gemini_is_asked_for_the_call_again(self) -> None:
        """A malformed call whose tail leaks as text is corrected, and its tail is no answer."""
        leaked = completion(
            'query": "tea"})', finish_reason="function_call_filter: MALFORMED_FUNCTION_CALL"
        )
        outcome, _ = finish(flow_of(), leaked, GOOD)
        assert isinstance(outcome, Settled)
        assert [issue.code for issue in outcome.attempts[0].issues] == ["call.unreadable"]


class TestConversation:
    """V10: what only the conversation shows."""

    def test_v10_a_call_as_text_is_asked_for_as_a_call(self) -> None:
        """The text is replayed as it came, and the correction says where a call belongs."""
        text = '<tool_call>{"name": "search", "arguments": {"query": "tea"}}</tool_call>'
        outcome, effects = finish(flow_of(), completion(text), GOOD)
        assert isinstance(outcome, Settled)
        replayed, correction = calls(effects)[1].request["messages"][-2:]
        assert (replayed["role"], replayed["content"]) == ("assistant", text)
        assert "call the tool itself" in correction["content"]
        assert "<tool_call>" not in correction["content"]

    @pytest.mark.parametrize("wrong", [{"query": "tea"}, {"query": 1}])
    def test_v10_an_id_of_an_earlier_turn_is_taken(self, wrong: dict[str, Any]) -> None:
        """A call with the id of an earlier call of the conversation is refused, alone or beside
        other faults.
        """
        earlier = [
            *USER,
            completion(calls=[call("search", {"query": "a"}, "call_1")])["choices"][0]["message"],
        ]
        earlier.append({"role": "tool", "tool_call_id": "call_1", "content": "x"})
        contract = Contract(tools=[SEARCH, WEATHER])
        flow = reply_flow(CallPlan(contract, asking(earlier), RetryPolicy(), TieredSteering()))
        outcome, effects = finish(flow, completion(calls=[call("search", wrong, "call_1")]), GOOD)
        assert isinstance(outcome, Settled)

        issues = [(issue.code, issue.path) for issue in outcome.attempts[0].issues]
        assert ("call.id_duplicate", "/tool_calls/0/id") in issues
        assert outcome.attempts[1].scope is None
        assert len(calls(effects)) == 2

    @pytest.mark.parametrize("ids", [["call_1"], ["call_1", "call_1"], ["call_1", "call_1-2"]])
    def test_v10_a_server_that_counts_anew_is_numbered(self, ids: list[str]) -> None:
        """An id that is taken is refused once in a conversation; then, as no ask mends a server, it
        is numbered.
        """
        earlier = [
            *USER,
            *(
                completion(calls=[call("search", {"query": "a"}, id_)])["choices"][0]["message"]
                for id_ in ids
            ),
        ]
        ask = CallPlan(Contract(tools=[SEARCH]), asking(earlier), RetryPolicy(), TieredSteering())
        repeated = completion(calls=[call("search", {"query": "tea"}, "call_1")])
        outcome, effects = finish(reply_flow(ask), repeated, repeated, repeated)
        assert isinstance(outcome, Settled)

        assert len(calls(effects)) == (2 if len(ids) == 1 else 1)
        assert isinstance(outcome.reply, ToolCall)
        (sent,) = outcome.response["choices"][0]["message"]["tool_calls"]
        assert sent["id"] == outcome.reply.id == f"call_1-{max(2, 1 + len(set(ids)))}"

        assert outcome.attempts[-1].lenient == ("numbered_id",)

    def test_v10_a_numbered_call_is_re_asked_alone(self) -> None:
        """A spliced message keeps the number, and a good reply without a taken id shows nothing of
        it.
        """
        earlier = [
            *USER,
            completion(calls=[call("search", {"query": "a"}, "call_1")])["choices"][0]["message"],
        ]
        ask = CallPlan(Contract(tools=[SEARCH]), asking(earlier), RetryPolicy(), TieredSteering())
        wrong = completion(calls=[call("search", {"query": 1}, "call_1")])
        right = completion(calls=[call("search", {"query": "tea"}, "call_1")])
        outcome, _ = finish(reply_flow(ask), wrong, wrong, right)
        assert isinstance(outcome, Settled)

        assert [attempt.scope for attempt in outcome.attempts] == [None, None, "search"]
        assert isinstance(outcome.reply, ToolCall)
        assert (outcome.reply.id, outcome.reply.args) == ("call_1-2", {"query": "tea"})

    def test_the_ids_that_we_replay_are_nobodys(self) -> None:
        """An id that a correction showed is no id of the conversation."""
        first = completion(calls=[call("bogus", {}, "call_a")])
        outcome, _ = finish(
            flow_of(), first, completion(calls=[call("search", {"query": "x"}, "call00001")])
        )
        assert isinstance(outcome, Settled)
