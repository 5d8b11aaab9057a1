"""The ledger: one line of JSON for each attempt, in files that rotate, without the model's text.

A line has the outcome of a reply, and only the form of the reply itself: the declared tools and
keys, and the types of the values. ``strictreply check`` reads these files.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from threading import RLock
from uuid import uuid4
from weakref import WeakSet

from strictreply.contract._contract import Contract
from strictreply.reading._decoding import is_json
from strictreply.values._errors import ContractError, must_be, must_have
from strictreply.values._issues import Issue, capped, json_words, printable
from strictreply.values._limits import JSON, JSONObject, is_count
from strictreply.values._replies import Attempt, plain
from strictreply.wires import ReplyPart, called_tool, declared_tool, excerpt

logger = logging.getLogger("strictreply")

LEDGER_VERSION = 1
VARIABLE = "STRICTREPLY_LEDGER"
OTHER_KEY = "<other key>"
"""Written in place of a key that no schema declares: the model's text may be personal."""

MAX_REPLY_CHARS = 4_000
PID = "{pid}"
# what looks like a field to fill in; other braces are part of a name
_BRACED = re.compile(r"\{[A-Za-z_]\w*\}|\{[^{}]*[Pp][Ii][Dd][^{}]*\}")
_API_KEYS = frozenset(
    {"error", "message", "type", "code", "param", "status", "detail", "details", "object", "id"}
    | {"model", "choices", "content", "text", "role", "output", "input", "usage", "created"}
    | {"tool_calls", "function", "name", "arguments", "finish_reason", "stop_reason"}
)  # of a response that has no reply, which a server or a gateway wrote
_MODE = 0o600  # whatever the umask: only the program's user may read a ledger


class Ledger:
    """Writes one JSON line for each attempt, with its outcome, into a file that rotates.

    ``path`` is the file. One file serves one process with any number of threads; ``{pid}`` in its
    name becomes the process id. A file that would grow beyond ``max_bytes`` bytes is renamed to
    ``path.1``, the previous ``path.1`` to ``path.2``, and so on; at most ``keep`` old files are
    kept. A file is opened at its first line, and only its owner may read it.

    A line has the names of a reply's tools and keys, if they are declared, and the types of its
    values. Names that the model invented are ``<unknown tool>`` and ``<other key>``. To write
    something else, pass ``redact``: it takes the whole reply as text, with its calls as
    ``name(arguments)``, and returns the text to write.

    Raises ContractError for wrong arguments, for another word in braces than ``{pid}``, and for a
    folder that does not exist. Later nothing is raised: each kind of failure is logged once by its
    type, and ``failures`` counts them all.
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
        """The number of failures: lines that were not written, and a ``redact`` that raised."""
        return self._failures

    def write(
        self, attempt: Attempt, *, call: str, mode: str, model: str, contract: Contract
    ) -> None:
        """Write the line of an attempt.

        ``call`` is the id that all attempts of one call share. ``mode`` is ``observe``, ``enforce``
        or ``partial``, ``model`` the model of the request, and ``contract`` what its reply was
        checked against: the line has no other names of tools and keys.
        """
        try:
            entry = self._entry(attempt, contract, call=call, mode=mode, model=model)
            self._file.append(json.dumps(entry).encode() + b"\n")
        except Exception as error:  # noqa: BLE001 - the ledger must never make a call fail
            self._fail(error, "the line is lost")

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        self._file.close()

    def _entry(
        self, attempt: Attempt, contract: Contract, *, call: str, mode: str, model: str
    ) -> JSONObject:
        usage = attempt.usage
        tool: str | None = None
        reply: str | None = None
        if attempt.raw is not None:
            tool = called_tool(attempt.raw, attempt.api, _tool_names(contract))
            reply = self._reply(attempt, contract)

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
            "tool": None if tool is None else printable(tool),
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
            "reply": reply,
        }

    def _reply(self, attempt: Attempt, contract: Contract) -> str:
        if self._redact is not None:
            try:
                kept = self._redact(excerpt(attempt.raw, attempt.api))
                must_be("the result of redact", kept, str, "a text")
            except Exception as error:  # noqa: BLE001 - a user's own code may raise anything
                self._fail(error, "redact failed, so the masked reply is written")
            else:
                return kept

        mask = partial(masked, contract)
        return capped(excerpt(attempt.raw, attempt.api, mask), MAX_REPLY_CHARS)

    def _fail(self, error: Exception, outcome: str) -> None:
        """Count a failure, and log its type once; its text may contain the model's text."""
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
    """The members that the lines of one call share."""

    ledger: Ledger
    """Gets the lines."""
    mode: str
    """``observe``, ``enforce`` or ``partial``."""
    model: str
    """The model of the request."""
    contract: Contract
    """What the replies are checked against."""
    call: str = field(default_factory=lambda: uuid4().hex)
    """The id of the call."""

    def write(self, attempt: Attempt) -> None:
        """Write the line of an attempt."""
        self.ledger.write(
            attempt, call=self.call, mode=self.mode, model=self.model, contract=self.contract
        )


@cache
def ledger_at(path: str) -> Ledger:
    """Return the ledger of a path; all clients of the process with this path share it."""
    return Ledger(path)


