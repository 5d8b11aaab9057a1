"""Replaying a bad reply to the model: as the assistant's turn, with the correction where the API wants it.

What the model wrote is in its own turn only, and capped. Calls are replayed natively when servers will take them back,
else as text. What a provider added for itself (reasoning, thought signatures) goes back as it came, whatever its
length: servers that think in tool loops refuse a turn without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence

from strictreply.contract._contract import Contract
from strictreply.contract._judge import MAX_FAULTY_CALLS
from strictreply.reading._decoding import decode
from strictreply.retry._scoping import Scope
from strictreply.values._json import JSONObject, Message
from strictreply.values._replies import Invalid
from strictreply.wires._dialects import text_in, thoughts_in
from strictreply.wires._opening import peek

MAX_REPLAY_CHARS = 8_000
_NOT_RUN = "Not run: the reply was not valid."
_KEPT = "Valid, and kept as it is."
_EMPTY = "(an empty reply)"
_OURS = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "audio", "parsed"})
"""The members of a message that are written anew, or that no server takes back as they came."""

_API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SAFE_ID = re.compile(r"[A-Za-z0-9_.:|/+=-]+")  # with base64: LiteLLM keeps Gemini's signatures in ids (litellm#16895)


def replayed(
    contract: Contract,
    message: JSONObject,
    words: Sequence[str],
    scope: Scope | None,
    taken: Container[str] = (),
    human: str | None = None,
) -> list[Message]:
    """Return the bad reply as the assistant's turn, and the words of its correction where the API wants them.

    There are words for each call of the scope, or for the whole reply; ``human`` is said instead, as the user's turn.
    ``taken`` are the ids of the calls before it.
    """
    calls = message.get("tool_calls")
    if contract.channel == "native" and isinstance(calls, list) and calls and _replayable(contract, message):
        told = words if human is None else [_NOT_RUN] * (1 if scope is None else len(scope.calls))
        turns = _native_replay(message, _replay_ids(contract, calls, taken), told, scope)
        return turns if human is None else [*turns, {"role": "user", "content": human}]
    turn = {"role": "assistant", "content": _content(message, _text_of(message) or _EMPTY), **_state(message, _OURS)}
    return [turn, {"role": "user", "content": "\n".join(words) if human is None else human}]


def encodable(turns: list[Message]) -> list[Message]:
    """Return turns that a request can carry: half a surrogate pair in what a model wrote becomes ``?``."""
    written = json.dumps(turns, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode(errors="replace"))  # type: ignore[no-any-return]
    return turns


def _replayable(contract: Contract, message: JSONObject) -> bool:
    """Return whether servers take the calls back in a history: allowed names, arguments that are JSON objects.

    Long ones are, when they carry what a provider wants back.
    """
    calls = message["tool_calls"]
    if not all(isinstance(call, dict) and _well_formed(contract, call) for call in calls):
        return False
    return len(_text_of(message)) <= MAX_REPLAY_CHARS or any(_state_of_call(call) for call in calls)


def _well_formed(contract: Contract, call: JSONObject) -> bool:
    function = call.get("function")
    if call.get("type") == "custom":
        return all(isinstance(peek(call.get("custom"), name), str) for name in ("name", "input"))
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False
    name = function.get("name")
    if not isinstance(name, str) or not (name in contract.by_name or _API_NAME.fullmatch(name)):
        return False
    # chat templates parse the arguments again
    return function["arguments"] == "" or isinstance(decode(function["arguments"]), dict)


def _native_replay(message: JSONObject, ids: list[str], words: Sequence[str], scope: Scope | None) -> list[Message]:
    """Replay native calls, with a tool turn for each, as the API demands."""
    calls = message["tool_calls"]
    answered = [len(calls) - 1] if scope is None else [call.index for call in scope.calls]
    told = dict(zip(answered, words, strict=True))
    seen = answered[-1] if len(answered) >= MAX_FAULTY_CALLS else len(calls)  # behind so many faulty calls none is read
    assistant: JSONObject = {
        "role": "assistant",
        "content": _content(message, text_in(message.get("content"))),
        "tool_calls": [_call(call, id_) for call, id_ in zip(calls, ids, strict=True)],
        **_state(message, _OURS),
    }
    return [
        assistant,
        *(
            {
                "role": "tool",
                "tool_call_id": id_,
                "content": told.get(index, _NOT_RUN if scope is None or index > seen else _KEPT),
            }
            for index, id_ in enumerate(ids)
        ),
    ]


def _replay_ids(contract: Contract, calls: list[JSONObject], taken: Container[str]) -> list[str]:
    """Return the ids of the calls, and ids of our own where one may hold anything, repeats, or is taken.

    Those have the nine letters and digits that the strictest servers take (Mistral's templates).
    """
    ids = [id_ if isinstance(id_ := call.get("id"), str) else "" for call in calls]
    most = contract.limits.id_bytes
    kept = all(len(id_) <= most and _SAFE_ID.fullmatch(id_) and id_ not in taken for id_ in ids)
    return ids if kept and len(set(ids)) == len(ids) else [f"call{number:05}" for number in range(1, len(ids) + 1)]


def _call(call: JSONObject, id_: str) -> JSONObject:
    if call["type"] == "custom":
        return call | {"id": id_}
    function = call["function"]
    written = {"name": function["name"], "arguments": function["arguments"] or "{}"}
    return {"id": id_, "type": "function", "function": written | _state(function, written), **_state_of_call(call)}


def _state_of_call(call: JSONObject) -> JSONObject:
    return _state(call, ("id", "type", "function", "custom", "index"))


def _state(holder: JSONObject, ours: Container[str]) -> JSONObject:
    """Return the members that a provider added for itself, but those that hold nothing."""
    return {name: value for name, value in holder.items() if name not in ours and value not in (None, [], {})}


def _content(message: JSONObject, text: str | None) -> str | list[JSONObject] | None:
    """Return the content of the turn: the text within the cap, behind the thoughts that it came with."""
    thoughts = thoughts_in(message.get("content"))
    shown = text if text is None or len(text) <= MAX_REPLAY_CHARS else text[:MAX_REPLAY_CHARS] + "…"
    # an empty reply is shown in our words: chat templates want the roles to alternate, and no turn without text
    return [*thoughts, *([{"type": "text", "text": shown}] if shown else [])] if thoughts else shown or None


def _text_of(message: JSONObject) -> str:
    """Return what the model itself wrote: its text, and of its calls the names and arguments."""
    content, calls = text_in(message.get("content")), message.get("tool_calls")
    parts = [content] if content else []
    bare = list(map(_bare, calls)) if isinstance(calls, list) else calls
    return "\n".join([*parts, json.dumps(bare)] if calls else parts)


def words_of(message: JSONObject) -> str:
    """Return what the model itself wrote, however its JSON was spelled and its calls were numbered."""
    calls = message.get("tool_calls")
    functions = [peek(call, "function") for call in calls] if isinstance(calls, list) else []
    texts = [(peek(function, "name"), peek(function, "arguments")) for function in functions]
    return json.dumps([(name, _plainly(text)) for name, text in (("", text_in(message.get("content"))), *texts)])


def _plainly(text: object) -> object:
    value = decode(text) if isinstance(text, str) else text
    return text if isinstance(value, Invalid) else value


def _bare(call: object) -> object:
    function = peek(call, "function")
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    written = {name: function[name] for name in ("name", "arguments") if name in function}
    return {"type": call.get("type"), "function": written}
