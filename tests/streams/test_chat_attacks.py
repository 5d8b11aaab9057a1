"""Streams of a chat completion that were made to be read wrongly: each law by several bodies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from strictreply import Code
from strictreply.client import _relay
from strictreply.core import Assembly
from strictreply.wires import _chat_calls, _chat_chunks
from support.scripted import Server
from support.streamed_replies import ASK, CHAT, DONE, ONCE, SEARCH, Body, event, over, wrapped

NOW: dict[str, Any] = {"name": "now", "parameters": {"type": "object", "properties": {}}}
TEA = '{"query": "tea"}'
MILK = '{"query": "milk"}'
SIGNED = {"google": {"thought_signature": "AA"}}
ROLE = {"role": "assistant", "content": ""}


def chunk(delta: Any, reason: Any = None, **choice: Any) -> dict[str, Any]:
    """One chunk; an ellipsis as its delta leaves the member out."""
    one: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason} | choice
    if delta is ...:
        del one["delta"]

    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [one]}


def piece(name: str = "search", arguments: Any = TEA, index: Any = 0, **call: Any) -> Any:
    """A call in a delta."""
    return {"index": index, "function": {"name": name, "arguments": arguments}} | call


def message(content: Any = None, *calls: Any, **others: Any) -> dict[str, Any]:
    """A whole message."""
    held = {"role": "assistant", "content": content}
    return held | ({"tool_calls": list(calls)} if calls else {}) | others


def called(*calls: Any) -> dict[str, Any]:
    """A delta of calls."""
    return {"tool_calls": list(calls)}


def read(*chunks: dict[str, Any]) -> Assembly:
    """Put chunks together."""
    assembly = CHAT.wire.assembly(["search", "now"])
    for one in chunks:
        assembly.add(one)

    assembly.end()
    return assembly


def message_of(*chunks: dict[str, Any]) -> Any:
    """The message of chunks that have one meaning."""
    assembly = read(*chunks)
    assert assembly.fault is None
    choice: Any = assembly.response()["choices"]
    return choice[0]["message"]


def said(calls: Any) -> list[tuple[str, Any]]:
    """The names and the arguments of calls."""
    return [(one["function"]["name"], one["function"]["arguments"]) for one in calls]


def chunks_of(*chunks: dict[str, Any]) -> list[Any]:
    """What a program takes of a stream that is guarded."""
    body = [*map(event, chunks), DONE]
    client = wrapped(Server(over(Body(body))), tools=[SEARCH, NOW], policy=ONCE)
    return list(client.chat.completions.create(**ASK, stream=True))


HELLO = chunk(ROLE | {"content": "Hello "})
CALL = chunk(called(piece(id="a")))
CALLED = chunk({}, "tool_calls")


@pytest.mark.parametrize(
    "chunks",
    [
        [HELLO, chunk({"content": "you"}, "stop", message=message("Bye"))],
        [HELLO, chunk({"content": "you"}, "stop", message=message("you"))],
        [HELLO, chunk({"content": "you"}, "stop", message=message("Hello you", piece(id="a")))],
        [HELLO, chunk({"content": "you"}, "stop", message=message(refusal="No."))],
        [HELLO, chunk(..., "stop", message=message(refusal="No."))],
        [HELLO, chunk({}, "stop", message=message("Hello ", role="user"))],
        [
            HELLO,
            chunk({"content": "you"}, "stop", message=message("Hello you", function_call={"a": 1})),
        ],
        [chunk(called(piece(id="a")), "tool_calls", message=message(None, piece("search", MILK)))],
        [CALL, chunk({}, "tool_calls", message=message(None, piece(), piece("now", "{}")))],
        [CALL, chunk(called(piece("now", "{}", 1)), "stop", message=message(None, piece()))],
        [chunk({"refusal": "No."}), chunk({}, "stop", message=message("Hello"))],
    ],
)
@pytest.mark.req("T10")
def test_a_message_and_its_deltas_say_one_thing(chunks: list[dict[str, Any]]) -> None:
    """A message beside or behind deltas that says something else is refused."""
    fault = read(*chunks).fault
    assert fault is not None
    assert fault.code == Code.ENVELOPE_AMBIGUOUS


@pytest.mark.parametrize("delta", [{"role": "assistant"}, ROLE, {}, ROLE | {"tool_calls": []}])
@pytest.mark.parametrize("calls", [(), (piece(id="a"),)])
def test_a_message_beside_a_delta_that_says_nothing_is_the_reply(delta: Any, calls: Any) -> None:
    """A role and an empty content say nothing: the message is all of the reply."""
    given = message_of(chunk(delta, "stop", message=message("Hello", *calls)))
    assert given["content"] == "Hello"
    assert said(given.get("tool_calls", ())) == said(calls)


def test_what_only_the_last_message_has_is_in_the_chunks() -> None:
    """Members that no delta brought are handed on in a delta."""
    held = message("Hello ", reasoning_content="hm", annotations=[{"url": "u"}])
    for last in (chunk(..., "stop", message=held), chunk({}, "stop", message=held)):
        deltas = [one.choices[0].delta for one in chunks_of(HELLO, last)]
        assert [one.reasoning_content for one in deltas if hasattr(one, "reasoning_content")] == [
            "hm"
        ]
        assert "".join(one.content or "" for one in deltas) == "Hello "

    signed = piece(id="a", extra_content=SIGNED)
    given = message_of(CALL, chunk(..., "stop", message=message(None, signed)))
    assert given["tool_calls"][0]["extra_content"] == SIGNED


THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


@pytest.mark.parametrize("text", [[], [{"type": "text", "text": "Hello "}]])
@pytest.mark.parametrize("delta", [..., {}, {"role": "assistant", "content": ""}])
@pytest.mark.parametrize("tools", [[], [SEARCH]], ids=["live", "held"])
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the SDK's, of any list
def test_thoughts_of_the_last_message_are_handed_on(text: Any, delta: Any, tools: Any) -> None:
    """Thoughts in its content alone go into a delta, once, and back with the turn."""
    last = chunk(delta, "stop", message=message([THOUGHT, *text]))
    body = [*map(event, [HELLO, last]), DONE]
    client = wrapped(Server(over(Body(body))), tools=tools, policy=ONCE)
    deltas = [one.choices[0].delta for one in client.chat.completions.create(**ASK, stream=True)]
    contents = [one.content for one in deltas if one.content]
    assert sorted(contents, key=str) == ["Hello ", [THOUGHT]]
    assert message_of(HELLO, last)["content"] == [THOUGHT, {"type": "text", "text": "Hello "}]


def test_thoughts_that_came_are_not_told_again() -> None:
    """The last message repeats a thought that its deltas brought."""
    thought = chunk({"content": [THOUGHT]})
    last = chunk(..., "stop", message=message([THOUGHT, {"type": "text", "text": "Hello "}]))
    given = message_of(thought, HELLO, last)
    assert given["content"] == [THOUGHT, {"type": "text", "text": "Hello "}]


@pytest.mark.parametrize(
    ("first", "again", "left"),
    [
        (None, "B", "B"),
        ("A", None, "A"),
        ("A", "A", "A"),
        ("A", "B", "B"),
    ],
)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("arguments", [TEA, '{"query":"tea"}'])
def test_a_call_once_more_may_bring_another_signature(
    first: Any, again: Any, left: str, index: int, arguments: str
) -> None:
    """It is one call, with the last signature that came, whole and not joined."""
    calls = message_of(
        chunk(called(piece(id="a", signature=first))),
        chunk(called(piece("search", arguments, index, id="a", signature=again))),
        CALLED,
    )["tool_calls"]
    assert said(calls) == [("search", TEA)]
    assert calls[0]["signature"] == left


@pytest.mark.parametrize("calls", [[None], [{}], [None, {"index": 0}], {}, "", None])
def test_calls_that_say_nothing_are_none(calls: Any) -> None:
    """A text beside them is the reply."""
    given = message_of(chunk({"content": "Hello", "tool_calls": calls}), chunk({}, "stop"))
    assert given["content"] == "Hello"
    assert "tool_calls" not in given


@pytest.mark.parametrize(
    ("chunks", "signed"),
    [
        ([CALL, CALLED, chunk(called({"index": 0, "id": "a", "extra_content": SIGNED}))], 0),
        ([CALL, CALLED, chunk(called({"index": 0, "extra_content": SIGNED}))], 0),
        ([CALL, chunk(called({"index": 1, "extra_content": SIGNED})), CALLED], 0),
        ([CALL, CALLED, chunk(called({"index": 1, "extra_content": SIGNED}))], 0),
        ([chunk(called({"index": 0, "extra_content": SIGNED})), CALL, CALLED], 0),
        (
            [
                CALL,
                chunk(called({"index": 1, "extra_content": SIGNED})),
                chunk(called(piece("now", "{}", 1, id="b"))),
                CALLED,
            ],
            1,
        ),
        (
            [
                CALL,
                chunk(called(piece("now", "{}", 1, id="b"))),
                chunk(called({"index": 5, "id": "a", "extra_content": SIGNED})),
                CALLED,
            ],
            0,
        ),
        ([CALL, CALLED, chunk(called(piece(id="a", extra_content=SIGNED)), "stop")], 0),
    ],
)
def test_a_signature_that_comes_alone_stays_on_its_call(chunks: Any, signed: int) -> None:
    """It is kept on the call of its label or id, else on the last one."""
    calls = message_of(*chunks)["tool_calls"]
    places = [at for at, one in enumerate(calls) if one.get("extra_content") == SIGNED]
    assert places == [signed]


def test_what_stands_around_the_first_chunk_comes_once() -> None:
    """A chunk without choices that has passed is not told again."""
    first = {"id": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    chunks = chunks_of(first, CALL, CALLED)
    told = [one for one in chunks if getattr(one, "prompt_filter_results", None)]
    assert len(told) == 1


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([{"type": "message"}, {"type": "message"}], {"type": "message"}),
        ([{"id": "m"}, {"id": "m"}, {"id": ""}], {"id": "m"}),
        ([{"format": "f"}, {"format": "f"}, {"format": None}], {"format": "f"}),
        ([{"reasoning_content": "h"}, {"reasoning_content": "m"}], {"reasoning_content": "hm"}),
        ([{"list": [1]}, {"list": [2]}, {"list": [3]}], {"list": [1, 2, 3]}),
    ],
)
def test_labels_are_replaced_and_texts_joined(pieces: list[Any], whole: Any) -> None:
    """A member that names something comes each time as a whole, in a delta and in a call."""
    given = message_of(*map(chunk, pieces), chunk({"content": "Hello"}, "stop"))
    assert whole.items() <= given.items()

    if "id" not in whole and "type" not in whole:
        more = [chunk(called({"index": 0, "function": {"arguments": ""}} | one)) for one in pieces]
        call = message_of(CALL, *more, CALLED)["tool_calls"][0]
        assert whole.items() <= call.items()


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        ([chunk(called(piece("now", "{}"), piece("now", "{}", 1)))], [("now", "{}")] * 2),
        ([chunk(called(piece(), piece("search", MILK)))], [("search", TEA), ("search", MILK)]),
        ([chunk(called(piece(id="a"))), chunk(called(piece(id="a")))], [("search", TEA)]),
        ([chunk(called(piece(id="a", index=0.0)))], [("search", TEA)]),
    ],
)
def test_calls_that_are_counted_otherwise_are_read(chunks: Any, calls: Any) -> None:
    """What a server counts otherwise is read, where it has one meaning."""
    assert said(message_of(*chunks, CALLED)["tool_calls"]) == calls


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(called(piece("now", "{}"), piece("now", "{}")))],
        [chunk(called(piece("now", {}), piece("now", {})))],
        [chunk(called(piece("now", "{}"))), chunk(called(piece("now", "{}")))],
        [chunk(called(piece(index=None))), chunk(called(piece(index=None)))],
        [CALL, chunk(called(piece()))],
    ],
)
def test_a_call_that_may_be_another_is_the_servers_fault(chunks: Any) -> None:
    """The same call once more without an id has two meanings that no model could mend."""
    fault = read(*chunks, CALLED).fault
    assert fault is not None
    assert fault.code == Code.ENVELOPE_AMBIGUOUS


@pytest.mark.parametrize(
    "odd",
    [
        chunk({"content": "you", "tool_calls": {}}),
        chunk({"content": "you", "tool_calls": ""}),
        chunk({"content": "you"}, False),
        chunk({"content": "you"}, ""),
    ],
)
def test_what_is_blank_says_nothing(odd: dict[str, Any]) -> None:
    """Blank calls and a finish reason that is false say nothing of a text."""
    chunks = chunks_of(HELLO, odd, chunk({}, "stop"))
    deltas = [one.choices[0].delta.content or "" for one in chunks]
    assert "".join(deltas) == "Hello you"
    assert [one.choices[0].finish_reason for one in chunks if one.choices[0].finish_reason] == [
        "stop"
    ]


def whole_call(arguments: Any = TEA, name: str = "search", id_: str = "a") -> dict[str, Any]:
    """A call of a message."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "calls",
    [
        [whole_call('{"query":"tea"}'), whole_call("{}", "now", "b")],
        [whole_call({"query": "tea"}), whole_call({}, "now", "b")],
        [whole_call("{}", "now", "b"), whole_call()],
        [whole_call(id_=""), whole_call("{}", "now", "")],
    ],
)
def test_a_last_message_may_write_the_calls_otherwise(calls: list[Any]) -> None:
    """In another order of the same ids, as objects, or with other blanks, they are the same."""
    last = chunk({}, "tool_calls", message=message(None, *calls))
    given = message_of(CALL, chunk(called(piece("now", "{}", 1, id="b"))), last)
    assert said(given["tool_calls"]) == [("search", TEA), ("now", "{}")]


