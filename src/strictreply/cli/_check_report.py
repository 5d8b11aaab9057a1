"""The findings of ``strictreply check``: counts by tool, model and issue code, first replies, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from strictreply.cli._terminal import counted
from strictreply.testing import _html as html
from strictreply.testing._html import anchor, element, row, slug
from strictreply.testing._recordings import NO_NAME
from strictreply.testing._steps import Harm
from strictreply.values._limits import JSONObject

MAX_CAUSES = 200  # that are counted apart: of a file of any size no more is kept
SHOWN_OF_A_CAUSE = 3  # replies


class JudgedLine(NamedTuple):
    """What was found in one line; ``reason`` is why it holds no reply, ``shown`` a reply and the ask behind it."""

    line: int
    model: str = NO_NAME
    tool: str = NO_NAME
    issues: Sequence[JSONObject] = ()
    reason: str = ""
    shown: tuple[str, str] | None = None

    @property
    def cause(self) -> ReplyCause:
        """What invalid replies are grouped by."""
        return ReplyCause(self.tool, tuple(sorted({str(issue["code"]) for issue in self.issues})))


class ReplyCause(NamedTuple):
    """The first tool that was called, and all that was wrong."""

    tool: str
    codes: tuple[str, ...]

    @property
    def harm(self) -> Harm:
        """What an app does that goes on with such a reply."""
        return min((Harm.accepting(code) for code in self.codes), key=lambda harm: harm.rank)


@dataclass
class ReplyTally:
    """Counts of what was found in the files read so far; ``tell`` is called with every invalid reply."""

    tell: Callable[[JSONObject], None]
    complete: bool = False
    replies: int = 0
    invalid: int = 0
    by_code: Counter[str] = field(default_factory=Counter[str])
    by_model: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    by_tool: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    unreadable: list[JSONObject] = field(default_factory=list[JSONObject])
    first: dict[str, str] = field(default_factory=dict[str, str])  # where each code was seen first
    empty: list[str] = field(default_factory=list[str])  # the files that held no reply
    causes: Counter[ReplyCause] = field(default_factory=Counter[ReplyCause])
    shown: dict[ReplyCause, list[tuple[str, JudgedLine]]] = field(default_factory=dict[Any, Any])  # the first of each

    def add(self, path: Path, judged: JudgedLine) -> None:
        """Count one line; a code counts once a reply."""
        if judged.reason:
            self.unreadable.append({"file": str(path), "line": judged.line, "reason": judged.reason})
            return
        self.replies += 1
        for rates, name in ((self.by_model, judged.model), (self.by_tool, judged.tool)):
            rate = rates.setdefault(name, {"replies": 0, "invalid": 0})
            rate["replies"] += 1
            rate["invalid"] += bool(judged.issues)
        for code in {str(issue["code"]) for issue in judged.issues}:
            self.by_code[code] += 1
            self.first.setdefault(code, f"{path.name}:{judged.line}")
        if not judged.issues:
            return
        self.invalid += 1
        where = {"file": str(path), "line": judged.line, "model": judged.model, "tool": judged.tool}
        self.tell({**where, "issues": list(judged.issues)})
        cause = judged.cause
        if cause in self.causes or len(self.causes) < MAX_CAUSES:
            self.causes[cause] += 1
            shown = self.shown.setdefault(cause, [])
            if judged.shown is not None and len(shown) < SHOWN_OF_A_CAUSE:
                shown.append((f"{path.name}:{judged.line}", judged))

    def rates(self) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
        """Yield the rates by model and by tool, sorted by the invalid replies, then by all replies, then by name."""
        for kind, rates in (("model", self.by_model), ("tool", self.by_tool)):
            yield kind, dict(sorted(rates.items(), key=lambda one: (-one[1]["invalid"], -one[1]["replies"], one[0])))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON-safe values, the most frequent first."""
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - self.invalid,
            "invalid": self.invalid,
            "by_code": dict(self.by_code.most_common()),
            **{f"by_{kind}": rates for kind, rates in self.rates()},
            "unreadable": self.unreadable,
            "empty": self.empty,
        }


