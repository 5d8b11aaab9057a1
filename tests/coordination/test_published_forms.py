"""The code that the published pages print runs as it is printed (V17).

Only the free names that it uses are added.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from strictreply import ContractError, ReplyRejected
from strictreply.coordination import (
    ActionType,
    Branch,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
    ValidationResult,
    formats,
    generate_steering,
    retry_with_steering,
    validation,
)
from support.coordination.team import PARALLEL, processor

CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "x"}'},
}
PRINTED: dict[str, dict[str, Any]] = {
    "invoke_agent": {
        "next_action": "invoke_agent",
        "action_input": "Worker1",
        "request": "Analyze.",
    },
    "parallel_invoke": {
        "next_action": "parallel_invoke",
        "agents": ["Worker1", "Worker2"],
        "agent_requests": {"Worker1": "Task A", "Worker2": "Task B"},
    },
    "call_tool": {"next_action": "call_tool", "tool_calls": [CALL]},
    "final_response": {"next_action": "final_response", "content": "Analysis complete."},
    "wait_and_aggregate": {"next_action": "wait_and_aggregate"},
    "error_recovery": {
        "next_action": "error_recovery",
        "error_details": {
            "type": "api_quota_exceeded",
            "message": "exceeded",
            "provider": "openai",
        },
        "suggested_action": "retry",
    },
}
OPTIONAL: dict[str, tuple[str, ...]] = {
    "invoke_agent": ("request",),
    "parallel_invoke": ("agent_requests",),
    "error_recovery": ("suggested_action",),
}
MEMBERS = {"thought", "request", "action_input", "agents", "agent_requests", "suggested_action"}
"""What the pages say is optional, of an action or of the class ``AgentResponse``."""


def judged(reply: object, *, spawned: bool = False) -> ValidationResult:
    """Judge a reply of the coordinator, which may do all of this in a parallel branch."""
    return processor().validate(
        reply, "Coordinator", PARALLEL if spawned else Branch(type=PARALLEL.type)
    )


@pytest.mark.req("M39")
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("name", PRINTED)
def test_v17_a_null_for_an_optional_member_is_as_if_it_were_absent(
    name: str, written: bool
) -> None:
    """In a mapping and in a text: of the action's own members, and of other actions', which nobody
    gave a value.
    """
    action = PRINTED[name]
    expected = judged(action)
    assert expected.is_valid
    for member in MEMBERS - (set(action) - set(OPTIONAL.get(name, ()))):
        given = {**action, member: None}
        found = judged(json.dumps(given) if written else given)
        bare = judged({key: part for key, part in action.items() if key != member})
        assert (found.is_valid, found.parsed_response) == (True, bare.parsed_response), member


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        ({"next_action": "invoke_agent", "action_input": None}, "/action_input"),
        ({"next_action": "final_response", "content": None}, "/content"),
        ({"next_action": "call_tool", "tool_calls": None}, "/tool_calls"),
        ({"next_action": "call_tool", "tool_calls": [CALL | {"id": None}]}, "/tool_calls/0/id"),
        ({"next_action": "invoke_agent", "action_input": {"agent_name": None}}, "/action_input"),
        ({"next_action": "final_response", "content": "x", "zzz": None}, ""),
        ({"next_action": "invoke_agent", "action_input": "Worker1", "content": None}, ""),
        ({"next_action": None}, "/next_action"),
        (
            {**PRINTED["parallel_invoke"], "agent_requests": {"Worker1": None, "Worker2": "b"}},
            "/agent_requests",
        ),
    ],
)
def test_v17_a_null_for_a_needed_or_unknown_member_is_a_fault(
    reply: dict[str, Any], path: str
) -> None:
    """Only an optional member may be null."""
    result = judged(reply)
    assert not result.is_valid
    assert result.issues[0].path.startswith(path)


def test_v17_nulls_of_the_parts_of_an_action_are_absent_too() -> None:
    """An invocation without a request, an error without a provider, a call without a type; a
    content stays as it is.
    """
    listed = [{"agent_name": "Worker1", "request": None}, {"agent_name": "Worker2", "request": "b"}]
    opened = judged({"next_action": "invoke_agent", "action_input": listed})
    assert [one.request for one in opened.invocations] == [None, "b"]
    one = judged(
        {"next_action": "invoke_agent", "action_input": {"agent_name": "Worker1", "request": None}}
    )
    assert one.next_agents == ["Worker1"]

    details = {"type": "t", "message": "m", "provider": None, "retry_after": None}
    told = judged({"next_action": "error_recovery", "error_details": details})
    assert (told.is_valid, told.parsed_response) == (
        True,
        {"next_action": "error_recovery", "error_details": {"type": "t", "message": "m"}},
    )

    assert judged({"next_action": "call_tool", "tool_calls": [CALL | {"type": None}]}).is_valid
    content = {"title": None, "sections": [None]}
    assert judged({"next_action": "final_response", "content": content}).final_response == content


class AgentResponse(BaseModel):
    """The class that the concept page prints."""

    next_action: str
    action_input: str | None = None
    agents: list[str] | None = None
    agent_requests: dict[str, str] | None = None


class Finished(AgentResponse):
    """The same for an answer."""

    content: str


@pytest.mark.parametrize(
    ("response", "action"),
    [
        (
            AgentResponse(next_action="invoke_agent", action_input="Worker1"),
            ActionType.INVOKE_AGENT,
        ),
        (
            AgentResponse(
                next_action="parallel_invoke",
                agents=["Worker1", "Worker2"],
                agent_requests={"Worker1": "a", "Worker2": "b"},
            ),
            ActionType.PARALLEL_INVOKE,
        ),
        (Finished(next_action="final_response", content="x"), ActionType.FINAL_RESPONSE),
    ],
)
def test_v17_the_printed_agent_response_is_accepted_as_an_instance(
    response: AgentResponse, action: ActionType
) -> None:
    """As it is, as what it dumps to, and as the JSON that it writes."""
    for given in (
        response,
        response.model_dump(),
        response.model_dump_json(),
        response.model_dump(exclude_none=True),
    ):
        assert judged(given).action_type is action

    assert asyncio.run(processor().process_response(response, "Coordinator", Branch())).is_valid
    stranger = response.model_copy(update={"next_action": "dance"})
    assert judged(stranger).code == "action.unknown"


def test_v17_an_instance_that_cannot_be_dumped_is_a_verdict() -> None:
    """Looking at an instance runs a stranger's code: what it raises is not an exception of ours."""

    class Broken(AgentResponse):
        """Its dump raises."""

        def model_dump(self, **_options: Any) -> dict[str, Any]:
            """Fail."""
            raise RuntimeError(self.next_action)

    assert not judged(Broken(next_action="final_response")).is_valid


