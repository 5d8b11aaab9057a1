"""Recorded exchanges of Anthropic's API: nothing of them is lost, and good ones are accepted."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import pytest

import strictreply as sr
from support.messages import MESSAGES, assembled, events, read
from support.shared_data import SHARED, needs_shared

pytestmark = needs_shared
_FILE = SHARED / "traffic" / "traffic-anthropic-messages.jsonl.gz"
_CUT = ("max_tokens", "refusal", "pause_turn")


@cache
def records() -> dict[str, dict[str, Any]]:
    """Return the recorded exchanges that were answered, by id."""
    with gzip.open(_FILE, "rt") as lines:
        every = [json.loads(line) for line in lines]

    return {one["id"]: one for one in every if one["status"] < 300 and one["format"] != "text"}


def replies() -> dict[str, Any]:
    """Return the recorded replies, whole or put together from their events."""
    found = {}
    for id_, one in records().items():
        if one["format"] == "json":
            found[id_] = one["response"]
        elif one["format"] == "sse":
            came = assembled(read(one["response"].encode()))
            if came.fault is None and came.is_done:
                found[id_] = came.response()

    return found


def test_every_reply_is_read_and_none_differs_on_its_way_back() -> None:
    """The turn that we would send, the message that we hand back and its events are what came."""
    kept = 0
    for id_, reply in replies().items():
        if reply["stop_reason"] in _CUT:
            continue

        assert MESSAGES.recognises(reply), id_
        opened: Any = MESSAGES.opened(reply, lambda _: True)
        assert not isinstance(opened, sr.Invalid), id_
        assert opened.is_exact, id_
        assert opened.lenient == (), id_
        assert MESSAGES.turn(opened.draft, reply)["content"] == reply["content"], id_
        assert json.dumps(MESSAGES.with_draft(reply, opened.draft)) == json.dumps(reply), id_
        assert assembled(events(reply)).response()["content"] == reply["content"], id_
        kept += 1

    assert kept > 600


def test_requests_come_out_as_they_were() -> None:
    """All but the choice that a contract adds, and the closed schemas, is the caller's own."""
    kept = 0
    for id_, one in records().items():
        asked = one["request"]
        if not isinstance(asked, dict) or "/messages" not in one["path"]:
            continue

        sent: Any = sr.Contract(parallel=True).next_request(asked, api="messages").request
        assert _comparable(sent) == _comparable(asked), id_
        kept += 1

    assert kept > 500


def _comparable(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request without what says the same: closed schemas, the choice that is usual."""
    text = json.dumps(body, sort_keys=True).replace('"additionalProperties": false, ', "")
    told: dict[str, Any] = json.loads(text)
    if told.get("tool_choice") == {"type": "auto"}:
        del told["tool_choice"]
    if told.get("tools") == []:
        del told["tools"]

    for tool in told.get("tools") or ():
        tool.get("input_schema", {}).pop("additionalProperties", None)
        if tool.get("description") == "":
            del tool["description"]

    return told


def test_the_next_turn_is_the_recorded_one() -> None:
    """Where the conversation went on, its assistant's turn is what we would have sent."""
    kept = 0
    for id_, reply in replies().items():
        following = records().get(records()[id_]["next"] or "")
        asked = following["request"] if following else None
        if not isinstance(asked, dict) or reply["stop_reason"] in _CUT:
            continue

        opened: Any = MESSAGES.opened(reply, lambda _: True)
        ours = MESSAGES.turn(opened.draft, reply)
        theirs = [turn for turn in asked["messages"] if turn["role"] == "assistant"]
        plain = [_plain(block) for block in ours["content"]]
        kept += any(plain == [_plain(block) for block in _blocks(turn)] for turn in theirs)

    assert kept > 100


def _blocks(turn: dict[str, Any]) -> list[Any]:
    content = turn["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _plain(block: Any) -> Any:
    """Return a block without what libraries leave out or add on the way back."""
    optional = ("citations", "caller", "cache_control")
    return {name: block[name] for name in block if name not in optional}


@pytest.mark.parametrize("is_whole", [True, False])
def test_good_replies_fit_the_tools_of_their_requests(is_whole: bool) -> None:
    """A reply whose calls fit its own request is accepted."""
    refused = {}
    judged = 0
    for id_, reply in replies().items():
        one = records()[id_]
        asked = one["request"]
        if not isinstance(asked, dict) or (one["format"] == "json") is not is_whole:
            continue
        if reply["stop_reason"] in _CUT or "/messages" not in one["path"]:
            continue

        step = sr.Contract(parallel=True).next_request(asked, reply, api="messages")
        judged += 1
        if not isinstance(step.verdict, sr.Valid):
            refused[id_] = step.verdict

    assert judged > 100
    assert len(refused) <= 12, refused
