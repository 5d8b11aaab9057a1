"""A function as a tool: its parameters become a model, its docstring the descriptions."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, create_model

from strictreply.contract._annotations import documented, function_name, hints_of
from strictreply.contract._context import is_context
from strictreply.contract._described import words_in
from strictreply.contract._docstrings import read_docstring
from strictreply.contract._models import UNREADABLE, adapter_of, document_of, first_line
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject

_REQUIRED = (Required, typing_extensions.Required)
# before Python 3.12, typing has a different one
_UNPACKS = (Unpack, typing_extensions.Unpack)
_WRAPPERS = (*_REQUIRED, NotRequired, typing_extensions.NotRequired)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function that the model writes."""

    name: str
    """Name of the function."""
    model: type[BaseModel]
    """A model with a field for each parameter."""
    description: str
    """The description of the function, from its docstring."""
    positional: tuple[str, ...] = ()
    """The leading parameters that can only be passed by position."""
    optional: frozenset[str] = frozenset()
    """The parameters that are passed only if the model wrote them."""
    injected: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The annotations of the parameters that a framework supplies, by name."""

    def arguments(self, args: BaseModel) -> tuple[list[object], dict[str, object]]:
        """Return the positional and named arguments of the function for an instance."""
        values = vars(args)  # not getattr, which would warn for a deprecated field
        left_out = self.optional - args.model_fields_set
        named = {name: values[name] for name in self.model.model_fields if name not in left_out}
        return [named.pop(name) for name in self.positional], named


class _Parameter(NamedTuple):
    """A parameter that the model writes."""

    name: str
    """Name of the parameter."""
    annotation: Any
    """Its type."""
    default: Any
    """Its default."""
    is_positional: bool = False
    """Whether it can only be passed by position."""
    is_optional: bool = False
    """Whether it is a member of ``**kwargs`` without a default."""


def read_signature(function: Callable[..., object]) -> Signature:
    """Read the parameters and the docstring (Google, NumPy or Sphinx style) of ``function``.

    A description in ``Field``, ``Doc`` or as a text in ``Annotated`` takes precedence over the
    docstring. Types local to a function are found while that function runs. Parameters of the type
    ``Context``, and those that a framework injects, are left out. ``**kwargs`` need ``Unpack`` of a
    TypedDict.

    Raises ContractError, with the name of the parameter, for a missing annotation, for ``*args``
    and other ``**kwargs``, for a name that pydantic reserves, for a type that cannot be read from
    JSON, and for a generator function.
    """
    name = function_name(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ContractError(f"the tool {name} is a generator; return a list instead")

    hints = hints_of(function)
    listed = _listed(function, name)
    injected = {each.name: hints[each.name] for each in listed if is_injected(hints.get(each.name))}
    written = [each for each in listed if each.name not in injected]
    parameters = list(_parameters(written, hints, name))
    summary, described = read_docstring(inspect.getdoc(documented(function)) or "")

    names = {each.name for each in parameters}
    known = names.union(inspect.signature(documented(function)).parameters)
    others = [f"{other}: {words}" for other, words in described.items() if other not in known]
    summary = "\n\n".join(filter(None, [summary, "\n".join(others)]))

    fields = {each.name: _field(each, name, described.get(each.name)) for each in parameters}
    return Signature(
        name,
        _model(name, function, fields),
        summary,
        tuple(each.name for each in parameters if each.is_positional),
        frozenset(each.name for each in parameters if each.is_optional),
        injected,
    )


# By module and name, because strictreply does not import frameworks.
_INJECTED = frozenset(
    {
        ("langchain_core.tools.base", "InjectedToolArg"),  # InjectedState, InjectedStore, …
        ("langchain_core.tools.base", "_DirectlyInjectedToolArg"),  # ToolRuntime
        ("langchain_core.runnables.config", "RunnableConfig"),
    }
)


def is_injected(annotation: object) -> bool:
    """Return whether an annotation marks a parameter that a framework supplies."""
    kind = annotation if isinstance(annotation, type) else type(annotation)
    if any((each.__module__, each.__qualname__) in _INJECTED for each in kind.__mro__):
        return True

    origin = get_origin(annotation)
    if origin is None:
        return False

    parts = get_args(annotation) if origin in {Annotated, Union, UnionType} else (origin,)
    return any(map(is_injected, parts))


def _listed(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    """Return the parameters that a partial has not set."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"{name} has no readable signature; declare it with Tool.from_json_schema"
        ) from error

    settled: Mapping[str, object] = {}
    if isinstance(function, functools.partial):
        settled = function.keywords

    return [parameter for parameter in listed if parameter.name not in settled]


