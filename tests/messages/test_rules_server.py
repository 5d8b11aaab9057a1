"""The rules of the Messages API: each refuses what breaks it, none what was once accepted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.anthropic_rules import RULES, History, Model, model_of, refusals
from support.shared_data import SHARED

JSONObject = dict[str, Any]

TRAFFIC = SHARED / "traffic" / "traffic-anthropic-messages.jsonl.gz"

USER: JSONObject = {"role": "user", "content": "Find tea."}
TEXT: JSONObject = {"type": "text", "text": "Looking."}
CALL: JSONObject = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "search",
    "input": {"query": "tea"},
}
SECOND: JSONObject = {**CALL, "id": "toolu_2"}
RESULT: JSONObject = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "black"}
OTHER: JSONObject = {**RESULT, "tool_use_id": "toolu_2"}
THOUGHT: JSONObject = {"type": "thinking", "thinking": "", "signature": "s1"}
LATER: JSONObject = {"type": "thinking", "thinking": "hm", "signature": "s2"}
VEILED: JSONObject = {"type": "redacted_thinking", "data": "d1"}
SEARCHING: JSONObject = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {},
}
FOUND: JSONObject = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "additionalProperties": False,
}
OPEN_SCHEMA: JSONObject = {"type": "object", "properties": {"query": {"type": "string"}}}
TOOL: JSONObject = {"name": "search", "description": "Search.", "input_schema": OPEN_SCHEMA}
ENABLED: JSONObject = {"type": "enabled", "budget_tokens": 1024}
DROPPING: JSONObject = {
    "type": "adaptive",
    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
}
MARK: JSONObject = {"type": "ephemeral"}


def body(*messages: JSONObject, **more: Any) -> JSONObject:
    """Return a request with a tool."""
    said = list(messages) or [USER]
    return {"model": "claude", "max_tokens": 2048, "tools": [TOOL], "messages": said, **more}


def said(*blocks: JSONObject) -> JSONObject:
    """Return a message of the assistant."""
    return {"role": "assistant", "content": list(blocks)}


def told(*blocks: JSONObject) -> JSONObject:
    """Return a message of the user."""
    return {"role": "user", "content": list(blocks)}


def tool(**more: Any) -> JSONObject:
    """Return a request with one tool, changed."""
    return body(tools=[{**TOOL, **more}])


def answered(*blocks: JSONObject, **more: Any) -> JSONObject:
    """Return a request that answers a reply of these blocks with the result of its call."""
    return body(USER, said(*blocks), told(RESULT), **more)


def whole(
    called: JSONObject | None = None,
    *,
    first: JSONObject = USER,
    result: JSONObject = RESULT,
    **more: Any,
) -> JSONObject:
    """Return the conversation of ``signed`` as it goes on, perhaps with one thing changed."""
    turn = said(THOUGHT, VEILED, CALL) if called is None else called
    return body(first, turn, told(result), said(LATER, TEXT), USER, **more)


def signed() -> History:
    """Return what a server remembers that sent thinking twice."""
    history = History()
    history.remember(body(), [THOUGHT, VEILED, CALL])
    history.remember(answered(THOUGHT, VEILED, CALL), [LATER, TEXT])
    return history


def paused() -> History:
    """Return what a server remembers that paused behind a result."""
    history = History()
    history.remember(body(), [TEXT, SEARCHING, FOUND], "pause_turn")
    return history


NEW = Model()
OLD = Model(prefill=True, binds_thinking=False, thinks=False)
SYSTEM: JSONObject = {"role": "system", "content": "Be brief."}
NEW_BLOCK: JSONObject = {"type": "hologram", "data": "x"}


@dataclass(frozen=True)
class Case:
    """A request that breaks a rule, and its neighbour that breaks none."""

    broken: JSONObject
    good: JSONObject
    model: Model = NEW
    good_model: Model | None = None
    history: History | None = None


def with_new_block() -> History:
    """Return what a server remembers that sent a block of a type nobody knows."""
    history = History()
    history.remember(body(), [NEW_BLOCK, TEXT])
    return history


CASES: dict[str, list[Case]] = {
    "parameters": [
        Case(body(response_format={}), body(service_tier="auto")),
        Case(body(model=None), body(model=None, anthropic_version="bedrock-2023-05-31")),
    ],
    "max_tokens": [
        Case(body(max_tokens=0), body(max_tokens=1)),
        Case(body(max_tokens=None), body(max_tokens=8192)),
        Case(body(max_tokens="9"), body(max_tokens=9)),
    ],
    "budget": [
        Case(body(thinking=ENABLED, max_tokens=1024), body(thinking=ENABLED, max_tokens=1025)),
        Case(body(thinking={**ENABLED, "budget_tokens": 1023}), body(thinking=ENABLED)),
        Case(body(thinking={"type": "enabled"}), body(thinking={"type": "adaptive"})),
    ],
    "temperature": [
        Case(body(thinking=ENABLED, temperature=0.5), body(thinking=ENABLED, temperature=1)),
        Case(body(thinking={"type": "adaptive"}, temperature=0), body(temperature=0)),
    ],
    "tools.names": [
        Case(tool(name="search.web"), tool(name="search-web_2")),
        Case(tool(name="x" * 129), tool(name="x" * 128)),
        Case(tool(name=""), body()),
    ],
    "tools.unique": [Case(body(tools=[TOOL, TOOL]), body(tools=[TOOL, {**TOOL, "name": "b"}]))],
    "tools.schema": [
        Case(tool(input_schema={"properties": {}}), tool(input_schema={"type": "object"})),
        Case(tool(input_schema={"type": "string"}), body()),
        Case(tool(input_schema=None), body(tools=[{"type": "memory_20250818", "name": "memory"}])),
        Case(
            tool(input_schema={**SCHEMA, "oneOf": [SCHEMA]}),
            tool(input_schema={"type": "object", "properties": {"a": {"oneOf": [SCHEMA]}}}),
        ),
    ],
    "tools.members": [Case(tool(parameters={}), tool(defer_loading=True, cache_control=MARK))],
    "tools.strict": [
        Case(tool(strict=True), tool(strict=True, input_schema=SCHEMA)),
        Case(
            tool(strict=True, input_schema={**SCHEMA, "$defs": {"A": OPEN_SCHEMA}}),
            tool(strict=False),
        ),
    ],
    "format": [
        Case(
            body(output_config={"format": {"type": "json_schema", "schema": OPEN_SCHEMA}}),
            body(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}),
        ),
        Case(
            body(
                output_format={
                    "type": "json_schema",
                    "schema": {**SCHEMA, "properties": {"a": {"items": OPEN_SCHEMA}}},
                }
            ),
            body(
                output_format={
                    "type": "json_schema",
                    "schema": {**SCHEMA, "properties": {"type": {"enum": ["object"]}}},
                }
            ),
        ),
    ],
    "choice.tools": [
        Case(body(tools=[], tool_choice={"type": "auto"}), body(tool_choice={"type": "auto"}))
    ],
    "choice.name": [
        Case(
            body(tool_choice={"type": "tool", "name": "find"}),
            body(tool_choice={"type": "tool", "name": "search"}),
        )
    ],
    "choice.thinking": [
        Case(
            body(thinking=ENABLED, tool_choice={"type": "any"}),
            body(thinking={"type": "adaptive"}, tool_choice={"type": "any"}),
        ),
        Case(
            body(thinking=ENABLED, tool_choice={"type": "tool", "name": "search"}),
            body(thinking=ENABLED, tool_choice={"type": "auto"}),
        ),
    ],
    "choice.model": [
        Case(
            body(tool_choice={"type": "any"}),
            body(tool_choice={"type": "none"}),
            Model(forced_choice=False),
        )
    ],
    "cache_control": [
        Case(
            answered(
                {**CALL, "cache_control": MARK},
                tools=[{**TOOL, "cache_control": MARK}],
                system=[
                    {"type": "text", "text": "a", "cache_control": MARK},
                    {"type": "text", "text": "b", "cache_control": MARK},
                ],
                cache_control=MARK,
            ),
            answered(
                {**CALL, "cache_control": None, "input": {"cache_control": MARK}},
                tools=[{**TOOL, "cache_control": MARK}],
                system=[
                    {"type": "text", "text": "a", "cache_control": MARK},
                    {"type": "text", "text": "b", "cache_control": MARK},
                ],
                cache_control=MARK,
            ),
        )
    ],
    "roles": [
        Case(body({"role": "tool", "content": "x"}), body()),
        Case(body(USER, SYSTEM), body(USER, SYSTEM), good_model=Model(system_turns=True)),
        Case(body(SYSTEM, USER), body(USER, SYSTEM, SYSTEM), Model(system_turns=True)),
        Case(
            body(USER, said(TEXT), SYSTEM),
            body(USER, said(TEXT), USER, SYSTEM, said(TEXT), USER),
            Model(system_turns=True),
        ),
    ],
    "messages.members": [Case(body({**USER, "id": "msg_1"}), body())],
    "blocks.type": [
        Case(body(told(NEW_BLOCK)), body(told(TEXT))),
        Case(
            body(USER, said({**NEW_BLOCK, "data": "y"}, TEXT), USER),
            body(USER, said(NEW_BLOCK, TEXT), USER),
            history=with_new_block(),
        ),
    ],
    "blocks.members": [
        Case(answered({**CALL, "text": None}), answered({**CALL, "caller": {"type": "direct"}})),
        Case(body(told({"type": "text"})), body(told(TEXT))),
        Case(
            body(USER, said({"type": "thinking", "thinking": "hm"}, TEXT), USER),
            body(USER, said(THOUGHT, TEXT), USER),
        ),
    ],
    "content.empty": [
        Case(body(USER, said(), USER), body(USER, said()), OLD),
        Case(body({**USER, "content": ""}), body()),
    ],
    "text.empty": [
        Case(body(told({"type": "text", "text": ""}, TEXT)), body(told(TEXT))),
        Case(answered({"type": "text", "text": ""}, CALL), answered(CALL)),
        Case(
            body(USER, said(CALL), told({**RESULT, "content": [{"type": "text", "text": ""}]})),
            body(USER, said(CALL), told({**RESULT, "content": ""})),
        ),
        Case(body(system=[{"type": "text", "text": ""}]), body(system="")),
    ],
    "text.whitespace": [
        Case(body({**USER, "content": " \n"}), body(told({"type": "text", "text": " "}, TEXT))),
        Case(
            body(USER, said({"type": "text", "text": "\n"}), USER),
            answered({"type": "text", "text": " "}, CALL),
        ),
    ],
    "tool_use.id": [
        Case(
            body(USER, said({**CALL, "id": "a|b"}), told({**RESULT, "tool_use_id": "a|b"})),
            body(USER, said({**CALL, "id": "a-b"}), told({**RESULT, "tool_use_id": "a-b"})),
        )
    ],
    "tool_use.input": [
        Case(answered({**CALL, "input": '{"query"'}), answered({**CALL, "input": {}})),
        Case(
            answered({**CALL, "input": ["tea"]}), answered({**CALL, "input": {"INVALID_JSON": "["}})
        ),
        Case(answered({**CALL, "input": None}), answered(CALL)),
    ],
    "tool_use.unique": [
        Case(
            body(USER, said(CALL), told(RESULT), said(CALL), told(RESULT)),
            body(USER, said(CALL), told(RESULT), said(SECOND), told(OTHER)),
        )
    ],
    "tool_use.answered": [
        Case(body(USER, said(CALL), USER), answered(CALL)),
        Case(
            body(USER, said(CALL, SECOND), told(RESULT)),
            body(USER, said(CALL, SECOND), told(OTHER, RESULT)),
        ),
        Case(
            body(USER, said(CALL, SECOND), told(RESULT)),
            body(USER, said(CALL), said(SECOND), told(RESULT), told(OTHER)),
        ),
        Case(
            body(USER, said(CALL), told(RESULT), said(SECOND), USER),
            body(USER, said(CALL), told(RESULT), said(SECOND), told(OTHER, TEXT)),
        ),
    ],
    "tool_result.first": [
        Case(
            body(USER, said(CALL), told(TEXT, RESULT)),
            body(USER, said(CALL), told(RESULT, TEXT)),
        ),
        Case(
            body(USER, said(CALL), USER, told(RESULT)),
            body(USER, said(CALL), told(RESULT), USER),
        ),
        Case(
            body(USER, said(CALL, SECOND), told(RESULT, TEXT, OTHER)),
            body(USER, said(CALL, SECOND), told(RESULT, OTHER, TEXT)),
        ),
    ],
    "tool_result.called": [
        Case(body(told(RESULT)), answered(CALL)),
        Case(body(USER, said(TEXT), told(RESULT)), answered(TEXT, CALL)),
        Case(
            body(USER, said(CALL), told(RESULT, OTHER)),
            body(USER, said(CALL, SECOND), told(RESULT, OTHER)),
        ),
        Case(
            body(USER, said(CALL), told(RESULT, {**OTHER, "tool_use_id": "toolu_3"})),
            body(USER, said(CALL), told({**RESULT, "tool_use_id": "toolu_3"})),
            good_model=Model(pairs_ids=False),
        ),
    ],
    "tool_result.single": [Case(body(USER, said(CALL), told(RESULT, RESULT)), answered(CALL))],
    "server_tool.result": [
        Case(
            body(USER, said(FOUND, TEXT), USER),
            body(USER, said(SEARCHING, FOUND, TEXT), USER),
        )
    ],
    "server_tool.open": [
        Case(body(USER, said(TEXT, SEARCHING), USER), body(USER, said(TEXT, SEARCHING))),
        Case(
            body(USER, said(SEARCHING, CALL), told(RESULT, TEXT)),
            body(USER, said(SEARCHING, CALL), told(RESULT)),
        ),
        Case(
            body(USER, said(SEARCHING, CALL), told(RESULT), said(TEXT), USER),
            body(USER, said(SEARCHING, CALL), told(RESULT), said(FOUND, TEXT), USER),
        ),
    ],
    "prefill.model": [
        Case(body(USER, said(TEXT)), body(USER, said(TEXT)), good_model=OLD),
        Case(
            body(USER, said(TEXT)),
            body(USER, said(TEXT, SEARCHING, FOUND)),
            history=paused(),
        ),
    ],
    "prefill.thinking": [
        Case(body(USER, said(TEXT), thinking=ENABLED), body(USER, said(TEXT)), OLD),
        Case(
            body(USER, said(TEXT), thinking=ENABLED),
            body(USER, said(THOUGHT, SEARCHING), thinking=ENABLED),
            OLD,
        ),
    ],
    "prefill.whitespace": [
        Case(
            body(USER, {"role": "assistant", "content": "The tea is "}),
            body(USER, {"role": "assistant", "content": "The tea is"}),
            OLD,
        )
    ],
    "thinking.last": [
        Case(body(USER, said(THOUGHT), USER), body(USER, said(THOUGHT, TEXT), USER)),
        Case(body(USER, said(TEXT, VEILED), USER), body(USER, said(VEILED, TEXT), USER)),
    ],
    "thinking.first": [
        Case(answered(CALL, thinking=ENABLED), answered(THOUGHT, CALL, thinking=ENABLED)),
        Case(answered(TEXT, CALL, thinking=ENABLED), answered(VEILED, CALL, thinking=ENABLED)),
        Case(
            answered(CALL, thinking=ENABLED),
            body(USER, said(CALL), told(RESULT), said(TEXT), USER, thinking=ENABLED),
        ),
        Case(
            body(USER, said(CALL), told(RESULT), said(SECOND), told(OTHER), thinking=ENABLED),
            body(
                USER,
                said(THOUGHT, CALL),
                told(RESULT),
                said(SECOND),
                told(OTHER),
                thinking=ENABLED,
            ),
        ),
        Case(answered(CALL, thinking=ENABLED), answered(CALL, thinking={"type": "adaptive"})),
    ],
    "thinking.off": [
        Case(answered(THOUGHT, CALL, thinking={"type": "disabled"}), answered(THOUGHT, CALL)),
        Case(
            answered(THOUGHT, CALL),
            body(USER, said(THOUGHT, TEXT), USER),
            Model(thinks=False),
        ),
    ],
    "thinking.signature": [
        Case(
            whole(said({**THOUGHT, "thinking": "changed"}, VEILED, CALL)),
            whole(),
            history=signed(),
        ),
        Case(
            body(USER, said({**THOUGHT, "signature": "forged"}, TEXT), USER),
            body(USER, said(THOUGHT, TEXT), USER),
            history=signed(),
        ),
        Case(
            body(USER, said({**VEILED, "data": "forged"}, TEXT), USER),
            body(USER, said(TEXT), USER),
            history=signed(),
        ),
    ],
    "thinking.kept": [
        Case(answered(THOUGHT, CALL), answered(THOUGHT, VEILED, CALL), history=signed()),
        Case(
            answered(VEILED, CALL),
            body(USER, said(CALL), told(RESULT), said(TEXT), USER),
            history=signed(),
        ),
        Case(
            body(USER, said(VEILED, CALL), told(RESULT), said(SECOND), told(OTHER)),
            body(USER, said(CALL), told(RESULT), said(SECOND), told(OTHER)),
            Model(binds_thinking=False),
            history=signed(),
        ),
    ],
    "thinking.bound": [
        Case(whole(system="Be brief."), whole(tool_choice={"type": "none"}), history=signed()),
        Case(
            whole(tools=[{**TOOL, "description": "Find."}]),
            whole(tools=[{**TOOL, "cache_control": MARK}]),
            history=signed(),
        ),
        Case(whole(tools=[]), whole(tools=[], thinking=DROPPING), history=signed()),
        Case(
            whole(first={**USER, "content": "Find coffee."}),
            whole(first=told({"type": "text", "text": "Find tea.", "cache_control": MARK})),
            history=signed(),
        ),
        Case(
            whole(result={**RESULT, "content": "green"}),
            whole(result={**RESULT, "content": [{"type": "text", "text": "black"}]}),
            history=signed(),
        ),
        Case(whole(said(THOUGHT, CALL)), whole(said(CALL)), history=signed()),
        Case(whole(said(VEILED, THOUGHT, CALL)), whole(said(VEILED, CALL)), history=signed()),
        Case(
            body(USER, said(LATER, TEXT), USER),
            body(USER, said(LATER, TEXT), USER),
            good_model=Model(binds_thinking=False),
            history=signed(),
        ),
    ],
}

EVERY = [pytest.param(name, one, id=name) for name, cases in CASES.items() for one in cases]


def test_every_rule_has_a_case() -> None:
    """A rule without a request that breaks it is not shown to refuse anything."""
    assert CASES.keys() == RULES.keys()
    assert all(CASES.values())


@pytest.mark.parametrize(("name", "case"), EVERY)
def test_a_rule_refuses_what_breaks_it_and_nothing_beside(name: str, case: Case) -> None:
    """The broken request breaks this rule alone, its neighbour none."""
    broken = refusals(case.broken, case.history, case.model)
    assert {refusal.rule for refusal in broken} == {name}
    assert {refusal.type for refusal in broken} == {"invalid_request_error"}

    model = case.good_model if case.good_model is not None else case.model
    assert refusals(case.good, case.history, model) == []


@pytest.mark.parametrize("messages", [None, [], ["Invalid content"], [{"role": "user"}], [USER, 3]])
def test_a_body_without_a_conversation_is_refused(messages: Any) -> None:
    """What is no list of messages breaks the shape, and no rule raises on it."""
    assert refusals({**body(), "messages": messages})[0].rule == "shape"


def recorded() -> Iterator[JSONObject]:
    """Yield the recorded exchanges that have a request."""
    with gzip.open(TRAFFIC, "rt", encoding="utf-8") as lines:
        yield from (read for line in lines if (read := json.loads(line))["request"])


@pytest.mark.skipif(not TRAFFIC.is_file(), reason="../shared/traffic (recordings) is not here")
def test_every_recorded_request_that_was_accepted_is_accepted() -> None:
    """What the provider answered 2xx breaks no rule, of the API itself and through Bedrock."""
    refused: dict[str, list[str]] = {}
    hosts = set[str]()

    for exchange in recorded():
        request = exchange["request"]
        if exchange["status"] < 300:
            model = model_of(request.get("model") or exchange["path"])
            rules = [one.rule for one in refusals(request, model=model)]
            refused |= {exchange["id"]: rules} if rules else {}
            hosts.add(exchange["provider"].split(".")[0])

    assert refused == {}
    assert hosts >= {"api", "bedrock-runtime"}


@pytest.mark.skipif(not TRAFFIC.is_file(), reason="../shared/traffic (recordings) is not here")
def test_the_recorded_refusal_of_a_shape_has_its_words() -> None:
    """A conversation of texts is refused as it was recorded (ant-b8d04a1907)."""
    exchange = next(one for one in recorded() if one["id"] == "ant-b8d04a1907")
    first = refusals(exchange["request"])[0]
    assert first.body["error"] == exchange["response"]["error"]
