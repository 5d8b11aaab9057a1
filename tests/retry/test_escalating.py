"""What later corrections change beside their words.

They change forced tools, formats, models, or ask a human; each is recorded.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import strictreply as sr
from support.flows import Played, play, refusal_of
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, AsyncClient, Client, call, completion

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WEATHER = sr.Tool.from_json_schema("weather", OTHER_SCHEMA)
CONTRACT = sr.Contract(tools=[SEARCH, WEATHER])
TEXT = sr.Contract(tools=[SEARCH, WEATHER], channel="text")
ANSWER = sr.Contract(answer=SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
REQUEST: dict[str, Any] = {"model": "small", "messages": USER}


def bad(number: int) -> dict[str, Any]:
    """Return a call of a tool that does not exist, a different one for each number."""
    return completion(calls=[call(f"tool_{number}", {})])


def run(
    contract: sr.Contract[Any],
    policy: sr.RetryPolicy,
    *replies: Any,
    said: str | None = "try tea",
    **request: Any,
) -> Played:
    """Make a call that these replies come of."""
    return play(contract, replies, policy, said, **request)


def steps(outcome: sr.Exchange[Any] | sr.CallFailed) -> list[str | None]:
    """Return the step that each attempt took."""
    return [attempt.escalation for attempt in outcome.attempts]


def test_models_climb_from_the_requests_own() -> None:
    """The first asks use the request's model; from the third tier on each goes one up, and the last
    one stays.
    """
    policy = sr.RetryPolicy(max_retries=5, models=["small", "middle", "large"])
    outcome, requests, _ = run(CONTRACT, policy, *map(bad, range(5)), GOOD)
    assert isinstance(outcome, sr.Exchange)
    assert [one["model"] for one in requests] == [
        "small",
        "small",
        "small",
        "middle",
        "large",
        "large",
    ]

    assert steps(outcome) == [None, None, None, "model:middle", "model:large", "model:large"]
    assert [attempt.request["model"] for attempt in outcome.attempts] == [
        one["model"] for one in requests
    ]


def test_a_model_that_is_not_on_the_ladder_starts_at_its_foot() -> None:
    """A request for another model climbs to the first of the list."""
    policy = sr.RetryPolicy(max_retries=4, models=["middle", "large"])
    _, requests, _ = run(CONTRACT, policy, *map(bad, range(4)), GOOD)
    assert [one["model"] for one in requests][3:] == ["middle", "large"]


@pytest.mark.parametrize("contract", [CONTRACT, TEXT])
def test_the_same_bad_reply_twice_goes_up_at_once(contract: sr.Contract[Any]) -> None:
    """The tier is passed over, so that the stronger model is asked now; the words are never the
    same again.
    """
    native = contract is CONTRACT
    same = [
        completion(calls=[call("find", f'{{{" " * n}"a": 1}}', f"id{n}")])
        if native
        else completion(f"x{' ' * n}")
        for n in range(4)
    ]
    same = same if native else [completion('{"tool":"find","args":{}}')] * 4
    policy = sr.RetryPolicy(max_retries=3, models=["large"])
    outcome, requests, _ = run(contract, policy, *same)
    assert isinstance(outcome, sr.ReplyRejected)

    assert [attempt.tier for attempt in outcome.attempts] == [0, 1, 3, 5]
    assert [one["model"] for one in requests] == ["small", "small", "large", "large"]
    words = [attempt.correction for attempt in outcome.attempts]
    assert len(set(words)) == len(words)


def test_a_call_that_comes_again_as_it_was_counts_as_the_same() -> None:
    """Re-asked alone, the same arguments are the same bad reply, whatever their id and their
    blanks.
    """
    wrong = [
        completion(calls=[call("search", '{"query":%s1}' % (" " * n), f"id{n}")]) for n in range(2)
    ]
    outcome, _, _ = run(CONTRACT, sr.RetryPolicy(), *wrong, GOOD)
    assert [attempt.tier for attempt in outcome.attempts] == [0, 1, 3]


def test_a_tool_is_forced() -> None:
    """Where the choice was free, a call is demanded; a reply that is an answer all the same is
    taken.
    """
    policy = sr.RetryPolicy(escalation=["forced_tool"])
    outcome, requests, _ = run(CONTRACT, policy, *map(bad, range(3)), completion("an answer"))
    assert isinstance(outcome, sr.Exchange)
    assert [one.get("tool_choice") for one in requests] == [None, None, None, "required"]
    assert len(requests[3]["tools"]) == 2
    assert steps(outcome)[-1] == "forced_tool"


def test_the_tool_at_fault_is_forced_where_it_might_be_switched() -> None:
    """With ``allow_other_tool`` the whole reply is retried, until the tool at fault is forced."""
    policy = sr.RetryPolicy(escalation=["forced_tool"], allow_other_tool=True)
    wrong = [completion(calls=[call("search", {"query": n})]) for n in range(3)]
    _, requests, _ = run(CONTRACT, policy, *wrong, GOOD)
    assert requests[3]["tool_choice"] == {"type": "function", "function": {"name": "search"}}


def test_in_the_text_channel_forcing_is_said() -> None:
    """The instructions leave no answer any more."""
    policy = sr.RetryPolicy(escalation=["forced_tool"])
    replies = [completion(json.dumps({"tool": f"t{n}", "args": {}})) for n in range(3)]
    _, requests, _ = run(
        TEXT, policy, *replies, completion('{"tool":"search","args":{"query":"x"}}')
    )
    lines = [line for one in requests for line in one["messages"][0]["content"].splitlines()]
    told = [json.loads(line)["anyOf"] for line in lines if line.startswith('{"anyOf"')]
    assert [len(one) for one in told] == [3, 3, 3, 2]


def test_a_response_format_is_sent_where_it_was_not() -> None:
    """The text channel's union, and an answer that the caller asked for as any JSON."""
    policy = sr.RetryPolicy(escalation=["response_format"])
    good = completion('{"tool":"search","args":{"query":"x"}}')
    outcome, requests, _ = run(TEXT, policy, *(completion(f"no {n}") for n in range(3)), good)
    assert isinstance(outcome, sr.Exchange)

    # the first correction constrains, too, until the server shows that it does not hold to it
    assert ["response_format" in one for one in requests] == [False, True, False, True]
    assert "anyOf" in requests[3]["response_format"]["json_schema"]["schema"]
    wrong = [completion(json.dumps({"query": n})) for n in range(3)]
    plain = {"type": "json_object"}
    _, asked, _ = run(ANSWER, policy, *wrong, completion('{"query":"x"}'), response_format=plain)
    assert [one["response_format"]["type"] for one in asked] == ["json_object"] * 3 + [
        "json_schema"
    ]


