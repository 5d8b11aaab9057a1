"""The wrapped client: the SDK's own client, out of which only valid replies come.

The sync and the async twin run the same flow and differ only in how its effects are performed; what they share is in
:mod:`strictreply.client._wrapped`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import anyio

from strictreply.client._keywords import CallKeywords
from strictreply.client._relay import Accepted, ChunkRelay, Relay, StreamEvent
from strictreply.client._sending import NOTHING, Sending
from strictreply.client._streaming import (
    AsyncReplyStream,
    ReplyStream,
    aexhausted,
    as_sdks_stream,
    astreamed,
    exhausted,
    streamed,
)
from strictreply.client._transport import Way
from strictreply.client._wrapped import Exchange, Wrapped
from strictreply.contract._contract import Check, Contract, aperform_check, perform_check
from strictreply.contract._driving import adrive, apause, drive, pause, unharmed
from strictreply.retry._asking import Ask
from strictreply.retry._failures import failure_of
from strictreply.retry._flow import (
    Call,
    Claim,
    Claimed,
    Effect,
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
from strictreply.retry._policy import Consult, aperform_consult, perform_consult
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject
from strictreply.values._replies import A_co, AssistantReply, DirectAnswer
from strictreply.wires._wire import WIRES, Wire

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
    from openai.resources.chat import AsyncChat, Chat
    from openai.resources.responses import AsyncResponses, Responses
    from openai.types.chat import ChatCompletion
else:
    OpenAI = AsyncOpenAI = object  # the SDK is not imported: the class is that of the client at hand


class StrictClient(Wrapped[A_co], OpenAI):
    """A wrapped sync client; all other attributes are those of the client's own class.

    ``StrictClient[A]`` returns answers of the type ``A``.
    """

    __slots__ = ()

    def _twin(self) -> type[StrictClient[Any]]:
        return StrictClient

    def __enter__(self) -> Self:
        """Enter the client's own context."""
        self._guard.inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the client's own context: it closes its connections."""
        self._guard.inner.__exit__(*error)

    @property
    def chat(self) -> Chat:
        """The SDK's ``chat`` namespace, with every way to a completion guarded."""
        chat: Chat = self._guard.namespaces.chat
        return chat

    @property
    def responses(self) -> Responses:
        """The SDK's ``responses`` namespace, with every way to a response guarded."""
        responses: Responses = self._guard.namespaces.responses
        return responses

    def reply(self, **keywords: Unpack[CallKeywords]) -> AssistantReply[A_co]:
        """Make one call and return its typed reply.

        Takes the keywords of ``chat.completions.create``, and ``tools`` in any form a contract takes, ``contract``,
        ``policy`` and ``steering`` for this call alone. Raises ReplyRejected, ReplyHalted or TransportFailed when no
        reply fits, ContractError when the request itself is wrong; nothing has been sent then.
        """
        return self._exchanged(self._ask({**keywords})).reply

    def answer(self, **keywords: Unpack[CallKeywords]) -> A_co:
        """Make one call like :meth:`reply` and return its answer alone, of the contract's ``answer`` type.

        For a contract without tools, or with ``tool_choice="none"``: raises ContractError when a call of a tool would
        be a valid reply too.
        """
        return _answer_of(self._exchanged(_only_answers(self._ask({**keywords}))))

    def create(self, **keywords: Unpack[CallKeywords]) -> ChatCompletion:
        """Make one call like ``chat.completions.create``; the completion is valid by the contract.

        As with that method, several calls at once are allowed unless the request forbids them.
        """
        given: ChatCompletion = self._guard.namespaces.made(WIRES["chat"], {**keywords})
        return given

    def _drop_in(self, wire: Wire, keywords: JSONObject, way: Way, response_format: JSONObject | None) -> Any:
        ask = self._asked_by_method(wire, keywords, response_format)
        return self._streamed(ask, way) if ask.base.get("stream") else self._exchanged(ask, way).completion

    def _streamed(self, ask: Ask, way: Way) -> Any:
        refuse_async_checks(ask.contract)
        sending = self._sending(ask, way)
        pieces = self._pieces(ask, sending, self._chunk_relay(ask))
        return as_sdks_stream(next(pieces), pieces, sending, is_async=False)

    def _pieces(self, ask: Ask, sending: Sending, relay: ChunkRelay) -> Generator[Any]:
        """Yield the response that opened first, then what goes out to the caller."""
        perform = partial(self._perform, sending=sending)
        with self._observing(ask, sending) as sending.observer:
            outcome = yield from streamed(ask, sending, relay, perform)
            held = self._released(ask, outcome, sending, relay)
        yield from held

    def stream(self, **keywords: Unpack[CallKeywords]) -> ReplyStream[A_co]:
        """Make one call like :meth:`reply`, and return its events as they come; see :class:`ReplyStream`.

        The request is sent when the first event is asked for.
        """
        ended: list[Exchange[A_co]] = []
        return ReplyStream(self._events(self._ask_to_stream({**keywords}), ended), ended)

    def _events(self, ask: Ask, ended: list[Exchange[A_co]]) -> Generator[StreamEvent[A_co]]:
        refuse_async_checks(ask.contract)
        sending = self._sending(ask, None)
        perform = partial(self._perform, sending=sending)
        with self._observing(ask, sending) as sending.observer:
            outcome = yield from streamed(ask, sending, self._event_relay(ask), perform)
            ended.append(self._exchange(ask, outcome, sending))
        yield Accepted(ended[0].reply)

    def exchange(self, **keywords: Unpack[CallKeywords]) -> Exchange[A_co]:
        """Make one call like :meth:`reply`, and return it with its story."""
        return self._exchanged(self._ask({**keywords}))

    def _exchanged(self, ask: Ask, way: Way | None = None) -> Exchange[A_co]:
        refuse_async_checks(ask.contract)
        sending = self._sending(ask, way)
        with self._observing(ask, sending) as sending.observer:
            perform = partial(self._perform, sending=sending)
            if self._is_streamed_inside(ask, sending):
                outcome = exhausted(streamed(ask, sending, Relay(ask.contract, ask.wire), perform))
            else:
                outcome = drive(reply_flow(ask), perform)
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
            case Consult():
                return replace(perform_consult(effect), seconds=sending.lap())
            case _:
                with unharmed("on_attempt"):
                    self._note(effect.attempt, sending)
                return Noted(sending.lap())

    def _call(self, request: JSONObject, sending: Sending, before: float) -> Replied | Failed:
        """Send one request; a failure of the transport is an event, a bug is not caught."""
        try:
            with sending.bounds(request):
                source = sending.send(request, sending.left())
        except Exception as error:  # noqa: BLE001 - what is no failure of the transport is raised again
            sending.raised = error
            return Failed(failure_of(error), sending.lap(), before)
        return Replied(sending.receive(source), sending.lap(), before)


