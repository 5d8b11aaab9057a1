"""Faults of the response around a reply: JSON from the API, but not one completion with one message in one choice.

What is wrong with HTTP, or breaks the JSON of the body, is another kind of fault; the reply inside is a good one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing._wire import HTTPReply, Served
from strictreply.testing.faults._catalogue import ANYWHERE, Entry, Spoiled
from strictreply.testing.faults._making import entry_of, spoiled
from strictreply.testing.faults._writing import written
from strictreply.values._json import JSON, JSONObject

_Response: TypeAlias = Callable[[JSONObject], Served]
"""Changes a good completion, or puts something else in its place."""

_ERROR: JSONObject = {"message": f"upstream of {CANARY} is overloaded", "type": "server_error", "code": 503}


def _envelope_fault(code: str) -> Callable[[_Response], Entry]:
    """Serve another response."""

    def decorate(change: _Response) -> Entry:
        """Make the entry of the response."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Change the good completion."""
            yield spoiled(change(target.clean))

        return entry_of(change, make, Kind.ENVELOPE, code, ANYWHERE)

    return decorate


def _choice(response: JSONObject) -> JSONObject:
    """Give the one choice of a good completion."""
    choice: JSONObject = response["choices"][0]
    return choice


def _with_choices(response: JSONObject, choices: JSON, **members: JSON) -> JSONObject:
    """Put something else in the place of the choices; ``members`` of the response are changed too."""
    return response | {"choices": choices} | members


def _with_choice(response: JSONObject, **members: JSON) -> JSONObject:
    """Change members of the one choice."""
    return _with_choices(response, [_choice(response) | members])


# Choices


@_envelope_fault("envelope.choices")
def missing_choices(response: JSONObject) -> Served:
    """The response has no choices."""
    return {name: member for name, member in response.items() if name != "choices"}


@_envelope_fault("envelope.choices")
def empty_choices(response: JSONObject) -> Served:
    """The list of choices is empty, as Azure sends it in the first event of a stream."""
    return _with_choices(response, [])


@_envelope_fault("envelope.choices")
def null_choices(response: JSONObject) -> Served:
    """The choices are null."""
    return _with_choices(response, None)


@_envelope_fault("envelope.choices")
def choices_as_object(response: JSONObject) -> Served:
    """The choices are one object, not a list."""
    return _with_choices(response, _choice(response))


@_envelope_fault("envelope.choices")
def two_choices(response: JSONObject) -> Served:
    """The response has two choices where one was asked for."""
    return _with_choices(response, [_choice(response), _choice(response) | {"index": 1}])


@_envelope_fault("envelope.malformed")
def null_choice(response: JSONObject) -> Served:
    """The one choice is null."""
    return _with_choices(response, [None])


@_envelope_fault("envelope.malformed")
def finish_reason_as_object(response: JSONObject) -> Served:
    """The finish reason is an object."""
    return _with_choice(response, finish_reason={"type": "stop"})


# The message


@_envelope_fault("envelope.malformed")
def missing_message(response: JSONObject) -> Served:
    """The choice has no message."""
    choice = _choice(response)
    return _with_choices(response, [{name: choice[name] for name in choice if name != "message"}])


@_envelope_fault("envelope.malformed")
def null_message(response: JSONObject) -> Served:
    """The message is null."""
    return _with_choice(response, message=None)


@_envelope_fault("envelope.malformed")
def empty_message(response: JSONObject) -> Served:
    """The message is an empty object."""
    return _with_choice(response, message={})


@_envelope_fault("envelope.malformed")
def message_as_text(response: JSONObject) -> Served:
    """The message is a text."""
    return _with_choice(response, message=_said(response))


@_envelope_fault("envelope.malformed")
def message_in_array(response: JSONObject) -> Served:
    """The message stands in an array."""
    return _with_choice(response, message=[_choice(response)["message"]])


