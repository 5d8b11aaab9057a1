"""What every test runs under."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from support.lanes import is_for_one_lane, is_quick, touches_sdk
from support.tasks import is_of_dbos, unretrieved

pytest_plugins = ["pytester"]

# No client of a test goes beyond loopback, so that none needs a certificate: to read the machine's
# takes an HTTP client 20 ms, and thousands of clients are made here and in the processes that tests
# start. What a folder holds is read only when a certificate is wanted.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# The same tree gives the same verdict on every machine: no deadline, no complaint about slow
# generation, no new dice.
settings.register_profile(
    "strictreply", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# Dice for the hunt: pytest --hypothesis-profile=explore
settings.register_profile(
    "explore", settings.get_profile("strictreply"), derandomize=False, max_examples=2_000
)
# A look at each property, for `make quick`.
settings.register_profile("quick", settings.get_profile("strictreply"), max_examples=10)
settings.load_profile("strictreply")

# Hypothesis also draws constants that it finds in the local modules loaded so far. Which modules
# are loaded depends on the tests that ran before, and which are local on the checkout's path, so
# that derandomize alone repeats nothing. Hypothesis has no setting for it;
# tests/project/test_reproducible.py fails when this line no longer works. Hypothesis does not export it
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
        "--quick",
        action="store_true",
        help="run no file that starts processes or servers, and no one_lane",
    )


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
    left_out = (config.getoption("sdk_only") and not touches_sdk(collection_path)) or (
        config.getoption("quick") and not is_quick(collection_path)
    )
    return True if left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what takes long and holds on every lane, when asked to."""
    if not config.getoption("sdk_only") and not config.getoption("quick"):
        return

    left_out = {item for item in items if is_for_one_lane(item)}

    if config.getoption("sdk_only"):
        # A test's function or class is the second part of its id: path::name[parameters]
        left_out |= {
            one
            for one in items
            if not touches_sdk(one.path, one.nodeid.split("::")[1].partition("[")[0])
        }

    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


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
