"""Judges an action.

The action must be named and permitted, have the right shape, and stay within the topology. Its
calls must be valid.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

from strictreply import Code, ContractError, Invalid, Issue, Remedy, ToolCall
from strictreply.coordination._api_replies import judge_calls
from strictreply.coordination.actions import (
    ANSWERING,
    SHAPES,
    UNREAD,
    ActionType,
    AgentInvocation,
    AgentReplyCode,
    Permitted,
    Source,
    ValidationResult,
    listed,
    member_names,
    without_nulls,
)
from strictreply.coordination.topology import ActionCheck, ActionTerms
from strictreply.core import JSONObject, Work
from strictreply.core.calls import is_control_flow
from strictreply.core.judging import check_issues
from strictreply.core.schemas import nearest
from strictreply.core.text import pointer, printable, quote
from strictreply.schema import SchemaRule

MAX_ISSUES = 32
# At most so many bad targets get a hint: finding the nearest name takes longer than all the rest.
_MAX_HINTED = 8
_MAX_NEAR_CHARS = 64
_NEAR = 0.6
_ALIASES = ("response", "report")
_ACTIONS: Mapping[str, ActionType] = {action.value: action for action in ActionType}
_SORTED = json.JSONEncoder(sort_keys=True, check_circular=False)


def retry_suggestion(issues: tuple[Issue, ...], allowed: Permitted) -> str | None:
    """Return the text that follows "Please retry with:" (M71).

    Return None if a retry would not help.
    """
    remedies = {issue.remedy for issue in issues}
    if Remedy.STOP in remedies or not allowed.actions:
        return None
    if Remedy.RESEND in remedies:
        return "the same request"
    if Remedy.SHORTEN in remedies:
        return "a shorter reply"

    offered = (
        f"{action} ({SHAPES[action].described(allowed)})"
        for action in suggested_actions(issues, allowed)
    )
    return printable(f"one of these actions: {'; '.join(offered)}")  # agents may have any names


def suggested_actions(issues: tuple[Issue, ...], allowed: Permitted) -> tuple[ActionType, ...]:
    """Return the actions that may be valid instead (M30).

    These are all permitted actions, unless one of them fixes a fault.
    """
    # Too few agents for a parallel hand-over: a hand-over to one agent is another action.
    too_few = (f"action.{SchemaRule.MIN_ITEMS}", "/agents")
    places = [(issue.code, issue.path) for issue in issues]

    if too_few in places and ActionType.INVOKE_AGENT in allowed.actions:
        return (ActionType.INVOKE_AGENT,)
    return allowed.actions


class _Content(NamedTuple):
    """The content of an action that has the right shape, and its faults."""

    action: ActionType
    """The type that it counts as."""
    issues: Iterable[Issue] = ()
    """Its faults."""
    invocations: Iterable[AgentInvocation] = ()
    """The agents that it hands over to."""
    calls: tuple[ToolCall, ...] = ()
    """The tool calls that it requests."""
    spelling: list[JSONObject] | None = None
    """The calls as they were read; None if there are none."""


class _Target(NamedTuple):
    """An agent to hand over to, and the tokens of its place.

    The tokens become a JSON Pointer only if there is a fault.
    """

    place: tuple[str | int, ...]
    written: str
    request: Any


def judge_action(
    candidate: JSONObject, terms: ActionTerms, source: Source = UNREAD
) -> ValidationResult:
    """Return the verdict on an action, which is not changed.

    All faults of the stage that fails are reported (requirement M43).
    """
    action = _named_action(candidate, terms.permitted)
    if isinstance(action, Issue):
        return refused((action,), terms, source)

    spelled = _canonical(candidate, action)
    if issues := action.check(spelled, terms.extra):
        return refused(issues, terms, source)

    read = _READERS.get(action)
    content = _Content(action) if read is None else read(spelled, terms)
    if issues := tuple(islice(content.issues, MAX_ISSUES)):
        return refused(issues, terms, source)

    if content.spelling is not None:
        spelled = spelled | {"tool_calls": content.spelling}

    checks = terms.checks.get(content.action, ())
    if faults := [one for check in checks for one in _outcome(check, spelled, terms.permitted)]:
        return refused(tuple(faults), terms, source)

    return ValidationResult(
        is_valid=True,
        action_type=content.action,
        parsed_response=spelled,
        invocations=list(content.invocations),
        tool_calls=list(spelled["tool_calls"]) if content.calls else [],
        calls=content.calls,
        permitted=terms.permitted,
        source=source,
    )


def refused(
    issues: tuple[Issue, ...], terms: ActionTerms, source: Source = UNREAD
) -> ValidationResult:
    """Return the result of a reply with these faults."""
    return ValidationResult(
        is_valid=False,
        error_message=Invalid(issues).summary,
        retry_suggestion=retry_suggestion(issues, terms.permitted),
        issues=issues,
        permitted=terms.permitted,
        source=source,
    )


def _named_action(candidate: JSONObject, allowed: Permitted) -> ActionType | Issue:
    at = "/next_action"
    if "next_action" not in candidate:
        return AgentReplyCode.ACTION_MISSING_FIELD.at(at)

    name: object = candidate["next_action"]
    if not isinstance(name, str):
        return Issue.of(
            Code.SHAPE_WRONG_TYPE, at, expected="the name of an action, a string", found=quote(name)
        )

    action = _ACTIONS.get(name)
    if action is None:
        hint = _nearest(name, allowed.actions)
        return AgentReplyCode.ACTION_UNKNOWN.at(
            at, names=listed(allowed.actions), hint=hint, found=quote(name)
        )

    return action if action in allowed.actions else allowed.action_refusal(action)


def _nearest(name: str, names: tuple[str, ...]) -> str:
    near = nearest(name.strip()[:_MAX_NEAR_CHARS], names, Work(), cutoff=_NEAR)
    return "" if near is None else f"did you mean {near}?"


def _canonical(candidate: JSONObject, action: ActionType) -> JSONObject:
    """Return a copy of the candidate without nulls that mean "absent" (M36, X30).

    The answer of a final response is in ``content``.
    """
    spelled = without_nulls(candidate, action)
    given: object = candidate.get("action_input")
    if action in ANSWERING and spelled.get("content") is None and isinstance(given, dict):
        members = cast("JSONObject", given)
        if len(members) == 1 and not members.keys().isdisjoint(_ALIASES):
            del spelled["action_input"]
            spelled["content"] = next(iter(members.values()))

    return spelled


def _one_or_several(spelled: JSONObject, terms: ActionTerms) -> _Content:
    """Read ``invoke_agent``: a name, an invocation, or a list of invocations.

    More than one invocation is a parallel hand-over (M26 to M28).
    """
    given: str | JSONObject | list[JSONObject] = spelled["action_input"]
    at = "action_input"
    name = "agent_name"

    if isinstance(given, str):
        targets = [_Target((at,), given, spelled.get("request"))]
    elif isinstance(given, dict):
        targets = [_Target((at, name), given[name], given.get("request"))]
    else:
        targets = [
            _Target((at, index, name), one[name], one.get("request"))
            for index, one in enumerate(given)
        ]

    issues = _target_issues(targets, terms.permitted)
    if "request" in spelled and not isinstance(given, str):
        issues.append(AgentReplyCode.ACTION_REQUEST_MISPLACED.at("/request", names=at))

    if len(targets) == 1:
        one = AgentInvocation(targets[0].written.strip(), targets[0].request)
        return _Content(ActionType.INVOKE_AGENT, issues, [one])

    if terms.branch.is_parallel_spawn:
        missing = (
            pointer("", at, index, "request")
            for index, one in enumerate(targets)
            if one.request is None
        )
        issues += map(AgentReplyCode.ACTION_MISSING_FIELD.at, missing)

    return _Content(ActionType.PARALLEL_INVOKE, issues, _instances(targets, spelled, terms))


def _several(spelled: JSONObject, terms: ActionTerms) -> _Content:
    """Read ``parallel_invoke``: each agent is a target, and each request names one (M29 to M31)."""
    given: JSONObject | None = spelled.get("agent_requests")
    requests = {name.strip(): request for name, request in (given or {}).items()}
    agents: list[str] = spelled["agents"]
    names = list(map(str.strip, agents))
    targets = [
        _Target(("agents", at), name, requests.get(names[at])) for at, name in enumerate(agents)
    ]

    permitted = terms.permitted.agents
    at = "/agent_requests"
    issues = _target_issues(targets, terms.permitted)

    if given is None and terms.branch.is_parallel_spawn:
        issues.append(AgentReplyCode.ACTION_MISSING_FIELD.at(at))

    if given is not None:
        known = dict.fromkeys(names)  # a name that is not permitted was already reported
        without = [name for name in known if name not in requests and name in permitted]
        for name in without:
            issues.append(AgentReplyCode.ACTION_MISSING_FIELD.at(pointer(at, name)))

        for name in islice((name for name in requests if name not in known), MAX_ISSUES):
            found = quote(name)
            issues.append(AgentReplyCode.ACTION_REQUEST_UNKNOWN.at(at, names="agents", found=found))

        if len(requests) < len(given):  # two names that differ only in spaces
            issues.append(Issue.of(Code.JSON_DUPLICATE_KEY, at))

    return _Content(ActionType.PARALLEL_INVOKE, issues, _instances(targets, spelled, terms))


def _calls(spelled: JSONObject, terms: ActionTerms) -> _Content:
    """Read ``call_tool``."""
    judged = judge_calls(spelled, terms.tools)
    if isinstance(judged, Invalid):
        return _Content(ActionType.CALL_TOOL, judged.issues)

    calls, spelling = judged
    return _Content(ActionType.CALL_TOOL, calls=calls, spelling=spelling)


def _question(spelled: JSONObject, _terms: ActionTerms) -> _Content:
    asked: str = spelled["question"]
    if asked.strip():
        return _Content(ActionType.ASK_USER)

    blank = AgentReplyCode.ACTION_NO_QUESTION.at("/question", found=quote(asked))
    return _Content(ActionType.ASK_USER, (blank,))


_READERS: Mapping[ActionType, Callable[[JSONObject, ActionTerms], _Content]] = {
    ActionType.INVOKE_AGENT: _one_or_several,
    ActionType.PARALLEL_INVOKE: _several,
    ActionType.CALL_TOOL: _calls,
    ActionType.ASK_USER: _question,
}


def _target_issues(targets: list[_Target], allowed: Permitted) -> list[Issue]:
    issues: list[Issue] = []
    for target in targets:
        if target.written.strip() in allowed.agents:
            continue

        hint = _nearest(target.written, allowed.agents) if len(issues) < _MAX_HINTED else ""
        place = pointer("", *target.place)
        issues.append(allowed.agent_refusal(target.written, place, hint=hint))

    return issues


def _instances(
    targets: list[_Target], spelled: JSONObject, terms: ActionTerms
) -> Iterator[AgentInvocation]:
    """Yield the invocations, each with an id ``{name}_{index}_{hash}`` (M32).

    The ids are the same when a run is replayed.
    """
    branch = terms.branch
    seeds = [*terms.place, branch.id, branch.turns, terms.permitted.agent, spelled]
    seed = hashlib.blake2b(_SORTED.encode(seeds).encode(), digest_size=4).hexdigest()

    for index, target in enumerate(targets):
        name = target.written.strip()
        yield AgentInvocation(name, target.request, f"{name}_{index}_{seed}")


def _outcome(check: ActionCheck, spelled: JSONObject, allowed: Permitted) -> tuple[Issue, ...]:
    """Return the faults that one check finds in a copy of the action.

    The action is rejected if the check raises. Raises ContractError if the check returns something
    other than issues.
    """
    found: Iterable[Issue] | ValueError | None
    try:
        try:
            found = check(copy.deepcopy(spelled), allowed)
        except ValueError as error:
            found = error

        return check_issues(found, spelled, names=member_names(), place="action")
    except ContractError:
        raise
    except Exception as error:
        if is_control_flow(error):  # a check may ask a person
            raise

        # an exception in a user's check must not end the judging of a reply
        name = getattr(check, "__name__", type(check).__name__)
        return (AgentReplyCode.ACTION_CHECK_FAILED.at("", name=name),)
