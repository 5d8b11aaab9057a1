"""A small app on the line: bodies for all three walks over a session store.

Its model says what it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from strictreply.loop import SessionClaim, SessionStore, answered_manifest, type_of
from strictreply.loop.invoke_result import InvokeFailed
from strictreply.loop.values import (
    AgentContext,
    AgentPipelineContextType,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    Envelope,
    LineStatus,
    PipelineStep,
    ResponseKind,
    Session,
    ToolCallManifest,
    Turn,
)
from strictreply.pipeline import (
    AgentPipelineContext,
    BuiltResponse,
    ConversationContext,
    LineResult,
    PipelineRunner,
    PromptContent,
    ResponsePayload,
    ResponseType,
    fingerprint,
    manifest_id_of,
)

Said = str | tuple[AgentToolCall, ...]
"""What the model says next: an answer, or calls."""

PlainBody = Callable[[AgentPipelineContext], AgentPipelineContext]


def call(name: str, *, client: bool = False) -> AgentToolCall:
    """Make a call of a tool, run here unless it is the client's."""
    return AgentToolCall(
        tool_call_id=f"tc-{name}", name=name, arguments_json="{}", requires_client_execution=client
    )


def answer(tool: str, **members: Any) -> AgentToolCallResult:
    """Make the result of the call of a tool; ``members`` are what is different in it."""
    return AgentToolCallResult(
        **{"tool_call_id": f"tc-{tool}", "name": tool, "result_json": '"done"'} | members
    )


def context(envelope: Envelope) -> AgentPipelineContext:
    """Make the context that enters the line."""
    kind = type_of(envelope)
    assert isinstance(kind, AgentPipelineContextType)
    return AgentPipelineContext(
        type=kind, time_stamp="2026-01-01T00:00:00Z", correlation_id="c", envelope=envelope
    )


def asking(text: str = "help me", **members: Any) -> Envelope:
    """Make a request with the user's words, for a new session unless ``members`` name one."""
    return Envelope(org="o", user="u", instructions=text, **members)


def answering(response: AgentResponse, *results: AgentToolCallResult) -> Envelope:
    """Make the request that hands in the client's results."""
    return Envelope(
        org="o",
        user="u",
        session_id=response.session_id,
        turn_id=response.turn_id,
        tool_results=results,
    )


