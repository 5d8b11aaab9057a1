"""Faults of the response around a reply, which is no completion of one message, and of how the reply ended.

A row of a table is ``name = factory(code, summary, served)``; :func:`~strictreply.testing.faults._catalogue.filled`
fills the ``$names`` in what is served.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from strictreply.testing._steps import CANARY, Kind, ReplyPlace, Target
from strictreply.testing._wire import HTTPReply, assistant, completion
from strictreply.testing.faults._catalogue import ANYWHERE, Entry, ServedInstead, filled, response_entry
from strictreply.values._limits import JSON, JSONObject

_ERROR: JSONObject = {"message": f"upstream of {CANARY} is overloaded", "type": "server_error", "code": 503}
_CHOICE: JSONObject = {"index": 0, "message": "$message", "logprobs": None, "finish_reason": "$finish_reason"}


def _choices(choices: JSON, **members: JSON) -> JSONObject:
    """Write the good response with other choices, and other members beside them."""
    return completion({}) | {"choices": choices} | members


def _choice(**members: JSON) -> JSONObject:
    """Write the good response with other members in its one choice."""
    return _choices([_CHOICE | members])


def _without(whole: JSONObject, name: str) -> JSONObject:
    return {key: member for key, member in whole.items() if key != name}


def _message(**members: JSON) -> Callable[[Target], JSON]:
    """Serve the good reply with other members in its message."""

    def respond(target: Target) -> JSON:
        response = target.clean
        response["choices"][0]["message"].update(members)
        return response

    return respond


def _body(body: JSON) -> Callable[[Target], HTTPReply]:
    """Serve JSON that would pass for a message if it were read as a reply."""
    return lambda target: HTTPReply.json(200, filled(body, target))


_bad_choices = partial(response_entry, Kind.ENVELOPE, "envelope.choices")
_malformed = partial(response_entry, Kind.ENVELOPE, "envelope.malformed")
_error = partial(response_entry, Kind.ENVELOPE, "envelope.error")

# Choices
missing_choices: Entry = _bad_choices("The response has no choices.", _without(completion({}), "choices"))
empty_choices: Entry = _bad_choices(
    "The list of choices is empty, as Azure sends it in the first event of a stream.", _choices([])
)
null_choices: Entry = _bad_choices("The choices are null.", _choices(None))
choices_as_object: Entry = _bad_choices("The choices are one object, not a list.", _choices(_CHOICE))
two_choices: Entry = _bad_choices(
    "The response has two choices where one was asked for.", _choices([_CHOICE, _CHOICE | {"index": 1}])
)
null_choice: Entry = _malformed("The one choice is null.", _choices([None]))
finish_reason_as_object: Entry = _malformed("The finish reason is an object.", _choice(finish_reason={"type": "stop"}))

# The message
missing_message: Entry = _malformed("The choice has no message.", _choices([_without(_CHOICE, "message")]))
null_message: Entry = _malformed("The message is null.", _choice(message=None))
empty_message: Entry = _malformed("The message is an empty object.", _choice(message={}))
message_as_text: Entry = _malformed("The message is a text.", _choice(message="$text"))
message_in_array: Entry = _malformed("The message stands in an array.", _choice(message=["$message"]))
user_role: Entry = response_entry(
    Kind.ENVELOPE, "reply.role", "The role of the message is user.", _message(role="user")
)

# The response itself
response_in_array: Entry = _malformed("The completion stands in an array.", ["$completion"])
response_as_text: Entry = _malformed("The response is a JSON string that holds the completion.", _body("$body"))
response_as_number: Entry = _malformed("The response is a number.", 42)
null_response: Entry = _malformed("The response is null.", None)
empty_response: Entry = _bad_choices("The response is an empty object.", {})

# Errors
error_for_response: Entry = _error("The response is an error, under the status of a success.", {"error": _ERROR})
error_as_text: Entry = _error(
    "The response is an error that is a text, under the status of a success.", {"error": f"model {CANARY} is loading"}
)
error_members_for_response: Entry = _bad_choices(
    "The response has the members of an error but no error key, under the status of a success.",
    {"object": "error", **_ERROR},
)
error_beside_choices: Entry = _error("An error stands beside the choices.", _choices([_CHOICE], error=_ERROR))
error_in_choice: Entry = _error(
    "An error stands in the choice, as routers report what failed behind them.",
    _choice(error=_ERROR, finish_reason="error"),
)

# Responses of other APIs
chunk_for_response: Entry = _malformed(
    "The response is a chunk of a stream: a delta, no message.",
    _choices([{"index": 0, "delta": "$message", "finish_reason": None}], object="chat.completion.chunk"),
)
text_completion: Entry = _malformed(
    "The response is that of the older completions API: a text, no message.",
    _choices([{"index": 0, "text": "$text", "logprobs": None, "finish_reason": "stop"}], object="text_completion"),
)
_OUTPUT_TEXT: JSON = {"type": "output_text", "text": "$text", "annotations": []}
_OUTPUT: JSON = {"type": "message", "role": "assistant", "status": "completed", "content": [_OUTPUT_TEXT]}
response_of_responses_api: Entry = _bad_choices(
    "The response is that of the Responses API: output, no choices.",
    {"id": "resp_1", "object": "response", "status": "completed", "output": [_OUTPUT]},
)
response_of_ollama: Entry = _bad_choices(
    "The response is that of Ollama's own API: a message, no choices.",
    {"model": "scripted", "message": "$message", "done": True, "done_reason": "stop"},
)
_PARTS: JSON = [{"type": "text", "text": "$text"}]
response_of_anthropic: Entry = _malformed(
    "The response is that of Anthropic's messages API: parts of content, no choices.",
    _body({"id": "msg_1", "type": "message", "role": "assistant", "content": _PARTS, "stop_reason": "end_turn"}),
)
bare_message: Entry = _malformed("The response is the message alone.", _body("$message"))

# How the reply ended


def _ending(code: str, summary: str, end: ServedInstead, places: tuple[ReplyPlace, ...] = ANYWHERE) -> Entry:
    """Serve a completion that ended badly."""
    return response_entry(Kind.FINISH, code, summary, end, places)


def _half(finish_reason: str) -> Callable[[Target], JSON]:
    """Serve the good reply as far as its middle."""

    def end(target: Target) -> JSON:
        text = target.text(target.value)
        cut = target.completion(text[: len(text) // 2])
        cut["choices"][0]["finish_reason"] = finish_reason
        return cut

    return end


def _alone(content: str | None, finish_reason: str | None = None, **members: JSON) -> JSONObject:
    """Write a response whose message has this content, whatever the good reply is."""
    return completion(assistant(content) | members, finish_reason=finish_reason)


_truncated = partial(_ending, "reply.truncated")
_filtered = partial(_ending, "reply.content_filter")
_refused = partial(_ending, "reply.refusal")
_broken_off = partial(_ending, "reply.broken_off")
_empty = partial(_ending, "reply.empty")

cut_at_length: Entry = _truncated("The reply was cut at the token limit.", _half("length"))
whole_at_length: Entry = _truncated(
    "The reply reads as if it were whole, but the token limit ended it: what is missing cannot be seen.",
    _choice(finish_reason="length"),
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
    "The model refused, and yet a reply stands beside the refusal.", _message(refusal=f"I cannot help with {CANARY}.")
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
    "The model's reasoning is all there is.", _alone(None, reasoning_content=f"The user wants {CANARY}. So I call it.")
)
tool_calls_without_calls: Entry = _empty(
    "The finish reason is tool_calls, and no tool is called.", _alone(None, "tool_calls", tool_calls=[]), ("call",)
)
