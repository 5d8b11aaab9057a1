"""Files of JSON lines, plain or packed, read line by line."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from strictreply.values._limits import MAX_JSON_DEPTH, Limits

LINE_LIMITS = Limits(reply_bytes=64_000_000, depth=MAX_JSON_DEPTH, nodes=4_000_000)
"""What is read of one line."""

_GZIP_MAGIC = b"\x1f\x8b"
STDIN = Path("-")


def open_lines(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Read a JSONL file, plain or gzip: each line's number, its bytes, and how far the file itself has been read.

    ``-`` is what comes in on stdin. Blank lines are passed over. Raises OSError when the file cannot be read,
    gzip.BadGzipFile when it is damaged.
    """
    with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as opened:
        file = cast("BufferedReader", opened)
        packed = file.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC
        lines = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
        at = 0
        try:
            for number, line in enumerate(lines, 1):
                at += len(line)
                if line.strip():
                    yield number, line, at if path == STDIN else file.tell()
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile("the packed data is cut off or damaged") from error
