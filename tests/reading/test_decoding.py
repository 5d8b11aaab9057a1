"""The strict reader: what it accepts, and what it refuses with which code.

Nothing escapes it.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strictreply import Code, Invalid, Limits
from strictreply.core import DEFAULT_LIMITS, Work, decode
from strictreply.core.judging import is_json
from strictreply.core.text import masked_pointer
from strictreply.reading._decoding import _explained, _Refusal

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
)
TREES = st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
ALPHABET = '{}[]",: \n\t\\aeEu0D8d19.-+NtrufalsnIiy\x00\x7f\ud800\udc00é😀'
PIECES = [
    '{"a":',
    '{"a":1,"a":2}',
    '{"',
    '"}',
    "[]",
    "{}",
    "1e400",
    "-",
    "NaN",
    "true",
    '"\\ud800"',
    '"\\ud83d\\ude00"',
]
JSON_LIKE = st.lists(st.sampled_from(PIECES) | st.sampled_from(ALPHABET), max_size=14).map("".join)
SMALL = Limits(reply_bytes=400, depth=3, nodes=8)


def named(value: object) -> str:
    """Return a row's text, short and in ASCII, as its test id."""
    return ascii(value)[:20] if isinstance(value, str | bytes | bytearray) else type(value).__name__


def issues(text: object, limits: Limits = DEFAULT_LIMITS, **options: Any) -> list[tuple[str, str]]:
    """Return the codes and paths of a refusal, none for an accepted text."""
    verdict = decode(text, limits, **options)
    return (
        [(issue.code, issue.path) for issue in verdict.issues]
        if isinstance(verdict, Invalid)
        else []
    )


