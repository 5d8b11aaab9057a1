"""W13, streamed: no marker of a call that leaks is shown, and no prose is lost for that.

The call is retried, behind the prose that was shown; it is never run.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from channels.test_call_templates import LEAKED, LOST, SPOKEN
from strictreply.contract._call_templates import TEMPLATES
from strictreply.contract._call_watch import CallWatch
from support.channels.call_texts import WRITERS
from support.openai_shapes import message
from support.scripted import Server, call, completion
from support.scripted_responses import FLAT_SEARCH, call_item, response, text_item, wrap
from support.streamed_replies import (
    ONCE,
    SEARCH,
    Body,
    aread,
    deltas,
    in_pieces,
    over,
    policy,
    read,
    streamed,
)
from wires.test_responses_streams import events_of, served

CONTRACT = sr.Contract(tools=[SEARCH, {"name": "now"}])
GOOD = completion(calls=[call("search", {"query": "tea"}, "call_good")])
FOUND = [("call_good", "search", '{"query": "tea"}')]
ARGUMENTS = {"query": "x", "limit": 3}
PROSE = "I will look for tea.\n"
TOOLS = {"search", "now"}
NAMED = [name for name in WRITERS if name != LOST]
MARKERS = sorted({one for row in TEMPLATES for one in (*row.opens, *row.around)})


def stream(text: str, size: int) -> Any:
    """A streamed text, in pieces of a size."""
    return over(Body(deltas(*in_pieces(text, size))))


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("row", WRITERS)
def test_a_call_behind_live_prose_is_never_shown_and_asked_for_again(row: str, size: int) -> None:
    """The prose may be there already; of the call comes nothing, and the native one follows."""
    leaked = WRITERS[row]([("search", ARGUMENTS)])
    server = Server(stream(PROSE + leaked, size), streamed(GOOD))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=policy()))
    assert (told.calls, told.reason, told.error) == (FOUND, "tool_calls", None)
    assert PROSE.startswith(told.content)
    assert told.content or size > len(PROSE)

    assert len(server.requests) == 2
    assert b"written as text" in server.bodies[1]


def test_it_is_asked_for_again_until_the_retries_are_spent() -> None:
    """A call that leaks each time is never shown, and ends in a rejection that says so."""
    leaked = WRITERS["Kimi K2"]([("search", ARGUMENTS)])
    texts = [stream(PROSE + leaked, 3) for _ in range(3)]
    told = read(sr.wrap(Server(*texts).client(), contract=CONTRACT, policy=policy(max_retries=2)))
    assert told.codes == [["call.as_text"]] * 3
    assert PROSE.startswith(told.content)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("row", ["Gemma 4", "Kimi K2", "DeepSeek V3, R1"])
def test_a_text_may_follow_the_prose(row: str, is_async: bool) -> None:
    """Where the model then answers in text, that comes behind the prose that was shown."""
    leaked = WRITERS[row]([("search", ARGUMENTS)])
    server = Server(stream(PROSE + leaked, 1), stream("Tea is out.", 1))
    if is_async:
        client = sr.wrap(server.async_client(), contract=CONTRACT, policy=policy())
        told = asyncio.run(aread(client))
    else:
        told = read(sr.wrap(server.client(), contract=CONTRACT, policy=policy()))

    assert told.error is None
    assert told.calls == []
    assert told.content.split("\n\n")[-1].strip() == "Tea is out."
    assert told.content.startswith("I will look for tea.")
    assert "search" not in told.content


@pytest.mark.parametrize("size", [1, 4, 10_000])
@pytest.mark.parametrize("text", SPOKEN.values(), ids=SPOKEN)
def test_prose_about_a_marker_comes_whole_and_in_order(text: str, size: int) -> None:
    """What only looks like a call is shown, each character once."""
    server = Server(stream(text, size))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=ONCE))
    assert (told.content, told.reason, told.error) == (text, "stop", None)


@pytest.mark.parametrize("size", [1, 4, 10_000])
@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED)
def test_a_call_among_other_text_is_held(text: str, size: int) -> None:
    """Of each text that is refused as a call only what stands before its markers is shown."""
    server = Server(stream(text, size))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=ONCE))
    assert told.codes == [["call.as_text"]]
    assert text.startswith(told.content)
    assert isinstance(CONTRACT.check(message(told.content or "x")), sr.Valid)


def test_what_is_clear_is_shown_at_once() -> None:
    """A marker holds the text until what follows it tells that it is none."""
    watch = CallWatch(TOOLS)
    came = [
        "I look at <tool",
        "_call>",
        " tags",
        ", with <thi",
        "s",
        "> as one. [TOOL_",
        "CALLS",
        "].",
        " So.",
    ]
    clear = [watch.feed(piece) for piece in came]
    sizes = [sum(map(len, came[:end])) for end in range(1, len(came) + 1)]
    before = len("I look at ")
    assert clear[:2] == [before, before]
    # the word behind the tag may become the name of a tool, the tag of a thought is one
    assert clear[3] == sizes[3] - len("<thi")
    assert clear[-1] == sizes[-1]


def test_a_call_behind_a_thought_that_was_shown_is_held() -> None:
    """Where the template wrote the beginning of the thought, its end begins the reply anew."""
    text = 'Hm, tea.\n</think>\n\n{"name": "search", "arguments": {"query": "x"}}'
    server = Server(stream(text, 2), streamed(GOOD))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=policy()))
    assert told.calls == FOUND
    assert "Hm, tea.\n</think>".startswith(told.content)

    server = Server(stream("Hm, tea.\n</think>\n\nTea is out.", 2))
    told = read(sr.wrap(server.client(), contract=CONTRACT, policy=ONCE))
    assert told.content == "Hm, tea.\n</think>\n\nTea is out."


@pytest.mark.parametrize("option", ["answer", "refuse"])
def test_the_option_holds_for_streams(option: Any) -> None:
    """With ``text_calls="answer"`` such a text is shown, whole and as it comes."""
    text = PROSE + WRITERS["Gemma 4"]([("search", ARGUMENTS)])
    client = sr.wrap(
        Server(stream(text, 3)).client(),
        tools=[FLAT_SEARCH],
        text_calls=option,
        policy=ONCE,
    )
    told = read(client)
    assert (told.content == text) == (option == "answer")
    assert (told.error is None) == (option == "answer")


PIECES = st.lists(
    st.sampled_from(
        [*MARKERS, "search", "now", '{"name": "', '"', "`", "\n", " a ", "```\n", ". "]
    ),
    max_size=8,
)


@given(PIECES, st.sampled_from(sorted(NAMED)), st.booleans())
def test_every_split_shows_the_same(parts: list[str], row: str, ends_in_call: bool) -> None:
    """Character by character nothing of a refused text's call is clear, and nothing moves back."""
    text = "".join(parts) + (WRITERS[row]([("search", {"query": "x"})]) if ends_in_call else "")
    watch = CallWatch(TOOLS)
    clear = [watch.feed(sign) for sign in text]
    assert clear == sorted(clear)

    if text and not isinstance(CONTRACT.check(message(text)), sr.Valid):
        shown = text[: clear[-1]]
        assert not shown.strip() or isinstance(CONTRACT.check(message(shown)), sr.Valid)


