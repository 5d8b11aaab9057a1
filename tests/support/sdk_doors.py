"""The methods of the SDK's client by which a model's reply can come out, found by what they say.

A method says it by the type that it returns, or because it takes a model and something to tell it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import openai
from pydantic import BaseModel

FORMS = ("with_raw_response", "with_streaming_response")
MOST_NESTED = 8
PROMPTS = frozenset({"input", "messages", "prompt", "instructions", "questions"})

NO_REPLY = {
    "audio.speech.create": "sound",
    "audio.voices.create": "a voice",
    "beta.agents.create": "a configuration",
    "beta.agents.update": "a configuration",
    "beta.assistants.create": "a configuration",
    "beta.assistants.update": "a configuration",
    "beta.responses.input_tokens.count": "a number",
    "embeddings.create": "numbers",
    "evals.create": "a configuration",
    "evals.list": "configurations",
    "evals.retrieve": "a configuration",
    "evals.update": "a configuration",
    "fine_tuning.alpha.graders.validate": "a configuration",
    "fine_tuning.jobs.cancel": "a configuration",
    "fine_tuning.jobs.create": "a configuration",
    "fine_tuning.jobs.list": "configurations",
    "fine_tuning.jobs.pause": "a configuration",
    "fine_tuning.jobs.resume": "a configuration",
    "fine_tuning.jobs.retrieve": "a configuration",
    "images.edit": "an image",
    "images.generate": "an image",
    "moderations.create": "numbers",
    "responses.input_tokens.count": "a number",
    "videos.create": "a video",
    "videos.create_and_poll": "a video",
}
"""What looks like a door and is not: what each brings."""


def doors(client: Any) -> dict[str, Any]:
    """Return the methods of a client that can bring what a model wrote, by their paths."""
    return {path: method for path, method in _methods(client, "", 0) if is_door(method)}


def forms(client: Any, path: str) -> Iterator[str]:
    """Yield the paths under which a method has its forms, the plain one first."""
    yield path

    place, _, name = path.rpartition(".")
    for form in FORMS:
        if hasattr(at(client, f"{place}.{form}"), name):
            yield f"{place}.{form}.{name}"


def at(client: Any, path: str) -> Any:
    """Return what is at a path of a client, None where there is nothing."""
    found = client
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _methods(holder: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name in dir(type(holder)):
        if name.startswith("_") or name in FORMS or depth > MOST_NESTED:
            continue

        member = inspect.getattr_static(type(holder), name)
        inside = f"{path}.{name}".removeprefix(".")
        if inspect.isfunction(member):
            if depth:
                yield inside, getattr(holder, name)
        elif hasattr(member, "__get__") and is_resource(held := getattr(holder, name, None)):
            yield from _methods(held, inside, depth + 1)


def is_resource(held: Any) -> bool:
    """Return whether something is a namespace of methods of the SDK's client."""
    return isinstance(held, openai._resource.SyncAPIResource | openai._resource.AsyncAPIResource)


def is_door(method: Any) -> bool:
    """Return whether a method can bring what a model wrote."""
    function = inspect.unwrap(method)
    parameters = inspect.signature(function).parameters.keys()
    is_asking = "model" in parameters and not PROMPTS.isdisjoint(parameters)
    return is_asking or any(map(is_of_model, _classes(get_type_hints(function).get("return"))))


@cache
def is_of_model(kind: Any) -> bool:
    """Return whether a class holds what a model wrote: a call, a turn, a choice, a stream of it."""
    name = kind.__name__
    if name.endswith(("ConnectionManager", "StreamManager")) or "EventStream" in name:
        return True
    if name.endswith("Stream") and name not in {"Stream", "AsyncStream"}:
        return True
    if not issubclass(kind, BaseModel):
        return False

    fields = kind.model_fields
    if "arguments" in fields or "finish_reason" in fields:
        return True

    return "role" in fields and "assistant" in get_args(fields["role"].annotation)


def _classes(hint: Any) -> list[Any]:
    """Return all classes that an annotation leads to, through the fields of the models in it."""
    found: dict[Any, None] = {}
    pending = [hint]
    while pending:
        one = pending.pop()
        if isinstance(one, TypeVar) or get_origin(one) is Literal:
            continue

        pending.extend(get_args(one))
        kind = get_origin(one) or one
        if not inspect.isclass(kind) or kind in found:
            continue

        found[kind] = None
        if issubclass(kind, BaseModel):
            pending.extend(field.annotation for field in kind.model_fields.values())

    return list(found)
