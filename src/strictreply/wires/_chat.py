"""The chat completions API.

The module reads its responses, rejects bad endings, and writes fixed messages back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from strictreply.values._drafts import Draft
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.values._replies import OUR_NAMES, Invalid
from strictreply.values._requests import STRICT, Request
from strictreply.wires._chat_chunks import ChatSent
from strictreply.wires._chat_heads import COMPLETION, headed, is_headed, made_head
from strictreply.wires._chat_stream import ChatAssembly
from strictreply.wires._dialects import NeedsNothing, in_api_form, is_blank
from strictreply.wires._endings import error_code, error_in, reason_code, refused, word_of, worst_of
from strictreply.wires._error_forms import error_beside
from strictreply.wires._members import peek
from strictreply.wires._messages import MESSAGES, draft_of, message_of
from strictreply.wires._requests import LIMITS, keywords_of, limits_in, request_of, undemanding
from strictreply.wires._server_events import DONE, EventReader, event
from strictreply.wires._stored_replies import COMPLETIONS
from strictreply.wires._stream_chunks import read_event
from strictreply.wires._wire import PROMISING, Opened, Wire

_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "refusal", "function_call"})
_ORDINARY = ("stop", "tool_calls")
"""The finish reasons of an ordinary end."""

_SAYING = frozenset({"error", "native_finish_reason", "provider_specific_fields", "base_resp"})
"""The members with more details on an end."""


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
    "response_format": (
        "response format",
        "json schema",
        "structured output",
        "response mime type",
        "json mode",
    ),
    "stream_options": ("stream options", "include usage"),
}
"""Our additions that endpoints reject, with the words by which they do.

