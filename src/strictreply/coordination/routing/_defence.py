"""What a verdict is held to once more before a step is made of it, whoever made the verdict (requirement M107).

First that it holds what it says it holds, then everything that permissions know: the edges, the branch, the tools, and
who asks. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from strictreply.coordination._actions.kinds import ActionType, AgentInvocation, Permitted
from strictreply.coordination._actions.permissions import refusal_of
from strictreply.coordination._actions.shapes import listed
from strictreply.coordination._replies.plain_json import plain_issues
from strictreply.coordination._replies.results import ValidationResult
from strictreply.values._issues import Code, Issue, pointer, quote

_REPORTED: Final = ("error_details", "suggested_action", "error")
"""The members of an action that are read, and not merely passed on."""

_HANDING_OVER: Final = (ActionType.INVOKE_AGENT, ActionType.PARALLEL_INVOKE)


def flaw_of(result: ValidationResult, agent: str) -> str | None:
    """Say why a result cannot be routed as the verdict on ``agent``'s reply, None when it can.

    A result of :class:`ValidationProcessor` never has a flaw; one that was made by hand, or read from somewhere, may.
    """
    return next(_flaws(result, agent), None)


def refusal(result: ValidationResult, action: ActionType, allowed: Permitted) -> Issue | None:
    """Report the first thing that a valid result asks for and its agent may not do; None when there is none."""
    return next(_refusals(result, action, allowed), None)


def _flaws(result: ValidationResult, agent: str) -> Iterator[str]:
    """Give what is wrong with a result; its members are what they are, whatever their types promise."""
    held = cast("object", result.permitted)
    if held is not None and (not isinstance(held, Permitted) or held.agent != agent):
        yield "it is the verdict on another agent's reply"
    parsed = cast("object", result.parsed_response)
    if not (parsed is None or isinstance(parsed, dict)):
        yield "its parsed_response is no object"
    elif parsed and plain_issues([parsed.get(name) for name in _REPORTED]):
        yield "what it reports of an error is no JSON"
    if not _all_are(result.issues, tuple, Issue):
        yield "its issues are not a tuple of Issue"
    if result.is_valid:
        yield from _flaws_of_valid(result)


def _flaws_of_valid(result: ValidationResult) -> Iterator[str]:
    """Give what a result that calls itself valid lacks of an action."""
    if result.action_type not in _ACTIONS:
        yield "it is valid without an action"
    if not _all_are(result.invocations, list, AgentInvocation):
        yield "its invocations are not a list of AgentInvocation"
    elif not all(isinstance(cast("object", one.agent_name), str) for one in result.invocations):
        yield "an invocation has no agent's name"
    if not _all_are(result.tool_calls, list, dict):
        yield "its tool_calls are not a list of objects"


_ACTIONS: Final = tuple(ActionType)


def _all_are(value: object, kind: type[list[object] | tuple[object, ...]], member: type) -> bool:
    """Tell whether a value is a list or tuple of members of one type."""
    return isinstance(value, kind) and all(isinstance(one, member) for one in value)


def _refusals(result: ValidationResult, action: ActionType, allowed: Permitted) -> Iterator[Issue]:
    """Give what is not permitted: the action, then whom it hands over to, then what it calls."""
    if action not in allowed.actions:
        yield refusal_of(action, allowed)
    if action in _HANDING_OVER:
        yield from _target_refusals(result, allowed)
    if action is ActionType.CALL_TOOL:
        yield from _call_refusals(result, allowed)


def _target_refusals(result: ValidationResult, allowed: Permitted) -> Iterator[Issue]:
    """Give the targets that the agent may not hand over to."""
    for index, invocation in enumerate(result.invocations):
        if invocation.agent_name not in allowed.agents:
            at, found = pointer("/invocations", index, "agent_name"), quote(invocation.agent_name)
            yield Issue.of(Code.TOPOLOGY_NOT_ALLOWED, at, names=listed(allowed.agents), found=found)


def _call_refusals(result: ValidationResult, allowed: Permitted) -> Iterator[Issue]:
    """Give the calls of tools that the agent has not got; what is no call is the route's to refuse."""
    for index, call in enumerate(result.tool_calls):
        name = _called(call)
        if isinstance(name, str) and name not in allowed.tools:
            at = pointer("/tool_calls", index, "function", "name")
            yield Issue.of(Code.TOOL_UNKNOWN, at, names=listed(allowed.tools), found=quote(name))


def _called(call: dict[str, object]) -> object:
    """Give the name of the tool that is called; of what is no call nothing."""
    function = call.get("function")
    return cast("dict[str, object]", function).get("name") if isinstance(function, dict) else None
