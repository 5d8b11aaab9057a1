"""The Messages API (Anthropic's API reference; the same on Bedrock, Vertex, Foundry and gateways).

The module reads its messages, rejects bad endings, and writes fixed replies back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from strictreply.values._drafts import Draft
from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.values._replies import Invalid, UsageNames
from strictreply.values._requests import CHOICE, FORMAT, PARALLEL, STRICT
from strictreply.wires._anthropic_events import MessagesSent
from strictreply.wires._anthropic_requests import (
    limits_in,
    read_request,
    undemanding,
    written_request,
)
from strictreply.wires._anthropic_stream import MessagesAssembly
from strictreply.wires._anthropic_turns import (
    CALL,
    TEXT,
    TURNS,
    blocks_in,
    blocks_of,
    draft_of,
    kind_of,
    message_of,
)
from strictreply.wires._dialects import NeedsNothing, in_api_form, is_blank, object_in
from strictreply.wires._endings import error_code, error_in, reason_code, refused
from strictreply.wires._members import peek
from strictreply.wires._server_events import EventReader, typed_event
from strictreply.wires._stream_chunks import read_event
from strictreply.wires._wire import PROMISING, Opened, Storing, Wire

_ADDITIONS: Mapping[str, tuple[str, ...]] = {
    STRICT: (
        "strict",
        "invalid schema",
        "invalid function parameters",
        "too complex",
        "compiled grammar",
        "additionalproperties",
    ),
    PARALLEL: ("disable parallel tool use", "parallel tool"),
    CHOICE: ("tool choice",),
    FORMAT: (
        "output config",
        "output format",
        "structured output",
        "json schema",
        "compiled grammar",
        "schema is too complex",
    ),
}
"""Our additions that endpoints reject, with the words by which they do.

