"""The catalogue's laws run on a sample: every kind under every law, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from strictreply.testing.faults import CATALOGUE
from support.lanes import TESTS
from support.loops import some
from support.sampling import ONE_OF, drawn, sample, seed_of_tree, strata_of

DOORS = ("drop-in", "reply", "stream")
SEEDS = ("0", "1", "7743662")
SAMPLED_FILES = (
    "streams/test_stream_faults_refused.py",
    "testing/faults/test_readings.py",
    "testing/faults/test_reply_laws.py",
    "testing/faults/test_sample.py",
    "testing/faults/test_stream_faults.py",
    "testing/test_kit_over_responses.py",
)
KEPT = """
import pytest
from strictreply.testing.faults import CATALOGUE

pytestmark = pytest.mark.sampled

@pytest.mark.parametrize("name", CATALOGUE)
def test_of_a_fault(name): ...

@pytest.mark.parametrize("size", range(30))
def test_of_none(size): ...
"""


class Case:
    """A case as pytest collects it: its id, its parameters and its marks."""

    def __init__(self, test: str, *marks: pytest.Mark, **parameters: Any) -> None:
        """Name it by its parameters."""
        self.nodeid = f"{test}[{'-'.join(map(str, parameters.values()))}]"
        self.callspec = SimpleNamespace(params=parameters)
        self.marks = (pytest.mark.sampled.mark, *marks)

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        """Yield the marks of a name."""
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """Return the first of them."""
        return next(self.iter_markers(name), None)


def cases(test: str = "test_x.py::test_law") -> list[Any]:
    """The catalogue under one law, by each door, sync and async."""
    every = product(CATALOGUE.values(), DOORS, (False, True))
    return [Case(test, entry=entry, door=door, is_async=way) for entry, door, way in every]


def names_of(chosen: Iterable[Any]) -> set[str]:
    """The faults of some cases."""
    return {one.callspec.params["entry"].name for one in chosen}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_is_tried_in_every_way(seed: str) -> None:
    """Each kind of fault runs by each door, sync and async; one case in ten runs, or a few more."""
    every = cases()
    chosen: list[Any] = list(drawn(every, seed))
    kinds = {entry.kind for entry in CATALOGUE.values()}
    told = [one.callspec.params for one in chosen]
    tried = {(one["entry"].kind, one["door"]) for one in told}

    assert tried == set(product(kinds, DOORS))
    assert set().union(*map(strata_of, chosen)) == set().union(*map(strata_of, every))
    assert len(every) / ONE_OF <= len(chosen) <= len(every) / ONE_OF + 6 * len(kinds)
    assert len(set(chosen)) == len(chosen)


def test_the_seed_decides() -> None:
    """The same seed draws the same cases, another one others, and in the end every case is run."""
    every = cases()[: 20 * 2 * len(DOORS)]
    first, again, other = (set(drawn(every, seed)) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other

    assert set().union(*(drawn(every, str(seed)) for seed in range(100))) == set(every)


def test_every_law_is_tried() -> None:
    """Of each test something runs, drawn by itself."""
    laws = [f"test_x.py::test_{number}" for number in range(5)]
    chosen = sample([case for law in laws for case in cases(law)], 3)
    by_law = [names_of(one for one in chosen if law in one.nodeid) for law in some(laws)]
    assert all(by_law)
    assert by_law[0] != by_law[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_requirement_of_a_case_is_proved_in_every_run(seed: str) -> None:
    """A case that alone is marked with a requirement is in every sample."""
    required = pytest.mark.req("T1").mark
    marked: Any = Case("test_x.py::test_law", required, entry=next(iter(CATALOGUE.values())))
    assert marked in sample([*cases(), marked], int(seed))


def test_the_seed_is_of_the_commit() -> None:
    """Two processes on the same tree draw by the same seed."""
    assert seed_of_tree() == seed_of_tree()
    assert 0 <= seed_of_tree() < 16**6


def test_the_files_of_the_catalogue_are_sampled() -> None:
    """The files that try each fault under each law say so."""
    for name in SAMPLED_FILES:
        assert "pytest.mark.sampled" in (TESTS / name).read_text("utf-8"), name


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        (("--sample-seed=3",), True),
        (("--whole",), False),
        (("-k", "test_of_a_fault"), False),
    ],
)
def test_a_run_says_what_it_tried(
    pytester: pytest.Pytester, options: tuple[str, ...], left_out: bool
) -> None:
    """A run tells its seed and how many cases ran; whole or asked for by name, all of them do."""
    pytester.makepyfile(KEPT)
    result = pytester.runpytest_inprocess("-p", "support.sampling", "-p", "no:asyncio", *options)
    passed = result.parseoutcomes()["passed"]
    of_none = 0 if "-k" in options else 30
    tried = passed - of_none

    assert (tried < len(CATALOGUE) / 2) is left_out
    assert left_out or tried == len(CATALOGUE)
    said = "a sample, --sample-seed=3" if left_out else "every case"
    result.stdout.fnmatch_lines([f"catalogue x law: {said}: {tried:,} of {len(CATALOGUE):,} cases"])
