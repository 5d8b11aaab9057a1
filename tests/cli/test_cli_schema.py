"""``strictreply schema``: the published schemas of ``schemas/`` on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli.running import Command

FOLDER = Path(__file__).resolve().parents[2] / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}


def test_all_schemas_are_printed_by_name(command: Command) -> None:
    """Without a name, stdout is one JSON object of all schemas."""
    done = command("schema")
    assert (done.exit_code, json.loads(done.stdout)) == (0, SCHEMAS)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_one_schema_is_printed(command: Command, name: str) -> None:
    """With a name, stdout is that schema alone."""
    done = command("schema", name)
    assert (done.exit_code, json.loads(done.stdout)) == (0, SCHEMAS[name])


def test_an_unknown_name_is_wrong_usage(command: Command) -> None:
    """A name that is none prints nothing on stdout, names those there are, and ends with 2."""
    done = command("schema", "nope")
    assert (done.exit_code, done.stdout) == (2, "")
    assert all(name in done.stderr for name in SCHEMAS)


def test_help_stands_without_arguments(command: Command) -> None:
    """The bare command lists its commands."""
    done = command()
    assert all(name in done.output for name in ("demo", "serve-script", "ask", "check", "schema"))
