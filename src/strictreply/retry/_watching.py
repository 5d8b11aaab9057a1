"""Code of a user's that only looks on: what it raises changes nothing of what it was told about."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from strictreply.values._issues import printable

logger = logging.getLogger("strictreply")


@contextmanager
def unharmed(watcher: str) -> Generator[None]:
    """Log what a watcher raises, and go on; what is no ``Exception`` (an interrupt, a cancellation) passes through.

    The log names the exception's type and the function that raised it: its words may be the model's.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a user's own code may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{watcher} raised {type(error).__name__} in {last.name}, line {last.lineno}; the call goes on"
        logger.error(printable(told))  # noqa: TRY400 - a traceback ends with the words
