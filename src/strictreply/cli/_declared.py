"""Read what the options of a command declare: an endpoint, tools and answers."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self

import typer

from strictreply import Contract, ContractError, TransportFailed
from strictreply.cli._openapi import OpenAPIError, is_openapi, tools_of_openapi
from strictreply.cli._terminal import Status, fail, read_json, refuse_broken
from strictreply.core import JSONObject
from strictreply.core.calls import without_credentials
from strictreply.core.forms import peek
from strictreply.core.text import printable
from strictreply.integrations import load
from strictreply.wires import Api


@dataclass(frozen=True, slots=True)
class Provider:
    """The client library of an API, and the public API that it calls by default."""

    package: str
    """The library's package; in capitals it is the prefix of its environment variables."""
    client: str
    """The class of the sync client; the async client's class has the prefix ``Async``."""
    error: str
    """The base class of the library's exceptions."""
    name: str
    """The name of the public API in messages."""
    demanded: Mapping[str, Any]
    """Parameters that the API requires in each request in addition to model and messages."""
    token: str = ""
    """The environment variable of a token that the library reads by itself; empty for none."""

    @property
    def library(self) -> ModuleType:
        """The library; the command ends if it is not installed."""
        try:
            return load(self.package)
        except ImportError as error:
            fail(str(error))

    def variable(self, name: str) -> str:
        """Return the name of an environment variable of the library."""
        return f"{self.package.upper()}_{name}"


