"""``wrap`` and the clients that it returns: the SDK's client, sync or async, with valid replies."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator, Iterable
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, cast, get_args, overload

import anyio

from strictreply.client._ledger import Ledger, given_ledger
from strictreply.client._not_keywords import DidYouMean
from strictreply.client._relay import Relay
from strictreply.client._rollout import (
    GivenMode,
    GivenShare,
    GivenTools,
    Rollout,
    warn_of_misspelt_variables,
)
from strictreply.client._sending import NOTHING, CallEffect, CallIO, Io, call_flow
from strictreply.client._stored import astored_reply, stored_reply
from strictreply.client._streaming import AsyncChunks, AsyncReplyStream, Chunks, ReplyStream
from strictreply.client._wrapped import (
    SHORT_FOR_POLICY,
    CallKeywords,
    Exchange,
    OnAttempt,
    Redact,
    Settings,
    UsageMode,
    Wrapped,
    policy_of,
)
from strictreply.contract._answer import Answer
from strictreply.contract._contract import (
    Check,
    Contract,
    ContractKeywords,
    aperform_check,
    perform_check,
)
from strictreply.contract._correcting import Steering
from strictreply.contract._driving import Done, adrive, advanced, apause, drive, pause, unharmed
from strictreply.contract._tool import must_be_awaited
from strictreply.retry._asking import CallPlan
from strictreply.retry._failures import failure_of
from strictreply.retry._flow import Notify, Sleep
from strictreply.retry._policy import Consult, RetryPolicy, consulted, perform_consult
from strictreply.retry._steering import TieredSteering
from strictreply.sdks._known import behind_module, sdk_behind, sdk_of, usual_namespace
from strictreply.sdks._low_requests import Stored
from strictreply.sdks._streams import as_sdks_stream
from strictreply.sdks._transport import CallForm, is_async_sdks
from strictreply.values._errors import ContractError, must_be
from strictreply.values._limits import (
    AnswerStyle,
    Channel,
    Dialects,
    Extra,
    Extraction,
    Formats,
    JSONObject,
    Limits,
    Strict,
    TextCalls,
)
from strictreply.values._mistakes import IN_WRAP, refuse_unknown
from strictreply.values._replies import A_co, AssistantReply, DirectAnswer
from strictreply.values._requests import AnswerFormat
from strictreply.wires import Api, wire_named
from strictreply.wires._wire import Wire

if TYPE_CHECKING:
    from strictreply.sdks._types import (
        Anthropic,
        AsyncAnthropic,
        AsyncBeta,
        AsyncChat,
        AsyncClaude,
        AsyncClient,
        AsyncMessages,
        AsyncModels,
        AsyncResponses,
        AsyncSDKClient,
        Beta,
        Chat,
        Completion,
        Messages,
        Models,
        Responses,
        SyncClaude,
        SyncClient,
        SyncSDKClient,
    )
else:
    # do not import the SDK: the class of the given client is used
    SyncClient = AsyncClient = object

A = TypeVar("A")


class StrictClient(Wrapped[A_co], SyncClient):
    """A wrapped sync client, which returns only valid replies; make it with :func:`wrap`.

    It is also an instance of the original client's class, and has all attributes of that client.
    ``StrictClient[A]`` returns answers of the type ``A``.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        self._guard.inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._guard.inner.__exit__(*error)

    @property
    def chat(self) -> Chat:
        """The SDK's ``chat`` namespace; every method that returns a completion is guarded."""
        return cast("Chat", self._guard.namespaces.kept("chat"))

    @property
    def responses(self) -> Responses:
        """The SDK's ``responses`` namespace; every method that returns a response is guarded."""
        return cast("Responses", self._guard.namespaces.kept("responses"))

    @property
    def messages(self) -> Messages:
        """The SDK's ``messages`` namespace; every method that returns a message is guarded."""
        return cast("Messages", self._guard.namespaces.kept("messages"))

    @property
    def beta(self) -> Any:
        """The SDK's ``beta`` namespace; every method that returns a reply is guarded or refused."""
        return self._guard.namespaces.kept("beta")

    def reply(self, **keywords: Unpack[CallKeywords]) -> AssistantReply[A_co]:
        """Make one call and return its typed reply.

        It takes the keywords of ``chat.completions.create``. ``messages`` may be a text, and
        ``tools`` may have any form that a contract takes. ``contract``, ``policy`` and ``steering``
        replace those of the client for this call.

        Raises ReplyRejected, ReplyHalted or TransportFailed when there is no valid reply. Raises
        ContractError, before anything is sent, when the request itself is wrong.
        """
        return self._exchanged(self._typed({**keywords})).reply

    def answer(self, **keywords: Unpack[CallKeywords]) -> A_co:
        """Make one call like :meth:`reply`, and return only its answer.

        The answer has the contract's ``answer`` type. Use it with a contract without tools, or with
        ``tool_choice="none"``. Raises ContractError when a tool call would be valid, too.
        """
        return _answer_of(self._exchanged(_only_answers(self._typed({**keywords}))))

    def create(self, **keywords: Unpack[CallKeywords]) -> Completion:
        """Make one call like ``chat.completions.create``, and return a valid completion.

        As with that method, a reply may have several tool calls unless the request forbids it.
        """
        return cast("Completion", self._guard.namespaces.made("chat.completions", **keywords))

    def _drop_in(
        self, wire: Wire, keywords: JSONObject, way: CallForm, answer_format: AnswerFormat | None
    ) -> object:
        now = self._guard.settings.rollout.now()
        ask = self._ask(keywords, now, drop_in=wire, answer_format=answer_format, way=way)
        return self._answered(ask, way)

    def _answered(self, ask: CallPlan, way: CallForm) -> object:
        if not ask.base.is_stream:
            return self._exchanged(ask, way).completion

        sending = self._sending(ask, way)
        pieces = self._pieces(ask, sending, self._chunk_relay(ask), [])
        made = as_sdks_stream(next(pieces), pieces, sending.transport, way, is_async=False)
        made = Chunks(pieces) if made is None else made
        return made if way.posting is None else way.posting.stream(made)

    def _stored_reply(self, wire: Wire, stored: Stored) -> object:
        return stored_reply(self, wire, stored)

    def stream(self, **keywords: Unpack[CallKeywords]) -> ReplyStream[A_co]:
        """Make one call like :meth:`reply`, and return its events as they arrive.

        The request is sent when you ask for the first event. See :class:`ReplyStream`.
        """
        ended: list[Exchange[A_co]] = []
        return ReplyStream(self._pieces(*self._to_stream({**keywords}), ended), ended)

    def exchange(self, **keywords: Unpack[CallKeywords]) -> Exchange[A_co]:
        """Make one call like :meth:`reply`; return the reply with its attempts and usage."""
        return self._exchanged(self._typed({**keywords}))

    def _exchanged(self, ask: CallPlan, way: CallForm | None = None) -> Exchange[A_co]:
        sending = self._sending(ask, way)
        ended = list[Exchange[A_co]]()

        streamed = self._streamed_inside(ask, sending)
        if streamed is not None:
            for _ in self._pieces(streamed, sending, Relay(ask.contract, ask.wire), ended):
                pass  # the caller gets only the whole reply
        else:
            refuse_async_checks(ask.contract)
            with self._observing(ask, sending) as sending.observer:
                flow = call_flow(ask, sending)
                outcome = drive(flow, partial(self._perform, sending=sending))
                self._end(ask, outcome, sending, ended)

        return ended[0]

    def _pieces(
        self, ask: CallPlan, sending: CallIO, relay: Relay, ended: list[Exchange[A_co]]
    ) -> Generator[Any]:
        """Yield what the relay passes on of a call, and put its exchange into ``ended``."""
        refuse_async_checks(ask.contract)
        # a typed stream may start long after it was made; its deadline counts from here
        sending.lap()

        flow = call_flow(ask, sending, relay)
        try:
            with self._observing(ask, sending) as sending.observer:
                event = None
                while not isinstance(step := advanced(flow, event), Done):
                    event = None

                    if type(step) is list:
                        yield from step
                    else:
                        event = self._perform(step, sending)

                held = self._end(ask, step.result, sending, ended, relay)
        finally:
            flow.close()
            if sending.incoming is not None:
                sending.incoming.close()

        yield from held

    def _perform(self, effect: CallEffect, sending: CallIO) -> object:
        """Perform an effect of the flow; return None if the effect has no result."""
        match effect:
            case Io(work=work, bounds=bounds):
                try:
                    with bounds:
                        return work()
                except Exception as error:  # noqa: BLE001
                    # failure_of raises every error that is not a failure of the transport
                    return failure_of(error)
            case Notify(attempt=attempt):
                with unharmed("on_attempt"):
                    self._note(attempt, sending)
            case Sleep(seconds=seconds):
                pause(seconds)
            case Check():
                return perform_check(effect)
            case Consult():
                return perform_consult(effect)

        return None


