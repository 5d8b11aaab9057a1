"""What users of other libraries write by habit, and the words that set them right."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from anthropic import Anthropic
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

import strictreply as sr
from strictreply import pipeline
from strictreply.client._client import WrapKeywords
from strictreply.client._wrapped import CallKeywords
from strictreply.contract._tool import ToolKeywords
from strictreply.loop._run_values import RunKeywords
from strictreply.values import _mistakes
from support.scripted import Server, call, completion

HELLO: Any = [{"role": "user", "content": "hi"}]


class User(BaseModel):
    """Somebody."""

    name: str


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def raw() -> OpenAI:
    """The SDK's client of a server that answers once."""
    return Server(completion("hello")).client()


def wrapped(**keywords: Any) -> Any:
    """A wrapped client of that server."""
    return sr.wrap(raw(), **keywords)


def asked(**keywords: Any) -> Any:
    """A reply to one call."""
    return wrapped().reply(model="m", messages=HELLO, **keywords)


def created(**keywords: Any) -> Any:
    """A completion of the SDK's own method."""
    return wrapped().chat.completions.create(model="m", messages=HELLO, **keywords)


def ran(**keywords: Any) -> Any:
    """A run to its answer."""
    return sr.run(wrapped(), "hi", model="m", **keywords)


MISTAKES: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    # instructor
    (
        "instructor: create(response_model=)",
        lambda: created(response_model=User),
        TypeError,
        "answer=",
    ),
    (
        "instructor: reply(response_model=)",
        lambda: asked(response_model=User),
        TypeError,
        "answer=",
    ),
    (
        "instructor: wrap(response_model=)",
        lambda: wrapped(response_model=User),
        TypeError,
        "answer=",
    ),
    ("instructor: wrap(mode=)", lambda: wrapped(mode="TOOLS"), sr.ContractError, "channel="),
    ("instructor: validation_context", lambda: asked(validation_context={}), TypeError, "check"),
    ("instructor: hooks", lambda: wrapped(hooks={}), TypeError, "on_attempt="),
    ("instructor: strict=True", lambda: created(strict=True), sr.ContractError, "wrap("),
    ("instructor: from_openai", lambda: sr.from_openai, AttributeError, "wrap("),  # type: ignore[attr-defined]
    ("instructor: patch", lambda: sr.patch, AttributeError, "wrap("),  # type: ignore[attr-defined]
    (
        "instructor: its exception",
        lambda: sr.InstructorRetryException,  # type: ignore[attr-defined]
        AttributeError,
        "ReplyRejected",
    ),
    (
        "instructor: create_with_completion",
        lambda: wrapped().chat.completions.create_with_completion,
        AttributeError,
        "exchange(",
    ),
    (
        "instructor: create_partial of the client",
        lambda: wrapped().create_partial,
        AttributeError,
        "stream(",
    ),
    # pydantic-ai
    ("pydantic-ai: output_type", lambda: wrapped(output_type=User), TypeError, "answer="),
    ("pydantic-ai: result_type", lambda: wrapped(result_type=User), TypeError, "answer="),
    ("pydantic-ai: retries", lambda: wrapped(retries=2), TypeError, "max_retries="),
    ("pydantic-ai: system_prompt", lambda: wrapped(system_prompt="x"), TypeError, "system message"),
    ("pydantic-ai: deps", lambda: ran(deps=1), TypeError, "context="),
    ("pydantic-ai: message_history", lambda: ran(message_history=[]), TypeError, "after="),
    ("pydantic-ai: usage_limits", lambda: ran(usage_limits=1), TypeError, "max_tokens_total="),
    ("pydantic-ai: Agent", lambda: sr.Agent, AttributeError, "run("),  # type: ignore[attr-defined]
    ("pydantic-ai: ModelRetry", lambda: sr.ModelRetry, AttributeError, "ToolError"),  # type: ignore[attr-defined]
    ("pydantic-ai: run.output", lambda: ran().output, AttributeError, "answer"),
    ("pydantic-ai: all_messages()", lambda: ran().all_messages(), AttributeError, "transcript"),
    ("pydantic-ai: retries of a tool", lambda: sr.tool(add, retries=2), TypeError, "max_retries="),  # type: ignore[call-overload]
    ("pydantic-ai: context of a reply", lambda: asked(context=1), TypeError, "context= of run()"),
    # the SDK
    ("openai: a text as the client", lambda: sr.wrap("gpt-4o"), TypeError, "model="),
    ("openai: the class as the client", lambda: sr.wrap(OpenAI), TypeError, "OpenAI()"),
    (
        "openai: response_format in wrap",
        lambda: wrapped(response_format=User),
        TypeError,
        "answer=",
    ),
    ("openai: text_format", lambda: asked(text_format=User), TypeError, "answer="),
    ("openai: model in wrap", lambda: wrapped(model="m"), TypeError, "reply("),
    ("openai: timeout in wrap", lambda: wrapped(timeout=3), TypeError, "deadline="),
    ("openai: functions", lambda: wrapped(functions=[add]), TypeError, "tools="),
    ("openai: temprature", lambda: asked(temprature=0), TypeError, "temperature"),
    ("openai: message", lambda: asked(message=HELLO), TypeError, "messages="),
    ("openai: no model", lambda: wrapped().reply(messages=HELLO), TypeError, "model"),
    ("openai: no messages", lambda: wrapped().reply(model="m"), sr.ContractError, "messages"),
    ("openai: reply.content", lambda: asked().content, AttributeError, "answer"),
    ("openai: reply.choices", lambda: asked().choices, AttributeError, "completion"),
    ("openai: session", lambda: ran(session=object()), TypeError, "sessions="),
    ("openai: max_turns", lambda: ran(max_turns=3), TypeError, "max_iterations="),
    ("openai: a raw client in run", lambda: sr.run(raw(), "hi"), sr.ContractError, "wrap("),  # type: ignore[arg-type]
    # any of them
    ("a path as the sessions", lambda: ran(sessions="runs.db"), sr.ContractError, "SQLiteSession"),
    ("a name as the agent", lambda: ran(agent="desk"), sr.ContractError, "AgentContext(id="),
    ("a tool as the answer", lambda: wrapped(answer=sr.tool(add)), sr.ContractError, "tools="),
    ("a check that is a text", lambda: sr.tool(add, check="x"), sr.ContractError, "a function"),  # type: ignore[call-overload]
    (
        "a text as the function of a tool",
        lambda: sr.Tool.from_model(User, function="x"),  # type: ignore[call-overload]
        sr.ContractError,
        "a function",
    ),
    (
        "an approval that is a text",
        lambda: sr.tool(add, needs_approval="no"),  # type: ignore[call-overload]
        sr.ContractError,
        "True or False",
    ),
    (
        "a repeatable that is a number",
        lambda: sr.tool(add, repeatable=2),  # type: ignore[call-overload]
        sr.ContractError,
        "True or False",
    ),
    ("one tool without a list", lambda: wrapped(tools=add), sr.ContractError, "list"),
    ("a tool that was called", lambda: wrapped(tools=[add(1, 2)]), sr.ContractError, "itself"),
    (
        "an instance as the answer",
        lambda: wrapped(answer=User(name="x")),
        sr.ContractError,
        "the type User",
    ),
    ("a module as the client", lambda: sr.wrap(math), TypeError, "the module math"),
    (
        "a part of a client as the client",
        lambda: sr.wrap(raw().chat.completions),
        TypeError,
        "the client itself",
    ),
    ("a check of an answer", lambda: wrapped(answer=User, check=print), TypeError, "validator"),
    ("a number as the policy", lambda: wrapped(policy=3), sr.ContractError, "max_retries=3"),
    (
        "a policy and a part of it",
        lambda: wrapped(policy=sr.RetryPolicy(), max_retries=3),
        sr.ContractError,
        "policy=RetryPolicy(max_retries=3",
    ),
    ("a bool as a count", lambda: wrapped(max_retries=True), sr.ContractError, "whole number"),
    ("half a retry", lambda: sr.RetryPolicy(max_retries=2.5), sr.ContractError, "whole number"),  # type: ignore[arg-type]
    ("a count in text", lambda: sr.RetryPolicy(arg_retries="2"), sr.ContractError, "or None"),  # type: ignore[arg-type]
    ("a bool as the deadline", lambda: asked(deadline=True), sr.ContractError, "not True"),
    ("no number as the deadline", lambda: wrapped(deadline=math.nan), ValueError, "not nan"),
    ("a deadline that is over", lambda: asked(deadline=-1), ValueError, "0 or more, or None"),
    ("no wait at all", lambda: sr.RetryPolicy(max_retry_after=None), ValueError, "0 allows none"),  # type: ignore[arg-type]
    ("an answer in a call", lambda: asked(answer=User), sr.ContractError, "Contract(answer="),
    ("a price that is a number", lambda: sr.RetryPolicy(price=3), sr.ContractError, "a function"),  # type: ignore[arg-type]
    ("a wait in seconds", lambda: sr.RetryPolicy(wait=3), sr.ContractError, "tenacity"),  # type: ignore[arg-type]
    ("a stop after attempts", lambda: sr.RetryPolicy(stop=3), sr.ContractError, "tenacity"),  # type: ignore[arg-type]
    ("a human in text", lambda: sr.RetryPolicy(ask_human="Ann"), sr.ContractError, "a function"),  # type: ignore[arg-type]
    ("one model", lambda: sr.RetryPolicy(models="gpt-5"), sr.ContractError, "a list"),
    (
        "blank answers in text",
        lambda: wrapped(allow_blank_answers="yes"),
        sr.ContractError,
        "True or False",
    ),
    ("a description in numbers", lambda: sr.tool(add, description=3), sr.ContractError, "a text"),  # type: ignore[call-overload]
    ("LiteLLM: fallbacks", lambda: wrapped(fallbacks=["m"]), TypeError, "models="),
    ("LangChain: structured_output", lambda: wrapped(structured_output=User), TypeError, "answer="),
    ("RetryPolicy(usage_limits=)", lambda: sr.RetryPolicy(usage_limits=1), TypeError, "max_tokens"),  # type: ignore[call-arg]
    ("LoopPolicy(max_iter=)", lambda: sr.LoopPolicy(max_iter=3), TypeError, "max_iterations"),  # type: ignore[call-arg]
    ("RetryPolicy(retries=)", lambda: sr.RetryPolicy(retries=3), TypeError, "max_retries"),  # type: ignore[call-arg]
    ("RetryPolicy(timeout=)", lambda: sr.RetryPolicy(timeout=3), TypeError, "deadline"),  # type: ignore[call-arg]
    ("LoopPolicy(max_turns=)", lambda: sr.LoopPolicy(max_turns=3), TypeError, "max_iterations"),  # type: ignore[call-arg]
    ("Limits(max_depth=)", lambda: sr.Limits(max_depth=3), TypeError, "depth"),  # type: ignore[call-arg]
    ("tool(desc=)", lambda: sr.tool(add, desc="x"), TypeError, "description"),  # type: ignore[call-overload]
    ("a name misspelt", lambda: sr.Retrypolicy, AttributeError, "RetryPolicy"),  # type: ignore[attr-defined]
]


