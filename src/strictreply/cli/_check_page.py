"""The page of ``strictreply check``: rates of recorded replies as charts, and the worst replies by cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from strictreply.cli._terminal import counted
from strictreply.testing._html import anchor, choices, element, facts, linked, page, row, shares
from strictreply.testing._recordings import NO_NAME
from strictreply.testing._steps import Harm

if TYPE_CHECKING:
    from strictreply.cli._check_command import ReplyCause, ReplyTally  # which imports this page when one is asked for

MAX_CHARTED = 20  # names in a chart
MAX_LISTED = 200  # unreadable lines


def check_page(tally: ReplyTally, files: Sequence[str]) -> str:
    """Write what was found in files as one HTML page for a person."""
    taken: set[str] = set()
    causes = sorted(tally.causes.items(), key=lambda item: (item[0].harm.rank, -item[1]))
    harms = {_slug(harm): harm.value for harm in Harm if any(cause.harm is harm for cause, _ in causes)}
    shown, style = choices("harm", harms) if len(harms) > 1 else (element("p"), "")
    invalid, replies = tally.invalid, counted(tally.replies, "recorded reply", "recorded replies")
    part = "" if tally.complete else " Interrupted: this covers what was read so far."
    fits = not invalid and tally.replies
    return page(
        "Recorded replies",
        element("p", f"{invalid} of {replies} did not fit.{part}", kind="verdict good" if fits else "verdict bad"),
        facts(
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
        yield shares(codes, ("with it", "of all", "share"))
    for kind, rates in tally.rates():
        named = [(f"(no {kind})" if name == NO_NAME else name, n["invalid"], n["replies"]) for name, n in rates.items()]
        if named:
            yield element("h2", f"By {kind}")
            yield shares(named[:MAX_CHARTED], ("invalid", "replies", "share"))
        if len(named) > MAX_CHARTED:
            yield element("p", f"and {len(named) - MAX_CHARTED} more; --json lists all", kind="soft")


def _slug(harm: Harm) -> str:
    return f"harm-{harm.name.lower()}"


def _words(cause: ReplyCause) -> str:
    codes = ", ".join(cause.codes)
    return codes if cause.tool == NO_NAME else f"{cause.tool}: {codes}"


def _cause(tally: ReplyTally, cause: ReplyCause, place: str) -> ET.Element:
    rows = (
        element(
            "tr",
            element(
                "td",
                element("div", reply.where, kind="name"),
                *([element("p", reply.model, kind="soft")] if reply.model != NO_NAME else []),
                *(element("p", fault) for fault in reply.faults),
            ),
            element("td", element("pre", reply.reply)),
            element("td", element("pre", reply.asked) if reply.asked else "nothing: the call would have failed"),
            kind=f"finding {_slug(cause.harm)}",
        )
        for reply in tally.shown[cause]
    )
    dot = element("span", kind=f"dot {_slug(cause.harm)}")
    replies = counted(tally.causes[cause], "reply", "replies")
    return element(
        "section",
        linked("h3", place, dot, element("code", _words(cause)), f" · {replies} · an app that takes it {cause.harm}"),
        element(
            "table",
            element("thead", row("th", "Where", "What came", "What would have been asked")),
            element("tbody", *rows),
            kind="findings",
        ),
        kind="cause",
        id=place,
    )


def _others(tally: ReplyTally) -> Iterator[ET.Element]:
    others = tally.invalid - tally.causes.total()
    if others:
        yield element("p", f"and {counted(others, 'reply', 'replies')} of other causes; --json lists all", kind="soft")

    if tally.unreadable:
        rows = (
            row("td", f"{entry['file']}:{entry['line']}", str(entry["reason"]))
            for entry in tally.unreadable[:MAX_LISTED]
        )
        title = element("summary", counted(len(tally.unreadable), "unreadable line", "unreadable lines"))
        yield element("details", title, element("table", element("tbody", *rows)))
