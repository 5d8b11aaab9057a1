"""What can be wrong with a topology, a route table or a state: one table of codes, and the two errors that carry them.

These are faults of an application, not of a reply: nobody is asked again for them, so they have no remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strictreply.values._errors import ContractError, StrictReplyError
from strictreply.values._issues import Category, Issue, Worded


class Fault(Worded):
    """What a declaration or a state breaks; the value is the code of its issue.

    ``template`` holds the words; the names in braces are filled from the declaration, never from a state's values.
    """

    TOPOLOGY_MALFORMED = "topology.malformed", "must be {expected}"
    TOPOLOGY_BAD_NAME = "topology.bad_name", "an agent's name must be text that is not blank"
    TOPOLOGY_DUPLICATE_AGENT = "topology.duplicate_agent", "is declared twice"
    TOPOLOGY_DUPLICATE_EDGE = "topology.duplicate_edge", "is declared twice"
    TOPOLOGY_UNKNOWN_AGENT = "topology.unknown_agent", "names no declared agent"
    TOPOLOGY_RESERVED = "topology.reserved", "{reason}"
    TOPOLOGY_NO_ENTRY = "topology.no_entry", "cannot be told from the edges: say entry=, or give User an edge"
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

    def at(self, path: str, *, hint: str = "", found: str = "", **words: object) -> Issue:
        """Report this fault at a JSON Pointer; ``words`` fill the template and come from a declaration."""
        return Issue(self.value, Category.FORMAT_ERROR, path, self.template.format(**words), hint, found)


class DeclarationError(ContractError):
    """A topology or a route table is declared wrongly; ``issues`` holds every fault found, at least one."""

    def __init__(self, what: str, issues: Iterable[Issue]) -> None:
        """Name what is declared and all that is wrong with it."""
        self.issues = tuple(issues)
        super().__init__(_listed(f"{what} is declared wrongly", self.issues))


class StateError(StrictReplyError, ValueError):
    """A state, or an update of one, does not have the fields that routing needs; ``issues`` holds every fault.

    ``str()`` is made of our words, of field names and of node names: no value of the state is in it.
    """

    def __init__(self, issues: Iterable[Issue]) -> None:
        """Name all that is missing or mistyped."""
        self.issues = tuple(issues)
        super().__init__(_listed("the state cannot be used", self.issues))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields."""
        return type(self), (self.issues,)

    def to_dict(self) -> dict[str, Any]:
        """Give the error as JSON-safe values."""
        return super().to_dict() | {"issues": [issue.to_dict() for issue in self.issues]}


MAX_LISTED = 12


def _listed(headline: str, issues: tuple[Issue, ...]) -> str:
    """Put each fault on a line of its own, the first dozen of them."""
    lines = [f"  {issue.place}: {issue.message}{_hinted(issue)}" for issue in issues[:MAX_LISTED]]
    more = [f"  and {len(issues) - MAX_LISTED} more"] if len(issues) > MAX_LISTED else []
    return "\n".join([f"{headline}:", *lines, *more])


def _hinted(issue: Issue) -> str:
    """Give the hint as a second half of the line, if there is one."""
    return f"; {issue.hint}" if issue.hint else ""
