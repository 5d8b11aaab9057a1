"""The engine over instructor: one attempt of instructor's for each ask of ours.

Our reader reads the raw reply.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import pickle
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, TypedDict

import pytest

pytest.importorskip("instructor", reason="instructor is an extra with a lane of its own")

import openai
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationInfo, field_validator

import strictreply as sr
from strictreply.integrations.instructor import AsyncInstructorEngine, InstructorEngine, wrap
from strictreply.testing import LoopbackServer
from support.integrations.providers import (
    ADA,
    MODES,
    QUESTION,
    Twin,
    User,
    codes,
    instructor,
    reply,
)
from support.scripted import Server, completion, refusal, status, truncated

USER = User(name="Ada", age=36)
ONE_RETRY = sr.RetryPolicy(max_retries=1, transport_retries=0)
BAD = {"name": "Ada", "age": "thirty-six"}


@pytest.fixture(params=["sync", "async"])
def twin(request: pytest.FixtureRequest) -> Twin:
    """Ask in both ways."""
    return Twin(request.param)


def sent(server: Server) -> list[dict[str, Any]]:
    """Return what was sent, as JSON."""
    return [json.loads(body) for body in server.bodies]


def extract(twin: Twin, server: Server, mode: str = "TOOLS", **keywords: Any) -> Any:
    """Ask an engine for a user, with its story."""
    options = {
        "policy": keywords.pop("policy", ONE_RETRY),
        "on_attempt": keywords.pop("on_attempt", None),
    }
    engine = wrap(twin.client(server, mode, **keywords.pop("options", {})), **options)
    return twin.run(engine.extract, **{"response_model": User, "messages": QUESTION, **keywords})


@pytest.mark.parametrize("mode", MODES)
def test_a_reply_that_fits_is_an_instance(twin: Twin, mode: str) -> None:
    """The value is the caller's own class, with the provider's own completion and one attempt
    beside it.
    """
    done = extract(twin, Server(reply(mode, ADA)), mode)
    assert done.value == USER
    assert type(done.value) is User
    assert type(done.completion).__name__ == "ChatCompletion"
    assert (len(done.attempts), done.usage.total_tokens) == (1, 15)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({**ADA, "admin": True}, "extra_key"),
        (BAD, "type"),
        ({"name": "Ada"}, "required"),
        ({**ADA, "age": 3}, "check"),
        ('{"name": "Ada", "name": "Eve", "age": 36}', "duplicate_key"),
        ('{"name": "Ada", "age": 36', "incomplete"),
        ('{"name": "Ada", "age": NaN}', "not_finite"),
    ],
)
def test_a_reply_that_does_not_fit_is_corrected_by_us(
    twin: Twin, mode: str, value: object, rule: str
) -> None:
    """Every mode is read strictly, validators included; the second request holds the bad reply and
    our correction.
    """
    server = Server(reply(mode, value), reply(mode, ADA))
    done = extract(twin, server, mode)
    assert done.value.model_dump() == ADA
    assert [code.partition(".")[2] for code in codes(done.attempts)[0]] == [rule]
    first, second = sent(server)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][-1]["content"] == done.attempts[1].correction
    assert {**second, "messages": []} == {**first, "messages": []}


def test_spent_retries_raise_our_error_with_what_was_sent(twin: Twin) -> None:
    """ReplyRejected carries every attempt, each request as instructor sent it."""
    server = Server(reply("TOOLS", BAD))
    with pytest.raises(sr.ReplyRejected) as caught:
        extract(twin, server)
    assert codes(caught.value.attempts) == [["args.type"], ["args.type"]]
    assert [dict(attempt.request) for attempt in caught.value.attempts] == sent(server)
    # The pickle is our own.
    assert pickle.loads(pickle.dumps(caught.value)).attempts[1].request["tools"]  # noqa: S301


@pytest.mark.parametrize(
    ("answer", "reason", "kind"),
    [
        (refusal(), "refusal", sr.ReplyHalted),
        (completion("", finish_reason="content_filter"), "content_filter", sr.ReplyHalted),
        (truncated(), "retries", sr.ReplyRejected),
        (completion("Ada, 36"), "retries", sr.ReplyRejected),
        (b"<html>", "malformed_response", sr.TransportFailed),
        (b"[]", "malformed_response", sr.TransportFailed),
        (b'{"choices": ' + b"[" * 5_000, "malformed_response", sr.TransportFailed),
    ],
)
def test_what_ends_a_call_is_one_of_our_errors(
    twin: Twin, answer: Any, reason: str, kind: type[sr.CallFailed]
) -> None:
    """A refusal, a cut or a body that is none end as without instructor, not in its exceptions."""
    with pytest.raises(kind) as caught:
        extract(twin, Server(answer))
    assert caught.value.reason == reason


def test_the_sdks_exception_is_the_cause(twin: Twin) -> None:
    """The transport's failure is read from what the provider's SDK raised."""
    with pytest.raises(sr.TransportFailed) as caught:
        extract(twin, Server(status(429, retry_after="7")))
    assert (caught.value.status_code, caught.value.retry_after) == (429, 7.0)
    assert type(caught.value.cause).__name__ == "RateLimitError"


def test_the_transport_is_repeated_by_one_owner(twin: Twin) -> None:
    """Without a policy the engine repeats no failed request: the SDK does, as it always did."""
    server = Server(status(500))
    engine = wrap(twin.client(server))
    with pytest.raises(sr.TransportFailed):
        twin.run(engine.create, response_model=User, messages=QUESTION)
    assert len(server.requests) == 1


class Pair(TypedDict):
    """A shape that is no model."""

    left: int
    right: int


@pytest.mark.parametrize(
    ("kind", "name", "said", "value"),
    [
        (int, "Response", {"content": 3}, 3),
        (Literal["a", "b"], "Response", {"content": "b"}, "b"),
        (list[str], "Response", {"content": ["x"]}, ["x"]),
        (list[User], "IterableUser", {"tasks": [ADA, ADA]}, [USER, USER]),
        (Iterable[User], "IterableUser", {"tasks": [ADA]}, [USER]),
    ],
)
def test_types_that_are_no_models_are_unwrapped(
    twin: Twin, kind: Any, name: str, said: object, value: object
) -> None:
    """A type that instructor wraps for the request is unwrapped in the value."""
    done = extract(twin, Server(reply("TOOLS", said, name)), response_model=kind)
    assert done.value == value


def test_a_typed_dict_is_read_as_instructor_reads_it(twin: Twin) -> None:
    """A TypedDict becomes the model that instructor makes of it."""
    done = extract(
        twin, Server(reply("TOOLS", {"left": 1, "right": 2}, "Pair")), response_model=Pair
    )
    assert done.value.model_dump() == {"left": 1, "right": 2}


class Member(BaseModel):
    """A model whose rule depends on the context."""

    name: str

    @field_validator("name")
    @classmethod
    def known(cls, name: str, info: ValidationInfo) -> str:
        """Look the name up."""
        if info.context is None or name not in info.context["members"]:
            raise ValueError("no such member")
        return name


@pytest.mark.parametrize("mode", MODES)
def test_the_context_reaches_templates_and_validators_but_no_reply(twin: Twin, mode: str) -> None:
    """``context`` fills the caller's templates and ``info.context``; what the model wrote is no
    template.
    """
    server = Server(
        reply(mode, {"name": "{{ who }}"}, "Member"), reply(mode, {"name": "Ada"}, "Member")
    )
    context = {"who": "Ada", "members": ["Ada"]}
    done = extract(twin, server, mode, response_model=Member, context=context)
    assert done.value == Member.model_validate({"name": "Ada"}, context=context)

    assert [(issue.code.partition(".")[2], issue.message) for issue in done.attempts[0].issues] == [
        ("check", "no such member")
    ]
    second = json.dumps(sent(server)[1]["messages"])
    assert "Who is Ada?" in second
    assert "{{ who }}" in second


@pytest.mark.parametrize(
    "keyword",
    ["tools", "tool_choice", "response_format", "max_retries", "token_budget", "strict", "cache"],
)
def test_keywords_that_would_go_unheard_are_refused(twin: Twin, keyword: str) -> None:
    """Keywords that instructor makes itself, or the policy owns, are refused before anything is
    sent.
    """
    server = Server(reply("TOOLS", ADA))
    with pytest.raises(sr.ContractError, match=keyword):
        twin.run(
            wrap(twin.client(server)).create, response_model=User, messages=QUESTION, **{keyword: 1}
        )
    assert server.requests == []


@pytest.mark.parametrize("keyword", ["tools", "tool_choice", "response_format"])
def test_defaults_of_the_client_do_not_replace_the_model(twin: Twin, keyword: str) -> None:
    """A keyword that the client sends with every call is refused as it is in one: it would be
    another contract.
    """
    server = Server(reply("TOOLS", ADA))
    client = twin.client(server)
    client.kwargs |= {keyword: 1}
    with pytest.raises(sr.ContractError, match=keyword):
        twin.run(wrap(client).create, response_model=User, messages=QUESTION)
    assert server.requests == []


@pytest.mark.parametrize("kind", [None, 3, "User"])
def test_what_is_no_type_is_refused(twin: Twin, kind: Any) -> None:
    """A response model that is none is an error of the caller's, before anything is sent."""
    server = Server(reply("TOOLS", ADA))
    with pytest.raises((sr.ContractError, AssertionError, TypeError)):
        extract(twin, server, response_model=kind)
    assert server.requests == []


