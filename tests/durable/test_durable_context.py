"""What a program gives the tools of durable runs, and how a tool ends one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply.integrations.dbos import DurableRun, DurableRunFailed, DurableRuns
from strictreply.testing import ScriptedClient, ScriptedModel, Step, ok
from strictreply.testing.mounting import AsyncScriptedClient

POLL = 0.02


@sr.tool
def find(shop: sr.Context[list[str]], item: str) -> str:
    """Find an item."""
    shop.append(f"find {item}")
    return f"{item} is there"


@sr.tool
async def afind(shop: sr.Context[list[str]], item: str) -> str:
    """Find an item."""
    return find.function(shop, item) if find.function else ""


@sr.tool(needs_approval=True)
def sell(shop: sr.Context[list[str]], item: str) -> str:
    """Sell an item."""
    shop.append(f"sell {item}")
    return "sold"


@sr.tool
def stop(shop: sr.Context[list[str]], item: str) -> str:
    """End the run."""
    shop.append(f"stop {item}")
    raise sr.AbortRun("the shop is closed")


@sr.tool
async def astop(shop: sr.Context[list[str]], item: str) -> str:
    """End the run."""
    shop.append(f"stop {item}")
    raise sr.AbortRun("the shop is closed")


def runs_of(url: str, *script: Step, awaited: bool = False, **given: Any) -> DurableRuns:
    """Make durable runs of a shop on a script."""
    model = ScriptedModel(*script)
    client: Any = (AsyncScriptedClient if awaited else ScriptedClient)(model)
    tools = [afind, astop] if awaited else [find, sell, stop]
    return DurableRuns(
        "shop", sr.wrap(client, tools=tools, parallel=True), url=url, model="m", **given
    )


def ended(run: DurableRun) -> DurableRunFailed:
    """Wait for the end of a run that fails, and return its failure."""
    with pytest.raises(DurableRunFailed, match="the shop is closed") as raised:
        run.result(poll_seconds=POLL)
    return raised.value


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database for one process."""
    return f"sqlite:///{tmp_path}/runs.sqlite"


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_tools_get_the_context_of_their_process(url: str, *, awaited: bool) -> None:
    """It is in no schema and in no database, and each call gets it."""
    tool = afind if awaited else find
    calls = ok.calls(ok.call(tool, item="mug"), ok.call(tool, item="cup"))
    shop: list[str] = []
    runs = runs_of(url, calls, ok.answer("Both."), awaited=awaited, context=shop)
    with runs, runs.worker(poll_seconds=POLL):
        run = runs.start("Are they there?").result(poll_seconds=POLL)

    assert run.answer == "Both."
    assert sorted(shop) == ["find cup", "find mug"]


def test_a_run_goes_on_with_the_context_of_the_process_that_resumes_it(url: str) -> None:
    """What a run cannot store is given again: an answered call gets the new process's context."""
    script = [ok.call(find, item="mug"), ok.call(sell, item="mug")]
    first: list[str] = []
    runs = runs_of(url, *script, context=first)
    with runs, runs.worker(poll_seconds=POLL):
        assert runs.start("Sell.", id="ticket").result(poll_seconds=POLL).is_paused

    second: list[str] = []
    runs = runs_of(url, ok.answer("Sold."), context=second)
    with runs, runs.worker(poll_seconds=POLL):
        run = runs.find("ticket")
        (call,) = run.result(poll_seconds=POLL).pending
        run.answer([call.approved()])
        assert run.result(poll_seconds=POLL).answer == "Sold."

    assert (first, second) == (["find mug"], ["sell mug"])


def test_a_missing_context_is_an_error_before_anything_is_asked(url: str) -> None:
    """The runs are not made without what their tools take."""
    with pytest.raises(sr.ContractError, match=r"needs a context as 'shop'.*context="):
        runs_of(url)


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("several", [False, True], ids=["one call", "beside another"])
def test_a_tool_ends_the_run(url: str, *, awaited: bool, several: bool) -> None:
    """AbortRun fails the run with its words, nothing more is asked, and a retry repeats no call."""
    looked = ok.call(afind if awaited else find, item="mug")
    stopped = ok.call(astop if awaited else stop, item="mug")
    script = [ok.calls(stopped, looked) if several else stopped]
    shop: list[str] = []
    runs = runs_of(url, *script, awaited=awaited, context=shop)
    ran = ["find mug", "stop mug"] if several else ["stop mug"]
    with runs, runs.worker(poll_seconds=POLL):
        run = runs.start("Sell.")
        first = ended(run)
        run.retry()
        assert ended(run).to_dict() == first.to_dict()

    assert (first.kind, first.code, first.is_resumable) == ("AbortRun", "RUN_ABORTED", False)
    told = first.details["details"]
    assert (told["reason"], told["tool"]) == ("raised", "astop" if awaited else "stop")
    assert sorted(shop) == ran


def test_a_tool_that_keeps_failing_ends_the_run(url: str) -> None:
    """``max_failures`` ends a durable run, too."""

    @sr.tool(max_failures=2)
    def fail(item: str) -> str:
        """Fail."""
        raise KeyError(item)

    model = ScriptedModel(*(ok.call(fail, item=item) for item in "abc"))
    client: Any = ScriptedClient(model)
    runs = DurableRuns("shop", sr.wrap(client, tools=[fail]), url=url, model="m")
    with runs, runs.worker(poll_seconds=POLL), pytest.raises(DurableRunFailed) as raised:
        runs.start("Go.").result(poll_seconds=POLL)

    told = raised.value.details["details"]
    assert (raised.value.kind, told["reason"], told["tool"]) == ("AbortRun", "failures", "fail")
    assert len(model.requests) == 2
