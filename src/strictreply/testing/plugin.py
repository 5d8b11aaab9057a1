"""The pytest plugin: the fixtures ``llm``, ``llm_server`` and ``no_backoff``, and the mark ``malformed``.

It is loaded into every test run where strictreply is installed: nothing heavy is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from strictreply.testing._scripts import ScriptedModel
    from strictreply.testing._server import LoopbackServer

MARK = "malformed"
_SCRIPT = "llm_script"
_USED: pytest.StashKey[Any] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        "malformed(tools=[...], kinds=..., names=..., place=..., request=..., then=..., cassette=...): run the test "
        "once for each fault that can be made of the tools; `llm` serves the fault first and a good reply after it",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a marked test once per fault; several marks, also those of its class and module, add up."""
    marks = list(metafunc.definition.iter_markers(MARK))
    if not marks:
        return
    marked = f"{metafunc.definition.nodeid}: @pytest.mark.{MARK}"
    if _SCRIPT not in metafunc.fixturenames:
        pytest.fail(
            f"{marked} needs strictreply's fixture llm or llm_server; another fixture of that name hides it", False
        )
    if any(mark.args for mark in marks):
        pytest.fail(f"{marked} takes keywords: tools=[…]", False)
    from strictreply.testing._malformed import scripts_of  # noqa: PLC0415

    try:
        scripts = [script for mark in marks for script in scripts_of(**mark.kwargs)]
    except (OSError, TypeError, ValueError) as error:
        pytest.fail(f"{marked}: {error}", False)
    metafunc.parametrize(_SCRIPT, [pytest.param(script, id=script.id) for script in scripts], indirect=True)


@pytest.fixture
def llm_script(request: pytest.FixtureRequest) -> Any:
    """What the mark ``malformed`` scripts for this run of the test; None without the mark."""
    return getattr(request, "param", None)


@pytest.fixture
def llm(request: pytest.FixtureRequest, llm_script: Any) -> ScriptedModel:
    """A model that follows the script you give it with ``llm.script(…)``, and remembers what it was asked."""
    from strictreply.testing._scripts import ScriptedModel  # noqa: PLC0415

    model = ScriptedModel()
    if llm_script is not None:
        model.script(*llm_script.steps, then=llm_script.then)
    request.node.stash[_USED] = model
    return model


@pytest.fixture
def llm_server(llm: ScriptedModel) -> Iterator[LoopbackServer]:
    """The script of ``llm`` on a loopback server: point your app's base URL to ``llm_server.base_url``."""
    with llm.serve() as server:
        yield server


@pytest.fixture
def no_backoff() -> Iterator[None]:
    """Let retries come at once; see :func:`strictreply.testing.no_backoff`."""
    from strictreply.testing._waiting import no_backoff as at_once  # noqa: PLC0415

    with at_once():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the script, what was asked and a reproduction to the report of a test that failed.

    A test whose app had to be ended in an endless loop has failed, whatever became of the loop's end in the app.
    """
    report = yield
    model = item.stash.get(_USED, None)
    if model is not None and report.passed and call.when == "call" and model.looped:
        report.outcome = "failed"
        report.longrepr = f"an endless loop: the app asked {len(model.requests)} times, until it got HTTP 400"
    if model is not None and report.failed and call.when == "call":
        from strictreply.testing._malformed import retold  # noqa: PLC0415

        error = call.excinfo.value if call.excinfo else None
        report.sections.append(("strictreply", retold(model, error, item.nodeid)))
    return report
