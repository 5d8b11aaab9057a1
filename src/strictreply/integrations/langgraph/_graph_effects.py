"""The effects that a turn of a graph yields, and the performer that carries them out.

This is the only place where a model is asked, a tool is run and a human is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import anyio

from strictreply.client._client import AsyncStrictClient, Exchange, StrictClient
from strictreply.contract._contract import Check, Checked, aperform_check, perform_check
from strictreply.contract._driving import adrive, drive
from strictreply.coordination._actions import Branch, ValidationResult
from strictreply.coordination._error_policy import ContentLoop
from strictreply.coordination._runs.run_counting import Activity
from strictreply.coordination.validation import ActionAnswer
from strictreply.integrations._extras import load
from strictreply.integrations.langgraph._graph_settings import ChatAgent, GraphSettings
from strictreply.integrations.langgraph._graph_state import RunState, streak_of
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._turn_effects import RunTools
from strictreply.running._run_values import RunEvent, ToolFinished
from strictreply.running._turn_performing import ToolRunner
from strictreply.values._errors import CallFailed, ContractError
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True)
class AskAgent:
    """Effect: ask an agent for its next action; the answer is the exchange, or the CallFailed that ended it.

    The answer is a ContentLoop when the agent is not asked any more.
    """

    agent: ChatAgent
    branch: Branch
    state: RunState


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """Effect: judge once more whether its agent may take the action of a reply; the answer is a ValidationResult."""

    agent: ChatAgent
    branch: Branch
    reply: object
    state: RunState


@dataclass(frozen=True, slots=True)
class AskHuman:
    """Effect: interrupt the run until somebody answers; the answer is what they said.

    ``refused`` is what was wrong with the answer before: it is raised in the place of another interrupt.
    """

    question: JSONObject
    refused: ContractError | None = None


@dataclass(frozen=True, slots=True)
class RunBranch:
    """Effect: run a parallel branch to its end; the answer is its last state."""

    state: RunState


GraphEffect: TypeAlias = AskAgent | JudgeReply | AskHuman | RunBranch | RunTools
TurnFlow: TypeAlias = Generator[GraphEffect, Any, RunState]


@dataclass(frozen=True, slots=True)
class GraphPerformer:
    """Performs effects; ``interrupt`` is LangGraph's, ``compiled`` returns the graph that branches run in."""

    settings: GraphSettings
    interrupt: Callable[[JSONObject], Any]
    compiled: Callable[[], Any]

    def perform(self, effect: GraphEffect) -> Any:
        """Perform an effect of a sync run."""
        match effect:
            case AskAgent(agent=agent) if agent.is_async:
                raise ContractError(f"agent {agent.name!r} has an async client: use ainvoke or astream")
            case AskAgent():
                return self._ask(effect)
            case JudgeReply():
                return drive(self._judge(effect), perform_check)
            case RunTools(runs=runs):
                return self._tools.run_all(runs)
            case RunBranch(state=state):
                return self.compiled().invoke(state)
            case _:
                return self._ask_human(effect)

    async def aperform(self, effect: GraphEffect) -> Any:
        """Perform an effect of an async run; sync clients are asked in a thread."""
        match effect:
            case AskAgent(agent=agent) if agent.is_async:
                return await self._aask(effect)
            case AskAgent():
                return await anyio.to_thread.run_sync(partial(self._ask, effect))
            case JudgeReply():
                return await adrive(self._judge(effect), aperform_check)
            case RunTools(runs=runs):
                return await self._tools.arun_all(runs)
            case RunBranch(state=state):
                return await self.compiled().ainvoke(state)
            case _:
                return self._ask_human(effect)

    def _ask_human(self, effect: AskHuman) -> Any:
        # The checkpoint keeps every answer, refused ones too: a turn that is run again is given them in their order,
        # and interrupts only behind the last one.
        try:
            return self.interrupt(effect.question)
        except load("langgraph.errors").GraphInterrupt:
            if effect.refused is None:
                raise
            raise effect.refused from None

    @property
    def _tools(self) -> ToolRunner:
        return ToolRunner(LoopPolicy(), self._count_tool)

    def _count_tool(self, event: RunEvent) -> None:
        if isinstance(event, ToolFinished) and (metrics := self.settings.metrics) is not None:
            outcome = event.outcome
            seconds = outcome.result.execution_ms / 1000
            metrics.done(Activity.TOOL_EXECUTIONS, event.call.tool, succeeded=outcome.error is None, seconds=seconds)

    def _judge(self, effect: JudgeReply) -> Generator[Check, Checked, ValidationResult]:
        # ``judging`` does not count the reply: that was done when it came.
        return self.settings.processor.judging(effect.reply, effect.agent, effect.branch, effect.state)

    def _ask(self, effect: AskAgent) -> Exchange | CallFailed | ContentLoop:
        ask = self._prepared(effect)
        if isinstance(ask, ContentLoop):
            return ask
        try:
            return ask.counted(cast("StrictClient", effect.agent.client).exchange(**ask.keywords))
        except CallFailed as error:
            return ask.counted(error)

    async def _aask(self, effect: AskAgent) -> Exchange | CallFailed | ContentLoop:
        ask = self._prepared(effect)
        if isinstance(ask, ContentLoop):
            return ask
        try:
            return ask.counted(await cast("AsyncStrictClient", effect.agent.client).exchange(**ask.keywords))
        except CallFailed as error:
            return ask.counted(error)

    def _prepared(self, effect: AskAgent) -> _Ask | ContentLoop:
        """Prepare one exchange, whose contract admits exactly what the agent may do now."""
        shared, agent = self.settings, effect.agent
        answer = shared.processor.answer_kind(agent, effect.branch, effect.state)
        allowed, streak = answer.terms.permitted, streak_of(effect.state, agent.name)
        following = shared.content_limit.next(streak, actions=allowed.actions, tools=allowed.tools)
        if isinstance(following, ContentLoop):
            return following
        prompt = agent.prompt(answer.terms, shared.prompts)
        opening = shared.opening(answer, streak=streak.count if following.steer else 0)
        if opening is not None:
            prompt = {**prompt, "content": f"{prompt['content']}\n\n{opening}"}
        ours = {
            "contract": answer.contract,
            "policy": shared.budget(streak),
            "steering": shared.steering,
            "messages": [prompt, *effect.state["threads"].get(agent.name, [])],
        }
        return _Ask(answer, {**agent.request, **ours})


@dataclass(frozen=True, slots=True)
class _Ask:
    """The contract of one exchange, and its keywords."""

    answer: ActionAnswer
    keywords: JSONObject

    def counted(self, outcome: Exchange | CallFailed) -> Exchange | CallFailed:
        """Count every attempt (requirement M114), and return the outcome."""
        self.answer.count(outcome.attempts, outcome.reply if isinstance(outcome, Exchange) else None)
        return outcome
