"""Reading files of JSON lines, plain or gzipped."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias, cast

from strictreply import Limits
from strictreply.core.judging import MAX_JSON_DEPTH

__all__ = ["LINE_LIMITS", "STDIN", "Line", "open_lines"]

LINE_LIMITS = Limits(reply_bytes=64_000_000, depth=MAX_JSON_DEPTH, nodes=4_000_000)
"""Limits of the JSON in one line."""
STDIN = Path("-")
"""The path that stands for stdin."""

Line: TypeAlias = tuple[int, bytes, int]
"""The number of a line from 1, its bytes, and the position in the file after it."""

_GZIP_MAGIC = b"\x1f\x8b"


# Byte order marks of encodings that some programs write instead of UTF-8. UTF-32 comes first,
# because its mark begins with that of UTF-16.
_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def open_lines(path: Path) -> Iterator[Line]:
    """Read the lines of a JSONL file, plain or gzipped, without blank ones; ``-`` means stdin.

    The lines are UTF-8 without a byte order mark. A file that begins with the mark of UTF-16 or
    UTF-32 is decoded as such. Raises gzip.BadGzipFile when gzipped data is damaged.
    """
    with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as opened:
        file = cast("BufferedReader", opened)
        packed = file.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC
        unpacked = cast("BufferedReader", gzip.GzipFile(fileobj=file)) if packed else file

        at = 0
        try:
            for number, read in enumerate(_in_utf8(unpacked), 1):
                at += len(read)
                # at the start of any line, because files with marks may have been concatenated
                line = read.removeprefix(codecs.BOM_UTF8)
                if line.strip():
                    yield number, line, at if path == STDIN else file.tell()
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile("the gzipped data is cut off or damaged") from error


def _in_utf8(file: BufferedReader) -> Iterator[bytes]:
    """Read lines as UTF-8; in a wider encoding invalid bytes are replaced.

    Bytes count as a mark only if an ASCII character follows, with which JSON begins.
    """
    head = file.peek(8)[:8]
    encoding = next((name for bom, name in _WIDE if head.startswith(bom)), None)
    if encoding is None or not head.decode(encoding, "replace")[:1].isascii():
        yield from file
        return

    text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")
    try:
        for line in text:
            yield line.encode()
    finally:
        text.detach()  # the caller closes the file
