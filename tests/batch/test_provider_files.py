"""A provider's batch files: every request has a result, and the rejected ones are retried.

This holds whatever the files contain.
"""

from __future__ import annotations

import codecs
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.cli._terminal import Status
from strictreply.core import JSONObject
from support.cli.running import Command
from support.scripted import call, completion

pytest_plugins = ["cli.conftest"]

SCHEMA = {
    "type": "object",
    "properties": {"topic": {"enum": ["delivery", "price"]}},
    "required": ["topic"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "label", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {"name": "sort", "parameters": SCHEMA}}
GOOD = completion('{"topic": "price"}')
BAD = completion('{"topic": "cost"}')


def asked(custom_id: str, **body: Any) -> JSONObject:
    """Return a request for a chat completion."""
    given: JSONObject = {
        "model": "m",
        "messages": [{"role": "user", "content": custom_id}],
        "response_format": FORMAT,
    }
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": given | body,
    }


def came(custom_id: str, body: JSONObject, status: int = 200, own: str = "") -> JSONObject:
    """Return an output."""
    response = {"status_code": status, "request_id": "r", "body": body}
    return {
        "id": f"batch_req_{own or custom_id}",
        "custom_id": custom_id,
        "response": response,
        "error": None,
    }


def expired(custom_id: str) -> JSONObject:
    """Return what an error file says of a request that was not made in time."""
    error = {"code": "batch_expired", "message": "This request could not be executed."}
    return {
        "id": f"batch_req_x{custom_id}",
        "custom_id": custom_id,
        "response": None,
        "error": error,
    }


def write(path: Path, *lines: JSONObject | str) -> Path:
    """Write JSON lines; a text is written as it is."""
    path.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    )
    return path


def read(path: Path) -> dict[str, Any]:
    """Read JSON lines by custom_id."""
    return {row["custom_id"]: row for row in map(json.loads, path.read_text().splitlines())}


def test_two_passes(tmp_path: Path) -> None:
    """The rejected are asked again with a correction under their ids; the next pass is judged with
    all that came.
    """
    requests = write(
        tmp_path / "in.jsonl", asked("a"), asked("b"), asked("c"), asked("d"), asked("e")
    )
    first = write(tmp_path / "out1.jsonl", came("c", GOOD), came("b", BAD), came("a", GOOD))
    errors = write(tmp_path / "err1.jsonl", expired("d"))
    out = tmp_path / "result.jsonl"

    again = tmp_path / "again.jsonl"
    counts = sr.batch.validate_files(
        [first, errors], requests=[requests], out=out, retry_file=again
    )
    assert counts.statuses == {"ok": 2, "rejected": 1, "failed": 2}
    assert (counts.requests, counts.again, counts.missing, counts.unknown, counts.surplus) == (
        5,
        3,
        1,
        0,
        0,
    )

    rows = read(out)
    assert list(rows) == ["a", "b", "c", "d", "e"]
    assert list(rows["a"]) == ["custom_id", *sr.batch.COLUMNS]
    assert rows["a"]["reply"] == {"answer": {"topic": "price"}}

    assert [rows[name]["issues"][-1]["code"] for name in "bde"] == [
        "batch.again",
        "batch.again",
        "batch.missing",
    ]
    next_asked = read(again)
    assert list(next_asked) == ["b", "d", "e"]
    assert (next_asked["d"], next_asked["e"]) == (asked("d"), asked("e"))

    correction = next_asked["b"]["body"]["messages"][-1]
    assert correction["role"] == "user"
    assert '"delivery", "price"' in correction["content"]
    assert (next_asked["b"]["url"], next_asked["b"]["method"]) == ("/v1/chat/completions", "POST")

    second = write(
        tmp_path / "out2.jsonl",
        came("d", GOOD, own="d2"),
        came("e", GOOD),
        came("b", GOOD, own="b2"),
    )
    counts = sr.batch.validate_files(
        [first, errors, second], requests=[requests], out=out, retry_file=again
    )
    assert counts.statuses == {"ok": 4, "fixed": 1}
    assert counts.again == 0

    assert again.read_text() == ""
    assert [(row["status"], row["attempts"]) for row in read(out).values()] == [
        *(("ok", 1), ("fixed", 2), ("ok", 1), ("ok", 2), ("ok", 1))
    ]