@pytest.mark.req("M51")
def test_v17_the_printed_chain_processes_by_priority() -> None:
    """It is importable where the pages speak of it; what no processor reads is None, as printed."""
    assert ProcessorChain is formats.ProcessorChain is validation.ProcessorChain
    chain = ProcessorChain(
        [
            StructuredJSONProcessor(priority=100),
            ToolCallProcessor(priority=90),
            TextResponseProcessor(priority=10),
        ]
    )
    order = sorted(chain.processors, key=lambda one: one.priority(), reverse=True)
    assert (
        [one.priority() for one in order]
        == [one.priority() for one in chain.processors]
        == [100, 90, 10]
    )

    action = PRINTED["invoke_agent"]
    assert asyncio.run(chain.process(action)) == action
    assert asyncio.run(chain.process(json.dumps(action))) == action
    assert asyncio.run(chain.process({"tool_calls": [CALL]})) == PRINTED["call_tool"]

    assert asyncio.run(chain.process("Done.")) == {
        "next_action": "final_response",
        "content": "Done.",
    }
    nothings: tuple[object, ...] = ({}, None, 5, "", '{"next_action": ')
    for nothing in nothings:
        assert asyncio.run(chain.process(nothing)) is None

    assert [type(one).__name__ for one in ProcessorChain().processors] == [
        "ErrorMessageProcessor",
        "ToolCallProcessor",
        "StructuredJSONProcessor",
    ]


def test_v17_the_printed_custom_processor_works() -> None:
    """Its mapping is judged like any other action."""

    class CustomFormatProcessor(ResponseProcessor):
        """Process custom response format."""

        def can_process(self, response: Any) -> bool:
            return isinstance(response, dict) and "custom_action" in response

        def process(self, response: Any) -> dict[str, Any] | None:
            return {
                "next_action": self._map_action(response["custom_action"]),
                "content": response.get("data"),
            }

        def priority(self) -> int:
            return 75

        def _map_action(self, name: str) -> str:
            return {"done": "final_response"}[name]

    made = processor()
    made.register_processor(CustomFormatProcessor())
    assert (
        made.validate({"custom_action": "done", "data": "x"}, "Coordinator").final_response == "x"
    )
    assert not made.validate({"custom_action": "done"}, "Coordinator").is_valid


