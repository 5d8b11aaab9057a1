"""What every test runs under."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers

from support.lanes import few_of, is_for_one_lane, looked_at, touches_sdk
from support.tasks import is_of_dbos, unretrieved

pytest_plugins = ["pytester", "support.effort", "support.sampling"]

# No client of a test goes beyond loopback, so that none needs a certificate: to read the machine's
# takes an HTTP client 20 ms, and thousands of clients are made here and in the processes that tests
# start. What a folder holds is read only when a certificate is wanted.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# Hypothesis also draws constants that it finds in the local modules loaded so far. Which modules
# are loaded depends on the tests that ran before, and which are local on the checkout's path, so
# that derandomize alone repeats nothing. Hypothesis has no setting for it, and does not export it;
# tests/project/test_reproducible.py fails when this line no longer works.
setattr(providers, "is_local_module_file", lambda _path: False)  # noqa: B010


@pytest.fixture(scope="session")
def imported() -> None:
    """Import what inner pytest sessions in this process need.

    Pytester forgets what these sessions imported themselves.
    """
    for name in (
        "openai.resources.chat.completions",
        "strictreply.testing._malformed",
        "strictreply.testing.mounting",
    ):
        import_module(name)

    # A class that is imported twice is two classes.
    for name in ("strictreply.client", "strictreply.retry._policy"):
        import_module(name)


@pytest.fixture
def pytester(
    imported: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.Pytester]:
    """Run inner pytest sessions without the plugins that no such test is about.

    These plugins take seconds to load. What other tests left is not collected meanwhile: a
    traceback that is written amid ``ast.parse``, of an unraisable exception say, breaks the parser
    of CPython 3.11, and the inner pytest parses what it imports.
    """
    monkeypatch.setenv(
        "PYTEST_ADDOPTS", "-p no:langsmith_plugin -p no:hypothesispytest -p no:respx"
    )
    gc.disable()
    yield pytester
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose a part of the tests."""
    parser.addoption(
        "--sdk-only",
        action="store_true",
        help="run what reaches an SDK, and no test marked one_lane",
    )
    parser.addoption(
        "--cases",
        type=int,
        metavar="MOST",
        help="run at most so many cases of each test, drawn by the seed; with --whole all",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="run one case of each test that is not slow, and one of each file",
    )


@pytest.fixture
def fresh_heap() -> None:
    """Look for garbage only among what the test itself makes: all that was there before is much."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected.

    What was there then is not looked at later either: it stays to the end, and it is much.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over the test files that were not asked for."""
    if not collection_path.match("test_*.py"):
        return None
    left_out = config.getoption("sdk_only") and not touches_sdk(collection_path)
    return True if left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what was not asked for, when a part of the tests was."""
    chosen = list(items)

    if config.getoption("sdk_only"):
        # A test's function or class is the second part of its id: path::name[parameters]
        chosen = [
            one
            for one in chosen
            if not is_for_one_lane(one)
            and touches_sdk(one.path, one.nodeid.split("::")[1].partition("[")[0])
        ]
    if (most := config.getoption("cases")) and not config.getoption("whole"):
        chosen = few_of(chosen, most, config.option.sample_seed)
    if config.getoption("quick"):
        chosen = looked_at(chosen, config.option.sample_seed)

    config.hook.pytest_deselected(items=[*{*items} - {*chosen}])
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail the test that leaves a Task with an exception: who would be told of it is a later one.

    Ctrl-C and SystemExit went out of the event loop to whoever ran it; asyncio keeps them all the
    same.
    """
    yield
    ours = (task for task in unretrieved() if not is_of_dbos(task))
    if left := [task for task in ours if isinstance(task.exception(), Exception)]:
        pytest.fail(f"nobody asked for the exceptions of these Tasks: {left}")
