"""Codes that carry the words which report them: the one shape of every table of faults that has nothing more to say."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Worded(StrEnum):
    """A stable code with its words: each member is ``"code", "template"``.

    The names in braces in ``template`` are filled from a declaration or a schema, never from what is judged.
    """

    template: str

    def __new__(cls, value: str, template: str) -> Self:
        """Attach the words to the code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.template = template
        return member
