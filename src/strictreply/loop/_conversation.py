"""The messages of a conversation: all that the loop knows of their form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from pydantic_core import to_json

from strictreply.contract._channels import compact
from strictreply.loop._results import encodable, encodable_text, text_of
from strictreply.loop._values import AgentToolCallResult
from strictreply.reading._decoding import decode
from strictreply.values._errors import ContractError
from strictreply.values._limits import Channel, JSONObject, Message
from strictreply.values._replies import AssistantReply, DirectAnswer, ToolCall
from strictreply.wires._members import as_json, ids_in, peek

_MESSAGES_FORM: Final = (
    "give messages: a text, or the conversation with the user's turn last, each turn a mapping of "
    "plain JSON or the SDK's own message"
)

call_ids: Final = ids_in
"""Returns the ids of the calls in a conversation, in order."""


class UserInput(NamedTuple):
    """A user's message, taken apart."""

    text: str
    artifacts: tuple[JSONObject, ...] = ()
    images: tuple[JSONObject, ...] = ()


def messages_of(messages: str | Iterable[Message] | None) -> tuple[JSONObject, ...]:
    """Return a conversation as plain JSON; a text is the user's message.

    Raises ContractError for anything else.
    """
    if isinstance(messages, str):
        messages = [user_message(messages)]

    try:
        taken = tuple(map(as_json, messages or ()))
        to_json(taken)  # half of a surrogate pair is not a text that could be kept or sent
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(_MESSAGES_FORM) from error

    if not taken or [message for message in taken if not isinstance(message, dict)]:
        raise ContractError(_MESSAGES_FORM)

    return cast("tuple[JSONObject, ...]", taken)


def user_message(text: str) -> JSONObject:
    """Return the user's message of a text."""
    return {"role": "user", "content": text}


def system_message(text: str) -> JSONObject:
    """Return the message that instructs the model."""
    return {"role": "system", "content": text}


def input_of(message: JSONObject) -> UserInput:
    """Return the text, the artifacts and the images of a user's message."""
    content = message.get("content")
    if isinstance(content, str):
        return UserInput(content)

    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = (peek(part, "text") for part in parts if peek(part, "type") == "text")
    mappings = (dict(part) for part in parts if isinstance(part, Mapping))
    others = [part for part in mappings if part.get("type") != "text"]

    return UserInput(
        text="\n".join(str(text or "") for text in texts),
        artifacts=tuple(part for part in others if part.get("type") != "image_url"),
        images=tuple(part for part in others if part.get("type") == "image_url"),
    )


def result_messages(results: Sequence[AgentToolCallResult], channel: Channel) -> list[Message]:
    """Return the messages with the results of calls, in order.

    Each names the call's id, or in the text channel the tool.
    """
    if channel == "text":
        return [user_message(f"Result of {one.name}: {text_of(one)}") for one in results]

    return [
        {"role": "tool", "tool_call_id": one.tool_call_id, "content": text_of(one)}
        for one in results
    ]


def with_ids_of(message: Message, reply: AssistantReply, calls: Sequence[ToolCall]) -> Message:
    """Replace the ids of ``reply`` in the assistant's message by those of ``calls``."""
    native = peek(message, "tool_calls")
    if calls == reply.calls or not isinstance(native, list):
        return message

    ids = {before.id: after.id for before, after in zip(reply.calls, calls, strict=True)}
    renamed = [{**one, "id": ids.get(one["id"], one["id"])} for one in native]
    return {**message, "tool_calls": renamed}


def native_arguments(call: ToolCall, message: Message) -> str | None:
    """Return the arguments of a call as the model wrote them; None when they must be written."""
    native = peek(message, "tool_calls")
    for one in native if isinstance(native, list) else ():
        text = peek(peek(one, "function"), "arguments")
        if peek(one, "id") != call.id or not isinstance(text, str):
            continue
        if isinstance(decode(text), dict):
            return text

    return None


def reply_message(message: Message, reply: AssistantReply) -> Message:
    """Return a reply for the conversation.

    An answer that was written as a call becomes text, as a call needs a result.
    """
    if isinstance(reply, DirectAnswer) and message.get("tool_calls"):
        return {"role": "assistant", "content": answer_text(reply)}
    return encodable(dict(message))


def answer_text(reply: DirectAnswer) -> str:
    """Return an answer as text; JSON for a value."""
    answer = reply.to_dict()["answer"]
    return encodable_text(answer) if isinstance(answer, str) else compact(encodable(answer))
