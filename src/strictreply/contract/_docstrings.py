"""Reads docstrings in Google, NumPy and Sphinx style into prose and parameter descriptions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_PARAMETERS: Final = frozenset(
    {
        "args",
        "arguments",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    }
)
# Sections about results are of no use to a model that writes arguments.
_OUTCOMES: Final = frozenset(
    {"raises", "exceptions", "receives", "return", "returns", "warns", "yield", "yields"}
)
_TITLE: Final = re.compile(r"([A-Z][A-Za-z ]*):\s*$")
_UNDERLINE: Final = re.compile(r"(-{3,}|={3,})\s*$")
_FIELD: Final = re.compile(r"[:@](\w+)[^:\n]*:")
_FIELDS: Final = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"})
_OTHER_FIELDS: Final = frozenset(
    {
        "except",
        "exception",
        "raise",
        "raises",
        "return",
        "returns",
        "rtype",
        "type",
        "yield",
        "yields",
        "ytype",
    }
)


class _Block(NamedTuple):
    """Lines that belong together, with their kind: ``google``, …, ``outcome`` or ``prose``."""

    kind: str
    lines: list[str]


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the prose of a docstring, and its descriptions by parameter.

    The prose is everything except the sections about parameters, results and exceptions.
    """
    prose: list[str] = []
    described: dict[str, str] = {}
    for block in _blocks(inspect.cleandoc(text).splitlines()):
        found = _described(block)
        described |= found
        # a section that cannot be read stays in the prose
        if block.kind == "prose" or (block.kind != "outcome" and not found):
            prose += block.lines

    return re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip(), described


def _blocks(lines: list[str]) -> Iterator[_Block]:
    at = 0
    while at < len(lines):
        kind, end = _begun(lines, at)
        yield _Block(kind, lines[at:end])
        at = end


def _begun(lines: list[str], at: int) -> tuple[str, int]:
    """Return the block that starts at a line, and the index of the next line."""
    line = lines[at]
    if at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1]):
        end = next(
            (
                index
                for index in range(at + 2, len(lines) - 1)
                if _UNDERLINE.match(lines[index + 1]) and lines[index].strip()
            ),
            len(lines),
        )
        return _kind_of(line, "numpy"), end

    titled = _TITLE.match(line)
    if titled is not None and (kind := _kind_of(titled[1], "google")) != "prose":
        return kind, _end_of_body(lines, at + 1)

    found = _FIELD.match(line)
    if found is not None and found[1] in _FIELDS | _OTHER_FIELDS:
        is_parameter = found[1] in _FIELDS
        return ("sphinx" if is_parameter else "outcome"), _end_of_body(lines, at + 1)

    return "prose", at + 1


def _kind_of(title: str, style: str) -> str:
    name = title.strip().lower()
    if name in _PARAMETERS:
        return style
    return "outcome" if name in _OUTCOMES else "prose"


def _end_of_body(lines: list[str], start: int) -> int:
    """Return the index of the line after an indented body."""
    indented = (index for index in range(start, len(lines)) if lines[index][:1] not in ("", " "))
    return next(indented, len(lines))


def _described(block: _Block) -> dict[str, str]:
    """Return the descriptions in a section about parameters."""
    if block.kind in ("prose", "outcome"):
        return {}

    # 20 ms, which only a program with function tools should pay
    from docstring_parser import ParseError, google, numpydoc, rest  # noqa: PLC0415

    parsers: dict[str, Any] = {"google": google, "numpy": numpydoc, "sphinx": rest}
    title: dict[str, list[str]] = {
        "google": ["", "Args:", *block.lines[1:]],  # which it finds only after a line
        "numpy": ["Parameters", "----------", *block.lines[2:]],
        "sphinx": [re.sub(r"^[:@]\w+", ":param", block.lines[0]), *block.lines[1:]],
    }
    try:
        parsed = parsers[block.kind].parse("\n".join(title[block.kind]))
    except (ParseError, LookupError, ValueError):  # it fails on some empty sections
        return {}

    return {
        name.strip().lstrip("*"): part.description
        for part in parsed.params
        if part.description
        for name in part.arg_name.split(",")
    }
