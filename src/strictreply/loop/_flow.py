"""The loop: request a reply, run the tools that it calls, and repeat until there is an answer.

The loop does no I/O: it yields effects (:data:`Effect`) and is sent events (:data:`Event`). So one
loop serves sync and async runs, streams, and durable runs that are replayed from records.

Each effect gets one event. Any event may be EffectRaised, which ends the run at this step.

- *The opening* uses the store. A new conversation needs nothing from it. The next turn of a
  conversation reads the session and its last turn. A turn that waits for its client reads both and
  claims the calls; then each approved call is run by RunTools, and the store keeps first that the
  call begins and then its result. AskModel follows.
- *AskModel* gets an AcceptedReply. The run ends if the reply is an answer, or if all of its calls
  wait for the client. Otherwise RunTools follows with the calls that are run here; if each of them
  repeats too often, AskModel follows immediately.
- *RunTools* gets a tuple of ToolOutcome. The run ends if other calls of the reply wait for the
  client; otherwise AskModel follows with the results.
- *The end* uses the store: it saves the turn as one piece. If the run failed or was cancelled, it
  releases the claim instead.

A run goes through steps (:class:`PipelineStep`), which its trace lists. Each step makes a new
:class:`Progress` from the previous one; a step that does not complete leaves nothing. Between two
steps the run may be cancelled, and a :class:`RunObserver` may refuse the state there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from functools import partial, reduce
from itertools import count
from operator import add, methodcaller

from strictreply import AbortRun, AssistantReply, DirectAnswer, Invalid, ReplyHalted, ToolCall
from strictreply.core import Message, Opened, judge_opened
from strictreply.core.text import compact, counted
from strictreply.core.tools import written_arguments
from strictreply.loop._conversation import (
    answer_text,
    native_arguments,
    reply_message,
    result_messages,
    with_ids_of,
)
from strictreply.loop._effects import (
    AcceptedReply,
    AskModel,
    Effect,
    EffectRaised,
    Event,
    RunTool,
    RunTools,
    ToolOutcome,
    result_of,
)
from strictreply.loop._manifest_checks import call_errors, is_text
from strictreply.loop._reconciling import answered_manifest
from strictreply.loop._refusals import type_of
from strictreply.loop._results import capped, suppressed_result, with_results
from strictreply.loop._run_state import Progress
from strictreply.loop._run_steps import RunLoop
from strictreply.loop._sessions import SessionClaim, SessionStore, manifest_id
from strictreply.loop._step_walk import WalkEnd
from strictreply.loop.invoke_result import (
    InvokeCode,
    InvokeError,
    InvokeFailed,
    InvokeResult,
    IterationsExceeded,
)
from strictreply.loop.values import (
    AgentPipelineContextType,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    LineStatus,
    PipelineStep,
    ResponseKind,
    Session,
    ToolCallManifest,
    Turn,
)


def run_flow(run: RunLoop) -> Generator[Effect, Event, WalkEnd[Progress]]:
    """Drive a run to its end: an answer, calls that wait for the client, a failure, or a stop.

    A turn that completed, or waits for the client, is saved as one piece. A run that failed or was
    cancelled leaves the store unchanged, so the client may send its results again. If a completed
    run cannot be saved, it fails with the store's error, and its state is in the result.

    Raises InvokeFailed for a request that has no type.
    """
    kind = type_of(run.request)
    if isinstance(kind, InvokeResult):
        raise InvokeFailed(kind.errors)

    run.kind = kind
    try:
        state = yield from _open(run)
        run.enter(PipelineStep.REASONER, state)
        _refuse_endless(run, state.turn)

        while True:
            run.enter(PipelineStep.LLM_CLIENT, state)
            messages = [*state.transcript, *_reminders(run, state.turn)]
            asked = yield from result_of(AskModel(messages, not state.turn.tool_calls))

            if isinstance(asked.reply, DirectAnswer):
                state = _with_answer(run, state, asked, asked.reply)
                break

            manifest = _take_calls(run, state.turn, messages, asked)
            state = replace(state, turn=_with_calls(run, state.turn, manifest), manifest=manifest)
            _refuse_endless(run, state.turn)  # before running tools whose results it cannot send

            here = [one for one in manifest.tool_calls if not one.requires_client_execution]
            if not here:
                break  # all calls wait for the client

            run.enter(PipelineStep.REASONER, state)
            manifest = with_results(manifest, (yield from _run_calls(run, here)))
            if manifest.pending:
                state = replace(state, manifest=manifest)
                break  # the other calls wait for the client

            turn = with_messages(state.turn, _results_of(run, manifest))
            state = replace(state, turn=turn, manifest=None)

        run.enter(PipelineStep.RESPONSE_BUILDER, state)
        state = replace(state, response=_build_response(state))
        run.enter(None, state)
    except Exception as error:  # noqa: BLE001 - raised by a step, a check or the store
        end = run.failed(error)
        if run.claiming is not None:
            yield run.release
        return end

    settled = yield partial(_save, run, state)
    if isinstance(settled, EffectRaised):
        return run.end(LineStatus.FAILED, cause=settled.error)
    return run.end(LineStatus.COMPLETED)


def _open(run: RunLoop) -> Generator[Effect, Event, Progress]:
    """Begin a conversation or its next turn, or continue the turn that waits for the client."""
    state = Progress()
    run.enter(PipelineStep.REQUEST_HANDLER, state)

    match run.kind:
        case AgentPipelineContextType.INITIAL:
            run.enter(PipelineStep.AGENT_CONTEXT_RESOLVER, state)
            state = replace(state, agent=run.agent)

            run.enter(PipelineStep.AGENT_SESSION_CREATOR, state)
            state = _new_session(run, state)
        case AgentPipelineContextType.FOLLOW_ON:
            run.enter(PipelineStep.SESSION_RESTORER, state)
            state = yield from _begin_next_turn(run, state)

            run.enter(PipelineStep.AGENT_CONTEXT_LOADER, state)
            state = replace(state, agent=run.agent)
        case AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION:
            run.enter(PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER, state)
            state = yield from _restore_waiting_turn(run, state)

            run.enter(PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER, state)
            state = yield from _resolve_results(run, state)

            run.enter(PipelineStep.AGENT_CONTEXT_LOADER, state)
            state = replace(state, agent=run.agent)

    run.enter(PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER, state)
    instructions = run.agent.instructions
    prompt = (dict(run.replay.system(instructions)),) if instructions else ()
    return replace(state, prompt=prompt + state.session.messages)


def _new_session(run: RunLoop, state: Progress) -> Progress:
    """Begin a session with the caller's messages; the last of them begins its first turn."""
    request = run.request
    *before, last = request.messages
    session = Session(
        id=run.new_id(),
        org=str(request.org),
        user=str(request.user),
        agent_context_id=run.agent.id,
        conversation_context_id=run.conversation,
        messages=tuple(before),
    )
    return replace(state, session=session, turn=Turn(id=run.new_id(), messages=(last,)))


