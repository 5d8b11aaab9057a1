"""A program of its own that goes on with a paused run.

Its arguments are a store's path, the response and the results. It prints what it does, one line
each; an approved call waits for a line on its standard input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import strictreply as sr
from support.loop.loops import DONE, LOCATE, Loop, codes


def deliver(query: str) -> str:
    """Report that it runs, and wait to be released."""
    print("running", query, flush=True)  # noqa: T201 - how the program tells what it does
    sys.stdin.readline()
    return f"delivered {query}"


DELIVER = sr.Tool.from_function(deliver, needs_approval=True)


def read(results: str) -> list[Any]:
    """Read what answers the calls; this program trusts whoever starts it with decisions."""
    return [sr.Decision(**one) if "approved" in one else one for one in json.loads(results)]


def main(path: str, response: str, results: str) -> None:
    """Go on with the run, and print its answer, or the codes of what failed it."""
    loop = Loop(DONE, tools=[DELIVER, LOCATE], store=sr.SQLiteSessionStore(path))
    try:
        # A script prints.
        print(loop.run(continuation=response, results=read(results)).answer)  # noqa: T201
    except sr.InvokeFailed as failed:
        print(*codes(failed))  # noqa: T201 - as above


if __name__ == "__main__":
    main(*sys.argv[1:])
