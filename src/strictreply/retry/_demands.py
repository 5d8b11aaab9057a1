"""How a request says what its reply must be, by the channel of its contract."""

from __future__ import annotations

from dataclasses import replace

from strictreply.contract._answer import Answer
from strictreply.contract._channels import (
    FinalAnswerTool,
    admits_answer,
    answer_format,
    answer_instructions,
    instructions,
    union_schema,
)
from strictreply.contract._contract import Contract
from strictreply.retry._scoping import Scope, part_words
from strictreply.values._limits import JSON
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


def narrowed(
    contract: Contract,
    request: Request,
    scope: Scope | None,
    unwanted: frozenset[str],
    *,
    keeps_cache: bool,
    has_calls: bool,
) -> Request:
    """Return the request that asks for a scope alone, or for the whole reply.

    ``has_calls``: the conversation holds some.
    """
    is_native = contract.channel == "native"

    if scope is not None and not keeps_cache:
        if is_native:
            # forced calls are all that is wanted, or an answer by a schema of its own
            request = replace(request, format=None)

        narrow = contract_for(contract, scope, has_calls=has_calls)
        is_own = narrow.choice == contract.choice
        return demanding(narrow, request, unwanted, scope, is_own=is_own)

    request = demanding(contract, request, unwanted)
    if scope is None or not is_native or CHOICE in unwanted:
        return request

    if scope.only:
        choice = Choice(tool=scope.tools[0])
    else:
        choice = Choice("required", allowed=tuple(dict.fromkeys(scope.tools)))

    return replace(request, choice=choice, added=request.added | {CHOICE})


def contract_for(contract: Contract, scope: Scope, *, has_calls: bool) -> Contract:
    """Return the contract whose request asks for a scope alone.

    It is the same one in the text channel, where the instructions ask for the scope.
    """
    if contract.channel == "text":
        return contract

    schema = None if scope.part is None else scope.part.schema

    if scope.calls:
        narrow = contract.only(*scope.tools)
        if schema is None:
            return narrow

        return narrow.replace(tools=(replace(narrow.tools[0], parameters=schema),))

    # some APIs refuse a conversation with calls in it where no tools are sent
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
) -> Request:
    """Return a request that says what a contract demands, by its channel.

    ``is_own``: the contract has the caller's own choice of tools.
    """
    if contract.channel == "text":
        return _in_text(contract, request, unwanted, scope)

    added = _usage_added(request, unwanted)
    tools = _tools(contract)
    choice = _choice(contract) if tools else None
    is_callers = is_own and (contract.choice != "auto" or bool(contract.offered))
    if choice is not None and not is_callers:
        added.add(CHOICE)

    # true is the API's own default, and said only where several calls are retried
    parallel = request.parallel if tools else None
    several = scope is not None and len(scope.calls) > 1
    if tools and parallel is None and (several or not contract.parallel):
        added.add(PARALLEL)
        parallel = contract.parallel

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
    )
    refused = added & unwanted
    return asked.without(refused) if refused else asked


def _usage_added(request: Request, unwanted: frozenset[str]) -> set[str]:
    """Return that the usage of a stream is asked for: an attempt has it like any other."""
    is_asked = request.is_stream and request.wants_usage is None and USAGE not in unwanted
    return {USAGE} if is_asked else set()


def _has_structured_answer(contract: Contract) -> bool:
    has_schema = contract.answer.schema is not None and contract.answer_style == "union"
    return has_schema and admits_answer(contract)


def _in_text(
    contract: Contract, request: Request, unwanted: frozenset[str], scope: Scope | None
) -> Request:
    schema: JSON = union_schema(contract)
    words = instructions(contract)

    if scope is not None and scope.part is not None:
        schema = scope.part.schema.shown
        tool = scope.name if scope.calls else None
        wanted = part_words(tool, scope.place, wrapped=scope.part.wrapped)
        words = instructions(contract, f"only {wanted}", schema)

    # the schema of what is asked for: the caller's bare schema would refuse that
    ours = AnswerFormat("json_schema", schema, "reply")
    added = _usage_added(request, unwanted)

    return replace(
        request,
        instructions=words,
        parallel=None,  # there are no tools in this request
        format=ours if has_schema(request) else request.format,
        asks_usage=USAGE in added,
        added=frozenset(added),
    )


def has_schema(request: Request) -> bool:
    """Return whether the answer is demanded by a schema in the request itself."""
    return isinstance(request.format, AnswerFormat) and request.format.kind == "json_schema"


def _tools(contract: Contract) -> tuple[Declared, ...]:
    if contract.answer_style == "union":
        return contract.offered or contract.tools

    tools: tuple[Declared, ...] = () if contract.choice == "none" else contract.tools
    return (*tools, FinalAnswerTool.of(contract)) if admits_answer(contract) else tools


def _choice(contract: Contract) -> Choice | None:
    """Return the choice of tools to send.

    None for ``auto``, which is the API's own default. An answer by tool is a call, and calls are
    required then.
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
