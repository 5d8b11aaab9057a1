"""What ``strictreply probe`` does and shows: an app under every malformed reply, live on stderr, the report after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from strictreply.cli._endpoint import load_tools
from strictreply.cli._faults_command import kinds_of, named
from strictreply.cli._terminal import Live, Status, console, counted, fail
from strictreply.testing._demands import Demand, DemandHints
from strictreply.testing._probing.probe_worker import Unusable
from strictreply.testing._probing.report_page import report_page
from strictreply.testing._probing.subjects import Connect, ProbeWorker, Service
from strictreply.testing._probing.survival_probe import Probe
from strictreply.testing._probing.survival_report import (
    FINDINGS,
    ProbeOutcome,
    ProbeRun,
    Report,
    junit_xml,
    report_json,
)
from strictreply.testing._steps import Kind
from strictreply.values._issues import printable, printable_lines
from strictreply.values._json import JSON

MAX_NAMED = 12
"""How many faults with one cause are named on the terminal."""

STYLES = {
    ProbeOutcome.ACCEPTED: "red",
    ProbeOutcome.CRASHED: "yellow",
    ProbeOutcome.HUNG: "magenta",
    ProbeOutcome.LEAKED: "magenta",
    ProbeOutcome.NOTHING: "blue",
    ProbeOutcome.CLEAN: "green",
}
_WRITERS: Mapping[str, Callable[[Report], str]] = {
    "json": lambda report: json.dumps(report_json(report), indent=2) + "\n",
    "junit": junit_xml,
    "html": report_page,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """The options of the command; ``reports`` are the files to write by format (``json``, ``junit``, ``html``)."""

    app: str | None
    endpoint: str | None
    listen: int | None
    body: str
    tools: list[str]
    answer: str | None
    good: str | None
    kinds: list[str]
    faults: list[str]
    clean: tuple[str, ...]
    timeout: float
    jobs: int
    reports: Mapping[str, Path]


def probe(options: ProbeOptions) -> None:
    """Probe an app and show the report; exits with 1 at findings, 2 when nothing could be tried, 130 after Ctrl-C."""
    name = options.app or options.endpoint or ""
    prober = _prober(name, options)
    for path in options.reports.values():  # before the work: what cannot be written after it
        if not path.absolute().parent.is_dir():
            fail(f"{path}: the folder {path.parent} does not exist")
    watcher = Watcher(console(stderr=True), name)
    interrupted = False
    try:
        with watcher.progress:
            asyncio.run(prober.run(on_plan=watcher.planned, on_run=watcher.ran))
    except KeyboardInterrupt:
        interrupted = True
    except Unusable as unusable:
        typer.echo(printable_lines(f"strictreply: {name}: {unusable}"), err=True)
        raise typer.Exit(Status.USAGE) from None
    report = prober.report()
    if report is not None:
        print_report(report, console())
        _write(report, options.reports)
    if interrupted:
        fail("interrupted: the report is of what was tried so far", Status.INTERRUPTED)
    if report is not None and not report.applicable:
        fail("none of the chosen faults can be served to this app: the report's n/a runs say why")
    if report is not None and report.findings:
        raise typer.Exit(Status.FAILED)


def _prober(name: str, options: ProbeOptions) -> Probe:
    """Make the probe; ends the command when the options do not say what is to be probed."""
    hints = DemandHints(
        tools=tuple(tool for source in options.tools for tool in load_tools(source)),
        answer=None if options.answer is None else load_tools(options.answer)[0],
        args=None if options.good is None else _read_json(options.good, "--good"),
    )
    kinds, names = kinds_of(options.kinds), [named(fault).name for fault in options.faults]
    if (options.app is None) == (options.endpoint is None):
        fail("pass either --app module:callable, or --endpoint of a running service")
    if options.app is not None and not all(map(str.strip, options.app.partition(":"))):
        fail(f"--app {options.app}: pass module:callable")
    connect: Connect
    if options.app is None:
        connect = _service(options).start
    else:
        connect = partial(ProbeWorker.start, options.app, clean=options.clean)
    jobs = 1 if options.app is None else options.jobs
    port = options.listen or 0
    return Probe(name, connect, hints=hints, kinds=kinds, names=names, timeout=options.timeout, jobs=jobs, port=port)


def _service(options: ProbeOptions) -> Service:
    if options.listen is None:
        fail("--endpoint needs --listen PORT: the service's base URL must be http://127.0.0.1:PORT/v1")
    _read_json(options.body, "--body")
    try:
        return Service(options.endpoint or "", options.body.encode(), timeout=options.timeout)
    except ValueError as error:
        fail(f"--endpoint: {error}")


def _read_json(text: str, option: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{option} is not JSON: {error}")
    return value


def _write(report: Report, paths: Mapping[str, Path]) -> None:
    for form, path in paths.items():
        try:
            path.write_text(_WRITERS[form](report), encoding="utf-8")
        except OSError as error:
            fail(f"{path}: {error.strerror}", Status.FAILED)


class Watcher:
    """Shows on stderr what happens: a bar, and each new cause of findings as it is met."""

    def __init__(self, screen: Console, app: str) -> None:
        """Write to a console; the bar is for terminals only."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._screen = screen
        self._app = app
        self._task: TaskID | None = None
        self._met: set[tuple[ProbeOutcome, str]] = set()

    def planned(self, demand: Demand, runs: int) -> None:
        """Print what is about to be done."""
        self._screen.print(printable(f"{self._app} asks for {demand.words}; {runs} malformed replies to survive"))
        self._task = self.progress.add_task("tried", total=runs)

    def ran(self, run: ProbeRun) -> None:
        """Count one run, and print its cause when that is new."""
        if self._task is not None:
            self.progress.advance(self._task)
        cause = run.outcome, run.detail
        if run.outcome in FINDINGS and cause not in self._met:
            self._met.add(cause)
            line = Text(f"  {run.outcome.value.ljust(9)}", style=STYLES[run.outcome])
            self._screen.print(line.append(printable(f" {run.id}: {run.detail}"), style="default"))


