"""Apps under test.

They are a callable in a worker, a running service, and the server that each is run on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

import pytest

import strictreply
from strictreply.core import JSON, JSONObject
from strictreply.testing import HTTPReply, LoopbackServer, ScriptedModel, ok
from strictreply.testing._probing.behaviour import Behaviour
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.subjects import ProbeStage, ProbeWorker, Service
from strictreply.testing.survival import ProbeOutcome, Unusable
from support.testing.probing import sample_apps
from support.testing.probing.fake_subjects import Hanging, InProcess, connecting
from support.testing.probing.sample_apps import REFUND, strict

Result = TypeVar("Result")

pytestmark = pytest.mark.one_lane

GOOD = ScriptedModel(then=ok.reply(REFUND))
FAULT = CATALOGUE["trailing_comma"](REFUND)
BAD = ScriptedModel(then=FAULT)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the library and the sample apps importable in a worker."""
    folders = [Path(sample_apps.__file__).parent, Path(strictreply.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))


def with_worker(
    name: str, model: ScriptedModel, use: Callable[[ProbeWorker], Awaitable[Result]], *clean: str
) -> Result:
    """Start a worker for one of the sample apps, and use it."""

    async def run() -> Result:
        """Start, use, end."""
        with LoopbackServer(model) as server:
            worker = await ProbeWorker.start(f"sample_apps:{name}", server.base_url, clean)
            try:
                return await use(worker)
            finally:
                await worker.close()

    return asyncio.run(run())


@pytest.mark.usefixtures("importable")
def test_a_worker_calls_its_app_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process answers call after call, whatever the app prints; the environment names server
    and key.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")

    async def twice(worker: ProbeWorker) -> list[Behaviour]:
        """Call twice, the second time with everything told."""
        return [await worker.call(), await worker.call(detailed=True)]

    first, again = with_worker("from_environment", GOOD, twice)
    assert first.returned
    assert first == again
    assert again.versions["strictreply"] == strictreply.__version__


@pytest.mark.usefixtures("importable")
def test_a_worker_tells_what_was_raised() -> None:
    """An exception comes with its class, its place and, when it is asked for, its traceback."""

    async def once(worker: ProbeWorker) -> Behaviour:
        """Call once."""
        return await worker.call(detailed=True)

    behaviour = with_worker("vouched", BAD, once, "sample_apps:Vouched")
    assert behaviour.outcome is ProbeOutcome.CLEAN
    assert re.fullmatch(r"sample_apps\.Vouched at \S*sample_apps\.py:\d+", behaviour.told)
    assert "Vouched" in behaviour.traceback


@pytest.mark.usefixtures("importable")
def test_a_worker_that_dies_is_noticed() -> None:
    """The end of the process is a behaviour; its status is told."""

    async def once(worker: ProbeWorker) -> Behaviour:
        """Call once."""
        return await worker.call()

    behaviour = with_worker("dying", BAD, once)
    assert (behaviour.outcome, behaviour.lost) == (ProbeOutcome.CRASHED, True)
    assert "3" in behaviour.told


@pytest.mark.usefixtures("importable")
def test_a_worker_that_hangs_can_be_killed() -> None:
    """A call that does not end is given up, and closing ends the process at once."""
    asked = threading.Event()

    class Noticing(ScriptedModel):
        """A subject that records when it was called."""

        def __call__(self, request: JSONObject) -> JSON | HTTPReply:
            """Answer as scripted."""
            asked.set()
            return super().__call__(request)

    async def given_up(worker: ProbeWorker) -> int | None:
        """Wait in vain until the app has asked, then close."""
        call = asyncio.create_task(worker.call())
        await asyncio.to_thread(asked.wait, 60)
        call.cancel()
        await worker.close()
        return worker.process.returncode

    assert with_worker("hanging", Noticing(then=FAULT), given_up) not in {None, 0}


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(
    ("name", "word"), [("nothing", "nothing"), ("two_needed", "other"), ("NOT_CALLABLE", "NOT")]
)
def test_an_app_that_cannot_be_called_is_unusable(name: str, word: str) -> None:
    """A wrong name or callable is reported before anything is called."""

    async def never(_: ProbeWorker) -> None:
        """Be not reached."""
        raise AssertionError

    with pytest.raises(Unusable, match=word):
        with_worker(name, GOOD, never)


