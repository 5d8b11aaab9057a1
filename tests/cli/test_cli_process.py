"""The commands as processes of their own.

This is what a shell sees of them, from the first line to the exit status.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from strictreply.core import JSONObject
from strictreply.testing import HTTPReply
from support.cli.running import Process, Serve, Status, tools_file
from support.openai_shapes import call, completion, message

pytestmark = pytest.mark.one_lane

on_a_terminal = pytest.mark.skipif(
    not hasattr(os, "openpty"), reason="this platform opens no pseudo-terminals"
)

SELF_INTERRUPTING = """
import os, signal
import strictreply as sr

def check(args):
    if args.query == "stop":
        os.kill(os.getpid(), signal.SIGINT)

@sr.tool(check=check)
def search(query: str) -> str:
    return query
"""
"""A tool whose check is Ctrl-C: the moment of the signal does not depend on how fast the machine
is.
"""


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end; gives the status and both streams, and holds that there is no traceback."""
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stderr
    return process.returncode, stdout, stderr


def read_until(stream: IO[str] | None, words: str) -> str:
    """Read lines until one holds ``words``; gives that line."""
    assert stream is not None
    return next(line for line in stream if words in line)


def search_line(query: str) -> str:
    """Write a completion that calls ``search``."""
    return json.dumps(completion(message(calls=[call("search", {"query": query})])))


class Silent:
    """A model that says when it was asked, and does not answer until it is released."""

    def __init__(self) -> None:
        """Nobody has asked."""
        self.asked = threading.Event()
        self.released = threading.Event()

    def __call__(self, request: JSONObject) -> HTTPReply:
        """Wait."""
        self.asked.set()
        self.released.wait(60)
        return HTTPReply.json(500, {})


@pytest.mark.slow
def test_demo_runs_from_end_to_end(process: Process) -> None:
    """The demo needs nothing, ends with 0, writes no control sequence into a pipe, and keeps stderr
    empty.
    """
    status, stdout, stderr = ended(process("demo"))
    assert (status, stderr) == (0, "")
    assert "\x1b" not in stdout
    assert "ToolArgumentsError after 4 requests" in stdout


@pytest.mark.slow
def test_check_reads_packed_files(process: Process, tmp_path: Path) -> None:
    """Recorded replies are judged offline; with ``--json`` stdout is one object and stderr is empty
    in a pipe.
    """
    path = tmp_path / "replies.jsonl.gz"
    path.write_bytes(gzip.compress(f"{search_line('boots')}\n".encode()))
    status, stdout, stderr = ended(
        process("check", str(path), "--json", "--tools", tools_file(tmp_path))
    )
    assert (status, stderr, json.loads(stdout)["valid"]) == (0, "", 1)


def test_the_help_lists_the_exit_statuses(process: Process) -> None:
    """Each status that a command ends with stands in the help, and no other."""
    _, stdout, _ = ended(process("--help"))
    listed = stdout.partition("Exit status: ")[2]
    assert [int(number) for number in re.findall(r"\d+", listed)] == [0, *Status]


def test_schema_goes_to_a_pipe_that_closes(process: Process) -> None:
    """A reader that goes away, as ``head`` does, ends the command as it ends those of a shell."""
    started = process("schema")
    assert started.stdout is not None
    started.stdout.close()
    started.stdout = None
    _, stderr = started.communicate(timeout=60)
    assert (started.returncode, stderr or "") == (Status.PIPE_CLOSED, "")


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="this platform has no device that is full")
@pytest.mark.parametrize("words", [("schema",), ("faults",), ("demo",), ("--help",)])
def test_an_output_that_cannot_be_written_is_a_failure(
    process: Process, words: tuple[str, ...]
) -> None:
    """A full disk is status 3 and one line, never the status of an invalid reply."""
    with FULL.open("w") as full:
        status, _, stderr = ended(process(*words, stdout=full))
    assert status == Status.FAILED
    assert stderr == "strictreply: the output cannot be written: No space left on device\n"


