"""A file of results that survives a kill.

A line is handed to the operating system as soon as its row has a result. Every few seconds, and at
the end, the file is forced to disk and after it its manifest is replaced; a machine that loses
power loses the lines since.
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
"""Spells the name of a setting in a message: as a keyword, or as an option of a command."""

_FORMAT = 2


class DoneRows:
    """Which rows have a result: all below ``low``, and those in ``above``.

    ``above`` has as many rows as ended out of order.
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
    """The results of one run, which ``run`` identifies, in a file, those of earlier starts too.

    Rows at which the API failed are taken out when the file is opened, to be retried;
    ``api_failed`` counts those since. ``option`` spells the names of settings in messages. Raises
    ContractError when the file belongs to another run or
    another process writes it, OSError as files do.
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
                self._resume(self._known() or {})  # as it is now that no other process writes it

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
        """Read the manifest of a run that was begun earlier; None when there is none."""
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
        """Count the results that are there.

        They are those that the manifest knows, and the lines after them, up to the last whole line.
        """
        # a shorter file lost its end when the machine lost power: it is counted from its beginning
        if known and known["bytes"] <= self._path.stat().st_size:
            self.done = DoneRows(known["low"], known["above"])
            self.statuses.update(known["statuses"])
            self.tokens.update(known["tokens"])
            self.api_failed = known["api_failed"]
            self._bytes = known["bytes"]
            self.is_complete = known["complete"]

        with self._path.open("rb") as written:
            written.seek(self._bytes)
            # ValueError: a part that the machine had not written when it lost power
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
        """Write the file anew without the rows at which the API failed."""
        self._forget()  # in the manifest first: after a kill either file can be counted
        self.save()

        with closing(self._file):  # locked until the other one is
            with written_whole(self._path) as file:
                with self._path.open("rb") as written:
                    for line in written:
                        result = json.loads(line)
                        if not self._has_failed(result):
                            file.write(line)
                            self._count(result, len(line))

                if os.name == "nt":  # where what is open cannot be replaced
                    self._file.close()

            self._file = self._path.open("ab")
            _lock(self._file, self._path, self._option)

    def add(self, index: int, row: Mapping[str, object], result: RowResult) -> None:
        """Write the result of a row, and force it to disk from time to time."""
        line = {self._prefix + INDEX: index, **row, **prefixed(result, self._prefix)}
        written = strict_json(line).encode() + b"\n"
        self._file.write(written)
        self._file.flush()
        self._count(line, len(written))

        if self._clock() >= self._next_save:
            self.save()

    def save(self, *, complete: bool = False) -> None:
        """Force what was written to disk, and say in the manifest how far the run is."""
        os.fsync(self._file.fileno())
        self.is_complete = complete or self.is_complete

        # bytes: our own count, not what the file has, as a full disk takes a part of a line
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
        """Save, and let the file go."""
        with suppress(OSError):  # the manifest then says less than there is, which does no harm
            self.save()
        with suppress(OSError):  # what wrote to a full disk has reported it
            self._file.close()


def _lock(file: BinaryIO, path: Path, option: Spelled) -> None:
    """Refuse a file that another process writes or has replaced.

    It is not refused on a system where locks do not end with their process.
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
    """Return a digest of what a contract tells a model, and how it judges.

    It is the same in every process.
    """
    rules: JSONObject = {one.name: repr(getattr(contract, one.name)) for one in fields(contract)}
    rules["answer"] = contract.answer.document

    tools = [(tool.definition, tool.extra, tool.formats) for tool in contract.tools]
    rules["tools"] = tools
    rules["offered"] = tools

    return hashlib.sha256(json.dumps(rules, sort_keys=True, default=str).encode()).hexdigest()
