"""The exact tokenizer: of one mind with the fast parser, precise about places.

What it reads and holds is bounded.
"""

from __future__ import annotations

import json
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strictreply import Code, Limits
from strictreply.core import DEFAULT_LIMITS, Work
from strictreply.core.judging import is_json
from strictreply.reading._diagnosis import MAX_FAULTS, Scan, diagnose
from support.loops import some

TOKENS = [
    *'{}[]",:\\ \n\t\x00\x0b\xa0-+.eE019x\ud800\udfffé',
    *(
        '""',
        '"a"',
        '"a":',
        '"\\u0061":',
        '"\\',
        '"\\ud83d\\ude00"',
        '"\\uDC00"',
        "\\u00",
        "null",
        "true",
        "fals",
        "NaN",
    ),
    *(
        "-Infinity",
        "1e9",
        "1e308",
        "2e308",
        "1E+400",
        "1e-400",
        "0.0",
        "-0",
        "[]",
        "{ }",
        "[ ",
        "{}",
        "9" * 4301,
    ),
]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=12).map("".join)


def scan(text: str, start: int = 0, *, depth: int = 64, nodes: int = 1000) -> Scan:
    """Read one value with room enough."""
    return Scan(text, start, depth=depth, nodes=nodes)


@settings(max_examples=600)
@given(TEXTS, st.sampled_from([DEFAULT_LIMITS, Limits(depth=2, nodes=5)]))
def test_finds_a_fault_exactly_in_what_the_fast_parser_refuses(text: str, limits: Limits) -> None:
    """No fault is named in a text that is read, and one at least in every text that is not."""
    assert bool(diagnose(text, limits, Work())) is not is_json(text, limits)


@given(TEXTS, st.text(max_size=5))
def test_a_complete_value_does_not_depend_on_what_follows_a_space(text: str, rest: str) -> None:
    """A value that was read whole is the same value, at the same place, in front of anything."""
    alone = scan(text)
    if alone.complete:
        followed = scan(f"{text[: alone.end]} {rest}")
        assert (followed.complete, followed.end, followed.nodes) == (True, alone.end, alone.nodes)


@given(TEXTS)
def test_a_fault_in_the_middle_does_not_depend_on_what_follows_it(text: str) -> None:
    """A fault of syntax stays one in every longer text; only incomplete text can be completed."""
    faults = diagnose(text, DEFAULT_LIMITS, Work())
    if faults and faults[-1].code is Code.JSON_SYNTAX:
        longer = diagnose(text + '"]}', DEFAULT_LIMITS, Work())
        assert (longer[-1].code, longer[-1].offset) == (Code.JSON_SYNTAX, faults[-1].offset)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("{x", 1),
        ('{"a" 1}', 5),
        ('{"a": x}', 6),
        ('{"a": 1 "b": 2}', 8),
        ('{"a": "b" : 1}', 10),
        ('{"a\\q": 1}', 3),
        ('["\\u12x4"]', 2),
        ('["a\tb"]', 3),
        ("[1 2]", 3),
        ("[1.2.3]", 4),
        ("[1.x]", 3),
        ("[.5]", 1),
        ("[1ex]", 3),
        ("[01]", 2),
        ("[+1]", 1),
        ("[1}", 2),
        ("[tru]", 1),
        ("nullx", 4),
        ("  ]", 2),
        ("[1,\u00a02]", 3),
    ],
)
def test_places_a_fault_at_the_first_character_that_cannot_stand_there(
    text: str, offset: int
) -> None:
    """The offset is that of the first character after which no continuation is JSON."""
    assert diagnose(text, DEFAULT_LIMITS, Work())[-1].offset == offset


@pytest.mark.parametrize(
    "word", ["true", "false", "null", "-0.5e+10", '"\\u00e9\\n"', '{"a": [1, {}]}']
)
def test_cut_words_are_incomplete(word: str) -> None:
    """A value in an array, cut anywhere, is incomplete and not a fault of syntax."""
    text = f"[{word}"
    for end in some(range(1, len(text) + 1)):
        assert [fault.code for fault in diagnose(text[:end], DEFAULT_LIMITS, Work())] == [
            Code.JSON_INCOMPLETE
        ]


def test_reads_one_value_from_the_middle_of_a_text() -> None:
    """A scan starts where it is told, ends behind its value, and counts values of every kind, names
    not among them.
    """
    text = 'so: {"a": [1, "}"], "b": {}}, and'
    found = scan(text, 4)
    assert (found.complete, found.faults, found.stopped_by) == (True, [], None)
    assert text[4 : found.end] == '{"a": [1, "}"], "b": {}}'
    assert found.nodes == 5


def test_stops_where_the_text_breaks() -> None:
    """An incomplete scan ends at its last fault, which says why."""
    broken = scan('{"a": 1, b')
    assert (broken.complete, broken.end, broken.stopped_by) == (False, 9, Code.JSON_SYNTAX)
    assert broken.faults[-1].tokens == ()


def test_faults_of_values_do_not_stop_it() -> None:
    """A duplicate name, a lone surrogate and a number out of range are noted on the way to the
    value's end.
    """
    found = scan('{"a": NaN, "a": ["\\ud800"]} ')
    assert found.complete
    assert [(fault.code, fault.tokens) for fault in found.faults] == [
        (Code.JSON_NOT_FINITE, ("a",)),
        (Code.JSON_DUPLICATE_KEY, ("a",)),
        (Code.JSON_SURROGATE, ("a", 0)),
    ]


def test_reads_no_further_than_its_caps() -> None:
    """At a cap the reading stops, there and then."""
    assert scan("[" * 100, depth=3).end == 3
    assert scan("[1,1,1,1]", nodes=3).nodes == 4
    assert len(scan("[" + "NaN," * 100).faults) == MAX_FAULTS


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        "[" + "{}," * 330_000,
        "[" + '"\\n",' * 160_000,
        '["' + "\\n" * 490_000 + '"!',
        '["' + "\\ud800" * 160_000 + '"]',
        "{" + ",".join(f'"{number}":{{}}' for number in range(70_000)),
        '{"' + "é" * 490_000,
        json.dumps([[number] for number in range(100_000)])[:-1],
    ],
    ids=range(8),
)
@pytest.mark.skipif(
    sys.version_info < (3, 11, 5),
    reason="possessive groups are broken there (gh-106052) and not used",
)
def test_memory_is_bounded(text: str) -> None:
    """Naming the faults of any megabyte takes less than 64 MB."""
    tracemalloc.start()
    faults = diagnose(text, DEFAULT_LIMITS, Work())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert faults
    assert peak < 64 * 2**20
