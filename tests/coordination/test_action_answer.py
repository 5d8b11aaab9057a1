"""Actions as the answer of a contract.

The core's own loop holds a reply to exactly the same rules.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xml_format import XMLProcessor, XMLResponseFormat

from strictreply import (
    Category,
    Contract,
    ContractError,
    DirectAnswer,
    Invalid,
    Issue,
    Limits,
    RetryPolicy,
    Tool,
    ToolCall,
    Valid,
    Verdict,
    wrap,
)
from strictreply.coordination import ActionType, Branch, ValidationResult
from strictreply.coordination.actions import Permitted
from strictreply.coordination.formats import (
    JSONResponseFormat,
    ResponseProcessor,
    TextResponseProcessor,
)
from strictreply.coordination.validation import ActionAnswer, ValidationProcessor
from strictreply.core import Answer
from support.coordination.team import CONVERSATION, PARALLEL, SEARCH, SPAWN, processor
from support.openai_shapes import call, message
from support.scripted import AsyncClient, Client, completion

FINAL = {"next_action": "final_response", "content": "x"}
INVOKE = {"next_action": "invoke_agent", "action_input": "Worker1", "request": "go"}


def contract(agent: str = "Coordinator", **settings: Any) -> Contract:
    """Make the contract of an agent's replies."""
    return processor(**settings).answer_kind(agent).contract


def test_an_answer_may_be_given_ready_made() -> None:
    """``Contract(answer=…)`` accepts a ready Answer and uses it unchanged."""
    text = Answer(blank=True)
    assert Answer.of(text, extra="schema") is text
    verdict = Contract(answer=text).check(message(" "))
    assert isinstance(verdict, Valid)


class Foreign(ResponseProcessor):
    """Translates a shape of the application's, and asks before native calls.

    It is shown every side of a reply.
    """

    def can_process(self, response: Any) -> bool:
        """Look for a word of its own."""
        return isinstance(response, dict) and "custom_action" in response

    def process(self, response: Any) -> dict[str, Any] | None:
        """Translate, or break where there is nothing to translate."""
        action = {"final": "final_response", "hand": "invoke_agent", "call": "call_tool"}[
            response["custom_action"]
        ]
        return {"next_action": action, **response.get("members", {})}

    def priority(self) -> int:
        """Rank above native calls."""
        return 95


class Marked(ResponseProcessor):
    """Reads a text that begins with a mark, as the application's models write it."""

    format_name = "marked"

    def can_process(self, response: Any) -> bool:
        """Look for the mark."""
        return isinstance(response, str) and response.startswith("#")

    def process(self, response: Any) -> dict[str, Any] | None:
        """Take the rest for the answer; nothing behind it is left to the next."""
        return (
            {"next_action": "final_response", "content": response[1:]}
            if len(response) > 1
            else None
        )

    def priority(self) -> int:
        """Rank between JSON and text."""
        return 75


def brief(action: dict[str, Any], permitted: Permitted) -> None:
    """Refuse what is long."""
    if len(str(action)) > 120:
        raise ValueError("too long")


def rare(action: dict[str, Any], permitted: Permitted) -> list[Issue]:
    """Refuse calls whose number is even."""
    odd = len(action["tool_calls"]) % 2
    return (
        []
        if odd
        else [Issue("mine.even", Category.ACTION_ERROR, "/tool_calls", "must be an odd number")]
    )


def late(args: Any) -> None:
    """Refuse one query, where the tool's own check looks."""
    if args["query"] == "late":
        raise ValueError("not in stock")


CHECKED = Tool.from_json_schema("search", SEARCH.definition["function"]["parameters"], check=late)


def furnished(written: Any, lenient: Any) -> ValidationProcessor:
    """Make a processor with everything that an application may add."""
    made = processor(response_format=written, extraction=lenient, tools=[CHECKED])
    for one in (
        Foreign(),
        Marked(),
        TextResponseProcessor(),
        XMLResponseFormat().create_processor(),
    ):
        made.register_processor(one)

    made.register_action_validator("final_response", brief)
    made.register_action_validator("call_tool", rare)
    return made


