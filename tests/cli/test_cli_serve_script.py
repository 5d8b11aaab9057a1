"""``strictreply serve-script``: a model on loopback for tests in any language.

The test says what the model serves.
"""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support.cli.running import TOOLS, Command, Process, Status

pytestmark = pytest.mark.one_lane


def sent(url: str, body: object = None) -> Any:
    """Send JSON, or GET where there is none, and read JSON."""
    payload = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, payload) as answered:  # noqa: S310 - a loopback address
        return json.load(answered)


@pytest.mark.slow
@pytest.mark.parametrize("host", [(), ("--host", "localhost")])
def test_a_script_is_set_and_its_journal_read(process: Process, host: tuple[str, ...]) -> None:
    """The command prints where it serves, serves what a script says, and ends Ctrl-C with 130."""
    server = process("serve-script", "--port", "0", *host)
    assert server.stdout is not None
    printed = [server.stdout.readline() for _ in range(6)]
    url = printed[0].partition("served at ")[2].partition(";")[0]
    assert printed[2].startswith(f"curl -fsS {url}/script -d ")
    assert printed[5].strip().endswith(f"ANTHROPIC_BASE_URL={url.removesuffix('/v1')}")

    assert sent(f"{url}/script", {"steps": ["missing_required"], "then": "good"}) == {"steps": 1}
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "Find tea."}],
        "tools": json.loads(TOOLS),
    }
    answers = [sent(f"{url}/chat/completions", request)["choices"][0]["message"] for _ in range(2)]
    served = [json.loads(answer["tool_calls"][0]["function"]["arguments"]) for answer in answers]
    assert [*map(list, served)] == [[], ["query"]]

    journal = sent(f"{url}/journal")
    assert (journal["spent"], [entry["request"] for entry in journal["requests"]]) == (
        True,
        [request] * 2,
    )

    server.send_signal(signal.SIGINT)
    _, stderr = server.communicate(timeout=60)
    assert server.returncode == Status.INTERRUPTED
    assert '"POST /v1/chat/completions HTTP/1.1" 200' in stderr

    assert stderr.splitlines()[-1] == "strictreply: stopped"


@pytest.mark.slow
def test_its_own_words_are_a_script(process: Process) -> None:
    """The script that the command prints can be sent as it stands."""
    server = process("serve-script", "--port", "0")
    assert server.stdout is not None
    printed = [server.stdout.readline() for _ in range(3)][-1]
    url, _, script = printed.removeprefix("curl -fsS ").strip().partition(" -d ")
    assert sent(url, json.loads(script.strip("'")))["steps"] == 2


@pytest.mark.slow
def test_given_replies_come_from_files(process: Process, tmp_path: Path) -> None:
    """``--reply`` serves what each file holds, one a request, and then good replies follow."""
    body = tmp_path / "bad.json"
    body.write_text('{"choices": [], "object": "chat.completion"}', encoding="utf-8")
    text = tmp_path / "content.txt"
    text.write_text("Sure! {", encoding="utf-8")
    server = process("serve-script", "--port", "0", "--reply", str(body), "--reply", str(text))
    assert server.stdout is not None
    printed = [server.stdout.readline() for _ in range(5)]
    assert printed[1].startswith("It sends 2 given replies first. It sends valid replies until")

    url = printed[0].partition("served at ")[2].partition(";")[0]
    request = {"model": "m", "messages": [{"role": "user", "content": "Find tea."}]}
    first, second, third = (sent(f"{url}/chat/completions", request) for _ in range(3))
    assert first == {"choices": [], "object": "chat.completion"}
    assert second["choices"][0]["message"]["content"] == "Sure! {"
    assert third["choices"][0]["finish_reason"] == "stop"


@pytest.mark.slow
def test_a_script_comes_from_a_file(process: Process, tmp_path: Path) -> None:
    """``--script`` serves the steps of a file, raw replies and faults, until another is set."""
    script = tmp_path / "script.jsonl"
    bad = '{"choices": [],  "object": "chat.completion"}'
    lines = [{"body": bad}, "missing_required", {"then": {"answer": "end"}}]
    script.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    server = process("serve-script", "--port", "0", "--script", str(script))
    assert server.stdout is not None
    printed = [server.stdout.readline() for _ in range(5)]
    assert printed[1].startswith(f"It sends the 2 steps of {script} until another script is set")

    url = printed[0].partition("served at ")[2].partition(";")[0]
    request = {"model": "m", "messages": [{"role": "user", "content": "Find tea."}]}
    tools = {"tools": json.loads(TOOLS)}
    first, second, third = (sent(f"{url}/chat/completions", request | tools) for _ in range(3))
    assert first == json.loads(bad)
    (call,) = second["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == "{}"
    assert third["choices"][0]["message"]["content"] == "end"


def test_a_script_that_is_wrong_names_its_line(command: Command, tmp_path: Path) -> None:
    """A wrong step, a missing file, and a script beside replies are wrong usage."""
    script = tmp_path / "script.jsonl"
    script.write_text('"good"\n{"choices": []}\n', encoding="utf-8")
    wrong = {
        ("--script", str(script)): "line 2: ",
        ("--script", str(tmp_path / "none.jsonl")): "No such file",
        ("--script", str(script), "--reply", str(script)): "not both",
        ("--script", str(script), "--status", "503"): "not both",
    }
    for words, told in wrong.items():
        done = command("serve-script", "--port", "0", *words)
        assert done.exit_code == Status.USAGE
        assert told in done.stderr


def test_a_file_that_cannot_be_read_is_wrong_usage(command: Command, tmp_path: Path) -> None:
    """What is missing, or has no body under its status, is told before anything is served."""
    given = tmp_path / "reply.txt"
    given.write_text("Sure!", encoding="utf-8")
    wrong = {
        ("--reply", str(tmp_path / "missing.json")): "No such file",
        ("--reply", str(given), "--status", "204"): "no body",
    }
    for words, why in wrong.items():
        done = command("serve-script", "--port", "0", *words)
        assert done.exit_code == Status.USAGE
        assert why in done.stderr
        assert "--host" not in done.stderr


def test_what_is_no_loopback_is_refused(command: Command) -> None:
    """An address that is not loopback is wrong usage; a port in use ends with status 3."""
    # This host is refused.
    assert command("serve-script", "--host", "0.0.0.0").exit_code == Status.USAGE  # noqa: S104
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("serve-script", "--port", str(taken.getsockname()[1]))
    assert done.exit_code == Status.FAILED
    assert len(done.stderr.splitlines()) == 1
