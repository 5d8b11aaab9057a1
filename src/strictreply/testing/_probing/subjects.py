"""The two kinds of apps under test: a callable in a worker process, and a running HTTP service. Each can be called.

What a call meant is not judged here.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from strictreply.testing._probing import worker
from strictreply.testing._probing.outcomes import Behaviour, Died, Raised, Returned
from strictreply.testing._probing.worker import Unusable, digest

START_SECONDS = 60.0
KEY = "sk-made-up-for-the-probe"
MAX_BODY_BYTES = 1_000_000


class Subject(Protocol):
    """An app under test, which asks the server at one base URL; TimeoutError may come out of a call."""

    versions: dict[str, str]
    traceback: str

    async def call(self, *, told: bool = False) -> Behaviour:
        """Call the app once, however long that takes; ``told`` keeps its versions and its traceback."""
        ...

    async def close(self) -> None:
        """End what was started for it."""
        ...


class Worker:
    """A callable in a process of its own, which is killed when it is closed.

    ``versions`` and ``traceback`` are those of the last call that asked for them.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Talk to a process that has been started; see :meth:`start`."""
        self._process = process
        self.versions: dict[str, str] = {}
        self.traceback = ""

    @property
    def status(self) -> int | None:
        """The exit status of the process, negative when a signal ended it; None while it runs."""
        return self._process.returncode

    @classmethod
    async def start(cls, source: str, base_url: str, clean: tuple[str, ...]) -> Worker:
        """Start a process and import the app; raises Unusable when that does not work within a minute."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", worker.__name__, source, base_url, *clean),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(base_url),
            start_new_session=True,  # Ctrl-C is for the probe, which ends its workers itself
        )
        started = cls(process)
        try:
            answer = await asyncio.wait_for(started._answer(), START_SECONDS)
        except TimeoutError:
            answer = {"unusable": f"importing it took longer than {START_SECONDS:g} s"}
        if "ready" not in answer:
            await started.close()
            raise Unusable(str(answer.get("unusable") or f"the process that imported it {answer['died']}"))
        return started

    async def call(self, *, told: bool = False) -> Behaviour:
        """Call the app once; with ``told`` keep its traceback and the versions it uses."""
        answer = await self._asked(told=told)
        self.versions, self.traceback = answer.get("versions", {}), answer.get("traceback", "")
        if "died" in answer:
            return Died(f"its process {answer['died']}")
        if "raised" in answer:
            return Raised(answer["raised"], answer["clean"], answer["at"])
        return Returned(answer["returned"], answer["digest"])

    async def close(self) -> None:
        """Kill the process and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        await self._process.wait()

    async def _asked(self, *, told: bool) -> dict[str, Any]:
        """Send one command and read its answer."""
        commands = cast("asyncio.StreamWriter", self._process.stdin)
        commands.write(f"{json.dumps({'told': told})}\n".encode())
        return await self._answer()

    async def _answer(self) -> dict[str, Any]:
        """Read one answer, or how the process ended instead."""
        line = await cast("asyncio.StreamReader", self._process.stdout).readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = await self._process.wait()
        return {
            "died": f"ended with status {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"
        }


class Service:
    """A running HTTP service: a call is a POST of the same body.

    A 2xx is a value, an error with a JSON body or a 4xx a clean refusal, any other answer and a broken connection a
    crash. Raises ValueError when the address is not http on loopback.
    """

    def __init__(self, url: str, body: bytes, *, timeout: float) -> None:
        """Take the address and the body; nothing is asked yet. ``timeout`` is in seconds, for each wait."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not _is_loopback(parts.hostname or ""):
            raise ValueError(
                f"the service must be at http:// on loopback, such as http://127.0.0.1:8000/ask; got {url}"
            )
        self._host, self._port = parts.hostname or "", parts.port or http.client.HTTP_PORT
        self._path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        self._body = body
        self._timeout = timeout
        self.versions: dict[str, str] = {}
        self.traceback = ""

    async def start(self, _base_url: str) -> Service:
        """Give the service itself: it runs already, and was told the base URL by its user."""
        return self

    async def call(self, *, told: bool = False) -> Behaviour:  # noqa: ARG002 - a service tells nothing
        """POST the body once."""
        try:
            status, content = await asyncio.to_thread(self._posted)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, TimeoutError):
                raise
            return Died("its connection broke, or nobody listens there")
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return Returned(f"HTTP {status}", digest(content.decode("utf-8", "replace")))
        client_error = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        said = _is_json(content)
        return Raised(f"HTTP {status} {'with' if said else 'without'} a JSON body", clean=said or client_error)

    async def close(self) -> None:
        """Leave the service as it is."""

    def _posted(self) -> tuple[int, bytes]:
        """Send the request, and read its answer up to a megabyte."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        with contextlib.closing(connection):
            connection.request("POST", self._path, self._body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read(MAX_BODY_BYTES)


def _is_loopback(host: str) -> bool:
    """Tell whether only this machine is reached by a name or an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_json(content: bytes) -> bool:
    """Tell whether a body is JSON."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _environment(base_url: str) -> dict[str, str]:
    """Point every SDK that reads the environment to the server, with a made-up key and past any proxy."""
    return os.environ | {
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_BASE": base_url,
        "OPENAI_API_KEY": KEY,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
