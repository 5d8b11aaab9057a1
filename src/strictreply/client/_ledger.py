"""The ledger: one line of JSON for each attempt, in files that rotate, without the model's words.

A line says what became of a reply. Of the reply itself it keeps the form: which tool, which keys,
which types. ``strictreply check`` reads these files.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import RLock
from uuid import uuid4
from weakref import WeakSet

from strictreply.reading._decoding import is_json
from strictreply.values._errors import ContractError, must_be, must_have
from strictreply.values._issues import Issue, capped, json_words, printable
from strictreply.values._limits import JSON, JSONObject, is_count
from strictreply.values._replies import Attempt, plain
from strictreply.wires import ReplyPart, called_tool, excerpt

logger = logging.getLogger("strictreply")

LEDGER_VERSION = 1
VARIABLE = "STRICTREPLY_LEDGER"
MAX_NAME_CHARS = 100
MAX_REPLY_CHARS = 4_000
PID = "{pid}"
_MODE = 0o600  # whatever the umask: only who ran the program may read what models were asked for


class Ledger:
    """Writes what became of each attempt into files of JSON lines, one line an attempt.

    ``path`` is the file; ``{pid}`` in its name becomes the number of the process, since one file is
    for one process, with any number of threads. A file that would grow beyond ``max_bytes`` becomes
    ``path.1``, that one ``path.2`` and so on, and what is older than ``path.<keep>`` is deleted.
    Files are opened at their first line, and only their owner may read them.

    Of a reply a line keeps the names of tools and keys, and the types of values. ``redact`` is
    given the whole reply as text, its calls as ``name(arguments)``, and returns what is written
    instead. Raises ContractError for wrong arguments, and for a folder that does not exist; after
    that nothing is raised: what goes wrong is logged once by type, and counted in ``failures``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 10_000_000,
        keep: int = 5,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        must_be("path", path, (str, os.PathLike), "the path of a file, as text or a Path")
        must_have("redact", redact, "__call__", "a function of a reply as text, or None")
        for name, number in (("max_bytes", max_bytes), ("keep", keep)):
            if not is_count(number, 1):
                raise ContractError(f"{name} must be a whole number, 1 or more")

        self._file = RotatingFile(_checked(os.fspath(path)), max_bytes, keep)
        self._redact = redact
        self._told: set[str] = set()
        self._failures = 0

    def __repr__(self) -> str:
        """Show the path."""
        return f"Ledger({str(self._file.path)!r})"

    @property
    def failures(self) -> int:
        """How often something went wrong: a line that was not written, a ``redact`` that raised."""
        return self._failures

    def write(
        self, attempt: Attempt, *, call: str, mode: str, model: str, tool: str | None
    ) -> None:
        """Write the line of an attempt.

        ``call`` is the id that all attempts of one call share, ``mode`` is ``observe``, ``enforce``
        or ``partial``, ``model`` the one that was asked, and ``tool`` the first that was called,
        None for none.
        """
        try:
            entry = self._entry(attempt, call=call, mode=mode, model=model, tool=tool)
            self._file.append(json.dumps(entry).encode() + b"\n")
        except Exception as error:  # noqa: BLE001 - a call never fails by its ledger
            self._fail(error, "the line is lost")

    def close(self) -> None:
        """Close the file; a further line opens it again."""
        self._file.close()

    def _entry(
        self, attempt: Attempt, *, call: str, mode: str, model: str, tool: str | None
    ) -> JSONObject:
        usage = attempt.usage
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

        return {
            "ledger": LEDGER_VERSION,
            "at": at,
            "call": call,
            "attempt": attempt.number,
            "mode": mode,
            "outcome": _outcome(attempt),
            "api": attempt.api,
            "model": model,
            "tool": None if tool is None else printable(_cut(tool)),
            "issues": [_told_issue(issue) for issue in attempt.issues],
            "failure": None if attempt.failure is None else printable(attempt.failure),
            "tier": attempt.tier,
            "scope": None if attempt.scope is None else printable(attempt.scope),
            "seconds": round(attempt.seconds, 6),
            "tokens": {
                "input": usage.prompt_tokens,
                "output": usage.completion_tokens,
                "estimated": usage.is_estimate,
            },
            "reply": None if attempt.raw is None else self._reply(attempt),
        }

    def _reply(self, attempt: Attempt) -> str:
        if self._redact is not None:
            try:
                kept = self._redact(excerpt(attempt.raw, attempt.api))
                must_be("the result of redact", kept, str, "a text")
            except Exception as error:  # noqa: BLE001 - a user's own code may raise anything
                self._fail(error, "redact raised it, and the masked reply is written")
            else:
                return kept

        return capped(excerpt(attempt.raw, attempt.api, mask), MAX_REPLY_CHARS)

    def _fail(self, error: Exception, outcome: str) -> None:
        """Count what went wrong, and log its type once: its words may be the model's."""
        kind = type(error).__name__
        if isinstance(error, OSError) and error.errno is not None:
            kind += f" ({errno.errorcode.get(error.errno, error.errno)})"

        with self._file.lock:
            self._failures += 1
            is_new = kind not in self._told
            self._told.add(kind)

        if is_new:
            logger.error("the ledger %s: %s: %s", printable(str(self._file.path)), kind, outcome)


