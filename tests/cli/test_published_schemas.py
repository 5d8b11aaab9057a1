"""``schemas/`` is what the code makes, and it holds what strictreply gives: no more and no less."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import strictreply as sr
from strictreply.testing._recordings import RecordedVerdict, RecordingJudge
from support.cli.running import Command
from support.loops import some
from support.openai_shapes import call, completion, message
from support.scripted import Client
from support.shared_data import SHARED, needs_shared

FOLDER = Path(__file__).resolve().parents[2] / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
CHECK = Draft202012Validator.FORMAT_CHECKER


def fits(name: str, value: object) -> bool:
    """Check a value against a published schema, as it stands in its file."""
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema, format_checker=CHECK).is_valid(
        json.loads(json.dumps(value))
    )


def test_the_files_are_what_the_code_makes(command: Command) -> None:
    """``python tools/write_schemas.py`` would change nothing: the command prints what is there."""
    assert SCHEMAS
    assert json.loads(command("schema").stdout) == SCHEMAS


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_is_a_schema_of_draft_2020_12(name: str) -> None:
    """Any validator of the draft accepts it: the dialect is named, and the metaschema holds."""
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_words_are_for_readers_of_any_language(name: str) -> None:
    """Only the whole has a title, and no description holds markup of Python's documentation."""
    parts = list(subschemas(SCHEMAS[name]))
    assert [part for part in parts[1:] if "title" in part] == []
    assert not any(
        mark in part.get("description", "") for part in parts for mark in ("``", ":class:", "None")
    )


def subschemas(value: object) -> Iterator[dict[str, Any]]:
    """Walk a schema and all schemas in it.

    A member that happens to be called like a keyword is not a schema.
    """
    if isinstance(value, dict):
        yield value
        for key, part in value.items():
            yield from subschemas(list(part.values()) if key in {"properties", "$defs"} else part)
    elif isinstance(value, list):
        for part in value:
            yield from subschemas(part)


@pytest.mark.parametrize("name", ["issue", "attempt"])
def test_every_member_is_described(name: str) -> None:
    """Each member of an issue and an attempt is described: what null means, where a path begins."""
    whole = SCHEMAS[name]
    values = [part for part in (whole, *whole.get("$defs", {}).values()) if "properties" in part]
    members = [pair for value in values for pair in value["properties"].items()]
    assert members
    assert [member for member, schema in members if not schema.get("description")] == []


def story() -> tuple[sr.Attempt, ...]:
    """Make real attempts: a fault, a failed transport, a scoped correction, an accepted reply."""
    bad = completion(message(calls=[call("search", '{"limit": "5", "x": 1}')]))
    good = completion(message(calls=[call("search", '{"query": "tea"}')]))
    policy = sr.RetryPolicy(wait=lambda _: 0.0)
    client = sr.wrap(Client(bad, TimeoutError(), bad, good), tools=[search], policy=policy)
    exchange: sr.Exchange = client.exchange(
        model="m", messages=[{"role": "user", "content": "find tea"}]
    )
    return exchange.attempts


ATTEMPT: dict[str, Any] = {
    "number": 1,
    "issues": [],
    "failure": None,
    "correction": None,
    "tier": 0,
    "scope": None,
    "escalation": None,
    "api": "chat",
    "observed": False,
    "lenient": [],
    "dropped_params": [],
    "stopped_early": None,
    "usage": {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "is_estimate": False,
    },
    "seconds": 0.0,
}
ISSUE = sr.Issue("json.empty", sr.Category.FORMAT_ERROR, "", "empty").to_dict()


@pytest.mark.parametrize("raw", [True, False])
def test_real_attempts_fit(raw: bool) -> None:
    """Every attempt of a real story fits, with the raw replies and without."""
    attempts = story()
    assert [bool(attempt.issues) for attempt in attempts] == [True, False, True, False]
    assert all(fits("attempt", attempt.to_dict(raw=raw)) for attempt in attempts)
    assert all(fits("issue", issue.to_dict()) for attempt in attempts for issue in attempt.issues)


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0},
        {"number": "1"},
        {"issues": [{"code": "x"}]},
        {"issues": None},
        {"usage": {}},
        {"seconds": -1},
        {"tier": -1},
        {"failure": 5},
        {"request": None},
        {"another": 1},
    ],
)
def test_what_is_no_attempt_does_not_fit(change: dict[str, Any]) -> None:
    """A member of another kind, out of range, or that nobody knows is refused; and each that is
    needed is.
    """
    assert fits("attempt", ATTEMPT)
    assert not fits("attempt", ATTEMPT | change)
    for name in ATTEMPT:
        assert not fits("attempt", {key: value for key, value in ATTEMPT.items() if key != name})


