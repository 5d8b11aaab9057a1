"""One turn of the tool loop: the body of each step, the walk from request to response, and what is kept of it."""

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
from strictreply.values._errors import ReplyHalted
from strictreply.values._limits import Message
from strictreply.values._replies import AssistantReply, DirectAnswer, Invalid, ToolCall, Usage
from strictreply.wires._opening import ids_in, peek

_CONVERSATION: Final = "default"

TurnStep: TypeAlias = Generator[TurnEffect, Any, AgentPipelineContext]


@dataclass(slots=True, kw_only=True)
class TurnSteps:
    """The bodies of one turn's steps, over a store, a model and tools, and what they share."""

    contract: Contract  # what replies are held to
    policy: LoopPolicy
    agent: AgentContext
    model: str
    new_id: Callable[[], str]
    asked: list[Asked] = field(default_factory=list)  # the replies that fit, in order
    calls: tuple[ToolCall, ...] = ()  # of the last reply
    suppressed: frozenset[str] = frozenset()  # the ids of those that repeat too often
    claiming: tuple[str, str] | None = (
        None  # the manifest that is being claimed, and the claim's holder
    )
    claim: SessionClaim | None = None  # what the turn has

    @property
    def bodies(self) -> Mapping[PipelineStep, StepBody]:
        """The body of each step of the three walks."""
        return {
            PipelineStep.REQUEST_HANDLER: lambda ctx: (
                ctx
            ),  # as it is: the core rules are held to it behind this step
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
            id=self.new_id(), org=str(envelope.org), user=str(envelope.user), messages=tuple(before)
        )
        session = replace(
            session, agent_context_id=self.agent.id, conversation_context_id=_CONVERSATION
        )

        return replace(ctx, session=session, turn=Turn(id=self.new_id(), messages=(last,)))

    def restore_session(self, ctx: AgentPipelineContext) -> TurnStep:
        """Go on with a session, in a new turn."""
        session = yield from self._session(ctx)
        last: Turn | None = yield from performed(
            lambda store: store.turn(session.id, session.last_turn_id)
        )
        messages: list[Message] = []

        if (
            last is not None and last.waiting is not None
        ):  # nobody went on with it: what was said and run is kept
            results = {result.tool_call_id: result for result in last.waiting.tool_call_results}
            limit = self.policy.max_result_chars
            left = {
                call.tool_call_id: substitute_result(call, "Abandoned", limit)
                for call in last.waiting.pending
            }
            messages = [
                *last.messages,
                *self.result_turns(with_results(last.waiting, results | left)),
            ]

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
                (InvokeCode.NOT_FOUND.error("loop.session", message, path="/envelope/turn_id"),)
            )

        return replace(ctx, session=session, turn=replace(turn, waiting=None))

    def _session(self, ctx: AgentPipelineContext) -> Generator[TurnEffect, Any, Session]:
        envelope = ctx.envelope
        session: Session | None = yield from performed(
            lambda store: store.session(envelope.session_id)
        )
        if session is None or (session.org, session.user) != (envelope.org, envelope.user):
            message = "no session has this id in this store; a session of another process needs a shared store"
            raise InvokeFailed(
                (InvokeCode.NOT_FOUND.error("loop.session", message, path="/envelope/session_id"),)
            )

        if session.last_turn_id != envelope.turn_id:
            raise InvokeFailed(
                (InvokeCode.STALE_TURN.error("loop.session", path="/envelope/turn_id"),)
            )

        return session

    def load_contexts(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Set the agent context and the conversation context."""
        conversation = ConversationContext(id=_CONVERSATION, model=self.model)
        return replace(ctx, agent_context=self.agent, conversation_context=conversation)

    def compose_prompt(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Compose what stands before the turn's own messages."""
        system = (
            [{"role": "system", "content": self.agent.instructions}]
            if self.agent.instructions
            else []
        )
        return replace(
            ctx, prompt=PromptContent(ready=True, messages=(*system, *session_of(ctx).messages))
        )

    def resolve_results(self, ctx: AgentPipelineContext) -> TurnStep:
        """Claim the calls that wait, give each the client's result, and run those that were approved."""
        envelope = ctx.envelope
        turn = turn_of(ctx)
        self.claiming = claiming = (
            manifest_id(envelope.session_id, envelope.turn_id),
            ctx.correlation_id,
        )
        claim: SessionClaim | InvokeError = yield from performed(
            lambda store: store.claim(*claiming)
        )
        if isinstance(claim, InvokeError):
            self.claiming = None
            raise InvokeFailed((claim,))

        self.claim = claim
        # what approved calls came to already is left out: a client that tries again decides on all
        # of them again
        decided = {call.tool_call_id for call in claim.manifest.tool_calls if call.needs_approval}
        kept = [
            result
            for result in claim.manifest.tool_call_results
            if result.tool_call_id not in decided
        ]
        answered = answered_manifest(
            replace(claim.manifest, tool_call_results=tuple(kept)), envelope, turn
        )

        # it was held to its own request's demands
        verdict = judge(self.contract.replace(choice="auto", parallel=True), turn.messages[-1])
        if isinstance(verdict, Invalid):
            raise InvokeFailed(
                (InvokeCode.TOOLS_CHANGED.error("loop.same_tools", issues=verdict.issues),)
            )

        self.calls = identified(verdict.reply, f"{turn.id}.{turn.iterations - 1}")
        resolved = yield from self._resolved(claim, answered)

        return replace(
            ctx, tool_call_manifest=resolved, turn=with_turns(turn, self.result_turns(resolved))
        )

    def _resolved(
        self, claim: SessionClaim, answered: ToolCallManifest
    ) -> Generator[TurnEffect, Any, ToolCallManifest]:
        """Replace decisions by results.

        The store keeps that a call begins, then its result: none runs twice.
        """
        ran = {result.tool_call_id: result for result in claim.manifest.tool_call_results}
        limit = self.policy.max_result_chars
        given = {
            result.tool_call_id: capped(result, limit) for result in answered.tool_call_results
        }

        for call in answered.tool_calls:
            if not call.needs_approval or call.tool_call_id in ran:
                continue

            is_approved, reason = approval_of(given[call.tool_call_id]) or (False, "")
            if not is_approved:
                given[call.tool_call_id] = substitute_result(
                    call, "ApprovalDenied", limit, reason=reason
                )
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
        results = {
            call.tool_call_id: suppressed_result(call)
            for call in calls
            if call.tool_call_id in self.suppressed
        }
        here = [call for call in calls if call.tool_call_id not in results]
        manifest = with_results(manifest, results | (yield from self.run_calls(here)))
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
        runs = tuple(
            RunTool(self.contract.by_name[call.tool], call)
            for call in self.calls
            if call.id in by_id
        )
        outcomes: tuple[ToolOutcome, ...] = (yield RunTools(runs)) if runs else ()
        results = {
            str(run.call.id): outcome.result for run, outcome in zip(runs, outcomes, strict=True)
        }
        # A ToolRunner makes them like this; a durable turn reads results from its database, which
        # may hold anything.
        ours = (
            (result.tool_call_id, result.name, result.error_message) == (id_, by_id[id_].name, None)
            and result.result_json is not None
            and is_json(result.result_json)
            for id_, result in results.items()
        )
        if not all(ours):
            calls = tuple(by_id[id_] for id_ in results)
            _refuse_unfit(
                ToolCallManifest(tool_calls=calls, tool_call_results=tuple(results.values()))
            )

        return results

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
            usage = asdict(
                sum((one.usage for one in self.asked), Usage())
            )  # of the turn, as far as this process asked
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
        """Raise where the turn may not ask again: IterationsExceeded (requirement P68), or ReplyHalted for tokens."""
        if turn.iterations >= self.policy.max_iterations:
            raise IterationsExceeded(self.policy.max_iterations)
        spent = sum(asked.usage.total_tokens for asked in self.asked)
        bound = self.policy.max_tokens_total
        if bound is not None and spent >= bound:
            attempts = tuple(attempt for asked in self.asked for attempt in asked.attempts)
            message = f"halted after {spent} tokens in {len(self.asked)} asks"
            raise ReplyHalted(message, reason="tokens", attempts=attempts)

    def _instructions(self, turn: Turn) -> list[Message]:
        texts = [
            f"You have called {name} several times with the same arguments; use the results that you have."
            for name in self.policy.repeated(turn.tool_calls, tools=self.contract.by_name)
        ]

        if turn.tool_calls and self.policy.max_iterations - turn.iterations <= 1:
            texts.append(
                "This is the last reply of this turn: answer now with what you have, and call no tool."
            )

        return [{"role": "user", "content": " ".join(texts)}] if texts else []

    def _manifest_calls(self, turn: Turn, message: Message) -> tuple[AgentToolCall, ...]:
        """Make the manifest's calls.

        The client answers those of tools without a function or that need approval.
        """
        tools = self.contract.by_name
        made = [
            AgentToolCall(
                tool_call_id=str(call.id),
                name=call.tool,
                arguments_json=_arguments(call, message, tool),
                requires_client_execution=tool.function is None or tool.needs_approval,
                needs_approval=tool.needs_approval,
            )
            for call, tool in ((call, tools[call.tool]) for call in self.calls)
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

        kind = ResponseKind.FINAL if is_final else ResponseKind.CLIENT_TOOL_CONTINUATION
        id_ = session.id
        turn_id = turn_of(ctx).id
        name = session.mode_display_name

        pending = None if is_final or manifest is None else manifest.pending
        response = AgentResponse(
            kind=kind, session_id=id_, turn_id=turn_id, mode_display_name=name, tool_calls=pending
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

    Raise InvokeFailed when they do not fit.
    """
    earlier = turn.tool_calls[: len(turn.tool_calls) - len(waiting.tool_calls)]
    run = (envelope.session_id, envelope.turn_id)
    decided = envelope.decided
    answered = reconcile(
        waiting, envelope.tool_results, earlier=earlier, decided=decided, waits_in=run
    )
    if not isinstance(answered, ToolCallManifest):
        raise InvokeFailed(answered.errors)

    _refuse_unfit(answered)  # before anything that was approved is run
    return answered


def _refuse_unfit(manifest: ToolCallManifest) -> None:
    """Raise InvokeFailed when pairs of calls and results break a rule of a manifest."""
    if errors := LOOP_VALIDATOR.validate_tool_call_manifest(manifest).errors:
        raise InvokeFailed(errors)


def with_turns(turn: Turn, messages: Sequence[Message]) -> Turn:
    """Add messages to a turn."""
    return replace(turn, messages=(*turn.messages, *map(dict, messages)))


def _readdressed(message: Message, reply: AssistantReply, calls: tuple[ToolCall, ...]) -> Message:
    """Replace the ids of ``reply`` in the assistant's turn by those of ``calls``."""
    ids = {
        before.id: after.id
        for before, after in zip(reply.calls, calls, strict=True)
        if before.id != after.id
    }
    written: Any = peek(message, "tool_calls")
    if not ids or not written:
        return message

    return {
        **message,
        "tool_calls": [{**one, "id": ids.get(one["id"], one["id"])} for one in written],
    }


def _arguments(call: ToolCall, message: Message, tool: Tool) -> str:
    native = peek(message, "tool_calls")
    for written in native if isinstance(native, list) else ():
        text = peek(peek(written, "function"), "arguments")
        if (
            peek(written, "id") == call.id
            and isinstance(text, str)
            and isinstance(decode(text), dict)
        ):
            return text

    return compact(tool.spelled(call.args))


def _closing(asked: Asked) -> Message:
    """Return a reply for the conversation, an answer that was written as a call as text: a call needs a result."""
    if isinstance(asked.reply, DirectAnswer) and asked.message.get("tool_calls"):
        return {"role": "assistant", "content": _answer_text(asked.reply)}
    return cast("Message", encodable(dict(asked.message)))


def _answer_text(reply: DirectAnswer) -> str:
    answer = encodable(reply.to_dict()["answer"])
    return answer if isinstance(answer, str) else compact(answer)


JUDGED_BEHIND: Final[Mapping[PipelineStep, tuple[RuleGroup, ...]]] = {
    # the request as the caller made it: no later step may change it
    PipelineStep.REQUEST_HANDLER: CORE,
    **{
        # all but the hash of the context: the line compares it member by member
        step: (
            tuple(
                r
                for r in STEPS[step].post or ()
                if getattr(r, "code", None) is not InvokeCode.CONTEXT_CHANGED
            ),
        )
        for step in (
            PipelineStep.AGENT_CONTEXT_RESOLVER,  # the caller's agent
            PipelineStep.AGENT_CONTEXT_LOADER,
            PipelineStep.SESSION_RESTORER,  # what a store kept
            PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
            # the client's results, and what was kept of earlier ones
            PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
            # the model's words, and the session's; the rest is compared by the line
            PipelineStep.RESPONSE_BUILDER,
        )
    },
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

    A turn that completed, or waits for the client, is saved in one piece.

    ``time_stamp`` is when the request came, as ISO 8601. A turn that failed or was aborted leaves
    the store as it was: the client may send its results again. One that completed and could not be
    saved has failed with what the store raised, and keeps its context. Raises InvokeFailed for a
    request of no type.
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
    return (
        replace(line, status=LineStatus.FAILED, cause=settled.error)
        if isinstance(settled, EffectRaised)
        else line
    )
