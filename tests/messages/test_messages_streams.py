"""Streams of Anthropic's API: their events make the message that the API would have sent whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.wires._stream_dialects import MESSAGE_DIALECTS
from support.messages import (
    MESSAGES,
    SEARCH,
    assembled,
    body,
    events,
    message,
    read,
    text,
    thought,
    use,
)

CONTRACT = sr.Contract(tools=[SEARCH], parallel=True)

BLOCKS = st.lists(
    st.one_of(
        st.builds(text, st.text(min_size=1, max_size=20)),
        st.builds(thought, st.text(max_size=9), st.just("sig")),
        st.builds(
            use,
            st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=9))),
            st.uuids().map(lambda id_: f"toolu_{id_.hex}"),
        ),
        st.just({"type": "redacted_thinking", "data": "abc"}),
        st.just({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": 1}}),
        st.just({"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}),
        st.just({"type": "hologram", "light": {"deep": [1]}}),
    ),
    max_size=6,
)


@given(BLOCKS)
def test_a_message_comes_out_of_its_events_as_it_was(blocks: list[Any]) -> None:
    """Whole and streamed say the same, block by block, and are judged alike."""
    whole = message(*blocks)
    came = assembled(read(body(events(whole))))
    assert came.fault is None
    assert came.lenient == ()
    assert came.response() == whole
    assert CONTRACT.check(came.response()) == CONTRACT.check(whole)


def test_a_stream_cut_anywhere_is_no_reply() -> None:
    """``message_stop`` alone is the end: at no byte before it is anything accepted."""
    whole = message(thought("hm"), text("I look. "), use({"query": "tea " * 5}))
    stream = body(events(whole))
    end = stream.index(b"event: message_stop")
    checked = 0
    for at in range(end):
        came = assembled(read(stream[:at]))
        assert not came.is_done
        verdict = CONTRACT.check(came.response())
        assert isinstance(verdict, sr.Invalid)
        checked += 1

    assert checked == end
    assert assembled(read(stream)).is_done


def started(**members: Any) -> dict[str, Any]:
    """Return the event with which a message begins."""
    return {"type": "message_start", "message": message() | {"stop_reason": None} | members}


def block(index: Any, held: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": held},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def said(words: str) -> dict[str, Any]:
    """Return a piece of text."""
    return {"type": "text_delta", "text": words}


def piece(words: Any) -> dict[str, Any]:
    """Return a piece of an input."""
    return {"type": "input_json_delta", "partial_json": words}


def ended(stop: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    """Return the events with which a message ends."""
    delta = {"stop_reason": stop, "stop_sequence": None}
    used = {"output_tokens": 5, **usage}
    return [{"type": "message_delta", "delta": delta, "usage": used}, {"type": "message_stop"}]


PING = {"type": "ping"}
INPUTS: dict[str, tuple[list[Any], Any]] = {
    "an empty piece, then the input": ([piece(""), piece('{"query"'), piece(': "tea"}')], "tea"),
    "only empty pieces": ([piece(""), piece("")], None),
    "no piece": ([], None),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_pieces_are_the_input(name: str) -> None:
    """The input of the start is a placeholder where pieces follow (rule 14)."""
    pieces, query = INPUTS[name]
    told = [started(), PING, *block(0, use({}), *pieces), PING, *ended("tool_use")]
    response = assembled(told).response()
    assert response["content"][0]["input"] == ({} if query is None else {"query": query})


def test_a_whole_input_in_the_start_counts() -> None:
    """It is used where no piece has text, and seen as the call's arguments."""
    told = [started(), *block(0, use({"query": "tea"}), piece("")), *ended("tool_use")]
    assembly = MESSAGES.assembly(("search",))
    pieces = []
    for event in told:
        assembly.add(json.loads(json.dumps(event)))
        pieces += [one.arguments for one in assembly.pieces]

    assert "".join(pieces) == '{"query": "tea"}'
    assert assembly.response()["content"] == [use({"query": "tea"})]


@pytest.mark.parametrize("given_", ['{"query": "te', '{"query": 1, "query": 2}', "[1]", "nonsense"])
def test_an_input_that_is_no_object_is_judged_as_it_was_written(given_: str) -> None:
    """With eager input streaming the pieces need not be JSON: the fault is the model's."""
    told = [started(), *block(0, use({}), piece(given_)), *ended("tool_use")]
    came = assembled(told)
    assert came.fault is None
    verdict = CONTRACT.check(came.response())
    assert isinstance(verdict, sr.Invalid)
    assert verdict.issues[0].code.startswith(("json.", "shape."))


def test_usage_is_cumulative_and_partial() -> None:
    """What is said later counts in place of what was said, and nothing is added (rule 15)."""
    begun = started(usage={"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3})
    more = [
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 4}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "container": {"id": "c"}},
            "usage": {"output_tokens": 9, "input_tokens": None},
            "context_management": {"applied_edits": []},
        },
        {"type": "message_stop"},
    ]
    response = assembled([begun, *block(0, text(""), said("tea")), *more]).response()
    assert response["usage"] == {
        "input_tokens": 7,
        "output_tokens": 9,
        "cache_read_input_tokens": 3,
    }
    assert response["container"] == {"id": "c"}
    assert response["context_management"] == {"applied_edits": []}
    assert response["stop_reason"] == "end_turn"


