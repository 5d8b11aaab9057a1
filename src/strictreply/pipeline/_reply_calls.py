"""Taking a reply of the model: its calls get ids, by which they stand in a manifest and are run."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from itertools import count
from typing import Any, Final

from strictreply.contract._describing import compact
from strictreply.contract._tool import Tool
from strictreply.pipeline._invoke_result import InvokeFailed
from strictreply.pipeline._line import EffectRaised
from strictreply.pipeline._manifest_rules import REPLY_CALLS
from strictreply.pipeline._rule import RuleSubject, judged_in_turn
from strictreply.pipeline._tool_results import encodable
from strictreply.pipeline._turn_effects import Asked, AskModel, TurnState, TurnStep
from strictreply.pipeline._validator import LOOP_VALIDATOR
from strictreply.pipeline._values import (
    AgentPipelineContext,
    AgentToolCall,
    ResponsePayload,
    ResponseType,
    ToolCallManifest,
    Turn,
)
from strictreply.reading._decoding import decode
from strictreply.values._attempts import Usage
from strictreply.values._json import Message
from strictreply.values._replies import AssistantReply, DirectAnswer, ToolCall
from strictreply.wires._opening import ids_in, peek

_FINISH: Final = "This is the last reply of this turn: answer now with what you have, and call no tool."


def ask(state: TurnState, ctx: AgentPipelineContext) -> TurnStep:
    """Ask the model, and note what its reply leads to: an answer, or calls that are run here or by the client."""
    turn = turn_of(ctx)
    messages: list[Message] = [*ctx.prompt.messages, *turn.messages, *_instructions(state, turn)]
    asked: Asked | EffectRaised = yield AskModel(messages, is_first=not turn.tool_calls)
    if isinstance(asked, EffectRaised):
        raise asked.error
    taken = {*ids_in(messages), *(call.tool_call_id for call in turn.tool_calls)}
    state.calls = identified(asked.reply, id_stem(turn), taken=taken)
    asked = replace(asked, message=readdressed(asked.message, asked.reply, state.calls))
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
    state.refuse_endless(turn_of(ctx))  # nobody would hear of what the calls came to
    here = any(not call.requires_client_execution for call in calls)
    leads_to = ResponseType.SERVER_TOOLS if here else ResponseType.TOOL_CONTINUATION
    return replace(ctx, outgoing_manifest=manifest, response_type=leads_to)


def identified(reply: AssistantReply, stem: str, *, taken: AbstractSet[str] = frozenset()) -> tuple[ToolCall, ...]:
    """Return the calls of a reply, each with an id: the provider's, or in the text channel one made from ``stem``.

    One that is ``taken`` by an earlier call of the conversation is numbered (``call_1.2``): with servers that count
    anew in every reply, a late result would meet a call that it was not made for.
    """
    used = taken | {str(call.id) for call in reply.calls}

    def free(id_: str) -> str:
        numbered = (f"{id_}.{number}" for number in count(2))
        return next(one for one in numbered if one not in used) if id_ in taken else id_

    return tuple(replace(call, id=free(call.id or f"{stem}.{index}")) for index, call in enumerate(reply.calls))


def id_stem(turn: Turn) -> str:
    """Return what the ids of a reply's calls begin with in the text channel, which has none of its own."""
    return f"{turn.id}.{turn.iterations}"


def readdressed(message: Message, reply: AssistantReply, calls: tuple[ToolCall, ...]) -> Message:
    """Put the ids of ``calls`` into the assistant's turn in the place of those that its ``reply`` has."""
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
    """Make the manifest's calls; a call of a tool without a function is the client's, and so is an approval.

    One that repeats too often is not the client's to answer, since it is not run.
    """
    tools = state.contract.by_name
    made = [
        AgentToolCall(
            tool_call_id=str(call.id),
            name=call.tool,
            arguments_json=_arguments(call, message, tools[call.tool]),
            requires_client_execution=tools[call.tool].function is None or tools[call.tool].needs_approval,
            needs_approval=tools[call.tool].needs_approval,
        )
        for call in state.calls
    ]
    repeated = state.policy.suppressed(made, turn.tool_calls, tools=tools)
    state.suppressed = frozenset(call.tool_call_id for call, is_spent in repeated if is_spent)
    return tuple(
        replace(call, requires_client_execution=False, needs_approval=False)
        if call.tool_call_id in state.suppressed
        else call
        for call in made
    )


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
    """Return a reply as it goes into the conversation: an answer that was written as a call is a text there.

    A call without a result behind it would make every later request invalid.
    """
    if isinstance(asked.reply, DirectAnswer) and asked.message.get("tool_calls"):
        return {"role": "assistant", "content": _answer_text(asked.reply)}
    message: Message = encodable(dict(asked.message))
    return message


def _answer_text(reply: DirectAnswer) -> str:
    answer = encodable(reply.to_dict()["answer"])
    return answer if isinstance(answer, str) else compact(answer)