@pytest.mark.parametrize("row", ["Gemma 4", "Kimi K2", "gpt-oss", "Mistral, from v11"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_typed_stream_shows_no_marker_either(row: str, size: int) -> None:
    """The typed stream holds it, takes back the prose, and ends in the native call."""
    leaked = WRITERS[row]([("search", ARGUMENTS)])
    server = Server(stream(PROSE + leaked, size), streamed(GOOD))
    client = sr.wrap(server.client(), contract=CONTRACT, policy=policy())
    with client.stream(model="m", messages="find tea") as events:
        told = list(events)

    shown = "".join(one.delta for one in told if isinstance(one, sr.Provisional))
    assert PROSE.startswith(shown)
    assert [one.issues[0].code for one in told if isinstance(one, sr.Retracted)] == (
        ["call.as_text"] if shown else []
    )
    assert isinstance(told[-1], sr.Accepted)
    assert isinstance(told[-1].reply, sr.ToolCall)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("text", SPOKEN.values(), ids=SPOKEN)
def test_a_typed_stream_shows_prose_about_a_marker_whole(text: str, size: int) -> None:
    """The pieces are the answer, in order, before it is accepted."""
    client = sr.wrap(Server(stream(text, size)).client(), contract=CONTRACT, policy=ONCE)
    with client.stream(model="m", messages="find tea") as events:
        told = list(events)

    assert "".join(one.delta for one in told if isinstance(one, sr.Provisional)) == text
    assert told[-1] == sr.Accepted(sr.DirectAnswer(text))


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("row", WRITERS)
def test_the_responses_api_is_watched_alike(row: str, is_streamed: bool) -> None:
    """On the other wire, too, the call is retried, and nothing of it is shown."""
    leaked = response(text_item(PROSE + WRITERS[row]([("search", ARGUMENTS)])))
    good = response(call_item("search", {"query": "tea"}))
    replies = [leaked, good]
    steps = [served(events_of(one)) for one in replies] if is_streamed else replies
    server = Server(*steps)
    client = wrap(server.client(), policy=policy())
    ask: dict[str, Any] = {"model": "m", "input": "find tea", "tools": [FLAT_SEARCH]}

    if is_streamed:
        told = list(client.responses.create(**ask, stream=True))
        shown = "".join(one.delta for one in told if one.type == "response.output_text.delta")
        final = told[-1].response
        assert PROSE.startswith(shown)
    else:
        final = client.responses.create(**ask)
        assert final.output_text == ""

    assert [one.name for one in final.output if one.type == "function_call"] == ["search"]
    assert len(server.requests) == 2
