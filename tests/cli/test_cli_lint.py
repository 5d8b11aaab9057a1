"""``strictreply lint``: what providers make of one's own schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strictreply.schema._providers import PROVIDERS
from support.cli.running import Command, Status, tools_file

GOOD = """[{"type": "function", "function": {"name": "search", "description": "Search.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}},
    "required": ["query"], "additionalProperties": false}}}]"""


def good_file(folder: Path) -> str:
    """Write a tool that every provider takes, and give the file's path."""
    path = folder / "good.json"
    path.write_text(GOOD, encoding="utf-8")
    return str(path)


def test_the_findings_are_printed(command: Command, tmp_path: Path) -> None:
    """A refused schema is a row with its provider and place, and the status is 1."""
    done = command("lint", tools_file(tmp_path), "--for", "openai")
    assert done.exit_code == Status.INVALID
    [row] = [line for line in done.stdout.splitlines() if line.startswith("error")]
    assert row.split()[1:3] == ["openai", "search:"]
    assert done.stdout.splitlines()[-1].startswith("1 error")


def test_what_all_take_is_a_success(command: Command, tmp_path: Path) -> None:
    """Without an error the status is 0, for all providers."""
    done = command("lint", good_file(tmp_path))
    assert done.exit_code == 0
    assert all(name in done.stdout for name in PROVIDERS)


def test_the_report_is_json(command: Command, tmp_path: Path) -> None:
    """``--json`` prints the report as one line."""
    done = command("lint", tools_file(tmp_path), "--for", "openai, gemini", "--json")
    assert done.exit_code == Status.INVALID
    told = json.loads(done.stdout)
    assert (told["ok"], told["providers"]) == (False, ["openai", "gemini"])
    assert "provider.refused" in [finding["code"] for finding in told["findings"]]


def test_an_answer_is_looked_at(command: Command) -> None:
    """``--answer`` names a type of a module; tools are not needed then."""
    done = command("lint", "--answer", "builtins:bool", "--for", "openai", "--json")
    told = json.loads(done.stdout)
    found = [one for one in told["findings"] if one["code"] == "schema.root_not_object"]
    assert [one["is_answer"] for one in found] == [True]


@pytest.mark.parametrize(
    "words",
    [
        ["lint"],
        ["lint", "no-such-file.json"],
        ["lint", "json:dumps", "--for", "nobody"],
    ],
)
def test_wrong_usage_is_said(command: Command, words: list[str]) -> None:
    """Nothing to look at, a file that is not there and an unknown provider are wrong usage."""
    done = command(*words)
    assert done.exit_code == Status.USAGE
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
