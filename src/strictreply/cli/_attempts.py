"""Attempts and faults as the terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from rich.console import Console
from rich.text import Text

from strictreply import Attempt, Issue
from strictreply.core import JSON, Draft
from strictreply.core.text import capped, printable, printable_lines
from strictreply.testing.recordings import excerpt
from strictreply.wires import wire_named

MAX_SHOWN_CHARS = 240
HANGING = 8  # columns before the text: two spaces and a label
shortened = partial(capped, limit=MAX_SHOWN_CHARS)
_IN_CALL = re.compile(
    r"/tool_calls/(?P<index>\d+)/function/(?P<member>arguments|name)(?P<rest>/.*)?"
)


class Live:
    """Prints each attempt of a call to a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, attempt: Attempt) -> None:
        if attempt.correction is not None:
            self.line("sent", "\n".join(map(shortened, attempt.correction.splitlines())), "cyan")

        if attempt.failure is not None:
            self.line("error", attempt.failure, "red")
            return

        self.line("reply", shortened(excerpt(attempt.raw, attempt.api)))
        self.wrong(attempt.issues, attempt.raw, attempt.api)

        if attempt.accepted:
            words = f"at attempt {attempt.number}, {attempt.usage.total_tokens} tokens"
            self.line("valid", words, "green")

    def wrong(self, issues: Iterable[Issue], raw: JSON, api: str) -> None:
        """Print the faults of a reply of an API."""
        for issue in issues:
            self.line("issue", described(issue, raw, api), "yellow")

    def line(self, label: str, words: str, style: str = "default") -> None:
        """Print ``words`` after their label; further lines are indented.

        Control characters are escaped.
        """
        lead = f"  {label}".ljust(HANGING)
        text = Text(printable_lines(words), style=style)

        for line in text.wrap(self._console, max(1, self._console.width - HANGING)):
            line.rstrip()
            self._console.print(Text.assemble((lead, "dim"), line))
            lead = " " * HANGING


def described(issue: Issue, raw: JSON, api: str) -> str:
    """Describe a fault on one line: its code, its place, the rule, and the wrong value."""
    at = place(issue.path, raw, api)
    found = f" (got {issue.found})" if issue.found else ""
    return f"{issue.code}{f' at {at}' if at else ''}: {issue.message}{found}"


def place(path: str, raw: JSON, api: str) -> str:
    """Return a short name of a place in a reply.

    ``/tool_calls/0/function/arguments/limit`` becomes ``search /limit``.
    """
    inside = _IN_CALL.fullmatch(path)
    if inside is None:
        return path
    if inside["member"] == "name":
        return ""  # the code already says that the tool is wrong

    draft = wire_named(api).draft_in(raw) or Draft()
    index = int(inside["index"])
    name = draft.calls[index].name if index < len(draft.calls) else None

    label = printable(name) if isinstance(name, str) else f"call {index + 1}"
    return f"{label} {inside['rest'] or ''}".rstrip()