OpenAI's o1 and o3-mini and older Azure deployments reject ``parallel_tool_calls``, DeepSeek and
Qwen in thinking mode a forced ``tool_choice``, servers without constrained decoding a
``response_format``. Gemini and Groq reject that next to tools, in their own words
(openai/openai-agents-python#656, vercel/ai#16540).
"""

_DECLARED = ("function", "custom")
"""The types of tools that a program declares; any other type is a tool of the API."""


def _read_request(request: JSONObject) -> Request:
    return request_of(read_tools(request))


def read_tools(request: JSONObject) -> JSONObject:
    """Return a request without the API's own tools.

    They are moved to ``server_tools``, each with its place, and a choice that they may answer to
    ``server_choice``.
    """
    tools = request.get("tools")
    if not isinstance(tools, list | tuple) or not any(map(_is_server_tool, tools)):
        return request

    read = {**request, "tools": [tool for tool in tools if not _is_server_tool(tool)]}
    read["server_tools"] = [(at, tool) for at, tool in enumerate(tools) if _is_server_tool(tool)]
    choice = request.get("tool_choice")
    names_one = isinstance(choice, Mapping) and choice.get("type") not in (
        *_DECLARED,
        "allowed_tools",
    )
    if choice == "required" or names_one:
        read["server_choice"] = read.pop("tool_choice")

    return read


def _is_completion(value: object) -> bool:
    """Return whether a value is a completion, or a message that is not of Anthropic's API."""
    is_own = peek(value, "stop_reason") is None
    return peek(value, "choices") is not None or (is_own and is_message(value))


def _is_whole(source: object) -> bool:
    return isinstance(source, Mapping) or hasattr(source, "choices")


def _is_server_tool(tool: object) -> bool:
    kind = peek(tool, "type")
    return isinstance(kind, str) and kind not in _DECLARED


def _written_request(request: Request) -> JSONObject:
    return _written_tools(keywords_of(request))


def _written_tools(request: JSONObject) -> JSONObject:
    """Return a request in the form to send, with the API's own tools at their places."""
    if "server_tools" not in request:
        return request

    ours = ("server_tools", "server_choice")
    written = {name: value for name, value in request.items() if name not in ours}
    tools = list(request.get("tools") or ())
    for at, tool in request["server_tools"]:
        tools.insert(at, tool)

    written["tools"] = tools
    if "server_choice" in request and "tool_choice" not in request:
        written["tool_choice"] = request["server_choice"]

    return written


def _message_in(response: JSON) -> JSONObject | None:
    choices = peek(response, "choices")
    message = peek(choices[0], "message") if isinstance(choices, list) and choices else None
    return message if isinstance(message, dict) else None


def _draft_in(response: JSON) -> Draft | None:
    message = _message_in(response)
    return draft_of(message) if message else None


def _with_draft(response: JSONObject, draft: Draft) -> JSONObject:
    message = message_of(draft)
    choices: Any = response["choices"]
    choice = {"index": 0, **choices[0], "message": message}
    reason = choice.get("finish_reason") or "stop"
    choice["finish_reason"] = "tool_calls" if message.get("tool_calls") else reason

    return {**response, "choices": [choice]}


def _turn(draft: Draft, _response: JSONObject) -> Message:
    return message_of(draft)


def _completed(response: JSONObject, model: object) -> JSONObject:
    """Return an accepted completion with all members of the API around its message.

    It is the same object if none was missing. ``model`` is the model of the request.
    """
    (choice,) = response["choices"]
    read = choice
    if not _counts_from_0(choice):
        read = read | {"index": 0}
    if choice.get("finish_reason") is False or is_blank(choice.get("finish_reason")):
        calls = peek(choice.get("message"), "tool_calls")
        read = read | {"finish_reason": "tool_calls" if calls else "stop"}

    if is_headed(response, COMPLETION):
        return response if read is choice else response | {"choices": [read]}

    return headed(response, COMPLETION, made_head(model)) | {"choices": [read]}


def _finish_reasons(response: JSON) -> list[str]:
    choices = peek(response, "choices")
    said = [peek(one, "finish_reason") for one in choices] if isinstance(choices, list) else []
    return [one for one in said if isinstance(one, str)]


def open_envelope(response: object, needs_nothing: NeedsNothing | None = None) -> Opened | Invalid:
    """Return the one message to judge, or the issues if there is none.

    With ``needs_nothing`` None no deviation is accepted.
    """
    if is_message(response):
        return _open_message(None, None, response, needs_nothing)

    if response is None or isinstance(response, str | bytes | int | float | list | tuple):
        return refused(Code.ENVELOPE_MALFORMED, "", expected="an object", found=quote(response))

    choices = peek(response, "choices")
    if isinstance(choices, list | tuple) and len(choices) == 1:
        return _open_message(response, choices[0], peek(choices[0], "message"), needs_nothing)

    error = error_in(response)
    if error:
        at = "/error" if peek(response, "error") else ""
        return refused(error_code(error), at, found=quote(peek(error, "message") or error))

    return refused(Code.ENVELOPE_CHOICES, "/choices", found=quote(choices))


def is_message(value: object) -> bool:
    """Return whether a value is a message and not a response.

    A message has a role, content or calls, and no choices.
    """
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return False

    if type(value) is dict or isinstance(value, Mapping):  # only the first is fast
        if "choices" in value or "error" in value:
            return False

        return not value.keys().isdisjoint(_MESSAGE_KEYS)

    return not hasattr(value, "choices") and any(hasattr(value, name) for name in _MESSAGE_KEYS)


def _open_message(
    response: object, choice: object, message: object, needs_nothing: NeedsNothing | None
) -> Opened | Invalid:
    """Open the message of a choice.

    A message that ended badly is rejected, whatever it contains, and even if it is missing.
    """
    plainly = ends_plainly(response, choice, message)
    ending = None if plainly else _bad_ending(response, choice, message)
    if ending is not None:
        return Invalid((ending,))

    if not is_message(message):
        at = "/choices/0/message"
        expected = "an object with an assistant message"
        return refused(Code.ENVELOPE_MALFORMED, at, expected=expected, found=quote(message))

    reasons = [peek(choice, "finish_reason")]
    if needs_nothing is not None and (reasons[0] is False or is_blank(reasons[0])):
        reasons = [None]
    if not isinstance(reasons[0], str | None):
        at = "/choices/0/finish_reason"
        expected = "a string as finish_reason"
        return refused(Code.ENVELOPE_MALFORMED, at, expected=expected)

    is_bare = choice is None
    read = message
    lenient: tuple[str, ...] = ()
    if needs_nothing is not None:
        read, lenient = in_api_form(message, needs_nothing, bare=is_bare)

    role = peek(read, "role")
    # a bare message need not have a role
    if role != "assistant" and not (role is None and is_bare):
        return refused(Code.REPLY_ROLE, "/role", found=quote(role))

    if not plainly:
        reasons = [said for _, said in _reasons(choice, message)]

    words = {word_of(said) for said in reasons if isinstance(said, str)}
    return Opened(
        draft_of(read, message),
        not PROMISING.isdisjoint(words),
        lenient,
        is_exact=read is message,
        is_bare=is_bare,
        medium="audio" if peek(message, "audio") else "",
    )


def _rows_around(response: JSON) -> tuple[str, ...]:
    """Return the rows of ``ENVELOPE_DIALECTS`` that are needed.

    None are if a response is not a completion.
    """
    if _message_in(response) is None:
        return ()

    choices: Any = peek(response, "choices")
    if len(choices) != 1:
        return ()

    rows = () if is_headed(response, COMPLETION) else ("head_missing",)
    return rows if _counts_from_0(choices[0]) else (*rows, "choice_index")


def _counts_from_0(choice: object) -> bool:
    """Return whether the index of a choice is that of an only choice."""
    index = peek(choice, "index")
    return type(index) is int and index == 0


def ends_plainly(response: Any, choice: Any, message: Any) -> bool:
    """Return whether a response reports only an ordinary ``finish_reason`` as its end.

    This is the common case, and checked fast.
    """
    return (
        type(response) is type(choice) is type(message) is dict
        and choice.get("finish_reason") in _ORDINARY
        and not message.get("refusal")
        and all(map(_SAYING.isdisjoint, (response, choice, message)))
    )


def _bad_ending(response: object, choice: object, message: object) -> Issue | None:
    errors = [
        ("/error", peek(response, "error")),
        ("/base_resp", error_beside(response)),
        ("/choices/0/error", peek(choice, "error")),
    ]
    for at, fields in _vendor_fields(choice, message):
        errors.append((f"{at}/error", peek(fields, "error")))

    refusal = peek(message, "refusal")
    found: list[tuple[Code, str, object]] = []
    if refusal:
        found.append((Code.REPLY_REFUSAL, "/refusal", refusal))
    found += [(error_code(error), at, error) for at, error in errors if error]

    for at, reason in _reasons(choice, message):
        code = reason_code(reason)
        if code is not None:
            found.append((code, at, reason))

    return worst_of(found)


def _reasons(choice: object, message: object) -> Iterator[tuple[str, object]]:
    """Yield each place with a finish reason, as a pointer, and its value."""
    # not vLLM's ``stop_reason``, which is the caller's own stop text (vllm-project/vllm#2976)
    yield "/choices/0/finish_reason", peek(choice, "finish_reason")

    # OpenRouter's; LiteLLM's as well
    yield "/choices/0/native_finish_reason", peek(choice, "native_finish_reason")
    for at, fields in _vendor_fields(choice, message):
        yield f"{at}/native_finish_reason", peek(fields, "native_finish_reason")


def _vendor_fields(choice: object, message: object) -> Iterator[tuple[str, object]]:
    """Yield the provider's own words that LiteLLM keeps on the choice or on the message."""
    for at, holder in (("/choices/0", choice), ("/choices/0/message", message)):
        fields = peek(holder, "provider_specific_fields")
        if fields:
            yield f"{at}/provider_specific_fields", fields


CHAT = Wire(
    name="chat",
    path="chat/completions",
    usage=OUR_NAMES,
    conversation="messages",
    limits=partial(limits_in, names=LIMITS),
    additions=_ADDITIONS,
    read=_read_request,
    written=_written_request,
    undemanding=undemanding,
    recognises=_is_completion,
    is_whole=_is_whole,
    opened=open_envelope,
    draft_in=_draft_in,
    with_draft=_with_draft,
    turn=_turn,
    counted=message_of,
    replay=MESSAGES,
    completed=_completed,
    around=_rows_around,
    reasons=_finish_reasons,
    reader=EventReader,
    read_event=read_event,
    assembly=ChatAssembly,
    sent=ChatSent,
    event_bytes=event,
    storing=COMPLETIONS,
    reply_at="/choices/0/message",
    end_bytes=DONE,
)
"""The wire of ``POST /chat/completions``, whose form is the one that is judged."""
