"""Requests and items of the Responses API, read into messages and written back.

A conversation may have items beside messages of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.wires._opening import peek

AWAITED: Final = frozenset(
    {"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"}
)
"""Calls of the API's own tools that a program has to answer: nothing of ours judges them."""

CALLS: Final = {"function_call": "function", "custom_tool_call": "custom"}
"""The items that are calls of declared tools, and what such a call is in a message."""

TEXTS = ("output_text", "text")
_DECLARED = frozenset({"function", "custom"})
_LIMIT = "max_output_tokens"
_OUR_LIMITS = ("max_completion_tokens", "max_tokens")
_TRANSLATED = ("input", "tools", "tool_choice", "text", _LIMIT)
_ELSEWHERE = (
    *_TRANSLATED,
    "model",
    "stream",
    "parallel_tool_calls",
    "background",
    "store",
    "conversation",
)
"""What is read of a request, also in its ``extra_body``."""

_OURS = frozenset({"messages", "response_format", "server_tools", "server_choice", *_OUR_LIMITS})
"""What this API does not take of a request in the common form."""

_PARTS = frozenset({"text", "image_url", "file"})
"""The parts of a content that chat completions write otherwise."""


def kind_of(item: object) -> str:
    """Return the type of an item, a part or a tool; empty when it has none that can be read."""
    kind = peek(item, "type")
    return kind if isinstance(kind, str) else ""


def _item_kind(call: object) -> str:
    """Return the type of the item that a call of a message is."""
    written = peek(call, "type")
    return next((kind for kind, name in CALLS.items() if name == written), "function_call")