class App:
    """The bodies of an app.

    ``steps`` has the contexts before and after each body that ran, ``ran`` the tools.
    """

    def __init__(self, store: SessionStore, *says: Said, first_id: int = 1) -> None:
        """Take what the model is going to say, and the number in the first id that is given."""
        self.store = store
        self.says = list(says)
        self.ids = count(first_id)
        self.requests = count(1)
        self.claim: SessionClaim | None = None
        self.ran: list[str] = []
        self.steps: list[tuple[PipelineStep, AgentPipelineContext, AgentPipelineContext]] = []

    @property
    def bodies(self) -> dict[PipelineStep, PlainBody]:
        """Return a body for each step, watched."""
        plain: dict[PipelineStep, PlainBody] = {
            PipelineStep.REQUEST_HANDLER: lambda ctx: ctx,
            PipelineStep.SESSION_RESTORER: self.restore_session,
            PipelineStep.AGENT_CONTEXT_RESOLVER: self.load_contexts,
            PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER: self.restore_turn,
            PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER: self.resolve,
            PipelineStep.AGENT_SESSION_CREATOR: self.create,
            PipelineStep.AGENT_CONTEXT_LOADER: self.load_contexts,
            PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER: lambda ctx: replace(
                ctx, prompt=PromptContent(ready=True)
            ),
            PipelineStep.REASONER: self.reason,
            PipelineStep.LLM_CLIENT: self.ask,
            PipelineStep.RESPONSE_BUILDER: self.build,
        }
        return {step: self.watched(step, body) for step, body in plain.items()}

    def turn(self, envelope: Envelope) -> LineResult:
        """Take one request down the line, and keep what it came to."""
        line = PipelineRunner(self.bodies).run(context(envelope))
        self.settle(line)
        return line

    def settle(self, line: LineResult) -> None:
        """Keep what a line came to, or give back what it claimed."""
        ctx, claim, self.claim = line.context, self.claim, None
        if line.status is not LineStatus.COMPLETED:
            if claim is not None:
                self.store.release(claim)
        elif ctx.session is not None and ctx.turn is not None:
            self.store.save(ctx.session, ctx.turn, waiting=ctx.outgoing_manifest, consumed=claim)

    def watched(self, step: PipelineStep, body: PlainBody) -> PlainBody:
        """Note what a body was given, and what it gave."""

        def watching(ctx: AgentPipelineContext) -> AgentPipelineContext:
            given = body(ctx)
            self.steps.append((step, ctx, given))
            return given

        return watching

    def create(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Begin a session and its first turn."""
        return replace(
            ctx, session=Session(id=f"s{next(self.ids)}"), turn=Turn(id=f"t{next(self.ids)}")
        )

    def restore_session(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Begin another turn of a session."""
        session = self.store.session(ctx.envelope.session_id)
        return replace(ctx, session=session, turn=Turn(id=f"t{next(self.ids)}"))

    def restore_turn(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Go on with the turn that waits."""
        session_id = ctx.envelope.session_id
        turn_id = ctx.envelope.turn_id
        return replace(
            ctx, session=self.store.session(session_id), turn=self.store.turn(session_id, turn_id)
        )

    def resolve(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """SessionClaim what waits, and put the client's results to it."""
        key = manifest_id_of(ctx)
        assert isinstance(key, str)

        claim = self.store.claim(key, f"request-{next(self.requests)}")
        if not isinstance(claim, SessionClaim):
            raise InvokeFailed((claim,))

        self.claim = claim
        turn = ctx.turn or Turn(id="", tool_calls=claim.manifest.tool_calls)
        manifest = answered_manifest(claim.manifest, ctx.envelope, turn)
        return replace(ctx, tool_call_manifest=manifest)

    def load_contexts(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Set the agent context and the conversation context."""
        return replace(
            ctx,
            agent_context=AgentContext(id="agent"),
            conversation_context=ConversationContext(id="talk"),
        )

    def reason(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Run the calls that are run here."""
        manifest = ctx.outgoing_manifest
        if manifest is None:
            return ctx

        here = [one for one in manifest.pending if not one.requires_client_execution]
        self.ran += [one.name for one in here]
        manifest = replace(manifest, tool_call_results=tuple(answer(one.name) for one in here))
        if manifest.pending:
            return replace(
                ctx, outgoing_manifest=manifest, response_type=ResponseType.TOOL_CONTINUATION
            )

        return replace(ctx, outgoing_manifest=None, response_type=ResponseType.NOT_READY)

    def ask(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Ask the model for the next step."""
        said = self.says.pop(0)
        turn = ctx.turn or Turn(id="")
        turn = replace(turn, iterations=turn.iterations + 1)

        if isinstance(said, str):
            payload = ResponsePayload(primary_output_text=said)
            return replace(
                ctx, turn=turn, response_payload=payload, response_type=ResponseType.FINAL
            )

        here = any(not one.requires_client_execution for one in said)
        leads_to = ResponseType.SERVER_TOOLS if here else ResponseType.TOOL_CONTINUATION
        turn = replace(turn, tool_calls=(*turn.tool_calls, *said))

        return replace(
            ctx,
            turn=turn,
            outgoing_manifest=ToolCallManifest(tool_calls=said),
            response_type=leads_to,
        )

    def build(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Build the response."""
        session = ctx.session or Session(id="")
        turn = ctx.turn or Turn(id="")
        final = ctx.response_payload
        response = AgentResponse(
            kind=ResponseKind.FINAL if final else ResponseKind.CLIENT_TOOL_CONTINUATION,
            session_id=session.id,
            turn_id=turn.id,
            mode_display_name=session.mode_display_name,
            primary_output_text=final.primary_output_text if final else None,
            tool_calls=ctx.outgoing_manifest.pending if ctx.outgoing_manifest else None,
        )

        return replace(ctx, built=BuiltResponse(response=response, fingerprint=fingerprint(ctx)))
