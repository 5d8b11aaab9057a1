"""What the options of a command declare.

That is the endpoint that is called, and tools and answers from files and modules.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strictreply import Contract, ContractError, TransportFailed
from strictreply.cli._terminal import Status, fail, refuse_broken
from strictreply.core.calls import without_credentials

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
        """End the command at options that no client can be made of.

        Only the public API demands a key.
        """
        if self.base_url is None and self.api_key is None:
            fail(
                "set OPENAI_API_KEY, or pass --base-url (or OPENAI_BASE_URL) "
                "of a server that needs no key"
            )

        if self.base_url is None and self.model is None:
            fail("pass --model")

        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            fail(f"--base-url {self.name}: it must begin with http:// or https://")

        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            fail(
                "the API key (--api-key or OPENAI_API_KEY) holds a character "
                "that no HTTP header can carry"
            )

        refuse_broken(self.model or "", "--model")

    def connect(self) -> tuple[OpenAI, str]:
        """Make the SDK's client and choose the model."""
        # a second of import, for the commands that call
        from openai import OpenAI, OpenAIError  # noqa: PLC0415

        self._refuse_options()

        try:
            client = OpenAI(**self._options())
        except Exception as error:  # noqa: BLE001
            # the SDK's HTTP library, which may be one of two, reads the address
            reason = str(error) if self.name == self.base_url else type(error).__name__
            fail(f"--base-url {self.name}: {reason}")

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
        # for a local server without a key: the SDK insists on one
        key = self.api_key or "none"
        return {
            "base_url": self.base_url,
            "api_key": key,
            "timeout": self.timeout,
            "max_retries": 0,
        }

    def told(self, error: TransportFailed) -> str:
        """Report in one line what became of the calls."""
        words = f": {_said(error.cause)}" if error.cause is not None else ""
        return f"{self.name}: {str(error).splitlines()[0]}{words}"


def _said(cause: BaseException) -> str:
    """Return what the server, or else the operating system, said, without credentials.

    It has at most 300 characters.
    """
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


def declare_one(sources: Sequence[str], answer: str | None, **declared: object) -> Contract:
    """Make the contract of tools, of an answer ``module:type``, or of both.

    Without either the command ends.
    """
    if answer is None and not sources:
        fail("pass --tools or --answer: what a reply may be")

    kind = {} if answer is None else {"answer": load_tools(answer, "--answer")[0]}
    return declare(sources, **declared, **kind)


def load_all(sources: Sequence[str]) -> list[object]:
    """Load the tools of all ``--tools``, in their order."""
    return [tool for source in sources for tool in load_tools(source)]


def load_tools(source: str, option: str = "--tools") -> list[object]:
    """Load tools from ``module:attribute``, or from a JSON file.

    The file has one or several definitions, in the form of OpenAI or of MCP.
    """
    if source.endswith(".json"):
        try:
            found = json.loads(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            # the words of an OSError name the file again
            reason = f"not JSON: {error}"
            if isinstance(error, OSError) and error.strerror:
                reason = error.strerror
            fail(f"{option} {source}: {reason}")

        if isinstance(found, dict) and isinstance(found.get("tools"), list):
            found = found["tools"]
    else:
        module, _, attribute = source.partition(":")
        if not module or not attribute:
            fail(f"{option} {source}: pass module:attribute, or a .json file of tool definitions")

        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))

        try:
            found = getattr(importlib.import_module(module), attribute)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            # the user's module may raise anything when it is imported
            fail(f"{option} {source}: {type(error).__name__}: {error}")

    return list(found) if isinstance(found, list | tuple) else [found]