def _begin_next_turn(run: RunLoop, state: Progress) -> Generator[Effect, Event, Progress]:
    """Continue a session with a new turn."""
    session = yield from _restore_session(run)
    last = yield from result_of(lambda store: store.turn(session.id, session.last_turn_id))

    messages: list[Message] = []
    if last is not None and last.waiting is not None:
        # That turn was never continued: keep the model's calls and the results so far.
        limit = run.policy.max_result_chars
        results = {result.tool_call_id: result for result in last.waiting.tool_call_results}
        for call in last.waiting.pending:
            results[call.tool_call_id] = call.failed("Abandoned", limit=limit)

        settled = with_results(last.waiting, results)
        messages = [*last.messages, *_results_of(run, settled)]

    turn = with_messages(Turn(id=run.new_id()), [*messages, *run.request.messages])
    return replace(state, session=session, turn=turn)


def _restore_waiting_turn(run: RunLoop, state: Progress) -> Generator[Effect, Event, Progress]:
    """Continue the turn that waits for the client."""
    request = run.request
    session = yield from _restore_session(run)
    turn = yield from result_of(lambda store: store.turn(request.session_id, request.turn_id))
    if turn is None:
        message = "this session has no turn with this id"
        raise _not_restored(InvokeCode.NOT_FOUND, message, "turn_id")

    return replace(state, session=session, turn=replace(turn, waiting=None))