@pytest.mark.parametrize(
    ("made", "kind", "right"),
    [case[1:] for case in MISTAKES],
    ids=[case[0] for case in MISTAKES],
)
def test_a_usual_mistake_is_answered_with_what_was_meant(
    made: Callable[[], object], kind: type[Exception], right: str
) -> None:
    """Each mistake raises at once, and the message names what to write instead."""
    with pytest.raises(kind) as raised:
        made()

    assert right in str(raised.value)
    assert "\n" not in str(raised.value)


def test_nothing_is_sent_for_a_keyword_of_another_library() -> None:
    """The keyword is refused before the first request, sync and streamed, on both APIs."""
    server = Server()
    client: Any = sr.wrap(server.client())

    given: Any = {"model": "m", "messages": HELLO, "response_model": User}
    calls: list[Callable[[], object]] = [
        lambda: client.reply(**given),
        lambda: client.exchange(**given),
        lambda: client.chat.completions.create(**given),
        lambda: client.chat.completions.create(**given, stream=True),
        lambda: next(client.stream(**given)),
    ]
    for make in calls:
        with pytest.raises(TypeError, match="answer="):
            make()

    assert server.bodies == []


def _words() -> Iterator[tuple[str, str]]:
    for name in dir(_mistakes):
        table: Any = getattr(_mistakes, name)
        if name.isupper() and not name.startswith("_"):
            for meant in table.values():
                yield name, meant


