"""W13: the outputs of nine families of open models, as PyPI's ``canitoolcall`` has them.

When the parser of an engine fails, such a raw output reaches a program as the content.
"""

from __future__ import annotations

from typing import Any

import pytest

import strictreply as sr
from loops import some
from openai_shapes import message
from scripted import Server
from streamed_replies import ONCE, Body, deltas, in_pieces, over, read
from strictreply.contract._call_templates import TEMPLATES

fixtures: Any = pytest.importorskip(
    "canitoolcall.fixtures", reason="canitoolcall is installed in the development lane alone"
)
OUTPUTS = [one for one in fixtures.load_fixtures() if one.tools and one.raw_output]
FAMILIES = sorted({one.family for one in OUTPUTS})
MARKERS = {marker for row in TEMPLATES for marker in (*row.opens, *row.around)}


def calls_of(output: Any) -> Any:
    """The calls that are in an output, by its expectation."""
    return output.expected.tool_calls if output.expected else ()


def is_cut(output: Any) -> bool:
    """Whether an output breaks off, or is one that a parser may fail at."""
    return output.expected is None or "truncated" in output.tags


def judged(output: Any) -> sr.Verdict:
    """The verdict on an output as the content of a message."""
    return sr.Contract(tools=list(output.tools)).check(message(output.raw_output))


def test_the_fixtures_are_those_that_were_counted() -> None:
    """There are as many outputs with calls, and texts without, as the measure was made with."""
    assert len([one for one in OUTPUTS if calls_of(one)]) == 359
    assert len([one for one in OUTPUTS if not calls_of(one)]) == 109


def codes_of(verdict: sr.Verdict) -> list[str]:
    """The codes of what is wrong, none where nothing is."""
    return [issue.code for issue in verdict.issues] if isinstance(verdict, sr.Invalid) else []


@pytest.mark.parametrize("family", FAMILIES)
def test_each_output_with_calls_is_refused_as_one(family: str) -> None:
    """Behind prose, thoughts and whatever its template puts before it."""
    outputs = [one for one in OUTPUTS if one.family == family and calls_of(one)]
    assert outputs
    codes = {one.id: codes_of(judged(one)) for one in outputs}
    assert {id_: found for id_, found in codes.items() if found != ["call.as_text"]} == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_output_without_a_call_is_refused(family: str) -> None:
    """Answers, thoughts, markers without a call, and calls of tools that were not offered.

    What breaks off within a call of a tool that was offered is no answer, and is left out.
    """
    clean = [one for one in OUTPUTS if one.family == family and not calls_of(one)]
    refused = [one for one in clean if isinstance(judged(one), sr.Invalid)]
    assert [one.id for one in refused if not is_cut(one)] == []
    assert [one.id for one in refused if not any(map(one.raw_output.count, names_in(one)))] == []


def names_in(output: Any) -> list[str]:
    """The names of the tools that were offered."""
    return [tool["function"]["name"] for tool in output.tools]


@pytest.mark.one_lane
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_none_is_shown_by_a_stream(family: str, size: int) -> None:
    """Streamed, a refused output shows no marker outside its thoughts; any other comes whole."""
    for output in some(OUTPUTS):
        text = output.raw_output
        if output.family != family or len(text) > 2000:
            continue

        server = Server(over(Body(deltas(*in_pieces(text, size)))))
        contract = sr.Contract(tools=list(output.tools))
        told = read(sr.wrap(server.client(), contract=contract, policy=ONCE))
        if isinstance(judged(output), sr.Valid):
            assert (told.content, told.error) == (text, None)
        else:
            assert text.startswith(told.content)
            assert "[THINK]" in text or not any(marker in told.content for marker in MARKERS)
            assert told.codes == [["call.as_text"]]