def _restore_session(run: RunLoop) -> Generator[Effect, Event, Session]:
    request = run.request
    session = yield from result_of(lambda store: store.session(request.session_id))
    if session is None or (session.org, session.user) != (request.org, request.user):
        message = (
            "this store has no session with this id; "
            "to continue a session of another process, use a shared store"
        )
        raise _not_restored(InvokeCode.NOT_FOUND, message, "session_id")

    if session.last_turn_id != request.turn_id:
        raise _not_restored(InvokeCode.STALE_TURN, "", "turn_id")

    return session


def _not_restored(code: InvokeCode, message: str, member: str) -> InvokeFailed:
    return InvokeFailed((code.error("loop.session", message, path=f"/envelope/{member}"),))


def _resolve_results(run: RunLoop, state: Progress) -> Generator[Effect, Event, Progress]:
    """Claim the waiting calls, add the client's results, and run the approved calls."""
    request = run.request
    turn = state.turn

    claiming = (manifest_id(request.session_id, request.turn_id), run.correlation_id)
    run.claiming = claiming
    claim = yield from result_of(lambda store: store.claim(*claiming))
    if isinstance(claim, InvokeError):
        run.claiming = None
        raise InvokeFailed((claim,))

    run.claim = claim
    # Leave out the results of approved calls: a client that tries again decides on all of them
    # again.
    decided = {call.tool_call_id for call in claim.manifest.tool_calls if call.needs_approval}
    earlier = claim.manifest.tool_call_results
    others = tuple(result for result in earlier if result.tool_call_id not in decided)
    waiting = replace(claim.manifest, tool_call_results=others)
    answered = answered_manifest(waiting, request, turn)

    # The reply was already judged against the demands of its own request.
    as_judged = run.contract.replace(choice="auto", parallel=True)
    verdict = judge_opened(as_judged, Opened(run.replay.read(turn.messages[-1])))
    if isinstance(verdict, Invalid):
        changed = InvokeCode.TOOLS_CHANGED.error("loop.same_tools", issues=verdict.issues)
        raise InvokeFailed((changed,))

    run.calls = with_ids(verdict.reply, f"{turn.id}-{turn.iterations - 1}")
    resolved = yield from _run_approved(run, claim, answered)
    turn = with_messages(turn, _results_of(run, resolved))
    return replace(state, resolved=resolved, turn=turn)


def _run_approved(
    run: RunLoop, claim: SessionClaim, answered: ToolCallManifest
) -> Generator[Effect, Event, ToolCallManifest]:
    """Replace decisions by results.

    The store records that a call begins, and then its result, so that no call runs twice.
    """
    limit = run.policy.max_result_chars
    ran = {result.tool_call_id: result for result in claim.manifest.tool_call_results}
    given = {result.tool_call_id: capped(result, limit) for result in answered.tool_call_results}

    for call in answered.tool_calls:
        if not call.needs_approval or call.tool_call_id in ran:
            continue

        is_approved, reason = given[call.tool_call_id].approval or (False, "")
        if not is_approved:
            denied = call.failed("ApprovalDenied", reason, limit=limit)
            given[call.tool_call_id] = denied
            continue

        marked = ran | {call.tool_call_id: call.failed("Interrupted", limit=limit)}
        started = replace(claim, manifest=with_results(claim.manifest, marked))
        yield from result_of(methodcaller("keep", started))
        run.claim = started  # only now: a call that could not be recorded was not begun

        ran |= yield from _run_calls(run, [call])
        run.claim = replace(claim, manifest=with_results(claim.manifest, ran))
        yield from result_of(methodcaller("keep", run.claim))

    return with_results(answered, given | ran)


