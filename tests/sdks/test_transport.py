"""The one seam to the API: how a request is sent and a response read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai.resources.chat.completions import Completions
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel

from strictreply import Limits
from strictreply.client._sending import CallIO
from strictreply.core import DEFAULT_LIMITS, RetryBucket
from strictreply.core.forms import as_json
from strictreply.sdks._openai import OPENAI
from strictreply.sdks._posting import ReceivedResponse, _is_plain, parsed
from strictreply.sdks._transport import Transport
from strictreply.values._requests import Definitions
from strictreply.wires._bodies import read_body
from support.scripted import USER, Client, Server, call, completion, http, status

PATHS = {"chat": "chat.completions", "responses": "responses"}
CHAT_DOOR = OPENAI.doors["chat.completions"]


class Unset:
    """A value that is no JSON."""


def requests_of(api: str = "chat", **keywords: Any) -> tuple[Any, Any]:
    """Return the request that we send, and the one that the SDK sends.

    The SDK's own ``create`` gets the same keywords.
    """
    ours = Server(completion("x"))
    theirs = Server(completion("x"))
    Transport(ours.client(), PATHS[api]).send({"model": "m", **keywords}, None)
    resource = theirs.client().chat.completions if api == "chat" else theirs.client().responses
    resource.with_raw_response.create(model="m", **keywords)
    return ours.requests[0], theirs.requests[0]


def same_request(api: str = "chat", **keywords: Any) -> dict[str, Any]:
    """Check that we send what the SDK sends for these keywords, and return the body."""
    ours, theirs = requests_of(api, **keywords)
    assert ours.content == theirs.content
    assert (ours.method, ours.url) == (theirs.method, theirs.url)
    own = {"idempotency-key", "x-stainless-raw-response"}
    assert {*ours.headers.items()} ^ {*theirs.headers.items()} <= {
        (name, value)
        for one in (ours, theirs)
        for name, value in one.headers.items()
        if name in own
    }

    body: dict[str, Any] = json.loads(ours.content)
    return body


def test_other_sdks_are_read_as_objects() -> None:
    """A raw response of another SDK may be anything: its own ``create`` is used, and its model is
    dumped.
    """
    given = ChatCompletion.model_validate(completion("x"))
    completions = SimpleNamespace(create=lambda **request: given, with_raw_response=None)
    sending = CallIO(
        Transport(SimpleNamespace(chat=SimpleNamespace(completions=completions))), DEFAULT_LIMITS
    )
    assert sending.receive(sending.send({"messages": USER}, None)) == completion("x")
    assert sending.completion(completion("x"), spliced=False) is given
    assert sending.completion(completion("y"), spliced=True).choices[0].message.content == "y"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)
MEMBERS = [
    "tools",
    "response_format",
    "temperature",
    "metadata",
    "stop",
    "logit_bias",
    "user",
    "stream_options",
]


@given(
    messages=st.lists(
        st.dictionaries(st.sampled_from(["role", "content", "name"]), PLAIN), max_size=2
    ),
    members=st.dictionaries(st.sampled_from(MEMBERS), PLAIN),
)
def test_plain_json_is_sent_as_the_sdk_sends_it(messages: Any, members: dict[str, Any]) -> None:
    """A request past the SDK's transform is the same, to the byte, but for a header that is never
    the same.
    """
    same_request(messages=messages, **members)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_keywords_of_the_transport_reach_it(api: str) -> None:
    """Headers, query, body and timeout of the caller's own go the SDK's way, and the last has the
    last word.
    """
    given: Any = {"messages": USER} if api == "chat" else {"input": "tea?"}
    options: Any = {"extra_headers": {"X-Mine": "1"}, "extra_query": {"a": "b"}, "timeout": 7.5}
    body = same_request(
        api, **given, **options, temperature=1, extra_body={"temperature": 0, "top_k": 2}
    )
    assert (body["temperature"], body["top_k"]) == (0, 2)
    same_request(api, **given, extra_headers=None, extra_query=None, extra_body=None, timeout=None)
    same_request(api, **given, temperature=openai.NOT_GIVEN, timeout=openai.NOT_GIVEN)


@pytest.mark.parametrize(
    "message",
    [ChatCompletionMessage(role="assistant", content="x"), {"role": "user", "content": ("tuple",)}],
)
def test_what_is_no_plain_json_takes_the_sdks_own_way(message: Any) -> None:
    """Values that are not plain JSON go through the SDK's transform, the others unchanged."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = same_request(messages=[*USER, message], tools=tools, temperature=0)
    assert body["tools"] == tools