@pytest.mark.parametrize(
    "change",
    [
        {"category": "OTHER"},
        {"path": "tool_calls/0"},
        {"found": "x" * 121},
        {"code": ""},
        {"more": ""},
    ],
)
def test_what_is_no_issue_does_not_fit(change: dict[str, str]) -> None:
    """An unknown category, a path that is no pointer, an excerpt too long or another member is
    refused.
    """
    assert fits("issue", ISSUE)
    assert not fits("issue", ISSUE | change)


def test_every_code_and_category_fits() -> None:
    """Each fault of the table can be told as JSON."""
    for code in some(sr.Code):
        assert fits(
            "issue",
            sr.Issue(code.value, code.category, "/a~1b/0", "words", "hint", '"found"').to_dict(),
        )


@sr.tool
def search(query: str) -> str:
    """Search."""
    return query


TEXT = sr.Contract(tools=[search], channel="text")
NATIVE = sr.Contract(tools=[search], parallel=True, dialects="strict")


@pytest.mark.parametrize(
    "reply",
    [
        {"tool": "search", "args": {"query": "tea"}},
        {"answer": "42"},
        {"answer": ""},
        {"answer": " "},
        {"answer": 42},
        {"answer": "42", "tool": "search", "args": {"query": "tea"}},
        {"tool": "search", "args": {"query": "tea"}, "id": "1"},
        {"tool": "search"},
        {"tool": "", "args": {}},
        {"tool": 5, "args": {}},
        {"tool": "search", "args": []},
        {},
        [],
        "text",
        None,
    ],
)
@pytest.mark.req("T3")
def test_the_text_union_agrees_with_the_contract(reply: object) -> None:
    """The published union and a contract give the same verdict on the shape of a reply."""
    assert fits("assistant-reply.text", reply) is isinstance(
        TEXT.check(json.dumps(reply)), sr.Valid
    )


@pytest.mark.parametrize(
    "reply",
    [
        message("hello"),
        message("hello", tool_calls=[]),
        message("hello", tool_calls=None, refusal=None, function_call=None, annotations=[]),
        message("", [call("search", '{"query": "tea"}')]),
        message(
            None, [call("search", '{"query": "tea"}', "a"), call("search", '{"query": "tea"}', "b")]
        ),
        message(None, [call("search", '{"query": "tea"}') | {"type": None}]),
        message("hello", refusal="no"),
        message("hello", function_call={"name": "search", "arguments": "{}"}),
        message("  "),
        message(None),
        message(5),
        message("hello") | {"role": "user"},
        message(None, [call("search", '{"query": "tea"}', "")]),
        message(None, [call("search", '{"query": "tea"}', None)]),
        message(None, [call("search", {"query": "tea"}) | {"type": "custom"}]),
        message(None, [{"id": "a", "function": {"name": "search", "arguments": {"query": "tea"}}}]),
        message(None, [{"id": "a", "type": "function"}]),
        message(None, [5]),
        message(None, tool_calls=5),
    ],
)
def test_the_native_message_agrees_with_the_contract(reply: dict[str, Any]) -> None:
    """The published message and a contract give one verdict where only the shape is at stake."""
    assert fits("assistant-reply.native", reply) is isinstance(NATIVE.check(reply), sr.Valid)


@pytest.mark.parametrize(
    "reply",
    [
        sr.ToolCall("search", {"query": "tea"}, "call_1"),
        sr.ToolCall("search", {"query": "tea"}),
        sr.ToolCalls((sr.ToolCall("a", {}, "1"), sr.ToolCall("b", {}, "2"))),
        sr.DirectAnswer("42"),
        sr.DirectAnswer({"total": 1}),
    ],
)
def test_the_typed_union_fits_as_it_is_given(reply: sr.AssistantReply) -> None:
    """The JSON of ``to_dict``, which ``strictreply ask`` prints, fits the schema, and no other JSON
    does.
    """
    assert fits("assistant-reply", reply.to_dict())
    assert not fits("assistant-reply", reply.to_dict() | {"more": 1})
    assert not fits("assistant-reply", {})


@needs_shared
def test_recorded_replies_fit() -> None:
    """Every accepted recorded reply fits the schemas of replies, every fault that of an issue."""
    judge = RecordingJudge()
    with gzip.open(SHARED / "corpus" / "replies.jsonl.gz") as file:
        judged = [judge.judge(number, line) for number, line in enumerate(islice(file, 400), 1)]

    checked = [each for each in judged if isinstance(each, RecordedVerdict)]
    faults = [
        issue
        for each in checked
        if isinstance(each.verdict, sr.Invalid)
        for issue in each.verdict.issues
    ]
    valid = [
        (each.recording, each.verdict.reply)
        for each in checked
        if isinstance(each.verdict, sr.Valid)
    ]
    native = [
        recording.response["choices"][0]["message"]
        for recording, _ in valid
        if recording.channel == "native"
    ]
    assert all((faults, valid, native))

    assert all(fits("issue", issue.to_dict()) for issue in faults)
    assert all(fits("assistant-reply", reply.to_dict()) for _, reply in valid)
    assert all(fits("assistant-reply.native", message) for message in native)
