"""W13: the outputs of nine families of open models, as PyPI's ``canitoolcall`` has them.

When the parser of an engine fails, such a raw output reaches a program as the content.

359 outputs have a call by their expectation, and all are refused; 109 have none. Of these 85 are
accepted and 24 refused, which are cut or malformed in a call of a tool that was offered. 93 clean
texts were counted before there were templates, when 16 of the 24 were refused, and the 8 of ``CUT``
were not. Nothing in the package separates the 8 from the 16: an output has no finish reason, its
tags and the tools that are offered are the same, and so is what its expectation accepts
(``content_passthrough`` among others) but for three, where it accepts no content at all. A rule
that lets the 8 pass as answers would show a program the beginning of a call, so each is argued.
"""

from __future__ import annotations

from typing import Any

import pytest

import strictreply as sr
from strictreply.contract._call_templates import TEMPLATES
from support.loops import some
from support.openai_shapes import completion, message
from support.scripted import Server
from support.streamed_replies import ONCE, Body, deltas, in_pieces, over, read

fixtures: Any = pytest.importorskip(
    "canitoolcall.fixtures", reason="canitoolcall is installed in the development lane alone"
)
OUTPUTS = [one for one in fixtures.load_fixtures() if one.tools and one.raw_output]
FAMILIES = sorted({one.family for one in OUTPUTS})
MARKERS = {marker for row in TEMPLATES for marker in (*row.opens, *row.around)}


CUT = {
    "deepseek/v41-truncated-mid-arguments": (
        "but for a blank in its tags it is deepseek/v4-truncated-mid-arguments, one of the 16"
    ),
    "gemma4/truncated-mid-string": (
        "call:get_weather{ behind <|tool_call>, cut in a value as gemma4/truncated-second-parallel"
        "-call is, which must be caught"
    ),
    "gemma4/truncated-before-close": (
        "the same call with its value whole: only } and <tool_call|> are missing"
    ),
    "gpt-oss/harmony-truncated-in-header": (
        "its expectation has no content: what is behind the thought is the header of a call, with "
        "its recipient"
    ),
    "kimi/k3-vllm-truncated-tools": (
        "its expectation does not accept the content: tools, call and the name are open"
    ),
    "kimi/k3-truncated-inside-argument": (
        "the call and its first argument are open; kimi/k26-truncated-inside-arguments is of the 16"
    ),
    "mistral/v13think-truncated-in-arguments": (
        "[TOOL_CALLS]write_file[ARGS]{ behind a thought that has ended, cut in rm -rf /"
    ),
    "qwen3-hermes/bug-sglang-30480-truncated-mid-arguments": (
        "the report is that this text leaks as the content; truncated-mid-arguments-no-thinking, "
        "the same without the sentence before it, is of the 16"
    ),
}
"""Why a text without a whole call is refused, though it was not before there were templates."""


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


def test_what_is_refused_without_a_whole_call_is_told_one_by_one() -> None:
    """It is a call of a declared tool that breaks off, or is malformed; the rest are answers."""
    refused = {
        one.id: one
        for one in OUTPUTS
        if not calls_of(one) and codes_of(judged(one)) == ["call.as_text"]
    }
    assert len(refused) == 24
    assert CUT.keys() <= refused.keys()
    tags = [
        tag for one in refused.values() for tag in one.tags if tag in ("truncated", "malformed")
    ]
    assert (tags.count("truncated"), tags.count("malformed")) == (22, 3)  # one is both

    # the package tells none of the cut ones from its siblings
    lenient = {"no_tool_calls", "content_passthrough", "exception"}
    accepted = {
        id_: set(one.expected_error.accept) if one.expected_error else set()
        for id_, one in refused.items()
    }
    without_content = {id_ for id_ in accepted if "content_passthrough" not in accepted[id_]}
    assert without_content < CUT.keys()
    assert all(accepted[id_] == lenient for id_ in CUT.keys() - without_content)


@pytest.mark.parametrize("id_", CUT)
def test_a_call_that_the_token_limit_cut_is_told_as_cut(id_: str) -> None:
    """With the finish reason that such an output has, the model is asked for a shorter reply."""
    (output,) = [one for one in OUTPUTS if one.id == id_]
    whole = completion(message(output.raw_output), "length")
    verdict = sr.Contract(tools=list(output.tools)).check(whole)
    assert codes_of(verdict) == ["reply.truncated"]


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
