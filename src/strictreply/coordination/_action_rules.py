"""The judging of an action by its terms, as a function and as the answer of a wrapped client.

It must be named and permitted, have the right shape, stay within the topology, and its calls must
be valid.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, cast

from strictreply import (
    AssistantReply,
    Attempt,
    Code,
    Contract,
    ContractError,
    DirectAnswer,
    Invalid,
    Issue,
    Remedy,
    ToolCall,
    ToolCalls,
    Valid,
)
from strictreply.coordination._actions import (
    ANSWERING,
    SHAPES,
    UNREAD,
    ActionType,
    AgentInvocation,
    AgentReplyCode,
    Origin,
    Permitted,
    Source,
    ValidationResult,
    listed,
    member_names,
    schema_of,
    without_nulls,
)
from strictreply.coordination._api_replies import (
    CONTENT,
    ApiError,
    ReplyView,
    judge_calls,
    read_message,
)
from strictreply.coordination._metrics import VerdictWatch
from strictreply.coordination._topology import ActionCheck, ActionTerms, not_allowed, refusal_of
from strictreply.coordination.formats import BaseResponseFormat, ProcessorChain
from strictreply.core import JSON, Answer, Draft, JSONObject, Work
from strictreply.core.calls import is_control_flow
from strictreply.core.forms import plain_message
from strictreply.core.judging import Extraction, check_issues
from strictreply.core.text import nearest, pointer, printable, quote
from strictreply.schema import SchemaRule

MAX_ISSUES = 32
# The bad targets for which the nearest name is looked for: that takes longer than all the rest.
_MAX_HINTED = 8
_MAX_NEAR_CHARS = 64
_NEAR = 0.6
_MISSING = f"action.{SchemaRule.REQUIRED}"
_ALIASES = ("response", "report")
_ACTIONS: Mapping[str, ActionType] = {action.value: action for action in ActionType}
_SORTED = json.JSONEncoder(sort_keys=True, check_circular=False)


def retry_suggestion(issues: tuple[Issue, ...], allowed: Permitted) -> str | None:
    """Return what to retry with, to follow "Please retry with:" (M71).

    Return None when another ask would not help.
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

    They are all that are permitted, unless one of them fixes a fault.
    """
    # Too few agents for a parallel hand-over: a hand-over to one agent is another action.
    too_few = (f"action.{SchemaRule.MIN_ITEMS}", "/agents")
    places = [(issue.code, issue.path) for issue in issues]

    if too_few in places and ActionType.INVOKE_AGENT in allowed.actions:
        return (ActionType.INVOKE_AGENT,)
    return allowed.actions


class _Content(NamedTuple):
    """What an action of the right shape asks for, and its faults."""

    action: ActionType
    """The type that it counts as."""
    issues: Iterable[Issue] = ()
    """Its faults."""
    invocations: Iterable[AgentInvocation] = ()
    """The agents that it hands over to."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of tools that it asks for."""
    spelling: list[JSONObject] | None = None
    """The calls as they were read; None without any."""


