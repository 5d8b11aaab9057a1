"""Starting durable runs, and what becomes of them: from any process that reaches their database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Self
from uuid import uuid4

import anyio

from strictreply.attempts import Usage
from strictreply.channels import judge
from strictreply.client import AsyncStrictClient, StrictClient
from strictreply.errors import ContractError
from strictreply.integrations.dbos.failures import DurableRunFailed, Failure
from strictreply.integrations.dbos.library import load
from strictreply.integrations.dbos.records import TurnEnd, TurnRequest
from strictreply.integrations.dbos.turns import Setting
from strictreply.integrations.dbos.worker import Worker
from strictreply.pauses import apause, pause
from strictreply.pipeline.effects import Asked
from strictreply.pipeline.loop_policy import LoopPolicy
from strictreply.pipeline.reconciling import reconcile
from strictreply.pipeline.results import InvokeCode, InvokeError, InvokeFailed, InvokeResult
from strictreply.pipeline.values import AgentContext, AgentResponse, AgentToolCallResult, ToolCallManifest
from strictreply.replies import Invalid
from strictreply.running.loop import DEFAULT_AGENT, DEFAULT_LOOP
from strictreply.running.runs import Request, Run
from strictreply.typing import Message

_NAME = re.compile(r"[a-z0-9_-]{1,64}")


class DurableRuns:
    """Runs of one kind: the same client, tools and keywords in every process that starts, answers or works on them.

    ``name`` tells the kind (small letters, digits, ``_`` and ``-``). ``url`` is the database: ``sqlite:///FILE`` for
    one process, ``postgresql://…`` for several, directly and not through a pooler of transactions. ``loop``, ``agent``,
    ``org`` and ``user`` are those of :func:`strictreply.run`; ``keywords`` go to every exchange (``model`` at least).
    Making one registers its workflow with DBOS, so make it before DBOS is launched, and once in a process. As a context
    manager it closes its connections.

    Raises ContractError when the name cannot be one, or a sync client meets an async tool.
    """

    def __init__(
        self,
        name: str,
        client: StrictClient | AsyncStrictClient,
        *,
        url: str,
        loop: LoopPolicy = DEFAULT_LOOP,
        agent: AgentContext = DEFAULT_AGENT,
        org: str = "local",
        user: str = "local",
        **keywords: Any,
    ) -> None:
        """Declare the runs; nothing is connected yet."""
        if not _NAME.fullmatch(name):
            raise ContractError("name= is 1 to 64 small letters, digits, _ and -", path="/name")
        self.name = name
        self.url = url
        self._org, self._user = org, user
        self._setting = Setting(client=client, keywords=keywords, loop=loop, agent=agent)
        self._setting.refuse_unrunnable()
        library = load()
        portable = library.WorkflowSerializationFormat.PORTABLE
        library.DBOS.workflow(name=self.workflow, serialization_type=portable)(self._setting.body)

    @property
    def workflow(self) -> str:
        """The name of the workflow in DBOS, and of its queue."""
        return f"strictreply-{self.name}"

    def worker(
        self, *, concurrency: int = 8, poll_seconds: float = 0.5, drain_seconds: int = 0, launch: bool = True
    ) -> AbstractContextManager[None]:
        """Work on these runs in this process, until the end of the ``with`` block.

        At most ``concurrency`` turns are worked on at once. Every ``poll_seconds`` the queue is looked at, and, on
        PostgreSQL, whether another worker is gone: its turns are finished by those who are there. At the end, turns in
        hand have ``drain_seconds``; who comes next goes on with the rest. ``launch=False`` serves the runs on the DBOS
        that the app has launched, on the same database.

        Raises ContractError when another process works on the same SQLite file, or this one has a DBOS already.
        """
        return Worker(
            name=self.name,
            url=self.url,
            concurrency=concurrency,
            poll_seconds=poll_seconds,
            drain_seconds=drain_seconds,
            launch=launch,
        ).serving()

    def start(
        self,
        messages: str | Iterable[Message],
        *,
        id: str | None = None,  # noqa: A002 - its name everywhere
        after: DurableRun | None = None,
    ) -> DurableRun:
        """Put a run into the queue. One that has the same ``id`` already is given as it is, and nothing is started.

        ``after`` is an earlier run, at its answer, whose conversation goes on.
        """
        run = self.find(id or uuid4().hex)
        before = None if after is None else after.end()
        earlier = None if before is None else self.told(before)
        envelope = Request(messages=messages, after=earlier, org=self._org, user=self._user).envelope()
        self.enqueue(run.id, TurnRequest(envelope=envelope, time_stamp=_now(), before=before))
        return run

    def find(self, id: str) -> DurableRun:  # noqa: A002 - its name everywhere
        """Give the run of this id, whether it is there or not."""
        if not id or "/" in id:
            raise ContractError("the id of a run is not empty, and has no / in it")
        return DurableRun(self, id)

    def told(self, end: TurnEnd) -> Run:
        """Give what a turn came to as any other run."""
        message = next((one for one in reversed(end.turn.messages) if one.get("role") == "assistant"), {})
        verdict = judge(self._setting.terms, message)
        usage = Usage(**(end.response.usage or {}))
        asked = () if isinstance(verdict, Invalid) else (Asked(dict(message), verdict.reply, usage),)
        told = [*end.session.messages, *(end.turn.messages if end.waiting else ())]
        return Run(end.response, [dict(one) for one in told], asked, (), end.store())

    def continued(self, end: TurnEnd, results: Iterable[AgentToolCallResult | Mapping[str, Any]]) -> TurnRequest:
        """Make the request that goes on with a turn that waits; InvokeFailed when the results do not fit its calls."""
        envelope = Request(continuation=end.response, results=results, org=self._org, user=self._user).envelope()
        verdict = reconcile(end.waiting or ToolCallManifest(), envelope.tool_results)
        if isinstance(verdict, InvokeResult):
            raise InvokeFailed(verdict.errors)
        return TurnRequest(envelope=envelope, time_stamp=_now(), before=end)

    @cached_property
    def database(self) -> Any:
        """DBOS's client of the database, connected when first needed: it has no global state, and runs nothing."""
        library = load()
        library.DBOS.migrate(self.url)
        return library.DBOSClient(system_database_url=self.url)

    def close(self) -> None:
        """Close the connections that starting and following runs took; they are opened again when they are needed."""
        if "database" in vars(self):
            self.database.destroy()
            del self.database

    def __enter__(self) -> Self:
        """Give the runs."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the connections."""
        self.close()

    def enqueue(self, workflow_id: str, request: TurnRequest, *, single: bool = False) -> None:
        """Put one turn into the queue; with ``single`` DBOSWorkflowIDInUseError when it is there already."""
        portable = load().WorkflowSerializationFormat.PORTABLE
        options = {
            "queue_name": self.workflow,
            "workflow_name": self.workflow,
            "workflow_id": workflow_id,
            "serialization_type": portable,
            "workflow_id_reuse_policy": "reject" if single else "return-existing",
        }
        self.database.enqueue(options, request.to_json())


