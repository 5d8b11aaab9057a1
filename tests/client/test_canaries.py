"""Nothing leaks sideways.

Credentials are planted everywhere a request can carry them, and searched in all that comes out. The
prompt, the raw replies and the tools' declarations are the story itself, told on request;
credentials never are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tenacity import wait_none

import strictreply as sr
from strictreply import Attempt, CallFailed
from strictreply.cli._declared import Endpoint
from strictreply.core.calls import credentials_of
from strictreply.testing import record
from support.scripted import SCHEMA, USER, Client, Server, call, completion, http, status

PLANTED = {
    name: f"CANARY-{name}-4711abcdef"
    for name in (
        *(
            "api-key",
            "default-header",
            "default-cookie",
            "default-query",
            "organization",
            "project",
        ),
        *(
            "extra-header",
            "extra-auth",
            "extra-query",
            "extra-body",
            "nested-body",
            "user",
            "password",
        ),
        *(
            "azure-key",
            "azure-token",
            "proxy-password",
            "escalation",
            "keyword-key",
            "keyword-headers",
        ),
    )
}
BASE = f"http://{PLANTED['user']}:{PLANTED['password']}@model.invalid/v1"
OPTIONS: dict[str, Any] = {
    "api_key": PLANTED["api-key"],
    "organization": PLANTED["organization"],
    "project": PLANTED["project"],
    "default_headers": {
        "X-Corp-Gateway": PLANTED["default-header"],
        "Cookie": f"sid={PLANTED['default-cookie']}; a=b",
    },
    "default_query": {"sig": PLANTED["default-query"]},
}
EXTRA: dict[str, Any] = {
    "extra_headers": {
        "X-Mine": PLANTED["extra-header"],
        "Proxy-Authorization": f"Basic {PLANTED['extra-auth']}",
    },
    "extra_query": {"code": PLANTED["extra-query"]},
    "extra_body": {
        "vendor_token": PLANTED["extra-body"],
        "options": {"api_key": PLANTED["nested-body"]},
    },
}
POLICY = sr.RetryPolicy(
    max_retries=3,
    transport_retries=0,
    wait=wait_none(),
    escalation={"extra_headers": {"Authorization": f"Bearer {PLANTED['escalation']}"}},
)
SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WRONG = completion(calls=[call("search", {"query": 1})])


def clean(*texts: object) -> None:
    """Check that texts contain none of the planted canaries."""
    for text in texts:
        found = [name for name, secret in PLANTED.items() if secret in str(text)]
        assert found == []


def outlets(error: BaseException) -> Iterator[object]:
    """Yield an error in every form in which one leaves a program."""
    yield from (
        str(error),
        repr(error),
        "".join(traceback.format_exception(error)),
        vars(error).keys(),
    )

    if isinstance(error, sr.StrictReplyError):
        yield from (error.explain(), json.dumps(error.to_dict()))

    if isinstance(error, CallFailed):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        yield from (pickle.dumps(error), again.explain(), repr(again), str(again))

        for attempt in (*error.attempts, *again.attempts):
            yield from (
                repr(attempt),
                json.dumps(attempt.to_dict(raw=True)),
                attempt.request,
                attempt.correction,
            )


def echoing(request: Any, code: int) -> Any:
    """Answer with an error that repeats all that the request was sent with.

    Careless gateways do that.
    """
    sent = [f"{name}: {value}" for name, value in request.headers.items()]
    return status(
        code, {"error": {"message": f"refused {request.url} with {sent}", "type": "x", "code": "y"}}
    )


class Careless(Server):
    """A server that repeats the credentials it was given."""

    def handle(self, request: Any) -> Any:
        """Refuse a request in its own words."""
        self.requests.append(request)
        return echoing(request, 401)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Keep what our own logger says, at DEBUG."""
    caplog.set_level(logging.DEBUG, "strictreply")
    return caplog


@pytest.mark.parametrize("asynchronous", [False, True])
def test_v13_no_credential_leaves_with_a_rejected_reply(
    log: pytest.LogCaptureFixture, asynchronous: bool
) -> None:
    """Errors, pickles, stories, attempts, watchers, logs and reprs hold none, in either twin."""
    server, seen = Server(WRONG), list[Attempt]()
    settings: dict[str, Any] = {
        "tools": [SEARCH],
        "policy": POLICY,
        "on_attempt": seen.append,
        "log_replies": lambda raw: raw,
    }

    def ask() -> None:
        """Ask through one of the twins."""
        if asynchronous:
            twin = sr.wrap(server.async_client(**OPTIONS), **settings)
            asyncio.run(twin.exchange(model="m", messages=USER, **EXTRA))
        else:
            sr.wrap(server.client(**OPTIONS), **settings).exchange(
                model="m", messages=USER, **EXTRA
            )

    with pytest.raises(sr.ReplyRejected) as caught:
        ask()

    sent = str(
        [(str(request.url), dict(request.headers), request.content) for request in server.requests]
    )
    assert {name for name, secret in PLANTED.items() if secret in sent} >= {
        *("api-key", "default-header", "extra-header", "extra-query", "extra-body", "escalation"),
    }
    clean(
        *outlets(caught.value),
        *log.messages,
        *map(repr, seen),
        POLICY,
        *(attempt.request for attempt in seen),
    )

    assert seen[0].request["extra_headers"] == seen[0].request["extra_body"] == "[not kept]"
    assert (seen[0].request["model"], seen[0].request["messages"]) == ("m", USER)


