"""The Responses API (OpenAI's API reference; openresponses.org).

The module reads its responses, and writes fixed messages back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from strictreply.values._drafts import Draft
from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.values._replies import Invalid, ToolCall, UsageNames
from strictreply.values._requests import STRICT, Request
from strictreply.wires._dialects import NeedsNothing, in_api_form, object_in
from strictreply.wires._endings import error_code, error_in, reason_code, refused, worst_of
from strictreply.wires._members import peek
from strictreply.wires._messages import MESSAGES, draft_of, message_of
from strictreply.wires._requests import keywords_of, limits_in, request_of, undemanding
from strictreply.wires._responses_events import ResponsesSent
from strictreply.wires._responses_members import Completing
from strictreply.wires._responses_requests import (
    CALLS,
    LIMIT,
    TEXTS,
    is_awaited,
    is_call,
    is_run_by_server,
    kind_of,
    parts_in,
    read_request,
    rewritten,
    text_of,
    written_request,
)
from strictreply.wires._responses_stream import ResponsesAssembly
from strictreply.wires._server_events import EventReader, typed_event
from strictreply.wires._stored_replies import RESPONSES_KEPT
from strictreply.wires._stream_chunks import read_event
from strictreply.wires._wire import Opened, Wire

_ADDITIONS: Mapping[str, tuple[str, ...]] = {
    STRICT: (
        "strict",
        "invalid schema",
        "invalid function parameters",
        "too complex",
        "compiled grammar",
        "additionalproperties",
    ),
    "parallel_tool_calls": ("parallel tool call", "parallel function call"),
    "tool_choice": ("tool choice",),
    "response_format": ("response format", "text.format", "json schema", "structured output"),
}
"""Our additions that endpoints reject, with the words by which they do.

``text.format`` is the API's own name for the format (OpenAI API reference); servers that translate
to chat completions use the names of those.
"""


def _read_request(request: JSONObject) -> Request:
    read = request_of(read_request(request))
    is_kept = request.get("conversation") is not None
    # each stream has the usage, without a request for it
    return replace(read, is_kept=is_kept, wants_usage=bool(read.wants_usage))


def _written_request(request: Request) -> JSONObject:
    return written_request(keywords_of(request))


def _is_whole(source: object) -> bool:
    return isinstance(source, Mapping) or hasattr(source, "output")


def is_response(value: object) -> bool:
    """Return whether a value is a response of this API, not a completion or a message."""
    if peek(value, "object") == "response":
        return True
    if not isinstance(peek(value, "output"), list):
        return False

    return peek(value, "choices") is None and peek(value, "role") is None


def _opened(response: object, needs_nothing: NeedsNothing | None) -> Opened | Invalid:
    plain = object_in(response)
    if plain is None:
        return refused(Code.ENVELOPE_MALFORMED, "", expected="an object", found=quote(response))

    ending = worst_of(_endings(plain))
    if ending is not None:
        return Invalid((ending,))

    status = plain.get("status")
    if status is not None and not isinstance(status, str):
        expected = "a string as status"
        return refused(Code.ENVELOPE_MALFORMED, "/status", expected=expected, found=quote(status))

    is_strict = needs_nothing is None
    completing = Completing()
    whole = plain if is_strict else completing.response(plain)
    fault = next(_misshapen(whole.get("output")), None)
    if fault is not None:
        return Invalid((fault,))
    if is_strict and (missing := _missing_in(plain)):
        return refused(
            Code.ENVELOPE_MALFORMED, missing, expected="the value that the API specifies here"
        )

    came = _message_in(whole, is_strict=is_strict) or {}
    read: object = came
    lenient: tuple[str, ...] = ()
    if needs_nothing is not None:
        one = _with_one_answer(came)
        read, lenient = in_api_form(one, needs_nothing)
        lenient = (*completing.rows, *_rows_of(came, read), *lenient)

    items = came["response"]["output"]
    calls = _server_calls(items)
    steps = (*lenient, *dict.fromkeys(f"unjudged_{call.tool}" for call in calls))

    served = any(_is_served(item) for item in items)
    image = "image_generation_call"
    medium = image if any(item["type"] == image and item.get("result") for item in items) else ""

    return Opened(
        draft_of(read),
        lenient=steps,
        is_exact=read is came and whole is plain,
        server_calls=calls,
        served=served,
        medium=medium,
    )


def _missing_in(response: JSONObject) -> str:
    """Return the place of the first member of the API that a response lacks."""
    completing = Completing()
    completing.response(response)
    return next(iter(completing.rows.values()), "")


def _server_calls(items: list[JSONObject]) -> tuple[ToolCall, ...]:
    """Return the calls of the API's own tools that the program must still answer."""
    answered = [item.get("call_id") for item in items if item["type"].endswith("_output")]

    calls: list[ToolCall] = []
    for item in items:
        kind = item["type"]
        if is_awaited(item) and item.get("call_id") not in answered:
            calls.append(ToolCall(kind, item, item.get("call_id") or item.get("id")))

    return tuple(calls)