@dataclass(frozen=True, slots=True)
class LedgerOfCall:
    """What the lines of one call share."""

    ledger: Ledger
    """Where they are written."""
    mode: str
    """``observe``, ``enforce`` or ``partial``."""
    model: str
    """The model that was asked."""
    call: str = field(default_factory=lambda: uuid4().hex)
    """The id of the call."""

    def write(self, attempt: Attempt) -> None:
        """Write the line of an attempt."""
        tool = None if attempt.raw is None else called_tool(attempt.raw, attempt.api)
        self.ledger.write(attempt, call=self.call, mode=self.mode, model=self.model, tool=tool)


@cache
def ledger_at(path: str) -> Ledger:
    """Return the ledger of a path: one for all clients of the process that name it."""
    return Ledger(path)


def given_ledger(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """Return the ledger that a client is given, by itself or by its path.

    None means that of the environment (``STRICTREPLY_LEDGER``), where a wrong path is logged.
    Raises ContractError for a wrong one that is given.
    """
    if isinstance(given, Ledger):
        return given
    if given is not None:
        must_be("ledger", given, (str, os.PathLike), "a Ledger, or the path of its file")
        return ledger_at(os.fspath(given))

    named = os.environ.get(VARIABLE)
    if not named:
        return None

    try:
        return ledger_at(named)
    except ContractError as error:
        logger.error("%s is wrong: %s; nothing is written", VARIABLE, error)  # noqa: TRY400
        return None


class RotatingFile:
    """A file of whole lines, which gives its place to a new one before it grows too large."""

    _descriptor: int | None = None

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self.lock = RLock()  # a signal's handler may make a call inside of another one
        _FILES.add(self)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Close a file that nobody holds any more; at the end of a program ``os`` may be gone."""
        if self._descriptor is not None:
            close(self._descriptor)

    def append(self, line: bytes) -> None:
        """Append a line by one write, so that nothing tears it; raise OSError where it cannot."""
        with self.lock:
            descriptor, size = self._ready(len(line))
            written = os.write(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file; a further line opens it again."""
        with self.lock:
            descriptor = self._descriptor
            self._descriptor = None
            if descriptor is not None:
                os.close(descriptor)

    def begin_child(self) -> None:
        """Begin anew in a child process: a thread that is not there may have held the lock."""
        self.lock = RLock()
        self.close()

    def _ready(self, more: int) -> tuple[int, int]:
        """Return the open file that has room for ``more`` bytes, and its size."""
        path = self.path.with_name(self.path.name.replace(PID, str(os.getpid())))
        descriptor = self._open(path)
        size = os.fstat(descriptor).st_size

        if size and size + more > self._max_bytes:
            self.close()
            _rotate(path, self._keep)
            descriptor = self._open(path)
            size = os.fstat(descriptor).st_size

        return descriptor, size

    def _open(self, path: Path) -> int:
        """Return the file of a path, open; one that somebody has moved away is begun anew."""
        if self._descriptor is not None and not _is_at(self._descriptor, path):
            self.close()
        if self._descriptor is None:
            self._descriptor = _open_file(path)

        return self._descriptor


_FILES: WeakSet[RotatingFile] = WeakSet()


def _begin_children() -> None:
    for file in [*_FILES]:
        file.begin_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_begin_children)


