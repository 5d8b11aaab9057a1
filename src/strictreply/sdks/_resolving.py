"""Names of hosts, looked up in time.

The lookup of the system takes no timeout, so a thread waits for it.

A sync network backend is given a class that tries the addresses of a host in turn, within what is
left of the deadline.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from strictreply.retry._failures import ExchangeStopped, Failure

_MARK = "resolves_by_strictreply"


@dataclass(slots=True)
class _Lookup:
    """One lookup of a name, which all who ask for it meanwhile share."""

    done: threading.Event = field(default_factory=threading.Event)
    addresses: list[str] = field(default_factory=list)


_lookups: dict[tuple[str, int], _Lookup] = {}
_lock = threading.Lock()


def resolved(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses of a host, at least one.

    Raises ExchangeStopped when none is found, or none within so many seconds.
    """
    with suppress(ValueError):
        ipaddress.ip_address(host.partition("%")[0])
        return [host]

    key = (host, port)
    with _lock:
        lookup = _lookups.get(key)
        if lookup is None:
            lookup = _Lookup()
            _lookups[key] = lookup
            threading.Thread(target=_look_up, args=(key, lookup), daemon=True).start()

    if not lookup.done.wait(seconds):
        detail = "looking up the host name took too long"
        raise ExchangeStopped(Failure("timeout", retryable=True, detail=detail))

    if not lookup.addresses:
        detail = "the host name was not found"
        raise ExchangeStopped(Failure("connection", retryable=True, detail=detail))

    return lookup.addresses


def _look_up(key: tuple[str, int], lookup: _Lookup) -> None:
    try:
        with suppress(OSError, UnicodeError):
            found = socket.getaddrinfo(*key, type=socket.SOCK_STREAM)
            lookup.addresses = [str(address[0]) for *_, address in found]
    finally:
        with _lock:
            del _lookups[key]

        lookup.done.set()


def resolve_within(backend: object, left: Callable[[], float | None]) -> bool:
    """Look up names for a sync network backend in time, and return whether that is possible.

    ``left`` returns the seconds that are left for the exchange that a thread is in; None leaves the
    backend to itself.
    """
    kind: Any = type(backend)
    if not callable(getattr(backend, "connect_tcp", None)):
        return False

    if not hasattr(kind, _MARK):
        # TypeError: a backend of the caller's own, which is of another build
        with suppress(TypeError):
            backend.__class__ = _resolving_class(kind, left)

    return hasattr(type(backend), _MARK)


@cache
def _resolving_class(kind: type, left: Callable[[], float | None]) -> type:
    class Resolving(kind):  # type: ignore[misc]  # a class that is only known here
        __slots__ = ()
        resolves_by_strictreply = True

        def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, **more: object
        ) -> object:
            seconds = left()
            if seconds is None:
                return super().connect_tcp(host, port, timeout, **more)

            *others, last = resolved(host, port, seconds)
            for number, address in enumerate(others):
                share = (left() or 0.0) / (len(others) + 1 - number)
                with suppress(Exception):
                    return super().connect_tcp(address, port, _least(timeout, share), **more)

            return super().connect_tcp(last, port, _least(timeout, left()), **more)

    return Resolving


def _least(timeout: float | None, seconds: float | None) -> float | None:
    return min((each for each in (timeout, seconds) if each is not None), default=None)
