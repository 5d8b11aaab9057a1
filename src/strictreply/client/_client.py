"""The wrapped client: the SDK's own surface, through which only valid replies come.

``wrap`` gives a sync or an async twin; both run the same flow and differ only in how its effects are performed.
"""

from __future__ import annotations

import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

import anyio

from strictreply.client._keywords import CallKeywords
from strictreply.client._transport import RetryBucket, Sending, Transport
from strictreply.contract._contract import Check, Contract, aperform_check, perform_check
from strictreply.contract._driving import adrive, apause, drive, pause, unharmed
from strictreply.contract._shaping import shape
from strictreply.retry._asking import Ask
from strictreply.retry._failures import Failure, classify
from strictreply.retry._flow import (
    Call,
    Claim,
    Claimed,
    Effect,
    Ended,
    Event,
    Failed,
    Noted,
    Notify,
    Outcome,
    Replied,
    Sleep,
    Woke,
    reply_flow,
)
from strictreply.retry._policy import RetryPolicy, is_transport_fault
from strictreply.retry._steering import Steering, TieredSteering
from strictreply.values._attempts import Attempt, Usage, plain, total_usage
from strictreply.values._errors import ContractError
from strictreply.values._issues import printable
from strictreply.values._json import JSONObject, Message
from strictreply.values._replies import A_co, AssistantReply, DirectAnswer

if TYPE_CHECKING:
    from openai.resources.chat import AsyncChat, Chat
    from openai.types.chat import ChatCompletion

logger = logging.getLogger("strictreply")

A = TypeVar("A")

OnAttempt = Callable[[Attempt], Awaitable[None] | None]
"""Told of every attempt as soon as it is judged; may be async with an async client.

What it raises changes nothing of the call: the type is logged as an error, not the words, which may be the model's.
KeyboardInterrupt, cancellation and other exceptions that are no ``Exception`` pass through.
"""

Redact = Callable[[str], str]
"""Given the raw reply as JSON text, gives what may be logged."""


