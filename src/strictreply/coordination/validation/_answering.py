"""Actions as the answer of a contract: a wrapped client's own loop holds a reply to what an agent may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from strictreply.contract._answer import Answer
from strictreply.contract._contract import Contract
from strictreply.coordination._actions.kinds import ActionType
from strictreply.coordination._actions.shapes import closing, union_document
from strictreply.coordination._actions.terms import ActionTerms
from strictreply.coordination._replies.readings import Reading
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination.formats._interface import BaseResponseFormat
from strictreply.coordination.formats._json_format import JSONResponseFormat
from strictreply.coordination.validation._journal import Watch
from strictreply.coordination.validation._judgement import Judgement
from strictreply.schema import Schema
from strictreply.values._attempts import Attempt
from strictreply.values._errors import ContractError
from strictreply.values._issues import Issue
from strictreply.values._json import JSON
from strictreply.values._limits import Work
from strictreply.values._replies import AssistantReply, DirectAnswer, Invalid, ToolCall, ToolCalls, Valid, Verdict
from strictreply.wires._chat import peek


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    """An answer that is an action, as :meth:`ValidationProcessor.answer_kind` makes it.

    ``judgement`` is the processor's own, so that a client's loop gives the same verdicts. ``schema`` describes the
    action where it is written in JSON, and is None in another format. ``written`` is the format that the agent is to
    reply in, ``watch`` is told of every attempt.
    """

    judgement: Judgement
    written: BaseResponseFormat
    watch: Watch = field(default_factory=Watch)

    @property
    def terms(self) -> ActionTerms:
        """What an action is held to."""
        return self.judgement.terms

    @property
    def contract(self) -> Contract:
        """The contract of a client's exchange that admits exactly this: actions, and calls of the agent's tools."""
        tools = self.terms.tools
        return Contract(tools=tools.tools, answer=self, parallel=True, limits=tools.limits)

    def judge_message(self, message: object) -> Verdict:
        """Judge a whole message: native calls stay the core's, any other action is the answer."""
        result = self.judgement.of_message(message)
        native = bool(peek(message, "tool_calls"))
        if not result.is_valid:
            return Invalid(_placed(result.issues, "" if native else "/content"), result.source.leniency)
        reply = _called(result.calls) if native and result.calls else DirectAnswer(result)
        return Valid(reply, result.source.leniency)

    def judge(self, value: JSON, at: str, work: Work | None = None) -> ValidationResult | Invalid:  # noqa: ARG002 - it counts its own
        """Judge a value that stands in the text channel's ``answer``: an object, or the text of another format."""
        result = self.judgement.of_reading(self._reading(value))
        return result if result.is_valid else Invalid(_placed(result.issues, at), result.source.leniency)

    def calls_in(self, answer: Any) -> tuple[ToolCall, ...]:
        """Give the calls of an action that is written in a format, for the tools' own checks."""
        calls: tuple[ToolCall, ...] = answer.calls
        return calls

    def count(self, attempts: Iterable[Attempt], reply: AssistantReply | None = None) -> None:
        """Tell the processor's watch of every attempt of an exchange; ``reply`` is the accepted one, None for none."""
        action = None if reply is None else _action_of(reply)
        for attempt in attempts:
            self.watch.attempted(self.terms.permitted.agent, attempt, action if attempt.accepted else None)

    def _reading(self, value: JSON) -> Reading:
        """Look at a value; where an action is an object, the text of one is none."""
        extraction, limits = self.judgement.extraction, self.judgement.limits
        if isinstance(value, dict):
            return Reading(mapping=value, limits=limits)
        if isinstance(value, str) and self.schema is None:
            return Reading(text=value, extraction=extraction, limits=limits)
        return Reading(reply=value, limits=limits)


def action_answer(judgement: Judgement, written: BaseResponseFormat, watch: Watch) -> ActionAnswer:
    """Make the answer of a contract that admits exactly what a judgement does.

    Raises ContractError when nothing is permitted.
    """
    allowed = judgement.terms.permitted
    if not allowed.actions:
        raise ContractError(f"{allowed.agent!r} may do nothing: review its edges and tools")
    if not isinstance(written, JSONResponseFormat):
        return ActionAnswer(judgement=judgement, written=written, watch=watch)
    schema = Schema.compile(union_document(allowed), extra=closing(judgement.terms.extra), root_closed=False)
    return ActionAnswer(schema, name="action", judgement=judgement, written=written, watch=watch)


def _called(calls: tuple[ToolCall, ...]) -> AssistantReply:
    """Give native calls as the core does."""
    return calls[0] if len(calls) == 1 else ToolCalls(calls)


def _action_of(reply: AssistantReply) -> ActionType | None:
    """Tell what an accepted reply asks for."""
    return reply.answer.action_type if isinstance(reply, DirectAnswer) else ActionType.CALL_TOOL


def _placed(issues: tuple[Issue, ...], at: str) -> tuple[Issue, ...]:
    """Set the faults of an action below the place where it stands."""
    return tuple(replace(issue, path=at + issue.path) for issue in issues)
