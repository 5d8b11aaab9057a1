"""The commands and their options; what a command does is in the module that it imports.

The help of a command is its docstring, or its ``help=`` where that cannot begin with one short
line.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from strictreply import RetryPolicy
from strictreply.cli._published_schemas import published_schemas
from strictreply.cli._terminal import fail, guarded_output, read_json
from strictreply.core import Channel
from strictreply.wires import Api

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Nothing a model writes reaches your code until it fits the contract.",
    epilog="Exit status: 0 fine, 1 invalid, 2 wrong usage, 3 failed, 130 interrupted, 141 when "
    "the reader of its output left.",
)

BaseUrl = Annotated[
    str | None,
    Option(
        help="An OpenAI-compatible endpoint, ending in /v1 (or OPENAI_BASE_URL); of messages one "
        "of Anthropic's API, without /v1 (or ANTHROPIC_BASE_URL)."
    ),
]
ApiKey = Annotated[
    str | None,
    Option(help="Its key, where it needs one (or OPENAI_API_KEY; of messages ANTHROPIC_API_KEY)."),
]
ApiOption = Annotated[
    Api, Option(help="The API to use: chat completions, Responses or Anthropic's Messages.")
]
Model = Annotated[
    str | None, Option(help="The model's name; may be left out where a server has only one.")
]
RequestOption = Annotated[
    str, Option(help="More of each request, as JSON: '{\"temperature\": 0}'.")
]
ChannelOption = Annotated[
    Channel, Option(help="Where calls are written: native tool_calls, or JSON in the text.")
]
Retries = Annotated[int, Option(min=0, help="Corrections after the first request.")]
Timeout = Annotated[float, Option(min=0.1, help="Seconds for one call.")]
Kinds = Annotated[
    list[str] | None, Option(help="Faults of this kind only; may be given several times.")
]
Port = Annotated[int, Option(min=0, max=65535, help="The port; 0 takes a free one.")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"strictreply {metadata.version('strictreply')}")
        raise typer.Exit


Version = Annotated[
    bool, Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
]


@app.callback()
def options(*, version: Version = False) -> None:
    """Take what stands before a command."""


@app.command(short_help="Watch bad replies being judged, corrected or refused.")
def demo() -> None:
    """Show a short program, and what happens to three invalid replies: no key, no network."""
    from strictreply.cli._model_commands import tell  # noqa: PLC0415 - what only this command needs

    tell()


@app.command(
    short_help="Serve a script that is set over HTTP, on loopback.",
    help="Serve good replies on loopback until Ctrl-C, and what a test in any language asks for "
    "over HTTP: faults, and replies that it gives, which --reply serves from a file.",
)
def serve_script(
    *,
    host: Annotated[str, Option(help="An address of loopback.")] = "127.0.0.1",
    port: Port = 8101,
    reply: Annotated[
        list[Path] | None,
        Option(
            dir_okay=False,
            help="Serve what this file holds to the first request: the body of a response as "
            "JSON, a stream of events, or else the text of a message. May be given several times.",
        ),
    ] = None,
    status: Annotated[
        int | None, Option(min=200, max=599, help="The HTTP status of the given replies.")
    ] = None,
    script: Annotated[
        Path | None,
        Option(
            dir_okay=False,
            help="Or serve the script in this file: a step on each line, raw replies and lines "
            "that record() wrote among them, or one object as /script takes it.",
        ),
    ] = None,
) -> None:
    """Serve good replies on loopback until Ctrl-C, and the faults that a test asks for."""
    from strictreply.cli._model_commands import run_serve_script  # noqa: PLC0415

    run_serve_script(host, port, reply or [], status, script)


@app.command(
    short_help="Make one call; the reply as JSON on stdout.",
    help="Make one call; the reply as JSON on stdout, each attempt on stderr, status 1 when none "
    "was valid.",
)
def ask(  # noqa: PLR0913 - one parameter an option
    question: Annotated[str, Argument(help="What to ask.")],
    *,
    tools: Annotated[
        list[str] | None, Option(help="module:attribute, or a .json file of definitions.")
    ] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    api: ApiOption = "chat",
    parallel: Annotated[bool, Option(help="Allow several calls in one reply.")] = False,
    request: RequestOption = "{}",
    max_retries: Retries = 3,
    deadline: Annotated[
        float | None, Option(min=0.1, help="Seconds for all attempts together.")
    ] = None,
    timeout: Timeout = 60.0,
    explain: Annotated[
        bool, Option(help="On failure print every attempt, raw replies included.")
    ] = False,
) -> None:
    """Make one call; write the reply as JSON to stdout, and each attempt to stderr."""
    from strictreply.cli._declared import Endpoint, declare  # noqa: PLC0415
    from strictreply.cli._model_commands import run_ask  # noqa: PLC0415

    if not question.strip():
        fail("the question is empty")

    endpoint = Endpoint.of(api, base_url, api_key, model, timeout)
    run_ask(
        question,
        endpoint=endpoint,
        contract=declare(tools or [], channel=channel, parallel=parallel),
        policy=RetryPolicy(max_retries=max_retries, deadline=deadline),
        api=api,
        request=endpoint.request(request, ("model", "messages", "input", "tools", "stream")),
        explain=explain,
    )


class RunByDefault(TyperGroup):
    """A group of commands that is itself one: what names none of them is for ``run``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before arguments that do not begin with a command of the group."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]

        return super().parse_args(ctx, args)


