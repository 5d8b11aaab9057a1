"""``strictreply ask``, ``serve-demo`` and ``serve-script``: an endpoint that is called, and models on loopback."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from strictreply import CallFailed, Contract, ContractError, RetryPolicy, Tool, TransportFailed, wrap
from strictreply.cli._terminal import Live, Status, console, echo_json, fail, interruptible, refuse_broken
from strictreply.testing._control import EXAMPLE_SCRIPT, ScriptControl
from strictreply.testing._demands import DemandHints
from strictreply.testing._probing.survival_probe import GoodModel
from strictreply.testing._server import LoopbackServer
from strictreply.testing._wire import Responder
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel
from strictreply.values._issues import printable
from strictreply.values._replies import without_credentials
from strictreply.wires._wire import Api

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls go; None for options that were not given."""

    base_url: str | None = None
    api_key: str | None = None
    model: str | None = None
    timeout: float = 60.0

    @property
    def name(self) -> str:
        """The address of the endpoint, without a password."""
        return re.sub(r"(?<=://)[^/?#]*@", "", self.base_url or "the OpenAI API")

    def _refuse_options(self) -> None:
        """End the command at options that no client can be made of; only the public API demands a key."""
        if self.base_url is None and self.api_key is None:
            fail("set OPENAI_API_KEY, or pass --base-url (or OPENAI_BASE_URL) of a server that needs no key")
        if self.base_url is None and self.model is None:
            fail("pass --model")
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            fail(f"--base-url {self.name}: it must begin with http:// or https://")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            fail("the API key (--api-key or OPENAI_API_KEY) holds a character that no HTTP header can carry")
        refuse_broken(self.model or "", "--model")

    def connect(self) -> tuple[OpenAI, str]:
        """Make the SDK's client and choose the model."""
        from openai import OpenAI, OpenAIError  # noqa: PLC0415 - a second of import, for the commands that call

        self._refuse_options()
        try:
            client = OpenAI(**self._options())
        except Exception as error:  # noqa: BLE001 - the SDK's HTTP library, which may be one of two, reads the address
            fail(f"--base-url {self.name}: {error if self.name == self.base_url else type(error).__name__}")
        if self.model:
            return client, self.model
        try:
            served = [model.id for model in client.models.list()]
        except OpenAIError as error:
            fail(f"{self.name} did not list its models: {_said(error)}", Status.FAILED)
        if len(served) != 1:
            fail(f"pass --model; {self.name} serves {', '.join(served[:10]) or 'none'}")
        return client, served[0]

    def asynchronous(self) -> AsyncOpenAI:
        """Make the SDK's async client of an endpoint that :meth:`connect` has tried."""
        from openai import AsyncOpenAI  # noqa: PLC0415 - as in connect

        return AsyncOpenAI(**self._options())

    def _options(self) -> dict[str, Any]:
        key = self.api_key or "none"  # for a local server without a key: the SDK insists on one
        return {"base_url": self.base_url, "api_key": key, "timeout": self.timeout, "max_retries": 0}

    def told(self, error: TransportFailed) -> str:
        """Report in one line what became of the calls."""
        words = f": {_said(error.cause)}" if error.cause is not None else ""
        return f"{self.name}: {str(error).splitlines()[0]}{words}"


