"""A request that a program makes with a low method of the SDK's client, such as ``post``."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from strictreply.contract._contract import ContractKeywords
from strictreply.contract._definitions import given as without_markers
from strictreply.sdks._known import sdk_for
from strictreply.sdks._posting import (
    OBSERVED_FORM,
    OPTIONS,
    OUR_KEYWORDS,
    Answering,
    form_in,
    http_with,
    is_raw,
    object_in_raw,
    with_form,
)
from strictreply.sdks._sdk import SDK, Door
from strictreply.sdks._shapes import HttpResponse, RawResponse, SdkClient
from strictreply.values._limits import JSONObject
from strictreply.wires._server_events import is_events

# The members of a posted request that have another meaning as keywords of a call.
_OF_CONTRACTS = frozenset(ContractKeywords.__annotations__) - {"tools"}
_ASIDE = frozenset({"api", "answer", *OUR_KEYWORDS, *OPTIONS, *_OF_CONTRACTS})

_VERBS = {"get_api_list": "get"}
"""The HTTP methods of the low methods that are not named after them."""

_UNANSWERED = frozenset({"head", "options", "delete"})
"""The HTTP methods that return no reply."""

_VERSION = re.compile(r"v\d+\w*|openai")
_NAMED_AFTER = frozenset({"deployments", "engines"})  # the next step of the path is a model's name

Brings: TypeAlias = Literal["reply", "stored", "list"]
"""What a request returns: a new reply, a stored reply, or a page of stored replies."""


class CallTarget(NamedTuple):
    """What a request returns, and the path of the namespace that it belongs to."""

    path: str
    brings: Brings


@dataclass(slots=True)
class Posting:
    """A request that a program makes by ``post`` or another low method of the SDK's client."""

    is_stored: ClassVar[bool] = False
    """Whether it fetches a reply that was made before."""

    client: Any
    """The SDK's client."""
    method: str
    """Name of the method that was called."""
    head: tuple[Any, ...]
    """The positional arguments of the method."""
    given: JSONObject
    """The keyword arguments of the method."""
    form: str | None = None
    """The form that the caller wants, as in :class:`CallForm`."""
    _options: JSONObject = field(default_factory=dict)
    """The options of the request."""
    _aside: JSONObject = field(default_factory=dict)
    """The members of the body that have another meaning as keywords of a call."""

    @property
    def _final(self) -> Any:
        """The SDK's options of the whole request; None if the method makes them itself."""
        return self.head[1] if self.method == "request" else None

    def place(self) -> CallTarget | None:
        """Return what this request returns; None if it returns no reply."""
        return _place_at(self)

    @property
    def verb(self) -> str:
        """The HTTP method of the request, in lower case."""
        final = self._final
        if final is not None:
            return str(final.method).lower()

        return str(self.given.get("method", _VERBS.get(self.method, self.method))).lower()

    def head_for(self, known: Callable[[str], str]) -> tuple[object, ...]:
        """Return the positional arguments of the method, with another address."""
        final = self._final
        if final is None:
            return (known(self.url), *self.head[1:])

        return (self.head[0], final.model_copy(update={"url": known(self.url)}))

    @property
    def url(self) -> str:
        """The address that was given."""
        url: str = self.head[0] if self._final is None else self._final.url
        return url

    def keywords(self, path: str) -> JSONObject:
        """Return the request as the keywords of a ``create``.

        Raises NotImplementedError for a request whose reply cannot be judged.
        """
        self._read_options()
        body = self._body(path)
        sdk_for(self.client).doors[path].check(body)
        aside = _ASIDE | sdk_for(self.client).doors[path].foreign
        self._aside = {name: value for name, value in body.items() if name in aside}

        keywords = {name: value for name, value in body.items() if name not in aside}
        for name, option in OPTIONS.items():
            if option in self._options:
                keywords[name] = self._options[option]

        return keywords

    def _read_options(self) -> None:
        final = self._final
        self._options = dict(self.given.get("options") or {})
        if final is not None:
            self._options = {name: getattr(final, name) for name in final.model_fields_set}

        headers = self._options.get("headers")
        if isinstance(headers, Mapping):
            self.form, self._options["headers"] = form_in(headers)

    def _body(self, path: str) -> JSONObject:
        held = self.given if self._final is None else self._options
        body = held.get("body" if self._final is None else "json_data")
        content = held.get("content")

        if isinstance(body, Mapping):
            body = without_markers(body)
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_unset=True, by_alias=True)
        for text in (body, content):
            if isinstance(text, bytes | bytearray):
                with suppress(ValueError, RecursionError):
                    body = json.loads(text)

        beta = self._refused_query(sdk_for(self.client).doors[path])
        if beta or held.get("files") or not isinstance(body, Mapping):
            what = f"of the {beta}" if beta else "whose body is not one JSON object"
            raise NotImplementedError(
                f"client.{self.method}() cannot be guarded for a request {what}; "
                f"call client.{path}.create()"
            )

        return dict(body)

    def _refused_query(self, door: Door) -> str:
        """Return a parameter of the query that makes judging impossible; empty if there is none."""
        return next(filter(self._asks_for, door.refused_queries), "")

    def _asks_for(self, name: str) -> bool:
        """Return whether the query of the request has a parameter."""
        return name in self.client._prepare_url(self.url).params or name in dict(
            self._options.get("params") or {}
        )

    def is_asked_with(self, query: Mapping[str, str]) -> bool:
        """Return whether the query of the request now has these parameters."""
        final = self._final
        options = dict(self.given.get("options") or {}) if final is None else vars(final)
        given: JSONObject = dict(self.client._prepare_url(self.url).params)
        for name in ("params", "qualifiers"):
            said = options.get(name)
            given |= said if isinstance(said, Mapping) else {}

        return query.items() <= given.items()

    @property
    def max_retries(self) -> int | None:
        """How often the SDK would repeat the request; None if the client decides."""
        said = self._options.get("max_retries")
        return said if type(said) is int else None

    def send(
        self, client: SdkClient, door: Door, request: JSONObject, *, untouched: bool
    ) -> object:
        """Make the request by its method of ``client``, once; return the raw response.

        If the client is patched by code that inspects the SDK's result, return that result.
        """
        body = {name: value for name, value in request.items() if name not in OPTIONS}
        options = {option: request[name] for name, option in OPTIONS.items() if name in request}
        sdk = sdk_for(client)
        options["max_retries"] = sdk.own_retries(client)

        is_streamed = bool(body.get("stream"))
        is_parsed = not untouched and self.form is None and not is_streamed
        wanted = self._wanted()
        form = self.form
        if sdk.is_observing(client):
            form = form or OBSERVED_FORM
        elif not (is_parsed and _is_readable(wanted)):
            wanted = sdk.http_type
            options["post_parser"] = sdk.named("_types", "NOT_GIVEN")

        body |= self._aside
        given = {name: value for name, value in self.given.items() if name != "content"}
        if self._final is None:
            given["body"] = body
        else:
            options |= {"json_data": body, "content": None}

        if is_streamed and self.method in {"post", "request"}:
            given["stream"] = True

        return self._sent(client, door, wanted, with_form(self._options | options, form), given)

    def _sent(
        self, client: SdkClient, door: Door, wanted: object, options: JSONObject, given: JSONObject
    ) -> object:
        """Make the request for the wanted type, and return the raw response if there is one."""
        if self._final is None:
            named = given | {"cast_to": wanted, "options": options}
            sent = getattr(client, self.method)(*self.head, **named)
        else:
            sent = client.request(wanted, self._final.model_copy(update=options), **given)

        is_stream = bool(given.get("stream"))
        return Answering(client, door, self.form, is_stream, given.get("stream_cls")).raw(sent)

    def fetch(self, client: SdkClient, door: Door) -> object:
        """Make the request by its method of ``client``; return the raw response.

        Raises NotImplementedError for a reply that cannot be judged.
        """
        self._read_options()
        sdk = sdk_for(client)
        path = sdk.path_of(door.wire)

        if beta := self._refused_query(door):
            raise NotImplementedError(
                f"client.{self.method}() cannot be guarded for a reply of the {beta}; "
                f"call client.{path}.retrieve()"
            )
        if self._asks_for("starting_after"):
            raise NotImplementedError(
                "starting_after cannot be guarded, because only a whole reply can be judged; call "
                f"client.{path}.stream(response_id=…, starting_after=…), which reads all of it"
            )

        absent: JSONObject = {"post_parser": sdk.named("_types", "NOT_GIVEN")}
        options = with_form(self._options | absent, self.form)
        return self._sent(client, door, sdk.http_type, options, self.given)

    def _wanted(self) -> object:
        return self.given.get("cast_to") if self._final is None else self.head[0]

    def result(self, source: RawResponse, replaced: JSONObject | None) -> Any:
        """Return what the SDK returns for an accepted response, or an awaitable of it.

        ``replaced`` is its new body; None keeps the body.
        """
        return self._processed(source, http_with(source.http_response, replaced, self.form))

    def stream(self, source: object) -> object:
        """Return what the SDK returns for a response whose body is a guarded stream."""
        if not is_raw(source):
            return source

        http = source.http_response
        if not self._is_read_late():
            http.read()
        return self._processed(source, http)

    async def astream(self, source: object) -> object:
        """Return what :meth:`stream` does."""
        if not is_raw(source):
            return source

        http = source.http_response
        if not self._is_read_late():
            await http.aread()
        return await self._processed(source, http)

    def _is_read_late(self) -> bool:
        return bool(self.given.get("stream")) or self.form == "stream"

    def _processed(self, source: Any, http: HttpResponse) -> Any:
        options = source._options
        fields = type(options).model_fields
        known = {name: value for name, value in self._options.items() if name in fields}
        # the client of the raw response, which knows how its bytes were read
        made = source._client._process_response(
            cast_to=self._wanted(),
            options=options.model_copy(update=known),
            response=http,
            stream=bool(self.given.get("stream")),
            stream_cls=self.given.get("stream_cls"),
            retries_taken=source.retries_taken,
        )
        if self.form is not None or not sdk_for(self.client).is_observing(self.client):
            return made
        # sent with the header of a raw response, which its caller did not request
        return _opened_later(made) if inspect.isawaitable(made) else _opened(made)


