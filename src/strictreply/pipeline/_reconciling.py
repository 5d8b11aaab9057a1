"""A reply's calls as a manifest, and a client's results matched to the calls that wait for them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

from strictreply.contract._describing import compact
from strictreply.contract._judge import judge
from strictreply.contract._tool import Tool
from strictreply.pipeline._invoke_result import InvokeCode, InvokeError, InvokeFailed, InvokeResult
from strictreply.pipeline._line import EffectRaised
from strictreply.pipeline._manifest_rules import REPLY_CALLS
from strictreply.pipeline._rule import RuleSubject, judged_in_turn
from strictreply.pipeline._sessions import SessionClaim, manifest_id
from strictreply.pipeline._turn_effects import (
    Asked,
    AskModel,
    TurnEffect,
    TurnState,
    TurnStep,
    capped,
    encodable,
    refuse_unfit,
    stored,
    substitute_result,
    with_results,
)
from strictreply.pipeline._validator import LOOP_VALIDATOR
from strictreply.pipeline._values import (
    AgentPipelineContext,
    AgentToolCall,
    AgentToolCallResult,
    Decision,
    Envelope,
    ResponsePayload,
    ResponseType,
    ToolCallManifest,
    Turn,
)
from strictreply.reading._decoding import decode
from strictreply.values._limits import Message
from strictreply.values._replies import AssistantReply, DirectAnswer, Invalid, ToolCall, Usage
from strictreply.wires._opening import ids_in, peek

_FINISH: Final = "This is the last reply of this turn: answer now with what you have, and call no tool."


def ask(state: TurnState, ctx: AgentPipelineContext) -> TurnStep:
    """Ask the model; its reply leads to an answer, or to calls that are run here or by the client."""
    turn = turn_of(ctx)
    messages: list[Message] = [*ctx.prompt.messages, *turn.messages, *_instructions(state, turn)]
    asked: Asked | EffectRaised = yield AskModel(messages, is_first=not turn.tool_calls)
    if isinstance(asked, EffectRaised):
        raise asked.error
    taken = {*ids_in(messages), *(call.tool_call_id for call in turn.tool_calls)}
    state.calls = identified(asked.reply, f"{turn.id}.{turn.iterations}", taken=taken)
    asked = replace(asked, message=_readdressed(asked.message, asked.reply, state.calls))
    state.asked.append(asked)
    calls = _manifest_calls(state, turn, asked.message)
    manifest = ToolCallManifest(tool_calls=calls)
    if errors := tuple(judged_in_turn(RuleSubject(manifest, LOOP_VALIDATOR), REPLY_CALLS)):
        raise InvokeFailed(errors)  # before anything is run
    said = with_turns(turn, [_closing(asked)])
    ctx = replace(ctx, turn=replace(said, iterations=turn.iterations + 1, tool_calls=(*turn.tool_calls, *calls)))
    if isinstance(asked.reply, DirectAnswer):
        usage = asdict(sum((one.usage for one in state.asked), Usage()))  # of the turn, as far as this process asked
        payload = ResponsePayload(primary_output_text=_answer_text(asked.reply), usage=usage)
        return replace(ctx, response_payload=payload, outgoing_manifest=None, response_type=ResponseType.FINAL)
    state.refuse_endless(turn_of(ctx))  # the model would not be asked again with the results
    here = any(not call.requires_client_execution for call in calls)
    leads_to = ResponseType.SERVER_TOOLS if here else ResponseType.TOOL_CONTINUATION
    return replace(ctx, outgoing_manifest=manifest, response_type=leads_to)


def identified(reply: AssistantReply, stem: str, *, taken: AbstractSet[str] = frozenset()) -> tuple[ToolCall, ...]:
    """Return the calls of a reply, each with an id: the provider's, or in the text channel one made from ``stem``.

    One that is ``taken`` is numbered (``call_1.2``): some servers count anew, and a late result must not match it.
    """
    used = taken | {str(call.id) for call in reply.calls}

    def free(id_: str) -> str:
        numbered = (f"{id_}.{number}" for number in count(2))
        return next(one for one in numbered if one not in used) if id_ in taken else id_

    return tuple(
        call if call.id and call.id not in taken else replace(call, id=free(call.id or f"{stem}.{index}"))
        for index, call in enumerate(reply.calls)
    )


def _readdressed(message: Message, reply: AssistantReply, calls: tuple[ToolCall, ...]) -> Message:
    """Replace the ids of ``reply`` in the assistant's turn by those of ``calls``."""
    ids = {before.id: after.id for before, after in zip(reply.calls, calls, strict=True) if before.id != after.id}
    written: Any = peek(message, "tool_calls")
    if not ids or not written:
        return message
    return {**message, "tool_calls": [{**one, "id": ids.get(one["id"], one["id"])} for one in written]}


def turn_of(ctx: AgentPipelineContext) -> Turn:
    """Return the turn, which is there once it was created or restored."""
    return ctx.turn or Turn(id="")


def with_turns(turn: Turn, messages: Sequence[Message]) -> Turn:
    """Add messages to a turn."""
    return replace(turn, messages=(*turn.messages, *map(dict, messages)))


