"""Reads requests and items of the Responses API into messages, and writes them back.

A conversation may have items in addition to messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject, Message
from strictreply.wires._declared_tools import (
    DECLARED_TOOLS,
    allowed_in,
    declared_elsewhere,
    name_of,
    own_names,
)
from strictreply.wires._members import peek
from strictreply.wires._requests import LIMITS

_AWAITED: Final = frozenset(
    {"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"}
)

CALLS: Final = {"function_call": "function", "custom_tool_call": "custom"}
"""The items that are calls of tools, with their kind in a message."""

_RUN_BY_XAI: Final = frozenset(
    {
        "x_user_search",
        "x_keyword_search",
        "x_semantic_search",
        "x_thread_fetch",
        "view_image",
        "view_x_video",
    }
)
_XAIS_CALL_ID = "xs_call"

TEXTS = ("output_text", "text")
_DECLARED = frozenset({"function", "custom"})
LIMIT = "max_output_tokens"
_TRANSLATED = ("input", "tools", "tool_choice", "text", LIMIT)
_ELSEWHERE = (
    *_TRANSLATED,
    "model",
    "stream",
    "parallel_tool_calls",
    "background",
    "store",
    "conversation",
    "previous_response_id",
)
"""The keywords that are read, also in ``extra_body``."""

_OURS = frozenset(
    {
        "messages",
        "response_format",
        "server_tools",
        "server_choice",
        DECLARED_TOOLS,
        *LIMITS,
    }
)
"""The keywords of the common form that this API does not accept."""

_PARTS = frozenset({"text", "image_url", "file"})
"""The parts of a content that chat completions write differently."""


def kind_of(item: object) -> str:
    """Return the type of an item, a part or a tool; empty if it has no readable one."""
    kind = peek(item, "type")
    return kind if isinstance(kind, str) else ""


def is_awaited(item: object) -> bool:
    """Return whether an item calls a tool of the API that the program answers.

    Such a call is not judged.
    """
    kind = kind_of(item)
    by_program = kind == "tool_search_call" and peek(item, "execution") == "client"
    return by_program or kind in _AWAITED


def is_run_by_server(item: object) -> bool:
    """Return whether a call of a custom tool is a search that xAI's server executed itself."""
    if kind_of(item) != "custom_tool_call":
        return False

    name = peek(item, "name")
    return name in _RUN_BY_XAI or str(peek(item, "call_id")).startswith(_XAIS_CALL_ID)


def is_call(item: object) -> bool:
    """Return whether an item calls a tool of the program."""
    return kind_of(item) in CALLS and not is_run_by_server(item)


def _item_kind(call: object) -> str:
    """Return the type of the item for a call of a message."""
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


def text_of(output: object, *, beside_calls: bool = False) -> str | None:
    """Return the text of an output that is an answer; None if there is none.

    Commentary (``phase``) is not an answer, unless it is next to calls.
    """
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    told = [item for item in items if beside_calls or item.get("phase") in (None, "final_answer")]
    texts = [text for item in told for text in parts_in(item, TEXTS)]

    return "".join(texts) if texts else None


def rewritten(message: Message, output: list[JSONObject]) -> list[JSONObject]:
    """Return the items of a response with the contents of its message.

    Calls keep their ids and get the message's arguments, and the text is the message's. Calls that
    were not items replace the text that contained them.
    """
    made: list[JSONObject] = list(message.get("tool_calls") or ())
    calls = iter(made)
    has_calls = bool(made)
    new = made[sum(map(is_call, output)) :]
    said = "" if new else message.get("content")
    own = text_of(output, beside_calls=has_calls)
    text = said if own is not None and isinstance(said, str) and said != own else None

    items: list[JSONObject] = []
    for item in output:
        if is_call(item) and (call := next(calls, None)) is not None:
            items.append(_called(item, call))
            continue

        is_text = has_calls or item.get("phase") in (None, "final_answer")
        if text is None or kind_of(item) != "message" or not is_text:
            items.append(item)
            continue
        if said == text_of([item]):
            items += [item] if text else []  # copies are left out
        else:
            part = {"type": "output_text", "text": text, "annotations": []}
            items.append({**item, "content": [part]})

        text = ""  # text that was in several items is put into the first

    return [*items, *map(_call_item, new)]