def test_the_policy_bounds_the_passes(tmp_path: Path) -> None:
    """There are as many corrective passes as the policy allows; after them a row is rejected, and
    not asked again.
    """
    requests = write(tmp_path / "in.jsonl", asked("a"))
    outputs = []
    again = tmp_path / "again.jsonl"
    statuses: list[tuple[int, str]] = []

    for number in range(3):
        outputs.append(write(tmp_path / f"out{number}.jsonl", came("a", BAD, own=str(number))))
        out = tmp_path / "result.jsonl"
        policy = sr.RetryPolicy(max_retries=2)
        counts = sr.batch.validate_files(
            outputs, requests=[requests], out=out, retry_file=again, policy=policy
        )

        row = read(out)["a"]
        statuses.append((counts.again, row["issues"][-1]["code"]))
        assert (row["status"], row["attempts"]) == ("rejected", number + 1)

    assert statuses == [(1, "batch.again"), (1, "batch.again"), (0, "call.retries")]


@pytest.mark.parametrize(
    ("record", "status", "again"),
    [
        (came("a", {"error": {"message": "busy", "code": None}}, 429), "failed", 1),
        (came("a", {"error": {"message": "down"}}, 500), "failed", 1),
        (came("a", {"error": {"message": "no", "code": "insufficient_quota"}}, 429), "failed", 0),
        (came("a", {"error": {"message": "bad"}}, 400), "failed", 0),
        (came("a", completion(None, refusal="I will not")), "halted", 0),
        (came("a", completion('{"topic": "pri', finish_reason="length")), "rejected", 1),
        (came("a", {}), "failed", 1),
        ({"id": "x", "custom_id": "a", "response": None, "error": None}, "failed", 1),
        ({"id": "x", "custom_id": "a"}, "failed", 1),
        (
            {"id": "x", "custom_id": "a", "response": {"status_code": 200, "body": "text"}},
            "failed",
            1,
        ),
    ],
)
def test_what_comes_instead_of_a_reply(
    tmp_path: Path, record: JSONObject, status: str, again: int
) -> None:
    """A failed request is sent again where that may help; no output ends the run."""
    requests = write(tmp_path / "in.jsonl", asked("a"))
    outputs = write(tmp_path / "out.jsonl", record)
    out = tmp_path / "result.jsonl"
    counts = sr.batch.validate_files([outputs], requests=[requests], out=out)
    row = read(out)["a"]
    assert (row["status"], counts.again) == (status, again)
    assert row["issues"][-1]["message"]


def test_odd_files(tmp_path: Path) -> None:
    """Lines that are none, ids that are there twice, outputs of nobody: each is counted, every
    request has a row.
    """
    requests = write(
        tmp_path / "in.jsonl",
        asked("a"),
        "{",
        asked("b"),
        asked("a"),
        {"custom_id": "e", "body": {"input_": 1}},
    )
    twice = came("a", GOOD)
    outputs = write(
        tmp_path / "out.jsonl",
        twice,
        "[]",
        twice,
        came("b", GOOD),
        came("b", BAD, own="b2"),
        came("z", GOOD),
    )
    counts = sr.batch.validate_files([outputs], requests=[requests], out=tmp_path / "result.jsonl")
    assert counts.statuses == {"ok": 2, "failed": 3}

    assert (counts.surplus, counts.unknown, counts.missing) == (2, 1, 0)
    assert counts.unreadable == (
        "out.jsonl:2: not an output: it needs a custom_id, and a response, a result or an error",
    )
    lines = [json.loads(line) for line in (tmp_path / "result.jsonl").read_text().splitlines()]
    assert [line["custom_id"] for line in lines] == ["a", None, "b", "a", "e"]

    assert "line 2 of in.jsonl" in lines[1]["issues"][0]["message"]