@pytest.mark.parametrize(
    "value", [Unset(), {"role": Unset()}, {"a": [{"b": b"bytes"}]}, {"a": {1, 2}}]
)
def test_what_no_json_can_hold_is_refused_by_the_sdk(value: Any) -> None:
    """The SDK says what is wrong with what cannot be sent."""
    with pytest.raises(TypeError):
        requests_of(messages=[*USER, value])


class Counted(dict[str, Any]):
    """A definition that counts how often it is encoded."""

    encoded = 0

    def items(self) -> Any:
        """Count, and give the members."""
        self.encoded += 1
        return super().items()


@given(
    st.lists(st.dictionaries(st.text(max_size=3), PLAIN), max_size=3),
    st.dictionaries(st.sampled_from(MEMBERS), PLAIN),
)
def test_declared_tools_are_sent_as_the_sdk_sends_them(
    definitions: Any, members: dict[str, Any]
) -> None:
    """A body that we encode is the one that the SDK encodes, to the byte."""
    same_request(messages=USER, **members | {"tools": Definitions(definitions)})


def test_declared_tools_are_encoded_once() -> None:
    """However often they are sent; beside other tools, too."""
    server = Server(completion("x"))
    tools = [Counted(name=str(number)) for number in range(3)]
    transport = Transport(server.client())

    for _ in range(3):
        transport.send({"model": "m", "messages": USER, "tools": Definitions(tools)}, None)
        transport.send({"model": "m", "messages": USER, "tools": Definitions(tools[:1])}, None)

    assert [tool.encoded for tool in tools] == [2, 1, 1]

    for number in range(9):
        transport.send(
            {"model": "m", "messages": USER, "tools": Definitions([{"name": str(number)}])}, None
        )

    assert len(transport._posts._texts) == 8


def test_the_request_is_learnt_by_its_keywords_not_by_their_values() -> None:
    """Later requests of the same keywords carry their own values; streamed ones ask to stream."""
    server = Server(completion("x"))
    transport = Transport(server.client())

    for number in (1, 2):
        transport.send(
            {"model": f"m{number}", "messages": [{"role": "user", "content": str(number)}]}, None
        )

    first, second = (json.loads(body) for body in server.bodies)
    assert (first["model"], second["model"]) == ("m1", "m2")
    assert second["messages"] == [{"role": "user", "content": "2"}]


class Changed(Completions):
    """The SDK's completions as a later version may have them.

    What is private in them has other names.
    """

    create: Any


class Renamed(Changed):
    """Posts by another method."""

    def create(self, **keywords: Any) -> Any:
        """Post in a way that is not known to us."""
        return self._client.post("/chat/completions", body=keywords, cast_to=ChatCompletion)


class Wrapped(Changed):
    """Posts another body than the keywords."""

    def create(self, **keywords: Any) -> Any:
        """Post the keywords inside another object."""
        return self._post(
            "/chat/completions", body={"request": keywords}, cast_to=ChatCompletion, options={}
        )


class Encoded(Changed):
    """Posts bytes."""

    def create(self, **keywords: Any) -> Any:
        """Post what is encoded already."""
        content = json.dumps(keywords["messages"]).encode()
        return self._post("/chat/completions", content=content, cast_to=ChatCompletion)


@pytest.mark.parametrize("kind", [Renamed, Wrapped, Encoded])
def test_a_create_that_posts_otherwise_is_called(kind: Any) -> None:
    """An SDK method that no longer posts in the known way is called as it is."""
    ours = Server(completion("x"))
    theirs = Server(completion("x"))
    transport = Transport(ours.client())
    sender = kind(ours.client())
    assert transport._posts.of(sender, {"model": "m", "messages": USER}) is None
    sender.create(model="m", messages=USER)
    kind(theirs.client()).create(model="m", messages=USER)
    assert ours.bodies == theirs.bodies


def test_what_create_refuses_is_refused_by_create() -> None:
    """An unknown keyword is the SDK's own TypeError, even after keywords that are known."""
    server = Server(completion("x"))
    transport = Transport(server.client())
    transport.send({"model": "m", "messages": USER}, None)
    with pytest.raises(
        TypeError, match=r"create\(\) got an unexpected keyword argument 'temprature'"
    ):
        transport.send({"model": "m", "messages": USER, "temprature": 1}, None)
    assert len(server.requests) == 1


TOOLS: Any = Definitions([{"type": "function", "function": {"name": "f"}}])