def codes(text: object, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """Return the codes of a refusal, none for an accepted text."""
    return [code for code, _ in issues(text, limits)]


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of members whose names differ."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError(pairs)
    return dict(pairs)


def refuse(constant: str) -> None:
    """Refuse NaN and the infinities."""
    raise ValueError(constant)


def size(value: Any) -> tuple[int, int]:
    """Count levels and nodes, and refuse what no double and no UTF-8 can hold."""
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(value)

    if isinstance(value, str):
        value.encode()

    if not isinstance(value, dict | list):
        return 0, 1

    for name in value if isinstance(value, dict) else ():
        name.encode()

    inner = [size(child) for child in (value.values() if isinstance(value, dict) else value)]
    return 1 + max((depth for depth, _ in inner), default=0), 1 + sum(nodes for _, nodes in inner)


def reference(text: str, limits: Limits) -> Any:
    """Read as the standard library does, made strict by recursion.

    It is slow, obvious, and not our code.
    """
    value = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    depth, nodes = size(value)
    if depth > limits.depth or nodes > limits.nodes or len(text.encode()) > limits.reply_bytes:
        raise ValueError(text)
    return value


def mutated(text: str, at: int, cut: int, put: str) -> str:
    """Replace ``cut`` characters somewhere by ``put``."""
    at %= len(text) + 1
    return text[:at] + put + text[at + cut :]


def agree(text: str, limits: Limits) -> None:
    """Check the reader against the reference on one text, as str and as bytes."""
    try:
        expected = reference(text, limits)
    except ValueError:
        assert issues(text, limits)
        assert not is_json(text, limits)
    else:
        assert repr(decode(text, limits)) == repr(expected)
        assert repr(decode(text.encode(), limits)) == repr(expected)
        assert is_json(text, limits)


@given(VALUES, st.sampled_from([None, 0, 1]), st.booleans())
def test_reads_every_json_value(value: Any, indent: int | None, ascii_only: bool) -> None:
    """The JSON that ``json.dumps`` writes for a finite value without surrogates is read back
    unchanged.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(decode(text)) == repr(value)


@settings(max_examples=400)
@given(JSON_LIKE, st.sampled_from([DEFAULT_LIMITS, SMALL]))
@example("[1e308, 1e309]", DEFAULT_LIMITS)
@example("1" + "0" * 308 + ".5", DEFAULT_LIMITS)
@example("1" + "0" * 309 + ".5", DEFAULT_LIMITS)
@example("1" + "0" * 299 + "e+10", DEFAULT_LIMITS)
@example("1" + "0" * 400 + "E-400", DEFAULT_LIMITS)
@example('"\\ud83d\\ude00"', DEFAULT_LIMITS)
@example('"\ud83d\ude00"', DEFAULT_LIMITS)
@example("[[[]]]", SMALL)
@example("[[[[]]]]", SMALL)
@example('["[[[[", {"[": "{"}]', SMALL)
@example("[1,2,3,4,5,6,7]", SMALL)
@example("[1,2,3,4,5,6,7,8]", SMALL)
@example('["1,2,3,4,5,6,7,8"]', SMALL)
def test_agrees_with_the_reference_on_json_like_text(text: str, limits: Limits) -> None:
    """Accepted are exactly the texts that the standard library reads under the same rules, with the
    same values.
    """
    agree(text, limits)


@settings(max_examples=300)
@given(VALUES, st.integers(0), st.integers(0, 3), st.sampled_from(["", *PIECES, *ALPHABET]))
def test_agrees_with_the_reference_on_damaged_json(value: Any, at: int, cut: int, put: str) -> None:
    """A cut, a paste or both leave the reader and the reference of one mind."""
    agree(mutated(json.dumps(value, ensure_ascii=False), at, cut, put), DEFAULT_LIMITS)


@given(st.text() | st.binary() | st.binary().map(bytearray))
def test_never_raises(text: str | bytes | bytearray) -> None:
    """Any input is read or refused, with one to sixteen issues."""
    verdict = decode(text)
    assert not isinstance(verdict, Invalid) or 1 <= len(verdict.issues) <= 16


@given(TREES, st.sampled_from([None, 1]), st.data())
def test_every_strict_prefix_of_a_container_is_incomplete(
    value: Any, indent: int | None, data: st.DataObject
) -> None:
    """A text cut anywhere before its last bracket ends with ``json.incomplete``, or is blank."""
    text = json.dumps(value, indent=indent)
    prefix = text[: data.draw(st.integers(0, len(text) - 1))]
    assert codes(prefix)[-1:] == ["json.incomplete" if prefix else "json.empty"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("json.empty", "")]),
        (" \n\t", [("json.empty", "")]),
        (b"", [("json.empty", "")]),
        ("not a valid json", [("json.syntax", "")]),
        ("\ufeff{}", [("json.syntax", "")]),
        (b"\xef\xbb\xbf{}", [("json.syntax", "")]),
        ("{'a': 1}", [("json.syntax", "")]),
        ('{"a": 1,}', [("json.syntax", "")]),
        ("[1,]", [("json.syntax", "/1")]),
        ('{"a": [1, 01]}', [("json.syntax", "/a/1")]),
        ('["a": 1]', [("json.syntax", "/0")]),
        ('{"a": "\n"}', [("json.syntax", "/a")]),
        ('{"a": "\\x"}', [("json.syntax", "/a")]),
        ("--1", [("json.syntax", "")]),
        ("\ud800", [("json.syntax", "")]),
        ('{"a": ', [("json.incomplete", "/a")]),
        ('{"a": [true, fal', [("json.incomplete", "/a/1")]),
        ('"\\u00', [("json.incomplete", "")]),
        ("-", [("json.incomplete", "")]),
        ("1.", [("json.incomplete", "")]),
        ("1e+", [("json.incomplete", "")]),
        ("{} x", [("json.trailing_data", "")]),
        ("{}}", [("json.trailing_data", "")]),
        ('{}{"a"', [("json.trailing_data", "")]),
        ('{"a":1}{"b":2}', [("json.several_values", "")]),
        ("1 2", [("json.several_values", "")]),
        ('{"a":1,"a":1}', [("json.duplicate_key", "/a")]),
        ('{"a":1,"\\u0061":2}', [("json.duplicate_key", "/a")]),
        ('[{"a":{"a":1,"z":2,"z":3}}]', [("json.duplicate_key", "/0/a/*")]),
        ('{"a":1,"a":2} x', [("json.duplicate_key", "/a"), ("json.trailing_data", "")]),
        (
            "[NaN,-Infinity,Infinity]",
            [("json.not_finite", "/0"), ("json.not_finite", "/1"), ("json.not_finite", "/2")],
        ),
        ("[1e400]", [("json.not_finite", "/0")]),
        (
            '{"a":-1e400,"b":NaN',
            [("json.not_finite", "/a"), ("json.not_finite", "/*"), ("json.incomplete", "")],
        ),
        ("9" * 400 + ".0", [("json.not_finite", "")]),
        ("[" + "9" * 4301 + "]", [("json.number_too_long", "/0")]),
        ("9" * 4301 + "e-4300", [("json.number_too_long", "")]),
        ('["\\ud800"]', [("json.surrogate", "/0")]),
        ('["\\ud83d"]', [("json.surrogate", "/0")]),
        ('["\\ude00\\ud83d"]', [("json.surrogate", "/0")]),
        ('["\udc80"]', [("json.surrogate", "/0")]),
        ('{"\\udc80":1}', [("json.surrogate", "/*")]),
        ("[" * 65 + "]" * 65, [("json.too_deep", "/0" * 64)]),
        ("[" * 64 + "{}" + "]" * 64, [("json.too_deep", "/0" * 64)]),
        (b'"\xff"', [("json.encoding", "")]),
        (b'"\xed\xa0\x80"', [("json.encoding", "")]),
    ],
    ids=named,
)
def test_refuses_with_code_and_path(text: str | bytes, expected: list[tuple[str, str]]) -> None:
    """Each fault has its code and the pointer of the value it is in; unknown names are masked."""
    assert issues(text, names={"a"}) == expected


@pytest.mark.parametrize(
    "value", [None, 3, 1.5, {}, ["{}"], memoryview(b"{}"), object(), 10**5000], ids=named
)
def test_what_is_no_text_is_refused_as_such(value: object) -> None:
    """Only str, bytes and bytearray are texts."""
    assert issues(value, at="/content") == [("json.not_text", "/content")]


class Loud(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __len__(self) -> int:
        """Claim to be short."""
        return 0

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Claim to be something else."""
        return b"{}"


def test_a_subclass_of_str_is_read_by_its_characters() -> None:
    """Methods that a subclass overrides do not affect reading."""
    assert decode(Loud("[1]")) == [1]
    assert codes(Loud("[1"), DEFAULT_LIMITS) == ["json.incomplete"]
    assert codes(Loud("[1, 2]"), Limits(reply_bytes=5)) == ["json.too_large"]


@pytest.mark.parametrize(
    ("text", "limits", "code"),
    [
        ('"é"', Limits(reply_bytes=4), None),
        ('"é"', Limits(reply_bytes=3), "json.too_large"),
        (b"[1]", Limits(reply_bytes=2), "json.too_large"),
        (bytearray(b"[1]"), Limits(reply_bytes=2), "json.too_large"),
        ("[1,2]", Limits(nodes=3), None),
        ("[1,2]", Limits(nodes=2), "json.too_many_nodes"),
        ('{"a":{},"b":[]}', Limits(nodes=2), "json.too_many_nodes"),
        ("1", Limits(nodes=1, depth=1), None),
        ("[[]]", Limits(depth=2), None),
        ("[[]]", Limits(depth=1), "json.too_deep"),
        ("[{}]", Limits(depth=1), "json.too_deep"),
        ('{"a":[1]}', Limits(depth=1), "json.too_deep"),
        ("[" * 200 + "]" * 200, Limits(depth=200), None),
        ("[" * 201 + "]" * 201, Limits(depth=200), "json.too_deep"),
        ("9" * 4300, DEFAULT_LIMITS, None),
        ("-" + "9" * 4299, DEFAULT_LIMITS, None),
        ("0." + "9" * 5000, DEFAULT_LIMITS, None),
        ("0e999999", DEFAULT_LIMITS, None),
        ("1e-999999", DEFAULT_LIMITS, None),
        ('"1e400"', DEFAULT_LIMITS, None),
    ],
    ids=named,
)
def test_caps_are_exact(text: str | bytes | bytearray, limits: Limits, code: str | None) -> None:
    """A text at a cap is read, one step beyond it is refused under that cap's code."""
    assert codes(text, limits) == ([code] if code else [])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        '{"a":' * 200_000,
        '{"' * 500_000,
        "[" + "1," * 499_990,
        "{" + ",".join(f'"{number}":0' for number in range(90_000)),
        '["' + "\\n" * 490_000,
        '["' + "\\ud800" * 160_000 + '"]',
        "9" * 10**6,
        "0." + "9" * 999_000 + "x",
        "[" + "1e400," * 160_000,
        "[" + "{}," * 300_000,
        " " * 10**6,
        "\0" * 10**6,
        "\\" * 10**6,
        "x" * 50_000_000,
    ],
    ids=named,
)
def test_hostile_texts_are_refused(text: str) -> None:
    """Sheer size, depth and length end in a short refusal, never in an exception."""
    verdict = decode(text)
    assert isinstance(verdict, Invalid)
    assert len(verdict.issues) <= 16
    assert all(len(issue.found) <= 120 for issue in verdict.issues)


