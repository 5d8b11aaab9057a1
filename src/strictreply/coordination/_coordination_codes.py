"""The codes of coordination beside the core's, and the two errors that carry them.

To add a fault of an agent's reply, of a declaration or of a state, add one member here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strictreply.values._errors import ContractError, StrictReplyError
from strictreply.values._issues import Category, Issue, Worded


class CategorisedCode(Worded):
    """A code of coordination; all of them are corrected, none ends a loop."""

    def at(self, path: str, *, hint: str = "", found: str = "", **words: object) -> Issue:
        """Report this fault at a JSON Pointer; ``words`` fill the template and never come from a reply or a state."""
        return Issue.of(self, path, hint=hint, found=found, **words)


_ACTION, _DENIED = Category.ACTION_ERROR, Category.PERMISSION_ERROR


class AgentReplyCode(CategorisedCode):
    """What the reply of an agent breaks, beside what the core's codes say of any reply."""

    ACTION_MISSING_FIELD = "action.missing_field", "is required"
    ACTION_UNKNOWN = "action.unknown", "no such action; the actions here are: {names}", _ACTION
    ACTION_NOT_PERMITTED = "action.not_permitted", "may not be used here; the actions are: {names}", _ACTION
    ACTION_NO_QUESTION = "action.no_question", "the question must not be blank", _ACTION
    ACTION_REQUEST_UNKNOWN = "action.request_unknown", "holds a request for an agent that is not in {names}"
    ACTION_REQUEST_MISPLACED = "action.request_misplaced", "must stand in {names}, beside the agent_name it is for"
    ACTION_CHECK_FAILED = "action.check_failed", "the check {name} failed on this action", Category.UNKNOWN

    TOPOLOGY_NOT_ALLOWED = "topology.not_allowed", "must be an agent that may follow; those are: {names}", _DENIED
    TOPOLOGY_MAY_NOT_FINISH = "topology.may_not_finish", "this agent may not finish; the actions are: {names}", _DENIED
    TOPOLOGY_NO_USER = "topology.no_user", "this agent may not ask the user; the actions are: {names}", _DENIED

    FORMAT_SYNTAX = "format.syntax", "not well-formed {name} at line {line} column {column}"
    FORMAT_MALFORMED = "format.malformed", "must be {expected}"
    FORMAT_CHANGED = "format.changed", "must be written in {name}, as this agent's replies before it"
    FORMAT_PROCESSOR_FAILED = "format.processor_failed", "the processor {name} failed on this reply"


class CoordinationCode(CategorisedCode):
    """What a declaration or a state breaks: a mistake of the application, for which nobody is asked again."""

    TOPOLOGY_MALFORMED = "topology.malformed", "must be {expected}"
    TOPOLOGY_BAD_NAME = "topology.bad_name", "an agent's name must be text that is not blank"
    TOPOLOGY_DUPLICATE_AGENT = "topology.duplicate_agent", "is declared twice"
    TOPOLOGY_DUPLICATE_EDGE = "topology.duplicate_edge", "is declared twice"
    TOPOLOGY_UNKNOWN_AGENT = "topology.unknown_agent", "names no declared agent"
    TOPOLOGY_RESERVED = "topology.reserved", "{reason}"
    TOPOLOGY_NO_ENTRY = "topology.no_entry", "cannot be inferred from the edges; pass entry=, or give User an edge"
    TOPOLOGY_UNREACHABLE = "topology.unreachable", "cannot be reached from the entry: {entries}"
    TOPOLOGY_NO_FINISH = "topology.no_finish", "no agent has an edge to User or End, so no run could finish"
    TOPOLOGY_UNKNOWN_PAIR = "topology.unknown_pair", "is marked as a conversation, but has no edge"

    ROUTES_BAD_NAME = "routes.bad_name", "must be text, not blank, without spaces around it"
    ROUTES_DUPLICATE = "routes.duplicate", "is declared twice"
    ROUTES_MISSING_NODE = "routes.missing_node", "must be among the nodes"
    ROUTES_BAD_RULE = "routes.bad_rule", "must be {expected}"
    ROUTES_BAD_LIMIT = "routes.bad_limit", "must be {expected}"
    ROUTES_NO_WEIGHT = "routes.no_weight", "at least one strategy needs a weight above 0"

    STATE_NOT_OBJECT = "state.not_object", "must be a mapping of text to values"
    STATE_MISSING_FIELD = "state.missing_field", "is required"
    STATE_WRONG_TYPE = "state.wrong_type", "must be {expected}"
    STATE_NEGATIVE = "state.negative", "must be 0 or more"
    STATE_BLANK = "state.blank", "must not be blank"
    STATE_UNKNOWN_NODE = "state.unknown_node", "must be null or one of {nodes}"
    STATE_UNKNOWN_WORD = "state.unknown_word", "must be one of {expected}"
    STATE_NOT_JSON = "state.not_json", "must be plain JSON that reads back equal"


class DeclarationError(ContractError):
    """A topology or a route table is declared wrongly; ``issues`` holds every fault found, at least one."""

    def __init__(self, what: str, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__(_listed(f"{what} is declared wrongly", self.issues))


class StateError(StrictReplyError, ValueError):
    """A state, or an update, lacks what routing needs; ``issues`` holds all faults, ``str()`` no value of the state."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__(_listed("the state cannot be used", self.issues))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.issues,)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON."""
        return super().to_dict() | {"issues": [issue.to_dict() for issue in self.issues]}


MAX_LISTED = 12


def _listed(headline: str, issues: tuple[Issue, ...]) -> str:
    lines = [f"  {issue.place}: {issue.message}{issue.hint and f'; {issue.hint}'}" for issue in issues[:MAX_LISTED]]
    more = [f"  and {len(issues) - MAX_LISTED} more"] if len(issues) > MAX_LISTED else []
    return "\n".join([f"{headline}:", *lines, *more])
