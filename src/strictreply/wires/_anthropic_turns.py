"""Converts turns of the Messages API to drafts, and drafts to turns.

A turn is a list of blocks. Text blocks, joined without a separator, are the text of a draft;
``tool_use`` blocks are its calls. Thoughts, tools that the server executes and unknown blocks stay
in place, and are sent back unchanged (Anthropic's API reference, ``messages.content``).

The API's rules for a conversation, and how a turn is written to follow them:

- Every call is answered in the very next turn of the user, and results come first in it.
- A call's input is an object: any other text is wrapped, ``{"INVALID_JSON": "…"}`` (Anthropic,
  fine-grained tool streaming).
- A signed thought is bound to everything before it: nothing before it is changed.
- No text is empty, and no conversation ends with an assistant's turn.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Any

from strictreply.reading._decoding import decode
from strictreply.values._drafts import Answered, Draft, DraftCall, UserInput
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.wires._dialects import object_in
from strictreply.wires._members import peek
from strictreply.wires._wire import Replay

CALL = "tool_use"
RESULT = "tool_result"
TEXT = "text"
THOUGHTS = ("thinking", "redacted_thinking")
"""The types of blocks that contain thoughts."""

UNREADABLE = "INVALID_JSON"
"""The member with what a model wrote in place of a call's input."""


def text_block(text: str) -> JSONObject:
    """Return a block with a text."""
    return {"type": TEXT, "text": text}


def kind_of(block: object) -> object:
    """Return the type of a block; None if it has none."""
    return block.get("type") if type(block) is dict else peek(block, "type")


def blocks_in(content: object) -> list[Any]:
    """Return the blocks of a content as plain JSON; a text is one block."""
    if isinstance(content, str):
        return [text_block(content)] if content else []
    if not isinstance(content, list | tuple):
        return []

    return [block if type(block) is dict else (object_in(block) or block) for block in content]


class _Came(list[Any]):
    """The original blocks of a turn, with the calls that were read from them."""

    __slots__ = ("calls", "written")
    calls: tuple[DraftCall, ...]
    written: Sequence[Any] | None
    """The blocks as the server wrote them; None if these are they."""


def draft_of(content: Iterable[Any], written: Sequence[Any] | None = None) -> Draft:
    """Return the draft for the blocks of a turn; ``written`` are the server's own blocks."""
    came = _Came(content)
    came.written = written
    came.calls = tuple(call_of(block) for block in came if kind_of(block) == CALL)
    return Draft(text_of(came), came.calls, source=came)


def text_of(content: Iterable[Any]) -> str | None:
    """Return the text of blocks, joined; None if there is none."""
    texts = [block["text"] for block in content if _is_text(block)]
    return "".join(texts) if texts else None


def _is_text(block: Any) -> bool:
    if type(block) is dict:  # the common case, and fast
        return block.get("type") == TEXT and isinstance(block.get("text"), str)

    return kind_of(block) == TEXT and isinstance(peek(block, "text"), str)


def call_of(block: JSONObject) -> DraftCall:
    """Return the call in a block; an input that is a text was streamed, and is not parsed."""
    given = block.get("input")
    return DraftCall(block.get("name"), _written_input(given), block.get("id"), source=block)


_as_text_of = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _written_input(given: JSON) -> JSON:
    """Return an input as JSON text; what is not JSON stays unchanged, and is rejected later."""
    if given is None or isinstance(given, str):
        return given

    try:
        return _as_text_of(given)
    except (TypeError, ValueError, RecursionError):
        return given


def input_of(arguments: object) -> JSON:
    """Return the input of a call for the JSON text of its arguments: an object, else the text."""
    value = decode(arguments) if isinstance(arguments, str) else arguments
    return value if isinstance(value, dict) else _as_text(arguments)


def _as_text(arguments: object) -> JSON:
    return arguments if isinstance(arguments, str) else None