@pytest.mark.parametrize("custom_id", ["a\0b", "é\n ", "\u2028", "'; --", "1e5", ""])
def test_odd_ids(tmp_path: Path, custom_id: str) -> None:
    """An id may hold any text; an output whose id is no whole text is one of no request."""
    requests = write(tmp_path / "in.jsonl", asked(custom_id), asked(custom_id + "x"))
    outputs = write(tmp_path / "out.jsonl", came(custom_id, GOOD), came("\ud800", GOOD))
    counts = sr.batch.validate_files([outputs], requests=[requests], out=tmp_path / "result.jsonl")
    assert (counts.statuses, counts.missing, counts.unknown) == ({"ok": 1, "failed": 1}, 1, 1)


def test_equal_lines_of_two_passes_are_two_outputs(tmp_path: Path) -> None:
    """A model that makes the same mistake in each pass is rejected after as many passes as the
    policy allows; a line that stands twice in a file, or a file that is listed twice, counts once.
    """
    requests = write(tmp_path / "in.jsonl", asked("a"))
    passes = [write(tmp_path / f"out{n}.jsonl", came("a", BAD)) for n in range(3)]
    policy = sr.RetryPolicy(max_retries=2)
    out = tmp_path / "result.jsonl"

    for number, (again, attempts) in enumerate([(1, 1), (1, 2), (0, 3)], 1):
        counts = sr.batch.validate_files(
            passes[:number], requests=[requests], out=out, policy=policy
        )
        assert (counts.again, read(out)["a"]["attempts"], counts.surplus) == (again, attempts, 0)

    twice = write(tmp_path / "twice.jsonl", came("a", BAD), came("a", BAD))
    (tmp_path / "link.jsonl").symlink_to(twice)
    counts = sr.batch.validate_files(
        [twice, twice, tmp_path / "link.jsonl"], requests=[requests], out=out, policy=policy
    )
    assert (counts.again, read(out)["a"]["attempts"], counts.surplus) == (1, 1, 5)


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-be")
"""What programs write; the last without its mark, which is added."""


