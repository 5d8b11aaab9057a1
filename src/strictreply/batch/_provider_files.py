"""The batch files of a provider, validated in passes.

After each pass the requests with rejected outputs are written to a file, to be retried. A request
is ``{"custom_id", "method", "url", "body"}``, an output ``{"id", "custom_id", "response":
{"status_code", "body"}, "error"}``. In Anthropic's Message Batches they are
``{"custom_id", "params"}`` and ``{"custom_id", "result": {"type", "message", "error"}}``.
There is no state between passes: each pass replays the loop of a call from all outputs of its row.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeAlias

from strictreply import Contract, RetryPolicy, Steering
from strictreply.batch._results import (
    RowResult,
    broken,
    so_far,
    strict_json,
    unasked,
    written_whole,
)
from strictreply.batch.lines import LINE_LIMITS, STDIN, open_lines
from strictreply.core import Failure, JSONObject, decode
from strictreply.core.calls import ExchangeStopped, is_transport_fault
from strictreply.core.forms import peek
from strictreply.wires import WIRES, Api

StrPath: TypeAlias = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The counts of a provider's batch."""

    statuses: Mapping[str, int]
    """Number of rows by their present status."""
    again: int = 0
    """Number of rows whose next request is in the retry file."""
    missing: int = 0
    """Number of rows without any output."""
    unknown: int = 0
    """Number of outputs that belong to no request."""
    surplus: int = 0
    """Number of duplicate outputs, and of outputs of rows that had already ended."""
    unreadable: tuple[str, ...] = ()
    """The lines of output files that are not an output, and why."""

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(self.statuses.values())


def validate_files(
    outputs: Iterable[StrPath],
    *,
    requests: Iterable[StrPath],
    out: StrPath | None = None,
    retry_file: StrPath | None = None,
    contract: Contract | None = None,
    policy: RetryPolicy | None = None,
    steering: Steering | None = None,
) -> FileCounts:
    """Validate the output files of a provider's batch, and write the requests to retry.

    - ``requests`` are the request files of the first pass.
    - ``outputs`` are all output and error files so far, the first pass first.
    - ``out`` gets a line for each request: its ``custom_id`` and the result columns so far.
    - ``retry_file`` gets the next requests, under the same ids. Send it as the next batch, and call
      this again with its output file after the others.
    - ``contract`` None means that each reply is checked against the tools and the
      ``response_format`` of its own request.
    - ``policy`` and ``steering`` None mean the defaults; use the same in all passes.

    Files are read line by line, also gzipped; the outputs are indexed in a temporary file of the
    same size. ``out`` and ``retry_file`` are written whole or not at all. Raises OSError when a
    file cannot be read or written.
    """
    counts: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    judged_by = contract or Contract(parallel=True)

    with ExitStack() as stack:
        index = stack.enter_context(_Outputs())
        index.read(Path(path) for path in outputs)
        results = _opened(stack, out)
        again = _opened(stack, retry_file)

        for row in _requests(map(Path, requests), index):
            found = [] if row.fault else index.of(row.custom_id or "", counts)
            result, following, surplus = _judged(
                row, found, judged_by, policy=policy, steering=steering
            )

            statuses[result.status] += 1
            counts["surplus"] += surplus
            counts["missing"] += not (found or row.fault)
            _write(results, {"custom_id": row.custom_id, **result.columns})

            if following is not None:
                counts["again"] += 1
                _write(again, {**row.request, row.member: following})

        counts["unknown"] = index.unknown()
        return FileCounts(dict(statuses), **counts, unreadable=tuple(index.unreadable))


def _opened(stack: ExitStack, path: StrPath | None) -> BinaryIO | None:
    return None if path is None else stack.enter_context(written_whole(Path(path)))


class _Request(NamedTuple):
    """One request; ``fault`` says why it cannot be judged, empty when it can."""

    number: int
    custom_id: str | None
    request: JSONObject
    fault: str = ""

    @property
    def member(self) -> str:
        """The member that holds the body: ``params`` in Anthropic's batches."""
        return "params" if "params" in self.request else "body"

    @property
    def api(self) -> Api | None:
        """The API of the body; None where it says that by its own keywords."""
        return "messages" if self.member == "params" else None


def _requests(paths: Iterable[Path], outputs: _Outputs) -> Iterator[_Request]:
    lines = ((path, number, line) for path in paths for number, line, _ in open_lines(path))
    for index, (path, number, line) in enumerate(lines):
        request: Any = decode(line, LINE_LIMITS)
        custom_id = peek(request, "custom_id")
        fault = ""

        body = peek(request, "params") or peek(request, "body")
        if not isinstance(custom_id, str) or not isinstance(body, dict):
            custom_id = None
            request = {}
            what = "custom_id and body, or custom_id and params"
            fault = f"line {number} of {path.name} is not a request: it needs {what}"
        elif not outputs.ask(custom_id):
            fault = "an earlier request has the same custom_id"
        elif not any(wire.conversation in body for wire in WIRES.values()):
            fault = "its body is not a request of chat completions, of Responses or of Messages"

        yield _Request(index, custom_id, request, fault)


