"""``strictreply faults``: the whole catalogue can be listed, and each fault be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strictreply.testing import Kind
from strictreply.testing.faults import CATALOGUE
from support.cli.running import Command, Status, tools_file


def test_every_fault_is_listed(command: Command) -> None:
    """Each entry has its name, code and sentence, under its kind; the last line counts them."""
    done = command("faults")
    assert done.exit_code == 0
    assert all(
        entry.name in done.stdout and entry.code in done.stdout for entry in CATALOGUE.values()
    )
    assert all(f"\n{kind.value}" in f"\n{done.stdout}" for kind in Kind)
    assert done.stdout.splitlines()[-1].startswith(f"{len(CATALOGUE)} faults")


def test_a_kind_may_be_chosen(command: Command) -> None:
    """``--kind`` may be given several times, and ``--json`` gives what the table shows."""
    told = json.loads(command("faults", "--kind", "finish", "--kind", "json", "--json").stdout)
    assert {entry["kind"] for entry in told} == {"finish", "json"}
    assert [entry["name"] for entry in told] == [
        entry.name for entry in CATALOGUE.values() if entry.kind in {Kind.FINISH, Kind.JSON}
    ]
    assert set(told[0]) == {
        "name",
        "kind",
        "code",
        "places",
        "summary",
        "needs",
        "by_default",
    }


@pytest.mark.parametrize(
    "name", ["trailing_comma", "wrong_type", "internal_server_error", "blank_content", "two_calls"]
)
def test_a_fault_can_be_looked_at(command: Command, name: str) -> None:
    """The served reply is shown with its issue code, made of a sample tool."""
    done = command("faults", "--show", name)
    assert done.exit_code == 0
    assert all(
        word in done.stdout
        for word in (CATALOGUE[name].summary, f"faults.{name}(", CATALOGUE[name].code)
    )


def test_a_fault_is_made_from_given_tools(command: Command, tmp_path: Path) -> None:
    """``--tools`` makes it at every place of those tools; ``--json`` gives a program the same."""
    words = ("faults", "--show", "wrong_type", "--tools", tools_file(tmp_path))
    assert "search /limit: must be an integer" in command(*words).stdout
    told = json.loads(command(*words, "--json").stdout)
    assert [one["at"] for one in told["specimens"]] == ["/query", "/limit"]
    assert [issue["code"] for one in told["specimens"] for issue in one["issues"]] == [
        "args.type",
        "args.type",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--show", "trailing_coma"], "trailing_comma"),
        (["--show", "xyzzy"], "strictreply faults"),
        (["--kind", "finnish"], "finish"),
        (["--show", "pattern_mismatch", "--tools", "TOOLS"], "cannot be made"),
        (["--show", "wrong_type", "--tools", "cli.running:TOOLS"], "--tools"),
    ],
)
def test_wrong_usage_says_what_to_do(
    command: Command, tmp_path: Path, words: list[str], said: str
) -> None:
    """A name that is none gets the nearest ones, and tools that are none or have no such rule are
    told so.
    """
    done = command("faults", *[tools_file(tmp_path) if word == "TOOLS" else word for word in words])
    assert done.exit_code == Status.USAGE
    assert said in done.stderr
    assert done.stdout == ""


def test_what_is_read_by_default_is_told(command: Command) -> None:
    """The list and the single fault say so; of a plain refusal the code is enough."""
    listed = command("faults", "--kind", "stream").stdout
    assert "No delta of the call has an id. By default: read as the good reply." in listed
    assert "The last piece of the JSON is sent twice. By default" not in listed

    shown = command("faults", "--show", "stream_name_missing").stdout
    assert "read  refused: shape.wrong_type" in shown
    assert "refused" not in command("faults", "--show", "missing_required").stdout
