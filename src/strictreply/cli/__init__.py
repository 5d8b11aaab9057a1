"""The command line: it parses arguments, calls the library and prints.

No rule of the library is here.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the ``strictreply`` command; say what to install if its libraries are missing."""
    try:
        _run()
    except KeyboardInterrupt:  # during the imports, or before or after the command's own work
        print("strictreply: interrupted", file=sys.stderr)
        sys.exit(130)  # _terminal.Status.INTERRUPTED


def _run() -> None:
    try:
        from strictreply.cli._app import run  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise

        from strictreply.core.arguments import how_to_install  # noqa: PLC0415 - only for this error

        words = f"The command line needs typer and rich: {how_to_install('cli')}"
        print(words, file=sys.stderr)
        sys.exit(3)  # Status.FAILED; its module imports typer, which may be missing

    run()
