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
    told = "".join(Page.named("messages.md").shown).splitlines()
    assert all(line.rstrip("…") in shown for line in told)
    assert "\nbeta.sessions.create\n" in shown


def marked_tests(pytester: pytest.Pytester, *, is_guarded: bool) -> pytest.RunResult:
    """Run the marked tests of the page, over wrapped clients or over raw ones."""
    [block] = [one for one in Page.named("messages.md").programs if "mark.malformed" in one]
    imports = (
        "import anthropic\nimport strictreply as sr\n"
        "from strictreply.testing import LoopbackServer, ScriptedModel\n"
    )
    if not is_guarded:
        block = block.replace("sr.wrap(", "(")

    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_shop=imports + block)
    options = ("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist")
    return pytester.runpytest_inprocess(*options)


def test_the_tests_of_the_page_pass_for_a_guarded_program(pytester: pytest.Pytester) -> None:
    """With a wrapped client no malformed reply refunds an order."""
    counts = marked_tests(pytester, is_guarded=True).parseoutcomes()
    assert set(counts) == {"passed"}
    assert counts["passed"] > 20


def test_the_tests_of_the_page_fail_for_an_unguarded_program(pytester: pytest.Pytester) -> None:
    """The same program without ``sr.wrap`` refunds what no valid call names, in both tests."""
    done = marked_tests(pytester, is_guarded=False)
    assert done.parseoutcomes()["failed"] >= 2
    told = done.stdout.str()
    assert "what the app did: acts on invalid data: AssertionError" in told
    for name in ("test_only_a_valid_call_refunds", "test_an_unchanged_program"):
        assert f"FAILED test_shop.py::{name}" in told
