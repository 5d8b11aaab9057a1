"""What is sent over the anthropic SDK is what the SDK would send, whatever the keywords."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import strictreply as sr
from support.claude import (
    ASK,
    GOOD,
    WEATHER,
    ClaudeServer,
    anthropic,
    client,
    done,
    failed,
    http,
    text,
)

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
DEPRECATED = next(iter(anthropic.resources.messages.messages.DEPRECATED_MODELS))

CLOSED = WEATHER | {
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "additionalProperties": False,
        "required": ["city"],
    }
}
"""A tool as the contract sends it: its schema takes no other members."""

KEYWORDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "system": {"system": [text("be brief")]},
    "stops": {"stop_sequences": ["x"], "metadata": {"user_id": "u"}},
    "tools": {"tools": [CLOSED]},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 50}},
    "timeout": {"timeout": 3.5},
    "headers": {"extra_headers": {"anthropic-beta": "x-1", "X-Own": "1"}},
    "body": {"extra_body": {"top_k": 3}},
    "query": {"extra_query": {"a": "b"}},
    "streamed": {"stream": True},
}


def sent(source: Any, server: ClaudeServer, *, beta: bool, **keywords: Any) -> list[Any]:
    """Return what is sent for three calls: the later ones may be made of a kept request."""
    for _ in range(3):
        namespace = source.beta.messages if beta else source.messages
        done(namespace.create(**ASK, **keywords))

    return [
        (one.method, str(one.url), one.content, set(one.headers.items()), one.extensions["timeout"])
        for one in server.requests
    ]


@BOTH
@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta.messages"])
@pytest.mark.parametrize("name", KEYWORDS)
def test_the_sdks_request_is_sent(is_async: bool, beta: bool, name: str) -> None:
    """Address, headers, body and timeouts are those of the SDK, byte for byte."""
    ours = ClaudeServer(GOOD)
    theirs = ClaudeServer(GOOD)
    guarded = sr.wrap(client(ours, is_async=is_async))
    raw = client(theirs, is_async=is_async)
    keywords = KEYWORDS[name]
    if name == "streamed" and is_async:
        pytest.skip("a stream of an async client is tested by its events")
    assert sent(guarded, ours, beta=beta, **keywords) == sent(raw, theirs, beta=beta, **keywords)


@BOTH
def test_the_beta_headers_are_sent(is_async: bool) -> None:
    """Keywords that become headers do, in the beta's namespace and with headers of one's own."""
    ours = ClaudeServer(GOOD)
    theirs = ClaudeServer(GOOD)
    guarded = sr.wrap(client(ours, is_async=is_async))
    for betas in (["x-1"], ["x-2", "x-3"]):
        asked = {"betas": betas, "extra_headers": {"X-Own": "1"}}
        for one in (guarded, client(theirs, is_async=is_async)):
            done(one.beta.messages.create(**ASK, **asked))

    named = [request.headers["anthropic-beta"] for request in ours.requests]
    assert named == ["x-1", "x-2,x-3"]
    assert [set(one.headers.items()) for one in ours.requests] == [
        set(one.headers.items()) for one in theirs.requests
    ]


def test_a_kept_request_depends_on_the_values_that_the_sdk_reads() -> None:
    """After calls that went out, one with too many tokens still fails as the SDK says."""
    server = ClaudeServer(GOOD)
    guarded = sr.wrap(client(server))
    for _ in range(3):
        guarded.messages.create(**ASK)
    with pytest.raises(ValueError, match="Streaming is required"):
        guarded.messages.create(**ASK | {"max_tokens": 100_000})

    assert len(server.requests) == 3


def test_the_clients_timeout_counts_as_it_is_now() -> None:
    """A timeout that is set on the client later is that of the requests from there on."""
    server = ClaudeServer(GOOD)
    guarded = sr.wrap(client(server))
    guarded.messages.create(**ASK)
    guarded.timeout = 7.0
    guarded.messages.create(**ASK)
    read = [one.extensions["timeout"]["read"] for one in server.requests]
    assert read == [600, 7.0]


def test_the_sdks_warnings_are_given_where_the_program_is() -> None:
    """Each call of a deprecated model warns as the SDK does, at the line of the program."""
    found: list[list[tuple[str, str, str]]] = []
    for one in (client(ClaudeServer(GOOD)), sr.wrap(client(ClaudeServer(GOOD)))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                one.messages.create(**ASK | {"model": DEPRECATED})
        found.append([(str(w.message), w.category.__name__, w.filename) for w in caught])

    assert found[0] == found[1]
    assert [name for *_, name in found[1]] == [__file__] * 2


def test_a_warning_that_is_an_error_stops_the_call() -> None:
    """A program that makes errors of warnings gets the SDK's warning, and nothing is sent."""
    server = ClaudeServer(GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            sr.wrap(client(server)).messages.create(**ASK | {"model": DEPRECATED})

    assert server.requests == []


@BOTH
def test_a_token_is_renewed_as_the_sdk_renews_it(is_async: bool) -> None:
    """A client with credentials answers status 401 with a new token, once for a request."""
    credentials = pytest.importorskip("anthropic.lib.credentials")
    named: list[list[str]] = []
    for wrap in (lambda own: own, sr.wrap):
        refused = failed(401, "authentication_error", **{"retry-after-ms": "1"})
        server = ClaudeServer(refused, GOOD)
        tokens = iter(("one", "two"))

        def provide(*_: object, tokens: Any = tokens, **__: object) -> Any:
            return credentials.AccessToken(token=next(tokens), expires_at=None)

        own = client(server, is_async=is_async, api_key=None, credentials=provide)
        assert done(wrap(own).messages.create(**ASK)).content[0].text == '{"age": 5}'
        named.append([one.headers["authorization"] for one in server.requests])

    assert named == [["Bearer one", "Bearer two"]] * 2


def test_a_response_without_json_is_refused() -> None:
    """A page in place of a message is no message, and no bare error of the SDK."""
    page = http.Response(200, headers={"content-type": "text/html"}, text="<p>hello</p>")
    with pytest.raises(sr.CallFailed) as caught:
        sr.wrap(client(ClaudeServer(page), max_retries=0)).messages.create(**ASK)

    assert isinstance(caught.value, anthropic.AnthropicError)
