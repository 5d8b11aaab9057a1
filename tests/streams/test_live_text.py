"""Text that is live: there before the end, and never a call that leaked.

Text with a request behind it is one with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

import strictreply as sr
from channels.test_spellings import ANSWERS, BEGUN_BEFORE, CONTRACT, SPELLINGS
from support.scripted import Server, call, completion, http
from support.streamed_replies import (
    ASK,
    ONCE,
    SEARCH,
    Body,
    chunk,
    deltas,
    in_pieces,
    over,
    part,
    policy,
    read,
    streamed,
    wrapped,
)

GOOD = completion(calls=[call("search", {"query": "tea"}, "call_good")])
BAD = completion("I will look.", [call("search", {"query": 5}, "call_bad")])
FOUND = ("call_bad", "search", '{"query": "tea"}')
OPENED = part(0, "call_1", name="search", arguments='{"query": "tea"}')


def test_text_is_shown_before_the_rest_is_taken() -> None:
    """Each piece is with the caller before the next one is read from the network."""
    body = Body(deltas(*in_pieces("Oh, tea is out.", 4)))
    chunks = wrapped(Server(over(body))).chat.completions.create(**ASK, stream=True)
    assert [body.taken for one in chunks if one.choices[0].delta.content] == [2, 3, 4, 5]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_a_call_written_as_text_is_never_shown(name: str, size: int) -> None:
    """No letter of it goes out; of a thought whose beginning the template wrote it is known only at
    its end that it is one.
    """
    server = Server(over(Body(deltas(*in_pieces(SPELLINGS[name], size)))))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=ONCE))
    assert told.codes == [["call.as_text"]]
    thought = SPELLINGS[name].partition("</think>")[0] + "</think>"
    assert told.content == "" or (name == BEGUN_BEFORE and thought.startswith(told.content))
    assert told.reason is None


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_answer_that_speaks_of_a_call_comes_whole(name: str, size: int) -> None:
    """The text is shown completely, as it was written."""
    server = Server(over(Body(deltas(*in_pieces(ANSWERS[name], size)))))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=ONCE))
    assert (told.content, told.reason, told.error) == (ANSWERS[name], "stop", None)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{"content": "Oh, A "}, {"content": "B ", **OPENED}, {"content": "C"}], "Oh, A B C"),
        ([{"content": "Oh, A "}, OPENED, {"content": "B "}, {"content": "C"}], "Oh, A B C"),
        ([{"content": "Oh, A ", **OPENED}, {"content": "B "}, {"content": "C"}], "Oh, A B C"),
        ([OPENED, {"content": "Oh, A "}, {"content": "B C"}], "Oh, A B C"),
        ([{"content": ""}, {"content": " \n"}, {"content": "Oh, A"}, OPENED], " \nOh, A"),
        (
            [{"content": "<think>hm</think>Oh, "}, {"content": "A ", **OPENED}, {"content": "B"}],
            None,
        ),
    ],
)
def test_text_around_a_call_comes_in_order(given: list[dict[str, Any]], text: str | None) -> None:
    """Each piece of the text is delivered once and in order, whatever else its chunk holds."""
    told = read(wrapped(Server(over(Body(deltas(*given, reason="tool_calls")))), policy=ONCE))
    assert told.error is None
    assert told.content == (text or "<think>hm</think>Oh, A B")
    assert told.calls == [("call_1", "search", '{"query": "tea"}')]


def test_the_last_piece_may_come_with_the_finish() -> None:
    """Text in the chunk of the finish reason is not lost."""
    pieces = [
        *deltas({"content": "Oh, tea "})[:2],
        chunk({"content": "it is."}, "stop"),
        b"data: [DONE]\n\n",
    ]
    assert read(wrapped(Server(over(Body(pieces))), policy=ONCE)).content == "Oh, tea it is."


@pytest.mark.parametrize("early_stop", ["off", "streams"])
def test_a_bad_call_behind_live_text_is_asked_for_again(early_stop: Any) -> None:
    """The good call stands behind the text that is there, and the conversation of the second ask
    holds that text.
    """
    server = Server(streamed(BAD), streamed(GOOD))
    told = read(wrapped(server, policy=policy(early_stop=early_stop)))
    assert (told.content, [one[1:] for one in told.calls], told.reason) == (
        "I will look.",
        [FOUND[1:]],
        "tool_calls",
    )

    assert len(server.requests) == 2
    assert b'"content":"I will look."' in server.bodies[1].replace(b'": "', b'":"')


SECONDS = {
    "a leaked call": completion('{"name": "search", "arguments": {"query": "tea"}}'),
    "a leaked call in tags": completion(
        '<tool_call>{"name": "search", "arguments": {}}</tool_call>'
    ),
    "an empty text": completion(""),
    "nothing": completion(None),
    "a call cut at the limit": completion(None, [call("search", '{"que')], finish_reason="length"),
    "a text cut at the limit": completion("Then", finish_reason="length"),
    "an unknown tool": completion(None, [call("find", {})]),
    "the same fault": BAD,
}


@pytest.mark.parametrize("early_stop", ["off", "streams"])
@pytest.mark.parametrize("name", SECONDS)
def test_what_is_no_reply_is_none_behind_live_text(name: str, early_stop: Any) -> None:
    """A second reply is judged as it came, not as a part of the text before it, and is asked for
    again.
    """
    server = Server(streamed(BAD), streamed(SECONDS[name]), streamed(GOOD))
    told = read(wrapped(server, policy=policy(early_stop=early_stop)))
    assert (told.content, [one[1:] for one in told.calls], told.error) == (
        "I will look.",
        [FOUND[1:]],
        None,
    )
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "failing", [http.Response(503), over(Body([http.ReadError("reset")])), over(Body([]))]
)
def test_a_second_ask_that_breaks_is_repeated(failing: Any) -> None:
    """Nothing of it has been delivered, so it is repeated as without a stream."""
    server = Server(streamed(BAD), failing, streamed(GOOD))
    told = read(wrapped(server, policy=policy(early_stop="off")))
    assert (told.content, told.calls) == ("I will look.", [FOUND])
    assert len(server.requests) == 3


def test_another_text_stands_behind_the_first() -> None:
    """With an early stop the whole reply is retried, and a text that comes then is another
    paragraph, or the same.
    """
    for second, whole in (
        ("Never mind.", "I will look.\n\nNever mind."),
        ("I will look. Not.", "I will look. Not."),
    ):
        told = read(wrapped(Server(streamed(BAD), streamed(completion(second)))))
        assert (told.content, told.calls, told.reason) == (whole, [], "stop")


BEGUN = deltas({"content": "Oh, tea "})[:2]
ENDED: dict[str, tuple[list[bytes | Exception], str]] = {
    "a cut at the limit": ([*BEGUN, chunk({}, "length"), b"data: [DONE]\n\n"], "reply.truncated"),
    "a filter": (
        [*BEGUN, chunk({}, "content_filter"), b"data: [DONE]\n\n"],
        "reply.content_filter",
    ),
    "an end without a finish": ([*BEGUN, b"data: [DONE]\n\n"], "reply.broken_off"),
    "an end of the body": ([*BEGUN], "reply.broken_off"),
    "a broken connection": ([*BEGUN, http.ReadError("reset")], "connection"),
    "silence": ([*BEGUN, http.ReadTimeout("silence")], "timeout"),
    "an error": ([*BEGUN, b'data: {"error": {"message": "busy"}}\n\n'], "envelope.error"),
    "an event that is no JSON": ([*BEGUN, b"data: busy\n\n"], "envelope.malformed"),
}


@pytest.mark.parametrize("name", ENDED)
def test_what_ends_live_text_ends_the_call(name: str) -> None:
    """After one request: the words that are shown cannot be taken back, and are not all."""
    pieces, code = ENDED[name]
    server = Server(over(Body(pieces)), streamed(GOOD))
    told = read(wrapped(server))
    assert (told.codes, told.content, told.calls, told.reason) == ([[code]], "Oh, tea ", [], None)
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", sorted(set(ENDED) - {"a filter"}))
def test_the_same_before_live_text_is_repeated(name: str) -> None:
    """A beginning that may be a call is not shown, so it is repeated as without a stream."""
    pieces = [
        chunk({"content": '{"name": "'}) if piece is BEGUN[1] else piece for piece in ENDED[name][0]
    ]
    server = Server(over(Body(pieces)), streamed(GOOD))
    told = read(wrapped(server))
    assert (told.content, told.calls) == ("", [("call_good", "search", '{"query": "tea"}')])
    assert len(server.requests) == 2


def test_each_piece_of_live_text_is_the_servers_own() -> None:
    """Members that the SDK does not know stay on the chunks."""
    pieces = [
        one.replace(b'"created"', b'"x_server": {"cached": true}, "created"')
        for one in deltas({"content": "Oh"})
    ]
    given = list(wrapped(Server(over(Body(pieces)))).chat.completions.create(**ASK, stream=True))
    assert [getattr(one, "x_server", None) for one in given[:2]] == [{"cached": True}] * 2
    assert all(one.id == other.id for one, other in pairwise(given))


NUMBERS = st.sampled_from(
    ["-0", "1E2", "-0.0", "1.0", str(10**30), "5e-324", "0.1000000000000000055511151231257827"]
)
BESIDE = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.just("null"),
        "service_tier": st.just('"default"'),
        "obfuscation": st.text().map(json.dumps),
        "strange": st.one_of(NUMBERS, NUMBERS.map(lambda number: f'{{"a": [{number}, {{}}]}}')),
    },
)
WRITTEN = st.builds(
    lambda lead, beside, text, choice, end: (
        f'{lead}data: {{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"'
        + "".join(f', "{name}": {value}' for name, value in beside.items())
        + f', "choices": [{{"index": 0, "delta": {{"content": {text}}}{choice}}}]}}{end}'
    ).encode(),
    st.sampled_from(["", "event: message\n", ": hi\n", "id: 7\n", "event: thread.message\n"]),
    BESIDE,
    st.one_of(st.text().map(json.dumps), st.sampled_from(['"\\ud83d\\ude00"', '""', '"\\/"'])),
    st.sampled_from(["", ', "finish_reason": null', ', "logprobs": null', ', "more": {"of": 1}']),
    st.sampled_from(["\n\n", "\r\n\r\n", "\n:\n\n"]),
)


@given(st.lists(WRITTEN, max_size=8), st.integers(1, 400), st.booleans())
def test_live_chunks_are_those_that_the_sdk_makes(
    written: list[bytes], size: int, is_async: bool
) -> None:
    """Each is equal to the raw stream's, its members that no model knows and its set fields
    included.
    """
    whole = b"".join(
        [chunk({"role": "assistant", "content": ""}), chunk({"content": "Oh, "}), *written]
    )
    whole += chunk({}, "stop") + b"data: [DONE]\n\n"
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    server = Server(over(Body(pieces)), over(Body(pieces)))
    raw = [*server.client().chat.completions.create(**ASK, stream=True)]

    if is_async:
        seen = asyncio.run(chunks_of(sr.wrap(server.async_client(), tools=[SEARCH], policy=ONCE)))
    else:
        seen = [*wrapped(server, policy=ONCE).chat.completions.create(**ASK, stream=True)]

    assert list(map(told_by, seen[:-1])) == list(map(told_by, raw[:-1]))


async def chunks_of(client: Any) -> list[Any]:
    """The chunks of an async stream."""
    return [one async for one in await client.chat.completions.create(**ASK, stream=True)]


def told_by(one: Any) -> tuple[Any, ...]:
    """All that a chunk says, numbers by their spelling, and which members were set."""
    return type(one), repr(one), one.model_dump_json(exclude_unset=True), one.model_fields_set


def test_who_reads_the_events_of_the_sdks_stream_reads_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that has put itself into the SDK's stream sees each event with its data, as without
    us.
    """
    seen: list[str] = []
    own = openai.Stream._iter_events

    def watched(stream: openai.Stream[Any]) -> Iterator[Any]:
        for event in own(stream):
            seen.append(event.data)
            yield event

    monkeypatch.setattr(openai.Stream, "_iter_events", watched)
    told = read(wrapped(Server(over(Body(deltas(*in_pieces("Oh, tea is out.", 4)))))))
    assert told.content == "Oh, tea is out."
    texts = [
        json.loads(data)["choices"][0]["delta"].get("content") for data in seen if data != "[DONE]"
    ]
    assert "".join(text or "" for text in texts) == told.content


@pytest.mark.parametrize("method", ["iter_bytes", "aiter_bytes", "decode"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_decoder_of_a_subclass_reads_live_text(method: str, is_async: bool) -> None:
    """Where a client has a decoder of events with a method of its own, that reads every event that
    goes out.
    """
    taken: list[Any] = []

    def over_it(self: Any, *given: Any) -> Any:
        taken.append(given)
        return getattr(SSEDecoder, method)(self, *given)

    own = type("OwnDecoder", (SSEDecoder,), {method: over_it})
    server = Server(over(Body(deltas(*in_pieces("Oh, tea is out.", 4)))))
    client: Any = server.async_client() if is_async else server.client()
    client._make_sse_decoder = own

    if is_async:
        asyncio.run(chunks_of(sr.wrap(client, policy=ONCE)))
    else:
        list(sr.wrap(client, policy=ONCE).chat.completions.create(**ASK, stream=True))

    read_by = {"iter_bytes": not is_async, "aiter_bytes": is_async, "decode": True}
    assert bool(taken) is read_by[method]
