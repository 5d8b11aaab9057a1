"""Cassettes: what is written comes back, without secrets.

What did not fit is a fault; what is damaged says where.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import strictreply as sr
from strictreply.batch._results import open_lines
from strictreply.cli._app import app
from strictreply.testing import faults, ok
from strictreply.testing._cassettes import Cassette, Taken, replay
from strictreply.testing._event_streams import events
from strictreply.testing._recordings import (
    REDACTED,
    RecordedVerdict,
    RecordingJudge,
    Redaction,
    UnreadableLine,
)
from strictreply.testing._steps import Fault, Kind, Target
from strictreply.testing._wire import HTTPReply, Served, WireEnding, error_reply
from strictreply.values._limits import JSON, JSONObject


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


KEY = "sk-proj-abcDEF0123456789_-xyz"
TOOLS: list[JSON] = [sr.Tool.of(search).definition]
USER: list[JSON] = [{"role": "user", "content": "find tea"}]
REQUEST: JSONObject = {"model": "m", "messages": USER, "tools": TOOLS}
STREAMED: JSONObject = REQUEST | {"stream": True}
SSE = {"content-type": "text/event-stream"}
GOOD = Target.of(search).clean
BAD: Any = faults.wrong_type(search, "limit").served
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
TAKEN = st.builds(
    Taken,
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


def taken(served: Served, request: JSONObject = REQUEST) -> Taken:
    """Take down a completion that came plainly."""
    assert not isinstance(served, HTTPReply)
    return Taken(request, served, HTTPReply.json(200, served))


def streamed(served: JSON, ending: WireEnding = WireEnding.WHOLE, keep: int | None = None) -> Taken:
    """Take down a completion that came as events, of which the first few are kept."""
    body = b"".join(events(served)[:keep])
    return Taken(STREAMED, served, HTTPReply(200, SSE, (body,), ending))


@pytest.fixture
def cassette(tmp_path: Path) -> Cassette:
    """An empty cassette."""
    return Cassette(tmp_path / "shop.jsonl")


@given(one=TAKEN)
def test_a_line_reads_as_it_was_written(one: Taken) -> None:
    """Request, completion and what is served survive the way through JSON."""
    again = Taken.from_dict(json.loads(json.dumps(one.to_dict())))
    assert (again.request, again.completion, again.served) == (
        one.request,
        one.completion,
        one.served,
    )
    assert again.to_dict() == one.to_dict()


@given(one=TAKEN)
def test_redaction_leaves_alone_what_holds_no_secret(one: Taken) -> None:
    """A line without a secret is written as it came."""
    assert one.redacted(Redaction()) == one


def test_lines_come_back_in_order(cassette: Cassette) -> None:
    """Added exchanges are read again, non-ASCII texts too; each is one line of the file."""
    lines = [taken(ok.answer(f"Tee für {number}\n\u2028\x85 zwei").served) for number in range(3)]
    for one in lines:
        cassette.add(one)
    assert [one.served for one in cassette] == [one.served for one in lines]
    assert len(cassette.path.read_bytes().split(b"\n")) == 4
    assert "für" in cassette.path.read_text(encoding="utf-8")


def test_an_empty_file_holds_nothing_and_a_missing_one_is_missing(cassette: Cassette) -> None:
    """Reading before anything was written is the system's own error."""
    with pytest.raises(FileNotFoundError):
        list(cassette)
    cassette.path.touch()
    assert (list(cassette), cassette.steps, cassette.failures()) == ([], [], [])


@pytest.mark.parametrize(
    "line",
    [
        "{broken",
        "[]",
        "5",
        "{}",
        '{"request": {}, "response": null}',
        '{"request": [], "http": {}}',
        '{"request": {}, "http": {"status": "many"}}',
        '{"request": {}, "http": {"status": null}}',
        '{"request": {}, "http": {"headers": 5}}',
        '{"request": {}, "http": {"headers": ["a"]}}',
        '{"request": {}, "http": {"ending": "burnt"}}',
        '{"request": {}, "http": {"ending": []}}',
        '{"request": {}, "http": {"body_base64": "é"}}',
        '{"request": {}, "request": {}, "http": {}}',
        "[" * 5000,
    ],
)
@pytest.mark.parametrize(
    "read", [list, lambda one: one.steps, lambda one: one.failures(), lambda one: replay(one.path)]
)
def test_a_damaged_line_is_told_by_its_number(
    cassette: Cassette, line: str, read: Callable[[Cassette], Any]
) -> None:
    """A line that is not a cassette's is a ValueError with its number."""
    cassette.add(taken(GOOD))
    with cassette.path.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(ValueError, match=r"shop\.jsonl, line 3: "):
        read(cassette)


def test_steps_serve_what_was_recorded(cassette: Cassette) -> None:
    """A whole plain reply is served as a completion, anything else byte by byte; the source finds
    it again.
    """
    lines = [taken(GOOD), streamed(GOOD), Taken(REQUEST, None, error_reply(429, "slow down"))]
    for one in lines:
        cassette.add(one)
    assert [step.served for step in cassette.steps] == [one.served for one in lines]
    assert cassette.steps[0].served == GOOD
    for step in cassette.steps:
        assert eval(step.source, {"Cassette": Cassette}) == step  # noqa: S307 - our own words


