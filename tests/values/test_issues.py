"""One table of codes, and issues whose words are ours.

Excerpts of what a model wrote cannot harm.
"""

from __future__ import annotations

import json
import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category, Code, Issue, Remedy
from strictreply.coordination import AgentReplyCode
from strictreply.core.text import capped, pointer, pointer_tokens, quote
from strictreply.values._issues import json_words

WORDS: dict[str, Any] = {
    "line": 1,
    "column": 2,
    "limit": 3,
    "name": "n",
    "names": "a, b",
    "expected": "an object",
    "what": "a piece belongs to two calls",
}


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_words_category_and_remedy(code: Code) -> None:
    """A code is dotted and lower-case; its template takes known words, and says what to do."""
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", code.value)
    assert code.template
    fields = {name for _, name, _, _ in string.Formatter().parse(code.template) if name}
    assert fields <= WORDS.keys()
    issue = Issue.of(code, "/x", **{name: WORDS[name] for name in fields})
    assert (issue.code, issue.category, issue.remedy) == (code.value, code.category, code.remedy)
    assert "{" not in issue.message.replace('{"id"', "")


@pytest.mark.parametrize("code", list(AgentReplyCode))
def test_every_code_of_agents_has_words_and_category(code: AgentReplyCode) -> None:
    """A code of coordination is worded and filled like the core's, and is corrected."""
    assert re.fullmatch(r"(action|topology|format)\.[a-z_]+", code.value)
    assert code.value not in set(map(str, Code))
    fields = {name for _, name, _, _ in string.Formatter().parse(code.template) if name}
    assert fields <= WORDS.keys()
    issue = code.at("/x", **{name: str(WORDS[name]) for name in fields})
    assert (issue.code, issue.category, issue.remedy) == (code.value, code.category, Remedy.CORRECT)
    assert "{" not in issue.message


def test_remedies_follow_from_the_code() -> None:
    """Cuts are shortened, broken envelopes resent, refusals and double meanings end the call."""
    special = {code for code in Code if code.remedy is not Remedy.CORRECT}
    assert {code.value: code.remedy for code in special} == {
        "reply.truncated": Remedy.SHORTEN,
        "reply.refusal": Remedy.STOP,
        "reply.content_filter": Remedy.STOP,
        "reply.broken_off": Remedy.RESEND,
        "reply.paused": Remedy.RESEND,
        "envelope.malformed": Remedy.RESEND,
        "envelope.ambiguous": Remedy.STOP,
        "envelope.choices": Remedy.RESEND,
        "envelope.error": Remedy.RESEND,
    }

    assert Issue("my.own", Category.UNKNOWN, "", "x").remedy is Remedy.CORRECT


@given(st.lists(st.text() | st.integers(0, 9)))
def test_pointers_go_there_and_back(tokens: list[str | int]) -> None:
    """A JSON Pointer holds any names and indices, escaped as RFC 6901 asks."""
    assert pointer_tokens(pointer("", *tokens)) == [str(token) for token in tokens]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON | st.binary() | st.integers(min_value=10**4_000))
def test_excerpts_are_short_ascii_on_one_line(value: Any) -> None:
    """An excerpt of any text is printable ASCII of at most 120 characters."""
    shown = quote(value)
    assert shown.isascii()
    assert shown.isprintable()
    assert 0 < len(shown) <= 120


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("é\n\x1b", '"\\u00e9\\n\\u001b"'),
        ({"a": 1, "b": 2}, "an object with 2 keys"),
        ([1] * 5, "an array of 5 items"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (10**500, '"a long integer"'),
        (b"x", '"bytes"'),
    ],
)
def test_an_excerpt_says_what_was_there(value: Any, shown: str) -> None:
    """Texts escaped, containers by kind and size, numbers as they are."""
    assert quote(value) == shown


def test_an_issue_is_json() -> None:
    """``to_dict`` gives strings only; what the model wrote is not in the repr."""
    issue = Issue.of(Code.SHAPE_NOT_OBJECT, "/a", hint="h", found='"evil"')
    assert json.loads(json.dumps(issue.to_dict())) == {
        "code": "shape.not_object",
        "category": "FORMAT_ERROR",
        "path": "/a",
        "message": "must be a JSON object",
        "hint": "h",
        "found": '"evil"',
    }

    assert "evil" not in repr(issue)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("", ""),
        ("/args/limit", "/args/limit"),
        ("/args/", '/args/""'),
        ("/", '/""'),
        ("/a~1b/0/*", '/"a/b"/0/*'),
        ("/a b/c.d/e~0f", '/"a b"/"c.d"/"e~f"'),
        ("/a/b/c/d/e/f/g", "…/b/c/d/e/f/g"),
    ],
)
def test_a_step_of_a_place_is_a_word_or_json(path: str, shown: str) -> None:
    """A pointer is shown with each odd name in quotes, an empty one too, and a deep place by its
    end (C2).
    """
    assert Issue.of(Code.SHAPE_EMPTY, path).place == (shown or "/")


@pytest.mark.parametrize("limit", range(3, 60))
def test_no_escape_is_split(limit: int) -> None:
    """A value of the schema is cut before an escape or behind it, a pair of surrogates counting as
    one.
    """
    written = json_words('\x1b\u202e\U000e0001a\\"' * 9)
    kept = capped(written, limit).removesuffix("…")
    assert len(kept) < limit
    assert written.startswith(kept)
    assert ('\x1b\u202e\U000e0001a\\"' * 9).startswith(json.loads(f'{kept}"'))