Models without structured outputs reject ``output_config.format``, and any model a schema that is
too complex to compile; Fable and Mythos reject a forced ``tool_choice`` (Anthropic, tool use).
"""


_ORDINARY = ("end_turn", "tool_use", "stop_sequence")
"""The finish reasons of an ordinary end."""

_PAUSED = "pause_turn"
"""The reason of a turn that continues when it is sent back unchanged (Anthropic, server tools)."""


def _recognises(value: object) -> bool:
    """Return whether a value is a message or an error of this API."""
    if any(peek(value, name) is not None for name in ("choices", "output", "object")):
        return False
    if peek(value, "type") == "error":
        return isinstance(peek(value, "error"), Mapping)

    return peek(value, "type") == "message"


def _asks(request: Mapping[str, object]) -> bool:
    """Return whether a request with messages has keywords that chat completions do not have."""
    tools = request.get("tools")
    listed: list[object] = tools if isinstance(tools, list) else []
    has_tools = any(isinstance(peek(tool, "input_schema"), Mapping) for tool in listed)
    choice = request.get(CHOICE)
    has_choice = peek(choice, "type") in ("auto", "any", "tool", "none")
    has_own = any(name in request for name in ("system", "output_config", "thinking"))
    return "messages" in request and (has_tools or has_choice or has_own)


def _is_whole(source: object) -> bool:
    return isinstance(source, Mapping) or hasattr(source, "stop_reason")


def _error_in(response: object) -> object:
    """Return the error in a response, or the response if it is an error; None for a message."""
    has_reply = peek(response, "type") == "message" or peek(response, "content") is not None
    return peek(response, "error") if has_reply else error_in(response)


def _opened(response: object, needs_nothing: NeedsNothing | None) -> Opened | Invalid:
    plain = object_in(response)
    if plain is None:
        return refused(Code.ENVELOPE_MALFORMED, "", expected="an object", found=quote(response))

    error = _error_in(plain)
    if error:
        found = quote(peek(error, "message") or error)
        return refused(error_code(error), "/error", found=found)

    reason = plain.get("stop_reason")
    if is_blank(reason) and needs_nothing is not None:
        reason = None
    content = plain.get("content")
    is_begun = reason == _PAUSED and isinstance(content, list) and bool(_said(content))
    code = None if is_begun or reason in _ORDINARY else reason_code(reason)
    if code is not None:
        return refused(code, "/stop_reason", found=quote(_told_end(plain)))
    if not isinstance(reason, str | None):
        expected = "a string as stop_reason"
        return refused(Code.ENVELOPE_MALFORMED, "/stop_reason", expected=expected)

    if isinstance(content, str) and needs_nothing is not None:
        content = blocks_in(content)
    fault = next(_misshapen(content), None)
    if fault is not None:
        return Invalid((fault,))

    role = plain.get("role")
    if role != "assistant" and not (role is None and needs_nothing is not None):
        return refused(Code.REPLY_ROLE, "/role", found=quote(role))

    blocks: Any = content  # a list, as nothing was wrong with it
    return _opened_blocks(plain, blocks, needs_nothing)


def _opened_blocks(
    plain: JSONObject, blocks: list[Any], needs_nothing: NeedsNothing | None
) -> Opened:
    lenient: tuple[str, ...] = ()
    has_paused = plain.get("stop_reason") == _PAUSED
    if has_paused:
        blocks = _said(blocks)

    draft = draft_of(blocks)
    if needs_nothing is not None and not _is_in_api_form(draft):
        read, lenient = _in_api_form(draft, blocks, needs_nothing)
        draft = draft_of(read, blocks)
        blocks = read

    return Opened(
        draft,
        promised=not PROMISING.isdisjoint(_reasons(plain)),
        lenient=lenient,
        is_exact=blocks is plain.get("content"),
        # after a call it is the program's turn: the API accepts no call back without its result
        is_paused=has_paused and not draft.calls,
        is_bare="id" not in plain and "stop_reason" not in plain,
        served=any(str(kind_of(block)).endswith("_tool_result") for block in blocks),
    )


def _said(blocks: list[Any]) -> list[Any]:
    """Return the blocks of a turn without empty texts, which the API does not accept back."""
    return [block for block in blocks if kind_of(block) != TEXT or peek(block, "text")]


def _is_in_api_form(draft: Draft) -> bool:
    """Return whether certainly no row applies, which is the common case."""
    ids: set[str] = set()
    for call in draft.calls:
        id_ = call.id
        source: Any = call.source
        if type(id_) is not str or not id_.strip() or id_ in ids:
            return False
        if type(source.get("input")) is not dict:
            return False

        ids.add(id_)

    return True


def _in_api_form(
    draft: Draft, blocks: list[Any], needs_nothing: NeedsNothing
) -> tuple[list[Any], tuple[str, ...]]:
    """Return blocks with calls in the form of the API, and the rows that were needed."""
    message: JSONObject = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in draft.calls
        ],
    }
    read, rows = in_api_form(message, needs_nothing)
    if read is message:
        return blocks, ()

    given: Any = peek(read, "tool_calls") or []
    calls = [
        replace(
            draft.calls[at] if at < len(draft.calls) else draft.calls[-1],
            id=one.get("id"),
            arguments=one["function"].get("arguments"),
        )
        for at, one in enumerate(given)
    ]
    return blocks_of(replace(draft, calls=tuple(calls))), rows


def _told_end(message: JSONObject) -> object:
    """Return the end of a message: the reason, with the details of a refusal."""
    details = message.get("stop_details")
    reason = message.get("stop_reason")
    said = [peek(details, name) for name in ("category", "explanation")]
    words = ": ".join(str(one) for one in (reason, *said) if one)
    return words if details else reason


def _misshapen(content: object) -> Iterator[Issue]:
    if not isinstance(content, list):
        expected = "an array of blocks as content"
        found = quote(content)
        yield Issue.of(Code.ENVELOPE_MALFORMED, "/content", expected=expected, found=found)
        return

    for index, block in enumerate(content):
        at = pointer("/content", index)
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            expected = "a block with a type"
            yield Issue.of(Code.ENVELOPE_MALFORMED, at, expected=expected, found=quote(block))
        elif block["type"] == "text" and not isinstance(block.get("text"), str | None):
            yield Issue.of(Code.REPLY_CONTENT, at, found=quote(block))


def _draft_in(response: JSON) -> Draft | None:
    content = peek(response, "content")
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        return None

    return draft_of(content)


def _with_draft(response: JSONObject, draft: Draft) -> JSONObject:
    reason = response.get("stop_reason")
    if draft.calls:
        reason = CALL
    elif reason == CALL or not isinstance(reason, str) or reason_code(reason):
        reason = "end_turn"

    return {**response, "content": blocks_of(draft), "stop_reason": reason}


def _turn(draft: Draft, _response: JSONObject) -> Message:
    return message_of(draft)


def _counted(draft: Draft) -> JSON:
    return blocks_of(draft)


def _reasons(response: JSON) -> list[str]:
    reason = peek(response, "stop_reason")
    return [reason] if isinstance(reason, str) else []


MESSAGES_API = Wire(
    name="messages",
    path="v1/messages",
    usage=UsageNames(
        "input_tokens",
        "output_tokens",
        "",
        prompt_beside=("cache_creation_input_tokens", "cache_read_input_tokens"),
    ),
    conversation="messages",
    limits=limits_in,
    additions=_ADDITIONS,
    read=read_request,
    written=written_request,
    undemanding=undemanding,
    asks=_asks,
    recognises=_recognises,
    is_whole=_is_whole,
    opened=_opened,
    draft_in=_draft_in,
    with_draft=_with_draft,
    turn=_turn,
    counted=_counted,
    replay=TURNS,
    reasons=_reasons,
    reader=EventReader,
    read_event=read_event,
    assembly=MessagesAssembly,
    sent=MessagesSent,
    event_bytes=typed_event,
    end_bytes=b"",
    storing=Storing(
        demands=lambda _reply, _tools, _answer: (),
        has_reply=lambda _plain, _is_read: True,
        response_in=lambda _event: None,
        emptied=lambda _plain: None,
    ),
    error_in=_error_in,
    reply_at="/content",
)
"""The wire of ``POST /v1/messages``."""