@_envelope_fault("reply.role")
def user_role(response: JSONObject) -> Served:
    """The message is the user's, by its role."""
    return _with_choice(response, message=_choice(response)["message"] | {"role": "user"})


# The response itself


@_envelope_fault("envelope.malformed")
def response_in_array(response: JSONObject) -> Served:
    """The completion stands in an array."""
    return [response]


@_envelope_fault("envelope.malformed")
def response_as_text(response: JSONObject) -> Served:
    """The response is a JSON string that holds the completion."""
    return HTTPReply.json(200, written(response))


@_envelope_fault("envelope.malformed")
def response_as_number(_: JSONObject) -> Served:
    """The response is a number."""
    return 42


@_envelope_fault("envelope.malformed")
def null_response(_: JSONObject) -> Served:
    """The response is null."""
    return None


@_envelope_fault("envelope.choices")
def empty_response(_: JSONObject) -> Served:
    """The response is an empty object."""
    return {}


# Errors


@_envelope_fault("envelope.error")
def error_for_response(_: JSONObject) -> Served:
    """The response is an error, under the status of a success."""
    return {"error": _ERROR}


@_envelope_fault("envelope.error")
def error_as_text(_: JSONObject) -> Served:
    """The response is an error that is a text, under the status of a success."""
    return {"error": f"model {CANARY} is loading"}


@_envelope_fault("envelope.choices")
def error_members_for_response(_: JSONObject) -> Served:
    """The response has the members of an error, but is not called one, under the status of a success."""
    return {"object": "error", **_ERROR}


@_envelope_fault("envelope.error")
def error_beside_choices(response: JSONObject) -> Served:
    """An error stands beside the choices."""
    return response | {"error": _ERROR}


@_envelope_fault("envelope.error")
def error_in_choice(response: JSONObject) -> Served:
    """An error stands in the choice, as routers report what failed behind them."""
    return _with_choice(response, error=_ERROR, finish_reason="error")


# Responses of other APIs


@_envelope_fault("envelope.malformed")
def chunk_for_response(response: JSONObject) -> Served:
    """The response is a chunk of a stream: a delta, no message."""
    choice: JSON = {"index": 0, "delta": _choice(response)["message"], "finish_reason": None}
    return _with_choices(response, [choice], object="chat.completion.chunk")


@_envelope_fault("envelope.malformed")
def text_completion(response: JSONObject) -> Served:
    """The response is that of the older completions API: a text, no message."""
    choice: JSON = {"index": 0, "text": _said(response), "logprobs": None, "finish_reason": "stop"}
    return _with_choices(response, [choice], object="text_completion")


@_envelope_fault("envelope.choices")
def response_of_responses_api(response: JSONObject) -> Served:
    """The response is that of the Responses API: output, no choices."""
    part = {"type": "output_text", "text": _said(response), "annotations": []}
    message: JSONObject = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": "resp_1", "object": "response", "status": "completed", "output": [message]}


@_envelope_fault("envelope.choices")
def response_of_ollama(response: JSONObject) -> Served:
    """The response is that of Ollama's own API: a message, no choices."""
    return {"model": "scripted", "message": _choice(response)["message"], "done": True, "done_reason": "stop"}


@_envelope_fault("envelope.malformed")
def response_of_anthropic(response: JSONObject) -> Served:
    """The response is that of Anthropic's messages API: parts of content, no choices."""
    parts: JSON = [{"type": "text", "text": _said(response)}]
    body: JSON = {"id": "msg_1", "type": "message", "role": "assistant", "content": parts, "stop_reason": "end_turn"}
    return HTTPReply.json(200, body)


@_envelope_fault("envelope.malformed")
def bare_message(response: JSONObject) -> Served:
    """The response is the message alone."""
    return HTTPReply.json(200, _choice(response)["message"])


def _said(response: JSONObject) -> str:
    """Give the content of a good completion, or the arguments of its call."""
    message: JSONObject = _choice(response)["message"]
    text: str = message["content"] or message["tool_calls"][0]["function"]["arguments"]
    return text
