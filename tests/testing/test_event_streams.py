"""Event streams: a completion is taken apart as the API does it.

A recorded stream is put together again.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState

import strictreply as sr
from strictreply.core import EventReader
from strictreply.core.forms import BROKEN_OFF
from strictreply.testing import HTTPReply, Kind, assistant, completion, faults, native_call
from strictreply.testing._serving import assembled
from strictreply.testing.faults import Entry, FaultNotMade
from strictreply.testing.mounting import openai_client
from support.loops import some
from support.scripted import USER
from support.streamed_replies import CHAT, DONE, event, events

PIECES = 4  # of a text at most
TEXT = st.text(max_size=30)
CALLS = st.lists(st.builds(native_call, TEXT, TEXT, TEXT), max_size=3)
COMPLETIONS = st.builds(
    lambda content, calls, refusal, reason: completion(
        assistant(content, calls, refusal=refusal), finish_reason=reason
    ),
    st.none() | TEXT,
    CALLS,
    st.none() | TEXT,
    st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
)


def read(served: Any, **options: Any) -> list[Any]:
    """Stream a completion through the real SDK, and give its chunks."""
    stream: Any = openai_client(lambda _: served).chat.completions
    return list(stream.create(model="m", messages=USER, stream=True, **options))


def data(served: Any, **options: Any) -> list[Any]:
    """Read the JSON of the events of a completion back."""
    *spelled, done = events(served, **options)
    assert done == DONE
    return [json.loads(one.removeprefix(b"data: ")) for one in spelled]


@given(served=COMPLETIONS)
def test_the_sdk_puts_the_completion_together_again(served: dict[str, Any]) -> None:
    """Content, refusal, calls and finish reason survive the way through the SDK's own assembler."""
    state: Any = ChatCompletionStreamState()
    for chunk in read(served):
        state.handle_chunk(chunk)

    choice = state.current_completion_snapshot.choices[0]
    wanted = served["choices"][0]
    assert choice.finish_reason == wanted["finish_reason"]
    assert choice.message.role == "assistant"

    assert (choice.message.content, choice.message.refusal) == (
        wanted["message"]["content"],
        wanted["message"]["refusal"],
    )
    calls = [
        native_call(call.function.name, call.function.arguments, call.id)
        for call in choice.message.tool_calls or []
    ]
    assert calls == wanted["message"].get("tool_calls", [])


def test_a_stream_is_spelled_as_the_api_does() -> None:
    """First the role, then a call's id and name, then its arguments in pieces, then the reason,
    then the usage.
    """
    served = completion(
        assistant(None, [native_call("f", '{"a":1}', "c1"), native_call("g", "", "c2")])
    )
    spelled = data(served, usage=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in spelled[:-1]]
    assert deltas[0] == {"role": "assistant", "content": None, "refusal": None}

    assert deltas[1] == {"tool_calls": [native_call("f", "", "c1") | {"index": 0}]}
    pieces = deltas[2:-2]
    assert 1 < len(pieces) <= PIECES
    assert "".join(piece["tool_calls"][0]["function"]["arguments"] for piece in pieces) == '{"a":1}'

    assert deltas[-2:] == [{"tool_calls": [native_call("g", "", "c2") | {"index": 1}]}, {}]
    assert [chunk["choices"][0]["finish_reason"] for chunk in spelled[-3:-1]] == [
        None,
        "tool_calls",
    ]
    assert {chunk["object"] for chunk in spelled} == {"chat.completion.chunk"}