def blocks_of(draft: Draft) -> list[Any]:
    """Return a draft as the blocks of a turn, unchanged except for edits of the draft."""
    came: Any = draft.source
    if not isinstance(came, list | tuple):
        came = []

    blocks = list(came)
    if draft.text != text_of(blocks):
        blocks = _with_text(blocks, draft.text)
    if isinstance(came, _Came) and draft.calls is came.calls:
        return blocks  # the common case

    read = came.calls if isinstance(came, _Came) else ()
    calls = [
        call.source if any(call is one for one in read) else _written_call(call)
        for call in draft.calls
    ]
    given = [block for block in blocks if kind_of(block) == CALL]
    if len(calls) == len(given):
        if all(map(is_, calls, given)):
            return blocks

        new = iter(calls)
        return [next(new) if kind_of(block) == CALL else block for block in blocks]

    return [*(block for block in blocks if kind_of(block) != CALL), *calls]


def _with_text(blocks: list[Any], text: str | None) -> list[Any]:
    """Return blocks with another text, in place of the last text, else before the calls."""
    new = [text_block(text)] if text else []
    texts = [at for at, block in enumerate(blocks) if _is_text(block)]
    calls = [at for at, block in enumerate(blocks) if kind_of(block) == CALL]
    at = [*texts[-1:], *calls[:1], len(blocks)][0]
    before = [block for block in blocks[:at] if not _is_text(block)]
    return [*before, *new, *(block for block in blocks[at:] if not _is_text(block))]


def _written_call(call: DraftCall) -> JSONObject:
    source: Any = call.source
    if isinstance(source, dict):
        if call == call_of(source):
            return source
    else:
        source = {"type": CALL}

    return {**source, "id": call.id, "name": call.name, "input": input_of(call.arguments)}


def _turn(blocks: Sequence[object]) -> Message:
    return {"role": "assistant", "content": list(blocks)}


def message_of(draft: Draft) -> Message:
    """Return a draft as the assistant's turn."""
    return _turn(blocks_of(draft))


def turns_of(answered: Answered) -> list[Message]:
    """Return an invalid reply as the assistant's turn, and the user's turn that answers it."""
    draft = answered.draft
    source: Any = draft.source or ()
    is_quoted = not draft.calls and any(kind_of(block) == CALL for block in source)
    blocks = _quoting(draft, source) if is_quoted else _whole(_unbroken(draft))
    said: list[JSON] = [
        _result(call, text) | {"is_error": True}
        for call, text in zip(draft.calls, answered.results, strict=True)
    ]
    if answered.words is not None:
        said.append(text_block(answered.words))

    # an empty reply cannot be a turn, because the API accepts no empty content
    assistant = [_turn(_sendable(blocks))] if blocks else []
    return [*assistant, {"role": "user", "content": said}]


def _quoting(draft: Draft, source: Sequence[Any]) -> list[Any]:
    """Return blocks with calls quoted in the text, because they cannot be sent as calls.

    Thoughts next to them, and unanswered calls that the server executes, are left out. The result
    of a call in an earlier turn stays.
    """
    calls = _servers_calls(source)
    ids = [_results_for(block) for block in source]
    owed = [
        block
        for block, id_ in zip(source, ids, strict=True)
        if id_ is not None and id_ not in calls
    ]
    return [*owed, text_block(draft.text or "")]


def _unbroken(draft: Draft) -> Iterator[Any]:
    """Yield the blocks of a reply without the thoughts after a block that changes its form.

    A call whose input was read as an empty object is such a block: later thoughts are bound to the
    original.
    """
    source: Any = draft.source or ()
    written = (source.written if isinstance(source, _Came) else None) or source
    is_changed = False

    for block in blocks_of(draft):
        if kind_of(block) not in THOUGHTS:
            is_changed = is_changed or not any(block is one for one in written)
        elif is_changed:
            continue

        yield block