_OPENAI: Final = Provider("openai", "OpenAI", "OpenAIError", "the OpenAI API", {})
_ANTHROPIC: Final = Provider(
    "anthropic",
    "Anthropic",
    "AnthropicError",
    "the Anthropic API",
    {"max_tokens": 4096},
    "ANTHROPIC_AUTH_TOKEN",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server that a command calls; None for an option that was not given."""

    base_url: str | None = None
    """The address of the server."""
    api_key: str | None = None
    """The server's key."""
    model: str | None = None
    """The name of the model."""
    timeout: float = 60.0
    """Seconds for one request."""
    provider: Provider = _OPENAI
    """The client library."""

    @classmethod
    def of(
        cls, api: Api, base_url: str | None, api_key: str | None, model: str | None, timeout: float
    ) -> Self:
        """Return an API's endpoint, from the options or else the library's variables."""
        provider = _ANTHROPIC if api == "messages" else _OPENAI
        return cls(
            base_url or os.environ.get(provider.variable("BASE_URL")) or None,
            api_key or os.environ.get(provider.variable("API_KEY")) or None,
            model,
            timeout,
            provider,
        )

    @property
    def name(self) -> str:
        """The address of the endpoint, without a password."""
        return re.sub(r"(?<=://)[^/?#]*@", "", self.base_url or self.provider.name)

    @property
    def _has_token(self) -> bool:
        """Whether the library finds a token by itself."""
        return bool(os.environ.get(self.provider.token))

    def _refuse_options(self) -> None:
        """End the command if no client can be made from the options.

        Only the public API requires a key.
        """
        key = self.provider.variable("API_KEY")
        if self.base_url is None and self.api_key is None and not self._has_token:
            fail(
                f"set {key}; for a server that needs no key pass --base-url, or set "
                f"{self.provider.variable('BASE_URL')}"
            )

        if self.base_url is None and self.model is None:
            fail("pass --model")

        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            fail(f"--base-url {self.name}: it must begin with http:// or https://")

        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            fail(
                f"the API key (--api-key or {key}) has a character that an HTTP header cannot have"
            )

        refuse_broken(self.model or "", "--model")

    def connect(self) -> tuple[Any, str]:
        """Make the SDK's client and choose the model."""
        self._refuse_options()
        # its import takes a second, so only the commands that call pay it
        library = self.provider.library

        try:
            client = getattr(library, self.provider.client)(**self._options())
        except Exception as error:  # noqa: BLE001
            # the SDK's HTTP library reads the address; which library that is depends on the SDK
            reason = str(error) if self.name == self.base_url else type(error).__name__
            fail(f"--base-url {self.name}: {reason}")

        if self.model:
            return client, self.model

        try:
            served = [model.id for model in client.models.list()]
        except getattr(library, self.provider.error) as error:
            fail(f"{self.name} did not list its models: {_said(error)}", Status.FAILED)

        if len(served) != 1:
            fail(f"pass --model; {self.name} serves {', '.join(served[:10]) or 'no models'}")

        return client, served[0]

    def asynchronous(self) -> object:
        """Make the SDK's async client, after :meth:`connect` has checked the options."""
        make = getattr(self.provider.library, f"Async{self.provider.client}")
        return make(**self._options())

    def request(self, more: str, taken: Sequence[str]) -> JSONObject:
        """Read ``--request``, and add the parameters that the API requires.

        The command ends if it is not a JSON object, or has a parameter in ``taken``.
        """
        value = read_json(more, "--request")
        if not isinstance(value, dict):
            fail("--request is not a JSON object")

        if already := value.keys() & set(taken):
            fail(f"--request: {min(already)} is set by the command or not supported; remove it")

        return {**self.provider.demanded, **value}

    def _options(self) -> dict[str, Any]:
        options = {"base_url": self.base_url, "timeout": self.timeout, "max_retries": 0}
        if self.api_key is None and self._has_token:
            return options

        # the SDK requires a key, also for a local server without one
        return options | {"api_key": self.api_key or "none"}

    def told(self, error: TransportFailed) -> str:
        """Describe a failed call in one line."""
        words = f": {_said(error.cause)}" if error.cause is not None else ""
        return f"{self.name}: {str(error).splitlines()[0]}{words}"


def _said(cause: BaseException) -> str:
    """Return the message of the server, or else of the operating system, without credentials.

    The message is cut at 300 characters.
    """
    body = getattr(cause, "body", None)
    message = peek(peek(body, "error") or body, "message")

    if not isinstance(message, str) or not message:
        first = cause
        while first.__cause__ is not None:
            first = first.__cause__
        message = str(first) or type(first).__name__

    return without_credentials(message, cause)[:300]


def declare(sources: Sequence[str], **declared: Any) -> Contract:
    """Make the contract of the tools in ``sources``; end the command if they are wrong."""
    return _compiled(sources, tools=load_all(sources), **declared)


def declare_one(sources: Sequence[str], answer: str | None, **declared: object) -> Contract:
    """Make the contract of tools, of an answer ``module:type``, or of both.

    The command ends if both are missing.
    """
    return _compiled(sources, **declaration(sources, answer), **declared)


def _compiled(sources: Sequence[str], **declared: Any) -> Contract:
    try:
        return Contract(**declared)
    except ContractError as error:
        fail(f"{'--tools' if sources else '--answer'}: {error}")


def declaration(sources: Sequence[str], answer: str | None) -> dict[str, Any]:
    """Load a contract's keywords: ``tools``, and ``answer`` if it is given.

    The command ends if both are missing.
    """
    if answer is None and not sources:
        fail("pass --tools or --answer, to say what a valid reply is")

    kind = {} if answer is None else {"answer": load_tools(answer, "--answer")[0]}
    return {"tools": load_all(sources), **kind}


def load_all(sources: Sequence[str]) -> list[object]:
    """Load the tools of every ``--tools`` option, in order."""
    return [tool for source in sources for tool in load_tools(source)]


def load_tools(source: str, option: str = "--tools") -> list[object]:
    """Load tools from ``module:attribute``, or from a JSON file.

    The file has one or several definitions, in the form of OpenAI or of MCP, or it is an OpenAPI
    document, whose operations are the tools.
    """
    if source.endswith((".yaml", ".yml")):
        fail(f"{option} {source}: convert it to JSON, and pass the .json file")
    if source.endswith(".json"):
        return _tools_in_file(source, option)

    module, _, attribute = source.partition(":")
    if not module or not attribute:
        fail(
            f"{option} {source}: pass module:attribute, or a .json file of tool definitions or "
            "of OpenAPI"
        )

    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))

    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # importing the user's module may raise anything
        fail(f"{option} {source}: {type(error).__name__}: {error}")

    return list(found) if isinstance(found, list | tuple) else [found]


def _tell_skipped(where: str, words: str) -> None:
    typer.echo(printable(f"strictreply: {where}: left out: {words}"), err=True)


def _tools_in_file(source: str, option: str) -> list[object]:
    try:
        found = json.loads(Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        # str() of an OSError would name the file a second time
        reason = f"not JSON: {error}"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        fail(f"{option} {source}: {reason}")

    if is_openapi(found):
        try:
            return [*tools_of_openapi(found, partial(_tell_skipped, f"{option} {source}"))]
        except OpenAPIError as error:
            fail(f"{option} {source}: {error}")

    if isinstance(found, dict) and isinstance(found.get("tools"), list):
        found = found["tools"]

    return list(found) if isinstance(found, list) else [found]
