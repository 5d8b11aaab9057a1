"""The words of ``strictreply faults``."""

from __future__ import annotations

from typing import Annotated

import typer


def faults(
    *,
    kind: Annotated[
        list[str] | None, typer.Option(help="Faults of this kind only; may be given several times.")
    ] = None,
    tools: Annotated[list[str] | None, typer.Option(help="What --show makes the fault from, as for ask.")] = None,
    show: Annotated[str | None, typer.Option(metavar="NAME", help="Show what one fault serves.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the catalogue of malformed replies, or show what one of them looks like and what the strict gate says."""
    from strictreply.cli._catalogue import kinds_of, list_faults, show_fault  # noqa: PLC0415 - what only this needs
    from strictreply.cli._endpoint import load_tools  # noqa: PLC0415

    if show is None:
        list_faults(kinds_of(kind or []), as_json=as_json)
    else:
        show_fault(show, [tool for source in tools or [] for tool in load_tools(source)], as_json=as_json)
