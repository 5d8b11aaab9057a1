"""Recordings: what came is written, without secrets, and can be judged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.core import JSON, JSONObject
from strictreply.core.calls import REDACTED
from strictreply.testing import HTTPReply, WireEnding, error_reply, faults, ok
from strictreply.testing._recorder import RecordedExchange, RecordingFile
from strictreply.testing._recordings import Redaction
from strictreply.testing.recordings import ReplyTally, check_files
from support.cli.running import run_command
from support.streamed_replies import events
from support.testing.recorded_lines import lines_in


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


KEY = "sk-proj-abcDEF0123456789_-xyz"
TOOLS: list[JSON] = [sr.Tool.of(search).definition]
USER: list[JSON] = [{"role": "user", "content": "find tea"}]
REQUEST: JSONObject = {"model": "m", "messages": USER, "tools": TOOLS}
STREAMED: JSONObject = REQUEST | {"stream": True}
SSE = {"content-type": "text/event-stream"}
GOOD: Any = ok.reply(search).served
BAD: Any = faults.wrong_type(search, "limit").served
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
EXCHANGES = st.builds(
    RecordedExchange,
    st.dictionaries(st.sampled_from(["model", "messages", "stream", "x"]), VALUES),
    VALUES,
    st.builds(
        HTTPReply,
        st.sampled_from([200, 404, 429, 500]),
        st.dictionaries(
            st.sampled_from(["content-type", "retry-after"]), st.text("ab/;=1 ", max_size=9)
        ),
        st.binary(max_size=20).map(lambda body: (body,) if body else ()),
        st.sampled_from(WireEnding),
    ),
)


def plain(served: Any, request: JSONObject = REQUEST) -> RecordedExchange:
    """Take down a completion that came plainly."""
    assert not isinstance(served, HTTPReply)
    return RecordedExchange(request, served, HTTPReply.json(200, served))


def streamed(
    served: JSON, ending: WireEnding = WireEnding.WHOLE, keep: int | None = None
) -> RecordedExchange:
    """Take down a completion that came as events, of which the first few are kept."""
    body = b"".join(events(served)[:keep])
    return RecordedExchange(STREAMED, served, HTTPReply(200, SSE, (body,), ending))


@pytest.fixture
def recording(tmp_path: Path) -> RecordingFile:
    """An empty recording."""
    return RecordingFile(tmp_path / "shop.jsonl")


@given(one=EXCHANGES)
def test_redaction_leaves_alone_what_holds_no_secret(one: RecordedExchange) -> None:
    """A line without a secret is written as it came."""
    assert one.redacted(Redaction()) == one


@given(one=EXCHANGES)
def test_a_line_says_what_came(
    tmp_path_factory: pytest.TempPathFactory, one: RecordedExchange
) -> None:
    """Request, completion and HTTP stand in the line; its body, to the byte, unless a completion
    came whole and plain.
    """
    path = tmp_path_factory.mktemp("recordings") / "one.jsonl"
    RecordingFile(path).add(one)
    (line,) = lines_in(path)
    assert (line.request, line.response) == (one.request, one.completion)
    assert (line.status, line.headers) == (one.reply.status, dict(one.reply.headers))

    is_plain = one.reply.status == 200 and one.reply.ending is WireEnding.WHOLE
    says_all = is_plain and not one.request.get("stream") and isinstance(one.completion, dict)
    assert (line.ending, line.body) == (one.reply.ending.value, b"" if says_all else one.reply.body)


def test_lines_stand_in_order(recording: RecordingFile) -> None:
    """Each exchange is one line of the file, non-ASCII texts too."""
    lines = [plain(ok.answer(f"Tee für {number}\n\u2028\x85 zwei").served) for number in range(3)]
    for one in lines:
        recording.add(one)
    assert [one.response for one in lines_in(recording.path)] == [one.completion for one in lines]
    assert len(recording.path.read_bytes().split(b"\n")) == 4
    assert "für" in recording.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (plain(GOOD), sr.Valid),
        (streamed(GOOD), sr.Valid),
        (plain(BAD), "args.type"),
        (streamed(BAD), "args.type"),
        (plain({"error": {"message": "busy"}}), "envelope.error"),
        (plain({}), "envelope.choices"),
        (RecordedExchange(REQUEST, None, error_reply(429, "slow down")), "no reply: HTTP 429"),
        (
            RecordedExchange(REQUEST, None, HTTPReply(ending=WireEnding.RESET)),
            "no reply: the connection broke off",
        ),
        (
            RecordedExchange(REQUEST, None, HTTPReply(ending=WireEnding.HANG)),
            "no reply: nothing came in time",
        ),
        (
            RecordedExchange(STREAMED, None, HTTPReply(200, SSE, (b"data: ",), WireEnding.CUT)),
            "no reply: the response ended early",
        ),
        (
            RecordedExchange(REQUEST, None, HTTPReply(200, {}, (b"<html>",))),
            "no reply: the body is not a completion, response or message",
        ),
        (
            RecordedExchange(REQUEST, [1], HTTPReply.json(200, [1])),
            "no reply: the body is not a completion, response or message",
        ),
    ],
)
def test_every_line_is_judged_or_says_why_not(
    recording: RecordingFile, one: RecordedExchange, verdict: Any
) -> None:
    """A line has a verdict where a reply came, else the reason why there is none."""
    recording.add(one)
    invalid: list[JSONObject] = []
    tally = check_files([recording.path], into=ReplyTally(on_invalid=invalid.append))
    reasons = [line["reason"] for line in tally.unreadable]
    first_codes = [line["issues"][0]["code"] for line in invalid]
    accepted = [sr.Valid] * (tally.replies - tally.invalid)
    assert [*reasons, *first_codes, *accepted] == [verdict]


def test_the_command_reads_recordings(recording: RecordingFile) -> None:
    """``strictreply check`` judges what was recorded, streams too, and says of what has no reply
    why.
    """
    for one in (
        plain(GOOD),
        streamed(BAD),
        RecordedExchange(REQUEST, None, error_reply(429, "slow down")),
    ):
        recording.add(one)

    done = run_command("check", "--json", str(recording.path))
    told = json.loads(done.stdout)
    assert (done.exit_code, told["replies"], told["valid"], told["by_code"]) == (
        1,
        2,
        1,
        {"args.type": 1},
    )

    assert [(one["line"], one["reason"]) for one in told["unreadable"]] == [
        (3, "no reply: HTTP 429")
    ]
    assert told["by_tool"] == {"search": {"replies": 2, "invalid": 1}}


HIDDEN = [
    {"messages": [{"role": "user", "content": f"my key is {KEY}"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": f"my key is\n{KEY}"}]}]},
    {"metadata": {KEY: "1"}},
    {"metadata": {"api_key": "hunter2-hunter2"}},
    {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [{"function": {"arguments": '{"password": "hunter2-hunter2"}'}}],
            }
        ]
    },
    {"tools": [{"function": {"description": f"use {KEY}"}}]},
    {"messages": [{"role": "user", "content": "mine is own-key-hunter2"}]},
]


@pytest.mark.parametrize("request_", HIDDEN)
def test_no_secret_of_a_request_is_written(recording: RecordingFile, request_: JSONObject) -> None:
    """Keys in messages, in parts, in names, in JSON within arguments, and the client's own key are
    taken out.
    """
    recording.add(plain(GOOD, REQUEST | request_), secrets=("own-key-hunter2",))
    written = recording.path.read_text(encoding="utf-8")
    assert KEY not in written
    assert "hunter2" not in written
    assert REDACTED in written


def saying(secret: str, query: str = "tea") -> Any:
    """Make a reply in which the model repeats a secret.

    It is in the text, and perhaps in the arguments.
    """
    whole: Any = json.loads(json.dumps(ok.call(search, query=query).served))
    whole["choices"][0]["message"]["content"] = f"Your key: {secret}"
    return whole


@pytest.mark.parametrize("ending", WireEnding)
@pytest.mark.parametrize("keep", [None, -1, -2, 7])
def test_no_secret_of_a_stream_is_written_though_it_comes_in_pieces(
    recording: RecordingFile, ending: WireEnding, keep: int | None
) -> None:
    """A secret that is spread over events is taken out of the bytes as well, however the stream
    ended.
    """
    one = streamed(saying(KEY, KEY if keep is None else "tea"), ending, keep)
    recording.add(RecordedExchange(one.request, None, one.reply))
    written = recording.path.read_text(encoding="utf-8")
    assert not any(KEY[at : at + 6] in written for at in range(len(KEY) - 6))
    (again,) = lines_in(recording.path)
    assert again.ending == ending.value
    assert (b"[DONE]" in again.body) == (keep is None)


@pytest.mark.parametrize(
    "reply",
    [
        error_reply(401, f"Incorrect API key provided: {KEY}"),
        HTTPReply(500, {"retry-after": KEY}, (b"\xff\xfe " + KEY.encode(),)),
        HTTPReply(200, {}, (json.dumps(saying(KEY))[:-20].encode(),), WireEnding.RESET),
    ],
)
def test_no_secret_of_a_body_is_written(recording: RecordingFile, reply: HTTPReply) -> None:
    """Errors, bytes that are no text, broken bodies and headers hold none either."""
    recording.add(RecordedExchange(REQUEST, None, reply))
    (again,) = lines_in(recording.path)
    assert KEY.encode() not in again.body
    assert KEY not in str(again.headers)
    assert REDACTED.encode() in again.body


def test_the_users_redaction_is_given_every_text(tmp_path: Path) -> None:
    """The user's redaction is applied to every text of the request, the reply and the body."""
    recording = RecordingFile(
        tmp_path / "shop.jsonl", redact=lambda text: text.replace("tea", "t**")
    )
    recording.add(plain(saying("tea")))
    recording.add(streamed(saying("tea")))
    assert "tea" not in recording.path.read_text(encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mask", [0o000, 0o022])
@pytest.mark.parametrize("before", [None, 0o644, 0o666])
def test_v13_a_recording_is_its_owners_alone(tmp_path: Path, mask: int, before: int | None) -> None:
    """A recording is 0600 once a line was added, for any umask and any mode before."""
    path = tmp_path / "replies.jsonl"

    if before is not None:
        path.touch()
        path.chmod(before)

    old = os.umask(mask)
    try:
        RecordingFile(path).add(RecordedExchange({"messages": []}, None, HTTPReply()))
    finally:
        os.umask(old)

    assert path.stat().st_mode & 0o777 == 0o600
    assert len(lines_in(path)) == 1
