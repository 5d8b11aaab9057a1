"""Matches a client's results, and decisions, to the calls that wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from strictreply.loop._manifest_checks import manifest_errors
from strictreply.loop._results import with_results
from strictreply.loop._sessions import manifest_id
from strictreply.loop.invoke_result import (
    Breach,
    InvokeCode,
    InvokeError,
    InvokeFailed,
    InvokeResult,
)
from strictreply.loop.values import (
    AgentToolCall,
    AgentToolCallResult,
    Decision,
    Envelope,
    ToolCallManifest,
    Turn,
)


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

    Results that are already in the manifest stay. An InvokeResult has every fault: the first one of
    each entry of ``results``, and one for each call of the client that has no result yet.

    - A call that needs approval requires a decision. Any other requires ``result_json``; with
      ``allow_error_results`` an ``error_message`` may replace it (X11).
    - ``decided`` are the program's decisions; None if it has checked all of them. A client's result
      approves nothing by itself. A decision is valid for the arguments, session and turn that it
      was made for; ``waits_in`` has the session and turn of the manifest.
    - Another result for one of the ``earlier`` calls of this turn is ALREADY_CONSUMED (requirement
      P66).
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


def answered_manifest(
    waiting: ToolCallManifest, envelope: Envelope, turn: Turn
) -> ToolCallManifest:
    """Add the results of a request to the waiting calls of a turn.

    Raises InvokeFailed if they do not match.
    """
    earlier = turn.tool_calls[: len(turn.tool_calls) - len(waiting.tool_calls)]
    answered = reconcile(
        waiting,
        envelope.tool_results,
        earlier=earlier,
        decided=envelope.decided,
        waits_in=(envelope.session_id, envelope.turn_id),
    )
    if not isinstance(answered, ToolCallManifest):
        raise InvokeFailed(answered.errors)

    if errors := manifest_errors(answered):
        raise InvokeFailed(errors)  # before any approved call runs
    return answered


class _WaitingCalls(NamedTuple):
    """The calls, by which results are checked, and which of them have results."""

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
    """Whether a result may be an error message instead of JSON."""

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
        # Checked before its call is searched: an equal id of another run means nothing.
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
            return InvokeCode.APPROVAL_MALFORMED if result.approval is None else None

        is_missing = text is None and not self.allow_error_results
        return InvokeCode.MISSING_RESULT_JSON if is_missing else None

    def run_of(self, result: AgentToolCallResult) -> tuple[str, str]:
        """Return the session and the turn that a result decides for; empty if it names none."""
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
    breach = Breach(
        path=path, index=index, tool_call_id=entry.tool_call_id, name=entry.name, reason=reason
    )
    if any(run):
        breach["decided_for"] = manifest_id(*run)
    return code.error(f"reconcile.{code.lower()}", **breach)
