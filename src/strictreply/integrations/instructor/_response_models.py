"""What instructor calls a ``response_model``, as a contract: what is asked of the model, and the value it stands for.

instructor tells the model of the type, in a tool or in prose; the reply is held to the same type here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import to_json

from strictreply.contract._contract import Contract, ContractKeywords
from strictreply.contract._tool import Tool
from strictreply.integrations.instructor._library import load
from strictreply.values._errors import ContractError
from strictreply.values._json import Extraction, JSONObject
from strictreply.values._replies import AssistantReply, DirectAnswer, calls_of

Context: TypeAlias = dict[str, Any]
"""What instructor fills templates with, and what validators read as ``info.context``."""


_JSON_MODES: dict[str, tuple[Extraction, ...]] = {
    "JSON": ("strict",),
    "JSON_SCHEMA": ("strict",),
    "MD_JSON": ("fenced",),
}
"""The modes whose reply is JSON in the content; MD_JSON asks for a Markdown fence around it."""

MODES = ("TOOLS", *_JSON_MODES)
"""The modes of instructor's that are served: one forced call, or JSON in the content."""


@dataclass(frozen=True, slots=True)
class ResponseModel:
    """A type that was asked for: its contract, what the request adds to it, and how a valid reply becomes a value."""

    contract: Contract
    demands: JSONObject
    unwrap: Callable[[Any], Any]

    def value(self, reply: AssistantReply) -> Any:
        """Give the typed value of a reply that fits."""
        if isinstance(reply, DirectAnswer):
            return self.unwrap(reply.answer)
        return self.unwrap(calls_of(reply)[0].args)  # exactly one call was demanded


def response_model(kind: Any, mode: str, declared: ContractKeywords, context: Context | None = None) -> ResponseModel:
    """Compile a type as it is asked for in one of instructor's modes.

    A pydantic model's reply becomes its instance; other types are wrapped by instructor (``{"content": …}``,
    ``{"tasks": […]}``) and unwrapped again. ``mode`` is one of :data:`MODES`. Raises ContractError for what is no type,
    or has no JSON Schema.
    """
    shown = load("instructor.utils").prepare_response_model(kind)
    if not isinstance(shown, type) or not issubclass(shown, BaseModel):
        message = "response_model must be a type that instructor takes: a pydantic model, list[…], a TypedDict, int, …"
        raise ContractError(message)
    own = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else shown
    typed: Any = own if context is None else _in_context(own, context)
    if mode == "TOOLS":
        return _by_tool(shown, typed, declared)
    keywords: ContractKeywords = {"extraction": _JSON_MODES[mode], **declared}
    return ResponseModel(Contract(answer=typed, **keywords), {}, _unwrapped)


def _by_tool(shown: type[BaseModel], typed: Any, declared: ContractKeywords) -> ResponseModel:
    """Ask for a call of the one tool that instructor makes of the type."""
    told = load().generate_openai_schema(shown)
    tool = Tool.from_model(typed, name=told["name"], description=told["description"])
    keywords: ContractKeywords = {**declared, "tools": [tool]}
    demands = {"tool_choice": {"type": "function", "function": {"name": tool.name}}}
    return ResponseModel(Contract(**keywords), demands, _unwrapped)


def _unwrapped(value: Any) -> Any:
    """Take the value out of the model that instructor put around a type that is none."""
    if isinstance(value, load("instructor.v2.dsl.simple_type").AdapterBase):
        return value.content
    return list(value.tasks) if isinstance(value, load("instructor.v2.dsl.iterable").IterableBase) else value


def _in_context(kind: type[BaseModel], context: Context) -> Any:
    """Give a type whose validators read ``context`` as ``info.context``."""
    adapter = TypeAdapter(kind)

    def validated(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
        return adapter.validate_json(to_json(value), context=context)

    return Annotated[kind, WrapValidator(validated)]
