"""What an agent is told follows from codes and from what is permitted.

It follows from nothing that the agent wrote.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xml_format import XMLResponseFormat

from strictreply import Category, ContractError, Issue
from strictreply.coordination import (
    USER,
    ActionType,
    AgentReplyCode,
    AgentSteering,
    ApiError,
    ApiErrorClass,
    ErrorPolicy,
    Reaction,
    SteeringMode,
    StepType,
    Topology,
    generate_steering,
)
from strictreply.coordination.actions import Permitted
from strictreply.coordination.formats import ActionFormat, JSONResponseFormat
from strictreply.coordination.steering import NOTHING, SteeringContext, steering_text
from strictreply.coordination.topology import permitted_actions
from strictreply.coordination.validation import ValidationProcessor
from strictreply.core.calls import MAX_CORRECTION_BYTES
from support.coordination.keyed import KeyedFormat
from support.coordination.routed import (
    FAULTS,
    PROCESSOR,
    TEAM,
    decide,
    invalid,
    search,
    valid,
    verdict,
)

COORDINATOR = permitted_actions(TEAM, "Coordinator", tools=["search"])
BAD_FORMAT = (FAULTS[Category.FORMAT_ERROR],)


def text(retry_count: int = 1, issues: tuple[Issue, ...] = BAD_FORMAT, **changes: Any) -> str:
    """Return what the coordinator is told."""
    said: dict[str, Any] = {
        "permitted": COORDINATOR,
        "issues": issues,
        "retry_count": retry_count,
    } | changes
    return steering_text(SteeringContext(**said))


def faults_in(told: str) -> list[str]:
    """Return the faults that a text lists."""
    return [line for line in told.splitlines() if line.startswith("- ")]


def example_in(told: str) -> Any:
    """Return the reply that a text ends with, None when it shows none."""
    try:
        return json.loads(told.splitlines()[-1])
    except ValueError:
        return None


def insists(told: str) -> bool:
    """Return whether a text holds more than what was wrong and what helps."""
    return len(told.splitlines()) > 1 + len(faults_in(told))


def names_in(told: str, names: Iterable[str]) -> set[str]:
    """Return those of the names that a text holds."""
    return {name for name in names if name in told}


@pytest.mark.req("M65")
@pytest.mark.parametrize(
    "written", [JSONResponseFormat(), XMLResponseFormat()], ids=lambda written: written.name
)
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("prose", "json.syntax"),
        ('{"next_action":', "json.incomplete"),
        ("[1]", "shape.not_object"),
        ('{"content": "x"}', "action.missing_field"),
        ("", "reply.empty"),
    ],
)
def test_a_bad_format_is_told_the_members(reply: str, code: str, written: ActionFormat) -> None:
    """For an unreadable reply the agent gets the format and both its members, in every mode."""
    result = verdict(reply)
    assert (result.is_valid, result.code, result.error_category) == (
        False,
        code,
        Category.FORMAT_ERROR,
    )

    found = text(issues=result.issues, response_format=written)
    routed = decide(result).next_steps[0].steering or ""
    for told in (found, generate_steering(result, COORDINATOR) or "", routed):
        assert names_in(told, ("next_action", "action_input")) == {"next_action", "action_input"}

    assert written.reminder() in found
    assert written.name.upper() in written.reminder()
    keyed = text(issues=result.issues, response_format=KeyedFormat())
    assert KeyedFormat().rule() in keyed

    assert "action_input" not in keyed


@pytest.mark.req("M65", "M66")
def test_the_verdict_alone_is_enough() -> None:
    """As the document prints it: what the reply was held to is what is told, in the format that is
    named.
    """
    prose = verdict("prose")
    denied = verdict({"next_action": "invoke_agent", "action_input": "Z"}, "Worker1")
    assert (
        generate_steering(prose) == generate_steering(prose, COORDINATOR) == text(1, prose.issues)
    )
    assert names_in(generate_steering(denied) or "", TEAM.agents) == set(
        TEAM.allowed_targets("Worker1")
    )

    spelled = generate_steering(prose, response_format=XMLResponseFormat())
    assert spelled == text(1, prose.issues, response_format=XMLResponseFormat())

    with pytest.raises(ContractError):
        generate_steering(prose, response_format="yaml")


@pytest.mark.req("M65")
@pytest.mark.parametrize(
    "category", [category for category in Category if category is not Category.FORMAT_ERROR]
)
def test_only_a_bad_format_is_told_of_formats(category: Category) -> None:
    """The correction of a readable reply does not explain the format."""
    assert names_in(text(1, (FAULTS[category],)), ("JSON", "XML")) == set()


@pytest.mark.req("M66")
def test_a_denied_target_is_told_whom_it_may_choose() -> None:
    """The agents that are named are those of the topology, all of them and no other."""
    result = verdict({"next_action": "invoke_agent", "action_input": "Coordinator"}, "Worker1")
    told = generate_steering(result, permitted_actions(TEAM, "Worker1"))
    assert told is not None
    assert "choose" in told
    assert {agent for agent in TEAM.agents if agent in told} == set(TEAM.allowed_targets("Worker1"))


@pytest.mark.req("M67")
def test_a_valid_reply_is_told_nothing() -> None:
    """A valid reply adds nothing to the next prompt."""
    result = verdict({"next_action": "invoke_agent", "action_input": "Worker1"})
    assert generate_steering(result, COORDINATOR) is None
    assert (
        AgentSteering().prompt(SteeringContext(permitted=COORDINATOR, issues=result.issues)) is None
    )


@pytest.mark.req("M68")
@pytest.mark.parametrize(("category", "count"), list(product(Category, range(6))))
def test_every_category_is_told_something(category: Category, count: int) -> None:
    """An invalid verdict of each category has a text of its own at each retry, also where nothing
    is suggested.
    """
    found = text(count, (FAULTS[category],))
    for suggestion in ("one of these actions: …", None):
        result = invalid(FAULTS[category], suggestion=suggestion)
        told = generate_steering(result, COORDINATOR, retry_count=count)
        assert told == found
        assert told.strip() not in ("", "None")
    others = [text(count, (fault,)) for other, fault in FAULTS.items() if other is not category]
    assert found not in others


@pytest.mark.req("M68")
@pytest.mark.parametrize("category", Category)
def test_every_retry_of_a_router_is_told_something(category: Category) -> None:
    """When a verdict leads to another ask, there is a steering text for it."""
    decision = decide(invalid(FAULTS[category]))
    assert decision.is_terminal() is (not decision.next_steps)
    for step in decision.next_steps:
        retried = step.step_type is StepType.RETRY_WITH_STEERING
        assert retried is (ErrorPolicy().reactions[category] is Reaction.RETRY)
        assert step.steering == (text(1, (FAULTS[category],)) if retried else None)


@pytest.mark.req("M68")
def test_a_verdict_without_issues_is_told_something() -> None:
    """For a verdict without issues, the agent gets the permitted actions."""
    told = generate_steering(invalid(suggestion=None), COORDINATOR) or ""
    assert names_in(told, COORDINATOR.actions) == set(COORDINATOR.actions)


@pytest.mark.req("M71")
@pytest.mark.parametrize(
    "reply",
    ["prose", '{"next_action":"dance"}', '{"next_action":"invoke_agent","action_input":"Z"}'],
)
def test_what_is_retried_has_a_suggestion(reply: object) -> None:
    """Every failure that the router retries has a suggestion to retry with, and the printed use of
    it works.
    """
    result = verdict(reply)
    assert decide(result).error_action == "retry"
    assert result.retry_suggestion
    assert f"Please retry with: {result.retry_suggestion}".startswith("Please retry with: ")


@pytest.mark.req("M73")
@pytest.mark.parametrize(
    ("mode", "spoken"),
    [
        ("never", set[tuple[bool, bool]]()),
        ("error", {(True, False), (True, True)}),
        ("auto", {(False, True), (True, True)}),
        ("always", {(False, False), (False, True), (True, False), (True, True)}),
    ],
)
def test_each_mode_speaks_when_it_says(mode: str, spoken: set[tuple[bool, bool]]) -> None:
    """Never is never, error is after an error, auto is at a retry, always is at every step."""
    steering = AgentSteering(mode)
    for failed, again in product((False, True), repeat=2):
        context = SteeringContext(
            permitted=COORDINATOR,
            issues=BAD_FORMAT if failed else (),
            retry_count=1 if again else 0,
        )
        assert (steering.prompt(context) is not None) is ((failed, again) in spoken)


@pytest.mark.req("M73")
def test_the_default_mode_is_error_and_no_other_exists() -> None:
    """Without a mode it is ``error``; an unknown one is a ValueError."""
    assert AgentSteering().mode is SteeringMode.ERROR
    for mode in ("sometimes", "", "NEVER"):
        with pytest.raises(ValueError, match="steering mode"):
            AgentSteering(mode)


@pytest.mark.req("M75")
def test_each_tier_says_more() -> None:
    """Up to the second retry it is generic, at the third a choice is due, from the fourth on a
    reply is shown.
    """
    found = [text(count) for count in range(1, 7)]
    assert [insists(one) for one in found] == [False, False, True, True, True, True]
    assert [example_in(one) is None for one in found] == [True, True, True, False, False, False]
    assert len({*found}) == len(found)


@pytest.mark.req("M75")
@pytest.mark.parametrize(
    "category", [Category.FORMAT_ERROR, Category.ACTION_ERROR, Category.UNKNOWN]
)
def test_a_generic_text_names_no_peer(category: Category) -> None:
    """The first two retries name neither the agent nor anybody it may hand over to; the third lists
    the actions.
    """
    fault = (
        AgentReplyCode.ACTION_UNKNOWN.at("/next_action", names="those")
        if category is Category.ACTION_ERROR
        else None
    )
    issues = (fault or FAULTS[category],)

    for count in (0, 1, 2):
        assert names_in(text(count, issues), TEAM.agents) == set()

    assert names_in(text(3, issues), COORDINATOR.actions) == set(COORDINATOR.actions)
    assert names_in(text(3, issues), TEAM.agents) == set()


@pytest.mark.req("M75")
@pytest.mark.parametrize("agent", TEAM.agents)
def test_the_last_tier_names_the_agent_a_peer_and_the_exact_reply(agent: str) -> None:
    """The example hands over to a permitted agent, and is valid as it stands."""
    found = text(4, permitted=permitted_actions(TEAM, agent)).splitlines()
    shown = json.loads(found[-1])
    assert shown["next_action"] == ActionType.INVOKE_AGENT
    assert shown["action_input"] in TEAM.allowed_targets(agent)
    assert PROCESSOR.validate(found[-1], agent).next_agents == [shown["action_input"]]
    assert agent in found[-2]


@pytest.mark.req("M75")
@pytest.mark.parametrize(
    ("allowed", "action"),
    [
        (permitted_actions(Topology.of({"A": ["End"]}), "A"), ActionType.FINAL_RESPONSE),
        (Permitted("A", (ActionType.ASK_USER,)), ActionType.ASK_USER),
        (Permitted("A", (ActionType.CALL_TOOL,), (), ("search",)), ActionType.CALL_TOOL),
    ],
)
def test_who_may_only_finish_ask_or_call_is_shown_that(
    allowed: Permitted, action: ActionType
) -> None:
    """Where no hand-over is permitted, the example is of the permitted action."""
    assert example_in(text(4, permitted=allowed, tools={"search": search}))["next_action"] == action


@pytest.mark.req("M75")
def test_where_no_example_can_be_made_a_choice_stays_due() -> None:
    """A tool that is known by its name alone admits no example: the tier stays below."""
    found = text(4, permitted=Permitted("A", (ActionType.CALL_TOOL,), (), ("search",)))
    assert (insists(found), example_in(found)) == (True, None)
    assert "search" in found


@pytest.mark.req("M75")
@pytest.mark.parametrize("count", [3, 4, 9])
def test_nothing_permitted_is_said(count: int) -> None:
    """Where nothing is permitted the text says to review the topology."""
    found = text(count, permitted=Permitted("A"))
    assert (insists(found), example_in(found)) == (True, None)
    assert NOTHING == "(none — review topology)"
    assert NOTHING in found


TRANSIENT = [kind for kind in ApiErrorClass if kind.category is Category.API_TRANSIENT]


@pytest.mark.req("M76")
@pytest.mark.parametrize(("kind", "count"), list(product(TRANSIENT, range(6))))
def test_a_transient_failure_is_told_shortly(kind: ApiErrorClass, count: int) -> None:
    """A failed call is named by its class alone: no tier, no faults, no example, no format, and
    nothing like JSON.
    """
    told = text(count, (ApiError(kind).issue,))
    assert (insists(told), faults_in(told), example_in(told)) == (False, [], None)
    assert kind.value in told
    assert (
        names_in(
            told, ("JSON", "{", "[", '"', "next_action", "action_input", *ActionType, *TEAM.agents)
        )
        == set()
    )

    assert len(told) < len(text(count))


@pytest.mark.req("M76")
def test_a_failed_call_beside_a_fault_is_told_with_it() -> None:
    """Where there is something to change, it is said."""
    both = (FAULTS[Category.API_TRANSIENT], *BAD_FORMAT)
    assert len(faults_in(text(1, both))) == len(both)
    assert JSONResponseFormat().reminder() in text(1, both)


@pytest.mark.req("M77")
def test_what_was_said_is_counted() -> None:
    """Injections are counted by mode and by category; what was counted before does not change."""
    steering = AgentSteering("always")
    before = steering.stats()

    for issues in (BAD_FORMAT, (), (FAULTS[Category.PERMISSION_ERROR], *BAD_FORMAT)):
        steering.prompt(SteeringContext(permitted=COORDINATOR, issues=issues))

    after = steering.stats()
    assert (after.total_injections, dict(after.by_mode)) == (3, {SteeringMode.ALWAYS: 3})
    assert dict(after.by_category) == {Category.FORMAT_ERROR: 2, Category.PERMISSION_ERROR: 1}
    assert (before.total_injections, dict(before.by_mode), dict(before.by_category)) == (0, {}, {})

    silent = AgentSteering("never")
    silent.prompt(SteeringContext(permitted=COORDINATOR, issues=BAD_FORMAT))
    assert silent.stats().total_injections == 0


def test_a_context_is_equal_to_another_of_the_same_values() -> None:
    """The default format is one value: JSON, whatever format is the default of those that ask a
    model.
    """
    one, another = (SteeringContext(permitted=COORDINATOR) for _ in range(2))
    assert one == another
    assert type(one.response_format) is JSONResponseFormat


def test_threads_are_counted_alike() -> None:
    """No injection of any thread is lost."""
    steering, context = AgentSteering(), SteeringContext(permitted=COORDINATOR, issues=BAD_FORMAT)
    threads = [
        threading.Thread(target=lambda: [steering.prompt(context) for _ in range(200)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert steering.stats().total_injections == 800


def examples_in(told: str) -> list[str]:
    """Find what a text shows as a reply: the lines that begin like one."""
    return [line for line in told.splitlines() if line.startswith(("{", "<"))]


@pytest.mark.req("M64")
@pytest.mark.parametrize("agent", TEAM.agents)
def test_every_example_shown_is_valid(agent: str) -> None:
    """Every example in a steering text passes the validation of that agent, in its format."""
    for written in (None, XMLResponseFormat(), KeyedFormat()):
        processor = ValidationProcessor(
            TEAM, *([] if written is None else [written]), tools=[search]
        )
        allowed = processor.terms(agent).permitted
        known: dict[str, Any] = {} if written is None else {"response_format": written}
        shown = examples_in(text(4, permitted=allowed, tools={"search": search}, **known))
        assert len(shown) == 1

        assert processor.validate(shown[0], agent).is_valid
        assert (written or JSONResponseFormat()).reminder() in text(1, permitted=allowed, **known)


NAMES = st.text(min_size=1, max_size=60).filter(
    lambda name: name.strip() == name and name not in {USER, "End"}
)


@given(
    st.lists(NAMES, min_size=2, max_size=40, unique=True),
    st.sampled_from(list(FAULTS.values())),
    st.integers(0, 6),
)
def test_any_names_make_a_bounded_text_with_whole_examples(
    names: list[str], fault: Issue, count: int
) -> None:
    """For any names of agents, a text is at most 2 KB of UTF-8, and its examples are whole JSON."""
    first, *others = names
    team = Topology.of({first: [*others, USER], **{name: [USER] for name in others}})
    told = text(count, (fault,), permitted=permitted_actions(team, first))
    assert told.strip()
    assert len(told.encode(errors="replace")) <= MAX_CORRECTION_BYTES
    if "exactly this form" in told.split(first)[-1]:
        assert json.loads(told.rpartition("\n")[2])["next_action"]


@given(st.text(max_size=20))
def test_nothing_that_a_model_wrote_is_repeated(word: str) -> None:
    """A word that only the reply holds is in no text, whichever member it stands in."""
    canary = f"CANARY{word}"
    for reply in (
        {"next_action": canary},
        {"next_action": "invoke_agent", "action_input": canary},
        {"next_action": "final_response", "content": "x", canary: 1},
        {"next_action": "invoke_agent", "action_input": {"agent_name": "Worker1", canary: canary}},
        {
            "next_action": "parallel_invoke",
            "agents": ["Worker1", canary],
            "agent_requests": {canary: canary},
        },
        f"{canary} {{",
    ):
        result = PROCESSOR.validate(reply, "Coordinator")
        assert not result.is_valid

        for count in range(5):
            assert "CANARY" not in (generate_steering(result, COORDINATOR, retry_count=count) or "")

        assert "CANARY" not in str(decide(result).next_steps[0].steering)


@given(
    st.permutations(["formatter", "not allowed", "missing", "invalid format"]),
    st.sampled_from(list(Category)),
)
def test_names_do_not_change_what_is_said(names: list[str], category: Category) -> None:
    """Two teams that differ in names alone are told the same with the names exchanged."""

    def told(agents: list[str]) -> str:
        """Return what the first agent of a team is told."""
        allowed = Permitted("Boss", (ActionType.INVOKE_AGENT,), tuple(agents))
        return text(1, (FAULTS[category],), permitted=allowed)

    plain = ["n0", "n1", "n2", "n3"]
    expected = told(plain)

    for placeholder, name in zip(plain, names, strict=True):
        expected = expected.replace(placeholder, name)

    assert told(names) == expected


def test_faults_that_do_not_fit_are_left_out_whole() -> None:
    """Of many long faults those that fit are listed whole; the advice and the example are always
    there.
    """
    many = tuple(
        Issue(f"mine.{n}", Category.FORMAT_ERROR, f"/f{n}", f"fault {n} " + "x" * 300)
        for n in range(12)
    )
    lines = text(4, many).splitlines()
    assert lines[0].startswith("Still not valid")
    assert json.loads(lines[-1])["next_action"] == "invoke_agent"

    listed = [line for line in lines if line.startswith("- ")]
    assert 0 < len(listed) < 12
    assert all(line.endswith("x" * 300) for line in listed)


def test_a_router_tells_what_the_verdict_permitted() -> None:
    """The steering of a retry names the tools that the reply was held to, and the agents of the
    topology.
    """
    told = decide(verdict("prose"), retry_count=2).next_steps[0].steering or ""
    assert "search" in told
    assert "must select" in told
    raw = decide(invalid(FAULTS[Category.PERMISSION_ERROR])).next_steps[0].steering or ""
    assert all(agent in raw for agent in TEAM.allowed_targets("Coordinator"))
    assert generate_steering(valid(ActionType.FINAL_RESPONSE), COORDINATOR) is None
