"""The words of the command line: each command parses its options and hands them on."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from strictreply.cli._faults import faults
from strictreply.cli._probe import probe
from strictreply.cli._published import published_schemas
from strictreply.cli._terminal import fail
from strictreply.retry._policy import RetryPolicy
from strictreply.values._json import Channel

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Nothing a model writes reaches your code until it fits the contract.",
    epilog="Exit status: 0 fine, 1 invalid or failed, 2 wrong usage, 130 interrupted.",
)

BaseUrl = Annotated[
    str | None, typer.Option(envvar="OPENAI_BASE_URL", help="An OpenAI-compatible endpoint, ending in /v1.")
]
ApiKey = Annotated[
    str | None, typer.Option(envvar="OPENAI_API_KEY", show_envvar=True, help="Its key, where it needs one.")
]
Model = Annotated[str | None, typer.Option(help="The model's name; may be left out where a server has only one.")]
ChannelOption = Annotated[
    Channel, typer.Option(help="Where calls are written: native tool_calls, or JSON in the text.")
]
Retries = Annotated[int, typer.Option(min=0, help="Corrective asks after the first one.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds for one call.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
Seed = Annotated[int, typer.Option(help="Chooses the model's mistakes; the same seed makes the same ones.")]
FailureRate = Annotated[float, typer.Option(min=0, max=1, help="The share of first replies that are bad.")]


@app.command(short_help="Watch bad replies being judged, corrected or refused.")
def demo(
    *,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    seed: Seed = 7,
    failure_rate: FailureRate = 0.6,
    max_retries: Retries = 3,
    timeout: Timeout = 60.0,
) -> None:
    """Ask a dozen questions with four tools, and show each reply judged, corrected or refused.

    Without --base-url and --model the questions go to an unreliable model inside this program: no key, no network.
    """
    from strictreply.cli._demo import demo as run_demo  # noqa: PLC0415 - what only this command needs
    from strictreply.cli._endpoint import Endpoint  # noqa: PLC0415

    real = base_url is not None or model is not None
    endpoint = Endpoint(base_url, api_key, model, timeout) if real else None
    policy = RetryPolicy(max_retries=max_retries)
    run_demo(endpoint, channel=channel, seed=seed, failure_rate=failure_rate, policy=policy)


@app.command(short_help="Serve the demo's unreliable model on loopback.")
def serve_demo(*, port: Port = 8100, seed: Seed = 7, failure_rate: FailureRate = 0.6) -> None:
    """Serve the demo's unreliable model on loopback until Ctrl-C."""
    from strictreply.cli._demo import serve  # noqa: PLC0415

    serve(port, seed=seed, failure_rate=failure_rate)


@app.command(short_help="Make one call; the reply as JSON on stdout.")
def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    *,
    tools: Annotated[list[str] | None, typer.Option(help="module:attribute, or a .json file of definitions.")] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    parallel: Annotated[bool, typer.Option(help="Admit several calls in one reply.")] = False,
    max_retries: Retries = 3,
    deadline: Annotated[float | None, typer.Option(min=0.1, help="Seconds for all attempts together.")] = None,
    timeout: Timeout = 60.0,
    explain: Annotated[bool, typer.Option(help="On failure tell the whole story, raw replies included.")] = False,
) -> None:
    """Make one call; the reply as JSON on stdout, each attempt on stderr, status 1 when none was valid."""
    from strictreply.cli._ask import ask as run_ask  # noqa: PLC0415
    from strictreply.cli._endpoint import Endpoint, declare  # noqa: PLC0415

    run_ask(
        question,
        endpoint=Endpoint(base_url, api_key, model, timeout),
        contract=declare(tools or [], channel=channel, parallel=parallel),
        policy=RetryPolicy(max_retries=max_retries, deadline=deadline),
        explain=explain,
    )


@app.command(short_help="Judge recorded replies offline.")
def check(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="JSONL files, .gz too.")],
    *,
    tools: Annotated[list[str] | None, typer.Option(help="Tools for recordings that name none.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Judge recorded replies offline against their tools; status 1 when any is invalid or unreadable."""
    from strictreply.cli._check import check as run_check  # noqa: PLC0415
    from strictreply.cli._endpoint import declare  # noqa: PLC0415

    run_check(files, tools=list(declare(tools or []).tools), as_json=as_json)


@app.command(short_help="Print the JSON Schemas of what strictreply gives.")
def schema(name: Annotated[str | None, typer.Argument(help="One schema; all of them when not given.")] = None) -> None:
    """Print the JSON Schemas of replies, issues and attempts, for programs in any language."""
    schemas = published_schemas()
    if name is not None and name not in schemas:
        fail(f"no schema {name}; there are {', '.join(schemas)}")
    typer.echo(json.dumps(schemas if name is None else schemas[name], indent=2))


app.command(short_help="Run an app against every malformed reply.")(probe)
app.command(short_help="List the catalogue of malformed replies.")(faults)


def run() -> None:
    """Run the command; where the output cannot show a character, it is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
