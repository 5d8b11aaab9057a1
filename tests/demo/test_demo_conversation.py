"""Reading a conversation: where it stands, and which first ask a correction belongs to."""

from __future__ import annotations

import json
from typing import Any

from strictreply.testing._demo.conversation import answered_reply, first_ask, text_of
from strictreply.testing._demo.drafts import Draft

ASK: dict[str, Any] = {"role": "user", "content": "Weather?"}


def call(id_: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    """Make one native call."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id_: str, content: str) -> dict[str, Any]:
    """Make a tool turn."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def test_text_may_come_in_parts() -> None:
    """Content is a string, a list of parts, or nothing."""
    assert text_of({"content": "a"}) == "a"
    assert text_of({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, 5, {"text": "b"}]}) == "a\n\n\nb"
    assert text_of({"content": None}) == text_of({}) == ""


def test_a_conversation_without_user_or_reply_is_read() -> None:
    """Nothing is demanded of the turns."""
    assert first_ask([{"role": "system", "content": "x"}]).question == ""
    assert answered_reply([ASK]) is None
    assert answered_reply([ASK, {"role": "assistant", "content": "x"}]) is None


def test_a_correction_has_the_key_of_its_first_ask() -> None:
    """However the correction comes, it belongs to the same step of the conversation."""
    bad: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call("c1")]}
    step = [ASK, bad, result("c1", "4 degrees")]
    for turns in ([ASK], step):
        first = first_ask(turns)
        for remark in ([result("c1", "- /a: must be an integer")], [{"role": "user", "content": "Not valid."}]):
            back = answered_reply([*turns, bad, *remark])
            assert back is not None
            assert (back.question, back.key, back.results) == (first.question, first.key, first.results)
    assert first_ask([ASK]).key != first_ask(step).key


def test_each_call_gets_what_was_said_on_it() -> None:
    """A tool turn is about its call, a turn of the user about all."""
    reply = {"role": "assistant", "tool_calls": [call("c1", "f"), call("c2", "g", "[")]}
    said = {"role": "user", "content": "again"}
    back = answered_reply([ASK, reply, result("c2", "bad"), result("c1", "kept"), said])
    assert back is not None
    assert back.prior == (Draft("f", "{}"), Draft("g", "["))
    assert back.remarks == ("kept\nagain", "bad\nagain")
    assert back.said == "kept\nagain\nbad\nagain"


def test_calls_in_text_are_calls() -> None:
    """A list of calls as text is read like calls; other text is content."""
    for text, prior in (
        (json.dumps([call("c1", "f<|x|>")]), Draft("f<|x|>", "{}")),
        ("[broken", Draft("", "[broken")),
        ("[]", Draft("", "[]")),
        ("hello", Draft("", "hello")),
    ):
        back = answered_reply([ASK, {"role": "assistant", "content": text}, ASK])
        assert back is not None
        assert back.prior == (prior,)