def parts_in(item: object, kinds: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts of a message item that are in parts of these kinds."""
    content = peek(item, "content") if peek(item, "type") == "message" else None
    if isinstance(content, str) and "output_text" in kinds:
        yield content

    for part in content if isinstance(content, list) else ():
        text = peek(part, "refusal" if peek(part, "type") == "refusal" else "text")
        if peek(part, "type") in kinds and isinstance(text, str):
            yield text


def text_of(output: JSON, *, beside_calls: bool = False) -> str | None:
    """Return the text of an output that answers; None when there is none.

    Commentary (``phase``) is not an answer, unless it stands beside calls.
    """
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    told = [item for item in items if beside_calls or item.get("phase") in (None, "final_answer")]
    texts = [text for item in told for text in parts_in(item, TEXTS)]

    return "".join(texts) if texts else None


def rewritten(message: Message, output: list[Any]) -> list[Any]:
    """Return the items of a response as its message says.

    Calls keep their ids and have the message's arguments, and the text is the message's.
    """
    calls = iter(message.get("tool_calls") or ())
    has_calls = bool(message.get("tool_calls"))
    said = message.get("content")
    own = text_of(output, beside_calls=has_calls)
    text = said if own is not None and isinstance(said, str) and said != own else None

    items: list[Any] = []
    for item in output:
        kind = kind_of(item)
        if kind in CALLS and (call := next(calls, None)) is not None:
            done = {"status": "completed"} if "status" in item else {}
            items.append({**item, "call_id": call["id"], **call[CALLS[kind]], **done})
            continue

        is_text = kind == "message" and (has_calls or item.get("phase") in (None, "final_answer"))
        if text is None or not is_text:
            items.append(item)
            continue

        part = {"type": "output_text", "text": text, "annotations": []}
        items.append({**item, "content": [part]})
        text = ""  # what stood in several items stands in the first

    return items


def read_request(request: JSONObject) -> JSONObject:
    """Return the keywords of a request with ``messages``, nested tools and ``response_format``.

    The API's own tools, and a choice of one, stand beside the others (``server_tools``, each with
    its place). Raises ContractError for ``background``, for ``input`` beside ``messages``, and
    where a list is expected and something else is given.
    """
    extra = request.get("extra_body")
    if isinstance(extra, Mapping) and not extra.keys().isdisjoint(_ELSEWHERE):
        said = {name: value for name, value in extra.items() if name in _ELSEWHERE}
        left = {name: extra[name] for name in extra if name not in said}
        request = request | said | {"extra_body": left}

    if request.get("background"):
        raise ContractError(
            "background=True brings no reply that could be judged; make the call without it"
        )

    if request.get("input") is not None and request.get("messages"):
        raise ContractError("give the conversation as input or as messages, not both")

    read = {name: value for name, value in request.items() if name not in _TRANSLATED}
    given = request.get("input")
    if isinstance(given, str):
        read |= {"input": given, "messages": [{"role": "user", "content": given}]}
    elif given is not None:
        read["messages"] = _listed(given, "input must be a text, or a list of items")
    elif "messages" not in request:
        read["messages"] = []

    if request.get(_LIMIT) is not None:
        read[_OUR_LIMITS[0]] = request[_LIMIT]

    return _with_tools(_with_format(read, request.get("text")), request)


def _listed(value: Any, wanted: str) -> list[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ContractError(f"{wanted}, not {type(value).__name__}")

    return list(value)


def _with_format(read: JSONObject, text: Any) -> JSONObject:
    if text is None:
        return read
    if not isinstance(text, Mapping):
        raise ContractError("text must be an object, such as {'format': {…}}")

    beside = {name: text[name] for name in text if name != "format"}
    if beside:
        read["text"] = beside

    wanted = text.get("format")
    if isinstance(wanted, Mapping) and wanted.get("type") == "json_schema":
        described = {name: wanted[name] for name in wanted if name != "type"}
        read["response_format"] = {"type": "json_schema", "json_schema": described}
    elif wanted is not None:
        read["response_format"] = dict(wanted) if isinstance(wanted, Mapping) else wanted

    return read


def _with_tools(read: JSONObject, request: JSONObject) -> JSONObject:
    tools = request.get("tools")
    choice = request.get("tool_choice")

    if tools is not None:
        several = _listed(tools, "tools must be a list of tools")
        places = enumerate(several)
        read["tools"] = [_nested(tool) for tool in several if not _is_server_tool(tool)]
        read["server_tools"] = [(at, tool) for at, tool in places if _is_server_tool(tool)]

    told = peek(choice, "type")
    kind = told if isinstance(told, str) else None
    if kind == "allowed_tools":
        return _allowing(read, dict(choice))  # type: ignore[arg-type]

    if kind in _DECLARED and kind not in choice:  # type: ignore[operator]
        choice = {"type": kind, kind: {"name": peek(choice, "name")}}

    # with the API's own tools alone any of them satisfies a choice of "required"
    is_servers = choice == "required" and bool(read.get("server_tools")) and not read["tools"]
    if is_servers or (kind is not None and kind not in _DECLARED):
        read["server_choice"] = choice
    elif choice is not None:
        read["tool_choice"] = choice

    return read


def _allowing(read: JSONObject, choice: JSONObject) -> JSONObject:
    """Read a choice of allowed tools: those that the API declares are allowed by it alone."""
    named = choice.get("tools")
    listed: list[Any] = list(named) if isinstance(named, list) else []
    ours = [entry for entry in listed if kind_of(entry) in _DECLARED]
    if len(ours) < len(listed) or not ours:
        read["server_choice"] = choice
    if not ours and listed:
        return read | {"tools": []}

    entries = [_nested(entry) for entry in ours]
    allowed = {"mode": choice.get("mode", "auto"), "tools": entries}
    return read | {"tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}


def _is_server_tool(tool: object) -> bool:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return isinstance(kind, str) and kind not in _DECLARED


def _nested(tool: Any) -> Any:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    if not isinstance(kind, str) or kind not in _DECLARED or kind in tool:
        return tool

    within = {name: tool[name] for name in tool if name != "type"}
    if "strict" in within and within["strict"] is None:
        del within["strict"]

    return {"type": kind, kind: within}


def written_request(request: JSONObject) -> JSONObject:
    """Return a request as the API takes it."""
    written = {name: value for name, value in request.items() if name not in _OURS}
    messages = request.get("messages", [])

    if not (isinstance(request.get("input"), str) and len(messages) == 1):
        is_stored = request.get("store") is not False
        is_kept = request.get("conversation") is not None
        written["input"] = list(_items(messages, is_stored=is_stored, is_kept=is_kept))

    if "tools" in request or request.get("server_tools"):
        written["tools"] = _flat_tools(request.get("tools") or [], request.get("server_tools"))

    wanted = request.get("response_format")
    if isinstance(wanted, Mapping):
        inner = wanted.get("json_schema")
        format_ = {"type": "json_schema", **inner} if isinstance(inner, Mapping) else dict(wanted)
        written["text"] = {**(request.get("text") or {}), "format": format_}

    # the first of the limits counts, so it is written last
    for name in reversed(_OUR_LIMITS):
        limit = request.get(name)
        if limit is not None:
            written[_LIMIT] = limit

    choice = _whole_choice(request.get("tool_choice"), request.get("server_choice"))
    if choice is not None:
        written["tool_choice"] = choice

    return written


def _flat_tools(tools: list[Any], server_tools: list[tuple[int, Any]] | None) -> list[Any]:
    """Return all tools, flat, the API's at their places.

    Where there are none of these, the list is of the same class as before, which marks JSON.
    """
    flat = type(tools)(map(_flat, tools))
    whole = list(flat) if server_tools else flat
    for at, tool in server_tools or ():
        whole.insert(at, tool)

    return whole


def _flat(tool: Any) -> Any:
    kind = kind_of(tool)
    inner: Any = peek(tool, kind) if kind in _DECLARED else None
    if inner is None:
        return tool

    return {name: tool[name] for name in tool if name != kind} | inner


def _whole_choice(choice: Any, server_choice: Any) -> Any:
    if choice is None:
        return server_choice

    kind = peek(choice, "type")
    inner: Any = peek(choice, str(kind))
    flat: Any = choice
    if kind in ("allowed_tools", *_DECLARED) and isinstance(inner, Mapping):
        flat = {"type": kind, **inner}
        listed: Any = inner.get("tools")
        if listed is not None:
            flat["tools"] = [_flat(entry) for entry in listed]

    if kind != "allowed_tools" or server_choice is None:
        return flat

    return flat | {"tools": [*flat["tools"], *filter(_is_server_tool, server_choice["tools"])]}


def _items(messages: list[Any], *, is_stored: bool, is_kept: bool) -> Iterator[Any]:
    """Yield the items to send of a conversation.

    Where the server keeps replies, these are only the items behind the last one, and answers to the
    calls of that one which have none.
    """
    listed: list[Any] = [peek(one, "tool_calls") or () for one in messages]
    kinds = {peek(call, "id"): _item_kind(call) for calls in listed for call in calls}
    outputs = [one for one in messages if str(peek(one, "type")).endswith("_output")]
    answered = {peek(one, "tool_call_id") for one in messages if peek(one, "role") == "tool"}
    answered |= {peek(one, "call_id") for one in outputs}

    if is_kept:
        kept = [at for at, one in enumerate(messages) if peek(one, "response") is not None]
        last = kept[-1] if kept else -1
        for item in messages[last]["response"]["output"] if kept else ():
            id_ = peek(item, "call_id")
            if kind_of(item) in CALLS and id_ not in answered:
                yield {"type": f"{item['type']}_output", "call_id": id_, "output": "Not run."}

        messages = messages[last + 1 :]

    for message in messages:
        yield from _items_of(message, kinds, answered, is_stored=is_stored)


def _items_of(
    message: Any, kinds: Mapping[Any, str], answered: set[object], *, is_stored: bool
) -> Iterable[Any]:
    role = message.get("role") if isinstance(message, Mapping) else None
    content: Any = None if role is None else message.get("content")

    if role == "tool":
        kind = kinds.get(message.get("tool_call_id"), "function_call")
        id_ = message.get("tool_call_id")
        return [{"type": f"{kind}_output", "call_id": id_, "output": _content(content, "input")}]

    if role == "assistant" and message.keys() & {"tool_calls", "response"}:
        kept: Any = peek(message.get("response"), "output")
        has_calls = isinstance(kept, list) and any(kind_of(item) in CALLS for item in kept)
        is_whole = isinstance(kept, list) and (bool(message.get("tool_calls")) or not has_calls)

        if not is_whole:
            return _made(message)

        return _sendable(rewritten(message, kept), answered, is_stored=is_stored)

    if isinstance(content, list):
        parts = _content(content, "output" if role == "assistant" else "input")
        return [message if parts is content else {**message, "content": parts}]

    return [message]


def _made(message: Message) -> list[JSONObject]:
    """Return the items of a message that came by another API, or was written by hand."""
    content = message.get("content")
    items = [{"role": "assistant", "content": _content(content, "output")}] if content else []
    for call in message.get("tool_calls") or ():
        kind = _item_kind(call)
        items.append({"type": kind, "call_id": call.get("id"), **call[CALLS[kind]]})

    return items


def _sendable(items: list[Any], answered: set[object], *, is_stored: bool) -> Iterator[Any]:
    """Yield the items of a reply that a server takes back.

    A thought needs what it led to behind it (which else goes without its id), and where nothing is
    stored the server's own writing of it; a call that a program has to answer needs its answer.
    """
    waiting: list[Any] = []
    is_cut = False

    for item in items:
        kind = kind_of(item)
        if kind == "reasoning":
            if is_stored or peek(item, "encrypted_content"):
                waiting.append(item)
            else:
                is_cut = True

            continue

        if kind in AWAITED and peek(item, "call_id") not in answered:
            waiting = []
            is_cut = True
            continue

        yield from waiting
        if is_cut and kind in ("message", *CALLS):
            yield {name: item[name] for name in item if name != "id"}
        else:
            yield item

        waiting = []
        is_cut = False


def _content(content: Any, direction: str) -> Any:
    """Return a content with the parts of chat completions written as this API's.

    It is the same one where it has no such parts.
    """
    has_parts = isinstance(content, list) and any(kind_of(part) in _PARTS for part in content)
    return [_part(part, direction) for part in content] if has_parts else content


def _part(part: Any, direction: str) -> Any:
    kind = peek(part, "type")
    if kind == "text":
        return {"type": f"{direction}_text", "text": part["text"]}

    if kind == "image_url":
        image = part["image_url"]
        told = dict(image) if isinstance(image, Mapping) else {"url": image}
        detail = told.get("detail", "auto")
        return {"type": "input_image", "image_url": told["url"], "detail": detail}

    if kind == "file" and isinstance(part.get("file"), Mapping):
        return {"type": "input_file", **part["file"]}

    return part
