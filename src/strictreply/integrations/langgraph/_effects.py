"""What a turn wants done, and the two ways of doing it: the only place where a model, a tool or a human is met."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import anyio

from strictreply.client._client import AsyncStrictClient, Exchange, StrictClient
from strictreply.contract._checks import Check, Checked, aperform_check, perform_check
from strictreply.contract._driving import adrive, drive
from strictreply.coordination._action_answer import ActionAnswer
from strictreply.coordination._actions import Branch, ValidationResult
from strictreply.coordination._error_policy import ContentLoop
from strictreply.coordination._runs.run_counting import Activity
from strictreply.integrations.langgraph._agents import ChatAgent
from strictreply.integrations.langgraph._following import Coordination
from strictreply.integrations.langgraph._library import load
from strictreply.integrations.langgraph._states import RunState
from strictreply.integrations.langgraph._streaks import streak_of
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._turn_effects import RunTools
from strictreply.running._run_values import RunEvent, ToolFinished
from strictreply.running._turn_performing import ToolRunner
from strictreply.values._errors import CallFailed, ContractError
from strictreply.values._json import JSONObject, Message


@dataclass(frozen=True, slots=True)
class AskAgent:
    """Effect: ask an agent for its next action; answered with the exchange, or with the CallFailed that ended it.

    Answered with a ContentLoop when the agent is not asked any more.
    """

    agent: ChatAgent
    branch: Branch
    state: RunState


@dataclass(frozen=True, slots=True)
class Judge:
    """Effect: hold a reply to what its agent may do, once more; answered with a ValidationResult."""

    agent: ChatAgent
    branch: Branch
    reply: object
    state: RunState


@dataclass(frozen=True, slots=True)
class AskHuman:
    """Effect: interrupt the run until somebody answers; answered with what they said.

    ``refused`` says why the answer before is none: it is raised in the place of another interrupt.
    """

    question: JSONObject
    refused: ContractError | None = None


@dataclass(frozen=True, slots=True)
class RunBranch:
    """Effect: run a parallel branch to its end; answered with its last state."""

    state: RunState


Asked: TypeAlias = Exchange | CallFailed | ContentLoop
Effect: TypeAlias = AskAgent | Judge | AskHuman | RunBranch | RunTools


@dataclass(frozen=True, slots=True)
class Performer:
    """Performs effects; ``interrupt`` is LangGraph's, ``lines`` gives the graph that branches run in."""

    coordination: Coordination
    interrupt: Callable[[JSONObject], Any]
    lines: Callable[[], Any]

    def perform(self, effect: Effect) -> Any:
        """Do what a turn wants."""
        match effect:
            case AskAgent(agent=agent) if agent.is_async:
                raise ContractError(f"agent {agent.name!r} has an async client: use ainvoke or astream")
            case AskAgent():
                return self._asked(effect)
            case Judge():
                return drive(self._judging(effect), perform_check)
            case RunTools(runs=runs):
                return self._tools.run_all(runs)
            case AskHuman():
                return self._answered(effect)
            case _:
                return self.lines().invoke(effect.state)

    async def aperform(self, effect: Effect) -> Any:
        """Do what a turn wants, awaiting."""
        match effect:
            case AskAgent(agent=agent) if agent.is_async:
                return await self._awaited(effect)
            case AskAgent():
                return await anyio.to_thread.run_sync(partial(self._asked, effect))
            case Judge():
                return await adrive(self._judging(effect), aperform_check)
            case RunTools(runs=runs):
                return await self._tools.arun_all(runs)
            case RunBranch(state=state):
                return await self.lines().ainvoke(state)
            case _:
                return self._answered(effect)

    def _answered(self, effect: AskHuman) -> Any:
        """Give what the human said, or interrupt; the checkpoint keeps every answer, those that were refused too."""
        try:
            return self.interrupt(effect.question)
        except load("langgraph.errors").GraphInterrupt:
            if effect.refused is None:
                raise
            raise effect.refused from None

    @property
    def _tools(self) -> ToolRunner:
        """What runs tools, each within its own time."""
        return ToolRunner(LoopPolicy(), self._count)

    def _count(self, event: RunEvent) -> None:
        """Count a tool that was run."""
        if isinstance(event, ToolFinished) and (metrics := self.coordination.metrics) is not None:
            outcome = event.outcome
            seconds = outcome.result.execution_ms / 1000
            metrics.done(Activity.TOOL_EXECUTIONS, event.call.tool, succeeded=outcome.error is None, seconds=seconds)

    def _judging(self, effect: Judge) -> Generator[Check, Checked, ValidationResult]:
        """Judge a reply that was counted when it came."""
        return self.coordination.processor.judging(effect.reply, effect.agent, effect.branch, effect.state)

    def _asked(self, effect: AskAgent) -> Asked:
        """Ask through a sync client."""
        ask = self._prepared(effect)
        if isinstance(ask, ContentLoop):
            return ask
        try:
            return ask.counted(cast("StrictClient", effect.agent.client).exchange(**ask.keywords))
        except CallFailed as error:
            return ask.counted(error)

    async def _awaited(self, effect: AskAgent) -> Asked:
        """Ask through an async client."""
        ask = self._prepared(effect)
        if isinstance(ask, ContentLoop):
            return ask
        try:
            return ask.counted(await cast("AsyncStrictClient", effect.agent.client).exchange(**ask.keywords))
        except CallFailed as error:
            return ask.counted(error)

    def _prepared(self, effect: AskAgent) -> _Ask | ContentLoop:
        """Make the keywords of one exchange: the contract admits exactly what the agent may do now."""
        shared, agent = self.coordination, effect.agent
        answer = shared.processor.answer_kind(agent, effect.branch, effect.state)
        allowed, streak = answer.terms.permitted, streak_of(effect.state, agent.name)
        following = shared.content_limit.next(streak, actions=allowed.actions, tools=allowed.tools)
        if isinstance(following, ContentLoop):
            return following
        prompt = agent.prompt(answer.terms, shared.prompts)
        opening = shared.opening(answer, streak=streak.count if following.steer else 0)
        ours = {
            "contract": answer.contract,
            "policy": shared.budget(streak),
            "steering": shared.steering,
            "messages": [_behind(prompt, opening), *effect.state["threads"].get(agent.name, [])],
        }
        return _Ask(answer, {**agent.request, **ours})


@dataclass(frozen=True, slots=True)
class _Ask:
    """One exchange to be made: what its reply is held to, and its keywords."""

    answer: ActionAnswer
    keywords: JSONObject

    def counted(self, outcome: Exchange | CallFailed) -> Exchange | CallFailed:
        """Count every attempt (requirement M114), and give the outcome."""
        self.answer.count(outcome.attempts, outcome.reply if isinstance(outcome, Exchange) else None)
        return outcome


def _behind(prompt: Message, opening: str | None) -> Message:
    """Put a text behind a prompt."""
    return prompt if opening is None else {**prompt, "content": f"{prompt['content']}\n\n{opening}"}
