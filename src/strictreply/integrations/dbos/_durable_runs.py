"""Starting durable runs, and reading, answering, cancelling and retrying them.

Any process that can reach their database can do this.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self
from uuid import uuid4

import anyio

from strictreply import (
    AbortRun,
    AsyncStrictClient,
    ContractError,
    InvokeFailed,
    LoopPolicy,
    Run,
    StrictClient,
)
from strictreply.core import Message
from strictreply.core.calls import apause, pause
from strictreply.integrations import load
from strictreply.integrations.dbos._durable_records import (
    DurableFailure,
    DurableRunFailed,
    TurnEnd,
    TurnRequest,
    asked_from,
    failure_of,
    make_tables,
    read_url,
    store_errors,
)
from strictreply.integrations.dbos._durable_worker import DurableWorker
from strictreply.integrations.dbos._turn_workflow import workflow_of
from strictreply.loop import (
    NO_CONTEXT,
    EffectRaised,
    GivenResult,
    RunSettings,
    answered_manifest,
    envelope_of,
)
from strictreply.pipeline import AgentContext, AgentResponse, Envelope, InvokeCode, ToolCallManifest

_LOOP: Final = LoopPolicy()
_AGENT: Final = AgentContext(id="default")
_MOST_ID_CHARS: Final = 200
_UNDER_WAY: Final = frozenset({"ENQUEUED", "PENDING", "DELAYED"})
_WITHDRAWN: Final = "withdrawn"


class _Workflow(Protocol):
    """The status of a workflow from DBOS."""

    status: str
    output: str
    error: Any
    attributes: Any


class DurableRuns:
    """Durable runs of one kind.

    Every process that starts, answers or executes them must use the same client, tools and
    keywords.

    - ``name`` is the name of the kind (lower-case letters, digits, ``_`` and ``-``).
    - ``url`` is the database: ``sqlite:///FILE`` for one process, ``postgresql://…`` for several,
      not through a transaction pooler.
    - ``loop``, ``agent``, ``org`` and ``user`` are those of :func:`strictreply.run`.
    - ``context`` is the value for parameters of tools with the type :data:`~strictreply.Context`.
      It is not stored: a run uses the context of the process that executes it.
    - ``keywords`` are those of every request, at least ``model``.

    Make it once in a process, before DBOS is launched, because it registers a workflow. As a
    context manager it closes its connections. Raises ContractError for a wrong name or address, for
    an async tool of a sync client, and for a tool that takes a context if there is none.
    """

    def __init__(
        self,
        name: str,
        client: StrictClient | AsyncStrictClient,
        *,
        url: str,
        loop: LoopPolicy = _LOOP,
        agent: AgentContext = _AGENT,
        org: str = "local",
        user: str = "local",
        context: object = NO_CONTEXT,
        **keywords: Any,
    ) -> None:
        if not re.fullmatch(r"[a-z0-9_-]{1,64}", name):
            raise ContractError(
                "name= must be 1 to 64 lower-case letters, digits, _ and -", path="/name"
            )

        read_url(url)
        self.name = name
        """The name of this kind of runs."""
        self.url = url
        """The address of the database."""
        self.org: str = org
        """The organization of each run."""
        self.user: str = user
        """The user of each run."""
        self._connecting = threading.Lock()
        self._database: Any = None

        self._settings = RunSettings.of(client, keywords, policy=loop, agent=agent, context=context)

        library = load("dbos")
        portable = library.WorkflowSerializationFormat.PORTABLE
        # DBOS itself never gives up a run; TurnTrial does, because not every running turn caused
        # its worker's death.
        declared = library.DBOS.workflow(
            name=self.workflow, serialization_type=portable, max_recovery_attempts=None
        )
        declared(workflow_of(self._settings))

    @property
    def workflow(self) -> str:
        """The name of the workflow in DBOS, and of its queue."""
        return f"strictreply-{self.name}"

    def worker(
        self,
        *,
        concurrency: int = 8,
        poll_seconds: float = 0.5,
        drain_seconds: int = 0,
        launch: bool = True,
    ) -> AbstractContextManager[None]:
        """Execute these runs in this process, until the end of the ``with`` block.

        - ``concurrency`` is the most turns at a time.
        - ``poll_seconds`` is the time between two reads of the queue. On PostgreSQL the turns of
          dead workers are then taken over, too.
        - ``drain_seconds`` is the time for running turns at the end of the block.
        - ``launch=False`` uses the DBOS that the app has launched, on the same database.

        Raises ContractError when another process executes runs of the same SQLite file, or when
        this process has already launched DBOS.
        """
        return DurableWorker(
            self.workflow, self.url, concurrency, poll_seconds, drain_seconds, launch
        ).serving()

    def start(
        self,
        messages: str | Iterable[Message],
        *,
        id: str | None = None,  # noqa: A002 - its name everywhere
        after: DurableRun | None = None,
    ) -> DurableRun:
        """Put a run into the queue, or return an existing run with the same ``id``.

        ``id`` None makes a new id. ``after`` is an earlier run whose conversation is continued; if
        it is still running, this method waits for it. Raises ContractError when the messages or the
        id cannot be stored, and DurableRunFailed when ``after`` failed.
        """
        run = self.find(uuid4().hex if id is None else id)
        before = None if after is None else after.end()
        earlier = None if before is None else self.told(before)

        replay = self._settings.wire.replay
        envelope = envelope_of(messages, after=earlier, org=self.org, user=self.user, replay=replay)
        self.enqueue(run.turn_id(0), envelope, before)
        return run

    def find(self, id: str) -> DurableRun:  # noqa: A002 - its name everywhere
        """Return the run with this id, without checking that it exists.

        Raises ContractError for a text that cannot be an id.
        """
        if not id.strip() or len(id) > _MOST_ID_CHARS or "/" in id or not id.isprintable():
            raise ContractError(f"id= must be 1 to {_MOST_ID_CHARS} printable characters without /")
        return DurableRun(self, id)

    def told(self, end: TurnEnd) -> Run:
        """Return the end of a turn as a run.

        Its replies are judged again by the contract of this process; replies that are no longer
        valid are left out. Raises InvokeFailed (TOOLS_CHANGED) when the last one is not valid.
        """
        *_, last = read = [asked_from(record, self._settings) for record in end.asked]
        if isinstance(last, EffectRaised):
            raise last.error

        messages: list[Message] = [dict(one) for one in end.session.messages]
        if end.waiting:
            messages += [dict(one) for one in end.turn.messages]

        asked = tuple(one for one in read if not isinstance(one, EffectRaised))
        return Run(end.response, messages, asked, (), end.store())

    @property
    def database(self) -> Any:
        """DBOS's client of the database, connected at its first use.

        It has no global state, and executes nothing.
        """
        with self._connecting:
            if self._database is None:
                make_tables(self.url)
                self._database = load("dbos").DBOSClient(
                    system_database_url=self.url, retry_connection_errors=False
                )
            return self._database

    def close(self) -> None:
        """Close the connections to the database; the next use opens them again."""
        with self._connecting:
            if self._database is not None:
                self._database.destroy()
                self._database = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def enqueue(
        self, workflow_id: str, envelope: Envelope, before: TurnEnd | None, **options: object
    ) -> None:
        """Put one turn into the queue, with further options of DBOS.

        Raises ContractError when the turn cannot be encoded.
        """
        now = datetime.now(UTC).isoformat()
        try:
            text = TurnRequest(envelope=envelope, time_stamp=now, before=before).to_json()
        except ValueError:  # pydantic's message would repeat the text
            raise ContractError(
                "a message holds text that UTF-8 cannot encode, such as a lone surrogate"
            ) from None

        ours = {
            "queue_name": self.workflow,
            "workflow_name": self.workflow,
            "workflow_id": workflow_id,
            "serialization_type": load("dbos").WorkflowSerializationFormat.PORTABLE,
        }
        with store_errors(self.url):
            self.database.enqueue(ours | options, text)


@dataclass(frozen=True, slots=True)
class DurableRun:
    """One durable run, identified by its id.

    Each answer of the client begins another turn, which is its own workflow.
    """

    runs: DurableRuns = field(repr=False)
    """The kind of runs it belongs to."""
    id: str
    """The id of the run."""

    def look(self) -> Run | None:
        """Return the run if it has its answer or waits for the client (``run.is_paused``).

        Return None while the run is queued or running. Raises DurableRunFailed when it failed, was
        cancelled, or does not exist.
        """
        end = self._end()
        return None if end is None else self.runs.told(end)

    def result(self, *, poll_seconds: float = 0.5) -> Run:
        """Call :meth:`look` every ``poll_seconds`` until it returns the run."""
        return self.runs.told(self.end(poll_seconds=poll_seconds))

    async def aresult(self, *, poll_seconds: float = 0.5) -> Run:
        """Wait like :meth:`result` in async code.

        Each of the other methods makes one quick query: call them in a thread.
        """
        while (run := await anyio.to_thread.run_sync(self.look)) is None:
            await apause(poll_seconds)
        return run

    def waiting(self) -> AgentResponse | None:
        """Return the response that the client must answer; None if the run does not wait for it.

        This method itself does not wait.
        """
        _, end = self._paused()
        return None if end is None else end.response

    def answer(self, results: Iterable[GivenResult]) -> None:
        """Continue the run with results or decisions, one for each waiting call.

        Raises InvokeFailed when they do not fit (you may answer again), when no calls wait
        (NOT_FOUND), and when another answer came first (ALREADY_CONSUMED).
        """
        number, end = self._paused()
        if end is None:
            nothing = InvokeCode.NOT_FOUND.error(
                "sessions.waiting", "no calls of this run are pending"
            )
            raise InvokeFailed((nothing,))

        org = self.runs.org
        user = self.runs.user
        envelope = envelope_of(continuation=end.response, results=results, org=org, user=user)

        if (end.session.org, end.session.user) != (org, user):
            foreign = InvokeCode.NOT_FOUND.error(
                "loop.session", "this run belongs to another org or user"
            )
            raise InvokeFailed((foreign,))

        answered_manifest(end.waiting or ToolCallManifest(), envelope, end.turn)
        if not self._gone_on(number + 1, envelope, end):
            raise InvokeFailed((InvokeCode.ALREADY_CONSUMED.error("sessions.single_use"),))

    def cancel(self) -> None:
        """Stop the run before its next step, or before its client can answer.

        A run that has ended is not changed.
        """
        number, end = self._paused()
        if end is not None:
            # Enqueue a request in place of the client's answer, so that no answer can follow,
            # unless one came first. It is cancelled before a worker begins it: the delay of an hour
            # is longer than the time between the two writes.
            envelope = Envelope(
                org=self.runs.org,
                user=self.runs.user,
                session_id=end.response.session_id,
                turn_id=end.response.turn_id,
            )
            number += 1
            self._gone_on(
                number, envelope, end, delay_seconds=3600.0, attributes={_WITHDRAWN: True}
            )

        with store_errors(self.runs.url):
            self.runs.database.cancel_workflow(self.turn_id(number))

    def retry(self) -> None:
        """Resume a run that failed, was cancelled or given up; only the failed step is repeated.

        A run that is running, has ended, or was cancelled while it waited for its client is not
        changed.
        """
        number, status = self._last()
        if status.status in _UNDER_WAY | {"SUCCESS"} or _WITHDRAWN in (status.attributes or {}):
            return

        database = self.runs.database
        turn_id = self.turn_id(number)
        try:
            with store_errors(self.runs.url):
                done = [
                    (step["function_id"], _is_failed(step))
                    for step in database.list_workflow_steps(turn_id)
                ]
                behind = max((number for number, _ in done), default=0) + 1
                first = min((number for number, failed in done if failed), default=behind)

                database.update_workflow_attributes(turn_id, {}, merge=False)
                database.rewind_workflow(turn_id, start_step=first, queue_name=self.runs.workflow)
        except load("dbos").error.DBOSException:
            if self._last()[1].status not in _UNDER_WAY:  # otherwise another retry came first
                raise

    def end(self, *, poll_seconds: float = 0.5) -> TurnEnd:
        """Wait for the end of the last turn."""
        while (end := self._end()) is None:
            pause(poll_seconds)
        return end

    def _end(self) -> TurnEnd | None:
        _, status = self._last()
        match status.status:
            case under_way if under_way in _UNDER_WAY:
                return None
            case "SUCCESS":
                return self._end_of(status)
            case "ERROR":
                data = getattr(status.error, "data", None)
                kind = type(status.error).__name__
                kind = str(getattr(status.error, "name", kind))
                if kind == DurableRunFailed.__name__ and isinstance(data, dict):
                    failure = DurableFailure(**data)
                    resumable = failure.kind != AbortRun.__name__  # a retry would abort again
                    raise DurableRunFailed(failure, is_resumable=resumable)

                raise _over(kind, f"{kind} was raised; its message is only in the worker's log")
            case "CANCELLED" if _WITHDRAWN in (status.attributes or {}):
                words = "it was cancelled while it waited for its client; it cannot be resumed"
                raise _over("RunCancelled", words, is_resumable=False)
            case "CANCELLED":
                raise _over("RunCancelled", "it was cancelled; retry() resumes it")
            case _:  # given up by DBOS itself, which an earlier version of this library allowed
                words = "too many worker processes died while executing it; retry() tries it again"
                raise _over("RunGivenUp", words)

    def _paused(self) -> tuple[int, TurnEnd | None]:
        number, status = self._last()
        end = self._end_of(status) if status.status == "SUCCESS" else None
        if end is not None and end.waiting is None:
            end = None
        return number, end

    def _end_of(self, status: _Workflow) -> TurnEnd:
        with store_errors(self.runs.url):
            return TurnEnd.from_json(status.output)

    def _last(self) -> tuple[int, _Workflow]:
        database = self.runs.database
        first = self.turn_id(0)

        with store_errors(self.runs.url):
            listed = database.list_workflows(
                workflow_id_prefix=f"{first}/", load_input=False, load_output=False
            )
            # SQLite's LIKE ignores case
            later = sum(turn.workflow_id.startswith(f"{first}/") for turn in listed)
            found = database.list_workflows(workflow_ids=[self.turn_id(later)], load_input=False)

        if not found:
            raise _over("RunNotFound", "no run has this id", is_resumable=False)

        return later, found[0]

    def _gone_on(self, number: int, envelope: Envelope, before: TurnEnd, **options: object) -> bool:
        """Begin another turn, and return whether it began.

        It is False when somebody else has begun it: of two with the same id DBOS accepts the first.
        """
        try:
            self.runs.enqueue(
                self.turn_id(number), envelope, before, workflow_id_reuse_policy="reject", **options
            )
        except load("dbos").error.DBOSWorkflowIDInUseError:
            return False
        return True

    def turn_id(self, number: int) -> str:
        """Return the id of a turn's workflow in DBOS."""
        first = f"{self.runs.workflow}/{self.id}"
        return f"{first}/{number}" if number else first


def _is_failed(step: Mapping[str, object]) -> bool:
    if step["error"] is not None:
        return True

    output = step["output"]
    return isinstance(output, str) and failure_of(json.loads(output)) is not None


def _over(kind: str, message: str, *, is_resumable: bool = True) -> DurableRunFailed:
    failure = DurableFailure(kind=kind, message=message)
    return DurableRunFailed(failure, is_resumable=is_resumable)
