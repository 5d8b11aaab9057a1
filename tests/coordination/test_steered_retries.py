"""An agent is asked by the core's own loop until its action is right.

It is told here what is permitted.
"""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xml_format import XMLResponseFormat

import strictreply as sr
from strictreply import Category
from strictreply.coordination import (
    USER,
    ActionType,
    AgentSteering,
    ApiError,
    Branch,
    ErrorPolicy,
    Reaction,
    RoutingContext,
    RoutingReason,
    StepType,
    ValidationMetrics,
    ValidationResult,
)
from strictreply.coordination.formats import ActionFormat, JSONResponseFormat
from strictreply.coordination.metrics import ValidationCounts
from strictreply.coordination.routing import RouteCache, RouteKey, Router
from strictreply.coordination.validation import (
    ActionSteering,
    ValidationProcessor,
    retry_with_steering,
)
from support.coordination.keyed import KeyedFormat
from support.coordination.routed import PROCESSOR, TEAM, call, search
from support.scripted import AsyncClient, Client, Server, StatusError, completion, truncated

MESSAGES: list[Any] = [
    {"role": "system", "content": "You coordinate."},
    {"role": "user", "content": "Analyze"},
]
ANSWER = PROCESSOR.answer_kind("Coordinator")
HANDOVER = completion('{"next_action":"invoke_agent","action_input":"Worker1","request":"north"}')
PROSE = completion("Let me think about it.")
DENIED = completion('{"next_action":"invoke_agent","action_input":"SECRET"}')


def ask(raw: Client, **keywords: Any) -> ValidationResult:
    """Ask the coordinator through a wrapped client."""
    client: Any = sr.wrap(raw, steering=ActionSteering())
    result = retry_with_steering(client, ANSWER, model="m", messages=MESSAGES, **keywords)
    assert isinstance(result, ValidationResult)
    return result


@pytest.mark.req("M70")
def test_three_steered_calls_follow_the_first() -> None:
    """With ``max_retries=3`` an agent that is never right is asked 1 + 3 times, and then it is a
    typed failure.
    """
    raw = Client(*[PROSE] * 9)
    with pytest.raises(sr.ReplyRejected) as failed:
        ask(raw, max_retries=3)
    assert (len(raw.script.requests), failed.value.reason) == (4, "retries")
    default = Client(*[PROSE] * 9)
    with pytest.raises(sr.ReplyRejected):
        ask(default)
    assert len(default.script.requests) == 4


@pytest.mark.req("M70")
def test_the_first_right_action_is_given() -> None:
    """The result is the verdict itself: the action, its invocations, and its terms."""
    raw = Client(PROSE, DENIED, HANDOVER)
    result = ask(raw)
    assert (result.action_type, result.next_agents) == (ActionType.INVOKE_AGENT, ["Worker1"])
    assert result.invocations[0].request == "north"
    assert result.permitted is not None
    assert result.permitted.agent == "Coordinator"


@pytest.mark.req("M69", "M72")
def test_a_correction_replaces_the_one_before() -> None:
    """Each retry is the original prompt, the last bad reply and one correction about that reply
    alone.
    """
    raw = Client(PROSE, DENIED, PROSE, HANDOVER)
    before = copy.deepcopy(MESSAGES)
    ask(raw)
    first, *retries = raw.script.messages
    assert first == MESSAGES == before

    assert all(messages[:2] == first and len(messages) == 4 for messages in retries)
    assert [messages[2]["content"] for messages in retries] == [
        reply["choices"][0]["message"]["content"] for reply in (PROSE, DENIED, PROSE)
    ]
    format_error, permission, again = (messages[3]["content"] for messages in retries)
    assert "action_input" in format_error

    assert "Worker2" not in format_error
    assert all(agent in permission for agent in TEAM.allowed_targets("Coordinator"))
    assert "line 1" not in permission  # the first fault is gone
    assert "must select" in again


@pytest.mark.req("M67")
def test_a_right_reply_is_asked_for_once() -> None:
    """A valid reply is followed by nothing, and the prompt went out as it was given."""
    raw = Client(HANDOVER)
    ask(raw)
    assert raw.script.messages == [MESSAGES]


