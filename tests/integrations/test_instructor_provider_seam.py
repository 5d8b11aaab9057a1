"""Replies and corrections in the shape of Anthropic's Messages, through its real SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("instructor", reason="instructor is an extra with a lane of its own")

import strictreply as sr
from strictreply.integrations.instructor import wrap
from support.integrations.providers import ADA, AnthropicServer, User, blocks, codes, text, use

SYSTEM_AND_USER = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who is Ada?"},
]
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "signed"}
HIDDEN = {"type": "redacted_thinking", "data": "sealed"}


def extract(server: AnthropicServer, mode: str = "TOOLS", **keywords: Any) -> Any:
    """Ask an engine for a user, with its story."""
    engine = wrap(server.client(mode), policy=sr.RetryPolicy(max_retries=1, transport_retries=0))
    return engine.extract(response_model=User, messages=SYSTEM_AND_USER, **keywords)


@pytest.mark.parametrize(
    ("mode", "good"), [("TOOLS", use(ADA)), ("JSON", text(json.dumps(ADA)))], ids=["TOOLS", "JSON"]
)
def test_a_message_that_fits_is_an_instance(mode: str, good: dict[str, Any]) -> None:
    """The use of a tool, or text, becomes the value; the provider's message stands beside it."""
    done = extract(AnthropicServer(blocks(THOUGHT, good)), mode)
    assert done.value == User(name="Ada", age=36)
    assert type(done.completion).__name__ == "Message"
    # It is kept as the one choice of a completion.
    assert [choice["index"] for choice in done.attempts[0].raw["choices"]] == [0]
    assert done.usage == sr.Usage(12, 5, 17)


def test_a_correction_is_spelled_as_the_api_wants_it() -> None:
    """The bad use of a tool is replayed with the thoughts before it; the correction is its result,
    an error.
    """
    server = AnthropicServer(
        blocks(THOUGHT, HIDDEN, text("Sure."), use({**ADA, "age": "36"})), blocks(use(ADA))
    )
    done = extract(server)
    assert codes(done.attempts) == [["args.type"], []]
    first, second = server.requests
    assistant, user = second["messages"][len(first["messages"]) :]
    assert [block["type"] for block in assistant["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
    ]

    assert assistant["content"][:2] == [THOUGHT, HIDDEN]
    assert user["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": assistant["content"][-1]["id"],
            "content": done.attempts[1].correction,
            "is_error": True,
        }
    ]

    assert (first["system"], first["tools"]) == (second["system"], second["tools"])


def test_a_correction_of_text_is_text() -> None:
    """In JSON mode the bad text is the assistant's turn, and the correction the user's."""
    server = AnthropicServer(
        blocks(text("{}"), stop_reason="end_turn"), blocks(text(json.dumps(ADA)))
    )
    done = extract(server, "JSON")
    assert codes(done.attempts)[0] == ["answer.required", "answer.required"]
    assert [turn["role"] for turn in server.requests[1]["messages"]] == [
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (blocks(text("Ada is 36.")), "tool.required"),
        (blocks(use(ADA, "Person")), "tool.unknown"),
        (blocks(use(ADA), {**use(ADA), "id": "toolu_2"}), "tool.several"),
        (blocks(use({**ADA, "admin": True})), "args.extra_key"),
        (blocks(use({**ADA, "name": "A\ud800"})), "json.surrogate"),
        (json.dumps(blocks(use(ADA))).replace("36", "NaN"), "json.not_finite"),
        (json.dumps(blocks(use(ADA))).replace("36", "[" * 300 + "]" * 300), "json.too_deep"),
        (blocks(use(ADA), stop_reason="max_tokens"), "reply.truncated"),
        (blocks({"type": "tool_use"}), "shape.wrong_type"),
    ],
)
def test_a_message_that_does_not_fit_is_asked_for_again(answer: Any, code: str) -> None:
    """A reply that the SDK accepted is read strictly, and corrected once."""
    done = extract(AnthropicServer(answer, blocks(use(ADA))))
    assert done.attempts[0].issues[0].code == code
    assert done.value.name == "Ada"


@pytest.mark.parametrize(
    ("answer", "reason", "kind"),
    [
        (blocks(text("No."), stop_reason="refusal"), "content_filter", sr.ReplyHalted),
        (blocks(text("…"), stop_reason="pause_turn"), "malformed_response", sr.TransportFailed),
        (
            (529, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
            "server_error",
            sr.TransportFailed,
        ),
        ("no JSON", "malformed_response", sr.TransportFailed),
        ("null", "malformed_response", sr.TransportFailed),
        ("[" * 5_000, "malformed_response", sr.TransportFailed),
        ("{}", "malformed_response", sr.TransportFailed),
    ],
)
def test_what_ends_a_call_is_one_of_our_errors(
    answer: Any, reason: str, kind: type[sr.CallFailed]
) -> None:
    """A refusal, an HTTP error or a body without a message end as they do with Chat Completions."""
    with pytest.raises(kind) as caught:
        extract(AnthropicServer(answer))
    assert caught.value.reason == reason


def test_of_duplicate_names_in_an_input_the_sdk_leaves_the_last() -> None:
    """The limit of this shape, stated: the SDK reads the input before we can, so a duplicate name
    goes unseen.
    """
    body = json.dumps(blocks(use(ADA))).replace('"name": "Ada"', '"name": "Eve", "name": "Ada"')
    assert extract(AnthropicServer(body)).value.name == "Ada"
