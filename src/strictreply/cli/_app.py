"""The commands and their options; each command imports the module that does its work.

The help of a command is its docstring, or its ``help=`` if the help cannot begin with one short
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
    help="Pass a model's reply to your code only if it fits the contract.",
    epilog="Exit status: 0 success, 1 something was invalid, 2 wrong usage, 3 failed, "
    "130 interrupted, 141 the reader of the output closed the pipe.",
)

_CHAT_URL = "An OpenAI-compatible endpoint, ending in /v1; default: OPENAI_BASE_URL."
_CHAT_KEY = "The endpoint's key, if it needs one; default: OPENAI_API_KEY."
ChatUrl = Annotated[str | None, Option("--base-url", help=_CHAT_URL)]
ChatKey = Annotated[str | None, Option("--api-key", help=_CHAT_KEY)]
BaseUrl = Annotated[
    str | None,
    Option(
        help=f"{_CHAT_URL} With --api messages an endpoint of Anthropic's API, without /v1; "
        "default: ANTHROPIC_BASE_URL."
    ),
]
ApiKey = Annotated[
    str | None,
    Option(help=f"{_CHAT_KEY} With --api messages the default is ANTHROPIC_API_KEY."),
]
ApiOption = Annotated[
    Api, Option(help="The API to use: chat completions, Responses or Anthropic's Messages.")
]
Model = Annotated[
    str | None, Option(help="The model's name; optional if the endpoint serves only one.")
]
RequestOption = Annotated[
    str, Option(help="More parameters of each request, as JSON: '{\"temperature\": 0}'.")
]
ChannelOption = Annotated[
    Channel, Option(help="Where the model writes calls: in tool_calls, or as JSON in the text.")
]
Retries = Annotated[int, Option(min=0, help="How often an invalid reply is retried, at most.")]
Timeout = Annotated[float, Option(min=0.1, help="Seconds for one request.")]
Kinds = Annotated[
    list[str] | None, Option(help="Only faults of this kind; may be given several times.")
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
    """Handle the options before a command."""


@app.command(short_help="Watch bad replies being judged, corrected or refused.")
def demo() -> None:
    """Show a short program, and what happens to three invalid replies: no key, no network."""
    from strictreply.cli._demo import tell  # noqa: PLC0415 - what only this command needs

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
    short_help="Make one call and print the reply as JSON.",
    help="Make one call and print the reply as JSON.\n\n"
    "The reply goes to stdout, each attempt to stderr. The status is 1 if no reply was valid.",
)
def ask(  # noqa: PLR0913 - one parameter an option
    question: Annotated[str, Argument(help="The text of the user's message.")],
    *,
    tools: Annotated[
        list[str] | None,
        Option(
            help="Tools: module:attribute, or a .json file of definitions; may be given several "
            "times."
        ),
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
        bool, Option(help="If the call fails, print every attempt, raw replies included.")
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
    """A group of commands that runs ``run`` if its arguments name no command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before arguments that do not begin with a command of the group."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["run", *args]

        return super().parse_args(ctx, args)


batch = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Send a request for every row of a file; a run can be resumed.",
)
app.add_typer(batch, name="batch", short_help="Send a request for every row of a file.")