class AsyncStrictClient(Wrapped[A_co], AsyncClient):
    """A wrapped async client: :class:`StrictClient` with async methods."""

    __slots__ = ()
    _is_async = True

    async def __aenter__(self) -> Self:
        await self._guard.inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._guard.inner.__aexit__(*error)

    @property
    def chat(self) -> AsyncChat:
        """The SDK's ``chat`` namespace; every method that returns a completion is guarded."""
        return cast("AsyncChat", self._guard.namespaces.kept("chat"))

    @property
    def responses(self) -> AsyncResponses:
        """The SDK's ``responses`` namespace; every method that returns a response is guarded."""
        return cast("AsyncResponses", self._guard.namespaces.kept("responses"))

    @property
    def messages(self) -> AsyncMessages:
        """The SDK's ``messages`` namespace; every method that returns a message is guarded."""
        return cast("AsyncMessages", self._guard.namespaces.kept("messages"))

    @property
    def beta(self) -> Any:
        """The SDK's ``beta`` namespace; every method that returns a reply is guarded or refused."""
        return self._guard.namespaces.kept("beta")

    async def reply(self, **keywords: Unpack[CallKeywords]) -> AssistantReply[A_co]:
        """Make one call and return its typed reply; see :meth:`StrictClient.reply`."""
        return (await self._exchanged(self._typed({**keywords}))).reply

    async def answer(self, **keywords: Unpack[CallKeywords]) -> A_co:
        """Make one call and return only its answer; see :meth:`StrictClient.answer`."""
        return _answer_of(await self._exchanged(_only_answers(self._typed({**keywords}))))

    async def create(self, **keywords: Unpack[CallKeywords]) -> Completion:
        """Make one call like ``chat.completions.create``; see :meth:`StrictClient.create`."""
        return cast("Completion", await self._guard.namespaces.made("chat.completions", **keywords))

    async def _drop_in(
        self, wire: Wire, keywords: JSONObject, way: CallForm, answer_format: AnswerFormat | None
    ) -> object:
        now = self._guard.settings.rollout.now()
        ask = self._ask(keywords, now, drop_in=wire, answer_format=answer_format, way=way)
        return await self._answered(ask, way)

    async def _answered(self, ask: CallPlan, way: CallForm) -> object:
        if not ask.base.is_stream:
            # the SDK may make an awaitable of the response to a posted request
            given: Any = (await self._exchanged(ask, way)).completion
            return await given if inspect.isawaitable(given) else given

        sending = self._sending(ask, way)
        pieces = self._pieces(ask, sending, self._chunk_relay(ask), [])
        first = await anext(pieces)
        made = as_sdks_stream(first, pieces, sending.transport, way, is_async=True)
        made = AsyncChunks(pieces) if made is None else made
        return made if way.posting is None else await way.posting.astream(made)

    async def _stored_reply(self, wire: Wire, stored: Stored) -> object:
        return await astored_reply(self, wire, stored)

    def stream(self, **keywords: Unpack[CallKeywords]) -> AsyncReplyStream[A_co]:
        """Make one call and return its events as they arrive; see :meth:`StrictClient.stream`."""
        ended: list[Exchange[A_co]] = []
        return AsyncReplyStream(self._pieces(*self._to_stream({**keywords}), ended), ended)

    async def exchange(self, **keywords: Unpack[CallKeywords]) -> Exchange[A_co]:
        """Make one call, like :meth:`StrictClient.exchange`."""
        return await self._exchanged(self._typed({**keywords}))

    async def _exchanged(self, ask: CallPlan, way: CallForm | None = None) -> Exchange[A_co]:
        sending = self._sending(ask, way)
        ended = list[Exchange[A_co]]()

        streamed = self._streamed_inside(ask, sending)
        if streamed is not None:
            async for _ in self._pieces(streamed, sending, Relay(ask.contract, ask.wire), ended):
                pass
        else:
            with self._observing(ask, sending) as sending.observer:
                flow = call_flow(ask, sending)
                outcome = await adrive(flow, partial(self._perform, sending=sending))
                self._end(ask, outcome, sending, ended)

        return ended[0]

    async def _pieces(
        self, ask: CallPlan, sending: CallIO, relay: Relay, ended: list[Exchange[A_co]]
    ) -> AsyncGenerator[Any]:
        sending.lap()

        flow = call_flow(ask, sending, relay)
        try:
            with self._observing(ask, sending) as sending.observer:
                event = None
                while not isinstance(step := advanced(flow, event), Done):
                    event = None

                    if type(step) is list:
                        for piece in step:
                            yield piece
                    else:
                        event = await self._perform(step, sending)

                held = self._end(ask, step.result, sending, ended, relay)
        finally:
            flow.close()
            if sending.incoming is not None:
                await sending.incoming.aclose()

        for piece in held:
            yield piece

    async def _perform(self, effect: CallEffect, sending: CallIO) -> object:
        """Do what the flow asks for, awaiting it.

        Whatever is still awaited at the deadline is cancelled, and None is returned for it.
        """
        left = sending.left()

        if isinstance(effect, Io):
            try:
                with NOTHING if left is None else anyio.fail_after(left), effect.bounds:
                    return await effect.work()
            except Exception as error:  # noqa: BLE001 - as in the twin
                return failure_of(error)

        with NOTHING if left is None else anyio.move_on_after(left):
            match effect:
                case Notify(attempt=attempt):
                    with unharmed("on_attempt"):
                        if inspect.isawaitable(noted := self._note(attempt, sending)):
                            await noted
                case Sleep(seconds=seconds):
                    await apause(seconds)
                case Check():
                    return await aperform_check(effect)
                case Consult():
                    answer = effect.ask(effect.context)
                    return consulted(await answer if inspect.isawaitable(answer) else answer)

        return None


