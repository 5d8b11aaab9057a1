"""The pytest plugin: three fixtures, and the mark ``malformed``.

The fixtures are ``llm``, ``llm_server`` and ``no_backoff``. pytest loads the plugin in every test
run where strictreply is installed, so nothing heavy is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from strictreply.testing._malformed import Malformed
    from strictreply.testing._malformed_summary import FailedRun, Fate
    from strictreply.testing._scripts import ScriptedModel
    from strictreply.testing._server import LoopbackServer

MARK = "malformed"
_SCRIPT = "llm_script"
# The attributes of a test's report that xdist transfers, as texts: the test, with "served" or an
# empty text; and for a failure the members of a FailedRun after the test's name.
_RAN = "strictreply_ran"
_FOUND = "strictreply_found"
_USED: pytest.StashKey[Any] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that reports every malformed reply separately."""
    parser.getgroup("strictreply").addoption(
        "--malformed",
        choices=["causes", "all"],
        default="causes",
        help="causes (the default): what an app might act on, "
        "and one failing test for each distinct cause; "
        "all: everything that can be wrong with a reply, each a test of its own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and the summary in the process that collects all workers' reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(config), "strictreply-summary")
    config.addinivalue_line(
        "markers",
        "malformed(tools=[...], kinds=..., names=..., place=..., request=..., then=...): "
        "run the test once for each fault that can be made of the tools; "
        "`llm` serves the fault first and a good reply after it",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a marked test once per fault.

    Several marks add up, also those of its class and module.
    """
    marks = list(metafunc.definition.iter_markers(MARK))
    if not marks:
        return

    marked = f"{metafunc.definition.nodeid}: @pytest.mark.{MARK}"
    if _SCRIPT not in metafunc.fixturenames:
        advice = "give the test the parameter llm or llm_server"
        if {"llm", "llm_server"} & {*metafunc.fixturenames}:
            advice = "another fixture of that name hides it"
        pytest.fail(f"{marked} needs strictreply's fixture llm or llm_server: {advice}", False)

    if any(mark.args for mark in marks):
        pytest.fail(f"{marked} takes keywords: tools=[…]", False)

    from strictreply.testing._malformed import scripts_of_mark  # noqa: PLC0415

    everything = metafunc.config.getoption("malformed") == "all"
    reason = ""
    made: list[list[Malformed]] = []
    try:
        made = [scripts_of_mark(mark.kwargs, everything=everything) for mark in marks]
    except (TypeError, ValueError) as error:
        reason = str(error)

    # outside of the except clause, because pytest prints both exceptions otherwise
    if reason:
        pytest.fail(f"{marked}: {reason}", False)

    scripts = [script for several in made for script in several]
    runs = [pytest.param(script, id=script.id) for script in scripts]
    metafunc.parametrize(_SCRIPT, runs, indirect=True)


@pytest.fixture
def llm_script(request: pytest.FixtureRequest) -> object:
    """The script of this run of a test with the mark ``malformed``; None without the mark."""
    return getattr(request, "param", None)


@pytest.fixture
def llm(request: pytest.FixtureRequest, llm_script: Any) -> ScriptedModel:
    """A model that follows the script you give it with ``llm.script(…)``.

    It records every request.
    """
    from strictreply.testing._scripts import ScriptedModel  # noqa: PLC0415

    model = ScriptedModel()
    if llm_script is not None:
        model.script(*llm_script.steps, then=llm_script.then)

    request.node.stash[_USED] = model
    return model


@pytest.fixture
def llm_server(llm: ScriptedModel) -> Iterator[LoopbackServer]:
    """A loopback server that serves the script of ``llm``.

    Point your app's base URL to ``llm_server.base_url``.
    """
    with llm.serve() as server:
        yield server


@pytest.fixture
def no_backoff() -> Iterator[None]:
    """Make retries without waiting; see :func:`strictreply.testing.no_backoff`."""
    from strictreply.testing._probing.client_verdicts import no_backoff as at_once  # noqa: PLC0415

    with at_once():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that passed, if its fault was never served or its app was in an endless loop.

    The app may have caught the error that ended the loop.
    """
    result = yield
    model, script = _used(item)
    if model is None:
        return result

    from strictreply.testing._malformed import untested  # noqa: PLC0415

    if reason := untested(model, None if script is None else script.fault):
        pytest.fail(reason, pytrace=False)

    if model.looped:
        asked = len(model.requests)
        words = f"an endless loop: the app asked {asked} times, until it got HTTP 400"
        pytest.fail(words, pytrace=False)

    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the script, the served reply, a reproduction and the cause to a failed test's report."""
    report = yield
    model, script = _used(item)
    if model is None or call.when != "call":
        return report

    if script is not None:
        served = "served" if model.was_served(script.fault) else ""
        vars(report)[_RAN] = [item.nodeid.partition("[")[0], served]

    if report.failed and call.excinfo:
        from strictreply.testing._malformed import FailureCause, retold  # noqa: PLC0415

        error = call.excinfo.value
        cause = FailureCause.of(model, error, None if script is None else script.fault)
        report.sections.append(("strictreply", retold(model, error, item.nodeid, cause)))

        if script is not None:
            found = [str(cause.kind), cause.key, cause.words]
            vars(report)[_FOUND] = [*found, script.fault.code, script.spoiled, script.tool]

    return report


def _used(item: pytest.Item) -> tuple[ScriptedModel | None, Any]:
    """Return the model of a test, and its script from the mark; None for what it does not have.

    A marked test that did not use ``llm`` has a model without requests.
    """
    model = item.stash.get(_USED, None)
    script = getattr(item, "funcargs", {}).get(_SCRIPT)
    if model is None and script is not None:
        from strictreply.testing._scripts import ScriptedModel  # noqa: PLC0415

        model = ScriptedModel()

    return model, script


class _Summary:
    """Sums up the runs of marked tests; reports one failure for each cause, and counts the others.

    Failures of a test have the same cause when one change would fix them; the first of them is the
    worst, and is reported. ``--malformed=all`` reports each failure.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._merges = config.getoption("malformed") == "causes"
        self._ran: list[tuple[str, Fate]] = []
        self._found: dict[str, list[str]] = {}
        self._first: dict[tuple[str, ...], FailedRun] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Turn a further failure of the same cause into a skipped test that names the first."""
        # a plugin that runs a failed test again reports the earlier run as "rerun"
        if (ran := vars(report).get(_RAN)) is not None and str(report.outcome) != "rerun":
            self._ran.append((ran[0], _fate_of(report, ran[1])))

        if report.failed and (found := vars(report).get(_FOUND)):
            from strictreply.testing._malformed_summary import FailedRun  # noqa: PLC0415

            self._found[report.nodeid] = found
            run = FailedRun(report.nodeid, *found)
            first = self._first.setdefault(run.cause, run)

            if self._merges and first is not run:
                path, line, _ = report.location
                report.outcome = "skipped"
                words = f"the same cause as for {first.spoiled}: {run.kind}"
                report.longrepr = (path, (line or 0) + 1, words)
                report.sections.clear()

        return (yield)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Count such a test separately."""
        if not report.skipped or _FOUND not in vars(report):
            return None

        from strictreply.testing._malformed_summary import NOT_SERVED  # noqa: PLC0415

        if vars(report)[_FOUND][0] == NOT_SERVED:
            return NOT_SERVED, "=", NOT_SERVED.upper()
        return "same cause", "=", "SAME CAUSE"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the number of runs, the causes of failures, and the command for the first one."""
        if not self._ran:
            return

        from strictreply.testing._malformed_summary import (  # noqa: PLC0415
            FailedRun,
            causes_of,
            summary,
            whole_report,
        )

        causes = causes_of(FailedRun(nodeid, *found) for nodeid, found in self._found.items())
        # for one failure the summary is complete, and running it again keeps the earlier report
        report = ""
        if len(self._found) > 1:
            now = datetime.now(UTC).astimezone()
            report = self._written(whole_report(causes, now))

        terminalreporter.section("malformed replies")
        for line in summary(self._ran, causes, report):
            terminalreporter.line(line)

    def _written(self, text: str) -> str:
        """Write the whole report into pytest's cache, and return its path.

        Return why it could not be written, or an empty text if there is no cache.
        """
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        if cache is None:
            return ""

        try:
            path = cache.mkdir("strictreply") / "malformed.txt"
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            return f"not written, because pytest's cache cannot be used: {error.strerror}"

        here = Path.cwd()
        return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _fate_of(report: pytest.TestReport, served: str) -> Fate:
    """Return how a run of a marked test ended."""
    from strictreply.testing._malformed_summary import Fate  # noqa: PLC0415

    if report.skipped:
        return Fate.EXPECTED if hasattr(report, "wasxfail") else Fate.SKIPPED
    if not served:
        return Fate.NOT_SERVED
    return Fate.SURVIVED if report.passed else Fate.FAILED