def test_failures_are_the_replies_that_do_not_fit(cassette: Cassette) -> None:
    """Each has the code of the strict gate, its kind and place; good replies and HTTP errors are
    none.
    """
    for one in (
        taken(GOOD),
        taken(BAD),
        Taken(REQUEST, None, error_reply(500, "no")),
        streamed(BAD),
        taken(ok.answer("Hello").served, REQUEST | {"tool_choice": "required"}),
        taken({"error": {"message": "busy"}}),
    ):
        cassette.add(one)

    found = cassette.failures()
    assert [(one.name, one.kind, one.code, one.place) for one in found] == [
        ("recorded[2]", Kind.ARGS, "args.type", "call"),
        ("recorded[4]", Kind.ARGS, "args.type", "call"),
        ("recorded[5]", Kind.TOOL, "tool.required", "prose"),
        ("recorded[6]", Kind.ENVELOPE, "envelope.error", "prose"),
    ]
    assert [one.needs for one in found] == [{}, {}, {"tool_choice": "required"}, {}]

    for fault in found:
        assert isinstance(fault, Fault)
        assert eval(fault.source, {"Cassette": Cassette}) == fault  # noqa: S307 - our own words


def test_tools_stand_in_where_none_were_recorded(cassette: Cassette) -> None:
    """A recording without tools is judged by those given, and the source says them."""
    cassette.add(taken(BAD, {"model": "m", "messages": USER}))
    assert [one.code for one in cassette.failures()] == ["tool.unknown"]
    (found,) = cassette.failures([search])
    assert (found.code, found.source) == (
        "args.type",
        f"Cassette({str(cassette.path)!r}).failures([search])[0]",
    )


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (taken(GOOD), sr.Valid),
        (streamed(GOOD), sr.Valid),
        (taken(BAD), "args.type"),
        (streamed(BAD), "args.type"),
        (taken({"error": {"message": "busy"}}), "envelope.error"),
        (taken({}), "envelope.choices"),
        (Taken(REQUEST, None, error_reply(429, "slow down")), "no reply: HTTP 429"),
        (
            Taken(REQUEST, None, HTTPReply(ending=WireEnding.RESET)),
            "no reply: the connection broke off",
        ),
        (Taken(REQUEST, None, HTTPReply(ending=WireEnding.HANG)), "no reply: nothing came in time"),
        (
            Taken(STREAMED, None, HTTPReply(200, SSE, (b"data: ",), WireEnding.CUT)),
            "no reply: the response ended early",
        ),
        (
            Taken(REQUEST, None, HTTPReply(200, {}, (b"<html>",))),
            "no reply: the body is neither a completion nor a response",
        ),
        (
            Taken(REQUEST, [1], HTTPReply.json(200, [1])),
            "no reply: the body is neither a completion nor a response",
        ),
    ],
)
def test_every_line_is_judged_or_says_why_not(cassette: Cassette, one: Taken, verdict: Any) -> None:
    """A line has a verdict where a reply came, else the reason why there is none."""
    cassette.add(one)
    ((number, line, _),) = open_lines(cassette.path)
    judged = RecordingJudge().judge(number, line)
    if isinstance(judged, UnreadableLine):
        assert judged.reason == verdict
    elif isinstance(judged.verdict, sr.Invalid):
        assert judged.verdict.issues[0].code == verdict
    else:
        assert isinstance(judged, RecordedVerdict)
        assert verdict is sr.Valid


def test_the_command_reads_cassettes(cassette: Cassette) -> None:
    """``strictreply check`` judges what was recorded, streams too, and says of what has no reply
    why.
    """
    for one in (taken(GOOD), streamed(BAD), Taken(REQUEST, None, error_reply(429, "slow down"))):
        cassette.add(one)

    done = CliRunner().invoke(app, ["check", "--json", str(cassette.path)])
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
def test_no_secret_of_a_request_is_written(tmp_path: Path, request_: JSONObject) -> None:
    """Keys in messages, in parts, in names, in JSON within arguments, and the client's own key are
    taken out.
    """
    cassette = Cassette(tmp_path / "shop.jsonl", secrets=("own-key-hunter2",))
    cassette.add(taken(GOOD, REQUEST | request_))
    written = cassette.path.read_text(encoding="utf-8")
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
    cassette: Cassette, ending: WireEnding, keep: int | None
) -> None:
    """A secret that is spread over events is taken out of the bytes as well, however the stream
    ended.
    """
    one = streamed(saying(KEY, KEY if keep is None else "tea"), ending, keep)
    cassette.add(Taken(one.request, None, one.reply))
    written = cassette.path.read_text(encoding="utf-8")
    assert not any(KEY[at : at + 6] in written for at in range(len(KEY) - 6))
    (again,) = cassette
    assert again.reply.ending is ending
    assert (b"[DONE]" in again.reply.body) == (keep is None)