def print_report(report: Report, screen: Console) -> None:
    """Print the counts, the findings by cause, and the verdict."""
    screen.print(_counts(report), "")
    for (outcome, detail), runs in report.causes.items():
        title = f" {counted(len(runs), 'reply', 'replies')}: {printable(detail)}"
        screen.print(Text(outcome.value, style=STYLES[outcome]).append(title, "bold default"))
        names = [run.id for run in runs[:MAX_NAMED]]
        more = [f"and {len(runs) - MAX_NAMED} more"] if len(runs) > MAX_NAMED else []
        live = Live(screen)
        live.line("by", ", ".join(names + more))
        live.line("look", f"strictreply faults --show {runs[0].fault}")
        live.line("test", f"llm.script({runs[0].source})")
        screen.print()
    screen.print(Text(report.verdict, style="bold green" if report.survived else "bold red"))
    if report.applicable:
        screen.print(f"It recovered from {report.recovered}, once good replies followed.")


def _counts(report: Report) -> Table:
    """Lay out the outcomes by kind of fault."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, show_footer=True)
    table.add_column("kind", footer="all")
    columns = (*FINDINGS, ProbeOutcome.NOTHING, ProbeOutcome.CLEAN, ProbeOutcome.NOT_APPLICABLE)
    for outcome in columns:
        title = outcome.value.replace("not_applicable", "n/a")
        table.add_column(title, footer=str(len(report.of(outcome))), justify="right")
    for kind in Kind:
        runs = [run for run in report.runs if run.kind is kind]
        numbers = {outcome: sum(run.outcome is outcome for run in runs) for outcome in columns}
        cells = [Text(str(n), style=STYLES.get(outcome, "default") if n else "dim") for outcome, n in numbers.items()]
        if runs:
            table.add_row(kind.value, *cells)
    return table
