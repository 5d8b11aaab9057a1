"""How a request says what its reply must be, and how a bad reply is replayed in it.

What a provider added for itself (reasoning, thought signatures) goes back as it came: servers
refuse a turn without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import count, islice

from strictreply.contract._answer import Answer
from strictreply.contract._channels import (
    admits_answer,
    answer_instructions,
    final_answer_definition,
    instructions,
    response_format,
    union_schema,
)
from strictreply.contract._contract import Contract
from strictreply.contract._definitions import Definitions
from strictreply.contract._judge import MAX_FAULTY_CALLS
from strictreply.reading._decoding import decode
from strictreply.retry._scoping import Scope, part_words
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.values._replies import Invalid
from strictreply.wires._dialects import text_in, thoughts_in
from strictreply.wires._members import ids_in, peek
from strictreply.wires._wire import Wire

MAX_REPLAY_CHARS = 8_000
"""How much of what a model wrote is shown to it again."""

_INSTRUCTION_ROLES = ("system", "developer")
_NOT_RUN = "Not run: the reply was not valid."
_KEPT = "Valid, and kept as it is."
_EMPTY = "(an empty reply)"
_OURS = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "audio", "parsed"})
"""The members of a message that are written anew, or that no server takes back as they came."""

_API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# with base64: LiteLLM keeps Gemini's signatures in ids (litellm#16895)
_SAFE_ID = re.compile(r"[A-Za-z0-9_.:|/+=-]+")


def narrowed(
    contract: Contract,
    base: JSONObject,
    scope: Scope | None,
    unwanted: frozenset[str],
    *,
    cached: bool,
    wire: Wire,
) -> tuple[JSONObject, frozenset[str]]:
    """Make the request that asks for a scope alone, or for the whole reply.

    Return it and what we added.
    """
    native = contract.channel == "native"

    if scope is not None and not cached:
        if native:
            # forced calls are all that is wanted, or an answer by a schema of its own
            base = {name: value for name, value in base.items() if name != "response_format"}

        narrow = contract_for(contract, scope, base["messages"])
        return dressed(narrow, base, unwanted, wire, scope, is_own=narrow.choice == contract.choice)

    request, added = dressed(contract, base, unwanted, wire, None)
    if scope is None or not native or "tool_choice" in unwanted:
        return request, added

    if scope.only:
        choice = _named(contract, scope.tools[0])
    else:
        choice = _allowed(contract, "required", dict.fromkeys(scope.tools))

    return request | {"tool_choice": choice}, added | {"tool_choice"}


def contract_for(contract: Contract, scope: Scope, messages: list[Message]) -> Contract:
    """Return the contract whose request asks for a scope alone.

    It is the same one in the text channel, where the instructions ask for the scope.
    """
    if contract.channel == "text":
        return contract

    schema = None if scope.part is None else scope.part.schema

    if scope.calls:
        narrow = contract.only(*scope.tools)
        if schema is None:
            return narrow

        return narrow.replace(tools=(replace(narrow.tools[0], parameters=schema),))

    # some APIs refuse a conversation with calls in it where no tools are sent
    tools = contract.tools if ids_in(messages) else ()
    answer = Answer(schema, name=contract.answer.name)
    return contract.replace(tools=tools, choice="none", answer=answer)


def _allowed(contract: Contract, mode: str, names: Iterable[str]) -> JSONObject:
    listed: list[JSON] = [_named(contract, name) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": listed}}


def dressed(
    contract: Contract,
    base: JSONObject,
    unwanted: frozenset[str],
    wire: Wire,
    scope: Scope | None,
    is_own: bool = True,
) -> tuple[JSONObject, frozenset[str]]:
    """Put a contract into a request, by its channel; return the request and our additions.

    ``is_own``: the contract has the caller's own choice of tools.
    """
    # the usage of a stream is asked for: an attempt has it like any other
    is_asked = base.get("stream_options") is not None or "stream_options" in unwanted
    ours: JSONObject = deepcopy(wire.streamed) if base.get("stream") and not is_asked else {}

    if contract.channel == "text":
        return _text_request(contract, base, scope) | ours, frozenset(ours)

    request = {**base}
    definitions = _definitions(contract)
    if definitions:
        request["tools"] = definitions
        _choose(request, ours, contract, is_own=is_own, scope=scope)
    else:
        request.pop("parallel_tool_calls", None)

    structured = contract.answer.schema is not None and contract.answer_style == "union"
    if structured and admits_answer(contract) and "response_format" not in request:
        ours["response_format"] = response_format(contract)

    added = frozenset(ours) - unwanted
    if "response_format" in ours and "response_format" not in added:
        request["messages"] = instructed(base["messages"], answer_instructions(contract))

    return request | {name: ours[name] for name in ours if name in added}, added


def _choose(
    request: JSONObject, ours: JSONObject, contract: Contract, *, is_own: bool, scope: Scope | None
) -> None:
    """Add the choice of tools to a request, or to ``ours`` where the caller has none."""
    said = is_own and (contract.choice != "auto" or bool(contract.offered))
    (request if said else ours).update(_choice(contract))

    # true is the API's own default, and said only where several calls are retried
    several = scope is not None and len(scope.calls) > 1
    if "parallel_tool_calls" not in request and (several or not contract.parallel):
        ours["parallel_tool_calls"] = contract.parallel


def _text_request(contract: Contract, base: JSONObject, scope: Scope | None) -> JSONObject:
    schema: JSON = union_schema(contract)
    words = instructions(contract)

    if scope is not None and scope.part is not None:
        schema = scope.part.schema.shown
        tool = scope.name if scope.calls else None
        wanted = part_words(tool, scope.place, wrapped=scope.part.wrapped)
        words = instructions(contract, f"only {wanted}", schema)

    request = base | {"messages": instructed(base["messages"], words)}

    if peek(base.get("response_format"), "type") == "json_schema":
        # the schema of what is asked for: the caller's bare schema would refuse that
        format_ = {"name": "reply", "schema": schema}
        request["response_format"] = {"type": "json_schema", "json_schema": format_}

    request.pop("parallel_tool_calls", None)  # there are no tools in this request
    return request


def _definitions(contract: Contract) -> Definitions:
    if contract.answer_style == "union":
        return Definitions(tool.definition for tool in contract.offered or contract.tools)

    tools = () if contract.choice == "none" else contract.tools
    declared = Definitions(tool.definition for tool in tools)
    if admits_answer(contract):
        declared.append(final_answer_definition(contract))

    return declared


def _choice(contract: Contract) -> JSONObject:
    """Return the keyword ``tool_choice``.

    Nothing for ``auto``, which is the API's own default. An answer by tool is a call, and calls are
    required then.
    """
    choice = contract.choice
    is_union = contract.answer_style == "union"

    if choice in {"auto", "none"} and contract.answer_style == "tool":
        return {"tool_choice": "required"}

    if contract.offered and is_union and choice in {"auto", "required"}:
        names = [tool.name for tool in contract.tools]
        return {"tool_choice": _allowed(contract, choice, names)}

    if choice == "auto":
        return {}
    if choice in {"required", "none"}:
        return {"tool_choice": choice}

    return {"tool_choice": _named(contract, choice)}


def _named(contract: Contract, name: str) -> JSONObject:
    tool = contract.by_name.get(name)
    kind = "function" if tool is None or tool.custom is None else "custom"
    return {"type": kind, kind: {"name": name}}


def instructed(messages: list[Message], text: str) -> list[Message]:
    """Set our instructions behind the caller's own, in the same turn.

    Many templates take only one such turn, and only as the first.
    """
    first = messages[0] if messages else None
    if not isinstance(first, Mapping) or first.get("role") not in _INSTRUCTION_ROLES:
        return [{"role": "system", "content": text}, *messages]

    content = peek(first, "content")
    if isinstance(content, str) or not content:
        return [{**first, "content": f"{content}\n\n{text}" if content else text}, *messages[1:]]

    parts = list(content) if isinstance(content, Iterable) else [content]
    return [{**first, "content": [*parts, {"type": "text", "text": text}]}, *messages[1:]]


def replayed(
    contract: Contract,
    message: JSONObject,
    words: Sequence[str],
    scope: Scope | None,
    taken: Container[str] = (),
    human: str | None = None,
) -> list[Message]:
    """Return the bad reply as the assistant's turn, and the turns with its correction.

    The ``words`` answer the calls of the scope, one by one, or are the user's turn; so are those of
    a ``human``, where there are any. ``taken`` are the ids of the calls before.
    """
    said = {"role": "user", "content": "\n".join(words) if human is None else human}

    if _replayable(contract, message):
        ids = _ids(message["tool_calls"], taken, contract.limits.id_bytes)
        if human is None:
            return _native_replay(message, ids, words, scope)

        unsaid = [_NOT_RUN] * (1 if scope is None else len(scope.calls))
        return [*_native_replay(message, ids, unsaid, scope), said]

    content = _content(message, _text_of(message) or _EMPTY)
    turn = {"role": "assistant", "content": content, **_state(message, _OURS)}
    return [turn, said]


def _ids(calls: list[JSONObject], taken: Container[str], most: int) -> list[str]:
    """Return the ids of calls.

    All are our own where one is taken, comes twice, or is not one that every server takes.
    """
    ids = [id_ if isinstance(id_ := call.get("id"), str) else "" for call in calls]
    is_kept = all(len(id_) <= most and _SAFE_ID.fullmatch(id_) and id_ not in taken for id_ in ids)
    if is_kept and len(set(ids)) == len(ids):
        return ids

    # the nine letters and digits that the strictest servers take (Mistral's templates)
    numbered = (f"call{number:05}" for number in count(1))
    free = (id_ for id_ in numbered if id_ not in taken)
    return list(islice(free, len(ids)))


def encodable(turns: list[Message]) -> list[Message]:
    """Return turns that a request can carry.

    Half a surrogate pair in what a model wrote becomes ``?``.
    """
    written = json.dumps(turns, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode(errors="replace"))  # type: ignore[no-any-return]

    return turns


def _replayable(contract: Contract, message: JSONObject) -> bool:
    """Return whether servers take the calls back in a history.

    They do when the names are allowed and the arguments are JSON objects.
    """
    calls = message.get("tool_calls")
    if contract.channel != "native" or not isinstance(calls, list) or not calls:
        return False
    if not all(isinstance(call, dict) and _well_formed(contract, call) for call in calls):
        return False

    # long ones are replayed only where they carry what a provider wants back
    return len(_text_of(message)) <= MAX_REPLAY_CHARS or any(_state_of_call(call) for call in calls)


def _well_formed(contract: Contract, call: JSONObject) -> bool:
    if call.get("type") == "custom":
        return all(isinstance(peek(call.get("custom"), name), str) for name in ("name", "input"))

    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False

    name = function.get("name")
    if not isinstance(name, str) or not (name in contract.by_name or _API_NAME.fullmatch(name)):
        return False

    # chat templates parse the arguments again
    return function["arguments"] == "" or isinstance(decode(function["arguments"]), dict)


def _native_replay(
    message: JSONObject, ids: list[str], words: Sequence[str], scope: Scope | None
) -> list[Message]:
    calls = message["tool_calls"]
    answered = [len(calls) - 1] if scope is None else [call.index for call in scope.calls]
    told = dict(zip(answered, words, strict=True))
    # behind so many faulty calls none is read
    seen = answered[-1] if len(answered) >= MAX_FAULTY_CALLS else len(calls)

    assistant: JSONObject = {
        "role": "assistant",
        "content": _content(message, text_in(message.get("content"))),
        "tool_calls": [_call(call, id_) for call, id_ in zip(calls, ids, strict=True)],
        **_state(message, _OURS),
    }

    turns: list[Message] = [assistant]
    for index, id_ in enumerate(ids):
        beside = _NOT_RUN if scope is None or index > seen else _KEPT
        content = told.get(index, beside)
        turns.append({"role": "tool", "tool_call_id": id_, "content": content})

    return turns


def _call(call: JSONObject, id_: str) -> JSONObject:
    if call["type"] == "custom":
        return call | {"id": id_}

    function = call["function"]
    written = {"name": function["name"], "arguments": function["arguments"] or "{}"}

    return {
        "id": id_,
        "type": "function",
        "function": written | _state(function, written),
        **_state_of_call(call),
    }


def _state_of_call(call: JSONObject) -> JSONObject:
    return _state(call, ("id", "type", "function", "custom", "index"))


def _state(holder: JSONObject, ours: Container[str]) -> JSONObject:
    theirs = {name: value for name, value in holder.items() if name not in ours}
    return {name: value for name, value in theirs.items() if value not in (None, [], {})}


def _content(message: JSONObject, text: str | None) -> str | list[JSONObject] | None:
    """Return the content of the turn: the text within the cap, behind the thoughts beside it.

    None when there is neither.
    """
    if text is not None and len(text) > MAX_REPLAY_CHARS:
        text = text[:MAX_REPLAY_CHARS] + "…"

    thoughts = thoughts_in(message.get("content"))
    if not thoughts:
        return text or None

    if text:
        thoughts.append({"type": "text", "text": text})

    return thoughts


def _text_of(message: JSONObject) -> str:
    """Return what the model itself wrote: its text, and of its calls the names and arguments."""
    content = text_in(message.get("content"))
    parts = [content] if content else []

    calls = message.get("tool_calls")
    if calls:
        bare = list(map(_bare, calls)) if isinstance(calls, list) else calls
        parts.append(json.dumps(bare))

    return "\n".join(parts)


def words_of(message: JSONObject) -> str:
    """Return what the model itself wrote, so that equal replies are equal.

    It does not matter how its JSON was spelled and how its calls were numbered.
    """
    texts: list[tuple[object, object]] = [("", text_in(message.get("content")))]

    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = peek(call, "function")
        texts.append((peek(function, "name"), peek(function, "arguments")))

    return json.dumps([(name, _read(text)) for name, text in texts])


def _read(text: object) -> object:
    """Return what a JSON text says; a text that is not JSON, and what is not a text, as it is."""
    value = decode(text) if isinstance(text, str) else text
    return text if isinstance(value, Invalid) else value


def _bare(call: object) -> object:
    function = peek(call, "function")
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call

    written = {name: function[name] for name in ("name", "arguments") if name in function}
    return {"type": call.get("type"), "function": written}
