"""The steps of the tool loop: each a flow from one context to the next, over a store, a model and tools."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeAlias

from strictreply.contract._contract import Contract
from strictreply.contract._describing import compact
from strictreply.contract._judge import judge
from strictreply.contract._judge_native import ids_in
from strictreply.pipeline._effects import Asked, AskModel, RunTool, RunTools, ToolOutcome, TurnEffect, UseStore
from strictreply.pipeline._fingerprint import fingerprint
from strictreply.pipeline._kinds import PipelineStep, ResponseKind, ResponseType
from strictreply.pipeline._line import Raised, StepBody
from strictreply.pipeline._loop_policy import LoopPolicy, suppressed_result
from strictreply.pipeline._reconciling import Approval, approval_of, reconcile
from strictreply.pipeline._reply_calls import identified, manifest_call, readdressed
from strictreply.pipeline._results import InvokeCode, InvokeError, InvokeFailed, IterationsExceeded
from strictreply.pipeline._sessions import Claim, SessionStore, manifest_id
from strictreply.pipeline._tool_results import (
    abandoned,
    capped,
    denied,
    interrupted,
    result_turns,
    spelled,
    with_results,
)
from strictreply.pipeline._validator import LOOP_VALIDATOR, AgentPipelineContextValidator
from strictreply.pipeline._values import (
    AgentContext,
    AgentPipelineContext,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    BuiltResponse,
    ConversationContext,
    PromptContent,
    ResponsePayload,
    Session,
    ToolCallManifest,
    Turn,
)
from strictreply.values._attempts import Usage
from strictreply.values._json import JSONObject, Message
from strictreply.values._replies import DirectAnswer, Invalid, ToolCall

Step: TypeAlias = Generator[TurnEffect, Any, AgentPipelineContext]

_NO_SESSION: Final = (
    "no session has this id here; a session that another process began needs a store that both can reach"
)
_FINISH: Final = "This is the last reply of this turn: answer now with what you have, and call no tool."


@dataclass(slots=True, kw_only=True)
class TurnSteps:
    """The bodies of one turn's steps, and what of it is no plain JSON: the typed replies, in order.

    ``terms`` are what the model's replies are held to; ``new_id`` gives ids that nobody else has.
    """

    contract: Contract
    policy: LoopPolicy
    agent: AgentContext
    conversation: ConversationContext
    new_id: Callable[[], str]
    validator: AgentPipelineContextValidator
    asked: list[Asked] = field(default_factory=list)
    calls: tuple[ToolCall, ...] = ()
    claiming: tuple[str, str] | None = None
    claim: Claim | None = None

    @classmethod
    def opened(
        cls, contract: Contract, policy: LoopPolicy, agent: AgentContext, *, model: str, new_id: Callable[[], str]
    ) -> TurnSteps:
        """Open a turn of the tool loop, which runs its tools between two asks."""
        return cls(
            contract=contract,
            policy=policy,
            agent=agent,
            conversation=ConversationContext(id="default", model=model),
            new_id=new_id,
            validator=LOOP_VALIDATOR,
        )

    @property
    def bodies(self) -> Mapping[PipelineStep, StepBody]:
        """The body of each step of the three walks."""
        return {
            PipelineStep.REQUEST_HANDLER: self.receive,
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

    def receive(self, ctx: AgentPipelineContext) -> Step:
        """Take the request as it is: the core rules are held to it behind this step."""
        yield from ()
        return ctx

    def create_session(self, ctx: AgentPipelineContext) -> Step:
        """Begin a session with what the caller brought, and its first turn with the user's words."""
        yield from ()
        *before, last = ctx.envelope.messages
        session = Session(
            id=self.new_id(),
            org=str(ctx.envelope.org),
            user=str(ctx.envelope.user),
            agent_context_id=self.agent.id,
            conversation_context_id=self.conversation.id,
            messages=tuple(before),
        )
        return replace(ctx, session=session, turn=Turn(id=self.new_id(), messages=(last,)))

    def restore_session(self, ctx: AgentPipelineContext) -> Step:
        """Go on with a session: a new turn behind its last one."""
        session = yield from self._session(ctx)
        last: Turn | None = yield from _stored(lambda store: store.turn(session.id, session.last_turn_id))
        given_up = self._given_up(last) if last else ()
        turn = Turn(id=self.new_id(), messages=(*given_up, *ctx.envelope.messages))
        return replace(ctx, session=session, turn=turn)

    def restore_turn(self, ctx: AgentPipelineContext) -> Step:
        """Go on with the turn that waits for the client."""
        envelope = ctx.envelope
        session = yield from self._session(ctx)
        turn: Turn | None = yield from _stored(lambda store: store.turn(envelope.session_id, envelope.turn_id))
        if turn is None:
            raise _refused(InvokeCode.NOT_FOUND, "/envelope/turn_id", "no turn of this session has this id")
        return replace(ctx, session=session, turn=replace(turn, waiting=None))

    def resolve_results(self, ctx: AgentPipelineContext) -> Step:
        """Claim the calls that wait, give each the client's result, and run those that were approved."""
        key = manifest_id(ctx.envelope.session_id, ctx.envelope.turn_id)
        self.claiming = key, ctx.correlation_id
        claim: Claim | InvokeError = yield from _stored(lambda store: store.claim(key, ctx.correlation_id))
        if isinstance(claim, InvokeError):
            self.claiming = None
            raise InvokeFailed((claim,))
        self.claim = claim
        waiting = _undecided(claim.manifest)
        envelope, earlier = ctx.envelope, _earlier(_turn(ctx), waiting)
        answered = reconcile(
            waiting,
            envelope.tool_results,
            earlier=earlier,
            decided=envelope.decided,
            session_id=envelope.session_id,
            turn_id=envelope.turn_id,
        )
        if not isinstance(answered, ToolCallManifest):
            raise InvokeFailed(answered.errors)
        self._refuse_unfit(answered)  # before anything that was approved is run
        self.calls = self._judged_again(ctx)
        resolved = yield from self._resolved(claim, answered)
        turn = _with_turns(_turn(ctx), self._told(resolved))
        return replace(ctx, tool_call_manifest=resolved, turn=turn)

    def load_contexts(self, ctx: AgentPipelineContext) -> Step:
        """Say who answers, and how it is talked."""
        yield from ()
        return replace(ctx, agent_context=self.agent, conversation_context=self.conversation)

    def compose_prompt(self, ctx: AgentPipelineContext) -> Step:
        """Compose what stands before the turn's own messages."""
        yield from ()
        system = [{"role": "system", "content": self.agent.instructions}] if self.agent.instructions else []
        told = ctx.session.messages if ctx.session else ()
        return replace(ctx, prompt=PromptContent(ready=True, messages=(*system, *told)))

    def reason(self, ctx: AgentPipelineContext) -> Step:
        """Run the calls that are run here; then ask again, or leave the rest to the client."""
        if ctx.outgoing_manifest is not None:
            return (yield from self._ran(ctx, ctx.outgoing_manifest))
        self._refuse_endless(_turn(ctx))
        return ctx

    def ask(self, ctx: AgentPipelineContext) -> Step:
        """Ask the model, and tell what its reply leads to."""
        turn = _turn(ctx)
        messages: list[Message] = [*ctx.prompt.messages, *turn.messages, *self._instructions(turn)]
        asked: Asked | Raised = yield AskModel(messages, is_first=not turn.tool_calls)
        if isinstance(asked, Raised):
            raise asked.error
        taken = {*ids_in(messages), *(call.tool_call_id for call in turn.tool_calls)}
        self.calls = identified(asked.reply, _stem(turn), taken=taken)
        asked = replace(asked, message=readdressed(asked.message, asked.reply, self.calls))
        self.asked.append(asked)
        calls = self._manifest_calls(turn, asked.message)
        said = _with_turns(turn, [_closing(asked)])
        turn = replace(said, iterations=turn.iterations + 1, tool_calls=(*turn.tool_calls, *calls))
        ctx = replace(ctx, turn=turn)
        if isinstance(asked.reply, DirectAnswer):
            payload = ResponsePayload(primary_output_text=_answer_text(asked.reply), usage=self._usage())
            return replace(ctx, response_payload=payload, outgoing_manifest=None, response_type=ResponseType.FINAL)
        self._refuse_endless(turn)  # nobody would hear of what the calls came to
        here = any(not call.requires_client_execution for call in calls)
        leads_to = ResponseType.SERVER_TOOLS if here else ResponseType.TOOL_CONTINUATION
        return replace(ctx, outgoing_manifest=ToolCallManifest(tool_calls=calls), response_type=leads_to)

    def _refuse_endless(self, turn: Turn) -> None:
        """End a turn that may not ask again (requirement P68)."""
        if turn.iterations >= self.policy.max_iterations:
            raise IterationsExceeded(self.policy.max_iterations)

    def build_response(self, ctx: AgentPipelineContext) -> Step:
        """Build the response, and leave everything else as it is."""
        yield from ()
        final = ctx.response_type is ResponseType.FINAL
        session, turn = ctx.session or Session(id=""), _turn(ctx)
        response = AgentResponse(
            kind=ResponseKind.FINAL if final else ResponseKind.CLIENT_TOOL_CONTINUATION,
            session_id=session.id,
            turn_id=turn.id,
            mode_display_name=session.mode_display_name,
        )
        if final and ctx.response_payload is not None:
            said = ctx.response_payload
            response = replace(response, primary_output_text=said.primary_output_text, usage=said.usage)
        elif ctx.outgoing_manifest is not None:
            response = replace(response, tool_calls=ctx.outgoing_manifest.pending)
        return replace(ctx, built=BuiltResponse(response=response, fingerprint=fingerprint(ctx)))

    def _session(self, ctx: AgentPipelineContext) -> Generator[TurnEffect, Any, Session]:
        """Load the session that the request goes on with: the caller's own, and its last turn the one they know."""
        envelope = ctx.envelope
        session: Session | None = yield from _stored(lambda store: store.session(envelope.session_id))
        if session is None or (session.org, session.user) != (envelope.org, envelope.user):
            raise _refused(InvokeCode.NOT_FOUND, "/envelope/session_id", _NO_SESSION)
        if session.last_turn_id != envelope.turn_id:
            raise _refused(InvokeCode.STALE_TURN, "/envelope/turn_id", "the session has gone on since this turn")
        return session

    def _given_up(self, turn: Turn) -> tuple[JSONObject, ...]:
        """Give what is kept of a turn that nobody went on with: what was said and run, and that the rest was not."""
        if turn.waiting is None:
            return ()
        results = {result.tool_call_id: result for result in turn.waiting.tool_call_results}
        limit = self.policy.max_result_chars
        results |= {call.tool_call_id: abandoned(call, limit) for call in turn.waiting.pending}
        return (*turn.messages, *map(dict, self._told(with_results(turn.waiting, results))))

    def _judged_again(self, ctx: AgentPipelineContext) -> tuple[ToolCall, ...]:
        """Read the calls of the reply that waited: by the same judge, with the tools of this process."""
        turn = _turn(ctx)
        demanded = self.contract.replace(choice="auto", parallel=True)  # it was held to its own request's demands
        verdict = judge(demanded, turn.messages[-1])
        if isinstance(verdict, Invalid):
            message = "the reply that waits does not fit the tools given here; give those that it was made with"
            error = InvokeError(
                code=InvokeCode.TOOLS_CHANGED, rule="loop.same_tools", message=message, issues=verdict.issues
            )
            raise InvokeFailed((error,))
        return identified(verdict.reply, _stem(replace(turn, iterations=turn.iterations - 1)))

    def _resolved(self, claim: Claim, answered: ToolCallManifest) -> Generator[TurnEffect, Any, ToolCallManifest]:
        """Put real results in the place of decisions; what was run before the turn failed is not run again.

        Approved calls are run one after the other. That one begins is kept before it does, and its result before the
        next begins: whatever interrupts a turn, no call that was allowed runs twice.
        """
        ran = {result.tool_call_id: result for result in claim.manifest.tool_call_results}
        limit = self.policy.max_result_chars
        given = {result.tool_call_id: capped(result, limit) for result in answered.tool_call_results}
        for call in answered.tool_calls:
            if not call.needs_approval or call.tool_call_id in ran:
                continue
            decision = _decision(given[call.tool_call_id])
            if decision.approved:
                begun = replace(
                    claim,
                    manifest=with_results(claim.manifest, ran | {call.tool_call_id: interrupted(call, limit)}),
                )
                yield from _kept(begun)
                self.claim = begun  # not before: a call that could not be marked was not begun
                ran |= yield from self._run([call])
                self.claim = replace(claim, manifest=with_results(claim.manifest, ran))
                yield from _kept(self.claim)
            else:
                given[call.tool_call_id] = denied(call, decision.reason, limit)
        return with_results(answered, given | ran)

    def _ran(
        self, ctx: AgentPipelineContext, manifest: ToolCallManifest
    ) -> Generator[TurnEffect, Any, AgentPipelineContext]:
        """Give each call that is not the client's its result, and hold the pairs to the rules of a manifest."""
        turn = _turn(ctx)
        results: dict[str, AgentToolCallResult] = {}
        wanted: list[AgentToolCall] = []
        for call, spent in self.policy.suppressed(
            manifest.tool_calls, _earlier(turn, manifest), tools=self.contract.by_name
        ):
            if spent:
                results[call.tool_call_id] = suppressed_result(call)
            elif not call.requires_client_execution:
                wanted.append(call)
        results |= yield from self._run(wanted)
        done = tuple(call for call in manifest.tool_calls if call.tool_call_id in results)
        manifest = with_results(manifest, results)
        self._refuse_unfit(replace(manifest, tool_calls=done))
        if manifest.pending:
            return replace(ctx, outgoing_manifest=manifest, response_type=ResponseType.TOOL_CONTINUATION)
        turn = _with_turns(turn, self._told(manifest))
        return replace(ctx, turn=turn, outgoing_manifest=None, response_type=ResponseType.NOT_READY)

    def _run(self, wanted: Sequence[AgentToolCall]) -> Generator[TurnEffect, Any, dict[str, AgentToolCallResult]]:
        """Run calls, and give their results by id."""
        ids = [call.tool_call_id for call in wanted]
        runs = tuple(RunTool(self.contract.by_name[call.tool], call) for call in self.calls if call.id in ids)
        outcomes: tuple[ToolOutcome, ...] = (yield RunTools(runs)) if runs else ()
        return {str(run.call.id): outcome.result for run, outcome in zip(runs, outcomes, strict=True)}

    def _refuse_unfit(self, manifest: ToolCallManifest) -> None:
        """Hold pairs of calls and results to the rules of a manifest."""
        verdict = self.validator.validate_tool_call_manifest(manifest)
        if not verdict.successful:
            raise InvokeFailed(verdict.errors)

    def _told(self, manifest: ToolCallManifest) -> list[Message]:
        """Give the turns that tell the model what its calls came to."""
        return result_turns(manifest, self.contract.channel)

    def _manifest_calls(self, turn: Turn, message: Message) -> tuple[AgentToolCall, ...]:
        """Spell the calls of a reply; one that is not to be made again waits for nobody."""
        made = [manifest_call(call, message, self.contract.by_name[call.tool]) for call in self.calls]
        return tuple(
            replace(call, requires_client_execution=False, needs_approval=False) if spent else call
            for call, spent in self.policy.suppressed(made, turn.tool_calls, tools=self.contract.by_name)
        )

    def _instructions(self, turn: Turn) -> list[Message]:
        """Tell the model, in this request alone, what it repeats, and when it has to come to an end."""
        told = [
            f"You have called {name} several times with the same arguments; use the results that you have."
            for name in self.policy.repeated(turn.tool_calls, tools=self.contract.by_name)
        ]
        if turn.tool_calls and self.policy.max_iterations - turn.iterations <= 1:
            told.append(_FINISH)
        return [{"role": "user", "content": " ".join(told)}] if told else []

    def _usage(self) -> JSONObject:
        """Sum the tokens of the turn as far as this process asked."""
        return asdict(sum((asked.usage for asked in self.asked), Usage()))