def encoded(text: str, encoding: str) -> bytes:
    """Encode a text with the mark that its encoding begins with."""
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    return mark + text.encode(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("is_packed", [False, True])
def test_no_encoding_loses_a_row(tmp_path: Path, encoding: str, is_packed: bool) -> None:
    """A mark, line ends of two characters and blank lines are read over, in requests and outputs,
    packed or not.
    """

    def kept(name: str, *lines: JSONObject) -> Path:
        path = tmp_path / f"{name}.jsonl"
        texts = ["", *(json.dumps(line, ensure_ascii=False) for line in lines), " ", ""]
        whole = encoded("\r\n".join(texts), encoding)
        path.write_bytes(gzip.compress(whole) if is_packed else whole)
        return path

    requests = kept("in", asked("a"), asked("b"), asked("ü"))
    outputs = kept("out", came("a", GOOD), came("b", BAD), came("ü", GOOD))
    again = tmp_path / "again.jsonl"
    counts = sr.batch.validate_files([outputs], requests=[requests], retry_file=again)
    assert (counts.statuses, counts.unknown, counts.unreadable) == (
        {"ok": 2, "rejected": 1},
        0,
        (),
    )
    assert list(read(again)) == ["b"]


def test_files_with_marks_may_stand_behind_each_other(tmp_path: Path) -> None:
    """A mark at the beginning of a later line, as ``cat`` makes, is read over."""
    whole = "".join(f"\ufeff{json.dumps(asked(name))}\n" for name in "abc")
    (tmp_path / "in.jsonl").write_text(whole, encoding="utf-8")
    outputs = write(tmp_path / "out.jsonl", *(came(name, GOOD) for name in "abc"))
    counts = sr.batch.validate_files([outputs], requests=[tmp_path / "in.jsonl"])
    assert counts.statuses == {"ok": 3}


@pytest.mark.parametrize("own", [None, "a"])
def test_outputs_without_ids_of_their_own(tmp_path: Path, own: str | None) -> None:
    """Without ids, or with ids that repeat in each pass, equal lines count once and different lines
    twice.
    """
    requests = write(tmp_path / "in.jsonl", asked("a"))
    first = write(tmp_path / "out1.jsonl", came("a", BAD) | {"id": own})
    second = write(tmp_path / "out2.jsonl", came("a", GOOD) | {"id": own})
    counts = sr.batch.validate_files(
        [first, first], requests=[requests], out=tmp_path / "result.jsonl"
    )
    assert (counts.surplus, read(tmp_path / "result.jsonl")["a"]["attempts"]) == (1, 1)

    counts = sr.batch.validate_files([first, second], requests=[requests])
    assert (counts.statuses, counts.surplus) == ({"fixed": 1}, 0)


def test_what_a_model_wrote_makes_no_line_unreadable(tmp_path: Path) -> None:
    """Half of a surrogate pair in a reply is a fault of the reply: it is corrected, and counts as
    an attempt.
    """
    requests = write(tmp_path / "in.jsonl", asked("a"))
    again = tmp_path / "again.jsonl"
    outputs = write(tmp_path / "out.jsonl", came("a", completion('{"topic": "\ud83d"}')))
    out = tmp_path / "result.jsonl"
    counts = sr.batch.validate_files([outputs], requests=[requests], out=out, retry_file=again)

    row = read(out)["a"]
    assert (counts.unreadable, row["status"], row["attempts"]) == ((), "rejected", 1)
    assert row["issues"][0]["code"] == "json.surrogate"
    assert read(again)["a"]["body"]["messages"][-1]["role"] == "user"


def test_a_full_disk(tmp_path: Path) -> None:
    """A full disk is an OSError for the outputs, as for any file."""
    resource = pytest.importorskip("resource", reason="this platform limits no file")
    requests = write(tmp_path / "in.jsonl", asked("a"))
    outputs = write(
        tmp_path / "out.jsonl", *({"custom_id": "x", "error": "y" * 1000} for _ in range(8000))
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))

    try:
        with pytest.raises(OSError, match="the temporary file of the outputs"):
            sr.batch.validate_files([outputs], requests=[requests])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_calls_and_responses(tmp_path: Path) -> None:
    """Tools in a request are what its calls are held to; a request of the Responses API is asked
    again in its form.
    """
    chat = asked("chat", tools=[TOOL], response_format=None)
    body = {
        "model": "m",
        "input": "Sort it.",
        "tools": [{"type": "function", "name": "sort", "parameters": SCHEMA}],
    }
    responses = {"custom_id": "responses", "method": "POST", "url": "/v1/responses", "body": body}
    item = {
        "type": "function_call",
        "id": "fc",
        "call_id": "c",
        "name": "sort",
        "status": "completed",
    }
    response = {
        "id": "r",
        "object": "response",
        "status": "completed",
        "output": [item | {"arguments": '{"topic": 1}'}],
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    }

    requests = write(tmp_path / "in.jsonl", chat, responses)
    bad = completion(None, [call("sort", {"topic": "cost"})])
    outputs = write(tmp_path / "out.jsonl", came("chat", bad), came("responses", response))
    out = tmp_path / "result.jsonl"

    again = tmp_path / "again.jsonl"
    counts = sr.batch.validate_files([outputs], requests=[requests], out=out, retry_file=again)
    assert counts.statuses == {"rejected": 2}
    next_asked = read(again)
    assert "messages" in next_asked["chat"]["body"]

    assert "input" in next_asked["responses"]["body"]
    assert next_asked["responses"]["url"] == "/v1/responses"
    assert read(out)["responses"]["usage"]["total_tokens"] == 7
    mended = response | {"output": [item | {"arguments": '{"topic": "price"}'}]}

    good = completion(None, [call("sort", {"topic": "price"})])
    second = write(
        tmp_path / "out2.jsonl", came("responses", mended, own="2"), came("chat", good, own="3")
    )
    counts = sr.batch.validate_files([outputs, second], requests=[requests], out=out)
    assert counts.statuses == {"fixed": 2}

    assert read(out)["responses"]["reply"] == {
        "tool": "sort",
        "args": {"topic": "price"},
        "id": "c",
    }


def test_a_contract_of_ours(tmp_path: Path) -> None:
    """If the requests do not describe their reply, a contract does; a packed file is read like any
    other.
    """
    requests = write(tmp_path / "in.jsonl", asked("a", response_format=None))
    packed = tmp_path / "out.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(came("a", BAD)).encode()))
    contract = sr.Contract(answer=SCHEMA)
    assert sr.batch.validate_files([packed], requests=[requests]).statuses == {"ok": 1}
    assert sr.batch.validate_files([packed], requests=[requests], contract=contract).statuses == {
        "rejected": 1
    }


