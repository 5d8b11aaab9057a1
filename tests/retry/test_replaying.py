"""Showing a model its own bad reply.

It stands in the model's own turn only, capped, in a shape that servers take back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply import Contract, Tool
from strictreply.core import Message
from strictreply.core.forms import MESSAGES, draft_of
from strictreply.retry import _replaying
from strictreply.retry._replaying import MAX_REPLAY_CHARS
from strictreply.retry._scoping import Scope, ScopedCall
from support.scripted import SCHEMA, USER, Server, call, completion, http
from support.scripted_responses import response, text_item

JSON_BODY = {"content-type": "application/json"}


class Query(BaseModel):
    """A structured answer."""

    query: str


TERMS = Contract(tools=[Tool.from_json_schema("search", SCHEMA)])
WORDS = "our correction"


def message(content: str | None = None, calls: Any = ()) -> dict[str, Any]:
    """Return a bare assistant message."""
    return dict(completion(content, calls)["choices"][0]["message"])


def replayed(
    contract: Contract,
    bad: dict[str, Any],
    words: list[str],
    scope: Scope | None,
    taken: Sequence[str] = (),
) -> list[Message]:
    """Return the turns by which a message goes back."""
    return _replaying.replayed(contract, draft_of(bad), words, scope, taken, replay=MESSAGES)


def test_an_empty_reply_is_named() -> None:
    """For an empty reply the assistant's turn says so in our words: roles alternate, and no turn is
    empty.
    """
    assistant, correction = replayed(TERMS, message(""), [WORDS], None)
    assert (assistant["role"], bool(assistant["content"])) == ("assistant", True)
    assert correction == {"role": "user", "content": WORDS}


def test_replayed_calls_have_ids_that_are_safe() -> None:
    """Where an id that came is empty, repeated or hostile, each call and its tool turn get one of
    our own.
    """
    bad = message(
        calls=[call("search", {"query": "a"}, "evil\n"), call("search", {"query": "b"}, "evil\n")]
    )
    assistant, *answers = replayed(TERMS, bad, [WORDS], None)
    ids = [one["id"] for one in assistant["tool_calls"]]
    assert [one["tool_call_id"] for one in answers] == ids

    assert len(set(ids)) == 2
    assert all(len(one) == 9 and one.isalnum() for one in ids)  # what the strictest templates take
    assert [one["content"] == WORDS for one in answers] == [False, True]
    assert answers[0]["content"] == "Not run: the reply was not valid."


def test_the_correction_answers_the_failing_call() -> None:
    """When one call is re-asked, its own tool turn holds the correction and the others say that
    they are kept.
    """
    bad = message(calls=[call("search", {"query": "a"}), call("search", {"query": 1})])
    scope = Scope(draft_of(bad), (), (ScopedCall("search", 1, "/tool_calls/1/function/arguments"),))
    _, kept, corrected = replayed(TERMS, bad, [WORDS], scope)
    assert corrected == {"role": "tool", "tool_call_id": "call00002", "content": WORDS}
    assert kept["content"] == "Valid, and kept as it is."


@pytest.mark.parametrize(
    "broken",
    [
        [call("search", "{nope")],
        [call("search", "[1]")],
        [call("search", '{"query": NaN}')],
        [call("search", '{"query": "\\ud800"}')],
        [call("no such name!", {})],
        ["x"],
        [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "search", "arguments": {"query": 1}},
            }
        ],
        [call("search", {"query": "x" * MAX_REPLAY_CHARS, "z": 1})],
    ],
)
def test_calls_that_servers_would_refuse_are_replayed_as_text(broken: list[Any]) -> None:
    """A history with malformed calls would be refused: they are shown as text, capped."""
    assistant, correction = replayed(TERMS, message(calls=broken), [WORDS], None)
    assert assistant.keys() == {"role", "content"}
    assert len(assistant["content"]) <= MAX_REPLAY_CHARS + 1
    assert correction == {"role": "user", "content": WORDS}


def test_a_providers_own_state_is_sent_back() -> None:
    """Servers that think in tool loops want back what they added, whatever its length; empty
    members are left out.
    """
    long = "s" * 2 * MAX_REPLAY_CHARS
    state = {"extra_content": {"google": {"thought_signature": long}}}
    one = call("search", {"query": 1}) | state
    own = {
        "reasoning_content": long,
        "reasoning": long,
        "reasoning_details": [{"data": long}],
        "some_state": long,
        **state,
    }
    bad = (
        message(calls=[one | {"index": 0}])
        | own
        | {"annotations": [], "refusal": None, "function_call": None}
    )
    assistant = replayed(TERMS, bad, [WORDS], None)[0]
    assert assistant == {"role": "assistant", "content": None, "tool_calls": [one]} | own

    told = replayed(TERMS, message("no JSON") | own, [WORDS], None)[0]
    assert told == {"role": "assistant", "content": "no JSON"} | own


def test_long_arguments_do_not_cost_the_signature_of_their_call() -> None:
    """Calls beyond the cap are replayed as calls when they carry what the provider wants back."""
    state = {"extra_content": {"google": {"thought_signature": "s"}}}
    one = call("search", {"query": "x" * MAX_REPLAY_CHARS, "z": 1}) | state
    assert replayed(TERMS, message(calls=[one]), [WORDS], None)[0]["tool_calls"] == [one]


def test_an_id_that_servers_gave_goes_back() -> None:
    """Gateways keep signatures in ids, and models are trained on them: an id is replaced only where
    it is not safe.
    """
    signed = f"call_1__thought__{'Eo4B+/8=' * 1000}"
    one = call("search", {"query": 1}, signed)
    other = call("search", {"query": 2}, "functions.search:1")
    assistant, *answers = replayed(TERMS, message(calls=[one, other]), [WORDS], None)
    assert [each["id"] for each in assistant["tool_calls"]] == [signed, "functions.search:1"]
    assert [each["tool_call_id"] for each in answers] == [signed, "functions.search:1"]

    taken = replayed(TERMS, message(calls=[one, other]), [WORDS], None, [signed])[0]
    assert [each["id"] for each in taken["tool_calls"]] == ["call00001", "call00002"]
    too_long = call("search", {"query": 1}, "x" * (TERMS.limits.id_bytes + 1))
    assert (
        replayed(TERMS, message(calls=[too_long]), [WORDS], None)[0]["tool_calls"][0]["id"]
        == "call00001"
    )


def test_thoughts_in_the_content_go_back_where_they_stood() -> None:
    """Content that came as chunks is replayed as such when some hold what the model thought; the
    text is capped.
    """
    thought = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "t" * 2 * MAX_REPLAY_CHARS}],
    }
    content = [thought, {"type": "text", "text": "x" * 2 * MAX_REPLAY_CHARS}]
    told = replayed(TERMS, message() | {"content": content}, [WORDS], None)[0]
    assert told["content"] == [thought, {"type": "text", "text": "x" * MAX_REPLAY_CHARS + "…"}]

    bad = message(calls=[call("search", {"query": 1})]) | {"content": [thought]}
    assert replayed(TERMS, bad, [WORDS], None)[0]["content"] == [thought]
    plain = message() | {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert replayed(TERMS, plain, [WORDS], None)[0]["content"] == "ab"


def test_a_sibling_without_arguments_is_replayed_as_the_api_spells_it() -> None:
    """Empty arguments that were fine as none do not turn the whole replay into text."""
    bad = message(calls=[call("search", ""), call("search", {"query": 1}, "b")])
    assistant = replayed(
        TERMS,
        bad,
        [WORDS],
        Scope(draft_of(bad), (), (ScopedCall("search", 1, "/tool_calls/1/function/arguments"),)),
    )[0]
    assert [one["function"]["arguments"] for one in assistant["tool_calls"]] == [
        "{}",
        '{"query": 1}',
    ]


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("written", ["half \ud83d of it", '{"query": "\ud83d"}'])
def test_half_a_surrogate_pair_does_not_go_back(api: Any, written: str) -> None:
    """Text that the SDK read of an escape and no request can carry is asked again, and nothing
    foreign is raised.
    """

    def patched(client: Any) -> Any:
        """Return the SDK's object in place of the bytes.

        A tracer that patches ``create`` does that.
        """
        place = client.chat.completions if api == "chat" else client.responses
        inner = place.create
        place.create = partial(inner)
        return client

    replies = [completion(written), completion('{"query": "tea"}')]

    if api == "responses":
        replies = [response(text_item(written)), response(text_item('{"query": "tea"}'))]

    server = Server(
        *(
            http.Response(200, content=json.dumps(reply).encode(), headers=JSON_BODY)
            for reply in replies
        )
    )
    client = sr.wrap(patched(server.client()), answer=Query, api=api)
    assert client.reply(model="m", messages=USER).answer == Query(query="tea")
    assert b"half ? of it" in server.bodies[1] or b'\\"?\\"' in server.bodies[1]