def test_all_kinds_of_deltas_are_put_together() -> None:
    """Citations are listed, signatures and compactions joined, what is not known is kept."""
    cited = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]
    signed = [
        {"type": "thinking_delta", "thinking": "h"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "s"},
    ]
    compacted = [{"type": "compaction_delta", "content": "short"}]
    told = [
        started(),
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *signed),
        *block(1, text(""), *cited, said("tea")),
        *block(2, {"type": "compaction", "content": None}, *compacted),
        *block(3, {"type": "hologram"}, {"type": "light_delta", "light": 3}),
        {"type": "weather", "sun": True},
        *ended(),
    ]
    came = assembled(told)
    assert came.fault is None
    assert came.response()["content"] == [
        thought("hm", "s"),
        {**text("tea"), "citations": [{"n": 1}, {"n": 2}]},
        {"type": "compaction", "content": "short"},
        {"type": "hologram", "light": 3},
    ]


def test_an_error_in_a_stream_is_an_error() -> None:
    """It ends the reading, whatever came before."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    came = assembled([started(), *block(0, text(""), said("te")), error])
    assert came.is_over
    verdict = CONTRACT.check(came.response())
    assert isinstance(verdict, sr.Invalid)
    assert verdict.issues[0].code == "envelope.error"


def test_a_second_message_is_another_reply() -> None:
    """What was begun is void, and nothing of both is put together (rule 17)."""
    half = block(0, use({}), piece('{"query": "Spark'))[:-1]
    whole = [*block(0, use({}, "toolu_b"), piece('{"query": "tea"}')), *ended("tool_use")]
    came = assembled([started(), *half, started(id="msg_b"), *whole])
    assert came.fault is not None
    assert came.fault.code == "reply.broken_off"


def without(told: list[Any], kind: str) -> list[Any]:
    """Return events without those of a type."""
    return [one for one in told if one["type"] != kind]


def unnamed(told: list[Any]) -> list[Any]:
    """Return events without the indexes of their blocks."""
    return [{name: one[name] for name in one if name != "index"} for one in told]


WHOLE = [started(), *block(0, text(""), said("te"), said("a")), *ended()]
TWO = [
    started(),
    *block(0, text(""), said("tea")),
    *block(4, use({}), piece('{"query": "tea"}')),
    *ended("tool_use"),
]
ROWS: dict[str, list[Any]] = {
    "event_without_type": [{"beat": 1}, *WHOLE],
    "start_incomplete": [
        {"type": "message_start", "message": {"id": "msg_a", "role": "assistant"}},
        *WHOLE[1:],
    ],
    "start_repeated": [WHOLE[0], *WHOLE],
    "index_missing": unnamed(WHOLE),
    "index_gap": TWO,
    "block_stop_missing": without(WHOLE, "content_block_stop"),
    "block_stop_unknown": [
        *WHOLE[:-2],
        {"type": "content_block_stop", "index": 7},
        *WHOLE[-2:],
    ],
    "block_stop_repeated": [*WHOLE[:-2], {"type": "content_block_stop", "index": 0}, *WHOLE[-2:]],
    "stop_repeated": [*WHOLE, {"type": "message_stop"}],
    "message_behind_end": [*WHOLE, *WHOLE],
}


def test_every_row_is_provoked() -> None:
    """No row of the table is without a stream that needs it."""
    assert ROWS.keys() == MESSAGE_DIALECTS.keys()


@pytest.mark.parametrize("row", ROWS)
def test_ways_of_servers_are_read_and_refused_when_strict(row: str) -> None:
    """Each says the same as the stream that the API sends, and is recorded by its name."""
    came = assembled(ROWS[row])
    assert came.fault is None
    assert came.is_done
    assert row in came.lenient
    response = came.response()
    assert response["content"][0] == text("tea")
    assert isinstance(CONTRACT.check({**message(), **response}), sr.Valid)

    strict = assembled(ROWS[row], strict=True)
    assert strict.fault is not None
    assert strict.fault.code in ("envelope.malformed", "reply.broken_off")


def test_indexes_are_passed_on_as_the_sdk_needs_them() -> None:
    """The SDK finds a block by its place: gaps and missing indexes are filled in."""
    for told in (TWO, unnamed(WHOLE)):
        assembly = MESSAGES.assembly(("search",))
        indexes = []
        for event in told:
            assembly.add(json.loads(json.dumps(event)))
            passed: Any = assembly.passed or event
            if passed["type"].startswith("content_block"):
                indexes.append(passed["index"])

        assert indexes == sorted(indexes)
        assert set(indexes) == set(range(max(indexes) + 1))


HARMFUL: dict[str, list[Any]] = {
    "a block that begins twice": [started(), *block(0, text(""), said("a")), *TWO[1:]],
    "a delta of a block that ended": [
        *WHOLE[:-2],
        {"type": "content_block_delta", "index": 0, "delta": said("more")},
        *WHOLE[-2:],
    ],
    "a delta of no block": [
        started(),
        {"type": "content_block_delta", "index": 0, "delta": said("tea")},
        *ended(),
    ],
    "text behind the end": [*WHOLE, *block(1, text(""), said("more"))],
    "an end without a beginning": [{"type": "message_stop"}],
    "a start without its message": [{"type": "message_start"}, *WHOLE[1:]],
    "no object": ["event", *WHOLE],
}


@pytest.mark.parametrize("name", HARMFUL)
def test_what_has_two_meanings_is_refused(name: str) -> None:
    """Nothing is guessed."""
    came = assembled(HARMFUL[name])
    assert came.fault is not None
    assert came.fault.code in ("envelope.malformed", "reply.broken_off")


def test_the_words_of_the_table_have_sources() -> None:
    """Each row names what is read and where that is reported."""
    bare = [row for row in MESSAGE_DIALECTS.values() if not (row.sends and row.source)]
    assert bare == []
