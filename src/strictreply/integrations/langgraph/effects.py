"""What a turn wants done, and the two ways of doing it: the only place where a model, a tool or a human is met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import anyio

from strictreply.client import AsyncStrictClient, Exchange, StrictClient
from strictreply.contract import Contract
from strictreply.coordination.actions.branches import Branch
from strictreply.errors import CallFailed, ToolExecutionError
from strictreply.integrations.langgraph.agents import ChatAgent
from strictreply.integrations.langgraph.following import Coordination
from strictreply.integrations.langgraph.states import RunState
from strictreply.toolloop import RunTool
from strictreply.typing import JSONObject, Message


@dataclass(frozen=True, slots=True)
class AskAgent:
    """Effect: ask an agent for its next action; answered with the exchange, or with the CallFailed that ended it."""

    agent: ChatAgent
    branch: Branch
    thread: list[Message]


@dataclass(frozen=True, slots=True)
class Judge:
    """Effect: hold a reply to what its agent may do; answered with a ValidationResult."""

    agent: ChatAgent
    branch: Branch
    reply: object


@dataclass(frozen=True, slots=True)
class AskHuman:
    """Effect: interrupt the run until somebody answers; answered with what they said."""

    question: JSONObject


@dataclass(frozen=True, slots=True)
class RunBranch:
    """Effect: run a parallel branch to its end; answered with its last state."""

    state: RunState


Effect: TypeAlias = AskAgent | Judge | AskHuman | RunBranch | RunTool


@dataclass(frozen=True, slots=True)
class Performer:
    """Performs effects; ``interrupt`` is LangGraph's, ``lines`` gives the graph that branches run in."""

    coordination: Coordination
    interrupt: Callable[[JSONObject], Any]
    lines: Callable[[], Any]

    def perform(self, effect: Effect) -> Any:
        """Do what a turn wants."""
        match effect:
            case AskAgent():
                return self._asked(effect)
            case Judge(agent=agent, branch=branch, reply=reply):
                return self.coordination.processor.validate(reply, agent, branch)
            case RunTool(tool=tool, call=call):
                try:
                    return tool.run(call.args, call_id=call.id)
                except ToolExecutionError as error:
                    return error
            case AskHuman(question=question):
                return self.interrupt(question)
            case _:
                return self.lines().invoke(effect.state)

    async def aperform(self, effect: Effect) -> Any:
        """Do what a turn wants, awaiting."""
        match effect:
            case AskAgent(agent=agent) if agent.is_async:
                return await self._awaited(effect)
            case AskAgent():
                return await anyio.to_thread.run_sync(partial(self._asked, effect))
            case Judge(agent=agent, branch=branch, reply=reply):
                return await self.coordination.processor.process_response(reply, agent, branch)
            case RunTool(tool=tool, call=call):
                try:
                    return await tool.arun(call.args, call_id=call.id)
                except ToolExecutionError as error:
                    return error
            case RunBranch(state=state):
                return await self.lines().ainvoke(state)
            case _:
                return self.interrupt(effect.question)

    def _asked(self, effect: AskAgent) -> Exchange | CallFailed:
        """Ask through a sync client."""
        try:
            return cast("StrictClient", effect.agent.client).exchange(**self._request(effect))
        except CallFailed as error:
            return error

    async def _awaited(self, effect: AskAgent) -> Exchange | CallFailed:
        """Ask through an async client."""
        try:
            return await cast("AsyncStrictClient", effect.agent.client).exchange(**self._request(effect))
        except CallFailed as error:
            return error

    def _request(self, effect: AskAgent) -> JSONObject:
        """Make the keywords of one exchange: the contract admits exactly what the agent may do now."""
        shared = self.coordination
        answer = shared.processor.answer_kind(effect.agent, effect.branch)
        prompt = effect.agent.prompt(answer.terms, shared.prompts)
        ours = {
            "contract": Contract(tools=answer.terms.tools.tools.values(), answer=answer, parallel=True),
            "policy": shared.router.policy.budget,
            "steering": shared.steering,
            "messages": [prompt, *effect.thread],
        }
        return {**effect.agent.request, **ours}
