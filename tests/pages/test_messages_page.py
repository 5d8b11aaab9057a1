"""What docs/messages.md promises holds: its programs run as they stand."""

from __future__ import annotations

import pytest

from strictreply.testing import LoopbackServer
from support.messages import message, text, use
from support.pages import Page

pytest.importorskip("anthropic")
pytestmark = pytest.mark.one_lane


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is bad is corrected, and only what is good is seen."""
    bad = message(use({"query": 1}))
    good = message(use({"query": "tea", "limit": 2}, "toolu_b"))
    replies = iter(
        [
            bad,
            good,
            message(text('{"total": -19, "lines": []}')),
            message(text('{"total": 19, "lines": ["two mugs"]}')),
            message(text("Hello there.")),
            bad,
            good,
            message(text("There are two.")),
        ]
    )
    with LoopbackServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        names = Page.named("messages.md").run()

    assert next(replies, None) is None
    assert names["message"].parsed_output == names["Invoice"](total=19.0, lines=["two mugs"])
    (told,) = names["run"].transcript[-2]["content"]
    assert told["content"] == '["tea 0","tea 1"]'
    assert names["step"].request["max_tokens"] == 500

    shown = capsys.readouterr().out
    assert "Hello there.end_turn" in shown
    assert "There are two." in shown
    told = Page.named("messages.md").shown[0].splitlines()
    assert all(line.rstrip("…") in shown for line in told)
    assert "\nbeta.sessions.create\n" in shown