WORDS = st.sampled_from(
    [
        *ActionType,
        "Worker1",
        "DataAnalyzer",
        "Nobody",
        "search",
        "final",
        "hand",
        "call",
        "",
        "x" * 90,
    ]
)
CALL = st.builds(
    call,
    st.sampled_from(["search", "delete"]),
    st.fixed_dictionaries({"query": st.sampled_from(["q", "late", 1])}),
)
CALLS = st.lists(CALL | WORDS, min_size=1, max_size=3)
MEMBERS = st.dictionaries(
    st.sampled_from(["action_input", "agents", "content", "request", "question", "thought", "zzz"]),
    WORDS | st.integers() | st.lists(WORDS, max_size=3) | st.none(),
    max_size=2,
)
ACTIONS = st.builds(
    lambda word, members, calls: {
        "next_action": word,
        **members,
        **({"tool_calls": calls} if calls else {}),
    },
    WORDS,
    MEMBERS,
    st.none() | CALLS,
)
RIGHT = st.sampled_from(
    [
        FINAL,
        INVOKE,
        FINAL | {"content": "y" * 100},
        {"next_action": "call_tool", "tool_calls": [call("search", {"query": "q"})]},
    ]
)
SHAPES = (
    ACTIONS
    | RIGHT
    | st.builds(
        lambda word, members: {"custom_action": word, "members": members}, WORDS, ACTIONS | MEMBERS
    )
)
WRAPS = ["{}", "```json\n{}\n```", "Sure: {}", "<think>so</think>{}", "{}}", "#{}", "{} {}"]
TEXTS = (
    st.builds(
        lambda wrap, shape: wrap.replace("{}", json.dumps(shape)), st.sampled_from(WRAPS), SHAPES
    )
    | st.builds(XMLResponseFormat().spell, ACTIONS | RIGHT)
    | st.sampled_from(
        ["", " ", "#", "# done", "prose", "null", "[1]", '{"a":1,"a":2}', "<a>", "\ud800"]
    )
    | st.text(max_size=12)
)


def faults_of(verdict: Verdict | ValidationResult) -> list[str]:
    """Return the codes of what is wrong, in order."""
    return [] if isinstance(verdict, Valid) else [issue.code for issue in verdict.issues]


def lies_in_content(verdict: Verdict, result: ValidationResult) -> bool:
    """Return whether each fault has the processor's place.

    The place is below the content where the fault lies in it.
    """
    issues = [] if isinstance(verdict, Valid) else verdict.issues
    pairs = zip(issues, result.issues, strict=True)
    return all(issue.path in (known.path, f"/content{known.path}") for issue, known in pairs)


@pytest.mark.req("M1", "M58")
@settings(max_examples=400, deadline=None)
@given(
    text=TEXTS,
    agent=st.sampled_from(["Coordinator", "Worker1", "DataAnalyzer"]),
    branch=st.sampled_from([None, CONVERSATION, PARALLEL, SPAWN]),
    written=st.sampled_from(["json", XMLResponseFormat()]),
    lenient=st.sampled_from(["strict", ("fenced", "after_think", "first_object")]),
    state=st.sampled_from([None, {"reply_formats": {"Coordinator": "json"}}]),
)
def test_a_client_s_loop_judges_as_the_processor_does(
    text: str, agent: str, branch: Branch | None, written: Any, lenient: Any, state: Any
) -> None:
    """For any text: the same validity, the same codes at the same places, the same action, read in
    the same way.

    With processors, action validators, tools' checks, leniencies and formats of the application's.
    """
    made = furnished(written, lenient)
    result = asyncio.run(made.process_response(text, agent, branch, state))
    verdict = made.answer_kind(agent, branch, state).contract.check(message(text))
    assert faults_of(verdict) == faults_of(result)

    assert lies_in_content(verdict, result)
    assert verdict.lenient == result.source.lenient
    assert isinstance(verdict, Valid) is result.is_valid

    if isinstance(verdict, Valid):
        assert verdict.reply == DirectAnswer(result)


@pytest.mark.req("M1", "M48")
@settings(max_examples=200, deadline=None)
@given(
    content=st.none() | TEXTS, calls=CALLS, agent=st.sampled_from(["Coordinator", "DataAnalyzer"])
)
def test_native_calls_are_judged_alike(content: str | None, calls: list[Any], agent: str) -> None:
    """A message with calls, too, whatever stands beside them: the same verdict, the calls being the
    core's.
    """
    made = furnished("json", "strict")
    # an equal call under the id of another one is that call once more
    calls = [
        {**one, "id": f"call_{index}"} if isinstance(one, dict) else one
        for index, one in enumerate(calls)
    ]
    reply = message(content, calls)
    result = made.validate(reply, agent)
    verdict = made.answer_kind(agent).contract.check(reply)
    assert isinstance(verdict, Valid) is result.is_valid

    if isinstance(verdict, Invalid):
        assert [(issue.code, issue.path) for issue in verdict.issues] == [
            (issue.code, issue.path) for issue in result.issues
        ]
    else:
        assert verdict.reply.calls == result.calls


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
    """The core's loop corrects a forbidden target, by the names that are permitted, and gives the
    typed action.
    """
    answer = processor(tools=()).answer_kind("Worker1")
    bad = INVOKE | {"action_input": "DataAnalyzer"}
    good = INVOKE | {"action_input": "Coordinator"}
    spell = (lambda action: json.dumps({"answer": action})) if channel == "text" else json.dumps
    script = Client(completion(spell(bad)), completion(spell(good)))
    client = wrap(
        script, contract=Contract(answer=answer, channel=channel), policy=RetryPolicy(max_retries=3)
    )
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
    """The example in the third correction of the loop fits the same terms."""
    answer = processor().answer_kind("Coordinator", CONVERSATION)
    assert answer.schema is not None
    example = answer.schema.example()
    assert isinstance(answer.judge(example, ""), ValidationResult)