def _reminders(run: RunLoop, turn: Turn) -> list[Message]:
    """Return the reminders for the model: of repeated calls, and of the turn's last reply."""
    if not turn.tool_calls:
        return []

    texts = [
        f"You have called {name} several times with the same arguments; "
        "use the results that you have."
        for name in run.policy.repeated(turn.tool_calls, tools=run.contract.by_name)
    ]
    if run.policy.max_iterations - turn.iterations <= 1:
        texts.append(
            "This is the last reply of this turn: answer now with what you have, and call no tool."
        )

    return [run.replay.user(" ".join(texts))] if texts else []


def _with_answer(
    run: RunLoop, state: Progress, asked: AcceptedReply, reply: DirectAnswer
) -> Progress:
    """Return the state with the answer."""
    run.replies.append(asked)
    turn = with_messages(state.turn, [reply_message(asked.message, reply, run.replay)])

    return replace(
        state,
        turn=replace(turn, iterations=turn.iterations + 1),
        answer=answer_text(reply),
        # The tokens of this process's requests in the turn.
        usage=asdict(reduce(add, [one.usage for one in run.replies])),
    )


def _take_calls(
    run: RunLoop, turn: Turn, messages: Sequence[Message], asked: AcceptedReply
) -> ToolCallManifest:
    """Record a reply, and return its calls.

    The client answers the calls of tools without a function, and calls that need approval.
    """
    earlier = {*run.replay.ids(messages), *[call.tool_call_id for call in turn.tool_calls]}
    run.calls = with_ids(asked.reply, f"{turn.id}-{turn.iterations}", taken=earlier)
    came = run.replay.read(asked.message)
    draft = with_ids_of(came, asked.reply, run.calls)
    message = asked.message if draft is came else run.replay.written(draft)
    run.replies.append(replace(asked, message=message))

    tools = run.contract.by_name
    made: list[AgentToolCall] = []
    is_sound = True
    for call in run.calls:
        tool = tools[call.tool]
        arguments = native_arguments(call, draft)
        if arguments is None:
            arguments = compact(written_arguments(tool, call.args))
            is_sound = False
        if not is_text(call.id):
            is_sound = False

        made.append(
            AgentToolCall(
                tool_call_id=str(call.id),
                name=call.tool,
                arguments_json=arguments,
                requires_client_execution=tool.function is None or tool.needs_approval,
                needs_approval=tool.needs_approval,
            )
        )

    run.suppressed = set()
    judged = run.policy.suppressed(made, turn.tool_calls, tools=tools)
    for index, (one, is_spent) in enumerate(judged):
        if is_spent:
            run.suppressed.add(one.tool_call_id)
            made[index] = replace(one, requires_client_execution=False, needs_approval=False)

    manifest = ToolCallManifest(tool_calls=tuple(made))
    if not is_sound and (errors := call_errors(manifest)):
        raise InvokeFailed(errors)  # before any tool runs
    return manifest


def _with_calls(run: RunLoop, turn: Turn, manifest: ToolCallManifest) -> Turn:
    """Add the last reply, which makes calls, to a turn."""
    asked = run.replies[-1]
    return replace(
        with_messages(turn, [reply_message(asked.message, asked.reply, run.replay)]),
        iterations=turn.iterations + 1,
        tool_calls=(*turn.tool_calls, *manifest.tool_calls),
    )


