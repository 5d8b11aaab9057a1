"""States of the documented tutor for the tests.

They have a clock that stands still, ids that count, and any choice of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

from strictreply.coordination import AgentState, PendingHuman, create_initial_state
from strictreply.coordination.state import SettledHuman, read_requests

AGENTS = ("coordinator", "course_advisor", "learning_planner")
NOON = datetime(2026, 1, 12, 12, tzinfo=UTC)


def noon() -> datetime:
    """Read a clock that stands still."""
    return NOON


def ticking() -> Callable[[], datetime]:
    """Make a clock that goes on by a second each time it is read."""
    seconds = count()
    return lambda: NOON + timedelta(seconds=next(seconds))


def numbered(prefix: str = "id") -> Callable[[], str]:
    """Make ids that count."""
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"


def state_with(**fields: Any) -> AgentState:
    """Make an initial state with other values in some fields."""
    state = create_initial_state(conversation_id="c", user_profile={"user_id": "u"}, now=noon)
    return cast("AgentState", {**state, **fields})


def changed(state: AgentState, **fields: object) -> AgentState:
    """Make a state with other values in some fields of another."""
    return cast("AgentState", {**state, **fields})


def without(state: Mapping[str, Any], *names: str) -> AgentState:
    """Make a state that lacks fields."""
    return cast("AgentState", {key: value for key, value in state.items() if key not in names})


def asked(**fields: Any) -> PendingHuman:
    """Make a request by hand."""
    return PendingHuman(**{"id": "r", "requested_at": NOON.isoformat(), **fields})


def last_answer(state: AgentState) -> SettledHuman | None:
    """Return the request that was answered last, with its decision; None when none was."""
    found = read_requests(state)
    answers = [one for one in found if isinstance(one, SettledHuman) and one.decision is not None]
    return max(answers, key=lambda one: one.settled_at, default=None)