batch = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Ask about every row of a file, resumably.",
)
app.add_typer(batch, name="batch", short_help="Ask about every row of a file.")


@batch.command(
    name="run",
    short_help="Ask about every row of a file; the word run may be left out.",
    help="Ask about every row of a file and write one result a row; the same command goes on after "
    "any end.",
)
def run_rows(  # noqa: PLR0913 - one parameter an option
    source: Annotated[
        Path, Argument(metavar="IN.JSONL", help="Rows as JSON lines, .gz too; - for stdin.")
    ],
    *,
    tools: Annotated[list[str] | None, Option(help="The tools, as for ask.")] = None,
    answer: Annotated[str | None, Option(help="module:type of the answer.")] = None,
    out: Annotated[
        Path | None, Option(help="Results: .jsonl or .parquet; IN.results.jsonl if not given.")
    ] = None,
    messages: Annotated[str, Option(help="The column with a row's text or messages.")] = "messages",
    prompt: Annotated[
        str | None, Option(help="Or a template with columns in braces: 'Sort {text}'.")
    ] = None,
    system: Annotated[str | None, Option(help="The system turn of each request.")] = None,
    request: RequestOption = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    api: ApiOption = "chat",
    parallel: Annotated[bool, Option(help="Allow several calls in one reply.")] = False,
    concurrency: Annotated[
        int, Option(min=1, help="Rows asked at once; fewer when the API is busy.")
    ] = 64,
    max_retries: Retries = 3,
    deadline: Annotated[
        float | None, Option(min=0.1, help="Seconds for all attempts of a row.")
    ] = None,
    timeout: Timeout = 60.0,
    max_consecutive_failures: Annotated[
        int, Option(min=1, help="Stop after so many consecutive failed rows.")
    ] = 100,
    price_in: Annotated[
        float, Option(min=0, help="What a million prompt tokens cost, to show the cost.")
    ] = 0.0,
    price_out: Annotated[float, Option(min=0, help="What a million tokens of replies cost.")] = 0.0,
    prefix: Annotated[str, Option(help="A prefix for the names of the result columns.")] = "",
    restart: Annotated[
        bool, Option("--restart", help="Delete the existing results and start again.")
    ] = False,
) -> None:
    """Ask about every row of a file, and write one result a row."""
    # what only this command needs
    from strictreply.batch import DEFAULT_POLICY  # noqa: PLC0415
    from strictreply.cli._batch_command import (  # noqa: PLC0415
        file_run,
        keywords_of,
        open_rows,
        run_batch,
    )
    from strictreply.cli._declared import Endpoint, declare_one  # noqa: PLC0415

    run = file_run(source, out, messages=messages, prompt=prompt, system=system, prefix=prefix)
    contract = declare_one(tools or [], answer, channel=channel, parallel=parallel)
    endpoint = Endpoint.of(api, base_url, api_key, model, timeout)
    keywords = keywords_of(endpoint, request)

    open_rows(run)
    client, served = endpoint.connect()
    client.close()

    ask = partial(
        run.ask,
        contract,
        model=served,
        client=endpoint.asynchronous,
        policy=replace(DEFAULT_POLICY, max_retries=max_retries, deadline=deadline),
        api=api,
        request=keywords,
        concurrency=concurrency,
        max_consecutive_failures=max_consecutive_failures,
        restart=restart,
    )
    run_batch(run, ask, prices=(price_in, price_out) if price_in or price_out else None)