def _whole(blocks: Iterable[Any]) -> list[Any]:
    """Return blocks without those that the API rejects: empty texts, and thoughts at the end.

    A blank text is accepted next to other content.
    """
    left = [block for block in blocks if not _is_text(block) or block["text"]]
    if all(map(_is_blank, left)):
        return []

    while left and kind_of(left[-1]) in THOUGHTS:
        left.pop()

    return left


def _sendable(blocks: Iterable[Any]) -> list[Any]:
    """Return blocks whose inputs are objects."""
    return [_readable(block) if kind_of(block) == CALL else block for block in blocks]


def _readable(block: JSONObject) -> JSONObject:
    given = block.get("input")
    if isinstance(given, dict):
        return block

    words = given if isinstance(given, str) else json.dumps(given)
    return {**block, "input": {UNREADABLE: words} if given is not None else {}}


def _is_blank(block: object) -> bool:
    """Return whether a block is a blank text, which the API does not accept."""
    return _is_text(block) and not str(peek(block, "text")).strip()


def _result(call: DraftCall, text: str) -> JSONObject:
    return {"type": RESULT, "tool_use_id": call.id, "content": text}


def results_of(calls: Sequence[DraftCall], results: Sequence[str]) -> list[Message]:
    """Return the turn with the results of calls."""
    pairs = zip(calls, results, strict=True)
    return [{"role": "user", "content": [_result(call, text) for call, text in pairs]}]


def failed(turns: list[Message], ids: Collection[str]) -> list[Message]:
    """Mark the results of these calls as failures."""
    return [
        {**turn, "content": [_marked(block, ids) for block in blocks_in(turn["content"])]}
        for turn in turns
    ]


def _marked(block: JSONObject, ids: Collection[str]) -> JSONObject:
    return {**block, "is_error": True} if block.get("tool_use_id") in ids else block


def quoted(draft: Draft) -> str:
    """Return the model's own words: the text, and the names and inputs of the calls."""
    parts = [draft.text] if draft.text else []
    calls = [{"name": call.name, "input": input_of(call.arguments)} for call in draft.calls]
    return "\n".join([*parts, json.dumps(calls)] if calls else parts)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _system(text: str) -> Message:
    return {"role": "system", "content": text}


def heard_in(turn: Message) -> UserInput:
    """Return the text, the artifacts and the images of a user's turn."""
    blocks = blocks_in(turn.get("content"))
    others = [dict(block) for block in blocks if isinstance(block, Mapping) and not _is_text(block)]
    return UserInput(
        text="\n".join(block["text"] for block in blocks if _is_text(block)),
        artifacts=tuple(block for block in others if block.get("type") != "image"),
        images=tuple(block for block in others if block.get("type") == "image"),
    )


def read_turn(turn: Message) -> Draft:
    """Return the reply in an assistant's turn."""
    return draft_of(blocks_in(turn.get("content")))


def _is_signed(block: object) -> bool:
    return kind_of(block) in THOUGHTS and bool(peek(block, "signature") or peek(block, "data"))


def is_bound(draft: Draft) -> bool:
    """Return whether a reply is bound to everything before it.

    A signed thought binds it, and so does a call that the server executes without a result in the
    same turn.
    """
    source: Any = draft.source
    if not isinstance(source, list | tuple):
        return False

    return any(map(_is_signed, source)) or bool(_loose_in(source))


def _assistants_blocks(turns: Iterable[Any]) -> Iterator[Any]:
    for turn in turns:
        content = peek(turn, "content")
        if peek(turn, "role") == "assistant" and not isinstance(content, str):
            yield from blocks_in(content)


def are_bound(turns: Iterable[Any]) -> bool:
    """Return whether a conversation contains a signed thought."""
    return any(map(_is_signed, _assistants_blocks(turns)))


def ids_in(turns: Iterable[Any]) -> list[str]:
    """Return the ids of the calls in a conversation, in order."""
    ids = [peek(block, "id") for block in _assistants_blocks(turns) if kind_of(block) == CALL]
    return [id_ for id_ in ids if isinstance(id_, str)]


