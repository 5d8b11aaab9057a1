"""The responses of a measurement, in a file that survives a kill of the process.

Each line has one response and the digest of its request, so that another start repeats no request,
and sends a new one for a changed row, prompt or style. Refused requests are recorded, too; other
failed calls are not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from strictreply import ContractError
from strictreply.core import JSON
from strictreply.core.forms import as_json


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """The outcome of a request: a response, or the refusal of the request."""

    response: JSON
    """The response, unchanged; None if the request was refused."""
    seconds: float
    """Seconds that the call took."""
    refused: str = ""
    """How the endpoint refused the request; empty if it did not."""


def digest_of(style: str, repeat: int, request: Mapping[str, Any]) -> str:
    """Return the digest of a request of a style; it is the same in every process.

    ``repeat`` is the number of equal rows before it.
    """
    written = json.dumps([style, repeat, as_json(request)], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(written.encode()).hexdigest()


class MeasureJournal:
    """The responses of a measurement by request, in a file of JSON lines, or only in memory.

    Raises ContractError for another kind of file, and for one that another process writes.
    """

    def __init__(self, path: Path | None) -> None:
        self._known: dict[str, RecordedResponse] = {}
        self._lock = Lock()
        self._file: BinaryIO | None = None
        if path is not None:
            self._file = path.open("ab+")
            self._read(self._file, path)

    def _read(self, file: BinaryIO, path: Path) -> None:
        _lock(file, path)
        file.seek(0)
        whole = 0

        for line in file:
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote
            try:
                read = json.loads(line)
                came = RecordedResponse(
                    read["response"], float(read["seconds"]), read.get("refused", "")
                )
                self._known[read["request"]] = came
            except (ValueError, KeyError, TypeError):
                file.close()
                raise ContractError(
                    f"{path} is not the journal of a measurement: pass another journal"
                ) from None

            whole += len(line)

        file.truncate(whole)

    def found(self, digest: str) -> RecordedResponse | None:
        """Return the outcome of a request; None if it has none yet."""
        return self._known.get(digest)

    def add(self, digest: str, came: RecordedResponse) -> None:
        """Record the outcome of a request, and write it to the file before returning."""
        line = json.dumps({"request": digest, **asdict(came)}).encode() + b"\n"
        with self._lock:
            self._known[digest] = came
            if self._file is not None:
                self._file.write(line)
                self._file.flush()

    def close(self) -> None:
        """Sync the file to disk, and close it."""
        if self._file is not None:
            with suppress(OSError):
                os.fsync(self._file.fileno())
            self._file.close()


def _lock(file: BinaryIO, path: Path) -> None:
    """Raise ContractError for a file that another process writes, on systems with ``fcntl``."""
    with suppress(ImportError):
        import fcntl  # noqa: PLC0415 - not on every system

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise ContractError(f"{path} is written by another process: wait for it") from None
