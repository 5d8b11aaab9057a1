"""Faults of how a reply ended: cut off, filtered, refused, given up by the server, or with nothing said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Place, Target
from strictreply.testing._wire import assistant, completion
from strictreply.testing.faults._catalogue import ANYWHERE, Entry, Spoiled
from strictreply.testing.faults._making import entry_of, spoiled
from strictreply.values._json import JSONObject

_Response: TypeAlias = Callable[[Target], JSONObject]
"""Makes the completion that ended badly."""


def _ending(code: str, places: tuple[Place, ...] = ANYWHERE) -> Callable[[_Response], Entry]:
    """Serve a completion that ended badly."""

    def decorate(end: _Response) -> Entry:
        """Make the entry of the completion."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Serve it in place of the good one."""
            yield spoiled(end(target))

        return entry_of(end, make, Kind.FINISH, code, places)

    return decorate


def _half(target: Target, finish_reason: str) -> JSONObject:
    """Give the good reply as far as its middle."""
    text = target.text(target.value)
    return _ended(target.completion(text[: len(text) // 2]), finish_reason)


def _ended(response: JSONObject, finish_reason: str) -> JSONObject:
    """Give a completion another finish reason."""
    return response | {"choices": [response["choices"][0] | {"finish_reason": finish_reason}]}


# Cut off


@_ending("reply.truncated")
def cut_at_length(target: Target) -> JSONObject:
    """The reply was cut at the token limit."""
    return _half(target, "length")


@_ending("reply.truncated")
def whole_at_length(target: Target) -> JSONObject:
    """The reply reads as if it were whole, but the token limit ended it: what is missing cannot be seen."""
    return _ended(target.clean, "length")


@_ending("reply.truncated")
def reasoning_to_the_limit(_: Target) -> JSONObject:
    """The model reasoned up to the token limit, and said nothing."""
    return completion(assistant(None, reasoning_content=f"Let me see: {CANARY}"), finish_reason="length")


@_ending("reply.truncated")
def cut_at_max_tokens(target: Target) -> JSONObject:
    """The reply was cut at the token limit, in the word of another API: max_tokens."""
    return _half(target, "max_tokens")


@_ending("reply.truncated")
def cut_at_model_length(target: Target) -> JSONObject:
    """The reply was cut at the end of the model's context: model_length, as Mistral calls it."""
    return _half(target, "model_length")


# Filtered and refused


@_ending("reply.content_filter")
def filtered(_: Target) -> JSONObject:
    """The provider's content filter let nothing through."""
    return completion(assistant(""), finish_reason="content_filter")


@_ending("reply.content_filter")
def filtered_midway(target: Target) -> JSONObject:
    """The provider's content filter stopped the reply in its middle."""
    return _half(target, "content_filter")


@_ending("reply.content_filter")
def blocked_for_safety(_: Target) -> JSONObject:
    """The reply was blocked for safety, in another vendor's word: SAFETY."""
    return completion(assistant(None), finish_reason="SAFETY")


@_ending("reply.content_filter")
def blocked_as_recitation(target: Target) -> JSONObject:
    """The reply was stopped because it recites what is protected: RECITATION."""
    return _half(target, "RECITATION")


@_ending("reply.content_filter")
def blocked_as_sensitive(_: Target) -> JSONObject:
    """The reply was blocked as sensitive, in another vendor's word."""
    return completion(assistant(""), finish_reason="sensitive")


@_ending("reply.refusal")
def refusal(_: Target) -> JSONObject:
    """The model refused."""
    return completion(assistant(None, refusal=f"I cannot help with {CANARY}."))


@_ending("reply.refusal")
def refusal_beside_reply(target: Target) -> JSONObject:
    """The model refused, and yet a reply stands beside the refusal."""
    response = target.clean
    response["choices"][0]["message"]["refusal"] = f"I cannot help with {CANARY}."
    return response


# Given up by the server


@_ending("reply.broken_off")
def ended_in_error(target: Target) -> JSONObject:
    """The server failed while it wrote: the finish reason is error."""
    return _half(target, "error")


@_ending("reply.broken_off")
def aborted(target: Target) -> JSONObject:
    """The server gave the request up while it wrote: the finish reason is abort."""
    return _half(target, "abort")


@_ending("reply.broken_off")
def out_of_resources(target: Target) -> JSONObject:
    """The server had no resources left: the finish reason is insufficient_system_resource."""
    return _half(target, "insufficient_system_resource")


# Nothing said


@_ending("reply.empty")
def nothing_said(_: Target) -> JSONObject:
    """The reply is neither text nor a call."""
    return completion(assistant(None))


@_ending("reply.empty", ("call", "json", "prose"))
def empty_content(_: Target) -> JSONObject:
    """The content is an empty text, and there is no call."""
    return completion(assistant(""))


@_ending("shape.empty", ("prose",))
def blank_content(_: Target) -> JSONObject:
    """The content is white space."""
    return completion(assistant(" \n"))


@_ending("reply.empty")
def reasoning_alone(_: Target) -> JSONObject:
    """The model's reasoning is all there is."""
    return completion(assistant(None, reasoning_content=f"The user wants {CANARY}. So I call it."))


@_ending("reply.empty", ("call",))
def tool_calls_without_calls(_: Target) -> JSONObject:
    """The reply ended to have tools called, and calls none."""
    return completion(assistant(None, tool_calls=[]), finish_reason="tool_calls")