def with_thoughts(draft: Draft, first: Draft | None) -> Draft:
    """Return a reply with the thoughts of another one instead of its own; None removes them.

    Only thoughts at the start of the other reply are used: they are bound to nothing else in it,
    and the API accepts either all consecutive thoughts or none.
    """
    own = [block for block in blocks_of(draft) if kind_of(block) not in THOUGHTS]
    firsts = [] if first is None else blocks_of(first)
    leading = takewhile(lambda block: kind_of(block) in THOUGHTS, firsts)
    return draft_of([*leading, *own])


def _results_for(block: object) -> str | None:
    """Return the id of the server's call whose result a block is; None for any other block."""
    is_result = str(kind_of(block)).endswith("_tool_result")
    id_ = peek(block, "tool_use_id") if is_result else None
    return id_ if isinstance(id_, str) else None


def _servers_calls(blocks: Iterable[Any]) -> dict[str, Any]:
    """Return the calls that the server executes, by their ids."""
    calls = ((peek(block, "id"), block) for block in blocks if _is_servers_call(block))
    return {id_: block for id_, block in calls if isinstance(id_, str)}


def _is_of_server(block: object) -> bool:
    """Return whether a block is a call that the server executes, or the result of one."""
    return _is_servers_call(block) or _results_for(block) is not None


def _is_servers_call(block: object) -> bool:
    return kind_of(block) != CALL and str(kind_of(block)).endswith(f"_{CALL}")


def _loose_in(blocks: Sequence[Any]) -> list[str]:
    """Return the ids of the server's calls whose call or result is in another turn."""
    results = {id_ for block in blocks if (id_ := _results_for(block)) is not None}
    return [*results.symmetric_difference(_servers_calls(blocks))]


def unanswered(blocks: Sequence[Any]) -> set[str]:
    """Return the ids of the server's calls that have no result among the blocks."""
    return _servers_calls(blocks).keys() - set(map(_results_for, blocks))


def settled(draft: Draft, hidden: Iterable[Message]) -> Draft:
    """Return an accepted reply in a form that follows the caller's own messages.

    The ``hidden`` turns are those after them that the caller never sees. A result of a server's
    call includes its call if that is hidden; a hidden result of a call in the caller's own messages
    comes first.
    """
    unseen = [*_assistants_blocks(hidden)]
    came: Any = draft.source
    if not any(map(_is_of_server, [*unseen, *(came or ())])):
        return draft

    blocks = blocks_of(draft)
    calls = _servers_calls(unseen)
    known = _servers_calls(blocks)
    owed = [one for one in unseen if (id_ := _results_for(one)) is not None and id_ not in calls]

    made = [block for block in owed if _results_for(block) not in known]
    for block in blocks:
        id_ = _results_for(block)
        if id_ is not None and id_ in calls and id_ not in known:
            made.append(calls[id_])
        made.append(block)

    return draft if len(made) == len(blocks) else draft_of(made)


def joined(begun: Draft, rest: Draft) -> Draft:
    """Return a paused reply with its continuation."""
    return draft_of([*blocks_of(begun), *blocks_of(rest)])


def _always(_draft: Draft) -> bool:
    return True


def _never(_draft: Draft) -> bool:
    return False


TURNS = Replay(
    keyword="messages",
    user=_user,
    system=_system,
    heard=heard_in,
    written=message_of,
    read=read_turn,
    turns=turns_of,
    results=results_of,
    quoted=quoted,
    is_plain=_never,
    has_sealed_calls=_always,
    is_bound=is_bound,
    are_bound=are_bound,
    ids=ids_in,
    with_thoughts=with_thoughts,
    failed=failed,
    joined=joined,
    settled=settled,
    is_verbatim=True,
)
"""How a reply is sent back in turns of the Messages API."""
