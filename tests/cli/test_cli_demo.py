"""``strictreply demo`` shows its three stories."""

from __future__ import annotations

import re

import pytest

from strictreply.cli._model_commands import PROGRAM
from support.cli.running import Command


@pytest.mark.parametrize("columns", [80, 160])
def test_the_first_screen_fits(
    command: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """At most 40 lines: the program, three stories, a table and the next command; whatever the
    environment names.
    """
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.invalid/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    done = command("demo", COLUMNS=str(columns))
    lines = done.stdout.splitlines()

    assert done.exit_code == 0
    assert len(lines) <= 40
    assert max(map(len, lines)) <= columns
    assert "\n".join(line[4:] for line in lines[:11]) == PROGRAM.strip()
    rows = [re.split(r" {2,}", line.strip()) for line in lines if re.match(r"[123]  {4}", line)]
    assert [(row[1], row[2], row[3], row[5]) for row in rows] == [
        ("fixed", "2", "args.type", "1"),
        ("partly kept, rest fixed", "2", "args.extra_key", "2"),
        ("rejected", "4", "args.required", "0"),
    ]

    assert lines[-1].endswith("strictreply probe --app yourmodule:function")
