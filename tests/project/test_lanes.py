"""The second SDK lane runs every test file that reaches an SDK.

It is found by what it imports and not by a list.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lanes import TESTS, is_for_one_lane, kills, touches_sdk


@pytest.mark.parametrize(
    ("source", "touches"),
    [
        ("import openai", True),
        ("from strictreply.testing import LoopbackServer", True),
        ("from support.scripted import Server", True),
        ("from streams.test_cut_streams import refused", True),
        ("from support.scripted import USER, Client", False),
        ("from support.running.loops import Loop", False),
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
