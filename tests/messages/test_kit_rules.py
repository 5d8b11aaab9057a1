"""``ClaudeRules``: what Claude refuses is a 400 in its words, and everything else is answered."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import strictreply as sr
from strictreply.testing import ClaudeRules, Kind, ScriptedModel, faults, mounting, ok
from support.anthropic_rules import Model, refusals
from support.loops import some
from support.messages import ASKED, SEARCH, text, use

ASK: dict[str, Any] = {**ASKED, "tools": [SEARCH]}
TOOL = sr.Tool.from_json_schema("search", SEARCH["input_schema"])


def result(id_: str, words: str = "3") -> dict[str, Any]:
    """Return the block of a result."""
    return {"type": "tool_result", "tool_use_id": id_, "content": words}


def turn(role: str, *content: Any) -> dict[str, Any]:
    """Return a turn of these blocks."""
    return {"role": role, "content": list(content)}


FIND = {"role": "user", "content": "find tea"}
CALLED = turn("assistant", text("I look."), use({"query": "a"}, "c1"), use({"query": "b"}, "c2"))
BOTH = turn("user", result("c1"), result("c2"), text("go on"))

BROKEN: dict[str, tuple[list[Any], str]] = {
    "an empty content": ([turn("user")], "non-empty content"),
    "an empty text": ([turn("user", text(""))], "text content blocks must be non-empty"),
    "an input of text": ([FIND, turn("assistant", use("{", "c1"))], "valid dictionary"),
    "an id twice": (
        [FIND, turn("assistant", use({}, "c1"), use({}, "c1")), turn("user", result("c1"))],
        "must be unique",
    ),
    "no result": ([FIND, CALLED, turn("user", text("hi"))], "messages.1: `tool_use` ids"),
    "no turn behind calls": ([FIND, CALLED], "c1, c2"),
    "one of two results": ([FIND, CALLED, turn("user", result("c1"))], "immediately after: c2"),
    "a text before results": (
        [FIND, CALLED, turn("user", text("so"), result("c1"), result("c2"))],
        "immediately after",
    ),
    "a result of no call": (
        [FIND, CALLED, turn("user", result("c1"), result("c2"), result("c3"))],
        "messages.2.content.2: unexpected `tool_use_id`",
    ),
    "a result of an earlier call": (
        [FIND, CALLED, BOTH, turn("assistant", text("so")), turn("user", result("c1"))],
        "messages.4.content.0: unexpected",
    ),
}

ACCEPTED: dict[str, list[Any]] = {
    "a text": [FIND],
    "calls and results": [FIND, CALLED, BOTH],
    "results in two turns": [FIND, CALLED, turn("user", result("c2")), turn("user", result("c1"))],
    "a loop": [FIND, CALLED, BOTH, turn("assistant", text("so")), turn("user", text("thanks"))],
}


def answered(rules: ClaudeRules, body: dict[str, Any]) -> httpx.Response:
    """Post a request to a server with the rules."""
    with httpx.Client(transport=mounting.transport(rules, library=httpx)) as client:
        return client.post("http://model.invalid/v1/messages", json=body)


@pytest.mark.parametrize("name", BROKEN)
def test_what_claude_refuses_is_a_400(name: str) -> None:
    """In its words, and the script is not asked; the strict server of our tests refuses it, too."""
    messages, words = BROKEN[name]
    model = ScriptedModel(then=ok.answer())
    rules = ClaudeRules(model)
    sent = answered(rules, {**ASK, "messages": messages})
    assert (sent.status_code, sent.json()["error"]["type"]) == (400, "invalid_request_error")
    assert words in sent.json()["error"]["message"]
    assert rules.refused == [sent.json()["error"]["message"]]
    assert model.requests == []
    assert refusals({**ASK, "messages": messages}, None, Model())


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_claude_takes_is_answered(name: str) -> None:
    """It goes on to the script."""
    body = {**ASK, "messages": ACCEPTED[name]}
    rules = ClaudeRules(ScriptedModel(then=ok.answer()))
    assert answered(rules, body).status_code == 200
    assert not rules.refused
    assert not refusals(body, None, Model())


def test_a_forced_call_beside_thinking() -> None:
    """Only manual thinking refuses it."""
    rules = ClaudeRules(ScriptedModel(then=ok.reply(TOOL)))
    asked = {**ASK, "tool_choice": {"type": "any"}, "max_tokens": 4000}
    manual = {"type": "enabled", "budget_tokens": 1024}
    assert answered(rules, {**asked, "thinking": {"type": "adaptive"}}).status_code == 200
    assert answered(rules, {**asked, "thinking": manual}).status_code == 400
    assert "tool_choice forces" in rules.refused[0]


def test_requests_of_other_apis_go_on() -> None:
    """The rules are those of one API."""
    rules = ClaudeRules(ScriptedModel(then=ok.answer()))
    body = {"model": "m", "messages": [{"role": "user", "content": []}]}
    with httpx.Client(transport=mounting.transport(rules, library=httpx)) as client:
        sent = client.post("http://model.invalid/v1/chat/completions", content=json.dumps(body))

    assert sent.status_code == 200


def test_our_corrections_keep_the_rules() -> None:
    """Whatever was wrong with a call, what goes back with it is accepted."""
    made = (
        fault
        for fault in faults.all_for(TOOL, kinds=[Kind.JSON, Kind.ARGS, Kind.TOOL, Kind.SHAPE])
        if not fault.needs
    )
    contract = sr.Contract(tools=[TOOL])
    asked = 0
    for fault in some(made):
        rules = ClaudeRules(ScriptedModel(fault, then=ok.call(TOOL, query="tea")))
        step = contract.next_request(ASK, api="messages")
        while step.request is not None:
            reply = answered(rules, step.request).json()
            assert not rules.refused, fault.id
            step = contract.next_request(step.request, reply, api="messages")
            asked += 1

    assert asked > 1
