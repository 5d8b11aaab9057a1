"""Converts messages of chat completions to drafts, and drafts to messages.

The same form is used to read and write the items of the Responses API. Members that a provider
added for itself (reasoning, thought signatures) are sent back unchanged: servers reject a turn
without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import is_
from typing import Any, cast

from strictreply.values._drafts import CALLS_PLACE, Answered, Draft, DraftCall, UserInput
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import JSONObject, Message
from strictreply.wires._dialects import object_in, text_in, thoughts_in
from strictreply.wires._members import ids_in, peek
from strictreply.wires._thoughts import any_signed, is_signed, with_thoughts_of
from strictreply.wires._wire import Replay

_KINDS = frozenset({"function", "custom"})
_OURS = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "audio", "parsed"})
"""The members of a message that are written anew, or that no server accepts back unchanged."""

_OF_A_CALL = ("id", "type", "function", "custom", "index")

# no provider needs other members of a message or a call back
_PLAIN_MESSAGE = frozenset(
    {"role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call"}
)
_PLAIN_CALL = frozenset(_OF_A_CALL)


def draft_of(message: object, came: object = None) -> Draft:
    """Return the draft for a message, a mapping or an SDK object.

    ``came`` is the message before deviations of its server were corrected, None if it is the same:
    it has the thoughts at their original places.
    """
    get: Callable[[str], Any] = partial(peek, message)
    if type(message) is dict:  # the common case, and fast
        held: JSONObject = message
        get = held.get

    calls = get("tool_calls")
    content = get("content")
    is_text = content is None or isinstance(content, str)
    text: Any = content if is_text else text_in(content)
    other = None if is_text else content

    source = message
    if came is not None and came is not message and thoughts_in(peek(came, "content")):
        source = {**(object_in(message) or {}), "content": peek(came, "content")}

    fault = _fault_of(get("function_call"), calls)
    listed = tuple(map(_call_of, calls)) if isinstance(calls, list | tuple) else ()
    return Draft(text, listed, get("refusal"), other, fault, source)


def _call_of(call: Any) -> DraftCall:
    if type(call) is dict and call.get("type") == "function":  # the common case
        function = call.get("function")
        if type(function) is dict:
            return DraftCall(
                function.get("name"),
                function.get("arguments"),
                call.get("id"),
                namespace=call.get("namespace"),
                source=call,
            )

    kind = peek(call, "type")
    body = peek(call, kind) if isinstance(kind, str) and kind in _KINDS else None
    is_whole = body is not None
    if body is None:
        body = peek(call, "function")

    is_text = kind == "custom"
    return DraftCall(
        peek(body, "name"),
        peek(body, "input" if is_text else "arguments"),
        peek(call, "id"),
        is_text,
        is_whole,
        peek(call, "namespace"),
        call,
    )


def _fault_of(call: object, calls: object) -> Issue | None:
    """Return the issue of calls that do not fit into a draft; ``call`` is the legacy member."""
    if call:
        return Issue.of(Code.CALL_MALFORMED, "/function_call", expected="in tool_calls")
    if calls is None or isinstance(calls, list | tuple):
        return None

    return Issue.of(Code.CALL_MALFORMED, CALLS_PLACE, expected="in an array", found=quote(calls))


def message_of(draft: Draft) -> JSONObject:
    """Return a draft as a message: the original one if nothing was changed in it."""
    if draft.source is None:
        return _made(draft)

    message = object_in(draft.source) or {}
    content = message.get("content")
    if draft.other is None and draft.text != text_in(content):
        message = {**message, "content": _with_text(content, draft.text)}

    calls = list(map(_written_call, draft.calls))
    given = message.get("tool_calls")
    listed: list[Any] = list(given) if isinstance(given, list | tuple) else []
    is_same = len(listed) == len(calls) and all(map(is_, calls, listed))
    return message if is_same else {**message, "tool_calls": calls}


def plain_message(draft: Draft) -> JSONObject:
    """Return a draft as a message whose content is its text without thoughts."""
    message = message_of(draft)
    if draft.other is not None or message.get("content") == draft.text:
        return message

    return {**message, "content": draft.text}


def _made(draft: Draft) -> JSONObject:
    message: JSONObject = {"role": "assistant", "content": draft.text}
    if draft.calls:
        message["tool_calls"] = list(map(_written_call, draft.calls))

    return message


def _with_text(content: object, text: str | None) -> object:
    """Return a content with another text after its thoughts."""
    thoughts = thoughts_in(content)
    return [*thoughts, {"type": "text", "text": text}] if thoughts else text


def _written_call(call: DraftCall) -> object:
    """Return a call in the form of a message: the original one if nothing was changed in it."""
    source: Any = call.source
    if source is None and call.is_whole:
        kind, given = ("custom", "input") if call.is_text else ("function", "arguments")
        return {"id": call.id, "type": kind, kind: {"name": call.name, given: call.arguments}}
    if not isinstance(source, dict) or not call.is_whole:
        return source

    kind = source["type"]
    body: Any = source[kind]
    arguments = "input" if call.is_text else "arguments"
    if peek(body, "name") != call.name or peek(body, arguments) != call.arguments:
        written = {"name": call.name, arguments: call.arguments}
        source = {**source, kind: {**(object_in(body) or {}), **written}}

    return source if source.get("id") == call.id else {**source, "id": call.id}


def has_sealed_calls(draft: Draft) -> bool:
    """Return whether a call contains something that its provider needs back."""
    sources = [call.source for call in draft.calls]
    return any(_beside(one, _OF_A_CALL) for one in sources if isinstance(one, dict))


def is_plain(draft: Draft) -> bool:
    """Return whether a draft has only text and calls, and nothing that a provider needs back."""
    message = draft.source
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | None):
        return False

    sources = [call.source for call in draft.calls]
    calls = [one for one in sources if isinstance(one, dict)]
    return _names_in(message) <= _PLAIN_MESSAGE and all(
        _names_in(call) <= _PLAIN_CALL for call in calls
    )


def _names_in(value: JSONObject) -> set[str]:
    """Return the names of the members that are not empty."""
    return {name for name, member in value.items() if member not in (None, [], {})}


def quoted(draft: Draft) -> str:
    """Return the model's own words: the text, and the names and arguments of the calls."""
    parts = [draft.text] if draft.text else []
    calls = message_of(draft).get("tool_calls")
    if calls:
        bare = list(map(_bare, calls)) if isinstance(calls, list) else calls
        parts.append(json.dumps(bare))

    return "\n".join(parts)