KINDS = {
    "good": ["ok"],
    "bad good": ["fixed"],
    "bad bad": ["rejected"],
    "lost good": ["ok"],
    "bad lost": ["rejected"],
}


@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=12), st.integers(0, 999))
def test_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], seed: int
) -> None:
    """Outputs in any order give each request the same result, once."""
    folder = tmp_path_factory.mktemp("files")
    passes: list[list[JSONObject]] = [[], []]

    for row, kind in enumerate(kinds):
        for number, word in enumerate(kind.split()):
            if word != "lost":
                passes[number].append(
                    came(str(row), GOOD if word == "good" else BAD, own=f"{row}.{number}")
                )

    for number, outputs in enumerate(passes):
        random.Random(seed).shuffle(outputs)
        write(folder / f"out{number}.jsonl", *outputs)

    requests = write(folder / "in.jsonl", *(asked(str(row)) for row in range(len(kinds))))
    files = [folder / "out0.jsonl", folder / "out1.jsonl"]
    sr.batch.validate_files(files, requests=[requests], out=folder / "result.jsonl")
    assert {row: line["status"] for row, line in read(folder / "result.jsonl").items()} == {
        str(row): KINDS[kind][0] for row, kind in enumerate(kinds)
    }


def test_a_file_that_breaks_leaves_what_was(tmp_path: Path) -> None:
    """When a file cannot be read to its end, the results that were there stay as they were."""
    requests = write(tmp_path / "in.jsonl", asked("a"))
    out = tmp_path / "result.jsonl"
    out.write_text("as it was")
    packed = tmp_path / "out.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(came("a", GOOD)).encode())[:-9])
    with pytest.raises(OSError, match="cut off or damaged"):
        sr.batch.validate_files([packed], requests=[requests], out=out)
    assert out.read_text() == "as it was"


def test_the_command(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command does the same, says what it found, and its status says whether all is good."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", asked("a"), asked("b"))
    write(tmp_path / "out1.jsonl", came("a", GOOD), came("b", BAD))
    spelled = (
        "batch",
        "validate",
        "out1.jsonl",
        "--requests",
        "in.jsonl",
        "--retry-file",
        "again.jsonl",
        "--out",
        "r.jsonl",
    )
    done = command(*spelled)
    assert (done.exit_code, done.stdout) == (
        Status.INVALID,
        "2 requests: 1 ok, 1 rejected\n1 to retry\n",
    )

    assert list(read(tmp_path / "again.jsonl")) == ["b"]
    write(tmp_path / "out2.jsonl", came("b", GOOD, own="b2"))
    done = command("batch", "validate", "out1.jsonl", "out2.jsonl", *spelled[3:])
    assert (done.exit_code, done.stdout) == (0, "2 requests: 1 ok, 1 fixed\n")

    assert list(read(tmp_path / "r.jsonl")) == ["a", "b"]
    write(tmp_path / "odd.jsonl", "{", came("z", GOOD))
    assert (
        command("batch", "validate", "odd.jsonl", "--requests", "in.jsonl").exit_code
        == Status.FAILED
    )
    mixed_up = command("batch", "validate", "in.jsonl", "--requests", "in.jsonl")
    assert mixed_up.exit_code == Status.FAILED

    assert "in.jsonl:1: not an output" in mixed_up.stderr
    assert (
        command("batch", "validate", "gone.jsonl", "--requests", "in.jsonl").exit_code
        == Status.USAGE
    )
    assert (
        command(
            "batch", "validate", "out1.jsonl", "--requests", "in.jsonl", "--out", "in.jsonl"
        ).exit_code
        == 2
    )

    twice = command(
        "batch",
        "validate",
        "out1.jsonl",
        "--requests",
        "in.jsonl",
        "--out",
        "r.jsonl",
        "--retry-file",
        "r.jsonl",
    )
    assert (twice.exit_code, list(read(tmp_path / "r.jsonl"))) == (2, ["a", "b"])
