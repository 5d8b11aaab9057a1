"""What the page and the example about instructor promise holds: they are run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("instructor", reason="instructor is an extra with a lane of its own")

from strictreply.testing import LoopbackServer
from support.integrations.providers import ADA
from support.pages import Page
from support.scripted import call, completion

ROOT = Path(__file__).resolve().parents[2]
PAGE = Page.named("instructor.md")
EXAMPLE = [
    r"^attempt 1: [a-z]+\.[a-z_]+$",
    r"^attempt \d: valid$",
    r"^over: order 1042 of Grace Hopper is delivered$",
    r"^under: order 1042 of Grace Hopper is delivered$",
]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer the page's questions: about Ada rightly, about nobody never."""
    asked = request["messages"][0]["content"]
    name = request["tools"][0]["function"]["name"]
    value: dict[str, Any] = {"name": "Nobody"} if asked == "Nobody." else ADA
    return completion(calls=[call(name, {"tasks": [ADA]} if name == "IterableUser" else value)])


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's programs, run in order, end well and print what the page shows."""
    with LoopbackServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        PAGE.run()["client"].client.close()
    told = capsys.readouterr().out
    assert len(PAGE.programs) == 5
    assert "retries ['args.required']" in told
    assert [text for text in PAGE.shown if text not in told] == []


def test_the_example_keeps_its_promise(tmp_path: Path) -> None:
    """Run from anywhere, without a key or a network, it ends well, warns of nothing and prints
    these lines in order.
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "instructor_engine.py")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    left = iter(done.stdout.splitlines())

    for promise in EXAMPLE:
        assert any(re.search(promise, line) for line in left), (
            f"{promise} is not in, or not in order:\n{done.stdout}"
        )
