"""Serving without HTTP: clients whose ``chat.completions.create`` asks a responder straight.

A completion is handed over as the SDK's own object. All that takes HTTP to say (streams, errors, broken connections) is
said by the SDK itself, over the in-memory transport of :mod:`strictreply.testing.mounting`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

from openai import NotGiven, Omit
from openai.types.chat import ChatCompletion

from strictreply.client._transport import as_json
from strictreply.testing._wire import HTTPReply, Responder
from strictreply.testing.mounting import async_openai_client, openai_client
from strictreply.values._json import JSON, JSONObject

_NOT_IN_BODY = ("extra_headers", "extra_query", "extra_body", "timeout")


class ScriptedClient:
    """A client for code that needs no more of one than ``chat.completions.create``; also under ``strictreply.wrap``.

    It gives what the SDK gives: a ``ChatCompletion``, built as leniently, so that faults survive; a ``Stream`` of
    chunks for ``stream=True``; exceptions such as ``openai.RateLimitError``, without a retry. Where more of the SDK is
    needed, :func:`strictreply.testing.mounting.openai_client` makes a real client over memory.
    """

    def __init__(self, responder: Responder) -> None:
        """Ask this responder."""
        self._responder = responder
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def with_options(self, **options: object) -> Self:  # noqa: ARG002 - the SDK's signature
        """Give the client itself: it has no connection to set up, and retries nothing."""
        return self

    def _create(self, *, model: object, messages: object, **options: Any) -> Any:
        """Make a chat completion; the keywords are the SDK's."""
        keywords: JSONObject = {"model": model, "messages": messages, **options}
        served = self._responder(_body(keywords))
        if not isinstance(served, HTTPReply) and not keywords.get("stream"):
            return _completion(served)
        client: Any = openai_client(lambda _: served)
        return client.chat.completions.create(**keywords)


class AsyncScriptedClient:
    """The async twin of :class:`ScriptedClient`."""

    def __init__(self, responder: Responder) -> None:
        """Ask this responder."""
        self._responder = responder
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def with_options(self, **options: object) -> Self:  # noqa: ARG002 - the SDK's signature
        """Give the client itself, as the twin does."""
        return self

    async def _create(self, *, model: object, messages: object, **options: Any) -> Any:
        """Make a chat completion; the keywords are the SDK's."""
        keywords: JSONObject = {"model": model, "messages": messages, **options}
        served = self._responder(_body(keywords))
        if not isinstance(served, HTTPReply) and not keywords.get("stream"):
            return _completion(served)
        client: Any = async_openai_client(lambda _: served)
        return await client.chat.completions.create(**keywords)


def _body(keywords: JSONObject) -> JSONObject:
    """Give the body that the SDK would send; TypeError when a value of it is no JSON."""
    kept = {name: value for name, value in keywords.items() if name not in _NOT_IN_BODY}
    given = {name: as_json(value) for name, value in kept.items() if not isinstance(value, NotGiven | Omit)}
    return given | dict(keywords.get("extra_body") or {})


def _completion(served: JSON) -> Any:
    """Build what the SDK builds of a body: its own object without any check, or the value where it is no object."""
    build: Any = ChatCompletion.construct
    return build(**served) if isinstance(served, dict) else served
