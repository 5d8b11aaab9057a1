"""What docs/streams.md promises holds: its programs run as they stand."""

from __future__ import annotations

import pytest

from strictreply.testing import LoopbackServer, ScriptServer
from support.openai_shapes import call, completion, message
from support.pages import Page

pytestmark = pytest.mark.one_lane
PAGE = Page.named("streams.md")


def test_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over the model that ``serve-script`` serves, the typed stream prints what the page shows."""
    with ScriptServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        PAGE.run_and_close()
    assert capsys.readouterr().out.endswith(PAGE.shown[-1])


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Text comes first, then the good call in place of a bad one behind it; a stream that was
    filtered ends so.
    """
    bad = call("search", '{"query": "tea", "query": "poison"}')
    good = call("search", '{"query": "tea"}')
    replies = iter(
        [
            completion(message("I will look. ", [bad]), "tool_calls"),
            completion(message(None, [good]), "tool_calls"),
            completion(message("Tea is"), "content_filter"),
            completion(message('{"total": "19", "lines": []}')),
            completion(message('{"total": 19.0, "lines": ["two mugs"]}')),
        ]
    )
    with LoopbackServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names = PAGE.run()

    assert next(replies, None) is None
    shown = capsys.readouterr().out
    assert shown.startswith("I will look. search query='tea'\n")
    assert "Tea iscontent_filter 1\n" in shown

    assert "retracted: ['answer.type']\n" in shown
    assert "Partial(value={'total': 19.0}, open=('',), answer=Invoice(total=19.0))" in shown
    assert "the total is 19.0\n" in shown
    assert names["invoice"] == names["Invoice"](total=19.0, lines=["two mugs"])
