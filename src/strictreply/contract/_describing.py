"""How a contract is described: the JSON Schema of its replies, and the instructions of the text channel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from strictreply.contract._answer import FINAL_ANSWER
from strictreply.contract._tool import Tool
from strictreply.values._issues import json_words
from strictreply.values._limits import JSON

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

_FIT = "It must fit this JSON Schema:"
_TEXT_RULES = f"Reply with {{wanted}} and nothing else: no prose, no code fence, no other keys. {_FIT}"
_ANSWER_RULES = f"Answer with exactly one JSON value and nothing else: no prose, no code fence. {_FIT}"
_ANSWER_BESIDE_CALLS = f"Where you do not call a tool: {_ANSWER_RULES[0].lower()}{_ANSWER_RULES[1:]}"
_REFERENCE_ELSEWHERE = re.compile(r'"\$ref":"(?!#/\$defs/)')


def compact(value: JSON) -> str:
    """Return JSON for a prompt: no spaces, so that it costs few tokens, and nothing raw that is not printable."""
    return json_words(value, (",", ":"))


def answer_schema(contract: Contract) -> dict[str, JSON]:
    """Return the schema of ``{"answer": …}``."""
    return _closed_object({"answer": _embedded("answer", contract.answer.document)})


def call_schema(tool: Tool) -> dict[str, JSON]:
    """Return the schema of ``{"tool": …, "args": …}`` for one tool; its parameters keep their own ``$defs``."""
    words: dict[str, JSON] = {"description": tool.description} if tool.description else {}
    args = _embedded(f"tool:{tool.name}", tool.parameters.shown)
    return _closed_object({"tool": {"const": tool.name, **words}, "args": args})


def union_schema(contract: Contract) -> dict[str, JSON]:
    """Return the schema of everything the text channel admits under a contract."""
    branches: list[JSON] = [] if contract.choice == "none" else [call_schema(tool) for tool in callable_tools(contract)]
    if admits_answer(contract):
        answer = answer_schema(contract)
        as_tool = contract.answer_style == "tool"
        branches.append(_closed_object({"tool": {"const": FINAL_ANSWER}, "args": answer}) if as_tool else answer)
    return {"anyOf": branches}


def admits_answer(contract: Contract) -> bool:
    """Return whether an answer may be given under the demanded choice; where it is a tool, it counts as a call, too."""
    by_call = contract.answer_style == "tool" and contract.choice in {"required", FINAL_ANSWER}
    return by_call or contract.choice in {"auto", "none"}


def or_answer(contract: Contract) -> str:
    """Return the words that follow a list of tools where an answer may be given instead; empty where none may."""
    if contract.answer_style == "tool" or not admits_answer(contract):
        return ""  # final_answer is on the list
    if contract.channel == "text":
        return '; or answer under the key "answer"'
    return "; or answer in text" if contract.answer.schema is None else "; or answer in the content"


def instructions(contract: Contract, wanted: str = "exactly one JSON object", schema: JSON = None) -> str:
    """Return the request for ``wanted`` in the text channel (T21); ``schema`` None is that of the union."""
    return f"{_TEXT_RULES.format(wanted=wanted)}\n{compact(schema or union_schema(contract))}"


def answer_instructions(contract: Contract) -> str:
    """Return how a model is told to answer in JSON where the endpoint takes no ``response_format``."""
    rules = _ANSWER_RULES if contract.choice == "none" or not contract.tools else _ANSWER_BESIDE_CALLS
    return f"{rules}\n{compact(contract.answer.document)}"


def final_answer_definition(contract: Contract) -> dict[str, JSON]:
    """Return the tool that carries the answer with ``answer_style="tool"``, as the API takes it."""
    words, schema = "Give the final answer to the user.", _hoisted(contract)
    return {"type": "function", "function": {"name": FINAL_ANSWER, "description": words, "parameters": schema}}


def response_format(contract: Contract) -> dict[str, JSON]:
    """Return the ``response_format`` that asks for the structured answer of the native channel."""
    return {"type": "json_schema", "json_schema": {"name": contract.answer.name, "schema": contract.answer.document}}


def callable_tools(contract: Contract) -> list[Tool]:
    """Return the tools that may be called under the demanded choice."""
    return [tool for name, tool in contract.by_name.items() if contract.choice in {"auto", "required", name}]


def _closed_object(properties: dict[str, JSON]) -> dict[str, JSON]:
    required: list[JSON] = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _hoisted(contract: Contract) -> dict[str, JSON]:
    """Return the schema of ``{"answer": …}`` with the answer's definitions at its root, where servers look for them."""
    answer = contract.answer.document
    if not isinstance(answer, dict) or "$id" in answer or _REFERENCE_ELSEWHERE.search(compact(answer)):
        return answer_schema(contract)
    whole = _closed_object({"answer": {key: value for key, value in answer.items() if key != "$defs"}})
    return whole | {key: value for key, value in answer.items() if key == "$defs"}


def _embedded(name: str, document: object) -> JSON:
    """Return a schema to place inside another; one with references of its own gets a base URI to keep them its own."""
    if isinstance(document, dict) and '"$ref"' in compact(document):
        return {"$id": f"urn:strictreply:{name}", **document}
    return document  # type: ignore[return-value]
