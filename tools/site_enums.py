"""How the reference shows an enum: one table of its members, in place of a heading for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import griffe

_ENUMS = frozenset({"Enum", "StrEnum", "IntEnum", "Worded", "CategorisedCode"})


class EnumTables(griffe.Extension):  # type: ignore[misc]
    """Moves the members of each enum into a table below the words of its class."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Write the table, and take the members off the list of attributes."""
        if not _ENUMS.intersection(str(base).rpartition(".")[2] for base in cls.bases):
            return

        members = [one for one in cls.members.values() if one.is_attribute and one.name.isupper()]
        if not members:
            return

        lines = "\n".join(table_of([member for member in members if not member.is_alias]))
        words = cls.docstring.value if cls.docstring else ""
        cls.docstring = griffe.Docstring(f"{words}\n\n{lines}\n", parent=cls)
        for member in members:
            del cls.members[member.name]


def table_of(members: list[Any]) -> Iterator[str]:
    """Yield the lines of the table: of each member its value, and its sentence if one has any."""
    rows = [(member.name, *value_of(member)) for member in members]
    told = any(words for _, _, words in rows)
    yield "| member | value |" + (" meaning |" if told else "")
    yield "|---|---|" + ("---|" if told else "")
    for name, value, words in rows:
        yield f"| `{name}` | `{value}` |" + (f" {words} |" if told else "")


def value_of(member: Any) -> tuple[str, str]:
    """Return the value of a member, and its sentence.

    The sentence is a docstring below the member, else the text that its value carries, else the
    comment behind it.
    """
    read = ast.parse(str(member.value), mode="eval").body
    parts = read.elts if isinstance(read, ast.Tuple) else [read]
    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
    value = texts[0] if texts else ast.unparse(read)

    if member.docstring:
        words = member.docstring.value
    elif len(texts) > 1:
        words = str(texts[1])
    else:
        line = member.lines_collection[member.filepath][member.lineno - 1]
        words = line.partition("  # ")[2]
    # what a message is filled with is left out; in braces it would be read as an attribute list
    words = re.sub(r"\{\w+\}", "…", " ".join(words.split()))
    return str(value), words.replace("|", "\\|")
