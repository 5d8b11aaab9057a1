"""Reads what ``record`` wrote, as any program would: lines of JSON, judged by ``check_files``."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strictreply.core import JSONObject
from strictreply.testing.recordings import ReplyTally, check_files


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """One line of a recording; its ``body`` is empty where the response says it all."""

    request: Any
    response: Any
    status: int
    headers: dict[str, str]
    ending: str
    body: bytes


def lines_in(path: Path) -> list[RecordedLine]:
    """Read the lines of a recording in order."""
    return [_line(json.loads(text)) for text in path.read_text("utf-8").split("\n")[:-1]]


def _line(line: dict[str, Any]) -> RecordedLine:
    http = line["http"]
    packed = http.get("body_base64")
    body = http.get("body", "").encode() if packed is None else base64.b64decode(packed)
    ending = http.get("ending", "whole")
    return RecordedLine(
        line["request"], line["response"], http["status"], http["headers"], ending, body
    )


def judged(path: Path, tools: Sequence[object] = ()) -> list[list[str]]:
    """Judge each line of a recording: the codes of its issues, in order of the lines.

    Each of them must hold a reply.
    """
    found: list[JSONObject] = []
    tally = check_files([path], tools=tools, into=ReplyTally(on_invalid=found.append))
    assert (tally.complete, tally.unreadable) == (True, [])

    codes = {one["line"]: [str(issue["code"]) for issue in one["issues"]] for one in found}
    return [codes.get(number, []) for number in range(1, tally.replies + 1)]
