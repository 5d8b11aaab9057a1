"""Corrections are bounded in bytes, whatever a schema's names or the faults' words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category, CorrectionContext, Issue, TieredSteering, Tool
from strictreply.core.calls import MAX_CORRECTION_BYTES
from support.corrections import EXAMPLE, STEERING, context, said, terms_of
from support.scripted import call


@given(
    st.lists(st.text(max_size=900), min_size=1, max_size=40),
    st.integers(1, 6),
    st.sampled_from([None, "search"]),
)
def test_a_correction_is_at_most_two_kilobytes(
    messages: list[str], tier: int, tool: str | None
) -> None:
    """For any number and length of faults the headline stays and the rest fits."""
    issues = tuple(
        Issue("args.check", Category.FORMAT_ERROR, f"/a/{index}", words)
        for index, words in enumerate(messages)
    )
    text = STEERING.correction(CorrectionContext(issues, terms_of(), tier, tool, "/a"))
    assert len(text.encode()) <= MAX_CORRECTION_BYTES
    assert text.splitlines()[0].endswith(":")


def test_a_long_first_fault_is_cut_not_dropped() -> None:
    """The model is always told of at least one fault."""
    names = [
        Tool.from_json_schema(f"{index:02d}-{'n' * 120}", {"type": "object"}) for index in range(30)
    ]
    text = STEERING.correction(context(terms_of(tools=names), said(calls=[call("bogus", {})])))
    assert "no such tool" in text
    assert "00-nnn" in text
    assert len(text.encode()) <= MAX_CORRECTION_BYTES


def test_faults_that_do_not_fit_are_left_out_whole() -> None:
    """Long faults are dropped one by one, short ones after them still stand."""
    issues = [Issue("x", Category.FORMAT_ERROR, f"/{index}", "w" * 700) for index in range(5)]
    issues.append(Issue("x", Category.FORMAT_ERROR, "/last", "short"))
    lines = STEERING.correction(CorrectionContext(tuple(issues), terms_of(), 1)).splitlines()
    assert [line[:4] for line in lines] == ["Not ", "- /0", "- /1", "- /l"]


def test_many_faults_are_counted() -> None:
    """Beyond twelve faults the rest is a number."""
    issues = tuple(Issue("x", Category.FORMAT_ERROR, f"/{index}", "wrong") for index in range(20))
    lines = STEERING.correction(CorrectionContext(issues, terms_of(), 1)).splitlines()
    assert len(lines) == 14
    assert lines[-1] == "- and 8 more"


WIDE = ["ключ" * 15, "値" * 60, "🎈" * 60, "\u202e" * 20, '"\\' * 30]


@pytest.mark.parametrize("tier", range(1, 6))
@pytest.mark.parametrize("letters", WIDE)
def test_corrections_of_wide_schemas_are_bounded_in_bytes(letters: str, tier: int) -> None:
    """For any script of the schema, a correction takes 2,000 bytes at most and ends whole (V18)."""
    names = [f"{letters}{index}" for index in range(40)]
    members = {name: {"enum": [name, f"{name}!"], "description": letters * 9} for name in names}
    schema = {"type": "object", "properties": members, "required": names[:20]}
    for declared in (
        {"tools": [Tool.from_json_schema("t", schema)]},
        {"tools": [], "answer": schema},
    ):
        contract = terms_of(**declared)
        bad = dict.fromkeys([*names[:9], "zz"], 1)
        message = said(calls=[call("t", bad)]) if declared["tools"] else said(json.dumps(bad))
        text = STEERING.correction(context(contract, message, tier))
        assert len(text.encode()) <= MAX_CORRECTION_BYTES

        assert len(text.splitlines()) > 1

        for line in text.splitlines():
            if line.startswith((EXAMPLE, "Schema of ")):
                json.loads(line[line.index("{") :])
            assert line.isprintable()


@given(
    st.text(alphabet=st.sampled_from('ж値🎈\u202e" \\\nab'), max_size=1500),
    st.integers(0, 400),
    st.integers(1, 4),
)
def test_a_cut_splits_nothing(words: str, limit: int, tier: int) -> None:
    """A text of any letters is cut between words, to any bound in bytes, and stays a text (V18)."""
    issues = (Issue("mine", Category.FORMAT_ERROR, "/a", words),)
    text = TieredSteering(max_bytes=limit).correction(CorrectionContext(issues, terms_of(), tier))
    assert len(text.encode()) <= limit
    for line in text.splitlines()[1:]:
        kept = line.removesuffix("…")
        assert kept in f"- /a: {issues[0].message}" or line.startswith(
            ("Schema", "Tools:", EXAMPLE)
        )