def test_a_refused_response_format_is_given_up() -> None:
    """A step that the endpoint refuses is omitted, and the next tier takes the next step."""
    policy = sr.RetryPolicy(max_retries=4, escalation=["response_format", {"temperature": 0}])
    refused = refusal_of("response_format")
    replies = [completion(f"no {n}") for n in range(4)]
    outcome, requests, _ = run(
        TEXT, policy, *replies[:3], refused, replies[3], completion('{"answer":"x"}')
    )
    assert isinstance(outcome, sr.Exchange)

    assert outcome.attempts[3].dropped_params == ("response_format",)
    assert requests[3]["messages"] == requests[4]["messages"]
    assert "response_format" not in requests[4]
    assert steps(outcome)[3:5] == ["response_format", None]

    assert (requests[5]["temperature"], steps(outcome)[-1]) == (0, "keywords")


def test_a_step_that_changes_nothing_is_passed_over() -> None:
    """A call that is asked for alone is forced already, and no answer is structured here."""
    policy = sr.RetryPolicy(
        escalation=["forced_tool", "response_format", "model"], models=["large"]
    )
    wrong = [completion(calls=[call("search", {"query": n})]) for n in range(3)]
    outcome, requests, _ = run(CONTRACT, policy, *wrong, GOOD)
    assert steps(outcome) == [None, None, None, "model:large"]
    assert requests[3]["tool_choice"] == {"type": "function", "function": {"name": "search"}}


def test_steps_stay_in_force() -> None:
    """Each tier adds one to those before it; keywords have the last word."""
    policy = sr.RetryPolicy(
        max_retries=5, escalation=["forced_tool", "model", {"temperature": 0}], models=["large"]
    )
    outcome, requests, _ = run(CONTRACT, policy, *map(bad, range(5)), GOOD)
    assert steps(outcome)[3:] == ["forced_tool", "model:large", "keywords"]
    last = requests[-1]
    assert (last["tool_choice"], last["model"], last["temperature"]) == ("required", "large", 0)


def test_keywords_alone_come_with_the_third_tier() -> None:
    """A mapping is sent from there on, beside the models."""
    policy = sr.RetryPolicy(max_retries=4, escalation={"temperature": 0}, models=["large"])
    outcome, requests, _ = run(CONTRACT, policy, *map(bad, range(4)), GOOD)
    assert [one.get("temperature") for one in requests] == [None, None, None, 0, 0]
    assert steps(outcome)[3:] == ["model:large", "model:large"]