@pytest.mark.parametrize(
    "calls",
    [
        [whole_call("{}", "now", "a"), whole_call(id_="b")],
        [whole_call()],
        [whole_call(MILK), whole_call("{}", "now", "b")],
        [whole_call('{"query": "milk", "query": "tea"}'), whole_call("{}", "now", "b")],
    ],
)
def test_a_last_message_with_other_calls_is_refused(calls: list[Any]) -> None:
    """Under the ids of others, fewer, or with other arguments, they are not the same."""
    last = chunk({}, "tool_calls", message=message(None, *calls))
    fault = read(CALL, chunk(called(piece("now", "{}", 1, id="b"))), last).fault
    assert fault is not None
    assert fault.code == Code.ENVELOPE_AMBIGUOUS


@pytest.mark.parametrize(
    "odd",
    [
        chunk({"refusal": False}),
        chunk({"refusal": []}),
        chunk({}, {}),
        chunk({}, []),
        {"id": "c", "choices": {}},
        {"id": "c", "choices": ""},
        chunk({}, index=1),
        chunk({}, index=1, logprobs=None),
        chunk(None, index=1),
    ],
)
def test_what_says_nothing_leaves_a_text(odd: dict[str, Any]) -> None:
    """Blank refusals, reasons, lists of choices and further choices say nothing."""
    assert message_of(HELLO, odd, chunk({"content": "you"}, "stop"))["content"] == "Hello you"


