"""Rules of the Messages API on the conversation, in its words where they are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from support.anthropic_judging import Asked, Rules
from support.anthropic_turns import (
    MEMBERS,
    REQUIRED,
    SERVER_RESULTS,
    THOUGHTS,
    Block,
    JSONObject,
    Turn,
    blocks_of,
    is_paused,
    open_server_calls,
    prefix_of,
    present_loop,
)

ID = "^[a-zA-Z0-9_-]+$"

MESSAGE_RULES = Rules()


@MESSAGE_RULES.add("messages.members", "as the members of blocks: anthropics/claude-code#4378")
def _message_members(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        extra = message.keys() - {"role", "content"}
        yield from (f"messages.{at}.{name}: Extra inputs are not permitted" for name in extra)


@MESSAGE_RULES.add("blocks.type", "own words; a block of a later API goes back as it came: rule 13")
def _block_types(asked: Asked) -> Iterator[str]:
    sent = asked.history.unknown if asked.history else []
    for block in asked.blocks:
        if block.type not in MEMBERS and block.value not in sent:
            yield f"{block.path}: Input tag '{block.type}' found using 'type' does not match"


@MESSAGE_RULES.add("blocks.members", "anthropics/claude-code#4378")
def _block_members(asked: Asked) -> Iterator[str]:
    for block in asked.blocks:
        extra = block.value.keys() - MEMBERS.get(block.type, block.value.keys())
        named = f"{block.path}.{block.type}"
        yield from (f"{named}.{name}: Extra inputs are not permitted" for name in extra)
        missing = [name for name in REQUIRED.get(block.type, ()) if name not in block.value]
        yield from (f"{named}.{name}: Field required" for name in missing)


@MESSAGE_RULES.add("content.empty", "anthropics/claude-code#6774")
def _empty_content(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        is_last = at == len(asked.messages) - 1
        if message["content"] or (is_last and message.get("role") == "assistant"):
            continue

        yield (
            f"messages.{at}: all messages must have non-empty content except for the optional "
            "final assistant message"
        )


@MESSAGE_RULES.add("text.empty", "anthropics/claude-code#59812, experientiallabs/experiential#799")
def _empty_texts(asked: Asked) -> Iterator[str]:
    texts = [(("messages"), block.value) for block in asked.blocks]
    texts += [
        ("messages", inner)
        for block in asked.blocks
        if block.type == "tool_result"
        for inner in blocks_of(block.value.get("content"))
    ]
    texts += [("system", inner) for inner in blocks_of(asked.body.get("system"))]

    for where, value in texts:
        if value.get("type") == "text" and value.get("text") == "":
            yield f"{where}: text content blocks must be non-empty"


@MESSAGE_RULES.add(
    "text.whitespace",
    "LibreChat-AI/agents#124; beside a call it is accepted: ant-0ad7e73107",
)
def _blank_texts(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        blocks = blocks_of(message["content"])
        texts = [one.get("text") for one in blocks if one.get("type") == "text"]
        if blocks and len(texts) == len(blocks) and not "".join(map(str, texts)).strip():
            yield "messages: text content blocks must contain non-whitespace text"


@MESSAGE_RULES.add("tool_use.id", "HKUDS/nanobot#4356")
def _call_ids(asked: Asked) -> Iterator[str]:
    for block in asked.blocks:
        name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block.type)
        if name and not re.fullmatch(ID, str(block.value.get(name))):
            yield f"{block.path}.{block.type}.{name}: String should match pattern '{ID}'"


@MESSAGE_RULES.add(
    "tool_use.input", "anthropics/claude-code#6696, anthropics/anthropic-sdk-typescript#648"
)
def _inputs(asked: Asked) -> Iterator[str]:
    for block in asked.blocks:
        if block.type.endswith("tool_use") and not isinstance(block.value.get("input"), dict):
            yield f"{block.path}.{block.type}.input: Input should be a valid dictionary"


@MESSAGE_RULES.add("tool_use.unique", "BerriAI/litellm#23510")
def _unique_ids(asked: Asked) -> Iterator[str]:
    seen = set[str]()
    for block in asked.blocks:
        if block.type == "tool_use":
            if block.value.get("id") in seen:
                yield f"{block.path}: `tool_use` ids must be unique"
            seen.add(str(block.value.get("id")))


@MESSAGE_RULES.add("tool_use.answered", "anthropics/claude-code#5060")
def _unanswered(asked: Asked) -> Iterator[str]:
    for turn, answer in _answered(asked.turns):
        results = answer.results if answer else []
        answered = {block.value.get("tool_use_id") for block in results}
        missing = [call.value["id"] for call in turn.calls if call.value.get("id") not in answered]
        is_short = len(results) < len(turn.calls)
        if missing if asked.model.pairs_ids else is_short:
            yield _no_result(turn, missing)


@MESSAGE_RULES.add(
    "tool_result.first", "docs: handle tool calls; anthropics/anthropic-sdk-typescript#653"
)
def _results_first(asked: Asked) -> Iterator[str]:
    for turn, answer in _answered(asked.turns):
        results = answer.results if answer else []
        if answer and results and answer.blocks[: len(results)] != results:
            yield _no_result(turn, [call.value["id"] for call in turn.calls])


def _answered(turns: list[Turn]) -> Iterator[tuple[Turn, Turn | None]]:
    """Yield the turns that call tools of the client, each with the user's turn behind it."""
    for at, turn in enumerate(turns):
        following = turns[at + 1] if at + 1 < len(turns) else None
        if turn.role == "assistant" and turn.calls:
            is_user = following is not None and following.role == "user"
            yield turn, following if is_user else None


