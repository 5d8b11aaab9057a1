"""``run``, its twin and their streams: ask, and run tools, until there is an answer.

Tools run once the whole reply has passed (T43).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, Unpack, cast
from uuid import uuid4

import anyio
from typing_extensions import TypeVar

from strictreply import (
    AbortRun,
    AsyncStrictClient,
    Contract,
    ContractError,
    StrictClient,
    StrictReplyError,
)
from strictreply.core import JSONObject, Message, adrive, drive
from strictreply.core.arguments import IN_RUNS, must_be, must_have, refuse_foreign
from strictreply.core.calls import is_control_flow, unharmed
from strictreply.core.tools import must_be_awaited
from strictreply.loop._conversation import result_messages
from strictreply.loop._effects import Effect, Event
from strictreply.loop._flow import run_flow
from strictreply.loop._performing import (
    ToolRunner,
    aperform,
    finished_in_thread,
    perform,
)
from strictreply.loop._policy import LoopPolicy
from strictreply.loop._run_settings import DEFAULT_AGENT, DEFAULT_LOOP, NO_CONTEXT, RunSettings
from strictreply.loop._run_state import Progress
from strictreply.loop._run_steps import RunObserver
from strictreply.loop._run_values import (
    AttemptMade,
    OnEvent,
    Run,
    RunEnded,
    RunEvent,
    RunKeywords,
    envelope_of,
)
from strictreply.loop._sessions import (
    MemorySessionStore,
    SessionConflict,
    SessionStore,
    SessionStoreFailed,
)
from strictreply.loop._step_walk import WalkEnd
from strictreply.loop.invoke_result import InvokeCode, InvokeFailed
from strictreply.loop.values import AgentContext, LineStatus, PipelineStep

A = TypeVar("A")
B = TypeVar("B", default=A)
"""The type of the answers: those of the run's own contract or format, else of the client's."""

_OPENING: Final = ("continuation", "results", "after", "org", "user")


def run(
    client: StrictClient[A],
    messages: str | Iterable[Message] | None = None,
    *,
    contract: Contract[B] | None = None,
    response_format: type[B] | Mapping[str, Any] | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run[B]:
    """Run a conversation to its answer, executing the tools the model calls.

    ``messages`` are a text or a conversation with the user's turn last; ``keywords`` go to every
    exchange (``model`` at least). ``contract`` says what this run's replies must be in place of the
    client's; a type as ``response_format``, what its answer must be. A tool without a function is
    the client's: the run pauses, and is continued in any process that has its ``sessions``, with
    ``continuation`` (the run, its response, or that as JSON) and ``results``, one for each pending
    call; for one that needs approval a :class:`Decision`, which no client's result can be.
    ``after`` is, in the forms of ``continuation``, a run whose conversation is continued. ``loop``
    limits the turn. ``sessions`` None keeps this run in memory, as long as the :class:`Run` lives.
    ``agent`` sets the agent's prompt, ``org`` and ``user`` own the session. ``cancel`` is called
    between two steps, ``on_event`` with attempts and tool calls; ``observer``, such as a
    :class:`~strictreply.pipeline.PipelineObserver`, may refuse a step. ``context`` is given to the
    parameters of tools that have the type :data:`Context`.

    An exception of a tool becomes its result: the text of a :class:`ToolError`, of any other
    exception the type; :class:`AbortRun` ends the run, and is raised with the run as far as it
    came. Raises what :meth:`StrictClient.exchange` raises, IterationsExceeded when the turn reaches
    no answer, InvokeFailed when the request does not follow the pipeline's rules (results that do
    not fit the pending calls among them), and ContractError when the run cannot be opened like
    this, as without the ``context`` that a tool takes; a paused run can then be answered again.
    """
    hint = "run() takes a wrapped OpenAI(), run(wrap(client), …); of AsyncOpenAI(): await arun(…)"
    if not isinstance(cast("object", client), StrictClient):
        raise ContractError(hint)

    demands: JSONObject = {"contract": contract, "response_format": response_format}
    opened = _OpenRun[B](client, messages, **demands, **keywords)
    try:
        performer = partial(perform, opened.settings, opened.tools, opened.sessions)
        return opened.ended(drive(opened.flow, performer))
    except BaseException:
        opened.release()
        raise


async def arun(
    client: AsyncStrictClient[A],
    messages: str | Iterable[Message] | None = None,
    *,
    contract: Contract[B] | None = None,
    response_format: type[B] | Mapping[str, Any] | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run[B]:
    """Run a conversation to its answer with an async client, on asyncio.

    See :func:`run`. Sync tools run in threads.
    """
    hint = "arun() takes a wrapped AsyncOpenAI(), arun(wrap(client), …); of OpenAI(): run(…)"
    if not isinstance(cast("object", client), AsyncStrictClient):
        raise ContractError(hint)

    demands: JSONObject = {"contract": contract, "response_format": response_format}
    opened = _OpenRun[B](client, messages, **demands, **keywords)
    try:
        performer = partial(aperform, opened.settings, opened.tools, opened.sessions)
        return opened.ended(await adrive(opened.flow, performer))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await finished_in_thread(opened.release)
        raise


def run_stream(
    client: StrictClient[A],
    messages: str | Iterable[Message] | None = None,
    *,
    contract: Contract[B] | None = None,
    response_format: type[B] | Mapping[str, Any] | None = None,
    **keywords: Unpack[RunKeywords],
) -> Iterator[RunEvent[B]]:
    """Run a conversation like :func:`run`, and yield every event as it happens.

    The last is :class:`RunEnded`. Text is shown as it arrives (:class:`Provisional`,
    :class:`Retracted`); with ``stream=False`` only when complete. The run uses a thread of its own.
    Closing the stream cancels it before its next step. Raises what :func:`run` raises, after the
    events before it, and ContractError for an ``on_event`` that would have to be awaited.
    """
    events: SimpleQueue[RunEvent[B] | BaseException] = SimpleQueue()
    closed = threading.Event()
    wanted = keywords.get("cancel")

    keywords.setdefault("stream", True)
    keywords["cancel"] = lambda: closed.is_set() or (wanted is not None and wanted())
    keywords["on_event"] = _listener(events.put, keywords.get("on_event"))

    def work() -> None:
        try:
            done = run(
                client, messages, contract=contract, response_format=response_format, **keywords
            )
            events.put(RunEnded(done))
        except BaseException as error:  # noqa: BLE001 - raised where the stream is read
            events.put(error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()

    try:
        while not isinstance(event := events.get(), BaseException):
            yield event
            if isinstance(event, RunEnded):
                return

        raise event
    finally:
        closed.set()


async def arun_stream(
    client: AsyncStrictClient[A],
    messages: str | Iterable[Message] | None = None,
    *,
    contract: Contract[B] | None = None,
    response_format: type[B] | Mapping[str, Any] | None = None,
    **keywords: Unpack[RunKeywords],
) -> AsyncIterator[RunEvent[B]]:
    """Run a conversation like :func:`arun`, and yield every event as it happens.

    See :func:`run_stream`. It needs asyncio. Closing the stream (``aclose``, or leaving
    ``contextlib.aclosing``) cancels the run at once.
    """
    keywords.setdefault("stream", True)
    events: asyncio.Queue[RunEvent[B] | BaseException] = asyncio.Queue()
    keywords["on_event"] = _listener(events.put_nowait, keywords.get("on_event"))

    async def work() -> None:
        try:
            done = await arun(
                client, messages, contract=contract, response_format=response_format, **keywords
            )
            events.put_nowait(RunEnded(done))
        except BaseException as error:
            events.put_nowait(error)
            raise

    task = asyncio.create_task(work())
    try:
        while not isinstance(event := await events.get(), BaseException):
            yield event
            if isinstance(event, RunEnded):
                return

        raise event
    finally:
        task.cancel()
        with suppress(BaseException):  # raised already, or cancelled by us
            await task


class _OpenRun(Generic[A]):
    """A run that is under way: its ``flow``, and what performs its effects."""

    def __init__(
        self,
        client: StrictClient | AsyncStrictClient,
        messages: str | Iterable[Message] | None,
        *,
        loop: LoopPolicy = DEFAULT_LOOP,
        sessions: SessionStore | None = None,
        agent: AgentContext = DEFAULT_AGENT,
        cancel: Callable[[], bool] | None = None,
        on_event: OnEvent | None = None,
        observer: RunObserver | None = None,
        context: object = NO_CONTEXT,
        **given: Any,
    ) -> None:
        refuse_foreign("run()", given, IN_RUNS)
        must_be("loop", loop, LoopPolicy, "a LoopPolicy, as in LoopPolicy(max_iterations=8)")
        must_have("sessions", sessions, "transaction", "a store, as SQLiteSessionStore(path)")
        must_be("agent", agent, AgentContext, "an AgentContext, as in AgentContext(id=…)")
        must_have("cancel", cancel, "__call__", "a function, or None")
        must_have("on_event", on_event, "__call__", "a function of an event, or None")
        must_have("observer", observer, "before", "a PipelineObserver(), or None")

        opened = {name: given.pop(name) for name in _OPENING if name in given}
        for name in ("contract", "response_format"):
            if given[name] is None:
                del given[name]
        if given.get("tools") is not None:
            # Every ask looks at them, and a generator yields them once.
            given["tools"] = tuple(given["tools"])

        settings = RunSettings.of(client, given, policy=loop, agent=agent, context=context)
        self.tools = ToolRunner(loop, _listener(on_event))
        if on_event is not None:
            watched = client.watched(lambda attempt: self.tools.tell(AttemptMade(attempt)))
            settings = replace(settings, client=watched)
        self.settings = settings

        # The store of an earlier run goes on.
        for earlier in (opened.get("continuation"), opened.get("after")):
            if sessions is None and isinstance(earlier, Run):
                sessions = earlier.sessions

        self.sessions: SessionStore = MemorySessionStore() if sessions is None else sessions
        self.loop = settings.opened(
            envelope_of(messages, replay=settings.wire.replay, **opened),
            new_id=_new_id,
            correlation_id=uuid4().hex,
            time_stamp=datetime.now(UTC).isoformat(),
            cancelled=cancel,
            observer=observer,
        )
        self.flow: Generator[Effect, Event, WalkEnd[Progress]] = run_flow(self.loop)

    def ended(self, end: WalkEnd[Progress]) -> Run[A]:
        """Return what the run came to, or raise what failed it."""
        if end.status is not LineStatus.FAILED:
            return self._run(end)

        cause = end.cause
        is_of_step = any(error.code is InvokeCode.STEP_RAISED for error in end.errors)
        if cause is not None and is_of_step and end.step is PipelineStep.LLM_CLIENT:
            raise cause  # what the exchange raised, such as TypeError for a missing model
        if cause is not None and is_control_flow(cause):  # of a check, or of a person who is asked
            raise cause
        if not isinstance(cause, StrictReplyError):
            # Of cancel=, or of a store that returns what it should not.
            raise InvokeFailed(end.errors, step=end.step.name) from cause
        if type(cause) is InvokeFailed:
            raise InvokeFailed(end.errors, step=end.step.name)

        if isinstance(cause, SessionStoreFailed | SessionConflict | AbortRun):
            cause.run = self._run(end)
        raise cause

    def _run(self, end: WalkEnd[Progress]) -> Run[A]:
        """Make the run as far as it came.

        Results of approved calls join the conversation after their step.
        """
        transcript = end.context.transcript
        is_resolving = end.step is PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER
        if is_resolving and self.loop.claim is not None:
            ran = self.loop.claim.manifest.tool_call_results
            transcript += result_messages(ran, self.loop.contract.channel, self.loop.replay)

        asked = tuple(self.loop.replies)
        return Run(end.context.response, transcript, asked, end.trace, self.sessions)

    def release(self) -> None:
        """Release the claim of a run that was interrupted.

        An exception of a step has done so already.
        """
        # What interrupted the run is raised, and the claim lapses by itself.
        with unharmed("the session store"):
            self.loop.release(self.sessions)


def _new_id() -> str:
    return uuid4().hex


def _listener(*listeners: OnEvent | None) -> OnEvent:
    given = [listener for listener in listeners if listener is not None]
    if any(map(must_be_awaited, given)):
        raise ContractError("on_event must be a sync function; arun_stream gives events to await")

    def tell(event: RunEvent) -> None:
        for listener in given:
            with unharmed("on_event"):
                listener(event)

    return tell