@pytest.fixture(scope="module")
def usual() -> str:
    """What the command prints where nothing says how wide."""
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [sys.executable, "-m", "strictreply", "faults", "--kind", "finish"]
    return subprocess.run(words, env=kept, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("columns", ["0", "00", "wide", "", "9" * 30])
def test_a_width_that_is_none_hides_nothing(process: Process, usual: str, columns: str) -> None:
    """Where COLUMNS is not a width, the command prints what it prints without it."""
    given = os.environ | {"COLUMNS": columns}
    status, shown, _ = ended(process("faults", "--kind", "finish", env=given))
    assert (status, shown) == (0, usual)
    assert "cut_at_length" in shown


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("strictreply pro", "probe"),
        ("strictreply batch va", "validate"),
        ("strictreply ask --ba", "--base-url"),
    ],
)
def test_a_shell_completes_commands(typed: str, found: str) -> None:
    """What the script of ``--show-completion`` asks the command for is answered."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    asked = os.environ | words | {"_STRICTREPLY_COMPLETE": "complete_bash"}
    program = "import sys; sys.argv = ['strictreply']; from strictreply.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=asked,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == [found]


def test_an_interrupted_call_ends_cleanly(process: Process, serve: Serve) -> None:
    """Ctrl-C while the model is silent ends with 130, one line on stderr and no traceback."""
    model = Silent()
    started = process("ask", "Hello?", "--base-url", serve(model), "--model", "m")
    assert model.asked.wait(60)
    started.send_signal(signal.SIGINT)
    status, _, stderr = ended(started)
    model.released.set()
    assert (status, stderr) == (Status.INTERRUPTED, "strictreply: interrupted\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_an_interrupted_check_tells_what_it_has(
    process: Process, tmp_path: Path, as_json: bool
) -> None:
    """Ctrl-C in the middle of a file keeps the counts so far, marked as incomplete, and ends with
    130.
    """
    (tmp_path / "interrupting.py").write_text(SELF_INTERRUPTING, encoding="utf-8")
    path = tmp_path / "replies.jsonl"
    path.write_text(
        "".join(f"{search_line(query)}\n" for query in ("a", "b", "stop", "c")), encoding="utf-8"
    )
    words = ["check", str(path), "--tools", "interrupting:search", *(["--json"] if as_json else [])]
    status, stdout, stderr = ended(process(*words, cwd=tmp_path))
    assert status == Status.INTERRUPTED

    assert stderr.startswith("strictreply: interrupted")

    if as_json:
        assert (json.loads(stdout)["complete"], json.loads(stdout)["replies"]) == (False, 2)
    else:
        assert stdout.splitlines()[-1] == "2 replies: 2 valid, 0 invalid"


def test_without_its_extra_the_command_says_what_to_install() -> None:
    """Without typer the status is not 0; stderr names the extra, also as a checkout has it."""
    program = "import sys; sys.modules['typer'] = None; from strictreply.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == Status.FAILED
    assert "strictreply[cli]" in done.stderr
    assert "pip install '.[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


@on_a_terminal
@pytest.mark.parametrize("plain", [True, False])
def test_colours_are_for_terminals_that_want_them(
    process: Process, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    """On a terminal the demo is coloured, unless NO_COLOR is set."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1") if plain else monkeypatch.delenv("NO_COLOR", raising=False)
    master, terminal = os.openpty()
    started = process("demo", stdout=terminal)

    os.close(terminal)
    printed = read_terminal(master)
    assert ended(started)[0] == 0
    assert b"only the wrong one is retried" in printed

    assert (b"\x1b[32m" in printed) is not plain


@on_a_terminal
def test_progress_is_shown_to_a_person(
    process: Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When stderr is a terminal it shows how far a file has been read, its name as it is, and
    clears up behind.
    """
    monkeypatch.setenv("TERM", "xterm-256color")
    path = tmp_path / "[bold]replies.jsonl"
    path.write_text(f"{search_line('boots')}\n" * 50, encoding="utf-8")
    master, terminal = os.openpty()
    started = process("check", str(path), "--tools", tools_file(tmp_path), stderr=terminal)

    os.close(terminal)
    printed = read_terminal(master)
    stdout, _ = started.communicate(timeout=60)
    assert (started.returncode, stdout.splitlines()[-1]) == (0, "50 replies: 50 valid, 0 invalid")

    assert b"[bold]replies.jsonl" in printed
    assert b"100%" in printed
    assert b"[progress" not in printed
    assert printed.endswith(b"\x1b[2K")


def read_terminal(master: int) -> bytes:
    """Read what was written to a terminal until its last writer is gone."""
    printed = b""
    # Linux tells the end by an OSError.
    with open(master, "rb", buffering=0) as screen, contextlib.suppress(OSError):
        while chunk := screen.read(4096):
            printed += chunk
    return printed