def _said(cause: BaseException) -> str:
    """Return what the server, or else the operating system, said, without credentials; at most 300 characters."""
    body = getattr(cause, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    if not isinstance(message, str) or not message:
        first = cause
        while first.__cause__ is not None:
            first = first.__cause__
        message = str(first) or type(first).__name__
    return without_credentials(message, cause)[:300]


def declare(sources: Sequence[str], **declared: Any) -> Contract:
    """Make the contract of the tools in ``sources``; a wrong declaration ends the command."""
    try:
        return Contract(tools=load_all(sources), **declared)
    except ContractError as error:
        fail(f"{'--tools' if sources else '--answer'}: {error}")


def declare_one(sources: Sequence[str], answer: str | None, **declared: Any) -> Contract:
    """Make the contract of tools, of an answer ``module:type``, or of both; neither ends the command."""
    if answer is None and not sources:
        fail("pass --tools or --answer: what a reply may be")
    kind = {} if answer is None else {"answer": load_tools(answer, "--answer")[0]}
    return declare(sources, **declared, **kind)


def load_all(sources: Sequence[str]) -> list[object]:
    """Load the tools of all ``--tools``, in their order."""
    return [tool for source in sources for tool in load_tools(source)]


def load_tools(source: str, option: str = "--tools") -> list[object]:
    """Load tools from ``module:attribute``, or a JSON file of one or several definitions of OpenAI or MCP."""
    if source.endswith(".json"):
        try:
            found = json.loads(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            # an OSError names the file again
            reason = error.strerror if isinstance(error, OSError) and error.strerror else f"not JSON: {error}"
            fail(f"{option} {source}: {reason}")
        found = found["tools"] if isinstance(found, dict) and isinstance(found.get("tools"), list) else found
    else:
        module, _, attribute = source.partition(":")
        if not module or not attribute:
            fail(f"{option} {source}: pass module:attribute, or a .json file of tool definitions")
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            found = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # noqa: BLE001 - the user's module may raise anything when it is imported
            fail(f"{option} {source}: {type(error).__name__}: {error}")
    return list(found) if isinstance(found, list | tuple) else [found]


def run_ask(text: str, *, endpoint: Endpoint, contract: Contract, policy: RetryPolicy, api: Api, explain: bool) -> None:
    """Ask once; prints the reply on stdout as ASCII JSON, each attempt on stderr, with ``explain`` all of a failure."""
    refuse_broken(text, "the question")
    with interruptible():
        client, model = endpoint.connect()
        strict = wrap(client, contract=contract, policy=policy, on_attempt=Live(console(stderr=True)), api=api)
        try:
            with strict:
                reply = strict.reply(model=model, messages=[{"role": "user", "content": text}])
        except CallFailed as error:
            if explain:
                typer.echo(error.explain(), err=True)
            if isinstance(error, TransportFailed):
                fail(endpoint.told(error), Status.FAILED)
            fail(f"{type(error).__name__}: {str(error).splitlines()[0]}", Status.INVALID)
    echo_json(reply.to_dict())


def run_serve_demo(port: int, *, seed: int, failure_rate: float) -> None:
    """Serve an unreliable model on loopback until Ctrl-C."""
    questions = "\n".join(f"  {question.text}" for question in SCENARIO.questions[:4])
    first = SCENARIO.questions[0]
    tool = next(tool for tool in map(Tool.of, SCENARIO.tools) if tool.name == first.calls[0].tool)
    messages = [{"role": "user", "content": first.text}]
    body = shlex.quote(json.dumps({"model": "unreliable-1", "messages": messages, "tools": [tool.definition]}))
    _serve(
        UnreliableModel(SCENARIO, seed=seed, failure_rate=failure_rate),
        lambda base_url: (
            f"An unreliable model is served at {base_url}; Ctrl-C ends it.\n"
            f"It knows these questions among others:\n{questions}\nAsk the first one:\n"
            f"curl -s {base_url}/chat/completions -H 'content-type: application/json' -d {body}"
        ),
        port=port,
    )


def run_serve_script(host: str, port: int) -> None:
    """Serve a model that is scripted over HTTP, until Ctrl-C."""
    _serve(
        GoodModel(DemandHints()),
        lambda base_url: (
            f"A scripted model is served at {base_url}; Ctrl-C ends it.\n"
            "It sends valid replies until a script is set:\n"
            f"curl -s {base_url}/script -d {shlex.quote(EXAMPLE_SCRIPT)}\n"
            "Read the requests since then:\n"
            f"curl -s {base_url}/journal"
        ),
        host=host,
        port=port,
        control=ScriptControl(),
    )


def _serve(responder: Responder, told: Callable[[str], str], **options: Any) -> None:
    """Bind, print what is ``told`` of the base URL, and serve until Ctrl-C; each request is a line on stderr."""
    port = options["port"]
    try:
        server = LoopbackServer(responder, log=lambda line: typer.echo(printable(line), err=True), **options)
    except ValueError as error:
        fail(f"--host: {error}")
    except OSError as error:
        fail(f"port {port} cannot be bound: {error.strerror}", Status.FAILED)
    with interruptible("stopped"):
        server.serve_forever(ready=lambda: typer.echo(told(server.base_url)))