def test_an_answer_may_be_written_in_xml() -> None:
    """The format's own reader reads the content; its faults lie below it."""
    answer = processor(response_format=XMLResponseFormat()).answer_kind("Coordinator")
    assert (answer.schema, isinstance(answer, ActionAnswer)) == (None, True)
    judge = Contract(answer=answer).check
    good = judge(message("<next_action>final_response</next_action><content>x</content>"))
    assert isinstance(good, Valid)

    assert isinstance(good.reply, DirectAnswer)
    assert good.reply.answer.final_response == "x"

    for text, code in (
        ("<content>x", "format.malformed"),
        ("<next_action>dance</next_action>", "action.unknown"),
    ):
        bad = judge(message(text))
        assert isinstance(bad, Invalid)
        assert [issue.code for issue in bad.issues] == [code]
        assert bad.issues[0].path.startswith("/content")


def test_extra_members_are_the_format_s_to_allow() -> None:
    """The contract keeps the extra members that the processor keeps."""
    verdict = contract(response_format=JSONResponseFormat(extra="allow")).check(
        message(json.dumps(FINAL | {"zzz": 1}))
    )
    assert isinstance(verdict, Valid)


def test_an_agent_that_may_do_nothing_has_no_contract() -> None:
    """The topology is to be reviewed, before anything is sent."""
    with pytest.raises(ContractError):
        processor(tools=()).answer_kind("Worker3")


CALLED = json.dumps({"next_action": "call_tool", "tool_calls": [call("search", {"query": "late"})]})


def test_checks_of_tools_run_however_a_call_is_written() -> None:
    """Async ones, too, in an async client's loop: an action that calls a tool is corrected like a
    native call.
    """

    async def slow(args: Any) -> None:
        """Refuse one query, later."""
        late(args)

    tool = Tool.from_json_schema("search", SEARCH.definition["function"]["parameters"], check=slow)
    made = processor(tools=[tool])
    assert asyncio.run(made.process_response(CALLED, "Coordinator")).code == "args.check"
    script = AsyncClient(completion(CALLED), completion(json.dumps(FINAL)))
    client: Any = wrap(script)

    kind = made.answer_kind("Coordinator")
    exchange = asyncio.run(client.exchange(contract=kind.contract, model="m", messages=[]))
    assert [issue.code for issue in exchange.attempts[0].issues] == ["args.check"]
    assert exchange.reply.answer.final_response == "x"


def test_a_request_can_only_narrow() -> None:
    """A forced tool, no tool, other tools and one call at a time are held in every way of writing a
    call.
    """
    kind = processor().answer_kind("Coordinator")
    one = call("search", {"query": "q"})
    two = call("search", {"query": "r"}, "call_2")
    written = json.dumps({"next_action": "call_tool", "tool_calls": [one]})

    other = Tool.from_json_schema("other", {"type": "object", "properties": {}})
    for narrowed, reply, code in (
        (kind.contract.with_choice("required"), message(json.dumps(FINAL)), "tool.required"),
        (kind.contract.with_choice("required"), message(written), "tool.required"),
        (kind.contract.with_choice("none"), message(calls=[one]), "tool.forbidden"),
        (kind.contract.with_choice("none"), message(written), "tool.forbidden"),
        (kind.contract.replace(tools=(other,)), message(calls=[one]), "tool.unknown"),
        (kind.contract.replace(tools=(other,)), message(written), "tool.unknown"),
        (kind.contract.replace(parallel=False), message(calls=[one, two]), "tool.several"),
    ):
        verdict = narrowed.check(reply)
        assert isinstance(verdict, Invalid)
        assert [issue.code for issue in verdict.issues] == [code]


def test_the_caps_are_the_processor_s() -> None:
    """A client's loop has the processor's size limits; more calls than usual may be allowed."""
    small = processor(limits=Limits(reply_bytes=100))
    assert small.answer_kind("Coordinator").contract.limits == Limits(reply_bytes=100)
    long = message(json.dumps(FINAL | {"content": "x" * 100}))
    verdict = small.answer_kind("Coordinator").contract.check(long)
    assert isinstance(verdict, Invalid)

    assert verdict.issues[0].code == small.validate(long, "Coordinator").code == "json.too_large"
    many = message(calls=[call("search", {"query": "q"}, f"c{number}") for number in range(150)])
    assert processor().validate(many, "Coordinator").code == "tool.too_many"
    assert processor(limits=Limits(calls=200)).validate(many, "Coordinator").is_valid


def test_a_foreign_format_fails_closed() -> None:
    """A reader that breaks is a fault of the reply, for the loop to correct."""

    class Broken(XMLProcessor):
        """A reader with a bug."""

        def process(self, response: Any) -> dict[str, Any] | Invalid:
            """Break."""
            raise KeyError(response)

    class BrokenFormat(XMLResponseFormat):
        """A format with that reader."""

        def create_processor(self) -> XMLProcessor:
            """Return the reader."""
            return Broken()

    verdict = Contract(
        answer=processor(response_format=BrokenFormat()).answer_kind("Coordinator")
    ).check(message("<a/>"))
    assert isinstance(verdict, Invalid)
    assert verdict.issues[0].code == "format.processor_failed"
