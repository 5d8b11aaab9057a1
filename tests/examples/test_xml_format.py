"""The example of a custom format: actions in XML are read strictly, and as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xml_format
from hypothesis import given
from hypothesis import strategies as st
from xml_format import XMLProcessor, XMLResponseFormat

from strictreply import Invalid, Limits
from strictreply.coordination.actions import SHAPES
from support.pages import Page
from support.programs import ran

GUARD = 'if __name__ == "__main__":'


def process(text: str | bytes) -> dict[str, Any] | Invalid:
    """Read a text as the format does."""
    return XMLProcessor().process(text)


def codes(text: str) -> list[str]:
    """Return the codes of a refused text, none for a read one."""
    read = process(text)
    return [issue.code for issue in read.issues] if isinstance(read, Invalid) else []


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MEMBER = st.sampled_from(sorted({name for shape in SHAPES.values() for name in shape.properties}))
VALUE = st.recursive(
    TEXT | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(MEMBER, VALUE, max_size=4))
def test_tagged_text_reads_back_equal(action: dict[str, Any]) -> None:
    """Any action reads back as written: control characters, line ends and markup included."""
    assert process(XMLResponseFormat().spell(action)) == action


DOCUMENTED: list[tuple[str, dict[str, Any]]] = [
    (
        (
            "<next_action>invoke_agent</next_action>\n<action_input> Worker1 </action_input>\n"
            "<request>a &lt; b</request>"
        ),
        {"next_action": "invoke_agent", "action_input": "Worker1", "request": "a < b"},
    ),
    (
        (
            "<thought>both</thought><next_action>parallel_invoke</next_action>"
            '<agents type="json">["Worker1"]</agents>'
        ),
        {"thought": "both", "next_action": "parallel_invoke", "agents": ["Worker1"]},
    ),
    ("<content><![CDATA[<b>bold</b> & more]]></content>", {"content": "<b>bold</b> & more"}),
    ("<content>&#65;&#x42;</content><request/>", {"content": "AB", "request": ""}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "expected"), DOCUMENTED)
def test_tagged_text_is_read(text: str, expected: dict[str, Any]) -> None:
    """Elements side by side; white space between them and around their texts does not matter."""
    assert process(text) == process(text.encode()) == expected


LAUGHS = (
    "<!DOCTYPE x [<!ENTITY a '"
    + "ha" * 100
    + "'><!ENTITY b '"
    + "&a;" * 100
    + "'>]><content>&b;</content>"
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LAUGHS, "format.malformed"),
        ("<!DOCTYPE reply SYSTEM 'file:///etc/passwd'><content>x</content>", "format.malformed"),
        ("<content>&undefined;</content>", "format.malformed"),
        ("<content>&xxe;</content>", "format.malformed"),
        ("<?xml version='1.0'?><content>x</content>", "format.malformed"),
        ("<?php x ?><content>x</content>", "format.malformed"),
        ("<!-- aside --><content>x</content>", "format.malformed"),
        ("<content>x</content></reply><reply>", "format.malformed"),
        ("</reply><content>x</content>", "format.malformed"),
        ("<content>x", "format.malformed"),
        ("<content>x</contents>", "format.malformed"),
        ("<content>\x00</content>", "format.malformed"),
        ("<content>\ud800</content>", "format.malformed"),
        ("prose <content>x</content>", "format.malformed"),
        ("<content>x</content> prose", "format.malformed"),
        ("<content>x</content><content>y</content>", "format.malformed"),
        ("<agents><agent>A</agent></agents>", "format.malformed"),
        ("<reply><content>x</content></reply>", "format.malformed"),
        ('<content type="xml">x</content>', "format.malformed"),
        ('<content lang="en">x</content>', "format.malformed"),
        ('<agents type="json">[1,]</agents>', "json.syntax"),
        ('<agents type="json">{"a":1,"a":2}</agents>', "json.duplicate_key"),
        ('<agents type="json"></agents>', "reply.empty"),
        ("I'm done thinking", "format.malformed"),
        ('{"next_action": "final_response", "content": "x"}', "format.malformed"),
    ],
)
def test_what_is_not_plain_tagged_text_is_refused(text: str, code: str) -> None:
    """No document type, no entities, nothing nested, twice or beside the elements; strict JSON in
    them.
    """
    assert codes(text) == [code]


def test_tagged_text_is_bounded() -> None:
    """The size of the text, and the depth of JSON in it, are held to the limits; deep and cut
    markup is refused.
    """
    assert codes("<content>" + "x" * Limits().reply_bytes + "</content>") == ["format.malformed"]
    assert codes("<a>" * 100_000) == ["format.malformed"]
    assert codes("<a>" * 30_000 + "</a>" * 30_000) == ["format.malformed"]
    assert codes('<agents type="json">' + "[" * 70 + "]" * 70 + "</agents>") == ["json.too_deep"]


def test_a_syntax_fault_names_its_line_and_nothing_of_the_reply() -> None:
    """Lines count from 1 in the reply as it was written; no word of it is repeated."""
    read = process("<a>x</a>\n<b>&canary;</b>")
    assert isinstance(read, Invalid)
    assert "line 2" in read.issues[0].message
    assert "canary" not in str(read)


@pytest.mark.slow
def test_the_program_keeps_its_promise(tmp_path: Path) -> None:
    """Run from anywhere, it reads XML, refuses what does not fit, and has one reply corrected."""
    status, stdout, stderr = ran(Path(xml_format.__file__), tmp_path)
    assert (status, stderr) == (0, "")
    assert stdout.splitlines() == [
        "<next_action>invoke_agent</next_action><action_input>writer</action_input>",
        "hands over to: ['writer']",
        "rejected: topology.not_allowed",
        "rejected: format.malformed",
        "rejected: format.malformed",
        "corrected: Not valid. Reply again, corrected:",
        "- must be elements alone, with no text around them",
        "then hands over to: ['writer']",
    ]


@pytest.mark.slow
def test_the_page_shows_the_program(tmp_path: Path) -> None:
    """The blocks of the how-to page are the program, in order, and print what the page shows."""
    page = Page.named("howto/own-format.md")
    program = Path(xml_format.__file__).read_text("utf-8").partition("import json")
    begin = f"from __future__ import annotations\n\n{''.join(page.programs)}"
    written = "\n\n\n".join(block.strip() for block in page.programs)
    assert written.split() == (program[1] + program[2]).replace(GUARD, "").split()

    path = tmp_path / "page.py"
    path.write_text(begin, encoding="utf-8")
    assert ran(path, tmp_path) == (0, "".join(page.shown), "")
