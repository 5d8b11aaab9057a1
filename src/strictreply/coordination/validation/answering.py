"""Actions as the answer of a contract: a wrapped client's own loop holds a reply to what an agent may do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from strictreply.answers import Answer
from strictreply.checking import perform_check
from strictreply.coordination.actions.shapes import closing, union_document
from strictreply.coordination.actions.terms import ActionTerms
from strictreply.coordination.formats.interface import BaseResponseFormat
from strictreply.coordination.formats.json_format import JSONResponseFormat
from strictreply.coordination.formats.registry import format_of
from strictreply.coordination.replies.processors import ProcessorChain
from strictreply.coordination.replies.readings import Reading
from strictreply.coordination.replies.results import ValidationResult
from strictreply.coordination.validation.judging import checked_result, judge_action
from strictreply.driving import drive
from strictreply.errors import ContractError
from strictreply.issues import Code, Issue, quote
from strictreply.replies import Invalid
from strictreply.schema import Schema
from strictreply.typing import JSON, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    """An answer that is an action: :meth:`judge` gives a valid :class:`ValidationResult`.

    ``terms`` are what it is held to. ``chain`` reads it from text; None in the JSON format, where the core reads the
    value and ``schema`` describes it.
    """

    terms: ActionTerms
    chain: ProcessorChain | None = None

    def judge(self, value: JSON, at: str) -> ValidationResult | Invalid:
        """Give the action that ``value`` spells, or what is wrong with it.

        Raises ContractError when the check of a tool that it calls is async: native calls may have such.
        """
        action = self._read(value, at)
        if isinstance(action, Invalid):
            return action
        result = drive(checked_result(judge_action(action, self.terms), self.terms), perform_check)
        return result if result.is_valid else _placed(result.issues, at)

    def _read(self, value: JSON, at: str) -> JSONObject | Invalid:
        """Read an action that is still to be judged."""
        if self.chain is None:
            not_object = Issue.of(Code.SHAPE_NOT_OBJECT, at, found=quote(value))
            return value if isinstance(value, dict) else Invalid((not_object,))
        found = self.chain.process(Reading(text=str(value), limits=self.terms.tools.limits))
        return _placed(found.issues, at) if isinstance(found, Invalid) else found.action


def answer_kind(terms: ActionTerms, response_format: str | BaseResponseFormat = "json") -> ActionAnswer:
    """Make the answer of a contract that admits exactly the actions of ``terms``.

    A client's ``exchange(contract=Contract(answer=answer_kind(terms), tools=…, parallel=True), …)`` then gives
    ``DirectAnswer(ValidationResult)`` for an action, and the core's calls for native ones.

    Raises ContractError when nothing is permitted, or the format is unknown.
    """
    if not terms.permitted.actions:
        raise ContractError(f"{terms.permitted.agent!r} may do nothing: review its edges and tools")
    written = format_of(response_format)
    if isinstance(written, JSONResponseFormat):
        schema = Schema.compile(union_document(terms.permitted), extra=closing(terms.extra), root_closed=False)
        return ActionAnswer(schema, name="action", terms=terms)
    return ActionAnswer(terms=terms, chain=ProcessorChain([written.create_processor()]))


def _placed(issues: tuple[Issue, ...], at: str) -> Invalid:
    """Set the faults of an action below the place where it stands."""
    return Invalid(tuple(replace(issue, path=at + issue.path) for issue in issues))
