"""The summary of a test run with malformed replies: ten lines, and a whole report."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from strictreply.core.text import counted
from strictreply.testing._steps import Harm

WIDTH = 80
_MAX_CAUSE_LINES = 5  # of all causes together
_MAX_LISTED = 3  # places of one code
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class FailedRun:
    """One malformed reply that an app did not survive."""

    nodeid: str
    """The test's name, by which pytest runs it again."""
    harm: Harm
    """What the app did."""
    key: str
    """Equal for failures with the same cause."""
    words: str
    """The exception, and where it was raised."""
    code: str
    """The code that a strict contract reports."""
    spoiled: str
    """The place of the fault in the arguments, else the fault's name."""

    @property
    def test(self) -> str:
        """The name of the marked test."""
        return self.nodeid.partition("[")[0]

    @property
    def command(self) -> str:
        """The command that runs this reply alone."""
        return f"pytest {shlex.quote(self.nodeid)}"


def causes_of(failed: Iterable[FailedRun]) -> list[list[FailedRun]]:
    """Group failures that one change would fix, the most harmful first."""
    found: dict[tuple[Harm, str, str], list[FailedRun]] = {}
    for run in failed:
        found.setdefault((run.harm, run.key, run.test), []).append(run)

    return sorted(found.values(), key=lambda runs: runs[0].harm.rank)


def summary(ran: Sequence[str], causes: Sequence[Sequence[FailedRun]], report: str) -> list[str]:
    """Return the lines for the terminal, at most nine of at most 80 columns.

    ``ran`` has the test of each reply that was served, ``report`` the path of the whole report;
    empty for none. Only the command of the first failure may be longer, as it is copied.
    """
    failed = sum(map(len, causes))
    replies = f"{len(ran)} malformed {'reply' if len(ran) == 1 else 'replies'}"
    tests = counted(len(set(ran)), "test")
    lines = [f"{replies} to {tests}: {len(ran) - failed} survived, {failed} did not"]
    if not causes:
        return lines

    lines += _within(_MAX_CAUSE_LINES, [_told(runs) for runs in causes])
    lines += ["run the first of them again:", causes[0][0].command]
    if report:
        lines.append(f"all of them: {report}")

    return lines


def _told(runs: Sequence[FailedRun]) -> list[str]:
    """Return the lines of one cause: what the app did, and the codes with their places."""
    codes = ", ".join(
        f"{code}: {' '.join([*places][:_MAX_LISTED])}{' …' * (len(places) > _MAX_LISTED)}"
        for code, places in _by_code(runs).items()
    )
    first = runs[0]
    head = f"{first.harm}: {first.words}; {len(runs)} of {first.test.rpartition('::')[2]}"
    listed = textwrap.shorten(codes, WIDTH - len(_INDENT), placeholder=" …")
    return [*_wrapped(head), f"{_INDENT}{listed}"]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _within(most: int, causes: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of the first causes; a last line counts the causes that are left out."""
    lines = list(causes[0][: most if len(causes) == 1 else most - 1])
    shown = 1
    for cause in causes[1:]:
        is_last = shown + 1 == len(causes)
        if len(lines) + len(cause) + (not is_last) > most:
            break
        lines += cause
        shown += 1

    if shown < len(causes):
        lines.append(f"and {counted(len(causes) - shown, 'other cause')}")

    return lines


def _by_code(runs: Iterable[FailedRun]) -> dict[str, dict[str, None]]:
    codes: dict[str, dict[str, None]] = {}
    for run in runs:
        codes.setdefault(run.code, {})[run.spoiled] = None

    return codes


def whole_report(causes: Iterable[Sequence[FailedRun]]) -> str:
    """Write every failure by cause and code, each with the command that runs it again."""
    return "".join(f"{line}\n" for runs in causes for line in _whole(runs))


def _whole(runs: Sequence[FailedRun]) -> Iterator[str]:
    first = runs[0]
    yield f"{first.harm}: {first.words}; {len(runs)} of {first.test}"
    for code in _by_code(runs):
        yield f"    {code}"
        yield from (f"        {run.command}" for run in runs if run.code == code)

    yield ""
