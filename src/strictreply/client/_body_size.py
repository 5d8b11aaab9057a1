"""The size of a response's body, after each content coding too: expanded here in steps, as HTTP libraries do not."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

from strictreply.retry._failures import ExchangeStopped, Failure

MAX_ERROR_BYTES = 1_000_000
"""How much is read of a response that is no success: the SDK parses it, and a megabyte holds any error."""

_STEP_BYTES = {"gzip": 4096, "deflate": 4096, "zstd": 128, "br": 8}
"""How many compressed bytes are expanded at once, so that no step makes more than some 16 MB.

Deflate expands 1,032 times at most, zstd makes a block of 128 KB from 4 bytes (RFC 8878 §3.1.1.2), brotli a block of
16 MB from some 8 (RFC 7932 §9.2).
"""

_MAX_CODINGS = 5
"""How many content codings one on top of the other are undone; nobody sends more than one."""

_PIECE_BYTES = 65_536
_LIBRARIES = {"br": ("brotli", "brotlicffi"), "zstd": ("compression.zstd", "backports.zstd", "zstandard")}


class BodySize:
    """The bytes of a body, also after each content coding; beyond the cap (1 MB of an error) the exchange stops."""

    def __init__(self, response: Any, max_bytes: int) -> None:
        self._status: int = response.status_code
        self._max_bytes = max_bytes if response.is_success else min(max_bytes, MAX_ERROR_BYTES)
        codings = response.headers.get("content-encoding", "").split(",")
        known = [coding for part in reversed(codings) if (coding := part.strip().lower()) in _STEP_BYTES]
        if len(known) > _MAX_CODINGS:
            self._stop()
        self._layers = [(_Expander(coding), _STEP_BYTES[coding]) for coding in known]
        self._totals = [0] * (len(known) + 1)

    def feed(self, data: bytes, layer: int = 0) -> None:
        """Count bytes of a layer, and what they expand to above it; layer 0 is the body as it came."""
        self._totals[layer] += len(data)
        if self._totals[layer] > self._max_bytes:
            self._stop()
        if layer == len(self._layers):
            return
        expander, step = self._layers[layer]
        for start in range(0, len(data), step):
            self.feed(expander.expand(data[start : start + step]), layer + 1)

    def add(self, count: int) -> None:
        """Count bytes that are expanded already."""
        if count > self._max_bytes:
            self._stop()

    def _stop(self) -> NoReturn:
        detail = f"the body has more than {self._max_bytes} bytes"
        raise ExchangeStopped(Failure("response_too_large", False, self._status, detail=detail))


class _Expander:
    """One content coding undone piece by piece, as httpx undoes it; what cannot be read stops the exchange."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._begun = False
        self._machine: Any = _machine(coding)

    def expand(self, data: bytes) -> bytes:
        """Return what some bytes expand to; nothing after the end of what zlib reads."""
        if self._machine is None or not data:
            return b""
        try:
            return self._expanded(data)
        except Exception as error:
            failure = Failure("connection", retryable=True, detail="the content coding of the body is broken")
            raise ExchangeStopped(failure) from error

    def _expanded(self, data: bytes) -> bytes:
        begun, self._begun, machine = self._begun, True, self._machine
        if self._coding == "br":
            return bytes((machine.decompress if hasattr(machine, "decompress") else machine.process)(data))
        if self._coding == "zstd":
            return self._frames(data)
        try:
            return b"" if machine.eof else bytes(machine.decompress(data))
        except zlib.error:
            if begun or self._coding != "deflate":
                raise
        self._machine = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the header of RFC 1950 out
        return bytes(self._machine.decompress(data))

    def _frames(self, data: bytes) -> bytes:
        # zstd comes in frames, each of which needs a decompressor of its own
        found: list[bytes] = []
        while data:
            if self._machine.eof:
                self._machine = _machine(self._coding)
            found.append(self._machine.decompress(data))
            data = self._machine.unused_data if self._machine.eof else b""
        return b"".join(found)


def _machine(coding: str) -> Any:
    """Return a decompressor; None without a library for the coding, as then the HTTP library cannot undo it either."""
    if coding not in _LIBRARIES:
        return zlib.decompressobj(zlib.MAX_WBITS | (16 if coding == "gzip" else 0))
    library = _first_installed(_LIBRARIES[coding])
    if library is None or coding == "br":
        return None if library is None else library.Decompressor()
    machine = library.ZstdDecompressor()
    return machine.decompressobj() if hasattr(machine, "decompressobj") else machine


@cache
def _first_installed(names: tuple[str, ...]) -> Any:
    for name in names:
        with suppress(ImportError):
            return import_module(name)
    return None


def bounded_body(stream: Any, size: BodySize, check_time: Callable[[], object], *, at_once: bool = False) -> Any:
    """Return a body that counts itself and calls ``check_time`` before it passes a piece on: ``at_once``, or joined."""
    kind: Any = type(stream)
    return _bounded_class(kind)(stream, size, check_time, 1 if at_once else _PIECE_BYTES)


class _BoundedBody:
    """The body of a response, read under a byte cap and a deadline; sync and async as the one behind it is."""

    def __init__(self, behind: Any, size: BodySize, check_time: Callable[[], object], least: int) -> None:
        self._behind = behind
        self._size = size
        self._check_time = check_time
        self._least = least

    def __iter__(self) -> Iterator[bytes]:
        kept = bytearray()
        for piece in self._behind:
            yield from self._joined(kept, piece)
        if kept:
            yield bytes(kept)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept = bytearray()
        async for piece in self._behind:
            for joined in self._joined(kept, piece):
                yield joined
        if kept:
            yield bytes(kept)

    def _joined(self, kept: bytearray, piece: bytes) -> tuple[bytes, ...]:
        # the HTTP library keeps each piece as an object: of two bytes each they would take thirty times their size
        self._check_time()
        self._size.feed(piece)
        kept += piece
        if len(kept) < self._least:
            return ()
        joined = bytes(kept)
        kept.clear()
        return (joined,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def close(self) -> None:
        self._behind.close()  # of a body that was not read to its end, the connection

    async def aclose(self) -> None:
        await self._behind.aclose()


@cache
def _bounded_class(kind: Any) -> Any:
    # derived from the class of the body: HTTP libraries know sync and async bodies by their class
    return type(kind.__name__, (_BoundedBody, kind), {})
