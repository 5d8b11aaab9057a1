"""What docs/coordination.md promises holds.

Its programs run as they stand, and its tables are those of the code.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strictreply import Category
from strictreply.coordination import ActionType, ErrorPolicy, Reaction
from strictreply.coordination.actions import SHAPES, Need
from support.pages import Page

PAGE = Page.named("coordination.md")
TESTS = Path(__file__).resolve().parents[1]
FIRST_LINES = 15


def words(cell: str) -> set[str]:
    """Return what stands in a cell as code."""
    return set(re.findall(r"`(\w+)`", cell))


@pytest.mark.slow
def test_the_page_runs() -> None:
    """The page prints what it shows and warns of nothing; it registers a format, so it has its own
    interpreter.
    """
    script = "from support.pages import Page; Page.named('coordination.md').run()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=TESTS,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(PAGE.shown)


def test_the_page_begins_with_a_program() -> None:
    """Its first fifteen lines hold a whole program, which imports all that it needs."""
    beginning = Page("\n".join(PAGE.text.splitlines()[:FIRST_LINES]) + "\n")
    assert beginning.programs == PAGE.programs[:1]
    beginning.run()


def test_the_table_of_actions_is_that_of_the_code() -> None:
    """Each action has one row, with the members of its shape and no other."""
    table = PAGE.table("## Actions and permissions")
    told = {ActionType(action.strip("`")): words(members) for action, members, _ in table}
    assert len(table) == len(told) == len(ActionType)
    assert told == {action: set(shape.properties) for action, shape in SHAPES.items()}
    needs = {ActionType(action.strip("`")): who for action, _, who in table}
    assert {action for action, who in needs.items() if "`leave=`" in who} == {
        action for action, shape in SHAPES.items() if Need.LEAVE in shape.needs
    }
    assert {action for action, who in needs.items() if "`User`" in who} == {
        action
        for action, shape in SHAPES.items()
        if {Need.USER, Need.FINISH} & {*shape.needs} and Need.LEAVE not in shape.needs
    }
    assert {action for action, who in needs.items() if "the system" in who} == {
        action for action, shape in SHAPES.items() if shape.systemic
    }


def test_the_table_of_reactions_is_that_of_the_code() -> None:
    """Each category stands once, beside what follows it by default."""
    said = {
        "retried": Reaction.RETRY,
        "passed to the user": Reaction.ESCALATE,
        "the branch ends": Reaction.TERMINATE,
    }
    told = {
        Category(name): next(reaction for start, reaction in said.items() if what.startswith(start))
        for names, what in PAGE.table("A table by category decides")
        for name in words(names)
    }
    assert told == dict(ErrorPolicy().reactions)
