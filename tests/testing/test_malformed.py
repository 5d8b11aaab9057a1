"""The mark ``malformed``: which scripts it makes of its arguments, and how a failed run is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

import strictreply as sr
from strictreply.testing import HTTPReply, Kind, ReplyPlace, ScriptedModel, faults, ok
from strictreply.testing._malformed import BY_THE_MODEL, FailureCause, retold, scripts_of
from strictreply.testing._malformed_summary import LOUD, NOT_SERVED
from strictreply.testing.survival import Harm
from support.loops import some
from support.testing.faults.spoken import CANARY

pytestmark = pytest.mark.one_lane

USER: list[Any] = [{"role": "user", "content": "tea"}]


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


class Refund(BaseModel):
    """Refund an order."""

    order: int


@pytest.mark.parametrize(
    ("tool", "place"),
    [
        (search, None),
        (search, "call"),
        (search, "union"),
        (Refund, "json"),
        (None, None),
        (None, "prose"),
    ],
)
def test_every_run_is_a_fault_and_then_good_replies(tool: object, place: ReplyPlace | None) -> None:
    """The fault comes first, in its place; a good reply of the same tool in the same place stays,
    until its result.
    """
    runs = scripts_of(tools=[tool] if tool else [], place=place, kinds=list(Kind))
    assert len(runs) > 10
    for run in runs:
        (fault,) = run.steps
        assert fault is run.fault
        assert place is None or run.fault.place == place
        after = ok.answer() if run.fault.place == "call" else None
        assert run.then == ok.reply(tool, place=run.fault.place, after=after)


def test_every_run_has_a_name_of_its_own() -> None:
    """Runs are told apart by tool, fault and place."""
    runs = scripts_of(tools=[search, Refund])
    assert len({run.id for run in runs}) == len(runs)
    assert {run.id.partition("-")[0] for run in runs} == {"search", "Refund"}


@pytest.mark.parametrize(
    "kinds", [["args"], [Kind.ARGS, "json"], {"http"}, list(Kind), BY_THE_MODEL]
)
def test_kinds_choose(kinds: Any) -> None:
    """Only faults of the named kinds are served, named by word or by value."""
    runs = scripts_of(tools=[search], kinds=kinds, request={"stream": True})
    assert {run.fault.kind for run in runs} == {Kind(kind) for kind in kinds}


@pytest.mark.parametrize(
    "then", [ok.answer("a"), [ok.answer("b"), ok.answer("a")], (ok.answer("a"),)]
)
def test_then_is_what_follows(then: Any) -> None:
    """One step or several after the fault; the last one stays."""
    run = scripts_of(tools=[search], kinds=["args"], then=then)[0]
    assert run.then == ok.answer("a")
    assert run.steps[1:] == ((ok.answer("b"),) if isinstance(then, list) else ())


WAYS_OF_SERVERS = frozenset(
    {
        "arguments_not_encoded",
        "missing_call_id",
        "empty_call_id",
        "null_call_id",
        "number_as_call_id",
    }
)
"""Faults for a strict contract only: by default they are read as the API's form."""


@pytest.mark.parametrize(
    "said", [{"stream": True}, {"tool_choice": "required"}, {"tool_choice": "none"}]
)
def test_only_what_is_a_fault_of_the_apps_requests_is_served(said: Any) -> None:
    """Faults that need a keyword come only when the requests have it; a known way of servers, where
    it says no.
    """
    usual = {run.id for run in scripts_of(tools=[search], kinds=list(Kind))}
    more = [
        run
        for run in scripts_of(tools=[search], kinds=list(Kind), request=said)
        if run.id not in usual
    ]
    assert more
    assert all(run.fault.needs or run.fault.name in WAYS_OF_SERVERS for run in more)


def a(order: int) -> None:
    """Refund an order."""


def aa(order: int) -> None:
    """Cancel an order."""


NAMED: Any = {"tool_choice": {"type": "function", "function": {"name": "aa"}}}


