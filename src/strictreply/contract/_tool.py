"""Tools: a name, a schema for the arguments, and the function that executes a call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, NoReturn, TypeAlias, TypedDict, Unpack, cast, overload

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python
from typing_extensions import ParamSpec, TypeVar

from strictreply.contract._context import ContextParameter, context_parameters
from strictreply.contract._definitions import (
    VendorMembers,
    about_tool,
    is_anthropics,
    read_custom,
    read_definition,
    read_mcp,
    warn_of_misplaced,
)
from strictreply.contract._models import (
    ByText,
    Findings,
    adapter_of,
    document_of,
    instance_of,
    kept_on,
)
from strictreply.contract._signatures import Signature, read_signature
from strictreply.contract._tagged import with_required_tags
from strictreply.schema import Schema
from strictreply.schema._closing import as_member, modern
from strictreply.schema._documents import Document, read_document
from strictreply.values._control_flow import ending_in
from strictreply.values._errors import (
    AbortRun,
    ContractError,
    ToolExecutionError,
    must_be,
    must_have,
    warn_of_declaration,
)
from strictreply.values._issues import quote
from strictreply.values._limits import (
    JSON,
    Extra,
    Formats,
    JSONObject,
    Strict,
    Work,
    is_count,
    is_duration,
)
from strictreply.values._mistakes import IN_TOOLS, refuse_unknown
from strictreply.values._replies import Invalid, ToolCall
from strictreply.wires._members import peek

UserCheck: TypeAlias = Callable[[Any], Findings | Awaitable[Findings]]
"""A user's own check of typed arguments, sync or async.

It returns issues or None, or raises ValueError.
"""
# the member with the arguments, if ``wrap_root`` put them into an object
VALUE = "value"
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_NOT_AWAITED = "the tool {!r} is async; await arun(), or wrap an async client"


class Execution(TypedDict, total=False):
    """Keywords for how a tool is executed in a loop, and sent; see the fields of :class:`Tool`."""

    needs_approval: bool
    """Whether a tool loop pauses before a call until it is approved."""
    timeout: float | None
    """Seconds that one call in a tool loop may take."""
    repeatable: bool
    """Whether the same call may have a different result next time."""
    max_failures: int | None
    """Failed calls in a row that end a run."""
    strict: Strict | None
    """Whether to request the provider's strict mode; None leaves it to the contract."""


class ToolKeywords(Execution, total=False):
    """The keywords that declare a function or a model; see :meth:`Tool.from_function`."""

    name: str | None
    description: str | None
    check: UserCheck | None
    extra: Extra


class SchemaKeywords(Execution, total=False):
    """The keywords that declare a tool by a definition; see :meth:`Tool.from_json_schema`."""

    check: UserCheck | None
    function: Callable[..., Any] | None
    extra: Extra
    formats: Formats


@dataclass(frozen=True, slots=True)
class ToolOrigin:
    """How a tool was declared, in addition to its name, schema and function."""

    signature: Signature | None = None
    """The function's parameters; None for a tool that was not made from a function."""
    adapter: TypeAdapter[Any] | None = None
    """Converts arguments into an instance; None if they stay a dict."""
    strict: bool | None = None
    """The member ``strict`` of the definition; None if it has none."""
    vendor: VendorMembers = VendorMembers()
    """Members of the definition that are not OpenAI's."""
    is_wrapped: bool = False
    """Whether the model writes ``{"value": …}`` for arguments that are not an object."""
    custom: JSONObject | None = None
    """The API's form of a tool whose input is free text; None for a function.

    Its arguments are that text.
    """
    is_strangers: bool = False
    """Whether it was declared in a request in the API's form, and is sent unchanged."""
    context: tuple[ContextParameter, ...] = ()
    """The parameters of the function that get the value of :meth:`Tool.with_context`."""


# the parameters of a tool's function, and what it returns (an async one returns an awaitable)
P = ParamSpec("P", default=...)
R_co = TypeVar("R_co", covariant=True, default=Any)
Q = ParamSpec("Q")
R = TypeVar("R")
M = TypeVar("M")


