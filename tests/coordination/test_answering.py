"""Actions as the answer of a contract: the core's own loop holds a reply to exactly the same rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordination.team import CONVERSATION, processor
from openai_shapes import call, message
from scripted import Client, completion
from strictreply import Contract, ContractError, DirectAnswer, Invalid, RetryPolicy, ToolCall, Valid, wrap
from strictreply.answers import Answer
from strictreply.coordination.actions.kinds import ActionType
from strictreply.coordination.formats import JSONResponseFormat, XMLProcessor, XMLResponseFormat
from strictreply.coordination.replies.results import ValidationResult
from strictreply.coordination.validation.answering import ActionAnswer, answer_kind

FINAL = {"next_action": "final_response", "content": "x"}
INVOKE = {"next_action": "invoke_agent", "action_input": "Worker1", "request": "go"}


def contract(agent: str = "Coordinator", **settings: Any) -> Contract:
    """Make the contract of an agent's replies."""
    answer = processor(**settings).answer_kind(agent)
    return Contract(tools=answer.terms.tools.tools.values(), answer=answer, parallel=True)


def test_an_answer_may_be_given_ready_made() -> None:
    """What ``Contract(answer=…)`` takes for a kind may be an Answer: it is held to as it is."""
    text = Answer(blank=True)
    assert Answer.of(text, extra="schema") is text
    verdict = Contract(answer=text).check(message(" "))
    assert isinstance(verdict, Valid)


@pytest.mark.parametrize(
    "reply",
    [
        INVOKE,
        FINAL,
        {"next_action": "parallel_invoke", "agents": ["Worker1", "Nobody"], "agent_requests": {"Worker1": "a"}},
        {"next_action": "dance"},
        {"next_action": "invoke_agent", "action_input": "Worker1", "zzz": 1},
        {"content": "x"},
        {"next_action": "terminal_error", "error": "e"},
        ["x"],
        {},
    ],
)
def test_a_contract_judges_as_the_processor_does(reply: Any) -> None:
    """The same action where it is valid, the same codes below the content where it is not."""
    judged = processor().validate(reply, "Coordinator")
    verdict = contract().check(message(json.dumps(reply)))
    if isinstance(verdict, Valid):
        assert isinstance(verdict.reply, DirectAnswer)
        assert verdict.reply.answer.parsed_response == judged.parsed_response
        assert verdict.reply.answer.invocations == judged.invocations
    else:
        expected = [(issue.code, f"/content{issue.path}", issue.message) for issue in judged.issues]
        assert [(issue.code, issue.path, issue.message) for issue in verdict.issues] == expected
    assert isinstance(verdict, Valid) is judged.is_valid


def test_native_calls_are_the_core_s() -> None:
    """A call of the agent's tools is judged by the same contract."""
    verdict = contract().check(message(calls=[call("search", {"query": "q"})]))
    assert isinstance(verdict, Valid)
    assert verdict.reply == ToolCall("search", {"query": "q"}, "call_1")
    refused = contract().check(message(calls=[call("delete", {})]))
    assert isinstance(refused, Invalid)
    assert [issue.code for issue in refused.issues] == ["tool.unknown"]


@pytest.mark.parametrize("channel", ["native", "text"])
def test_a_wrapped_client_asks_again_until_the_action_fits(channel: Any) -> None:
    """The core's loop corrects a forbidden target, by the names that are permitted, and gives the typed action."""
    answer = processor(tools=()).answer_kind("Worker1")
    bad = INVOKE | {"action_input": "DataAnalyzer"}
    good = INVOKE | {"action_input": "Coordinator"}
    spell = (lambda action: json.dumps({"answer": action})) if channel == "text" else json.dumps
    script = Client(completion(spell(bad)), completion(spell(good)))
    client = wrap(script, contract=Contract(answer=answer, channel=channel), policy=RetryPolicy(max_retries=3))
    exchange = client.exchange(model="m", messages=[{"role": "user", "content": "go"}])
    assert isinstance(exchange.reply, DirectAnswer)
    result = exchange.reply.answer
    assert isinstance(result, ValidationResult)
    assert (result.action_type, result.next_agents) == (ActionType.INVOKE_AGENT, ["Coordinator"])
    assert [issue.code for issue in exchange.attempts[0].issues] == ["topology.not_allowed"]
    assert "Coordinator" in (exchange.attempts[1].correction or "")
    assert "DataAnalyzer" not in (exchange.attempts[1].correction or "")
    assert exchange.reply.to_dict()["answer"]["parsed_response"] == good


def test_the_core_s_example_of_an_action_is_valid() -> None:
    """What the loop shows at its third correction fits the same terms."""
    answer = processor().answer_kind("Coordinator", CONVERSATION)
    assert answer.schema is not None
    example = answer.schema.example()
    assert isinstance(answer.judge(example, ""), ValidationResult)


def test_an_answer_may_be_written_in_xml() -> None:
    """The format's own reader reads the content; its faults lie below it."""
    answer = answer_kind(processor().terms("Coordinator"), XMLResponseFormat())
    assert (answer.schema, isinstance(answer, ActionAnswer)) == (None, True)
    judge = Contract(answer=answer).check
    good = judge(message("<next_action>final_response</next_action><content>x</content>"))
    assert isinstance(good, Valid)
    assert isinstance(good.reply, DirectAnswer)
    assert good.reply.answer.final_response == "x"
    for text, code in (("<content>x", "format.syntax"), ("<next_action>dance</next_action>", "action.unknown")):
        bad = judge(message(text))
        assert isinstance(bad, Invalid)
        assert [issue.code for issue in bad.issues] == [code]
        assert bad.issues[0].path.startswith("/content")


def test_extra_members_are_the_format_s_to_allow() -> None:
    """What the processor keeps, the contract keeps."""
    verdict = contract(response_format=JSONResponseFormat(extra="allow")).check(message(json.dumps(FINAL | {"zzz": 1})))
    assert isinstance(verdict, Valid)


def test_an_agent_that_may_do_nothing_has_no_contract() -> None:
    """The topology is to be reviewed, before anything is sent."""
    with pytest.raises(ContractError):
        processor(tools=()).answer_kind("Worker3")


def test_a_foreign_format_fails_closed() -> None:
    """A reader that breaks is a fault of the reply, for the loop to correct."""

    class Broken(XMLProcessor):
        """A reader with a bug."""

        def process(self, response: Any) -> dict[str, Any] | Invalid | None:
            """Break."""
            raise KeyError(response)

    class BrokenFormat(XMLResponseFormat):
        """A format with that reader."""

        def create_processor(self) -> XMLProcessor:
            """Give the reader."""
            return Broken()

    verdict = Contract(answer=answer_kind(processor().terms("Coordinator"), BrokenFormat())).check(message("<a/>"))
    assert isinstance(verdict, Invalid)
    assert verdict.issues[0].code == "format.processor_failed"
