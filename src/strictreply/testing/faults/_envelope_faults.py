"""Faults of the response around a reply, and of how the reply ended.

The response is not a completion of one message.
"""

from __future__ import annotations

from functools import partial

from strictreply.core import JSON, JSONObject
from strictreply.testing._steps import CANARY, Kind, Target
from strictreply.testing._wire import HTTPReply, assistant, completion
from strictreply.testing.faults._catalogue import Entry, response_entry, without

_ERROR: JSONObject = {
    "message": f"upstream of {CANARY} is overloaded",
    "type": "server_error",
    "code": 503,
}
_CHOICE: JSONObject = {
    "index": 0,
    "message": "$message",
    "logprobs": None,
    "finish_reason": "$finish_reason",
}


def _choices(choices: JSON, **members: JSON) -> JSONObject:
    """Write the good response with other choices, and other members beside them."""
    return completion({}) | {"choices": choices} | members


def _choice(**members: JSON) -> JSONObject:
    """Write the good response with other members in its one choice."""
    return _choices([_CHOICE | members])


def _with_members(target: Target, members: JSONObject) -> JSON:
    """Serve the good reply with other members in its message."""
    response = target.clean
    response["choices"][0]["message"].update(members)
    return response


def _half(target: Target, finish_reason: str) -> JSON:
    """Serve the good reply as far as its middle."""
    text = target.text(target.value)
    cut = target.completion(text[: len(text) // 2])
    cut["choices"][0]["finish_reason"] = finish_reason
    return cut


def _alone(content: str | None, finish_reason: str | None = None, **members: JSON) -> JSONObject:
    """Write a response whose message has this content, whatever the good reply is."""
    return completion(assistant(content) | members, finish_reason=finish_reason)


_no_choices = partial(response_entry, Kind.ENVELOPE, "envelope.choices")
_malformed = partial(response_entry, Kind.ENVELOPE, "envelope.malformed")
# JSON that would pass for a message if it were read as a reply.
_body = partial(_malformed, write=lambda _, body: HTTPReply.json(200, body))
_error = partial(response_entry, Kind.ENVELOPE, "envelope.error")

# Choices
missing_choices: Entry = _no_choices(
    "The response has no choices.", without(completion({}), "choices")
)
empty_choices: Entry = _no_choices(
    "The list of choices is empty, as in the first event of a stream from Azure.", _choices([])
)
null_choices: Entry = _no_choices("The choices are null.", _choices(None))
choices_as_object: Entry = _no_choices("The choices are one object, not a list.", _choices(_CHOICE))
two_choices: Entry = _no_choices(
    "The response has two choices, not one.", _choices([_CHOICE, _CHOICE | {"index": 1}])
)
null_choice: Entry = _malformed("The only choice is null.", _choices([None]))
finish_reason_as_object: Entry = _malformed(
    "The finish reason is an object.", _choice(finish_reason={"type": "stop"})
)

# The message
missing_message: Entry = _malformed(
    "The choice has no message.", _choices([without(_CHOICE, "message")])
)
null_message: Entry = _malformed("The message is null.", _choice(message=None))
empty_message: Entry = _malformed("The message is an empty object.", _choice(message={}))
message_as_text: Entry = _malformed("The message is a string.", _choice(message="$text"))
message_in_array: Entry = _malformed(
    "The message is inside an array.", _choice(message=["$message"])
)
_of_role = partial(response_entry, Kind.ENVELOPE, "reply.role", write=_with_members)
user_role: Entry = _of_role("The role of the message is user.", {"role": "user"})

# The response itself
response_in_array: Entry = _malformed("The completion is inside an array.", ["$completion"])
response_as_text: Entry = _body(
    "The response is a JSON string that contains the completion.", "$body"
)
response_as_number: Entry = _malformed("The response is a number.", 42)
null_response: Entry = _malformed("The response is null.", None)
empty_response: Entry = _no_choices("The response is an empty object.", {})

# Errors
_LOADING = f"model {CANARY} is loading"
_MEMBERS = {"object": "error", **_ERROR}
_FAILED = _choice(error=_ERROR, finish_reason="error")

error_for_response: Entry = _error(
    "The response is an error object, with status 200.", {"error": _ERROR}
)
error_as_text: Entry = _error(
    "The response is an error message as a string, with status 200.", {"error": _LOADING}
)
error_members_for_response: Entry = _error(
    "The response has the members of an error at its top level, with status 200.", _MEMBERS
)
error_beside_choices: Entry = _error(
    "The response has an error next to its choices.", _choices([_CHOICE], error=_ERROR)
)
error_in_choice: Entry = _error(
    "The choice has an error, as routers report a failed provider.", _FAILED
)

# Responses of other APIs
_CHUNK = _choices(
    [{"index": 0, "delta": "$message", "finish_reason": None}], object="chat.completion.chunk"
)
_TEXT: JSONObject = {"index": 0, "text": "$text", "logprobs": None, "finish_reason": "stop"}
_TEXT_COMPLETION = _choices([_TEXT], object="text_completion")
_OUTPUT_TEXT: JSON = {"type": "output_text", "text": "$text", "annotations": []}
_OUTPUT: JSON = {
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [_OUTPUT_TEXT],
}
_RESPONSE: JSON = {"id": "resp_1", "object": "response", "status": "completed", "output": [_OUTPUT]}
_OLLAMA: JSON = {"model": "scripted", "message": "$message", "done": True, "done_reason": "stop"}
_PARTS: JSON = [{"type": "text", "text": "$text"}]
_ANTHROPIC: JSON = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": _PARTS,
    "stop_reason": "end_turn",
}

chunk_for_response: Entry = _malformed(
    "The response is a chunk of a stream: it has a delta, and no message.", _CHUNK
)
text_completion: Entry = _malformed(
    "The response is of the older completions API: it has a text, and no message.", _TEXT_COMPLETION
)
response_of_responses_api: Entry = _no_choices(
    "The response is of the Responses API: it has output, and no choices.", _RESPONSE
)
response_of_ollama: Entry = _no_choices(
    "The response is of Ollama's own API: it has a message, and no choices.", _OLLAMA
)
response_of_anthropic: Entry = _body(
    "The response is of Anthropic's Messages API: it has content blocks, and no choices.",
    _ANTHROPIC,
)
bare_message: Entry = _body("The response is only the message.", "$message")

# How the reply ended
_truncated = partial(response_entry, Kind.FINISH, "reply.truncated")
_cut = partial(_truncated, write=_half)
_filtered = partial(response_entry, Kind.FINISH, "reply.content_filter")
_stopped = partial(_filtered, write=_half)
_refused = partial(response_entry, Kind.FINISH, "reply.refusal")
_broken = partial(response_entry, Kind.FINISH, "reply.broken_off", write=_half)
_empty = partial(response_entry, Kind.FINISH, "reply.empty")
_blank = partial(response_entry, Kind.FINISH, "shape.empty")
_REASONING = _alone(None, "length", reasoning_content=f"Let me see: {CANARY}")
_REFUSAL = f"I cannot help with {CANARY}."
_THOUGHT = _alone(None, reasoning_content=f"The user wants {CANARY}. So I call it.")
_NO_CALLS = _alone(None, "tool_calls", tool_calls=[])

cut_at_length: Entry = _cut("The reply was cut off at the token limit.", "length")
whole_at_length: Entry = _truncated(
    "The reply seems complete, but ended at the token limit.", _choice(finish_reason="length")
)
reasoning_to_the_limit: Entry = _truncated(
    "The model reasoned until the token limit and wrote no reply.", _REASONING
)
cut_at_max_tokens: Entry = _cut(
    "The reply was cut off at the token limit, with the finish reason max_tokens.", "max_tokens"
)
cut_at_model_length: Entry = _cut(
    "The reply was cut off at the end of the context, with the finish reason model_length.",
    "model_length",
)
filtered: Entry = _filtered(
    "The provider's content filter removed the whole reply.", _alone("", "content_filter")
)
filtered_midway: Entry = _stopped(
    "The content filter stopped the reply in the middle.", "content_filter"
)
blocked_for_safety: Entry = _filtered(
    "The reply was blocked, with the finish reason SAFETY.", _alone(None, "SAFETY")
)
blocked_as_recitation: Entry = _stopped(
    "The reply was stopped, with the finish reason RECITATION.", "RECITATION"
)
blocked_as_sensitive: Entry = _filtered(
    "The reply was blocked, with the finish reason sensitive.", _alone("", "sensitive")
)
refusal: Entry = _refused("The model refused.", _alone(None, refusal=_REFUSAL))
refusal_beside_reply: Entry = _refused(
    "The message has a refusal in addition to the reply.",
    {"refusal": _REFUSAL},
    write=_with_members,
)
ended_in_error: Entry = _broken(
    "The server failed during the reply, with the finish reason error.", "error"
)
aborted: Entry = _broken(
    "The server aborted the request during the reply, with the finish reason abort.", "abort"
)
out_of_resources: Entry = _broken(
    "The server ran out of resources.", "insufficient_system_resource"
)
nothing_said: Entry = _empty("The reply has neither text nor a call.", _alone(None))
empty_content: Entry = _empty(
    "The content is empty, and there is no call.", _alone(""), ("call", "json", "prose")
)
blank_content: Entry = _blank("The content is only whitespace.", _alone(" \n"), ("prose",))
reasoning_alone: Entry = _empty("The reply has only the model's reasoning.", _THOUGHT)
tool_calls_without_calls: Entry = _empty(
    "The finish reason is tool_calls, but there is no call.", _NO_CALLS, ("call",)
)