def _only_answers(ask: CallPlan) -> CallPlan:
    if ask.contract.tools and ask.contract.choice != "none":
        remedy = "pass tool_choice='none' or a contract without tools, or call reply()"
        raise ContractError(f"answer() returns only answers, and tool calls are allowed: {remedy}")
    return ask


def _answer_of(exchange: Exchange[A_co]) -> A_co:
    if isinstance(exchange.reply, DirectAnswer):
        return exchange.reply.answer
    raise ContractError(
        "answer() returns only answers, and this reply has tool calls: call reply()"
    )


def refuse_async_checks(contract: Contract) -> None:
    """Raise ContractError for a tool with an async check, which a sync client cannot await."""
    for tool in contract.tools:
        if tool.check is not None and must_be_awaited(tool.check):
            raise ContractError(f"the check of tool {tool.name!r} is async; wrap an async client")


if TYPE_CHECKING:

    class StrictAnthropic(StrictClient[A_co], Anthropic):  # type: ignore[misc]
        """A wrapped sync client of the anthropic SDK; it may stand for an ``Anthropic``."""

        models: Models  # type: ignore[assignment]

        @property
        def beta(self) -> Beta: ...  # type: ignore[override]

    class AsyncStrictAnthropic(AsyncStrictClient[A_co], AsyncAnthropic):  # type: ignore[misc]
        """A wrapped async client of the anthropic SDK."""

        models: AsyncModels  # type: ignore[assignment]

        @property
        def beta(self) -> AsyncBeta: ...  # type: ignore[override]


