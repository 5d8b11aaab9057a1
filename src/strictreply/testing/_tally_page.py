"""The results of recorded replies and ledgers as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from strictreply.core.text import counted
from strictreply.testing import _html as html
from strictreply.testing._html import anchor, element, row, slug
from strictreply.testing._recordings import NO_NAME
from strictreply.testing._reply_tally import JudgedLine, ReplyCause, ReplyTally
from strictreply.testing._steps import Harm

_COLOURS = {"ok": "good", "fixed": "good", "observed": "unknown"}  # of outcomes; others are bad
MAX_CHARTED = 20  # names in a chart
MAX_LISTED = 200  # unreadable lines


def check_page(tally: ReplyTally, files: Sequence[str]) -> str:
    """Return the results of files as one HTML page without external resources.

    ``tally`` has the counts of :func:`check_files`, made with ``samples=True`` to show replies.
    ``files`` are the names shown on the page.
    """
    replies = _replies(tally.replies, "recorded ")
    part = "" if tally.complete else " Interrupted: this covers what was read so far."
    kind = "verdict good" if tally.replies and not tally.invalid else "verdict bad"
    words = f"{tally.invalid} of {replies} did not fit."
    if tally.observed:
        words += f" {tally.observed} of them were only observed, and went on."
    verdict = element("p", f"{words}{part}", kind=kind)

    unreadable = len(tally.unreadable)
    facts = {
        "Files": ", ".join(files),
        "Without a reply": ", ".join(tally.empty),
        "Unreadable": counted(unreadable, "line") if unreadable else "",
        "Without tools": tally.lacking if tally.without_tools else "",
        **(_ledger_facts(tally) if tally.calls else {}),
    }

    causes = sorted(tally.causes.items(), key=lambda item: (item[0].harm.rank, -item[1]))
    met = {cause.harm for cause, _ in causes}
    harms = {slug(harm): harm.value for harm in Harm if harm in met}
    choices, style = html.choices("harm", harms) if len(harms) > 1 else (element("p"), "")

    taken: set[str] = set()
    worst = [element("h2", "The worst replies first"), choices] if causes else []
    worst += [_cause(tally, cause, anchor(_words(cause), taken)) for cause, _ in causes]

    footer = "Of each cause the first replies are shown. Nothing was sent anywhere."
    if tally.calls:
        footer += " A ledger keeps the form of a reply, and says what was decided at its time."
    return html.page(
        "Recorded replies",
        verdict,
        html.facts(facts),
        *_charts(tally),
        *worst,
        *_others(tally),
        element("footer", footer),
        css=style,
    )


def _replies(number: int, kind: str = "") -> str:
    return f"{number} {kind}{'reply' if number == 1 else 'replies'}"


def _ledger_facts(tally: ReplyTally) -> dict[str, str]:
    """Return the facts of ledgers, by name."""
    refused = sum(call.is_corrected for call in tally.calls.values())
    observed = f"{_replies(tally.observed)} went on that would have been refused"
    return {
        "Observed only": observed if tally.observed else "",
        "Enforced": f"{counted(refused, 'call')} had a reply refused" if refused else "",
        **{name.capitalize(): words for name, words in tally.spent.items()},
        "Seconds": f"{tally.seconds:.1f}",
    }


def _charts(tally: ReplyTally) -> Iterator[ET.Element]:
    if tally.calls:
        yield element("h2", "By outcome")
        outcomes = [(word, number, len(tally.calls)) for word, number in tally.by_outcome.items()]
        yield html.shares(outcomes, ("calls", "of all", "share"), _COLOURS)

    if tally.by_code:
        yield element("h2", "By issue code")
        codes = [(code, number, tally.replies) for code, number in tally.codes()]
        yield html.shares(codes, ("with it", "of all", "share"))

    for kind, rates in tally.rates():
        named = [(tally.label(kind, name), n["invalid"], n["replies"]) for name, n in rates.items()]
        if named:
            yield element("h2", f"By {kind}")
            yield html.shares(named[:MAX_CHARTED], ("invalid", "replies", "share"))

        if len(named) > MAX_CHARTED:
            words = f"and {len(named) - MAX_CHARTED} more; --json lists all"
            yield element("p", words, kind="soft")


def _words(cause: ReplyCause) -> str:
    codes = ", ".join(cause.codes)
    return codes if cause.tool == NO_NAME else f"{cause.tool}: {codes}"


def _cause(tally: ReplyTally, cause: ReplyCause, place: str) -> ET.Element:
    """Make the section of a cause; for ledgers alone, without columns that they do not have."""
    samples = tally.samples[cause]
    is_recorded = any(judged.entry is None for _, judged in samples)
    heads = ["Where", "What came"]
    if is_recorded:
        heads.append("What would have been sent")

    rows: list[ET.Element] = []
    for where, judged in samples:
        reply, asked = judged.excerpt or ("", "")
        cells = [_found(where, judged), element("td", element("pre", reply))]
        if is_recorded:
            cells.append(_following(judged, asked))

        rows.append(element("tr", *cells, kind=f"finding {slug(cause.harm)}"))

    replies = _replies(tally.causes[cause])
    title = f" · {replies} · an app that takes it {cause.harm}"
    if tally.observed_causes[cause]:
        title += f" · {tally.observed_causes[cause]} only observed"

    return element(
        "section",
        html.linked("h3", place, html.dot(slug(cause.harm)), element("code", _words(cause)), title),
        html.findings(heads, rows),
        kind="cause",
        id=place,
    )


def _found(where: str, judged: JudgedLine) -> ET.Element:
    """Make the cell with the place of a reply, its model, and what is wrong."""
    model = [element("p", judged.model, kind="soft")] if judged.model != NO_NAME else []
    became: list[ET.Element] = []
    if judged.entry is not None:
        words = "only observed: it went on" if judged.is_observed else "enforced: it was refused"
        became.append(element("p", words, kind="soft"))

    faults = (
        element("p", f"{issue['path'] or 'the whole'}: {issue['message']}")
        for issue in judged.issues
    )
    return element("td", element("div", where, kind="name"), *model, *became, *faults)


def _following(judged: JudgedLine, asked: str) -> ET.Element:
    if asked:
        return element("td", element("pre", asked))

    words = "nothing: the call would have failed" if judged.entry is None else "not recorded"
    return element("td", words)


def _others(tally: ReplyTally) -> Iterator[ET.Element]:
    others = tally.invalid - tally.causes.total()
    if others:
        replies = _replies(others)
        yield element("p", f"and {replies} of other causes; --json lists all", kind="soft")

    if tally.unreadable:
        title = counted(len(tally.unreadable), "unreadable line")
        rows = (
            row("td", f"{entry['file']}:{entry['line']}", str(entry["reason"]))
            for entry in tally.unreadable[:MAX_LISTED]
        )
        yield html.folded(title, rows)
