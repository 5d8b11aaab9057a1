"""``strictreply lint``: report what providers do with a program's schemas."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich import box
from rich.table import Table

from strictreply import ContractError, LintReport, Severity, lint
from strictreply.cli._declared import load_all, load_tools
from strictreply.cli._terminal import Status, console, echo_json, fail
from strictreply.core.text import printable

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: ""}


def run_lint(
    sources: Sequence[str], answer: str | None, providers: str | None, *, as_json: bool
) -> None:
    """Print what ``providers``, separated by commas, do with the schemas of tools and an answer.

    None for the providers means all of them. The status is ``Status.INVALID`` if a provider would
    reject a schema.
    """
    if not sources and answer is None:
        fail("pass tools or --answer, to say which schemas to report on")

    report = _report(sources, answer, providers)
    if as_json:
        echo_json(report.to_dict())
    else:
        _print(report)

    if not report.ok:
        raise typer.Exit(Status.INVALID)


def _report(sources: Sequence[str], answer: str | None, providers: str | None) -> LintReport:
    tools = load_all(sources)
    kind = str if answer is None else load_tools(answer, "--answer")[0]
    names = None if providers is None else [name.strip() for name in providers.split(",")]

    try:
        return lint(tools, answer=kind, providers=names)  # type: ignore[arg-type] # it says which
    except ContractError as error:
        fail(str(error))


def _print(report: LintReport) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("severity", "provider", "finding"):
        table.add_column(name, overflow="fold")

    for finding in report.findings:
        what = printable(f"{finding.place}: {finding.message}")
        instead = printable(f"instead: {finding.instead}")
        words = (finding.severity.value, finding.provider or "all", f"{what}\n{instead}")
        table.add_row(*words, style=_STYLES[finding.severity])

    screen = console()
    screen.print(table)
    screen.print(f"\n{report.summary}")