@pytest.mark.req("M72")
def test_steering_is_not_kept() -> None:
    """The transcript of the exchange holds neither bad replies nor corrections."""
    client: Any = sr.wrap(Client(PROSE, HANDOVER), steering=ActionSteering())
    exchange = client.exchange(contract=sr.Contract(answer=ANSWER), model="m", messages=MESSAGES)
    assert [turn["content"] for turn in exchange.transcript] == [
        *(turn["content"] for turn in MESSAGES),
        HANDOVER["choices"][0]["message"]["content"],
    ]


def test_native_calls_are_an_action() -> None:
    """Calls of the agent's tools come back as ``call_tool`` with typed arguments, and are routed in
    order.
    """
    calls = [call(), call(arguments='{"query":"tea"}') | {"id": "call_2", "index": 1}]
    result = ask(Client(completion(None, calls)))
    assert (result.action_type, [one.args.query for one in result.calls]) == (
        ActionType.CALL_TOOL,
        ["AI", "tea"],
    )
    decision = Router(TEAM).decide(result, Branch(), RoutingContext())
    assert [step.step_type for step in decision.next_steps] == [StepType.TOOL_EXECUTION] * 2


def test_what_is_no_matter_of_coordination_is_worded_by_the_core() -> None:
    """Wrong arguments of one call, a reply that was cut, and other contracts get the core's
    corrections.
    """
    wrong = completion(None, [call(arguments='{"query":1}')])
    raw = Client(wrong, completion(None, [call()]))
    ask(raw)
    (corrected,) = [turn for turn in raw.script.messages[1] if turn["role"] == "tool"]
    assert "next_action" not in corrected["content"]

    cut = Client(truncated(), HANDOVER)
    ask(cut)
    assert "cut off" in cut.script.messages[1][-1]["content"]
    other: Any = sr.wrap(Client(completion(""), completion("hi")), steering=ActionSteering())
    assert other.reply(model="m", messages=MESSAGES) == sr.DirectAnswer("hi")


def test_an_async_client_is_awaited() -> None:
    """The same call on an async client gives an awaitable of the same."""
    raw = AsyncClient(PROSE, HANDOVER)
    client: Any = sr.wrap(raw, steering=ActionSteering())

    async def asking() -> ValidationResult:
        """Await the verdict."""
        result: ValidationResult = await retry_with_steering(
            client, ANSWER, model="m", messages=MESSAGES
        )
        return result

    assert asyncio.run(asking()).next_agents == ["Worker1"]
    assert len(raw.script.requests) == 2


@pytest.mark.parametrize("with_tools", [False, True])
def test_the_real_sdk_sends_it(with_tools: bool) -> None:
    """Under the real SDK the action's schema goes out, the correction comes in, and the action is
    read.
    """
    processor = ValidationProcessor(TEAM, tools=[search] if with_tools else [])
    server = Server(PROSE, HANDOVER)
    client = sr.wrap(server.client(), steering=ActionSteering())
    answer = processor.answer_kind("Coordinator")
    result = retry_with_steering(client, answer, model="m", messages=MESSAGES)
    assert result.next_agents == ["Worker1"]

    assert len(server.bodies) == 2
    assert b"next_action" in server.bodies[0]
    assert (b'"search"' in server.bodies[0]) is with_tools


@pytest.mark.req("M64")
@pytest.mark.parametrize(
    "form", [JSONResponseFormat(), XMLResponseFormat(), KeyedFormat()], ids=lambda form: form.name
)
def test_what_the_fourth_correction_shows_passes(form: ActionFormat) -> None:
    """The example of the highest tier, sent back as it stands, is accepted in the format that the
    corrections teach.
    """
    answer = ValidationProcessor(TEAM, form, tools=[search]).answer_kind("Coordinator")
    raw = Client(*[PROSE] * 5)
    client: Any = sr.wrap(raw, steering=ActionSteering())

    with pytest.raises(sr.ReplyRejected):
        retry_with_steering(client, answer, max_retries=4, model="m", messages=MESSAGES)

    assert all(form.reminder() in told[-1]["content"] for told in raw.script.messages[1:4])
    shown = raw.script.messages[4][-1]["content"].splitlines()[-1]
    again: Any = sr.wrap(Client(completion(shown)), steering=ActionSteering())
    assert retry_with_steering(again, answer, model="m", messages=MESSAGES).is_valid


NOT_RIGHT = {
    Category.FORMAT_ERROR: PROSE,
    Category.PERMISSION_ERROR: DENIED,
    Category.ACTION_ERROR: completion('{"next_action":"dance"}'),
}


