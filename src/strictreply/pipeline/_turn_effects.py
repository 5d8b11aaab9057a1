"""What a turn wants done (the model asked, tools run, the store used), and what it knows while it goes on.

An effect is performed by whoever drives the turn; nothing is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strictreply.contract._contract import Contract
from strictreply.contract._tool import Tool
from strictreply.pipeline._invoke_result import InvokeFailed, IterationsExceeded
from strictreply.pipeline._line import EffectRaised
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._sessions import SessionClaim, SessionStore
from strictreply.pipeline._tool_results import result_turns
from strictreply.pipeline._validator import LOOP_VALIDATOR
from strictreply.pipeline._values import (
    AgentContext,
    AgentPipelineContext,
    AgentToolCall,
    AgentToolCallResult,
    ToolCallManifest,
    Turn,
)
from strictreply.reading._decoding import is_json
from strictreply.values._attempts import Attempt, Usage
from strictreply.values._errors import ReplyHalted, ToolError
from strictreply.values._json import Message
from strictreply.values._replies import AssistantReply, ToolCall


@dataclass(frozen=True, slots=True)
class AskModel:
    """Effect: ask for the next reply; answered with :class:`Asked`, or with the error that ended the call.

    ``is_first`` says that the turn has called nothing yet: a demand to call a tool is met once, not for ever.
    """

    messages: list[Message] = field(repr=False)
    is_first: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply that fits: the assistant's turn as it goes into the transcript, what it says, and what it cost."""

    message: Message = field(repr=False)
    reply: AssistantReply
    usage: Usage = Usage()
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class RunTool:
    """One validated call with the tool that it names; ``call.id`` identifies its result."""

    tool: Tool
    call: ToolCall


@dataclass(frozen=True, slots=True)
class RunTools:
    """Effect: run the calls of one reply, several at a time; answered with a ToolOutcome for each, in order."""

    runs: tuple[RunTool, ...]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call; ``error`` is what the tool's code raised, or the timeout that cut it, None for neither."""

    result: AgentToolCallResult
    error: Exception | None = None

    @property
    def is_broken(self) -> bool:
        """Whether the tool failed in a way that it did not mean the model to hear of."""
        return self.error is not None and not isinstance(self.error.__cause__, ToolError)


@dataclass(frozen=True, slots=True)
class UseStore:
    """Effect: do something with the session store; answered with what that returns, or with the error it raised."""

    use: Callable[[SessionStore], Any]


TurnEffect: TypeAlias = AskModel | RunTools | UseStore
TurnStep: TypeAlias = Generator[TurnEffect, Any, AgentPipelineContext]


def stored(use: Callable[[SessionStore], Any]) -> Generator[TurnEffect, Any, Any]:
    """Use the store; raise here what it raised."""
    given = yield UseStore(use)
    if isinstance(given, EffectRaised):
        raise given.error
    return given


@dataclass(slots=True, kw_only=True)
class TurnState:
    """What the steps of one turn share, and what of it is no plain JSON: ``asked``, the typed replies, in order.

    ``contract`` is what the model's replies are held to; ``new_id`` makes ids that nobody else has. ``calls`` are those
    of the model's last reply, ``suppressed`` the ids of those that repeat too often to be run. ``claiming`` is the
    manifest that the turn is claiming, and its name for that; ``claim`` the claim that it has.
    """

    contract: Contract
    policy: LoopPolicy
    agent: AgentContext
    model: str
    new_id: Callable[[], str]
    asked: list[Asked] = field(default_factory=list)
    calls: tuple[ToolCall, ...] = ()
    suppressed: frozenset[str] = frozenset()
    claiming: tuple[str, str] | None = None
    claim: SessionClaim | None = None

    def refuse_endless(self, turn: Turn) -> None:
        """Raise in a turn that may not ask again: IterationsExceeded (requirement P68), or ReplyHalted for tokens."""
        if turn.iterations >= self.policy.max_iterations:
            raise IterationsExceeded(self.policy.max_iterations)
        spent, bound = sum(asked.usage.total_tokens for asked in self.asked), self.policy.max_tokens_total
        if bound is not None and spent >= bound:
            attempts = tuple(attempt for asked in self.asked for attempt in asked.attempts)
            raise ReplyHalted(
                f"halted after {spent} tokens in {len(self.asked)} asks", reason="tokens", attempts=attempts
            )

    def result_turns(self, manifest: ToolCallManifest) -> list[Message]:
        """Return the turns that tell the model the results of its calls."""
        return result_turns(manifest, self.contract.channel)

    def run_calls(self, wanted: Sequence[AgentToolCall]) -> Generator[TurnEffect, Any, dict[str, AgentToolCallResult]]:
        """Run calls, and return their results by id."""
        by_id = {call.tool_call_id: call for call in wanted}
        runs = tuple(RunTool(self.contract.by_name[call.tool], call) for call in self.calls if call.id in by_id)
        outcomes: tuple[ToolOutcome, ...] = (yield RunTools(runs)) if runs else ()
        results = tuple(outcome.result for outcome in outcomes)
        # A ToolRunner makes them like this; a durable turn reads results from its database, which may hold anything.
        ours = (
            (result.tool_call_id, result.name, result.error_message) == (run.call.id, run.call.tool, None)
            and result.result_json is not None
            and is_json(result.result_json)
            for run, result in zip(runs, results, strict=True)
        )
        if not all(ours):
            calls = tuple(by_id[str(run.call.id)] for run in runs)
            refuse_unfit(ToolCallManifest(tool_calls=calls, tool_call_results=results))
        return {str(run.call.id): result for run, result in zip(runs, results, strict=True)}


def refuse_unfit(manifest: ToolCallManifest) -> None:
    """Hold pairs of calls and results to the rules of a manifest; raise InvokeFailed when they break one."""
    verdict = LOOP_VALIDATOR.validate_tool_call_manifest(manifest)
    if not verdict.successful:
        raise InvokeFailed(verdict.errors)
