"""System prompts: what an agent is told is what it may do, and every example in them is valid."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from xml_format import XMLResponseFormat

from strictreply import ContractError
from strictreply.coordination import ActionType, Topology
from strictreply.coordination.formats import (
    ActionFormat,
    AgentContext,
    CoordinationContext,
    JSONResponseFormat,
    SystemPromptBuilder,
)
from strictreply.coordination.validation import ValidationProcessor
from support.coordination.keyed import KeyedFormat
from support.coordination.team import CONVERSATION, GRAPH, SEARCH, processor

FORMATS = [JSONResponseFormat(), XMLResponseFormat(), KeyedFormat()]


def examples(prompt: str) -> list[str]:
    """Extract whatever looks like an action from a prompt."""
    return [line for line in prompt.splitlines() if re.match(r"\s*(\{|<\w)", line)]


@pytest.mark.req("M62")
def test_the_printed_example_builds_a_prompt() -> None:
    """As the reference prints it: who the agent is, and the two it may hand over to."""
    builder = SystemPromptBuilder(response_format="json")
    system_prompt = builder.build(
        agent_context=AgentContext(
            name="Coordinator",
            goal="Coordinate tasks",
            instruction="You coordinate worker agents...",
        ),
        coordination_context=CoordinationContext(
            next_agents=["Worker1", "Worker2"], can_return_final_response=True
        ),
    )

    for part in (
        "Coordinator",
        "Coordinate tasks",
        "You coordinate worker agents...",
        "Worker1",
        "Worker2",
    ):
        assert part in system_prompt

    told = {action for action in ActionType if action.value in system_prompt}
    assert told == {ActionType.INVOKE_AGENT, ActionType.PARALLEL_INVOKE, ActionType.FINAL_RESPONSE}
    graph = Topology.of(
        {"Coordinator": ["Worker1", "Worker2", "End"], "Worker1": [], "Worker2": []}
    )
    shown = [
        ValidationProcessor(graph).validate(line, "Coordinator") for line in examples(system_prompt)
    ]
    assert {result.action_type for result in shown} == told


@pytest.mark.req("M62", "M64")
@pytest.mark.parametrize("written", FORMATS, ids=lambda written: written.name)
@pytest.mark.parametrize("agent", GRAPH.agents)
@pytest.mark.parametrize("branch", [None, CONVERSATION])
def test_a_prompt_tells_what_is_permitted_and_no_more(
    written: ActionFormat, agent: str, branch: Any
) -> None:
    """Agents of the topology only, permitted actions only, and each example passes the validator it
    teaches.
    """
    made = processor(response_format=written)
    context = CoordinationContext.of(made.terms(agent, branch))
    prompt = SystemPromptBuilder(written).build(AgentContext("Me", "g", "i"), context)
    others = {name for name in GRAPH.agents if name in prompt}
    assert others == set(GRAPH.allowed_targets(agent))

    permitted = set(context.permitted().actions)
    assert {action for action in ActionType if action.value in prompt} == permitted
    results = [made.validate(line, agent, branch) for line in examples(prompt)]
    assert [result.issues for result in results] == [()] * len(results)
    assert {result.action_type for result in results} == permitted


@pytest.mark.req("M63")
def test_contexts_have_the_documented_defaults() -> None:
    """Three words make an agent; nothing makes a context that permits nothing; lists are each one's
    own.
    """
    agent = AgentContext("A", "g", "i")
    assert (agent.name, agent.goal, agent.instruction, agent.memory_retention) == (
        "A",
        "g",
        "i",
        "session",
    )

    assert [agent.tools, agent.tools_schema, agent.input_schema, agent.output_schema] == [None] * 4
    one = CoordinationContext()
    other = CoordinationContext()
    one.next_agents.append("B")

    assert (other.next_agents, other.can_return_final_response) == ([], False)
    assert other.permitted().actions == ()


AN_AGENT = AgentContext("Me", "goal", "Do it.")
OF_AGENT: dict[str, Any] = {
    "name": "Other",
    "goal": "other goal",
    "instruction": "Do more.",
    "tools": {"find": SEARCH},
    "tools_schema": [SEARCH.definition],
    "input_schema": {"type": "string"},
    "output_schema": {"type": "object"},
}
OF_COORDINATION: dict[str, Any] = {
    "next_agents": ["B"],
    "can_return_final_response": False,
    "actions": (ActionType.INVOKE_AGENT,),
    "tools": {"search": SEARCH},
}
"""Of each member, a value that the prompt shows."""


def prompt_of(agent: dict[str, Any], coordination: dict[str, Any]) -> str:
    """Build the prompt of an agent with these members."""
    usual: dict[str, Any] = {"next_agents": ["A"], "can_return_final_response": True}
    context = CoordinationContext(**usual | coordination)
    return SystemPromptBuilder().build(replace(AN_AGENT, **agent), context)


@pytest.mark.req("M63")
@pytest.mark.parametrize("name", OF_AGENT)
def test_each_member_of_an_agent_is_in_its_prompt(name: str) -> None:
    """Another value of it makes another prompt."""
    assert prompt_of({name: OF_AGENT[name]}, {}) != prompt_of({}, {})


@pytest.mark.req("M63")
@pytest.mark.parametrize("name", OF_COORDINATION)
def test_each_permission_is_in_the_prompt(name: str) -> None:
    """Another value of it makes another prompt."""
    assert prompt_of({}, {name: OF_COORDINATION[name]}) != prompt_of({}, {})


@pytest.mark.req("M63")
def test_what_an_agent_keeps_is_the_applications_to_know() -> None:
    """``memory_retention`` is the one member that nothing is made of: it is carried."""
    assert {one.name for one in fields(AgentContext)} - OF_AGENT.keys() == {"memory_retention"}
    assert {one.name for one in fields(CoordinationContext)} == OF_COORDINATION.keys()
    kept = {"memory_retention": "persistent"}
    assert prompt_of(kept, {}) == prompt_of({}, {})
    assert replace(AN_AGENT, memory_retention="persistent").memory_retention == "persistent"


def test_tools_and_schemas_are_told() -> None:
    """Tools as they are declared, or as their schemas say; the answer's schema only to who may
    answer.
    """
    output = {"type": "object", "properties": {"total": {"type": "number"}}}
    agent = AgentContext(
        "A", "g", "i", tools={"find": SEARCH}, input_schema={"type": "string"}, output_schema=output
    )
    prompt = SystemPromptBuilder().build(
        agent, CoordinationContext([], can_return_final_response=True)
    )
    assert "- find:" in prompt

    assert '"query"' in prompt
    assert json.dumps(output, separators=(",", ":")) in prompt
    assert '"name":"find"' in prompt.replace("\\", "")
    silent = SystemPromptBuilder().build(agent, CoordinationContext(["B"]))
    assert json.dumps(output, separators=(",", ":")) not in silent

    schema = AgentContext("A", "g", "i", tools={"find": object()}, tools_schema=[SEARCH.definition])
    assert "- search:" in SystemPromptBuilder().build(schema, CoordinationContext())


def test_the_environment_is_told_as_it_is() -> None:
    """Facts by name; none, and an agent that may do nothing, leave nothing behind."""
    told = SystemPromptBuilder().build(
        AgentContext("A", "g", "i"), CoordinationContext(), {"date": "2026-11-21"}
    )
    assert "date: 2026-11-21" in told
    bare = SystemPromptBuilder().build(AgentContext("A", "", ""), CoordinationContext())
    assert bare == "You are A."


def test_an_unknown_format_is_refused() -> None:
    """With the list of those there are."""
    with pytest.raises(ContractError, match="json"):
        SystemPromptBuilder("yaml")


class Wordless(KeyedFormat):
    """A format that leaves the words on replying to the agent's own instruction."""

    def build_format_instructions(
        self, actions: Sequence[ActionType], descriptions: Mapping[ActionType, str]
    ) -> str:
        """Return no words."""
        return ""

    def get_examples(
        self, actions: Sequence[ActionType], context: CoordinationContext
    ) -> list[str]:
        """Return no examples."""
        return []


def test_a_format_without_words_leaves_no_empty_section() -> None:
    """A prompt ends with its last section that has words."""
    prompt = SystemPromptBuilder(Wordless()).build(
        AgentContext("lead", "g", "i"), CoordinationContext(["ann"])
    )
    assert prompt == prompt.strip()
