"""What one request demands of its reply.

The demands are read from the caller's request into a contract, and written into our own request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from strictreply.contract._answer import Answer
from strictreply.contract._channels import (
    FinalAnswerTool,
    admits_answer,
    answer_format,
    answer_instructions,
    constraint_schema,
    instructions,
)
from strictreply.contract._contract import Contract
from strictreply.contract._definitions import given
from strictreply.contract._sent_schemas import SentSchemas
from strictreply.contract._tool import Tool, tools_of, unheld_words
from strictreply.retry._scoping import Scope, part_words
from strictreply.schema import Schema
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._requests import (
    CHOICE,
    FORMAT,
    PARALLEL,
    USAGE,
    AnswerFormat,
    Choice,
    Declared,
    Request,
)
from strictreply.wires import WIRES
from strictreply.wires._declared_tools import name_of, spaces_of
from strictreply.wires._requests import settled
from strictreply.wires._wire import Wire

MAX_WARNED = 1_000

A = TypeVar("A")


def shape(
    contract: Contract[A],
    keywords: Mapping[str, Any],
    wire: Wire = WIRES["chat"],
    warned: set[str] | None = None,
) -> tuple[Contract[A], Request]:
    """Return the contract and the request for the keywords of one call; see :func:`shaped`."""
    return shaped(contract, wire.read(settled(given(keywords))), warned)


def shaped(
    contract: Contract[A], request: Request, warned: set[str] | None = None
) -> tuple[Contract[A], Request]:
    """Move the demands of a request into the contract of this call.

    Return that contract, and the request without these demands. A schema as the format of the
    answer becomes the answer's schema for this call; ``json_object`` requires an object if any text
    was allowed. Raises ContractError for a demand that a verdict could not honour.

    Pass ``warned`` for a request in the API's own form, whose schemas may be third-party: none of
    them ends the request. A ContractWarning says what of them cannot be checked; ``warned`` records
    the warnings, so that each is issued once.
    """
    tools = request.given_tools
    if tools is not None:
        if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping):
            raise ContractError("tools must be a list of tools")

        contract = contract.replace(tools=tuple(_tools_of(contract, tools, warned)))

    contract = _with_declared(contract, request.elsewhere, warned)
    if request.choice is not None:
        contract = _shaped_by_choice(contract, request.choice)
    if request.parallel is not None:
        contract = contract.replace(parallel=bool(request.parallel))

    if request.given_tools is not None or request.choice is not None:
        request = replace(request, given_tools=None, choice=None)

    return _shaped_by_format(contract, request, warned)


def own_request(request: Request, warned: set[str] | None) -> Request:
    """Return the caller's request, without any demands of a contract."""
    held, base = shaped(Contract(parallel=True), request, warned)
    return replace(demanding(held, base, frozenset()), asks_usage=False, added=frozenset())


def _tools_of(
    contract: Contract, tools: Iterable[object], warned: set[str] | None
) -> list[Tool[..., Any]]:
    """Declare the tools of a request with the settings of the contract.

    A schema that cannot be checked is rejected, unless it is in a request in the API's own form.
    """
    how: dict[str, Any] = {"extra": contract.extra, "formats": contract.formats}
    if warned is None:
        return _strictly(list(tools), how)

    declared = tools_of(tools, are_strangers=True, **how)
    for tool in declared:
        if tool.parameters.unheld and tool.origin.adapter is None:
            _warn_once(unheld_words(tool), warned)

    return declared


def _strictly(tools: list[object], how: dict[str, Any]) -> list[Tool[..., Any]]:
    """Declare tools whose schemas must be checkable; the error says how to send them anyway."""
    try:
        return tools_of(tools, **how)
    except ContractError as error:
        with suppress(ContractError):
            tools_of(tools, are_strangers=True, **how)
            said = str(error).removesuffix(f" (at {error.path})")
            words = (
                f"{said}; tools for reply(), stream() or run() must be checkable; create() sends "
                "this one unchanged, and checks only that its arguments are a JSON object"
            )
            error = ContractError(words, path=error.path)

        raise error from error.__cause__


def _warn_once(words: str, warned: set[str]) -> None:
    if words in warned or len(warned) >= MAX_WARNED:
        return

    warned.add(words)
    warn_of_declaration(words)


def _with_declared(
    contract: Contract[A], tools: tuple[JSONObject, ...], warned: set[str] | None
) -> Contract[A]:
    """Add the tools that a request declares elsewhere; the contract's own take precedence."""
    spaces = spaces_of(tools)
    if spaces:
        contract = contract.replace(spaces=spaces)

    new = [tool for tool in tools if name_of(tool) not in contract.by_name]
    if not new:
        return contract

    return contract.replace(tools=(*contract.tools, *_tools_of(contract, new, warned)))