@pytest.mark.req("M79")
@pytest.mark.parametrize("reaction", [Reaction.ESCALATE, Reaction.TERMINATE])
@pytest.mark.parametrize("category", NOT_RIGHT)
def test_the_loop_ends_where_the_policy_says(category: Category, reaction: Reaction) -> None:
    """A reply with a fault that is not asked again is the only ask, and the router does what the
    table says of it.
    """
    policy = ErrorPolicy(reactions={category: reaction})
    for other in NOT_RIGHT.keys() - {category}:
        assert ask(Client(NOT_RIGHT[other], HANDOVER), policy=policy.budget).is_valid

    raw = Client(NOT_RIGHT[category], HANDOVER)
    with pytest.raises(sr.ReplyRejected) as failed:
        ask(raw, policy=policy.budget)

    assert (len(raw.script.requests), failed.value.reason) == (1, "category")
    assert {issue.category for issue in failed.value.issues} == {category}
    result = PROCESSOR.validate(NOT_RIGHT[category], "Coordinator")
    assert (
        Router(TEAM, policy=policy).decide(result, Branch(), RoutingContext()).error_action
        == reaction.value
    )


@pytest.mark.req("M79")
def test_strict_permissions_end_the_loop_at_once() -> None:
    """With ``strict_permissions`` a target that is not permitted is not asked for again; by default
    it is.
    """
    raw = Client(DENIED, HANDOVER)
    with pytest.raises(sr.ReplyRejected):
        ask(raw, policy=ErrorPolicy(strict_permissions=True).budget)
    assert len(raw.script.requests) == 1
    assert ask(Client(DENIED, HANDOVER)).next_agents == ["Worker1"]


@pytest.mark.parametrize(
    "reply", ['{"hello": 1}', '{"next_action":"invoke_agent","action_input":"SECRET"}']
)
def test_json_mode_leaves_the_actions_in_force(reply: str) -> None:
    """A request in the API's JSON mode is held to the actions all the same; a schema beside them is
    refused.
    """
    raw = Client(completion(reply), HANDOVER)
    assert ask(raw, response_format={"type": "json_object"}).next_agents == ["Worker1"]
    assert [request["response_format"] for request in raw.script.requests] == [
        {"type": "json_object"}
    ] * 2
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    with pytest.raises(sr.ContractError):
        ask(Client(completion(reply)), response_format=schema)


@pytest.mark.req("M89")
def test_failed_calls_have_their_own_budget() -> None:
    """Failed calls are repeated after the server's wait and cost no correction; when they go on,
    the user is asked.
    """
    busy = StatusError(429, {"retry-after": "0"})
    raw = Client(busy, PROSE, busy, PROSE, busy, PROSE, HANDOVER)
    assert ask(raw).next_agents == ["Worker1"]

    with pytest.raises(sr.TransportFailed) as failed:
        ask(Client(*[busy] * 9))

    assert len(failed.value.attempts) == 4
    error = ApiError.of_exception(failed.value)
    assert error is not None
    decision = Router(TEAM).decide(
        error.to_result(agent="Worker1", branch_id="main"),
        Branch(),
        RoutingContext(current_agent="Worker1"),
    )
    assert (decision.reason, decision.next_steps[0].target) == (RoutingReason.RECOVERY, USER)


def counting(**settings: Any) -> tuple[ValidationMetrics, Any]:
    """Make metrics, and the kind of answer whose attempts they count."""
    metrics = ValidationMetrics()
    made = ValidationProcessor(TEAM, tools=[search], metrics=metrics, **settings)
    return metrics, made.answer_kind("Coordinator")


@pytest.mark.req("M114", "M117")
@pytest.mark.parametrize("awaited", [False, True])
def test_every_attempt_is_counted_by_the_processor(awaited: bool) -> None:
    """Bad, bad, good: three verdicts, one of them good, after two steered retries; a failed call is
    none.
    """
    metrics, answer = counting()
    replies = (PROSE, StatusError(503, {"retry-after": "0"}), DENIED, HANDOVER)
    client: Any = sr.wrap(
        AsyncClient(*replies) if awaited else Client(*replies), steering=ActionSteering()
    )
    called = retry_with_steering(client, answer, model="m", messages=MESSAGES)
    result: Any = asyncio.run(_awaited(called)) if awaited else called

    snapshot = metrics.snapshot()
    assert snapshot.totals == ValidationCounts(3, 1, 2, 2, 2)
    assert list(snapshot.by_agent) == ["Coordinator"]
    assert [(row.action, row.code) for row in snapshot.history] == [
        *((None, "json.syntax"), (None, "topology.not_allowed"), (result.action_type, "")),
    ]