@pytest.mark.parametrize(
    "reply",
    [
        error_reply(401, f"Incorrect API key provided: {KEY}"),
        HTTPReply(500, {"retry-after": KEY}, (b"\xff\xfe " + KEY.encode(),)),
        HTTPReply(200, {}, (json.dumps(saying(KEY))[:-20].encode(),), WireEnding.RESET),
    ],
)
def test_no_secret_of_a_body_is_written(cassette: Cassette, reply: HTTPReply) -> None:
    """Errors, bytes that are no text, broken bodies and headers hold none either."""
    cassette.add(Taken(REQUEST, None, reply))
    (again,) = cassette
    assert KEY.encode() not in again.reply.body
    assert KEY not in str(again.reply.headers)
    assert REDACTED.encode() in again.reply.body


def test_the_users_redaction_is_given_every_text(tmp_path: Path) -> None:
    """The user's redaction is applied to every text of the request, the reply and the body."""
    cassette = Cassette(tmp_path / "shop.jsonl", redact=lambda text: text.replace("tea", "t**"))
    cassette.add(taken(saying("tea")))
    cassette.add(streamed(saying("tea")))
    assert "tea" not in cassette.path.read_text(encoding="utf-8")


def test_replay_serves_the_same_request_the_same(cassette: Cassette) -> None:
    """Each request gets what was recorded for it; several of one request come in order, the last
    one stays.
    """
    other = REQUEST | {"temperature": 0.5}
    for one in (taken(BAD), taken(ok.answer("other").served, other), taken(GOOD)):
        cassette.add(one)
    respond = replay(cassette.path)
    given = [respond(dict(reversed(REQUEST.items()))) for _ in range(3)]
    assert given == [BAD, GOOD, GOOD]
    assert respond(other) == ok.answer("other").served


def test_replay_says_what_was_not_recorded(cassette: Cassette) -> None:
    """Another request is a 400 with a code of its own."""
    cassette.add(taken(GOOD))
    given = replay(cassette.path)(REQUEST | {"model": "other"})
    assert isinstance(given, HTTPReply)
    assert (given.status, json.loads(given.body)["error"]["code"]) == (400, "not_recorded")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (REQUEST | {"model": "other"}, ["model"]),
        (REQUEST | {"seed": None, "temperature": 0.5}, ["seed"]),
        ({"messages": []}, ["messages", "model"]),
    ],
)
def test_replay_says_how_the_nearest_recording_differs(
    cassette: Cassette, asked: JSONObject, told: list[str]
) -> None:
    """The message names the members that differ from the recording with the most in common, and no
    others.
    """
    for request in ({"model": "far"}, REQUEST, REQUEST | {"temperature": 0.5}):
        cassette.add(taken(GOOD, request))
    assert refusal(cassette, asked).endswith(f" differs in {', '.join(told)}")


def test_replay_asks_for_redaction_where_there_was_some(cassette: Cassette) -> None:
    """Requests that differ by what was taken out are explained; an empty cassette is called so."""
    cassette.path.touch()
    assert "empty" in refusal(cassette, REQUEST)
    cassette.add(taken(GOOD, REQUEST | {"user": KEY}))
    assert "redact=" in refusal(cassette, REQUEST | {"user": "Ada"})


def refusal(cassette: Cassette, request: JSONObject) -> str:
    """Ask for what was not recorded, and give the message of the error."""
    given = replay(cassette.path)(request)
    assert isinstance(given, HTTPReply)
    return str(json.loads(given.body)["error"]["message"])


def test_replay_knows_a_request_by_what_was_written_of_it(tmp_path: Path) -> None:
    """A request with secrets in it is found again, with the user's own redaction when that is given
    too.
    """

    def hide(text: str) -> str:
        """Take out a name."""
        return text.replace("Ada", "somebody")

    cassette = Cassette(tmp_path / "shop.jsonl", redact=hide)
    request = REQUEST | {"messages": [{"role": "user", "content": f"I am Ada, my key is {KEY}"}]}
    cassette.add(taken(GOOD, request))
    assert replay(cassette.path, redact=hide)(request) == GOOD

    assert isinstance(replay(cassette.path)(request), HTTPReply)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mask", [0o000, 0o022])
@pytest.mark.parametrize("before", [None, 0o644, 0o666])
def test_v13_a_cassette_is_its_owners_alone(tmp_path: Path, mask: int, before: int | None) -> None:
    """A cassette is 0600 once a line was added, for any umask and any mode before."""
    path = tmp_path / "replies.jsonl"

    if before is not None:
        path.touch()
        path.chmod(before)

    old = os.umask(mask)
    try:
        Cassette(path).add(Taken({"messages": []}, None, HTTPReply()))
    finally:
        os.umask(old)

    assert path.stat().st_mode & 0o777 == 0o600
    assert len(list(Cassette(path))) == 1
