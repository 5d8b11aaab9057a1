"""What docs/pipeline.md promises holds.

Its programs run as they stand, and its walks and tables are those of the code.
"""

from __future__ import annotations

import re
from dataclasses import fields
from itertools import pairwise

import pytest

from strictreply.pipeline import (
    AgentPipelineContextType,
    AgentPipelineContextValidator,
    InvokeCode,
    PipelineStep,
)
from strictreply.pipeline._line import OPENINGS, ROUND
from strictreply.pipeline._rule import ValidatorOptions
from strictreply.pipeline._validator import step_of
from support.pages import Page

PAGE = Page.named("pipeline.md")
RULES = "## The rules"
FIRST_LINES = 15


def rows(text: str) -> str:
    """Return the lines of the last table of a text, without its head."""
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith("| `"))


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The programs, run in order, print what the page shows; the last one writes the table of all
    rules.
    """
    PAGE.run()
    assert capsys.readouterr().out == "".join(PAGE.shown) + rows(PAGE.text.partition(RULES)[2])


def test_the_page_begins_with_a_short_program() -> None:
    """The first program stands alone, and is fifteen lines at most."""
    first = Page(f"```python\n{PAGE.programs[0]}```\n")
    assert len(PAGE.programs[0].splitlines()) <= FIRST_LINES
    first.run()


def test_the_walks_are_those_of_the_code() -> None:
    """The picture names each type's steps in order, and what all have in common."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.text, flags=re.DOTALL | re.MULTILINE)
    (picture,) = [block for language, block in blocks if not language]
    names = re.findall(r"\b[A-Z]\w+", picture)
    starts = [names.index(kind) for kind in AgentPipelineContextType] + [
        names.index("PromptContentProviderInitializer")
    ]
    openings = [tuple(map(step_of, names[start + 1 : end])) for start, end in pairwise(starts)]
    assert dict(zip(AgentPipelineContextType, openings, strict=True)) == {
        kind: steps[:-2] for kind, steps in OPENINGS.items()
    }

    assert {step_of(name) for name in names[starts[-1] :]} == {
        *OPENINGS[AgentPipelineContextType.INITIAL][-2:],
        *ROUND,
    }


def test_the_table_of_methods_is_that_of_the_code() -> None:
    """The validator has these four public methods and no other."""
    told = [re.findall(r"`(\w+)`", method) for method, _ in PAGE.table("It has four methods")]
    own = [name for name in vars(AgentPipelineContextValidator) if name.startswith("validate_")]
    assert told == [[name] for name in own]


def test_the_table_of_options_is_that_of_the_code() -> None:
    """Each option of the validator stands in the table, in order, with its default."""
    told = [
        (name.strip("`"), default.strip("`"))
        for name, default, _ in PAGE.table("never in `message`")
    ]
    assert told == [(field.name, str(field.default)) for field in fields(ValidatorOptions)]


def test_every_code_of_the_page_exists() -> None:
    """Every error code on the page exists."""
    known = {code.value for code in InvokeCode} | {step.name for step in PipelineStep} | {"RULESET"}
    prose = re.sub(r"```.*?```", "", PAGE.text, flags=re.DOTALL)
    assert {
        word for word in re.findall(r"`([A-Z][A-Z_]{3,})`", prose) if word not in known
    } == set()
