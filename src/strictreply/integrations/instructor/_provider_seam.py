"""One call through instructor: a seam replaces the client under :func:`strictreply.wrap`.

Each request goes through instructor's own ``create``, and the seam takes the reply out as soon as
it is received. So instructor neither parses the reply, nor logs it, nor retries. strictreply adds
its corrections after instructor has prepared the request, so that a model's text is never read as a
template.

Errors are translated both ways, by :func:`to_instructor` and :func:`from_instructor`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final, Protocol, TypeAlias, cast

from strictreply import (
    Attempt,
    CallFailed,
    Code,
    Contract,
    ContractError,
    Invalid,
    Issue,
    ReplyHalted,
    ReplyRejected,
    TransportFailed,
    Usage,
)
from strictreply.core import JSON, JSONObject, Message, OnAttempt, classify, judge, shape
from strictreply.core.calls import plain_request
from strictreply.core.forms import as_json, peek
from strictreply.core.judging import check_issues
from strictreply.integrations import load
from strictreply.wires import wire_of

MADE_BY_INSTRUCTOR: Final = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
"""What instructor itself makes of a response model; strictreply's requests leave it out."""

_UNREADABLE: Final = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of the SDKs for a body that is not JSON, or too deeply nested for them."""

_THOUGHTS: Final = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
"""The blocks that the API requires back, with their signatures.

They come before the tool call that followed them.
"""

_ENDINGS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",  # a classifier of the provider stopped the model
    "pause_turn": "aborted",
}
"""The finish reasons of Chat Completions for Anthropic's stop reasons.

