"""The bounds of a turn, the effects that its driver performs, and the results of its calls."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

from strictreply.contract._channels import compact
from strictreply.contract._jsonable import NotJSON, jsonable
from strictreply.contract._tool import Tool, is_duration
from strictreply.pipeline._invoke_result import Breach, InvokeCode, InvokeError, InvokeResult
from strictreply.pipeline._line import EffectRaised
from strictreply.pipeline._sessions import SessionStore, manifest_id
from strictreply.pipeline._values import (
    AgentToolCall,
    AgentToolCallResult,
    Decision,
    ToolCallManifest,
    canonical,
)
from strictreply.reading._decoding import decode, is_json
from strictreply.values._errors import ContractError, ToolError
from strictreply.values._limits import DEFAULT_LIMITS, JSON, Channel, Message, is_count
from strictreply.values._mistakes import IN_POLICIES, helpful
from strictreply.values._replies import (
    AssistantReply,
    Attempt,
    Invalid,
    ToolCall,
    Usage,
)


def identified(
    reply: AssistantReply, stem: str, *, taken: AbstractSet[str] = frozenset()
) -> tuple[ToolCall, ...]:
    """Return the calls of a reply, each with an id that is not ``taken``.

    That is the provider's id, or in the text channel one made from ``stem``.
    """
    used = taken | {str(call.id) for call in reply.calls}
    calls = list(reply.calls)

    for index, call in enumerate(reply.calls):
        id_ = call.id or f"{stem}.{index}"
        # Some servers count anew, and a late result must not match it.
        if id_ in taken:
            id_ = next(one for number in count(2) if (one := f"{id_}.{number}") not in used)
        calls[index] = replace(call, id=id_)

    return tuple(calls)


def approval_of(result: AgentToolCallResult) -> tuple[bool, str] | None:
    """Read the decision on a call that needs approval, with its reason or "".

    None when the result is not a decision.
    """
    said = decode(result.result_json)
    if not isinstance(said, dict) or not {"approved"} <= said.keys() <= {"approved", "reason"}:
        return None

    approved = said["approved"]
    reason = said.get("reason", "")
    fits = isinstance(approved, bool) and isinstance(reason, str) and result.error_message is None
    return (bool(approved), str(reason)) if fits else None


def reconcile(
    manifest: ToolCallManifest,
    results: Iterable[AgentToolCallResult],
    *,
    earlier: Iterable[AgentToolCall] = (),
    decided: Iterable[Decision] | None = None,
    waits_in: tuple[str, str] = ("", ""),
    allow_error_results: bool = False,
) -> ToolCallManifest | InvokeResult:
    """Match a client's results to the calls that wait for them, in the order of the calls (P65).

    Results that the manifest has already stay. An InvokeResult holds every fault: of each entry of
    ``results`` the first, and of each call of the client that stays without a result. A call that
    needs approval wants a decision, any other ``result_json``, or with ``allow_error_results`` this
    or an ``error_message`` (X11). ``decided`` are the program's decisions, None when it has checked
    all of them: a client's result approves nothing by itself, and a decision holds for the
    arguments, session and turn that it was made on, those that the manifest ``waits_in``. Another
    result for one of the ``earlier`` calls of this turn is ALREADY_CONSUMED (requirement P66).
    """
    given = tuple(results)
    calls = {call.tool_call_id: call for call in manifest.tool_calls}
    answered = frozenset(result.tool_call_id for result in manifest.tool_call_results)
    before = frozenset(call.tool_call_id for call in earlier)
    decisions = None if decided is None else {one.tool_call_id: one for one in decided}

    waiting = _WaitingCalls(calls, answered, before, decisions, waits_in, allow_error_results)
    if errors := tuple(waiting.errors(given)):
        return InvokeResult(errors=errors)

    known = (*manifest.tool_call_results, *given)
    return with_results(manifest, {result.tool_call_id: result for result in known})


class _WaitingCalls(NamedTuple):
    """What results are checked against: the calls by id, and which of them are answered."""

    calls: Mapping[str, AgentToolCall]
    """All calls of the manifest by id."""
    answered: frozenset[str]
    """Ids of the calls that have results."""
    earlier: frozenset[str]
    """Ids of the calls of this turn that were answered before."""
    decided: Mapping[str, Decision] | None
    """The program's decisions by the id of the call; None when it has checked them itself."""
    waits_in: tuple[str, str]
    """Session and turn of the manifest."""
    allow_error_results: bool
    """Whether a result may be an error message in place of JSON."""

    def errors(self, given: tuple[AgentToolCallResult, ...]) -> Iterator[InvokeError]:
        seen: set[str] = set()

        for index, result in enumerate(given):
            code = InvokeCode.DUPLICATE_ID if result.tool_call_id in seen else self.fault(result)
            seen.add(result.tool_call_id)

            if code is not None:
                run = self.run_of(result) if code is InvokeCode.DECISION_ELSEWHERE else ("", "")
                yield _error(code, result, index, f"/envelope/tool_results/{index}", run)

        for index, call in enumerate(self.calls.values()):
            if call.requires_client_execution and call.tool_call_id not in self.answered | seen:
                path = f"/tool_call_manifest/tool_calls/{index}"
                yield _error(InvokeCode.MISSING_RESULT, call, index, path)

    def fault(self, result: AgentToolCallResult) -> InvokeCode | None:
        run = self.run_of(result)
        # Before its call is looked for: an equal id means nothing in another run.
        if any(run) and run != self.waits_in:
            return InvokeCode.DECISION_ELSEWHERE

        call = self.calls.get(result.tool_call_id)
        if call is None:
            is_earlier = result.tool_call_id in self.earlier
            return InvokeCode.ALREADY_CONSUMED if is_earlier else InvokeCode.UNKNOWN_CALL

        if not call.requires_client_execution:
            return InvokeCode.NOT_CLIENT_CALL
        if call.tool_call_id in self.answered:
            return InvokeCode.ALREADY_ANSWERED

        return self._misdecided(call) or self._fault_inside(call, result)

    def _misdecided(self, call: AgentToolCall) -> InvokeCode | None:
        if self.decided is None:
            return None

        decision = self.decided.get(call.tool_call_id)
        if decision is None:
            return InvokeCode.DECISION_EXPECTED if call.needs_approval else None
        if not call.needs_approval:
            return InvokeCode.DECISION_UNEXPECTED
        if decision.arguments_json != call.arguments_json:
            return InvokeCode.DECISION_MISMATCH

        is_here = (decision.session_id, decision.turn_id) == self.waits_in
        return None if is_here else InvokeCode.DECISION_ELSEWHERE

    def _fault_inside(self, call: AgentToolCall, result: AgentToolCallResult) -> InvokeCode | None:
        text = result.result_json
        error = result.error_message
        if not (text or "").strip() and not (error or "").strip():
            return InvokeCode.EMPTY_RESULT
        if text is not None and error is not None:
            return InvokeCode.RESULT_AND_ERROR
        if call.needs_approval:
            return InvokeCode.APPROVAL_MALFORMED if approval_of(result) is None else None

        is_missing = text is None and not self.allow_error_results
        return InvokeCode.MISSING_RESULT_JSON if is_missing else None

    def run_of(self, result: AgentToolCallResult) -> tuple[str, str]:
        """Return the session and the turn that a result decides for, empty when it names none."""
        decision = (self.decided or {}).get(result.tool_call_id)
        return ("", "") if decision is None else (decision.session_id, decision.turn_id)