def _call_item(call: JSONObject) -> JSONObject:
    """Return the item for a call that was not an item."""
    function = call["function"]
    return {
        "type": "function_call",
        "id": f"fc_{call['id']}",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
        "status": "completed",
    }


def _called(item: JSONObject, call: JSONObject) -> JSONObject:
    """Return the item of a call with the message's arguments, and its own name."""
    body: JSONObject = call[CALLS[item["type"]]]
    if body.get("name") == f"{item.get('namespace')}.{item.get('name')}":
        body = body | {"name": item["name"]}

    done = {"status": "completed"} if "status" in item else {}
    return {**item, "call_id": call["id"], **body, **done}


def read_request(request: JSONObject) -> JSONObject:
    """Return the keywords of a request with ``messages``, nested tools and ``response_format``.

    The API's own tools, and a choice of one, are moved to ``server_tools``, each with its place.
    Raises ContractError for ``background``, for ``input`` next to ``messages``, and for anything
    else in place of a list.
    """
    extra = request.get("extra_body")
    if isinstance(extra, Mapping) and not extra.keys().isdisjoint(_ELSEWHERE):
        said = {name: value for name, value in extra.items() if name in _ELSEWHERE}
        left = {name: extra[name] for name in extra if name not in said}
        request = request | said | {"extra_body": left}

    if request.get("background"):
        raise ContractError(
            "background=True returns no reply to validate; make the call without it"
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

    if request.get(LIMIT) is not None:
        read[LIMITS[0]] = request[LIMIT]

    return _with_tools(_with_format(read, request.get("text")), request)


def _listed(value: object, wanted: str) -> list[object]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ContractError(f"{wanted}, not {type(value).__name__}")

    return list(value)


def _with_format(read: JSONObject, text: object) -> JSONObject:
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

    several: list[Any] = []
    if tools is not None:
        several = _listed(tools, "tools must be a list of tools")
        places = enumerate(several)
        read["tools"] = [_nested(tool) for tool in several if not _is_server_tool(tool)]
        read["server_tools"] = [(at, tool) for at, tool in places if _is_server_tool(tool)]

    items = read["messages"]
    elsewhere = declared_elsewhere(several, items if isinstance(items, list | tuple) else ())
    if elsewhere:
        read[DECLARED_TOOLS] = elsewhere

    told = peek(choice, "type")
    kind = told if isinstance(told, str) else None
    if kind == "allowed_tools":
        return _allowing(read, dict(choice))  # type: ignore[arg-type]

    if kind in _DECLARED and kind not in choice:  # type: ignore[operator]
        choice = {"type": kind, kind: {"name": peek(choice, "name")}}

    # if there are only tools of the API, any of them satisfies a choice of "required"
    declares = bool(read.get("tools") or read.get(DECLARED_TOOLS))
    is_servers = choice == "required" and bool(read.get("server_tools")) and not declares
    if is_servers or (kind is not None and kind not in _DECLARED):
        read["server_choice"] = choice
    elif choice is not None:
        read["tool_choice"] = choice

    return read


def _allowing(read: JSONObject, choice: JSONObject) -> JSONObject:
    """Read a choice of allowed tools; tools of the API are allowed only by the API.

    A namespace in the list allows all its tools.
    """
    named = choice.get("tools")
    listed: list[Any] = list(named) if isinstance(named, list) else []
    known = [*(read.get("tools") or ()), *(read.get(DECLARED_TOOLS) or ())]
    entries = allowed_in(listed, known)
    if entries != [_nested(entry) for entry in listed] or not entries:
        read["server_choice"] = choice
    if not entries and listed:
        return read | {"tools": [], DECLARED_TOOLS: []}

    allowed = {"mode": choice.get("mode", "auto"), "tools": entries}
    return read | {"tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}


def _is_server_tool(tool: object) -> bool:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return isinstance(kind, str) and kind not in _DECLARED


def _nested(tool: object) -> object:
    if not isinstance(tool, Mapping):
        return tool

    kind = tool.get("type")
    if not isinstance(kind, str) or kind not in _DECLARED or kind in tool:
        return tool

    within = {name: tool[name] for name in tool if name != "type"}
    if "strict" in within and within["strict"] is None:
        del within["strict"]

    return {"type": kind, kind: within}


def written_request(request: JSONObject) -> JSONObject:
    """Return a request in the form of the API."""
    written = {name: value for name, value in request.items() if name not in _OURS}
    messages = request.get("messages", [])

    if not (isinstance(request.get("input"), str) and len(messages) == 1):
        is_stored = request.get("store") is not False
        is_kept = request.get("conversation") is not None
        written["input"] = list(_items(messages, is_stored=is_stored, is_kept=is_kept))

    elsewhere = frozenset(map(name_of, request.get(DECLARED_TOOLS) or ()))
    ours = _without(elsewhere, request.get("tools") or [])
    if ours or request.get("server_tools") or ("tools" in request and not elsewhere):
        written["tools"] = _flat_tools(ours, request.get("server_tools"))
    else:
        written.pop("tools", None)

    wanted = request.get("response_format")
    if isinstance(wanted, Mapping):
        inner = wanted.get("json_schema")
        format_ = {"type": "json_schema", **inner} if isinstance(inner, Mapping) else dict(wanted)
        written["text"] = {**(request.get("text") or {}), "format": format_}

    # the first of the limits counts, so it is written last
    for name in reversed(LIMITS):
        limit = request.get(name)
        if limit is not None:
            written[LIMIT] = limit

    choice = _whole_choice(
        request.get("tool_choice"),
        request.get("server_choice"),
        [*(request.get("tools") or ()), *(request.get(DECLARED_TOOLS) or ())],
    )
    names = own_names(request.get(DECLARED_TOOLS) or ())
    if names and peek(choice, "name") in names:
        choice = {**choice, "name": names[choice["name"]]}
    if choice is not None:
        written["tool_choice"] = choice

    return written


def _without(elsewhere: Collection[str], tools: list[JSONObject]) -> list[JSONObject]:
    """Return the tools that are not declared elsewhere in the request."""
    if not elsewhere:
        return tools

    return type(tools)(tool for tool in tools if name_of(tool) not in elsewhere)


def _flat_tools(
    tools: list[JSONObject], server_tools: list[tuple[int, JSONObject]] | None
) -> list[JSONObject]:
    """Return all tools in the API's form, with the API's own tools at their places.

    Without these, the list keeps its class, which marks it as plain JSON.
    """
    flat = type(tools)(map(_flat, tools))
    whole = list(flat) if server_tools else flat
    for at, tool in server_tools or ():
        whole.insert(at, tool)

    return whole


def _flat(tool: JSONObject) -> JSONObject:
    kind = kind_of(tool)
    inner: Any = peek(tool, kind) if kind in _DECLARED else None
    if inner is None:
        return tool

    flat: JSONObject = {name: tool[name] for name in tool if name != kind} | inner
    return flat


def _whole_choice(choice: Any, server_choice: Any, known: list[Any]) -> Any:
    """Return the choice to send: a list of allowed tools unchanged, if it still says the same."""
    if choice is None:
        return server_choice

    kind = peek(choice, "type")
    inner: Any = peek(choice, str(kind))
    flat: Any = choice
    if kind == "allowed_tools" and peek(server_choice, "type") == kind:
        allowed = allowed_in(server_choice["tools"], known)
        if sorted(map(name_of, inner["tools"])) == sorted(map(name_of, allowed)):
            return server_choice | {"mode": inner["mode"]}

    if kind in ("allowed_tools", *_DECLARED) and isinstance(inner, Mapping):
        flat = {"type": kind, **inner}
        listed: Any = inner.get("tools")
        if listed is not None:
            flat["tools"] = [_flat(entry) for entry in listed]

    if kind != "allowed_tools" or server_choice is None:
        return flat

    return flat | {"tools": [*flat["tools"], *filter(_is_server_tool, server_choice["tools"])]}


def _items(messages: list[Any], *, is_stored: bool, is_kept: bool) -> Iterator[object]:
    """Yield the items of a conversation to send.

    If the server stores replies, these are only the items after the last reply, and the results of
    its calls.
    """
    listed: list[Any] = [peek(one, "tool_calls") or () for one in messages]
    kinds = {str(peek(call, "id")): _item_kind(call) for calls in listed for call in calls}
    answered = {id_ for one in messages if isinstance(id_ := _answered_by(one), str)}

    if is_kept:
        kept = [at for at, one in enumerate(messages) if peek(one, "response") is not None]
        last = kept[-1] if kept else -1
        for item in messages[last]["response"]["output"] if kept else ():
            id_ = peek(item, "call_id")
            if is_call(item) and not _is_answered(item, answered):
                yield {"type": f"{item['type']}_output", "call_id": id_, "output": "Not run."}

        messages = messages[last + 1 :]

    for message in messages:
        yield from _items_of(message, kinds, answered, is_stored=is_stored)


def _answered_by(message: object) -> object:
    """Return the id of the call that a message or an item answers; None if it answers none."""
    if peek(message, "role") == "tool":
        return peek(message, "tool_call_id")
    if kind_of(message) == "mcp_approval_response":
        return peek(message, "approval_request_id")

    return peek(message, "call_id") if kind_of(message).endswith("_output") else None


def _is_answered(item: object, answered: set[str]) -> bool:
    id_ = peek(item, "call_id") or peek(item, "id")
    return isinstance(id_, str) and id_ in answered


def _items_of(
    message: object, kinds: Mapping[str, str], answered: set[str], *, is_stored: bool
) -> Iterable[object]:
    if not isinstance(message, Mapping):
        return [message]

    role = message.get("role")
    content: Any = None if role is None else message.get("content")

    if role == "tool":
        kind = kinds.get(str(message.get("tool_call_id")), "function_call")
        id_ = message.get("tool_call_id")
        return [{"type": f"{kind}_output", "call_id": id_, "output": _content(content, "input")}]

    if role == "assistant" and message.keys() & {"tool_calls", "response"}:
        kept: Any = peek(message.get("response"), "output")
        has_calls = isinstance(kept, list) and any(map(is_call, kept))
        is_whole = isinstance(kept, list) and (bool(message.get("tool_calls")) or not has_calls)

        if not is_whole:
            return _made(message)

        return _sendable(rewritten(message, kept), answered, is_stored=is_stored)

    if isinstance(content, list):
        parts = _content(content, "output" if role == "assistant" else "input")
        return [message if parts is content else {**message, "content": parts}]

    return [message]


def _made(message: Message) -> list[JSONObject]:
    """Return the items of a message from another API, or written by hand."""
    content = message.get("content")
    items = [{"role": "assistant", "content": _content(content, "output")}] if content else []
    for call in message.get("tool_calls") or ():
        kind = _item_kind(call)
        items.append({"type": kind, "call_id": call.get("id"), **call[CALLS[kind]]})

    return items


def _sendable(items: list[JSONObject], answered: set[str], *, is_stored: bool) -> Iterator[object]:
    """Yield the items of a reply that a server accepts back.

    A thought must be followed by its result (otherwise it is sent without its id); if nothing is
    stored, it needs the server's own encrypted form. A call that a program must answer needs its
    result, which a server that executed the call has put next to it.
    """
    answered = answered | {id_ for one in items if isinstance(id_ := _answered_by(one), str)}
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

        if is_awaited(item) and not _is_answered(item, answered):
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


def _content(content: object, direction: str) -> object:
    """Return a content with the parts of chat completions in the form of this API.

    It is the same object if it has no such parts.
    """
    if not isinstance(content, list) or not any(kind_of(part) in _PARTS for part in content):
        return content

    return [_part(part, direction) for part in content]


def _part(part: Any, direction: str) -> object:
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