def test_a_last_message_may_be_trimmed() -> None:
    """White space around the whole text is no other text, within it it is one."""
    assert message_of(HELLO, chunk({}, "stop", message=message("Hello")))["content"] == "Hello "
    fault = read(HELLO, chunk({"content": "you"}), chunk({}, "stop", message=message("Helloyou")))
    assert fault.fault is not None


@pytest.mark.parametrize(
    ("first", "again"),
    [(TEA, {"query": "tea"}), ({"query": "tea"}, TEA), ({"query": "tea"}, {"query": "tea"})],
)
def test_a_call_once_more_may_be_an_object(first: Any, again: Any) -> None:
    """A whole call under its own id is the same as a text and as an object."""
    calls = message_of(
        chunk(called(piece("search", first, id="a"))),
        chunk(called(piece("search", again, id="a"))),
        CALLED,
    )["tool_calls"]
    assert len(calls) == 1
    assert calls[0]["function"]["arguments"] == first


SEVERAL: dict[str, Callable[[int], dict[str, Any]]] = {
    "calls with their indexes": lambda at: piece(id=f"c{at}", index=at),
    "calls under one index": lambda at: piece(id=f"c{at}"),
    "one call under many indexes": lambda at: piece(id="a", index=at),
    "a call and pieces without a label": lambda at: (
        {"id": f"c{at}", "function": {"name": "now", "arguments": "{}"}}
        if at % 2 == 0
        else {"function": {"arguments": " "}}
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_the_work_for_calls_grows_with_their_number(name: str) -> None:
    """Twice as many calls take twice as many steps to put together."""
    given = [
        lines_of(
            {_chat_calls.__file__},
            lambda size=size: message_of(  # type: ignore[misc]
                *(chunk(called(SEVERAL[name](at))) for at in range(size)), CALLED
            ),
        )
        for size in (200, 400)
    ]
    assert 0 < given[1] < 2.5 * given[0]


COUNTED = {_relay.__file__, _chat_chunks.__file__}


def work_of(*chunks: dict[str, Any]) -> int:
    """Return how many lines of what holds chunks run for a stream."""
    return lines_of(COUNTED, lambda: chunks_of(*chunks))


def lines_of(files: set[str], work: Callable[[], object]) -> int:
    """Return how many lines of some files run for some work."""
    lines = 0

    def trace(frame: FrameType, kind: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None

        lines += kind == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)

    return lines


EMPTY: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "choices": []}
WAITING: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a text that may be a call": (chunk(ROLE), [chunk({"content": "["})]),
    "markers of calls": (chunk(ROLE), [chunk({"content": " <tool_call> nothing\n"})]),
    "blanks": (chunk(ROLE), [chunk({"content": " "})]),
    "chunks without choices": (chunk({"content": "`"}), [EMPTY, chunk({"content": "["})]),
}


@pytest.mark.parametrize("name", WAITING)
def test_the_work_for_what_waits_grows_with_its_size(name: str) -> None:
    """Twice as many chunks take twice as many steps, also where each of them waits."""
    first, repeated = WAITING[name]
    last = chunk({"content": "tea"}, "stop")
    once = work_of(first, *repeated * 200, last)
    assert work_of(first, *repeated * 400, last) < 2.5 * once