def _error(
    code: InvokeCode,
    entry: AgentToolCall | AgentToolCallResult,
    index: int,
    path: str,
    run: tuple[str, str] = ("", ""),
) -> InvokeError:
    reason = getattr(entry, "error_message", None)
    told = Breach(
        path=path, index=index, tool_call_id=entry.tool_call_id, name=entry.name, reason=reason
    )
    if any(run):
        told["decided_for"] = manifest_id(*run)
    return code.error(f"reconcile.{code.lower()}", **told)


REPEATED: Final = "repeat_tool_call_detected"
# Six bytes a character at worst stay within the limits of a reply.
MOST_RESULT_CHARS: Final = 150_000

_NO_TOOLS: Final[Mapping[str, Tool]] = {}


@helpful(IN_POLICIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPolicy:
    """The bounds of one turn.

    Raises ContractError when a bound is not a whole number or below 1, ``suppress_at`` is not above
    ``warn_at``, ``max_result_chars`` is above 150,000, or ``tool_timeout`` is not a number above 0.
    """

    max_iterations: int = 8
    """Most requests to the model in one turn (requirement P68)."""
    warn_at: int = 2
    """Number of equal calls in a turn at which the call is run with a warning.

    Calls are equal when their names and arguments are; calls of ``repeatable`` tools are never
    counted.
    """
    suppress_at: int = 3
    """Number of equal calls in a turn from which calls are not run.

    The model gets a note in place of the result (requirement P72).
    """
    concurrency: int = 4
    """Most calls of one reply that run at the same time."""
    tool_timeout: float | None = None
    """Seconds for a tool that has no timeout of its own; None for no limit."""
    max_result_chars: int = 16_000
    """Characters after which a result is cut."""
    max_tokens_total: int | None = None
    """Tokens of a run's attempts after which it ends; None for no bound.

    A continuation has a count of its own.
    """
    max_tool_failures: int | None = None
    """Failures of one tool in a row, whatever its arguments, that end the run.

    It ends with :class:`AbortRun`; the tool's own ``max_failures`` goes before; None for no bound.
    """

    def __post_init__(self) -> None:
        may_be_none = ("max_tokens_total", "max_tool_failures")
        for name in (member.name for member in fields(LoopPolicy) if member.name != "tool_timeout"):
            bound: object = getattr(self, name)
            if not is_count(bound, 1) and (name not in may_be_none or bound is not None):
                raise ContractError(f"{name} must be a whole number, 1 or more, not {bound!r}")

        if self.max_result_chars > MOST_RESULT_CHARS:
            raise ContractError(
                f"max_result_chars must be {MOST_RESULT_CHARS} or less, "
                f"not {self.max_result_chars!r}"
            )

        if self.suppress_at <= self.warn_at:
            raise ContractError(
                f"suppress_at must be above warn_at, {self.warn_at}; it is {self.suppress_at}"
            )

        if self.tool_timeout is not None and not is_duration(self.tool_timeout):
            raise ContractError(
                "tool_timeout must be a number of seconds above 0, or None, "
                f"not {self.tool_timeout!r}"
            )

    def suppressed(
        self,
        calls: Iterable[AgentToolCall],
        earlier: Iterable[AgentToolCall],
        *,
        tools: Mapping[str, Tool] = _NO_TOOLS,
    ) -> Iterator[tuple[AgentToolCall, bool]]:
        """Yield each call with whether it is suppressed.

        That depends on the turn's ``earlier`` calls, and on those of ``calls`` before it.
        """
        before = list(earlier)
        asked = list(calls)
        named = Counter(call.name for call in (*before, *asked) if not _is_repeatable(call, tools))
        made = Counter(signature(call) for call in before if named[call.name] >= self.suppress_at)

        for call in asked:
            # As in most turns: no arguments have to be read.
            if named[call.name] < self.suppress_at:
                yield call, False
                continue

            key = signature(call)
            made[key] += 1
            yield call, made[key] >= self.suppress_at

    def repeated(
        self, calls: Iterable[AgentToolCall], *, tools: Mapping[str, Tool] = _NO_TOOLS
    ) -> list[str]:
        """Return the names of the tools that were called too often with the same arguments.

        That is ``warn_at`` times or more.
        """
        counted = [call for call in calls if not _is_repeatable(call, tools)]
        named = Counter(call.name for call in counted)
        frequent = [call for call in counted if named[call.name] >= self.warn_at]

        made = Counter((call.name, signature(call)) for call in frequent)
        names = (name for (name, _), times in made.items() if times >= self.warn_at)
        return list(dict.fromkeys(names))


def signature(call: AgentToolCall) -> str:
    """Return the name and the canonical arguments of a call, equal for equal calls (P71, P73)."""
    args = decode(call.arguments_json, DEFAULT_LIMITS)
    return f"{call.name} {call.arguments_json if isinstance(args, Invalid) else canonical(args)}"


def suppressed_result(call: AgentToolCall) -> AgentToolCallResult:
    """Make the result of a call that was not run; it keeps the manifest valid (requirement P74)."""
    guidance = (
        "This call was made before with the same arguments. "
        "Use the results above, or answer the user."
    )
    told: JSON = {"suppressed": True, "reason": REPEATED, "tool": call.name, "guidance": guidance}
    return AgentToolCallResult(
        tool_call_id=call.tool_call_id, name=call.name, result_json=compact(told)
    )


def _is_repeatable(call: AgentToolCall, tools: Mapping[str, Tool]) -> bool:
    tool = tools.get(call.name)
    return tool is not None and tool.repeatable


def result_json(value: object, limit: int) -> str:
    """Return a tool's result as a JSON text that UTF-8 can hold.

    It is cut to ``limit`` characters, with a note. Raises NotJSON, see :func:`jsonable`.
    """
    if isinstance(value, str):
        return compact(_cut(encodable(str.__str__(value)), limit))

    try:
        written = json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # a number too long to write
        raise NotJSON("", type(value).__name__) from None

    text: str = encodable(written)
    if len(text) <= limit and is_json(text):
        return text
    # What strict readers refuse (too many levels) is sent as a text.
    return compact(_cut(text, limit))


def error_json(kind: str, message: str, limit: int) -> str:
    """Return a failure as a result (X11)."""
    return compact({"error": {"type": kind, "message": _cut(encodable(message), limit)}})


def is_failure(result: AgentToolCallResult) -> bool:
    """Return whether a result is a failure, as :func:`error_json` writes it."""
    said = decode(result.result_json or "")
    told = said.get("error") if isinstance(said, dict) and len(said) == 1 else None
    return isinstance(told, dict) and told.keys() == {"type", "message"}


def capped(result: AgentToolCallResult, limit: int) -> AgentToolCallResult:
    """Cut what a client sent to ``limit`` characters, as a tool's own result is cut."""
    if result.result_json is None or len(result.result_json) <= limit:
        return result
    return replace(result, result_json=compact(_cut(_content(result), limit)))


# The words for a call without a result of its own.
_NOT_RUN: Final = {
    "ApprovalDenied": "the call was not allowed",
    "Interrupted": "the call was started and may or may not have taken effect",
    "Abandoned": "the user went on without the result of this call",
    "NotRun": "the call was not run, because an earlier one of this reply failed",
}


def substitute_result(
    call: AgentToolCall, kind: str, limit: int, *, reason: str = ""
) -> AgentToolCallResult:
    """Make the result of a call that has none of its own.

    The client's ``reason`` replaces our words.
    """
    text = error_json(kind, reason or _NOT_RUN[kind], limit)
    return AgentToolCallResult(tool_call_id=call.tool_call_id, name=call.name, result_json=text)


def with_results(
    manifest: ToolCallManifest, results: Mapping[str, AgentToolCallResult]
) -> ToolCallManifest:
    """Return a manifest with these results, in the order of its calls."""
    ordered = (results.get(call.tool_call_id) for call in manifest.tool_calls)
    given = tuple(result for result in ordered if result is not None)
    return replace(manifest, tool_call_results=given)


def result_turns(manifest: ToolCallManifest, channel: Channel) -> list[Message]:
    """Return the turns with the results of calls, in order.

    Each names the call's id, or in the text channel the tool.
    """
    results = manifest.tool_call_results
    if channel == "text":
        return [
            {"role": "user", "content": f"Result of {result.name}: {_content(result)}"}
            for result in results
        ]

    return [
        {"role": "tool", "tool_call_id": result.tool_call_id, "content": _content(result)}
        for result in results
    ]


def _content(result: AgentToolCallResult) -> str:
    if result.result_json is None:
        return compact({"error": {"type": "ClientError", "message": result.error_message or ""}})

    value = decode(result.result_json)
    return value if isinstance(value, str) else result.result_json


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in total)"


