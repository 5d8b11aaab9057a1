"""One turn of the tool loop: the body of each step, the walk from request to response, the save."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import Any, Final, TypeAlias, cast

from strictreply.contract._channels import compact
from strictreply.contract._contract import Contract
from strictreply.contract._judge import judge
from strictreply.contract._tool import Tool
from strictreply.pipeline._invoke_result import (
    InvokeCode,
    InvokeError,
    InvokeFailed,
    InvokeResult,
    IterationsExceeded,
)
from strictreply.pipeline._line import (
    EffectRaised,
    LineResult,
    LineStatus,
    StepBody,
    line_flow,
    type_of,
)
from strictreply.pipeline._manifest_rules import REPLY_CALLS
from strictreply.pipeline._rule import RuleGroup, RuleSubject, judged_in_turn
from strictreply.pipeline._sessions import SessionClaim, SessionStore, manifest_id
from strictreply.pipeline._turn_effects import (
    Asked,
    AskModel,
    LoopPolicy,
    RunTool,
    RunTools,
    ToolOutcome,
    TurnEffect,
    approval_of,
    capped,
    encodable,
    identified,
    is_failure,
    performed,
    reconcile,
    result_turns,
    substitute_result,
    suppressed_result,
    with_results,
)
from strictreply.pipeline._validator import CORE, LOOP_VALIDATOR, STEPS
from strictreply.pipeline._values import (
    AgentContext,
    AgentPipelineContext,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    BuiltResponse,
    ConversationContext,
    Envelope,
    PipelineStep,
    PromptContent,
    ResponseKind,
    ResponsePayload,
    ResponseType,
    Session,
    ToolCallManifest,
    Turn,
    fingerprint,
)
from strictreply.reading._decoding import decode, is_json
from strictreply.values._errors import AbortRun, ReplyHalted
from strictreply.values._limits import Message
from strictreply.values._replies import AssistantReply, DirectAnswer, Invalid, ToolCall, Usage
from strictreply.wires._members import ids_in, peek

_CONVERSATION: Final = "default"
_TURN_ID: Final = "/envelope/turn_id"

TurnStep: TypeAlias = Generator[TurnEffect, Any, AgentPipelineContext]


@dataclass(slots=True, kw_only=True)
class TurnSteps:
    """The bodies of one turn's steps, over a store, a model and tools, and what they share."""

    contract: Contract
    """What replies are checked against."""
    policy: LoopPolicy
    """The bounds of the turn."""
    agent: AgentContext
    """The agent that answers."""
    model: str
    """Name of the model that is asked."""
    new_id: Callable[[], str]
    """Makes the ids of sessions and turns."""
    asked: list[Asked] = field(default_factory=list)
    """The valid replies, in order."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the last reply."""
    suppressed: frozenset[str] = frozenset()
    """Ids of the calls that repeat too often to be run."""
    claiming: tuple[str, str] | None = None
    """Id of the manifest that is being claimed, and the claim's holder; None when none is."""
    claim: SessionClaim | None = None
    """The claim that the turn has on its manifest; None while it has none."""
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Failures in a row by the name of the tool."""

    @property
    def bodies(self) -> Mapping[PipelineStep, StepBody]:
        """The body of each step of the three walks."""
        return {
            # As it is: the core rules judge it after this step.
            PipelineStep.REQUEST_HANDLER: lambda ctx: ctx,
            PipelineStep.SESSION_RESTORER: self.restore_session,
            PipelineStep.AGENT_CONTEXT_RESOLVER: self.load_contexts,
            PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER: self.restore_turn,
            PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER: self.resolve_results,
            PipelineStep.AGENT_SESSION_CREATOR: self.create_session,
            PipelineStep.AGENT_CONTEXT_LOADER: self.load_contexts,
            PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER: self.compose_prompt,
            PipelineStep.REASONER: self.reason,
            PipelineStep.LLM_CLIENT: self.ask,
            PipelineStep.RESPONSE_BUILDER: self.build_response,
        }

    def create_session(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Begin a session with the caller's messages, and its first turn with the last of them."""
        envelope = ctx.envelope
        *before, last = envelope.messages
        session = Session(
            id=self.new_id(),
            org=str(envelope.org),
            user=str(envelope.user),
            agent_context_id=self.agent.id,
            conversation_context_id=_CONVERSATION,
            messages=tuple(before),
        )
        return replace(ctx, session=session, turn=Turn(id=self.new_id(), messages=(last,)))

    def restore_session(self, ctx: AgentPipelineContext) -> TurnStep:
        """Go on with a session, in a new turn."""
        session = yield from self._session(ctx)
        last: Turn | None = yield from performed(
            lambda store: store.turn(session.id, session.last_turn_id)
        )

        messages: list[Message] = []
        if last is not None and last.waiting is not None:
            # Nobody went on with it: what was said and run is kept.
            limit = self.policy.max_result_chars
            results = {result.tool_call_id: result for result in last.waiting.tool_call_results}
            for call in last.waiting.pending:
                results[call.tool_call_id] = substitute_result(call, "Abandoned", limit)

            settled = with_results(last.waiting, results)
            messages = [*last.messages, *self.result_turns(settled)]

        turn = with_turns(Turn(id=self.new_id()), [*messages, *ctx.envelope.messages])
        return replace(ctx, session=session, turn=turn)

    def restore_turn(self, ctx: AgentPipelineContext) -> TurnStep:
        """Go on with the turn that waits for the client."""
        envelope = ctx.envelope
        session = yield from self._session(ctx)
        turn: Turn | None = yield from performed(
            lambda store: store.turn(envelope.session_id, envelope.turn_id)
        )
        if turn is None:
            message = "no turn of this session has this id"
            raise InvokeFailed(
                (InvokeCode.NOT_FOUND.error("loop.session", message, path=_TURN_ID),)
            )

        return replace(ctx, session=session, turn=replace(turn, waiting=None))

    def _session(self, ctx: AgentPipelineContext) -> Generator[TurnEffect, Any, Session]:
        envelope = ctx.envelope
        session: Session | None = yield from performed(
            lambda store: store.session(envelope.session_id)
        )
        if session is None or (session.org, session.user) != (envelope.org, envelope.user):
            message = (
                "no session has this id in this store; "
                "a session of another process needs a shared store"
            )
            raise InvokeFailed(
                (InvokeCode.NOT_FOUND.error("loop.session", message, path="/envelope/session_id"),)
            )

        if session.last_turn_id != envelope.turn_id:
            raise InvokeFailed((InvokeCode.STALE_TURN.error("loop.session", path=_TURN_ID),))

        return session

    def load_contexts(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Set the agent context and the conversation context."""
        conversation = ConversationContext(id=_CONVERSATION, model=self.model)
        return replace(ctx, agent_context=self.agent, conversation_context=conversation)

    def compose_prompt(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Compose what stands before the turn's own messages."""
        messages = [*session_of(ctx).messages]
        if self.agent.instructions:
            messages.insert(0, {"role": "system", "content": self.agent.instructions})
        return replace(ctx, prompt=PromptContent(ready=True, messages=tuple(messages)))

    def resolve_results(self, ctx: AgentPipelineContext) -> TurnStep:
        """Claim the calls that wait, give each the client's result, and run those approved."""
        envelope = ctx.envelope
        turn = turn_of(ctx)

        claiming = (manifest_id(envelope.session_id, envelope.turn_id), ctx.correlation_id)
        self.claiming = claiming
        claim: SessionClaim | InvokeError = yield from performed(
            lambda store: store.claim(*claiming)
        )
        if isinstance(claim, InvokeError):
            self.claiming = None
            raise InvokeFailed((claim,))

        self.claim = claim
        # The results of approved calls are left out: a client that tries again decides on all of
        # them again.
        decided = {call.tool_call_id for call in claim.manifest.tool_calls if call.needs_approval}
        earlier = claim.manifest.tool_call_results
        kept = tuple(result for result in earlier if result.tool_call_id not in decided)
        waiting = replace(claim.manifest, tool_call_results=kept)
        answered = answered_manifest(waiting, envelope, turn)

        # The reply was judged by its own request's demands.
        verdict = judge(self.contract.replace(choice="auto", parallel=True), turn.messages[-1])
        if isinstance(verdict, Invalid):
            changed = InvokeCode.TOOLS_CHANGED.error("loop.same_tools", issues=verdict.issues)
            raise InvokeFailed((changed,))

        self.calls = identified(verdict.reply, f"{turn.id}.{turn.iterations - 1}")
        resolved = yield from self._resolved(claim, answered)
        turn = with_turns(turn, self.result_turns(resolved))
        return replace(ctx, tool_call_manifest=resolved, turn=turn)

    def _resolved(
        self, claim: SessionClaim, answered: ToolCallManifest
    ) -> Generator[TurnEffect, Any, ToolCallManifest]:
        """Replace decisions by results.

        The store keeps that a call begins, then its result: no call runs twice.
        """
        limit = self.policy.max_result_chars
        ran = {result.tool_call_id: result for result in claim.manifest.tool_call_results}
        given = {
            result.tool_call_id: capped(result, limit) for result in answered.tool_call_results
        }

        for call in answered.tool_calls:
            if not call.needs_approval or call.tool_call_id in ran:
                continue

            is_approved, reason = approval_of(given[call.tool_call_id]) or (False, "")
            if not is_approved:
                denied = substitute_result(call, "ApprovalDenied", limit, reason=reason)
                given[call.tool_call_id] = denied
                continue

            marked = ran | {call.tool_call_id: substitute_result(call, "Interrupted", limit)}
            begun = replace(claim, manifest=with_results(claim.manifest, marked))
            yield from performed(methodcaller("keep", begun))
            self.claim = begun  # not before: a call that could not be marked was not begun

            ran |= yield from self.run_calls([call])
            self.claim = replace(claim, manifest=with_results(claim.manifest, ran))
            yield from performed(methodcaller("keep", self.claim))

        return with_results(answered, given | ran)

    def reason(self, ctx: AgentPipelineContext) -> TurnStep:
        """Run the calls that are run here; then ask again, or leave the rest to the client."""
        turn = turn_of(ctx)
        manifest = ctx.outgoing_manifest
        if manifest is None:
            self._refuse_endless(turn)
            return ctx

        calls = [call for call in manifest.tool_calls if not call.requires_client_execution]
        spent = [call for call in calls if call.tool_call_id in self.suppressed]
        results = {call.tool_call_id: suppressed_result(call) for call in spent}

        here = [call for call in calls if call.tool_call_id not in results]
        results |= yield from self.run_calls(here)
        manifest = with_results(manifest, results)
        if manifest.pending:
            return replace(
                ctx, outgoing_manifest=manifest, response_type=ResponseType.TOOL_CONTINUATION
            )

        turn = with_turns(turn, self.result_turns(manifest))
        return replace(ctx, turn=turn, outgoing_manifest=None, response_type=ResponseType.NOT_READY)

    def run_calls(
        self, wanted: Sequence[AgentToolCall]
    ) -> Generator[TurnEffect, Any, dict[str, AgentToolCallResult]]:
        """Run calls, and return their results by id."""
        by_id = {call.tool_call_id: call for call in wanted}
        chosen = (call for call in self.calls if call.id in by_id)
        runs = tuple(RunTool(self.contract.by_name[call.tool], call) for call in chosen)

        outcomes: tuple[ToolOutcome, ...] = ()
        if runs:
            outcomes = yield from performed(RunTools(runs))

        results = {
            str(run.call.id): outcome.result for run, outcome in zip(runs, outcomes, strict=True)
        }
        if not all(_is_plain(by_id[id_], result) for id_, result in results.items()):
            calls = tuple(by_id[id_] for id_ in results)
            given = tuple(results.values())
            _refuse_unfit(ToolCallManifest(tool_calls=calls, tool_call_results=given))

        for run, outcome in zip(runs, outcomes, strict=True):
            self._count_failure(run, outcome)

        return results

    def _count_failure(self, run: RunTool, outcome: ToolOutcome) -> None:
        """Raise AbortRun when a tool has failed too often in a row."""
        tool = run.tool
        limit = self.policy.max_tool_failures if tool.max_failures is None else tool.max_failures
        if limit is None:
            return

        # by the result: a durable turn reads it from its database, where no exception is kept
        count = self.failures.get(tool.name, 0) + 1 if is_failure(outcome.result) else 0
        self.failures[tool.name] = count
        if count >= limit:
            words = f"tool {tool.name!r} failed {count} times in a row"
            error = AbortRun(words, reason="failures").by(tool.name, run.call.id)
            raise error from outcome.error

    def result_turns(self, manifest: ToolCallManifest) -> list[Message]:
        """Return the turns that report the results of its calls to the model."""
        return result_turns(manifest, self.contract.channel)

    def ask(self, ctx: AgentPipelineContext) -> TurnStep:
        """Ask the model.

        Its reply leads to an answer, or to calls that are run here or by the client.
        """
        turn = turn_of(ctx)
        messages: list[Message] = [*ctx.prompt.messages, *turn.messages, *self._instructions(turn)]
        asked: Asked = yield from performed(AskModel(messages, is_first=not turn.tool_calls))

        taken = {*ids_in(messages), *(call.tool_call_id for call in turn.tool_calls)}
        self.calls = identified(asked.reply, f"{turn.id}.{turn.iterations}", taken=taken)
        asked = replace(asked, message=_readdressed(asked.message, asked.reply, self.calls))
        self.asked.append(asked)

        calls = self._manifest_calls(turn, asked.message)
        manifest = ToolCallManifest(tool_calls=calls)
        if errors := tuple(judged_in_turn(RuleSubject(manifest, LOOP_VALIDATOR), REPLY_CALLS)):
            raise InvokeFailed(errors)  # before anything is run

        said = with_turns(turn, [_closing(asked)])
        turn = replace(said, iterations=turn.iterations + 1, tool_calls=(*turn.tool_calls, *calls))
        ctx = replace(ctx, turn=turn)

        if isinstance(asked.reply, DirectAnswer):
            # Of the turn, as far as this process asked.
            usage = asdict(sum((one.usage for one in self.asked), Usage()))
            payload = ResponsePayload(primary_output_text=_answer_text(asked.reply), usage=usage)
            return replace(
                ctx,
                response_payload=payload,
                outgoing_manifest=None,
                response_type=ResponseType.FINAL,
            )

        self._refuse_endless(turn)  # the model would not be asked again with the results
        here = any(not call.requires_client_execution for call in calls)
        leads_to = ResponseType.SERVER_TOOLS if here else ResponseType.TOOL_CONTINUATION
        return replace(ctx, outgoing_manifest=manifest, response_type=leads_to)

    def _refuse_endless(self, turn: Turn) -> None:
        """Raise where the turn may not ask again.

        That is IterationsExceeded (requirement P68), or ReplyHalted for tokens.
        """
        if turn.iterations >= self.policy.max_iterations:
            raise IterationsExceeded(self.policy.max_iterations)

        spent = sum(asked.usage.total_tokens for asked in self.asked)
        bound = self.policy.max_tokens_total
        if bound is not None and spent >= bound:
            attempts = tuple(attempt for asked in self.asked for attempt in asked.attempts)
            message = f"halted after {spent} tokens in {len(self.asked)} asks"
            raise ReplyHalted(message, reason="tokens", attempts=attempts)

    def _instructions(self, turn: Turn) -> list[Message]:
        repeated = self.policy.repeated(turn.tool_calls, tools=self.contract.by_name)
        texts = [
            f"You have called {name} several times with the same arguments; "
            "use the results that you have."
            for name in repeated
        ]

        if turn.tool_calls and self.policy.max_iterations - turn.iterations <= 1:
            texts.append(
                "This is the last reply of this turn: answer now with what you have, "
                "and call no tool."
            )

        return [{"role": "user", "content": " ".join(texts)}] if texts else []

    def _manifest_calls(self, turn: Turn, message: Message) -> tuple[AgentToolCall, ...]:
        """Make the manifest's calls.

        The client answers those of tools without a function or that need approval.
        """
        tools = self.contract.by_name
        pairs = ((call, tools[call.tool]) for call in self.calls)
        made = [
            AgentToolCall(
                tool_call_id=str(call.id),
                name=call.tool,
                arguments_json=_arguments(call, message, tool),
                requires_client_execution=tool.function is None or tool.needs_approval,
                needs_approval=tool.needs_approval,
            )
            for call, tool in pairs
        ]

        judged = list(self.policy.suppressed(made, turn.tool_calls, tools=tools))
        self.suppressed = frozenset(call.tool_call_id for call, is_spent in judged if is_spent)

        here: dict[str, Any] = {"requires_client_execution": False, "needs_approval": False}
        return tuple(replace(call, **here) if is_spent else call for call, is_spent in judged)

    def build_response(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Build the response, and leave everything else as it is."""
        is_final = ctx.response_type is ResponseType.FINAL
        session = session_of(ctx)
        said = ctx.response_payload
        manifest = ctx.outgoing_manifest

        response = AgentResponse(
            kind=ResponseKind.FINAL if is_final else ResponseKind.CLIENT_TOOL_CONTINUATION,
            session_id=session.id,
            turn_id=turn_of(ctx).id,
            mode_display_name=session.mode_display_name,
            tool_calls=None if is_final or manifest is None else manifest.pending,
        )
        if is_final and said is not None:
            response = replace(
                response, primary_output_text=said.primary_output_text, usage=said.usage
            )

        return replace(ctx, built=BuiltResponse(response=response, fingerprint=fingerprint(ctx)))

    def save(self, ctx: AgentPipelineContext, store: SessionStore) -> None:
        """Keep the end of a turn, which completed or waits for the client."""
        session = session_of(ctx)
        turn = turn_of(ctx)
        ended = turn.messages if ctx.response_type is ResponseType.FINAL else ()
        session = replace(session, messages=session.messages + ended)
        store.save(session, turn, waiting=ctx.outgoing_manifest, consumed=self.claim)

    def release(self, store: SessionStore) -> None:
        """Release what the turn has claimed, or may have claimed when it was interrupted."""
        if self.claiming is not None:
            claim = self.claim or store.claim(*self.claiming)
            if not isinstance(claim, InvokeError):
                store.release(claim)


def session_of(ctx: AgentPipelineContext) -> Session:
    """Return the session, which is there once it was created or restored."""
    return ctx.session or Session(id="")


def turn_of(ctx: AgentPipelineContext) -> Turn:
    """Return the turn, which is there once it was created or restored."""
    return ctx.turn or Turn(id="")


def answered_manifest(
    waiting: ToolCallManifest, envelope: Envelope, turn: Turn
) -> ToolCallManifest:
    """Add the results of a request to the calls of a turn that wait.

    Raises InvokeFailed when they do not fit.
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

    _refuse_unfit(answered)  # before anything that was approved is run
    return answered


def _is_plain(call: AgentToolCall, result: AgentToolCallResult) -> bool:
    """Report whether a result is one of its call as a ToolRunner makes it.

    A durable turn reads results from its database, which may hold anything.
    """
    names = (result.tool_call_id, result.name, result.error_message)
    if names != (call.tool_call_id, call.name, None) or result.result_json is None:
        return False
    return is_json(result.result_json)


def _refuse_unfit(manifest: ToolCallManifest) -> None:
    """Raise InvokeFailed when pairs of calls and results break a rule of a manifest."""
    if errors := LOOP_VALIDATOR.validate_tool_call_manifest(manifest).errors:
        raise InvokeFailed(errors)


def with_turns(turn: Turn, messages: Sequence[Message]) -> Turn:
    """Add messages to a turn."""
    return replace(turn, messages=(*turn.messages, *map(dict, messages)))


def _readdressed(message: Message, reply: AssistantReply, calls: tuple[ToolCall, ...]) -> Message:
    """Replace the ids of ``reply`` in the assistant's turn by those of ``calls``."""
    pairs = zip(reply.calls, calls, strict=True)
    ids = {before.id: after.id for before, after in pairs if before.id != after.id}
    written: Any = peek(message, "tool_calls")
    if not ids or not written:
        return message

    renamed = [{**one, "id": ids.get(one["id"], one["id"])} for one in written]
    return {**message, "tool_calls": renamed}


def _arguments(call: ToolCall, message: Message, tool: Tool) -> str:
    native = peek(message, "tool_calls")
    for written in native if isinstance(native, list) else ():
        text = peek(peek(written, "function"), "arguments")
        if peek(written, "id") != call.id or not isinstance(text, str):
            continue
        if isinstance(decode(text), dict):
            return text

    return compact(tool.spelled(call.args))


def _closing(asked: Asked) -> Message:
    """Return a reply for the conversation.

    An answer that was written as a call becomes text, as a call needs a result.
    """
    if isinstance(asked.reply, DirectAnswer) and asked.message.get("tool_calls"):
        return {"role": "assistant", "content": _answer_text(asked.reply)}
    return cast("Message", encodable(dict(asked.message)))


def _answer_text(reply: DirectAnswer) -> str:
    answer = encodable(reply.to_dict()["answer"])
    return answer if isinstance(answer, str) else compact(answer)


def _post_rules(step: PipelineStep) -> tuple[RuleGroup, ...]:
    """Return the rules after a step but for the hash of the context.

    The line compares the context member by member instead.
    """
    rules = STEPS[step].post or ()
    changed = InvokeCode.CONTEXT_CHANGED
    return (tuple(rule for rule in rules if getattr(rule, "code", None) is not changed),)


_LATER_STEPS: Final = (
    # The caller's agent.
    PipelineStep.AGENT_CONTEXT_RESOLVER,
    PipelineStep.AGENT_CONTEXT_LOADER,
    # What a store kept.
    PipelineStep.SESSION_RESTORER,
    PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
    # The client's results, and what was kept of earlier ones.
    PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
    # The model's words, and the session's; the rest is compared by the line.
    PipelineStep.RESPONSE_BUILDER,
)

JUDGED_BEHIND: Final[Mapping[PipelineStep, tuple[RuleGroup, ...]]] = {
    # The request as the caller made it: no later step may change it.
    PipelineStep.REQUEST_HANDLER: CORE,
    **{step: _post_rules(step) for step in _LATER_STEPS},
}
"""The rules of what is not of our own making, by step.

``tests/running/conftest.py`` judges all steps in full.
"""


def turn_flow(
    envelope: Envelope,
    steps: TurnSteps,
    *,
    time_stamp: str,
    correlation_id: str,
    cancelled: Callable[[], bool],
) -> Generator[TurnEffect, Any, LineResult]:
    """Take a request down the line.

    A turn that completed, or waits for the client, is saved in one piece. ``time_stamp`` is when
    the request came, as ISO 8601. A turn that failed or was aborted leaves the store as it was: the
    client may send its results again. One that completed and could not be saved has failed with
    what the store raised, and keeps its context. Raises InvokeFailed for a request of no type.
    """
    kind = type_of(envelope)
    if isinstance(kind, InvokeResult):
        raise InvokeFailed(kind.errors)

    ctx = AgentPipelineContext(
        type=kind, time_stamp=time_stamp, correlation_id=correlation_id, envelope=envelope
    )
    line = yield from line_flow(
        ctx,
        steps.bodies,
        validator=LOOP_VALIDATOR,
        cancelled=cancelled,
        judged_behind=JUDGED_BEHIND,
    )
    if line.status is not LineStatus.COMPLETED:
        if steps.claiming is not None:
            yield steps.release
        return line

    settled = yield partial(steps.save, line.context)
    if isinstance(settled, EffectRaised):
        return replace(line, status=LineStatus.FAILED, cause=settled.error)
    return line