@batch.command(
    name="validate",
    short_help="Validate a provider's batch files, pass after pass.",
    help="Validate the output files of a provider's batch, and write what is to be retried under "
    "the same ids.\n\n"
    "Each reply is checked against the tools and the response_format of its own request. "
    "Status 1 when a request has no good reply yet, 3 when a line cannot be read or is of no "
    "request.",
)
def validate_outputs(
    outputs: Annotated[
        list[Path], Argument(help="All output and error files so far, pass after pass.")
    ],
    *,
    requests: Annotated[
        list[Path], Option(help="The requests of the first pass; may be given several times.")
    ],
    out: Annotated[Path | None, Option(dir_okay=False, help="Write one result a request.")] = None,
    retry_file: Annotated[
        Path | None, Option(dir_okay=False, help="Write the requests of the next pass.")
    ] = None,
    tools: Annotated[list[str] | None, Option(help="The tools, if the requests have none.")] = None,
    answer: Annotated[
        str | None, Option(help="module:type of the answer, if the requests have none.")
    ] = None,
    max_retries: Retries = 3,
) -> None:
    """Validate the output files of a provider's batch, and write the requests of the next pass."""
    # what only this command needs
    from strictreply.cli._batch_command import run_validation  # noqa: PLC0415
    from strictreply.cli._declared import declare_one  # noqa: PLC0415

    contract = declare_one(tools or [], answer, parallel=True) if tools or answer else None
    run_validation(
        outputs,
        requests,
        out=out,
        retry_file=retry_file,
        contract=contract,
        policy=RetryPolicy(max_retries=max_retries),
    )


@app.command(
    short_help="Measure which way of asking again fixes a model's bad replies.",
    help="Ask about every row once, and for each bad reply once more in each style; print how "
    "often it helped, with intervals. The same command goes on after any end.\n\n"
    "A row is a JSON line with its text or messages, and a task to count by if it likes. Status 3 "
    "when a call failed; what was measured is printed all the same.",
)
def measure(  # noqa: PLR0913 - one parameter an option
    source: Annotated[
        Path, Argument(metavar="ROWS.JSONL", help="Rows as JSON lines, .gz too; - for stdin.")
    ],
    *,
    tools: Annotated[list[str] | None, Option(help="The tools, as for ask.")] = None,
    answer: Annotated[str | None, Option(help="module:type of the answer.")] = None,
    styles: Annotated[
        str, Option(help="Styles to compare, separated by commas; all when not given.")
    ] = "",
    plain: Annotated[
        bool, Option(help="Send no response_format, but in the style constrained.")
    ] = False,
    journal: Annotated[
        Path | None,
        Option(dir_okay=False, help="The raw responses; ROWS.measured.jsonl if not given."),
    ] = None,
    seed: Annotated[
        int | None, Option(help="The seed of the first request; it counts on from there.")
    ] = None,
    request: RequestOption = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    concurrency: Annotated[int, Option(min=1, help="Rows asked at once.")] = 4,
    max_rows: Annotated[int | None, Option(min=1, help="Measure only so many rows.")] = None,
    max_seconds: Annotated[
        float | None, Option(min=0.1, help="Begin no row after so many seconds.")
    ] = None,
    timeout: Timeout = 60.0,
    as_json: Annotated[bool, Option("--json", help="Print everything as one JSON object.")] = False,
    html: Annotated[Path | None, Option(dir_okay=False, help="Also write an HTML page.")] = None,
) -> None:
    """Measure which way of asking again fixes a model's bad replies."""
    # what only this command needs
    from strictreply.cli._declared import Endpoint, declaration  # noqa: PLC0415
    from strictreply.cli._measure_command import run_measure  # noqa: PLC0415

    endpoint = Endpoint.of("chat", base_url, api_key, model, timeout)
    settings = {
        "request": endpoint.request(request, ("model", "messages", "tools", "seed", "stream")),
        "plain": plain,
        "seed": seed,
        "channel": channel,
        "concurrency": concurrency,
        "max_rows": max_rows,
        "max_seconds": max_seconds,
        **declaration(tools or [], answer),
    }
    run_measure(
        source,
        endpoint,
        settings,
        styles=[name for name in styles.split(",") if name],
        journal=journal,
        as_json=as_json,
        page=html,
    )


