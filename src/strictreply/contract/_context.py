"""Parameters of a tool that your program supplies, and that the model never sees."""

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
        """Raise ContractError: the type is not that of a parameter, so the model would write it."""
        raise ContractError(
            "sr.Context must be the type of a whole parameter of a tool: in a field, or inside "
            "another type, the model would write its value"
        )


Context: TypeAlias = Annotated[Given, _Marker.GIVEN]
"""Marks a parameter of a tool that your program supplies, as in ``db: sr.Context[Database]``.

The parameter gets the ``context`` of ``run(client, …, context=…)``, of ``DurableRuns(…,
context=…)`` in a durable run, or of ``graph.invoke(…, context=…)`` in a graph. It is not in the
tool's schema, so the model neither sees nor writes it.
"""


class ContextParameter(NamedTuple):
    """A parameter for the context; it is required if it has no default."""

    name: str
    is_required: bool


def is_context(annotation: object) -> bool:
    """Return whether the type marks a parameter for the context; it may also allow None."""
    if get_origin(annotation) is Annotated:
        return _Marker.GIVEN in get_args(annotation)[1:]

    # not inside list[…] and the like: the context is a whole parameter
    others = [one for one in get_args(annotation) if one is not type(None)]
    is_optional = len(others) == 1 and type(None) in get_args(annotation)
    return is_optional and is_context(others[0])


def context_parameters(function: Callable[..., object]) -> tuple[ContextParameter, ...]:
    """Return the parameters of a function that get the context.

    There are none if the annotations cannot be read: a schema may describe such a function.
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