def test_the_usage_comes_when_asked_for() -> None:
    """``include_usage`` adds a last chunk with the tokens and no choice; otherwise no chunk speaks
    of them.
    """
    served = completion(assistant("hi"))
    *others, last = read(served, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.total_tokens == 15
    assert all(chunk.usage is None for chunk in others)
    assert all("usage" not in chunk for chunk in data(served))


@pytest.mark.parametrize(
    "spoiled",
    [
        None,
        [],
        "text",
        {},
        {"choices": []},
        {"choices": None},
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": []}, {"message": {}}]},
        {"error": {"message": "no"}},
    ],
)
def test_what_is_no_completion_is_one_event(spoiled: Any) -> None:
    """A spoiled envelope comes as it is, and the stream ends as every other."""
    assert data(spoiled) == [spoiled]


@pytest.mark.parametrize(
    ("message", "delta"),
    [
        ({"role": "user", "content": 5}, {"role": "user", "content": 5}),
        ({"content": [{"type": "text"}]}, {"content": [{"type": "text"}]}),
        ({"tool_calls": "none"}, {"tool_calls": "none"}),
        ({"tool_calls": []}, {"tool_calls": []}),
        ({"tool_calls": [None]}, {"tool_calls": [None]}),
        ({"tool_calls": [{"id": 1}]}, {"tool_calls": [{"id": 1, "index": 0}]}),
        ({"tool_calls": [{"function": []}]}, {"tool_calls": [{"function": [], "index": 0}]}),
        (
            {"tool_calls": [{"function": {"arguments": {"a": 1}}}]},
            {"tool_calls": [{"function": {"arguments": {"a": 1}}, "index": 0}]},
        ),
        ({"function_call": {"name": "f"}}, {"function_call": {"name": "f"}}),
    ],
)
def test_a_spoiled_value_stays_one(message: Any, delta: Any) -> None:
    """A member of a wrong type is in a delta as it was."""
    assert delta in [chunk["choices"][0].get("delta") for chunk in data(completion(message))]


@pytest.mark.parametrize(
    "choice", [{}, {"index": 7}, {"finish_reason": 3, "logprobs": {"content": []}}]
)
def test_a_choice_keeps_what_it_has(choice: dict[str, Any]) -> None:
    """Nothing of a choice is invented: a missing index stays missing, and the last chunk holds how
    it ended.
    """
    *_, last = data({"choices": [{"message": {}, **choice}]})
    assert last["choices"] == [{"delta": {}, **choice}]


def test_several_choices_come_one_after_the_other() -> None:
    """Each keeps its own index."""
    choices = [
        {"index": index, "message": {"content": "x"}, "finish_reason": "stop"} for index in (0, 1)
    ]
    indices = [chunk["choices"][0]["index"] for chunk in data({"choices": choices})]
    assert indices == sorted(indices)
    assert set(indices) == {0, 1}


def test_a_long_text_comes_in_few_pieces() -> None:
    """The number of events does not grow with the text."""
    long = completion(assistant("x" * 1_000_000))
    assert len([*CHAT.events(long, {})]) == PIECES + 2


@given(text=st.text(st.characters()))
def test_an_event_is_one_line_of_ascii(text: str) -> None:
    """The event of any chunk has no line break but the two at its end, also for lone surrogates."""
    spelled = event({"content": text})
    assert spelled.isascii()
    assert spelled.splitlines() == [spelled[:-2], b""]
    assert json.loads(spelled.removeprefix(b"data: ")) == {"content": text}


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


WHOLE_TEXT = st.text(max_size=30)
NAME = st.text(min_size=1, max_size=10)
WHOLE_COMPLETIONS = st.builds(
    lambda content, calls, refusal, reason: completion(
        assistant(content, calls, refusal=refusal), finish_reason=reason
    ),
    st.none() | WHOLE_TEXT,
    st.lists(st.builds(native_call, NAME, WHOLE_TEXT, NAME), max_size=12),
    st.none() | WHOLE_TEXT.filter(bool),  # an empty refusal says nothing
    st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
)
GOOD = completion(assistant(None, [native_call("search", '{"query": "tea"}')]))
CONTRACT = sr.Contract(tools=[search], dialects="strict")
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["", "a", "stop", "assistant"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "index", "x"]), inner)
    ),
    max_leaves=4,
)
DELTAS = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "refusal", "function_call"]), JUNK
)
CHUNKS = st.fixed_dictionaries(
    {},
    optional={
        "choices": JUNK
        | st.lists(
            st.fixed_dictionaries(
                {}, optional={"index": JUNK, "delta": JUNK | DELTAS, "finish_reason": JUNK}
            ),
            max_size=2,
        ),
        "error": JUNK,
        "usage": JUNK,
    },
)
ANSWERED: list[Entry] = [
    one for one in faults.CATALOGUE.values() if one.kind in {Kind.STREAM, Kind.ENVELOPE}
]


