"""``strictreply demo`` shows its three stories."""

from __future__ import annotations

import re

import pytest

from strictreply.cli._demo import PROGRAM
from support.cli.running import Command

LABEL = re.compile(r"^ {3}(?P<label>[a-z]+) ", re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 160])
def test_the_first_screen_fits(
    command: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """At most 42 lines of a terminal's columns, with nothing cut: the program, three stories and
    the next command; whatever the environment names.
    """
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.invalid/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    done = command("demo", COLUMNS=str(columns))
    lines = done.stdout.splitlines()

    assert done.exit_code == 0
    assert len(lines) <= 42
    assert max(map(len, lines)) <= columns
    assert "…" not in done.stdout
    assert "\n".join(line[4:] for line in lines[:11]) == PROGRAM.strip()
    assert lines[-1].endswith("strictreply probe --app yourmodule:function")


def test_each_story_shows_what_happened(command: Command) -> None:
    """Each story shows the reply, its issue, the correction and the end; of two calls, each shows
    what became of it.
    """
    text = command("demo", COLUMNS="80").stdout
    stories = re.split(r"\n\n[123]  ", text)[1:]
    labels = [[found["label"] for found in LABEL.finditer(story)] for story in stories]
    assert labels == [
        ["reply", "issue", "sent", "reply", "ran"],
        ["reply", "issue", "sent", "reply", "ran"],
        ["reply", "issue", "sent", "raised"],
    ]

    codes = [re.findall(r"issue +([a-z_.]+)", story) for story in stories]
    assert codes == [["args.type"], ["args.extra_key"], ["args.required"]]

    kept, rejected = (
        line for line in stories[1].splitlines() if line.endswith(("kept", "rejected"))
    )
    assert kept.endswith("kept")
    assert '"note"' in rejected
    assert "ToolArgumentsError after 4 requests" in stories[2]