Other reasons keep their names.
"""


class _Instructor(Protocol):
    """A client of instructor, sync or async."""

    provider: Enum
    create_fn: Callable[..., Any]
    hooks: Any


class _Came(BaseException):
    """Carries the control flow out of instructor when a reply was received.

    Hooks swallow ordinary exceptions, but not this one.
    """


class Seam:
    """The client of one call.

    ``sent`` is the last request as instructor sent it; ``came`` is the provider's raw reply.
    """

    def __init__(
        self,
        client: _Instructor,
        messages: list[Message],
        own: JSONObject,
        *,
        max_retries: int,
        watcher: OnAttempt | None,
    ) -> None:
        """Store the caller's ``messages``, and instructor's keywords as ``own``."""
        self.sent: JSONObject = {}
        self.came: Any = None
        self.attempts: list[Attempt] = []

        self._client = client
        self._messages = messages
        self._own = own
        self._max_retries = max_retries
        self._watcher = watcher
        self._completion, self._turns = dialect_of(client)

        is_async = isinstance(client, load("instructor").AsyncInstructor)
        create = self._acreate if is_async else self._create
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=create))

    def _create(self, **request: object) -> object:
        with self._one_attempt():
            self._client.create_fn(**self._keywords(request))
        return self._completion(self.came)

    async def _acreate(self, **request: object) -> object:
        with self._one_attempt():
            await self._client.create_fn(**self._keywords(request))
        return self._completion(self.came)

    def _keywords(self, request: JSONObject) -> JSONObject:
        """Return a request of strictreply as instructor's keywords.

        Hooks add strictreply's turns before the client's own hooks run, and stop instructor after
        them.
        """
        turns = self._turns(request["messages"][len(self._messages) :])
        hooks = load("instructor.core").Hooks
        before = hooks()
        after = hooks()

        def extend(**prepared: Any) -> None:
            prepared["messages"].extend(turns)  # in place, as instructor does
            self.sent = prepared | {"messages": list(prepared["messages"])}

        def stop(response: object) -> None:
            self.came = response
            raise _Came

        self.came = None
        before.on("completion:kwargs", extend)
        after.on("completion:response", stop)
        hooked = before + self._client.hooks + (self._own.get("hooks") or hooks()) + after

        left_out = (*MADE_BY_INSTRUCTOR, "messages")
        keywords = {name: value for name, value in request.items() if name not in left_out}
        ours = {"messages": self._messages, "max_retries": 0, "cache": None, "hooks": hooked}
        return keywords | self._own | ours

    @contextmanager
    def _one_attempt(self) -> Generator[None]:
        """Take a reply out of instructor.

        An exception of the provider's SDK is taken out of instructor's exception.
        """
        failed: BaseException | None = None
        try:
            yield
        except _Came:
            pass
        except load("instructor.core").InstructorRetryException as error:
            failed = error.__cause__ or error

        # an unreadable body counts as a reply
        if failed is not None and not isinstance(failed, _UNREADABLE):
            # without instructor's exception around it, which says the same
            raise failed from failed.__cause__

    def note(self, attempt: Attempt) -> Awaitable[None] | None:
        """Store an attempt as it was sent, and call the watcher.

        A bad reply is reported to instructor's hooks.
        """
        sent = replace(attempt, request=self.sent)
        self.attempts.append(sent)

        if sent.issues:
            summary = Invalid(sent.issues).summary  # has no text of the model
            error = load("instructor.core").ResponseParsingError(summary, raw_response=self.came)
            self._client.hooks.emit_parse_error(
                error,
                attempt_number=sent.number,
                max_attempts=self._max_retries + 1,
                is_last_attempt=sent.tier >= self._max_retries,
            )

        return None if self._watcher is None else self._watcher(sent)

    @contextmanager
    def reported(self) -> Generator[None]:
        """Replace the attempts of an error by those that were sent."""
        try:
            yield
        except CallFailed as error:
            error.attempts = tuple(self.attempts)
            raise


def usage_of(counted: object) -> JSON:
    """Return token counts in the form of Chat Completions.

    Anthropic's cached tokens are part of the prompt.
    """
    if peek(counted, "input_tokens") is None:
        return cast("JSON", counted)

    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    total = sum(count for name in names if isinstance(count := peek(counted, name), int))
    return {
        "prompt_tokens": total,
        "completion_tokens": cast("JSON", peek(counted, "output_tokens")),
    }


def _anthropic_completion(raw: object) -> JSONObject | None:
    """Return a message of Anthropic as a completion, with thoughts for a correction.

    None if ``raw`` is not a message.
    """
    blocks = peek(raw, "content")
    if not isinstance(blocks, list):
        return None

    text = ""
    calls = list[JSONObject]()
    thoughts = list[JSONObject]()

    for block in cast("list[object]", blocks):
        kind = str(peek(block, "type"))
        if kind == "text":
            text += str(peek(block, "text"))
        elif kind == "tool_use":
            # Non-finite numbers stay in the text, so that the reader rejects them.
            arguments = json.dumps(peek(block, "input"))
            function = {"name": peek(block, "name"), "arguments": arguments}
            calls.append({"id": peek(block, "id"), "type": "function", "function": function})
        elif kind in _THOUGHTS:
            thoughts.append({"type": kind} | {name: peek(block, name) for name in _THOUGHTS[kind]})

    message: JSONObject = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_details"] = thoughts

    ending = peek(raw, "stop_reason")
    reason = _ENDINGS.get(ending, ending) if isinstance(ending, str) else ending
    choice = {"index": 0, "finish_reason": reason, "message": message}

    names = {name: peek(raw, name) for name in ("id", "model")}
    return names | {"choices": [choice], "usage": usage_of(peek(raw, "usage"))}


def _anthropic_turns(turns: Sequence[Message]) -> list[Message]:
    messages = list[Message]()
    results = list[Message]()

    for turn in turns:
        if turn["role"] == "tool":
            id_ = turn["tool_call_id"]
            content = turn["content"]
            results.append(
                {"type": "tool_result", "tool_use_id": id_, "content": content, "is_error": True}
            )
        elif "tool_calls" not in turn:
            messages.append(turn)
        else:
            content = [*turn.get("reasoning_details", ())]
            if turn["content"]:
                content.append({"type": "text", "text": turn["content"]})

            for call in turn["tool_calls"]:  # only calls whose arguments are an object are replayed
                name = call["function"]["name"]
                given = json.loads(call["function"]["arguments"])
                content.append({"type": "tool_use", "id": call["id"], "name": name, "input": given})

            messages.append({"role": "assistant", "content": content})

    return [*messages, {"role": "user", "content": results}] if results else messages


# providers by instructor's names; it uses ``openai`` for every server with OpenAI's API (Ollama,
# LiteLLM)
_SAME_SHAPE: Final = (
    "openai",
    "azure_openai",
    "anyscale",
    "together",
    "databricks",
    "deepseek",
    "openrouter",
    "groq",
    "fireworks",
    "cerebras",
    "perplexity",
)
_Dialect: TypeAlias = tuple[Callable[[Any], Any], Callable[[Sequence[Message]], list[Message]]]
_DIALECTS: Final[Mapping[str, _Dialect]] = {
    **dict.fromkeys(_SAME_SHAPE, (lambda raw: raw, list)),
    "anthropic": (_anthropic_completion, _anthropic_turns),
}


def dialect_of(client: _Instructor) -> _Dialect:
    """Return the converters between a provider's completion and turns and Chat Completions.

    Raises ContractError for a provider that is not supported.
    """
    provider = client.provider.value
    if (dialect := _DIALECTS.get(provider)) is None:
        raise ContractError(
            f"instructor's provider {provider!r} is not supported: "
            f"the format of its replies is not known; supported are {', '.join(_DIALECTS)}. "
            "Reach it through an endpoint that speaks the Chat Completions API"
        )
    return dialect


def to_instructor(error: CallFailed) -> Any:
    """Return the ``InstructorRetryException`` for one of strictreply's errors.

    That error is its ``__cause__``.

    ``failed_attempts`` has each attempt with its raw reply, and strictreply's summary as a
    ``ResponseParsingError`` or the SDK's exception. ``total_usage`` is a
    :class:`strictreply.Usage`. The codes and paths of issues, the reason and the corrections are
    only in ``__cause__``. Unlike strictreply's errors, its text repeats the raw replies.
    """
    core = load("instructor.core")
    failed = list[Any]()

    for attempt in error.attempts:
        caught: Exception = ConnectionError(attempt.failure)
        if attempt.issues:
            summary = Invalid(attempt.issues).summary
            caught = core.ResponseParsingError(summary, raw_response=attempt.raw)
        elif isinstance(error, TransportFailed):
            caught = error.cause or caught

        if not attempt.accepted:
            failed.append(core.FailedAttempt(attempt.number, caught, attempt.raw))

    last = plain_request(error.attempts[-1].request) if error.attempts else {}
    replies = (one.raw for one in reversed(error.attempts) if one.raw is not None)
    exception = core.InstructorRetryException(
        str(error),
        last_completion=next(replies, None),
        messages=last.get("messages"),
        n_attempts=len(error.attempts),
        total_usage=error.usage,
        create_kwargs=last,
        failed_attempts=failed,
    )
    exception.__cause__ = error
    return exception


def from_instructor(error: Exception) -> CallFailed:
    """Return strictreply's error for an exception of instructor.

    ``error`` is an ``InstructorRetryException`` or an ``IncompleteOutputException``. If its cause
    is one of strictreply's errors (from a wrapped client, or by :func:`to_instructor`), that is
    returned.

    Otherwise each entry of ``failed_attempts`` becomes an attempt. Its raw reply is read again if
    the request has the schema (tools and JSON_SCHEMA of Chat Completions). Other replies, and
    replies that strictreply accepts, get an issue ``args.check`` with pydantic's message.
    Instructor does not keep earlier requests, corrections, seconds, and the tokens of each attempt,
    so these are missing; the last attempt has ``total_usage``.

    A failure of the API becomes a TransportFailed, an exhausted ``token_budget`` a ReplyHalted, and
    anything else a ReplyRejected. Raises TypeError for any other exception.
    """
    if isinstance(error.__cause__, CallFailed):
        return error.__cause__

    core = load("instructor.core")
    if not isinstance(error, core.InstructorRetryException | core.IncompleteOutputException):
        raise TypeError(
            f"from_instructor takes an InstructorRetryException, not {type(error).__name__}"
        )

    attempts = tuple(_attempts(error))
    message = f"instructor gave up after {len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"

    failure = classify(error.__cause__) if isinstance(error.__cause__, Exception) else None
    if failure is not None:
        return TransportFailed(
            f"{message}: {failure}",
            reason=failure.kind,
            attempts=attempts,
            cause=failure.cause,
            retry_after=failure.retry_after,
            status_code=failure.status_code,
        )

    if isinstance(error, core.TokenBudgetError):
        return ReplyHalted(f"{message}: tokens", reason="tokens", attempts=attempts)

    return ReplyRejected(message, reason="retries", attempts=attempts)


def _attempts(error: Any) -> Iterator[Attempt]:
    request = getattr(error, "create_kwargs", None) or {}
    failures = [(each.exception, _plain(each.completion)) for each in error.failed_attempts or ()]
    if isinstance(error, load("instructor.core").IncompleteOutputException):
        failures.append((error, _plain(error.last_completion)))
    elif len(failures) < error.n_attempts:
        failures.append((error.__cause__ or error, None))

    try:
        contract: Contract | None = shape(Contract(), request)[0]
    except ContractError:  # a request in another form than Chat Completions
        contract = None

    # instructor writes the total into the last completion, too
    total = getattr(error, "total_usage", None)

    for number, (exception, raw) in enumerate(failures, start=1):
        failure = classify(exception)
        issues = () if failure is not None else _issues(exception, raw, contract)

        usage = Usage()
        if number == len(failures):
            usage = Usage.of({"usage": usage_of(_plain(total or peek(raw, "usage")))})

        yield Attempt(
            number=number,
            request=request,
            raw=raw,
            issues=issues,
            failure=None if failure is None else str(failure),
            usage=usage,
            reply_at=wire_of(raw).reply_at,
        )


def _issues(exception: Exception, raw: JSON, contract: Contract | None) -> tuple[Issue, ...]:
    """Return the faults of a reply.

    strictreply's reader finds them if the request has the schema; otherwise they have the message
    of instructor's exception.
    """
    if isinstance(exception, load("instructor.core").IncompleteOutputException):
        return (Issue.of(Code.REPLY_TRUNCATED),)

    verdict = None if contract is None or raw is None else judge(contract, raw)
    if isinstance(verdict, Invalid):
        return verdict.issues

    if raw is None or not isinstance(exception, ValueError):
        # its message may contain the model's text, and this cannot be detected
        exception = ValueError(f"instructor raised {type(exception).__name__}")

    return check_issues(exception, raw, names=() if contract is None else contract.names)


def _plain(value: object) -> JSON:
    try:
        return as_json(value)
    except (TypeError, ValueError, RecursionError):
        return None
