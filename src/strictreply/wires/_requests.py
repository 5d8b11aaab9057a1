"""Reads requests in the keywords of chat completions, and writes them back.

The wire of the Responses API translates its own keywords into these, and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._requests import (
    CHOICE,
    FORMAT,
    PARALLEL,
    USAGE,
    AnswerFormat,
    Choice,
    Definitions,
    Request,
)
from strictreply.wires._declared_tools import DECLARED_TOOLS
from strictreply.wires._members import peek

LIMITS = ("max_completion_tokens", "max_tokens")
"""The keywords that limit the tokens of a reply."""

_INSTRUCTION_ROLES = ("system", "developer")
_LEGACY = ("functions", "function_call")
_OFTEN_ITERATED = ("messages", "input", "tools")
_PLAIN = frozenset({str, int, float, bool, type(None), dict, list})  # nearly always
_FORMATS = ("text", "json_object", "json_schema")

_ABOUT_REPLY = ("model", "messages", "tools", CHOICE, PARALLEL, FORMAT, *_LEGACY, "n", "stream")
"""The keywords that are read, or changed in a retry, anywhere in the request."""


def settled(members: JSONObject) -> JSONObject:
    """Return the members of a request with a list for each iterator, so that it can be sent again.

    The SDK accepts iterators as the messages, the input or the tools, and inside of these.
    """
    changed: JSONObject = {}
    for name in _OFTEN_ITERATED:
        value: Any = members.get(name)
        if _is_iterator(value):
            value = changed[name] = list(value)

        if isinstance(value, list | tuple):
            items = [_item_settled(item) for item in value]
            if not all(map(is_, items, value)):
                changed[name] = items

    return members | changed if changed else members


def _item_settled(item: object) -> object:
    if not isinstance(item, dict) or _PLAIN.issuperset(map(type, item.values())):
        return item

    listed = {name: list(value) for name, value in item.items() if _is_iterator(value)}
    return item | listed if listed else item


def _is_iterator(value: object) -> bool:
    return hasattr(type(value), "__next__")


def request_of(keywords: JSONObject) -> Request:
    """Read the keywords of a request.

    ``extra_body`` takes precedence over all keywords, as in the SDK. Raises ContractError for a
    demand that a verdict could not honour.
    """
    source = _with_body(keywords)
    conversation = _conversation(source)
    _refuse_unheld(source)

    choice = source.pop(CHOICE, None)
    given_tools = source.pop("tools", None)
    options = source.get(USAGE)
    follows = source.get("previous_response_id")

    return Request(
        source=source,
        model=source.get("model"),
        conversation=conversation,
        given_tools=given_tools,
        elsewhere=tuple(source.get(DECLARED_TOOLS) or ()),
        choice=None if choice is None else _choice_of(choice),
        parallel=source.get(PARALLEL),
        format=format_of(source.get(FORMAT)),
        limits={name: source[name] for name in LIMITS if name in source},
        is_stream=bool(source.get("stream")),
        wants_usage=None if options is None else bool(peek(options, "include_usage")),
        is_stored=source.get("store") is not False,
        follows=follows if isinstance(follows, str) and follows else None,
    )


def _with_body(keywords: JSONObject) -> JSONObject:
    extra = keywords.get("extra_body")
    names = (*_ABOUT_REPLY, *LIMITS)
    if not isinstance(extra, Mapping) or extra.keys().isdisjoint(names):
        return {**keywords}

    said = {name: value for name, value in extra.items() if name in names}
    rest = {name: value for name, value in extra.items() if name not in said}
    return keywords | said | {"extra_body": rest}


def _conversation(source: JSONObject) -> list[object]:
    messages: Any = source.get("messages")
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]

    if not isinstance(messages, Iterable) or isinstance(messages, bytes | Mapping):
        raise ContractError(
            "messages is required: a text, or a list of chat messages, "
            f"not {type(messages).__name__}"
        )

    return list(messages)


def _refuse_unheld(source: JSONObject) -> None:
    if source.get("n") not in (None, 1):
        raise ContractError(
            "n must be 1: exactly one reply is validated; make several calls instead"
        )

    for name in _LEGACY:
        # with "none" no tool can be called
        if source.get(name) is not None and source.get("function_call") != "none":
            raise ContractError(
                f"{name!r} is the API's legacy form; declare the functions with tools= instead"
            )


def _choice_of(choice: object) -> Choice:
    if isinstance(choice, str):
        return Choice(choice)

    if peek(choice, "type") == "allowed_tools":
        allowed = peek(choice, "allowed_tools")
        listed = peek(allowed, "tools")
        entries: list[object] = list(listed) if isinstance(listed, list) else []
        mode = peek(allowed, "mode")
        return Choice("auto" if mode is None else str(mode), allowed=tuple(map(_named, entries)))

    if isinstance(choice, Mapping) and (name := _named(choice)):
        return Choice(tool=name)

    named = 'a named function, {"type": "function", "function": {"name": "…"}}'
    raise ContractError(
        f"tool_choice must be 'auto', 'required' (or 'any'), 'none', allowed_tools, or {named}"
    )


def undemanding(keywords: JSONObject) -> JSONObject:
    """Return the keywords of a request whose tool choice does not require a call.

    The list of allowed tools stays. ``extra_body`` is part of the request, as in the SDK.
    """
    extra = keywords.get("extra_body")
    if isinstance(extra, Mapping) and CHOICE in extra:
        keywords = {**keywords, "extra_body": undemanding(dict(extra))}

    choice = keywords.get(CHOICE)
    if choice in (None, "auto", "none"):
        return keywords

    left = {name: value for name, value in keywords.items() if name != CHOICE}
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        listed = choice.get("allowed_tools")
        if isinstance(listed, Mapping):
            left[CHOICE] = {**choice, "allowed_tools": {**listed, "mode": "auto"}}
        else:
            left[CHOICE] = {**choice, "mode": "auto"}

    return left


def _named(choice: object) -> str:
    """Return the name of the tool that a choice names, empty if it names none."""
    kind = "custom" if peek(choice, "type") == "custom" else "function"
    name = peek(peek(choice, kind), "name")
    return name if isinstance(name, str) else ""


def format_of(wanted: object) -> AnswerFormat | type | None:
    """Read ``response_format``: its value, the caller's own type, or None for nothing.

    Raises ContractError for anything else.
    """
    if wanted is None or isinstance(wanted, type):
        return wanted

    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if not isinstance(wanted, Mapping) or kind not in _FORMATS:
        raise ContractError("response_format must be of type text, json_object or json_schema")

    source = dict(wanted)
    if kind != "json_schema":
        return AnswerFormat(kind, source=source)

    described: Any = wanted.get("json_schema")
    if not isinstance(described, Mapping):
        raise ContractError("response_format.json_schema must be an object with a schema")

    schema: Any = described.get("schema")
    name: Any = described.get("name")
    others = tuple(name for name in described if name not in ("name", "schema"))
    return AnswerFormat(kind, schema, name, others, source)


def limits_in(sent: JSONObject, names: tuple[str, ...]) -> list[JSON]:
    """Return the values that limit the tokens of a reply in the body of a request.

    ``extra_body`` takes precedence, as in the SDK.
    """
    extra = sent.get("extra_body")
    said: JSONObject = {**sent, **extra} if isinstance(extra, Mapping) else sent
    return [said[name] for name in names if name in said]


def keywords_of(request: Request) -> JSONObject:
    """Write a request in the keywords of chat completions."""
    keywords = {**request.source, "messages": instructed(request.turns, request.instructions)}
    keywords |= request.limits
    if request.model is not None:
        keywords["model"] = request.model
    if request.is_stream:
        keywords["stream"] = True
    if request.follows is not None:
        keywords["previous_response_id"] = request.follows

    _write_demands(request, keywords)
    return keywords | request.keywords


def _write_demands(request: Request, keywords: JSONObject) -> None:
    """Write the demands on the reply; the caller's own demands keep their places."""
    if request.parallel is None:
        keywords.pop(PARALLEL, None)
    if request.format is None:
        keywords.pop(FORMAT, None)

    if request.tools:
        keywords["tools"] = Definitions(tool.definition for tool in request.tools)

    said = None if request.choice is None else _written_choice(request, request.choice)
    if said is not None and CHOICE not in request.added:
        keywords[CHOICE] = said
    if request.asks_usage:
        keywords[USAGE] = {"include_usage": True}
    if said is not None and CHOICE in request.added:
        keywords[CHOICE] = said

    if request.parallel is not None:
        keywords[PARALLEL] = request.parallel
    if isinstance(request.format, AnswerFormat):
        keywords[FORMAT] = written_format(request.format)


