"""What a request asks for itself: its keywords make the contract of its reply, and what cannot be held is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from strictreply.contract._answer import Answer
from strictreply.contract._contract import Contract
from strictreply.contract._definitions import given
from strictreply.contract._tool import Tool
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject
from strictreply.wires._opening import Wire, peek
from strictreply.wires._wire import WIRES

SHAPING = ("tool_choice", "parallel_tool_calls", "response_format")
"""The keywords of a request that shape the verdict on its reply, beside its tools."""
_LEGACY = ("functions", "function_call")
# The keywords that are read, or changed when it is asked again, wherever they stand in the request.
_ABOUT_REPLY = ("model", "messages", "tools", *SHAPING, *_LEGACY, "n", "stream", "max_tokens", "max_completion_tokens")


def shape(contract: Contract, keywords: Mapping[str, Any], wire: Wire = WIRES["chat"]) -> tuple[Contract, JSONObject]:
    """Read the keywords of one call: the contract that its reply is held to, and the request without what that holds.

    Raises ContractError for what no verdict could honour: ``n`` above 1, legacy ``functions``, a ``tool_choice`` that
    names no declared tool, a ``response_format`` that is none. A schema in ``response_format`` is the answer's contract
    for this call; beside a kind of answer that judges by more than a schema it is a ContractError. ``json_object``
    makes an object of an answer that was any text. ``extra_body`` has the last word on any of them, as it has in the
    SDK.
    """
    request = _read_body(wire.read(given(keywords)))
    _refuse_unheld(request)
    if (tools := request.pop("tools", None)) is not None:
        if not _is_series(tools):
            raise ContractError("tools must be a list of tools")
        contract = contract.replace(tools=tuple(Tool.all_of(tools, extra=contract.extra, formats=contract.formats)))
    contract = _shaped_by_choice(contract, request.pop("tool_choice", None))
    if (parallel := request.get("parallel_tool_calls")) is not None:
        contract = contract.replace(parallel=bool(parallel))
    request = {name: value for name, value in request.items() if value is not None or name not in SHAPING}
    return _shaped_by_format(contract, request)


def _read_body(request: JSONObject) -> JSONObject:
    extra = request.get("extra_body")
    if not isinstance(extra, Mapping) or extra.keys().isdisjoint(_ABOUT_REPLY):
        return request
    said = {name: value for name, value in extra.items() if name in _ABOUT_REPLY}
    return request | said | {"extra_body": {name: value for name, value in extra.items() if name not in said}}


def _refuse_unheld(request: JSONObject) -> None:
    messages: Any = request.get("messages")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not _is_series(messages):
        raise ContractError(f"messages is required: a text, or a list of chat messages, not {type(messages).__name__}")
    request["messages"] = list(messages)
    if request.get("n") not in (None, 1):
        raise ContractError("n must be 1: exactly one reply is validated; make several calls instead")
    for name in _LEGACY:
        if request.get(name) is not None and request.get("function_call") != "none":  # then nothing can be called
            raise ContractError(f"{name!r} is the API's legacy form; declare the functions with tools= instead")


def _is_series(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _shaped_by_choice(contract: Contract, choice: object) -> Contract:
    if choice is None:
        return contract
    if isinstance(choice, str):
        means_required = choice == "any" and choice not in contract.callable_names  # other APIs' word for it
        return contract.with_choice("required" if means_required else choice)
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        return _shaped_by_allowed(contract, choice.get("allowed_tools"))
    if isinstance(choice, Mapping) and (name := _named(choice)):
        return contract.with_choice(name)
    named = 'a named function, {"type": "function", "function": {"name": "…"}}'
    raise ContractError(f"tool_choice must be 'auto', 'required' (or 'any'), 'none', allowed_tools, or {named}")


def _shaped_by_allowed(contract: Contract, allowed: object) -> Contract:
    held: Mapping[str, Any] = allowed if isinstance(allowed, Mapping) else {}
    names = [_named(entry) for entry in held["tools"]] if isinstance(held.get("tools"), list) else []
    if not names or not set(contract.callable_names).issuperset(names):
        raise ContractError(f"tool_choice.allowed_tools must list declared tools: {contract.tool_list or 'none'}")
    tools = tuple(contract.by_name[name] for name in names if name in contract.by_name)
    return contract.replace(tools=tools, offered=contract.tools).with_choice(str(held.get("mode", "auto")))


def _named(choice: object) -> str:
    name = peek(peek(choice, "custom" if peek(choice, "type") == "custom" else "function"), "name")
    return name if isinstance(name, str) else ""


def _shaped_by_format(contract: Contract, request: JSONObject) -> tuple[Contract, JSONObject]:
    wanted = request.get("response_format")
    if wanted is None:
        return contract, request
    if isinstance(wanted, type):
        del request["response_format"]
        return contract.replace(answer=_answer(contract, wanted)), request
    if not isinstance(wanted, Mapping) or wanted.get("type") not in ("text", "json_object", "json_schema"):
        raise ContractError("response_format must be of type text, json_object or json_schema")
    if wanted["type"] == "json_schema":
        described: Any = wanted.get("json_schema")
        if not isinstance(described, Mapping) or not isinstance(described.get("schema"), Mapping):
            raise ContractError("response_format.json_schema.schema must be a JSON Schema")
        answer = _answer(contract, described["schema"])
        if answer.schema is not None and answer.schema.shown is not answer.schema.source:
            request["response_format"] = {**wanted, "json_schema": {**described, "schema": answer.document}}
        return contract.replace(answer=answer), request
    if wanted["type"] == "json_object" and contract.answer.is_text:
        return contract.replace(answer=Answer.of({"type": "object"}, extra="schema")), request
    return contract, request


def _answer(contract: Contract, kind: object) -> Answer:
    if type(contract.answer) is not Answer:
        raise ContractError("response_format has a schema, but the contract's answer judges by its own; leave it out")
    return Answer.of(kind, extra=contract.extra or "forbid", formats=contract.formats or "assert")