def _judged(
    row: _Request, outputs: list[object], contract: Contract[object], **settings: Any
) -> tuple[RowResult, Mapping[str, object] | None, int]:
    """Return the result of a row, its next request, and the number of outputs after its end.

    The next request is None if the row needs none.
    """
    if row.fault:
        hint = "Correct the requests file; the line was skipped."
        return unasked(row.number, "batch.request", row.fault, hint), None, 0

    try:
        step = contract.next_request(row.request[row.member], api=row.api, **settings)
        for number, response in enumerate(outputs):
            if step.request is None:
                return so_far(row.number, step), None, len(outputs) - number
            step = contract.next_request(step.request, response, **settings)
    except Exception as error:  # noqa: BLE001 - one row must not end the run
        return broken(row.number, error), None, 0

    following = step.request
    if following is not None and all(map(is_transport_fault, step.attempts)):
        # until a reply was corrected, repeat the caller's own request, without the members that a
        # wrapped client would add
        following = row.request[row.member]

    return so_far(row.number, step), following, 0


class _Outputs:
    """The outputs so far by the id of their request, in a temporary file on disk."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("")  # a file of its own, which goes when it is closed
        self._base.execute("CREATE TABLE output (custom_id BLOB, line BLOB, file INTEGER)")
        self._base.execute("CREATE TABLE asked (custom_id BLOB PRIMARY KEY) WITHOUT ROWID")
        self.unreadable: list[str] = []

    def read(self, paths: Iterable[Path]) -> None:
        expected = "not an output: it needs a custom_id, and a response, a result or an error"
        known: dict[object, int] = {}
        for path in paths:
            # a file that is listed twice, also under another path, is read as the same file
            about = None if path == STDIN else path.stat()
            file = known.setdefault(about and (about.st_dev, about.st_ino), len(known))

            for number, line, _ in open_lines(path):
                record = _loaded(line)
                custom_id = peek(record, "custom_id")
                if isinstance(custom_id, str) and not _OF_OUTPUTS.isdisjoint(record):
                    values = (_key(custom_id), line.strip(), file)
                    self._base.execute("INSERT INTO output VALUES (?, ?, ?)", values)
                else:
                    self.unreadable.append(f"{path.name}:{number}: {expected}")

        self._base.execute("CREATE INDEX by_id ON output (custom_id)")

    def ask(self, custom_id: str) -> bool:
        """Note that there is a request with an id; return whether it is the first one."""
        query = "INSERT OR IGNORE INTO asked VALUES (?)"
        return self._base.execute(query, (_key(custom_id),)).rowcount == 1

    def of(self, custom_id: str, counts: Counter[str]) -> list[object]:
        """Return the responses to a request, pass after pass.

        An output that is in a file twice counts once; in the files of two passes it counts twice.
        """
        query = "SELECT file, line FROM output WHERE custom_id = ? ORDER BY rowid"
        lines = list(self._base.execute(query, (_key(custom_id),)))

        # outputs are compared whole: not every provider gives an output an id, or another id in
        # each pass
        different = dict.fromkeys(lines)
        counts["surplus"] += len(lines) - len(different)
        return [_response(_loaded(line)) for _, line in different]

    def unknown(self) -> int:
        query = "SELECT count(*) FROM output WHERE custom_id NOT IN (SELECT custom_id FROM asked)"
        return int(self._base.execute(query).fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Delete the file; an error of the database, such as a full disk, becomes an OSError."""
        self._base.close()
        if isinstance(error, sqlite3.Error):
            raise OSError(f"the temporary file of the outputs: {error}") from error


_OF_OUTPUTS = frozenset({"response", "result", "error"})


class ProviderFailed(Exception):
    """A failure instead of a response, with the members by which failures are classified."""

    def __init__(self, status_code: int, body: object) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.body = peek(body, "error") or body
        self.code = peek(self.body, "code")


def _key(custom_id: str) -> bytes:
    return custom_id.encode(errors="surrogatepass")


def _loaded(line: bytes) -> Any:
    """Read an output as an SDK reads a response; None if it is not JSON.

    The model's text inside it is judged later, and does not make the line unreadable.
    """
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _response(record: object) -> object:
    result = peek(record, "result")
    kind = peek(result, "type")
    if kind == "succeeded":
        return peek(result, "message")
    if kind == "errored":
        return peek(result, "error")
    if isinstance(kind, str):
        return ExchangeStopped(Failure(f"batch_{kind}", retryable=True))

    response = peek(record, "response")
    status = peek(response, "status_code")
    if isinstance(response, dict) and (status is None or status == HTTPStatus.OK):
        return response.get("body")
    if isinstance(status, int):
        return ProviderFailed(status, peek(response, "body"))

    code: Any = peek(peek(record, "error"), "code")
    is_named = isinstance(code, str) and re.fullmatch(r"[a-z][a-z0-9_]{0,39}", code)
    kind = code if is_named else "api_error"

    # batch_expired, batch_cancelled: the request was not sent to the model
    return ExchangeStopped(Failure(kind, retryable=True))


def _write(file: BinaryIO | None, line: Mapping[str, object]) -> None:
    if file is not None:
        file.write(strict_json(line).encode() + b"\n")