def _kept(claim: Claim) -> Generator[TurnEffect, Any, None]:
    """Keep what the calls of a claim have come to."""
    yield from _stored(lambda store: store.keep(claim))


def _stored(use: Callable[[SessionStore], Any]) -> Generator[TurnEffect, Any, Any]:
    """Use the store; what it raised is raised here."""
    given = yield UseStore(use)
    if isinstance(given, Raised):
        raise given.error
    return given


def _undecided(manifest: ToolCallManifest) -> ToolCallManifest:
    """Leave out what approved calls came to already: a client that tries again decides on all of them again."""
    decided = {call.tool_call_id for call in manifest.tool_calls if call.needs_approval}
    kept = [result for result in manifest.tool_call_results if result.tool_call_id not in decided]
    return replace(manifest, tool_call_results=tuple(kept))


def _earlier(turn: Turn, manifest: ToolCallManifest) -> tuple[AgentToolCall, ...]:
    """Give the calls of a turn before those of its last reply."""
    return turn.tool_calls[: len(turn.tool_calls) - len(manifest.tool_calls)]


def _decision(result: AgentToolCallResult) -> Approval:
    """Read a decision; what is none, which reconciling has refused already, allows nothing."""
    return approval_of(result) or Approval(approved=False)


def _refused(code: InvokeCode, path: str, message: str) -> InvokeFailed:
    """Make the failure of a request that names what is not there."""
    return InvokeFailed((InvokeError(code=code, rule="loop.session", message=message, path=path),))


def _turn(ctx: AgentPipelineContext) -> Turn:
    """Give the turn, which the rules before a step have seen."""
    return ctx.turn or Turn(id="")


def _stem(turn: Turn) -> str:
    """Give what the ids of a reply's calls begin with in the text channel, which has none of its own."""
    return f"{turn.id}.{turn.iterations}"


def _with_turns(turn: Turn, messages: Sequence[Message]) -> Turn:
    """Add messages to a turn."""
    return replace(turn, messages=(*turn.messages, *map(dict, messages)))


def _closing(asked: Asked) -> Message:
    """Give a reply as it goes into the conversation: an answer that was written as a call is a text there.

    A call without a result behind it would make every later request invalid.
    """
    if isinstance(asked.reply, DirectAnswer) and asked.message.get("tool_calls"):
        return {"role": "assistant", "content": _answer_text(asked.reply)}
    message: Message = spelled(dict(asked.message))
    return message


def _answer_text(reply: DirectAnswer) -> str:
    """Spell an answer: text as it is, anything else as JSON."""
    answer = spelled(reply.to_dict()["answer"])
    return answer if isinstance(answer, str) else compact(answer)
