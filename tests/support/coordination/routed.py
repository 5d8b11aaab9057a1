"""A small team, and verdicts on what its agents reply: what tests of steering and routing share."""

from __future__ import annotations

from typing import Any

import strictreply as sr
from strictreply import Category, Issue
from strictreply.coordination import (
    ActionType,
    AgentInvocation,
    AgentReplyCode,
    Branch,
    BranchType,
    Origin,
    RoutingContext,
    RoutingDecision,
    Topology,
    ValidationResult,
)
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ValidationProcessor

TEAM = Topology.of(
    {
        "User": ["Coordinator"],
        "Coordinator": ["Worker1", "Worker2", "Aggregator", "User"],
        "Worker1": ["Aggregator"],
        "Worker2": ["Aggregator"],
        "Aggregator": ["Coordinator", "End"],
    }
)


@sr.tool
def search(query: str) -> str:
    """Search the web."""
    return query


PROCESSOR = ValidationProcessor(TEAM, tools=[search])
ROUTER = Router(TEAM, tools=[search], leave=())

# one fault of each category, as it may stand in a verdict
FAULTS = {
    Category.FORMAT_ERROR: AgentReplyCode.ACTION_MISSING_FIELD.at("/next_action"),
    Category.PERMISSION_ERROR: AgentReplyCode.TOPOLOGY_NOT_ALLOWED.at(
        "/action_input", names="Worker1"
    ),
    Category.ACTION_ERROR: AgentReplyCode.ACTION_UNKNOWN.at("/next_action", names="invoke_agent"),
    Category.API_TRANSIENT: Issue(
        "api.service_unavailable", Category.API_TRANSIENT, "", "the API is not available"
    ),
    Category.API_TERMINAL: Issue("api.authentication_failed", Category.API_TERMINAL, "", "no key"),
    Category.TOOL_ERROR: Issue("tool.failed", Category.TOOL_ERROR, "", "the tool failed"),
    Category.UNKNOWN: Issue("mystery", Category.UNKNOWN, "", "something is wrong"),
}


def verdict(
    reply: object, agent: str = "Coordinator", branch: Branch | None = None
) -> ValidationResult:
    """Judge a reply as the processor does."""
    return PROCESSOR.validate(reply, agent, branch)


def invalid(
    *issues: Issue, suggestion: str | None = "one of these actions: …", **fields: Any
) -> ValidationResult:
    """Make a verdict on a reply that did not fit."""
    return ValidationResult(
        False, error_message="it does not fit", retry_suggestion=suggestion, issues=issues, **fields
    )


def valid(
    action: ActionType, *targets: str, origin: Origin = Origin.MODEL, **parsed: Any
) -> ValidationResult:
    """Make a verdict that says of itself that it is valid, whatever the topology says."""
    invocations = [AgentInvocation(target, f"ask {target}") for target in targets]
    members = {"next_action": action.value, **parsed}
    calls = parsed.get("tool_calls", [])
    return ValidationResult(
        True, action, members, invocations=invocations, tool_calls=calls, origin=origin
    )


def call(name: str = "search", arguments: str = '{"query": "AI"}') -> dict[str, Any]:
    """Write one tool call."""
    return {
        "id": "call_123",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def decide(
    result: ValidationResult,
    agent: str = "Coordinator",
    *,
    branch: Branch | None = None,
    **context: Any,
) -> RoutingDecision:
    """Route a verdict within the team, which can search and has no leave for anything."""
    return ROUTER.decide(result, branch or Branch(), RoutingContext(current_agent=agent, **context))


def talk(turns: int = 0, *agents: str, max_turns: int = 5) -> Branch:
    """Make a conversation that has had so many turns."""
    members = agents or ("Coordinator", "Aggregator")
    return Branch("talk", BranchType.CONVERSATION, members, turns, max_turns)