def _shaped_by_choice(contract: Contract[A], choice: Choice) -> Contract[A]:
    if choice.tool:
        return contract.with_choice(choice.tool)

    if choice.allowed is None:
        # other APIs call it "any"
        means_required = choice.mode == "any" and choice.mode not in contract.callable_names
        return contract.with_choice("required" if means_required else choice.mode)

    if not choice.allowed or not set(contract.callable_names).issuperset(choice.allowed):
        raise ContractError(
            f"tool_choice.allowed_tools must list declared tools: {contract.tool_list or 'none'}"
        )

    tools = tuple(contract.by_name[name] for name in choice.allowed if name in contract.by_name)
    narrowed = contract.replace(tools=tools, offered=contract.tools)
    return narrowed.with_choice(choice.mode)


def _shaped_by_format(
    contract: Contract[A], request: Request, warned: set[str] | None
) -> tuple[Contract[A], Request]:
    wanted = request.format
    if wanted is None:
        return contract, request

    if not isinstance(wanted, AnswerFormat):
        return contract.replace(answer=_answer(contract, wanted)), replace(request, format=None)

    if wanted.kind == "json_schema":
        answer = _strangers_answer(contract, wanted.schema, warned)
        if answer.schema is not None and answer.schema.shown is not answer.schema.source:
            request = replace(request, format=replace(wanted, schema=answer.document))

        return contract.replace(answer=answer), request

    if wanted.kind == "json_object" and contract.answer.is_text:
        return contract.replace(answer=Answer.of({"type": "object"}, extra="schema")), request

    return contract, request


def _strangers_answer(contract: Contract, schema: object, warned: set[str] | None) -> Answer:
    """Return the answer for the schema in a request.

    If a third-party schema cannot be checked, only JSON of its type is required.
    """
    try:
        answer = _answer(contract, _object_of(schema), is_strangers=warned is not None)
    except ContractError as error:
        if warned is None or type(contract.answer) is not Answer:
            raise

        is_object = isinstance(schema, Mapping) and schema.get("type") == "object"
        enforced: JSONObject = {"type": "object"} if is_object else {}
        answer = Answer(Schema.unchecked(schema, str(error), enforced))

    if warned is not None and answer.schema is not None and answer.schema.unheld:
        unheld = "; ".join(answer.schema.unheld)
        _warn_once(f"the answer is checked against its schema except: {unheld}", warned)

    return answer


def _object_of(schema: object) -> Mapping[str, Any]:
    """Return the schema of an answer; raise ContractError if it is not an object."""
    if not isinstance(schema, Mapping):
        raise ContractError("response_format.json_schema.schema must be a JSON Schema")

    return schema


def _answer(contract: Contract, kind: object, *, is_strangers: bool = False) -> Answer:
    if type(contract.answer) is not Answer:
        raise ContractError(
            "response_format has a schema, but the contract's answer has its own; leave it out"
        )

    extra = contract.extra or "forbid"
    formats = contract.formats or "assert"
    return Answer.of(kind, extra=extra, formats=formats, is_strangers=is_strangers)


def narrowed(
    contract: Contract,
    request: Request,
    scope: Scope | None,
    unwanted: frozenset[str],
    *,
    keeps_cache: bool,
    has_calls: bool,
) -> Request:
    """Return the request for a scope, or for the whole reply if ``scope`` is None.

    ``has_calls`` says whether the conversation contains calls.
    """
    is_native = contract.channel == "native"

    if scope is not None and not keeps_cache:
        if is_native:
            # the retry requests forced calls, or an answer with another schema
            request = replace(request, format=None)

        narrow = contract_for(contract, scope, has_calls=has_calls)
        is_own = narrow.choice == contract.choice
        return demanding(narrow, request, unwanted, scope, is_own=is_own, whole=contract)

    request = demanding(contract, request, unwanted)
    if scope is None or not is_native or CHOICE in unwanted:
        return request

    if scope.only:
        choice = Choice(tool=scope.tools[0])
    else:
        choice = Choice("required", allowed=tuple(dict.fromkeys(scope.tools)))

    return replace(request, choice=choice, added=request.added | {CHOICE})


def contract_for(contract: Contract, scope: Scope, *, has_calls: bool) -> Contract:
    """Return the contract for a request of a scope only.

    In the text channel it is the same contract, because the instructions name the scope.
    """
    if contract.channel == "text":
        return contract

    schema = None if scope.part is None else scope.part.schema

    if scope.calls:
        narrow = contract.only(*scope.tools)
        if schema is None:
            return narrow

        return narrow.replace(tools=(replace(narrow.tools[0], parameters=schema),))

    # some APIs reject a conversation with calls if no tools are sent
    tools = contract.tools if has_calls else ()
    answer = Answer(schema, name=contract.answer.name)
    return contract.replace(tools=tools, choice="none", answer=answer)


