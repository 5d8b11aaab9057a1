"""What the Messages API accepts as a request: the rules, all together.

They stand in two modules, on the conversation and on the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from support.anthropic_judging import Asked, Model, Refusal, model_of
from support.anthropic_message_rules import MESSAGE_RULES
from support.anthropic_request_rules import REQUEST_RULES
from support.anthropic_turns import History, JSONObject

RULES = REQUEST_RULES.named | MESSAGE_RULES.named


def refusals(
    body: JSONObject, history: History | None = None, model: Model | None = None
) -> list[Refusal]:
    """Return why the API would answer 400, the first reason first; it tells that one only.

    Without a history, nothing is said on signatures.
    """
    broken = list(_misshapen(body))
    if broken:
        return [Refusal("shape", message) for message in broken]

    taken = model if model is not None else model_of(str(body.get("model")))
    asked = Asked(body, history, taken)
    return [Refusal(one.name, words) for one in RULES.values() for words in one.check(asked)]


def _misshapen(body: JSONObject) -> Iterator[str]:
    """Without a conversation of messages there is nothing to judge (recording: ant-b8d04a1907)."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Field required"
        return
    if not messages:
        yield "messages: at least one message is required"

    for at, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        is_list = isinstance(content, list) and all(isinstance(one, dict) for one in content)
        if not (is_list or isinstance(content, str)):
            yield f"messages.{at}: Input does not match the expected shape."
