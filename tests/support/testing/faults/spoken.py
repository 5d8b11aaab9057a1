"""What the kit writes into good replies and faults, and the contracts that judge them strictly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import strictreply as sr
from strictreply.testing import ReplyPlace

PROSE = "It is done."
"""The text of a good answer for which nothing is given."""

CANARY = "zq7x"
"""Part of everything that a fault has the model invent freely."""


def strict_contract(declared: Any, place: ReplyPlace) -> sr.Contract[Any]:
    """The strict contract of one tool, without its own check, or of one answer."""
    if place in {"json", "prose"}:
        answer = declared if place == "json" else str
        return sr.Contract(answer=answer, dialects="strict")

    tool = replace(sr.Tool.of(declared), check=None)
    channel: sr.core.Channel = "text" if place == "union" else "native"
    return sr.Contract(tools=[tool], channel=channel, dialects="strict")
