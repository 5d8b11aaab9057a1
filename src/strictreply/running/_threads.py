"""Work in threads that no program waits for at its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Work in a thread that does not keep the program alive, with the caller's context.

    Whoever stops waiting leaves it behind. An exit or an interrupt of the thread is the caller's as well.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody who stops waiting can cancel it

    def fulfil() -> None:
        """Hand over what the work comes to."""
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(fulfil,), daemon=True).start()
    return future


async def finished_in_thread(work: Callable[[], Result]) -> Result:
    """Work in a thread, and wait for its end even when cancelled meanwhile: what it does is then known to be done."""
    future = asyncio.wrap_future(in_thread(work))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
