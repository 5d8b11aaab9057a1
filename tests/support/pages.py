"""A page of the documentation as tests see it: its programs, what it shows of them, its tables."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from openai import OpenAI

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page."""

    text: str

    @classmethod
    def named(cls, name: str) -> Page:
        """Read a page of ``docs/``."""
        return cls((DOCS / name).read_text(encoding="utf-8"))

    @property
    def programs(self) -> list[str]:
        """The Python blocks, in order."""
        return self.blocks("python")

    @property
    def shown(self) -> list[str]:
        """The text blocks, in order: what the programs print."""
        return self.blocks("text")

    def run(self) -> dict[str, Any]:
        """Run the programs in order, each with the names of those before it.

        The names at the end are returned.
        """
        names: dict[str, Any] = {"__name__": "page"}
        self._run_in(names)
        return names

    def run_and_close(self) -> None:
        """Run the programs, and close the clients that they leave open.

        A program does that when it ends, also when it fails.
        """
        names: dict[str, Any] = {"__name__": "page"}
        try:
            self._run_in(names)
        finally:
            for value in names.values():
                if isinstance(value, OpenAI):
                    value.close()

    def _run_in(self, names: dict[str, Any]) -> None:
        # A page may turn logging off for its process; the tests after it need it.
        disabled = logging.root.manager.disable
        try:
            for program in self.programs:
                # It is the program of the page itself.
                exec(compile(program, "page", "exec", dont_inherit=True), names)  # noqa: S102
        finally:
            logging.disable(disabled)

    def table(self, heading: str) -> list[list[str]]:
        """Return the cells of the first table below a heading, row by row, without its head."""
        lines = iter(self.text.partition(heading)[2].splitlines())
        first = next(line for line in lines if line.startswith("|"))
        rows = [first, *takewhile(lambda line: line.startswith("|"), lines)]
        return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]

    def blocks(self, language: str) -> list[str]:
        """Return the fenced blocks of a language."""
        return re.findall(rf"```{language}\n(.*?)```", self.text, flags=re.DOTALL)
