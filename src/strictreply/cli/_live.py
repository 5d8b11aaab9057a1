"""Attempts as they happen, for a person at a terminal: what was asked, what came, what was wrong."""

from __future__ import annotations

import json
import re

from rich.console import Console
from rich.text import Text

from strictreply.values._attempts import Attempt
from strictreply.values._issues import Issue, printable, printable_lines
from strictreply.values._json import JSON
from strictreply.wires._chat import peek

MAX_SHOWN_CHARS = 240
HANGING = 8
"""The columns before the words: two spaces and a label."""

_IN_CALL = re.compile(r"/tool_calls/(?P<index>\d+)/function/(?P<member>arguments|name)(?P<rest>/.*)?")


class Live:
    """Prints each attempt of a call to a console."""

    def __init__(self, console: Console) -> None:
        """Print to ``console``."""
        self._console = console

    def __call__(self, attempt: Attempt) -> None:
        """Print one attempt."""
        if attempt.correction is not None:
            self.line("asked", "\n".join(map(capped, attempt.correction.splitlines())), "cyan")
        if attempt.failure is not None:
            self.line("error", attempt.failure, "red")
            return
        self.line("came", capped(excerpt(attempt.raw)))
        for issue in attempt.issues:
            self.line("wrong", described(issue, attempt.raw), "yellow")
        if attempt.accepted:
            self.line("valid", f"at attempt {attempt.number}, {attempt.usage.total_tokens} tokens", "green")

    def line(self, label: str, words: str, style: str = "default") -> None:
        """Print ``words`` beside their label, hanging when they take several lines; no control character acts."""
        lead = f"  {label}".ljust(HANGING)
        text = Text(printable_lines(words), style=style)
        for shown in text.wrap(self._console, max(1, self._console.width - HANGING)):
            shown.rstrip()
            self._console.print(Text(lead, style="dim").append_text(shown))
            lead = " " * HANGING


def described(issue: Issue, raw: JSON) -> str:
    """Tell a fault on one line: its code, its place as a person would name it, the rule, and what was found."""
    at = place(issue.path, raw)
    found = f" (found {issue.found})" if issue.found else ""
    return f"{issue.code}{f' at {at}' if at else ''}: {issue.message}{found}"


def place(path: str, raw: JSON) -> str:
    """Name a place in a reply: ``search /limit`` instead of ``/tool_calls/0/function/arguments/limit``."""
    inside = _IN_CALL.fullmatch(path)
    if inside is None:
        return path
    if inside["member"] == "name":
        return ""  # the code says that it is about the tool
    calls = peek(_message(raw), "tool_calls")
    index = int(inside["index"])
    name = peek(peek(calls[index], "function"), "name") if isinstance(calls, list) and index < len(calls) else None
    shown = printable(name) if isinstance(name, str) else f"call {index + 1}"
    return f"{shown} {inside['rest'] or ''}".rstrip()


def excerpt(raw: JSON) -> str:
    """Show the heart of a response, printable: the calls as ``name(arguments)``, else the refusal or the content."""
    message = _message(raw)
    if message is None:
        return _shown(raw)
    calls = peek(message, "tool_calls")
    if isinstance(calls, list) and calls:
        return ", ".join(_call(peek(call, "function")) for call in calls)
    refusal = peek(message, "refusal")
    return f"refusal: {_shown(refusal)}" if refusal else _shown(peek(message, "content"))


def _message(raw: JSON) -> object:
    """Give the message of a completion, None when there is none."""
    choices = peek(raw, "choices")
    return peek(choices[0], "message") if isinstance(choices, list) and choices else None


def _call(function: object) -> str:
    """Show one call as ``name(arguments)``."""
    return f"{_shown(peek(function, 'name'))}({_shown(peek(function, 'arguments'))})"


def _shown(value: object) -> str:
    """Show text as it is but for what is not printable, and everything else as JSON."""
    return printable(value) if isinstance(value, str) else json.dumps(value, default=str)


def capped(words: str) -> str:
    """Cut what is too long to be read at a glance."""
    return words if len(words) <= MAX_SHOWN_CHARS else words[: MAX_SHOWN_CHARS - 1] + "…"