@dataclass(frozen=True, slots=True)
class Exchange(Generic[A_co]):
    """A call with its story.

    ``reply`` is what fits; ``completion`` the SDK's own completion that carries it; ``attempts`` every ask in order;
    ``usage`` the tokens of all of them; ``transcript`` the caller's messages and the accepted assistant turn, as if
    the first shot had hit (requirement T26); ``contract`` what the reply was held to.
    """

    reply: AssistantReply[A_co]
    attempts: tuple[Attempt, ...]
    transcript: list[Message] = field(repr=False)
    contract: Contract[A_co] = field(repr=False)
    _complete: Callable[[], Any] = field(repr=False)

    @property
    def completion(self) -> ChatCompletion:
        """The SDK's own ``ChatCompletion``, valid by the contract."""
        given: ChatCompletion = self._complete()
        return given

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a wrapped client was given beside its contract."""

    policy: RetryPolicy = RetryPolicy()
    steering: Steering = TieredSteering()
    on_attempt: OnAttempt | None = None
    log_replies: Redact | None = None


class Wrapped(ABC, Generic[A_co]):
    """What both twins share: reading keywords, and turning an outcome into a return value or an exception."""

    def __init__(
        self, client: Any, contract: Contract[A_co], settings: Settings, bucket: RetryBucket | None = None
    ) -> None:
        """Hold the client's copy, the contract and the settings; ``bucket`` None begins with a full one."""
        self._transport = Transport(client)
        self._bucket = RetryBucket() if bucket is None else bucket
        self._client = client
        self._settings = settings
        self.contract = contract

    def __getattr__(self, name: str) -> Any:
        """Pass everything that is not ours to the wrapped client; what Python looks for on objects is not there."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._client, name)

    @property
    def unwrapped(self) -> Any:
        """The client inside, as it was given: its replies are not checked."""
        return self._client

    def _guarded_chat(self) -> Any:
        completions = _Guarded(self._client.chat.completions, create=self.create)
        return _Guarded(self._client.chat, completions=completions)

    @abstractmethod
    def create(self, **keywords: Unpack[CallKeywords]) -> Any:
        """Make one call; each twin in its own way."""

    def with_options(self, **options: Any) -> Self:
        """Return a copy with other SDK options (``timeout``, ``api_key``, …), held to the same contract."""
        return type(self)(self._client.with_options(**options), self.contract, self._settings, self._bucket)

    copy = with_options

    def contract_for(self, **keywords: Unpack[CallKeywords]) -> Contract[Any]:
        """Return what the reply to a call with these keywords is held to, without making it."""
        return self._ask({"messages": [], **keywords}).contract

    def watched(self, on_attempt: OnAttempt) -> Self:
        """Return a copy that calls ``on_attempt`` with every attempt too, before the watcher it was wrapped with."""
        watchers = (on_attempt, self._settings.on_attempt)
        settings = replace(self._settings, on_attempt=partial(_tell_each, watchers))
        return type(self)(self._client, self.contract, settings, self._bucket)

    def counting_in(self, bucket: RetryBucket) -> Self:
        """Return a copy that counts its repeats (``RetryPolicy.quota``) in a bucket shared with other clients."""
        return type(self)(self._client, self.contract, self._settings, bucket)

    def _ask(self, keywords: JSONObject) -> Ask:
        """Read one call's keywords: ours (``contract``, ``policy``, ``steering``) and the API's."""
        if keywords.get("stream"):
            message = "stream=True is not served yet; call without it, or use the wrapped client's own"
            raise NotImplementedError(message)
        contract: Contract = keywords.pop("contract", None) or self.contract
        policy = keywords.pop("policy", None) or self._settings.policy
        steering = keywords.pop("steering", None) or self._settings.steering
        contract, base = shape(contract, keywords)
        return Ask(contract, base, policy, steering)

    def _note(self, attempt: Attempt, sending: Sending) -> Awaitable[None] | None:
        """Log an attempt and tell the watcher; raw replies only through the caller's redaction."""
        if not is_transport_fault(attempt):
            sending.succeeded()
        codes = ", ".join(issue.code for issue in attempt.issues) or attempt.failure or "accepted"
        logger.debug("attempt %d: %s (%.3f s)", attempt.number, codes, attempt.seconds)
        redact = self._settings.log_replies
        if redact is not None and logger.isEnabledFor(logging.DEBUG):
            with unharmed("log_replies"):
                shown = printable(redact(json.dumps(plain(attempt.raw))))
                logger.debug("attempt %d: raw reply %s", attempt.number, shown)
        watcher = self._settings.on_attempt
        return None if watcher is None else watcher(attempt)

    def _sending(self, ask: Ask) -> Sending:
        """Open the line for one call."""
        return Sending(self._transport, ask.contract.limits, self._bucket)

    def _exchange(self, ask: Ask, outcome: Outcome, sending: Sending) -> Exchange[A_co]:
        """Return the exchange, or raise what the outcome calls for."""
        if isinstance(outcome, Ended):
            raise outcome.end.error(outcome.attempts, outcome.failure, outcome.tool)
        message = outcome.response["choices"][0]["message"]
        transcript = [*ask.base["messages"], message]
        complete = partial(sending.completion, outcome.response, spliced=outcome.spliced)
        return Exchange(outcome.reply, outcome.attempts, transcript, ask.contract, complete)