def test_hooks_go_on_seeing_every_ask(twin: Twin) -> None:
    """The client's hooks and the call's see each request with our correction, each response, each
    bad reply.
    """
    seen: list[tuple[str, Any]] = []
    server = Server(reply("TOOLS", BAD), reply("TOOLS", ADA))
    client = twin.client(server)
    client.on("completion:kwargs", lambda **sent: seen.append(("kwargs", len(sent["messages"]))))

    client.on(
        "parse:error",
        lambda error, **told: seen.append(("parse", (str(error), told["attempt_number"]))),
    )
    hooks = instructor.core.Hooks()
    hooks.on("completion:response", lambda response: seen.append(("response", response.id)))
    twin.run(wrap(client).create, response_model=User, messages=QUESTION, hooks=hooks)

    assert [name for name, _ in seen] == ["kwargs", "response", "parse", "kwargs", "response"]
    assert [value for name, value in seen if name == "kwargs"] == [1, 3]
    assert "thirty-six" not in str(seen)


def test_the_watcher_sees_what_was_sent(twin: Twin) -> None:
    """``on_attempt`` is told of every attempt, with instructor's request."""
    told: list[sr.Attempt] = []
    done = extract(twin, Server(reply("TOOLS", BAD), reply("TOOLS", ADA)), on_attempt=told.append)
    assert tuple(told) == done.attempts
    assert [attempt.request["tool_choice"]["function"]["name"] for attempt in told] == [
        "User",
        "User",
    ]