def _is_served(item: JSONObject) -> bool:
    """Return whether an item calls a tool that the server executes."""
    is_programs = item["type"] in CALLS or is_awaited(item)
    return is_run_by_server(item) or (item["type"].endswith("_call") and not is_programs)


def _with_one_answer(message: JSONObject) -> JSONObject:
    """Return a message whose items all contain the same JSON with that as its content, once."""
    items = message["response"]["output"]
    texts = [text for item in items if (text := text_of([item])) is not None]
    if len(texts) == 1 or len(set(texts)) != 1 or message.get("tool_calls"):
        return message

    is_json = texts[0].lstrip().startswith(("{", "["))
    return message | {"content": texts[0]} if is_json else message


def _rows_of(came: JSONObject, read: object) -> Iterator[str]:
    """Yield the names of the rows that were needed for a response, outside of its message."""
    if any(map(is_run_by_server, came["response"]["output"])):
        yield "call_of_server"
    if peek(read, "content") != came.get("content"):
        yield "answer_repeated"


def _message_in(response: JSON, *, is_strict: bool = False) -> JSONObject | None:
    output = peek(response, "output")
    if not isinstance(output, list):
        return None

    items = [item for item in output if isinstance(item, dict)]
    called = [item for item in items if kind_of(item) in CALLS and (is_strict or is_call(item))]
    calls = [_call(item) for item in called]
    refusals = [text for item in items for text in parts_in(item, ("refusal",))]
    content = text_of(output, beside_calls=bool(calls))

    message: JSONObject = {"role": "assistant", "content": content}
    if refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls

    return message | {"response": {"id": peek(response, "id"), "output": output}}


def _call(item: JSONObject) -> JSONObject:
    """Return the call in an item; missing members stay missing."""
    kind = CALLS[str(item["type"])]
    body = {name: item[name] for name in ("name", "arguments", "input") if name in item}
    called: JSONObject = {"type": kind, kind: body}
    space = item.get("namespace")
    if space not in (None, "", item.get("name")):
        called["namespace"] = space

    return {"id": item["call_id"], **called} if "call_id" in item else called


def _draft_in(response: JSON) -> Draft | None:
    message = _message_in(response)
    return None if message is None else draft_of(message)


def _turn(draft: Draft, response: JSONObject) -> Message:
    """Return a reply as a message with the items of its response."""
    items = {"id": peek(response, "id"), "output": peek(response, "output")}
    return message_of(draft) | {"response": items}


def _counted(draft: Draft) -> JSON:
    message = message_of(draft)
    output: JSON = (message.get("response") or {}).get("output")
    return output or message


def _with_draft(response: JSONObject, draft: Draft) -> JSONObject:
    message = message_of(draft)
    kept = message["response"]
    output = rewritten(message, kept["output"])
    # under the id of the response with these items, a server has stored the same calls
    id_ = kept["id"] or response.get("id")

    whole = Completing().response({**response, "id": id_, "output": output, "status": "completed"})
    if "output_text" in response:
        whole = whole | {"output_text": text_of(output)}

    return whole | {"error": None, "incomplete_details": None}


