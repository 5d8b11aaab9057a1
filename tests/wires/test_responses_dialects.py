"""Streams of the Responses API as real servers write them: each row of the table by a body."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from strictreply.wires._stream_dialects import RESPONSE_DIALECTS
from support.pages import DOCS
from support.scripted import SCHEMA, Server, http
from support.streamed_replies import policy, typed_event

PAGE = DOCS / "verdicts.md"
SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
ASK: dict[str, Any] = {"model": "m", "input": "Find tea."}
TEA = '{"query": "tea"}'
MILK = '{"query": "milk"}'


def item(id_: Any, arguments: str = "", **members: Any) -> dict[str, Any]:
    """An item that is a call."""
    call = {"type": "function_call", "id": id_, "call_id": f"call_{id_}", "name": "search"}
    return call | {"arguments": arguments, "status": "completed"} | members


def part(said: str) -> dict[str, Any]:
    """A part of a message."""
    return {"type": "output_text", "text": said, "annotations": []}


def text(id_: Any, *texts: str) -> dict[str, Any]:
    """An item that is a message."""
    parts = [part(one) for one in texts]
    message = {"type": "message", "id": id_, "role": "assistant", "status": "completed"}
    return message | {"content": parts}


def response(*output: Any, status: str = "completed", id_: str = "resp_1") -> dict[str, Any]:
    """A whole response."""
    around = {"id": id_, "object": "response", "created_at": 1, "model": "m", "status": status}
    return around | {"output": list(output)}


def stream(*told: tuple[str, dict[str, Any]], end: Any = None, begin: bool = True) -> list[Any]:
    """The events of a stream, numbered; an ellipsis leaves a member out."""
    events: list[dict[str, Any]] = []
    if begin:
        events.append({"type": "response.created", "response": response(status="in_progress")})

    events += [{"type": f"response.{kind}"} | members for kind, members in told]
    if end is not None:
        events.append({"type": "response.completed", "response": end})

    return [
        {"sequence_number": number}
        | {name: value for name, value in event.items() if value is not ...}
        for number, event in enumerate(events)
    ]


def added(index: Any, what: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """An item is added."""
    return "output_item.added", {"output_index": index, "item": what}


def done(index: Any, what: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """An item is done."""
    return "output_item.done", {"output_index": index, "item": what}


def piece(delta: Any, index: Any = 0, part: Any = 0, id_: Any = "m") -> tuple[str, dict[str, Any]]:
    """A piece of a text."""
    place = {"output_index": index, "content_index": part, "item_id": id_}
    return "output_text.delta", place | {"delta": delta, "logprobs": []}


def written(delta: str, index: Any = 0, id_: Any = "a") -> tuple[str, dict[str, Any]]:
    """A piece of the arguments of a call."""
    place = {"output_index": index, "item_id": id_}
    return "function_call_arguments.delta", place | {"delta": delta}


def all_written(arguments: str, index: Any = 0, id_: Any = "a") -> tuple[str, dict[str, Any]]:
    """All arguments of a call."""
    place = {"output_index": index, "item_id": id_}
    return "function_call_arguments.done", place | {"arguments": arguments}


SEARCHED = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "call_id": "xs_call_1",
    "name": "x_keyword_search",
    "input": '{"query": "tea"}',
    "status": "completed",
}
AT_PART = {"output_index": 0, "item_id": "m", "content_index": 1}
AT_SEARCH = {"output_index": 0, "item_id": "ctc_1"}
HELLO = (added(0, text("m")), piece("Hel"), piece("lo"))
CALLED = (added(0, item("a")), written(TEA))
HELLO_END = response(text("m", "Hello"))
NO_TIME = {name: value for name, value in HELLO_END.items() if name != "created_at"}
CALLED_END = response(item("a", TEA))

ROWS: list[tuple[set[str], list[Any], Any]] = [
    ({"event_without_type"}, [{}, *stream(*HELLO, end=HELLO_END)], "Hello"),
    (
        {"event_without_response"},
        [{"type": "response.in_progress"}, *stream(*CALLED, end=CALLED_END)],
        [TEA],
    ),
    (
        {"sequence_number"},
        [
            one | {"sequence_number": 0} if one["type"].endswith(".delta") else one
            for one in stream(*CALLED, end=CALLED_END)
        ],
        [TEA],
    ),
    ({"member_missing"}, stream(*HELLO, end=NO_TIME), "Hello"),
    ({"item_empty"}, stream(*CALLED, end=response({}, item("a", TEA))), [TEA]),
    (
        {"response_done"},
        stream(*CALLED, ("done", {"response": CALLED_END})),
        [TEA],
    ),
    ({"id_changes"}, stream(*HELLO, end=response(text("m", "Hello"), id_="resp_2")), "Hello"),
    (
        {"item_id_changes", "events_disagree"},
        stream(
            added(0, text("m")),
            piece("Hel", id_="m2"),
            piece("lo", id_="m3"),
            end=response(text("m4", "Hello")),
        ),
        "Hello",
    ),
    ({"item_unannounced"}, stream(piece("Hel"), piece("lo"), end=HELLO_END), "Hello"),
    (
        {"output_index"},
        stream(
            added(..., item("a")),
            added(..., item("b")),
            all_written(TEA, ..., ...),
            all_written(MILK, ..., ...),
            end=response(item("a", TEA), item("b", MILK)),
        ),
        [TEA, MILK],
    ),
    (
        {"output_index"},
        stream(
            added(..., item("a")),
            written(TEA, ..., "a"),
            done(..., item("a", TEA)),
            end=CALLED_END,
        ),
        [TEA],
    ),
    (
        {"content_index"},
        stream(
            added(0, text("m")),
            piece("Hel", part=1),
            piece("lo", part=2),
            (
                "output_text.done",
                {"output_index": 0, "content_index": 3, "item_id": "m", "text": "Hello"},
            ),
            end=HELLO_END,
        ),
        "Hello",
    ),
    (
        {"content_index"},
        stream(added(0, text("m")), piece("Hello", part=None), end=HELLO_END),
        "Hello",
    ),
    (
        {"content_index"},
        stream(
            added(0, text("m")),
            ("content_part.added", AT_PART | {"part": part("")}),
            piece("Hel", part=1),
            piece("lo", part=1),
            ("output_text.done", AT_PART | {"text": "Hello"}),
            ("content_part.done", AT_PART | {"part": part("Hello")}),
            done(0, text("m", "Hello")),
            end=HELLO_END,
        ),
        "Hello",
    ),
    (
        {"done_disagrees", "events_disagree"},
        stream(*CALLED, done(0, item("a", "")), end=CALLED_END),
        [TEA],
    ),
    (
        {"events_disagree"},
        stream(*CALLED, end=response(item("z", TEA, call_id="call_9"))),
        [TEA],
    ),
    ({"events_disagree"}, stream(*HELLO, end=response(text("z", "Hel", "lo"))), "Hello"),
    (
        {"done_disagrees"},
        stream(*HELLO, done(0, text("m", "Hello")), done(0, text("m", "Hello")), end=HELLO_END),
        "Hello",
    ),
    (
        {"output_index"},
        stream(
            added(..., item("a")),
            added(..., item("b")),
            written(MILK, ..., "b"),
            written(TEA, ..., "a"),
            done(..., item("b", MILK)),
            done(..., item("a", TEA)),
            end=response(),
        ),
        [TEA, MILK],
    ),
    (
        {"output_index", "item_id_changes"},
        stream(
            added(0, item("a")),
            added(0, item("b")),
            written(TEA, 0, "a"),
            written(MILK, 0, "b"),
            end=response(item("a", TEA), item("b", MILK)),
        ),
        [TEA, MILK],
    ),
    (
        {"output_index"},
        stream(added(0, text("m")), piece("Hello", index="0"), end=HELLO_END),
        "Hello",
    ),
    (
        {"output_index"},
        stream(added(0, item("a")), *CALLED, done(0, item("a", TEA)), end=CALLED_END),
        [TEA],
    ),
    (
        {"output_index"},
        stream(*CALLED, added(0, item("a", TEA)), done(0, item("a", TEA)), end=CALLED_END),
        [TEA],
    ),
    (
        {"arguments_repeated"},
        stream(added(0, item("a", TEA)), written(TEA[:4]), written(TEA[4:]), end=CALLED_END),
        [TEA],
    ),
    (
        {"arguments_repeated"},
        stream(
            added(0, item("a", TEA[:3])),
            written(TEA[:3]),
            written(TEA[3:]),
            all_written(TEA),
            done(0, item("a", TEA)),
            end=CALLED_END,
        ),
        [TEA],
    ),
    (
        {"arguments_repeated"},
        stream(added(0, item("a", "{}")), written(TEA), done(0, item("a", TEA)), end=response()),
        [TEA],
    ),
    (
        {"call_of_server"},
        stream(
            added(0, SEARCHED | {"input": ""}),
            ("custom_tool_call_input.delta", AT_SEARCH | {"delta": SEARCHED["input"]}),
            ("custom_tool_call_input.done", AT_SEARCH | {"input": SEARCHED["input"]}),
            done(0, SEARCHED),
            added(1, text("m")),
            piece("Hello", 1),
            end=response(SEARCHED, text("m", "Hello")),
        ),
        "Hello",
    ),
    ({"delta_null"}, stream(*HELLO[:2], piece(None), HELLO[2], end=HELLO_END), "Hello"),
    (
        {"repeated_behind_end"},
        [
            *stream(*CALLED, done(0, item("a", TEA)), end=CALLED_END),
            *stream(done(0, item("a", TEA)), end=CALLED_END, begin=False),
        ],
        [TEA],
    ),
    (
        {"repeated_behind_end", "call_behind_end"},
        [
            *stream(*CALLED, end=CALLED_END),
            *stream(added(1, item("b")), written(MILK, 1, "b"), begin=False),
            *stream(done(1, item("b", MILK)), begin=False),
        ],
        [TEA, MILK],
    ),
    (
        {"response_behind_end"},
        [*stream(*HELLO, end=HELLO_END), *stream(*CALLED, end=CALLED_END)],
        "Hello",
    ),
]

AMBIGUOUS: dict[str, list[Any]] = {
    "other arguments at the end": stream(*CALLED, end=response(item("a", MILK))),
    "another tool at the end": stream(*CALLED, end=response(item("a", TEA, name="other"))),
    "a call more at the end": stream(*CALLED, end=response(item("a", TEA), item("b", MILK))),
    "no call at the end": stream(*CALLED, end=response(text("m", "Hello"))),
    "another text at the end": stream(*HELLO, end=response(text("m", "Hello you"))),
    "no text at the end": stream(*HELLO, end=response(item("a", TEA))),
    "other arguments of the item, and no output": stream(
        *CALLED, done(0, item("a", MILK)), end=response()
    ),
    "a text that is no text": stream(added(0, text("m")), piece(5), end=HELLO_END),
    "an item that is no object": stream(("output_item.added", {"item": 1}), end=HELLO_END),
    "no end": stream(*CALLED),
    "a done text that the end contradicts": stream(
        added(0, text("m")), done(0, text("m", "Hi")), end=response(text("m", "Bye"))
    ),
    "arguments at its done that the end contradicts": stream(
        added(0, item("a")), done(0, item("a", TEA)), end=response(item("a", MILK))
    ),
    "two ends of one call": stream(
        added(0, item("a")), done(0, item("a", TEA)), done(0, item("a", MILK)), end=CALLED_END
    ),
    "another name at its done": stream(
        *CALLED, done(0, item("a", TEA, name="other")), end=response(item("a", TEA, name="other"))
    ),
    "a refusal that the end contradicts": stream(
        added(0, text("m")),
        ("refusal.delta", {"output_index": 0, "content_index": 0, "item_id": "m", "delta": "No."}),
        end=HELLO_END,
    ),
    "other arguments in an incomplete event that is completed": [
        *stream(*CALLED),
        {"type": "response.incomplete", "response": response(item("a", MILK))},
    ],
    "text behind its done": stream(
        *HELLO, done(0, text("m", "Hello")), piece(" you"), end=HELLO_END
    ),
    "text behind its done, and no output": stream(
        *HELLO, done(0, text("m", "Hello")), piece(" you"), end=response()
    ),
    "arguments whole at first, and others in pieces": stream(
        added(0, item("a", TEA)), written(MILK), end=response(item("a", MILK))
    ),
    "arguments whole at first, and others in pieces, and no output": stream(
        added(0, item("a", TEA)), written(MILK), done(0, item("a", MILK)), end=response()
    ),
    "another call under the same index and id": stream(
        *CALLED, added(0, item("a", MILK)), end=CALLED_END
    ),
    "an error of no type": [*stream(*HELLO), {"type": 5, "error": {"message": "overloaded"}}],
}


def body(events: list[Any]) -> Any:
    """A response with these events as its body."""
    return http.Response(
        200,
        content=b"".join(map(typed_event, events)),
        headers={"content-type": "text/event-stream"},
    )


def asked(events: list[Any], **contract: Any) -> sr.Exchange[Any]:
    """Ask by a stream once; return the exchange."""
    once = policy(max_retries=0, transport_retries=0)
    held: Any = {"tools": [SEARCH], "parallel": True, "api": "responses"} | contract
    client: Any = sr.wrap(Server(body(events)).client(), policy=once, **held)
    with client.stream(**ASK) as told:
        for _ in told:
            pass

    exchange: sr.Exchange[Any] = told.exchange
    return exchange


def expected(right: Any) -> Any:
    """What a row brings: its text, or the arguments of its calls."""
    return right if isinstance(right, str) else [json.loads(arguments) for arguments in right]


@pytest.mark.parametrize(("rows", "events", "right"), ROWS)
def test_a_stream_of_a_server_is_read(rows: set[str], events: list[Any], right: Any) -> None:
    """The reply is the one that the server meant, and the attempt names the rows."""
    exchange = asked(events)
    reply = exchange.reply
    said = [call.args for call in reply.calls]
    assert (reply.answer if isinstance(reply, sr.DirectAnswer) else said) == expected(right)
    assert set(exchange.attempts[-1].lenient) == rows


@pytest.mark.parametrize(("rows", "events", "right"), ROWS)
def test_the_drop_in_ends_in_a_completed_response(
    rows: set[str], events: list[Any], right: Any
) -> None:
    """The SDK's own accumulator takes the events, and its response is the accepted one."""
    tools = [{"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}]
    client = sr.wrap(Server(body(events)).client())
    with client.responses.stream(**ASK, tools=tools) as told:  # type: ignore[arg-type]
        final = told.get_final_response()

    assert rows
    assert final.status == "completed"
    calls = [json.loads(one.arguments) for one in final.output if one.type == "function_call"]
    assert (final.output_text or calls) == expected(right)


def test_a_text_is_passed_on_once_wherever_it_ends() -> None:
    """An output with another order than its events brings the text once, under its own index."""
    thought = {"type": "reasoning", "id": "r", "summary": []}
    events = stream(added(1, text("m")), piece("Hel", 1), piece("lo", 1))
    events.append({"type": "response.completed", "response": response(thought, text("m", "Hello"))})
    client = sr.wrap(Server(body(events)).client())
    told = list(client.responses.create(**ASK, stream=True))
    deltas = [one.delta for one in told if one.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hello"


@pytest.mark.parametrize(("rows", "events", "right"), ROWS)
def test_a_strict_reading_refuses_it(rows: set[str], events: list[Any], right: Any) -> None:
    """With ``dialects="strict"`` none of these streams is a reply."""
    assert rows
    assert right
    with pytest.raises(sr.CallFailed):
        asked(events, dialects="strict")


@pytest.mark.parametrize("events", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_two_meanings_are_refused(events: list[Any]) -> None:
    """A terminal event that contradicts what was shown or streamed is no reply."""
    with pytest.raises(sr.CallFailed):
        asked(events)


def test_every_row_is_played_and_stands_on_its_page() -> None:
    """Each row names a public thread, is played above, and stands on the page as in the table."""
    played = {name for names, *_ in ROWS for name in names} | {"answer_repeated"}
    assert played == RESPONSE_DIALECTS.keys()
    page = PAGE.read_text(encoding="utf-8")
    for name, row in RESPONSE_DIALECTS.items():
        assert "#" in row.source
        assert f"| `{name}` | {row.sends} | {row.becomes} | {row.source} |\n" in page, (
            "run `make pages`"
        )


JSON = '{"title": "Tea"}'
SHAPE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TITLED: dict[str, Any] = {
    "text": {"format": {"type": "json_schema", "name": "title", "schema": SHAPE, "strict": True}}
}


def titled(*texts: str, phase: Any = ...) -> list[dict[str, Any]]:
    """Message items that hold these texts."""
    ends = [text(f"m{number}", one) | {"phase": phase} for number, one in enumerate(texts)]
    return [{name: value for name, value in one.items() if value is not ...} for one in ends]


def as_stream(items: list[dict[str, Any]]) -> Any:
    """A streamed response of message items."""
    told: list[Any] = []
    for index, one in enumerate(items):
        whole = one["content"][0]["text"]
        part = {"output_index": index, "item_id": one["id"], "content_index": 0}
        begun = {"type": "output_text", "text": "", "annotations": []}
        told += [
            added(index, one | {"content": []}),
            ("content_part.added", part | {"part": begun}),
            *(piece(each, index, 0, one["id"]) for each in (whole[:5], whole[5:])),
            ("output_text.done", part | {"text": whole, "logprobs": []}),
            ("content_part.done", part | {"part": one["content"][0]}),
            done(index, one),
        ]

    return body(stream(*told, end=response(*items)))


def answered(items: list[dict[str, Any]], *, is_streamed: bool, **held: Any) -> Any:
    """The response that the drop-in gives for message items, and its last attempt."""
    attempts: list[sr.Attempt] = []
    served = as_stream(items) if is_streamed else http.Response(200, json=response(*items))
    once = policy(max_retries=0, transport_retries=0)
    client: Any = sr.wrap(Server(served).client(), policy=once, on_attempt=attempts.append, **held)
    if is_streamed:
        *_, last = client.responses.create(**ASK, **TITLED, stream=True)
        return last.response, attempts[-1]

    return client.responses.create(**ASK, **TITLED), attempts[-1]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_the_same_json_in_several_messages_is_one_answer(is_streamed: bool, count: int) -> None:
    """The first message is handed on, and the attempt names the row."""
    items = titled(*[JSON] * count)
    given, attempt = answered(items, is_streamed=is_streamed)
    assert given.output_text == JSON
    assert [one.id for one in given.output] == ["m0"]
    assert attempt.lenient == ("answer_repeated",)


@pytest.mark.parametrize("texts", [(JSON, '{"title": "Milk"}'), (JSON, JSON[:-4]), (JSON, "Tea")])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_two_answers_are_refused(is_streamed: bool, texts: tuple[str, str]) -> None:
    """Messages that hold anything else beside the JSON are no answer."""
    with pytest.raises(sr.ReplyRejected) as refused:
        answered(titled(*texts), is_streamed=is_streamed)

    codes = {issue.code for issue in refused.value.issues}
    assert codes <= {"json.several_values", "json.trailing_data"}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_strict_reading_takes_one_message(is_streamed: bool) -> None:
    """With ``dialects="strict"`` the JSON may come once."""
    with pytest.raises(sr.ReplyRejected):
        answered(titled(JSON, JSON), is_streamed=is_streamed, dialects="strict")


def test_the_same_prose_in_two_messages_is_all_of_it() -> None:
    """Only JSON cannot go on: of any other text both messages count."""
    hello = response(*titled("Hello.", "Hello."))
    client: Any = sr.wrap(Server(hello).client(), api="responses")
    assert client.reply(**ASK).answer == "Hello.Hello."


@pytest.mark.parametrize("has_answer", [True, False], ids=["an answer", "a call"])
def test_commentary_may_be_told_at_its_end(has_answer: bool) -> None:
    """A message that only its end names commentary, with its text, is no part of the answer."""
    comment = text("c", "I look.") | {"phase": "commentary"}
    last = text("m", JSON) if has_answer else item("a", TEA)
    told = (
        added(0, text("c")),
        done(0, comment),
        added(1, text("m") if has_answer else item("a")),
        piece(JSON, 1) if has_answer else written(TEA, 1),
        done(1, last),
    )
    exchange = asked(stream(*told, end=response(comment, last)), answer=SHAPE)
    reply = exchange.reply
    said = reply.answer if isinstance(reply, sr.DirectAnswer) else reply.calls[0].args
    assert said == json.loads(JSON if has_answer else TEA)