def test_an_async_watcher_is_awaited() -> None:
    """An async engine awaits its watcher; a sync one refuses it."""
    told: list[int] = []

    async def watch(attempt: sr.Attempt) -> None:
        told.append(attempt.number)

    extract(Twin("async"), Server(reply("TOOLS", ADA)), on_attempt=watch)
    assert told == [1]

    with pytest.raises(sr.ContractError):
        wrap(Twin("sync").client(Server(status(500))), on_attempt=watch)


def test_instructor_neither_logs_nor_repeats_a_bad_reply(
    twin: Twin, caplog: pytest.LogCaptureFixture
) -> None:
    """No word of the model's reaches a log of instructor's or ours, and no correction of
    instructor's is sent.
    """
    server = Server(reply("TOOLS", BAD), reply("TOOLS", ADA))
    with caplog.at_level(logging.INFO):
        extract(twin, server)
    assert "thirty-six" not in caplog.text
    assert "Validation Error" not in json.dumps(sent(server))


def test_a_cache_of_the_client_is_not_asked(twin: Twin) -> None:
    """Each value came through the strict reader: what instructor cached is not taken."""
    server = Server(reply("TOOLS", ADA))
    client = twin.client(
        server, cache=importlib.import_module("instructor.cache").AutoCache(maxsize=4)
    )

    for _ in range(2):
        twin.run(client.create, response_model=User, messages=QUESTION)

    assert len(server.requests) == 1
    assert twin.run(wrap(client).create, response_model=User, messages=QUESTION).name == "Ada"
    assert len(server.requests) == 2


