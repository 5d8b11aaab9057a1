"""Replies of the Messages API, drawn by a seed, for ``RulesServer``: good, bad and odd ones.

All of them are replies that the API may send: what is bad is what the model wrote, or where it was
cut. A reply to a turn with an open server tool begins with that tool's result, as the API's does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random
from typing import Any

from support.anthropic_turns import THOUGHTS, JSONObject, open_server_calls, turns_of

TOOLS: list[JSONObject] = [
    {
        "name": "search",
        "description": "Search the shop.",
        "input_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    },
    {
        "name": "ping",
        "description": "Answer.",
        "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
    },
]
"""The tools that the generated calls are of."""

Written = tuple[str, JSONObject]

VALID: Sequence[Written] = (
    ("search", {"query": "tea"}),
    ("search", {"query": "größe 🍵", "limit": 3}),
    ("ping", {}),
)
INVALID: Sequence[Written] = (
    ("search", {"query": 1}),
    ("search", {"limit": 3}),
    ("search", {}),
    ("search", {"query": "tea", "colour": "green"}),
    ("search", {"query": None, "limit": "many"}),
    ("ping", {"query": "tea"}),
)
UNKNOWN: Sequence[Written] = (
    ("serch", {"query": "tea"}),
    ("functions.search", {"query": "tea"}),
    ("delete", {}),
)
UNPARSEABLE = '{"query": "te', '{"query": tea}', '{"query": "a" "b"}', "[", '"tea"', "[1]", "null"
"""Inputs that are no JSON of an object; only eager streams have them."""

CITATION: JSONObject = {
    "type": "char_location",
    "cited_text": "Tea is a drink.",
    "document_index": 0,
    "document_title": "Tea",
    "start_char_index": 0,
    "end_char_index": 15,
}
REFUSED: JSONObject = {"type": "refusal", "category": "cyber", "explanation": "No."}

Step = Callable[[JSONObject], JSONObject]


def good_reply(_body: JSONObject | None = None) -> JSONObject:
    """Return a reply that every guard accepts where text is an answer."""
    return {"content": [{"type": "text", "text": "Done."}]}


def generated_replies(
    seed: int, *, thinks: bool = True, is_streamed: bool = False, kinds: Collection[str] = ()
) -> Iterator[Step]:
    """Yield replies without end, of some kinds or of all.

    With ``thinks`` most begin with thinking, and some have it further on; where the request enables
    it, every turn begins so. Only ``is_streamed`` ones
    hold inputs that are no JSON: as the text that the deltas bring.
    """
    drawn = Random(seed)
    weights, makers = zip(*(KINDS[name] for name in sorted(kinds or KINDS)), strict=True)
    while True:
        (make,) = drawn.choices(makers, weights)
        reply = make(drawn, is_streamed)
        content = reply["content"]
        if thinks and drawn.random() < 0.8:
            content.insert(0, _thought(drawn))
        if thinks and len(content) > 1 and drawn.random() < 0.2:
            content.insert(drawn.randrange(1, len(content)), _thought(drawn))

        yield _resumed(reply, _thought(drawn))


def _resumed(reply: JSONObject, thought: JSONObject) -> Step:
    """Return a step that brings the results which the turn before waits for.

    It begins with thinking where the request makes it do so: at the beginning of a turn. Behind
    results it is not empty.
    """

    def step(body: JSONObject) -> JSONObject:
        turns = turns_of(body["messages"])
        said = [turn for turn in turns if turn.role == "assistant"]
        found = [_found(block.value) for block in open_server_calls(said[-1])] if said else []
        content = [*found, *reply["content"]]
        if found and not any(_says(block) for block in reply["content"]):
            content = [*found, {"type": "text", "text": "Found."}]

        thinking = body.get("thinking") or {}
        is_new = bool(turns) and turns[-1].role == "user" and not turns[-1].results
        has_thought = bool(content) and content[0]["type"] in THOUGHTS
        if thinking.get("type") == "enabled" and is_new and not has_thought:
            content.insert(0, thought)

        return {**reply, "content": content}

    return step


def _says(block: JSONObject) -> bool:
    return block["type"] not in THOUGHTS and bool(block.get("text", "x").strip())


def _found(call: JSONObject) -> JSONObject:
    """Return the result of a server tool."""
    error = {"type": f"{call['name']}_tool_result_error", "error_code": "unavailable"}
    content: Any = [] if call["name"] == "web_search" else error
    return {
        "type": f"{call['name']}_tool_result",
        "tool_use_id": call["id"],
        "content": content,
    }


def _thought(drawn: Random) -> JSONObject:
    """Return thinking, to be signed by the server."""
    return drawn.choice(
        [
            {"type": "thinking", "thinking": "The user wants tea."},
            {"type": "thinking", "thinking": ""},
            {"type": "redacted_thinking"},
        ]
    )


def _words(drawn: Random) -> list[JSONObject]:
    """Return texts, perhaps cited, or in pieces."""
    return drawn.choice(
        [
            [{"type": "text", "text": "Looking for tea. "}],
            [{"type": "text", "text": '{"answer": 42}'}],
            [
                {"type": "text", "text": "Tea"},
                {"type": "text", "text": " is a drink", "citations": [CITATION]},
                {"type": "text", "text": "."},
            ],
        ]
    )


def _call(drawn: Random, *, is_streamed: bool) -> JSONObject:
    """Return a call: half of them are good."""
    name, given = drawn.choice([*VALID, drawn.choice(VALID), *INVALID[:2], *UNKNOWN[:1]])
    if drawn.random() < 0.3:
        name, given = drawn.choice([*INVALID, *UNKNOWN])

    unread: Any = drawn.choice(UNPARSEABLE) if is_streamed and drawn.random() < 0.2 else given
    call = {"type": "tool_use", "name": name, "input": unread}
    return {**call, "caller": {"type": "direct"}} if drawn.random() < 0.3 else call


def _server_call(drawn: Random, name: str = "web_search") -> JSONObject:
    given = {"query": "tea"} if name == "web_search" else {"code": "print(1)"}
    id_ = f"srvtoolu_{drawn.getrandbits(64):016x}"
    return {"type": "server_tool_use", "id": id_, "name": name, "input": given}


def _said(drawn: Random, _is_streamed: bool) -> JSONObject:
    return {"content": _words(drawn)}


def _called(drawn: Random, is_streamed: bool) -> JSONObject:
    """Call one to three tools, often with words or white space before."""
    before = drawn.choice([[], _words(drawn), [{"type": "text", "text": " "}]])
    calls = [_call(drawn, is_streamed=is_streamed) for _ in range(drawn.choice([1, 1, 2, 3]))]
    return {"content": [*before, *calls]}


def _searched(drawn: Random, is_streamed: bool) -> JSONObject:
    """Use a tool of the server within the turn, then speak or call."""
    used = _server_call(drawn)
    rest = drawn.choice([_words(drawn), [_call(drawn, is_streamed=is_streamed)]])
    return {"content": [used, _found(used), *rest]}


def _waiting(drawn: Random, is_streamed: bool) -> JSONObject:
    """Call tools of the client while one of the server has no result yet."""
    used = _server_call(drawn, drawn.choice(["web_search", "code_execution"]))
    call = _call(drawn, is_streamed=is_streamed)
    if used["name"] == "code_execution":
        call["caller"] = {"type": "code_execution_20250825", "tool_id": used["id"]}

    return {"content": [used, call]}


def _paused(drawn: Random, _is_streamed: bool) -> JSONObject:
    return {"content": [*_words(drawn), _server_call(drawn)], "stop_reason": "pause_turn"}


def _unknown(drawn: Random, is_streamed: bool) -> JSONObject:
    """Hold a block of a type of a later API."""
    odd = {"type": "hologram", "data": {"angle": drawn.randrange(360)}}
    rest = drawn.choice([_words(drawn), [_call(drawn, is_streamed=is_streamed)]])
    return {"content": [odd, *rest]}


def _refused(drawn: Random, _is_streamed: bool) -> JSONObject:
    content = drawn.choice([[], _words(drawn)])
    return {
        "content": content,
        "stop_reason": "refusal",
        "stop_details": drawn.choice([REFUSED, None]),
    }


def _cut(drawn: Random, is_streamed: bool) -> JSONObject:
    """Stop in words, behind calls, in a call (its input is what was whole), or in the thinking."""
    content = drawn.choice(
        [
            _words(drawn)[:1],
            [_call(drawn, is_streamed=is_streamed)],
            [*_words(drawn), {"type": "tool_use", "name": "search", "input": {}}],
            [_thought(drawn)],
        ]
    )
    reason = drawn.choice(["max_tokens", "max_tokens", "model_context_window_exceeded"])
    return {"content": content, "stop_reason": reason}


def _void(drawn: Random, _is_streamed: bool) -> JSONObject:
    """End with nothing to read: no block, white space, or thinking alone."""
    return {
        "content": drawn.choice(
            [
                [],
                [{"type": "text", "text": "\n\n"}],
                [{"type": "text", "text": ""}],
                [_thought(drawn)],
            ]
        )
    }


KINDS: dict[str, tuple[int, Callable[[Random, bool], JSONObject]]] = {
    "called": (10, _called),
    "said": (3, _said),
    "searched": (2, _searched),
    "waiting": (2, _waiting),
    "paused": (2, _paused),
    "unknown": (2, _unknown),
    "refused": (1, _refused),
    "cut": (2, _cut),
    "void": (2, _void),
}
"""What is drawn, with how often."""
