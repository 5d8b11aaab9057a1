"""The one way from a raw reply to an action.

Whatever comes is a result, the same by every name and spelling.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import inspect
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xml_format import XMLResponseFormat

import strictreply as sr
from strictreply import (
    Category,
    Code,
    Contract,
    ContractError,
    Invalid,
    Issue,
    Limits,
    Remedy,
    Tool,
    Valid,
)
from strictreply.coordination import (
    ActionType,
    AgentReplyCode,
    ApiErrorClass,
    Branch,
    ErrorMessage,
    Origin,
    ValidationMetrics,
    ValidationResult,
    create_initial_state,
    validation,
)
from strictreply.coordination.actions import Permitted, Source
from strictreply.coordination.formats import JSONResponseFormat, TextResponseProcessor
from strictreply.coordination.validation import (
    ValidationProcessor,
    retry_with_steering,
    with_reply_format,
)
from strictreply.core import drive
from strictreply.core.judging import perform_check
from support.coordination.hostile import hostile
from support.coordination.team import (
    CONVERSATION,
    GRAPH,
    PARALLEL,
    SEARCH,
    SPAWN,
    faults,
    judged,
    processor,
)
from support.openai_shapes import call, completion, message
from support.scripted import Client
from support.scripted import completion as scripted

INVOKE = {"next_action": "invoke_agent", "action_input": "Worker1"}
FINAL = {"next_action": "final_response", "content": "x"}
COORDINATION = Path(inspect.getfile(validation)).parent
PARSERS = {("json", "loads"), ("json", "load"), ("ast", "literal_eval"), ("jiter", "from_json")}
JUDGING = (
    "actions",
    "topology",
    "_api_replies",
    "metrics",
    "formats",
    "_action_rules",
    "validation",
)
EXECUTORS = {
    "openai",
    "langgraph",
    "asyncio",
    "anyio",
    "httpx",
    "subprocess",
    "concurrent",
    "multiprocessing",
}


def tree(path: Path) -> list[ast.AST]:
    """Return every node of a module."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.mark.req("M1")
