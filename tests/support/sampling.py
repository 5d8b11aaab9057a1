"""Which cases of the catalogue's laws run: a sample by kind, or with ``--whole`` every one.

A file that tries each fault of the catalogue under each law is marked ``sampled``. Of each of its
tests a part runs, drawn by a seed: every kind of fault, every value of the other parameters beside
each kind, every requirement of a case, and at least one case in ``ONE_OF``. A case that is of no
fault of the catalogue always runs, and so does one that is named: by its id, or with ``-k``.
"""

from __future__ import annotations

import math
import random
import subprocess
from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.lanes import function_of

ONE_OF = 10
"""Of so many cases of a test one runs, more where the kinds and parameters need more."""

SEED_DIGITS = 6
"""How many hexadecimal digits of the tree's name are the seed."""


SAMPLED = pytest.StashKey[tuple[int, int]]()
"""How many cases of the catalogue a session runs, and of how many."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the sample."""
    parser.addoption(
        "--whole", action="store_true", help="run every case of the files marked sampled"
    )
    parser.addoption(
        "--sample-seed",
        type=int,
        metavar="SEED",
        help="draw these cases by this seed, not by that of the commit",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Settle the seed, which the workers of xdist are given with the other options."""
    config.stash[SAMPLED] = (0, 0)
    if config.option.sample_seed is None:
        config.option.sample_seed = seed_of_tree()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed by which the sample is drawn, before the first test."""
    if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
        reporter.write_line(drawn_by(session.config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases that were not drawn."""
    cases = {item for found in cases_of(items).values() for item in found}
    chosen = cases if is_whole(config) else sample(items, config.option.sample_seed)
    left_out = cases - chosen

    config.stash[SAMPLED] = (len(chosen), len(cases))
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what a worker of xdist counted to the process that reports it."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["sampled"] = session.config.stash[SAMPLED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of xdist counted: each of them collects the same."""
    run, of = getattr(node, "workeroutput", {}).get("sampled", (0, 0))
    if of:
        node.config.stash[SAMPLED] = (run, of)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how many cases of the catalogue ran."""
    run, of = config.stash[SAMPLED]
    if of:
        terminalreporter.write_line(f"{drawn_by(config)}: {run:,} of {of:,} cases")


def drawn_by(config: pytest.Config) -> str:
    """Return how the cases of the catalogue are chosen."""
    if is_whole(config):
        return "catalogue x law: every case"

    return f"catalogue x law: a sample, --sample-seed={config.option.sample_seed}"


def is_whole(config: pytest.Config) -> bool:
    """Report whether every case runs: all were asked for, or some by name."""
    named = any("::" in each for each in config.args)
    return bool(config.option.whole or config.option.keyword or named)


def seed_of_tree() -> int:
    """Return a seed that is the same for the same commit and another for the next; 0 without git.

    What a run tries depends on the code alone, and each commit tries other cases.
    """
    done = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"],  # noqa: S607 - the developer's own git
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(done.stdout[:SEED_DIGITS], 16) if done.returncode == 0 else 0


def cases_of(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Group the cases that a sample is drawn from: those of a fault, by their test."""
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and kinds_of(item):
            found.setdefault(function_of(item), []).append(item)

    return found


def sample(items: Iterable[pytest.Item], seed: int) -> set[pytest.Item]:
    """Draw the cases that run, of each test by itself."""
    return {
        item for test, cases in cases_of(items).items() for item in drawn(cases, f"{seed} {test}")
    }


def drawn(cases: list[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Yield cases of one test until every stratum has one, and there are one in ``ONE_OF``."""
    shuffled = random.Random(seed).sample(cases, len(cases))
    least = math.ceil(len(cases) / ONE_OF)
    seen = set[Hashable]()
    spare = list[pytest.Item]()
    taken = 0

    for case in shuffled:
        strata = strata_of(case)
        if strata <= seen:
            spare.append(case)
            continue

        seen |= strata
        taken += 1
        yield case

    yield from spare[: max(0, least - taken)]


def strata_of(case: pytest.Item) -> set[Hashable]:
    """Return what a case stands for: its kinds, each beside its other parameters, its requirements.

    A parameter of another type than a word, a number or a flag is itself alone.
    """
    others: set[Hashable] = {
        (name, value if isinstance(value, str | int | None) else id(value))
        for name, value in parameters_of(case)
        if kind_of(value) is None
    }
    kinds = kinds_of(case)
    required: set[Hashable] = {one for mark in case.iter_markers("req") for one in mark.args}
    return {*kinds, *required, *((kind, other) for kind in kinds for other in others)}


def kinds_of(case: pytest.Item) -> set[Enum]:
    """Return the kinds of the faults that a case is of; empty where it is of none."""
    kinds = (kind_of(value) for _, value in parameters_of(case))
    return {kind for kind in kinds if kind is not None}


def kind_of(value: object) -> Enum | None:
    """Return the kind of an entry of the catalogue, or of the name of one; None of all else."""
    entry = catalogue().get(value) if isinstance(value, str) else value
    kind = getattr(entry, "kind", None)
    return kind if isinstance(kind, Enum) else None


@cache
def catalogue() -> dict[str, Any]:
    """Return the catalogue; a run of files that are not sampled does not wait for it."""
    from strictreply.testing.faults import CATALOGUE  # noqa: PLC0415 - see the docstring

    return dict(CATALOGUE)


def parameters_of(case: pytest.Item) -> list[tuple[str, object]]:
    """Return the parameters of a case, by name."""
    callspec = getattr(case, "callspec", None)
    return list(callspec.params.items()) if callspec else []
