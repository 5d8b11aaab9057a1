"""The command line: parsing words, calling the library, printing.

No rule of the library lives here.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the ``strictreply`` command; say what to install when its libraries are absent."""
    try:
        _run()
    except KeyboardInterrupt:  # while the libraries are imported, or outside of a command's work
        print("strictreply: interrupted", file=sys.stderr)
        sys.exit(130)  # _terminal.Status.INTERRUPTED


def _run() -> None:
    try:
        from strictreply.cli._app import run  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise

        words = "The command line needs typer and rich: pip install 'strictreply[cli]'"
        print(words, file=sys.stderr)
        sys.exit(3)  # _terminal.Status.FAILED, which typer may be needed to load

    run()
