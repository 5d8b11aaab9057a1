"""What ``strictreply faults`` shows: the catalogue of malformed replies, and what each looks like."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import cast

from rich.text import Text

from strictreply.cli._terminal import Live, console, described, echo_json, fail, titled_table
from strictreply.testing._probing.specimens import specimen, specimens
from strictreply.testing._steps import Kind
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import ANYWHERE, Entry
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.values._errors import ContractError
from strictreply.values._issues import printable
from strictreply.values._json import JSON

MAX_SHOWN = 12  # places of one fault


def list_faults(kinds: Collection[Kind], *, as_json: bool) -> None:
    """Print the entries of some kinds, all of them when none are given."""
    entries = [entry for entry in CATALOGUE.values() if not kinds or entry.kind in kinds]
    if as_json:
        echo_json([_entry_json(entry) for entry in entries])
        return
    screen = console()
    for kind in Kind:
        table = titled_table(kind.value, "fault")
        table.add_column("a strict gate says", overflow="fold")
        table.add_column("where", overflow="fold")
        table.add_column("what is wrong", ratio=1)
        for entry in entries:
            if entry.kind is kind:
                where = "any" if len(entry.places) == len(ANYWHERE) else " ".join(entry.places)
                table.add_row(entry.name, entry.code, where, entry.summary)
        if table.row_count:
            screen.print(table, "")
    screen.print(f"{len(entries)} faults; strictreply faults --show NAME shows what one looks like")


def show_fault(name: str, tools: Sequence[object], *, as_json: bool) -> None:
    """Print what one fault serves, and what the strict gate says; of every place in ``tools``, or of an example."""
    entry = named(name)
    try:
        found = list(specimens(entry, tools)) if tools else [one for one in [specimen(entry, SCENARIO.tools)] if one]
    except (ContractError, ValueError) as error:
        fail(f"--tools: {error}")
    if not found:
        fail(f"{name} cannot be made from these tools: {entry.summary}")
    if as_json:
        shown: list[JSON] = [
            {
                "source": one.fault.source,
                "at": one.fault.at,
                "served": one.shown(),
                "issues": [{**issue.to_dict()} for issue in one.issues or ()],
            }
            for one in found
        ]
        echo_json(_entry_json(entry) | {"specimens": shown})
        return
    screen = console()
    live = Live(screen)
    screen.print(Text(name, style="bold"), f"({entry.kind.value}): {entry.summary}")
    for one in found[:MAX_SHOWN]:
        screen.print(f"\n{printable(one.fault.source)}", style="bold")
        live.line("came", one.shown())
        served = cast("JSON", one.fault.served)
        wrong = [one.fault.code] if one.issues is None else [described(issue, served) for issue in one.issues]
        for line in wrong:
            live.line("wrong", line, "yellow")
        if one.fault.needs:
            live.line("needs", f"a request with {json.dumps(dict(one.fault.needs))}")
    if len(found) > MAX_SHOWN:
        screen.print(f"\nand {len(found) - MAX_SHOWN} more places; --json gives all", style="dim")


def kinds_of(words: Sequence[str]) -> list[Kind]:
    """Read kinds of faults; ends the command at a word that is none."""
    for word in words:
        if word not in list(Kind):
            fail(f"no kind {word}; the kinds are {', '.join(Kind)}")
    return [Kind(word) for word in words]


def named(name: str) -> Entry:
    """Find an entry; ends the command with the nearest names when there is none."""
    if name not in CATALOGUE:
        near = ", ".join(get_close_matches(name, CATALOGUE))
        fail(f"no fault {name}; {f'did you mean {near}?' if near else 'strictreply faults lists them'}")
    return CATALOGUE[name]


def _entry_json(entry: Entry) -> dict[str, JSON]:
    return {
        "name": entry.name,
        "kind": entry.kind.value,
        "code": entry.code,
        "places": list(entry.places),
        "summary": entry.summary,
        "needs": dict(entry.needs),
    }