def encodable(value: Any) -> Any:
    """Replace what UTF-8 cannot encode in every text of a JSON value."""
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {encodable(name): encodable(member) for name, member in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class AskModel:
    """Effect: ask for the next reply, answered with :class:`Asked` or an error.

    ``is_first`` holds until a tool is called.
    """

    messages: list[Message] = field(repr=False)
    is_first: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply that fits: the assistant's turn for the transcript, the typed reply, and its cost."""

    message: Message = field(repr=False)
    reply: AssistantReply
    usage: Usage = Usage()
    attempts: tuple[Attempt, ...] = ()


class RunTool(NamedTuple):
    """One validated call with the tool that it names; ``call.id`` identifies its result."""

    tool: Tool
    call: ToolCall


@dataclass(frozen=True, slots=True)
class RunTools:
    """Effect: run the calls of one reply, several at a time.

    It is answered with a ToolOutcome for each, in order.
    """

    runs: tuple[RunTool, ...]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call; ``error`` is what the tool raised, or its timeout, None for neither."""

    result: AgentToolCallResult
    error: Exception | None = None

    @property
    def is_broken(self) -> bool:
        """Whether the tool failed otherwise than by a ToolError, which is meant for the model."""
        return self.error is not None and not isinstance(self.error.__cause__, ToolError)


TurnEffect: TypeAlias = AskModel | RunTools | Callable[[SessionStore], Any]
"""An effect of a step, answered with its result or EffectRaised.

A function uses the session store.
"""


def performed(effect: TurnEffect) -> Generator[TurnEffect, Any, Any]:
    """Have an effect performed; raise here what it raised."""
    given = yield effect
    if isinstance(given, EffectRaised):
        raise given.error
    return given