@dataclass(frozen=True, slots=True, eq=False)
class Tool(Generic[P, R_co]):
    """One tool that a model may call.

    A tool is immutable, and compared by identity. ``Tool[P, R]`` wraps a ``Callable[P, R]``. Every
    way to declare a tool takes ``needs_approval``, ``timeout``, ``repeatable``, ``max_failures``
    and ``strict`` as keywords.

    Raises ContractError if

    - the name is not 1 to 128 letters, digits and ``_ - . : /``;
    - ``timeout`` is not a number above 0, or ``max_failures`` not a whole number above 0;
    - ``needs_approval`` is set for a tool without a function, which your program executes itself.
    """

    name: str
    """The name by which the model calls the tool."""
    description: str
    """What the tool does, for the model."""
    parameters: Schema
    """The schema of the arguments."""
    check: UserCheck | None = None
    """Your own check, called with the typed arguments; None for none."""
    function: Callable[P, R_co] | None = None
    """The function that executes a call; None if your program does."""
    extra: Extra = field(default="forbid", repr=False)
    """What happens to keys that the schema does not mention: ``forbid`` rejects them."""
    formats: Formats = field(default="assert", repr=False)
    """Whether ``format`` is enforced (``assert``), or only describes (``annotate``)."""
    needs_approval: bool = False
    """Whether a tool loop pauses before a call until it is approved."""
    timeout: float | None = None
    """Seconds that one call in a tool loop may take; None for the loop's limit."""
    repeatable: bool = False
    """Whether the same call may have a different result next time, such as the state of a job.

    The loop's guard against repetition never counts such calls.
    """
    max_failures: int | None = None
    """Failed calls in a row that end a run with :class:`AbortRun`; None for the loop's limit."""
    strict: Strict | None = None
    """Whether to request the provider's strict mode; None leaves it to the contract.

    ``True`` raises ContractError if the schema cannot be converted for the provider.
    """
    origin: ToolOrigin = field(default=ToolOrigin(), repr=False)
    """How the tool was declared."""
    definition: JSONObject = field(init=False, repr=False)
    """The OpenAI tool definition, including members of other vendors.

    It is created once and shared: do not change it.
    """

    def __post_init__(self) -> None:
        """Check the fields, and create the definition."""
        if not _NAME.fullmatch(self.name):
            raise ContractError(
                f"the tool name {quote(self.name)} must be 1 to 128 letters of ASCII, digits and "
                "_ - . : /; give it another with name=…"
            )

        if self.timeout is not None and not is_duration(self.timeout):
            raise ContractError(
                f"the timeout of tool {self.name!r} must be a number of seconds above 0, or None"
            )

        if self.strict not in ("auto", True, False, None):
            raise ContractError(f"strict of tool {self.name!r} must be 'auto', True, False or None")

        if self.max_failures is not None and not is_count(self.max_failures, 1):
            raise ContractError(
                f"max_failures of tool {self.name!r} must be a whole number, 1 or more, or None"
            )

        must_be(f"description of tool {self.name!r}", self.description, str, "a text")
        for part in ("check", "function"):
            must_have(
                f"{part} of tool {self.name!r}", getattr(self, part), "__call__", "a function"
            )

        for part in ("needs_approval", "repeatable"):
            must_be(f"{part} of tool {self.name!r}", getattr(self, part), bool, "True or False")

        if self.needs_approval and self.function is None:
            raise ContractError(
                f"the tool {self.name!r} has needs_approval but no function; pass function=…"
            )

        function: JSONObject = {"name": self.name}
        if self.description:
            function["description"] = self.description

        function["parameters"] = self.parameters.shown
        origin = self.origin
        if origin.strict is not None:
            function["strict"] = origin.strict

        function |= origin.vendor.within

        whole: JSONObject = {"type": "function", "function": function} | origin.vendor.beside
        if origin.custom is not None:
            whole = {"type": "custom", "custom": origin.custom}

        object.__setattr__(self, "definition", whole)
        takers = () if self.function is None else context_parameters(self.function)
        if takers != origin.context:
            object.__setattr__(self, "origin", replace(origin, context=takers))

    @classmethod
    def of(
        cls, declaration: object, *, extra: Extra | None = None, formats: Formats | None = None
    ) -> Tool[..., Any]:
        """Declare a tool from any kind of declaration.

        That is a Tool, a function, a pydantic model (or dataclass, or TypedDict), a tool definition
        of OpenAI or Anthropic, or an entry of an MCP ``tools/list`` (a mapping or an object). Equal
        definitions are compiled only once. ``extra`` and ``formats`` None keep the settings of the
        declaration. Raises ContractError for anything else, or if the declaration is wrong.
        """
        return tools_of([declaration], extra=extra, formats=formats)[0]

    @classmethod
    def from_function(
        cls, function: Callable[Q, R], **keywords: Unpack[ToolKeywords]
    ) -> Tool[Q, R]:
        """Declare a function, sync or async, by its signature and docstring.

        The typed arguments are an instance of a model made from the signature.

        - ``function`` is the function that executes the calls.
        - ``name`` defaults to the function's name, ``description`` to the docstring without its
          sections.
        - ``check`` is your own check of valid arguments; None for none.
        - ``extra="schema"`` accepts and ignores unknown arguments, because the function could not
          take them.

        Raises ContractError if a parameter cannot be described in JSON Schema.
        """
        signature = read_signature(function)
        name = signature.name
        words = signature.description
        adapter = adapter_of(signature.model, name)
        origin = ToolOrigin(signature=signature, adapter=adapter)
        made = cls._typed(adapter, name, words, keywords, origin=origin, function=function)
        return cast("Tool[Q, R]", made)

    @overload
    @classmethod
    def from_model(
        cls, model: type[M], *, function: Callable[[M], R], **keywords: Unpack[ToolKeywords]
    ) -> Tool[[M], R]: ...
    @overload
    @classmethod
    def from_model(
        cls,
        model: Any,
        *,
        function: Callable[[Any], Any] | None = None,
        **keywords: Unpack[ToolKeywords],
    ) -> Tool[..., Any]: ...
    @classmethod
    def from_model(
        cls,
        model: Any,
        *,
        function: Callable[[Any], Any] | None = None,
        **keywords: Unpack[ToolKeywords],
    ) -> Tool[..., Any]:
        """Declare a pydantic model, dataclass or TypedDict, whose instance the arguments become.

        ``name`` defaults to the name of the class, ``description`` to its docstring. ``function``
        is called with the instance. With ``extra="schema"`` the configuration of the type decides
        about unknown members. Raises ContractError if the type has no JSON Schema, or its schema is
        not that of an object.
        """
        # Page[int] is a class of this name
        title = re.sub(r"[\[\], ]+", "_", getattr(model, "__name__", str(model))).strip("_")
        adapter = adapter_of(model, title)
        origin = ToolOrigin(adapter=adapter)
        made = cls._typed(adapter, title, None, keywords, origin=origin, function=function)
        return cast("Tool[..., Any]", made)

    @classmethod
    def from_json_schema(
        cls,
        name: str,
        schema: Mapping[str, object],
        description: str = "",
        extra: Extra = "forbid",
        *,
        check: UserCheck | None = None,
        function: Callable[..., Any] | None = None,
        formats: Formats = "assert",
        wrap_root: bool = False,
        **execution: Unpack[Execution],
    ) -> Tool[..., Any]:
        """Declare a tool by a JSON Schema; the arguments are a dict.

        The schema is copied. Its draft is 2020-12, or the one that ``$schema`` names, from draft 03
        on. ``function`` and ``check`` are called with the dict.

        ``wrap_root`` accepts the schema of any value. If its ``type`` is not ``object``, the model
        writes ``{"value": …}``, because APIs require an object, and the arguments are the value
        itself, also for ``function`` and ``check``.

        Raises ContractError if the schema is malformed, if certainly no value fits it, or if no
        object fits it and ``wrap_root`` is not set. Issues a ContractWarning for parts for which no
        example could be built, and for each pattern that cannot be matched in linear time; such a
        value is checked against all its other rules.
        """
        with about_tool(name):
            document: Document = modern(read_document(schema))

        is_object = isinstance(document, dict) and document.get("type") == "object"
        wrapped = wrap_root and not is_object
        if wrapped:
            document = as_member(document, VALUE)

        how: dict[str, Any] = {"extra": extra, "formats": formats, **execution}
        parameters = _compile(name, document, extra=extra, formats=formats)
        origin = ToolOrigin(is_wrapped=wrapped)
        made = Tool(name, description, parameters, check, function, origin=origin, **how)
        if parameters.unheld:
            warn_of_declaration(unheld_words(made))

        return made

    @classmethod
    def from_openai(
        cls, definition: Mapping[str, object], **keywords: Unpack[SchemaKeywords]
    ) -> Tool[..., Any]:
        """Declare a tool definition of OpenAI or Anthropic.

        OpenAI's form is ``{"type": "function", "function": {…}}``, or only the inner object;
        Anthropic's is ``{"name": …, "input_schema": …}``. Missing ``parameters`` mean a tool
        without arguments. ``strict`` and members of vendors (``cache_control``) stay in the
        definition. A tool of the type ``custom`` takes a text, which is checked if its grammar is a
        regular expression.

        Raises ContractError, with the path of the member, if a member is wrong or looks like a
        misspelling of a known one. Issues a ContractWarning for JSON Schema keywords next to
        ``parameters`` (such as ``required``), where they have no effect.
        """
        if definition.get("type") == "custom" and not is_anthropics(definition):
            custom, schema = read_custom(definition)
            name = custom["name"]
            words = custom.get("description") or ""
            declared = cls.from_json_schema(name, schema, words, wrap_root=True, **keywords)
            return replace(declared, origin=replace(declared.origin, custom=custom))

        read = read_definition(definition)
        declared = cls.from_json_schema(read.name, read.parameters, read.description, **keywords)
        return replace(declared, origin=ToolOrigin(strict=read.strict, vendor=read.vendor))

    @classmethod
    def from_mcp(cls, entry: object, **keywords: Unpack[SchemaKeywords]) -> Tool[..., Any]:
        """Declare an entry of an MCP ``tools/list``: a mapping or an object.

        It must have ``name`` and ``inputSchema``. Titles, annotations and output schemas are
        ignored. Raises ContractError if the name or the schema is missing or of the wrong type.
        """
        read = read_mcp(entry)
        if isinstance(entry, Mapping):
            warn_of_misplaced(cast("Mapping[str, Any]", entry), read.name, "inputSchema")

        return cls.from_json_schema(read.name, read.parameters, read.description, **keywords)

    @property
    def is_async(self) -> bool:
        """Whether the function must be awaited."""
        return must_be_awaited(self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, unchecked, as if it had not been declared a tool."""
        return function_of(self)(*args, **kwargs)

    def build(self, args: JSON, *, at: str = "", work: Work | None = None) -> Any | Invalid:
        """Return the typed arguments for JSON that already fits ``parameters``.

        They are an instance of the model, or the JSON itself if the tool has no model. ``at`` is
        the JSON Pointer to them in the reply. The result is Invalid with ``args.check`` issues if
        validators of the model reject the arguments, and with ``args.not_representable`` if the
        model would change a value.
        """
        if self.origin.is_wrapped and isinstance(args, dict):
            return args[VALUE]
        if self.origin.adapter is None:
            return args

        names = self.parameters.names
        adapter = self.origin.adapter
        return instance_of(adapter, args, at=at, names=names, work=work, extra=self.extra)

    def with_context(self, context: object) -> Tool[..., R_co]:
        """Return the same tool with a value for its parameters of the type :data:`Context`."""
        return with_arguments(self, {each.name: context for each in self.origin.context})

    def run(self, call: ToolCall | object, *, call_id: str | None = None) -> R_co:
        """Call the function with the arguments of a valid call.

        ``call`` may also be the typed arguments from :meth:`build`; pass their id as ``call_id``.

        - Raises ContractError if the call is of another tool, or if the tool has no function, an
          async one, or one that still needs a context (see :meth:`with_context`).
        - Raises AbortRun if the function raises it, alone or in an ExceptionGroup.
        - Raises ToolExecutionError, with the id of the call, for any other Exception. Signals of a
          framework, such as LangGraph's interrupts, pass unchanged.
        """
        result = begin_call(self, call, call_id=call_id)
        if not inspect.isawaitable(result):
            return result

        close = getattr(result, "close", None)  # a coroutine that is left alone warns
        if callable(close):
            close()
        raise ContractError(_NOT_AWAITED.format(self.name))

    @overload
    async def arun(
        self: Tool[P, Awaitable[R]], call: ToolCall | object, *, call_id: str | None = None
    ) -> R: ...
    @overload
    async def arun(self, call: ToolCall | object, *, call_id: str | None = None) -> R_co: ...
    async def arun(self, call: ToolCall | object, *, call_id: str | None = None) -> object:
        """Call the function like :meth:`run`, and await its result if it is awaitable.

        A sync function is called directly, in this task.
        """
        result: Any = begin_call(self, call, call_id=call_id)
        if not inspect.isawaitable(result):
            return result

        call_id = call.id if isinstance(call, ToolCall) else call_id
        return await finish_call(self, result, call_id=call_id)

    @classmethod
    def _typed(
        cls,
        adapter: TypeAdapter[object],
        name: str,
        words: str | None,
        keywords: ToolKeywords,
        **parts: Any,
    ) -> Any:
        """Declare a type with its JSON Schema.

        The docstring of the type moves from the schema into the tool's description.
        """
        known = (*ToolKeywords.__annotations__, "function")
        refuse_unknown("a tool", keywords, IN_TOOLS, known)

        values: dict[str, Any] = {"extra": "forbid", **keywords}
        name = values.pop("name", None) or name
        document = with_required_tags(document_of(adapter, name))
        docstring = document.pop("description", "")
        texts = (values.pop("description", None), words, docstring)
        said = next((text for text in texts if text is not None), "")

        parameters = _compile(
            name, document, extra=values["extra"], formats="assert", is_typed=True
        )
        return cls(name, said, parameters, **values, **parts)


@overload
def tool(function: Callable[Q, R], /) -> Tool[Q, R]: ...
@overload
def tool(**keywords: Unpack[ToolKeywords]) -> Callable[[Callable[Q, R]], Tool[Q, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **keywords: Unpack[ToolKeywords]) -> Any:
    """Declare the decorated function as a tool; it can still be called as before.

    Use it with or without parentheses: ``@tool`` or ``@tool(name="search")``.

    - ``function`` is the function to declare, sync or async.
    - The keywords are those of :meth:`Tool.from_function`.

    Raises ContractError if a parameter cannot be described in JSON Schema.
    """
    if function is None:
        return partial(Tool.from_function, **keywords)
    return Tool.from_function(function, **keywords)


def tools_of(
    declarations: Iterable[object],
    *,
    extra: Extra | None = None,
    formats: Formats | None = None,
    are_strangers: bool = False,
) -> list[Tool[..., Any]]:
    """Declare the tools of one contract or request, each like :meth:`Tool.of`.

    ``are_strangers`` never rejects a definition for its schema, and issues no warnings: see
    :func:`unheld_words`.
    """
    declared: list[tuple[Tool[..., Any], int]] = []
    for declaration in declarations:
        with about_tool(declared_name(declaration)):
            declared.append(_declared(declaration, extra, formats, is_strangers=are_strangers))

    _DEFINED.trim(length for _, length in declared)
    return [tool for tool, _ in declared]


def with_schema_rules(tool: Tool[Q, R], extra: Extra, formats: Formats) -> Tool[Q, R]:
    """Return the same tool with its schema checked by other rules.

    ``extra`` closes the schema (``forbid``) or leaves it as written (``schema``); ``formats`` says
    whether ``format`` is asserted.
    """
    if (extra, formats) == (tool.extra, tool.formats) or tool.parameters.is_unchecked:
        return tool

    parameters = _compile(
        tool.name,
        tool.parameters.source,
        extra=extra,
        formats=formats,
        is_typed=tool.origin.adapter is not None,
    )
    return replace(tool, parameters=parameters, extra=extra, formats=formats)


def written_arguments(tool: Tool[..., Any], args: object) -> JSON:
    """Return typed arguments as the JSON that a model writes for them."""
    written: JSON = to_jsonable_python(args, by_alias=True)
    return {VALUE: written} if tool.origin.is_wrapped else written


def function_of(tool: Tool[Q, R]) -> Callable[Q, R]:
    """Return the function of a tool; raise ContractError if there is none."""
    if tool.function is None:
        raise ContractError(
            f"the tool {tool.name!r} has no function to run; declare it with function=…"
        )
    return tool.function


def takes_context(tool: Tool[..., Any]) -> bool:
    """Return whether the function has a parameter for the context."""
    return bool(tool.origin.context)


def with_arguments(tool: Tool[..., R], values: Mapping[str, object]) -> Tool[..., R]:
    """Return the same tool with values for parameters that the model does not write."""
    if not values:
        return tool

    function: Callable[..., Any] = function_of(tool)
    return replace(tool, function=partial(function, **values))


def refuse_unrunnable(tool: Tool[..., Any], *, awaited: bool, injects: bool = False) -> None:
    """Raise ContractError if the function of a tool cannot be executed.

    That is so if there is none, if it is async and not ``awaited``, if it needs a context, or if it
    has parameters of a framework. With ``injects`` the caller supplies the context and these
    parameters.
    """
    function = function_of(tool)
    if not injects:
        refuse_without_context(tool)
    if tool.is_async and not awaited:
        raise ContractError(_NOT_AWAITED.format(tool.name))

    signature = tool.origin.signature
    names = () if signature is None or injects else signature.injected
    known = inspect.signature(function).parameters if names else {}
    injected = [name for name in names if known[name].default is inspect.Parameter.empty]
    if injected:
        raise ContractError(
            f"the tool {tool.name!r} takes {', '.join(injected)} from LangGraph: "
            "run it in a graph of to_langgraph"
        )


def refuse_without_context(tool: Tool[..., Any]) -> None:
    """Raise ContractError if the function needs a context and has none."""
    needed = [each.name for each in tool.origin.context if each.is_required]
    if needed:
        raise ContractError(
            f"the tool {tool.name!r} needs a context as {needed[0]!r}; pass "
            "context=… to run(…), DurableRuns(…) or graph.invoke(…), or use tool.with_context(…)"
        )


def begin_call(tool: Tool[..., R], call: ToolCall | object, *, call_id: str | None = None) -> R:
    """Call the function, and return its result, or its awaitable if it is async.

    The arguments are passed one by one, or as a whole, as the function was declared. Raises like
    :meth:`Tool.run`.
    """
    if isinstance(call, ToolCall):
        if call.tool != tool.name:
            raise ContractError(f"the tool {tool.name!r} cannot execute a call of {call.tool!r}")

        call_id = call.id
        call = call.args

    args: Any = call
    function: Callable[..., R] = function_of(tool)
    positional: list[Any] = [args]
    named: dict[str, Any] = {}
    if tool.origin.signature is not None:
        positional, named = tool.origin.signature.arguments(args)

    refuse_without_context(tool)
    try:
        return function(*positional, **named)
    except Exception as error:  # noqa: BLE001 - anybody's code
        _fail(tool, error, call_id)


async def finish_call(
    tool: Tool[..., Any], result: Awaitable[R], *, call_id: str | None = None
) -> R:
    """Await the result of :func:`begin_call`; raises like :meth:`Tool.run`."""
    try:
        return await result
    except Exception as error:  # noqa: BLE001 - anybody's code
        _fail(tool, error, call_id)


def _fail(tool: Tool[..., Any], error: Exception, call_id: str | None) -> NoReturn:
    """Raise ToolExecutionError for an exception; raise AbortRun and framework signals unchanged.

    Those are also taken out of an ExceptionGroup, such as a TaskGroup raises.
    """
    ending = ending_in(error)
    if isinstance(ending, AbortRun):
        ending.by(tool.name, call_id)
    if ending is not None:
        group = error if ending is not error else None  # shows what else failed
        raise ending from ending.__cause__ or group

    raise ToolExecutionError(tool.name, call_id=call_id, kind=type(error).__name__) from error


def is_unchecked(tool: Tool[..., Any]) -> bool:
    """Return whether the input is free text without a pattern."""
    return tool.origin.custom is not None and "pattern" not in str(tool.parameters.source)


_DEFINED: ByText[Tool[..., Any]] = ByText()


def declared_name(declaration: object) -> str:
    """Return the name of the tool in a declaration, empty if it has none."""
    members = peek(declaration, "function") if isinstance(declaration, Mapping) else None
    named = members if isinstance(members, Mapping) else declaration
    name = peek(named, "name")
    if not isinstance(name, str) and not isinstance(declaration, Mapping):
        name = getattr(declaration, "__name__", None)
    return name if isinstance(name, str) else ""


def _declared(
    declaration: object, extra: Extra | None, formats: Formats | None, *, is_strangers: bool = False
) -> tuple[Tool[..., object], int]:
    if isinstance(declaration, Tool):
        rules = (extra or declaration.extra, formats or declaration.formats)
        return with_schema_rules(declaration, *rules), 0

    extra = extra or "forbid"
    formats = formats or "assert"
    how = (Tool, extra, formats, is_strangers)

    if isinstance(declaration, Mapping):
        read: Callable[..., Tool[..., Any]] = Tool.from_openai
        if is_strangers:
            read = _strangers
        elif "inputSchema" in declaration:
            read = Tool.from_mcp

        return _DEFINED.get(declaration, how, partial(read, extra=extra, formats=formats))

    return kept_on(declaration, how, partial(_typed, declaration, extra, formats)), 0


def _strangers(
    definition: Mapping[str, object], *, extra: Extra, formats: Formats
) -> Tool[..., object]:
    """Declare a definition from a request.

    If its schema cannot be checked, only the name and a JSON object are required of its calls.
    """
    if definition.get("type") == "custom" and not is_anthropics(definition):
        return Tool.from_openai(definition, extra=extra, formats=formats)

    is_mcp = "inputSchema" in definition
    read = read_mcp(definition) if is_mcp else read_definition(definition, is_strangers=True)
    try:
        document: Document = modern(read_document(read.parameters))
        with about_tool(read.name):
            parameters = _compiled(read.name, document, extra, formats, is_strangers=True)
    except ContractError as error:
        parameters = Schema.unchecked(read.parameters, str(error), {"type": "object"})

    how: dict[str, Any] = {"extra": extra, "formats": formats}
    return Tool(
        read.name,
        read.description,
        parameters,
        origin=ToolOrigin(strict=read.strict, vendor=read.vendor, is_strangers=True),
        **how,
    )


def unheld_words(tool: Tool[..., object]) -> str:
    """Return which rules of a tool's schema are not checked; empty if all are."""
    parameters = tool.parameters
    if not parameters.unheld:
        return ""
    if parameters.is_unchecked:
        return (
            f"calls of tool {tool.name!r} are only checked to be a JSON object, because its "
            f"schema cannot be checked: {parameters.unheld[0]}"
        )

    places = "; ".join(parameters.unheld)
    return f"the arguments of tool {tool.name!r} are checked against its schema except: {places}"


def _typed(declaration: object, extra: Extra, formats: Formats) -> Tool[..., object]:
    if isinstance(declaration, type):
        return with_schema_rules(Tool.from_model(declaration, extra=extra), extra, formats)
    if hasattr(declaration, "inputSchema"):
        return Tool.from_mcp(declaration, extra=extra, formats=formats)
    if is_anthropics(declaration):
        return _beta_tool(declaration, extra, formats)
    if callable(declaration):
        return with_schema_rules(Tool.from_function(declaration, extra=extra), extra, formats)

    message = (
        "give a function (itself, not what it returns), a pydantic model, a Tool, "
        "a tool definition of an API or an MCP tools/list entry"
    )
    raise ContractError(f"{type(declaration).__name__} declares no tool; {message}")


def _beta_tool(declaration: Any, extra: Extra, formats: Formats) -> Tool[..., object]:
    """Declare a ``beta_tool`` of the anthropic SDK, which is executed as there."""
    definition: Any = declaration.to_dict()
    return Tool.from_openai(definition, extra=extra, formats=formats, function=declaration.call)


def _compile(
    name: str, schema: Document, *, extra: Extra, formats: Formats, is_typed: bool = False
) -> Schema:
    """Compile the schema of a tool's arguments, which are always an object.

    ``is_typed`` means that pydantic made the schema, with its syntax of patterns. Raises
    ContractError with the name of the tool if no arguments can fit the schema.
    """
    with about_tool(name):
        return _compiled(name, schema, extra, formats, is_typed=is_typed)


def _compiled(
    name: str,
    schema: Document,
    extra: Extra,
    formats: Formats,
    *,
    is_typed: bool = False,
    is_strangers: bool = False,
) -> Schema:
    parameters = Schema.compile(schema, extra=extra, formats=formats, unicode_patterns=is_typed)
    kinds: object = "boolean"
    if not isinstance(parameters.source, bool):
        kinds = parameters.source.get("type", "object")

    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        words = (
            "must be the schema of an object; declare any other with "
            "Tool.from_json_schema(…, wrap_root=True)"
        )
        raise ContractError(f"the parameters of a tool {words}", path="/type")

    what = f"the arguments of tool {quote(name)}"
    parameters.require_example(what, frozenset({"object"}), is_strangers=is_strangers)
    return parameters


def must_be_awaited(function: object) -> bool:
    """Return whether a callable is async."""
    if inspect.iscoroutinefunction(function):
        return True

    call = getattr(function, "__call__", None)  # noqa: B004 - whether it is async
    return inspect.iscoroutinefunction(call)
