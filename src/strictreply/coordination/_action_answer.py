"""The one judgement of a reply, and the same as the answer of a contract.

The processor judges by it what it is given, a wrapped client's loop what a model replied: the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from strictreply.contract._answer import Answer
from strictreply.contract._contract import Contract
from strictreply.coordination._action_rules import judge_action, refused, system_result
from strictreply.coordination._actions import ActionType, Origin, Source, ValidationResult
from strictreply.coordination._coordination_codes import AgentReplyCode
from strictreply.coordination._permissions import ActionTerms
from strictreply.coordination._processors import ProcessorChain, ReplyView, read_message, read_reply
from strictreply.coordination._runs.run_state import S, changed
from strictreply.coordination._validation_metrics import Watch
from strictreply.coordination.formats._action_formats import BaseResponseFormat
from strictreply.values._attempts import Attempt
from strictreply.values._issues import Issue
from strictreply.values._json import JSON, Extraction
from strictreply.values._limits import Work
from strictreply.values._replies import AssistantReply, DirectAnswer, Invalid, ToolCall, ToolCalls, Valid, Verdict
from strictreply.wires._chat import peek


def format_in(exec_state: object, agent: str) -> str | None:
    """Return the format that an agent began a conversation in, None when the state says nothing of it."""
    known = _formats(exec_state).get(agent)
    return known if isinstance(known, str) else None


def with_reply_format(state: S, agent: str, result: ValidationResult) -> S:
    """Remember the format of an agent's first valid reply, for the verdicts that are given this state (M119).

    Native calls are in no format. The state is left as it was when there is nothing to remember.
    """
    spoken = result.source.response_format if result.is_valid else ""
    if not spoken or format_in(state, agent) is not None:
        return state
    return changed(state, reply_formats={**_formats(state), agent: spoken})


def place_in(exec_state: object) -> tuple[JSON, ...]:
    """Return where a conversation stands: its id, and how far it has come; empty when the state says nothing of it."""
    conversation, count, messages = (peek(exec_state, key) for key in ("conversation_id", "loop_count", "messages"))
    known: tuple[JSON, ...] = (
        conversation if isinstance(conversation, str) else "",
        count if isinstance(count, int) else 0,
        len(cast("list[object]", messages)) if isinstance(messages, list) else 0,
    )
    return known if any(known) else ()


def _formats(state: object) -> Mapping[str, object]:
    formats = peek(state, "reply_formats")
    return cast("Mapping[str, object]", formats) if isinstance(formats, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All that a verdict follows from, beside the reply; the tools' own checks are still to be asked after it.

    ``terms`` are what the reply is held to, ``chain`` reads it, ``extraction`` is what the reader forgives. ``pinned``
    is the format that the agent began this conversation in, None when it has not replied yet; with ``locked`` another
    one is a fault, without it a note.
    """

    terms: ActionTerms
    chain: ProcessorChain
    extraction: tuple[Extraction, ...] = ("strict",)
    pinned: str | None = None
    locked: bool = False

    def of_reply(self, raw: object) -> ValidationResult:
        """Judge whatever came instead of an action."""
        return self.of_reading(lambda: read_reply(raw, self.extraction, self.terms.tools.limits))

    def of_message(self, message: object) -> ValidationResult:
        """Judge an assistant message whose envelope was opened before."""
        return self.of_reading(lambda: read_message(message, self.extraction, self.terms.tools.limits))

    def of_reading(self, read: Callable[[], ReplyView | Invalid]) -> ValidationResult:
        """Judge what a function reads; one that raises, because it runs foreign code, reads nothing (M4)."""
        found = self.chain.candidate(read)
        if isinstance(found, Invalid):
            return refused(found.issues, self.terms, Source(leniency=found.leniency))
        source = found.source
        changes: tuple[Issue, ...] = ()
        if source.response_format and self.pinned not in (None, source.response_format):  # requirements M119, X6
            changes = (AgentReplyCode.FORMAT_CHANGED.at("", name=self.pinned),)
            source = replace(source, notes=(*source.notes, *changes))
        if found.origin is Origin.SYSTEM:
            return system_result(found.action, self.terms, source)
        if changes and self.locked:
            return refused(changes, self.terms, source)
        return judge_action(found.action, self.terms, source)


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
        return self.terms.tools.replace(answer=self)

    def judge_message(self, message: object) -> Verdict:
        """Judge a whole message: native calls stay the core's, any other action is the answer."""
        result = self.judgement.of_message(message)
        native = bool(peek(message, "tool_calls"))
        if not result.is_valid:
            return _placed(result, "" if native else "/content")
        reply: AssistantReply = DirectAnswer(result)
        if native and result.calls:
            reply = result.calls[0] if len(result.calls) == 1 else ToolCalls(result.calls)
        return Valid(reply, result.source.leniency)

    def judge(self, value: JSON, at: str, work: Work | None = None) -> ValidationResult | Invalid:  # noqa: ARG002 - it counts its own
        """Judge a value that stands in the text channel's ``answer``: an object, or the text of another format."""
        limits = self.terms.tools.limits
        view = ReplyView(reply=value, limits=limits)
        if isinstance(value, dict):
            view = ReplyView(mapping=value, limits=limits)
        elif isinstance(value, str) and self.schema is None:  # where actions are objects, the text of one is none
            view = ReplyView(text=value, extraction=self.judgement.extraction, limits=limits)
        result = self.judgement.of_reading(lambda: view)
        return result if result.is_valid else _placed(result, at)

    def calls_in(self, answer: Any) -> tuple[ToolCall, ...]:
        """Return the calls of an action that is written in a format, for the tools' own checks."""
        calls: tuple[ToolCall, ...] = answer.calls
        return calls

    def count(self, attempts: Iterable[Attempt], reply: AssistantReply | None = None) -> None:
        """Report every attempt of an exchange to the processor's watch; ``reply`` is the accepted one, if any."""
        action: ActionType | None = None if reply is None else ActionType.CALL_TOOL
        if isinstance(reply, DirectAnswer):
            action = reply.answer.action_type
        for attempt in attempts:
            self.watch.attempted(self.terms.permitted.agent, attempt, action if attempt.accepted else None)


def _placed(result: ValidationResult, at: str) -> Invalid:
    issues = tuple(replace(issue, path=at + issue.path) for issue in result.issues)
    return Invalid(issues, result.source.leniency)
