"""``strictreply faults --for``: the malformed replies that can be made of a program's tools."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from strictreply import ContractError, Tool
from strictreply.cli._terminal import Status, console, counted, echo_json, fail, titled_table
from strictreply.core import JSONObject
from strictreply.core.text import printable
from strictreply.testing import Fault, Kind
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.specimens import Specimen, specimens

MAX_REPLY = 60  # characters of a reply in the table
_ARGUMENTS = "tool_calls[0].function.arguments "


class _ToolFaults(NamedTuple):
    """The faults of one tool."""

    tool: Tool
    found: Sequence[Specimen]


def list_tool_faults(
    declared: Iterable[object], kinds: Collection[Kind], *, out: Path | None, as_json: bool
) -> None:
    """Print the faults that can be made of each tool: those of some kinds, else of the arguments.

    With ``out`` the faults of each tool are written as a script into that folder.
    """
    chosen = kinds or {Kind.ARGS}
    try:
        faults = [_faults_of(Tool.of(one), chosen) for one in declared]
    except (ContractError, ValueError) as error:
        fail(f"--for: {error}")

    if out is not None:
        _write(out, faults)

    if as_json:
        echo_json([_to_dict(one) for one in faults])
    else:
        _print(faults, chosen)


def _faults_of(tool: Tool, kinds: Collection[Kind]) -> _ToolFaults:
    entries = (entry for entry in CATALOGUE.values() if entry.kind in kinds)
    made = (one for entry in entries if "call" in entry.places for one in specimens(entry, [tool]))
    return _ToolFaults(tool, [one for one in made if one.fault.place == "call"])


def _step(tool: Tool, fault: Fault) -> JSONObject:
    """Write a fault as a step of a script."""
    place: JSONObject = {"at": fault.at} if fault.at else {}
    return {"fault": fault.name, "tool": tool.name, **place}


def _print(faults: Sequence[_ToolFaults], kinds: Collection[Kind]) -> None:
    screen = console()
    for tool, found in faults:
        table = titled_table(
            f"{printable(tool.name)}: {counted(len(found), 'fault', 'faults')}", "fault"
        )
        table.add_column("issue code", overflow="fold")
        table.add_column("the reply", overflow="fold", ratio=1)

        for one in found:
            reply = one.shown(MAX_REPLY).replace(_ARGUMENTS, "").removeprefix("reads ")
            table.add_row(printable(one.fault.id), one.fault.code, reply)

        screen.print(table, "")

    total = sum(len(found) for _, found in faults)
    tools = counted(len(faults), "tool", "tools")
    words = f"{counted(total, 'fault', 'faults')} of {tools}, of kind {', '.join(sorted(kinds))}"
    screen.print(f"{words}; --kind chooses others, --show NAME --tools FILE shows one in full")


def _to_dict(faults: _ToolFaults) -> JSONObject:
    rows = [
        {
            "name": one.fault.name,
            "at": one.fault.at,
            "kind": one.fault.kind.value,
            "code": one.fault.code,
            "reply": one.shown(),
            "step": _step(faults.tool, one.fault),
        }
        for one in faults.found
    ]
    return {"tool": faults.tool.name, "faults": rows}


def _write(folder: Path, faults: Iterable[_ToolFaults]) -> None:
    """Write a script for each tool: a step on each line, and a good reply for what comes after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for tool, found in faults:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", tool.name)
            path = folder / f"{name}.jsonl"
            path.write_text("".join(_lines(tool, found)), encoding="utf-8")
    except OSError as error:
        fail(f"--out {folder}: {error.strerror}", Status.FAILED)


def _lines(tool: Tool, found: Iterable[Specimen]) -> Iterator[str]:
    for one in found:
        yield f"{json.dumps(_step(tool, one.fault))}\n"

    yield f"{json.dumps({'then': 'good'})}\n"