@pytest.mark.parametrize("kind", ["key", "address", "azure key", "azure token"])
def test_v13_no_credential_that_a_server_repeats_is_told(
    log: pytest.LogCaptureFixture, kind: str
) -> None:
    """A server may write a key into its error: the story of the call is told without it."""
    server = Careless()
    client: Any = server.client(**OPTIONS, **({"base_url": BASE} if kind == "address" else {}))

    if kind.startswith("azure"):
        given: dict[str, Any] = {
            "azure_endpoint": "http://model.invalid",
            "api_version": "2024-10-21",
        }
        given |= {
            "api_key" if kind == "azure key" else "azure_ad_token": PLANTED[kind.replace(" ", "-")]
        }
        transport = http.Client(transport=http.MockTransport(server.handle))
        client = openai.AzureOpenAI(**given, http_client=transport)

    wrapped = sr.wrap(client, tools=[SEARCH], policy=POLICY)
    with pytest.raises(sr.TransportFailed) as caught:
        wrapped.reply(model="m", messages=USER, **EXTRA)

    assert "refused" in str(caught.value.cause)
    clean(*outlets(caught.value), *log.messages, Endpoint(base_url=BASE).told(caught.value))


@pytest.mark.parametrize(
    "name", ["api_key", "headers", "default_headers", "azure_ad_token", "http_client", "cookies"]
)
def test_v13_keywords_of_other_clients_are_not_kept(name: str) -> None:
    """A credential passed as a keyword of another client's ``create`` is on no attempt."""
    given: dict[str, Any] = {
        name: {"Authorization": PLANTED["keyword-headers"]},
        "token": PLANTED["keyword-key"],
    }
    fake = Client(WRONG)

    with pytest.raises(sr.ReplyRejected) as caught:
        sr.wrap(fake, tools=[SEARCH], policy=sr.RetryPolicy(max_retries=0)).reply(
            model="m", messages=USER, max_tokens=7, **given
        )

    assert fake.script.requests[0][name] == given[name]
    assert caught.value.attempts[0].request["max_tokens"] == 7
    clean(*outlets(caught.value))


def test_v13_the_proxys_password_is_nowhere(log: pytest.LogCaptureFixture) -> None:
    """A proxy's address stays in the HTTP client: a call that cannot reach it never names it."""
    proxy = f"http://ada:{PLANTED['proxy-password']}@127.0.0.1:9"
    options: dict[str, Any] = {"api_key": PLANTED["api-key"], "base_url": "http://model.invalid/v1"}
    client = openai.OpenAI(**options, http_client=http.Client(proxy=proxy))
    with pytest.raises(sr.TransportFailed) as caught:
        sr.wrap(client, tools=[SEARCH], policy=POLICY).reply(model="m", messages=USER)
    clean(*outlets(caught.value), *log.messages, Endpoint(base_url=BASE).name)


def test_v13_a_recording_holds_none(tmp_path: Path) -> None:
    """A recorder writes no credential of a header, a query or a body, nor one that a prompt or a
    server repeats.
    """
    for server in (Server(WRONG), Careless()):
        path = tmp_path / f"{type(server).__name__}.jsonl"
        client = sr.wrap(record(server.client(**OPTIONS), path), tools=[SEARCH], policy=POLICY)

        with pytest.raises(CallFailed):
            client.reply(
                model="m",
                messages=[{"role": "user", "content": f"I am {PLANTED['api-key']}"}],
                **EXTRA,
            )

        assert path.stat().st_mode & 0o077 == 0
        clean(path.read_text("utf-8"))


@pytest.mark.parametrize(
    ("header", "value", "found"),
    [
        ("Authorization", "Bearer none", ()),
        ("Authorization", "Bearer 12345678", ("12345678",)),
        ("X-Title", "assistant", ()),
        ("anthropic-version", "2023-06-01-beta", ()),
        ("User-Agent", "OpenAI/Python-3.54.0", ()),
        ("X-Tenant", "tenant-0001-abcd", ("tenant-0001-abcd",)),
        ("Cookie", "sid=abcdefgh; a=b", ("sid=abcdefgh;", "abcdefgh")),
    ],
)
def test_v13_what_may_be_a_credential(header: str, value: str, found: tuple[str, ...]) -> None:
    """By its name each part of a value counts, without one only what nobody would guess; words and
    versions never.
    """
    assert (
        credentials_of(http.Request("POST", "http://model.invalid/v1", headers={header: value}))
        == found
    )
