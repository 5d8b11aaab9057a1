"""A client's results put to the calls that wait for them: everything that is wrong with them, or the whole manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from strictreply.pipeline._results import InvokeCode, InvokeError, InvokeResult
from strictreply.pipeline._sessions import manifest_id
from strictreply.pipeline._values import AgentToolCall, AgentToolCallResult, Decision, ToolCallManifest
from strictreply.reading._decoding import decode

_FAULTS: Final[Mapping[InvokeCode, tuple[str, str]]] = {
    InvokeCode.DUPLICATE_ID: ("reconcile.single_result", "a call has two results; send one for each call"),
    InvokeCode.UNKNOWN_CALL: ("reconcile.known_call", "no call that waits has this id"),
    InvokeCode.ALREADY_CONSUMED: ("reconcile.fresh_result", "this call was answered before"),
    InvokeCode.NOT_CLIENT_CALL: ("reconcile.client_call", "this call is run here; send no result for it"),
    InvokeCode.ALREADY_ANSWERED: ("reconcile.open_call", "this call has its result; send none for it"),
    InvokeCode.EMPTY_RESULT: ("reconcile.result_present", "the result has neither result_json nor error_message"),
    InvokeCode.RESULT_AND_ERROR: ("reconcile.result_single", "the result has both result_json and error_message"),
    InvokeCode.MISSING_RESULT_JSON: (
        "reconcile.result_json",
        "a failure must be told by result_json, not error_message",
    ),
    InvokeCode.APPROVAL_MALFORMED: (
        "reconcile.approval",
        'an approval must be result_json {"approved": true or false}, and may have a "reason", a text',
    ),
    InvokeCode.DECISION_EXPECTED: ("reconcile.decision", "this call waits for a decision; a client's result is none"),
    InvokeCode.DECISION_MISMATCH: (
        "reconcile.same_arguments",
        "the decision is on other arguments",
    ),
    InvokeCode.DECISION_ELSEWHERE: (
        "reconcile.same_run",
        "the decision is for another run or another turn; decide on the calls that are pending here",
    ),
    InvokeCode.DECISION_UNEXPECTED: ("reconcile.no_decision", "this call waits for the client's result, no decision"),
    InvokeCode.MISSING_RESULT: ("reconcile.every_call", "this call waits for a result, and none was sent"),
}


@dataclass(frozen=True, slots=True)
class Approval:
    """Whether a call may be run here; ``reason`` is what the client said of it, empty when nothing."""

    approved: bool
    reason: str = ""


def approval_of(result: AgentToolCallResult) -> Approval | None:
    """Read the decision on a call that needs approval; None when the result is anything but such a decision."""
    said = decode(result.result_json)
    if not isinstance(said, dict) or not {"approved"} <= said.keys() <= {"approved", "reason"}:
        return None
    approved, reason = said["approved"], said.get("reason", "")
    fits = isinstance(approved, bool) and isinstance(reason, str) and result.error_message is None
    return Approval(bool(approved), str(reason)) if fits else None


def reconcile(
    manifest: ToolCallManifest,
    results: Iterable[AgentToolCallResult],
    *,
    earlier: Iterable[AgentToolCall] = (),
    decided: Iterable[Decision] | None = None,
    session_id: str = "",
    turn_id: str = "",
    allow_error_results: bool = False,
) -> ToolCallManifest | InvokeResult:
    """Put a client's results to the calls that wait for them, in the order of the calls (requirement P65).

    Results that the manifest has already stay. The result holds every fault: of each entry of ``results`` the first,
    with its index, and of each call of the client that stays without a result. A call that needs approval wants a
    decision (:func:`approval_of`); any other one ``result_json``, or with ``allow_error_results`` either this or an
    ``error_message`` (X11). ``decided`` are the program's decisions, which some results spell; None when it has made
    sure of all of them. A client's own word approves nothing, and a decision holds for the arguments, the session and
    the turn that it was made on; ``session_id`` and ``turn_id`` say where the manifest waits. ``earlier`` are calls of
    this turn that were answered before: a result for one of them that waits no more is ALREADY_CONSUMED (requirement
    P66). Names and JSON texts are held to the rules of a manifest after.
    """
    given = tuple(results)
    desk = _Desk(
        {call.tool_call_id: call for call in manifest.tool_calls},
        frozenset(result.tool_call_id for result in manifest.tool_call_results),
        frozenset(call.tool_call_id for call in earlier),
        None if decided is None else {one.tool_call_id: one for one in decided},
        (session_id, turn_id),
        allow_error_results,
    )
    errors = (*desk.wrong_results(given), *desk.missing_results(given))
    if errors:
        return InvokeResult(errors=errors)
    answers = {result.tool_call_id: result for result in (*manifest.tool_call_results, *given)}
    ordered = (answers[call.tool_call_id] for call in manifest.tool_calls if call.tool_call_id in answers)
    return replace(manifest, tool_call_results=tuple(ordered))


@dataclass(frozen=True, slots=True)
class _Desk:
    """What results are held to: the calls by id, which of them have results, and which were answered before."""

    calls: Mapping[str, AgentToolCall]
    answered: frozenset[str]
    earlier: frozenset[str]
    decided: Mapping[str, Decision] | None
    waits_in: tuple[str, str]
    allow_error_results: bool

    def wrong_results(self, results: tuple[AgentToolCallResult, ...]) -> Iterator[InvokeError]:
        """Report each result that is out of place, or that says nothing fit."""
        seen: set[str] = set()
        for index, result in enumerate(results):
            twice = result.tool_call_id in seen
            seen.add(result.tool_call_id)
            code = InvokeCode.DUPLICATE_ID if twice else self._fault(result)
            if code is not None:
                error = _error(code, result, index, f"/envelope/tool_results/{index}")
                elsewhere = code is InvokeCode.DECISION_ELSEWHERE
                yield replace(error, decided_for=self._decided_for(result) or None) if elsewhere else error

    def missing_results(self, results: tuple[AgentToolCallResult, ...]) -> Iterator[InvokeError]:
        """Report each call of the client that has no result and gets none."""
        known = self.answered | {result.tool_call_id for result in results}
        for index, call in enumerate(self.calls.values()):
            if call.requires_client_execution and call.tool_call_id not in known:
                yield _error(InvokeCode.MISSING_RESULT, call, index, f"/tool_call_manifest/tool_calls/{index}")

    def _fault(self, result: AgentToolCallResult) -> InvokeCode | None:
        """Say what is wrong with a result, None when nothing is."""
        if self._decided_for(result):  # before its call is looked for: an equal id means nothing in another run
            return InvokeCode.DECISION_ELSEWHERE
        call = self.calls.get(result.tool_call_id)
        if call is None:
            spent = result.tool_call_id in self.earlier
            return InvokeCode.ALREADY_CONSUMED if spent else InvokeCode.UNKNOWN_CALL
        if not call.requires_client_execution:
            return InvokeCode.NOT_CLIENT_CALL
        if call.tool_call_id in self.answered:
            return InvokeCode.ALREADY_ANSWERED
        return self._misdecided(call) or self._fault_inside(call, result)

    def _misdecided(self, call: AgentToolCall) -> InvokeCode | None:
        """Say what is wrong with who decided, and on what; None when nothing is."""
        if self.decided is None:
            return None
        decision = self.decided.get(call.tool_call_id)
        if not call.needs_approval:
            return None if decision is None else InvokeCode.DECISION_UNEXPECTED
        if decision is None:
            return InvokeCode.DECISION_EXPECTED
        if decision.arguments_json != call.arguments_json:
            return InvokeCode.DECISION_MISMATCH
        named = (decision.session_id, decision.turn_id) == self.waits_in
        return None if named else InvokeCode.DECISION_ELSEWHERE

    def _decided_for(self, result: AgentToolCallResult) -> str:
        """Name the other run that a result is a decision for; empty when it names none, or this one."""
        decision = (self.decided or {}).get(result.tool_call_id)
        run = ("", "") if decision is None else (decision.session_id, decision.turn_id)
        return manifest_id(*run) if any(run) and run != self.waits_in else ""

    def _fault_inside(self, call: AgentToolCall, result: AgentToolCallResult) -> InvokeCode | None:
        """Say what is wrong with what a result says."""
        if not _has_text(result.result_json) and not _has_text(result.error_message):
            return InvokeCode.EMPTY_RESULT
        if result.result_json is not None and result.error_message is not None:
            return InvokeCode.RESULT_AND_ERROR
        if call.needs_approval:
            return None if approval_of(result) else InvokeCode.APPROVAL_MALFORMED
        failed = result.result_json is None and not self.allow_error_results
        return InvokeCode.MISSING_RESULT_JSON if failed else None


def _has_text(value: str | None) -> bool:
    """Tell whether a text is there."""
    return value is not None and bool(value.strip())


def _error(code: InvokeCode, entry: AgentToolCall | AgentToolCallResult, index: int, path: str) -> InvokeError:
    """Report a fault of one entry; ``reason`` is what the client said of a failure (requirement P57)."""
    rule, message = _FAULTS[code]
    return InvokeError(
        code=code,
        rule=rule,
        message=message,
        path=path,
        index=index,
        tool_call_id=entry.tool_call_id,
        name=entry.name,
        reason=entry.error_message if isinstance(entry, AgentToolCallResult) else None,
    )