def _manifest_calls(state: TurnState, turn: Turn, message: Message) -> tuple[AgentToolCall, ...]:
    """Make the manifest's calls; the client answers those of tools without a function and those that need approval."""
    tools = state.contract.by_name
    made = [
        AgentToolCall(
            tool_call_id=str(call.id),
            name=call.tool,
            arguments_json=_arguments(call, message, tool),
            requires_client_execution=tool.function is None or tool.needs_approval,
            needs_approval=tool.needs_approval,
        )
        for call, tool in ((call, tools[call.tool]) for call in state.calls)
    ]
    repeated = state.policy.suppressed(made, turn.tool_calls, tools=tools)
    state.suppressed = frozenset(call.tool_call_id for call, is_spent in repeated if is_spent)
    not_run = partial(replace, requires_client_execution=False, needs_approval=False)
    return tuple(not_run(call) if call.tool_call_id in state.suppressed else call for call in made)


def _arguments(call: ToolCall, message: Message, tool: Tool) -> str:
    native = peek(message, "tool_calls")
    for written in native if isinstance(native, list) else ():
        text = peek(peek(written, "function"), "arguments")
        if peek(written, "id") == call.id and isinstance(text, str) and isinstance(decode(text), dict):
            return text
    return compact(tool.spelled(call.args))


def _instructions(state: TurnState, turn: Turn) -> list[Message]:
    texts = [
        f"You have called {name} several times with the same arguments; use the results that you have."
        for name in state.policy.repeated(turn.tool_calls, tools=state.contract.by_name)
    ]
    if turn.tool_calls and state.policy.max_iterations - turn.iterations <= 1:
        texts.append(_FINISH)
    return [{"role": "user", "content": " ".join(texts)}] if texts else []


def _closing(asked: Asked) -> Message:
    """Return a reply for the conversation, an answer that was written as a call as text: a call needs a result."""
    if isinstance(asked.reply, DirectAnswer) and asked.message.get("tool_calls"):
        return {"role": "assistant", "content": _answer_text(asked.reply)}
    message: Message = encodable(dict(asked.message))
    return message


def _answer_text(reply: DirectAnswer) -> str:
    answer = encodable(reply.to_dict()["answer"])
    return answer if isinstance(answer, str) else compact(answer)


class Approval(NamedTuple):
    """Whether a call may be run here, and the client's reason, empty for none."""

    approved: bool
    reason: str = ""


def approval_of(result: AgentToolCallResult) -> Approval | None:
    """Read the decision on a call that needs approval; None when the result is no such decision."""
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
    """Match a client's results to the calls that wait for them, in the order of the calls (requirement P65).

    Results that the manifest has already stay. The result holds every fault: of each entry of ``results`` the first,
    with its index, and of each call of the client that stays without a result. A call that needs approval wants a
    decision (:func:`approval_of`); any other one ``result_json``, or with ``allow_error_results`` either this or an
    ``error_message`` (X11). ``decided`` are the program's decisions, which some results state; None when it has checked
    all of them. A client's result approves nothing by itself, and a decision holds for the arguments, the session and
    the turn that it was made on; the manifest waits in ``session_id`` and ``turn_id``. ``earlier`` are calls of this
    turn that were answered before: another result for one of them is ALREADY_CONSUMED (requirement P66). Names and JSON
    texts are held to the rules of a manifest later.
    """
    given = tuple(results)
    waiting = _WaitingCalls(
        {call.tool_call_id: call for call in manifest.tool_calls},
        frozenset(result.tool_call_id for result in manifest.tool_call_results),
        frozenset(call.tool_call_id for call in earlier),
        None if decided is None else {one.tool_call_id: one for one in decided},
        (session_id, turn_id),
        allow_error_results,
    )
    errors: list[InvokeError] = []
    seen: set[str] = set()
    for index, result in enumerate(given):
        code = InvokeCode.DUPLICATE_ID if result.tool_call_id in seen else waiting.fault(result)
        seen.add(result.tool_call_id)
        if code is not None:
            run = waiting.decided_for(result) if code is InvokeCode.DECISION_ELSEWHERE else ""
            errors.append(_error(code, result, index, f"/envelope/tool_results/{index}", run))
    for index, call in enumerate(waiting.calls.values()):
        if call.requires_client_execution and call.tool_call_id not in waiting.answered | seen:
            path = f"/tool_call_manifest/tool_calls/{index}"
            errors.append(_error(InvokeCode.MISSING_RESULT, call, index, path))
    if errors:
        return InvokeResult(errors=tuple(errors))
    return with_results(manifest, {result.tool_call_id: result for result in (*manifest.tool_call_results, *given)})