class TestHuman:
    """``ask_human``: a person writes the correction, or gives up."""

    POLICY = sr.RetryPolicy(escalation=["human"], ask_human=lambda context: "never")

    def test_the_text_is_the_users_turn(self) -> None:
        """The calls are answered as not run, and the human's words follow as they are."""
        outcome, requests, asked = run(CONTRACT, self.POLICY, *map(bad, range(3)), GOOD)
        assert isinstance(outcome, sr.Exchange)
        assert [turn["role"] for turn in requests[3]["messages"][2:]] == [
            "assistant",
            "tool",
            "user",
        ]

        assert requests[3]["messages"][-1]["content"] == outcome.attempts[3].correction == "try tea"
        assert (outcome.attempts[3].escalation, outcome.attempts[3].tier) == ("human", 3)
        assert [issue.code for one in asked for issue in one.issues] == ["tool.unknown"]

    def test_a_scope_is_kept(self) -> None:
        """A fault in one call is asked for alone, in the human's words."""
        wrong = [completion(calls=[call("search", {"query": n})]) for n in range(3)]
        outcome, requests, asked = run(CONTRACT, self.POLICY, *wrong, GOOD)
        assert isinstance(outcome, sr.Exchange)
        assert (asked[0].tool, outcome.attempts[3].scope) == ("search", "search")
        assert requests[3]["messages"][-1] == {"role": "user", "content": "try tea"}

    def test_none_gives_up(self) -> None:
        """The call ends as rejected, and says why."""
        outcome, requests, _ = run(CONTRACT, self.POLICY, *map(bad, range(3)), said=None)
        assert isinstance(outcome, sr.ReplyRejected)
        assert (outcome.reason, len(requests)) == ("human", 3)

    def test_clients_ask_sync_and_async(self) -> None:
        """A sync client takes a function, an async one also a coroutine function; what they send is
        the same.
        """

        def said(context: sr.CorrectionContext) -> str:
            return f"{len(context.issues)} fault: use search"

        async def asaid(context: sr.CorrectionContext) -> str:
            await anyio.lowlevel.checkpoint()
            return said(context)

        replies = [*map(bad, range(3)), GOOD]
        plain = Client(*replies)
        over = AsyncClient(*replies)
        policy = sr.RetryPolicy(escalation=["human"], ask_human=said)
        sr.wrap(plain, contract=CONTRACT, policy=policy).reply(**REQUEST)

        async def awaited() -> None:
            policy = sr.RetryPolicy(escalation=["human"], ask_human=asaid)
            await sr.wrap(over, contract=CONTRACT, policy=policy).reply(**REQUEST)

        anyio.run(awaited)
        assert plain.script.requests == over.script.requests
        assert plain.script.messages[-1][-1]["content"] == "1 fault: use search"
        refused = sr.RetryPolicy(escalation=["human"], ask_human=asaid)

        with pytest.raises(sr.ContractError, match="async"):
            sr.wrap(Client(*replies), contract=CONTRACT, policy=refused).reply(**REQUEST)

    def test_anything_but_text_is_a_bug(self) -> None:
        """The callback's result is sent to the model: a number is refused."""
        policy = sr.RetryPolicy(escalation=["human"], ask_human=lambda context: 7)  # type: ignore[arg-type, return-value]
        with pytest.raises(sr.ContractError, match="int"):
            sr.wrap(Client(*map(bad, range(3))), contract=CONTRACT, policy=policy).reply(**REQUEST)

    def test_stepping_asks_each_human_once(self) -> None:
        """A request from ``next_request`` remembers what the human said; the loop is played again,
        not the question.
        """
        asked: list[int] = []

        def said(context: sr.CorrectionContext) -> str:
            asked.append(context.tier)
            return f"words {context.tier}"

        policy = sr.RetryPolicy(max_retries=5, escalation=["human"], ask_human=said)
        step = CONTRACT.next_request(REQUEST, policy=policy)

        for number in range(5):
            assert step.request is not None
            step = CONTRACT.next_request(step.request, bad(number), policy=policy)

        assert asked == [3, 4, 5]
        assert [attempt.correction for attempt in step.attempts][-1] == "words 4"


@pytest.mark.parametrize(
    "wrong",
    [
        {"escalation": "forced_tool"},
        {"escalation": ["stronger"]},
        {"escalation": [7]},
        {"escalation": ["model"]},
        {"escalation": ["human"]},
        {"models": "large"},
        {"keep_prompt_cache": "wide"},
    ],
)
def test_steps_that_cannot_be_taken_are_refused(wrong: dict[str, Any]) -> None:
    """A policy says so when it is made."""
    with pytest.raises(ValueError, match=r"RetryPolicy\."):
        sr.RetryPolicy(**wrong)
