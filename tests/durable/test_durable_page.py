"""What docs/durable.md promises holds.

Its programs run as they stand, and its tables are those of the code.
"""

from __future__ import annotations

import inspect
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from support.durable.desk import DEATHS

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply import loop
from strictreply.integrations.dbos import DurableRun, DurableRuns
from strictreply.integrations.dbos._durable_worker import MAX_DROPS
from strictreply.testing import LoopbackServer, ScriptedModel, ok
from support.pages import Page

PAGE = Page.named("durable.md")
FIRST_LINES = 15
OWN_KINDS = {"RunCancelled", "RunGivenUp", "RunNotFound"}
INTERNAL = {"told", "database", "enqueue", "workflow", "end", "turn_id", "runs"}


def find_order(number: int) -> str:
    """Do nothing: a placeholder for the page's tool."""
    return str(number)


def calls(cell: str) -> dict[str, str]:
    """Return the names set as code in a cell, each with the text in brackets behind it."""
    return dict(re.findall(r"`(\w+)(?:\(([^`]*)\))?`", cell))


def signature(member: object) -> str:
    """Return the parameters of a method as the page writes them."""
    given = [one for one in inspect.signature(member).parameters.values() if one.name != "self"]  # type: ignore[arg-type]
    return ", ".join(
        one.name if one.default is inspect.Parameter.empty else f"{one.name}={one.default!r}"
        for one in given
    )


@pytest.mark.slow
def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The page's programs, run in order, print what the page shows; the first talks to a real
    server, once.
    """
    model = ScriptedModel(ok.call(find_order, number=1042), ok.answer("Your mug came on Monday."))
    monkeypatch.chdir(tmp_path)

    printed = io.StringIO()  # not pytest's: DBOS would keep its stderr for its log, and outlive it
    with LoopbackServer(model) as server, redirect_stdout(printed):
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        names = PAGE.run()

    shown = [text for text in PAGE.shown if not text.startswith("DBOS(")]
    assert printed.getvalue() == "".join(shown)
    model.assert_spent()
    assert names["paused"].answer == "It is refunded."


def test_the_page_begins_with_a_short_program() -> None:
    """The first program is whole, and fifteen lines at most."""
    first = PAGE.programs[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= FIRST_LINES
    assert "runs.worker()" in first


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("of one kind", DurableRuns), ("connections of `start`", DurableRun)],
    ids=["runs", "run"],
)
def test_the_tables_of_members_are_those_of_the_code(heading: str, kind: type) -> None:
    """Each public member stands in the table with its parameters, and nothing else."""
    told = {name: given for cell, _ in PAGE.table(heading) for name, given in calls(cell).items()}
    own = {
        name: member
        for name, member in vars(kind).items()
        if not name.startswith("_") and name not in INTERNAL
    }
    assert told == {
        name: signature(member) if callable(member) else "" for name, member in own.items()
    }


def test_the_kinds_of_failure_are_those_of_the_code() -> None:
    """Each kind is an error of the library, or one of the three ends that no turn comes to by
    itself.
    """
    told = [name for kinds, _ in PAGE.table("## Runs that fail") for name in calls(kinds)]
    errors = {
        name: getattr(sr, name, None) or getattr(loop, name)
        for name in told
        if name not in OWN_KINDS
    }
    assert set(told) >= OWN_KINDS
    assert all(issubclass(error, sr.StrictReplyError) for error in errors.values())


def test_the_number_of_deaths_is_that_of_the_code() -> None:
    """The page names the number of deaths after which a run is given up."""
    assert MAX_DROPS == DEATHS
    assert "five worker processes in a row died" in PAGE.text