def _no_result(turn: Turn, ids: list[str]) -> str:
    return (
        f"messages.{turn.message}: `tool_use` ids were found without `tool_result` blocks "
        f"immediately after: {', '.join(ids)}. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message."
    )


@MESSAGE_RULES.add("tool_result.called", "anthropics/claude-code#13460")
def _uncalled(asked: Asked) -> Iterator[str]:
    for at, turn in enumerate(asked.turns):
        before = asked.turns[at - 1].calls if at else []
        called = {block.value.get("id") for block in before}
        is_paired_by_number = not asked.model.pairs_ids and len(before) >= len(turn.results)

        for block in () if is_paired_by_number else turn.results:
            if block.value.get("tool_use_id") not in called:
                yield (
                    f"{block.path}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block.value.get('tool_use_id')}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message."
                )


@MESSAGE_RULES.add("tool_result.single", "vectorize-io/hindsight#4250, QwenLM/qwen-code#8163")
def _single_results(asked: Asked) -> Iterator[str]:
    for turn in asked.turns:
        seen = set[str]()
        for block in turn.results:
            id_ = str(block.value.get("tool_use_id"))
            if id_ in seen:
                yield (
                    f"{block.path}: each tool_use must have a single result. Found multiple "
                    f"`tool_result` blocks with id: {id_}"
                )
            seen.add(id_)


@MESSAGE_RULES.add("server_tool.result", "anthropics/claude-code#64383")
def _server_results(asked: Asked) -> Iterator[str]:
    used = set[Any]()
    for block in asked.blocks:
        used |= {block.value.get("id")} if block.type.endswith("_tool_use") else set()
        id_ = block.value.get("tool_use_id")
        if block.type in SERVER_RESULTS and id_ not in used:
            yield (
                f"{block.path}: unexpected `tool_use_id` found in `{block.type}` blocks: {id_}. "
                f"Each `{block.type}` block must have a corresponding `server_tool_use` block "
                "before it."
            )


@MESSAGE_RULES.add(
    "server_tool.open",
    "AnswerDotAI/lisette#108; resumed: ant-fd39eac74c, ant-510b0387c6, ant-db1d6d46ed",
)
def _open_server_tools(asked: Asked) -> Iterator[str]:
    for at, turn in enumerate(asked.turns):
        behind = asked.turns[at + 1 :]
        is_resumed = not behind or (
            behind[0].role == "user" and behind[0].results == behind[0].blocks
        )
        later = behind[1].of(*SERVER_RESULTS) if len(behind) > 1 else []
        answered = {block.value.get("tool_use_id") for block in later}

        for block in open_server_calls(turn):
            is_answered = block.value.get("id") in answered
            if not (is_resumed and (len(behind) < 2 or is_answered)):
                id_ = block.value.get("id")
                name = block.value.get("name")
                yield (
                    f"messages.{block.message}: `{name}` tool use with id `{id_}` "
                    f"was found without a corresponding `{name}_tool_result` block"
                )


def _ends_on_assistant(asked: Asked) -> Turn | None:
    """Return the last turn when the model is to go on with it and it is no paused reply."""
    last = asked.turns[-1]
    has_paused = is_paused(last) or (asked.history is not None and asked.history.has_paused(last))
    return None if last.role != "assistant" or has_paused else last


@MESSAGE_RULES.add("prefill.model", "agenticloops-ai/agentic-ai-engineering#43")
def _prefill(asked: Asked) -> Iterator[str]:
    if _ends_on_assistant(asked) and not asked.model.prefill:
        yield (
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )


@MESSAGE_RULES.add("prefill.thinking", "docs: extended thinking; words of n8n-io/n8n#22550")
def _prefill_and_thinking(asked: Asked) -> Iterator[str]:
    last = _ends_on_assistant(asked)
    if last and asked.thinking in {"enabled", "adaptive"}:
        yield _no_thought(last)