class StrictClient(Wrapped[A_co]):
    """A wrapped sync client; everything not named here is the client's own.

    ``StrictClient[A]`` gives answers of the type ``A``.
    """

    def __enter__(self) -> Self:
        """Enter the client's own context."""
        self._client.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the client's own context: it closes its connections."""
        self._client.__exit__(*error)

    @property
    def chat(self) -> Chat:
        """The SDK's ``chat`` namespace, with ``completions.create`` guarded."""
        chat: Chat = self._guarded_chat()
        return chat

    def reply(self, **keywords: Unpack[CallKeywords]) -> AssistantReply[A_co]:
        """Make one call and return its typed reply.

        Takes the keywords of ``chat.completions.create``, and ``tools`` in any form a contract takes, ``contract``,
        ``policy`` and ``steering`` for this call alone. Raises ReplyRejected, ReplyHalted or TransportFailed when no
        reply fits, ContractError when the request itself is wrong; nothing has been sent then.
        """
        return self.exchange(**keywords).reply

    def answer(self, **keywords: Unpack[CallKeywords]) -> A_co:
        """Make one call like :meth:`reply` and return its answer alone, of the contract's ``answer`` type.

        For a contract without tools, or with ``tool_choice="none"``: raises ContractError when a call of a tool would
        be a valid reply too.
        """
        return _answer_of(self._exchanged(_only_answers(self._ask({**keywords}))))

    def create(self, **keywords: Unpack[CallKeywords]) -> ChatCompletion:
        """Make one call like ``chat.completions.create``; the completion is valid by the contract."""
        return self.exchange(**keywords).completion

    def exchange(self, **keywords: Unpack[CallKeywords]) -> Exchange[A_co]:
        """Make one call like :meth:`reply`, and return it with its story."""
        return self._exchanged(self._ask({**keywords}))

    def _exchanged(self, ask: Ask) -> Exchange[A_co]:
        refuse_async_checks(ask.contract)
        sending = self._sending(ask)
        outcome = drive(reply_flow(ask), lambda effect: self._perform(effect, sending))
        return self._exchange(ask, outcome, sending)

    def _perform(self, effect: Effect, sending: Sending) -> Event:
        """Do what the flow asks for, and time it."""
        match effect:
            case Call(request=request, timeout=timeout):
                return self._call(request, sending, sending.begin(timeout))
            case Sleep(seconds=seconds):
                pause(seconds)
                return Woke(sending.lap())
            case Check():
                return replace(perform_check(effect), seconds=sending.lap())
            case Claim(quota=quota):
                return Claimed(sending.take(quota), sending.lap())
            case _:
                with unharmed("on_attempt"):
                    self._note(effect.attempt, sending)
                return Noted(sending.lap())

    def _call(self, request: JSONObject, sending: Sending, before: float) -> Replied | Failed:
        """Send one request; a failure of the transport is an event, a bug is not caught."""
        try:
            with sending.bounds():
                source = sending.send(request, sending.left())
        except Exception as error:  # noqa: BLE001 - what is no failure of the transport is raised again
            return Failed(_failure(error), sending.lap(), before)
        return Replied(sending.receive(source), sending.lap(), before)