@batch.command(
    name="run",
    short_help="Send a request for every row of a file; the word run is optional.",
    help="Send a request for every row of a file and write one result per row.\n\n"
    "If a run ends early, run the same command again to continue.",
)
def run_rows(  # noqa: PLR0913 - one parameter an option
    source: Annotated[
        Path, Argument(metavar="IN.JSONL", help="The rows: JSON lines, also gzipped; - for stdin.")
    ],
    *,
    tools: Annotated[list[str] | None, Option(help="Tools, as for ask.")] = None,
    answer: Annotated[str | None, Option(help="The answer's type, as module:type.")] = None,
    out: Annotated[
        Path | None,
        Option(help="The results: a .jsonl or .parquet file; default: IN.results.jsonl."),
    ] = None,
    messages: Annotated[str, Option(help="The column with a row's text or messages.")] = "messages",
    prompt: Annotated[
        str | None,
        Option(help="Instead of --messages: a template with columns in braces, 'Sort {text}'."),
    ] = None,
    system: Annotated[str | None, Option(help="The system message of each request.")] = None,
    request: RequestOption = "{}",
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    api: ApiOption = "chat",
    parallel: Annotated[bool, Option(help="Allow several calls in one reply.")] = False,
    concurrency: Annotated[
        int, Option(min=1, help="Rows in flight at a time; fewer while the API is busy.")
    ] = 64,
    max_retries: Retries = 3,
    deadline: Annotated[
        float | None, Option(min=0.1, help="Seconds for all attempts of a row together.")
    ] = None,
    timeout: Timeout = 60.0,
    max_consecutive_failures: Annotated[
        int, Option(min=1, help="Stop after this many consecutive failed rows.")
    ] = 100,
    price_in: Annotated[
        float, Option(min=0, help="The price of a million prompt tokens, to show the cost.")
    ] = 0.0,
    price_out: Annotated[float, Option(min=0, help="The price of a million reply tokens.")] = 0.0,
    prefix: Annotated[str, Option(help="A prefix for the names of the result columns.")] = "",
    restart: Annotated[
        bool, Option("--restart", help="Delete the existing results and start again.")
    ] = False,
) -> None:
    """Send a request for every row of a file, and write one result per row."""
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
    short_help="Validate the output files of a provider's batch API.",
    help="Validate the output files of a provider's batch API, and write the requests to retry.\n\n"
    "Each reply is checked against the tools and the response_format of its own request. A retry "
    "keeps the id of its request. The status is 1 if a request has no valid reply yet, and 3 if a "
    "line cannot be read or belongs to no request.",
)
def validate_outputs(
    outputs: Annotated[
        list[Path], Argument(help="All output and error files so far, the first pass first.")
    ],
    *,
    requests: Annotated[
        list[Path], Option(help="The requests of the first pass; may be given several times.")
    ],
    out: Annotated[
        Path | None, Option(dir_okay=False, help="Write one result per request to this file.")
    ] = None,
    retry_file: Annotated[
        Path | None, Option(dir_okay=False, help="Write the next requests to this file.")
    ] = None,
    tools: Annotated[
        list[str] | None, Option(help="Tools, as for ask, if the requests have none.")
    ] = None,
    answer: Annotated[
        str | None,
        Option(help="The answer's type, as module:type, if the requests have none."),
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
    short_help="Measure which style of retry fixes a model's invalid replies.",
    help="Measure which style of retry fixes a model's invalid replies.\n\n"
    "Each row is sent once. An invalid reply is then retried once in each style. The report says "
    "how often each style gave a valid reply, with confidence intervals. If a run ends early, run "
    "the same command again to continue.\n\n"
    "A row is a JSON line with a text or messages, and optionally a task to group the counts by. "
    "The status is 3 if a call failed; the report is printed in any case.",
)
def measure(  # noqa: PLR0913 - one parameter an option
    source: Annotated[
        Path,
        Argument(metavar="ROWS.JSONL", help="The rows: JSON lines, also gzipped; - for stdin."),
    ],
    *,
    tools: Annotated[list[str] | None, Option(help="Tools, as for ask.")] = None,
    answer: Annotated[str | None, Option(help="The answer's type, as module:type.")] = None,
    styles: Annotated[
        str, Option(help="The styles to compare, separated by commas; default: all.")
    ] = "",
    plain: Annotated[
        bool, Option(help="Send response_format only in the style constrained.")
    ] = False,
    journal: Annotated[
        Path | None,
        Option(dir_okay=False, help="The file of raw responses; default: ROWS.measured.jsonl."),
    ] = None,
    seed: Annotated[
        int | None, Option(help="The seed of the first request; later requests count up from it.")
    ] = None,
    request: RequestOption = "{}",
    base_url: ChatUrl = None,
    api_key: ChatKey = None,
    model: Model = None,
    channel: ChannelOption = "native",
    concurrency: Annotated[int, Option(min=1, help="Rows in flight at a time.")] = 4,
    max_rows: Annotated[int | None, Option(min=1, help="Measure only this many rows.")] = None,
    max_seconds: Annotated[
        float | None, Option(min=0.1, help="Start no new row after this many seconds.")
    ] = None,
    timeout: Timeout = 60.0,
    as_json: Annotated[bool, Option("--json", help="Print everything as one JSON object.")] = False,
    html: Annotated[Path | None, Option(dir_okay=False, help="Also write an HTML page.")] = None,
) -> None:
    """Measure which style of retry fixes a model's invalid replies."""
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
    help="Validate recorded replies offline against their tools, and count them.\n\n"
    "The replies of a ledger count with the verdict that the ledger has. The status is 1 if a "
    "reply is invalid, and 3 if a line cannot be read.",
)
def check(
    files: Annotated[
        list[Path],
        Argument(help="JSONL files of recordings or ledgers, also gzipped; - for stdin."),
    ],
    *,
    tools: Annotated[
        list[str] | None,
        Option(help="Tools, as for ask, for recordings without tools; a ledger needs none."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print everything as one JSON object.")] = False,
    jobs: Annotated[
        int | None, Option(min=1, help="How many processes to use; default: one per processor.")
    ] = None,
    html: Annotated[Path | None, Option(dir_okay=False, help="Also write an HTML page.")] = None,
    fail_on: Annotated[
        Literal["empty"] | None, Option(help="empty: a file without replies is a failure, too.")
    ] = None,
) -> None:
    """Validate recorded replies offline against their tools."""
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
    name: Annotated[str | None, Argument(help="The name of one schema; default: all.")] = None,
) -> None:
    """Print the JSON Schemas of replies, issues and attempts, for programs in any language."""
    schemas = published_schemas()
    if name is not None and name not in schemas:
        fail(f"no schema {name}; the schemas are {', '.join(schemas)}")

    typer.echo(json.dumps(schemas if name is None else schemas[name], indent=2))


@app.command(
    name="lint",
    short_help="Show what providers reject or ignore in your schemas.",
    help="Show what providers reject, ignore and enforce in the schemas of your tools, and what to "
    "write instead.\n\n"
    "Nothing is sent. The status is 1 if a provider would reject a schema.",
)
def lint(
    tools: Annotated[
        list[str] | None,
        Argument(help="Tools: module:attribute, or a .json file of definitions."),
    ] = None,
    *,
    answer: Annotated[
        str | None, Option(help="Also the answer's schema: its type, as module:type.")
    ] = None,
    providers: Annotated[
        str | None,
        Option("--for", metavar="NAMES", help="Providers, separated by commas; default: all."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Show what providers reject, ignore and enforce in schemas."""
    from strictreply.cli._lint_command import run_lint  # noqa: PLC0415

    run_lint(tools or [], answer, providers, as_json=as_json)


@app.command(
    short_help="Run an app against every malformed reply.",
    help="Run an app once per malformed reply of the catalogue, and report what it did.\n\n"
    "The faults are made from the tools that the app's own requests declare, over chat "
    "completions, Responses or Anthropic's Messages. Nothing leaves this machine.\n\n"
    "The status is 1 if the app did not survive them all, and 3 if that cannot be determined.",
)
def probe(  # noqa: PLR0913 - one parameter an option
    *,
    app: Annotated[
        str | None,
        Option(help="The app: module:callable. It is called with the base URL if it takes one."),
    ] = None,
    endpoint: Annotated[
        str | None,
        Option(help="Instead of --app: the URL of a running service on loopback, to POST to."),
    ] = None,
    listen: Annotated[
        int | None,
        Option(min=1, max=65535, help="The port at which the service expects the model."),
    ] = None,
    body: Annotated[str, Option(help="The JSON to POST to the service.")] = "{}",
    tools: Annotated[
        list[str] | None,
        Option(help="Tools, as for ask, if only the app's prompt describes them."),
    ] = None,
    answer: Annotated[
        str | None,
        Option(help="The answer's type, as module:type, if only the app's prompt describes it."),
    ] = None,
    good: Annotated[
        str | None, Option(help="Arguments, or an answer, that the app accepts, as JSON.")
    ] = None,
    ran: Annotated[
        list[str] | None,
        Option(help="The function of the app that runs a call, if its name is not the tool's."),
    ] = None,
    kind: Kinds = None,
    fault: Annotated[
        list[str] | None, Option(help="Only this fault; may be given several times.")
    ] = None,
    clean: Annotated[
        list[str] | None,
        Option(help="module:Class of an exception that does not count as a crash."),
    ] = None,
    timeout: Annotated[
        float, Option(min=0.1, help="Seconds after which a run counts as hung.")
    ] = 10.0,
    max_requests: Annotated[
        int, Option(min=1, help="Requests after which a run counts as an endless loop.")
    ] = 64,
    jobs: Annotated[
        int, Option(min=1, max=64, help="Worker processes, each with a server of its own.")
    ] = 2,
    as_json: Annotated[
        Path | None, Option("--json", dir_okay=False, help="Write the report as JSON.")
    ] = None,
    junit: Annotated[
        Path | None, Option(dir_okay=False, help="Write the report as JUnit XML.")
    ] = None,
    html: Annotated[
        Path | None, Option(dir_okay=False, help="Write the report as an HTML page.")
    ] = None,
    baseline: Annotated[
        Path | None,
        Option(dir_okay=False, help="An earlier --json report: only new findings fail."),
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
    help="List the catalogue of malformed replies, or show one of them.\n\n"
    "--show prints the reply, and the issues that a strict contract reports. --for lists the "
    "replies that can be made of your tools.",
)
def faults(
    *,
    kind: Kinds = None,
    tools: Annotated[
        list[str] | None,
        Option(help="Tools, as for ask, from which --show makes the fault; default: a sample."),
    ] = None,
    show: Annotated[str | None, Option(metavar="NAME", help="Show one fault.")] = None,
    of_file: Annotated[
        list[str] | None,
        Option(
            "--for",
            metavar="FILE",
            help="List the faults of each tool: an OpenAPI document or tools as JSON, or "
            "module:attribute. Faults of the arguments, unless --kind names others.",
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
    """Run the command; end it if its output cannot be written."""
    with guarded_output():
        app()
