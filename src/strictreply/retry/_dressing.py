"""How a request says what its reply must be: tools, choices, formats, instructions; all of it, or a scope alone.

What the caller did not ask for is told apart: an endpoint may refuse it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from strictreply.contract._answer import Answer
from strictreply.contract._contract import Contract
from strictreply.contract._definitions import Definitions
from strictreply.contract._describing import (
    admits_answer,
    answer_instructions,
    final_answer_definition,
    instructions,
    response_format,
    union_schema,
)
from strictreply.retry._parts import part_words
from strictreply.retry._scoping import Scope
from strictreply.values._json import JSON, JSONObject, Message
from strictreply.wires._opening import ids_in, peek
from strictreply.wires._wire import Wire

_INSTRUCTION_ROLES = ("system", "developer")


def narrowed(
    contract: Contract,
    base: JSONObject,
    messages: list[Message],
    scope: Scope | None,
    unwanted: frozenset[str],
    *,
    cached: bool,
    wire: Wire,
) -> tuple[JSONObject, frozenset[str]]:
    """Make the request that asks for a scope alone, or for the whole reply; return it and what we added."""
    native = contract.channel == "native"
    if scope is None or cached:
        request, added = dressed(contract, contract, base, messages, unwanted, wire=wire)
        if scope is not None and native and "tool_choice" not in unwanted:
            return request | {"tool_choice": _choice_of(contract, scope)}, added | {"tool_choice"}
        return request, added
    if native and not scope.calls:
        base = {name: value for name, value in base.items() if name != "response_format"}
    request, added = dressed(
        contract, contract_for(contract, scope, messages), base, messages, unwanted, scope, wire=wire
    )
    if native and scope.calls:
        request.pop("response_format", None)  # forced calls are all that is wanted
        added -= {"response_format"}
    return request, added


def contract_for(contract: Contract, scope: Scope, messages: list[Message]) -> Contract:
    """Return the contract whose request asks for a scope alone; in the text channel the instructions do."""
    if contract.channel == "text":
        return contract
    schema = None if scope.part is None else scope.part.schema
    if scope.calls:
        narrow = contract.only(*scope.tools)
        return narrow if schema is None else narrow.replace(tools=(replace(narrow.tools[0], parameters=schema),))
    # some APIs refuse a conversation with calls in it where no tools are sent
    tools = contract.tools if ids_in(messages) else ()
    return contract.replace(tools=tools, choice="none", answer=Answer(schema, name=contract.answer.name))


def _choice_of(contract: Contract, scope: Scope) -> JSONObject:
    """Return the ``tool_choice`` that narrows a request with all tools to some calls."""
    if scope.only:
        return _named(contract, scope.tools[0])
    return _allowed(contract, "required", dict.fromkeys(scope.tools))


def _allowed(contract: Contract, mode: str, names: Iterable[str]) -> JSONObject:
    listed: list[JSON] = [_named(contract, name) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": listed}}


def dressed(
    held: Contract,
    contract: Contract,
    base: JSONObject,
    messages: list[Message],
    unwanted: frozenset[str],
    scope: Scope | None = None,
    *,
    wire: Wire,
) -> tuple[JSONObject, frozenset[str]]:
    """Put a contract into a request, each channel in its own way; return it and what the caller did not ask for.

    ``held`` is what the reply is held to, ``contract`` what is asked for.
    """
    if contract.channel == "text":
        ours = _usage_of_stream(base, unwanted, wire)
        return _text_request(contract, base, messages, scope) | ours, frozenset(ours)
    request, ours = base | {"messages": messages}, _usage_of_stream(base, unwanted, wire)
    definitions = _definitions(contract)
    if definitions:
        choice = _choice(contract)
        request |= {"tools": definitions}
        said = held.choice == contract.choice and (contract.choice != "auto" or bool(contract.offered))
        (request if said else ours).update(choice)
        # true is the API's own default, and said only where several calls are asked for again
        several = scope is not None and len(scope.calls) > 1
        if "parallel_tool_calls" not in request and (several or not contract.parallel):
            ours["parallel_tool_calls"] = contract.parallel
    else:
        request.pop("parallel_tool_calls", None)
    structured = contract.answer.schema is not None and contract.answer_style == "union"
    if structured and admits_answer(contract) and "response_format" not in request:
        ours["response_format"] = response_format(contract)
    added = frozenset(ours) - unwanted
    if "response_format" in ours and "response_format" not in added:
        request["messages"] = instructed(messages, answer_instructions(contract))
    return request | {name: ours[name] for name in ours if name in added}, added


def _text_request(contract: Contract, base: JSONObject, messages: list[Message], scope: Scope | None) -> JSONObject:
    """Put the instructions of the text channel into a request: for the union, or for the one value of a scope."""
    schema: JSON = union_schema(contract)
    words = instructions(contract)
    if scope is not None and scope.part is not None:
        schema = scope.part.schema.shown
        wanted = part_words(scope.name if scope.calls else None, scope.place, wrapped=scope.part.wrapped)
        words = instructions(contract, f"only {wanted}", schema)
    request = base | {"messages": instructed(messages, words)} | _text_format(schema, base)
    request.pop("parallel_tool_calls", None)  # there are no tools in this request
    return request


def _usage_of_stream(base: JSONObject, unwanted: frozenset[str], wire: Wire) -> JSONObject:
    """Ask for the usage of a stream: an attempt has it like any other."""
    return wire.streamed(base) if base.get("stream") and "stream_options" not in unwanted else {}


def _definitions(contract: Contract) -> Definitions:
    """Return the tools that may be called, and the one that answers where an answer is a call."""
    if contract.answer_style == "union":
        return Definitions(tool.definition for tool in contract.offered or contract.tools)
    declared = Definitions(() if contract.choice == "none" else (tool.definition for tool in contract.tools))
    if admits_answer(contract):
        declared.append(final_answer_definition(contract))
    return declared


def _choice(contract: Contract) -> JSONObject:
    """Return ``tool_choice``; nothing for ``auto``, which is the API's own default; an answer by tool is a call."""
    if contract.choice in {"auto", "none"} and contract.answer_style == "tool":
        return {"tool_choice": "required"}
    if contract.offered and contract.choice in {"auto", "required"} and contract.answer_style == "union":
        return {"tool_choice": _allowed(contract, contract.choice, [tool.name for tool in contract.tools])}
    if contract.choice == "auto":
        return {}
    if contract.choice in {"required", "none"}:
        return {"tool_choice": contract.choice}
    return {"tool_choice": _named(contract, contract.choice)}


def _named(contract: Contract, name: str) -> JSONObject:
    tool = contract.by_name.get(name)
    kind = "function" if tool is None or tool.custom is None else "custom"
    return {"type": kind, kind: {"name": name}}


def _text_format(schema: JSON, base: JSONObject) -> JSONObject:
    """Return the caller's ``json_schema`` response format for what is asked for: the bare schema would refuse it."""
    wanted = peek(base.get("response_format"), "type")
    if wanted != "json_schema":
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}}


def instructed(messages: list[Message], text: str) -> list[Message]:
    """Set our instructions behind the caller's own, in the same turn: many templates take only one, and first."""
    first = messages[0] if messages else None
    content = peek(first, "content")
    if not isinstance(first, Mapping) or first.get("role") not in _INSTRUCTION_ROLES:
        return [{"role": "system", "content": text}, *messages]
    if isinstance(content, str) or not content:
        return [{**first, "content": f"{content}\n\n{text}" if content else text}, *messages[1:]]
    parts = list(content) if isinstance(content, Iterable) else [content]
    return [{**first, "content": [*parts, {"type": "text", "text": text}]}, *messages[1:]]
