"""The terminal: consoles without markup, exit statuses, and errors of options and files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Generator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn, Self, cast

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from strictreply.core import JSON
from strictreply.core.text import printable, printable_json


class Status(IntEnum):
    """The exit statuses of all commands; 0 is success."""

    INVALID = 1  # a reply was invalid, or an app did not survive one
    USAGE = 2  # the arguments are wrong; nothing was done
    # an endpoint failed, a line was unreadable or there was none, or the output could not be
    # written
    FAILED = 3
    INTERRUPTED = 130  # Ctrl-C, as shells report it: 128 + SIGINT
    PIPE_CLOSED = 141  # the output's reader closed the pipe, as shells report it: 128 + SIGPIPE


MAX_WIDTH = 10_000  # columns


_PADDING = re.compile(r" +$", re.MULTILINE)


class _Screen(Console):
    """A console whose tables have no blanks at the ends of lines in files and pipes."""

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print objects; rich pads each line of a table to the table's width."""
        if self.is_terminal or not any(isinstance(one, Table) for one in objects):
            super().print(*objects, **settings)
            return

        with self.capture() as captured:
            super().print(*objects, **settings)

        self.file.write(_PADDING.sub("", captured.get()))
        self.file.flush()


def console(*, stderr: bool = False) -> Console:
    """Open a console without markup, because models write square brackets and colons."""
    screen = _Screen(stderr=stderr, markup=False, emoji=False, highlight=False)
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdecimal() and len(given) < len(str(sys.maxsize)) else 0

    if columns:
        screen.width = min(columns, MAX_WIDTH)
    elif not screen.is_terminal:
        screen.width = MAX_WIDTH  # do not wrap: files and pipes are searched line by line
    elif given:
        # rich reads a COLUMNS that is not a width as 0, and would print nothing
        screen.width = shutil.get_terminal_size().columns

    return screen


class _GuardedOutput(io.TextIOWrapper):
    """A standard stream that ends the program if it cannot be written.

    The status is ``Status.PIPE_CLOSED`` if its reader closed the pipe, otherwise
    ``Status.FAILED`` with one line on stderr. Characters that the stream cannot encode are escaped.
    """

    @classmethod
    def over(cls, stream: io.TextIOWrapper) -> Self:
        """Take the place of a stream."""
        return cls(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
        )

    def write(self, text: str, /) -> int:
        """Write, or end the program."""
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        """Flush, or end the program."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> NoReturn:
        # send the rest of the buffers to the null device, so that the exit does not fail on it
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.buffer.fileno())
        os.close(nothing)

        if isinstance(error, BrokenPipeError):
            raise SystemExit(Status.PIPE_CLOSED) from None

        if self is not sys.stderr:
            words = f"strictreply: the output cannot be written: {error.strerror}"
            print(words, file=sys.stderr)
        raise SystemExit(Status.FAILED) from None


@contextlib.contextmanager
def guarded_output() -> Generator[None, None, None]:
    """Guard the standard streams, and flush them at the end."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    guarded: list[_GuardedOutput] = []
    for name, stream in streams.items():
        if isinstance(stream, io.TextIOWrapper):
            guarded.append(_GuardedOutput.over(stream))
            setattr(sys, name, guarded[-1])

    try:
        try:
            yield
        finally:
            for one in guarded:
                one.flush()
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        for one in guarded:
            one.detach()  # otherwise it would close the original stream's buffer


def fail(message: str, status: Status = Status.USAGE) -> NoReturn:
    """End the command with one sentence on stderr."""
    typer.echo(f"strictreply: {printable(message)}", err=True)
    raise typer.Exit(status)


def counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun: ``1 reply``, ``2 replies``."""
    return f"{number} {one if number == 1 else several}"


def titled_table(title: str, name: str, *numbers: str) -> Table:
    """Begin a table under a title: a column of names, and columns of numbers."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.show_edge = False
    table.add_column(name, overflow="fold")

    for number in numbers:
        table.add_column(number, justify="right")

    return table


def echo_json(value: object) -> None:
    """Print a value as one line of ASCII JSON without control characters."""
    typer.echo(printable_json(json.dumps(value)))


def read_json(text: str, option: str) -> JSON:
    """Read the JSON of an option; end the command when it is not JSON."""
    try:
        return cast("JSON", json.loads(text))
    except (ValueError, RecursionError) as error:
        fail(f"{option} is not JSON: {error}")


def refuse_broken(words: str, name: str) -> None:
    """End the command when an argument has bytes that are not UTF-8."""
    try:
        words.encode()
    except UnicodeEncodeError:
        fail(f"{name} is not valid UTF-8: {words}")


def refuse_paths(files: Sequence[Path], **written: Path | None) -> None:
    """End the command when a path is not a file, or an output would overwrite another file.

    ``written`` maps the name of an output's option to its path, None if it was not given.
    """
    for path in files:
        if path != Path("-") and not path.is_file():
            fail(f"{path} is not a file: pass files of JSON lines, also gzipped, or - for stdin")

    others = {path.resolve() for path in files}
    for name, target in written.items():
        if target is None:
            continue
        if not target.absolute().parent.is_dir():
            fail(f"--{name} {target}: the folder {target.parent} does not exist")
        if target.resolve() in others:
            fail(f"--{name} {target} would overwrite another file of this command: rename it")
        others.add(target.resolve())


@contextlib.contextmanager
def interruptible(words: str = "interrupted") -> Generator[None, None, None]:
    """End the command with ``words`` on stderr and status 130 if Ctrl-C is pressed meanwhile."""
    try:
        yield
    except KeyboardInterrupt:
        fail(words, Status.INTERRUPTED)