KEYWORDS = {
    *WrapKeywords.__annotations__,
    *CallKeywords.__annotations__,
    *RunKeywords.__annotations__,
    *ToolKeywords.__annotations__,
    *(field.name for kind in (sr.RetryPolicy, sr.LoopPolicy, sr.Limits) for field in fields(kind)),
    *inspect.signature(sr.Tool.from_json_schema).parameters,
    "answer",
    "context",
    "contract",
    "request",  # of an agent in a graph
}


def test_what_is_named_instead_exists() -> None:
    """Every keyword, class and method that a message names is one of the surface."""
    words = list(_words())
    assert len(words) > 100

    client = wrapped()
    for table, meant in words:
        for keyword in re.findall(r"(\w+)=", meant):
            assert keyword in KEYWORDS, (table, meant)
        for name in re.findall(r"\b([A-Z]\w+[a-z])\b", meant):
            assert name in {*sr.__all__, *pipeline.__all__}, (table, meant)
        for method in re.findall(r"(\w+)\(…", meant):
            assert any(hasattr(one, method) for one in (client, sr, sr.Tool)), meant


@pytest.mark.parametrize("wrong", sorted(_mistakes.ON_RUNS))
def test_what_is_named_instead_of_an_attribute_of_a_run_is_one(wrong: str) -> None:
    """The first word that a run answers a foreign name with is an attribute of it."""
    with pytest.raises(AttributeError) as raised:
        getattr(ran(), wrong)

    meant = re.search(r"did you mean (\w+)", str(raised.value))
    assert meant is not None
    assert meant[1] in dir(sr.Run)