def test_the_clients_own_keywords_are_sent(twin: Twin) -> None:
    """The keywords of an instructor client go into each request, and room is made for a reply that
    was cut.
    """
    server = Server(truncated(), reply("TOOLS", ADA))
    extract(twin, server, options={"max_tokens": 50, "temperature": 0})
    assert [(one["max_tokens"], one["temperature"], one["model"]) for one in sent(server)] == [
        (50, 0, "m"),
        (100, 0, "m"),
    ]


def test_a_policy_for_one_call(twin: Twin) -> None:
    """``policy`` is a keyword of the call as well, with its escalation: the same bad reply twice
    goes up at once.
    """
    server = Server(reply("TOOLS", BAD))
    policy = sr.RetryPolicy(max_retries=3, escalation={"model": "stronger"})
    engine = wrap(twin.client(server))
    with pytest.raises(sr.ReplyRejected):
        twin.run(engine.create, response_model=User, messages=QUESTION, policy=policy)
    assert [one["model"] for one in sent(server)] == ["m", "m", "stronger", "stronger"]


def test_the_callers_messages_are_never_touched(twin: Twin) -> None:
    """A corrected call leaves the caller's list and its turns as they were."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ada?"}]
    before = json.dumps(messages)
    extract(
        twin, Server(reply("MD_JSON", BAD), reply("MD_JSON", ADA)), "MD_JSON", messages=messages
    )
    assert json.dumps(messages) == before


def test_leniency_is_opted_into(twin: Twin) -> None:
    """A fence in JSON mode is refused, unless ``extraction`` says otherwise."""
    fenced = reply("MD_JSON", ADA)
    with pytest.raises(sr.ReplyRejected):
        extract(twin, Server(fenced), "JSON")
    engine = wrap(twin.client(Server(fenced), "JSON"), extraction="fenced")
    assert twin.run(engine.create, response_model=User, messages=QUESTION).name == "Ada"


def test_a_provider_string_reaches_the_engine() -> None:
    """``from_provider`` makes what an engine takes; its model stays the default."""
    server = Server(reply("TOOLS", ADA))
    http = server.client()._client
    client = instructor.from_provider(
        "openai/gpt-x", api_key="none", base_url="http://model.invalid", http_client=http
    )
    assert wrap(client).create(response_model=User, messages=QUESTION).name == "Ada"
    assert sent(server)[0]["model"] == "gpt-x"


def test_an_engine_is_the_twin_of_its_client() -> None:
    """A sync client gives a sync engine, an async client an async one."""
    assert isinstance(wrap(Twin("sync").client(Server(status(500)))), InstructorEngine)
    assert isinstance(wrap(Twin("async").client(Server(status(500)))), AsyncInstructorEngine)


def test_what_cannot_be_served_is_refused_while_declaring() -> None:
    """No instructor client, or a mode or provider of unknown shape: each error says what to do."""
    sdk = Server(status(500)).client()
    with pytest.raises(TypeError, match="from_provider"):
        wrap(sdk)

    with pytest.raises(sr.ContractError, match="PARALLEL_TOOLS"):
        wrap(instructor.from_openai(sdk, mode=instructor.Mode.PARALLEL_TOOLS))

    cohere = instructor.Instructor(
        client=None, create=lambda **_: None, provider=instructor.Provider.COHERE
    )
    with pytest.raises(sr.ContractError, match="anthropic"):
        wrap(cohere)


_VALUES = st.one_of(
    st.just(ADA),
    st.fixed_dictionaries(
        {}, optional={"name": st.text(), "age": st.integers(0, 60), "x": st.none()}
    ),
    st.text(),
)


@given(st.sampled_from(MODES), st.lists(_VALUES, min_size=1, max_size=4))
def test_nothing_but_what_fits_comes_out(mode: str, values: list[Any]) -> None:
    """For any reply, the value equals it and fits uncoerced, or our error ends the two asks."""
    server = Server(*(reply(mode, value) for value in values))
    outcome: list[Any] = []
    with suppress(sr.CallFailed):
        outcome.append(extract(Twin("sync"), server, mode).value)
    assert len(server.requests) <= 2
    assert all(User.model_validate(user.model_dump(), strict=True) == user for user in outcome)
    assert all(user.model_dump() in values for user in outcome)


def test_calls_at_the_same_time_keep_apart() -> None:
    """One engine serves many tasks: each call is corrected by its own attempts, and gets its own
    value.
    """

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        asked = request["messages"][0]["content"]
        first = len(request["messages"]) == 1
        return reply("TOOLS", {"name": asked} if first else {"name": asked, "age": 36})

    async def ask_all(base_url: str, names: list[str]) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none") as sdk:
            engine = wrap(instructor.from_openai(sdk, model="m"))
            turns = [[{"role": "user", "content": name}] for name in names]
            return await asyncio.gather(
                *(engine.extract(response_model=User, messages=turn) for turn in turns)
            )

    names = [f"user {number}" for number in range(8)]
    with LoopbackServer(answer) as server:
        found = asyncio.run(ask_all(server.base_url, names))

    assert [(done.value.name, codes(done.attempts)) for done in found] == [
        (n, [["args.required"], []]) for n in names
    ]


def test_a_cancelled_call_is_cancelled() -> None:
    """A cancellation passes through instructor and strictreply unchanged."""

    async def never(**_: Any) -> Any:
        await asyncio.Event().wait()

    async def main() -> None:
        engine = wrap(
            instructor.AsyncInstructor(client=None, create=instructor.patch(create=never))
        )
        await asyncio.wait_for(engine.create(response_model=User, messages=QUESTION), timeout=0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_a_create_that_tells_of_no_reply_brought_none() -> None:
    """A function that is not instructor's own gives nothing to read: that is no completion, and no
    value.
    """
    engine = wrap(instructor.Instructor(client=None, create=lambda **_: User(name="Eve", age=99)))
    with pytest.raises(sr.TransportFailed) as caught:
        engine.create(response_model=User, messages=QUESTION)
    assert caught.value.reason == "malformed_response"


def test_v7_the_calls_of_an_engine_share_its_quota(twin: Twin) -> None:
    """An engine that may repeat what the network loses repeats no more than its retry budget in
    all of its calls.
    """
    server = Server(status(503, retry_after="0"))
    policy = sr.RetryPolicy(max_retries=0, transport_retries=2, retry_budget=3)
    engine = wrap(twin.client(server, "TOOLS", max_retries=0), policy=policy)
    reasons = []

    for _ in range(4):
        with pytest.raises(sr.TransportFailed) as raised:
            twin.run(engine.extract, response_model=User, messages=QUESTION)
        reasons.append(raised.value.reason)

    assert reasons == ["server_error", *["retry_budget"] * 3]
    assert len(server.requests) == 4 + 3