async def _awaited(called: Any) -> Any:
    """Await what an async client was asked."""
    return await called


@pytest.mark.req("M114")
@pytest.mark.parametrize("awaited", [False, True])
def test_the_attempts_of_a_failed_call_are_counted(awaited: bool) -> None:
    """An agent that is never right has failed as often as it was asked; native calls count as an
    action.
    """
    metrics, answer = counting()
    raw: Any = AsyncClient(*[PROSE] * 3) if awaited else Client(*[PROSE] * 3)
    ask = partial(
        retry_with_steering, sr.wrap(raw), answer, max_retries=2, model="m", messages=MESSAGES
    )

    with pytest.raises(sr.ReplyRejected):
        asyncio.run(_awaited(ask())) if awaited else ask()

    assert metrics.snapshot().totals == ValidationCounts(3, 0, 3, 2, 2)
    native: Any = sr.wrap(Client(completion(None, [call()])))
    retry_with_steering(native, answer, model="m", messages=MESSAGES)
    assert metrics.snapshot().history[-1].action is ActionType.CALL_TOOL


@pytest.mark.req("M114")
@given(
    st.lists(
        st.sampled_from([PROSE, DENIED, HANDOVER, completion(None, [call()]), truncated()]),
        max_size=5,
    )
)
def test_each_counted_verdict_is_right_or_wrong(replies: list[Any]) -> None:
    """Whatever is replied, the total is the sum of both, and no more were retries than there were
    verdicts but one.
    """
    metrics, answer = counting()
    client: Any = sr.wrap(Client(*replies, HANDOVER))
    retry_with_steering(client, answer, max_retries=9, model="m", messages=MESSAGES)
    counts = metrics.snapshot().totals
    assert counts.total_validations == counts.successful_validations + counts.failed_validations
    assert counts.successful_validations == 1
    assert counts.retry_count == counts.steering_applications == counts.total_validations - 1


@pytest.mark.req("M73", "M77")
@pytest.mark.parametrize(
    ("mode", "spoken"), [("error", 2), ("auto", 2), ("always", 2), ("never", 0)]
)
def test_a_mode_says_when_it_is_ours_to_speak(mode: str, spoken: int) -> None:
    """Corrections are counted by who speaks; where we never do, they are worded by the core."""
    speaking = AgentSteering(mode)
    steering = ActionSteering(speaking=speaking)
    raw = Client(PROSE, DENIED, HANDOVER)
    client: Any = sr.wrap(raw, steering=steering)
    retry_with_steering(client, ANSWER, model="m", messages=MESSAGES)
    assert (speaking.stats().total_injections, steering.corrects) == (spoken, spoken > 0)
    assert ("next_action" in raw.script.messages[1][-1]["content"]) is (spoken > 0)


@pytest.mark.req("M117")
def test_the_practices_together() -> None:
    """Every reply is judged by the processor, each fault is steered by itself, its cause counted,
    its route cached.

    That an application keeps its routes is not proven: no loop of the library looks one up.
    """
    metrics, answer = counting()
    raw = Client(PROSE, DENIED, HANDOVER)
    client: Any = sr.wrap(raw, steering=ActionSteering())
    result = retry_with_steering(client, answer, model="m", messages=MESSAGES)

    for reply, request in zip((PROSE, DENIED), raw.script.messages[1:], strict=True):
        bad = PROCESSOR.validate(reply, "Coordinator")
        assert (bad.is_valid, bool(bad.retry_suggestion)) == (False, True)
        assert all(issue.message in request[-1]["content"] for issue in bad.issues)

    snapshot = metrics.snapshot()
    assert dict(snapshot.faults) == {
        ("Coordinator", "json.syntax"): 1,
        ("Coordinator", "topology.not_allowed"): 1,
    }

    assert PROCESSOR.validate(HANDOVER, "Coordinator") == result
    router = Router(TEAM)
    cache = RouteCache()
    context = RoutingContext(current_agent="Coordinator")
    decision = router.decide(result, Branch(), context)
    assert (decision.reason, decision.next_steps[0].target) == (RoutingReason.SEQUENTIAL, "Worker1")

    key = RouteKey.of(TEAM, "Coordinator", Branch(), result)
    cache.set_route(key, decision)
    assert cache.get_route(key) == decision
