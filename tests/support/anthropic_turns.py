"""A conversation as the Messages API sees it, and what a server remembers of its own replies.

Consecutive messages of one role are one turn. A signature stands for the block it came with and for
everything before it: ``system``, ``tools`` and the turns, without ``cache_control``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

JSONObject = dict[str, Any]

THOUGHTS = {"thinking": "signature", "redacted_thinking": "data"}
"""The types of thinking blocks, with the member that is opaque to a client."""

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})

_RESULTS = {
    "advisor": (),
    "bash_code_execution": (),
    "code_execution": (),
    "mcp": ("is_error",),
    "text_editor_code_execution": (),
    "tool_search": (),
    "web_fetch": ("caller",),
    "web_search": ("caller",),
}

SERVER_RESULTS = {f"{tool}_tool_result": members for tool, members in _RESULTS.items()}

_MEMBERS = {
    "text": ("text", "citations"),
    "image": ("source", "transformations"),
    "document": ("source", "title", "context", "citations"),
    "search_result": ("source", "title", "content", "citations"),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input", "caller", "toolset_name"),
    "tool_result": ("tool_use_id", "content", "is_error", "toolset_name"),
    "server_tool_use": ("id", "name", "input", "caller"),
    "mcp_tool_use": ("id", "name", "input", "server_name"),
    "container_upload": ("file_id",),
    "compaction": ("content", "encrypted_content", "signature", "tool_changes"),
    "tool_addition": ("tool",),
    "tool_removal": ("tool",),
    "tool_reference": ("tool_name",),
    "mcp_tool_listing": ("mcp_server_name", "tools"),
    "fallback": ("from", "to", "trigger"),
    **{kind: ("tool_use_id", "content", *more) for kind, more in SERVER_RESULTS.items()},
}

MEMBERS = {kind: {"type", "cache_control", *members} for kind, members in _MEMBERS.items()}
"""What each type of block may hold in a request (``types/beta`` of anthropic 2.14.0)."""

REQUIRED = {
    "text": ("text",),
    "thinking": ("signature", "thinking"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "input", "name"),
    "server_tool_use": ("id", "input", "name"),
    "mcp_tool_use": ("id", "input", "name", "server_name"),
    "tool_result": ("tool_use_id",),
    **dict.fromkeys(SERVER_RESULTS, ("content", "tool_use_id")),
}


@dataclass(frozen=True, slots=True)
class Block:
    """One content block and where it stands."""

    message: int
    index: int
    value: JSONObject

    @property
    def type(self) -> str:
        """The type, empty when it has none."""
        return str(self.value.get("type", ""))

    @property
    def path(self) -> str:
        """Where it stands, as the API writes it."""
        return f"messages.{self.message}.content.{self.index}"

    @property
    def is_thought(self) -> bool:
        """Whether it is thinking, readable or not."""
        return self.type in THOUGHTS


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive messages of one role."""

    role: str
    message: int
    blocks: list[Block]

    def of(self, *types: str) -> list[Block]:
        """Return its blocks of these types."""
        return [block for block in self.blocks if block.type in types]

    @property
    def calls(self) -> list[Block]:
        """The calls that the client answers."""
        return self.of("tool_use")

    @property
    def results(self) -> list[Block]:
        """The results of the client's calls."""
        return self.of("tool_result")

    @property
    def thoughts(self) -> list[Block]:
        """The thinking blocks."""
        return self.of(*THOUGHTS)


def blocks_of(content: Any) -> list[Any]:
    """Return content as a list of blocks: a text is one block, nothing is none."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def turns_of(messages: list[JSONObject]) -> list[Turn]:
    """Return the turns of a conversation."""
    turns: list[Turn] = []
    for at, message in enumerate(messages):
        values = blocks_of(message.get("content"))
        blocks = [Block(at, index, value) for index, value in enumerate(values)]
        role = str(message.get("role"))

        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(Turn(role, at, blocks))

    return turns


def present_loop(turns: list[Turn]) -> list[Turn]:
    """Return the assistant turns since the last turn of the user that is no tool result."""
    loop: list[Turn] = []
    for turn in reversed(turns):
        if turn.role == "user" and not turn.results:
            break
        if turn.role == "assistant":
            loop.insert(0, turn)

    return loop


def is_paused(turn: Turn) -> bool:
    """Return whether a tool that the server calls has no result in a turn yet."""
    return bool(open_server_calls(turn))


def open_server_calls(turn: Turn) -> list[Block]:
    """Return the calls of server tools whose results are not in the turn."""
    answered = {block.value.get("tool_use_id") for block in turn.of(*SERVER_RESULTS)}
    return [block for block in turn.of(*SERVER_CALLS) if block.value.get("id") not in answered]


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands before a block: the thinking in order, and all the rest."""

    rest: str
    thoughts: tuple[str, ...]

    def continues(self, made: Prefix) -> bool:
        """Return whether a block that was made behind ``made`` is valid behind this.

        Thinking may be left out from the beginning on, but not between other thinking.
        """
        kept = made.thoughts[len(made.thoughts) - len(self.thoughts) :]
        return self.rest == made.rest and self.thoughts == kept


