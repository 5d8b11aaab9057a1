"""The second SDK lane runs what reaches an SDK; ``make quick`` looks at every file.

What reaches an SDK is found by what it imports and not by a list.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import pytest

from support.lanes import TESTS, few_of, is_for_one_lane, kills, looked_at, touches_sdk


@pytest.mark.parametrize(
    ("source", "touches"),
    [
        ("import openai", True),
        ("from strictreply.testing import LoopbackServer", True),
        ("from support.scripted import Server", True),
        ("from streams.test_cut_streams import refused", True),
        ("from support.scripted import USER, Client", False),
        ("from support.loop.loops import Loop", False),
        ('EXAMPLES = ROOT / "examples"', True),
        ("import json\nfrom strictreply.values._limits import Limits", False),
        ("from support.pipeline.contexts import CONTEXT", False),
    ],
)
def test_a_file_is_found_by_what_it_imports(source: str, touches: bool, tmp_path: Path) -> None:
    """A new test file that uses the SDK itself or through a helper is on every lane; one that uses
    its fake is not.
    """
    path = tmp_path / "test_new.py"
    path.write_text(source, "utf-8")
    assert touches_sdk(path) is touches


ONE_OF_TWO = """
import pytest
from openai import OpenAI

@pytest.fixture
def client():
    return OpenAI(api_key="k")

def shown(value):
    return repr(value)

def asked():
    return shown(OpenAI)

def test_by_fixture(client): ...
def test_by_helper(): assert asked()
def test_beside(tmp_path): assert shown(None)
class TestMachine: client = OpenAI
"""


@pytest.mark.parametrize(
    ("name", "touches"),
    [
        ("test_by_fixture", True),
        ("test_by_helper", True),
        ("TestMachine", True),
        ("test_beside", False),
    ],
)
def test_a_test_is_found_by_what_it_uses(name: str, touches: bool, tmp_path: Path) -> None:
    """A test is on the lane when its fixtures, its helpers or it use the SDK, whatever its file
    imports for others.
    """
    path = tmp_path / "test_new.py"
    path.write_text(ONE_OF_TWO, "utf-8")
    assert touches_sdk(path, name) is touches


def test_the_lane_is_a_part_of_the_tests() -> None:
    """What reaches no SDK, a quarter of the files at least, is run once."""
    found = [touches_sdk(path) for path in TESTS.rglob("test_*.py")]
    assert found.count(True) > 0
    assert found.count(False) > len(found) / 4


@pytest.mark.one_lane
def test_what_is_marked_is_for_one_lane(request: pytest.FixtureRequest) -> None:
    """The mark says it."""
    assert is_for_one_lane(request.node)


def test_what_runs_another_pytest_is_for_one_lane(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> None:
    """The fixture says it."""
    assert is_for_one_lane(request.node)


@pytest.mark.parametrize(("name", "killing"), [("SIGKILL", True), ("SIGINT", False)])
def test_a_file_that_kills_is_for_one_lane(name: str, killing: bool, tmp_path: Path) -> None:
    """The name of the signal says it."""
    path = tmp_path / "test_new.py"
    path.write_text(f"os.kill(pid, signal.{name})", "utf-8")
    assert kills(path) is killing


FILES = {
    "test_quick.py": """
        import pytest

        @pytest.mark.parametrize("number", range(9))
        def test_of_cases(number): ...
        def test_alone(): ...
        @pytest.mark.slow
        def test_slow(): ...
        @pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.one_lane), 2])
        def test_of_a_slow_case(number): ...
    """,
    "test_slow.py": """
        import pytest

        pytestmark = pytest.mark.one_lane

        @pytest.mark.slow
        def test_first(): ...
        def test_second(): ...
        def test_third(): ...
    """,
    "test_slowest.py": """
        import pytest

        @pytest.mark.slow
        def test_first(): ...
    """,
}


@pytest.mark.parametrize("seed", [1, 2])
def test_quick_looks_at_every_file(pytester: pytest.Pytester, seed: int) -> None:
    """One case of each test that is not slow; where all are, one that is not marked so, or one."""
    for name, text in FILES.items():
        pytester.path.joinpath(name).write_text(textwrap.dedent(text), "utf-8")
    items, _ = pytester.inline_genitems(*FILES, "-W", "ignore")
    chosen = [item.nodeid for item in looked_at(items, seed)]

    assert chosen[:2] == ["test_slow.py::test_second", "test_slowest.py::test_first"]
    assert [one.partition("[")[0] for one in chosen[2:]] == [
        "test_quick.py::test_of_cases",
        "test_quick.py::test_alone",
        "test_quick.py::test_of_a_slow_case",
    ]
    assert chosen[-1].endswith("[2]")


@pytest.mark.parametrize("most", [1, 4])
def test_a_few_cases_of_each_test_are_drawn(pytester: pytest.Pytester, most: int) -> None:
    """No more of a test than are wanted, in their order, the same for the same seed."""
    pytester.path.joinpath("test_quick.py").write_text(textwrap.dedent(FILES["test_quick.py"]))
    items, _ = pytester.inline_genitems("test_quick.py", "-W", "ignore")
    chosen = few_of(items, most, 1)

    counts = Counter(item.nodeid.partition("[")[0].partition("::")[2] for item in chosen)
    assert counts == {
        "test_of_cases": most,
        "test_alone": 1,
        "test_slow": 1,
        "test_of_a_slow_case": min(most, 2),
    }
    assert chosen == [item for item in items if item in chosen] == few_of(items, most, 1)
