"""What docs/client.md promises holds.

Its programs run as they stand, and its table of errors is the code's.
"""

from __future__ import annotations

import pytest

import strictreply as sr
from strictreply.testing import LoopbackServer, ScriptedModel, ok
from support.pages import Page

pytestmark = pytest.mark.one_lane

PAGE = Page.named("client.md")


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's programs run in order against a real server; the last prints the verdict of its
    own loop.
    """
    model = ScriptedModel(ok.answer("Tea is sold out."))
    with LoopbackServer(model) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names = PAGE.run()
    model.assert_spent()
    assert names["step"].verdict == sr.Valid(sr.DirectAnswer("Tea is sold out."))
    assert "Tea is sold out." in capsys.readouterr().out


def test_the_table_of_methods_is_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table on the page equals the result of ``guarded``."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    import openai  # noqa: PLC0415 - beside the page's own

    held = sr.guarded(
        sr.wrap(openai.OpenAI(), tools=[sr.Tool.from_json_schema("search", {"type": "object"})])
    )
    guarded = {path for path, how in held.items() if how == "guarded"}
    assert {"chat.completions.create", "chat.completions.parse"} <= guarded
    assert {"chat.completions.with_raw_response.create", "beta.chat.completions.parse"} <= guarded

    assert {"chat.completions.stream", "beta.chat.completions.stream"} <= guarded
    assert {"chat.completions.retrieve", "chat.completions.update"} <= guarded
    assert {"responses.create", "responses.retrieve", "responses.cancel"} <= guarded
    assert {"get", "post", "put", "patch", "request"} <= guarded

    refused = {path for path, how in held.items() if how == "refuses" and "_response." not in path}
    beta = {path for path in refused if path.startswith("beta.responses.")}
    assert refused - beta <= {
        "chat.completions.list",
        "beta.chat.completions.list",
        "responses.connect",
        "get_api_list",
    }
    assert held["completions.create"] == held["realtime.connect"] == "unguarded"
    assert held["embeddings.create"] == "passes"
