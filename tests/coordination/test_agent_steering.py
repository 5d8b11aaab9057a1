"""What an agent is told follows from codes, from what is permitted and from nothing that it wrote."""

from __future__ import annotations

import json
import threading
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.routed import FAULTS, PROCESSOR, TEAM, decide, invalid, search, valid, verdict
from strictreply.coordination.actions.kinds import ActionType, Permitted
from strictreply.coordination.actions.permissions import permitted
from strictreply.coordination.formats.xml_format import XMLResponseFormat
from strictreply.coordination.steering.wording import (
    MAX_STEERING_BYTES,
    NOTHING,
    AgentSteering,
    SteeringContext,
    SteeringMode,
    generate_steering,
    steering_text,
)
from strictreply.coordination.topology.graph import USER, Topology
from strictreply.coordination.validation.processor import ValidationProcessor
from strictreply.issues import Category, Issue

COORDINATOR = permitted(TEAM, "Coordinator", tools=["search"])
BAD_FORMAT = (FAULTS[Category.FORMAT_ERROR],)


def text(retry_count: int = 1, issues: tuple[Issue, ...] = BAD_FORMAT, **changes: Any) -> str:
    """Say what the coordinator is told."""
    said: dict[str, Any] = {"permitted": COORDINATOR, "issues": issues, "retry_count": retry_count} | changes
    return steering_text(SteeringContext(**said))


@pytest.mark.req("M65")
@pytest.mark.parametrize("reply", ["prose", '{"content": "x"}', '{"next_action":', "[1]", ""])
def test_a_bad_format_is_told_the_members(reply: str) -> None:
    """Whatever made a reply unreadable, the agent is told of ``next_action`` and ``action_input``."""
    result = verdict(reply)
    told = generate_steering(result, COORDINATOR)
    assert result.error_category is Category.FORMAT_ERROR
    assert told is not None
    assert "next_action" in told
    assert "action_input" in told


@pytest.mark.req("M66")
def test_a_denied_target_is_told_whom_it_may_choose() -> None:
    """The agents that are named are those of the topology, all of them and no other."""
    result = verdict({"next_action": "invoke_agent", "action_input": "Coordinator"}, "Worker1")
    told = generate_steering(result, permitted(TEAM, "Worker1"))
    assert told is not None
    assert "choose" in told
    assert {agent for agent in TEAM.agents if agent in told} == set(TEAM.allowed_targets("Worker1"))


@pytest.mark.req("M67")
def test_a_valid_reply_is_told_nothing() -> None:
    """Nothing is said about a valid reply, so nothing is added to the next prompt."""
    result = verdict({"next_action": "invoke_agent", "action_input": "Worker1"})
    assert generate_steering(result, COORDINATOR) is None
    assert AgentSteering().prompt(SteeringContext(permitted=COORDINATOR, issues=result.issues)) is None


@pytest.mark.req("M68")
@pytest.mark.parametrize(("category", "count"), list(product(Category, range(6))))
def test_every_category_is_told_something(category: Category, count: int) -> None:
    """For each category and at each retry there is a text, and it is not the word None; also without any issue."""
    for issues in ((FAULTS[category],), ()):
        told = text(count, issues)
        assert told.strip()
        assert "None" not in told
    assert generate_steering(invalid(suggestion=None), COORDINATOR)


@pytest.mark.req("M71")
@pytest.mark.parametrize(
    "reply", ["prose", '{"next_action":"dance"}', '{"next_action":"invoke_agent","action_input":"Z"}']
)
def test_what_is_retried_has_a_suggestion(reply: object) -> None:
    """Every failure that the router retries has a suggestion to retry with, and the printed use of it works."""
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
            permitted=COORDINATOR, issues=BAD_FORMAT if failed else (), retry_count=1 if again else 0
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
    """Up to the second retry it is generic, at the third a choice is due, from the fourth on it is shown."""
    first, second, third, fourth = (text(count) for count in (1, 2, 3, 4))
    assert len({first, second, third, fourth}) == 4
    assert not any(agent in first + second for agent in TEAM.agents)
    assert "must select" in third
    assert "must select" not in first + second + fourth
    assert "Coordinator" in fourth
    assert '{"next_action":"invoke_agent","action_input":"Aggregator"' in fourth


@pytest.mark.req("M75")
def test_who_may_only_finish_or_ask_is_shown_that() -> None:
    """Where there is nobody to hand over to, the example finishes or asks."""
    ends = permitted(Topology.of({"A": ["End"]}), "A")
    assert '"next_action":"final_response"' in text(4, permitted=ends)
    asks = Permitted("A", (ActionType.ASK_USER,))
    assert '"next_action":"ask_user"' in text(4, permitted=asks)
    calls = Permitted("A", (ActionType.CALL_TOOL,), (), ("search",))
    assert '"next_action":"call_tool"' in text(4, permitted=calls, tools={"search": search})
    assert "must select" in text(4, permitted=calls)  # the tool itself is not known here: its name is


@pytest.mark.req("M75")
@pytest.mark.parametrize("count", [3, 4, 9])
def test_nothing_permitted_is_said(count: int) -> None:
    """Where nothing is permitted the text says where to look."""
    assert NOTHING == "(none — review topology)"
    assert NOTHING in text(count, permitted=Permitted("A"))


