"""The apps under test, and the server that each of them uses.

An app is a callable in a worker process, or a running HTTP service.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from strictreply.core import JSONObject
from strictreply.testing._probing import probe_worker
from strictreply.testing._probing.behaviour import Behaviour
from strictreply.testing._probing.probe_worker import digest
from strictreply.testing._server import LoopbackServer, is_loopback
from strictreply.testing._wire import Responder, Served
from strictreply.testing.survival import ProbeOutcome, Unusable

__all__ = ["Connect", "as_process", "as_service"]

START_SECONDS = 60.0
MAX_BODY_BYTES = 1_000_000


class ProbeSubject(Protocol):
    """An app under test.

    ``ran`` has the tools that ran in the last call with their times, if they can be observed.
    """

    @property
    def ran(self) -> Sequence[tuple[str, float]]: ...

    async def call(self, *, detailed: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Call the app once.

        ``detailed`` adds its versions and a traceback; ``tools`` are observed.
        """
        ...

    async def close(self) -> None:
        """End the processes that were started for it."""


Connect: TypeAlias = Callable[[str], Awaitable[ProbeSubject]]
"""Starts an app whose model is at a base URL."""


class ProbeWorker:
    """A callable in its own process, which is killed when it is closed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.ran: list[tuple[str, float]] = []

    @classmethod
    async def start(cls, source: str, base_url: str, clean: tuple[str, ...]) -> ProbeWorker:
        """Start a process and import the app.

        Raises Unusable when that fails or takes more than a minute.
        """
        local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        model = {
            "OPENAI_BASE_URL": base_url,
            "OPENAI_API_BASE": base_url,
            "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        }
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "sk-made-up-for-the-probe")
        command = (sys.executable, "-m", probe_worker.__name__, source, base_url, *clean)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | model | local | keys,
            start_new_session=True,  # Ctrl-C is handled by the probe, which ends its workers itself
        )

        started = cls(process)
        try:
            answer = await asyncio.wait_for(started._answer(), START_SECONDS)
        except TimeoutError:
            answer = {"unusable": f"importing it took longer than {START_SECONDS:g} s"}

        if "ready" not in answer:
            await started.close()
            why = answer.get("unusable") or f"the process that imported it {answer['died']}"
            raise Unusable(str(why))

        return started

    async def call(self, *, detailed: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Call the app once.

        ``detailed`` adds a traceback and the versions that it uses.
        """
        self.ran = []
        commands = cast("asyncio.StreamWriter", self.process.stdin)
        commands.write(f"{json.dumps({'detailed': detailed, 'tools': [*tools]})}\n".encode())

        answer = await self._answer()
        if "died" in answer:
            return Behaviour(ProbeOutcome.CRASHED, f"its process {answer['died']}", lost=True)

        answer["outcome"] = ProbeOutcome(answer["outcome"])
        answer["places"] = {(place, name): at for place, name, at in answer["places"]}
        return Behaviour(**answer)

    async def close(self) -> None:
        """Kill the process and its child processes."""
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        await self.process.wait()

    async def _answer(self) -> JSONObject:
        while line := await cast("asyncio.StreamReader", self.process.stdout).readline():
            answer: dict[str, Any] = json.loads(line)
            if "ran" not in answer:
                return answer

            name, at = answer["ran"]
            self.ran.append((name, at))

        status = await self.process.wait()
        if status < 0:
            return {"died": f"was killed by {signal.Signals(-status).name}"}
        return {"died": f"ended with status {status}"}