def _parameters(
    listed: list[inspect.Parameter], hints: Mapping[str, object], name: str
) -> Iterator[_Parameter]:
    """Yield the parameters that the model writes.

    Raises ContractError for parameters that a JSON object cannot name one by one.
    """
    for parameter in listed:
        hint = hints.get(parameter.name)
        if parameter.kind is parameter.VAR_KEYWORD and _unpacked(hint) is not None:
            yield from _members(_unpacked(hint))
            continue

        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise ContractError(
                f"{name}() takes {parameter}, which a schema cannot describe; name each parameter, "
                "or write **kwargs: Unpack[…] of a TypedDict"
            )

        if is_context(hint):
            _refuse_positional(parameter, name)
            continue

        _refuse_name(parameter.name, hints, name)
        default = ... if parameter.default is parameter.empty else parameter.default
        is_positional = parameter.kind is parameter.POSITIONAL_ONLY
        yield _Parameter(parameter.name, hint, default, is_positional)


def _unpacked(annotation: object) -> object:
    """Return the TypedDict in ``Unpack[…]``, None for anything else."""
    is_unpack = get_origin(annotation) in _UNPACKS
    kind = get_args(annotation)[0] if is_unpack else None
    is_known = is_typeddict(kind) or typing_extensions.is_typeddict(kind)
    return kind if is_known else None


def _members(kind: Any) -> Iterator[_Parameter]:
    required: frozenset[str] = kind.__required_keys__
    for name, hint in get_type_hints(kind, include_extras=True).items():
        inner = hint
        is_required = name in required
        while get_origin(inner) in _WRAPPERS:
            # with string annotations the TypedDict itself cannot see it
            is_required = get_origin(inner) in _REQUIRED
            inner = get_args(inner)[0]

        yield _Parameter(name, inner, ..., is_optional=not is_required)


def _refuse_positional(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ContractError(
            f"parameter {parameter.name!r} of {name}() is passed by name; move it after the /"
        )


def _refuse_name(named: str, hints: Mapping[str, object], name: str) -> None:
    place = f"parameter {named!r} of {name}()"
    is_reserved = named.startswith("model_") and hasattr(BaseModel, named)
    if named.startswith("_") or is_reserved:  # its value would be lost
        alias = f"Annotated[…, Field(alias={named!r})]"
        hint = f"rename it; {alias} keeps the name for the model"
        raise ContractError(f"{place} has a name that pydantic reserves; {hint}")

    if named not in hints:
        of_method = "declare a method through its object: Tool.from_function(object.method)"
        hint = of_method if named in {"self", "cls"} else f"write {named}: str, or its real type"
        raise ContractError(f"{place} has no annotation; {hint}")


def _field(parameter: _Parameter, name: str, described: str | None) -> object:
    """Return the (annotation, default) pair for pydantic's create_model."""
    annotation = parameter.annotation
    is_annotated = get_origin(annotation) is Annotated
    inner, *metadata = get_args(annotation) if is_annotated else (annotation,)

    description = words_in(metadata) or described
    if description:
        # first, so that metadata of the annotation's own takes precedence
        metadata.insert(0, Field(description=description))

    if metadata:
        annotation = Annotated[(inner, *metadata)]

    _refuse_unreadable(parameter.name, annotation, name)
    default = parameter.default
    if parameter.is_optional:
        default = Field(default_factory=_nothing)

    return annotation, default


def _nothing() -> None:
    """Stand for a parameter that was left out; never passed on."""


def _refuse_unreadable(named: str, annotation: object, name: str) -> None:
    """Raise ContractError for a parameter whose type a model cannot write."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            document_of(adapter_of(annotation, named), named)
    except ContractError as error:
        kind = _kind_words(annotation)
        advice = (
            f"annotate it as sr.Context[{kind}] if your program passes run(context=…), set it "
            "with functools.partial, or use a type that JSON can express"
        )
        cause = error.__cause__ or error
        said = first_line(cause) if isinstance(cause, Exception) else ""
        if "arbitrary_types_allowed" in said:
            said = f"{kind} is not a type of JSON"

        words = f"parameter {named!r} of {name}() cannot be read from JSON ({said})"
        raise ContractError(f"{words}; {advice}") from error


def _kind_words(annotation: object) -> str:
    """Return the name of a type for advice."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return inner.__name__ if isinstance(inner, type) else "…"


def _model(name: str, function: Callable[..., object], fields: dict[str, Any]) -> type[BaseModel]:
    # not extra="allow": dataclasses and TypedDicts inside would inherit it
    config = ConfigDict(frozen=True, protected_namespaces=(), json_schema_extra=_without_title)
    parts = [part for part in name.split("_") if part.isidentifier()]
    title = "".join(part[:1].upper() + part[1:] for part in parts) or "Function"
    try:
        with warnings.catch_warnings():
            # a parameter may be called "copy" or "schema": it is read with vars(), so it shadows
            # nothing that is used
            warnings.simplefilter("ignore", UserWarning)
            module = documented(function).__module__
            return create_model(f"{title}Args", __config__=config, __module__=module, **fields)
    except UNREADABLE as error:
        raise ContractError(
            f"the parameters of {name}() cannot be read from JSON: {first_line(error)}"
        ) from error


def _without_title(schema: JSONObject) -> None:
    schema.pop("title", None)  # the model's title is generated: the tool has its own name
