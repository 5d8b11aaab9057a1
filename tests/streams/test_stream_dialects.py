"""Streams as real servers write them: each row of the table by a body in the recorded shape."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply import Remedy
from strictreply.values._errors import ADVICE, REASON_ADVICE
from strictreply.wires._stream_dialects import RESPONSE_DIALECTS, STREAM_DIALECTS
from support.pages import DOCS
from support.scripted import Server
from support.streamed_replies import ASK, DONE, SEARCH, Body, event, over, policy

PAGE = DOCS / "verdicts.md"
WIRES = Path(sr.__file__).parent / "wires"
NOW: dict[str, Any] = {"name": "now", "parameters": {"type": "object", "properties": {}}}
TEA = '{"query": "tea"}'
MILK = '{"query": "milk"}'
TOOLS = [SEARCH, NOW]
HEAD: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chunk(delta: Any, reason: Any = None, **choice: Any) -> bytes:
    """One chunk; an ellipsis as its delta leaves the member out."""
    one: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason} | choice
    if delta is ...:
        del one["delta"]

    return event(HEAD | {"choices": [one]})


def piece(index: Any, function: Any = ..., **call: Any) -> bytes:
    """A piece of a call; an ellipsis leaves a member out."""
    part = {"index": index, "function": function} | call
    return chunk({"tool_calls": [{name: part[name] for name in part if part[name] is not ...}]})


def bare(delta: Any, reason: Any = None, **head: Any) -> bytes:
    """A chunk with as much of a head as is told."""
    return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def ended(delta: Any, reason: str = "stop") -> bytes:
    """A piece that has a finish reason."""
    return chunk(delta, reason)


def opened(index: Any, id_: Any, arguments: Any = "", name: str = "search") -> bytes:
    """The first piece of a call."""
    return piece(index, {"name": name, "arguments": arguments}, id=id_, type="function")


def text(value: Any) -> bytes:
    """A piece of a text."""
    return chunk({"content": value})


def several(*deltas: Any) -> bytes:
    """A chunk with several choices of one index."""
    choices: list[Any] = [{"index": 0, "delta": one, "finish_reason": None} for one in deltas]
    return event(HEAD | {"choices": choices})


def calls(*given: Any) -> bytes:
    """Several calls in one delta."""
    return chunk({"tool_calls": list(given)})


BEGUN = chunk({"role": "assistant", "content": ""})
CALLED = chunk({}, "tool_calls")
STOPPED = chunk({}, "stop")
USAGE = event({"id": "c", "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
SEARCHED: dict[str, Any] = {
    "type": "function",
    "function": {"name": "search", "arguments": TEA},
}
HELLO = (BEGUN, text("Hel"), text("lo"))

ROWS: list[tuple[set[str], list[bytes], Any]] = [
    ({"event_without_choices"}, [*HELLO, b"data:\n\n", STOPPED, DONE], "Hello"),
    ({"event_without_choices"}, [event({"type": "ping"}), *HELLO, STOPPED, DONE], "Hello"),
    ({"event_without_choices"}, [*HELLO, event({"choices": None}), STOPPED, DONE], "Hello"),
    ({"event_without_choices"}, [*HELLO, STOPPED, USAGE, DONE], "Hello"),
    ({"head_missing"}, [bare({"content": "Hel"}), bare({"content": "lo"}, "stop"), DONE], "Hello"),
    (
        {"head_missing"},
        [
            bare({"role": "assistant", "content": ""}, id="c", created=1, model="m"),
            bare({"content": "Hel"}, id="c", created=1, model="m"),
            bare({"content": "lo"}, "stop", id="c", created=1, model="m"),
            DONE,
        ],
        "Hello",
    ),
    (
        {"head_missing"},
        [text("Hel"), bare({"content": "lo"}, id=None, object="", created=None), STOPPED, DONE],
        "Hello",
    ),
    (
        {"head_missing"},
        [
            bare({"role": "assistant", "tool_calls": [{"index": 0, "id": "a"} | SEARCHED]}),
            bare({}, "tool_calls", object="chat.completion"),
            DONE,
        ],
        [TEA],
    ),
    ({"choice_index"}, [*HELLO, chunk({"content": "!"}, index=None), STOPPED, DONE], "Hello!"),
    ({"choice_index"}, [*HELLO, chunk({"content": "!"}, index="0"), STOPPED, DONE], "Hello!"),
    ({"delta_missing"}, [*HELLO, chunk(...), STOPPED, chunk(None), DONE], "Hello"),
    ({"delta_missing"}, [*HELLO, chunk(None, "stop"), DONE], "Hello"),
    (
        {"delta_missing", "message_repeated", "finish_repeated"},
        [*HELLO, STOPPED, chunk(..., "stop", message={"content": "Hello"}), DONE],
        "Hello",
    ),
    ({"delta_missing"}, [chunk(..., "stop", message={"content": "Hello"}), DONE], "Hello"),
    (
        {"content_chunks"},
        [
            BEGUN,
            text([{"type": "thinking", "thinking": [{"type": "text", "text": "Gre"}]}]),
            text([{"type": "thinking", "thinking": [{"type": "text", "text": "et."}]}]),
            text([{"type": "text", "text": "Hel"}]),
            text("lo"),
            STOPPED,
            DONE,
        ],
        "Hello",
    ),
    ({"finish_empty"}, [chunk({"content": "Hello"}, ""), STOPPED, DONE], "Hello"),
    ({"finish_repeated"}, [*HELLO, STOPPED, STOPPED, DONE], "Hello"),
    ({"finish_repeated"}, [opened(0, "a", TEA), CALLED, STOPPED, DONE], [TEA]),
    ({"finish_repeated"}, [opened(0, "a", TEA), STOPPED, CALLED, DONE], [TEA]),
    (
        {"call_behind_end", "finish_repeated"},
        [opened(0, "a", TEA), CALLED, opened(1, "b", MILK), CALLED, DONE],
        [TEA, MILK],
    ),
    (
        {"choice_repeated"},
        [BEGUN, several({"content": "Hel"}, {"content": "lo"}), STOPPED, DONE],
        "Hello",
    ),
    (
        {"choice_repeated", "content_chunks"},
        [
            BEGUN,
            several({"content": [{"type": "text", "text": "Hel"}]}, {"content": "lo"}),
            STOPPED,
            DONE,
        ],
        "Hello",
    ),
    (
        {"choice_repeated"},
        [
            several(
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "search"}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": TEA}}]},
                {"content": ""},
            ),
            CALLED,
            DONE,
        ],
        [TEA],
    ),
    ({"finish_each"}, [ended({"content": "Hel"}), ended({"content": "lo"}), DONE], "Hello"),
    (
        {"finish_each"},
        [
            ended({"role": "assistant", "content": ""}),
            *map(ended, ({"content": "Hel"}, {"content": "lo"}, {"content": " "}, {})),
            DONE,
        ],
        "Hello ",
    ),
    (
        {"finish_each"},
        [
            ended({"tool_calls": [{"index": 0, "id": "a"} | SEARCHED]}, "tool_calls"),
            ended({"tool_calls": [{"index": 1, "id": "b"} | SEARCHED]}, "tool_calls"),
            DONE,
        ],
        [TEA, TEA],
    ),
    (
        {"finish_each", "call_name_repeated"},
        [
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": opening}]}, "stop")
            for opening in (
                {"name": "search", "arguments": TEA[:5]},
                {"name": "", "arguments": TEA[5:]},
            )
        ]
        + [CALLED, DONE],
        [TEA],
    ),
    ({"blank_behind_end"}, [*HELLO, STOPPED, text("\n"), text(" "), DONE], "Hello"),
    ({"blank_behind_end"}, [opened(0, "a", TEA), CALLED, text("\n\n"), DONE], [TEA]),
    ({"done_missing"}, [*HELLO, STOPPED], "Hello"),
    ({"done_missing"}, [opened(0, "a", TEA), CALLED, b"data: {"], [TEA]),
    ({"call_index"}, [opened(1, "a"), piece(1, {"arguments": TEA}), CALLED, DONE], [TEA]),
    ({"call_index"}, [opened(..., "a", TEA), CALLED, DONE], [TEA]),
    ({"call_index"}, [opened(None, "a"), piece(None, {"arguments": TEA}), CALLED, DONE], [TEA]),
    ({"call_index"}, [opened("0", "a", TEA), CALLED, DONE], [TEA]),
    ({"call_index"}, [opened(0, "a", TEA), opened(0, "b", MILK), CALLED, DONE], [TEA, MILK]),
    (
        {"call_index"},
        [
            opened(..., "a"),
            opened(..., "b"),
            piece(..., {"arguments": MILK}, id="b"),
            piece(..., {"arguments": TEA}, id="a"),
            CALLED,
            DONE,
        ],
        [TEA, MILK],
    ),
    ({"call_repeated"}, [opened(0, "a", TEA), opened(1, "a", TEA), CALLED, DONE], [TEA]),
    (
        {"call_repeated"},
        [
            opened(0, "a"),
            piece(0, {"arguments": TEA}),
            opened(1, "a"),
            piece(1, {"arguments": TEA[:4]}),
            piece(1, {"arguments": TEA[4:]}),
            CALLED,
            DONE,
        ],
        [TEA],
    ),
    (
        {"call_repeated", "call_behind_end"},
        [opened(0, "a", TEA), CALLED, opened(1, "a", TEA), DONE],
        [TEA],
    ),
    (
        {"call_id_changes"},
        [opened(0, "a"), piece(0, {"arguments": TEA}, id="b"), CALLED, DONE],
        [TEA],
    ),
    (
        {"call_name_repeated"},
        [opened(0, "a"), piece(0, {"name": None, "arguments": TEA}, id=None), CALLED, DONE],
        [TEA],
    ),
    (
        {"call_name_repeated"},
        [opened(0, "a"), piece(0, {"name": "", "arguments": TEA}), CALLED, DONE],
        [TEA],
    ),
    (
        {"call_name_repeated"},
        [opened(0, "a", TEA[:4]), opened(0, "a", TEA[4:]), CALLED, DONE],
        [TEA],
    ),
    (
        {"call_name_in_pieces"},
        [opened(0, "a", name="sea"), piece(0, {"name": "rch", "arguments": TEA}), CALLED, DONE],
        [TEA],
    ),
    *(
        (
            {"call_name_grows"},
            [
                opened(0, "a", name=names[0]),
                *(piece(0, {"name": name, "arguments": ""}) for name in names[1:]),
                piece(0, {"arguments": TEA}),
                CALLED,
                DONE,
            ],
            [TEA],
        )
        for names in (["sea", "search"], ["s", "sea", "search"])
    ),
    (
        {"call_name_late"},
        [
            piece(0, {"arguments": TEA[:5]}, id="a", type="function"),
            piece(0, {"name": "search", "arguments": TEA[5:]}),
            CALLED,
            DONE,
        ],
        [TEA],
    ),
    (
        {"call_function_null"},
        [piece(0, None, id="a", type="function"), opened(0, "a", TEA), CALLED, DONE],
        [TEA],
    ),
    (
        {"arguments_object"},
        [opened(0, "a", {}), piece(0, {"arguments": TEA}), CALLED, DONE],
        [TEA],
    ),
    ({"arguments_object"}, [opened(0, "a", {"query": "tea"}), CALLED, DONE], [TEA]),
    *(
        ({"arguments_object"}, [opened(0, "a", place), *pieces, CALLED, DONE], [TEA])
        for place in ("{}", " {}\n", "null")
        for pieces in (
            [piece(0, {"arguments": TEA})],
            [piece(0, {"arguments": one}) for one in (" ", TEA[0], TEA[1:9], TEA[9:])],
        )
    ),
    (
        {"call_repeated", "call_id_shared"},
        [opened(0, "a", TEA), opened(1, "a", MILK), CALLED, DONE],
        [TEA, MILK],
    ),
    (
        {"call_repeated", "call_id_shared"},
        [
            opened(0, "a"),
            opened(1, "a", name="now"),
            piece(0, {"arguments": TEA}, id="a"),
            piece(1, {"arguments": "{}"}, id="a"),
            CALLED,
            DONE,
        ],
        [TEA, "{}"],
    ),
    *(
        ({"arguments_empty"}, [opened(0, "a", "", "now"), *pieces, CALLED, DONE], ["{}"])
        for pieces in (
            [piece(0, {"arguments": "null"})],
            [piece(0, {"arguments": sign}) for sign in " null "],
        )
    ),
    (
        {"call_empty"},
        [piece(0, {"name": None, "arguments": ""}, id=None), *HELLO, STOPPED, DONE],
        "Hello",
    ),
    (
        {"call_index"},
        [
            opened(0, "a"),
            opened(0, "b", name="now"),
            piece(0, {"arguments": TEA}, id="a"),
            piece(0, {"arguments": "{}"}, id="b"),
            CALLED,
            DONE,
        ],
        [TEA, "{}"],
    ),
    (
        {"call_name_repeated"},
        [opened(0, "a", TEA), piece(0, {"name": "search", "arguments": "\n"}), CALLED, DONE],
        [TEA],
    ),
    ({"call_empty"}, [*HELLO, STOPPED, piece(0, {"arguments": ""}), DONE], "Hello"),
    ({"call_empty"}, [calls(None), *HELLO, STOPPED, DONE], "Hello"),
    (
        {"call_repeated"},
        [opened(0, "a", TEA), opened(1, "a", '{"query":"tea"}'), CALLED, DONE],
        [TEA],
    ),
    (
        {"call_index"},
        [opened(..., "a"), piece(0, {"arguments": TEA}), CALLED, DONE],
        [TEA],
    ),
    (
        {"call_name_repeated"},
        [opened(0, "a", TEA), CALLED, piece(0, {"arguments": ""}, id="a"), DONE],
        [TEA],
    ),
    (
        {"finish_repeated", "call_name_repeated"},
        [opened(0, "a", TEA), CALLED, opened(0, "a"), CALLED, DONE],
        [TEA],
    ),
]
"""All rows of the table that are read, the events of a server (``DONE`` ends them, unless that is
the deviation), and its reply: a text, or the arguments of each call as JSON."""

OF_MESSAGES = {"arguments_empty", "call_id_shared"}
"""The rows of a whole message that are read in its stream, too."""

PLAIN: dict[str, list[bytes]] = {
    "a type that is null at first": [
        piece(0, {"name": "search", "arguments": ""}, id="a", type=None),
        piece(0, {"arguments": TEA}, type="function"),
        CALLED,
        DONE,
    ],
}
"""What needs no row: null and empty say nothing."""

AMBIGUOUS: dict[str, list[bytes]] = {
    "two names": [opened(0, "a"), opened(0, "a", TEA, name="now"), CALLED],
    "a name behind its arguments": [opened(0, "a", TEA), opened(0, "a", "", "now"), CALLED],
    "two objects": [opened(0, "a", {"query": "tea"}), opened(0, "a", {"query": "milk"}), CALLED],
    "an object behind a text": [opened(0, "a", TEA), piece(0, {"arguments": {"a": 1}}), CALLED],
    "a text behind an object": [
        opened(0, "a", {"query": "tea"}),
        piece(0, {"arguments": MILK}),
        CALLED,
    ],
    "two texts of one call": [opened(0, "a", TEA), piece(0, {"arguments": MILK}), CALLED],
    "the same text twice": [opened(0, "a", TEA), piece(0, {"arguments": TEA}), CALLED],
    "another id and a second text": [
        opened(0, "a", TEA),
        piece(0, {"arguments": MILK}, id="b"),
        CALLED,
    ],
    "an id twice, the first one as it may have been before it was whole": [
        opened(0, "a", '{"query": "te"}'),
        opened(1, "a", '{"query": "tea", "limit": 3}'),
        CALLED,
    ],
    "an id twice under one index, with another name": [
        opened(0, "a", "{}", "now"),
        opened(0, "a", TEA, "search"),
        CALLED,
    ],
    "a finish reason in some chunks": [ended({"content": "Hel"}), text("lo"), STOPPED],
    "a finish reason in every chunk, and all of the text once more": [
        *map(ended, ({"content": "Hel"}, {"content": "lo"}, {"content": "Hello"})),
    ],
    "a finish reason from the second piece on": [
        text("Hel"),
        ended({"content": "l"}),
        ended({"content": "o"}),
    ],
    "a cut in every chunk": [
        ended({"content": "Hel"}, "length"),
        ended({"content": "lo"}, "length"),
    ],
    "a text behind an object as a text": [
        opened(0, "a", TEA),
        piece(0, {"arguments": "{}"}),
        CALLED,
    ],
    "an id twice, the second one cut": [opened(0, "a", TEA), opened(1, "a", TEA[:5]), CALLED],
    "the same call twice without ids": [
        calls(
            {"function": {"name": "search", "arguments": {"query": "tea"}}},
            {"function": {"name": "search", "arguments": {"query": "tea"}}},
        ),
        CALLED,
    ],
    "an object that may be a place, and one": [
        calls(
            {"function": {"name": "now", "arguments": {}}},
            {"function": {"name": "now", "arguments": {"zone": "x"}}},
        ),
        CALLED,
    ],
    "an object, and a text": [*HELLO, text({"query": "tea"}), STOPPED],
    "a text behind an object as the content": [
        BEGUN,
        text({"query": "tea"}),
        text("tea"),
        STOPPED,
    ],
    "two objects as the content": [BEGUN, text({"a": 1}), text({"b": 1}), STOPPED],
    "an empty object behind a text": [*HELLO, text({}), STOPPED],
    "a thought behind the end": [
        *HELLO,
        STOPPED,
        text([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
    ],
    "a cut behind a good end": [*HELLO, STOPPED, chunk({}, "length")],
    "a good end behind a cut": [*HELLO, chunk({}, "length"), STOPPED],
    "text behind the end": [*HELLO, STOPPED, text(" you")],
    "arguments behind the end": [
        opened(0, "a", TEA[:5]),
        CALLED,
        piece(0, {"arguments": TEA[5:]}),
    ],
    "another message than its deltas": [
        *HELLO,
        chunk(..., "stop", message={"content": "Hello you"}),
    ],
    "an error behind the end": [*HELLO, STOPPED, event({"error": {"message": "overloaded"}})],
    "nothing but events without choices": [event({"type": "ping"}), USAGE],
    "the same call under another id": [
        opened(0, "a", "", "now"),
        opened(0, "b", "{}", "now"),
        CALLED,
    ],
    "a piece of one of two open calls": [
        piece(..., {"name": "search", "arguments": ""}, id="a"),
        piece(..., {"name": "now", "arguments": ""}, id="b"),
        piece(..., {"arguments": TEA}),
        CALLED,
    ],
    "an object that may be a place, and the name again": [
        opened(0, None, "{}", "now"),
        piece(0, {"name": "now", "arguments": '{"a": 1}'}),
        CALLED,
    ],
    "another message beside an empty delta": [
        *HELLO,
        STOPPED,
        chunk({}, "stop", message={"content": "Bye"}),
    ],
    "an index of thousands of digits": [opened("9" * 5_000, "a", TEA), CALLED],
    "another role": [*HELLO, chunk({"role": "user"}), STOPPED],
}


def asked(body: list[bytes], *, is_async: bool = False, **contract: Any) -> sr.Exchange[Any]:
    """Ask by a stream once; return the exchange."""
    once = policy(max_retries=0, transport_retries=0)
    return typed(Server(over(Body(body))), is_async=is_async, policy=once, **contract)


def typed(server: Server, *, is_async: bool = False, **contract: Any) -> sr.Exchange[Any]:
    """Read a typed stream of a server to its end; return the exchange."""
    held: Any = {"tools": TOOLS, "parallel": True} | contract
    if is_async:
        return asyncio.run(_asked(sr.wrap(server.async_client(), **held)))

    with sr.wrap(server.client(), **held).stream(**ASK) as events:
        for _ in events:
            pass

    exchange: sr.Exchange[Any] = events.exchange
    return exchange


async def _asked(client: Any) -> sr.Exchange[Any]:
    async with client.stream(**ASK) as events:
        async for _ in events:
            pass

    exchange: sr.Exchange[Any] = events.exchange
    return exchange


def said(reply: Any) -> Any:
    """The text of a reply, or the arguments of its calls, which have ids of their own."""
    if isinstance(reply, sr.DirectAnswer):
        return reply.answer

    assert len({call.id for call in reply.calls}) == len(reply.calls)
    return [call.args for call in reply.calls]


def expected(right: Any) -> Any:
    """The same of a row."""
    return right if isinstance(right, str) else [json.loads(arguments) for arguments in right]


@pytest.mark.parametrize(("rows", "body", "right"), ROWS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_stream_of_a_server_is_read(
    rows: set[str], body: list[bytes], right: Any, is_async: bool
) -> None:
    """The reply is the one that the server meant, and the attempt names the rows."""
    exchange = asked(body, is_async=is_async)
    assert said(exchange.reply) == expected(right)
    assert set(exchange.attempts[-1].lenient) == rows


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_missing_model_is_the_one_that_was_asked(is_async: bool) -> None:
    """A stream that names no model is given the one its own request went to, also an escalated
    one.
    """
    steps = [over(Body([bare({"content": " "}), bare({}, "stop"), DONE])) for _ in range(5)]
    server = Server(*steps)
    climbing = policy(max_retries=4, early_stop="off", models=["large"])

    with pytest.raises(sr.ReplyRejected) as failed:
        typed(server, is_async=is_async, policy=climbing)

    attempts = failed.value.attempts
    raws: list[Any] = [attempt.raw for attempt in attempts]
    sent_to = [attempt.request["model"] for attempt in attempts]
    assert (sent_to[0], sent_to[-1]) == ("m", "large")
    assert [raw["model"] for raw in raws] == sent_to


@pytest.mark.parametrize("body", PLAIN.values(), ids=PLAIN)
def test_null_and_empty_say_nothing(body: list[bytes]) -> None:
    """They are read without any row."""
    exchange = asked(body)
    assert said(exchange.reply) == expected([TEA])
    assert exchange.attempts[-1].lenient == ()


@pytest.mark.parametrize(("rows", "body", "right"), ROWS)
def test_the_drop_in_gets_the_apis_own_chunks(
    rows: set[str], body: list[bytes], right: Any
) -> None:
    """The SDK's stream brings the same reply, in chunks as the API sends them."""
    client = sr.wrap(Server(over(Body(body))).client(), tools=TOOLS, parallel=True)
    content = ""
    calls: dict[int, str] = {}
    reasons = []
    for one in client.chat.completions.create(**ASK, stream=True):
        for choice in one.choices:
            assert choice.index == 0
            content += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
            for call in choice.delta.tool_calls or ():
                function = call.function
                assert function is not None
                calls[call.index] = calls.get(call.index, "") + (function.arguments or "")

    assert rows
    arguments = [json.loads(calls[index]) for index in sorted(calls)]
    assert (content or arguments) == expected(right)
    assert list(calls) == list(range(len(calls)))
    assert reasons == ["stop" if isinstance(right, str) else "tool_calls"]