def test_no_word_of_another_library_is_a_keyword_of_ours() -> None:
    """A table never stands in the way of a keyword that works.

    ``system`` is a keyword of Messages alone: the client of another API refuses it, and the hint
    is for that refusal.
    """
    assert not _mistakes.IN_WRAP.keys() & {*WrapKeywords.__annotations__, "answer"}
    assert _mistakes.IN_CALLS.keys() & CallKeywords.__annotations__.keys() == {"system"}
    assert not _mistakes.IN_RUNS.keys() & RunKeywords.__annotations__.keys()
    assert not _mistakes.IN_TOOLS.keys() & ToolKeywords.__annotations__.keys()
    assert not _mistakes.NAMES.keys() & set(sr.__all__)


@pytest.mark.parametrize("is_of_call", [True, False])
def test_the_retries_may_be_given_alone(*, is_of_call: bool) -> None:
    """With ``max_retries=1``, in ``wrap`` or in a call, the second bad reply is the last."""
    bad = [completion("nonsense")] * 4
    policy = sr.RetryPolicy(max_retries=3, max_invalid_calls=1)
    client: Any = Server(*bad).client()
    one: Any = {"max_retries": 1}

    wrapped = sr.wrap(client, answer=User, policy=policy) if is_of_call else None
    if wrapped is None:
        wrapped = sr.wrap(client, answer=User, **one)
        one = {}

    with pytest.raises(sr.ReplyRejected) as raised:
        wrapped.reply(model="m", messages=HELLO, **one)

    assert len(raised.value.attempts) == 2


def test_the_other_parts_of_the_policy_stay() -> None:
    """A part that a call gives changes that part of the client's policy alone."""
    server = Server(completion(None, [call("nothing", {})]))
    policy = sr.RetryPolicy(max_invalid_calls=1)
    client = sr.wrap(server.client(), tools=[add], policy=policy)
    with pytest.raises(sr.ReplyRejected) as raised:
        client.reply(model="m", messages=HELLO, max_retries=5)

    assert raised.value.reason == "invalid_calls"


@pytest.mark.parametrize("is_of_call", [True, False])
def test_the_deadline_may_be_given_alone(*, is_of_call: bool) -> None:
    """With ``deadline=0``, in ``wrap`` or in a call, no reply is in time."""
    given: Any = {"deadline": 0}
    client = wrapped(**({} if is_of_call else given))
    with pytest.raises(sr.StrictReplyError) as raised:
        client.reply(model="m", messages=HELLO, **(given if is_of_call else {}))

    assert "deadline" in str(raised.value)


