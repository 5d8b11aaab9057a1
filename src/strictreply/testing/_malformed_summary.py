"""The summary of a test run with malformed replies: ten lines, and a whole report."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from strictreply.core.text import counted
from strictreply.testing._steps import Harm

WIDTH = 80
LOUD = "fails loudly"
"""The app raised the error of a failed call: it refused the reply, and said so."""
NOT_SERVED = "not served"
"""The app never requested the fault, so nothing was tested."""
KINDS: tuple[str, ...] = (*Harm, LOUD, NOT_SERVED)
"""The kinds of causes, the worst first."""
_ASSERTED = (Harm.ACTS, Harm.ACCEPTS, Harm.LEAKS)  # told by a failed assertion
_MAX_CAUSE_LINES = 5  # of all causes together
_MAX_WITH_PLACES = 2  # causes
_MAX_LISTED = 3  # places of one code
_INDENT = "    "


class Fate(StrEnum):
    """How the run of one malformed reply ended."""

    SURVIVED = "survived"
    FAILED = "did not"
    NOT_SERVED = NOT_SERVED
    SKIPPED = "skipped"
    EXPECTED = "expected to fail"


@dataclass(frozen=True, slots=True)
class FailedRun:
    """One failed run of a test with a malformed reply."""

    nodeid: str
    """The test's name, by which pytest runs it again."""
    kind: str
    """The kind of its cause, one of :data:`KINDS`."""
    key: str
    """Where it was raised; equal for failures with the same cause."""
    words: str
    """The exception, and where it was raised."""
    code: str
    """The code that a strict contract reports."""
    spoiled: str
    """The place of the fault in the arguments, else the fault's name."""
    tool: str
    """The tool whose reply was faulty, or ``"answer"``; empty for a text."""

    @property
    def cause(self) -> tuple[str, ...]:
        """Equal for failures that one change is likely to fix.

        One assertion of a test may see the bugs of several tools.
        """
        return self.kind, self.key, self.test, self.asserted_of

    @property
    def asserted_of(self) -> str:
        """The tool, if an assertion of the test failed; else empty."""
        return self.tool if self.kind in _ASSERTED else ""

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
    found: dict[tuple[str, ...], list[FailedRun]] = {}
    for run in failed:
        found.setdefault(run.cause, []).append(run)

    return sorted(found.values(), key=lambda runs: KINDS.index(runs[0].kind))


def summary(
    ran: Sequence[tuple[str, Fate]], causes: Sequence[Sequence[FailedRun]], report: str
) -> list[str]:
    """Return the lines for the terminal, at most nine of at most 80 columns.

    ``ran`` has the test and the fate of each malformed reply, ``report`` the path of the whole
    report; empty for none. Only the command of the first failure may be longer, as it is copied.
    """
    replies = f"{len(ran)} malformed {'reply' if len(ran) == 1 else 'replies'}"
    tests = counted(len({test for test, _ in ran}), "test")
    fates = Counter(fate for _, fate in ran)
    always = (Fate.SURVIVED, Fate.FAILED)
    counts = [f"{fates[fate]} {fate}" for fate in Fate if fate in always or fates[fate]]
    lines = [f"{replies} to {tests}: {', '.join(counts)}"]
    if not causes:
        return lines

    lines += _with_places(causes) if len(causes) <= _MAX_WITH_PLACES else _in_short(causes)
    lines += ["run the first of them again:", causes[0][0].command]
    if report:
        lines.append(f"all of them: {report}")

    return lines


def _with_places(causes: Sequence[Sequence[FailedRun]]) -> Iterator[str]:
    """Yield for each cause what the app did, and then the codes with their places."""
    left = _MAX_CAUSE_LINES - len(causes)
    for number, runs in enumerate(causes):
        yield _head(runs)
        if runs[0].kind == NOT_SERVED:
            continue

        room = left - left // 2 if number + 1 < len(causes) else left
        listed = _wrapped(_places(runs))
        if len(listed) > room:
            listed = _wrapped(_codes(runs, _on_lines(room)))

        left -= len(listed)
        yield from listed


def _head(runs: Sequence[FailedRun]) -> str:
    """Say on a line what the app did, for how many replies, and of which test if that has room."""
    first = runs[0]
    begin = f"{first.kind}: {first.words}; "
    whole = f"{begin}{len(runs)} of {_short_name(first)}"
    short = f"{begin}{len(runs)} replies{_tool_in_brackets(first)}"
    return whole if len(whole) <= WIDTH else _cut(short, WIDTH)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )


def _places(runs: Sequence[FailedRun]) -> str:
    """List each code with its first places."""
    return ", ".join(
        f"{code}: {' '.join([*places][:_MAX_LISTED])}{' …' * (len(places) > _MAX_LISTED)}"
        for code, places in _by_code(runs).items()
    )


