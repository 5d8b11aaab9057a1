"""Parameters of a tool that the program gives and the model never sees."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, NamedTuple, TypeAlias, TypeVar, get_args, get_origin

from strictreply.contract._annotations import hints_of
from strictreply.values._errors import ContractError

Given = TypeVar("Given")


class _Marker(Enum):
    GIVEN = "given by the program"

    def __get_pydantic_core_schema__(self, kind: object, handler: object) -> object:
        """Refuse any other place than a parameter, where a model would write the value."""
        raise ContractError(
            "sr.Context is the type of a whole parameter of a tool; as a field, or inside another "
            "type, the model would write it"
        )


Context: TypeAlias = Annotated[Given, _Marker.GIVEN]
"""The type of a parameter that a program gives its tools, as in ``db: sr.Context[Database]``.

The parameter gets what ``run(client, …, context=…)`` was given, a ``Database`` here; in a durable
run what ``DurableRuns(…, context=…)`` was given, in a graph what ``graph.invoke(…, context=…)``
was. It is not in the tool's schema: no model sees it or writes it.
"""


class ContextParameter(NamedTuple):
    """A parameter that gets the context; without a default it must be given one."""

    name: str
    is_required: bool


def is_context(annotation: object) -> bool:
    """Return whether a parameter of this type gets the context, also one that may be None."""
    if get_origin(annotation) is Annotated:
        return _Marker.GIVEN in get_args(annotation)[1:]

    # not of list[…] and the like: only a whole parameter is given
    others = [one for one in get_args(annotation) if one is not type(None)]
    is_optional = len(others) == 1 and type(None) in get_args(annotation)
    return is_optional and is_context(others[0])


def context_parameters(function: Callable[..., object]) -> tuple[ContextParameter, ...]:
    """Return the parameters of a function that get the context.

    There are none in a function whose annotations cannot be read, which a schema may stand beside.
    """
    settled: Mapping[str, object] = {}
    if isinstance(function, functools.partial):
        settled = function.keywords

    try:
        hints = hints_of(function)
        parameters = inspect.signature(function).parameters
    except (ContractError, TypeError, ValueError):
        return ()

    return tuple(
        ContextParameter(name, parameter.default is parameter.empty)
        for name, parameter in parameters.items()
        if is_context(hints.get(name)) and name not in settled
    )
