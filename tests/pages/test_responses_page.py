"""What docs/responses.md promises holds: its programs run as they stand."""

from __future__ import annotations

import json

import pytest

from strictreply.testing import LoopbackServer
from support.openai_shapes import call, completion, message
from support.pages import Page

pytestmark = pytest.mark.one_lane


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls, a parsed answer, a stream and the tool loop: what is bad is asked again, and only what
    is good is seen.
    """
    bad = call("search", '{"query": 1}')
    good = call("search", '{"query": "tea", "limit": 2}')
    replies = iter(
        [
            completion(message(None, [bad]), "tool_calls"),
            completion(message(None, [good]), "tool_calls"),
            completion(message('{"total": "19", "lines": []}')),
            completion(message('{"total": 19.0, "lines": ["two mugs"]}')),
            completion(message("Hello there.")),
            completion(message(None, [bad]), "tool_calls"),
            completion(message(None, [good]), "tool_calls"),
            completion(message("There are two.")),
        ]
    )
    with LoopbackServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names = Page.named("responses.md").run()

    assert next(replies, None) is None
    assert names["response"].output_parsed == names["Invoice"](total=19.0, lines=["two mugs"])
    (told,) = [turn["content"] for turn in names["run"].transcript if turn["role"] == "tool"]
    assert json.loads(told) == ["tea 0", "tea 1"]

    assert capsys.readouterr().out.endswith("Hello there.There are two.\n")
