"""Durable runs over the Messages API: turns are kept as they came, and go back as it takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply.integrations.dbos import DurableRun, DurableRuns
from support.anthropic_rules import RulesServer
from support.claude_runs import THINKING, client, memory_client, refund, search
from support.messages import use

POLL = 0.02
THOUGHT = {"type": "thinking", "thinking": "hm"}
CALLS = [THOUGHT, use({"query": "tea", "limit": 1}), use({"order": 4}, "toolu_b", "refund")]
DONE = [THOUGHT, {"type": "text", "text": "done"}]
KEPT = {"model": "claude", **THINKING}


def runs_of(server: RulesServer, folder: Path, *, is_async: bool = False) -> DurableRuns:
    """Make durable runs of a desk whose model is the server."""
    given: Any = {"tools": [search, refund], "parallel": True}
    guarded = sr.wrap(memory_client(server), **given) if is_async else client(server, **given)
    return DurableRuns("claude", guarded, url=f"sqlite:///{folder}/runs.sqlite", **KEPT)


def answered(run: DurableRun) -> str:
    """Approve what waits, and return the answer."""
    paused = run.result(poll_seconds=POLL)
    (call,) = paused.pending
    run.answer([call.approved()])
    ended = run.result(poll_seconds=POLL)
    while ended.is_paused:
        ended = run.result(poll_seconds=POLL)

    return str(ended.answer)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_durable_run_waits_and_goes_on(is_async: bool, tmp_path: Path) -> None:
    """The signed thoughts that led to a call stand in the database, and go back before it."""
    with RulesServer(CALLS, DONE) as server:
        runs = runs_of(server, tmp_path, is_async=is_async)
        with runs, runs.worker(poll_seconds=POLL):
            assert answered(runs.start("refund it")) == "done"

    assert server.refused == []
    assert len(server.asked) == 2
    turn, results = server.asked[1]["messages"][1:]
    assert turn["content"] == server.sent[0]["content"]
    assert [block["content"] for block in results["content"]] == ['["tea"]', "order 4 refunded"]


def test_a_step_that_failed_is_done_again_alone(tmp_path: Path) -> None:
    """An overloaded API fails the run; a retry asks once more, and runs no tool again."""
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    replies: list[Any] = [[THOUGHT, use({"query": "tea", "limit": 1})], *[busy] * 4]
    with RulesServer(*replies) as server:
        runs = runs_of(server, tmp_path)
        with runs, runs.worker(poll_seconds=POLL):
            run = runs.start("find tea")
            with pytest.raises(Exception, match="server_error"):
                run.result(poll_seconds=POLL)

            server.script[:] = [DONE]
            before = len(server.asked)
            run.retry()
            assert run.result(poll_seconds=POLL).answer == "done"

    assert server.refused == []
    assert len(server.asked) == before + 1
    assert server.asked[-1]["messages"][1]["content"] == server.sent[0]["content"]
