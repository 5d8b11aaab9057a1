"""Faults of the response around a reply, and of how the reply ended.

The response is JSON from the API, but not one completion with one message in one choice; or that message was cut off,
filtered, refused, given up by the server, or says nothing. What is wrong with HTTP, or breaks the JSON of the body,
stands in ``transport_faults``. A row of a table is ``name = factory(code, summary, change)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import ReplyPlace, Target
from strictreply.testing._wire import HTTPReply, assistant, completion
from strictreply.testing.faults._catalogue import ANYWHERE, Entry, response_entry, written
from strictreply.values._json import JSON, JSONObject

EnvelopeChange: TypeAlias = Callable[[JSONObject], JSON | HTTPReply]
"""What is served in place of a good completion, which it is given."""

_ERROR: JSONObject = {"message": f"upstream of {CANARY} is overloaded", "type": "server_error", "code": 503}


def _envelope(code: str, summary: str, change: EnvelopeChange) -> Entry:
    """Serve another response than the good completion."""
    return response_entry(Kind.ENVELOPE, code, summary, lambda target: change(target.clean))


def _choice(response: JSONObject) -> JSONObject:
    choice: JSONObject = response["choices"][0]
    return choice


def _message(response: JSONObject) -> JSONObject:
    message: JSONObject = _choice(response)["message"]
    return message


def _said(response: JSONObject) -> str:
    """Return the content of a good completion, or the arguments of its call."""
    message = _message(response)
    text: str = message["content"] or message["tool_calls"][0]["function"]["arguments"]
    return text


def _without(whole: JSONObject, name: str) -> JSONObject:
    return {key: member for key, member in whole.items() if key != name}


def _with_choices(response: JSONObject, choices: JSON) -> JSONObject:
    return {**response, "choices": choices}


def _with_choice(response: JSONObject, **members: JSON) -> JSONObject:
    """Change members of the one choice."""
    return _with_choices(response, [_choice(response) | members])


_choices = partial(_envelope, "envelope.choices")
_malformed = partial(_envelope, "envelope.malformed")
_error = partial(_envelope, "envelope.error")

# Choices

missing_choices: Entry = _choices("The response has no choices.", lambda response: _without(response, "choices"))
empty_choices: Entry = _choices(
    "The list of choices is empty, as Azure sends it in the first event of a stream.",
    lambda response: _with_choices(response, []),
)
null_choices: Entry = _choices("The choices are null.", lambda response: _with_choices(response, None))
choices_as_object: Entry = _choices(
    "The choices are one object, not a list.", lambda response: _with_choices(response, _choice(response))
)
two_choices: Entry = _choices(
    "The response has two choices where one was asked for.",
    lambda response: _with_choices(response, [_choice(response), _choice(response) | {"index": 1}]),
)
null_choice: Entry = _malformed("The one choice is null.", lambda response: _with_choices(response, [None]))
finish_reason_as_object: Entry = _malformed(
    "The finish reason is an object.", lambda response: _with_choice(response, finish_reason={"type": "stop"})
)

# The message

missing_message: Entry = _malformed(
    "The choice has no message.", lambda response: _with_choices(response, [_without(_choice(response), "message")])
)
null_message: Entry = _malformed("The message is null.", lambda response: _with_choice(response, message=None))
empty_message: Entry = _malformed(
    "The message is an empty object.", lambda response: _with_choice(response, message={})
)
message_as_text: Entry = _malformed(
    "The message is a text.", lambda response: _with_choice(response, message=_said(response))
)
message_in_array: Entry = _malformed(
    "The message stands in an array.", lambda response: _with_choice(response, message=[_message(response)])
)
user_role: Entry = _envelope(
    "reply.role",
    "The role of the message is user.",
    lambda response: _with_choice(response, message=_message(response) | {"role": "user"}),
)

# The response itself

response_in_array: Entry = _malformed("The completion stands in an array.", lambda response: [response])
response_as_text: Entry = _malformed(
    "The response is a JSON string that holds the completion.",
    lambda response: HTTPReply.json(200, written(response)),
)
response_as_number: Entry = _malformed("The response is a number.", lambda _: 42)
null_response: Entry = _malformed("The response is null.", lambda _: None)
empty_response: Entry = _choices("The response is an empty object.", lambda _: {})

# Errors

error_for_response: Entry = _error(
    "The response is an error, under the status of a success.", lambda _: {"error": _ERROR}
)
error_as_text: Entry = _error(
    "The response is an error that is a text, under the status of a success.",
    lambda _: {"error": f"model {CANARY} is loading"},
)
error_members_for_response: Entry = _choices(
    "The response has the members of an error but no error key, under the status of a success.",
    lambda _: {"object": "error", **_ERROR},
)
error_beside_choices: Entry = _error(
    "An error stands beside the choices.", lambda response: response | {"error": _ERROR}
)
error_in_choice: Entry = _error(
    "An error stands in the choice, as routers report what failed behind them.",
    lambda response: _with_choice(response, error=_ERROR, finish_reason="error"),
)

# Responses of other APIs


def _as_chunk(response: JSONObject) -> JSONObject:
    choice: JSON = {"index": 0, "delta": _message(response), "finish_reason": None}
    return {**response, "choices": [choice], "object": "chat.completion.chunk"}


def _as_text_completion(response: JSONObject) -> JSONObject:
    choice: JSON = {"index": 0, "text": _said(response), "logprobs": None, "finish_reason": "stop"}
    return {**response, "choices": [choice], "object": "text_completion"}


def _as_responses_api(response: JSONObject) -> JSONObject:
    part = {"type": "output_text", "text": _said(response), "annotations": []}
    message: JSONObject = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": "resp_1", "object": "response", "status": "completed", "output": [message]}


def _as_anthropic(response: JSONObject) -> HTTPReply:
    parts: JSON = [{"type": "text", "text": _said(response)}]
    body: JSON = {"id": "msg_1", "type": "message", "role": "assistant", "content": parts, "stop_reason": "end_turn"}
    return HTTPReply.json(200, body)


chunk_for_response: Entry = _malformed("The response is a chunk of a stream: a delta, no message.", _as_chunk)
text_completion: Entry = _malformed(
    "The response is that of the older completions API: a text, no message.", _as_text_completion
)
response_of_responses_api: Entry = _choices(
    "The response is that of the Responses API: output, no choices.", _as_responses_api
)
response_of_ollama: Entry = _choices(
    "The response is that of Ollama's own API: a message, no choices.",
    lambda response: {"model": "scripted", "message": _message(response), "done": True, "done_reason": "stop"},
)
response_of_anthropic: Entry = _malformed(
    "The response is that of Anthropic's messages API: parts of content, no choices.", _as_anthropic
)
bare_message: Entry = _malformed(
    "The response is the message alone.", lambda response: HTTPReply.json(200, _message(response))
)

# How the reply ended


def _ending(
    code: str, summary: str, end: Callable[[Target], JSONObject], places: tuple[ReplyPlace, ...] = ANYWHERE
) -> Entry:
    """Serve a completion that ended badly."""
    return response_entry(Kind.FINISH, code, summary, end, places)


def _half(finish_reason: str) -> Callable[[Target], JSONObject]:
    """Serve the good reply as far as its middle."""

    def end(target: Target) -> JSONObject:
        text = target.text(target.value)
        return _with_choice(target.completion(text[: len(text) // 2]), finish_reason=finish_reason)

    return end


def _alone(content: str | None, finish_reason: str | None = None, **members: JSON) -> Callable[[Target], JSONObject]:
    """Serve a message that has this content, whatever the good reply is."""
    return lambda _: completion(assistant(content) | members, finish_reason=finish_reason)


_truncated = partial(_ending, "reply.truncated")
_filtered = partial(_ending, "reply.content_filter")
_refused = partial(_ending, "reply.refusal")
_broken_off = partial(_ending, "reply.broken_off")
_empty = partial(_ending, "reply.empty")

cut_at_length: Entry = _truncated("The reply was cut at the token limit.", _half("length"))
whole_at_length: Entry = _truncated(
    "The reply reads as if it were whole, but the token limit ended it: what is missing cannot be seen.",
    lambda target: _with_choice(target.clean, finish_reason="length"),
)
reasoning_to_the_limit: Entry = _truncated(
    "The model reasoned up to the token limit, and said nothing.",
    _alone(None, "length", reasoning_content=f"Let me see: {CANARY}"),
)
cut_at_max_tokens: Entry = _truncated(
    "The reply was cut at the token limit, with another API's finish reason: max_tokens.", _half("max_tokens")
)
cut_at_model_length: Entry = _truncated(
    "The reply was cut at the end of the model's context: model_length, as Mistral calls it.", _half("model_length")
)
filtered: Entry = _filtered("The provider's content filter let nothing through.", _alone("", "content_filter"))
filtered_midway: Entry = _filtered(
    "The provider's content filter stopped the reply in its middle.", _half("content_filter")
)
blocked_for_safety: Entry = _filtered(
    "The reply was blocked for safety, in another vendor's word: SAFETY.", _alone(None, "SAFETY")
)
blocked_as_recitation: Entry = _filtered(
    "The reply was stopped because it recites protected text: RECITATION.", _half("RECITATION")
)
blocked_as_sensitive: Entry = _filtered(
    "The reply was blocked as sensitive, in another vendor's word.", _alone("", "sensitive")
)
refusal: Entry = _refused("The model refused.", _alone(None, refusal=f"I cannot help with {CANARY}."))
refusal_beside_reply: Entry = _refused(
    "The model refused, and yet a reply stands beside the refusal.",
    lambda target: _with_choice(
        target.clean, message=_message(target.clean) | {"refusal": f"I cannot help with {CANARY}."}
    ),
)
ended_in_error: Entry = _broken_off("The server failed while writing: the finish reason is error.", _half("error"))
aborted: Entry = _broken_off(
    "The server gave up the request while writing: the finish reason is abort.", _half("abort")
)
out_of_resources: Entry = _broken_off(
    "The server had no resources left: the finish reason is insufficient_system_resource.",
    _half("insufficient_system_resource"),
)
nothing_said: Entry = _empty("The reply is neither text nor a call.", _alone(None))
empty_content: Entry = _empty(
    "The content is an empty text, and there is no call.", _alone(""), ("call", "json", "prose")
)
blank_content: Entry = _ending("shape.empty", "The content is white space.", _alone(" \n"), ("prose",))
reasoning_alone: Entry = _empty(
    "The model's reasoning is all there is.",
    _alone(None, reasoning_content=f"The user wants {CANARY}. So I call it."),
)
tool_calls_without_calls: Entry = _empty(
    "The finish reason is tool_calls, and no tool is called.", _alone(None, "tool_calls", tool_calls=[]), ("call",)
)
