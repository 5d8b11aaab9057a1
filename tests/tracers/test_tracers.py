"""Who stands between us and the SDK sees the truth.

Real tracers record each ask of a reply, and the guard holds.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import openai
import pytest
from tenacity import wait_none

import strictreply as sr
from support.scripted import SCHEMA, USER, Server, call, completion, status
from support.tracers.recorders import RECORDERS, Attached, attached

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the tracers' own
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
]

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WRONG = completion(calls=[call("search", {"query": "tea", "limit": 99})])
GOOD = completion(calls=[call("search", {"query": "tea", "limit": 9})], tokens=(20, 7))
ASK: dict[str, Any] = {"model": "m", "messages": USER}
POLICY = sr.RetryPolicy(wait=wait_none())

WAYS: dict[str, Callable[[Any], Any]] = {
    "reply": lambda client: client.reply(**ASK),
    "create": lambda client: client.chat.completions.create(**ASK),
    "parse": lambda client: client.chat.completions.parse(**ASK),
    "raw": lambda client: client.chat.completions.with_raw_response.create(**ASK),
}


LACKS = dict.fromkeys(RECORDERS, "") | {"opentelemetry": "tools", "sentry": "raw"}
"""What a recorder does not read: tools, or the usage in a raw response. It is the same with the
SDK's own client.
"""


def done(result: Any) -> Any:
    """Return a result, awaited where it is one of an async client."""

    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited()) if inspect.isawaitable(result) else result


def client_of(server: Server, twin: str, **options: Any) -> Any:
    """Make a client of the SDK."""
    return server.client(**options) if twin == "sync" else server.async_client(**options)


def joined(at_work: Attached, client: Any, when: str, **settings: Any) -> Any:
    """Wrap a client that a recorder is attached to, or the other way round."""
    if when == "before":
        return sr.wrap(at_work.patch(client), tools=[SEARCH], **settings)
    return at_work.patch(sr.wrap(client, tools=[SEARCH], **settings))


def limit_of(result: Any) -> int:
    """Return the argument of the call that came out."""
    if isinstance(result, sr.ToolCall):
        return int(result.args["limit"])
    given = result.parse() if hasattr(result, "http_response") else result
    arguments: str = given.choices[0].message.tool_calls[0].function.arguments
    return int(arguments.rsplit(":", maxsplit=1)[-1].strip(" }"))


OVER_A_WRAPPED_CLIENT = ("create", "parse", "raw")
"""The ways whose methods langsmith patches, when it is given a wrapped client: the program calls
the patch.
"""

CASES = [
    (recorder, when, way)
    for recorder in RECORDERS
    for when in ("before", "after")
    for way in WAYS
    if not (recorder == "langsmith" and when == "after" and way in OVER_A_WRAPPED_CLIENT)
]


@pytest.mark.parametrize(("recorder", "when", "way"), CASES)
@pytest.mark.parametrize("twin", ["sync", "async"])
def test_each_ask_is_recorded_once_with_its_messages_tools_and_usage(
    recorder: str, twin: str, when: str, way: str
) -> None:
    """The bad reply and the correction are two records with what was really sent; only the good
    call comes out.
    """
    server = Server(WRONG, GOOD)
    with attached(recorder) as at_work:
        client = joined(at_work, client_of(server, twin), when)
        assert limit_of(done(WAYS[way](client))) == 9
        asked = at_work.asked()

    assert [one.tokens for one in asked] == (
        [(None, None)] * 2 if way in LACKS[recorder] else [(10, 5), (20, 7)]
    )
    first, second = (one.seen for one in asked)
    assert "find tea" in first
    assert "must be at most 20" not in first

    assert "find tea" in second
    assert "must be at most 20" in second
    assert ["minimum" in one.seen for one in asked] == [LACKS[recorder] != "tools"] * 2
    assert len(server.requests) == 2


@pytest.mark.parametrize("way", OVER_A_WRAPPED_CLIENT)
@pytest.mark.parametrize("twin", ["sync", "async"])
def test_a_patch_over_the_method_that_a_program_calls_records_what_the_program_sees(
    twin: str, way: str
) -> None:
    """Langsmith over a wrapped client: one run a reply, of the program's messages and the
    completion that came out.
    """
    server = Server(WRONG, GOOD)
    with attached("langsmith") as at_work:
        client = joined(at_work, client_of(server, twin), "after")
        assert limit_of(done(WAYS[way](client))) == 9
        asked = at_work.asked()

    assert [one.tokens for one in asked] == [(20, 7)]
    assert "find tea" in asked[0].seen
    assert "must be at most 20" not in asked[0].seen
    assert len(server.requests) == 2


@pytest.mark.parametrize("owned", [0, 2])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("twin", ["sync", "async"])
@pytest.mark.parametrize("recorder", RECORDERS)
def test_retries_have_one_owner_whoever_stands_between(
    recorder: str, twin: str, when: str, owned: int
) -> None:
    """A server that stays down is asked as often as the client says, neither multiplied nor left
    out.
    """
    server = Server(status(503, {"error": {"message": "down"}}, retry_after_ms="1"))
    with attached(recorder) as at_work:
        client = joined(at_work, client_of(server, twin, max_retries=owned), when, policy=POLICY)
        with pytest.raises(openai.InternalServerError) as raised:
            done(client.reply(**ASK))
    kind: Any = raised.type
    assert issubclass(kind, sr.TransportFailed)
    assert len(server.requests) == 1 + owned


@pytest.mark.parametrize("recorder", RECORDERS)
def test_the_policy_owns_the_retries_where_the_sdks_can_be_turned_off(recorder: str) -> None:
    """An explicit budget counts; under a patched ``create`` of the client inside it is the SDK that
    repeats.
    """
    server = Server(status(503, {"error": {"message": "down"}}, retry_after_ms="1"))
    with attached(recorder) as at_work:
        policy = sr.RetryPolicy(wait=wait_none(), transport_retries=4)
        client = joined(at_work, server.client(max_retries=1), "before", policy=policy)
        with pytest.raises(sr.TransportFailed):
            client.reply(**ASK)
    assert len(server.requests) == (2 if recorder == "langsmith" else 5)


def test_two_recorders_at_once_see_every_ask() -> None:
    """A tracer that patches the client's ``request``, and one that patches the class's ``create``,
    record both asks.
    """
    server = Server(WRONG, GOOD)
    with attached("traceloop") as outer, attached("logfire_client") as inner:
        client = joined(inner, server.client(), "after")
        assert limit_of(client.reply(**ASK)) == 9
        assert (
            [one.tokens for one in outer.asked()]
            == [one.tokens for one in inner.asked()]
            == [(10, 5), (20, 7)]
        )


@pytest.mark.parametrize("way", ["reply", "create"])
@pytest.mark.parametrize("twin", ["sync", "async"])
def test_keywords_of_a_recorder_reach_it(twin: str, way: str) -> None:
    """Langfuse's drop-in takes keywords of its own: they are there for each ask, and not in what is
    sent.
    """
    server = Server(WRONG, GOOD)
    with attached("langfuse") as at_work:
        client = sr.wrap(at_work.patch(client_of(server, twin)), tools=[SEARCH])
        method = client.reply if way == "reply" else client.chat.completions.create
        assert limit_of(done(method(**ASK, langfuse_public_key="pk", name="zq-generation"))) == 9
        asked = at_work.asked()
    assert len(asked) == 2
    assert not any(b"langfuse" in body or b"zq-generation" in body for body in server.bodies)