def test_replies_are_parsed_in_one_place() -> None:
    """No module of coordination reads JSON but through the core's reader, and one function alone
    makes valid verdicts.

    The one exception is the system's own word, which is not a reply's: it is read from an error of
    the API.
    """
    for path in sorted(COORDINATION.rglob("*.py")):
        calls = [node.func for node in tree(path) if isinstance(node, ast.Call)]
        named = {
            (f.value.id, f.attr)
            for f in calls
            if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name)
        }
        assert not named & PARSERS, path.name
        assert not {f.id for f in calls if isinstance(f, ast.Name)} & {"eval", "exec", "compile"}, (
            path.name
        )

    makers = {
        path.stem
        for path in COORDINATION.rglob("*.py")
        for node in tree(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "ValidationResult"
        and any(
            word.arg == "is_valid" and getattr(word.value, "value", None) is True
            for word in node.keywords
        )
    }
    assert makers == {"_action_rules", "_api_replies"}


def sync_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge without awaiting."""
    return made.validate(text, "Coordinator").is_valid


def reference_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge by the reference's name."""
    return asyncio.run(made.process_response(text, "Coordinator")).is_valid


def concept_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge by the concept page's name."""
    return asyncio.run(made.validate_response(text, "Coordinator")).is_valid


def flow_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge by a driver of one's own."""
    return drive(made.judging(text, "Coordinator"), perform_check).is_valid


def contract_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge by a contract without a client."""
    return isinstance(made.answer_kind("Coordinator").contract.check(message(text)), Valid)


def text_channel_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge in the channel where all replies are texts."""
    contract = Contract(answer=made.answer_kind("Coordinator"), channel="text")
    return isinstance(contract.check(f'{{"answer": {text}}}'), Valid)


def client_verdict(made: ValidationProcessor, text: str) -> bool:
    """Judge in a client's own loop."""
    client: Any = sr.wrap(Client(scripted(text)))
    try:
        retry_with_steering(
            client, made.answer_kind("Coordinator"), max_retries=0, model="m", messages=[]
        )
    except sr.ReplyRejected:
        return False
    return True


@pytest.mark.req("M1", "M117")
@pytest.mark.parametrize(
    "judge",
    [
        sync_verdict,
        reference_verdict,
        concept_verdict,
        flow_verdict,
        contract_verdict,
        text_channel_verdict,
        client_verdict,
    ],
)
def test_every_public_path_ends_in_the_one_judge(
    judge: Callable[[ValidationProcessor, str], bool],
) -> None:
    """On each way to an action the application's own check is asked just once, and can refuse."""
    seen: list[Any] = []

    def short(action: dict[str, Any], permitted: Permitted) -> None:
        """Refuse long answers."""
        seen.append(action["content"])
        if len(action["content"]) > 5:
            raise ValueError("too long")

    made = processor(tools=())
    made.register_action_validator("final_response", short)
    assert judge(made, json.dumps(FINAL))
    assert not judge(made, json.dumps(FINAL | {"content": "elephants"}))

    assert not judge(made, json.dumps(INVOKE | {"action_input": "Nobody"}))
    assert seen == ["x", "elephants"]


@pytest.mark.req("M118")
def test_validation_imports_no_executor() -> None:
    """Judging is not mixed with running: nothing that runs agents, tools or programs is within its
    reach.
    """
    for module in JUDGING:
        path = COORDINATION / f"{module}.py"
        imported = {
            part
            for node in tree(path)
            for part in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not {part.partition(".")[0] for part in imported} & EXECUTORS
        assert not {
            part for part in imported if "rout" in part or "client" in part or "transport" in part
        }


@pytest.mark.req("M2")
def test_an_unknown_format_names_those_there_are() -> None:
    """The default is JSON; another name is refused with the list of the registered ones."""
    parameters = inspect.signature(ValidationProcessor).parameters
    assert list(parameters)[:2] == ["topology_graph", "response_format"]
    assert parameters["response_format"].default == "json"
    with pytest.raises(ValueError, match="json") as refused:
        ValidationProcessor(GRAPH, "yaml")
    assert isinstance(refused.value, ContractError)


SETTINGS = (
    "topology_graph response_format tools leave lock_format extraction limits metrics log_replies"
)
SIGNATURES = {
    "__init__": SETTINGS,
    "process_response": "raw_response agent branch exec_state",
    "validate_response": "response agent_name allowed_agents branch exec_state",
    "validate": "response agent branch allowed_agents exec_state",
    "judging": "response agent branch exec_state allowed_agents",
    "answer_kind": "agent branch exec_state",
    "terms": "agent branch allowed_agents",
    "judge_action": "action agent branch",
    "refused": "issues agent branch",
    "register_processor": "processor",
    "register_action_validator": "action check",
}


@pytest.mark.req("M48")
def test_no_parameter_skips_the_judgement() -> None:
    """These are all the parameters that there are: what one can say narrows a verdict or widens it
    for all agents.
    """
    public = {
        name
        for name, _ in inspect.getmembers(ValidationProcessor, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public | {"__init__"} == set(SIGNATURES)

    for name, expected in SIGNATURES.items():
        given = list(inspect.signature(getattr(ValidationProcessor, name)).parameters)
        assert given == ["self", *expected.split()], name


@pytest.mark.parametrize("extraction", ["fence", ["fenced", "fence"], ["strict", ""]])
def test_an_unknown_leniency_names_those_there_are(extraction: Any) -> None:
    """A name that is none would forgive nothing, silently."""
    with pytest.raises(ContractError, match="first_object"):
        processor(extraction=extraction)


REPLIES: list[object] = [
    INVOKE,
    json.dumps(FINAL),
    message(calls=[call("search", {"query": "q"})]),
    {"next_action": "parallel_invoke", "agents": ["Worker1", "Worker1"]},
    {"next_action": "dance"},
    "prose",
    None,
]


@pytest.mark.req("M3")
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("branch", [None, CONVERSATION])
def test_both_published_names_agree(reply: object, branch: Branch | None) -> None:
    """``process_response`` of the reference, ``validate_response`` of the concept page, and the
    sync one (X1).
    """
    agent = SimpleNamespace(name="Coordinator")
    processed = asyncio.run(
        processor().process_response(
            raw_response=reply, agent=agent, branch=branch, exec_state=object()
        )
    )

    validated = asyncio.run(
        processor().validate_response(
            response=reply,
            agent_name="Coordinator",
            allowed_agents=GRAPH.allowed_targets("Coordinator"),
            branch=branch,
        )
    )
    assert processed == validated == processor().validate(reply, "Coordinator", branch)


def test_the_printed_calls_run_as_printed() -> None:
    """The example of each document, word for word but for the names of its surroundings."""
    validation_processor, current_branch = processor(), Branch()
    agent_response = {"next_action": "parallel_invoke", "agents": ["Worker1", "Worker2"]}

    async def concept() -> ValidationResult:
        """The concept page's first example."""
        return await validation_processor.validate_response(
            response=agent_response,
            agent_name="Coordinator",
            allowed_agents=["Worker1", "Worker2"],
            branch=current_branch,
        )

    assert asyncio.run(concept()).next_agents == ["Worker1", "Worker2"]

    async def reference() -> ValidationResult:
        """The reference's example of ``process_response``."""
        return await processor().process_response(
            raw_response={"next_action": "invoke_agent", "action_input": "DataAnalyzer"},
            agent=SimpleNamespace(name="Coordinator"),
            branch=current_branch,
            exec_state=None,  # type: ignore[arg-type,unused-ignore]
        )

    assert asyncio.run(reference()).action_type is ActionType.INVOKE_AGENT


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
REPORTED = [
    "classification",
    "type",
    "message",
    "is_retryable",
    "retry_after",
    "suggested_action",
    "provider",
]
NAMES = st.sampled_from(
    ["next_action", "action_input", "agents", "agent_requests", "tool_calls", "content", "request"]
)
WORDS = st.sampled_from([*ActionType, "Worker1", "Worker2", "search"])
ACTION = st.fixed_dictionaries({"next_action": WORDS}) | st.dictionaries(
    NAMES, JSON | WORDS | st.lists(WORDS), max_size=4
)
SHAPED = st.builds(
    lambda known, more: {**more, **known}, ACTION, st.dictionaries(NAMES, JSON | WORDS, max_size=3)
)
DETAILS = st.fixed_dictionaries(
    {"error_details": JSON | st.dictionaries(st.sampled_from(REPORTED), JSON | WORDS)}
)
REPORT = st.dictionaries(
    st.sampled_from(REPORTED), JSON | st.sampled_from([*ApiErrorClass]), max_size=6
)
ERRORS = st.builds(ErrorMessage, REPORT | st.builds(json.dumps, REPORT) | JSON)
ERROR_ACTIONS = st.builds(
    lambda word, details: {"next_action": word, **details},
    st.sampled_from(["error_recovery", "auto_retry", "terminal_error"]),
    DETAILS,
)
RAW = (
    JSON
    | SHAPED
    | ERROR_ACTIONS
    | st.binary(max_size=20)
    | st.builds(json.dumps, SHAPED)
    | st.builds(message, JSON, st.lists(JSON))
)
BRANCHES = st.sampled_from([None, CONVERSATION, PARALLEL, SPAWN])


@pytest.mark.req("M4")
@given(
    RAW | ERRORS | st.builds(completion, RAW) | st.builds(object),
    BRANCHES,
    st.sampled_from(GRAPH.agents),
)
def test_whatever_comes_is_a_result(raw: object, branch: Branch | None, agent: str) -> None:
    """No content raises; a valid result hands over to permitted agents only; nothing is changed,
    all is repeatable.
    """
    before = copy.deepcopy(raw) if type(raw) is not object else raw
    result = processor().validate(raw, agent, branch)
    assert result.is_valid is (not result.issues)
    assert result.is_valid is (result.action_type is not None)

    assert set(result.next_agents) <= set(GRAPH.allowed_targets(agent))
    assert (result.origin is Origin.SYSTEM) is (isinstance(raw, ErrorMessage) and result.is_valid)

    if not result.is_valid:
        assert result.error_message
        assert (result.invocations, result.tool_calls, result.parsed_response) == ([], [], None)

    if type(raw) is not object and "nan" not in repr(raw):
        assert raw == before
        assert processor().validate(raw, agent, branch) == result


@pytest.mark.req("M4")
@pytest.mark.parametrize("written", ["json", XMLResponseFormat()])
@pytest.mark.parametrize("index", range(len(hostile())))
def test_an_object_that_raises_is_a_result(index: int, written: Any) -> None:
    """An object whose own code raises is a format fault, never an exception."""
    made = processor(response_format=written, log_replies=lambda text: text)
    made.register_processor(TextResponseProcessor())
    result = made.validate(hostile()[index], "Coordinator")
    assert (result.is_valid, result.error_category) == (False, Category.FORMAT_ERROR)


@pytest.mark.req("M4")
def test_an_action_is_copied_into_plain_values() -> None:
    """Of a mapping that is a subclass of dict, and of texts that are, plain values are judged and
    given.
    """
    reply = OrderedDict(next_action=ActionType.FINAL_RESPONSE, content=OrderedDict(title=Loud("t")))
    result = processor().validate(reply, "Coordinator")
    assert result.final_response == {"title": "t"}
    assert [type(value) for value in (result.final_response, *result.final_response.values())] == [
        dict,
        str,
    ]


class Loud(str):
    """A text of another type."""

    __slots__ = ()


HOSTILE: list[tuple[Any, str]] = [
    ('{"next_action": "final_response", "content": "a", "content": "b"}', "json.duplicate_key"),
    ('{"next_action": "final_response", "next_action": "invoke_agent"}', "json.duplicate_key"),
    ('{"next_action": "final_response", "content": {"x": NaN}}', "json.not_finite"),
    ('{"next_action": "final_response", "content": {"x": 1e400}}', "json.not_finite"),
    (json.dumps(FINAL) + json.dumps(INVOKE), "json.several_values"),
    (json.dumps(FINAL) + " I hope this helps", "json.trailing_data"),
    ('{"next_action": "final_response", "content": ' + "[" * 10_000, "json.too_deep"),
    ('{"next_action": "final_response", "content": "' + "x" * 10**6 + '"}', "json.too_large"),
    ("\ufeff" + json.dumps(FINAL), "json.syntax"),
    ({"next_action": "invoke_agent", "action_input": "W" * 900_000}, "topology.not_allowed"),
    ({"next_action": "x" * 900_000}, "action.unknown"),
    ({"next_action": "parallel_invoke", "agents": ["Worker"] * 128}, "topology.not_allowed"),
    ({"next_action": "parallel_invoke", "agents": ["Worker1"] * 129}, "action.max_items"),
    (
        {
            "next_action": "parallel_invoke",
            "agents": ["Worker1", "Worker2"],
            "agent_requests": {f"Worker1{number}": "x" for number in range(20_000)},
        },
        "action.missing_field",
    ),
    (
        {
            "next_action": "call_tool",
            "tool_calls": [call("search", {"query": "q"}, f"c{number}") for number in range(500)],
        },
        "tool.too_many",
    ),
]


@pytest.mark.parametrize(("reply", "code"), HOSTILE)
@pytest.mark.parametrize("in_message", [False, True])
def test_hostile_replies_are_refused_briefly(reply: Any, code: str, *, in_message: bool) -> None:
    """A reply that the strict reader refuses is not an action; at most 32 faults are reported."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    result = judged(message(text) if in_message else reply)
    assert (result.is_valid, result.code) == (False, code)
    assert len(result.issues) <= 32
    assert len(result.error_message or "") < 20_000


def test_a_judged_action_is_its_own() -> None:
    """Changing the mapping afterwards does not change the verdict."""
    reply: dict[str, Any] = FINAL | {"content": {"title": "t"}}
    result = judged(reply)
    reply["content"]["title"] = "changed"
    assert result.final_response == {"title": "t"}


def test_mappings_are_bounded_like_texts() -> None:
    """A mapping has the limits of a text: depth, values, plain JSON; a cyclic value ends, too."""
    deep: Any = {}
    for _ in range(100):
        deep = {"x": deep}

    looped: dict[str, Any] = {}
    looped["x"] = looped
    wide = {"x": list(range(1000))}

    odd: list[Any] = [{"x": {1}}, {"x": (1,)}, {1: "x"}, {"x": float("nan")}, {"x": "\ud800"}]
    for content in [deep, looped, *odd]:
        assert judged(FINAL | {"content": content}).code == "action.unreadable"

    assert judged(FINAL | {"content": wide}, limits=Limits(nodes=100)).code == "action.unreadable"
    assert judged(FINAL | {"content": wide}).is_valid


@pytest.mark.req("M5")
def test_nothing_is_told_from_blank_and_empty() -> None:
    """Three faults of form with words of their own, each with what this agent may do."""
    replies: list[object] = [None, "  ", {}]
    results = [judged(reply, "Worker1") for reply in replies]
    assert {result.error_category for result in results} == {Category.FORMAT_ERROR}
    assert (
        len({result.code for result in results})
        == len({result.error_message for result in results})
        == 3
    )

    for result in results:
        assert result.permitted == Permitted(
            "Worker1",
            (ActionType.INVOKE_AGENT, ActionType.PARALLEL_INVOKE, ActionType.CALL_TOOL),
            ("Coordinator",),
            ("search",),
        )

        for word in ("invoke_agent", "Coordinator", "search"):
            assert word in (result.retry_suggestion or "")

        assert "final_response" not in (result.retry_suggestion or "")


@pytest.mark.req("M6", "M82")
@pytest.mark.parametrize(
    "reply", [{"content": "x"}, '{"content": "x"}', message('{"content": "x"}'), {"thought": "hm"}]
)
def test_a_missing_action_is_a_missing_field(reply: object) -> None:
    """Category FORMAT, a code of its own, and the name of the field as its place (X9)."""
    result = judged(reply)
    assert faults(result) == [("action.missing_field", "/next_action")]
    assert result.error_category is Category.FORMAT_ERROR


@pytest.mark.req("M7")
@pytest.mark.parametrize(
    ("name", "hint"), [("dance", ""), ("invoke_agents", "invoke_agent"), ("continue", "")]
)
def test_an_unknown_action_lists_the_permitted_ones(name: str, hint: str) -> None:
    """Those of this agent, and the nearest of them; what was written is in ``found``."""
    result = judged({"next_action": name}, "Worker1", tools=())
    assert (faults(result), result.error_category) == (
        [("action.unknown", "/next_action")],
        Category.ACTION_ERROR,
    )

    assert result.issues[0].found == json.dumps(name)
    assert result.permitted is not None
    assert [action.value for action in result.permitted.actions] == [
        "invoke_agent",
        "parallel_invoke",
    ]
    assert all(action in result.issues[0].message for action in result.permitted.actions)

    assert "final_response" not in result.issues[0].message
    assert hint in result.issues[0].hint
    assert bool(result.issues[0].hint) is bool(hint)


@pytest.mark.parametrize("name", [None, 1, ["invoke_agent"], {"a": 1}, True])
def test_an_action_is_named_by_text(name: object) -> None:
    """Anything but text is no name of an action."""
    assert faults(judged({"next_action": name})) == [("shape.wrong_type", "/next_action")]


@pytest.mark.req("M8")
def test_a_user_s_check_can_refuse_an_action() -> None:
    """It sees a copy of the action and what is permitted; what it finds is worded without the
    model's words.
    """
    seen: list[tuple[Any, Permitted]] = []

    def short(action: dict[str, Any], permitted: Permitted) -> None:
        """Refuse long answers, and spoil what it was given."""
        seen.append((copy.deepcopy(action), permitted))
        content = action.pop("content")
        if len(content) > 5:
            raise ValueError(f"too long: {content}")

    made = processor()
    made.register_action_validator("final_response", short)
    good = made.validate(FINAL, "Coordinator")
    assert (good.is_valid, good.parsed_response) == (True, FINAL)

    bad = made.validate(FINAL | {"content": "elephants"}, "Coordinator")
    assert (bad.code, bad.error_category) == ("action.check", Category.FORMAT_ERROR)
    assert "elephants" not in (bad.error_message or "")
    assert [action["content"] for action, _ in seen] == ["x", "elephants"]
    assert {allowed.agent for _, allowed in seen} == {"Coordinator"}

    made.validate(FINAL, "Worker1")
    assert len(seen) == 2  # what is not permitted never comes to a check


def test_checks_fail_closed() -> None:
    """One that breaks refuses the action; one that gives no issues is the application's mistake;
    one never widens.
    """

    def broken(action: dict[str, Any], permitted: Permitted) -> None:
        """Break."""
        raise KeyError(action["nothing"])

    def finds(action: dict[str, Any], permitted: Permitted) -> list[Issue]:
        """Find a fault."""
        return [Issue("mine.rule", Category.ACTION_ERROR, "/content", "is not ours")]

    made = processor()
    made.register_action_validator(ActionType.FINAL_RESPONSE, finds)
    assert faults(made.validate(FINAL, "Coordinator")) == [("mine.rule", "/content")]
    made.register_action_validator(ActionType.FINAL_RESPONSE, broken)

    assert [code for code, _ in faults(made.validate(FINAL, "Coordinator"))] == [
        "mine.rule",
        "action.check_failed",
    ]
    wrong = processor()
    wrong.register_action_validator(ActionType.FINAL_RESPONSE, lambda _action, _permitted: "yes")  # type: ignore[arg-type,return-value]

    with pytest.raises(ContractError):
        wrong.validate(FINAL, "Coordinator")


async def awaited(action: dict[str, Any], permitted: Permitted) -> None:
    """A check that would have to be awaited."""


@pytest.mark.parametrize(
    ("action", "check"), [("dance", print), ("final_response", awaited), ("final_response", 7)]
)
def test_only_checks_of_actions_are_registered(action: str, check: Any) -> None:
    """Anything else is refused when it is declared."""
    with pytest.raises(ContractError):
        processor().register_action_validator(action, check)


@pytest.mark.req("M40")
def test_extra_keys_are_forbidden_unless_the_format_allows_them() -> None:
    """Strict refuses them by place; a format that allows them keeps them (X3)."""
    reply = FINAL | {"zzz": 1}
    assert faults(judged(reply)) == [("action.extra_key", "")]
    kept = judged(reply, response_format=JSONResponseFormat(extra="allow"))
    assert kept.parsed_response == reply


FENCE_INSIDE = FINAL | {"content": "run\n```json\n{}\n```\nthen stop"}


@pytest.mark.req("M41")
@pytest.mark.parametrize(
    ("mode", "wrap"),
    [
        ("fenced", "```json\n{}\n```"),
        ("first_object", "Sure: {} done"),
        ("after_think", "<think>{{}}</think>{}"),
    ],
)
def test_leniency_is_opted_into_and_recorded(mode: Any, wrap: str) -> None:
    """By default the whole text is one object; a leniency takes it out, fences inside its strings
    stay (X4).
    """
    text = (
        wrap.replace("{}", json.dumps(FENCE_INSIDE), 1)
        if mode != "after_think"
        else f"<think>{{}}</think>{json.dumps(FENCE_INSIDE)}"
    )
    assert not judged(text).is_valid
    result = judged(text, extraction=mode)
    assert (result.parsed_response, result.source.lenient) == (FENCE_INSIDE, (mode,))

    whole = judged(json.dumps(FENCE_INSIDE), extraction=mode)
    assert (whole.parsed_response, whole.source.lenient) == (FENCE_INSIDE, ())


@pytest.mark.req("M71")
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"next_action": "dance"}, "one of these actions: "),
        ("prose", "one of these actions: "),
        (completion(message("x"), "length"), "a shorter reply"),
        ({"choices": []}, "the same request"),
        (message(None, refusal="no"), None),
    ],
)
def test_every_retryable_failure_has_a_suggestion(reply: object, expected: str | None) -> None:
    """The suggestion follows from the remedy of the codes; a final failure has none."""
    result = judged(reply)
    assert not result.is_valid
    assert (result.retry_suggestion or "").startswith(expected or "")
    assert (result.retry_suggestion is None) is (expected is None)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (completion(message(json.dumps(FINAL)), "length"), "reply.truncated"),
        (completion(message(json.dumps(FINAL)), "content_filter"), "reply.content_filter"),
        (message(json.dumps(FINAL), refusal="no"), "reply.refusal"),
        (message(json.dumps(FINAL)) | {"role": "user"}, "reply.role"),
        (message(None), "reply.empty"),
        (message([{"type": "image_url", "text": "x"}]), "reply.content"),
        ({"role": "assistant", "function_call": {"name": "search"}}, "call.malformed"),
        ({"choices": []}, "envelope.choices"),
        ({"choices": None, **FINAL}, "envelope.choices"),
        ({"error": {"message": "x", "code": 429}}, "envelope.error"),
        ({"error": "x", "choices": []}, "envelope.error"),
        (7, "shape.not_object"),
        ([INVOKE], "shape.not_object"),
        (b"\xff", "json.encoding"),
        (b"x" * 1_000_001, "json.too_large"),
        (bytearray(json.dumps(INVOKE).encode()), ""),
        (json.dumps(INVOKE).encode(), ""),
    ],
)
def test_replies_that_end_badly_are_no_actions(reply: object, code: str) -> None:
    """A cut, filtered, refused or empty reply is refused whatever it holds; bytes read as text."""
    assert judged(reply).code == code


@pytest.mark.parametrize(
    "response",
    [{"error": {"message": "x"}}, {"choices": []}, {"choices": [{}], **FINAL}, {"error": 1}],
)
def test_a_response_is_opened_as_a_client_opens_it(response: dict[str, Any]) -> None:
    """A response that is not a completion has the code that a client's own loop gives it."""
    made = processor()
    verdict = made.answer_kind("Coordinator").contract.check(response)
    assert isinstance(verdict, Invalid)
    assert made.validate(response, "Coordinator").issues == verdict.issues


CALLED = call("search", {"query": "q"})
BARE = {"function": CALLED["function"]}
AS_SERVERS_WRITE: dict[str, tuple[list[Any], set[str]]] = {
    "the same call twice": ([CALLED, CALLED], {"call_repeated"}),
    "and in other signs": (
        [CALLED, call("search", '{"query":"q"}'), CALLED],
        {"call_repeated"},
    ),
    "no id and no type": ([BARE], {"call_id_missing", "call_type_missing"}),
    "a number as the id": ([CALLED | {"id": 7}], {"call_id_number"}),
    "an object as the arguments": (
        [CALLED | {"function": {"name": "search", "arguments": {"query": "q"}}}],
        {"arguments_object"},
    ),
    "an empty call beside it": ([CALLED, {}], {"call_empty"}),
}


@pytest.mark.parametrize(("given", "rows"), AS_SERVERS_WRITE.values(), ids=AS_SERVERS_WRITE)
@pytest.mark.parametrize("form", [message, completion], ids=["message", "completion"])
def test_native_calls_are_read_as_a_client_reads_them(
    given: list[Any], rows: set[str], form: Callable[..., Any]
) -> None:
    """One call is one in all that the verdict tells of it, with the rows that were needed."""
    told = message(None, given)
    result = judged(told if form is message else completion(told))
    assert result.is_valid
    assert [(one.tool, one.args) for one in result.calls] == [("search", {"query": "q"})]
    assert [one["id"] for one in result.tool_calls] == [one.id for one in result.calls]
    assert result.parsed_response == {"next_action": "call_tool", "tool_calls": result.tool_calls}
    assert set(result.source.lenient) == rows


def test_ids_that_calls_share_are_settled_where_a_server_made_them() -> None:
    """A model that writes an action with such ids can write others."""
    given = [CALLED, call("search", {"query": "r"})]
    native = judged(message(None, given))
    assert [one.args["query"] for one in native.calls] == ["q", "r"]
    assert len({one["id"] for one in native.tool_calls}) == 2
    assert native.source.lenient == ("call_id_shared",)
    written = judged({"next_action": "call_tool", "tool_calls": given})
    assert (written.code, written.is_valid) == ("call.id_duplicate", False)


def test_an_equal_call_in_an_action_is_one_call() -> None:
    """It is one in all that the verdict tells of it."""
    result = judged({"next_action": "call_tool", "tool_calls": [CALLED, CALLED]})
    assert (len(result.calls), result.tool_calls) == (1, [CALLED])
    assert result.parsed_response == {"next_action": "call_tool", "tool_calls": [CALLED]}


def test_an_error_in_an_action_is_the_action_s() -> None:
    """``terminal_error`` has a member ``error``, and an empty one in a stranger's shape says
    nothing.
    """
    made = processor(leave=["terminal_error"])
    assert made.validate({"next_action": "terminal_error", "error": "lost"}, "Worker1").is_valid
    assert made.validate({"error": None, "custom": 1}, "Worker1").code == "action.missing_field"


def test_tools_are_everybody_s_or_one_agent_s_or_the_agent_s_own() -> None:
    """A list is for all, a mapping is by agent; an agent's own tools go first, and may change."""
    ask = {"next_action": "call_tool", "tool_calls": [call("search", {"query": "q"})]}
    assert judged(ask, "Worker1").is_valid
    only = processor(tools={"Worker1": [SEARCH]})
    assert (only.validate(ask, "Worker1").is_valid, only.validate(ask, "Worker2").code) == (
        True,
        "action.not_permitted",
    )

    agent = SimpleNamespace(name="Worker2", tools={"search": SEARCH})
    assert only.validate(ask, agent).is_valid
    agent.tools = {"find": SEARCH}
    assert only.validate(ask, agent).code == "tool.unknown"

    agent.tools = []
    assert only.validate(ask, agent).code == "action.not_permitted"
    agent.tools = None
    assert only.validate(ask, agent).code == "action.not_permitted"

    listed = SimpleNamespace(name="Worker2", tools=[SEARCH])
    assert [only.validate(ask, listed).is_valid for _ in range(2)] == [True, True]


@pytest.mark.parametrize(
    "tools", [{"Nobody": [SEARCH]}, [7], {"Worker1": "search"}, [SEARCH, SEARCH], 7]
)
def test_tools_that_are_none_are_refused(tools: Any) -> None:
    """A wrong declaration is refused before any reply comes."""
    with pytest.raises(ContractError):
        processor(tools=tools)


@pytest.mark.parametrize("agent", [7, SimpleNamespace(), SimpleNamespace(name=7)])
def test_an_agent_has_a_name(agent: Any) -> None:
    """An agent without a name is the application's mistake."""
    with pytest.raises(ContractError):
        processor().validate(INVOKE, agent)


def test_tools_own_checks_run_last() -> None:
    """Sync ones in every way of judging, async ones where it is awaited; a refused call is an
    invalid result.
    """

    def stocked(args: Any) -> None:
        """Refuse every query."""
        raise ValueError("nothing of that kind")

    async def awaited_check(args: Any) -> None:
        """Refuse every query, later."""
        raise ValueError("nothing of that kind")

    ask = {"next_action": "call_tool", "tool_calls": [call("search", {"query": "q"})]}
    schema = SEARCH.definition["function"]["parameters"]
    sync = processor(tools=[Tool.from_json_schema("search", schema, check=stocked)])
    expected = [("args.check", "/tool_calls/0/function/arguments")]
    assert faults(sync.validate(ask, "Coordinator")) == expected

    late = processor(tools=[Tool.from_json_schema("search", schema, check=awaited_check)])
    assert faults(asyncio.run(late.process_response(ask, "Coordinator"))) == expected

    with pytest.raises(ContractError):
        late.validate(ask, "Coordinator")


def test_every_verdict_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One row and one line a verdict; the raw reply is logged only as the redaction gives it."""
    metrics = ValidationMetrics()
    made = processor(metrics=metrics, log_replies=lambda _raw: "(redacted)")

    with caplog.at_level(logging.DEBUG, logger="strictreply"):
        made.validate(FINAL, "Coordinator")
        asyncio.run(made.process_response({"next_action": "dance"}, "Coordinator"))

    counts = metrics.snapshot().totals
    assert (counts.total_validations, counts.successful_validations, counts.failed_validations) == (
        2,
        1,
        1,
    )

    assert sum("(redacted)" in record.message for record in caplog.records) == 2
    assert not any("dance" in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("content", "id_", "code"),
    [
        ("x" * 1_000_001, "a", "reply.too_large"),
        ("x" * 1_000_000, "a", None),
        (None, "x" * 16_385, "call.id_too_long"),
        (None, "x" * 16_384, None),
    ],
)
def test_v14_texts_and_ids_are_capped(content: str | None, id_: str, code: str | None) -> None:
    """Agents' native calls have the caps of all others: the call's id, and the text beside it."""
    calls = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": "search", "arguments": '{"query": "a"}'},
        }
    ]
    verdict = judged({"role": "assistant", "content": content, "tool_calls": calls})
    assert [issue.code for issue in verdict.issues] == ([] if code is None else [code])


XML = XMLResponseFormat()


@pytest.mark.req("M119")
@pytest.mark.parametrize("locked", [True, False])
def test_an_agent_keeps_to_one_format_in_one_conversation(locked: bool) -> None:
    """The first valid reply pins an agent's format in its conversation; another is a fault there,
    or a note (X6).
    """
    made = processor(lock_format=locked)
    made.register_processor(XML.create_processor())
    as_json = json.dumps(INVOKE)
    as_xml = XML.spell(INVOKE)

    one: Any = create_initial_state("one")

    def said(state: Any, reply: object, agent: str = "Coordinator") -> tuple[Any, ValidationResult]:
        """Judge a reply in a conversation, and remember its format."""
        result = made.validate(reply, agent, exec_state=state)
        return with_reply_format(state, agent, result), result

    unpinned, bad = said(one, "<next_action>dance</next_action>")
    assert (bad.is_valid, "reply_formats" in unpinned) == (False, False)
    native, called = said(one, message(calls=[call("search", {"query": "q"})]))
    assert (called.is_valid, "reply_formats" in native) == (True, False)

    pinned, first = said(one, as_json)
    assert (first.is_valid, pinned["reply_formats"], "reply_formats" in one) == (
        True,
        {"Coordinator": "json"},
        False,
    )

    kept, mixed = said(pinned, as_xml)
    assert (mixed.is_valid, kept is pinned) == (not locked, True)
    told = mixed.issues if locked else mixed.source.notes
    assert [(issue.code, issue.category) for issue in told] == [
        ("format.changed", Category.FORMAT_ERROR)
    ]

    for state, reply, agent in (
        (pinned, as_json, "Coordinator"),
        (pinned, message(calls=[call("search", {"query": "q"})]), "Coordinator"),  # in no format
        (pinned, XML.spell(INVOKE | {"action_input": "Coordinator"}), "Worker1"),  # another agent
        # another conversation, beside the first
        (create_initial_state("two"), as_xml, "Coordinator"),
    ):
        _, other = said(state, reply, agent)
        assert (other.is_valid, other.source.notes) == (True, ())

    again = made.answer_kind("Coordinator", exec_state=pinned).contract.check(message(as_xml))
    assert isinstance(again, Valid) is not locked


@pytest.mark.req("M119")
def test_a_lock_needs_a_conversation() -> None:
    """Where formats are locked, a verdict without a state would lock nothing, silently."""
    made = processor(lock_format=True)
    with pytest.raises(ContractError):
        made.validate(FINAL, "Coordinator")
    with pytest.raises(ContractError):
        made.answer_kind("Coordinator")
    for state in ({}, {"reply_formats": None}, {"reply_formats": {"Coordinator": 7}}, object()):
        assert made.validate(FINAL, "Coordinator", exec_state=state).is_valid


def switched() -> ValidationResult:
    """Reply in text after JSON, where the format is locked."""
    made = processor(lock_format=True)
    made.register_processor(TextResponseProcessor())
    return made.validate(
        "prose", "Coordinator", exec_state={"reply_formats": {"Coordinator": "json"}}
    )


def failed() -> ValidationResult:
    """Run a check that raises."""
    made = processor()
    made.register_action_validator("final_response", lambda action, _permitted: action["nothing"])
    return made.validate(FINAL, "Coordinator")


def broken() -> ValidationResult:
    """Run a processor that raises, with no other processor to read the reply."""

    class Broken(TextResponseProcessor):
        """A processor with a bug."""

        def can_process(self, response: Any) -> bool:
            """Break."""
            raise KeyError(response)

    made = processor()
    made.register_processor(Broken())
    return made.validate('{"next_action": "x"', "Coordinator")


PROVOKED: dict[AgentReplyCode, Callable[[], ValidationResult]] = {
    AgentReplyCode.ACTION_MISSING_FIELD: lambda: judged({}),
    AgentReplyCode.ACTION_UNKNOWN: lambda: judged({"next_action": "dance"}),
    AgentReplyCode.ACTION_NOT_PERMITTED: lambda: judged({"next_action": "end_conversation"}),
    AgentReplyCode.ACTION_NO_QUESTION: lambda: judged({"next_action": "ask_user", "question": " "}),
    AgentReplyCode.ACTION_REQUEST_UNKNOWN: lambda: judged(
        {
            "next_action": "parallel_invoke",
            "agents": ["Worker1"] * 2,
            "agent_requests": {"Worker1": "a", "B": "b"},
        }
    ),
    AgentReplyCode.ACTION_REQUEST_MISPLACED: lambda: judged(
        INVOKE | {"action_input": {"agent_name": "Worker1"}, "request": "x"}
    ),
    AgentReplyCode.ACTION_CHECK_FAILED: failed,
    AgentReplyCode.TOPOLOGY_NOT_ALLOWED: lambda: judged(INVOKE | {"action_input": "Nobody"}),
    AgentReplyCode.TOPOLOGY_MAY_NOT_FINISH: lambda: judged(FINAL, "Worker1"),
    AgentReplyCode.TOPOLOGY_NO_USER: lambda: judged(
        {"next_action": "ask_user", "question": "?"}, "Worker1"
    ),
    AgentReplyCode.FORMAT_MALFORMED: lambda: judged("prose", response_format=XMLResponseFormat()),
    AgentReplyCode.FORMAT_CHANGED: switched,
    AgentReplyCode.FORMAT_PROCESSOR_FAILED: broken,
}


@pytest.mark.parametrize(("code", "provoke"), PROVOKED.items(), ids=PROVOKED)
def test_each_code_has_its_reply(code: Code, provoke: Callable[[], ValidationResult]) -> None:
    """Each code is provoked first of all, with its category, its words and a way to go on."""
    result = provoke()
    first = result.issues[0]
    assert (first.code, first.category, first.remedy) == (code, code.category, Remedy.CORRECT)
    assert "{" not in first.message
    assert result.retry_suggestion


def test_the_table_of_codes_is_complete() -> None:
    """No code of coordination is without its reply."""
    assert set(PROVOKED) == set(AgentReplyCode)


def test_an_action_of_a_program_is_judged_and_not_counted() -> None:
    """What no model wrote is judged as a reply is, by the branch too, and leaves no trace."""
    metrics = ValidationMetrics()
    made = processor(metrics=metrics)
    end = {"next_action": "end_conversation"}

    for action, branch in ((INVOKE, None), (INVOKE | {"action_input": "x"}, None), (end, None)):
        assert made.judge_action(action, "Coordinator", branch) == replace(
            judged(action, "Coordinator", branch), source=Source()
        )
    assert made.judge_action(end, "Worker1", CONVERSATION).is_valid
    assert not made.judge_action(end, "Worker1").is_valid
    assert metrics.snapshot().totals.total_validations == 0


def test_faults_that_a_program_found_make_a_verdict() -> None:
    """It is invalid, by these faults, and suggests what the agent may do instead."""
    issue = Issue("tool.raised", Category.TOOL_ERROR, "", "the code of a tool raised")
    result = processor().refused(iter([issue]), "Worker1")
    assert (result.is_valid, result.issues, result.code) == (False, (issue,), "tool.raised")
    assert "Coordinator" in (result.retry_suggestion or "")
    assert result.permitted == processor().terms("Worker1").permitted
