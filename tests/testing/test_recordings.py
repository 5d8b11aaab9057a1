"""Recorded replies: which layouts are read, and that what cannot be read is told by its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from strictreply import DirectAnswer, Invalid, ToolCall, ToolCalls, Valid
from strictreply.batch.lines import open_lines
from strictreply.testing._recordings import (
    RecordedVerdict,
    Recording,
    RecordingJudge,
    UnreadableLine,
    read_line,
)
from support.openai_shapes import call, completion, message

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    },
}
ANSWER = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "invoice", "schema": ANSWER}}
GOOD = completion(message(None, [call("search", {"query": "x"})]))
FOUND = Valid(ToolCall("search", {"query": "x"}, "call_1"))


def judged(record: object, judge: RecordingJudge | None = None) -> RecordedVerdict:
    """RecordingJudge one readable record."""
    checked = (judge or RecordingJudge()).judge(1, json.dumps(record).encode())
    assert isinstance(checked, RecordedVerdict)
    return checked


@pytest.mark.parametrize(
    "record",
    [
        {"request": {"model": "m", "tools": [SEARCH], "messages": []}, "response": GOOD},
        {"model": "m", "messages": [], "tools": [SEARCH], "completion": GOOD},
        {"messages": [], "tools": [SEARCH], "output": GOOD},
        {"messages": [], "tools": [SEARCH], **GOOD},
    ],
    ids=["request and response", "messages and completion", "output", "all in one"],
)
def test_dumps_of_completions(record: dict[str, Any]) -> None:
    """A request and its response side by side are judged by the tools of the request."""
    checked = judged(record)
    assert checked.verdict == FOUND
    assert (checked.line, checked.recording.called) == (1, "search")
    assert checked.recording.model == "scripted"


def test_a_bare_completion_is_judged_by_the_tools_given() -> None:
    """A completion that was recorded without its request needs tools from elsewhere."""
    checked = judged(GOOD, RecordingJudge([SEARCH]))
    assert (checked.verdict, checked.recording.called) == (FOUND, "search")
    assert isinstance(judged(GOOD).verdict, Invalid)
    assert judged(completion(message("hi"))).verdict == Valid(DirectAnswer("hi"))


def test_tools_given_do_not_replace_recorded_ones() -> None:
    """The tools of the request itself come first."""
    record = {"tools": [SEARCH], "completion": GOOD}
    assert judged(record, RecordingJudge([{"name": "other"}])).verdict == FOUND


def test_the_answer_that_was_asked_for() -> None:
    """A ``response_format`` with a schema is the contract of the recorded answer."""
    request = {"messages": [], "response_format": FORMAT}
    good, bad = (
        {"request": request, "response": completion(message(text))}
        for text in ('{"total":1}', "one")
    )
    assert judged(good).verdict == Valid(DirectAnswer({"total": 1}))
    assert isinstance(judged(bad).verdict, Invalid)


@pytest.mark.parametrize(
    ("keyword", "value", "fits"),
    [
        ("tool_choice", "required", False),
        ("tool_choice", {"type": "function", "function": {"name": "search"}}, False),
        ("tool_choice", "auto", True),
        ("response_format", {"type": "json_object"}, False),
        ("response_format", {"type": "text"}, True),
    ],
)
def test_the_request_shapes_the_verdict(keyword: str, value: object, fits: bool) -> None:
    """A recording is held to the demands of its recorded request."""
    request = {"messages": [], "tools": [SEARCH], keyword: value}
    checked = judged({"request": request, "response": completion(message("hi"))})
    assert isinstance(checked.verdict, Valid if fits else Invalid)


@pytest.mark.parametrize(("parallel", "fits"), [(None, True), (True, True), (False, False)])
def test_several_calls_are_recorded_unless_the_request_said_no(
    parallel: object, fits: bool
) -> None:
    """Servers and recordings may give several calls unless ``parallel_tool_calls`` is false."""
    several = completion(message(None, [call("search", {"query": "x"}, id_) for id_ in ("a", "b")]))
    record = {"request": {"tools": [SEARCH], "parallel_tool_calls": parallel}, "response": several}
    assert isinstance(judged(record).verdict, Valid if fits else Invalid)


@pytest.mark.parametrize("arguments", ['{"query": "x"}', {"query": "x"}], ids=["text", "parsed"])
def test_records_with_a_reply(arguments: object) -> None:
    """A record with ``mode``, ``tools`` and ``reply`` is read as the message it tells of; calls get
    ids.
    """
    record = {
        "model": "m",
        "mode": "tools",
        "tools": [SEARCH],
        "finish_reason": None,
        "reply": {"tool_calls": [{"name": "search", "arguments": arguments}] * 2},
    }
    calls = tuple(ToolCall("search", {"query": "x"}, id_) for id_ in ("call_1", "call_2"))
    assert judged(record).verdict == Valid(ToolCalls(calls))


def test_records_of_other_modes() -> None:
    """Calls written as text are judged as the text channel, contents by the schema they were asked
    by.
    """
    written = {
        "mode": "text_calls",
        "tools": [SEARCH],
        "reply": {"content": '{"tool":"search","args":{"query":"x"}}'},
    }
    assert judged(written).verdict == Valid(ToolCall("search", {"query": "x"}))
    content = {"mode": "content", "response_schema": ANSWER, "reply": {"content": '{"total": 2}'}}
    assert judged(content).verdict == Valid(DirectAnswer({"total": 2}))


def test_a_cut_record_is_judged_as_cut() -> None:
    """The recorded finish reason counts."""
    verdict = judged({"finish_reason": "length", "reply": {"content": "so f"}}).verdict
    assert isinstance(verdict, Invalid)
    assert [issue.code for issue in verdict.issues] == ["reply.truncated"]


@pytest.mark.parametrize(
    ("reply", "called"),
    [
        (completion(message("hi")), "-"),
        (completion(message(None, [call("CANARY", {})])), "(unknown tool)"),
        (completion(message(None, [call(["search"], {})])), "-"),
        (completion(message(None, ["search"])), "-"),
        (message(None, [call("search", {})]), "search"),
        (completion(message(None, tool_calls="search")), "-"),
        ({"choices": []}, "-"),
        ({"choices": "search"}, "-"),
    ],
)
def test_the_tool_that_was_called(reply: dict[str, Any], called: str) -> None:
    """Only a declared name is shown in a table."""
    assert Recording("m", {}, reply, declared=frozenset({"search"})).called == called


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b'{"choices": [',
        b'{"choices": [], "choices": []}',
        b"[1, 2]",
        b'"text"',
        b"{}",
        b'{"request": {}, "response": null}',
        b'{"reply": "text"}',
        b"\xff\xfe",
        b"[" * 1000,
    ],
)
def test_unreadable_lines(line: bytes) -> None:
    """A line without a recorded reply is reported by its number, with a reason."""
    unreadable = read_line(7, line)
    assert isinstance(unreadable, UnreadableLine)
    assert unreadable.line == 7
    assert unreadable.reason


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": [{"name": "bad name"}]},
        {"tools": [3]},
        {"tool_choice": "required"},
        {"functions": [SEARCH["function"]]},
        {"response_format": {"type": "xml"}},
    ],
)
def test_requests_that_make_no_contract(request_: dict[str, Any]) -> None:
    """A recorded request that no verdict could honour is reported, and does not end the reading."""
    unreadable = RecordingJudge().judge(
        3, json.dumps({"request": request_, "response": GOOD}).encode()
    )
    assert isinstance(unreadable, UnreadableLine)
    assert unreadable.line == 3


def test_an_unreadable_line_is_not_judged() -> None:
    """A judge passes on what is no recording."""
    assert isinstance(RecordingJudge().judge(2, b"[]"), UnreadableLine)


def test_odd_calls_are_left_to_the_contract() -> None:
    """A recorded call that is no object, or has the API's own shape, is judged as it is."""
    odd = {"tools": [SEARCH], "reply": {"tool_calls": ["search"]}}
    assert isinstance(judged(odd).verdict, Invalid)
    whole = {"tools": [SEARCH], "reply": {"tool_calls": [call("search", {"query": "x"})]}}
    assert judged(whole).verdict == FOUND


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_files(tmp_path: Path, packed: bool) -> None:
    """Lines are numbered from 1, blank ones counted but passed over, packed or not; a missing end
    of line is none.
    """
    data = b'{"a":1}\n\n  \r\n{"b":2}\nlast'
    path = tmp_path / "replies.jsonl"
    path.write_bytes(gzip.compress(data) if packed else data)
    lines = list(open_lines(path))
    assert [(number, line.strip()) for number, line, _ in lines] == [
        (1, b'{"a":1}'),
        (4, b'{"b":2}'),
        (5, b"last"),
    ]

    assert lines[-1][2] == path.stat().st_size


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    """A file whose packing ends early or is broken is an error of the file, not a short list of
    replies.
    """
    path = tmp_path / "replies.jsonl.gz"
    whole = gzip.compress(b'{"a":1}\n' * 1000)
    for damaged in (whole[:-20], whole[:20] + b"damage" + whole[26:], whole[:-8] + bytes(8)):
        path.write_bytes(damaged)
        with pytest.raises(gzip.BadGzipFile):
            list(open_lines(path))


