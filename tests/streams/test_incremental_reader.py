"""The incremental reader builds what the decoder reads.

It stops only what the decoder refuses, and looks once.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strictreply as sr
from strictreply import Invalid, Limits
from strictreply.core import decode
from strictreply.core.judging import IncrementalReader
from strictreply.testing import Kind, faults
from strictreply.testing.faults import Entry
from support.live_documents import VALUES, pieces, spelled
from support.loops import some

WIDE = VALUES | st.recursive(
    st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists, max_leaves=4
)


class Undemanding:
    """Hears the parts of a text, and accepts whatever follows."""

    def accept(self, *_: object) -> bool:
        """Hear a part."""
        return False

    key_begins = key = item = member = begins = part = scalar = ends = accept


def reader(limits: Limits | None = None) -> IncrementalReader:
    """Make a reader that refuses nothing but what is no strict JSON."""
    return IncrementalReader(Undemanding(), limits or Limits())


@given(value=WIDE, dice=st.randoms(use_true_random=True))
@settings(max_examples=300)
def test_it_reads_what_the_decoder_reads(value: Any, dice: random.Random) -> None:
    """Any spelling and cutting: not stopped, and the value is the decoder's; a number alone ends
    with the text.
    """
    text = spelled([value], dice)
    followed = reader()
    assert not any(map(followed.feed, pieces(text, dice)))
    partial = followed.partial()
    assert partial is not None
    assert not partial.open
    assert repr(partial.value) == repr(decode(text))


@pytest.mark.one_lane
@given(
    text=st.text(
        alphabet='{}[]",:\\u0dD8eE+-.19truefalsnN \n\x01Infiaity/é\ud800\udc00', max_size=12
    ),
    value=VALUES,
)
@settings(max_examples=2000)
def test_what_stops_it_is_refused_by_the_decoder_whatever_follows(text: str, value: Any) -> None:
    """Texts of the characters of JSON, alone and behind a beginning; the code is one of the
    decoder's.
    """
    good = json.dumps(value)
    for whole in (text, good[: len(good) // 2] + text):
        followed = reader()
        stops = [at for at, char in enumerate(whole) if followed.feed(char) is not None]
        if stops:
            told = decode(whole)
            assert isinstance(told, Invalid)
            assert followed.stop is not None
            assert followed.stop.code is not None

            until = decode(whole[: stops[0] + 1])
            assert isinstance(until, Invalid)
            assert followed.issue(followed.stop.code, "", ()).code == followed.stop.code


@pytest.mark.parametrize(
    ("limits", "text", "code"),
    [
        (Limits(depth=2), '[[], {"a": [', "json.too_deep"),
        (Limits(nodes=4), "[1, [2, ", None),
        (Limits(nodes=4), "[1, [2, 3", "json.too_many_nodes"),
        (Limits(), "1" * 4301 + " ", "json.number_too_long"),
    ],
)
def test_the_caps_are_those_of_the_decoder(limits: Limits, text: str, code: str | None) -> None:
    """Depth, values and digits are refused at the character that passes the cap."""
    followed = reader(limits)
    assert not any(map(followed.feed, text[:-1]))
    stop = followed.feed(text[-1])
    assert (stop and stop.code) == code
    if code is not None and stop is not None and stop.code is not None:
        assert followed.issue(stop.code, "", ()).code == code


@given(value=VALUES, dice=st.randoms(use_true_random=True))
@settings(max_examples=200)
def test_what_is_not_open_is_final(value: Any, dice: random.Random) -> None:
    """Every value that a partial shows and does not list as open stands in the end, and in every
    partial between.
    """
    text = spelled([value], dice)
    end = decode(text)
    followed = reader()
    for piece in some(pieces(text, dice)):
        assert followed.feed(piece) is None
        partial = followed.partial()
        if partial is not None:
            assert _agrees(copy.deepcopy(partial.value), end, "", set(partial.open))


def _agrees(shown: Any, end: Any, path: str, still_open: set[str]) -> bool:
    if path not in still_open:
        return repr(shown) == repr(end)
    if isinstance(shown, str):
        return isinstance(end, str) and end.startswith(shown)

    if isinstance(shown, list):
        return all(
            _agrees(one, end[at], f"{path}/{at}", still_open) for at, one in enumerate(shown)
        )

    names = {name: f"{path}/{name.replace('~', '~0').replace('/', '~1')}" for name in shown}
    return all(_agrees(one, end[name], names[name], still_open) for name, one in shown.items())


def steps(text: str, size: int) -> int:
    """Count the functions, of Python and C, that reading a text in pieces of one size calls."""
    counted = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    followed = reader()
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    sys.setprofile(count)

    try:
        for piece in cut:
            followed.feed(piece)
            followed.partial()
    finally:
        sys.setprofile(None)

    assert followed.stop is None
    return counted


@pytest.mark.parametrize(
    "unit", ['"a",', '"\\u00e9\\n",', "[[1,2.5]],", '{"key": null} , ', "123456, "]
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_the_work_is_linear(unit: str, size: int) -> None:
    """Four times the text takes no more than four times the steps, however it is cut, partials
    asked for as well.
    """
    short, long = (steps("[" + unit * count, size) for count in (50, 200))
    assert long <= 4.2 * short + 50


def test_a_string_is_skipped_by_one_search_a_piece() -> None:
    """The steps for a string do not depend on its length, only on its pieces; each character is
    searched once.
    """
    assert steps('["' + "x" * 100, 10**6) == steps('["' + "x" * 100_000, 10**6)


def test_half_a_pair_that_is_no_escape_is_left_to_whoever_joins_the_pieces() -> None:
    """A pair cut between two pieces may become one character again, so nothing is said of the text
    any more.
    """
    followed = reader()
    assert not any(map(followed.feed, ('"\ud83d', '\ude00"', "x")))
    assert followed.lost
    assert followed.partial() is None


SEARCH = sr.Tool.from_json_schema(
    "search", {"type": "object", "properties": {"query": {"type": "string"}}}
)
JSON_FAULTS = [entry for entry in faults.CATALOGUE.values() if entry.kind is Kind.JSON]
BEFORE_IT_IS_CLEAR = {"json.several_values": "json.trailing_data"}
"""The code of a stream that is stopped before the text shows which of two faults it has."""


@pytest.mark.parametrize("entry", JSON_FAULTS, ids=lambda entry: entry.name)
def test_a_fault_of_json_has_the_same_code_in_a_stream(entry: Entry) -> None:
    """Where the arguments of a fault of the kit stop the reader, they do so with the code that the
    fault promises.
    """
    for fault in some(entry.all_for(SEARCH, place="call")):
        served: Any = fault.served
        text = served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
        stop = next(filter(None, map(reader().feed, text)), None)
        assert stop is None or stop.code in {fault.code, BEFORE_IT_IS_CLEAR.get(fault.code)}
