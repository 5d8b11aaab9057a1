"""The outcome of a run, the keywords that open it, and the events during it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeAlias, cast

from pydantic_core import to_json

from strictreply import (
    Attempt,
    ContractError,
    DirectAnswer,
    Provisional,
    Retracted,
    StrictReplyError,
    ToolCall,
    Usage,
)
from strictreply.core import JSONObject, Message, Replay, RequestKeywords
from strictreply.core.arguments import ON_RUNS, with_hints
from strictreply.loop._conversation import messages_of
from strictreply.loop._effects import A_co, AcceptedReply, ToolOutcome
from strictreply.loop._policy import LoopPolicy
from strictreply.loop._run_steps import RunObserver
from strictreply.loop._sessions import SessionStore
from strictreply.loop.values import (
    AgentContext,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    Decision,
    Envelope,
    ResponseKind,
    StepTrace,
)
from strictreply.wires import WIRES

_RESULT_FORM: Final = (
    "results= must be a list with one object for each pending call: the call's tool_call_id and "
    "name, and result_json, a JSON text. Make it with call.answered(value), or for an approval "
    "with call.approved() or call.denied()"
)


class Unanswered(StrictReplyError):
    """A run has no answer: it waits for the client, or it was cancelled."""


@with_hints(ON_RUNS)
@dataclass(frozen=True, slots=True)
class Run(Generic[A_co]):
    """The outcome of a run: an answer, a pause for the client, or nothing after a cancellation."""

    _built: AgentResponse | None
    """The response for the client; None when the run was cancelled."""
    transcript: list[Message] = field(repr=False)
    """The conversation so far."""
    replies: tuple[AcceptedReply[A_co], ...] = field(repr=False)
    """Every accepted reply of this run, in order."""
    trace: tuple[StepTrace, ...] = field(repr=False)
    """Every step that was entered, in order."""
    sessions: SessionStore = field(repr=False)
    """The store of the run's session."""

    @property
    def response(self) -> AgentResponse:
        """The response for the client: an answer, or the calls that it has to answer.

        Raises Unanswered when the run was cancelled.
        """
        if self._built is None:
            raise Unanswered("the run was cancelled before it had an answer; start it again")
        return self._built

    @property
    def answer(self) -> A_co:
        """The answer: a str, or a value of the contract's ``answer`` type.

        Raises Unanswered when the run is paused or was cancelled.
        """
        if self.response.kind is ResponseKind.CLIENT_TOOL_CONTINUATION:
            names = ", ".join(dict.fromkeys(call.name for call in self.pending))
            how = (
                "send run.response to the client, and continue with "
                "run(client, continuation=run, results=…)"
            )
            raise Unanswered(f"the run waits for results of: {names}; {how}")

        # a run ends by an answer, a pause or a cancellation
        return cast("DirectAnswer[A_co]", self.replies[-1].reply).answer

    @property
    def is_paused(self) -> bool:
        """Whether the run waits for results or decisions."""
        return self._built is not None and self._built.kind is ResponseKind.CLIENT_TOOL_CONTINUATION

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return self._built is None

    @property
    def pending(self) -> tuple[AgentToolCall, ...]:
        """The calls that the client has to answer; none unless the run is paused."""
        return () if self._built is None else self._built.tool_calls or ()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts of this run, rejected replies included."""
        return tuple(attempt for asked in self.replies for attempt in asked.attempts)

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return sum((asked.usage for asked in self.replies), Usage())


@dataclass(frozen=True, slots=True)
class AttemptMade:
    """One request was made, and its reply was judged."""

    attempt: Attempt
    """The request, its reply and the verdict."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call starts."""

    call: ToolCall
    """The validated call."""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has ended.

    ``outcome`` has its result, and its exception if it raised one.
    """

    call: ToolCall
    """The validated call."""
    outcome: ToolOutcome
    """Its result, and the exception if there was one."""


@dataclass(frozen=True, slots=True)
class RunEnded(Generic[A_co]):
    """The last event of a stream: the run has its answer, is paused, or was cancelled."""

    run: Run[A_co]
    """The finished or paused run."""


RunEvent: TypeAlias = (
    Provisional[A_co] | Retracted | AttemptMade | ToolStarted | ToolFinished | RunEnded[A_co]
)
"""What a streamed run yields; the last event is a :class:`RunEnded`."""

OnEvent: TypeAlias = Callable[[RunEvent], None]
"""Called with every event as it happens.

