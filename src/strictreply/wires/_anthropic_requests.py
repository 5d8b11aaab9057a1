"""Reads requests of the Messages API into a :class:`Request`, and writes them back.

Tools are converted to the common form of a definition, and back to the API's own. A tool with its
own type (``web_search_…``, ``bash_…``) is one of the API's: it is sent unchanged at its place. If
the program itself executes it, it is also declared, so that its calls are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._requests import (
    CHOICE,
    AnswerFormat,
    Choice,
    Declared,
    Definitions,
    Request,
)
from strictreply.wires._anthropic_turns import TEXT, blocks_in, draft_of, kind_of, text_block
from strictreply.wires._dialects import object_in
from strictreply.wires._members import peek
from strictreply.wires._requests import format_of

LIMIT = "max_tokens"
_FORMAT = "format"
_CONFIG = "output_config"
_OLD_FORMAT = "output_format"  # of the beta API, before output_config
_OURS = "response_format"  # keywords that strictreply's own methods accept on every API
_PARALLEL = "disable_parallel_tool_use"
_BESIDE = "in_extra_body"
_TYPED = "typed_tools"
_CUSTOM = "custom_tools"

_ABOUT_REPLY = (
    "model",
    "messages",
    "system",
    "tools",
    CHOICE,
    _CONFIG,
    _OLD_FORMAT,
    "thinking",
    LIMIT,
    "stream",
)
"""The keywords that are read, or changed in a retry, anywhere in the request."""

_LIFTED = ("model", "messages", "stream")
"""Keywords of every method, wherever the caller put them."""

_MODES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}
_WORDS: Mapping[str, str] = {mode: word for word, mode in _MODES.items()}

_RUN_BY_SERVER = (
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "tool_search_tool_",
    "advisor_",
    "mcp_toolset",
)
"""The prefixes of the types of tools that the server executes (Anthropic, tool reference)."""


def read_request(keywords: JSONObject) -> Request:
    """Read the keywords of a request; raise ContractError for what a verdict could not honour."""
    source = _with_body(keywords)
    conversation = _conversation(source)
    choice = source.pop(CHOICE, None)
    given_tools = source.pop("tools", None)
    elsewhere: tuple[JSONObject, ...] = ()
    if isinstance(given_tools, list | tuple):
        given_tools, elsewhere = _read_tools(source, given_tools)

    return Request(
        source=source,
        model=source.get("model"),
        conversation=conversation,
        prefill=prefill_in(conversation),
        given_tools=given_tools,
        elsewhere=elsewhere,
        choice=None if choice is None else _choice_of(choice),
        parallel=_parallel_in(choice),
        format=_format_of(source),
        limits={LIMIT: source[LIMIT]} if LIMIT in source else {},
        is_stream=bool(source.get("stream")),
        # each stream has the usage, without a request for it
        wants_usage=False,
    )


def _with_body(keywords: JSONObject) -> JSONObject:
    extra = keywords.get("extra_body")
    if not isinstance(extra, Mapping) or extra.keys().isdisjoint(_ABOUT_REPLY):
        return {**keywords}

    said = {name: value for name, value in extra.items() if name in _ABOUT_REPLY}
    rest = {name: value for name, value in extra.items() if name not in said}
    # most of them are returned there, because the SDK's method may not know them
    beside = tuple(name for name in said if name not in _LIFTED)
    return keywords | said | {"extra_body": rest, _BESIDE: beside}


def _conversation(source: JSONObject) -> list[Any]:
    """Return the turns; instructions before the first move to the API's place for them."""
    messages: Any = source.get("messages")
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if not isinstance(messages, Iterable) or isinstance(messages, bytes | Mapping):
        raise ContractError(
            f"messages is required: a text, or a list of messages, not {type(messages).__name__}"
        )

    turns: list[Any] = [*messages]
    while turns and _is_instruction(turns[0]):
        source["system"] = _instructed(source.get("system"), turns.pop(0)["content"])

    return turns


def _is_instruction(turn: object) -> bool:
    is_system = isinstance(turn, dict) and turn.get("role") == "system"
    return is_system and type(peek(turn, "content")) is str


def _instructed(system: Any, text: str) -> JSON:
    """Append our instructions to the caller's own."""
    if not system:
        return text
    if isinstance(system, str):
        return f"{system}\n\n{text}"

    return [*system, text_block(text)]


