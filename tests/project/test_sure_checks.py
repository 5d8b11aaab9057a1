"""No test passes because a loop found nothing to look at."""

from __future__ import annotations

import ast
import textwrap

import pytest

from support.sure_checks import TESTS, imported, unsure_tests

UNSURE = {
    "a loop": "for one in found(): assert one",
    "a loop over what a list comprehension leaves": "for one in [x for x in A if x]: assert one",
    "an inner loop": "for one in (1, 2):\n    for other in found(one): assert other",
    "a loop over no member": "for one in (): assert one",
    "a loop over members that are unpacked": "for one in (*found(),): assert one",
    "as long as": "while found(): assert one",
    "raises in a loop": "for one in found():\n    with pytest.raises(ValueError): one()",
    "a range that may be empty": "for one in range(len(found())): assert one",
    "all of nothing": "assert all(one for one in found())",
    "all of nothing, twice": "assert all(one for one in found()) and all([one for one in found()])",
    "a name that was given nothing": "found = []\nfor one in found: assert one",
    "a helper in a loop": "for one in found(): checked(one)",
    "a helper that has a loop": "looked(found())",
    "an inner function that nobody calls": "def inner():\n    assert True\nfound()",
    "a generator that may yield nothing": "for one in some_of(found()): assert one",
    "no check at all": "found()",
    "to look through what is there": "for one in some(found()): one()",
}
SURE = {
    "an assert": "assert found()",
    "beside a loop": "for one in found(): assert one\nassert found()",
    "behind a loop": "for one in found(): pass\nelse: assert found()",
    "some": "for one in some(found()): assert one",
    "some of some": "for one in some(A):\n    for other in some(one): assert other",
    "some, numbered": "for number, one in enumerate(some(found())): assert one",
    "members": "for one in (1, 2): assert one",
    "a range of numbers": "for one in range(3): assert one",
    "a name with members": "for one in A: assert one",
    "a mapping's items": "for one in {'a': 1}.items(): assert one",
    "forever": "while True:\n    assert found()\n    break",
    "raises": "with pytest.raises(ValueError): found()",
    "all of something": "assert all(one for one in some(found()))",
    "all, and another": "assert all(one for one in found()) and found()",
    "a helper": "checked(1)",
    "an inner function that is called": "def inner():\n    assert True\ninner()",
    "an inner function that is run": "async def main():\n    assert True\nasyncio.run(main())",
    "an inner function that a loop is given": "async def main(): assert True\nanyio.run(main)",
    "a generator that yields": "for one in two_of(1): assert one",
    "a name of pytest's": "found().assert_outcomes(passed=1)",
}
HELPERS = """
A = [1, 2]

def checked(one):
    assert one

def looked(many):
    for one in many:
        checked(one)

def some_of(many):
    for one in many:
        yield one

def two_of(one):
    yield one
    yield one
"""


def unsure(body: str) -> bool:
    """Return whether a test with this body is found."""
    test = f"def test_it():\n{textwrap.indent(body, '    ')}\n"
    found = unsure_tests(HELPERS + test)
    assert len(found) <= 1
    return bool(found)


@pytest.mark.parametrize("name", UNSURE)
def test_a_test_that_may_check_nothing_is_found(name: str) -> None:
    """Wherever its checks stand, if all of them are in loops over what may be empty."""
    assert unsure(UNSURE[name])


@pytest.mark.parametrize("name", SURE)
def test_a_test_that_checks_something_is_not(name: str) -> None:
    """One check that is always run is enough."""
    assert not unsure(SURE[name])


def test_every_test_checks_something() -> None:
    """None asserts only inside loops that may run over nothing, or not at all."""
    files = sorted(TESTS.rglob("test_*.py"))
    assert len(files) > 100

    sources = {path: path.read_text("utf-8") for path in files}
    found = {
        str(path.relative_to(TESTS)): unsure_tests(source, imported(ast.parse(source)))
        for path, source in sources.items()
    }
    assert {name: tests for name, tests in found.items() if tests} == {}