MAX_CHARTED = 20  # names in a chart
MAX_LISTED = 200  # unreadable lines


def check_page(tally: ReplyTally, files: Sequence[str]) -> str:
    """Write what was found in files as one HTML page for a person."""
    taken: set[str] = set()
    causes = sorted(tally.causes.items(), key=lambda item: (item[0].harm.rank, -item[1]))
    harms = {slug(harm): harm.value for harm in Harm if any(cause.harm is harm for cause, _ in causes)}
    shown, style = html.choices("harm", harms) if len(harms) > 1 else (element("p"), "")
    invalid, replies = tally.invalid, counted(tally.replies, "recorded reply", "recorded replies")
    part = "" if tally.complete else " Interrupted: this covers what was read so far."
    fits = not invalid and tally.replies
    return html.page(
        "Recorded replies",
        element("p", f"{invalid} of {replies} did not fit.{part}", kind="verdict good" if fits else "verdict bad"),
        html.facts(
            {
                "Files": ", ".join(files),
                "Without a reply": ", ".join(tally.empty),
                "Unreadable": counted(len(tally.unreadable), "line", "lines") if tally.unreadable else "",
            }
        ),
        *_charts(tally),
        *([element("h2", "The worst replies first"), shown] if causes else []),
        *(_cause(tally, cause, anchor(_words(cause), taken)) for cause, _ in causes),
        *_others(tally),
        element("footer", "Of each cause the first replies are shown. Nothing was sent anywhere."),
        css=style,
    )


def _charts(tally: ReplyTally) -> Iterator[ET.Element]:
    if tally.by_code:
        yield element("h2", "By issue code")
        codes = [(code, number, tally.replies) for code, number in tally.by_code.most_common()]
        yield html.shares(codes, ("with it", "of all", "share"))
    for kind, rates in tally.rates():
        named = [(f"(no {kind})" if name == NO_NAME else name, n["invalid"], n["replies"]) for name, n in rates.items()]
        if named:
            yield element("h2", f"By {kind}")
            yield html.shares(named[:MAX_CHARTED], ("invalid", "replies", "share"))
        if len(named) > MAX_CHARTED:
            yield element("p", f"and {len(named) - MAX_CHARTED} more; --json lists all", kind="soft")


def _words(cause: ReplyCause) -> str:
    codes = ", ".join(cause.codes)
    return codes if cause.tool == NO_NAME else f"{cause.tool}: {codes}"


def _cause(tally: ReplyTally, cause: ReplyCause, place: str) -> ET.Element:
    rows: list[ET.Element] = []
    for where, judged in tally.shown[cause]:
        reply, asked = judged.shown or ("", "")
        model = [element("p", judged.model, kind="soft")] if judged.model != NO_NAME else []
        faults = (element("p", f"{issue['path'] or 'the whole'}: {issue['message']}") for issue in judged.issues)
        left = element("td", element("div", where, kind="name"), *model, *faults)
        following = element("pre", asked) if asked else "nothing: the call would have failed"
        cells = element("td", element("pre", reply)), element("td", following)
        rows.append(element("tr", left, *cells, kind=f"finding {slug(cause.harm)}"))
    title = f" · {counted(tally.causes[cause], 'reply', 'replies')} · an app that takes it {cause.harm}"
    return element(
        "section",
        html.linked("h3", place, html.dot(slug(cause.harm)), element("code", _words(cause)), title),
        html.findings(("Where", "What came", "What would have been asked"), rows),
        kind="cause",
        id=place,
    )


def _others(tally: ReplyTally) -> Iterator[ET.Element]:
    others = tally.invalid - tally.causes.total()
    if others:
        yield element("p", f"and {counted(others, 'reply', 'replies')} of other causes; --json lists all", kind="soft")
    if tally.unreadable:
        listed = tally.unreadable[:MAX_LISTED]
        rows = (row("td", f"{entry['file']}:{entry['line']}", str(entry["reason"])) for entry in listed)
        yield html.folded(counted(len(tally.unreadable), "unreadable line", "unreadable lines"), rows)