@pytest.mark.parametrize(
    ("functions", "right"),
    [
        ([("search", {"query": "tea"}), ("now", {})], [TEA, "{}"]),
        ([("now", {}), ("search", {"query": "tea"})], ["{}", TEA]),
        ([("search", {"query": "tea"}), ("search", {"query": "milk"})], [TEA, MILK]),
        ([("search", TEA), ("search", {"query": "milk"})], [TEA, MILK]),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["one delta", "two deltas"])
def test_objects_of_calls_without_ids_are_calls(
    functions: list[tuple[str, Any]], right: list[str], together: bool
) -> None:
    """A name with arguments behind arguments that are complete is another call, also as objects."""
    given = [{"function": {"name": name, "arguments": told}} for name, told in functions]
    pieces = [calls(*given)] if together else [calls(one) for one in given]
    exchange = asked([*pieces, CALLED, DONE])
    assert said(exchange.reply) == expected(right)
    assert {"call_index", "call_id_missing", "arguments_object"} == set(
        exchange.attempts[0].lenient
    )


@pytest.mark.parametrize(
    "meant",
    [
        "a piece of one of two open calls",
        "the same call twice without ids",
        "the same call under another id",
        "another message than its deltas",
    ],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_two_meanings_that_no_repeat_would_change_end_the_call(meant: str, is_async: bool) -> None:
    """The call ends at once, and says what was ambiguous and what to do."""
    body = AMBIGUOUS[meant]
    server = Server(*(over(Body([*body, DONE])) for _ in range(4)))
    with pytest.raises(sr.ReplyHalted) as raised:
        typed(server, is_async=is_async, policy=policy(max_retries=3, transport_retries=3))

    told = raised.value
    assert (told.reason, len(server.bodies)) == ("ambiguous", 1)
    assert [issue.code for issue in told.issues] == ["envelope.ambiguous"]
    for words in (str(told), told.explain()):
        assert words.count(REASON_ADVICE["ambiguous"]) == 1
        assert ADVICE[Remedy.STOP] not in words


@pytest.mark.parametrize("meant", ["text behind the end", "arguments behind the end"])
def test_what_a_race_may_have_sent_is_repeated(meant: str) -> None:
    """What comes behind the end may be a matter of timing: the same request is made again."""
    server = Server(over(Body([*AMBIGUOUS[meant], DONE])), over(Body([*HELLO, STOPPED, DONE])))
    assert said(typed(server, policy=policy(transport_retries=1)).reply) == "Hello"
    assert len(server.bodies) == 2
    assert len(set(server.bodies)) == 1  # without a correction


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["live", "held"])
def test_each_chunk_of_a_stream_without_a_head_has_one(tools: list[Any]) -> None:
    """Live or held, they are chunks of one completion, which the SDK's ``stream`` reads, too."""
    usage: dict[str, Any] = {
        "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
    pieces = ({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"})
    body = [*map(bare, pieces), bare({}, "stop"), event(usage), DONE]
    ask: dict[str, Any] = ASK | {"stream_options": {"include_usage": True}}

    client = sr.wrap(Server(over(Body(body))).client(), tools=tools)
    chunks = list(client.chat.completions.create(**ask, stream=True))
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "Hello"
    assert {one.object for one in chunks} == {"chat.completion.chunk"}
    ((id_, created, model),) = {(one.id, one.created, one.model) for one in chunks}
    assert (id_.startswith("chatcmpl-"), created > 1, model) == (True, True, "m")

    client = sr.wrap(Server(over(Body(body))).client(), tools=tools)
    with client.chat.completions.stream(**ask) as events:
        completion = events.get_final_completion()

    assert completion.choices[0].message.content == "Hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 3
    assert completion.id.startswith("chatcmpl-")


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["live", "held"])
@pytest.mark.parametrize(
    ("member", "value", "read"),
    [
        ("created", None, 1),
        ("created", 2.5, 2),
        ("created", "2", 2),
        ("created", True, 1),
        ("id", 7, "7"),
        ("id", ["c"], "c"),
        ("model", 5, "m"),
        ("model", " ", "m"),
        ("object", "chunk", "chat.completion.chunk"),
    ],
)
def test_each_piece_of_a_text_has_its_head(
    tools: list[Any], member: str, value: Any, read: Any
) -> None:
    """Also a mere piece of a text is passed on with the head that the API would have written."""
    odd = bare({"content": "l"}, **HEAD | {member: value})
    body = [BEGUN, text("He"), odd, text("lo"), STOPPED, DONE]
    client = sr.wrap(Server(over(Body(body))).client(), tools=tools)
    chunks = [one for one in client.chat.completions.create(**ASK, stream=True) if one.choices]
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == "Hello"

    told = {getattr(one, member) for one in chunks}
    assert told <= {HEAD[member], read}
    assert {type(one) for one in told} == {type(read)}


@pytest.mark.parametrize("index", [0.0, False])
def test_an_index_that_equals_0_is_passed_on_as_0(index: Any) -> None:
    """A fraction that is 0 is read as 0, and handed on so; what is no number is refused."""
    pieces = [chunk({"content": one}, index=index) for one in ("Hel", "lo")]
    body = [chunk({"role": "assistant"}), *pieces, STOPPED, DONE]
    client = sr.wrap(Server(over(Body(body))).client(), policy=policy(transport_retries=0))
    if index is False:
        with pytest.raises(sr.TransportFailed) as raised:
            list(client.chat.completions.create(**ASK, stream=True))
        assert [issue.code for issue in raised.value.issues] == ["envelope.malformed"]
        return

    chunks = list(client.chat.completions.create(**ASK, stream=True))
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == "Hello"
    assert {type(one.choices[0].index) for one in chunks} == {int}


@pytest.mark.parametrize("odd", [[], "", {}, True, 1.5, ["x"], {"content": 1.5}, {"refusal": {}}])
@pytest.mark.parametrize("at", ["piece", "end"])
def test_logprobs_that_hold_none_are_passed_on_as_null(odd: Any, at: str) -> None:
    """The SDK's own ``stream`` reads what is in them: anything but lists is handed on as null."""
    pieces = [text("Hel"), chunk({"content": "lo"}, logprobs=odd if at == "piece" else None)]
    end = chunk({}, "stop", logprobs=odd if at == "end" else None)
    server = Server(over(Body([BEGUN, *pieces, end, DONE])))
    with sr.wrap(server.client()).chat.completions.stream(**ASK) as events:
        choice = events.get_final_completion().choices[0]

    assert choice.message.content == "Hello"
    assert choice.logprobs is None or choice.logprobs.content is None


def test_a_live_text_among_thoughts_comes_once() -> None:
    """Without tools the text goes out as it comes, once, and the thoughts as lists."""
    thought = text([{"type": "thinking", "thinking": [{"type": "text", "text": "Greet."}]}])
    told = [BEGUN, thought, text([{"type": "text", "text": "Hel"}]), text("lo"), STOPPED, DONE]
    client = sr.wrap(Server(over(Body(told))).client())
    chunks = client.chat.completions.create(**ASK, stream=True)
    came = [choice.delta.content for one in chunks for choice in one.choices]
    assert [one for one in came if one] == [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Greet."}]}],
        "Hel",
        "lo",
    ]


REFUSED = [row for row in ROWS if row[0] != {"head_missing"}]
"""A strict reading passes a chunk without its head on as it came."""


@pytest.mark.parametrize(("rows", "body", "right"), REFUSED)
def test_a_strict_reading_refuses_it(rows: set[str], body: list[bytes], right: Any) -> None:
    """With ``dialects="strict"`` none of these streams is a reply."""
    assert rows
    assert right
    with pytest.raises(sr.CallFailed):
        asked(body, dialects="strict")


@pytest.mark.parametrize("body", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_two_meanings_are_refused(body: list[bytes], is_async: bool) -> None:
    """What a careless reader could take for something else is no reply, whoever reads it."""
    with pytest.raises(sr.CallFailed):
        asked([*body, DONE], is_async=is_async)


@pytest.mark.parametrize("other", ["n", "nnow"])
def test_a_name_that_may_be_another_tools_is_refused(other: str) -> None:
    """Where both ways to read it name a tool, and where what came so far is one."""
    body = [opened(0, "a", name="n"), piece(0, {"name": "now", "arguments": "{}"}), CALLED, DONE]
    assert said(asked(body).reply) == [{}]
    with pytest.raises(sr.ReplyRejected) as raised:
        asked(body, tools=[NOW, NOW | {"name": other}])
    assert [issue.code for issue in raised.value.issues] == ["call.malformed"]


def test_a_finish_reason_in_each_chunk_ends_nothing() -> None:
    """Where the stream breaks off without ``[DONE]``, nothing says that the reply is whole."""
    with pytest.raises(sr.TransportFailed) as raised:
        asked([ended({"content": "Hel"}), ended({"content": "lo"})])
    assert [issue.code for issue in raised.value.issues] == ["reply.broken_off"]
    assert said(asked([ended({"content": "Hello"})]).reply) == "Hello"


def test_a_call_behind_the_end_needs_an_end_of_its_own() -> None:
    """Where the stream ends behind it, nothing says that it is whole."""
    with pytest.raises(sr.TransportFailed):
        asked([*HELLO, STOPPED, opened(0, "a", "", "now")])


def test_every_row_is_played_and_stands_on_its_page() -> None:
    """Each row names a public thread, is played above, and stands on the page as in the table."""
    played = {name for names, *_ in ROWS for name in names}
    assert played - OF_MESSAGES == STREAM_DIALECTS.keys()
    page = Path(PAGE).read_text(encoding="utf-8")
    for name, row in STREAM_DIALECTS.items():
        assert "#" in row.source
        assert f"| `{name}` | {row.sends} | {row.becomes} | {row.source} |\n" in page, (
            "run `make pages`"
        )


def test_no_row_is_asked_for_that_no_table_has() -> None:
    """Each row that an assembly asks for stands in the table of its API."""
    tables = {"_chat": STREAM_DIALECTS, "_responses": RESPONSE_DIALECTS}
    for api, table in tables.items():
        sources = sorted(WIRES.glob(f"{api}*.py"))
        asked_for = {
            row
            for path in sources
            for row in re.findall(r'reads\("(\w+)"\)', path.read_text(encoding="utf-8"))
        }
        assert len(asked_for) >= 5
        assert asked_for <= table.keys()
