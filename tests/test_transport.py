"""The one seam to the API: how a request is sent and a response read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from scripted import USER, Client, Server, completion, status
from strictreply.client._transport import RetryBucket, Sending, Transport, _past_transform
from strictreply.values._limits import DEFAULT_LIMITS, Limits
from strictreply.wires._chat import CHAT
from strictreply.wires._received import as_json, read_body


class Unset:
    """A value that is no JSON."""


def sent(messages: Any, **keywords: Any) -> dict[str, Any]:
    """Give the keywords that reach the SDK's ``create`` for a request."""
    return _past_transform({"messages": messages, **keywords}, CHAT.plain_members)


def test_other_sdks_are_read_as_objects() -> None:
    """A raw response of another SDK may be anything: its own ``create`` is used, and its model is dumped."""
    given = ChatCompletion.model_validate(completion("x"))
    completions = SimpleNamespace(create=lambda **request: given, with_raw_response=None)
    sending = Sending(Transport(SimpleNamespace(chat=SimpleNamespace(completions=completions))), DEFAULT_LIMITS)
    assert sending.receive(sending.send({"messages": USER}, None)) == completion("x")
    assert sending.completion(completion("x"), spliced=False) is given
    assert sending.completion(completion("y"), spliced=True).choices[0].message.content == "y"


def test_plain_json_goes_past_the_transform() -> None:
    """Messages, tools and response_format that are JSON travel in ``extra_body``; their places stay."""
    tools, form = [{"type": "function"}], {"type": "json_object"}
    seen = sent(USER, tools=tools, response_format=form, temperature=0)
    assert seen["extra_body"] == {"messages": USER, "tools": tools, "response_format": form}
    assert (seen["messages"], seen["tools"], seen["temperature"]) == ([], [], 0)


@pytest.mark.parametrize(
    "value", [Unset(), [Unset()], {"role": Unset()}, {1: "x"}, ("tuple",), {"a": [{"b": b"bytes"}]}, {"a": {1, 2}}]
)
def test_what_is_no_plain_json_takes_the_sdks_own_way(value: Any) -> None:
    """Anything that the SDK may want to transform is left to it."""
    seen = sent([*USER, value])
    assert seen["messages"] == [*USER, value]
    assert seen["extra_body"] == {}


def test_the_callers_extra_body_has_the_last_word() -> None:
    """What the caller put into ``extra_body`` replaces what we would send."""
    seen = sent(USER, tools=[], extra_body={"tools": [1], "top_k": 2})
    assert seen["extra_body"] == {"messages": USER, "tools": [1], "top_k": 2}


def test_deep_values_are_walked_without_recursion() -> None:
    """A conversation nested 100,000 levels deep is no RecursionError of ours."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    seen = sent([deep])
    assert seen["messages"] == []
    assert seen["extra_body"]["messages"][0] is deep


def test_a_message_that_holds_itself_goes_the_sdks_way() -> None:
    """What has no end is not walked for ever: the SDK says what is wrong with it."""
    endless: dict[str, Any] = {"role": "user"}
    endless["self"] = endless
    assert sent([endless])["messages"] == [endless]


def test_numbers_that_are_none_may_stand_in_what_is_not_ours() -> None:
    """Log probabilities of minus infinity, as some servers send them, cost no reply."""
    body = json.dumps(completion("x") | {"logprob": float("-inf"), "more": [float("nan"), 1.5]}).encode()
    read = read_body(body, DEFAULT_LIMITS)
    assert isinstance(read, dict)
    assert read["choices"] == completion("x")["choices"]
    assert (read["logprob"], read["more"]) == (None, [None, 1.5])  # so that nothing sent back is no JSON


def test_a_client_without_http_is_read_as_it_is() -> None:
    """A fake that gives mappings needs neither SDK nor HTTP."""
    fake = Client(completion("x"))
    sending = Sending(Transport(fake), DEFAULT_LIMITS)
    response = sending.receive(sending.send({"messages": USER}, None))
    assert response == completion("x")
    assert sending.completion(completion("x"), spliced=False) == completion("x")
    assert sending.completion(completion("spliced"), spliced=True) == completion("spliced")
    assert fake.script.requests == [{"messages": USER}]


def test_sdk_objects_are_read_without_their_defaults() -> None:
    """What was not in the response is not in its plain form; extras are."""
    plain = completion("x", vendor=[1])
    assert as_json(ChatCompletion.model_validate(plain)) == plain
    assert as_json({"a": (1, {"b": ChatCompletion.model_validate(plain)})}) == {"a": [1, {"b": plain}]}


def nested(depth: int) -> dict[str, Any]:
    """Nest objects so deep."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("odd", [object(), b"x", [object()], {"a": {1}}, nested(100_000)])