@MESSAGE_RULES.add("prefill.whitespace", "docs: prefill")
def _prefill_ends(asked: Asked) -> Iterator[str]:
    last = _ends_on_assistant(asked)
    text = str(last.blocks[-1].value.get("text", "")) if last and last.blocks else ""
    if text != text.rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


@MESSAGE_RULES.add("thinking.last", "tailcallhq/forgecode#2107")
def _thinking_last(asked: Asked) -> Iterator[str]:
    for turn in asked.turns:
        last = turn.blocks[-1] if turn.role == "assistant" and turn.blocks else None
        if last and last.is_thought:
            yield (
                f"messages.{last.message}: The final block in an assistant message cannot be "
                f"`{last.type}`."
            )


@MESSAGE_RULES.add("thinking.first", "anomalyco/opencode#3077, n8n-io/n8n#22550")
def _thinking_first(asked: Asked) -> Iterator[str]:
    loop = present_loop(asked.turns)
    if asked.thinking == "enabled" and loop and loop[0].calls and not loop[0].blocks[0].is_thought:
        yield _no_thought(loop[0])


def _no_thought(turn: Turn) -> str:
    first = turn.blocks[0].type if turn.blocks else "nothing"
    return (
        f"messages.{turn.message}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
        f"found `{first}`. When `thinking` is enabled, a final `assistant` message must start with "
        "a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
    )


@MESSAGE_RULES.add("thinking.off", "tailcallhq/forgecode#1853")
def _thinking_off(asked: Asked) -> Iterator[str]:
    is_off = asked.thinking == "disabled" or (asked.thinking is None and not asked.model.thinks)
    for turn in present_loop(asked.turns)[-1:] if is_off else ():
        for block in turn.thoughts:
            yield (
                f"{block.path}: When thinking is disabled, an `assistant` message in the final "
                f"position cannot contain `{block.type}`. To use thinking blocks, enable "
                "`thinking` in your request."
            )


@MESSAGE_RULES.add("thinking.signature", "anthropics/anthropic-sdk-python#1598")
def _signatures(asked: Asked) -> Iterator[str]:
    for block in _thoughts(asked):
        text = str(block.value.get(THOUGHTS[block.type]))
        made = asked.history.made.get(text, []) if asked.history else []
        if all(value != block.value for value, _ in made):
            yield f"{block.path}: Invalid `{THOUGHTS[block.type]}` in `{block.type}` block"


@MESSAGE_RULES.add(
    "thinking.kept", "docs: extended thinking with tool use; NousResearch/hermes-agent"
)
def _thinking_kept(asked: Asked) -> Iterator[str]:
    """Of consecutive thoughts all go back, or none.

    "The entire sequence of consecutive thinking blocks must match" (extended thinking, tool use).
    The API keeps no replies: thinking of another one, valid where it stands, does as well, and a
    call without any is refused only where thinking has to come first.
    """
    replies = asked.history.replies if asked.history else {}
    for turn in present_loop(asked.turns):
        contents = [replies[id_] for id_ in _known_ids(turn, replies)]
        back = [block.value for block in turn.thoughts]
        runs = [run for content in contents for run in _runs_of_thoughts(content)]
        kept = [sum(one in back for one in run) for run in runs]
        if any(count not in {0, len(run)} for count, run in zip(kept, runs, strict=True)):
            yield (
                f"messages.{turn.message}.content.0: `thinking` or `redacted_thinking` blocks in "
                "the latest assistant message cannot be modified. These blocks must remain as they "
                "were in the original response."
            )


def _runs_of_thoughts(content: list[JSONObject]) -> list[list[JSONObject]]:
    runs = groupby(content, lambda one: one["type"] in THOUGHTS)
    return [[*run] for is_thought, run in runs if is_thought]


def _known_ids(turn: Turn, replies: dict[str, list[JSONObject]]) -> list[str]:
    return [id_ for call in turn.calls if (id_ := str(call.value.get("id"))) in replies]


@MESSAGE_RULES.add("thinking.bound", "docs: fix a thinking block bound to a different conversation")
def _bound(asked: Asked) -> Iterator[str]:
    binding = (asked.body.get("thinking") or {}).get("block_binding") or {}
    drops = binding.get("prefix_mismatch_behavior") == "drop_block"
    if not asked.model.binds_thinking or drops:
        return

    for block in _thoughts(asked):
        text = str(block.value.get(THOUGHTS[block.type]))
        made = asked.history.made.get(text, []) if asked.history else []
        now = prefix_of(asked.body, asked.messages, block)
        if made and not any(now.continues(prefix) for _, prefix in made):
            yield (
                f"{block.path}: Invalid `{THOUGHTS[block.type]}` in `{block.type}` block. The "
                "block is bound to a different conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            )


def _thoughts(asked: Asked) -> list[Block]:
    """Return the thinking that a server which remembers can judge."""
    if asked.history is None:
        return []
    return [block for block in asked.blocks if block.is_thought]
