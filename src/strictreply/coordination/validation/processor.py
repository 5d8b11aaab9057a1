"""The one way from an agent's raw reply to an action: read by a processor, held to the topology and its shape.

Nothing is executed here, and no agent is trusted more than another: there is no way round the judgement.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from strictreply.checking import Check, Checked, aperform_check, perform_check
from strictreply.coordination.actions.branches import Branch
from strictreply.coordination.actions.kinds import ActionType, Origin
from strictreply.coordination.actions.permissions import permitted, read_leave
from strictreply.coordination.actions.terms import ActionCheck, ActionTerms, Checks
from strictreply.coordination.actions.toolsets import Declared, Toolsets
from strictreply.coordination.formats.interface import BaseResponseFormat
from strictreply.coordination.formats.registry import format_of
from strictreply.coordination.replies.processors import (
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    ToolCallProcessor,
)
from strictreply.coordination.replies.readings import read_reply
from strictreply.coordination.replies.results import Source, ValidationResult
from strictreply.coordination.topology.graph import Topology
from strictreply.coordination.validation.answering import ActionAnswer, answer_kind
from strictreply.coordination.validation.journal import Redact, log_validation
from strictreply.coordination.validation.judging import checked_result, judge_action, refused, system_result
from strictreply.coordination.validation.metrics import ValidationMetrics
from strictreply.driving import adrive, drive
from strictreply.errors import ContractError
from strictreply.issues import Code, Issue
from strictreply.limits import DEFAULT_LIMITS, Limits
from strictreply.replies import Invalid
from strictreply.typing import Extraction

__all__ = ["ActionType", "Agent", "ValidationProcessor", "ValidationResult"]


_SIMPLE = Branch()


@runtime_checkable
class Agent(Protocol):
    """An agent as far as it matters here; one that has ``tools``, a list or a mapping, is held to those."""

    @property
    def name(self) -> str:
        """The name that the topology knows it by."""
        ...


class ValidationProcessor:
    """Judges every reply of every agent of a topology.

    Its settings are values; what it keeps is which format each agent replies in, and compiled tools. It may be used by
    several threads and tasks at once.
    """

    def __init__(
        self,
        topology_graph: Topology,
        response_format: str | BaseResponseFormat = "json",
        *,
        tools: Declared | Mapping[str, Declared] = (),
        leave: Iterable[ActionType | str] = (),
        lock_format: bool = False,
        extraction: Extraction | Iterable[Extraction] = "strict",
        limits: Limits = DEFAULT_LIMITS,
        metrics: ValidationMetrics | None = None,
        log_replies: Redact | None = None,
    ) -> None:
        """Hold replies to ``topology_graph``, written in ``response_format``, a registered name or a format.

        ``tools`` are those of every agent, or by the agent's name; an agent's own ``tools`` go before them. ``leave``
        names actions that are permitted only expressly: ``terminal_error``, ``terminate_workflow``. With
        ``lock_format`` an agent that has replied in one format is refused in another; without it that is a note.
        ``extraction`` names the leniencies of the core's reader. Every verdict is counted in ``metrics``, and logged at
        DEBUG, with the raw reply only when ``log_replies`` says what of it may be logged.

        Raises ContractError (a ValueError) for an unknown format, with those there are, for an action that cannot be
        permitted, and for what declares no tool.
        """
        self._topology = topology_graph
        self._format = format_of(response_format)
        self._toolsets = Toolsets(topology_graph, tools, limits)
        self._leave = read_leave(leave)
        self._locks = lock_format
        self._extraction: tuple[Extraction, ...] = (extraction,) if isinstance(extraction, str) else tuple(extraction)
        self._limits = limits
        self._metrics = metrics
        self._log_replies = log_replies
        self._checks: Checks = MappingProxyType({})
        self._replies_in: dict[str, str] = {}
        built_in = (ErrorMessageProcessor(), ToolCallProcessor(), self._format.create_processor())
        self._chain = ProcessorChain(built_in)

    @property
    def processors(self) -> tuple[ResponseProcessor, ...]:
        """The processors in the order they are asked."""
        return self._chain.processors

    def register_processor(self, processor: ResponseProcessor) -> None:
        """Ask one more processor from now on, behind those of its priority; ContractError for what is none."""
        self._chain = self._chain.with_processor(processor)

    def register_action_validator(self, action: ActionType | str, check: ActionCheck) -> None:
        """Run a check on every action of this kind that is right so far; it can refuse one, never let one through.

        It is given a copy of the action and what is permitted; it returns issues or None, or raises ValueError. Raises
        ContractError when ``action`` is none, or ``check`` is async.
        """
        if action not in set(ActionType):
            raise ContractError(f"{action!r} is no action; the actions are: {', '.join(ActionType)}")
        if inspect.iscoroutinefunction(check) or not callable(check):
            raise ContractError("an action validator is a function that is not async")
        kind = ActionType(action)
        self._checks = MappingProxyType({**self._checks, kind: (*self._checks.get(kind, ()), check)})

    async def process_response(
        self,
        raw_response: object,
        agent: str | Agent,
        branch: Branch | None = None,
        exec_state: object = None,  # noqa: ARG002 - the published signature; a verdict depends on no run's state
    ) -> ValidationResult:
        """Judge a reply of ``agent`` in ``branch``; never raises on what the reply holds.

        ``raw_response`` is a mapping with the action, a text, a message or a completion as a mapping or an SDK object,
        or an error message (an object with the role ``error``). ``branch`` None is a simple one. The tools' own checks
        run last and may be async.

        Raises ContractError for an agent that is none of the topology's.
        """
        return await adrive(self._judge(raw_response, self.terms(agent, branch)), aperform_check)

    async def validate_response(
        self,
        response: object,
        agent_name: str | Agent,
        allowed_agents: Iterable[str] | None = None,
        branch: Branch | None = None,
    ) -> ValidationResult:
        """Judge a reply like :meth:`process_response`; ``allowed_agents`` can only narrow what the topology allows."""
        terms = self.terms(agent_name, branch, allowed_agents=allowed_agents)
        return await adrive(self._judge(response, terms), aperform_check)

    def validate(
        self,
        response: object,
        agent: str | Agent,
        branch: Branch | None = None,
        *,
        allowed_agents: Iterable[str] | None = None,
    ) -> ValidationResult:
        """Judge a reply like :meth:`validate_response` without awaiting; ContractError when a tool's check is async."""
        return drive(self._judge(response, self.terms(agent, branch, allowed_agents=allowed_agents)), perform_check)

    def terms(
        self, agent: str | Agent, branch: Branch | None = None, *, allowed_agents: Iterable[str] | None = None
    ) -> ActionTerms:
        """Compile what a reply of an agent in a branch is held to."""
        name: object = agent if isinstance(agent, str) else getattr(agent, "name", None)
        if not isinstance(name, str):
            raise ContractError(f"an agent is a name, or an object with one, not {type(agent).__name__}")
        own: Declared | None = None if isinstance(agent, str) else getattr(agent, "tools", None)
        tools = self._toolsets.of(name, own)
        allowed = permitted(
            self._topology,
            name,
            branch=branch,
            tools=tools.tools,
            leave=self._leave,
            allowed_agents=allowed_agents,
        )
        return ActionTerms(allowed, tools, branch or _SIMPLE, self._format.extra, self._checks)

    def answer_kind(self, agent: str | Agent, branch: Branch | None = None) -> ActionAnswer:
        """Give the kind of answer that holds a wrapped client's replies to the same rules; see :func:`answer_kind`."""
        return answer_kind(self.terms(agent, branch), self._format)

    def _judge(self, raw: object, terms: ActionTerms) -> Generator[Check, Checked, ValidationResult]:
        """Judge a reply, and tell those who watch."""
        result = yield from self._judged(raw, terms)
        agent = terms.permitted.agent
        if self._metrics is not None:
            self._metrics.validated(agent, result)
        log_validation(agent, result, raw=raw, redact=self._log_replies)
        return result

    def _judged(self, raw: object, terms: ActionTerms) -> Generator[Check, Checked, ValidationResult]:
        """Read a reply, and hold what it asks for to its terms."""
        reading = read_reply(raw, self._extraction, self._limits)
        found = reading if isinstance(reading, Invalid) else self._chain.process(reading)
        if isinstance(found, Invalid):
            return refused(found.issues, terms, Source(leniency=found.leniency))
        changed = self._changed_format(found.source.response_format, terms.permitted.agent)
        source = replace(found.source, notes=(*found.source.notes, *changed)) if changed else found.source
        if found.origin is Origin.SYSTEM:
            return system_result(found.action, terms, source)
        if changed and self._locks:
            return refused(changed, terms, source)
        result = yield from checked_result(judge_action(found.action, terms, source), terms)
        if result.is_valid and source.response_format:
            self._replies_in.setdefault(terms.permitted.agent, source.response_format)
        return result

    def _changed_format(self, now: str, agent: str) -> tuple[Issue, ...]:
        """Report a reply in another format than the agent's first valid one (requirements M119, X6)."""
        before = self._replies_in.get(agent)
        if not now or before in (None, now):
            return ()
        return (Issue.of(Code.FORMAT_CHANGED, name=before),)
