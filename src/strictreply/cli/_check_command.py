"""``strictreply check``: recorded replies judged offline; counts by tool, model and issue code."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply.cli._terminal import Status, console, counted, echo_json, fail, titled_table
from strictreply.testing._recordings import NO_NAME, RecordedVerdict, RecordingJudge, UnreadableLine, open_lines
from strictreply.values._issues import printable
from strictreply.values._replies import Invalid

MAX_ROWS = 20


@dataclass
class ReplyTally:
    """What was found in the files read so far; ``by_model`` and ``by_tool`` (the one called first) count by name."""

    complete: bool = False
    replies: int = 0
    by_code: Counter[str] = field(default_factory=Counter)
    by_model: dict[str, dict[str, int]] = field(default_factory=dict)
    by_tool: dict[str, dict[str, int]] = field(default_factory=dict)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    invalid_replies: list[dict[str, Any]] = field(default_factory=list)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, path: Path, judged: RecordedVerdict | UnreadableLine) -> None:
        """Count one line; a code counts once a reply."""
        if isinstance(judged, UnreadableLine):
            self.unreadable.append({"file": str(path), "line": judged.line, "reason": judged.reason})
            return
        model, tool = judged.recording.model, judged.recording.called
        issues = judged.verdict.issues if isinstance(judged.verdict, Invalid) else ()
        self.replies += 1
        for rates, name in ((self.by_model, model), (self.by_tool, tool)):
            rate = rates.setdefault(name, {"replies": 0, "invalid": 0})
            rate["replies"] += 1
            rate["invalid"] += bool(issues)
        for code in {issue.code for issue in issues}:
            self.by_code[code] += 1
            self.first.setdefault(code, f"{path.name}:{judged.line}")
        if issues:
            where = {"file": str(path), "line": judged.line, "model": model, "tool": tool}
            self.invalid_replies.append({**where, "issues": [issue.to_dict() for issue in issues]})

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-safe values, the most frequent first."""
        invalid = len(self.invalid_replies)
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - invalid,
            "invalid": invalid,
            "by_code": dict(self.by_code.most_common()),
            "by_model": _worst_first(self.by_model),
            "by_tool": _worst_first(self.by_tool),
            "unreadable": self.unreadable,
            "invalid_replies": self.invalid_replies,
        }


def _worst_first(rates: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    order = sorted(rates.items(), key=lambda pair: (-pair[1]["invalid"], -pair[1]["replies"], pair[0]))
    return dict(order)


def check(files: Sequence[Path], *, tools: list[object], as_json: bool) -> None:
    """Judge every reply in the files; exits with 1 when one is invalid, a line cannot be read, or there is none.

    After Ctrl-C what was counted so far is shown, marked as incomplete, and the status is 130.
    """
    tally = ReplyTally()
    judge = RecordingJudge(tools or None)
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(_judged(files, judge)) as found:
        for path, judged in found:
            tally.add(path, judged)
        tally.complete = True
    if as_json:
        echo_json(tally.to_dict())
    else:
        _print(tally, console())
    if not tally.complete:
        fail("interrupted: the counts are of what was read so far", Status.INTERRUPTED)
    if tally.invalid_replies or tally.unreadable or not tally.replies:
        raise typer.Exit(Status.FAILED)


def _judged(
    files: Sequence[Path], judge: RecordingJudge
) -> Generator[tuple[Path, RecordedVerdict | UnreadableLine], None, None]:
    """Judge file after file, with a progress bar on stderr; a damaged file is reported where it breaks."""
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        for path in files:
            task = progress.add_task(printable(path.name), total=path.stat().st_size)
            number = 0
            try:
                for number, line, position in open_lines(path):
                    yield path, judge.judge(number, line)
                    progress.update(task, completed=position)
            except OSError as error:
                yield path, UnreadableLine(number + 1, f"the file cannot be read on: {error}")


def _print(tally: ReplyTally, screen: Console) -> None:
    if tally.by_code:
        table = titled_table("What was wrong", "issue code", "replies")
        table.add_column("first seen at", overflow="fold")
        for code, count in tally.by_code.most_common():
            table.add_row(printable(code), str(count), printable(tally.first[code]))
        screen.print(table, "")
    for kind, rates in (("model", tally.by_model), ("tool", tally.by_tool)):
        if not rates:
            continue
        table = titled_table(f"By {kind}", kind, "replies", "invalid", "%")
        for name, rate in list(_worst_first(rates).items())[:MAX_ROWS]:
            share = f"{100 * rate['invalid'] / rate['replies']:.1f}"
            shown = f"(no {kind})" if name == NO_NAME else printable(name)
            table.add_row(shown, str(rate["replies"]), str(rate["invalid"]), share)
        screen.print(table)
        screen.print(
            f"and {len(rates) - MAX_ROWS} more; --json lists all\n" if len(rates) > MAX_ROWS else "", style="dim"
        )
    for entry in tally.unreadable[:MAX_ROWS]:
        screen.print(printable(f"unreadable: {entry['file']}:{entry['line']}: {entry['reason']}"), style="red")
    if len(tally.unreadable) > MAX_ROWS:
        screen.print(f"and {len(tally.unreadable) - MAX_ROWS} more unreadable lines; --json lists all", style="red")
    invalid, unreadable = len(tally.invalid_replies), len(tally.unreadable)
    if not tally.replies and not unreadable:
        screen.print("no replies found")
        return
    replies, lines = counted(tally.replies, "reply", "replies"), counted(unreadable, "line", "lines")
    told = f", {lines} unreadable" if unreadable else ""
    screen.print(f"{replies}: {tally.replies - invalid} valid, {invalid} invalid{told}")
