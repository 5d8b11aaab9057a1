"""Reading a Python function: its parameters as a pydantic model, its docstring as descriptions.

Nothing here knows tools, contracts or replies.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from strictreply.contract._models import UNREADABLE, first_line
from strictreply.values._errors import ContractError
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring says: ``summary`` without its sections, and a description for each parameter it names."""

    summary: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a model calls it: ``model`` has a field for each parameter, ``description`` says what it does.

    ``positional`` names the parameters that Python takes by position only, in order.
    """

    model: type[BaseModel]
    description: str
    positional: tuple[str, ...] = ()

    def arguments(self, args: BaseModel) -> tuple[list[Any], dict[str, Any]]:
        """Spread an instance of ``model`` into the positional and the named arguments of the function."""
        values = vars(args)  # not getattr: a deprecated field would warn
        named = {name: values[name] for name in self.model.model_fields}
        return [named.pop(name) for name in self.positional], named


def read_signature(function: Callable[..., object]) -> Signature:
    """Read the parameters and the docstring of ``function``.

    Annotations may use ``Annotated`` and ``Field``; a docstring may be in Google, NumPy or Sphinx style, and a
    description in ``Field`` wins over it. The parameter that a bound method already holds is left out. Types local
    to a function are found while that function runs.

    Raises ContractError, naming the parameter, for one without annotation, for ``*args`` and ``**kwargs``, for a
    name that pydantic cannot hold, and for a type that it cannot read from JSON; and for a generator function, whose
    code would run when nobody looks.
    """
    name = function_name(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ContractError(f"the tool {name} yields; let it return a list")
    hints = _type_hints(function, name)
    told = read_docstring(inspect.getdoc(_documented(function)) or "")
    fields: dict[str, Any] = {}
    positional: list[str] = []
    for parameter in _parameters(function, name):
        fields[parameter.name] = _field(parameter, hints, name, told.parameters.get(parameter.name))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
    return Signature(_model(name, function, fields), told.summary, tuple(positional))


def read_docstring(text: str) -> Docstring:
    """Part a Google, NumPy or Sphinx docstring into its prose and the descriptions of its parameters."""
    import docstring_parser  # noqa: PLC0415 - 20 ms that only a program with function tools should pay

    try:
        parsed = docstring_parser.parse(text)
    except (docstring_parser.ParseError, LookupError):  # it stumbles over some empty sections
        return Docstring(text)
    described = {part.arg_name: part.description for part in parsed.params if part.description}
    return Docstring((parsed.description or "").strip(), described)


def function_name(function: Callable[..., object]) -> str:
    """Return the name of a function for messages: of a partial what it wraps, of a callable object its class."""
    inner = function.func if isinstance(function, functools.partial) else function
    return getattr(inner, "__name__", type(inner).__name__)


def _documented(function: Callable[..., object]) -> Callable[..., object]:
    """Find the function that holds the annotations and the docstring."""
    if isinstance(function, functools.partial):
        return _documented(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def _type_hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    """Evaluate the annotations, with the names local to the place where the function is defined."""
    documented = _documented(function)
    try:
        return get_type_hints(documented, localns=_enclosing_locals(documented), include_extras=True)
    except UNREADABLE as error:
        raise ContractError(
            f"the annotations of {name}() cannot be read ({first_line(error)}); name types known there"
        ) from error


def _enclosing_locals(function: Callable[..., object]) -> Mapping[str, Any]:
    """Return the locals of the running function that defines this one, none at module level.

    Annotations that are strings name types by words, and a function keeps no reference to its birthplace.
    """
    inner = inspect.unwrap(function)
    place, _, _ = inner.__qualname__.rpartition(".<locals>.")
    frame: FrameType | None = inspect.currentframe() if place else None
    while frame is not None:
        if frame.f_code.co_qualname == place and frame.f_globals is inner.__globals__:
            return frame.f_locals
        frame = frame.f_back
    return {}


def _parameters(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    """List the parameters, refusing those that a JSON object cannot name one by one.

    What a partial already gives by name is settled and not the model's to choose.
    """
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"{name} has no signature that Python can read; declare it with Tool.from_json_schema"
        ) from error
    settled: Mapping[str, object] = function.keywords if isinstance(function, functools.partial) else {}
    parameters = [parameter for parameter in listed if parameter.name not in settled]
    for parameter in parameters:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise ContractError(f"{name}() takes {parameter}, which a model cannot be told; name each parameter")
    return parameters


def _field(parameter: inspect.Parameter, hints: Mapping[str, Any], name: str, description: str | None) -> Any:
    """Make the (annotation, default) pair that pydantic's create_model takes."""
    _refuse_name(parameter.name, name)
    if parameter.name not in hints:
        hint = (
            "a method is declared bound to its object, as Tool.from_function(object.method)"
            if parameter.name in {"self", "cls"}
            else f"write {parameter.name}: str, or its real type"
        )
        raise ContractError(f"parameter {parameter.name!r} of {name}() has no annotation; {hint}")
    default = ... if parameter.default is parameter.empty else parameter.default
    return _described(hints[parameter.name], description), default


def _refuse_name(parameter: str, name: str) -> None:
    """Refuse the names that pydantic keeps for itself, rather than lose their values."""
    if parameter.startswith("_") or (parameter.startswith("model_") and hasattr(BaseModel, parameter)):
        message = (
            f"parameter {parameter!r} of {name}() has a name that pydantic keeps for itself; rename it, and keep the "
            f"name for the model with Annotated[…, Field(alias={parameter!r})]"
        )
        raise ContractError(message)


def _described(annotation: Any, description: str | None) -> Any:
    """Attach a description, first of all metadata, so that the annotation's own comes later and wins."""
    if not description:
        return annotation
    if get_origin(annotation) is not Annotated:
        return Annotated[annotation, Field(description=description)]
    inner, *metadata = get_args(annotation)
    return Annotated[(inner, Field(description=description), *metadata)]


def _model(name: str, function: Callable[..., object], fields: dict[str, Any]) -> type[BaseModel]:
    """Make the model; instances are frozen and named after the function."""
    # not extra="allow": dataclasses and TypedDicts inside would take it over and stand open
    config = ConfigDict(frozen=True, protected_namespaces=(), json_schema_extra=_without_title)
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_") if part.isidentifier()) or "Function"
    try:
        with warnings.catch_warnings():
            # a parameter may well be called "copy" or "schema": read through vars(), it shadows nothing we use
            warnings.simplefilter("ignore", UserWarning)
            return create_model(
                f"{title}Args", __config__=config, __module__=_documented(function).__module__, **fields
            )
    except UNREADABLE as error:
        raise ContractError(f"the parameters of {name}() cannot be read from JSON: {first_line(error)}") from error


def _without_title(schema: JSONObject) -> None:
    """Leave out the name that we gave the model: the tool has its own."""
    schema.pop("title", None)
