"""The server of the rules over HTTP: what it plays, what it signs, and what it remembers of it."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import islice
from typing import Any

import httpx
import pytest

from support.anthropic_replies import TOOLS as SHOP
from support.anthropic_replies import generated_replies, good_reply
from support.anthropic_rules import RulesServer
from support.anthropic_turns import open_server_calls, turns_of

JSONObject = dict[str, Any]

TOOLS = [
    {"name": "refund", "input_schema": {"type": "object", "properties": {}}},
    {"name": "search", "input_schema": {"type": "object", "properties": {}}},
]
USER: JSONObject = {"role": "user", "content": "u"}
THOUGHT: JSONObject = {"type": "thinking", "thinking": ""}
BAD: JSONObject = {"type": "tool_use", "name": "refund", "input": {"order": "x"}}
GOOD: JSONObject = {"type": "tool_use", "name": "refund", "input": {"order": 1}}
DONE: JSONObject = {"type": "text", "text": "Done."}


def body(messages: list[JSONObject], **more: Any) -> JSONObject:
    """Return a request with two tools."""
    return {"model": "m", "max_tokens": 99, "tools": TOOLS, "messages": messages, **more}


def sent(server: RulesServer, messages: list[JSONObject], **more: Any) -> JSONObject:
    """Send a request and return the reply."""
    got = httpx.post(f"{server.url}/v1/messages", json=body(messages, **more))
    read: JSONObject = got.json()
    assert got.status_code == (400 if read["type"] == "error" else 200)
    return read


def turn(reply: JSONObject) -> JSONObject:
    """Return a reply as the turn that goes back."""
    return {"role": "assistant", "content": reply["content"]}


def results(reply: JSONObject, **more: Any) -> JSONObject:
    """Return the results of all calls of a reply."""
    ids = [block["id"] for block in reply["content"] if block["type"] == "tool_use"]
    content = [{"type": "tool_result", "tool_use_id": id_, "content": "r", **more} for id_ in ids]
    return {"role": "user", "content": content}


def words(reply: JSONObject) -> str:
    """Return the words of a refusal."""
    assert reply["type"] == "error"
    return str(reply["error"]["message"])


def test_an_appended_correction_is_accepted_and_so_is_the_next_turn() -> None:
    """Who only appends keeps every signature, also of the reply behind the correction."""
    with RulesServer([THOUGHT, BAD], [THOUGHT, GOOD], [THOUGHT, DONE], [DONE]) as server:
        history = [USER]
        for _ in range(3):
            reply = sent(server, history)
            history += [turn(reply), results(reply) if "refund" in str(reply) else USER]

        assert sent(server, history)["content"] == [DONE]
        assert server.refused == []

    signatures = [reply["content"][0]["signature"] for reply in server.sent[:3]]
    assert len(set(signatures)) == 3


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"tools": TOOLS[:1]}, "thinking.bound"),
        ({"system": "s"}, "thinking.bound"),
        ({"tool_choice": {"type": "tool", "name": "refund"}}, None),
    ],
)
def test_a_correction_that_narrows_the_request_is_refused(
    changed: JSONObject, rule: str | None
) -> None:
    """``system`` and ``tools`` stay while something signed goes back; ``tool_choice`` is free."""
    with RulesServer([THOUGHT, BAD], [THOUGHT, GOOD]) as server:
        first = sent(server, [USER])
        second = sent(server, [USER, turn(first), results(first, is_error=True)], **changed)

    assert [refusal.rule for refusal in server.refused] == ([rule] if rule else [])
    if rule:
        assert "messages.1.content.0" in words(second)
        assert "The block is bound to a different conversation." in words(second)


def test_a_reply_made_behind_a_hidden_correction_is_bound_to_it() -> None:
    """A signature made behind a correction is void for a caller that never saw the correction."""
    with RulesServer([THOUGHT, BAD], [THOUGHT, GOOD], [DONE]) as server:
        first = sent(server, [USER])
        second = sent(server, [USER, turn(first), results(first, is_error=True)])
        refused = sent(server, [USER, turn(second), results(second)])
        assert "bound to a different conversation" in words(refused)

        # the reply that is handed back carries the first thoughts and the corrected call
        handed = {"content": [first["content"][0], second["content"][1]]}
        assert sent(server, [USER, turn(handed), results(handed)])["content"] == [DONE]


def test_a_second_correction_keeps_the_first_bad_turn() -> None:
    """What stood before the second bad turn's thinking stands before it still."""
    with RulesServer([THOUGHT, BAD], [THOUGHT, BAD], [THOUGHT, GOOD]) as server:
        first = sent(server, [USER])
        history = [USER, turn(first), results(first, is_error=True)]
        second = sent(server, history)
        left_out = [USER, turn(second), results(second, is_error=True)]
        assert "bound to a different conversation" in words(sent(server, left_out))

        kept = [*history, turn(second), results(second, is_error=True)]
        assert sent(server, kept)["type"] == "message"


