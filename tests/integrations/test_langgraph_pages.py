"""What the page about LangGraph promises holds.

It is run as it stands, and who lacks the extra is told its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strictreply.core import JSON

pytest.importorskip(
    "langgraph.checkpoint.sqlite", reason="its SQLite checkpointer is a package of its own"
)

from strictreply.testing import HTTPReply, LoopbackServer, ScriptedModel, ok
from support.integrations.langgraph_runs import act, final, hand
from support.pages import Page

PAGE = Page.named("langgraph.md")


def test_the_page_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The page's programs, run in order, end well and print what the page shows."""
    question = act("ask_user", question="Algebra 101 on Mondays?")
    plan = hand("planner", "a plan")
    models = {
        "gpt-5-mini": ScriptedModel(ok.call(_search, topic="Algebra"), plan, plan),
        "gpt-5": ScriptedModel(question, final("Algebra 101 on Mondays"), question),
        "gpt-5-nano": ScriptedModel(
            ok.call(_enrol, course="Algebra 101"),
            final("Algebra 101 is full."),
            ok.call(_book, course="Algebra 101"),
            final("Booked."),
            final("Algebra 101 on Mondays, Geometry 102 on Fridays."),
        ),
    }

    def answer(request: dict[str, Any]) -> JSON | HTTPReply:
        """Serve the page's two models."""
        return models[request["model"]](request)

    shown, *later = PAGE.shown
    monkeypatch.chdir(tmp_path)

    with LoopbackServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        PAGE.run()

    assert capsys.readouterr().out == "".join([shown, *later, "Algebra 101 on Mondays?\n"])

    for model in models.values():
        model.assert_spent()


def _search(topic: str) -> list[str]:
    """Do nothing: a placeholder for the page's tool."""
    return [topic]


def _enrol(course: str) -> str:
    """Do nothing, as above."""
    return course


def _book(course: str) -> str:
    """Do nothing, as above."""
    return course


_search.__name__ = "search_courses"
_enrol.__name__ = "enrol"
_book.__name__ = "book"
