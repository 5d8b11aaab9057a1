"""W13: a call between the markers of a template is no answer, wherever it stands in a text.

A text that quotes or explains such a call is one.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Contract, DirectAnswer, Invalid, Valid
from strictreply.contract._call_escapes import MINIMAX, Unescaping, unescaped
from strictreply.contract._call_search import CallSearch, holds_call
from strictreply.contract._call_templates import TEMPLATES, THOUGHTS
from strictreply.contract._call_watch import CallWatch
from strictreply.contract._spelled_calls import is_call
from support.channels.call_texts import WRITERS, Call
from support.loops import some
from support.openai_shapes import message

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"
NAMES = ("search", "get_weather", "shop.find-item", "mcp__files__read", "a.b.c", "now", "k9")
CALLS: list[Call] = [("get_weather", {"city": "Zürich", "days": 3}), ("now", {"zone": "UTC"})]
SEARCH: dict[str, Any] = {"name": "search", "parameters": {"type": "object"}}
CONTRACT = Contract(tools=[SEARCH, {"name": "now"}])
LENIENT = Contract(tools=[SEARCH, {"name": "now"}], text_calls="answer")
LOST = "gpt-oss, its recipient lost"
"""The one row whose calls have no name."""

HERMES = '<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>'
ROW_NAMES = [template.name for template in TEMPLATES]

names = st.sampled_from(NAMES) | st.from_regex(
    r"[A-Za-z_][A-Za-z0-9_.-]{0,20}[a-z0-9]", fullmatch=True
)
values = st.sampled_from(["x", "tea and milk", "", "Zürich", "a < b", "it's", 'say "hi"', 7, True])
arguments = st.dictionaries(st.sampled_from(["query", "limit", "city", "x"]), values, max_size=3)
calls = st.lists(st.tuples(names, arguments), min_size=1, max_size=3)


def test_each_row_has_a_writer() -> None:
    """The tests below know how each template writes a call, and each row says where it is from."""
    assert sorted(WRITERS) == sorted(ROW_NAMES)
    assert len(set(ROW_NAMES)) == len(ROW_NAMES)
    assert all(template.source and template.opens and template.then for template in TEMPLATES)


def test_each_row_stands_on_its_page() -> None:
    """The page has the table: the models of each row, what begins its calls, and its source."""
    page = PAGE.read_text(encoding="utf-8")
    for template in some(TEMPLATES):
        marker = template.opens[0].strip().replace("|", "\\|")
        assert f"| {template.name} | `{marker}` | {template.source} |" in page


@pytest.mark.parametrize("row", ROW_NAMES)
def test_turning_a_row_off_loses_its_own_calls_alone(row: str) -> None:
    """Without a row the calls of its template behind prose are not found, and all others are."""
    tools = {name for name, _ in CALLS}
    left = tuple(template for template in TEMPLATES if template.name != row)
    for name, write in some(WRITERS.items()):
        text = f"I will look.\n{write(CALLS)}"
        assert holds_call(text, tools)
        assert holds_call(text, tools, left) == (name != row)


@pytest.mark.parametrize("row", ROW_NAMES)
@given(
    calls=calls, before=st.sampled_from(["", "I will look.\n", "Hm: ", "<think>\nhm\n</think>\n\n"])
)
def test_calls_of_other_tools_are_found_alike(row: str, calls: list[Call], before: str) -> None:
    """Whatever the tools, the arguments and their number; behind prose and thoughts."""
    text = before + WRITERS[row](calls)
    assert is_call(text, {name for name, _ in calls})
    if row != LOST:
        assert not holds_call(text, {"another_tool"})


@pytest.mark.parametrize("row", [name for name in ROW_NAMES if name != LOST])
@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_is_cut_is_found_from_its_name_on(row: str, name: str) -> None:
    """A call that breaks off anywhere behind its name is a call; one without its name is none."""
    text = "I will look.\n" + WRITERS[row]([(name, {"query": "tea and milk"})])
    tools = {name}
    named = text.rindex(name) if row == "Inkling" else text.index(name)
    first = named + len(name) + len('"')
    # a name in JSON is read with the key that is behind it, and the last that is missing is a mark
    assert all(is_call(text[:size], tools) for size in range(first + 2, len(text) + 1))
    assert not any(is_call(text[:size], tools) for size in range(named))


THOUGHT_TEXTS = [
    (thought.begins, thought.ends) for thought in THOUGHTS if "|" not in thought.begins
]


@pytest.mark.parametrize(("begins", "ends"), THOUGHT_TEXTS)
@pytest.mark.parametrize("row", ["Hermes, Qwen 2.5 and 3, Granite 4, EXAONE", "Gemma 4", "Kimi K2"])
def test_a_call_in_a_thought_is_none(row: str, begins: str, ends: str) -> None:
    """What a model thinks of calling it does not call, if an answer follows the thought."""
    call = WRITERS[row]([("search", {"query": "x"})])
    answer = "Tea is 4 EUR."
    assert judged(f"{begins}I could write {call} now.{ends}{answer}")
    assert judged(f"I could write {call} now, but no.\n{ends}\n\n{answer}")

    # a thought that does not end, or that nothing follows, was the reply
    assert not judged(f"{begins}I look.\n{call}")
    assert not judged(f"{begins}I look.\n{call}\n{ends}\n")
    assert not judged(f"{begins}I look.{ends}I look.\n{call}")
    assert not judged(f"I look.\n{ends}{call}")


def judged(text: str, contract: Contract = CONTRACT) -> bool:
    """Return whether a text is accepted as the answer it is; else it is refused as a call."""
    verdict = contract.check(message(text))
    if isinstance(verdict, Invalid):
        assert [issue.code for issue in verdict.issues] == ["call.as_text"]
        return False

    assert verdict == Valid(DirectAnswer(text))
    return True


SPOKEN = {
    "a block of code": f"Qwen writes:\n\n```xml\n{HERMES}\n```\n\nThat is all.",
    "a block of code with tildes": f"So:\n~~~\n{HERMES}\n~~~\nThen wait.",
    "a block of code in a list": f"1. Write:\n   ```\n   {HERMES}\n   ```\n2. Wait.",
    "a block that does not end": f"Like this:\n```\n{HERMES}",
    "a longer fence": f"So:\n````md\n```\n{HERMES}\n```\n````\nDone.",
    "code in a line": f"Write `{HERMES}` for that.",
    "code in a line, two marks": f"Write ``{HERMES}`` for that.",
    "an indented block": "So:\n\n    <tool_call>\n    " + '{"name": "search"}\n\nThat is all.',
    "a tab": 'So:\n\n\t<tool_call>{"name": "search", "arguments": {}}</tool_call>\n\nDone.',
    "quotation marks": f'It begins with "{HERMES}" and ends there.',
    "single marks": f"It begins with '{HERMES}' and ends there.",
    "curly marks": f"It begins with “{HERMES}” and ends there.",
    "guillemets": f"Il écrit «{HERMES}» alors.",
    "corner brackets": f"通义写\u300c{HERMES}\u300d来调用",
    "Chinese": f"通义写 {HERMES}\u3002",
    "a quotation": 'He said "write <tool_call>search</tool_call> for it" and left.',
    "a block quote": '> <tool_call>{"name": "search", "arguments": {}}</tool_call>\n\nSo they say.',
    "a row of a table": '| Qwen | <tool_call>{"name": "search", "arguments": {}}</tool_call> |',
    "HTML": f"<pre>{HERMES}</pre> is the form.",
    "a sentence that goes on": "Qwen writes <tool_call>search</tool_call> for that.",
    "a sentence about tokens": (
        'Kimi writes <|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{"a": "x"}'
        "<|tool_call_end|> for a call."
    ),
    "a sentence about a list": (
        'Mistral writes [TOOL_CALLS][{"name": "search", "arguments": {}}], as of version 3.'
    ),
    "the opening tag alone": "Write <function=search> to open a call.",
    "an attribute": 'Claude opens a call with <invoke name="search"> and closes it.',
    "a tag and a name": "The tag <tool_call> opens a call; search is a tool.",
    "a tag and a name behind it": "After <tool_call> search is written.",
    "a token and a name": "[TOOL_CALLS] search is what Mistral writes.",
    "tokens alone": "So: <|tool_calls_section_begin|> … <|tool_calls_section_end|>, I think.",
    "another tool": '<tool_call>{"name": "serch", "arguments": {}}</tool_call>\nThat was it.',
    "another tool with such a name": "<tool_call>searching\n<arg_key>a</arg_key></tool_call>",
    "a tool as an argument": (
        '<tool_call>{"name": "other", "arguments": {"name": "search"}}</tool_call>'
    ),
    "a placeholder": '<tool_call>{"name": <name>, "arguments": <args>}</tool_call>\nSo search.',
    "a definition": f"<tools>{json.dumps({'type': 'function', 'function': SEARCH})}</tools>\nSo.",
    "an answer in JSON": '{"note": "write <tool_call>search</tool_call>", "price": 4}',
    "escaped, in a sentence": f"Qwen writes {html.escape(HERMES)} for that.",
    "escaped, in code": f"Qwen writes:\n```\n{html.escape(HERMES)}\n```\nThat is all.",
    "escaped, quoted": f'It is "{html.escape(HERMES, quote=False)}", I think.',
    "escaped, another tool": "&lt;tool_call&gt;{&quot;name&quot;: &quot;find&quot;}",
    "mathematics": "If search < now and now > 3, then {x < search > y}.",
    "Harmony, a sentence": 'It writes <|channel|>commentary<|message|>{"query": "x"} for a call.',
    "Harmony, a sentence with a name": (
        'It is <|channel|>commentary to=functions.search<|message|>{"query": "x"}<|call|> there.'
    ),
    "escaped": "Write &lt;tool_call&gt;search&lt;/tool_call&gt; for that",
    "code": "import functools\n\nsearch = functools.partial(find, 3)",
    "a prompt of Python": ">>> search\n{}",
    "Harmony's final channel": (
        "<|channel|>analysis<|message|>They want JSON.<|end|><|start|>assistant<|channel|>final"
        '<|message|>{"name": "search", "arguments": {"query": "x"}}'
    ),
    "Harmony's preamble": "<|channel|>commentary<|message|>I look {x}.<|end|>",
    "Harmony, another tool": (
        '<|start|>assistant to=functions.find<|channel|>commentary json<|message|>{"query": "x"}'
    ),
}


@pytest.mark.parametrize("text", SPOKEN.values(), ids=SPOKEN)
def test_what_speaks_of_a_marker_is_an_answer(text: str) -> None:
    """Code, quotations, sentences about a marker, and other tools."""
    assert judged(text)


LEAKED = {
    "behind prose": f"I will look.\n{HERMES}",
    "behind prose, in its line": f"I will look. {HERMES}",
    "behind prose, without a blank": f"Sure!{HERMES}",
    "behind a colon": f"Let me check:\n\n{HERMES}",
    "before a made-up result": f"{HERMES}\n<tool_response>\n4\n</tool_response>\n\nIt is 4 EUR.",
    "before prose": f"{HERMES}\n\nTea is 4 EUR, I think.",
    "in prose": f"before{HERMES}after",
    "behind code": f"Here is `code` and:\n```\nx = 1\n```\n{HERMES}",
    "behind a quotation": f'She said "find tea". {HERMES}',
    "behind an apostrophe": f"It's what I'd do: {HERMES}",
    "behind a decade": f"It's '90s music: {HERMES}",
    "behind a mention": f"Qwen writes `{HERMES}`. I do:\n{HERMES}",
    "behind a list": f"- tea\n- milk\n    {HERMES}",
    "behind inches": f'It is 5" wide. {HERMES}',
    "with a marker in its arguments": (
        '<tool_call>{"name": "search", "arguments": {"query": "<tool_call>x</tool_call>; y."}}'
    ),
    "the name behind the arguments": (
        'So:\n<tool_call>{"arguments": {"name": "x"}, "name": "search"}</tool_call>'
    ),
    "a list with another tool first": (
        'So:\n[TOOL_CALLS][{"name": "find", "arguments": {}}, {"name": "now", "arguments": {}}]'
    ),
    "in Python's signs": "So:\n<tool_call>{'name': 'search', 'arguments': {}}</tool_call>",
    "noise in a section": (
        "I look. <|tool_calls_section_begin|> hm <|tool_call_begin|>functions.search:0"
        '<|tool_call_argument_begin|>{"query": "x"}<|tool_call_end|>'
    ),
    "Harmony, no name": '<|channel|>commentary<|message|>{\n "query": "tea"\n}<|end|>',
    "Harmony, no name, called": '<|channel|>commentary<|message|>{"query": "tea"}<|call|>',
    "Harmony, no name, JSON": '<|channel|>commentary <|constrain|>json<|message|>{"query": "tea"}',
    "Harmony, no name, cut": '<|channel|>commentary<|message|>{"query": "te',
    "Harmony, no name, behind its analysis": (
        "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary"
        '<|message|>{"query": "tea"}<|end|>'
    ),
    "Harmony, behind a preamble": (
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.search"
        '<|channel|>commentary json<|message|>{"query": "tea"}'
    ),
    "Harmony, a name in its JSON": (
        'I look.<|channel|>commentary<|message|>{"name": "search", "arguments": {}}<|call|>'
    ),
    "Harmony, a name in its JSON, constrained": (
        'I look.<|channel|>commentary <|constrain|>json<|message|>{"name": "search"}<|call|>'
    ),
    "Harmony, a name without to=": (
        'I look.<|channel|>commentary functions.search <|constrain|>json<|message|>{"query": "x"}'
    ),
    "Harmony, then an answer": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.search<|channel|>"
        'commentary json<|message|>{"query": "x"}<|call|><|start|>assistant<|channel|>final'
        "<|message|>Tea is 4 EUR."
    ),
}


@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED)
def test_a_call_among_other_text_is_no_answer(text: str) -> None:
    """Prose before it, behind it or around it does not make it one, nor does what was quoted."""
    assert not judged(text)
    assert judged(text, LENIENT)
    assert judged(text, CONTRACT.with_choice("none"))
    assert judged(text, Contract())


MINIMAX_SIGNS = ("]", "<", "]", "minimax", "[", ">", "[")


def in_json(text: str) -> str:
    """The text in a string of JSON, as Go writes it."""
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return written.replace("<", "\\u003c").replace(">", "\\u003e")


def spaced(text: str, form: str) -> str:
    """The text with blanks in its tags."""
    return re.sub(r"<(/?)([^<>\s=\]]+)>", form, text)


ESCAPES: dict[str, Callable[[str], str]] = {
    "HTML": html.escape,
    "HTML, quotation marks as they are": lambda text: html.escape(text, quote=False),
    "HTML, numbers": lambda text: text.replace("<", "&#60;").replace(">", "&#x3e;"),
    "JSON": in_json,
    "JSON, signs alone": lambda text: text.replace("<", "\\u003C").replace(">", "\\u003E"),
    "JSON, slashes": lambda text: text.replace("</", "<\\/"),
    "Markdown": lambda text: re.sub(r"([<>_])", r"\\\1", text),
    "blanks": lambda text: spaced(text, r"< \1\2 >"),
    "a blank before": lambda text: spaced(text, r"< \1\2>"),
    "a blank behind": lambda text: spaced(text, r"<\1\2 >"),
    "blanks in brackets": lambda text: re.sub(r"\[(/?[A-Z_]+)\]", r"[ \1 ]", text),
    "blanks in a token": lambda text: text.replace(MINIMAX, " ".join(MINIMAX_SIGNS)),
    "some blanks in a token": lambda text: text.replace(MINIMAX, "]< ]minimax [>["),
    "blanks in tokens and tags": lambda text: re.sub(
        r"\[<(/?[a-z]+)", r"[ < \1", text.replace(MINIMAX, " ".join(MINIMAX_SIGNS))
    ),
}
"""What servers and models make of the signs of markers."""

IN_JSON = ("JSON", "Harmony, no name")
"""A JSON object whose own line breaks are escaped begins with none of its signs."""


WRITTEN_SO = [
    (row, way)
    for row, write in WRITERS.items()
    for way, escape in ESCAPES.items()
    if escape(write(CALLS)) != write(CALLS)
]


@pytest.mark.parametrize(("row", "way"), WRITTEN_SO)
def test_a_call_with_escaped_markers_is_found_and_held(row: str, way: str) -> None:
    """Behind prose, whole and however it comes, no sign of it is shown."""
    before = "I will look.\n"
    escaped = ESCAPES[way](WRITERS[row](CALLS))
    tools = {name for name, _ in CALLS}
    assert is_call(before + escaped, tools)
    for size in (1, 3, 1000):
        watched = CallWatch(tools)
        shown = [
            watched.feed((before + escaped)[start : start + size])
            for start in range(0, len(before + escaped), size)
        ]
        assert max(shown) <= len(before)


@pytest.mark.parametrize("way", ESCAPES)
def test_escaped_texts_are_judged_as_what_they_mean(way: str) -> None:
    """What speaks of a marker remains an answer, and what leaked remains a call."""
    spoken = [name for name, text in SPOKEN.items() if not judged(ESCAPES[way](text))]
    leaked = [name for name, text in LEAKED.items() if judged(ESCAPES[way](text))]
    assert spoken == []
    assert [name for name in leaked if (way, name) != IN_JSON] == []


@given(
    st.lists(
        st.sampled_from(
            [
                "<",
                " ",
                "] <",
                "]minimax",
                "[ >",
                "[",
                "&lt;",
                "&",
                "\\",
                "u003c",
                '"',
                "/",
                "a",
                "tool",
            ]
        )
    )
)
def test_where_an_escape_stands_is_known(parts: list[str]) -> None:
    """However a text comes, what is read of it is the beginning of both of its forms."""
    text = "".join(parts)
    coming = Unescaping()
    came = ""
    meant = ""
    for sign in text:
        read, written = coming.feed(sign)
        came += read
        meant += written
        assert coming.place(len(meant)) == len(came)

    assert text.startswith(came)
    assert unescaped(text).startswith(meant) or len(text) > 80


MARKERS = sorted({marker for template in TEMPLATES for marker in template.opens})
UNITS = [
    *MARKERS,
    *(thought.begins for thought in THOUGHTS),
    *(thought.ends for thought in THOUGHTS),
    '<tool_call>{"name":',
    '<tool_call>["',
    "<tool_call>[[[[",
    '<tool_call>{"a":{',
    "<tool_call>search",
    "<|tool_call>call:a.a.a.a.a.a.a",
    "[TOOL_CALLS]search{",
    '<|channel|>commentary<|message|>{"a":',
    "<think>search</think> a ",
    "<think><tool_call>search</tool_call></think>",
    '"<tool_call>',
    "`<tool_call>",
    "\n```\n<tool_call>",
    "<tool_call>  \n",
    "<",
    "``` ",
    "I look. ",
    "&lt;tool_call&gt;",
    "&lt;tool_call&gt;{&quot;name&quot;:",
    "\\u003ctool_call\\u003e",
    "< tool_call >",
    "< ",
    "] ",
    "] < ] minimax [ > [",
    "&",
    "\\",
    '\\"',
]


def steps_of(work: Callable[[], object]) -> int:
    """Count the lines that are executed and the functions that are called by some work."""
    steps = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal steps
        steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)

    return steps


def watch(text: str, size: int) -> None:
    """Follow a text that comes in pieces."""
    watched = CallWatch({"search"})
    watched.feed("I look. ")
    for start in range(0, len(text), size):
        watched.feed(text[start : start + size])


@pytest.mark.one_lane
@pytest.mark.parametrize("unit", UNITS)
def test_work_grows_with_the_text(unit: str) -> None:
    """Four times as long a text takes about four times the steps, whole and streamed."""
    short = unit * (2_000 // len(unit))
    long = unit * (8_000 // len(unit))
    for work in (lambda text: is_call(text, {"search"}), lambda text: watch(text, 9)):
        least = steps_of(lambda: work(short))  # noqa: B023
        most = steps_of(lambda: work(long))  # noqa: B023
        assert most <= 5 * least + 400


@pytest.mark.one_lane
@pytest.mark.parametrize("unit", ["<tool_call>", '[TOOL_CALLS]{"name":', "<think>a</think>", "a <"])
def test_many_markers_are_read_in_steps_of_their_number(unit: str) -> None:
    """A marker costs a bounded number of steps, however many there are."""
    count = 200_000 // len(unit)
    assert steps_of(lambda: is_call(unit * count, {"search"})) <= 400 * count


@given(
    st.lists(
        st.sampled_from([*MARKERS, "search", "{", '"', "`", "\n", " a ", "```", "name"]),
        max_size=12,
    )
)
def test_any_text_is_searched_alike_however_it_comes(parts: list[str]) -> None:
    """No text raises; what is found whole is held, character by character, from its marker on."""
    text = "".join(parts)
    whole = CallSearch({"search"})
    whole.read(text)

    coming = CallSearch({"search"})
    for sign in text:
        coming.feed(sign)
    if whole.calls:
        assert coming.held <= whole.calls[0].start
