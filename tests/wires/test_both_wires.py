"""The same reply has the same verdict, the same corrections and the same outcome by either API."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import strictreply as sr
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, Server, call, completion, http
from support.scripted_responses import call_item, response, text_item
from support.streamed_replies import events, response_events

EVENTS = {"content-type": "text/event-stream"}
TOOLS = [{"name": "search", "parameters": SCHEMA}, {"name": "weather", "parameters": OTHER_SCHEMA}]


class Found(BaseModel):
    """A structured answer."""

    query: str
    limit: int | None = None


class Spelt(NamedTuple):
    """One reply in the form of each API."""

    chat: dict[str, Any]
    responses: dict[str, Any]


def spelt(text: str | None, calls: list[tuple[str, str]], ending: str) -> Spelt:
    """Write a reply for both APIs, each in its own form."""
    made = [call(name, arguments, f"call_{at}") for at, (name, arguments) in enumerate(calls)]
    reason = {"whole": None, "cut": "length", "filtered": "content_filter"}[ending]
    chat = completion(text, made, finish_reason=reason) if reason else completion(text, made)
    status = "completed" if ending == "whole" else "incomplete"
    items = [] if text is None else [text_item(text, status=status)]
    items += [
        call_item(name, written, f"call_{at}", status=status)
        for at, (name, written) in enumerate(calls)
    ]

    details = {
        "whole": None,
        "cut": {"reason": "max_output_tokens"},
        "filtered": {"reason": "content_filter"},
    }
    return Spelt(chat, response(*items, status=status, incomplete_details=details[ending]))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 30), st.sampled_from(["tea", "", "Zürich", "a" * 50])
)
# An empty object is left out: in streams of chat completions it may stand in the place of arguments
# that come later, so that what is wrong with it is found at the end.
OBJECTS = st.dictionaries(
    st.sampled_from(["query", "limit", "city", "other"]), VALUES, min_size=1, max_size=3
)
WRITTEN = st.one_of(
    OBJECTS.map(json.dumps),
    st.sampled_from(
        [
            '{"query": "tea"}',
            '{"query": "tea", "query": "x"}',
            '{"query": "te',
            "",
            "[]",
            "tea",
            "{'a': 1}",
        ]
    ),
)
CALLS = st.lists(st.tuples(st.sampled_from(["search", "weather", "find", ""]), WRITTEN), max_size=3)
TEXTS = st.one_of(
    st.none(),
    WRITTEN,
    st.sampled_from(
        [
            "Tea is sold out.",
            '{"name": "search", "arguments": {"query": "tea"}}',
            "<tool_call>{}</tool_call>",
        ]
    ),
)
REPLIES = st.builds(
    spelt, TEXTS, CALLS, st.sampled_from(["whole", "whole", "whole", "cut", "filtered"])
)
CONTRACTS = st.sampled_from(
    [
        sr.Contract(tools=TOOLS),
        sr.Contract(tools=TOOLS, parallel=True),
        sr.Contract(tools=TOOLS, parallel=True).with_choice("required"),
        sr.Contract(tools=TOOLS).with_choice("weather"),
        sr.Contract(answer=Found),
        sr.Contract(tools=TOOLS, answer=Found),
    ]
)


def place(issue: sr.Issue) -> str:
    """Return where a fault of the message is.

    A fault of the response around it stands where each API has that.
    """
    return (
        ""
        if issue.path.startswith(("/choices", "/incomplete_details", "/output", "/status"))
        else issue.path
    )


def seen(verdict: Any) -> object:
    """A verdict without what names the response."""
    if isinstance(verdict, sr.Valid):
        return verdict.reply
    return [(issue.code, place(issue), issue.message, issue.hint) for issue in verdict.issues]


@given(CONTRACTS, REPLIES)
@settings(max_examples=400)
def test_a_reply_has_one_verdict(contract: sr.Contract[Any], reply: Spelt) -> None:
    """The judge knows no API: code, place and words are equal."""
    assert seen(contract.check(reply.chat)) == seen(contract.check(reply.responses))


def told(ask: Any) -> object:
    """Return what a call comes to.

    It is the reply, or the exception with the codes and the words of each attempt.
    """
    try:
        return ask()
    except sr.CallFailed as error:
        found = [
            [(issue.code, place(issue)) for issue in attempt.issues] for attempt in error.attempts
        ]
        return type(error).__name__, error.reason, found


def words(request: dict[str, Any]) -> list[str]:
    """Return the words of a re-ask, in its last turns: as outputs of calls, or as the user."""
    turns = request.get("messages") or request["input"]
    if isinstance(turns, str):
        return [turns]

    told = [
        turn.get("output", turn.get("content"))
        for turn in turns
        if turn.get("role") in {"tool", "user"} or str(turn.get("type")).endswith("_output")
    ]
    return [text if isinstance(text, str) else json.dumps(text) for text in told]


def served(api: str, replies: list[dict[str, Any]], *, streamed: bool) -> Server:
    """A server that answers with these, plain or as events."""
    if not streamed:
        return Server(*replies)
    written = [events(reply) if api == "chat" else response_events(reply) for reply in replies]
    return Server(
        *(http.Response(200, headers=EVENTS, content=b"".join(parts)) for parts in written)
    )


def outcome(
    api: Any, contract: sr.Contract[Any], replies: list[Spelt], *, streamed: bool
) -> object:
    """Return what a call comes to by an API, and the words of its requests."""
    server = served(api, [getattr(reply, api) for reply in replies], streamed=streamed)
    early_stop: Any = "always" if streamed else "off"
    policy = sr.RetryPolicy(
        max_retries=3, transport_retries=0, wait=lambda _: 0.0, early_stop=early_stop
    )
    client = sr.wrap(server.client(), contract=contract, policy=policy, api=api)
    return told(lambda: client.reply(model="m", messages=USER)), [
        words(json.loads(body)) for body in server.bodies
    ]


@given(CONTRACTS, st.lists(REPLIES, min_size=1, max_size=4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_call_comes_to_the_same(
    contract: sr.Contract[Any], replies: list[Spelt], streamed: bool
) -> None:
    """Plain or streamed, by either API: the same reply or exception, after requests that say the
    same.
    """
    chat = outcome("chat", contract, replies, streamed=streamed)
    assert chat == outcome("responses", contract, replies, streamed=streamed)
