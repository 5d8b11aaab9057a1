"""No connection leaves while a mock answers: what it cannot intercept is refused, whatever library asks.

The interpreter itself reports each connection and each look-up of a name (PEP 578), so that nothing need be patched;
event loops written in C (uvloop) and C libraries that open sockets themselves (curl) report none, and neither does a
connection that was open before.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

_CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}  # the address is the second argument
_LOOKS_UP = {"socket.getaddrinfo", "socket.gethostbyname"}  # the name is the first

_guards: list[ConnectionGuard] = []
_lock = Lock()
_hooked = False


class ConnectionGuard:
    """Refuses connections of this process to hosts that are not allowed, from its making until it is closed."""

    def __init__(self, allowed: frozenset[str]) -> None:
        global _hooked  # noqa: PLW0603 - an audit hook cannot be taken out again: one is enough
        self._allowed = allowed
        self.refused: list[str] = []
        with _lock:
            if not _hooked:
                sys.addaudithook(_audited)
                _hooked = True
            _guards.append(self)

    def close(self, *, quiet: bool = False) -> None:
        """Let connections through again; RuntimeError, unless ``quiet``, when any was refused."""
        with _lock:
            if self in _guards:
                _guards.remove(self)
        if self.refused and not quiet:
            raise RuntimeError(_words(self.refused[0]))

    def check(self, host: str) -> None:
        """Raise RuntimeError for a host that is not allowed."""
        if host not in self._allowed:
            self.refused.append(host)
            raise RuntimeError(_words(host))


def _audited(event: str, args: tuple[Any, ...]) -> None:
    if not _guards or not event.startswith("socket."):
        return
    if event in _CONNECTS:
        address = args[1]
        host = address[0] if isinstance(address, tuple) else None  # Unix sockets have a path
    else:
        host = args[0] if event in _LOOKS_UP else None
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if isinstance(host, str):
        for guard in tuple(_guards):  # another thread may close one meanwhile
            guard.check(host)


def _words(host: str) -> str:
    return (
        f"a client that respx cannot intercept was about to connect to {host}: respx patches httpx only, and openai 3 "
        "runs on httpx2. Use llm.openai(), or give the client http_client=httpx.Client() or a transport of "
        "strictreply.testing.mounting; allowed_hosts= lets other connections through"
    )
