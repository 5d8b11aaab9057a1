"""The commands over the Messages API, against a server as strict as the API."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from strictreply.cli._terminal import Status
from support.anthropic_rules import RulesServer
from support.cli.running import Command
from support.messages import SEARCH, message, text, use

pytest.importorskip("anthropic", reason="needs the anthropic SDK")
pytest_plugins = ["cli.conftest"]

ASK = ("ask", "find tea", "--api", "messages")


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """Return the path of a file of tools in the API's own form."""
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([SEARCH]))
    return str(path)


def test_ask_corrects_and_prints_the_reply(command: Command, tools: str) -> None:
    """The key is that of the API's own library, and never one of another."""
    with RulesServer([use({"query": 1})], [use({"query": "tea"})]) as server:
        done = command(
            *(*ASK, "--tools", tools, "--model", "claude"),
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="k",
            OPENAI_API_KEY="sk-other",
            OPENAI_BASE_URL="http://127.0.0.1:1/v1",
        )

    assert (done.exit_code, server.refused) == (0, [])
    assert json.loads(done.stdout) == {"tool": "search", "args": {"query": "tea"}, "id": "toolu_a"}
    assert "args.type at search /query" in done.stderr
    assert [asked["max_tokens"] for asked in server.asked] == [4096, 4096]


def test_ask_sends_more_of_a_request(command: Command) -> None:
    """Keywords of the API alone are given as JSON, and its least demand may be another."""
    more = {"max_tokens": 50, "system": "Be brief.", "stop_sequences": ["\n"]}
    with RulesServer([text("tea")]) as server:
        words = (*ASK, "--model", "claude", "--request", json.dumps(more))
        done = command(*words, ANTHROPIC_BASE_URL=server.url)

    assert (done.exit_code, server.refused) == (0, [])
    assert {name: server.asked[0][name] for name in more} == more


@pytest.mark.parametrize("more", ['{"model": "m"}', '{"messages": []}', "[]", "{"])
def test_what_cannot_be_of_a_request_is_wrong_usage(command: Command, more: str) -> None:
    """What an option sets is not set by JSON, too."""
    words = (*ASK, "--model", "claude", "--request", more)
    done = command(*words, ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert "--request" in done.stderr


def test_the_public_api_needs_a_key_and_a_model(command: Command) -> None:
    """The words name the variables of the API's own library."""
    done = command(*ASK, OPENAI_API_KEY="sk-other")
    assert done.exit_code == Status.USAGE
    assert "set ANTHROPIC_API_KEY; for a server that needs no key pass --base-url" in done.stderr

    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        done = command(*ASK, **{variable: "k"})
        assert done.exit_code == Status.USAGE
        assert "pass --model" in done.stderr


def test_a_token_is_sent_in_place_of_a_key(command: Command) -> None:
    """The library finds it by itself: no key is made up beside it."""
    with RulesServer([text("tea")]) as server:
        words = (*ASK, "--model", "claude", "--base-url", server.url)
        done = command(*words, ANTHROPIC_AUTH_TOKEN="token")

    assert (done.exit_code, json.loads(done.stdout)) == (0, {"answer": "tea"})


def test_a_refused_key_is_told_without_it(command: Command) -> None:
    """The server's own words are told, from the body of an error of the API."""
    error = {"type": "authentication_error", "message": "bad key sk-ant-123456789"}
    with RulesServer({"type": "error", "error": error}) as server:
        words = (*ASK, "--model", "m", "--base-url", server.url, "--api-key", "sk-ant-123456789")
        done = command(*words)

    assert (done.exit_code, done.stdout) == (Status.FAILED, "")
    assert "authentication_failed (HTTP 401): bad key [redacted]" in done.stderr


@pytest.mark.parametrize("name", ["ask", "batch"])
def test_a_missing_library_is_named(
    command: Command, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra the commands say what to install; the others do not need it."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    rows = tmp_path / "in.jsonl"
    rows.write_text('{"messages": "3"}\n')
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([SEARCH]))
    words = {"ask": ("ask", "Hello?"), "batch": ("batch", str(rows), "--tools", str(tools))}
    more = ("--api", "messages", "--model", "m", "--base-url", "http://127.0.0.1:1")
    done = command(*words[name], *more)
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert "pip install 'strictreply[anthropic]'" in done.stderr


@pytest.mark.parametrize("form", ["message", "response", "pair"])
def test_check_judges_recorded_messages(
    command: Command, form: str, tools: str, tmp_path: Path
) -> None:
    """A message of the API alone, in a record, or with tools of its own is a recorded reply."""
    replies = [message(use({"query": "tea"})), message(use({"query": 1})), message(text("tea"))]
    asked: dict[str, Any] = {"model": "claude", "tools": [SEARCH]}
    lines = {
        "message": replies,
        "response": [reply | {"tools": [SEARCH]} for reply in replies],
        "pair": [{"request": asked, "response": reply} for reply in replies],
    }[form]
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    declared = ("--tools", tools) if form == "message" else ()
    done = command("check", str(path), *declared, "--json")
    assert done.exit_code == Status.INVALID

    found = json.loads(done.stdout)
    assert (found["replies"], found["unreadable"]) == (3, [])
    assert found["by_code"] == {"args.type": 1}
    assert found["by_model"]["claude"] == {"replies": 3, "invalid": 1}
    (wrong,) = found["invalid_replies"]
    assert [issue["path"] for issue in wrong["issues"]] == [
        "/tool_calls/0/function/arguments/query"
    ]