async def _opened_later(made: Awaitable[object]) -> object:
    return _opened(await made)


def _opened(made: object) -> object:
    """Return the content of a raw response of the SDK, and anything else unchanged."""
    return object_in_raw(made) if is_raw(made) else made


@dataclass(slots=True)
class Stored(Posting):
    """A request for a stored reply, which is sent before the reply is judged.

    - ``answer``: the class that the caller parses the answer into.
    - ``path``: the path of the namespace that it belongs to.
    - ``came``: the raw response, or the exception that was raised instead.
    """

    is_stored = True
    answer: Any = None
    path: str | None = None
    came: Any = None
    is_async: bool = False

    def send(self, *_: object, **__: object) -> object:
        """Return the raw response, or raise the exception."""
        return self._came_later() if self.is_async else self._came()

    async def _came_later(self) -> object:
        return self._came()

    def _came(self) -> object:
        if isinstance(self.came, Exception):
            raise self.came
        return self.came

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream of events, or the request was for one."""
        if not is_raw(self.came):
            return False

        body = self.came.http_response.content
        return bool(self.given.get("stream")) or (bool(body) and is_events(body))


def _is_readable(kind: object) -> bool:
    """Return whether the SDK's result for a class can be read as JSON."""
    return kind is object or (isinstance(kind, type) and issubclass(kind, BaseModel))


