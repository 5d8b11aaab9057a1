"""A file of results that survives a kill of the process.

Each line is passed to the operating system as soon as its row has a result. Every few seconds, and
at the end, the file is synced to disk, and then its manifest is replaced. A power loss loses the
lines since then.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from strictreply import Contract, ContractError
from strictreply.batch._results import INDEX, RowResult, prefixed, strict_json, written_whole
from strictreply.core import JSONObject
from strictreply.core.calls import OUR_NAMES

Spelled: TypeAlias = Callable[[str], str]
"""Formats the name of a setting for a message: as a keyword, or as an option of a command."""

_FORMAT = 2


class DoneRows:
    """The rows that have a result: all below ``low``, and the ones in ``above``.

    ``above`` has only rows that ended out of order.
    """

    def __init__(self, low: int = 0, above: Iterable[int] = ()) -> None:
        self.low = low
        self.above = set(above)

    def __contains__(self, index: int) -> bool:
        return index < self.low or index in self.above

    def __len__(self) -> int:
        return self.low + len(self.above)

    def add(self, index: int) -> None:
        """Add a row."""
        self.above.add(index)
        while self.low in self.above:
            self.above.remove(self.low)
            self.low += 1


class Journal:
    """The results of one run in a file, earlier starts included; ``run`` identifies the run.

    Opening the file removes rows for which the API failed, so that they are retried; ``api_failed``
    counts new ones. ``option`` formats the names of settings in messages. Raises ContractError when
    the file belongs to another run or another process writes it, and OSError for errors of files.
    """

    def __init__(
        self,
        path: Path,
        run: JSONObject,
        *,
        prefix: str = "",
        restart: bool = False,
        option: Spelled = "{}=".format,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._run = run
        self._prefix = prefix
        self._option = option
        self._clock = clock

        self.manifest = path.with_name(f"{path.name}.manifest.json")
        self._forget()
        known = None if restart else self._known()
        self._file: BinaryIO = path.open("ab")

        try:
            _lock(self._file, path, self._option)
            if known is not None:
                self._resume(self._known() or {})  # read again, now that the file is locked

            self._file.truncate(self._bytes)
            if self.api_failed:
                self._ask_again()

            self.save()
        except BaseException:
            self._file.close()
            raise

    def _forget(self) -> None:
        self.done = DoneRows()
        self.statuses: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.api_failed = 0
        self._bytes = 0
        self.is_complete = False

    def _known(self) -> JSONObject | None:
        """Read the manifest of an earlier start; None if there is none."""
        try:
            known = json.loads(self.manifest.read_bytes())
        except FileNotFoundError:
            if self._path.exists() and self._path.stat().st_size:
                raise ContractError(
                    f"{self._path} exists, but its manifest {self.manifest.name} does not, so the "
                    f"run cannot continue. Pass another {self._option('out')}, or "
                    f"{self._option('restart')} to overwrite it"
                ) from None

            return None
        except ValueError:
            known = {}  # refused below

        if not self._path.exists():
            raise ContractError(
                f"{self._path} is missing, but {self.manifest.name} refers to it: "
                f"pass {self._option('restart')} to start again"
            )

        is_ours = isinstance(known, dict) and known.get("format") == _FORMAT
        if not is_ours or not isinstance(known.get("run"), dict):
            raise ContractError(
                f"{self.manifest} is not a manifest of this version: "
                f"pass {self._option('restart')} to start again"
            )

        stored_run = known["run"]
        changed = [
            name for name in self._run | stored_run if self._run.get(name) != stored_run.get(name)
        ]
        if changed:
            raise ContractError(
                f"{self._path} has the results of another run, with another "
                f"{' and another '.join(changed)}. "
                f"Pass another {self._option('out')}, or {self._option('restart')} to start again"
            )

        return cast("JSONObject", known)

    def _resume(self, known: JSONObject) -> None:
        """Count the existing results: those in the manifest, and the whole lines after them."""
        # a file shorter than its manifest says lost its end: count it from the beginning
        if known and known["bytes"] <= self._path.stat().st_size:
            self.done = DoneRows(known["low"], known["above"])
            self.statuses.update(known["statuses"])
            self.tokens.update(known["tokens"])
            self.api_failed = known["api_failed"]
            self._bytes = known["bytes"]
            self.is_complete = known["complete"]

        with self._path.open("rb") as written:
            written.seek(self._bytes)
            # ValueError: a part that was not on disk when the machine lost power
            with suppress(ValueError):
                for line in takewhile(lambda line: line.endswith(b"\n"), written):
                    self._count(json.loads(line), len(line))

    def _count(self, line: JSONObject, size: int) -> None:
        self._bytes += size
        self.done.add(line[self._prefix + INDEX])
        self.statuses[line[f"{self._prefix}status"]] += 1
        self.tokens.update(line[f"{self._prefix}usage"])
        self.api_failed += self._has_failed(line)

    def _has_failed(self, line: JSONObject) -> bool:
        return bool(line[f"{self._prefix}status"] == "failed" and line[f"{self._prefix}attempts"])

    def _ask_again(self) -> None:
        """Write the file again without the rows for which the API failed."""
        self._forget()  # the manifest first, so that after a kill either file can be counted
        self.save()

        with closing(self._file):  # locked until the new file is
            with written_whole(self._path) as file:
                with self._path.open("rb") as written:
                    for line in written:
                        result = json.loads(line)
                        if not self._has_failed(result):
                            file.write(line)
                            self._count(result, len(line))

                if os.name == "nt":  # Windows cannot replace an open file
                    self._file.close()

            self._file = self._path.open("ab")
            _lock(self._file, self._path, self._option)

    def add(self, index: int, row: Mapping[str, object], result: RowResult) -> None:
        """Write the result of a row, and sync the file to disk from time to time."""
        line = {self._prefix + INDEX: index, **row, **prefixed(result, self._prefix)}
        written = strict_json(line).encode() + b"\n"
        self._file.write(written)
        self._file.flush()
        self._count(line, len(written))

        if self._clock() >= self._next_save:
            self.save()

    def save(self, *, complete: bool = False) -> None:
        """Sync the file to disk, and write the progress of the run to the manifest."""
        os.fsync(self._file.fileno())
        self.is_complete = complete or self.is_complete

        # bytes: our own count, because a full disk may have written a part of a line
        manifest: JSONObject = {
            "format": _FORMAT,
            "run": self._run,
            "bytes": self._bytes,
            "low": self.done.low,
            "above": sorted(self.done.above),
            "statuses": self.statuses,
            "api_failed": self.api_failed,
            "tokens": {name: self.tokens[name] for name in OUR_NAMES.counts},
            "complete": self.is_complete,
        }
        with written_whole(self.manifest) as file:
            file.write(json.dumps(manifest, indent=1).encode())

        self._next_save = self._clock() + 5.0  # seconds

    def close(self) -> None:
        """Save, and close the file."""
        with suppress(OSError):  # an old manifest does no harm: the lines after it are counted
            self.save()
        with suppress(OSError):  # the write that found the disk full has reported it
            self._file.close()


def _lock(file: BinaryIO, path: Path, option: Spelled) -> None:
    """Raise ContractError for a file that another process writes or has replaced.

    Nothing is locked on a system without ``fcntl``.
    """
    with suppress(ImportError):
        import fcntl  # noqa: PLC0415 - not on every system

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise BlockingIOError
        except OSError:
            raise ContractError(
                f"{path} is written by another process: wait for it, "
                f"or pass another {option('out')}"
            ) from None


def fingerprint(contract: Contract) -> str:
    """Return a digest of a contract, of what it sends and how it judges; equal in every process."""
    rules: JSONObject = {one.name: repr(getattr(contract, one.name)) for one in fields(contract)}
    rules["answer"] = contract.answer.document

    tools = [(tool.definition, tool.extra, tool.formats) for tool in contract.tools]
    rules["tools"] = tools
    rules["offered"] = tools

    return hashlib.sha256(json.dumps(rules, sort_keys=True, default=str).encode()).hexdigest()