@pytest.mark.parametrize("place", ["call", "union"])
@pytest.mark.parametrize("said", [{}, {"parallel_tool_calls": False}])
def test_no_good_reply_is_served_as_malformed(place: ReplyPlace, said: Any) -> None:
    """The gate of all the tools refuses every fault and lets every good reply in: a misspelt ``a``
    may be ``aa``.
    """
    native = place == "call"
    gate = sr.Contract(
        tools=[a, aa],
        channel="native" if native else "text",
        parallel=native and not said,
        dialects="strict",
    )

    runs = scripts_of(tools=[a, aa], place=place, request=said)
    for run in runs:
        if not isinstance(run.fault.served, HTTPReply):
            assert isinstance(gate.check(run.fault.served, api="chat"), sr.Invalid), run.id
        assert isinstance(gate.check(run.then.served), sr.Valid)

    made = {run.id for run in runs}
    assert {"aa-near_miss_tool", "a-wrong_type[/order]", "aa-wrong_type[/order]"} <= made
    assert not {"a-near_miss_tool", "a-doubled_tool"} & made


def test_a_named_tool_must_be_called() -> None:
    """Where the requests name one tool, an answer is a fault, and what follows a fault is that
    tool's call.
    """
    runs = scripts_of(tools=[a, aa], request=NAMED)
    assert "answer_for_required_call" in {run.fault.name for run in runs}
    assert {run.then.source for run in runs} == {ok.reply(aa).source}


@pytest.mark.parametrize("said", [{"tool_choice": "none"}, {"tool_choice": "required"}])
@pytest.mark.parametrize("place", ["call", "prose"])
def test_what_follows_a_fault_is_let_in(said: Any, place: ReplyPlace) -> None:
    """The good reply is an answer where calls are forbidden, and a call where one is required."""
    gate = sr.Contract(tools=[search])
    for run in some(scripts_of(tools=[search], place=place, request=said)):
        verdict = gate.check(run.then.served)
        assert isinstance(verdict, sr.Valid)
        assert isinstance(verdict.reply, sr.ToolCall) is (said["tool_choice"] == "required")


def test_every_answer_is_held_to_its_own_schema() -> None:
    """Several structured answers are asked for by requests of their own: each is spoiled and then
    given.
    """
    runs = scripts_of(tools=[Refund, {"type": "object", "required": ["x"]}], place="json")
    assert {run.id.partition("-")[0] for run in runs} == {"answer"}
    assert len({run.then.source for run in runs}) == 2


def test_a_tools_own_check_is_not_run() -> None:
    """A check may need what no test has: the gate of the mark asks the schemas alone."""

    def check(args: Any) -> None:
        """Need what is not there."""
        raise NotImplementedError

    assert scripts_of(tools=[replace(sr.Tool.of(a), check=check)])


@pytest.mark.parametrize("words", [{"tools": [a, a]}, {"tools": [a], "request": NAMED}])
def test_what_no_request_can_ask_for_is_an_error(words: Any) -> None:
    """Two tools of one name, and a choice of a missing one, are reported at collection."""
    with pytest.raises(sr.ContractError):
        scripts_of(**words)


@pytest.mark.parametrize(
    "words",
    [
        {"kinds": ["args"]},
        {"tools": [search], "kinds": []},
        {"place": "union"},
        {"tools": [search], "kinds": ["nonsense"]},
    ],
)
def test_a_mark_that_makes_nothing_is_an_error(words: Any) -> None:
    """A test that would run with nothing is told so when it is collected."""
    with pytest.raises(ValueError, match=r"malformed|nonsense|needs a tool"):
        scripts_of(**words)


@pytest.mark.parametrize("tools", [search, Refund, "search", {"type": "object"}, 5])
def test_tools_are_a_list(tools: Any) -> None:
    """A tool alone is an error that says how to write it, not a list of its characters or keys."""
    with pytest.raises(TypeError, match=r"tools=\[search\]"):
        scripts_of(tools=tools)