def test_a_run_without_a_model_raises_what_a_reply_raises() -> None:
    """``run`` raises the same error as ``reply`` for a request that the SDK refuses."""
    with pytest.raises(TypeError) as of_reply:
        wrapped().reply(messages=HELLO)
    with pytest.raises(TypeError) as of_run:
        sr.run(wrapped(), HELLO)

    assert str(of_run.value) == str(of_reply.value)


def test_a_wrapped_client_shows_what_it_is() -> None:
    """Its repr names the twin, the class inside and the tools, and no key."""
    shown = repr(sr.wrap(raw(), tools=[add]))
    assert "StrictClient" in shown
    assert "OpenAI" in shown
    assert "add" in shown
    assert "Async" in repr(sr.wrap(Server().async_client()))
    assert "secret-key" not in repr(sr.wrap(OpenAI(api_key="secret-key")))
    assert isinstance(sr.wrap(AsyncOpenAI(api_key="k")), AsyncOpenAI)


def test_a_hint_names_what_this_class_takes() -> None:
    """A keyword of a run's policy is no hint for that of a call."""
    wrong: Any = {"max_turns": 3}
    with pytest.raises(TypeError) as raised:
        sr.RetryPolicy(**wrong)

    assert "max_iterations" not in str(raised.value)


def test_another_error_of_a_send_keeps_its_cause() -> None:
    """A TypeError of code below the client is raised as it is, with what led to it."""
    cause = KeyError("below")

    def fail(**_: Any) -> Any:
        raise TypeError("of a program's own") from cause

    client: Any = Server(completion("hello")).client()
    client.chat.completions.create = fail
    with pytest.raises(TypeError) as raised:
        sr.wrap(client).reply(model="m", messages=HELLO)

    assert raised.value.__cause__ is cause


def test_the_short_create_names_the_method_that_a_claude_client_has() -> None:
    """``client.create`` is short for chat completions; a client without these raises what to call,
    and sends nothing.
    """
    client = sr.wrap(Anthropic(api_key="none", base_url="http://127.0.0.1:9"))
    with pytest.raises(sr.ContractError, match=r"client\.messages\.create"):
        client.create(model="m", max_tokens=9, messages=HELLO)


CALLS: dict[str, Callable[..., object]] = {"reply": asked, "create": created, "run": ran}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("max_token", "max_tokens"),
        ("retrys", "max_retries"),
        ("max_retrys", "max_retries"),
        ("polcy", "policy"),
        ("dedline", "deadline"),
        ("temprature", "temperature"),
    ],
)
def test_a_misspelt_keyword_of_a_call_gets_the_nearest(method: str, wrong: str, meant: str) -> None:
    """The keywords of the SDK and of strictreply, and words of other libraries, are suggested."""
    with pytest.raises(TypeError, match=f"'{wrong}'; did you mean {meant}"):
        CALLS[method](**{wrong: 1})


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("sesions", "sessions"), ("agnet", "agent"), ("on_events", "on_event")],
)
def test_a_misspelt_keyword_of_a_run_gets_the_nearest(wrong: str, meant: str) -> None:
    """A run has keywords that a call has not."""
    with pytest.raises(TypeError, match=f"did you mean {meant}"):
        ran(**{wrong: 1})


def test_no_keyword_of_a_request_is_refused_by_a_run() -> None:
    """A keyword of an API may resemble a keyword of a run, and still be the API's own."""
    known = [*inspect.signature(raw().chat.completions.create).parameters]
    own = RunKeywords.__annotations__.keys() - CallKeywords.__annotations__.keys()
    _mistakes.refuse_foreign("run()", known, {}, own)
    assert len(known) > 20


def test_help_of_wrap_names_every_keyword() -> None:
    """``help(sr.wrap)`` shows no ``**declared`` without saying what it takes."""
    text = inspect.getdoc(sr.wrap) or ""
    for name in (*WrapKeywords.__annotations__, "contract", "answer"):
        assert f"``{name}``" in text
    assert "anthropic.Anthropic()" in text