def test_each_set_of_tools_is_compiled_once() -> None:
    """Records that ask the same share one contract."""
    judge = RecordingJudge()
    for query in ("x", "y"):
        assert isinstance(
            judged({"tools": [SEARCH], "completion": GOOD, "query": query}, judge).verdict, Valid
        )
    assert len(judge._contracts) == 1


@pytest.mark.parametrize(
    ("http", "reason"),
    [
        ({"status": 429}, "no reply: HTTP 429"),
        ({"status": 500, "ending": "cut"}, "no reply: HTTP 500"),
        ({"status": 200, "ending": "cut"}, "no reply: the response ended early"),
        ({"status": 200, "ending": "reset"}, "no reply: the connection broke off"),
        ({"status": 200, "ending": "hang"}, "no reply: nothing came in time"),
        (
            {"status": 200, "ending": "whole"},
            "no reply: the body is not a completion, response or message",
        ),
        (
            {"status": None, "ending": ["x"]},
            "no reply: the body is not a completion, response or message",
        ),
        ({}, "no reply: the body is not a completion, response or message"),
        ([], "no completion, response or message, and no record with one"),
    ],
)
def test_a_recording_says_what_came_in_place_of_a_reply(http: object, reason: str) -> None:
    """A recorded exchange without a completion is told by its HTTP status, or by how it ended."""
    line = {"request": {"messages": [], "tools": [SEARCH]}, "response": None, "http": http}
    assert read_line(3, json.dumps(line).encode()) == UnreadableLine(3, reason)


def test_a_batch_file_is_told_by_its_lines() -> None:
    """The line of a provider's batch names the command that judges it."""
    line = {"custom_id": "a", "result": {"type": "succeeded", "message": {"type": "message"}}}
    found = read_line(1, json.dumps(line).encode())
    assert isinstance(found, UnreadableLine)
    assert "strictreply batch validate" in found.reason


def test_what_came_with_200_is_judged_whatever_it_is() -> None:
    """An app was given it as a reply: an error in place of one is a verdict, not an unreadable
    line.
    """
    line = {
        "request": {"messages": []},
        "response": {"error": {"message": "busy"}},
        "http": {"status": 200},
    }
    verdict = judged(line).verdict
    assert isinstance(verdict, Invalid)
    assert verdict.issues[0].code == "envelope.error"
