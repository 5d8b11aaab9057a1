"""What the options of a command declare.

That is the endpoint that is called, and tools and answers from files and modules.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self

from strictreply import Contract, ContractError, TransportFailed
from strictreply.cli._openapi import OpenAPIError, is_openapi, tools_of_openapi
from strictreply.cli._terminal import Status, fail, read_json, refuse_broken
from strictreply.core import JSONObject
from strictreply.core.calls import without_credentials
from strictreply.core.forms import peek
from strictreply.integrations import load
from strictreply.wires import Api


@dataclass(frozen=True, slots=True)
class Provider:
    """The client library of an API, and the public API that it asks."""

    package: str
    """The package of the library; its environment variables begin with that, in capitals."""
    client: str
    """The class of its sync client; that of the async one begins with ``Async``."""
    error: str
    """The class from which its exceptions are derived."""
    name: str
    """What the public API is called."""
    demanded: Mapping[str, Any]
    """What the API demands of each request, beside its model and its messages."""
    token: str = ""
    """The environment variable of a token that the library finds by itself; empty for none."""

    @property
    def library(self) -> ModuleType:
        """The library; ends the command where it is not installed."""
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
    """Where calls go; None for options that were not given."""

    base_url: str | None = None
    """The address of the server."""
    api_key: str | None = None
    """Its key."""
    model: str | None = None
    """The name of the model."""
    timeout: float = 60.0
    """Seconds for one call."""
    provider: Provider = _OPENAI
    """The library that calls."""

    @classmethod
    def of(
        cls, api: Api, base_url: str | None, api_key: str | None, model: str | None, timeout: float
    ) -> Self:
        """Return the endpoint of an API by options, and by the variables of its library."""
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
        """End the command at options that no client can be made of.

        Only the public API demands a key.
        """
        key = self.provider.variable("API_KEY")
        if self.base_url is None and self.api_key is None and not self._has_token:
            fail(
                f"set {key}, or pass --base-url (or {self.provider.variable('BASE_URL')}) "
                "of a server that needs no key"
            )

        if self.base_url is None and self.model is None:
            fail("pass --model")

        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            fail(f"--base-url {self.name}: it must begin with http:// or https://")

        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            fail(
                f"the API key (--api-key or {key}) holds a character that no HTTP header can carry"
            )

        refuse_broken(self.model or "", "--model")

    def connect(self) -> tuple[Any, str]:
        """Make the SDK's client and choose the model."""
        self._refuse_options()
        # a second of import, for the commands that call
        library = self.provider.library

        try:
            client = getattr(library, self.provider.client)(**self._options())
        except Exception as error:  # noqa: BLE001
            # the SDK's HTTP library, which may be one of two, reads the address
            reason = str(error) if self.name == self.base_url else type(error).__name__
            fail(f"--base-url {self.name}: {reason}")

        if self.model:
            return client, self.model

        try:
            served = [model.id for model in client.models.list()]
        except getattr(library, self.provider.error) as error:
            fail(f"{self.name} did not list its models: {_said(error)}", Status.FAILED)

        if len(served) != 1:
            fail(f"pass --model; {self.name} serves {', '.join(served[:10]) or 'none'}")

        return client, served[0]

    def asynchronous(self) -> object:
        """Make the SDK's async client of an endpoint that :meth:`connect` has tried."""
        make = getattr(self.provider.library, f"Async{self.provider.client}")
        return make(**self._options())

    def request(self, more: str, taken: Sequence[str]) -> JSONObject:
        """Read ``--request``, and add what the API demands of each request.

        Ends the command when it is not a JSON object, or holds what is ``taken``.
        """
        value = read_json(more, "--request")
        if not isinstance(value, dict):
            fail("--request is not a JSON object")

        if already := value.keys() & set(taken):
            fail(
                f"--request: {min(already)} is set by an option, or not allowed; "
                "pass other parameters of the API"
            )

        return {**self.provider.demanded, **value}

    def _options(self) -> dict[str, Any]:
        options = {"base_url": self.base_url, "timeout": self.timeout, "max_retries": 0}
        if self.api_key is None and self._has_token:
            return options

        # for a local server without a key: the SDK insists on one
        return options | {"api_key": self.api_key or "none"}

    def told(self, error: TransportFailed) -> str:
        """Report in one line what became of the calls."""
        words = f": {_said(error.cause)}" if error.cause is not None else ""
        return f"{self.name}: {str(error).splitlines()[0]}{words}"


def _said(cause: BaseException) -> str:
    """Return what the server, or else the operating system, said, without credentials.

    It has at most 300 characters.
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
    """Make the contract of the tools in ``sources``; a wrong declaration ends the command."""
    return _compiled(sources, tools=load_all(sources), **declared)


def declare_one(sources: Sequence[str], answer: str | None, **declared: object) -> Contract:
    """Make the contract of tools, of an answer ``module:type``, or of both.

    Without either the command ends.
    """
    return _compiled(sources, **declaration(sources, answer), **declared)


def _compiled(sources: Sequence[str], **declared: Any) -> Contract:
    try:
        return Contract(**declared)
    except ContractError as error:
        fail(f"{'--tools' if sources else '--answer'}: {error}")


def declaration(sources: Sequence[str], answer: str | None) -> dict[str, Any]:
    """Load what declares a contract: ``tools``, and ``answer`` where one is given.

    Without either the command ends.
    """
    if answer is None and not sources:
        fail("pass --tools or --answer: what a reply may be")

    kind = {} if answer is None else {"answer": load_tools(answer, "--answer")[0]}
    return {"tools": load_all(sources), **kind}


def load_all(sources: Sequence[str]) -> list[object]:
    """Load the tools of all ``--tools``, in their order."""
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
        # the user's module may raise anything when it is imported
        fail(f"{option} {source}: {type(error).__name__}: {error}")

    return list(found) if isinstance(found, list | tuple) else [found]


def _tools_in_file(source: str, option: str) -> list[object]:
    try:
        found = json.loads(Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        # the words of an OSError name the file again
        reason = f"not JSON: {error}"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        fail(f"{option} {source}: {reason}")

    if is_openapi(found):
        try:
            return [*tools_of_openapi(found)]
        except OpenAPIError as error:
            fail(f"{option} {source}: {error}")

    if isinstance(found, dict) and isinstance(found.get("tools"), list):
        found = found["tools"]

    return list(found) if isinstance(found, list) else [found]