@pytest.mark.req("M76")
def test_a_transient_failure_is_told_shortly() -> None:
    """A failed call is named by its class, and nothing is said of formats."""
    for count in range(6):
        told = text(count, (FAULTS[Category.API_TRANSIENT],))
        assert "service_unavailable" in told
        assert not any(word in told for word in ("JSON", "{", "next_action"))


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


def test_threads_are_counted_alike() -> None:
    """No injection of any thread is lost."""
    steering, context = AgentSteering(), SteeringContext(permitted=COORDINATOR, issues=BAD_FORMAT)
    threads = [threading.Thread(target=lambda: [steering.prompt(context) for _ in range(200)]) for _ in range(4)]
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
    """What steering shows as a reply passes the validation of that very agent, in its format."""
    for written in (None, XMLResponseFormat()):
        processor = ValidationProcessor(TEAM, *([] if written is None else [written]), tools=[search])
        allowed = processor.terms(agent).permitted
        known: dict[str, Any] = {} if written is None else {"response_format": written}
        shown = examples_in(text(4, permitted=allowed, tools={"search": search}, **known))
        assert len(shown) == 1
        assert processor.validate(shown[0], agent).is_valid
        assert ("XML" if written else "JSON") in text(1, permitted=allowed, **known)


NAMES = st.text(min_size=1, max_size=60).filter(lambda name: name.strip() == name and name not in {USER, "End"})


@given(st.lists(NAMES, min_size=2, max_size=40, unique=True), st.sampled_from(list(FAULTS.values())), st.integers(0, 6))
def test_any_names_make_a_bounded_text_with_whole_examples(names: list[str], fault: Issue, count: int) -> None:
    """However agents are called, a text is at most 2 KB of UTF-8, and what it shows as a reply reads as JSON."""
    first, *others = names
    team = Topology.of({first: [*others, USER], **{name: [USER] for name in others}})
    told = text(count, (fault,), permitted=permitted(team, first))
    assert told.strip()
    assert len(told.encode(errors="replace")) <= MAX_STEERING_BYTES
    if "Reply like this" in told.split(first)[-1]:
        assert json.loads(told.splitlines()[-1])["next_action"]


@given(st.text(max_size=20))
def test_nothing_that_a_model_wrote_is_repeated(word: str) -> None:
    """A word that only the reply holds is in no text, whichever member it stands in."""
    canary = f"CANARY{word}"
    for reply in (
        {"next_action": canary},
        {"next_action": "invoke_agent", "action_input": canary},
        {"next_action": "final_response", "content": "x", canary: 1},
        {"next_action": "invoke_agent", "action_input": {"agent_name": "Worker1", canary: canary}},
        {"next_action": "parallel_invoke", "agents": ["Worker1", canary], "agent_requests": {canary: canary}},
        f"{canary} {{",
    ):
        result = PROCESSOR.validate(reply, "Coordinator")
        assert not result.is_valid
        for count in range(5):
            assert "CANARY" not in (generate_steering(result, COORDINATOR, retry_count=count) or "")
        assert "CANARY" not in str(decide(result).next_steps[0].steering)


@given(st.permutations(["formatter", "not allowed", "missing", "invalid format"]), st.sampled_from(list(Category)))
def test_names_do_not_change_what_is_said(names: list[str], category: Category) -> None:
    """Two teams that differ in names alone are told the same with the names exchanged."""

    def told(agents: list[str]) -> str:
        """Say what the first agent of a team is told."""
        allowed = Permitted("Boss", (ActionType.INVOKE_AGENT,), tuple(agents))
        return text(1, (FAULTS[category],), permitted=allowed)

    plain = ["n0", "n1", "n2", "n3"]
    expected = told(plain)
    for placeholder, name in zip(plain, names, strict=True):
        expected = expected.replace(placeholder, name)
    assert told(names) == expected


def test_faults_that_do_not_fit_are_left_out_whole() -> None:
    """Of many long faults those that fit are listed whole, and the advice and the example are there in any case."""
    many = tuple(Issue(f"mine.{n}", Category.FORMAT_ERROR, f"/f{n}", f"fault {n} " + "x" * 300) for n in range(12))
    lines = text(4, many).splitlines()
    assert lines[0].startswith("Still not valid.")
    assert json.loads(lines[-1])["next_action"] == "invoke_agent"
    listed = [line for line in lines if line.startswith("- ")]
    assert 0 < len(listed) < 12
    assert all(line.endswith("x" * 300) for line in listed)


def test_a_router_tells_what_the_verdict_permitted() -> None:
    """The steering of a retry names the tools that the reply was held to, and the agents of the topology."""
    told = decide(verdict("prose"), retry_count=2).next_steps[0].steering or ""
    assert "search" in told
    assert "must select" in told
    raw = decide(invalid(FAULTS[Category.PERMISSION_ERROR])).next_steps[0].steering or ""
    assert all(agent in raw for agent in TEAM.allowed_targets("Coordinator"))
    assert generate_steering(valid(ActionType.FINAL_RESPONSE), COORDINATOR) is None
