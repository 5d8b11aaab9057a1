"""A run in progress: its settings, and what it has done so far."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from strictreply import Contract, ToolCall
from strictreply.core import Replay
from strictreply.loop._effects import AcceptedReply
from strictreply.loop._policy import LoopPolicy
from strictreply.loop._refusals import REFUSED_BEHIND, errors_left
from strictreply.loop._run_state import Progress
from strictreply.loop._sessions import SessionClaim, SessionStore
from strictreply.loop._step_walk import StepWalk
from strictreply.loop.invoke_result import InvokeError
from strictreply.loop.values import AgentContext, AgentPipelineContextType, Envelope, PipelineStep
from strictreply.wires import WIRES

_NOTHING: Final = Progress()


class RunObserver(Protocol):
    """Checks each step of a run; if it returns errors, the run fails there.

    It changes nothing.
    """

    def before(self, run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        """Return the errors in the state before the run's present step."""
        ...

    def after(self, run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        """Return the errors in the state after the step; ``run.state`` is the one before it."""
        ...


@dataclass(slots=True, kw_only=True)
class RunLoop(StepWalk[Progress]):
    """One run of the loop."""

    state: Progress = _NOTHING
    """The state after the last completed step."""
    before: Container[PipelineStep] = frozenset()
    """The steps that are checked before: all with an observer, none without."""
    behind: Container[PipelineStep] = REFUSED_BEHIND
    """The steps that are checked after: all with an observer."""
    request: Envelope
    """The request as it was received."""
    contract: Contract
    """The contract that replies are checked against."""
    policy: LoopPolicy
    """The bounds of the turn."""
    agent: AgentContext
    """The agent that answers."""
    model: str
    """Name of the model."""
    conversation: str = "default"
    """Id of the only conversation context."""
    new_id: Callable[[], str]
    """Makes the ids of sessions and turns."""
    correlation_id: str
    """Id of the request in logs, and the holder of its claim."""
    time_stamp: str
    """When the request arrived, as ISO 8601."""
    observer: RunObserver | None = None
    """Checks each step; None for no checks."""
    replay: Replay = WIRES["chat"].replay
    """Reads and writes the messages of the conversation."""

    kind: AgentPipelineContextType = AgentPipelineContextType.INITIAL
    """Whether the run begins a conversation, begins its next turn, or continues a waiting turn."""
    replies: list[AcceptedReply] = field(default_factory=list)
    """The valid replies, in order."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the last reply."""
    suppressed: set[str] = field(default_factory=set[str])
    """Ids of the calls that repeat too often to be run."""
    claiming: tuple[str, str] | None = None
    """Id of the manifest that the run claims, and the claim's holder; None without a claim."""
    claim: SessionClaim | None = None
    """The run's claim on its manifest; None while it has none."""
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Consecutive failures by the name of the tool."""

    def __post_init__(self) -> None:
        if self.observer is not None:
            self.before = frozenset(PipelineStep)
            self.behind = self.before

    def errors_before(self, state: Progress) -> Sequence[InvokeError]:
        """Return the errors that the observer finds before the step."""
        return () if self.observer is None else self.observer.before(self, state)

    def errors_behind(self, state: Progress) -> Sequence[InvokeError]:
        """Return the errors in the state after the step, the loop's own or the observer's."""
        errors = errors_left(self.step, self.request, state)
        if errors or self.observer is None:
            return errors
        return self.observer.after(self, state)

    def release(self, store: SessionStore) -> None:
        """Release the claim that the run has, or may have had when it was interrupted."""
        if self.claiming is not None:
            claim = self.claim or store.claim(*self.claiming)
            if not isinstance(claim, InvokeError):
                store.release(claim)
