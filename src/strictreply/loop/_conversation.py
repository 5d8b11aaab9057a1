"""The turns of a conversation, in the form of its API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from pydantic_core import to_json

from strictreply import AssistantReply, ContractError, DirectAnswer, ToolCall
from strictreply.core import Channel, Draft, DraftCall, JSONObject, Message, Replay, decode
from strictreply.core.forms import as_json
from strictreply.core.text import compact
from strictreply.loop._result_texts import encodable_text
from strictreply.loop.values import AgentToolCallResult

Plain = TypeVar("Plain")

_MESSAGES_FORM: Final = (
    "messages must be a text, or a list of messages that ends with the user's; each message is a "
    "dict of plain JSON or a message of the SDK"
)


def messages_of(messages: str | Iterable[Message] | None, replay: Replay) -> tuple[JSONObject, ...]:
    """Return a conversation as plain JSON; a text is the user's message.

    Raises ContractError for anything else.
    """
    if isinstance(messages, str):
        messages = [replay.user(messages)]

    try:
        taken = tuple(map(as_json, messages or ()))
        to_json(taken)  # half of a surrogate pair is not a text that could be kept or sent
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(_MESSAGES_FORM) from error

    if not taken or [message for message in taken if not isinstance(message, dict)]:
        raise ContractError(_MESSAGES_FORM)

    return cast("tuple[JSONObject, ...]", taken)


def result_messages(
    results: Sequence[AgentToolCallResult], channel: Channel, replay: Replay
) -> list[Message]:
    """Return the turns with the results of calls, in order.

    Each names the call's id, or in the text channel the tool.
    """
    if channel == "text":
        return [replay.user(f"Result of {one.name}: {one.text}") for one in results]

    calls = [DraftCall(one.name, id=one.tool_call_id) for one in results]
    turns = replay.results(calls, [one.text for one in results])
    failed = {one.tool_call_id for one in results if one.is_failure}
    return turns if not failed or replay.failed is None else replay.failed(turns, failed)


def with_ids_of(draft: Draft, reply: AssistantReply, calls: Sequence[ToolCall]) -> Draft:
    """Replace the ids of ``reply`` in a draft by those of ``calls``."""
    if calls == reply.calls or not draft.calls:
        return draft

    ids: dict[object, str | None] = {
        before.id: after.id for before, after in zip(reply.calls, calls, strict=True)
    }
    renamed = tuple(replace(one, id=ids.get(one.id, one.id)) for one in draft.calls)
    return replace(draft, calls=renamed)


def native_arguments(call: ToolCall, draft: Draft) -> str | None:
    """Return the arguments of a call as the model wrote them; None when they must be written."""
    for one in draft.calls:
        if one.id != call.id or not isinstance(one.arguments, str):
            continue
        if isinstance(decode(one.arguments), dict):
            return one.arguments

    return None


def reply_message(turn: Message, reply: AssistantReply, replay: Replay) -> Message:
    """Return the assistant's turn of a reply for the conversation.

    An answer that was written as a call becomes text, as a call needs a result.
    """
    if isinstance(reply, DirectAnswer) and replay.read(turn).calls:
        return replay.written(Draft(answer_text(reply)))
    return encodable(dict(turn))


def answer_text(reply: DirectAnswer) -> str:
    """Return an answer as text; JSON for a value."""
    answer = reply.to_dict()["answer"]
    return encodable_text(answer) if isinstance(answer, str) else compact(encodable(answer))


def encodable(value: Plain) -> Plain:
    """Copy a JSON value, and replace what UTF-8 cannot encode in every text of it."""
    copied: Plain = json.loads(encodable_text(json.dumps(value, ensure_ascii=False)))
    return copied
