"""A run that is under way: what it is given, and what it has done so far."""

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
    """Looks at each step of a run, and may refuse it: with errors the run fails there.

    It changes nothing.
    """

    def before(self, run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        """Return the errors of what the step of the run is about to be given."""
        ...

    def after(self, run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        """Return the errors of what the step of the run left; ``run.state`` is what it got."""
        ...


@dataclass(slots=True, kw_only=True)
class RunLoop(StepWalk[Progress]):
    """One run of the loop."""

    state: Progress = _NOTHING
    """What the last completed step left."""
    before: Container[PipelineStep] = frozenset()
    """The steps that the observer looks at before: all, or none without an observer."""
    behind: Container[PipelineStep] = REFUSED_BEHIND
    """The steps behind which something may be refused: all, where there is an observer."""
    request: Envelope
    """The request as it was received."""
    contract: Contract
    """What replies are checked against."""
    policy: LoopPolicy
    """The bounds of the turn."""
    agent: AgentContext
    """The agent that answers."""
    model: str
    """Name of the model that is asked."""
    conversation: str = "default"
    """Id of the only conversation context."""
    new_id: Callable[[], str]
    """Makes the ids of sessions and turns."""
    correlation_id: str
    """Name of the request in logs, and of the holder of its claim."""
    time_stamp: str
    """When the request came, as ISO 8601."""
    observer: RunObserver | None = None
    """Looks at each step; None for nobody."""
    replay: Replay = WIRES["chat"].replay
    """Reads and writes the turns of the conversation."""

    kind: AgentPipelineContextType = AgentPipelineContextType.INITIAL
    """Whether it begins a conversation, its next turn, or goes on with one that waits."""
    replies: list[AcceptedReply] = field(default_factory=list)
    """The valid replies, in order."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the last reply."""
    suppressed: set[str] = field(default_factory=set[str])
    """Ids of the calls that repeat too often to be run."""
    claiming: tuple[str, str] | None = None
    """Id of the manifest that is being claimed, and the claim's holder; None when none is."""
    claim: SessionClaim | None = None
    """The claim that the run has on its manifest; None while it has none."""
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Failures in a row by the name of the tool."""

    def __post_init__(self) -> None:
        if self.observer is not None:
            self.before = frozenset(PipelineStep)
            self.behind = self.before

    def errors_before(self, state: Progress) -> Sequence[InvokeError]:
        """Return the errors that the observer finds before the step."""
        return () if self.observer is None else self.observer.before(self, state)

    def errors_behind(self, state: Progress) -> Sequence[InvokeError]:
        """Return what the step may not leave, or the errors that the observer finds behind it."""
        errors = errors_left(self.step, self.request, state)
        if errors or self.observer is None:
            return errors
        return self.observer.after(self, state)

    def release(self, store: SessionStore) -> None:
        """Release what the run has claimed, or may have claimed when it was interrupted."""
        if self.claiming is not None:
            claim = self.claim or store.claim(*self.claiming)
            if not isinstance(claim, InvokeError):
                store.release(claim)