@app.command(
    short_help="Validate recorded replies offline.",
    help="Judge recorded replies offline by their tools, and count what ledgers say of theirs; "
    "status 1 when any is invalid, 3 when any is unreadable.",
)
def check(
    files: Annotated[
        list[Path], Argument(help="JSONL files of recordings or a ledger, .gz too; - for stdin.")
    ],
    *,
    tools: Annotated[
        list[str] | None, Option(help="Tools for recordings that name none; a ledger needs none.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print everything as one JSON object.")] = False,
    jobs: Annotated[
        int | None, Option(min=1, help="Processes; one a processor when not given.")
    ] = None,
    html: Annotated[Path | None, Option(dir_okay=False, help="Also write an HTML page.")] = None,
    fail_on: Annotated[
        Literal["empty"] | None, Option(help="empty: a file without a reply is a failure, too.")
    ] = None,
) -> None:
    """Judge recorded replies offline against their tools."""
    from strictreply.cli._check_command import run_check  # noqa: PLC0415

    run_check(
        files,
        tools=tools or [],
        as_json=as_json,
        jobs=jobs or os.cpu_count() or 1,
        fail_on_empty=fail_on == "empty",
        page=html,
    )


@app.command(short_help="Print the published JSON Schemas.")
def schema(
    name: Annotated[str | None, Argument(help="One schema; all of them when not given.")] = None,
) -> None:
    """Print the JSON Schemas of replies, issues and attempts, for programs in any language."""
    schemas = published_schemas()
    if name is not None and name not in schemas:
        fail(f"no schema {name}; the schemas are {', '.join(schemas)}")

    typer.echo(json.dumps(schemas if name is None else schemas[name], indent=2))