def test_reading_goes_on_behind_faults_of_values() -> None:
    """Duplicates, surrogates and numbers out of range are collected in order, sixteen of them at
    most.
    """
    text = '{"a":NaN,"a":"\\ud800","b":[1e999,{"c":1,"c":2}]}'
    assert codes(text) == [
        "json.not_finite",
        "json.duplicate_key",
        "json.surrogate",
        "json.not_finite",
        "json.duplicate_key",
    ]

    assert codes("[" + "NaN," * 50) == ["json.not_finite"] * 16


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x", "line 1 column 1"),
        ('{"é": ]', "line 1 column 7"),
        ("[1,\n2,\n x]", "line 3 column 2"),
        ("1\n\nx", "line 3 column 1"),
    ],
)
def test_a_fault_is_placed_in_lines_and_characters(text: str, place: str) -> None:
    """Lines and columns count from 1, columns in characters, not in bytes."""
    verdict = decode(text)
    assert isinstance(verdict, Invalid)
    assert place in verdict.issues[0].message


@given(
    st.text(min_size=1), st.sampled_from(["{{{0}:1,{0}:2}}", "[{0} x]", "{{{0}:NaN}}", "[{0},\x00"])
)
def test_what_the_model_wrote_stands_in_found_alone(word: str, frame: str) -> None:
    """Message, hint and path are the same whatever the model wrote in a string or a name."""
    verdict, other = (
        decode(frame.format(json.dumps(text))) for text in (word, "q" * len(json.dumps(word)[1:-1]))
    )
    assert isinstance(verdict, Invalid)
    assert isinstance(other, Invalid)
    strip = [
        [(issue.code, issue.path, issue.message, issue.hint) for issue in each.issues]
        for each in (verdict, other)
    ]
    assert strip[0] == strip[1]

    assert all(issue.found.isascii() and len(issue.found) <= 120 for issue in verdict.issues)