def _written_choice(request: Request, choice: Choice) -> JSON:
    if not choice.tool and choice.allowed is None:
        return choice.mode

    custom = frozenset(
        tool.name for tool in request.tools if tool.definition.get("type") == "custom"
    )
    if choice.allowed is None:
        return _entry(choice.tool, custom)

    listed: list[JSON] = [_entry(name, custom) for name in choice.allowed]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": listed}}


def _entry(name: str, custom: frozenset[str]) -> JSONObject:
    kind = "custom" if name in custom else "function"
    return {"type": kind, kind: {"name": name}}


def written_format(wanted: AnswerFormat) -> JSONObject:
    """Return the format of an answer as its caller wrote it, with the schema that is sent."""
    source = wanted.source or {"type": wanted.kind}
    if wanted.kind != "json_schema" or (wanted.name is None and wanted.source is None):
        return source

    described: Any = source.get("json_schema") or {"name": wanted.name}
    if described.get("schema") is not wanted.schema:
        described = {**described, "schema": wanted.schema}
    if wanted.is_strict:
        described = {**described, "strict": True}

    return {**source, "json_schema": described}


def instructed(messages: list[object], text: str) -> list[object]:
    """Append our instructions to the caller's own, in the same turn; do nothing for an empty text.

    Many templates accept only one such turn, and only as the first.
    """
    if not text:
        return messages

    first: object = messages[0] if messages else None
    if not isinstance(first, Mapping) or first.get("role") not in _INSTRUCTION_ROLES:
        return [{"role": "system", "content": text}, *messages]

    content: Any = first.get("content")
    if isinstance(content, str) or not content:
        return [{**first, "content": f"{content}\n\n{text}" if content else text}, *messages[1:]]

    parts = list(content) if isinstance(content, Iterable) else [content]
    return [{**first, "content": [*parts, {"type": "text", "text": text}]}, *messages[1:]]