class WrapKeywords(ContractKeywords, total=False):
    """The keywords of :func:`wrap`, except ``contract`` and ``answer``.

    They are the keywords of a contract, and the settings of the calls.
    """

    policy: RetryPolicy | None
    """The budgets of a call; None means ``RetryPolicy()``."""
    max_retries: int
    """Short for a policy with this many retries."""
    deadline: float | None
    """Short for a policy with this total time, in seconds."""
    steering: Steering | None
    """Writes the corrections; None means ``TieredSteering()``."""
    on_attempt: OnAttempt | None
    """Called with each attempt as soon as it is judged; None for no function."""
    log_replies: Redact | None
    """Redacts raw replies for the DEBUG log; None logs no reply."""
    usage_mode: UsageMode
    """What ``completion.usage`` is: the API's report of the last attempt, or the sum of all."""
    api: Api | str
    """The API of ``reply``, ``answer``, ``exchange`` and ``stream``; None for the SDK's first."""
    mode: GivenMode
    """Whether bad replies are retried, only reported, or not judged; None: ``STRICTREPLY_MODE``."""
    enforce: GivenTools
    """The tools that are enforced while others are observed; None: ``STRICTREPLY_ENFORCE``."""
    observe: GivenShare
    """The share of observed calls that is judged, 0 to 1; None: ``STRICTREPLY_OBSERVE``."""
    ledger: Ledger | str | PathLike[str] | None
    """A ledger or its path, which gets a line per attempt; None: ``STRICTREPLY_LEDGER``."""