def _bare(call: object) -> object:
    function = peek(call, "function")
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call

    written = {name: function[name] for name in ("name", "arguments") if name in function}
    return {"type": call.get("type"), "function": written}


def turns_of(answered: Answered) -> list[Message]:
    """Return a reply as the assistant's turn, followed by the turns that answer it."""
    draft = answered.draft
    message = object_in(draft.source) or {}
    assistant: JSONObject = {"role": "assistant", "content": _content(message, draft.text)}
    if draft.calls:
        assistant["tool_calls"] = list(map(_replayed_call, draft.calls))

    turns: list[Message] = [assistant | _beside(message, _OURS)]
    turns += results_of(draft.calls, answered.results)
    if answered.words is not None:
        turns.append(user_message(answered.words))

    return turns


def results_of(calls: Sequence[DraftCall], results: Sequence[str]) -> list[Message]:
    """Return the turns with the results of calls, one each."""
    return [
        {"role": "tool", "tool_call_id": call.id, "content": result}
        for call, result in zip(calls, results, strict=True)
    ]


def _replayed_call(call: DraftCall) -> JSONObject:
    if call.is_text:
        return cast("JSONObject", _written_call(call))

    source: Any = call.source or {"function": {}}
    written = {"name": call.name, "arguments": call.arguments or "{}"}
    return {
        "id": call.id,
        "type": "function",
        "function": written | _beside(source["function"], written),
        **_beside(source, _OF_A_CALL),
    }


def _beside(holder: JSONObject, ours: Container[str]) -> JSONObject:
    theirs = {name: value for name, value in holder.items() if name not in ours}
    return {name: value for name, value in theirs.items() if value not in (None, [], {})}


def _content(message: JSONObject, text: str | None) -> str | list[JSONObject] | None:
    """Return the content of the turn: the text after its thoughts.

    None if there is neither.
    """
    thoughts = thoughts_in(message.get("content"))
    if not thoughts:
        return text or None

    if text:
        thoughts.append({"type": "text", "text": text})

    return thoughts


def is_bound(draft: Draft) -> bool:
    """Return whether a draft contains a thought that is bound to everything before it."""
    return is_signed(draft.source)


def with_thoughts(draft: Draft, first: Draft | None) -> Draft:
    """Return a draft with the thoughts of another one instead of its own; None removes them."""
    thoughts = None if first is None else message_of(first)
    return draft_of(with_thoughts_of(message_of(draft), thoughts))


def user_message(text: str) -> Message:
    """Return a user's message with a text."""
    return {"role": "user", "content": text}


def system_message(text: str) -> Message:
    """Return a message with instructions for the model."""
    return {"role": "system", "content": text}


def input_of(message: Message) -> UserInput:
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


def _read_turn(message: Message) -> Draft:
    """Return the reply in an assistant's message, even if its content contains thoughts."""
    draft = draft_of(message)
    return draft if draft.text is None else replace(draft, other=None)


MESSAGES = Replay(
    keyword="messages",
    user=user_message,
    system=system_message,
    heard=input_of,
    written=message_of,
    read=_read_turn,
    turns=turns_of,
    results=results_of,
    quoted=quoted,
    is_plain=is_plain,
    has_sealed_calls=has_sealed_calls,
    is_bound=is_bound,
    are_bound=any_signed,
    ids=ids_in,
    with_thoughts=with_thoughts,
)
"""How a reply is sent back in messages."""
