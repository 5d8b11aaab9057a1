"""How large the body of a response is, after each of its content codings too: counted while it comes, step by step."""

from __future__ import annotations

import zlib
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

from strictreply.retry._failures import ExchangeStopped, Failure

MAX_ERROR_BYTES = 1_000_000
"""How much is read of a response that is no success: the SDK parses it, and a megabyte tells any error."""

_PIECES = {"gzip": 4096, "deflate": 4096, "zstd": 128, "br": 8}
"""How many compressed bytes are expanded at once, so that no step makes more than some 16 MB.

Deflate expands 1,032 times at most, zstd makes a block of 128 KB from 4 bytes (RFC 8878 §3.1.1.2), brotli a block of
16 MB from some 8 (RFC 7932 §9.2).
"""

_MAX_CODINGS = 5
"""How many content codings one on top of the other are undone; nobody sends more than one."""

_BROTLI = ("brotli", "brotlicffi")
_ZSTD = ("compression.zstd", "backports.zstd", "zstandard")


class BodySize:
    """How large a body is, as it came and after each of its content codings, counted while it comes.

    The HTTP library undoes the codings by itself, a whole piece at once; here the same bytes were expanded before, in
    steps, and thrown away, so that nothing larger than the cap is ever expanded there.
    """

    def __init__(self, response: Any, most: int) -> None:
        """Count for this response; a successful one may have ``most`` bytes, any other at most a megabyte."""
        self._status: int = response.status_code
        self._most = most if response.is_success else min(most, MAX_ERROR_BYTES)
        codings = [part.strip().lower() for part in response.headers.get("content-encoding", "").split(",")]
        known = [coding for coding in reversed(codings) if coding in _PIECES]
        if len(known) > _MAX_CODINGS:
            self._stop()
        self._expanding = [(_Expander(coding), _PIECES[coding]) for coding in known]
        self._totals = [0] * (len(known) + 1)

    def feed(self, data: bytes, layer: int = 0) -> None:
        """Count bytes of a layer, and what they expand to above it; stop the exchange beyond the cap."""
        self._totals[layer] += len(data)
        if self._totals[layer] > self._most:
            self._stop()
        if layer == len(self._expanding):
            return
        expander, step = self._expanding[layer]
        for start in range(0, len(data), step):
            self.feed(expander.expand(data[start : start + step]), layer + 1)

    def add(self, count: int) -> None:
        """Count bytes that are known to be there."""
        if count > self._most:
            self._stop()

    def _stop(self) -> NoReturn:
        detail = f"the body has more than {self._most} bytes"
        raise ExchangeStopped(Failure("response_too_large", False, self._status, detail=detail))


class _Expander:
    """One content coding undone piece by piece, as httpx undoes it; what cannot be read stops the exchange."""

    def __init__(self, coding: str) -> None:
        """Begin; without a library for the coding there is nothing to undo it, in httpx neither."""
        self._coding = coding
        self._begun = False
        self._machine: Any = self._new()

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
        begun, self._begun = self._begun, True
        if self._coding == "br":
            machine = self._machine
            return bytes((machine.decompress if hasattr(machine, "decompress") else machine.process)(data))
        if self._coding == "zstd":
            return self._frames(data)
        if self._machine.eof:
            return b""
        try:
            return bytes(self._machine.decompress(data))
        except zlib.error:
            if begun or self._coding != "deflate":
                raise
        self._machine = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the header of RFC 1950 out
        return bytes(self._machine.decompress(data))

    def _frames(self, data: bytes) -> bytes:
        """Expand zstd, frame after frame."""
        found: list[bytes] = []
        while data:
            if self._machine.eof:
                self._machine = self._new()
            found.append(self._machine.decompress(data))
            data = self._machine.unused_data if self._machine.eof else b""
        return b"".join(found)

    def _new(self) -> Any:
        match self._coding:
            case "br":
                library = _first_of(_BROTLI)
                return None if library is None else library.Decompressor()
            case "zstd":
                library = _first_of(_ZSTD)
                machine: Any = None if library is None else library.ZstdDecompressor()
                return machine.decompressobj() if hasattr(machine, "decompressobj") else machine
            case "deflate":
                return zlib.decompressobj()
            case _:
                return zlib.decompressobj(zlib.MAX_WBITS | 16)


@cache
def _first_of(names: tuple[str, ...]) -> Any:
    """Import the first of some modules that is installed; None when none is."""
    for name in names:
        with suppress(ImportError):
            return import_module(name)
    return None