@dataclass(frozen=True, slots=True)
class DurableRun:
    """One run, by its id. Each answer of the client begins another turn of it, a workflow of its own."""

    runs: DurableRuns = field(repr=False)
    id: str

    def look(self) -> Run | None:
        """Give the run at its answer, or waiting for the client (``run.is_paused``); None while it is worked on.

        Raises DurableRunFailed when it failed, was cancelled, or is not there.
        """
        end = self._end()
        return None if end is None else self.runs.told(end)

    def result(self, *, poll_seconds: float = 0.5) -> Run:
        """Wait until :meth:`look` gives the run, looking every ``poll_seconds``."""
        return self.runs.told(self.end(poll_seconds=poll_seconds))

    async def aresult(self, *, poll_seconds: float = 0.5) -> Run:
        """Wait like :meth:`result`, awaiting. The other methods are one quick query each: call them in a thread."""
        while (run := await anyio.to_thread.run_sync(self.look)) is None:
            await apause(poll_seconds)
        return run

    def waiting(self) -> AgentResponse | None:
        """Give what the client has to answer, None while nothing waits; it does not wait for the run."""
        _, status = self._last()
        end = TurnEnd.from_json(status.output) if status is not None and status.status == "SUCCESS" else None
        return end.response if end is not None and end.waiting is not None else None

    def answer(self, results: Iterable[AgentToolCallResult | Mapping[str, Any]]) -> None:
        """Go on with the client's results, or its decisions, one for each call that waits.

        Raises InvokeFailed when they do not fit (nothing is spent then), when no calls wait (NOT_FOUND), and when
        somebody else has answered them at this moment (ALREADY_CONSUMED).
        """
        number, status = self._last()
        end = TurnEnd.from_json(status.output) if status is not None and status.status == "SUCCESS" else None
        if end is None or end.waiting is None:
            raise _refused(InvokeCode.NOT_FOUND, "sessions.waiting", "no calls of this run wait for results")
        request = self.runs.continued(end, results)
        try:
            self.runs.enqueue(self._turn(number + 1), request, single=True)
        except load().error.DBOSWorkflowIDInUseError as error:
            message = "these calls were answered before"
            raise _refused(InvokeCode.ALREADY_CONSUMED, "sessions.single_use", message) from error

    def cancel(self) -> None:
        """Stop the run before its next step."""
        number, _ = self._last()
        self.runs.database.cancel_workflow(self._turn(number))

    def retry(self) -> None:
        """Go on with a run that failed or was cancelled: its last step is done again, what was done before is not."""
        number, _ = self._last()
        steps = self.runs.database.list_workflow_steps(self._turn(number), load_output=False)
        last = max((step["function_id"] for step in steps), default=1)
        self.runs.database.rewind_workflow(self._turn(number), start_step=last, queue_name=self.runs.workflow)

    def end(self, *, poll_seconds: float = 0.5) -> TurnEnd:
        """Wait for the end of the last turn."""
        while (end := self._end()) is None:
            pause(poll_seconds)
        return end

    def _end(self) -> TurnEnd | None:
        """Give the end of the last turn, None before it."""
        _, status = self._last()
        if status is None:
            raise DurableRunFailed(_over("RunNotFound", "no run has this id"))
        match status.status:
            case "ENQUEUED" | "PENDING" | "DELAYED":
                return None
            case "SUCCESS":
                return TurnEnd.from_json(status.output)
            case "ERROR":
                raise _failed(status.error)
            case _:
                raise DurableRunFailed(_over("RunCancelled", "it was cancelled, or too many workers died of it"))

    def _last(self) -> tuple[int, Any]:
        """Find the last turn: its number, and DBOS's status of it, None when the run is not there."""
        database = self.runs.database
        later = database.list_workflows(workflow_id_prefix=f"{self.id}/", load_input=False, load_output=False)
        found = database.list_workflows(workflow_ids=[self._turn(len(later))], load_input=False)
        return len(later), found[0] if found else None

    def _turn(self, number: int) -> str:
        """Name the workflow of a turn."""
        return f"{self.id}/{number}" if number else self.id


def _failed(error: Any) -> DurableRunFailed:
    """Read the error that a workflow ended with; one that is not ours is a fault of DBOS or of this library."""
    data = getattr(error, "data", None)
    if getattr(error, "name", None) == DurableRunFailed.__name__ and isinstance(data, dict):
        return DurableRunFailed(Failure(**data))
    return DurableRunFailed(_over(str(getattr(error, "name", type(error).__name__)), str(error)))


def _refused(code: InvokeCode, rule: str, message: str) -> InvokeFailed:
    """Make the failure of an answer that comes too late, or to nobody."""
    return InvokeFailed((InvokeError(code=code, rule=rule, message=message),))


def _over(kind: str, message: str) -> Failure:
    """Word an end that no turn came to by itself."""
    return Failure(kind=kind, code="", message=message, details={})


def _now() -> str:
    """Say what time it is, in UTC."""
    return datetime.now(UTC).isoformat()