class AsyncStrictClient(Wrapped[A_co]):
    """A wrapped async client: the twin of :class:`StrictClient`."""

    async def __aenter__(self) -> Self:
        """Enter the client's own context."""
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Leave the client's own context: it closes its connections."""
        await self._client.__aexit__(*error)

    @property
    def chat(self) -> AsyncChat:
        """The SDK's ``chat`` namespace, with ``completions.create`` guarded."""
        chat: AsyncChat = self._guarded_chat()
        return chat

    async def reply(self, **keywords: Unpack[CallKeywords]) -> AssistantReply[A_co]:
        """Make one call and return its typed reply; see :meth:`StrictClient.reply`."""
        return (await self.exchange(**keywords)).reply

    async def answer(self, **keywords: Unpack[CallKeywords]) -> A_co:
        """Make one call and return its answer alone; see :meth:`StrictClient.answer`."""
        return _answer_of(await self._exchanged(_only_answers(self._ask({**keywords}))))

    async def create(self, **keywords: Unpack[CallKeywords]) -> ChatCompletion:
        """Make one call like ``chat.completions.create``; the completion is valid by the contract."""
        return (await self.exchange(**keywords)).completion

    async def exchange(self, **keywords: Unpack[CallKeywords]) -> Exchange[A_co]:
        """Make one call, and return it with its story; see :meth:`StrictClient.exchange`."""
        return await self._exchanged(self._ask({**keywords}))

    async def _exchanged(self, ask: Ask) -> Exchange[A_co]:
        sending = self._sending(ask)
        outcome = await adrive(reply_flow(ask), lambda effect: self._aperform(effect, sending))
        return self._exchange(ask, outcome, sending)

    async def _aperform(self, effect: Effect, sending: Sending) -> Event:
        """Do what the flow asks for, awaiting; what is still awaited at the deadline is cancelled."""
        if isinstance(effect, Call):
            return await self._acall(effect.request, sending, sending.begin(effect.timeout))
        with anyio.move_on_after(sending.left()):
            return await self._adone(effect, sending)
        return Noted(sending.lap())

    async def _adone(self, effect: Sleep | Check | Claim | Notify, sending: Sending) -> Event:
        """Do what sends nothing."""
        match effect:
            case Sleep(seconds=seconds):
                await apause(seconds)
                return Woke(sending.lap())
            case Check():
                checked = await aperform_check(effect)
                return replace(checked, seconds=sending.lap())
            case Claim(quota=quota):
                return Claimed(sending.take(quota), sending.lap())
            case Notify(attempt=attempt):
                with unharmed("on_attempt"):
                    told = self._note(attempt, sending)
                    if inspect.isawaitable(told):
                        await told
                return Noted(sending.lap())

    async def _acall(self, request: JSONObject, sending: Sending, before: float) -> Replied | Failed:
        """Send one request within the deadline."""
        try:
            with anyio.fail_after(sending.left()), sending.bounds():
                source = await sending.send(request, sending.left())
        except Exception as error:  # noqa: BLE001 - as in the twin
            return Failed(_failure(error), sending.lap(), before)
        return Replied(sending.receive(source), sending.lap(), before)


def _only_answers(ask: Ask) -> Ask:
    """Refuse a call whose good end may be something else than an answer."""
    if ask.contract.tools and ask.contract.choice != "none":
        message = (
            "answer() needs replies that are answers: pass tool_choice='none' or a contract without tools, or reply()"
        )
        raise ContractError(message)
    return ask


def _answer_of(exchange: Exchange[A_co]) -> A_co:
    if isinstance(exchange.reply, DirectAnswer):
        return exchange.reply.answer
    message = "answer() needs replies that are answers; this contract's answers hold calls"
    raise ContractError(message)


def _tell_each(watchers: tuple[OnAttempt | None, ...], attempt: Attempt) -> Awaitable[None] | None:
    """Call every watcher with an attempt; return what is to be awaited as one awaitable."""
    waiting: list[Awaitable[None]] = []
    for watcher in watchers:
        with unharmed("on_attempt"):
            told = None if watcher is None else watcher(attempt)
            waiting += [] if told is None else [told]
    return _await_each(waiting) if waiting else None


async def _await_each(waiting: list[Awaitable[None]]) -> None:
    """Await one after the other."""
    for one in waiting:
        with unharmed("on_attempt"):
            await one


class _Guarded:
    """A namespace of the SDK with some members replaced by ours."""

    def __init__(self, inner: Any, **ours: Any) -> None:
        """Put our members in front of the SDK's."""
        self.__dict__.update(ours, _inner=inner)

    def __getattr__(self, name: str) -> Any:
        """Pass everything else through; what Python looks for on objects is not there."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to be patched: this namespace is made anew each time it is looked up, so nothing would stay."""
        raise AttributeError(f"{name} cannot be set on a wrapped client; patch the client inside before wrapping it")


def _failure(error: Exception) -> Failure:
    """Read an exception as a failure of the transport; anything else goes on up."""
    failure = classify(error)
    if failure is None:
        raise error
    return failure


def refuse_async_checks(contract: Contract) -> None:
    """Refuse a tool whose check a sync client could not await, before anything is sent."""
    for tool in contract.tools:
        if tool.check is not None and tool.is_async_check:
            message = f"the check of tool {tool.name!r} is async; wrap an async client"
            raise ContractError(message)
