"""A port for a program that a test starts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from socket import socket


@contextmanager
def free_port() -> Generator[int]:
    """Yield a port of loopback that is free."""
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    yield port