class _Target(NamedTuple):
    """An agent to hand over to, and the tokens of its place.

    A pointer is made of them only when there is a fault.
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
    if issues := schema_of(action, terms.extra).check(spelled, place="action"):
        # a member that is missing has a code of its own (requirement X9)
        missing = AgentReplyCode.ACTION_MISSING_FIELD.value
        coded = (
            replace(issue, code=missing) if issue.code == _MISSING else issue for issue in issues
        )
        return refused(tuple(coded), terms, source)

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

    return action if action in allowed.actions else refusal_of(action, allowed)


def _nearest(name: str, names: tuple[str, ...]) -> str:
    near = nearest(name.strip()[:_MAX_NEAR_CHARS], names, Work(), cutoff=_NEAR)
    return "" if near is None else f"did you mean {near}?"


def _canonical(candidate: JSONObject, action: ActionType) -> JSONObject:
    """Return a copy of the candidate without nulls that stand for nothing (M36, X30).

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
    """Read ``invoke_agent``: a name, one invocation, or a list of them.

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

    issues = _target_issues(targets, terms.permitted.agents)
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
    """Read ``parallel_invoke``: every agent is a target, every request is for one (M29 to M31)."""
    given: JSONObject | None = spelled.get("agent_requests")
    requests = {name.strip(): request for name, request in (given or {}).items()}
    agents: list[str] = spelled["agents"]
    names = list(map(str.strip, agents))
    targets = [
        _Target(("agents", at), name, requests.get(names[at])) for at, name in enumerate(agents)
    ]

    permitted = terms.permitted.agents
    at = "/agent_requests"
    issues = _target_issues(targets, permitted)

    if given is None and terms.branch.is_parallel_spawn:
        issues.append(AgentReplyCode.ACTION_MISSING_FIELD.at(at))

    if given is not None:
        known = dict.fromkeys(names)  # of these, one that is not permitted was reported already
        without = [name for name in known if name not in requests and name in permitted]
        for name in without:
            issues.append(AgentReplyCode.ACTION_MISSING_FIELD.at(pointer(at, name)))

        for name in islice((name for name in requests if name not in known), MAX_ISSUES):
            found = quote(name)
            issues.append(AgentReplyCode.ACTION_REQUEST_UNKNOWN.at(at, names="agents", found=found))

        if len(requests) < len(given):  # the same name with other spaces
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


def _target_issues(targets: list[_Target], agents: tuple[str, ...]) -> list[Issue]:
    issues: list[Issue] = []
    for target in targets:
        if target.written.strip() in agents:
            continue

        hint = _nearest(target.written, agents) if len(issues) < _MAX_HINTED else ""
        issues.append(not_allowed(target.written, pointer("", *target.place), agents, hint=hint))

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

    The action is refused when the check raises. Raises ContractError when the check returns
    something that is not issues.
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

        # a stranger's code must not end the judging of a reply
        name = getattr(check, "__name__", type(check).__name__)
        return (AgentReplyCode.ACTION_CHECK_FAILED.at("", name=name),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAnswer(Answer):
    """An answer that is an action, judged as the processor judges.

    ``schema`` is None when the action is not written in JSON.
    """

    terms: ActionTerms
    """What an action is judged by."""
    chain: ProcessorChain
    """The processors that read a reply."""
    written: BaseResponseFormat
    """The format of replies."""
    extraction: tuple[Extraction, ...]
    """The steps that may be taken to find JSON in a text."""
    pinned: str | None
    """The agent's first format in this conversation; None while there is none."""
    locked: bool
    """Whether another format is a fault; otherwise it is noted."""
    watch: VerdictWatch
    """What counts and logs the verdicts."""

    @property
    def contract(self) -> Contract:
        """The contract of a client's exchange that admits exactly this.

        It admits actions, and calls of the agent's tools.
        """
        return self.terms.tools.replace(answer=self)

    def of_message(self, message: object) -> ValidationResult:
        """Judge an assistant message whose envelope was opened before."""
        limits = self.terms.tools.limits
        return self.of_reading(lambda: read_message(message, self.extraction, limits))

    def of_reading(self, read: Callable[[], ReplyView | Invalid]) -> ValidationResult:
        """Judge what a function reads.

        A function that raises, because it runs foreign code, reads nothing (M4).
        """
        found = self.chain.candidate(read)
        if isinstance(found, Invalid):
            return refused(found.issues, self.terms, Source(lenient=found.lenient))

        action, origin, source = found
        changes: tuple[Issue, ...] = ()
        spoken = source.response_format
        if spoken and self.pinned not in (None, spoken):  # requirements M119, X6
            changes = (AgentReplyCode.FORMAT_CHANGED.at("", name=self.pinned),)
            source = replace(source, notes=(*source.notes, *changes))

        # the system needs no permission, and the user is always within reach (M49, X8)
        if origin is Origin.SYSTEM:
            report = action.get("error_details")
            details = cast("JSONObject", report) if isinstance(report, dict) else {}
            allowed = self.terms.permitted
            error = ApiError.of_report(details)
            system = error.to_result(agent=allowed.agent, branch_id=self.terms.branch.id)
            return replace(system, permitted=allowed, source=source)

        if changes and self.locked:
            return refused(changes, self.terms, source)

        return judge_action(action, self.terms, source)

    def judge_draft(self, draft: Draft) -> Valid | Invalid:
        """Judge a whole reply: native calls stay the core's, any other action is the answer."""
        result = self.of_message(plain_message(draft))
        native = bool(draft.calls)
        if not result.is_valid:
            return _placed(result, "" if native else CONTENT)

        reply: AssistantReply = DirectAnswer(result)
        if native and result.calls:
            reply = result.calls[0] if len(result.calls) == 1 else ToolCalls(result.calls)
        return Valid(reply, result.source.lenient)

    def judge(
        self,
        value: JSON,
        at: str,
        work: Work | None = None,  # noqa: ARG002 - an action counts its own
    ) -> ValidationResult | Invalid:
        """Judge a value that stands in the text channel's ``answer``.

        It is an object, or the text of another format.
        """
        view = ReplyView(reply=value, extraction=self.extraction, limits=self.terms.tools.limits)
        if isinstance(value, dict):
            view = replace(view, reply=None, mapping=value)
        elif isinstance(value, str) and self.schema is None:  # else actions are objects, not texts
            view = replace(view, reply=None, text=value)

        result = self.of_reading(lambda: view)
        return result if result.is_valid else _placed(result, at)

    def calls_in(self, answer: object) -> tuple[ToolCall, ...]:
        """Return the calls of an action that is written in a format, for the tools' own checks."""
        return cast("ValidationResult", answer).calls

    def count(self, attempts: Iterable[Attempt], reply: AssistantReply | None = None) -> None:
        """Report every attempt of an exchange to the processor's watch.

        ``reply`` is the accepted one, if any.
        """
        agent = self.terms.permitted.agent
        action: ActionType | None = ActionType.CALL_TOOL
        if isinstance(reply, DirectAnswer):
            action = reply.answer.action_type

        for attempt in attempts:
            self.watch.attempted(agent, attempt, action if attempt.accepted else None)


def _placed(result: ValidationResult, at: str) -> Invalid:
    issues = tuple(replace(issue, path=at + issue.path) for issue in result.issues)
    return Invalid(issues, result.source.lenient)
