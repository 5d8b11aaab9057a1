"""What ``strictreply probe`` does and tells: an app under every malformed reply, live on stderr, the report after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from strictreply.cli._catalogue import kinds_of, named
from strictreply.cli._endpoint import load_tools
from strictreply.cli._live import Live
from strictreply.cli._terminal import Status, console, fail
from strictreply.testing._demands import Demand, Told
from strictreply.testing._probing.junit import junit_xml
from strictreply.testing._probing.outcomes import FINDINGS, Outcome, Report, Run
from strictreply.testing._probing.page import report_page
from strictreply.testing._probing.probe import Probe
from strictreply.testing._probing.report_json import report_json
from strictreply.testing._probing.subjects import Service, Worker
from strictreply.testing._probing.worker import Unusable
from strictreply.testing._steps import Kind
from strictreply.values._issues import printable, printable_lines
from strictreply.values._json import JSON

MAX_NAMED = 12
"""How many faults with one cause are named on the terminal."""

STYLES = {
    Outcome.ACCEPTED: "red",
    Outcome.CRASHED: "yellow",
    Outcome.HUNG: "magenta",
    Outcome.LEAKED: "magenta",
    Outcome.NOTHING: "blue",
    Outcome.CLEAN: "green",
}
_WRITERS: Mapping[str, Callable[[Report], str]] = {
    "json": lambda report: json.dumps(report_json(report), indent=2) + "\n",
    "junit": junit_xml,
    "html": report_page,
}


@dataclass(frozen=True, slots=True)
class Files:
    """Where the report goes besides the terminal, by format (``json``, ``junit``, ``html``)."""

    paths: Mapping[str, Path] = field(default_factory=dict[str, Path])

    def refuse_unwritable(self) -> None:
        """End the command before the work when a report could not be written after it."""
        for path in self.paths.values():
            if not path.absolute().parent.is_dir():
                fail(f"{path}: there is no folder {path.parent} to write it into")

    def write(self, report: Report) -> None:
        """Write every file."""
        for form, path in self.paths.items():
            try:
                path.write_text(_WRITERS[form](report), encoding="utf-8")
            except OSError as error:
                fail(f"{path}: {error.strerror}", Status.FAILED)


@dataclass(frozen=True, slots=True)
class Aim:
    """What is probed: an app by its callable, or by the address it is served at."""

    app: str | None
    endpoint: str | None
    listen: int | None
    body: str
    clean: tuple[str, ...]
    timeout: float
    jobs: int

    @property
    def name(self) -> str:
        """How the app is called in the report."""
        return self.app or self.endpoint or ""

    def probe(self, told: Told, kinds: Sequence[Kind], names: Sequence[str]) -> Probe:
        """Make the probe; ends the command when the options do not say what is to be probed."""
        if (self.app is None) == (self.endpoint is None):
            fail("give --app module:callable, or --endpoint of a running service")
        if self.app is not None and not all(map(str.strip, self.app.partition(":"))):
            fail(f"--app {self.app}: give module:callable")
        connect = self._service().start if self.app is None else partial(Worker.start, self.app, clean=self.clean)
        jobs = 1 if self.app is None else self.jobs
        return Probe(
            self.name,
            connect,
            told=told,
            kinds=kinds,
            names=names,
            timeout=self.timeout,
            jobs=jobs,
            port=self.listen or 0,
        )

    def _service(self) -> Service:
        """Read the options of a running service."""
        if self.listen is None:
            fail("--endpoint needs --listen PORT: the service's base URL must be http://127.0.0.1:PORT/v1")
        _read_json(self.body, "--body")
        try:
            return Service(self.endpoint or "", self.body.encode(), timeout=self.timeout)
        except ValueError as error:
            fail(f"--endpoint: {error}")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user says that no request does, and which faults are chosen."""

    tools: tuple[str, ...] = ()
    answer: str | None = None
    good: str | None = None
    kinds: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def told(self) -> Told:
        """Load what the options name."""
        return Told(
            tools=tuple(tool for source in self.tools for tool in load_tools(source)),
            answer=None if self.answer is None else load_tools(self.answer)[0],
            args=None if self.good is None else _read_json(self.good, "--good"),
        )


def survive(aim: Aim, choice: Choice, files: Files) -> None:
    """Probe an app and tell it; exits with 1 at findings, 2 when nothing could be tried, 130 after Ctrl-C."""
    prober = aim.probe(choice.told, kinds_of(choice.kinds), [named(name).name for name in choice.faults])
    files.refuse_unwritable()
    watcher = Watcher(console(stderr=True), aim.name)
    interrupted = False
    try:
        with watcher.progress:
            asyncio.run(prober.run(on_plan=watcher.planned, on_run=watcher.ran))
    except KeyboardInterrupt:
        interrupted = True
    except Unusable as unusable:
        typer.echo(printable_lines(f"strictreply: {aim.name}: {unusable}"), err=True)
        raise typer.Exit(Status.USAGE) from None
    report = prober.report()
    if report is not None:
        print_report(report, console())
        files.write(report)
    if interrupted:
        fail("interrupted: the report is of what was tried so far", Status.INTERRUPTED)
    if report is not None and not report.applicable:
        fail("none of the chosen faults can be served to this app: the report's n/a runs say why")
    if report is not None and report.findings:
        raise typer.Exit(Status.FAILED)


def _read_json(text: str, option: str) -> JSON:
    """Read an option's JSON."""
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{option} is not JSON: {error}")
    return value


class Watcher:
    """Tells on stderr what happens: a bar, and each new cause of findings as it is met."""

    def __init__(self, screen: Console, app: str) -> None:
        """Write to a console; the bar is for terminals only."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._screen = screen
        self._app = app
        self._task: TaskID | None = None
        self._met: set[tuple[Outcome, str]] = set()

    def planned(self, demand: Demand, runs: int) -> None:
        """Say what is about to be done."""
        self._screen.print(printable(f"{self._app} asks for {demand.words}; {runs} malformed replies to survive"))
        self._task = self.progress.add_task("tried", total=runs)

    def ran(self, run: Run) -> None:
        """Tell one run."""
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
        replies = "1 reply" if len(runs) == 1 else f"{len(runs)} replies"
        screen.print(
            Text(outcome.value, style=STYLES[outcome]).append(f" {replies}: {printable(detail)}", "bold default")
        )
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
    columns = (*FINDINGS, Outcome.NOTHING, Outcome.CLEAN, Outcome.NOT_APPLICABLE)
    for outcome in columns:
        title = outcome.value.replace("not_applicable", "n/a")
        table.add_column(title, footer=str(len(report.of(outcome))), justify="right")
    for kind in Kind:
        runs = [run for run in report.runs if run.kind is kind]
        numbers = [sum(run.outcome is outcome for run in runs) for outcome in columns]
        if runs:
            table.add_row(kind.value, *(_number(one, outcome) for one, outcome in zip(numbers, columns, strict=True)))
    return table


def _number(number: int, outcome: Outcome) -> Text:
    """Show one count, a zero faintly."""
    return Text(str(number), style=STYLES.get(outcome, "default") if number else "dim")
