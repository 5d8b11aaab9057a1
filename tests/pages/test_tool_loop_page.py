"""What docs/tool_loop.md promises holds.

Its programs run as they stand, and its tables are those of the code.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import strictreply as sr
from strictreply import loop, pipeline
from strictreply.pipeline import AgentResponse, AgentToolCall
from strictreply.testing import LoopbackServer, ScriptedModel, ok
from support.loops import some
from support.pages import Page

pytestmark = pytest.mark.one_lane

PAGE = Page.named("tool_loop.md")
GUIDE = Page.named("guide.md")
FIRST_LINES = 15


def words(cell: str) -> list[str]:
    """Return the names set as code in a cell."""
    return re.findall(r"`(\w+)`", cell)


def find_order(number: int) -> str:
    """Do nothing: a placeholder for the page's tool."""
    return str(number)


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's programs, run in order, print what the page shows; the first talks to a real
    server.
    """
    model = ScriptedModel(ok.call(find_order, number=1042), ok.answer("Your mug came on Monday."))
    with LoopbackServer(model) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        PAGE.run()
    assert capsys.readouterr().out == "".join(PAGE.shown)
    model.assert_spent()


def test_the_loop_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that pauses for a tool and then for an approval comes to its answer."""
    (program,) = [program for program in GUIDE.programs if "run.is_paused" in program]
    photo = sr.Tool.from_json_schema("photo", {"type": "object"})
    paid = sr.Tool.from_function(find_order, needs_approval=True)
    model = ScriptedModel(ok.call(photo), ok.call(paid, number=1042), ok.answer("That is all."))

    asked: list[AgentResponse] = []

    def ask_the_client(text: str) -> list[dict[str, object]]:
        """Answer as a client would, from the JSON alone."""
        asked.append(AgentResponse.from_json(text))
        calls = asked[-1].tool_calls or ()
        return [call.answered("a mug").to_dict() for call in calls if not call.needs_approval]

    client = sr.wrap(model.client(), tools=[photo, paid])
    names = {
        "sr": sr,
        "client": client,
        "ask_the_client": ask_the_client,
        "decide": AgentToolCall.approved,
    }

    monkeypatch.chdir(tmp_path)
    exec(program, names)  # noqa: S102 - the page itself
    assert capsys.readouterr().out == "That is all.\n"
    assert [call.name for response in asked for call in response.tool_calls or ()] == [
        "photo",
        "find_order",
    ]

    model.assert_spent()


def test_the_page_begins_with_a_short_program() -> None:
    """The first program is whole, and fifteen lines at most."""
    first = PAGE.programs[0]
    assert len(first.splitlines()) <= FIRST_LINES
    assert "sr.run(" in first


def test_the_table_of_a_run_is_that_of_the_code() -> None:
    """Each public member of a Run stands in the table, and nothing else."""
    told = [name for members, _ in PAGE.table("Both return a `Run`") for name in words(members)]
    own = {name for name in vars(sr.Run) if not name.startswith("_")}
    assert sorted(told) == sorted(own)


def test_the_table_of_bounds_is_that_of_the_code() -> None:
    """Each field of LoopPolicy stands in the table, in order, with its default."""
    told = [(*words(name), *words(default)) for name, default, _ in PAGE.table("## Bounds")]
    assert told == [(field.name, str(field.default)) for field in fields(sr.LoopPolicy)]


def test_the_table_of_errors_names_what_there_is() -> None:
    """Each error is one of the library's, each code one of the enum, each member one that the error
    has.
    """
    codes = {code.value for code in pipeline.InvokeCode}
    for _, raised, told in some(PAGE.table("## What is raised")):
        kinds = [
            getattr(sr, name, None) or getattr(loop, name, None) or getattr(pipeline, name)
            for name in words(raised)
        ]
        assert kinds
        assert all(issubclass(kind, sr.StrictReplyError) for kind in kinds)
        unknown = [word for word in words(told) if word.isupper() and word not in codes]
        assert unknown == []