def test_what_is_no_json_is_no_response(odd: Any) -> None:
    """What a client without HTTP gives beside JSON is malformed, not an exception."""
    assert Sending(Transport(Client(completion("x"))), DEFAULT_LIMITS).receive(odd) is None


def test_a_spliced_completion_is_the_sdks_own_class() -> None:
    """The message that we put together comes back as a ChatCompletion."""
    transport = Transport(Server(completion("x")).client())
    sending = Sending(transport, DEFAULT_LIMITS)
    sending.receive(sending.send({"model": "m", "messages": USER}, None))
    spliced = sending.completion(completion("y"), spliced=True)
    assert isinstance(spliced, ChatCompletion)
    assert spliced.choices[0].message.content == "y"


@pytest.mark.parametrize(("size", "read"), [(15_000, True), (17_000, False)])
def test_a_response_has_sixteen_times_the_room_of_a_reply(size: int, read: bool) -> None:
    """Log probabilities and usage fit beside the largest reply; beyond that the body is not read on."""
    sending = Sending(Transport(Server(completion("x" * size)).client()), Limits(reply_bytes=1_000))
    assert (sending.receive(sending.send({"model": "m", "messages": USER}, None)) is not None) is read


def test_the_sdk_repeats_nothing_that_we_send() -> None:
    """One request is sent for each of ours; the caller's client keeps its retries."""
    server = Server(status(500), completion("x"))
    inner = server.client(max_retries=5)
    transport = Transport(inner)
    with pytest.raises(openai.InternalServerError):
        transport.send({"model": "m", "messages": USER}, None)
    assert (len(server.requests), inner.max_retries, transport.owned_retries()) == (1, 5, 5)


@pytest.mark.parametrize(
    "client", [object(), None, SimpleNamespace(chat=None), SimpleNamespace(chat=SimpleNamespace())]
)
def test_what_has_no_create_is_no_client(client: Any) -> None:
    """Refused at once, with what is needed."""
    with pytest.raises(TypeError, match=r"chat\.completions\.create"):
        Transport(client)


@pytest.mark.parametrize(
    ("given", "left", "sent_"), [(None, 5.0, 5.0), (2, 5.0, 2), (9.5, 5.0, 5.0), ("odd", 5.0, 5.0)]
)
def test_a_timeout_is_shortened_to_what_is_left(given: Any, left: float, sent_: float) -> None:
    """The smaller of the two; a value that is no timeout gives way."""
    fake = Client(completion("x"))
    Transport(fake).send({"messages": USER} | ({} if given is None else {"timeout": given}), left)
    assert fake.script.requests[0]["timeout"] == sent_


@given(st.lists(st.sampled_from(["take", "repeat succeeded", "succeeded"]), max_size=200), st.integers(0, 8))
def test_v7_repeats_are_at_most_the_quota_and_what_successes_made_good(happenings: list[str], quota: int) -> None:
    """Repeats granted are at most the quota, one for each that succeeded, and a fifth for each success at once."""
    bucket, granted, made_good = RetryBucket(), 0, 0.0
    for happening in happenings:
        if happening == "take":
            granted += bucket.take(quota)
        else:
            bucket.give_back(repeated=happening == "repeat succeeded")
            made_good += 1 if happening == "repeat succeeded" else 0.2
        assert granted <= quota + made_good + 1e-9
    for _ in range(5 * quota):
        bucket.give_back(repeated=False)
    assert [bucket.take(quota) for _ in range(quota + 1)] == [True] * quota + [False]


def test_v4_the_time_between_two_effects_counts() -> None:
    """A lap begins where the last one ended, and a request begins with what passed since."""
    times = iter([0.0, 1.0, 3.0, 3.5, 4.0])
    sending = Sending(Transport(Client(completion("x"))), DEFAULT_LIMITS, clock=lambda: next(times))
    assert sending.lap() == 1.0
    assert sending.begin(5.0) == 2.0  # from 1.0 to 3.0
    assert sending.left() == 2.5  # the deadline is at 6.0
    assert sending.lap() == 1.0
