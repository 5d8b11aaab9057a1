"""One attempt through instructor: our request made into instructor's, and the provider's raw reply brought back.

A seam stands in for a client under :func:`strictreply.wrap`. Each ask goes through instructor's own ``create`` and
leaves it as soon as the reply is there: instructor neither parses the reply, nor logs it, nor asks again. Our
corrections stand where its own would: behind the request that it prepared, after its templates, so that no words of the
model's are ever read as a template.

A dialect is how a provider writes replies and turns. Two are known: Chat Completions, and Anthropic's Messages. No
reply is judged here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

from strictreply.integrations._extras import load
from strictreply.values._errors import ContractError
from strictreply.values._json import JSON, JSONObject, Message
from strictreply.wires._chat import peek

MADE_BY_INSTRUCTOR: Final = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
"""What instructor makes of a response model itself: of our requests it is left out."""

_UNREADABLE: Final = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
"""What the SDKs' readers raise for a body that is no JSON, or nested too deep for them."""

_PROMPT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_THOUGHTS: Final[Mapping[str, tuple[str, ...]]] = {
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
"""The blocks that the API wants back, with their signatures, before the use of a tool that followed them."""

_ENDINGS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",  # a classifier of the provider's stopped the model
    "pause_turn": "aborted",
}
"""Why Anthropic's model stopped, in the words of Chat Completions; other words are known under their own name."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a provider writes replies and turns.

    ``completion`` returns the provider's raw completion in the shape of Chat Completions, ``turns`` the turns of a
    correction, which come in that shape, in the provider's.
    """

    completion: Callable[[Any], Any]
    turns: Callable[[Sequence[Message]], list[Message]]


def dialect_of(provider: str) -> Dialect:
    """Return the dialect of a provider of instructor's; ContractError when its replies have an unknown shape."""
    dialect = _DIALECTS.get(provider)
    if dialect is None:
        message = (
            f"instructor's provider {provider!r} is not supported: the shape of its replies is not known; supported "
            f"are {', '.join(_DIALECTS)}. Reach it through an endpoint that speaks the Chat Completions API"
        )
        raise ContractError(message)
    return dialect


class _Came(BaseException):
    """Carries the flow out of instructor when a reply is there: hooks swallow exceptions, but not this."""


class Seam:
    """The client of one call: ``sent`` is the last request as instructor sent it, ``came`` the provider's raw reply."""

    def __init__(self, client: Any, dialect: Dialect, messages: list[Message], own: JSONObject) -> None:
        """``messages`` are the caller's, ``own`` the keywords that are instructor's."""
        self.sent: JSONObject = {}
        self.came: Any = None
        self._client = client
        self._dialect = dialect
        self._messages = messages
        self._own = own
        self._spent: type[Exception] = load("instructor.core").InstructorRetryException
        create = self._acreate if isinstance(client, load("instructor").AsyncInstructor) else self._create
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=create))

    def _create(self, **request: Any) -> Any:
        with self._one_attempt():
            self._client.create_fn(**self._keywords(request))
        return self._dialect.completion(self.came)

    async def _acreate(self, **request: Any) -> Any:
        with self._one_attempt():
            await self._client.create_fn(**self._keywords(request))
        return self._dialect.completion(self.came)

    def _keywords(self, request: JSONObject) -> JSONObject:
        """Return a request of ours as instructor's; what instructor makes of the response model itself is left out."""
        self.came = None
        turns = self._dialect.turns(request["messages"][len(self._messages) :])
        kept = {name: value for name, value in request.items() if name not in (*MADE_BY_INSTRUCTOR, "messages")}
        one = {"messages": self._messages, "max_retries": 0, "cache": None, "hooks": self._hooks(turns)}
        return kept | self._own | one

    def _hooks(self, turns: list[Message]) -> Any:
        """Add our turns before the client's hooks see the request, and stop after they have seen the reply."""
        kind = load("instructor.core").Hooks
        before, after = kind(), kind()
        before.on("completion:kwargs", partial(self._extend, turns))
        after.on("completion:response", self._stop)
        return before + self._client.hooks + (self._own.get("hooks") or kind()) + after

    def _extend(self, turns: list[Message], /, **prepared: Any) -> None:
        prepared["messages"].extend(turns)  # in place, as instructor's own corrections do
        self.sent = prepared | {"messages": list(prepared["messages"])}

    def _stop(self, response: Any) -> None:
        self.came = response
        raise _Came

    @contextmanager
    def _one_attempt(self) -> Generator[None]:
        """Let a reply out of instructor, and what the provider's SDK raised out of instructor's exception.

        A body that the SDK cannot read counts as a reply that is not one.
        """
        failed: BaseException
        try:
            yield
        except _Came:
            return
        except self._spent as error:
            failed = error.__cause__ or error
        else:
            return
        if not isinstance(failed, _UNREADABLE):
            raise failed from failed.__cause__  # without the exception around it, which says the same