class AsyncStrictClient(Wrapped[A_co], AsyncOpenAI):
    """A wrapped async client: the twin of :class:`StrictClient`."""

    __slots__ = ()

    def _twin(self) -> type[AsyncStrictClient[Any]]:
        return AsyncStrictClient

    async def __aenter__(self) -> Self:
        """Enter the client's own context."""
        await self._guard.inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Leave the client's own context: it closes its connections."""
        await self._guard.inner.__aexit__(*error)

    @property
    def chat(self) -> AsyncChat:
        """The SDK's ``chat`` namespace, with every way to a completion guarded."""
        chat: AsyncChat = self._guard.namespaces.chat
        return chat

    @property
    def responses(self) -> AsyncResponses:
        """The SDK's ``responses`` namespace, with every way to a response guarded."""
        responses: AsyncResponses = self._guard.namespaces.responses
        return responses

    async def reply(self, **keywords: Unpack[CallKeywords]) -> AssistantReply[A_co]:
        """Make one call and return its typed reply; see :meth:`StrictClient.reply`."""
        return (await self._exchanged(self._ask({**keywords}))).reply

    async def answer(self, **keywords: Unpack[CallKeywords]) -> A_co:
        """Make one call and return its answer alone; see :meth:`StrictClient.answer`."""
        return _answer_of(await self._exchanged(_only_answers(self._ask({**keywords}))))

    async def create(self, **keywords: Unpack[CallKeywords]) -> ChatCompletion:
        """Make one call like ``chat.completions.create``; see :meth:`StrictClient.create`."""
        given: ChatCompletion = await self._guard.namespaces.made(WIRES["chat"], {**keywords})
        return given

    async def _drop_in(self, wire: Wire, keywords: JSONObject, way: Way, response_format: JSONObject | None) -> Any:
        ask = self._asked_by_method(wire, keywords, response_format)
        return await (self._streamed(ask, way) if ask.base.get("stream") else self._completed(ask, way))

    async def _completed(self, ask: Ask, way: Way) -> Any:
        return (await self._exchanged(ask, way)).completion

    async def _streamed(self, ask: Ask, way: Way) -> Any:
        sending = self._sending(ask, way)
        pieces = self._pieces(ask, sending, self._chunk_relay(ask))
        return as_sdks_stream(await anext(pieces), pieces, sending, is_async=True)

    async def _pieces(self, ask: Ask, sending: Sending, relay: ChunkRelay) -> AsyncGenerator[Any]:
        """Yield as the twin does."""
        ended: list[Outcome] = []
        perform = partial(self._aperform, sending=sending)
        with self._observing(ask, sending) as sending.observer:
            async with aclosing(astreamed(ask, sending, relay, perform, ended)) as pieces:
                async for piece in pieces:
                    yield piece
            held = self._released(ask, ended[0], sending, relay)
        for chunk in held:
            yield chunk

    def stream(self, **keywords: Unpack[CallKeywords]) -> AsyncReplyStream[A_co]:
        """Make one call, and return its events as they come; see :meth:`StrictClient.stream`."""
        ended: list[Exchange[A_co]] = []
        return AsyncReplyStream(self._events(self._ask_to_stream({**keywords}), ended), ended)

    async def _events(self, ask: Ask, ended: list[Exchange[A_co]]) -> AsyncGenerator[StreamEvent[A_co]]:
        sending = self._sending(ask, None)
        outcomes: list[Outcome] = []
        perform = partial(self._aperform, sending=sending)
        with self._observing(ask, sending) as sending.observer:
            async with aclosing(astreamed(ask, sending, self._event_relay(ask), perform, outcomes)) as pieces:
                async for piece in pieces:
                    yield piece
            ended.append(self._exchange(ask, outcomes[0], sending))
        yield Accepted(ended[0].reply)

    async def exchange(self, **keywords: Unpack[CallKeywords]) -> Exchange[A_co]:
        """Make one call, and return it with its story; see :meth:`StrictClient.exchange`."""
        return await self._exchanged(self._ask({**keywords}))

    async def _exchanged(self, ask: Ask, way: Way | None = None) -> Exchange[A_co]:
        sending = self._sending(ask, way)
        with self._observing(ask, sending) as sending.observer:
            perform = partial(self._aperform, sending=sending)
            if self._is_streamed_inside(ask, sending):
                outcome = await aexhausted(ask, sending, Relay(ask.contract, ask.wire), perform)
            else:
                outcome = await adrive(reply_flow(ask), perform)
            return self._exchange(ask, outcome, sending)

    def _aperform(self, effect: Effect, sending: Sending) -> Awaitable[Event]:
        """Do what the flow asks for, awaiting; what is still awaited at the deadline is cancelled."""
        if isinstance(effect, Call):
            return self._acall(effect.request, sending, sending.begin(effect.timeout))
        left = sending.left()
        done = self._adone(effect, sending)
        return done if left is None else _within(left, done, sending)

    async def _adone(self, effect: Sleep | Check | Claim | Consult | Notify, sending: Sending) -> Event:
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
            case Consult():
                consulted = await aperform_consult(effect)
                return replace(consulted, seconds=sending.lap())
            case Notify(attempt=attempt):
                with unharmed("on_attempt"):
                    told = self._note(attempt, sending)
                    if inspect.isawaitable(told):
                        await told
                return Noted(sending.lap())

    async def _acall(self, request: JSONObject, sending: Sending, before: float) -> Replied | Failed:
        """Send one request within the deadline."""
        try:
            left = sending.left()
            with NOTHING if left is None else anyio.fail_after(left), sending.bounds(request):
                source = await sending.send(request, left)
        except Exception as error:  # noqa: BLE001 - as in the twin
            sending.raised = error
            return Failed(failure_of(error), sending.lap(), before)
        return Replied(sending.receive(source), sending.lap(), before)


async def _within(seconds: float, done: Awaitable[Event], sending: Sending) -> Event:
    with anyio.move_on_after(seconds):
        return await done
    return Noted(sending.lap())


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
    message = "answer() needs replies that are answers; with this contract a reply may hold calls"
    raise ContractError(message)


def refuse_async_checks(contract: Contract) -> None:
    """Refuse a tool whose check a sync client could not await, before anything is sent."""
    for tool in contract.tools:
        if tool.check is not None and tool.is_async_check:
            message = f"the check of tool {tool.name!r} is async; wrap an async client"
            raise ContractError(message)
