"""``strictreply faults`` and ``probe``: malformed replies, and an app under every one of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from strictreply import ContractError
from strictreply.cli._attempts import Live
from strictreply.cli._terminal import (
    Status,
    console,
    counted,
    echo_json,
    fail,
    read_json,
    titled_table,
)
from strictreply.core import JSON
from strictreply.core.text import printable, printable_lines
from strictreply.testing import Kind
from strictreply.testing.faults import CATALOGUE, Entry, Reading, entry_named
from strictreply.testing.probing import REPORT_FORMS, Probe
from strictreply.testing.specimens import specimen, specimens
from strictreply.testing.subjects import Connect, as_process, as_service
from strictreply.testing.survival import (
    FINDINGS,
    OUTCOMES,
    Baseline,
    Cause,
    ProbeRun,
    Report,
    Unusable,
)

MAX_SHOWN = 12  # places of one fault
MAX_NAMED = 12  # faults with one cause


def run_probe(
    app: str, prober: Probe, reports: Mapping[str, Path | None], baseline: Path | None
) -> None:
    """Probe an app, print the report, and write it to ``reports`` by format.

    With a ``baseline`` only the findings that it lacks are a failure; None has none.
    """
    known = None if baseline is None else _read_baseline(baseline, app)
    written = {form: path for form, path in reports.items() if path is not None}

    # before the work: what cannot be written after it
    for path in written.values():
        if not path.absolute().parent.is_dir():
            fail(f"{path}: the folder {path.parent} does not exist")

    watcher = Watcher(console(stderr=True), app)
    interrupted = False
    try:
        with watcher.progress:
            prober.run(on_plan=watcher.planned, on_run=watcher.ran)
    except KeyboardInterrupt:
        interrupted = True
    except Unusable as unusable:
        typer.echo(printable_lines(f"strictreply: {app}: {unusable}"), err=True)
        raise typer.Exit(Status.USAGE) from None

    report = prober.report()
    if report is not None:
        report = replace(report, baseline=known)
        _print_report(report, console())

        for form, path in written.items():
            try:
                path.write_text(REPORT_FORMS[form](report), encoding="utf-8")
            except OSError as error:
                fail(f"{path}: {error.strerror}", Status.FAILED)

    if interrupted or report is None:
        fail("interrupted: the report covers the runs so far", Status.INTERRUPTED)

    if not report.applicable:
        fail("none of the chosen faults can be served to this app: the report's n/a runs say why")

    if report.new:
        raise typer.Exit(Status.INVALID)
    if report.unknown:
        raise typer.Exit(Status.FAILED)


def _read_baseline(path: Path, name: str) -> Baseline:
    try:
        baseline = Baseline.read(path)
    except (OSError, ValueError) as error:
        fail(f"--baseline {path}: {error.strerror if isinstance(error, OSError) else error}")

    if baseline.app != name:
        words = f"--baseline {path} is of {printable(baseline.app)}, not of {name}"
        typer.echo(f"strictreply: {words}: is it the report you meant?", err=True)

    return baseline


def connection(
    app: str | None,
    clean: Sequence[str],
    address: str | None,
    *,
    body: str,
    timeout: float,
    port: int,
) -> Connect:
    """Choose how the app is started: as a worker, or not at all.

    It is not started where a service runs at an ``address``.
    """
    if (app is None) == (address is None):
        fail("pass either --app module:callable, or --endpoint of a running service")

    if app is not None:
        if not all(map(str.strip, app.partition(":"))):
            fail(f"--app {app}: pass module:callable")

        return as_process(app, clean)

    if not port:
        fail(
            "--endpoint needs --listen PORT: the service's base URL must be "
            "http://127.0.0.1:PORT/v1"
        )

    read_json(body, "--body")
    try:
        return as_service(address or "", body, timeout=timeout)
    except ValueError as error:
        fail(f"--endpoint: {error}")


class Watcher:
    """Shows on stderr what happens: a bar, and each new cause of findings as it is met."""

    def __init__(self, screen: Console, app: str) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.progress = Progress(
            *columns, console=screen, transient=True, disable=not screen.is_terminal
        )

        self._screen = screen
        self._app = app
        self._met: set[Cause] = set()

    def planned(self, asks: str, runs: int) -> None:
        """Print what is about to be done."""
        words = f"{self._app} asks for {asks}; {runs} malformed replies to survive"
        self._screen.print(printable(words))
        self.progress.add_task("tried", total=runs)

    def ran(self, run: ProbeRun) -> None:
        """Count one run, and print its cause when that is new."""
        self.progress.advance(self.progress.task_ids[0])
        if run.outcome in FINDINGS and run.cause not in self._met:
            self._met.add(run.cause)
            line = Text(f"  {run.outcome.value.ljust(9)}", style=OUTCOMES[run.outcome].style)
            self._screen.print(line.append(printable(f" {run.id}: {run.detail}"), style="default"))


def _print_report(report: Report, screen: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, show_footer=True)
    table.add_column("kind", footer="all")

    for outcome, words in OUTCOMES.items():
        table.add_column(words.title, footer=str(len(report.of(outcome))), justify="right")

    for kind in Kind:
        outcomes = Counter(run.outcome for run in report.runs if run.kind is kind)
        if not outcomes:
            continue

        cells = [
            Text(str(outcomes[one]), words.style if outcomes[one] else "dim")
            for one, words in OUTCOMES.items()
        ]
        table.add_row(kind.value, *cells)

    screen.print(table, "")
    _print_causes(report, screen)
    screen.print(Text(report.verdict, style="bold green" if report.survived else "bold red"))

    for detail in dict.fromkeys(run.detail for run in report.unknown):
        screen.print(printable(f"unknown: {detail}"))

    if report.applicable:
        screen.print(f"It recovered from {report.recovered}, once good replies followed.")

    if report.gone:
        findings = counted(len(report.gone), "finding is", "findings are")
        screen.print(f"Against the baseline {findings} gone.")


def _print_causes(report: Report, screen: Console) -> None:
    live = Live(screen)
    new = {run.source for run in report.new}

    for cause, runs in report.causes.items():
        fresh = sum(run.source in new for run in runs)
        compared = f", {fresh} new" if report.baseline is not None and fresh else ""
        title = f": {printable(cause.words)}: {counted(len(runs), 'reply', 'replies')}{compared}"
        head = Text(cause.harm.value, style=OUTCOMES[cause.outcome].style)
        screen.print(head.append(title, "bold default"))

        names = [run.id for run in runs[:MAX_NAMED]]
        if len(runs) > MAX_NAMED:
            names.append(f"and {len(runs) - MAX_NAMED} more")
        live.line("names", ", ".join(names))
        live.line("show", f"strictreply faults --show {runs[0].fault}")
        live.line("test", f"llm.script({runs[0].source})")

        screen.print()


def list_faults(kinds: Collection[Kind], *, as_json: bool) -> None:
    """Print the entries of some kinds, all of them when none are given."""
    entries = [entry for entry in CATALOGUE.values() if not kinds or entry.kind in kinds]

    if as_json:
        echo_json([entry.to_dict() for entry in entries])
        return

    everywhere = {place for entry in CATALOGUE.values() for place in entry.places}
    screen = console()
    for kind in Kind:
        table = titled_table(kind.value, "fault")
        table.add_column("issue code", overflow="fold")
        table.add_column("where", overflow="fold")
        table.add_column("what is wrong, and what is read of it by default", ratio=1)

        for entry in entries:
            if entry.kind is kind:
                is_anywhere = everywhere.issubset(entry.places)
                where = "any" if is_anywhere else " ".join(entry.places)
                table.add_row(entry.name, entry.code, where, _told(entry))

        if table.row_count:
            screen.print(table, "")

    screen.print(f"{len(entries)} faults; strictreply faults --show NAME shows what one looks like")


def _told(entry: Entry) -> str:
    """Tell what is wrong, and what is read of it by default where it is not simply refused."""
    return f"{entry.summary} By default: {entry.by_default}." if _is_read(entry) else entry.summary


def _is_read(entry: Entry) -> bool:
    """Report whether more is to be told of a fault than that it is refused with its code."""
    return entry.reading is not Reading.REFUSED or bool(entry.default_code)


def show_fault(name: str, tools: Sequence[object], *, as_json: bool) -> None:
    """Print what one fault serves, and what the strict contract says of it.

    It is made in every place of ``tools``, or in an example when there are none.
    """
    entry = named(name)
    try:
        found = list(specimens(entry, tools)) if tools else [specimen(entry)]
    except (ContractError, ValueError) as error:
        fail(f"--tools: {error}")

    if not found:
        fail(f"{name} cannot be made from these tools: {entry.summary}")

    if as_json:
        rows = [
            {
                "source": one.fault.source,
                "at": one.fault.at,
                "served": one.shown(),
                "issues": [issue.to_dict() for issue in one.issues or ()],
            }
            for one in found
        ]
        echo_json({**entry.to_dict(), "specimens": rows})
        return

    screen = console()
    live = Live(screen)
    screen.print(Text(name, style="bold"), f"({entry.kind.value}): {entry.summary}")
    if _is_read(entry):
        live.line("read", entry.by_default)

    for one in found[:MAX_SHOWN]:
        screen.print(f"\n{printable(one.fault.source)}", style="bold")
        live.line("reply", one.shown())

        if one.issues is None:
            live.line("issue", one.fault.code, "yellow")
        live.wrong(one.issues or (), cast("JSON", one.fault.served), "chat")

        if one.fault.needs:
            live.line("needs", f"a request with {json.dumps(dict(one.fault.needs))}")

    if len(found) > MAX_SHOWN:
        screen.print(f"\nand {len(found) - MAX_SHOWN} more places; --json gives all", style="dim")


def kinds_of(words: Sequence[str]) -> list[Kind]:
    """Read kinds of faults; end the command at a word that is not a kind."""
    if unknown := [word for word in words if word not in list(Kind)]:
        fail(f"no kind {unknown[0]}; the kinds are {', '.join(Kind)}")

    return [Kind(word) for word in words]


def named(name: str) -> Entry:
    """Find an entry; end the command with the nearest names when there is none."""
    try:
        return entry_named(name)
    except ValueError as error:
        fail(str(error))