@pytest.mark.req("M32")
def test_v17_instances_are_told_apart_over_rounds() -> None:
    """The same reply has other ids when the conversation has come further, and the same ones when
    it is read again.
    """
    reply = {
        "next_action": "parallel_invoke",
        "agents": ["Worker1", "Worker1"],
        "agent_requests": {"Worker1": "x"},
    }
    rounds: list[dict[str, Any]] = [
        {"conversation_id": "c", "loop_count": count, "messages": [{}] * said}
        for count in range(3)
        for said in range(3)
    ]
    rounds.append({"conversation_id": "d", "loop_count": 0, "messages": []})
    made = processor()
    ids = [
        [
            one.instance_id
            for one in made.validate(reply, "Coordinator", exec_state=state).invocations
        ]
        for state in rounds
    ]
    assert len({name for pair in ids for name in pair}) == 2 * len(rounds)

    again = processor().validate(reply, "Coordinator", exec_state=rounds[4])
    assert [one.instance_id for one in again.invocations] == ids[4]


class Prompted:
    """An agent of the pages: it is asked by a prompt, and remembers each."""

    def __init__(self, *replies: Any) -> None:
        """Reply so, in turn."""
        self.replies, self.prompts = list(replies), list[str]()

    async def run(self, prompt: str) -> Any:
        """Return the next reply."""
        self.prompts.append(prompt)
        return self.replies.pop(0)


class Prompt(Prompted):
    """The same without awaiting."""

    def run(self, prompt: str) -> Any:
        """Return the next reply."""
        self.prompts.append(prompt)
        return self.replies.pop(0)


async def validate_response(response: object) -> ValidationResult:
    """Judge a reply, as the concept page does."""
    return await processor().process_response(response, "Coordinator", Branch())


def validate_at_once(response: object) -> ValidationResult:
    """Judge a reply without awaiting."""
    return processor().validate(response, "Coordinator")


@pytest.mark.req("M69", "M70")
@pytest.mark.parametrize("made", [Prompted, Prompt])
@pytest.mark.parametrize("validate", [validate_response, validate_at_once])
def test_v17_the_printed_retry_with_steering_asks_an_agent_by_its_prompt(
    made: type[Prompted], validate: Any
) -> None:
    """Each prompt is the original one and the steering for the last reply alone; the first that is
    right is given.
    """
    agent = made(
        "prose",
        {"next_action": "invoke_agent", "action_input": "stranger"},
        PRINTED["invoke_agent"],
    )
    asked = retry_with_steering(
        agent,
        "Please reply in JSON.",
        max_retries=3,
        original_prompt="Go.",
        validate_response=validate,
    )
    result = asyncio.run(_of(asked))
    assert (result.is_valid, result.next_agents) == (True, ["Worker1"])

    steering = generate_steering(validate_at_once("prose"), retry_count=2)
    assert agent.prompts[:2] == ["Go.\n\nPlease reply in JSON.", f"Go.\n\n{steering}"]
    assert all(prompt.count("Go.") == 1 for prompt in agent.prompts)
    assert "Please reply in JSON." not in agent.prompts[1]

    assert "Worker1" in agent.prompts[2]
    assert "stranger" not in agent.prompts[2]


async def _of(awaitable: Any) -> Any:
    """Await what was asked."""
    return await awaitable


@pytest.mark.req("M70")
@pytest.mark.parametrize(("given", "asked"), [((2,), 2), ((), 3), ((0,), 0)])
def test_v17_the_printed_retry_with_steering_fails_typed_when_it_is_spent(
    given: tuple[int, ...], asked: int
) -> None:
    """Not with None: the error has every attempt and the faults of the last; three are made when
    nobody says.
    """
    agent = Prompted(*["prose"] * 9)
    called = retry_with_steering(
        agent, None, *given, original_prompt="Go.", validate_response=validate_response
    )

    with pytest.raises(ReplyRejected) as raised:
        asyncio.run(_of(called))

    assert (len(agent.prompts), len(raised.value.attempts), raised.value.reason) == (
        asked,
        asked,
        "retries",
    )
    assert [issue.code for issue in raised.value.issues] == ["json.syntax"] * bool(asked)
    assert "prose" not in str(raised.value)


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"original_prompt": "Go."},
        {"validate_response": validate_response},
        {"model": "m", "messages": []},
    ],
)
def test_v17_the_printed_retry_with_steering_says_what_it_needs(keywords: dict[str, Any]) -> None:
    """The two names that the page leaves open are keywords, and nobody is asked without them."""
    agent: Any = Prompted("prose")
    with pytest.raises(ContractError, match="original_prompt="):
        _ = retry_with_steering(agent, "Please reply in JSON.", max_retries=3, **keywords)
    assert agent.prompts == []