def told(*chunks: Any) -> bytes:
    """Write chunks as server-sent events."""
    return b"".join(map(event, chunks))


def stream_of(*deltas: Any, reason: str = "stop") -> bytes:
    """Stream these deltas, the finish reason, and the end."""
    begun = [
        {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    last = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return told(*begun, last) + DONE


def message_of(body: bytes) -> dict[str, Any]:
    """Put a sound stream together, and give its message."""
    whole: Any = assembled(body)
    assert whole["choices"][0]["finish_reason"] != BROKEN_OFF
    message: dict[str, Any] = whole["choices"][0]["message"]
    return message


@given(served=WHOLE_COMPLETIONS)
def test_what_was_taken_apart_comes_back(served: dict[str, Any]) -> None:
    """The events of a completion, put together, are the completion: usage, refusal and every call
    included.
    """
    assert assembled(b"".join(events(served, usage=True))) == served


@given(served=WHOLE_COMPLETIONS)
def test_the_chunks_as_the_sdk_gives_them_come_back(served: dict[str, Any]) -> None:
    """A stream that the SDK read, written as events again, is the same reply."""
    stream: Any = openai_client(lambda _: served).chat.completions.create(
        model="m", messages=[{"role": "user", "content": "tea"}], stream=True
    )
    spelled = [event(chunk.model_dump(exclude_unset=True)) for chunk in stream]
    whole: Any = assembled(b"".join([*spelled, DONE]))
    assert whole["choices"] == served["choices"]


@given(served=WHOLE_COMPLETIONS, cut=st.integers(1, 400))
def test_a_stream_that_is_cut_is_never_whole(served: dict[str, Any], cut: int) -> None:
    """A stream that lacks any part of its end does not pass; its text so far is kept."""
    body = b"".join(events(served)).removesuffix(b"\n\n")
    whole: Any = assembled(body[:-cut])
    if whole is not None:
        assert all(choice["finish_reason"] == BROKEN_OFF for choice in whole["choices"])
        assert isinstance(CONTRACT.check(whole), sr.Invalid)


@given(chunks=st.lists(CHUNKS, max_size=4), tail=st.booleans())
def test_no_chunk_is_too_odd(chunks: list[Any], tail: bool) -> None:
    """Any chunks are put together into something that can be judged, and nothing is raised."""
    whole: Any = assembled(told(*chunks) + (DONE if tail else b""))
    assert (whole is None) == (not chunks)
    json.dumps(whole)
    CONTRACT.check(whole)


@given(body=st.binary(max_size=60) | st.text('data: {}[]"x,:\r\n', max_size=60).map(str.encode))
def test_no_body_is_too_odd(body: bytes) -> None:
    """Bytes that are no stream give nothing, or what does not pass."""
    whole: Any = assembled(body)
    assert whole is None or isinstance(CONTRACT.check(whole), sr.Invalid)


@pytest.mark.parametrize("entry", ANSWERED, ids=lambda entry: entry.name)
def test_no_fault_of_a_stream_passes_for_whole(entry: Entry) -> None:
    """Each malformed stream of the catalogue, put together, is refused by the gate, or holds no
    completion.
    """
    places = [place for place in entry.places if place != "prose"]
    for place in some(places):
        try:
            served = entry(search if place != "json" else int, place=place).served
        except FaultNotMade:
            continue

        body = served.body if isinstance(served, HTTPReply) else b"".join(events(served))
        contract = sr.Contract(
            tools=[search] if place != "json" else [],
            answer=int if place == "json" else str,
            channel="text" if place == "union" else "native",
            dialects="strict",
        )

        whole = assembled(body)
        assert whole is None or isinstance(contract.check(whole), sr.Invalid), place


def test_many_calls_keep_their_order() -> None:
    """The eleventh call comes after the tenth."""
    calls: list[Any] = [native_call(f"f{number}", "{}", f"c{number}") for number in range(12)]
    served = completion(assistant(None, calls))
    assert message_of(b"".join(events(served)))["tool_calls"] == calls


def test_a_chunk_needs_no_other_member_than_its_choices() -> None:
    """Chunks without id and model, as some servers send them, are put together as well."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert message_of(told(chunk) + DONE)["content"] == "Hi"


def test_what_follows_the_end_is_not_read() -> None:
    """Nothing after ``[DONE]`` counts."""
    body = stream_of({"content": "Hi"})
    assert assembled(body + b"data: {broken\n\n") == assembled(body)


@pytest.mark.parametrize(
    "written",
    [
        b': a comment\ndata: {"choices": []}\n\n',
        b'\xef\xbb\xbfdata: {"choices": []}\n\n',
        b'id: 5\nretry: 10\ndata: {"choices": []}\r\n\r\n',
        b'event: message\rdata: {"choices":\rdata: []}\r\r',
        b'data:{"choices": []}\n\n',
        b'\n\ndata: {"choices": []}',
    ],
)
def test_events_are_read_as_the_standard_says(written: bytes) -> None:
    """Comments, other fields, any end of line, data in several lines and a byte order mark are what
    HTML makes them.
    """
    reader = EventReader()
    (found,) = (*reader.feed(written), *reader.last())
    assert json.loads(found.data) == {"choices": []}


def test_an_error_stays_beside_what_came() -> None:
    """An error in the middle is kept, as data of its own or by the type of its event, and the gate
    says so.
    """
    begun = stream_of({"content": "Hi"}).split(b"\n\n")[0] + b"\n\n"
    for error in (
        event({"error": {"message": "busy"}}),
        b"event: error\n" + event({"message": "busy"}),
    ):
        whole: Any = assembled(begun + error + DONE)
        assert whole["error"] == {"message": "busy"}
        assert whole["choices"][0]["message"]["content"] == "Hi"
        verdict = CONTRACT.check(whole)
        assert isinstance(verdict, sr.Invalid)

        assert verdict.issues[0].code == "envelope.error"


def test_several_choices_stay_several() -> None:
    """The chunks of a second choice are not mixed into the first."""
    chunks = [
        {"choices": [{"index": at, "delta": {"content": str(at)}, "finish_reason": "stop"}]}
        for at in (0, 1)
    ]
    whole: Any = assembled(told(*chunks) + DONE)
    assert [choice["message"]["content"] for choice in whole["choices"]] == ["0", "1"]


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({"reasoning": "why"}, {"reasoning": "why"}),
        ({"details": [{"a": 1}]}, {"details": [{"a": 1}, {"a": 1}]}),
        ({"role": "user"}, {"role": "user"}),
        ({"tool_calls": None}, {}),
        ({"tool_calls": []}, {}),
    ],
)
def test_members_of_a_delta_have_their_place(
    delta: dict[str, Any], message: dict[str, Any]
) -> None:
    """Members beside the texts are joined by their type; null and no calls say nothing."""
    given = message_of(stream_of(delta, *([delta] if "details" in delta else [{"content": None}])))
    assert given == {"role": "assistant", "content": None} | message


def test_what_says_nothing_may_come_after_the_finish() -> None:
    """A chunk with the usage, and one with an empty delta, end nothing twice."""
    body = stream_of({"content": "Hi"}).removesuffix(DONE)
    empty = {
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        ]
    }
    whole: Any = assembled(body + told(empty, {"choices": [], "usage": {"total_tokens": 3}}) + DONE)
    assert (whole["choices"][0]["finish_reason"], whole["usage"]) == ("stop", {"total_tokens": 3})


def test_however_many_pieces_are_one_text() -> None:
    """Pieces are joined once, not one after another."""
    body = told(*[{"choices": [{"index": 0, "delta": {"content": "ab"}}]}] * 20_000) + DONE
    whole: Any = assembled(body)
    assert whole["choices"][0]["message"]["content"] == "ab" * 20_000
