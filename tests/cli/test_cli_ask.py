"""``strictreply ask``: the reply alone is on stdout, the story on stderr.

The exit status says what became of the reply.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from strictreply.testing import error_reply
from support.cli.running import Command, Serve, Status, answering, tools_file
from support.openai_shapes import call, completion, message

GOOD = completion(message(calls=[call("search", '{"query": "boots"}')]))
BAD = completion(message(calls=[call("search", '{"limit": 1}')]))
REPLY = {"tool": "search", "args": {"query": "boots"}, "id": "call_1"}


def test_stdout_is_the_reply_and_stderr_the_story(
    command: Command, serve: Serve, tmp_path: Path
) -> None:
    """A fixed reply leaves one JSON object on stdout; what was wrong and what was sent stand on
    stderr.
    """
    url = serve(answering(BAD, GOOD))
    done = command(
        "ask", "Find boots", "--tools", tools_file(tmp_path), "--base-url", url, "--model", "m"
    )
    assert (done.exit_code, json.loads(done.stdout)) == (0, REPLY)
    assert [line.split()[0] for line in done.stderr.splitlines() if line[2] != " "] == [
        "reply",
        "issue",
        "sent",
        "reply",
        "valid",
    ]

    assert "args.required at search" in done.stderr


def test_a_refused_reply_leaves_stdout_empty(
    command: Command, serve: Serve, tmp_path: Path
) -> None:
    """When the retries are spent the status is 1, stdout is empty, and stderr ends with what
    happened.
    """
    url = serve(answering(BAD))
    words = (
        "ask",
        "Find boots",
        "--tools",
        tools_file(tmp_path),
        "--base-url",
        url,
        "--max-retries",
        "1",
    )
    done = command(*words)
    assert (done.exit_code, done.stdout) == (Status.INVALID, "")

    assert done.stderr.count("  reply") == 2
    assert done.stderr.splitlines()[-1].startswith("strictreply: ToolArgumentsError: ")
    told = command(*words, "--explain")
    assert "Attempt 2" in told.stderr

    assert "What to do:" in told.stderr


def test_without_tools_it_is_a_plain_question(command: Command, serve: Serve) -> None:
    """No tools are needed for an answer, and the only model of a server need not be named."""
    done = command("ask", "Hello?", OPENAI_BASE_URL=serve(answering(completion(message("hi")))))
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"answer": "hi"})


def test_several_calls_are_admitted_by_name(command: Command, serve: Serve, tmp_path: Path) -> None:
    """Two calls of one message are refused unless ``--parallel`` is given, and then both are
    printed.
    """
    calls = [call("search", '{"query": "a"}', "call_1"), call("search", '{"query": "b"}', "call_2")]
    url = serve(answering(completion(message(calls=calls))))
    words = (
        "ask",
        "Find",
        "--tools",
        tools_file(tmp_path),
        "--base-url",
        url,
        "--max-retries",
        "0",
    )
    assert command(*words).exit_code == Status.INVALID

    told = json.loads(command(*words, "--parallel").stdout)
    assert [each["args"]["query"] for each in told["calls"]] == ["a", "b"]


def test_the_text_channel(command: Command, serve: Serve, tmp_path: Path) -> None:
    """With ``--channel text`` the JSON in the content is the reply."""
    url = serve(answering(completion(message('{"tool": "search", "args": {"query": "boots"}}'))))
    done = command(
        "ask", "Find", "--tools", tools_file(tmp_path), "--base-url", url, "--channel", "text"
    )
    assert json.loads(done.stdout) == {"tool": "search", "args": {"query": "boots"}}


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J\x1b[31mred", "a\x9bb\u202eb", "[bold]x[/bold]", "für 5 €"]
)
def test_what_a_model_wrote_is_only_text(command: Command, serve: Serve, hostile: str) -> None:
    """No control sequence of a reply reaches either stream, markup is not interpreted, and no
    character is lost.
    """
    done = command("ask", "Hello?", "--base-url", serve(answering(completion(message(hostile)))))
    assert json.loads(done.stdout) == {"answer": hostile}
    assert done.stdout.rstrip("\n").isascii()
    assert all(
        line.isprintable() for line in [*done.stdout.splitlines(), *done.stderr.splitlines()]
    )
    assert not hostile.isprintable() or hostile in done.stderr


@pytest.mark.parametrize(
    "definitions",
    [
        {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}},
        {
            "tools": [
                {"name": "search", "inputSchema": {"type": "object", "properties": {"query": {}}}}
            ]
        },
        [
            {
                "name": "search",
                "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
            }
        ],
    ],
)
def test_tools_come_from_a_file(
    command: Command, serve: Serve, tmp_path: Path, definitions: object
) -> None:
    """One definition, a list, an object with ``tools``: OpenAI's and MCP's spellings are read."""
    path = tmp_path / "some.json"
    path.write_text(json.dumps(definitions), encoding="utf-8")
    url = serve(answering(completion(message(calls=[call("search", "{}")]))))
    done = command("ask", "Find", "--tools", str(path), "--base-url", url)
    assert json.loads(done.stdout)["tool"] == "search"


@pytest.mark.parametrize("attribute", ["search", "TOOLS"])
def test_tools_come_from_a_module(
    command: Command, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str
) -> None:
    """``module:attribute`` is looked for in the working directory: one declaration, or a list of
    them.
    """
    source = "def search(query: str) -> str:\n    return query\nTOOLS = [search]\n"
    (tmp_path / f"shop_{attribute}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])

    done = command(
        "ask",
        "Find",
        "--tools",
        f"shop_{attribute}:{attribute}",
        "--base-url",
        serve(answering(GOOD)),
    )
    assert json.loads(done.stdout) == REPLY


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--model", "m"),
        ("--base-url", "nonsense"),
        ("--base-url", "http://127.0.0.1:1/v1", "--tools", "nonsense"),
        ("--base-url", "http://127.0.0.1:1/v1", "--tools", "no_such_module:tools"),
        ("--base-url", "http://127.0.0.1:1/v1", "--tools", "json:no_such_attribute"),
        ("--base-url", "http://127.0.0.1:1/v1", "--tools", "json:__name__"),
        ("--base-url", "http://127.0.0.1:1/v1", "--tools", "no_such_file.json"),
        ("--base-url", "http://127.0.0.1:1/v1", "--max-retries", "-1"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(
    command: Command, words: tuple[str, ...]
) -> None:
    """Wrong usage ends with status 2, nothing on stdout and no traceback."""
    done = command("ask", "Hello?", *words)
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Hello?", ("--model", "m", "--api-key", "sk-schl\u00fcssel")),
        ("Hello?", ("--model", "m", "--api-key", "sk\n")),
        ("Hello?", ("--model", "m\udc80")),
        ("Hello\udcff", ("--model", "m")),
        ("Hello?", ("--model", "m", "--base-url", "http://h:port/v1")),
        ("Hello?", ("--model", "m", "--base-url", "http://h\udc80/v1")),
    ],
    ids=ascii,
)
def test_what_cannot_be_sent_is_wrong_usage(
    command: Command, question: str, words: tuple[str, ...]
) -> None:
    """A key, a name, a question or an address that HTTP cannot carry is told in one line, without
    the key.
    """
    done = command("ask", question, *words, OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (Status.USAGE, "", 1)
    assert done.stderr.startswith("strictreply: ")
    assert "sk" not in done.stderr


def test_the_public_api_is_asked_for_a_named_model_only(command: Command) -> None:
    """With a key alone, nothing is sent before a model is named."""
    done = command("ask", "Hello?", OPENAI_API_KEY="sk-none")
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert "--model" in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "5", '[{"name": ""}]', "\x00"])
def test_a_file_that_declares_no_tools_is_wrong_usage(
    command: Command, tmp_path: Path, text: str
) -> None:
    """A file that is not JSON or declares no tool is reported in one line."""
    path = tmp_path / "some.json"
    path.write_text(text, encoding="utf-8")
    done = command(
        "ask", "Hello?", "--tools", str(path), "--base-url", "http://127.0.0.1:1/v1", "--model", "m"
    )
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (Status.USAGE, "", 1)


def test_a_module_that_fails_is_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception raised when the user's module is imported is named, without a traceback."""
    (tmp_path / "broken_shop.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    done = command(
        "ask", "Hello?", "--tools", "broken_shop:x", "--base-url", "http://127.0.0.1:1/v1"
    )
    assert done.exit_code == Status.USAGE
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("status", [401, 403, 404, 400])
def test_what_a_server_refuses_is_told_in_its_words(
    command: Command, serve: Serve, status: int
) -> None:
    """An HTTP error ends with 1 and one last line: where, what, and the server's words, escaped."""
    url = serve(answering(error_reply(status, "the key \x1b[31mis wrong")))
    done = command("ask", "Hello?", "--base-url", url, "--model", "m")
    assert (done.exit_code, done.stdout) == (Status.FAILED, "")
    last = done.stderr.splitlines()[-1]
    assert url in last
    assert f"HTTP {status}" in last
    assert "the key \\x1b[31mis wrong" in last


def test_a_server_that_says_a_lot_is_cut_short(command: Command, serve: Serve) -> None:
    """Of what a server said, 300 characters are shown."""
    done = command(
        "ask", "Hello?", "--base-url", serve(answering(error_reply(400, "~" * 400))), "--model", "m"
    )
    assert done.stderr.splitlines()[-1].count("~") == 300


def test_an_endpoint_that_is_not_there_is_told(command: Command) -> None:
    """If nothing listens at the address, the status is 1 and stderr is one line that names it."""
    done = command("ask", "Hello?", "--base-url", "http://127.0.0.1:1/v1")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (Status.FAILED, "", 1)
    assert "http://127.0.0.1:1/v1" in done.stderr


@pytest.mark.parametrize("names", [[], ["small", "large"]])
def test_the_model_is_named_where_there_is_a_choice(command: Command, names: list[str]) -> None:
    """A server of several models, or of none, is not asked for a reply by guess."""
    listed = json.dumps(
        {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
    )
    with serving_text(listed) as url:
        done = command("ask", "Hello?", "--base-url", url)
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert all(name in done.stderr for name in names)


@contextlib.contextmanager
def serving_text(text: str) -> Generator[str, None, None]:
    """Answer every GET with one JSON text; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        thread.join()