def test_the_duplicate_name_is_found() -> None:
    """``found`` of a duplicate is the name itself, escaped."""
    verdict = decode('{"é":1,"é":2}')
    assert isinstance(verdict, Invalid)
    assert verdict.issues[0].found == '"\\u00e9"'


def test_a_pointer_masks_the_names_it_does_not_know() -> None:
    """Known names and indexes go into the pointer, escaped; any other name becomes a star."""
    assert masked_pointer("/content", ("a/b", 3, "evil"), {"a/b"}) == "/content/a~1b/3/*"
    assert masked_pointer("", (), frozenset()) == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"b":1,"a":[' + "1," * 60_000 + '1],"a":1}', "json.duplicate_key"),
        ("[" + "1," * 60_000 + "1", "json.incomplete"),
        ("[" + "1," * 60_000 + "1] 2", "json.trailing_data"),
        ("[" + "1," * 60_000 + "1 2]", "json.syntax"),
        ("[" + "1," * 60_000 + "1e400]", "json.not_finite"),
        ("[" + "1," * 99_999 + "1]", "json.too_many_nodes"),
        ("[" + "1," * 60_000 + "[" * 65 + "]" * 65 + "]", "json.too_deep"),
    ],
)
def test_v2_a_text_beyond_the_work_has_its_fault_and_one_more(text: str, code: str) -> None:
    """A text that the work does not reach keeps the fault of the fast parser, and
    ``json.unexamined`` comes last.
    """
    work = Work()
    refused = decode(text, at="/content", work=work)
    assert isinstance(refused, Invalid)
    assert [issue.code for issue in refused.issues] == [code, "json.unexamined"]
    assert work.taken <= work.limit


def test_the_fast_parser_is_never_overruled() -> None:
    """A text that only the fast parser refuses is refused, at the place that it names or at the
    start.
    """
    refusals = [_Refusal(Code.JSON_SYNTAX, reason) for reason in ("odd at line 3 column 7", "")]
    explained = [
        _explained("1", refusal, DEFAULT_LIMITS, "/content", frozenset(), Work())
        for refusal in refusals
    ]
    refused = [issues[0] for issues in explained]
    assert [(issue.code, issue.path) for issue in refused] == [("json.syntax", "/content")] * 2

    assert ["line 3 column 7" in refused[0].message, "line 1 column 1" in refused[1].message] == [
        True,
        True,
    ]