def _read_tools(
    source: JSONObject, tools: Iterable[object]
) -> tuple[list[Any], tuple[JSONObject, ...]]:
    """Return the caller's own tools in the common form, and the tools that the API knows."""
    own: list[Any] = []
    typed: list[tuple[int, Any]] = []
    custom: set[str] = set()
    for at, tool in enumerate(tools):
        plain = object_in(tool) if "input_schema" in _members(tool) or _is_typed(tool) else None
        if plain is None:
            own.append(tool)
        elif _is_typed(plain):
            typed.append((at, plain))
        else:
            own.append(common_form(plain))
            custom |= {str(plain.get("name"))} if "type" in plain else set()

    if typed:
        source[_TYPED] = typed
    if custom:
        source[_CUSTOM] = custom

    return own, tuple(_as_declared(tool) for _, tool in typed if _is_run_by_program(tool))


def _members(tool: object) -> Iterable[str]:
    return tool if isinstance(tool, Mapping) else ()


def _is_typed(tool: object) -> bool:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return isinstance(kind, str) and kind not in ("custom", "function")


def _is_run_by_program(tool: JSONObject) -> bool:
    return isinstance(tool.get("name"), str) and not tool["type"].startswith(_RUN_BY_SERVER)


def _as_declared(tool: JSONObject) -> JSONObject:
    """Return a tool whose arguments only the API knows: any object."""
    function = {
        "name": tool["name"],
        "parameters": {"type": "object", "additionalProperties": True},
    }
    return {"type": "function", "function": function}


def common_form(tool: JSONObject) -> JSONObject:
    """Return a definition of the API in the common form, with its other members."""
    function: JSONObject = {"name": tool.get("name")}
    for name in ("description", "strict"):
        if name in tool:
            function[name] = tool[name]

    function["parameters"] = tool["input_schema"]
    read = (*function, "input_schema", "type")
    beside = {name: value for name, value in tool.items() if name not in read}
    return {**beside, "type": "function", "function": function}


def api_form(definition: JSONObject) -> JSONObject:
    """Return a definition in the common form in the form of the API."""
    function = {**definition["function"]}
    schema = function.pop("parameters", None) or {"type": "object"}
    tool: JSONObject = {"name": function.pop("name")}
    if function.get("description"):
        tool["description"] = function.pop("description")

    beside = {name: definition[name] for name in definition if name not in ("type", "function")}
    said = {name: value for name, value in function.items() if value not in (None, "")}
    return tool | {"input_schema": schema} | said | beside


def _choice_of(choice: object) -> Choice:
    kind = choice if isinstance(choice, str) else peek(choice, "type")
    name = peek(choice, "name")
    if kind == "tool" and isinstance(name, str):
        return Choice(tool=name)
    if isinstance(kind, str) and (kind in _MODES or kind == "required"):
        return Choice(_MODES.get(kind, kind))

    raise ContractError(
        'tool_choice must be {"type": "auto"}, "any", "none", or {"type": "tool", "name": "…"}'
    )


def _parallel_in(choice: object) -> object:
    said = peek(choice, _PARALLEL) if isinstance(choice, Mapping) else None
    return None if said is None else not said


def _format_of(source: JSONObject) -> AnswerFormat | type | None:
    ours = source.pop(_OURS, None)
    wanted = peek(source.get(_CONFIG), _FORMAT) or source.get(_OLD_FORMAT) or ours
    if not isinstance(wanted, Mapping) or "schema" not in wanted:
        return format_of(wanted)

    others = tuple(name for name in wanted if name not in ("type", "schema"))
    schema: Any = wanted["schema"]
    return AnswerFormat("json_schema", schema, None, others, dict(wanted))


def written_request(request: Request) -> JSONObject:
    """Return a request in the form of the API."""
    body: JSONObject = {**request.source, "messages": request.turns, **request.limits}
    typed: Any = body.pop(_TYPED, [])
    custom: Any = body.pop(_CUSTOM, ())
    if request.model is not None:
        body["model"] = request.model
    if request.is_stream:
        body["stream"] = True
    if request.instructions:
        body["system"] = _instructed(body.get("system"), request.instructions)

    # the JSON text of these is kept, too, because nobody changes them
    tools: list[Any] = Definitions(map(_flat_form, request.tools))
    if typed or custom:
        known = {tool.get("name") for _, tool in typed}
        tools = list(_written_tools(request, known, custom))
        for at, tool in typed:
            tools.insert(at, tool)

    choice = _written_choice(request)
    if tools:
        body["tools"] = tools
    if tools and choice is not None:
        body[CHOICE] = choice

    _write_format(request, body)
    beside: Any = body.pop(_BESIDE, ())
    moved = {name: body.pop(name) for name in beside if name in body}
    if moved:
        extra: Any = body.get("extra_body") or {}
        body["extra_body"] = {**extra, **moved}

    return body | request.keywords