def test_thinking_goes_back_byte_for_byte() -> None:
    """Another text, another signature or none at all in the present loop of calls: refused."""
    with RulesServer([{**THOUGHT, "thinking": "hm"}, GOOD], [DONE]) as server:
        first = sent(server, [USER])
        for change in ({"thinking": "hm "}, {"signature": "forged"}):
            other = deepcopy(first)
            other["content"][0] |= change
            sent(server, [USER, turn(other), results(first)])

        bare = {"content": first["content"][1:]}
        thinking = {"type": "enabled", "budget_tokens": 1024}
        sent(server, [USER, turn(bare), results(bare)], thinking=thinking, max_tokens=2048)
        rules = [refusal.rule for refusal in server.refused]
        assert rules == ["thinking.signature", "thinking.signature", "thinking.first"]
        assert sent(server, [USER, turn(first), results(first)])["content"] == [DONE]


def test_a_pause_goes_on_without_the_user() -> None:
    """A paused reply goes back alone; what the server adds to it is bound behind it."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    paused = {"content": [THOUGHT, search], "stop_reason": "pause_turn"}
    with RulesServer(paused, [found, THOUGHT, DONE], [DONE]) as server:
        first = sent(server, [USER])
        assert "without a corresponding" in words(sent(server, [USER, turn(first), USER]))

        second = sent(server, [USER, turn(first)])
        assert second["content"][0] == found
        joined = {"content": [*first["content"], *second["content"]]}
        assert sent(server, [USER, turn(joined), USER])["content"] == [DONE]


def test_errors_and_functions_stand_in_a_script_and_it_ends() -> None:
    """An error has its status, a function sees the request, and nothing comes behind the end."""
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with RulesServer(busy, lambda asked: [{"type": "text", "text": asked["model"]}]) as server:
        got = httpx.post(f"{server.url}/v1/messages", json=body([USER]))
        assert (got.status_code, got.json()) == (529, busy)
        assert sent(server, [USER])["content"] == [{"type": "text", "text": "m"}]
        assert "no reply left" in words(sent(server, [USER]))
        assert httpx.post(f"{server.url}/v1/other", json=body([USER])).status_code == 404

    assert len(server.asked) == 4
    assert [refusal.rule for refusal in server.refused] == ["script"]


def given(block: JSONObject) -> Any:
    """Return an input as it goes back: text that is no JSON is wrapped."""
    is_text = isinstance(block.get("input"), str)
    return {"INVALID_JSON": block["input"]} if is_text else block.get("input")


def behind(reply: JSONObject) -> list[JSONObject]:
    """Return how a careful client goes on behind a reply: it only appends.

    Empty texts and thinking at the end stay away, and so does what holds nothing but white space.
    """
    content = [
        {**block, "input": given(block)} if "input" in block else block
        for block in reply["content"]
        if block.get("text") != ""
    ]
    while content and content[-1]["type"] in {"thinking", "redacted_thinking"}:
        content.pop()
    if not any(block.get("text", "x").strip() for block in content):
        return [USER]

    back = {"role": "assistant", "content": content}
    if reply["stop_reason"] == "pause_turn":
        return [back]

    told = results(reply)
    if not open_server_calls(turns_of([back])[0]):
        told["content"].append({"type": "text", "text": "Go on."})

    return [back, told]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_generated_replies_can_go_back(is_streamed: bool) -> None:
    """A client that appends is never refused, whatever was drawn: rules and replies agree."""
    reasons = Counter[str]()
    types = Counter[str]()
    for seed in range(60):
        drawn = islice(generated_replies(seed, is_streamed=is_streamed), 12)
        server = RulesServer(*drawn, good_reply)
        history = [USER]
        for _ in range(13):
            status, _, _ = server.answer(
                "/v1/messages",
                {**body(history, tools=SHOP), "stream": is_streamed},
            )
            assert (status, server.refused) == (200, []), (seed, history, server.refused)
            history = [*history, *behind(server.sent[-1])]

        reasons.update(reply["stop_reason"] for reply in server.sent)
        types.update(block["type"] for reply in server.sent for block in reply["content"])

    assert reasons.keys() == {
        *("end_turn", "tool_use", "pause_turn", "refusal", "max_tokens"),
        "model_context_window_exceeded",
    }
    assert types.keys() >= {
        *("text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "hologram"),
        *("web_search_tool_result", "code_execution_tool_result"),
    }


def test_a_seed_draws_the_same_replies() -> None:
    """What one seed found can be looked at again."""
    first, second = (
        [step({"messages": []}) for step in islice(generated_replies(7), 50)] for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("seed", range(20))
def test_the_sdk_reads_what_is_streamed_as_what_is_sent_whole(seed: int) -> None:
    """The events of a reply make the reply, as the SDK puts them together."""
    sdk: Any = pytest.importorskip("anthropic", reason="the SDK of Anthropic is not installed")
    (step,) = islice(generated_replies(seed), 1)
    with RulesServer(step, step) as server:
        asked = body([USER], tools=SHOP)
        with sdk.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
            whole = client.messages.create(**asked)
            with client.messages.stream(**asked) as stream:
                put_together = stream.get_final_message()

    first, second = server.sent
    assert [block.type for block in whole.content] == [one["type"] for one in first["content"]]
    for block, one in zip(put_together.content, second["content"], strict=True):
        assert {name: block.to_dict()[name] for name in one} == one
    assert put_together.stop_reason == second["stop_reason"]