def _run_calls(
    run: RunLoop, wanted: Sequence[AgentToolCall]
) -> Generator[Effect, Event, dict[str, AgentToolCallResult]]:
    """Run the calls that do not repeat too often, and return the results of all by id."""
    results: dict[str, AgentToolCallResult] = {}
    names: set[str] = set()
    for one in wanted:
        if one.tool_call_id in run.suppressed:
            results[one.tool_call_id] = suppressed_result(one)
        else:
            names.add(one.tool_call_id)

    tools = run.contract.by_name
    runs = tuple([RunTool(tools[call.tool], call) for call in run.calls if call.id in names])
    if not runs:
        return results

    outcomes = yield from result_of(RunTools(runs))
    for one_run, outcome in zip(runs, outcomes, strict=True):
        results[str(one_run.call.id)] = outcome.result
        _count_failure(run, one_run, outcome)

    return results


def _count_failure(run: RunLoop, one: RunTool, outcome: ToolOutcome) -> None:
    """Raise AbortRun when a tool has too many consecutive failures."""
    tool = one.tool
    limit = run.policy.max_tool_failures if tool.max_failures is None else tool.max_failures
    if limit is None:
        return

    # Look at the result, because a durable run's database has no exceptions.
    failures = run.failures.get(tool.name, 0) + 1 if outcome.result.is_failure else 0
    run.failures[tool.name] = failures
    if failures >= limit:
        words = f"tool {tool.name!r} failed {failures} times in a row"
        error = AbortRun(words, reason="failures").by(tool.name, one.call.id)
        raise error from outcome.error


def _results_of(run: RunLoop, manifest: ToolCallManifest) -> list[Message]:
    return result_messages(manifest.tool_call_results, run.contract.channel, run.replay)


def _refuse_endless(run: RunLoop, turn: Turn) -> None:
    """Raise IterationsExceeded (P68) or ReplyHalted if the turn may make no further request."""
    if turn.iterations >= run.policy.max_iterations:
        raise IterationsExceeded(run.policy.max_iterations)

    bound = run.policy.max_tokens_total
    if bound is None:
        return

    spent = sum(asked.usage.total_tokens for asked in run.replies)
    if spent >= bound:
        attempts = tuple(attempt for asked in run.replies for attempt in asked.attempts)
        message = f"halted after {spent} tokens in {counted(len(run.replies), 'request')}"
        raise ReplyHalted(message, reason="tokens", attempts=attempts)


def _build_response(state: Progress) -> AgentResponse:
    """Build the response for the client."""
    response = partial(
        AgentResponse,
        session_id=state.session.id,
        turn_id=state.turn.id,
        mode_display_name=state.session.mode_display_name,
    )
    if state.manifest is None:
        return response(
            kind=ResponseKind.FINAL, primary_output_text=state.answer, usage=state.usage
        )
    return response(kind=ResponseKind.CLIENT_TOOL_CONTINUATION, tool_calls=state.manifest.pending)


def _save(run: RunLoop, state: Progress, store: SessionStore) -> None:
    """Save the turn, which completed or waits for the client."""
    ended = state.turn.messages if state.answer is not None else ()
    session = replace(state.session, messages=state.session.messages + ended)
    store.save(session, state.turn, waiting=state.manifest, consumed=run.claim)


def with_messages(turn: Turn, messages: Sequence[Message]) -> Turn:
    """Add messages to a turn."""
    return replace(turn, messages=(*turn.messages, *map(dict, messages)))


def with_ids(
    reply: AssistantReply, stem: str, *, taken: AbstractSet[str] = frozenset()
) -> tuple[ToolCall, ...]:
    """Return the calls of a reply, each with an id that is not ``taken``.

    The id is the provider's; in the text channel it is made from ``stem``.
    """
    calls = list(reply.calls)
    used = taken | {str(call.id) for call in calls}

    for index, call in enumerate(calls):
        id_ = call.id or f"{stem}-{index}"
        # Some servers start to count again, and a late result must not match the new call.
        if id_ in taken:
            id_ = next(one for number in count(2) if (one := f"{id_}-{number}") not in used)
        calls[index] = replace(call, id=id_)

    return tuple(calls)
