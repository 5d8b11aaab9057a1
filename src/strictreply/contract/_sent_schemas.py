"""The tools and the answer of a contract in the form for one provider's strict mode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strictreply.contract._answer import Answer
from strictreply.contract._tool import Tool
from strictreply.schema import Schema
from strictreply.schema._places import SchemaDocument
from strictreply.schema._sent_form import SentForm, StrictProvider, sent_form
from strictreply.schema._survey import LIMITS, Limit
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject, Strict
from strictreply.values._requests import STRICT


@dataclass(frozen=True, slots=True)
class SentTool:
    """A tool in the form for one provider."""

    name: str
    """Its name."""
    definition: JSONObject
    """The tool in the form of chat completions; shared, so do not change it."""
    form: SentForm
    """The schema of its arguments in the sent form."""
    digest: str
    """A digest of the schema."""
    sizes: tuple[int, ...]
    """Its share of each limit of a request, in the order of :func:`_limits`."""


@dataclass(frozen=True, slots=True)
class SentSchemas:
    """The parts of a contract that are sent in a form that a provider enforces."""

    tools: Mapping[str, SentTool]
    """The tools, by name."""
    answer: SentForm | None
    """The schema of the answer; None if it is sent as declared."""
    name: str
    """The name of this addition, under which an endpoint's rejection is remembered."""


def sent_schemas(
    tools: Iterable[Tool[..., Any]],
    answer: Answer | None,
    strict: Strict,
    provider: StrictProvider,
) -> SentSchemas | None:
    """Return the schemas to send in a provider's strict mode; None for none.

    With ``answer`` None no schema of an answer is sent. Schemas beyond the limits of a request are
    sent as declared, starting with the last tools. Raises ContractError for a schema that must be
    converted (``strict=True``) and cannot be.
    """
    left = [limit.most for limit in _limits(provider)]
    form = None if answer is None else _sent_answer(answer, strict, provider)
    if form is not None:
        rest = _rest(left, _sizes(form, provider, is_tool=False))
        form = None if rest is None else form
        left = left if rest is None else rest

    sent: dict[str, SentTool] = {}
    for tool in tools:
        made = _sent_tool(tool, strict, provider)
        rest = None if made is None else _rest(left, made.sizes)
        if made is not None and rest is not None:
            sent[tool.name] = made
            left = rest

    if not sent and form is None:
        return None

    digests = [tool.digest for tool in sent.values()]
    if form is not None:
        digests.append(_digest(form))

    return SentSchemas(sent, form, f"{STRICT}:{_short(repr(digests))}")


def _sent_tool(
    tool: Tool[..., Any], contracts: Strict, provider: StrictProvider
) -> SentTool | None:
    origin = tool.origin
    is_own = origin.strict is None and not origin.is_strangers and origin.custom is None
    wanted = contracts if tool.strict is None else tool.strict
    if not is_own or wanted is False or tool.parameters.is_unchecked:
        return None

    kept = tool.parameters.parts
    place = f"sent {provider} {id(tool)}"
    if place not in kept:
        kept[place] = (tool, _made(tool, provider))

    made: SentTool = kept[place][1]
    if made.form.is_strict:
        return made
    if wanted is True:
        raise ContractError(
            f"the tool {tool.name!r} has strict=True, but its schema cannot be converted for "
            f'{provider}: {made.form.why}; change the schema, or pass strict="auto"'
        )

    return None


def _made(tool: Tool[..., Any], provider: StrictProvider) -> SentTool:
    form = _form(tool.parameters, provider)
    function = {**tool.definition["function"], "parameters": form.document, "strict": True}
    definition = {**tool.definition, "function": function}
    sizes = _sizes(form, provider, is_tool=True)
    return SentTool(tool.name, definition, form, _digest(form), sizes)


def _limits(provider: StrictProvider) -> list[Limit]:
    return [limit for limit in LIMITS[provider] if limit.is_of_request]


def _sizes(form: SentForm, provider: StrictProvider, *, is_tool: bool) -> tuple[int, ...]:
    """Return the share of a form in each limit of a request."""
    document: Any = form.document
    sent = [SchemaDocument(document, is_tool=is_tool)]
    return tuple(limit.count(sent) for limit in _limits(provider))


def _rest(left: list[int], sizes: tuple[int, ...]) -> list[int] | None:
    """Return the remaining limits of a request after a form; None if it exceeds one."""
    rest = [most - size for most, size in zip(left, sizes, strict=True)]
    return None if any(one < 0 for one in rest) else rest


def _form(schema: Schema, provider: StrictProvider, *, wraps_root: bool = False) -> SentForm:
    place = f"form {provider} {wraps_root}"
    if place not in schema.parts:
        asserts = schema.asserts_formats
        schema.parts[place] = sent_form(
            schema.shown, provider, wraps_root=wraps_root, asserts_formats=asserts
        )

    form: SentForm = schema.parts[place]
    return form


def _sent_answer(answer: Answer, strict: Strict, provider: StrictProvider) -> SentForm | None:
    schema = answer.schema
    if schema is None or type(answer) is not Answer or schema.is_unchecked or strict is False:
        return None

    form = _form(schema, provider, wraps_root=True)
    if form.is_strict:
        return form
    if strict is True:
        raise ContractError(
            f"the contract has strict=True, but its answer cannot be converted for {provider}: "
            f'{form.why}; change its schema, or pass strict="auto"'
        )

    return None


def _digest(form: SentForm) -> str:
    return _short(json.dumps(form.document, sort_keys=True))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
