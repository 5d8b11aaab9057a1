"""Threads that tools and stores are run in: daemons, so that none keeps the program alive, and used again when idle.

Whoever stops waiting leaves a thread behind; it is idle again when its work ends. Starting one costs more than most
tools do.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

ThreadResult = TypeVar("ThreadResult")

_Task: TypeAlias = tuple[Callable[[], Any], Future[Any]]

_IDLE_SECONDS: Final = 10.0
"""How long a thread waits for more work before it ends."""

_IDLE: Final[list[SimpleQueue[_Task]]] = []
"""The inbox of each thread that has nothing to do."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # a child has none of these threads


def in_thread(work: Callable[[], ThreadResult]) -> Future[ThreadResult]:
    """Work in a thread that does not keep the program alive, with the caller's context.

    An exit or an interrupt of the thread is the caller's as well.
    """
    future: Future[ThreadResult] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody who stops waiting can cancel it
    context = contextvars.copy_context()

    def run() -> ThreadResult:
        return context.run(work)

    try:
        _IDLE.pop().put((run, future))
    except IndexError:
        threading.Thread(target=_serve, args=((run, future),), name="strictreply-tools", daemon=True).start()
    return future


def _serve(task: _Task | None) -> None:
    """Do one task after the other, until none has come for a while."""
    inbox: SimpleQueue[_Task] = SimpleQueue()
    while task is not None:
        run, future = task
        result = raised = None
        try:
            result = run()
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            raised = error
        _IDLE.append(inbox)  # before anybody is told, who may have more to do at once
        if raised is None:
            future.set_result(result)
        else:
            future.set_exception(raised)
        del task, run, future, result, raised  # an idle thread keeps nothing alive
        task = _next_of(inbox)


def _next_of(inbox: SimpleQueue[_Task]) -> _Task | None:
    try:
        return inbox.get(timeout=_IDLE_SECONDS)
    except Empty:
        try:
            _IDLE.remove(inbox)
        except ValueError:  # somebody has taken it at this moment
            return inbox.get()
        return None


async def finished_in_thread(work: Callable[[], ThreadResult]) -> ThreadResult:
    """Work in a thread, and wait for its end even when cancelled meanwhile: what it does is then known to be done."""
    future = asyncio.wrap_future(in_thread(work))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