def told_of(error: BaseException) -> str:
    """Report a run in which an app received a fault and failed."""
    model = ScriptedModel(faults.wrong_type(search, "limit"), then=ok.reply(search))
    model({"model": "m", "messages": USER})
    cause = FailureCause.of(model, error)
    return retold(model, error, "test_shop.py::test_it[search-wrong_type[/limit]]", cause)


@pytest.mark.parametrize("error", [AssertionError("ran"), KeyError("limit")])
def test_a_failed_run_is_told_with_a_test_that_repeats_it(error: BaseException) -> None:
    """The story, the JSON that was served, and a test whose body is Python that scripts the same
    again.
    """
    told = told_of(error)
    assert "request 1: 1 message -> wrong_type" in told
    assert "as in test_shop.py::test_it" in told
    body = told.partition("def test_reproduced(llm):\n")[2]

    llm = ScriptedModel()
    exec(body.partition("\n")[0].strip(), {**globals(), "llm": llm})  # noqa: S102 - our own words
    assert llm.steps == (faults.wrong_type(search, "limit"),)
    (served,) = re.findall(r"arguments reads (.*)", told)
    assert json.loads(served)["limit"] == CANARY or not isinstance(json.loads(served)["limit"], int)


def test_our_own_errors_tell_their_attempts() -> None:
    """When the wrapped client gave up, what came and what was asked is told as well."""
    model = ScriptedModel(then=faults.wrong_type(search, "limit"))
    client = sr.wrap(model.openai(), tools=[search], policy=sr.RetryPolicy(max_retries=1))
    with pytest.raises(sr.ReplyRejected) as caught:
        client.reply(model="m", messages=USER)
    cause = FailureCause.of(model, caught.value)
    assert cause.kind == LOUD
    assert retold(model, caught.value, "t", cause).endswith(caught.value.explain())


class Checked(BaseModel):
    """Its own check refuses what the kit makes of its schema."""

    total: int

    @field_validator("total")
    @classmethod
    def is_high(cls, total: int) -> int:
        """Refuse a low total."""
        if total < 1_000:
            raise ValueError("too low")
        return total


class Unmade(BaseModel):
    """The kit makes no example of its schema."""

    code: str = Field(pattern=r"^[A-Z]{3}-[0-9]+$", min_length=40, max_length=41)


@pytest.mark.parametrize("kind", [Checked, Unmade])
@pytest.mark.parametrize(
    ("place", "step"), [("json", "ok.answer("), ("call", "ok.call("), ("union", "ok.union(")]
)
def test_a_schema_without_an_example_says_what_to_pass(
    kind: type[BaseModel], place: Any, step: str
) -> None:
    """The mark has no ``args=``: the way is a good reply in ``then=``."""
    with pytest.raises(ValueError, match="then=") as caught:
        scripts_of(tools=[kind], place=place)
    assert f"then={step}" in str(caught.value)
    assert "args=" not in str(caught.value)


@pytest.mark.parametrize("place", ["json", "call", "union"])
def test_faults_are_made_from_a_good_reply_if_no_example_can_be(place: Any) -> None:
    """With ``then=`` a schema of which no example can be made has its faults."""
    code = f"ABC-{'1' * 36}"
    good = {
        "json": ok.answer({"code": code}),
        "call": ok.call(Unmade, code=code),
        "union": ok.union(Unmade, code=code),
    }
    runs = scripts_of(tools=[Unmade], place=place, then=good[place])
    assert {"wrong_type", "missing_required"} <= {run.fault.name for run in runs}
    assert all(run.then == good[place] for run in runs)