Calls of one reply that run at the same time report their events from their own threads.
"""

EarlierRun: TypeAlias = Run | AgentResponse | str
"""A run to continue: the run, its response, or the response as JSON from any process."""

GivenResult: TypeAlias = AgentToolCallResult | Decision | Mapping[str, Any]
"""The answer to a pending call: a client's result, also as plain JSON, or a decision."""


class RunKeywords(RequestKeywords, total=False):
    """The keywords of a run: its own, which :func:`strictreply.run` explains, and a request's."""

    continuation: EarlierRun | None
    """The paused run to continue; None for a new one."""
    results: Iterable[GivenResult]
    """The results of the pending calls, one for each."""
    after: EarlierRun | None
    """The run whose conversation is continued; None for a new conversation."""
    loop: LoopPolicy
    """The bounds of the turn."""
    sessions: SessionStore | None
    """The store of the run's session; None keeps it in memory."""
    agent: AgentContext
    """The agent that answers."""
    org: str
    """Organisation that owns the session."""
    user: str
    """User who owns the session."""
    cancel: Callable[[], bool] | None
    """Called between two steps; True ends the run. None never ends it."""
    on_event: OnEvent | None
    """Called with every event; None for no function."""
    observer: RunObserver | None
    """Checks each step, for example a PipelineObserver; None for no checks."""
    context: object
    """The value for parameters of the type :data:`Context`."""


def envelope_of(
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: EarlierRun | None = None,
    results: Iterable[GivenResult] = (),
    after: EarlierRun | None = None,
    org: str = "local",
    user: str = "local",
    replay: Replay = WIRES["chat"].replay,
) -> Envelope:
    """Make the envelope of a request.

    Raises ContractError when the arguments contradict each other.
    """
    if continuation is None and tuple(results):
        raise ContractError("results= needs a paused run: pass it as continuation=")

    given = messages_of(messages, replay) if continuation is None else ()
    earlier = after if continuation is None else continuation
    response = None if earlier is None else _response_of(earlier)
    session_id = "" if response is None else response.session_id
    turn_id = "" if response is None else response.turn_id
    envelope = Envelope(org=org, user=user, session_id=session_id, turn_id=turn_id)

    if continuation is None or response is None:
        return _with_messages(envelope, given, replay)
    if messages is not None or after is not None:
        raise ContractError("with continuation= pass results=, not messages or after=")

    if response.kind is not ResponseKind.CLIENT_TOOL_CONTINUATION:
        raise ContractError(
            "continuation= must be a paused run, and this run has its answer: pass it as after="
        )

    return _with_results(envelope, results)


def _with_messages(
    envelope: Envelope, messages: tuple[JSONObject, ...], replay: Replay
) -> Envelope:
    given = replay.heard(messages[-1])
    return replace(
        envelope,
        instructions=given.text,
        input_artifacts=given.artifacts,
        clip_board_images=given.images,
        messages=messages,
    )


# A client's JSON may have any value as ``results``.
def _with_results(envelope: Envelope, results: Any) -> Envelope:
    if not isinstance(results, Iterable):
        raise ContractError(_RESULT_FORM)

    given = tuple(cast("Iterable[GivenResult]", results))
    if not given:
        raise ContractError(
            "to continue a paused run pass results=, one for each of its pending calls"
        )

    plain = (one.result if isinstance(one, Decision) else one for one in given)
    try:
        # A client's result comes from outside, so it is read as strictly as a JSON text.
        tool_results = tuple(AgentToolCallResult.from_json(to_json(one)) for one in plain)
    except ValueError:  # pydantic's message would repeat the client's text
        raise ContractError(_RESULT_FORM) from None

    decided = tuple(one for one in given if isinstance(one, Decision))
    return replace(envelope, tool_results=tool_results, decided=decided)


def _response_of(run: object) -> AgentResponse:
    """Return the response of a run; a text is read as the JSON that a client sent back."""
    if isinstance(run, str):
        try:
            return AgentResponse.from_json(run)
        except ValueError:  # pydantic's message would repeat the client's text
            raise ContractError(
                "not the response of a run: pass run.response.to_json() unchanged"
            ) from None

    if isinstance(run, Run) and run.is_cancelled:
        raise ContractError("the run was cancelled: it cannot be resumed; start it again")

    response = run.response if isinstance(run, Run) else run
    if not isinstance(response, AgentResponse):
        raise ContractError(
            "continuation= and after= must be a Run, its response, or the response as a JSON text"
        )

    return response
