"""``run``, ``arun`` and their streams: request replies and run tools until there is an answer.

Tools run only after the whole reply is valid (T43).
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
from strictreply.core import JSONObject, Message, RequestKeywords, adrive, drive
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
"""The type of the answers, by the run's own contract or format, or else by the client's."""

_OPENING: Final = ("continuation", "results", "after", "org", "user")


def run(
    client: StrictClient[A],
    messages: str | Iterable[Message] | None = None,
    *,
    contract: Contract[B] | None = None,
    response_format: type[B] | Mapping[str, Any] | None = None,
    **keywords: Unpack[RunKeywords],
) -> Run[B]:
    """Run a conversation to its answer, executing the tools that the model calls.

    A tool without a function is executed by your front end: the run pauses. To continue it, in any
    process that has its ``sessions``, pass ``continuation`` and ``results``.

    - ``client`` is a wrapped sync client; it sends the requests.
    - ``messages`` is a text, or a list of messages that ends with the user's. None is for
      ``continuation``.
    - ``contract`` replaces the client's contract for this run; None keeps it.
    - ``response_format`` is the type or the JSON Schema of the answer; None keeps the contract's.
    - ``continuation`` is the paused run to continue: the run, its response, or the response as
      JSON.
    - ``results`` has one result for each pending call. For a call that needs approval, pass a
      :class:`Decision`; a result is never accepted as one.
    - ``after`` is an earlier run whose conversation the new messages continue.
    - ``loop`` limits the turn.
    - ``sessions`` stores the session; None keeps it in memory as long as the :class:`Run` lives.
    - ``agent`` sets the agent's prompt; ``org`` and ``user`` own the session.
    - ``cancel`` is called between two steps, and ends the run when it returns True.
    - ``on_event`` is called with attempts and tool calls.
    - ``observer``, such as a :class:`~strictreply.pipeline.PipelineObserver`, may refuse a step.
    - ``context`` is passed to the parameters of tools that have the type :data:`Context`.
    - The other keywords, at least ``model``, go into every request.

    An exception of a tool becomes its result: the text of a :class:`ToolError`, only the type of
    any other exception. :class:`AbortRun` ends the run, and is raised with the run so far.

    Raises the errors of :meth:`StrictClient.exchange`; IterationsExceeded when the turn ends
    without an answer; InvokeFailed when the request breaks a rule of the pipeline, for example
    results that do not fit the pending calls; and ContractError when the run cannot be opened, for
    example without the ``context`` that a tool takes. A paused run can then be answered again.
    """
    hint = (
        "run() needs a wrapped sync client: run(wrap(OpenAI()), …); with an async one call arun()"
    )
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
    """Run a conversation like :func:`run`, with an async client on asyncio.

    Sync tools run in threads.

    - ``client`` is a wrapped async client; it sends the requests.
    - ``messages`` is a text or a list of messages; None is for ``continuation``.
    - ``contract`` replaces the client's contract for this run; None keeps it.
    - ``response_format`` is the type or the JSON Schema of the answer; None keeps the contract's.
    - The other keywords are those of :func:`run`.

    Raises the errors of :func:`run`.
    """
    hint = (
        "arun() needs a wrapped async client: arun(wrap(AsyncOpenAI()), …); with a sync one "
        "call run()"
    )
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

    The last event is :class:`RunEnded`. Text arrives in pieces (:class:`Provisional`,
    :class:`Retracted`); with ``stream=False`` there are no such events. The run has its own thread.
    Closing the stream cancels the run before its next step.

    - ``client`` is a wrapped sync client; it sends the requests.
    - ``messages`` is a text or a list of messages; None is for ``continuation``.
    - ``contract`` replaces the client's contract for this run; None keeps it.
    - ``response_format`` is the type or the JSON Schema of the answer; None keeps the contract's.
    - The other keywords are those of :func:`run`.

    Raises the errors of :func:`run`, after the events before the error, and ContractError for an
    async ``on_event``.
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

    The events are those of :func:`run_stream`. It needs asyncio. Closing the stream (``aclose``, or
    leaving ``contextlib.aclosing``) cancels the run immediately.

    - ``client`` is a wrapped async client; it sends the requests.
    - ``messages`` is a text or a list of messages; None is for ``continuation``.
    - ``contract`` replaces the client's contract for this run; None keeps it.
    - ``response_format`` is the type or the JSON Schema of the answer; None keeps the contract's.
    - The other keywords are those of :func:`run`.

    Raises the errors of :func:`arun`, after the events before the error.
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
    """A run in progress: its ``flow``, and the objects that perform its effects."""

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
        others = given.keys() - RunKeywords.__annotations__.keys()
        own = RunKeywords.__annotations__.keys() - RequestKeywords.__annotations__.keys()
        refuse_foreign("run()", sorted(others), IN_RUNS, sorted(own))
        must_be("loop", loop, LoopPolicy, "a LoopPolicy, as in LoopPolicy(max_iterations=8)")
        must_have("sessions", sessions, "transaction", "a store, as in SQLiteSessionStore(path)")
        must_be("agent", agent, AgentContext, "an AgentContext, as in AgentContext(id=…)")
        must_have("cancel", cancel, "__call__", "a function, or None")
        must_have("on_event", on_event, "__call__", "a function of an event, or None")
        must_have("observer", observer, "before", "a PipelineObserver(), or None")

        opened = {name: given.pop(name) for name in _OPENING if name in given}
        for name in ("contract", "response_format"):
            if given[name] is None:
                del given[name]
        if given.get("tools") is not None:
            # Every request reads them, and a generator yields them only once.
            given["tools"] = tuple(given["tools"])

        settings = RunSettings.of(client, given, policy=loop, agent=agent, context=context)
        self.tools = ToolRunner(loop, _listener(on_event))
        if on_event is not None:
            watched = client.watched(lambda attempt: self.tools.tell(AttemptMade(attempt)))
            settings = replace(settings, client=watched)
        self.settings = settings

        # An earlier run's store is used again.
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
        """Return the run, or raise the error that it ended with."""
        if end.status is not LineStatus.FAILED:
            return self._run(end)

        cause = end.cause
        is_of_step = any(error.code is InvokeCode.STEP_RAISED for error in end.errors)
        if cause is not None and is_of_step and end.step is PipelineStep.LLM_CLIENT:
            raise cause  # what the exchange raised, such as TypeError for a missing model
        if cause is not None and is_control_flow(cause):  # raised by a check or a consultation
            raise cause
        if not isinstance(cause, StrictReplyError):
            # An error of cancel=, or of a store that returns a wrong value.
            raise InvokeFailed(end.errors, step=end.step.name) from cause
        if type(cause) is InvokeFailed:
            raise InvokeFailed(end.errors, step=end.step.name)

        if isinstance(cause, SessionStoreFailed | SessionConflict | AbortRun):
            cause.run = self._run(end)
        raise cause

    def _run(self, end: WalkEnd[Progress]) -> Run[A]:
        """Make the run from its last state.

        The results of approved calls join the conversation even if their step did not complete.
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

        If a step raised, the claim is already released.
        """
        # The interrupting exception is raised, and an unreleased claim lapses by itself.
        with unharmed("the session store"):
            self.loop.release(self.sessions)


def _new_id() -> str:
    return uuid4().hex


def _listener(*listeners: OnEvent | None) -> OnEvent:
    given = [listener for listener in listeners if listener is not None]
    if any(map(must_be_awaited, given)):
        raise ContractError(
            "on_event must be a sync function; for async code iterate over arun_stream()"
        )

    def tell(event: RunEvent) -> None:
        for listener in given:
            with unharmed("on_event"):
                listener(event)

    return tell