def prefix_of(body: JSONObject, messages: list[JSONObject], before: Block | None = None) -> Prefix:
    """Return what stands before a block, or the whole conversation when there is none.

    Texts without a character do not count: they cannot go back.
    """
    thoughts: list[str] = []
    turns: list[Any] = []

    for turn in turns_of(messages):
        plain: list[Any] = []
        for block in turn.blocks:
            if before is not None and (block.message, block.index) >= (
                before.message,
                before.index,
            ):
                break
            if block.value.get("text") == "":
                continue
            if block.is_thought:
                thoughts.append(str(block.value.get(THOUGHTS[block.type])))
            else:
                plain.append(_bare(block.value))

        if plain:
            turns.append([turn.role, plain])

    head = [_bare(blocks_of(body.get("system"))), _bare(body.get("tools") or [])]
    merged: list[Any] = []
    for role, plain in turns:
        if merged and merged[-1][0] == role:
            merged[-1][1].extend(plain)
        else:
            merged.append([role, plain])

    return Prefix(json.dumps([*head, merged], sort_keys=True), tuple(thoughts))


def _bare(value: Any) -> Any:
    """Return a value without what does not count: breakpoints of the cache, members that are null.

    Input that was no JSON counts as one, however the client wrapped it.
    """
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return value

    kept = {
        name: _bare(one)
        for name, one in value.items()
        if name != "cache_control" and one is not None
    }
    given = value.get("input")
    if value.get("type") == "tool_use" and (isinstance(given, str) or is_wrapped(given)):
        kept["input"] = "no JSON"
    if value.get("type") == "tool_result" and isinstance(value.get("content"), str):
        kept["content"] = _bare(blocks_of(value["content"]))

    return kept


def is_wrapped(given: Any) -> bool:
    """Return whether an input holds text that was no JSON (the guide of fine-grained streaming)."""
    return isinstance(given, dict) and list(given) == ["INVALID_JSON"]


@dataclass(slots=True)
class History:
    """What a server sent: the thinking with what it is bound to, and the calls."""

    made: dict[str, list[tuple[JSONObject, Prefix]]] = field(default_factory=dict)
    """Each opaque text with the blocks that it came in and what stood before them."""

    replies: dict[str, list[JSONObject]] = field(default_factory=dict)
    """The content of the reply that a call came in, by the id of the call."""

    unknown: list[JSONObject] = field(default_factory=list)
    """Blocks of types that requests do not have."""

    paused: list[str] = field(default_factory=list)
    """The contents of the replies that paused, as JSON."""

    def remember(
        self, body: JSONObject, content: list[JSONObject], stop_reason: str | None = None
    ) -> None:
        """Take a reply that is sent."""
        reply = len(body["messages"])
        messages = [*body["messages"], {"role": "assistant", "content": content}]

        for index, value in enumerate(content):
            block = Block(reply, index, value)
            if block.is_thought:
                text = str(value[THOUGHTS[block.type]])
                made = (value, prefix_of(body, messages, block))
                self.made.setdefault(text, []).append(made)
            elif block.type == "tool_use":
                self.replies[value["id"]] = content
            elif block.type not in MEMBERS:
                self.unknown.append(value)

        if stop_reason == "pause_turn":
            self.paused.append(json.dumps(_bare(content), sort_keys=True))

    def has_paused(self, turn: Turn) -> bool:
        """Return whether a turn ends with a reply that paused."""
        values = [_bare(block.value) for block in turn.blocks]
        tails = [json.dumps(values[at:], sort_keys=True) for at in range(len(values))]
        return any(tail in self.paused for tail in tails)


def cached(value: Any) -> int:
    """Return how many breakpoints of the cache there are; none stand in schemas and inputs."""
    if isinstance(value, list):
        return sum(map(cached, value))
    if not isinstance(value, dict):
        return 0

    inner = (one for name, one in value.items() if name not in {"input", "input_schema"})
    return (value.get("cache_control") is not None) + sum(map(cached, inner))


def objects_in(schema: Any) -> Iterator[JSONObject]:
    """Yield the schemas of objects in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema

        for name, value in schema.items():
            inner: Iterable[Any] = value.values() if _holds_schemas(name, value) else [value]
            for one in inner if name not in {"enum", "const", "default", "examples"} else ():
                yield from objects_in(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from objects_in(one)


def _holds_schemas(name: str, value: Any) -> bool:
    return name in {"properties", "$defs", "definitions"} and isinstance(value, dict)
