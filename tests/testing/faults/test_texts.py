"""The faults of the text as a whole; the laws that hold for all of them are in ``test_reply_laws``."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY
from strictreply.testing._targets import Target
from strictreply.testing.faults import _texts as texts

SEARCH = Tool.from_json_schema("search", {"properties": {"query": {"type": "string"}}, "required": ["query"]})
PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})
CLEAN = '{"query": "tea"}'


def text_of(name: str, tool: Tool = SEARCH, args: Any = None) -> str:
    """Give the arguments' text that one fault writes."""
    fault = getattr(texts, name)(tool, args=args)
    text: str = fault.served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    return text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty_text", ""),
        ("python_repr", "{'query': 'tea'}"),
        ("python_call", "dict(query='tea')"),
        ("xml", "<function><parameter=query>tea</parameter></function>"),
        ("yaml", 'query: "tea"'),
        ("base64_text", "eyJxdWVyeSI6ICJ0ZWEifQ=="),
        ("fenced", f"```json\n{CLEAN}\n```"),
        ("tool_call_tags", f"<tool_call>\n{CLEAN}\n</tool_call>"),
        ("template_token", f"{CLEAN}<|im_end|>"),
        ("byte_order_mark", f"\ufeff{CLEAN}"),
        ("nul_byte", f"{CLEAN}\0"),
        ("empty_object_before", f"{{}}{CLEAN}"),
        ("json_lines", f"{CLEAN}\n{CLEAN}"),
        ("extra_closing_bracket", f"{CLEAN}}}"),
        ("missing_closing_bracket", CLEAN[:-1]),
        ("missing_opening_brace", CLEAN[1:]),
        ("mismatched_bracket", '{"query": "tea"]'),
        ("trailing_comma", '{"query": "tea",}'),
        ("missing_comma", f'{{"query": "tea" "{CANARY}": true}}'),
        ("ellipsis", '{"query": "tea", ...}'),
        ("smart_quotes", "{“query”: “tea”}"),
        ("html_escaped", "{&quot;query&quot;: &quot;tea&quot;}"),
        ("escaped_quotes", r"{\"query\": \"tea\"}"),
        ("escaped_line_breaks", r'{\n  "query": "tea"}'),
        ("no_break_space", '{\u00a0"query": "tea"}'),
    ],
)
def test_a_text_is_spoiled_in_one_way(name: str, text: str) -> None:
    """Nothing but what the fault is named for changes in the good text."""
    assert text_of(name, args={"query": "tea"}) == text


@pytest.mark.parametrize("name", ["prose_before", "think_block", "prose_after"])
def test_what_stands_around_the_json_leaves_it_whole(name: str) -> None:
    """The good JSON is in the text as it was, and what was added is told as invented."""
    fault = getattr(texts, name)(SEARCH, args={"query": "tea"})
    assert CLEAN in text_of(name, args={"query": "tea"})
    assert fault.invented[:1] == (CANARY,)


@pytest.mark.parametrize("name", ["fenced", "byte_order_mark", "extra_closing_bracket"])
def test_arguments_without_members_are_spoiled_as_they_are(name: str) -> None:
    """What needs no member of the text does not make one up: a lenient reader finds the good arguments."""
    assert "{}" in text_of(name, PING)
    assert CANARY not in text_of(name, PING)


@pytest.mark.parametrize("name", ["python_repr", "trailing_comma", "smart_quotes", "yaml"])
def test_a_member_is_made_up_where_none_can_be_spoiled(name: str) -> None:
    """What needs a member is made of one that the model invented, and is told so."""
    assert CANARY in text_of(name, PING)
    assert getattr(texts, name)(PING).invented[:1] == (CANARY,)


def test_the_union_is_spoiled_as_one_text() -> None:
    """In the content the whole union is the text, not the arguments in it."""
    fault = texts.trailing_comma(SEARCH, place="union", args={"query": "tea"})
    content: Any = fault.served
    target = Target.of(SEARCH, place="union", args={"query": "tea"})
    assert content["choices"][0]["message"]["content"] == f"{target.text(target.value)[:-1]},}}"


def test_a_text_that_is_accepted_is_not_made() -> None:
    """A tool without parameters takes an empty text for no arguments, so that is no fault of it."""
    assert not list(texts.empty_text.all_for(PING))
    assert list(texts.empty_text.all_for(SEARCH))