def _written_tools(
    request: Request, known: Iterable[object], custom: Iterable[str]
) -> Iterator[JSONObject]:
    for tool in request.tools:
        if tool.name not in known:
            written = _flat_form(tool)
            yield {"type": "custom", **written} if tool.name in custom else written


def _flat_form(tool: Declared) -> JSONObject:
    """Return a declared tool in the form of the API: the same object for the same definition."""
    definition = tool.definition
    kept = _FLAT.get(id(definition))
    if kept is None:
        kept = (definition, api_form(definition))
        if len(_FLAT) >= _MAX_FLAT:
            _FLAT.clear()
        _FLAT[id(definition)] = kept

    return kept[1]


_MAX_FLAT = 2_000
_FLAT: dict[int, tuple[JSONObject, JSONObject]] = {}
"""Definitions of tools in the API's form, with their sources, which are kept alive."""


def _written_choice(request: Request) -> JSONObject | None:
    choice = request.choice
    written: JSONObject = {"type": "auto"}
    if choice is not None and not _is_given_up(request, choice):
        word = _WORDS.get(choice.mode, choice.mode)
        written = {"type": "tool", "name": choice.tool} if choice.tool else {"type": word}

    if request.parallel is not None and written["type"] != "none":
        return written | {_PARALLEL: not request.parallel}

    return None if choice is None else written


def _is_given_up(request: Request, choice: Choice) -> bool:
    """Return whether the API rejects strictreply's tool choice together with manual thinking.

    It accepts only ``auto`` and ``none`` there (Anthropic, extended thinking with tool use).
    """
    is_forced = bool(choice.tool) or choice.mode == "required"
    thinks = peek(request.source.get("thinking"), "type") == "enabled"
    return is_forced and thinks and CHOICE in request.added


def _write_format(request: Request, body: JSONObject) -> None:
    """Write the format of the answer at the place where the caller has it."""
    config: Any = body.get(_CONFIG)
    if peek(config, _FORMAT) is not None:
        body[_CONFIG] = {name: config[name] for name in config if name != _FORMAT}
        if not body[_CONFIG]:
            body.pop(_CONFIG)

    is_old = body.pop(_OLD_FORMAT, None) is not None
    wanted = request.format
    if not isinstance(wanted, AnswerFormat) or wanted.kind != "json_schema":
        return

    own = wanted.source or {}
    written: JSONObject = {"type": "json_schema", "schema": wanted.schema}
    if "schema" in own:
        written = {**own, "schema": wanted.schema}
    if is_old:
        body[_OLD_FORMAT] = written
    else:
        body[_CONFIG] = {**(body.get(_CONFIG) or {}), _FORMAT: written}


def undemanding(keywords: JSONObject) -> JSONObject:
    """Return the keywords of a request whose tool choice does not require a call."""
    extra = keywords.get("extra_body")
    if isinstance(extra, Mapping) and CHOICE in extra:
        keywords = {**keywords, "extra_body": undemanding(dict(extra))}

    choice = keywords.get(CHOICE)
    if peek(choice, "type") not in ("any", "tool"):
        return keywords

    said = peek(choice, _PARALLEL)
    left = {name: value for name, value in keywords.items() if name != CHOICE}
    return left if said is None else {**left, CHOICE: {"type": "auto", _PARALLEL: said}}


def limits_in(body: JSONObject) -> list[JSON]:
    """Return the values that limit the tokens of a reply in the body of a request."""
    extra = body.get("extra_body")
    said: JSONObject = {**body, **extra} if isinstance(extra, Mapping) else body
    return [said[LIMIT]] if LIMIT in said else []


def prefill_in(turns: list[Any]) -> str:
    """Return the text with which the caller started the reply, empty if there is none."""
    last = turns[-1] if turns else None
    if peek(last, "role") != "assistant":
        return ""

    blocks = blocks_in(peek(last, "content"))
    is_text = all(kind_of(block) == TEXT for block in blocks)
    return (draft_of(blocks).text or "") if is_text else ""