@pytest.mark.parametrize("deployment", [None, "d"])
def test_azures_addresses_are_made_of_the_model(deployment: str | None) -> None:
    """A client that rewrites requests by what is in them does so with ours."""
    seen: list[Any] = []
    for way in ("ours", "theirs"):
        server = Server(completion("x"))
        transport = http.Client(transport=http.MockTransport(server.handle))
        client = openai.AzureOpenAI(
            api_key="none",
            api_version="2024-10-21",
            azure_endpoint="http://azure.invalid",
            azure_deployment=deployment,
            http_client=transport,
        )

        if way == "ours":
            Transport(client).send({"model": "m1", "messages": USER, "tools": TOOLS}, None)
            Transport(client).send({"model": "m2", "messages": USER, "tools": TOOLS}, None)
        else:
            client.chat.completions.create(model="m1", messages=USER, tools=TOOLS)
            client.chat.completions.create(model="m2", messages=USER, tools=TOOLS)

        seen.append([(str(one.url), one.content) for one in server.requests])

    assert seen[0] == seen[1]


USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["assistant", "assistant", "user"]),
        "content": st.none() | st.text() | PLAIN,
    },
    optional={
        "refusal": st.none() | st.text(),
        "tool_calls": st.lists(
            st.builds(call, st.text(), st.text() | PLAIN, st.text()) | PLAIN, max_size=2
        ),
        "audio": PLAIN,
        "reasoning": PLAIN,
        "annotations": st.lists(PLAIN, max_size=1),
        "function_call": st.none() | st.just({"name": "f", "arguments": "{}"}) | PLAIN,
    },
)
COMPLETIONS = st.fixed_dictionaries(
    {
        "id": st.text(),
        "choices": st.lists(
            st.fixed_dictionaries(
                {"index": st.integers(0, 2), "message": MESSAGES},
                optional={
                    "finish_reason": st.sampled_from(["stop", "tool_calls", "odd", None]),
                    "logprobs": st.none() | PLAIN,
                    "own": PLAIN,
                },
            ),
            max_size=2,
        ),
        "created": st.integers() | st.floats(),
        "model": st.text(),
        "object": st.sampled_from(["chat.completion", "chat.completion", "other"]),
    },
    optional={
        "usage": st.none() | st.just(USAGE) | PLAIN,
        "service_tier": PLAIN,
        "own": PLAIN | st.floats(),
    },
)


def raws(body: bytes) -> list[Any]:
    """Return raw responses of the SDK with a body."""
    client = Server(
        http.Response(200, content=body, headers={"content-type": "application/json"})
    ).client()
    return [
        client.chat.completions.with_raw_response.create(model="m", messages=USER) for _ in range(3)
    ]


def set_in(value: Any) -> Any:
    """Return the fields that are set at every level of an SDK object."""
    if isinstance(value, list):
        return [set_in(one) for one in value]
    if not isinstance(value, BaseModel):
        return None
    return value.model_fields_set, {name: set_in(one) for name, one in vars(value).items()}


@given(COMPLETIONS | PLAIN)
@example(completion("x", [call("f", {})], reasoning="r") | {"own": 1, "usage": {**USAGE, "own": 1}})
def test_a_completion_is_the_one_that_the_sdk_makes(body: Any) -> None:
    """Whatever is in it, and however little of it is valid: equal in classes, fields, set members
    and dump.
    """
    first, second, third = raws(json.dumps(body).encode())
    ours = parsed(CHAT_DOOR, first)
    theirs = third.parse()
    kept = ReceivedResponse.of(CHAT_DOOR, second)
    assert kept is not None

    assert not isinstance(body, dict) or repr(kept.parse()) == repr(theirs)
    assert type(ours) is type(theirs)
    assert repr(ours) == repr(theirs)

    if isinstance(theirs, ChatCompletion):
        assert ours.to_dict(warnings=False) == theirs.to_dict(warnings=False) or "nan" in repr(ours)
        assert set_in(ours) == set_in(theirs)


def test_a_valid_completion_is_made_by_pydantic_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not made field by field; its request id is kept, and it is made once."""
    answer = status(200, completion("x", [call("f", {})]), x_request_id="req_1")
    source = (
        Server(answer).client().chat.completions.with_raw_response.create(model="m", messages=USER)
    )
    monkeypatch.setattr(ChatCompletion, "construct", None)  # not called
    made: Any = parsed(CHAT_DOOR, source)
    assert made.choices[0].message.tool_calls[0].function.name == "f"

    assert made._request_id == "req_1"
    assert parsed(CHAT_DOOR, source) is made
    assert source.parse() is made


def test_deep_values_are_walked_without_recursion() -> None:
    """A conversation nested 100,000 levels deep is walked to its end: it is JSON all the way."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert _is_plain([deep])


def test_a_message_that_holds_itself_goes_the_sdks_way() -> None:
    """A value without an end is not walked for ever: the SDK raises its error for it."""
    endless: dict[str, Any] = {"role": "user"}
    endless["self"] = endless
    assert not _is_plain([endless])