def _in_short(causes: Sequence[Sequence[FailedRun]]) -> Iterator[str]:
    """Yield one line a cause with its codes; a last line has the causes without a line.

    While lines are left, a cause whose codes have no room on its line has a second one.
    """
    shown = causes
    if len(causes) > _MAX_CAUSE_LINES:
        shown = causes[: _MAX_CAUSE_LINES - 1]

    is_one_test = len({run.test for runs in causes for run in runs}) == 1
    left = _MAX_CAUSE_LINES - len(causes)
    for runs in shown:
        first = runs[0]
        if first.kind == NOT_SERVED:
            yield _head(runs)
            continue

        # where an assertion of the test failed says less than the codes
        rest = f"; {len(runs)} of {_short_name(first)}"
        if is_one_test or len(rest) > WIDTH // 2:
            rest = f"; {len(runs)}{_tool_in_brackets(first)}"
        if first.kind not in _ASSERTED:
            rest += f": {first.words}"

        # half a line for each, and what one does not need is for the other
        room = max(WIDTH - len(rest), WIDTH // 2) - len(f"{first.kind}: ")

        if left > 0 and len(", ".join(_by_code(runs))) > room:
            left -= 1
            yield _head(runs)
            yield f"{_INDENT}{_codes(runs, _within(WIDTH - len(_INDENT)))}"
        else:
            yield _cut(f"{first.kind}: {_codes(runs, _within(room))}{rest}", WIDTH)

    if others := [run for runs in causes[len(shown) :] for run in runs]:
        begin = f"and {counted(len(causes) - len(shown), 'other cause')}: "
        yield f"{begin}{_codes(others, _within(WIDTH - len(begin)))}"


def _on_lines(room: int) -> Callable[[str], bool]:
    return lambda text: len(_wrapped(text)) <= room


def _within(room: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= room


def _codes(runs: Iterable[FailedRun], fits: Callable[[str], bool]) -> str:
    """List the codes of runs, each once, the most frequent first.

    If they do not fit, the codes of a family are written as ``envelope.*``, those of the largest
    family first. The codes of replies say most: they are written as ``reply.empty/refusal``, and
    counted only if there is no room for that either.
    """
    codes = [code for code, _ in Counter(run.code for run in runs).most_common()]
    if fits(", ".join(codes)):
        return ", ".join(codes)

    folded: set[str] = set()
    families = Counter(family for code in codes if (family := _family(code)) != "reply")
    for family, number in families.most_common():
        if number == 1 or fits(", ".join(_folded(codes, folded))):
            break
        folded.add(family)

    others = [code for code in _folded(codes, folded) if _family(code) != "reply"]
    replies = [code for code in codes if _family(code) == "reply"]
    for shown in range(len(replies), 0, -1):
        names = "/".join(code.partition(".")[2] for code in replies[:shown])
        left = len(replies) - shown
        text = ", ".join([f"reply.{names}", *others, *([f"{left} more"] if left else [])])
        if fits(text) or shown == 1:
            return text

    while len(others) > 1 and not fits(", ".join(others)):
        others = [*others[:-2], "…"]

    return ", ".join(others)


def _family(code: str) -> str:
    return code.partition(".")[0]


def _folded(codes: Iterable[str], families: Collection[str]) -> list[str]:
    """Write the codes of some families as one."""
    named = (f"{_family(code)}.*" if _family(code) in families else code for code in codes)
    return [*dict.fromkeys(named)]


def _short_name(run: FailedRun) -> str:
    return f"{run.test.rpartition('::')[2]}{_tool_in_brackets(run)}"


def _tool_in_brackets(run: FailedRun) -> str:
    return f" ({run.asserted_of})" if run.asserted_of else ""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]} …"


def _by_code(runs: Iterable[FailedRun]) -> dict[str, dict[str, None]]:
    codes: dict[str, dict[str, None]] = {}
    for run in runs:
        codes.setdefault(run.code, {})[run.spoiled] = None

    return codes


def whole_report(causes: Iterable[Sequence[FailedRun]], at: datetime) -> str:
    """Write every failure by cause and code, each with the command that runs it again.

    The first line has the time of the run, because the file stays when a later run is green.
    """
    lines = (line for runs in causes for line in _whole(runs))
    return "".join(f"{line}\n" for line in (f"run of {at:%Y-%m-%d %H:%M}", "", *lines))


def _whole(runs: Sequence[FailedRun]) -> Iterator[str]:
    first = runs[0]
    test = f"{first.test}{_tool_in_brackets(first)}"
    yield f"{first.kind}: {first.words}; {len(runs)} of {test}"
    for code in _by_code(runs):
        yield f"    {code}"
        yield from (f"        {run.command}" for run in runs if run.code == code)

    yield ""