def _place_at(posting: Posting) -> CallTarget | None:
    """Return what a request returns, by its address in any spelling."""
    client = posting.client
    verb = posting.verb
    try:
        whole = client._prepare_url(posting.url)
    except Exception:  # noqa: BLE001 - of the SDK itself, which will raise it again
        return None

    sdk = sdk_for(client)
    steps = _steps(whole.path)
    base = _steps(client.base_url.path)
    if (path := _path_at(sdk, steps, base, posting)) is not None:
        brings: Brings = "list" if verb == "get" else "reply"
        return None if verb in _UNANSWERED else CallTarget(path, brings)

    # after the path of the API come the id of a stored reply, then an action on it
    *before, last = steps or ("",)
    if (path := _path_at(sdk, tuple(before), base, posting, is_below=True)) is not None:
        is_posted = sdk.doors[path].posts_stored and verb not in _UNANSWERED
        return CallTarget(path, "stored") if verb == "get" or is_posted else None

    path = _path_at(sdk, tuple(before[:-1]), base, posting, is_below=True)
    if path is None or verb in _UNANSWERED or last not in sdk.doors[path].stored_actions:
        return None

    return CallTarget(path, "stored")


def _path_at(
    sdk: SDK,
    steps: tuple[str, ...],
    base: tuple[str, ...],
    posting: Posting,
    *,
    is_below: bool = False,
) -> str | None:
    """Return the path of the namespace whose address ends with these steps, or is above them.

    ``base`` is the path of the client's address. If an API has several namespaces, the query of the
    request decides; otherwise it is the usual one.
    """
    found: str | None = None
    for path, door in sdk.doors.items():
        ending = tuple(door.wire.path.strip("/").split("/"))
        before = steps[: -len(ending)]
        if steps[-len(ending) :] != ending or (is_below and not door.stores):
            continue
        if len(ending) == 1 and not _is_root(
            before[len(base) :] if before[: len(base)] == base else before
        ):
            continue
        if door.query and posting.is_asked_with(door.query):
            return path

        found = found or path

    return found


def _is_root(steps: tuple[str, ...]) -> bool:
    """Return whether servers have an API under a path, and no resource of their own."""
    if not steps or _VERSION.fullmatch(steps[-1]):
        return True

    return len(steps) > 1 and steps[-2] in _NAMED_AFTER


def _steps(path: str) -> tuple[str, ...]:
    """Return the steps of a decoded path: without empty ones, dots and parameters."""
    steps: list[str] = []
    for step in path.replace("\\", "/").split("/"):
        name = step.partition(";")[0].strip().casefold()
        if name == "..":
            steps = steps[:-1]
        elif name not in ("", "."):
            steps.append(name)

    return tuple(steps)
