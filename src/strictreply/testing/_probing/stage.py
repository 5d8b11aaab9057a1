"""One server of replies and the app that asks it: where a run takes place. After a hang both are made anew."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from strictreply.testing._probing.outcomes import Behaviour, Died, Silent
from strictreply.testing._probing.subjects import START_SECONDS, Subject
from strictreply.testing._probing.worker import Unusable
from strictreply.testing._server import LoopbackServer
from strictreply.testing._wire import Responder, Served
from strictreply.values._json import JSONObject

Connect: TypeAlias = Callable[[str], Awaitable[Subject]]
"""Starts an app whose model is at this base URL."""


@dataclass(frozen=True, slots=True)
class Played:
    """What the app did in one run, and how long it took; ``traceback`` and ``versions`` when they were asked for."""

    behaviour: Behaviour
    seconds: float
    traceback: str
    versions: dict[str, str]


class Stage:
    """A server on loopback with one app on it; runs take place one after the other.

    ``port`` 0 takes a free one, ``timeout`` is how many seconds a run may take. ``warm_up`` answers one call of each
    app that is started, before it is measured: a first call may load half a framework. None makes no such call.
    """

    def __init__(self, connect: Connect, *, timeout: float, port: int = 0) -> None:
        """Start nothing yet."""
        self._connect = connect
        self._timeout = timeout
        self._port = port
        self.warm_up: Responder | None = None
        self._server: LoopbackServer | None = None
        self._subject: Subject | None = None

    async def play(self, responder: Responder, *, told: bool = False) -> Played:
        """Call the app once while ``responder`` answers; raises Unusable when the app cannot be started.

        ``told`` keeps its traceback and versions.
        """
        subject = await self._opened()
        self._responder = responder
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                behaviour = await subject.call(told=told)
        except TimeoutError:
            behaviour = Silent(self._timeout)
        seconds = time.monotonic() - begun
        if isinstance(behaviour, Silent | Died):
            await self.close()  # who is still asking must not ask the next run's server
        return Played(behaviour, seconds, subject.traceback, subject.versions)

    async def close(self) -> None:
        """End the app and the server; the next run starts them anew."""
        subject, self._subject = self._subject, None
        server, self._server = self._server, None
        if subject is not None:
            await subject.close()
        if server is not None:
            server.__exit__(None, None, None)

    async def _opened(self) -> Subject:
        """Start the server and the app unless they run."""
        if self._server is None:
            self._server = self._bound().__enter__()
        if self._subject is None:
            self._subject = await self._connect(self._server.base_url)
            await self._warmed(self._subject)
        return self._subject

    async def _warmed(self, subject: Subject) -> None:
        """Let a new app make its first call; how that ends will be seen in the next one."""
        if self.warm_up is not None:
            self._responder = self.warm_up
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    await subject.call()

    def _bound(self) -> LoopbackServer:
        """Bind the port; a hanging reply must outlast the app, so it may take twice the time of a run."""
        try:
            return LoopbackServer(self._answer, port=self._port, patience=2 * self._timeout)
        except OSError as error:
            raise Unusable(f"port {self._port} cannot be bound: {error.strerror}") from error

    def _answer(self, request: JSONObject) -> Served:
        """Answer by what the present run serves."""
        return self._responder(request)