class Handler(BaseHTTPRequestHandler):
    """Answers a POST with what its path names: a status, then the body."""

    def do_POST(self) -> None:
        """Answer, or close the connection without a word."""
        posted = self.rfile.read(int(self.headers["Content-Length"]))
        _, status, body = self.path.split("/")
        if status != "0":
            self.send_response(int(status))
            self.end_headers()
            self.wfile.write(posted if body == "echo" else body.encode())

    def log_message(self, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def served() -> Iterator[str]:
    """Serve the handler on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/200/done", ProbeOutcome.ACCEPTED),
        ("/201/echo", ProbeOutcome.ACCEPTED),
        ("/400/no", ProbeOutcome.CLEAN),
        ("/422/{}", ProbeOutcome.CLEAN),
        ("/502/{}", ProbeOutcome.CLEAN),
        ("/500/oops", ProbeOutcome.CRASHED),
        ("/302/{}", ProbeOutcome.CLEAN),
        ("/0/", ProbeOutcome.CRASHED),
    ],
)
def test_a_service_is_judged_by_its_status(served: str, path: str, outcome: ProbeOutcome) -> None:
    """2xx is a value, JSON or a 4xx a refusal; another error or a broken connection is a crash."""
    service = Service(served + path, b'{"ask": 1}', timeout=60)
    behaviour = asyncio.run(service.call())
    assert (behaviour.outcome, behaviour.lost) == (outcome, path == "/0/")


def test_equal_answers_of_a_service_are_equal(served: str) -> None:
    """The body that is posted is the given one, and equal answers have equal digests."""
    one, same, other = (
        asyncio.run(Service(f"{served}/200/{path}", body, timeout=60).call())
        for path, body in (("echo", b'{"a":1}'), ("echo", b'{"a":1}'), ("echo", b"{}"))
    )
    assert one == same != other


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/", "http://example.com/", "127.0.0.1:80", "ftp://localhost/", ""]
)
def test_a_service_is_on_loopback(url: str) -> None:
    """A service on another machine is refused."""
    with pytest.raises(ValueError, match="loopback"):
        Service(url, b"{}", timeout=1)


def test_a_service_is_not_started() -> None:
    """It runs already; starting and closing leave it alone."""
    service = Service("http://localhost:1/", json.dumps({}).encode(), timeout=1)
    assert asyncio.run(service.start("http://127.0.0.1:2/v1")) is service
    asyncio.run(service.close())
    assert asyncio.run(service.call()).lost


GOOD_CALL = ok.reply(REFUND)
BAD_CALL = CATALOGUE["trailing_comma"](REFUND)
HANG = 4.0
"""Seconds after which a run that hangs is given up; a good one takes some milliseconds."""


class Dead(InProcess):
    """Is dead from the beginning."""

    async def call(self, *, detailed: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Be dead."""
        return Behaviour(ProbeOutcome.CRASHED, "its process ended", lost=True)


def played(stage: ProbeStage, *models: ScriptedModel) -> list[Behaviour]:
    """Play run after run, and close."""

    async def run() -> list[Behaviour]:
        """Play."""
        try:
            return [await stage.play(model, detailed=True) for model in models]
        finally:
            await stage.close()

    return asyncio.run(run())


def test_each_run_has_its_own_model() -> None:
    """Runs follow each other on one server and one app; each model sees the requests of its own
    run.
    """
    started: list[InProcess] = []
    first = ScriptedModel(then=GOOD_CALL)
    second = ScriptedModel(then=GOOD_CALL)
    runs = played(ProbeStage(connecting(strict, started), timeout=30), first, second)
    assert [run.outcome for run in runs] == [ProbeOutcome.ACCEPTED] * 2
    assert (len(started), len(first.requests), len(second.requests)) == (1, 1, 1)
    assert (runs[0].versions, started[0].closed) == ({"app": "1"}, True)
    assert all(run.seconds >= 0 for run in runs)


def test_after_a_hang_everything_is_new() -> None:
    """An app that does not come back is given up after the timeout; the next run has another app
    and another server.
    """
    started: list[InProcess] = []
    bad = ScriptedModel(then=BAD_CALL)
    good = ScriptedModel(then=GOOD_CALL)
    runs = played(ProbeStage(connecting(strict, started, Hanging), timeout=HANG), bad, good)
    assert [run.outcome for run in runs] == [ProbeOutcome.HUNG, ProbeOutcome.ACCEPTED]
    assert [subject.closed for subject in started] == [True, True]
    assert started[0].base_url != started[1].base_url


def test_a_new_app_is_warmed_up() -> None:
    """Every app that is started is called once with good replies before it is measured, when there
    is what to reply.
    """
    warm = ScriptedModel(then=GOOD_CALL)
    bad = ScriptedModel(then=BAD_CALL)
    stage = ProbeStage(connecting(strict, kind=Hanging), timeout=HANG)
    stage.warm_up = warm
    assert [run.outcome for run in played(stage, bad, bad)] == [ProbeOutcome.HUNG] * 2
    assert (len(warm.requests), len(bad.requests)) == (2, 2)


def test_an_app_that_died_is_started_anew() -> None:
    """The end of a process is the end of its server as well."""
    started: list[InProcess] = []
    played(
        ProbeStage(connecting(strict, started, Dead), timeout=30), ScriptedModel(), ScriptedModel()
    )
    assert len(started) == 2


def test_a_port_may_be_chosen() -> None:
    """A service finds the server at the port it was told, again after a hang; a port in use is
    said.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        port = taken.getsockname()[1]
        with pytest.raises(Unusable, match=str(port)):
            played(ProbeStage(connecting(strict), timeout=60, port=port), ScriptedModel())

    started: list[InProcess] = []
    played(
        ProbeStage(connecting(strict, started), timeout=60, port=port),
        ScriptedModel(then=GOOD_CALL),
    )
    assert f":{port}/" in started[0].base_url