class Service:
    """A running HTTP service on loopback, which gets the same POST for each call.

    Raises ValueError for an address that is not on loopback.
    """

    ran: Sequence[tuple[str, float]] = ()

    def __init__(self, url: str, body: bytes, *, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
            raise ValueError(
                "the service must be at http:// on loopback, as http://127.0.0.1:8000/ask; "
                f"got {url}"
            )

        self._address = (parts.hostname or "", parts.port or http.client.HTTP_PORT)
        self._path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        self._body = body
        self._timeout = timeout

    async def start(self, _base_url: str) -> Service:
        """Return the service itself: it is already running, and its user set the base URL."""
        return self

    async def call(
        self,
        *,
        detailed: bool = False,  # noqa: ARG002 - only its response is observed
        tools: Collection[str] = (),  # noqa: ARG002
    ) -> Behaviour:
        """POST the body once.

        A 4xx, or an error with a JSON body, is a clean refusal; any other error status is a crash.
        """
        try:
            status, content = await asyncio.to_thread(self._posted)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException):
            return Behaviour(
                ProbeOutcome.CRASHED, "its connection broke, or nobody listens there", lost=True
            )

        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            returned = digest(content.decode("utf-8", "replace"))
            return Behaviour(ProbeOutcome.ACCEPTED, f"HTTP {status}", returned)

        word = "without"
        clean = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(content)
            word = "with"
            clean = True

        outcome = ProbeOutcome.CLEAN if clean else ProbeOutcome.CRASHED
        return Behaviour(outcome, f"HTTP {status} {word} a JSON body")

    async def close(self) -> None:
        """Do nothing: the service keeps running."""

    def _posted(self) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout)
        with contextlib.closing(connection):
            connection.request("POST", self._path, self._body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read(MAX_BODY_BYTES)


def as_process(source: str, clean: Sequence[str] = ()) -> Connect:
    """Return a function that starts an app in its own process.

    - ``source`` is ``module:callable``. The callable gets the base URL if it has a parameter for
      it.
    - ``clean`` are exceptions, as ``module:Class``, that do not count as crashes.
    """
    return partial(ProbeWorker.start, source, clean=tuple(clean))


def as_service(url: str, body: str = "{}", *, timeout: float = 10.0) -> Connect:
    """Return a function that connects to an app that runs as an HTTP service on loopback.

    - ``url`` is the address that gets a POST for each run.
    - ``body`` is the JSON that is sent.
    - ``timeout`` is the longest wait for a response, in seconds.

    Raises ValueError for an address that is not on loopback.
    """
    return Service(url, body.encode(), timeout=timeout).start


class ProbeStage:
    """A loopback server and one app that uses it.

    The app is called once per run, for at most ``timeout`` seconds.
    """

    def __init__(self, connect: Connect, *, timeout: float, port: int = 0) -> None:
        self._connect = connect
        self._timeout = timeout
        self._port = port
        # Answers a first call of each app after its start, because the app may load a framework
        # then.
        self.warm_up: Responder | None = None
        self._server: LoopbackServer | None = None
        self._subject: ProbeSubject | None = None

    async def play(
        self, responder: Responder, *, detailed: bool = False, tools: Collection[str] = ()
    ) -> Behaviour:
        """Call the app once while ``responder`` answers.

        Raises Unusable when the app cannot be started.
        """
        subject = await self._opened()
        self._responder = responder
        start = time.monotonic()

        try:
            async with asyncio.timeout(self._timeout):
                behaviour = await subject.call(detailed=detailed, tools=tools)
        except TimeoutError:
            behaviour = Behaviour(
                ProbeOutcome.HUNG, f"did not return within {self._timeout:g} s", lost=True
            )

        seconds = time.monotonic() - start
        ran = tuple(subject.ran)
        skipped = None if behaviour.lost else behaviour.skipped

        if behaviour.lost:
            await (
                self.close()
            )  # an app that still sends requests must not reach the server of the next run

        return replace(behaviour, ran=ran, skipped=skipped, seconds=seconds)

    async def close(self) -> None:
        """End the app and the server; the next run starts new ones."""
        subject = self._subject
        server = self._server
        self._subject = None
        self._server = None

        if subject is not None:
            await subject.close()
        if server is not None:
            server.__exit__(None, None, None)

    async def _opened(self) -> ProbeSubject:
        if self._server is None:

            def answer(request: JSONObject) -> Served:
                return self._responder(request)  # the responder of the present run

            try:
                # A response that hangs must last longer than the app.
                server = LoopbackServer(answer, port=self._port, patience=2 * self._timeout)
            except OSError as error:
                raise Unusable(f"port {self._port} cannot be bound: {error.strerror}") from error

            self._server = server.__enter__()

        if self._subject is None:
            self._subject = await self._connect(self._server.base_url)
            if self.warm_up is not None:
                # If this first call fails, the next one fails too, and reports it.
                self._responder = self.warm_up
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(START_SECONDS):
                        await self._subject.call()

        return self._subject