def usage_of(counted: object) -> JSON:
    """Count tokens as Chat Completions does: for Anthropic, what a cache was given or gave is part of the prompt."""
    if peek(counted, "input_tokens") is None:
        return cast("JSON", counted)
    prompt = (peek(counted, name) for name in _PROMPT_TOKENS)
    total = sum(count for count in prompt if isinstance(count, int))
    return {"prompt_tokens": total, "completion_tokens": cast("JSON", peek(counted, "output_tokens"))}


def _anthropic_completion(message: Any) -> JSONObject | None:
    """Return a message of Anthropic's as a completion; None when it is none.

    The SDK has parsed a tool's input already: of duplicate names in it the last one is left, and the text that is
    judged is made of what the SDK gave.
    """
    blocks = peek(message, "content")
    if not isinstance(blocks, list):
        return None
    ending = peek(message, "stop_reason")
    choice = {
        "index": 0,
        "finish_reason": _ENDINGS.get(ending, ending) if isinstance(ending, str) else ending,
        "message": _anthropic_message(cast("list[object]", blocks)),
    }
    told = {name: peek(message, name) for name in ("id", "model")}
    return told | {"choices": [choice], "usage": usage_of(peek(message, "usage"))}


def _anthropic_message(blocks: list[object]) -> JSONObject:
    """Return content blocks as an assistant message: text, calls, and thoughts to be sent back with a correction."""
    text, calls, thoughts = "", list[JSONObject](), list[JSONObject]()
    for block in blocks:
        kind = str(peek(block, "type"))
        if kind == "text":
            text += str(peek(block, "text"))
        elif kind == "tool_use":
            # What is not finite stays so in the text, for the reader to refuse.
            function = {"name": peek(block, "name"), "arguments": json.dumps(peek(block, "input"))}
            calls.append({"id": peek(block, "id"), "type": "function", "function": function})
        elif kind in _THOUGHTS:
            thoughts.append({"type": kind} | {name: peek(block, name) for name in _THOUGHTS[kind]})
    message: JSONObject = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": calls} if calls else {}
    return message | ({"reasoning_details": thoughts} if thoughts else {})


def _anthropic_turns(turns: Sequence[Message]) -> list[Message]:
    """Return the turns of one correction: calls and thoughts as blocks, what is said to the calls as one user turn."""
    results: list[Message] = [
        {"type": "tool_result", "tool_use_id": turn["tool_call_id"], "content": turn["content"], "is_error": True}
        for turn in turns
        if turn["role"] == "tool"
    ]
    said = [_anthropic_calls(turn) if "tool_calls" in turn else turn for turn in turns if turn["role"] != "tool"]
    return [*said, {"role": "user", "content": results}] if results else said


def _anthropic_calls(turn: Message) -> Message:
    text = [{"type": "text", "text": turn["content"]}] if turn["content"] else []
    uses: list[JSONObject] = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),  # only calls that read as an object are replayed
        }
        for call in turn["tool_calls"]
    ]
    return {"role": "assistant", "content": [*turn.get("reasoning_details", ()), *text, *uses]}


_SAME_SHAPE: Final = (
    *("openai", "azure_openai", "anyscale", "together", "databricks", "deepseek", "openrouter"),
    *("groq", "fireworks", "cerebras", "perplexity"),
)
_DIALECTS: Final[Mapping[str, Dialect]] = {
    **dict.fromkeys(_SAME_SHAPE, Dialect(completion=lambda raw: raw, turns=list)),
    "anthropic": Dialect(completion=_anthropic_completion, turns=_anthropic_turns),
}
"""By instructor's names; what it reaches as a server of OpenAI's kind (Ollama, LiteLLM) goes by ``openai``."""