@app.command(
    name="lint",
    short_help="Show what providers refuse or drop of your schemas.",
    help="Show what providers refuse, drop and enforce of your tools' schemas, and what to write "
    "instead; status 1 when one of them would be refused. Nothing is sent.",
)
def lint(
    tools: Annotated[
        list[str] | None,
        Argument(help="module:attribute, or a .json file of definitions; any number of them."),
    ] = None,
    *,
    answer: Annotated[str | None, Option(help="The answer too, as module:type.")] = None,
    providers: Annotated[
        str | None,
        Option("--for", metavar="NAMES", help="Providers, separated by commas; all by default."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Show what providers make of schemas."""
    from strictreply.cli._lint_command import run_lint  # noqa: PLC0415

    run_lint(tools or [], answer, providers, as_json=as_json)


@app.command(
    short_help="Run an app against every malformed reply.",
    help="Run an app once per malformed reply of the catalogue; status 1 when it did not survive "
    "them all, 3 when nobody can see whether it did.\n\n"
    "The faults are made from the tools that the app's own request declares, by chat completions, "
    "by Responses or by Anthropic's Messages. Nothing leaves this machine.",
)
def probe(  # noqa: PLR0913 - one parameter an option
    *,
    app: Annotated[
        str | None, Option(help="module:callable, called with the base URL if it takes one.")
    ] = None,
    endpoint: Annotated[
        str | None, Option(help="Or a running HTTP service on loopback, to POST to.")
    ] = None,
    listen: Annotated[
        int | None, Option(min=1, max=65535, help="The port of the endpoint's base URL.")
    ] = None,
    body: Annotated[str, Option(help="The JSON to send to the endpoint.")] = "{}",
    tools: Annotated[
        list[str] | None, Option(help="Tools that only the prompt names, as for ask.")
    ] = None,
    answer: Annotated[
        str | None, Option(help="module:type of an answer that only the prompt names.")
    ] = None,
    good: Annotated[str | None, Option(help="JSON: good arguments, or a good answer.")] = None,
    ran: Annotated[
        list[str] | None,
        Option(help="A function of the app that acts on a call, if not named as its tool."),
    ] = None,
    kind: Kinds = None,
    fault: Annotated[
        list[str] | None, Option(help="This fault only; may be given several times.")
    ] = None,
    clean: Annotated[
        list[str] | None, Option(help="module:Class of an exception that is not a crash.")
    ] = None,
    timeout: Annotated[
        float, Option(min=0.1, help="Seconds after which a run counts as hung.")
    ] = 10.0,
    max_requests: Annotated[
        int, Option(min=1, help="Requests after which a run is an endless loop.")
    ] = 64,
    jobs: Annotated[
        int, Option(min=1, max=64, help="Worker processes, each with a server of its own.")
    ] = 2,
    as_json: Annotated[
        Path | None, Option("--json", dir_okay=False, help="Write the report as JSON.")
    ] = None,
    junit: Annotated[Path | None, Option(dir_okay=False, help="Write it as JUnit XML.")] = None,
    html: Annotated[Path | None, Option(dir_okay=False, help="Write it as an HTML page.")] = None,
    baseline: Annotated[
        Path | None,
        Option(dir_okay=False, help="An earlier --json report: only what is new fails."),
    ] = None,
) -> None:
    """Run an app once per malformed reply of the catalogue."""
    # what only this command needs
    from strictreply.cli._declared import load_all, load_tools  # noqa: PLC0415
    from strictreply.cli._fault_commands import (  # noqa: PLC0415
        connection,
        kinds_of,
        named,
        run_probe,
    )
    from strictreply.testing.probing import Probe  # noqa: PLC0415

    subject = app or endpoint or ""
    prober = Probe(
        subject,
        connection(app, clean or [], endpoint, body=body, timeout=timeout, port=listen or 0),
        tools=load_all(tools or []),
        answer=None if answer is None else load_tools(answer, "--answer")[0],
        good=None if good is None else read_json(good, "--good"),
        kinds=kinds_of(kind or []),
        faults=[named(name).name for name in fault or []],
        handlers=ran or [],
        timeout=timeout,
        max_requests=max_requests,
        jobs=1 if app is None else jobs,
        port=listen or 0,
    )
    run_probe(subject, prober, {"json": as_json, "junit": junit, "html": html}, baseline)


@app.command(
    name="faults",
    short_help="List the catalogue of malformed replies.",
    help="List the catalogue of malformed replies, or show what one of them looks like and what "
    "the strict gate says; with --for, list those that can be made of your tools.",
)
def faults(
    *,
    kind: Kinds = None,
    tools: Annotated[
        list[str] | None, Option(help="What --show makes the fault from, as for ask.")
    ] = None,
    show: Annotated[str | None, Option(metavar="NAME", help="Show what one fault serves.")] = None,
    of_file: Annotated[
        list[str] | None,
        Option(
            "--for",
            metavar="FILE",
            help="List the faults of each tool: an OpenAPI document or tools as JSON, or "
            "module:attribute. Faults of the arguments, unless --kind says others.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            file_okay=False,
            help="With --for: write the faults of each tool as a script for serve-script here.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the catalogue of malformed replies, or show one of them."""
    # what only this command needs
    from strictreply.cli._declared import load_all, load_tools  # noqa: PLC0415
    from strictreply.cli._fault_commands import kinds_of, list_faults, show_fault  # noqa: PLC0415
    from strictreply.cli._tool_faults import list_tool_faults  # noqa: PLC0415

    if of_file and (show or tools):
        fail("--for lists the faults of tools; to show one of them pass --show NAME --tools FILE")
    if out is not None and not of_file:
        fail("--out needs --for FILE: the tools to make faults of")

    if of_file:
        found = [tool for source in of_file for tool in load_tools(source, "--for")]
        list_tool_faults(found, kinds_of(kind or []), out=out, as_json=as_json)
    elif show is None:
        list_faults(kinds_of(kind or []), as_json=as_json)
    else:
        show_fault(show, load_all(tools or []), as_json=as_json)


def run() -> None:
    """Run the command; where the output cannot be written, it ends."""
    with guarded_output():
        app()
