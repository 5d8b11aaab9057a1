"""A worker is a process of its own that can be killed; a service is asked over HTTP. Both say what the app did."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

import pytest

import strictreply
from strictreply.testing import ok
from strictreply.testing._probing.outcomes import Behaviour, Died, Raised, Returned
from strictreply.testing._probing.subjects import Service, Worker
from strictreply.testing._probing.worker import Unusable
from strictreply.testing._scripts import ScriptedModel
from strictreply.testing._server import LoopbackServer
from strictreply.testing._wire import Served
from strictreply.testing.faults import CATALOGUE
from strictreply.values._json import JSONObject
from testing.probing.sample_apps import REFUND

Result = TypeVar("Result")

GOOD = ScriptedModel(then=ok.reply(REFUND))
FAULT = CATALOGUE["trailing_comma"](REFUND)
BAD = ScriptedModel(then=FAULT)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker import the library and the sample apps."""
    folders = [Path(__file__).parent, Path(strictreply.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))


def with_worker(name: str, model: ScriptedModel, use: Callable[[Worker], Awaitable[Result]], *clean: str) -> Result:
    """Start a worker for one of the sample apps, and use it."""

    async def run() -> Result:
        """Start, use, end."""
        with LoopbackServer(model) as server:
            worker = await Worker.start(f"sample_apps:{name}", server.base_url, clean)
            try:
                return await use(worker)
            finally:
                await worker.close()

    return asyncio.run(run())


@pytest.mark.usefixtures("importable")
def test_a_worker_calls_its_app_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process answers call after call, whatever the app prints; the environment names server and key."""
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")

    async def twice(worker: Worker) -> list[Behaviour]:
        """Call twice, the second time with everything told."""
        behaviours = [await worker.call(), await worker.call(told=True)]
        assert worker.versions["strictreply"] == strictreply.__version__
        return behaviours

    first, again = with_worker("from_environment", GOOD, twice)
    assert isinstance(first, Returned)
    assert first == again


@pytest.mark.usefixtures("importable")
def test_a_worker_tells_what_was_raised() -> None:
    """An exception comes with its class, its place and, when it is asked for, its traceback."""

    async def once(worker: Worker) -> tuple[Behaviour, str]:
        """Call once."""
        return await worker.call(told=True), worker.traceback

    behaviour, traceback = with_worker("vouched", BAD, once, "sample_apps:Vouched")
    assert isinstance(behaviour, Raised)
    assert (behaviour.name, behaviour.clean) == ("sample_apps.Vouched", True)
    assert behaviour.at.partition(":")[0].endswith("sample_apps.py")
    assert "Vouched" in traceback


@pytest.mark.usefixtures("importable")
def test_a_worker_that_dies_is_noticed() -> None:
    """The end of the process is a behaviour; its status is told."""

    async def once(worker: Worker) -> Behaviour:
        """Call once."""
        return await worker.call()

    behaviour = with_worker("dying", BAD, once)
    assert isinstance(behaviour, Died)
    assert "3" in behaviour.how


@pytest.mark.usefixtures("importable")
def test_a_worker_that_hangs_can_be_killed() -> None:
    """A call that does not end is given up, and closing ends the process at once."""
    asked = threading.Event()

    class Noticing(ScriptedModel):
        """Says when it was asked."""

        def __call__(self, request: JSONObject) -> Served:
            """Answer as scripted."""
            asked.set()
            return super().__call__(request)

    async def given_up(worker: Worker) -> int | None:
        """Wait in vain until the app has asked, then close."""
        call = asyncio.create_task(worker.call())
        await asyncio.to_thread(asked.wait, 60)
        call.cancel()
        await worker.close()
        return worker.status

    assert with_worker("hanging", Noticing(then=FAULT), given_up) not in {None, 0}


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(("name", "word"), [("nothing", "nothing"), ("two_needed", "other"), ("NOT_CALLABLE", "NOT")])
def test_an_app_that_cannot_be_called_is_unusable(name: str, word: str) -> None:
    """What is wrong with the name or the callable is said before anything is called."""

    async def never(_: Worker) -> None:
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
    ("path", "kind", "clean"),
    [
        ("/200/done", Returned, None),
        ("/201/echo", Returned, None),
        ("/400/no", Raised, True),
        ("/422/{}", Raised, True),
        ("/502/{}", Raised, True),
        ("/500/oops", Raised, False),
        ("/302/{}", Raised, True),
        ("/0/", Died, None),
    ],
)
def test_a_service_is_judged_by_its_status(served: str, path: str, kind: type, clean: bool | None) -> None:
    """A 2xx is a value, JSON or a 4xx a refusal, another error and a broken connection are crashes."""
    service = Service(served + path, b'{"ask": 1}', timeout=5)
    behaviour = asyncio.run(service.call())
    assert isinstance(behaviour, kind)
    assert not isinstance(behaviour, Raised) or behaviour.clean is clean


def test_equal_answers_of_a_service_are_equal(served: str) -> None:
    """The body that is posted is the given one, and equal answers have equal digests."""
    one, same, other = (
        asyncio.run(Service(f"{served}/200/{path}", body, timeout=5).call())
        for path, body in (("echo", b'{"a":1}'), ("echo", b'{"a":1}'), ("echo", b"{}"))
    )
    assert one == same != other


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "http://example.com/", "127.0.0.1:80", "ftp://localhost/", ""])
def test_a_service_is_on_loopback(url: str) -> None:
    """Nothing is asked of another machine."""
    with pytest.raises(ValueError, match="loopback"):
        Service(url, b"{}", timeout=1)


def test_a_service_is_not_started() -> None:
    """It runs already; starting and closing leave it alone."""
    service = Service("http://localhost:1/", json.dumps({}).encode(), timeout=1)
    assert asyncio.run(service.start("http://127.0.0.1:2/v1")) is service
    asyncio.run(service.close())
    assert isinstance(asyncio.run(service.call()), Died)