def demanding(
    contract: Contract,
    request: Request,
    unwanted: frozenset[str],
    scope: Scope | None = None,
    *,
    is_own: bool = True,
    whole: Contract | None = None,
) -> Request:
    """Return a request with the demands of a contract.

    ``is_own`` says whether the contract has the caller's own tool choice. ``whole`` is the contract
    that this one was narrowed from, whose schemas are sent; None if it was not narrowed.
    """
    if contract.channel == "text":
        return _in_text(contract, request, unwanted, scope)

    added = usage_added(request, unwanted)
    tools = _tools(contract)
    choice = _choice(contract) if tools else None
    is_callers = is_own and (contract.choice != "auto" or bool(contract.offered))
    if choice is not None and not is_callers:
        added.add(CHOICE)

    # true is the API's default, and sent only if several calls are retried
    parallel = request.parallel if tools else None
    several = scope is not None and len(scope.calls) > 1
    if tools and parallel is None and (several or not contract.parallel):
        added.add(PARALLEL)
        parallel = contract.parallel

    if _is_format_refused(contract, scope):
        unwanted |= {FORMAT}

    wanted = request.format
    if wanted is None and _has_structured_answer(contract):
        added.add(FORMAT)
        wanted = answer_format(contract)

    is_told = FORMAT in added and FORMAT in unwanted
    asked = replace(
        request,
        instructions=answer_instructions(contract) if is_told else request.instructions,
        tools=tools,
        choice=choice,
        parallel=parallel,
        format=wanted,
        asks_usage=USAGE in added,
        added=frozenset(added),
        undressed=None,
    )
    sent = contract.sent if whole is None else whole.sent
    if sent is not None and scope_is_whole(scope):
        asked = _strictly_sent(sent, asked)
        added = {*asked.added}

    refused = added & unwanted
    return asked.without(refused) if refused else asked


def scope_is_whole(scope: Scope | None) -> bool:
    """Return whether whole calls or a whole reply are requested, not a value inside one."""
    return scope is None or scope.part is None


def _strictly_sent(sent: SentSchemas, request: Request) -> Request:
    """Return a request with the schemas converted for the provider's strict mode."""
    tools = tuple(sent.tools.get(tool.name, tool) for tool in request.tools)
    wanted = request.format
    is_ours = FORMAT in request.added and isinstance(wanted, AnswerFormat)
    if is_ours and isinstance(wanted, AnswerFormat) and sent.answer is not None:
        wanted = replace(wanted, schema=sent.answer.document, is_strict=True)
    if wanted is request.format and tools == request.tools:
        return request

    added = request.added | {sent.name}
    return replace(request, tools=tools, format=wanted, added=added, undressed=request)


def _is_format_refused(contract: Contract, scope: Scope | None) -> bool:
    """Return whether the server is known to reject the schema of the answer.

    Anthropic accepts only schemas that it enforces; otherwise the instructions have the schema.
    """
    is_asked = contract.provider == "anthropic" and contract.strict is not False
    if not is_asked or contract.answer.schema is None:
        return False

    return not scope_is_whole(scope) or contract.sent is None or contract.sent.answer is None


def usage_added(request: Request, unwanted: frozenset[str]) -> set[str]:
    """Return the addition that requests the usage of a stream, if it is needed."""
    is_asked = request.is_stream and request.wants_usage is None and USAGE not in unwanted
    return {USAGE} if is_asked else set()


def _has_structured_answer(contract: Contract) -> bool:
    has_schema = contract.answer.schema is not None and contract.answer_style == "union"
    return has_schema and admits_answer(contract)


def _in_text(
    contract: Contract, request: Request, unwanted: frozenset[str], scope: Scope | None
) -> Request:
    schema: JSON = constraint_schema(contract)
    words = instructions(contract)

    if scope is not None and scope.part is not None:
        schema = scope.part.schema.shown
        tool = scope.name if scope.calls else None
        wanted = part_words(tool, scope.place, wrapped=scope.part.wrapped)
        words = instructions(contract, f"only {wanted}", schema)

    # the schema of the whole reply: the caller's schema, of the answer only, would not admit it
    ours = AnswerFormat("json_schema", schema, "reply")
    added = usage_added(request, unwanted)

    return replace(
        request,
        instructions=words,
        parallel=None,  # there are no tools in this request
        format=ours if has_schema(request) else request.format,
        asks_usage=USAGE in added,
        added=frozenset(added),
    )


def has_schema(request: Request) -> bool:
    """Return whether the request itself has a schema for the answer."""
    return isinstance(request.format, AnswerFormat) and request.format.kind == "json_schema"


def _tools(contract: Contract) -> tuple[Declared, ...]:
    if contract.answer_style == "union":
        return contract.offered or contract.tools

    tools: tuple[Declared, ...] = () if contract.choice == "none" else contract.tools
    return (*tools, FinalAnswerTool.of(contract)) if admits_answer(contract) else tools


def _choice(contract: Contract) -> Choice | None:
    """Return the tool choice to send; None for ``auto``, the API's default.

    With ``answer_style="tool"`` an answer is a call, so calls are required.
    """
    choice = contract.choice
    is_union = contract.answer_style == "union"

    if choice in {"auto", "none"} and not is_union:
        return Choice("required")
    if contract.offered and is_union and choice in {"auto", "required"}:
        return Choice(choice, allowed=tuple(tool.name for tool in contract.tools))
    if choice == "auto":
        return None

    return Choice(choice) if choice in {"required", "none"} else Choice(tool=choice)
