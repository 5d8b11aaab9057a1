"""The terminal: consoles that interpret nothing, and how a command ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from enum import IntEnum
from typing import NoReturn

import typer
from rich.console import Console

from strictreply.values._issues import printable, printable_json


class Status(IntEnum):
    """The exit statuses of all commands; 0 is the shell's word for success."""

    FAILED = 1
    """A reply was invalid, or a call failed."""

    USAGE = 2
    """The command was given something it cannot work with; nothing was done."""

    INTERRUPTED = 130
    """Ctrl-C, as shells report it: 128 + SIGINT."""


def console(*, stderr: bool = False) -> Console:
    """Open a console that takes square brackets and colons as they are: what models write may hold any markup."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def fail(message: str, status: Status = Status.USAGE) -> NoReturn:
    """End the command with one sentence on stderr."""
    typer.echo(f"strictreply: {printable(message)}", err=True)
    raise typer.Exit(status)


def echo_json(value: object) -> None:
    """Print a value as one line of ASCII JSON in which nothing acts on a terminal."""
    typer.echo(printable_json(json.dumps(value)))


def refuse_broken(words: str, name: str) -> None:
    """End the command when an argument holds what UTF-8 cannot spell: bytes of another encoding."""
    try:
        words.encode()
    except UnicodeEncodeError:
        fail(f"{name} is not valid UTF-8: {words}")


@contextlib.contextmanager
def interruptible(words: str = "interrupted") -> Generator[None, None, None]:
    """End the command with ``words`` on stderr and status 130 when Ctrl-C comes in the meantime."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"strictreply: {words}", err=True)
        raise typer.Exit(Status.INTERRUPTED) from None
