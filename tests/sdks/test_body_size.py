"""The size of a body is counted after its content codings, in steps that stay small."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.core.calls import ExchangeStopped
from strictreply.sdks._bounds import MAX_ERROR_BYTES, BodySize

MEGABYTE = 1 << 20


def size_of(coding: str, most: int, status: int = 200) -> BodySize:
    """Count for a response with these codings."""
    headers = {"content-encoding": coding} if coding else {}
    response: Any = SimpleNamespace(status_code=status, is_success=status < 300, headers=headers)
    return BodySize(response, most)


def raw_deflate(data: bytes) -> bytes:
    """Compress without the header of RFC 1950."""
    make = zlib.compressobj(wbits=-15)
    return make.compress(data) + make.flush()


def zstd(data: bytes) -> bytes:
    """Compress in two frames, where the library is installed."""
    library = pytest.importorskip("zstandard")
    half = len(data) // 2
    return b"".join(library.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "DEFLATE": raw_deflate,
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data)),
    "zstd": zstd,
    "deflate, zstd": lambda data: zstd(zlib.compress(data)),
}


@pytest.mark.parametrize("coding", CODINGS)
@given(data=st.binary(min_size=1, max_size=20_000), cut=st.integers(2, 5_000))
def test_v4_a_body_of_the_cap_passes_and_one_byte_more_does_not(
    coding: str, data: bytes, cut: int
) -> None:
    """For any coding and any pieces, the expanded body is counted."""
    sent = CODINGS[coding](data)
    # What is sent, and what stands between two codings, is held to the cap too.
    most = max(len(data), len(sent)) + 200
    allowed = size_of(coding, most)
    refused = size_of(coding, len(data) - 1)

    for start in range(0, len(sent), cut):
        allowed.feed(sent[start : start + cut])

    with pytest.raises(ExchangeStopped) as raised:
        refused.feed(sent)

    assert raised.value.failure.kind == "response_too_large"
    assert not raised.value.failure.retryable


@pytest.mark.parametrize(
    "coding", ["gzip", "deflate", "DEFLATE", "gzip, gzip", "zstd", "deflate, zstd"]
)
def test_v4_a_bomb_is_noticed_before_it_goes_off(coding: str) -> None:
    """Two hundred megabytes in one piece are counted in a few."""
    bomb = CODINGS[coding](b" " * (200 * MEGABYTE))
    size = size_of(coding, MEGABYTE)
    tracemalloc.start()

    try:
        with pytest.raises(ExchangeStopped):
            size.feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < 24 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("coding", "data"),
    [("gzip", b"no"), ("deflate", b"\xff\xff"), ("zstd", b"never"), ("gzip, gzip", b"no")],
)
def test_a_coding_that_cannot_be_read_is_a_broken_connection(coding: str, data: bytes) -> None:
    """As in the HTTP libraries: the same request may bring a sound body."""
    if coding == "zstd":
        pytest.importorskip("zstandard")
    with pytest.raises(ExchangeStopped) as raised:
        size_of(coding, MEGABYTE).feed(data)
    assert (raised.value.failure.kind, raised.value.failure.retryable) == ("connection", True)


def test_more_codings_than_anybody_sends_are_refused() -> None:
    """Each coding costs memory before the first byte."""
    size_of(", ".join(["gzip"] * 5), MEGABYTE)
    with pytest.raises(ExchangeStopped):
        size_of(", ".join(["gzip"] * 6), MEGABYTE)


def test_an_error_has_less_room_than_a_completion() -> None:
    """A response that is not a success is capped at a megabyte, and keeps its status."""
    with pytest.raises(ExchangeStopped) as raised:
        size_of("", 16 * MEGABYTE, 503).feed(b" " * (MAX_ERROR_BYTES + 1))
    assert raised.value.failure.status_code == 503


def test_what_follows_the_end_of_gzip_is_not_expanded() -> None:
    """Bytes behind the end count as they are."""
    size = size_of("gzip", 1_000)
    size.feed(gzip.compress(b"x" * 900))
    size.feed(gzip.compress(b"x" * 900))
    with pytest.raises(ExchangeStopped):
        size.feed(b" " * 1_000)
