"""The openai SDK: chat completions and Responses, sync and async, on OpenAI's servers and Azure."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from strictreply.sdks._sdk import SDK, Door, no_pages
from strictreply.values._replies import AssistantReply, DirectAnswer
from strictreply.wires._chat import CHAT
from strictreply.wires._dialects import text_in
from strictreply.wires._responses import RESPONSES

_NO_PAGES = no_pages("chat.completions")
_NO_SOCKETS = (
    "one websocket carries the events of many replies; call client.responses.create(stream=True)"
)


def _valid_completion(kind: type[BaseModel], content: bytes) -> object:
    made: Any = kind.model_validate_json(content, strict=True)

    # the SDK does not count members as set that these have no field for; of optional objects it
    # does, as pydantic
    for one in (made, *made.choices, *(choice.message for choice in made.choices)):
        one.__pydantic_fields_set__.difference_update(one.__pydantic_extra__ or ())

    return made


def _parsed_completion(
    parse: Callable[[Any], Any], is_class: bool, response: Any, reply: AssistantReply | None
) -> object:
    """Return a completion in which what is ``parsed`` is the answer that was judged."""
    message = response.choices[0].message
    content = message.content
    is_in_parts = isinstance(content, list)
    if is_in_parts:
        message.content = text_in(content)  # the SDK parses a text alone

    parsed = parse(response)
    if is_in_parts:
        parsed.choices[0].message.content = content
    if is_class and isinstance(reply, DirectAnswer):
        parsed.choices[0].message.parsed = reply.answer

    return parsed


def _parsed_response(
    parse: Callable[[Any], Any], is_class: bool, response: Any, reply: AssistantReply | None
) -> object:
    """Return a response in which what is ``parsed`` is the answer that was judged."""
    parsed = parse(response)
    if not is_class or not isinstance(reply, DirectAnswer):
        return parsed

    # the one text that answers
    parts = [part for item in parsed.output if item.type == "message" for part in item.content]
    answers = [part for part in parts if getattr(part, "parsed", None) is not None]
    if len(answers) == 1:
        answers[0].parsed = reply.answer

    return parsed


def _client_of_module(module: ModuleType) -> object:
    # it reads the globals of the module
    return module.chat.completions._client  # noqa: SLF001


_COMPLETIONS = Door(
    wire=CHAT,
    response=("types.chat", "ChatCompletion"),
    event=("types.chat", "ChatCompletionChunk"),
    needed=frozenset({"messages", "model"}),
    parsed=_parsed_completion,
    posts_stored=True,
    validated=_valid_completion,
)

OPENAI = SDK(
    package="openai",
    example="openai.OpenAI()",
    doors={
        "chat.completions": _COMPLETIONS,
        "responses": Door(
            wire=RESPONSES,
            response=("types.responses", "Response"),
            event=("types.responses", "ResponseStreamEvent"),
            foreign=frozenset({"messages", "response_format", "text_format"}),
            answer_keyword="text_format",
            parsed=_parsed_response,
            refused_queries=frozenset({"beta"}),
            stored_actions=frozenset({"cancel"}),
        ),
        "beta.chat.completions": _COMPLETIONS,
    },
    refused={
        "chat.completions.list": _NO_PAGES,
        "beta.chat.completions.list": _NO_PAGES,
        "responses.connect": _NO_SOCKETS,
        "beta.responses": "call client.responses",
    },
    unguarded=(
        "audio.transcriptions",
        "audio.translations",
        "beta.agents",
        "beta.chat.completions.messages",
        "beta.chatkit.threads",
        "beta.realtime",
        "beta.responses.compact",
        "beta.responses.input_items",
        "beta.threads",
        "chat.completions.messages",
        "completions",
        "conversations.items",
        "decisions",
        "evals.runs",
        "live",
        "realtime",
        "responses.compact",
        "responses.input_items",
    ),
    websockets={
        "resources.responses.responses": "responses.connect",
        "resources.beta.responses.responses": "beta.responses",
    },
    base_error="OpenAIError",
    cut_error="LengthFinishReasonError",
    filtered_error="ContentFilterFinishReasonError",
    error_members=("code", "param", "type"),
    module_client=_client_of_module,
)
