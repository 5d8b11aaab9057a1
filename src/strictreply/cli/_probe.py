"""The words of ``strictreply probe``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def probe(  # noqa: PLR0913 - one parameter an option
    *,
    app: Annotated[str | None, typer.Option(help="module:callable, called with the base URL if it takes one.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Or a running HTTP service on loopback, to POST to.")] = None,
    listen: Annotated[int | None, typer.Option(min=1, max=65535, help="The port of the endpoint's base URL.")] = None,
    body: Annotated[str, typer.Option(help="The JSON that the endpoint is sent.")] = "{}",
    tools: Annotated[list[str] | None, typer.Option(help="Tools that only the prompt names, as for ask.")] = None,
    answer: Annotated[str | None, typer.Option(help="module:type of an answer that only the prompt tells.")] = None,
    good: Annotated[str | None, typer.Option(help="JSON: good arguments, or a good answer, to begin with.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Faults of this kind only; may be given several times.")
    ] = None,
    fault: Annotated[list[str] | None, typer.Option(help="This fault only; may be given several times.")] = None,
    clean: Annotated[list[str] | None, typer.Option(help="module:Class of an exception that is no crash.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which a run counts as hung.")] = 10.0,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Worker processes, each with a server of its own.")] = 2,
    as_json: Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Write the report as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(dir_okay=False, help="Write it as JUnit XML.")] = None,
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write it as a page for a person.")] = None,
) -> None:
    """Run an app once per malformed reply of the catalogue; status 1 when it did not survive them all.

    The faults are made from the tools that the app's own request declares. Nothing leaves this machine.
    """
    from strictreply.cli._survival import Aim, Choice, Files, survive  # noqa: PLC0415 - what only this command needs

    paths = {"json": as_json, "junit": junit, "html": html}
    survive(
        Aim(app, endpoint, listen, body, tuple(clean or ()), timeout, jobs),
        Choice(tuple(tools or ()), answer, good, tuple(kind or ()), tuple(fault or ())),
        Files({form: path for form, path in paths.items() if path is not None}),
    )