class _WaitingCalls(NamedTuple):
    """What results are held to: the calls by id, which of them have results, and which were answered before."""

    calls: Mapping[str, AgentToolCall]
    answered: frozenset[str]
    earlier: frozenset[str]
    decided: Mapping[str, Decision] | None
    waits_in: tuple[str, str]
    allow_error_results: bool

    def fault(self, result: AgentToolCallResult) -> InvokeCode | None:
        if self.decided_for(result):  # before its call is looked for: an equal id means nothing in another run
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

    def decided_for(self, result: AgentToolCallResult) -> str:
        """Return the id of the other run that a result is a decision for; empty when it names none, or this one."""
        decision = (self.decided or {}).get(result.tool_call_id)
        run = ("", "") if decision is None else (decision.session_id, decision.turn_id)
        return manifest_id(*run) if any(run) and run != self.waits_in else ""

    def _fault_inside(self, call: AgentToolCall, result: AgentToolCallResult) -> InvokeCode | None:
        if not (result.result_json or "").strip() and not (result.error_message or "").strip():
            return InvokeCode.EMPTY_RESULT
        if result.result_json is not None and result.error_message is not None:
            return InvokeCode.RESULT_AND_ERROR
        if call.needs_approval:
            return None if approval_of(result) else InvokeCode.APPROVAL_MALFORMED
        failed = result.result_json is None and not self.allow_error_results
        return InvokeCode.MISSING_RESULT_JSON if failed else None


def _error(
    code: InvokeCode, entry: AgentToolCall | AgentToolCallResult, index: int, path: str, run: str = ""
) -> InvokeError:
    said = entry.error_message if isinstance(entry, AgentToolCallResult) else None
    return code.error(
        f"reconcile.{code.lower()}",
        path=path,
        index=index,
        tool_call_id=entry.tool_call_id,
        name=entry.name,
        decided_for=run or None,
        reason=said,
    )


def answered_manifest(waiting: ToolCallManifest, envelope: Envelope, turn: Turn) -> ToolCallManifest:
    """Put what a request brings to the calls of a turn that wait; raise InvokeFailed when it does not fit them."""
    answered = reconcile(
        waiting,
        envelope.tool_results,
        earlier=turn.tool_calls[: len(turn.tool_calls) - len(waiting.tool_calls)],
        decided=envelope.decided,
        session_id=envelope.session_id,
        turn_id=envelope.turn_id,
    )
    if not isinstance(answered, ToolCallManifest):
        raise InvokeFailed(answered.errors)
    refuse_unfit(answered)  # before anything that was approved is run
    return answered


def resolve_results(state: TurnState, ctx: AgentPipelineContext) -> TurnStep:
    """Claim the calls that wait, give each the client's result, and run those that were approved."""
    envelope = ctx.envelope
    key = manifest_id(envelope.session_id, envelope.turn_id)
    state.claiming = key, ctx.correlation_id
    claim: SessionClaim | InvokeError = yield from stored(lambda store: store.claim(key, ctx.correlation_id))
    if isinstance(claim, InvokeError):
        state.claiming = None
        raise InvokeFailed((claim,))
    state.claim = claim
    # what approved calls came to already is left out: a client that tries again decides on all of them again
    decided = {call.tool_call_id for call in claim.manifest.tool_calls if call.needs_approval}
    kept = [result for result in claim.manifest.tool_call_results if result.tool_call_id not in decided]
    answered = answered_manifest(replace(claim.manifest, tool_call_results=tuple(kept)), envelope, turn_of(ctx))
    turn = turn_of(ctx)
    demanded = state.contract.replace(choice="auto", parallel=True)  # it was held to its own request's demands
    verdict = judge(demanded, turn.messages[-1])
    if isinstance(verdict, Invalid):
        raise InvokeFailed((InvokeCode.TOOLS_CHANGED.error("loop.same_tools", issues=verdict.issues),))
    state.calls = identified(verdict.reply, f"{turn.id}.{turn.iterations - 1}")
    resolved = yield from _resolved(state, claim, answered)
    return replace(ctx, tool_call_manifest=resolved, turn=with_turns(turn, state.result_turns(resolved)))


def _resolved(
    state: TurnState, claim: SessionClaim, answered: ToolCallManifest
) -> Generator[TurnEffect, Any, ToolCallManifest]:
    """Replace decisions by results; the store keeps that a call begins, then its result, so that none runs twice."""
    ran = {result.tool_call_id: result for result in claim.manifest.tool_call_results}
    limit = state.policy.max_result_chars
    given = {result.tool_call_id: capped(result, limit) for result in answered.tool_call_results}
    for call in answered.tool_calls:
        if not call.needs_approval or call.tool_call_id in ran:
            continue
        decision = approval_of(given[call.tool_call_id])
        if decision is not None and decision.approved:
            marked = ran | {call.tool_call_id: substitute_result(call, "Interrupted", limit)}
            begun = replace(claim, manifest=with_results(claim.manifest, marked))
            yield from _kept(begun)
            state.claim = begun  # not before: a call that could not be marked was not begun
            ran |= yield from state.run_calls([call])
            state.claim = replace(claim, manifest=with_results(claim.manifest, ran))
            yield from _kept(state.claim)
        else:
            said = "" if decision is None else decision.reason
            given[call.tool_call_id] = substitute_result(call, "ApprovalDenied", limit, reason=said)
    return with_results(answered, given | ran)


def _kept(claim: SessionClaim) -> Generator[TurnEffect, Any, None]:
    yield from stored(lambda store: store.keep(claim))