def _reasons(response: JSON) -> list[str]:
    said = (peek(peek(response, "incomplete_details"), "reason"), peek(response, "status"))
    return [one for one in said if isinstance(one, str)][:1]


def _endings(response: JSONObject) -> Iterator[tuple[Code, str, object]]:
    error = error_in(response)
    status = response.get("status")
    if error or status == "failed":
        yield error_code(error or "failed"), "/error", error or status

    reason = peek(response.get("incomplete_details"), "reason")
    cut = reason_code(reason)
    if cut or status == "incomplete":
        yield cut or Code.REPLY_TRUNCATED, "/incomplete_details/reason", reason or status
    elif status != "failed" and (code := reason_code(status)):
        yield code, "/status", status

    output = response.get("output")
    for index, item in enumerate(output if isinstance(output, list) else ()):
        at = pointer("/output", index)
        refusal = next(filter(None, parts_in(item, ("refusal",))), None)
        if refusal is not None:
            yield Code.REPLY_REFUSAL, at, refusal

        ending = peek(item, "status")
        # a program that the model wrote continues with the output of its calls (programmatic
        # calling)
        if ending == "in_progress" and status == "completed" and peek(item, "caller"):
            continue

        is_ours = peek(item, "type") in ("message", *CALLS)
        if is_ours and (code := reason_code(ending)):
            yield code, pointer(at, "status"), ending


def _misshapen(output: object) -> Iterator[Issue]:
    if not isinstance(output, list):
        expected = "an array of items as output"
        found = quote(output)
        yield Issue.of(Code.ENVELOPE_MALFORMED, "/output", expected=expected, found=found)
        return

    for index, item in enumerate(output):
        at = pointer("/output", index)
        kind = peek(item, "type")
        if not isinstance(item, dict) or not isinstance(kind, str) or not kind.strip():
            expected = "an item with a type"
            yield Issue.of(Code.ENVELOPE_MALFORMED, at, expected=expected, found=quote(item))
        elif kind == "message":
            yield from _misshapen_message(item, at)


def _misshapen_message(item: JSONObject, at: str) -> Iterator[Issue]:
    if item.get("role") not in ("assistant", None):
        yield Issue.of(Code.REPLY_ROLE, pointer(at, "role"), found=quote(item["role"]))

    content = item.get("content")
    if isinstance(content, str):
        where = pointer(at, "content")
        expected = "the parts of the message in an array"
        yield Issue.of(Code.ENVELOPE_MALFORMED, where, expected=expected, found=quote(content))
    elif not isinstance(content, list | None):
        yield Issue.of(Code.REPLY_CONTENT, pointer(at, "content"), found=quote(content))

    for index, part in enumerate(content if isinstance(content, list) else ()):
        text = peek(part, "refusal" if peek(part, "type") == "refusal" else "text")
        if peek(part, "type") not in (*TEXTS, "refusal") or not isinstance(text, str | None):
            yield Issue.of(Code.REPLY_CONTENT, pointer(at, "content", index), found=quote(part))


RESPONSES = Wire(
    name="responses",
    path="responses",
    usage=UsageNames("input_tokens", "output_tokens", "total_tokens"),
    conversation="input",
    limits=partial(limits_in, names=(LIMIT,)),
    additions=_ADDITIONS,
    read=_read_request,
    written=_written_request,
    undemanding=undemanding,
    recognises=is_response,
    is_whole=_is_whole,
    opened=_opened,
    draft_in=_draft_in,
    with_draft=_with_draft,
    turn=_turn,
    counted=_counted,
    replay=MESSAGES,
    reasons=_reasons,
    reader=EventReader,
    read_event=read_event,
    assembly=ResponsesAssembly,
    sent=ResponsesSent,
    event_bytes=typed_event,
    storing=RESPONSES_KEPT,
    reply_at="/output",
    end_bytes=b"",
)
"""The wire of ``POST /responses``."""
