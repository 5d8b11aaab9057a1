"""A program hosts the loop itself, with the public names of ``strictreply.loop`` alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from itertools import count
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import (
    AcceptedReply,
    AskModel,
    Effect,
    EffectRaised,
    MemorySessionStore,
    Progress,
    RunSettings,
    RunTools,
    ToolRunner,
    WalkEnd,
    aperform,
    envelope_of,
    perform,
    run_flow,
)
from strictreply.loop.values import LineStatus, ResponseKind
from support.loop.loops import DONE, LOCATE, NO_RETRIES, asking, spy
from support.scripted import USER, AsyncClient, Client

Flow = Generator[Effect, object, WalkEnd[Progress]]


class Host:
    """Performs effects by ``perform``, and keeps each event; kept events are not performed."""

    def __init__(self, kept: list[object]) -> None:
        self.kept = kept
        self.effects: list[Effect] = []

    def drive(self, flow: Flow, performed: Callable[[Effect], Any]) -> WalkEnd[Progress]:
        """Drive a run to its end."""
        event: object = None
        for number in count():
            try:
                effect = flow.send(event)
            except StopIteration as stop:
                ended: WalkEnd[Progress] = stop.value
                return ended

            self.effects.append(effect)
            if number == len(self.kept):
                self.kept.append(performed(effect))
            event = self.kept[number]

        raise AssertionError


def settings_of(*steps: Any, tools: list[Any], is_async: bool, **keywords: Any) -> RunSettings:
    """Make the settings of runs on a script."""
    fake = AsyncClient(*steps) if is_async else Client(*steps)
    client: Any = sr.wrap(fake, tools=tools, parallel=True, policy=NO_RETRIES)
    return RunSettings.of(client, {"model": "m", **keywords})


def opened(settings: RunSettings) -> tuple[Flow, Callable[[Effect], Any]]:
    """Open a run, and return what performs its effects."""
    numbers = count()
    run = settings.opened(
        envelope_of(USER),
        new_id=lambda: f"id{next(numbers)}",
        correlation_id="host",
        time_stamp="2026-11-28T12:00:00+00:00",
    )
    tools = ToolRunner(settings.policy, lambda _: None)
    store = MemorySessionStore()
    if isinstance(settings.client, sr.AsyncStrictClient):
        awaited = partial(aperform, settings, tools, store)
        return run_flow(run), lambda effect: asyncio.run(_result(awaited, effect))
    return run_flow(run), partial(perform, settings, tools, store)


async def _result(performed: Callable[[Effect], Any], effect: Effect) -> object:
    return await performed(effect)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_run_is_played_again_from_its_events(*, is_async: bool) -> None:
    """With the events of a run its flow comes to the same end, and nothing is asked or run."""
    ran: list[str] = []
    settings = settings_of(asking("tea"), DONE, tools=[spy("search", ran)], is_async=is_async)
    host = Host([])
    end = host.drive(*opened(settings))

    assert (end.status, end.context.answer, ran) == (LineStatus.COMPLETED, "done", ["tea"])
    assert [type(one) for one in host.effects[:3]] == [AskModel, RunTools, AskModel]
    assert [type(one) for one in host.kept[:3]] == [AcceptedReply, tuple, AcceptedReply]

    silent = settings_of(tools=[spy("search", ran)], is_async=is_async)
    again = Host(host.kept).drive(*opened(silent))
    assert (again.context, ran) == (end.context, ["tea"])


def test_what_an_effect_raised_ends_the_run() -> None:
    """An EffectRaised fails the step that wanted the effect, with its error as the cause."""
    error = TimeoutError()
    settings = settings_of(tools=[LOCATE], is_async=False)
    end = Host([EffectRaised(error)]).drive(*opened(settings))
    assert (end.status, end.cause, end.context.response) == (LineStatus.FAILED, error, None)


def test_a_run_pauses_for_its_client() -> None:
    """The response of a run whose calls the client answers names them."""
    settings = settings_of(asking("tea", tool="locate"), tools=[LOCATE], is_async=False)
    end = Host([]).drive(*opened(settings))
    response = end.context.response
    assert response is not None
    assert response.kind is ResponseKind.CLIENT_TOOL_CONTINUATION
    assert [call.tool_call_id for call in response.tool_calls or ()] == ["tea"]


def test_tools_that_cannot_run_are_refused_before_anything_is_asked() -> None:
    """An async tool of a sync client, and one without its context, are a ContractError."""

    @sr.tool
    async def search(query: str) -> str:
        """Search."""
        return query

    with pytest.raises(sr.ContractError, match="async"):
        settings_of(tools=[search], is_async=False)
    with pytest.raises(sr.ContractError, match="context"):
        settings_of(tools=[_shelved], is_async=False)


@sr.tool
def _shelved(shop: sr.Context[list[str]], item: str) -> str:
    """Find an item."""
    return f"{item} of {len(shop)}"
