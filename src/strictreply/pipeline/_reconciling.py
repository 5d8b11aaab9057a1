"""A reply's calls get ids, and a client's results are matched to the calls that wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from strictreply.pipeline._invoke_result import Breach, InvokeCode, InvokeError, InvokeFailed, InvokeResult
from strictreply.pipeline._sessions import manifest_id
from strictreply.pipeline._turn_effects import with_results
from strictreply.pipeline._validator import LOOP_VALIDATOR
from strictreply.pipeline._values import AgentToolCall, AgentToolCallResult, Decision, Envelope, ToolCallManifest, Turn
from strictreply.reading._decoding import decode
from strictreply.values._replies import AssistantReply, ToolCall


def identified(reply: AssistantReply, stem: str, *, taken: AbstractSet[str] = frozenset()) -> tuple[ToolCall, ...]:
    """Return the calls of a reply, each with an id: the provider's, or in the text channel one made from ``stem``.

    One that is ``taken`` is numbered (``call_1.2``): some servers count anew, and a late result must not match it.
    """
    used, calls = taken | {str(call.id) for call in reply.calls}, list(reply.calls)
    for index, call in enumerate(reply.calls):
        id_ = call.id or f"{stem}.{index}"
        if id_ in taken:
            id_ = next(one for number in count(2) if (one := f"{id_}.{number}") not in used)
        calls[index] = replace(call, id=id_)
    return tuple(calls)


def approval_of(result: AgentToolCallResult) -> tuple[bool, str] | None:
    """Read the decision on a call that needs approval, with its reason or ""; None when the result is no decision."""
    said = decode(result.result_json)
    if not isinstance(said, dict) or not {"approved"} <= said.keys() <= {"approved", "reason"}:
        return None
    approved, reason = said["approved"], said.get("reason", "")
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
    """Match a client's results to the calls that wait for them, in the order of the calls (requirement P65).

    Results that the manifest has already stay. An InvokeResult holds every fault: of each entry of ``results`` the
    first, and of each call of the client that stays without a result. A call that needs approval wants a decision, any
    other ``result_json``, or with ``allow_error_results`` this or an ``error_message`` (X11). ``decided`` are the
    program's decisions, None when it has checked all of them: a client's result approves nothing by itself, and a
    decision holds for the arguments, session and turn that it was made on, those that the manifest ``waits_in``.
    Another result for one of the ``earlier`` calls of this turn is ALREADY_CONSUMED (requirement P66).
    """
    given = tuple(results)
    waiting = _WaitingCalls(
        {call.tool_call_id: call for call in manifest.tool_calls},
        frozenset(result.tool_call_id for result in manifest.tool_call_results),
        frozenset(call.tool_call_id for call in earlier),
        None if decided is None else {one.tool_call_id: one for one in decided},
        waits_in,
        allow_error_results,
    )
    if errors := tuple(waiting.errors(given)):
        return InvokeResult(errors=errors)
    return with_results(manifest, {result.tool_call_id: result for result in (*manifest.tool_call_results, *given)})


class _WaitingCalls(NamedTuple):
    """What results are held to: the calls by id, which of them have results, and which were answered before."""

    calls: Mapping[str, AgentToolCall]
    answered: frozenset[str]
    earlier: frozenset[str]
    decided: Mapping[str, Decision] | None
    waits_in: tuple[str, str]
    allow_error_results: bool

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
                yield _error(InvokeCode.MISSING_RESULT, call, index, f"/tool_call_manifest/tool_calls/{index}")

    def fault(self, result: AgentToolCallResult) -> InvokeCode | None:
        run = self.run_of(result)
        if any(run) and run != self.waits_in:  # before its call is looked for: an equal id means nothing in another run
            return InvokeCode.DECISION_ELSEWHERE
        call = self.calls.get(result.tool_call_id)
        if call is None:
            return InvokeCode.ALREADY_CONSUMED if result.tool_call_id in self.earlier else InvokeCode.UNKNOWN_CALL
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
        text, error = result.result_json, result.error_message
        if not (text or "").strip() and not (error or "").strip():
            return InvokeCode.EMPTY_RESULT
        if text is not None and error is not None:
            return InvokeCode.RESULT_AND_ERROR
        if call.needs_approval:
            return InvokeCode.APPROVAL_MALFORMED if approval_of(result) is None else None
        return InvokeCode.MISSING_RESULT_JSON if text is None and not self.allow_error_results else None

    def run_of(self, result: AgentToolCallResult) -> tuple[str, str]:
        """Return the session and the turn that a result is a decision for, empty when it names none."""
        decision = (self.decided or {}).get(result.tool_call_id)
        return ("", "") if decision is None else (decision.session_id, decision.turn_id)


def _error(
    code: InvokeCode, entry: AgentToolCall | AgentToolCallResult, index: int, path: str, run: tuple[str, str] = ("", "")
) -> InvokeError:
    reason = getattr(entry, "error_message", None)
    told = Breach(path=path, index=index, tool_call_id=entry.tool_call_id, name=entry.name, reason=reason)
    if any(run):
        told["decided_for"] = manifest_id(*run)
    return code.error(f"reconcile.{code.lower()}", **told)


def answered_manifest(waiting: ToolCallManifest, envelope: Envelope, turn: Turn) -> ToolCallManifest:
    """Add the results of a request to the calls of a turn that wait; raise InvokeFailed when they do not fit."""
    earlier = turn.tool_calls[: len(turn.tool_calls) - len(waiting.tool_calls)]
    run, decided = (envelope.session_id, envelope.turn_id), envelope.decided
    answered = reconcile(waiting, envelope.tool_results, earlier=earlier, decided=decided, waits_in=run)
    if not isinstance(answered, ToolCallManifest):
        raise InvokeFailed(answered.errors)
    refuse_unfit(answered)  # before anything that was approved is run
    return answered


def refuse_unfit(manifest: ToolCallManifest) -> None:
    """Raise InvokeFailed when pairs of calls and results break a rule of a manifest."""
    if errors := LOOP_VALIDATOR.validate_tool_call_manifest(manifest).errors:
        raise InvokeFailed(errors)