def mask(value: object, part: ReplyPart) -> str:
    """Show the form of a part of a reply: its keys, and in place of each value its type."""
    if not isinstance(value, str):
        return _masked(plain(value))
    if part == "name":
        return printable(_cut(value))

    if part == "arguments" or value.lstrip().startswith(("{", "[")):
        return _masked(json.loads(value)) if is_json(value) else f"<not JSON: {_characters(value)}>"

    return f"<text of {_characters(value)}>"


def _cut(name: str) -> str:
    """Return at most 100 characters of a name: a model may have made it up."""
    return name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 1]}…"


def _masked(value: JSON) -> str:
    if isinstance(value, dict):
        members = (f"{json_words(_cut(key))}: {_masked(one)}" for key, one in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_masked, value))}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "<boolean>"

    return "<string>" if isinstance(value, str) else "<number>"


def _characters(text: str) -> str:
    return f"{len(text)} character{'' if len(text) == 1 else 's'}"


def _outcome(attempt: Attempt) -> str:
    if attempt.failure is not None:
        return "failed"
    if attempt.observed:
        return "observed"

    return "rejected" if attempt.issues else "ok"


def _told_issue(issue: Issue) -> JSONObject:
    # ``found`` is what the model wrote; in the others an invented key is ``*`` already
    return {"code": issue.code, "path": printable(issue.path), "message": issue.message}


def _checked(path: str | bytes) -> Path:
    """Return the absolute path of a file that can be written; raise ContractError for any other."""
    if isinstance(path, bytes) or not path or "\0" in path:
        raise ContractError("path must be the path of a file, as text or a Path")

    file = Path(path)
    if PID in str(file.parent):
        raise ContractError("path may have {pid} in the name of the file only: move it there")
    if not file.name or file.is_dir():
        raise ContractError(f"path is a folder: name a file in it, as in {file / 'ledger.jsonl'}")
    if not file.parent.is_dir():
        raise ContractError(f"the folder {file.parent} does not exist: make it, or name another")
    if file.exists() and not file.is_file():
        raise ContractError(f"{file} is not a file: name one, which is made if it is not there")

    return file.absolute()


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one of a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _open_file(path: Path) -> int:
    """Open a file for further lines; a new one is its owner's alone."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    is_new = True
    try:
        descriptor = os.open(path, flags | os.O_EXCL, _MODE)
    except FileExistsError:
        descriptor = os.open(path, flags, _MODE)
        is_new = False

    try:
        if is_new:
            # the umask may have taken even the owner's rights
            file = descriptor if os.chmod in os.supports_fd else path
            os.chmod(file, _MODE)  # noqa: PTH101 - the file that was made
        else:
            _end_cut_line(descriptor)
    except BaseException:
        os.close(descriptor)
        raise

    return descriptor


def _end_cut_line(descriptor: int) -> None:
    """End a line that was cut, as by a loss of power: the next one is on a line of its own."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if not size:
        return

    os.lseek(descriptor, size - 1, os.SEEK_SET)
    if os.read(descriptor, 1) != b"\n":
        os.write(descriptor, b"\n")


def _rotate(path: Path, keep: int) -> None:
    """Give each file the next number, the oldest first; the one beyond ``keep`` is replaced."""
    for number in range(keep - 1, -1, -1):
        source = path if not number else path.with_name(f"{path.name}.{number}")
        if source.exists():
            source.replace(path.with_name(f"{path.name}.{number + 1}"))
