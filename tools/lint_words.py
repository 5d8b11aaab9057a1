"""Find words that readers had to read twice: in pages, messages, docstrings and comments.

``python tools/lint_words.py`` looks at the whole project, or at the files given, and ends with
status 1 when it finds one. ``tools/words.toml`` lists the words, and what to write instead.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = ROOT / "tools" / "words.toml"

LOOKED_AT = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*",
    "src/**/*.py",
    "tools/*.py",
    "benchmarks/*.py",
)
LEFT_OUT = (
    "CHANGELOG.md",  # it names what there was
    "docs/upgrading.md",  # the same
    "tools/lint_words.py",
)
"""Files that may hold such words."""

_TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@dataclass(frozen=True, slots=True)
class Word:
    """A word to avoid."""

    pattern: re.Pattern[str]
    instead: str
    """What to write in its place."""

    like: str
    """A text that the pattern finds."""


@dataclass(frozen=True, slots=True)
class Found:
    """A word to avoid, where it stands."""

    line: int
    text: str
    instead: str


def words(path: Path = WORDS) -> list[Word]:
    """Read the words to avoid."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["word"]
    return [
        Word(re.compile(one["pattern"], flags=re.IGNORECASE), one["instead"], one["like"])
        for one in listed
    ]


def found_in(name: str, source: str, avoided: list[Word]) -> list[Found]:
    """Find the words to avoid in a file; of a Python file its strings and comments are read."""
    found: list[Found] = []
    for first, text in _texts(name, source):
        for word in avoided:
            for match in word.pattern.finditer(text):
                line = first + text.count("\n", 0, match.start())
                found.append(Found(line, " ".join(match[0].split()), word.instead))

    return sorted(found, key=lambda one: one.line)


def _texts(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Give each text that people read, with the number of its first line."""
    if not name.endswith(".py"):
        yield 1, source
        return

    comment = ""
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.start[0] == last + 1 and comment:
            # lines of one comment are one text
            comment += "\n" + token.string.removeprefix("#")
            last = token.start[0]
            continue

        if token.type in _TEXTS:
            if comment:
                yield first, comment
                comment = ""
            if token.type == tokenize.COMMENT:
                comment = token.string.removeprefix("#")
                first = last = token.start[0]
            else:
                yield token.start[0], token.string

    if comment:
        yield first, comment


def files() -> list[Path]:
    """List the files of the project that are looked at."""
    paths = {path for pattern in LOOKED_AT for path in ROOT.glob(pattern)}
    read = {".md", ".py", ".ts", ".mjs", ".sh"}
    left_out = {ROOT / name for name in LEFT_OUT}
    return sorted(
        path
        for path in paths - left_out
        if path.suffix in read and "node_modules" not in path.parts
    )


def main(names: list[str]) -> int:
    """Print each word found as ``file:line: word -> instead``; return the exit status."""
    avoided = words()
    paths = [Path(name).resolve() for name in names] or files()
    count = 0
    for path in paths:
        for one in found_in(path.name, path.read_text(encoding="utf-8"), avoided):
            count += 1
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{one.line}: {one.text} -> {one.instead}")

    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
