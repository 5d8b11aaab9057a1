"""The thread of a process in which the rows of plain calls are asked, from whatever thread or event loop they come."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager
from threading import Lock, Thread, get_ident
from typing import Any, Generic, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.from_thread import start_blocking_portal

from strictreply.batch._asking import Asking, Session
from strictreply.client._sending import RetryBucket

R = TypeVar("R")

Job: TypeAlias = Callable[[Session], Coroutine[Any, Any, R]]


class Process:
    """What the calls of one process share: one quota, and a thread with an event loop and a session in it.

    The thread is begun by the first call and ends when nothing refers to this any more. Pickled, it is a new one.
    """

    def __init__(self) -> None:
        self.bucket = RetryBucket()
        self._lock = Lock()
        self._line: _Line | None = None
        self._ending: Callable[[], object] | None = None

    def __reduce__(self) -> tuple[type[Process], tuple[()]]:
        return Process, ()

    def run(self, asking: Asking, job: Job[R]) -> R:
        """Do a job in the event loop; when the wait for it is interrupted, the job is cancelled first."""
        line, doing = self._opened(asking), _Doing(job)
        try:
            return line.begin(doing).result()
        except BaseException:
            line.cancel(doing)
            wait([doing.ended])
            raise

    async def arun(self, asking: Asking, job: Job[R]) -> R:
        """Do a job like :meth:`run`, awaiting it in another event loop."""
        line, doing = self._opened(asking), _Doing(job)
        try:
            return await asyncio.wrap_future(line.begin(doing))
        except asyncio.CancelledError:
            line.cancel(doing)
            await asyncio.shield(asyncio.wrap_future(doing.ended))
            raise

    def close(self) -> None:
        """Close the client and end the thread."""
        with self._lock:
            ending, self._line, self._ending = self._ending, None, None
        if ending is not None:
            ending()

    def _opened(self, asking: Asking) -> _Line:
        with self._lock:
            if self._line is None or self._line.pid != os.getpid():  # a fork has no threads but the one that forked
                self._line = _Line(asking, self.bucket)
                self._ending = weakref.finalize(self, self._line.close)
            return self._line


class _Doing(Generic[R]):
    """A job on its way; ``ended`` is done when nothing of it runs any more."""

    def __init__(self, job: Job[R]) -> None:
        self._job = job
        self._scope: CancelScope | None = None
        self.ended: Future[None] = Future()

    async def done(self, session: Session) -> R:
        """Do the job; CancelledError when it was cancelled."""
        try:
            with CancelScope() as self._scope:
                return await self._job(session)
            raise asyncio.CancelledError
        finally:
            self.ended.set_result(None)

    async def cancel(self) -> None:
        """Cancel the job; one that has not begun has ended."""
        if self._scope is not None:
            self._scope.cancel()
        elif not self.ended.done():
            self.ended.set_result(None)


class _Line:
    """A thread with an event loop, and the session that its first job opens."""

    def __init__(self, asking: Asking, bucket: RetryBucket) -> None:
        self.pid = os.getpid()
        self._asking, self._bucket = asking, bucket
        self._thread = start_blocking_portal("asyncio", name="strictreply-batch")
        self._portal = self._thread.__enter__()
        self._ident = self._portal.call(get_ident)
        self._opening: AbstractAsyncContextManager[Session] | None = None
        self._session: Session | None = None
        self._is_closed = False

    def begin(self, doing: _Doing[R]) -> Future[R]:
        """Begin a job in the thread."""
        return self._portal.start_task_soon(self._do, doing)

    def cancel(self, doing: _Doing[Any]) -> None:
        """Cancel a job, whether it has begun or not."""
        self._portal.start_task_soon(doing.cancel)

    async def _do(self, doing: _Doing[R]) -> R:
        if self._session is None:
            opening = self._asking.session(self._bucket)
            self._session, self._opening = await opening.__aenter__(), opening
        return await doing.done(self._session)

    def close(self) -> None:
        """Close the session and end the thread; a process that was forked has neither."""
        if self._is_closed or self.pid != os.getpid():
            return
        self._is_closed = True
        if get_ident() == self._ident:  # what collects garbage, and so calls this, may be the event loop itself
            Thread(target=self._end).start()
        else:
            self._end()

    def _end(self) -> None:
        if self._opening is not None:
            self._portal.call(self._opening.__aexit__, None, None, None)
        self._thread.__exit__(None, None, None)