@overload
def wrap(
    client: SyncClaude, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]
) -> StrictAnthropic[A]: ...
@overload
def wrap(
    client: SyncClaude, *, contract: None = ..., **keywords: Unpack[WrapKeywords]
) -> StrictAnthropic[str]: ...
@overload
def wrap(
    client: SyncClaude, *, answer: type[A] | Answer[A], **keywords: Unpack[WrapKeywords]
) -> StrictAnthropic[A]: ...
@overload
def wrap(
    client: SyncClaude, *, answer: object, **keywords: Unpack[WrapKeywords]
) -> StrictAnthropic[Any]: ...
@overload
def wrap(
    client: AsyncClaude, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]
) -> AsyncStrictAnthropic[A]: ...
@overload
def wrap(
    client: AsyncClaude, *, contract: None = ..., **keywords: Unpack[WrapKeywords]
) -> AsyncStrictAnthropic[str]: ...
@overload
def wrap(
    client: AsyncClaude, *, answer: type[A] | Answer[A], **keywords: Unpack[WrapKeywords]
) -> AsyncStrictAnthropic[A]: ...
@overload
def wrap(
    client: AsyncClaude, *, answer: object, **keywords: Unpack[WrapKeywords]
) -> AsyncStrictAnthropic[Any]: ...
@overload
def wrap(
    client: SyncSDKClient, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]
) -> StrictClient[A]: ...
@overload
def wrap(
    client: SyncSDKClient, *, contract: None = ..., **keywords: Unpack[WrapKeywords]
) -> StrictClient[str]: ...
@overload
def wrap(
    client: SyncSDKClient, *, answer: type[A] | Answer[A], **keywords: Unpack[WrapKeywords]
) -> StrictClient[A]: ...
@overload
def wrap(
    client: SyncSDKClient, *, answer: object, **keywords: Unpack[WrapKeywords]
) -> StrictClient[Any]: ...
@overload
def wrap(
    client: AsyncSDKClient, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]
) -> AsyncStrictClient[A]: ...
@overload
def wrap(
    client: AsyncSDKClient, *, contract: None = ..., **keywords: Unpack[WrapKeywords]
) -> AsyncStrictClient[str]: ...
@overload
def wrap(
    client: AsyncSDKClient, *, answer: type[A] | Answer[A], **keywords: Unpack[WrapKeywords]
) -> AsyncStrictClient[A]: ...
@overload
def wrap(
    client: AsyncSDKClient, *, answer: object, **keywords: Unpack[WrapKeywords]
) -> AsyncStrictClient[Any]: ...
@overload
def wrap(client: object, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]) -> Any: ...
@overload
def wrap(
    client: object, *, contract: None = ..., answer: object = ..., **keywords: Unpack[WrapKeywords]
) -> Any: ...
@overload
def wrap(
    client: object,
    *,
    contract: Contract[A],
    policy: RetryPolicy | None = ...,
    max_retries: int = ...,
    deadline: float | None = ...,
    steering: Steering | None = ...,
    on_attempt: OnAttempt | None = ...,
    log_replies: Redact | None = ...,
    usage_mode: UsageMode = ...,
    api: Api | str = ...,
    mode: GivenMode = ...,
    enforce: GivenTools = ...,
    observe: GivenShare = ...,
    ledger: Ledger | str | PathLike[str] | None = ...,
    **unknown: DidYouMean[Literal["help(strictreply.wrap)"]],
) -> Any: ...
@overload
def wrap(
    client: object,
    *,
    contract: None = ...,
    answer: object = ...,
    tools: Iterable[object] = ...,
    channel: Channel = ...,
    parallel: bool = ...,
    extraction: Extraction | Iterable[Extraction] = ...,
    extra: Extra | None = ...,
    formats: Formats | None = ...,
    answer_style: AnswerStyle = ...,
    allow_blank_answers: bool = ...,
    text_calls: TextCalls = ...,
    dialects: Dialects = ...,
    limits: Limits = ...,
    quarantine: bool = ...,
    strict: Strict = ...,
    policy: RetryPolicy | None = ...,
    max_retries: int = ...,
    deadline: float | None = ...,
    steering: Steering | None = ...,
    on_attempt: OnAttempt | None = ...,
    log_replies: Redact | None = ...,
    usage_mode: UsageMode = ...,
    api: Api | str = ...,
    mode: GivenMode = ...,
    enforce: GivenTools = ...,
    observe: GivenShare = ...,
    ledger: Ledger | str | PathLike[str] | None = ...,
    response_model: DidYouMean[Literal["answer="]] = ...,
    response_format: DidYouMean[Literal["answer="]] = ...,
    output_type: DidYouMean[Literal["answer="]] = ...,
    result_type: DidYouMean[Literal["answer="]] = ...,
    text_format: DidYouMean[Literal["answer="]] = ...,
    tool: DidYouMean[Literal["tools="]] = ...,
    functions: DidYouMean[Literal["tools="]] = ...,
    retries: DidYouMean[Literal["max_retries="]] = ...,
    max_attempts: DidYouMean[Literal["max_retries="]] = ...,
    timeout: DidYouMean[Literal["deadline="]] = ...,
    model: DidYouMean[Literal["reply(…)"]] = ...,
    messages: DidYouMean[Literal["reply(…)"]] = ...,
    **unknown: DidYouMean[Literal["help(strictreply.wrap)"]],
) -> Any: ...
def wrap(
    client: object,
    *,
    contract: Contract | None = None,
    policy: RetryPolicy | None = None,
    steering: Steering | None = None,
    on_attempt: OnAttempt | None = None,
    log_replies: Redact | None = None,
    usage_mode: UsageMode = "last",
    api: Api | str | None = None,
    mode: GivenMode = None,
    enforce: GivenTools = None,
    observe: GivenShare = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    **declared: Any,
) -> StrictClient | AsyncStrictClient:
    """Wrap a client so that it returns only valid replies.

    ``client`` is ``openai.OpenAI()``, ``anthropic.Anthropic()``, the async client of either, a
    client for Azure, Bedrock or Vertex of these SDKs, the module ``openai``, or an object with the
    same ``chat.completions.create``. It is not changed.
    Wrapping a wrapped client re-wraps the original; it keeps the mode and the ledger unless you
    pass new ones.

    Pass a ready ``contract``, or its keywords, and the settings of the calls:

    - of the contract: ``tools``, ``answer``, ``channel``, ``parallel``, ``extraction``, ``extra``,
      ``formats``, ``answer_style``, ``allow_blank_answers``, ``text_calls``, ``dialects``,
      ``limits``, ``quarantine``, ``strict``;
    - of the calls: ``policy``, or ``max_retries`` and ``deadline`` alone; ``steering``,
      ``on_attempt``, ``log_replies``, ``usage_mode``, ``api``, ``mode``, ``enforce``, ``observe``,
      ``ledger``.

    The reference of ``wrap`` has a table that explains them.

    Returns a :class:`StrictClient` or :class:`AsyncStrictClient`, which is also an instance of the
    SDK's own client class.

    Raises ContractError when the declaration is wrong, or when a sync client gets an async
    ``on_attempt`` or a tool with an async check. Raises TypeError when ``client`` has no
    ``chat.completions.create``.
    """
    budgets = {name: declared.pop(name) for name in SHORT_FOR_POLICY if name in declared}
    given_policy = policy_of({"policy": policy, **budgets}, RetryPolicy())

    refuse_unknown("wrap()", declared, IN_WRAP, WrapKeywords.__annotations__ | {"answer": object})
    if contract is not None and declared:
        raise ContractError("give wrap() a contract or the keywords of one, not both")

    contract = Contract(**declared) if contract is None else contract
    must_be("contract", contract, Contract, "a Contract, as in Contract(tools=[…])")
    before: Settings | None = None
    if isinstance(client, Wrapped):
        wrapped: Any = client
        before = wrapped._guard.settings  # noqa: SLF001
        client = wrapped.unwrapped

    client = behind_module(client)
    if api is None:
        known = sdk_behind(client)
        api = "chat" if known is None else known.usual_api
    wire_named(api)

    if before is not None and all(one is None for one in (mode, enforce, observe)):
        rollout = before.rollout
    else:
        warn_of_misspelt_variables()
        rollout = Rollout(mode, enforce, observe)
        rollout.refuse_unknown(tool.name for tool in contract.tools)

    kept_ledger = before.ledger if before is not None and ledger is None else given_ledger(ledger)
    settings = Settings(
        given_policy,
        steering or TieredSteering(),
        on_attempt,
        log_replies,
        usage_mode,
        api,
        rollout=rollout,
        ledger=kept_ledger,
    )
    if usage_mode not in get_args(UsageMode):
        raise ContractError(f"usage_mode must be one of {', '.join(get_args(UsageMode))}")

    if _is_async(client):
        return AsyncStrictClient.over(client, contract, settings)

    refuse_async_checks(contract)
    if must_be_awaited(on_attempt):
        raise ContractError("on_attempt is async; wrap an async client")

    return StrictClient.over(client, contract, settings)


def _is_async(client: object) -> bool:
    """Return whether a client is async.

    The class decides if it is the SDK's; otherwise its ``create`` method, unwrapped. If a plain
    function replaces ``create``, the client is async if only ``async with`` can enter it.
    """
    if sdk_behind(client) is not None:
        return is_async_sdks(client)

    completions = usual_namespace(client)
    if sdk_of(completions) is not None:
        return is_async_sdks(completions)

    create = getattr(completions, "create", None)
    if not callable(create):
        return False

    if inspect.iscoroutinefunction(inspect.unwrap(create)) or must_be_awaited(create):
        return True

    return hasattr(client, "__aenter__") and not hasattr(client, "__enter__")