def test_numbers_that_are_none_may_stand_in_what_is_not_ours() -> None:
    """Log probabilities of minus infinity, as some servers send them, cost no reply."""
    body = json.dumps(
        completion("x") | {"logprob": float("-inf"), "more": [float("nan"), 1.5]}
    ).encode()
    read = read_body(body, DEFAULT_LIMITS)
    assert isinstance(read, dict)
    assert read["choices"] == completion("x")["choices"]

    # so that everything sent back is JSON
    assert (read["logprob"], read["more"]) == (None, [None, 1.5])


def test_a_client_without_http_is_read_as_it_is() -> None:
    """A fake that gives mappings needs neither SDK nor HTTP."""
    fake = Client(completion("x"))
    sending = CallIO(Transport(fake), DEFAULT_LIMITS)
    response = sending.receive(sending.send({"messages": USER}, None))
    assert response == completion("x")
    assert sending.completion(completion("x"), spliced=False) == completion("x")
    assert sending.completion(completion("spliced"), spliced=True) == completion("spliced")
    assert fake.script.requests == [{"messages": USER}]


def test_sdk_objects_are_read_without_their_defaults() -> None:
    """A member that was not in the response is not in its plain form; extras are."""
    plain = completion("x", vendor=[1])
    assert as_json(ChatCompletion.model_validate(plain)) == plain
    assert as_json({"a": (1, {"b": ChatCompletion.model_validate(plain)})}) == {
        "a": [1, {"b": plain}]
    }


def nested(depth: int) -> dict[str, Any]:
    """Nest objects so deep."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("odd", [object(), b"x", [object()], {"a": {1}}, nested(100_000)])
def test_what_is_no_json_is_no_response(odd: Any) -> None:
    """A response of a client without HTTP that is not JSON is malformed, not an exception."""
    assert CallIO(Transport(Client(completion("x"))), DEFAULT_LIMITS).receive(odd) is None


def test_a_spliced_completion_is_the_sdks_own_class() -> None:
    """The message that we put together comes back as a ChatCompletion."""
    transport = Transport(Server(completion("x")).client())
    sending = CallIO(transport, DEFAULT_LIMITS)
    sending.receive(sending.send({"model": "m", "messages": USER}, None))
    spliced = sending.completion(completion("y"), spliced=True)
    assert isinstance(spliced, ChatCompletion)
    assert spliced.choices[0].message.content == "y"


@pytest.mark.parametrize(("size", "read"), [(15_000, True), (17_000, False)])
def test_a_response_has_sixteen_times_the_room_of_a_reply(size: int, read: bool) -> None:
    """Log probabilities and usage fit beside the largest reply; beyond that the body is not read
    on.
    """
    sending = CallIO(Transport(Server(completion("x" * size)).client()), Limits(reply_bytes=1_000))
    assert (
        sending.receive(sending.send({"model": "m", "messages": USER}, None)) is not None
    ) is read


def test_the_sdk_repeats_nothing_that_we_send() -> None:
    """One request is sent for each of ours; the caller's client keeps its retries."""
    server = Server(status(500), completion("x"))
    inner = server.client(max_retries=5)
    transport = Transport(inner)
    with pytest.raises(openai.InternalServerError):
        transport.send({"model": "m", "messages": USER}, None)
    assert (len(server.requests), inner.max_retries, transport.retries()[0]) == (1, 5, 5)


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


@given(
    st.lists(st.sampled_from(["take", "repeat succeeded", "succeeded"]), max_size=200),
    st.integers(0, 8),
)
def test_v7_repeats_are_at_most_the_quota_and_what_successes_made_good(
    happenings: list[str], retry_budget: int
) -> None:
    """Repeats granted are at most the retry budget, one for each that succeeded, and a fifth for
    each success at once.
    """
    bucket = RetryBucket()
    granted = 0
    made_good = 0.0

    for happening in happenings:
        if happening == "take":
            granted += bucket.take(retry_budget)
        else:
            bucket.give_back(repeated=happening == "repeat succeeded")
            made_good += 1 if happening == "repeat succeeded" else 0.2

        assert granted <= retry_budget + made_good + 1e-9

    for _ in range(5 * retry_budget):
        bucket.give_back(repeated=False)

    assert [bucket.take(retry_budget) for _ in range(retry_budget + 1)] == [True] * retry_budget + [
        False
    ]


def test_v4_the_time_between_two_effects_counts() -> None:
    """A lap begins where the last one ended, and a request begins with what passed since."""
    times = iter([0.0, 1.0, 3.0, 3.5, 4.0])
    sending = CallIO(Transport(Client(completion("x"))), DEFAULT_LIMITS, clock=lambda: next(times))
    assert sending.lap() == 1.0
    assert sending.begin(5.0) == 2.0  # from 1.0 to 3.0
    assert sending.left() == 2.5  # the deadline is at 6.0
    assert sending.lap() == 1.0