def given_ledger(given: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """Return a client's ledger, which is given as a ledger or as the path of its file.

    None means the path in ``STRICTREPLY_LEDGER``, if it is set. Raises ContractError for a wrong
    path.
    """
    if isinstance(given, Ledger):
        return given
    if given is not None:
        must_be("ledger", given, (str, os.PathLike), "a Ledger, or the path of its file")
        return ledger_at(os.fspath(given))

    named = os.environ.get(VARIABLE)
    if not named:
        return None

    if not named.strip():
        raise ContractError(f"{VARIABLE}={named!r} must be a path: name a file, or unset it")

    try:
        return ledger_at(named)
    except ContractError as error:
        raise ContractError(f"{VARIABLE}={named!r} is wrong: {error}") from None


class RotatingFile:
    """A file of whole lines, which is replaced by a new file before it grows too large."""

    _descriptor: int | None = None

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self.lock = RLock()  # a signal handler may make a call during another one
        _FILES.add(self)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Close the file when it is garbage-collected; ``os`` may already be gone by then."""
        if self._descriptor is not None:
            close(self._descriptor)

    def append(self, line: bytes) -> None:
        """Append a line by one write, so that it is whole; raise OSError if the disk is full."""
        with self.lock:
            descriptor, size = self._ready(len(line))
            written = os.write(descriptor, line)
            if written < len(line):
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        with self.lock:
            descriptor = self._descriptor
            self._descriptor = None
            if descriptor is not None:
                os.close(descriptor)

    def begin_child(self) -> None:
        """Start again in a child process, where the thread that had the lock does not exist."""
        self.lock = RLock()
        self.close()

    def _ready(self, more: int) -> tuple[int, int]:
        """Return the descriptor of a file with room for ``more`` bytes, and its size."""
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
        """Return the open file of a path; open it again if it was moved away."""
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


def masked(contract: Contract, value: object, part: ReplyPart) -> str:
    """Return the form of a part of a reply: the declared names, and the type of each value."""
    names = contract.names | _API_KEYS if part == "other" else contract.names
    if not isinstance(value, str):
        return _form(plain(value), names)
    if part == "name":
        return printable(declared_tool(value, _tool_names(contract)))

    if part == "arguments" or value.lstrip().startswith(("{", "[")):
        if is_json(value):
            return _form(json.loads(value), names)
        return f"<not JSON: {_characters(value)}>"

    return f"<text of {_characters(value)}>"


def _tool_names(contract: Contract) -> set[str]:
    """Return the names that calls of declared tools have, also within their namespaces."""
    return {*contract.callable_names, *(name for _, name in contract.spaces or ())}


def _form(value: JSON, names: frozenset[str]) -> str:
    if isinstance(value, dict):
        members = (
            f"{json_words(key) if key in names else OTHER_KEY}: {_form(one, names)}"
            for key, one in value.items()
        )
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_form(one, names) for one in value)}]"
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
    # ``found``, the model's text, is left out; elsewhere an invented key is already ``*``
    return {"code": issue.code, "path": printable(issue.path), "message": issue.message}


def _checked(path: str | bytes) -> Path:
    """Return the absolute path of a file; raise ContractError if it cannot be written."""
    if isinstance(path, bytes) or not path or "\0" in path:
        raise ContractError("path must be the path of a file, as text or a Path")

    file = Path(path)
    if PID in str(file.parent):
        raise ContractError("path may have {pid} only in the name of the file: move it there")
    for braced in _BRACED.findall(file.name):
        if braced != PID:
            raise ContractError(f"path has {braced}, but only {PID} is replaced: leave it out")
    if not file.name or file.is_dir():
        raise ContractError(f"path is a folder: name a file in it, as in {file / 'ledger.jsonl'}")
    if not file.parent.is_dir():
        raise ContractError(f"the folder {file.parent} does not exist: make it, or name another")
    if file.exists() and not file.is_file():
        raise ContractError(f"{file} is not a file: pass the path of a file, existing or new")

    return file.absolute()


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the file at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _open_file(path: Path) -> int:
    """Open a file to append lines; only its owner may read a new one."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    is_new = True
    try:
        descriptor = os.open(path, flags | os.O_EXCL, _MODE)
    except FileExistsError:
        descriptor = os.open(path, flags, _MODE)
        is_new = False

    try:
        if is_new:
            # the umask may have removed even the owner's rights
            file = descriptor if os.chmod in os.supports_fd else path
            os.chmod(file, _MODE)  # noqa: PTH101 - the file that was made
        else:
            _end_cut_line(descriptor)
    except BaseException:
        os.close(descriptor)
        raise

    return descriptor


def _end_cut_line(descriptor: int) -> None:
    """End a line that was cut, for example by a power loss, so that the next line is whole."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if not size:
        return

    os.lseek(descriptor, size - 1, os.SEEK_SET)
    if os.read(descriptor, 1) != b"\n":
        os.write(descriptor, b"\n")


def _rotate(path: Path, keep: int) -> None:
    """Give each file the next number, the oldest first; the last one is overwritten."""
    for number in range(keep - 1, -1, -1):
        source = path if not number else path.with_name(f"{path.name}.{number}")
        if source.exists():
            source.replace(path.with_name(f"{path.name}.{number + 1}"))
