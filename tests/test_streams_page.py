"""What docs/streams.md promises holds: its programs run as they stand."""

from __future__ import annotations

import pytest

import strictreply as sr
from openai_shapes import call, completion, message
from pages import Page
from strictreply.testing import LoopbackServer

pytestmark = pytest.mark.one_lane


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Text comes first, then the good call in place of a bad one behind it; a stream that was filtered ends so."""
    bad, good = call("search", '{"query": "tea", "query": "poison"}'), call("search", '{"query": "tea"}')
    replies = iter(
        [
            completion(message("I will look. ", [bad]), "tool_calls"),
            completion(message(None, [good]), "tool_calls"),
            completion(message("Tea is"), "content_filter"),
        ]
    )
    with LoopbackServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names = Page.named("streams.md").run()
    assert next(replies, None) is None
    shown = capsys.readouterr().out
    assert shown == "I will look. search query='tea'\nTea iscontent_filter 1\n"
    assert isinstance(names["client"], sr.StrictClient)