def test_names_choose() -> None:
    """Faults are asked for by name, of whatever kind."""
    runs = scripts_of(tools=[search], names=["rate_limited_seconds", "wrong_type"])
    assert {run.fault.name for run in runs} == {"rate_limited_seconds", "wrong_type"}
    assert {
        run.fault.name for run in scripts_of(tools=[search, Refund], names="number_as_text")
    } == {"number_as_text"}


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["wrong_type", "boolean_as_text"], "boolean_as_text.*search"),
        ("stream_reset", "stream_reset.*stream"),
        ("union_in_array", "union_in_array.*call"),
        ("boolean_as_txt", "boolean_as_text"),
    ],
)
def test_a_named_fault_that_cannot_be_made_is_an_error(names: Any, reason: str) -> None:
    """It fails with the reason when the test is collected, and is never skipped in silence."""
    with pytest.raises(ValueError, match=reason):
        scripts_of(tools=[search], place="call", names=names)


def test_by_default_there_is_what_an_app_might_act_on() -> None:
    """Arguments come first, of every tool; the rest once; nothing that is formal, unless it is
    asked for.
    """
    gentle = scripts_of(tools=[search, Refund])
    full = scripts_of(tools=[search, Refund], everything=True)
    assert {run.id for run in gentle} < {run.id for run in full}
    assert {Harm.accepting(run.fault.code, run.fault.kind) for run in gentle} == {Harm.ACTS}
    assert {run.tool for run in gentle if run.fault.kind is Kind.ARGS} == {"search", "Refund"}
    others = [run.fault.id for run in gentle if run.fault.kind is not Kind.ARGS]
    assert len(others) == len(set(others))

    passed_over = [run.fault.code.endswith(".extra_key") for run in gentle]
    assert passed_over == sorted(passed_over)
    assert gentle[0].fault.kind is Kind.ARGS


@pytest.mark.parametrize(
    ("error", "kind"),
    [(AssertionError("ran"), Harm.ACTS), (KeyError("limit"), Harm.CRASHES)],
)
def test_what_an_app_did_is_read_from_the_exception(error: BaseException, kind: str) -> None:
    """A failed assertion is about what was done with the reply; anything else is the app's own.

    Before the reply was served, either is about nothing.
    """
    model = ScriptedModel(faults.wrong_type(search, "limit"))
    assert FailureCause.of(model, error).kind == NOT_SERVED
    model({"model": "m", "messages": USER})
    assert FailureCause.of(model, error).kind == kind


def test_a_loop_is_told_as_one() -> None:
    """Whatever the app raised when its loop was ended."""
    model = ScriptedModel(then=faults.wrong_type(search, "limit"), max_requests=1)
    for _ in range(2):
        model({"model": "m", "messages": USER})
    assert FailureCause.of(model, AssertionError()).kind == Harm.DEGRADES


def test_a_leak_is_one_where_the_test_asks_for_echoes() -> None:
    """The exception of ``assert_no_echo`` is a leak, whatever else the app did."""
    model = ScriptedModel(faults.extra_key(search), then=ok.reply(search))
    model({"model": "m", "messages": USER})
    echo = {"role": "user", "content": str(model.steps[0].served)}
    model({"model": "m", "messages": [*USER, echo]})
    with pytest.raises(AssertionError) as caught:
        model.assert_no_echo()
    assert FailureCause.of(model, caught.value).kind == Harm.LEAKS


def test_a_loop_over_tools_comes_to_its_end() -> None:
    """After the result of the good call comes a text; a tool turn that corrects the fault is no
    result.
    """
    (run, *_) = scripts_of(tools=[search], names=["wrong_type"])
    model = ScriptedModel(*run.steps, then=run.then)
    turns: list[Any] = [{"role": "user", "content": "Find tea."}]
    kinds: list[str] = []

    declared: Any = sr.Tool.of(search).definition
    with model.openai() as client:
        for _ in range(3):
            said = client.chat.completions.create(model="m", messages=turns, tools=[declared])
            message = said.choices[0].message
            kinds.append("call" if message.tool_calls else "text")
            turns.append(message.model_dump(exclude_none=True))

            turns += [
                {"role": "tool", "tool_call_id": one.id, "content": "…"}
                for one in message.tool_calls or []
            ]

    assert kinds == ["call", "call", "text"]
    assert model.requests[-1].step is run.then.after
