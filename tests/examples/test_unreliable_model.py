"""The unreliable model: what it says to each kind of request.

It also says how it fails, and how it takes corrections.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import unreliable_model
from hypothesis import given
from hypothesis import strategies as st
from openai import OpenAI
from pydantic import validate_call
from shop_scenario import SCENARIO, OrderSummary, Question
from unreliable_corrections import Draft, clean_draft, drafts_of, is_met_by
from unreliable_model import (
    CUT,
    RELAPSE_RATE,
    SHARES,
    ReplyDemands,
    UnreliableModel,
    draw,
    read_demands,
    spoiled_drafts,
    token_limit,
)

import strictreply as sr
from strictreply import Tool
from strictreply.schema import Schema
from strictreply.testing import HTTPReply, Kind, LoopbackServer, ReplyPlace
from strictreply.testing._steps import Target
from strictreply.testing.faults import CATALOGUE
from support.loops import some

DOCUMENTS = {tool.__name__: sr.Tool.of(tool).parameters.source for tool in SCENARIO.tools}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": each}}
    for name, each in DOCUMENTS.items()
]
SCHEMAS = {name: Schema.compile(document) for name, document in DOCUMENTS.items()}
WORDS = [
    "type",
    "function",
    "name",
    "arguments",
    "parameters",
    "id",
    "text",
    "json_schema",
    "schema",
    "allowed_tools",
]
WEATHER = SCENARIO.questions[0]
PARIS_AND_TOKYO = SCENARIO.questions[4]
POLICY = SCENARIO.questions[9]
SUMMARY = SCENARIO.questions[10]
HOPELESS = SCENARIO.questions[11]
UNION = {
    "anyOf": [
        *(
            {"type": "object", "properties": {"tool": {"const": name}, "args": document}}
            for name, document in DOCUMENTS.items()
        ),
        {"type": "object", "properties": {"answer": {"type": "string", "minLength": 1}}},
    ]
}
INSTRUCTIONS = {
    "role": "system",
    "content": f"Reply with exactly one JSON object:\n{json.dumps(UNION)}",
}


def user(text: str) -> dict[str, Any]:
    """Make a turn of the user."""
    return {"role": "user", "content": text}


def native(question: Question, *more: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Make a request with the scenario's tools."""
    return {"model": "m", "messages": [user(question.text), *more], "tools": TOOLS} | options


def text(question: Question, *more: dict[str, Any]) -> dict[str, Any]:
    """Make a request in the text channel."""
    return {"model": "m", "messages": [INSTRUCTIONS, user(question.text), *more]}


def reply(model: UnreliableModel, request: dict[str, Any]) -> dict[str, Any]:
    """Get the one choice."""
    response = model(request)
    assert isinstance(response, dict)
    choice: dict[str, Any] = response["choices"][0]
    return choice


def called(choice: dict[str, Any]) -> list[tuple[str, str]]:
    """List the names and the arguments' texts of the calls."""
    calls = choice["message"].get("tool_calls", [])
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def right(question: Question) -> list[tuple[str, str]]:
    """List what a reliable model calls."""
    return [(call.tool, json.dumps(call.args)) for call in question.calls]


def faults_of(choice: dict[str, Any]) -> list[str]:
    """Judge native calls as strictly as the product.

    Every fault becomes a line of a correction.
    """
    lines: list[str] = []
    for index, (name, arguments) in enumerate(called(choice)):
        at = f"/tool_calls/{index}/function"
        try:
            value = json.loads(arguments)
        except ValueError:
            lines.append(f"- {at}/arguments: not valid JSON")
            continue

        if name not in SCHEMAS:
            lines.append(f"- {at}/name: no such tool")
        else:
            lines += [
                f"- {i.path}: {i.message}" for i in SCHEMAS[name].check(value, at=f"{at}/arguments")
            ]

    return lines


def corrected(choice: dict[str, Any], correction: str) -> list[dict[str, Any]]:
    """Replay a reply with a correction to its one call, as a tool turn."""
    message = choice["message"]
    return [
        message,
        {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": correction},
    ]


@pytest.mark.parametrize("question", SCENARIO.questions, ids=lambda question: question.text)
def test_a_reliable_model_is_right(question: Question) -> None:
    """With ``failure_rate=0`` every question gets its calls or its answer."""
    choice = reply(UnreliableModel(SCENARIO, failure_rate=0), native(question))
    assert called(choice) == right(question)
    assert (choice["message"]["content"] or "") == question.answer
    assert choice["finish_reason"] == ("tool_calls" if question.calls else "stop")


def test_the_scenario_is_sound() -> None:
    """Every right call fits its tool's schema, and the tool runs with it."""
    tools = {tool.__name__: tool for tool in SCENARIO.tools}
    for call in some(call for question in SCENARIO.questions for call in question.calls):
        assert SCHEMAS[call.tool].check(call.args) == ()
        assert validate_call(tools[call.tool])(**call.args)

    for value in some(
        value for question in SCENARIO.questions for value in question.structured.values()
    ):
        assert OrderSummary.model_validate(value).model_dump() == value


@pytest.mark.slow
def test_seed_and_conversation_decide() -> None:
    """Two models of one seed agree on every response; another seed differs somewhere."""
    first, same, other = (UnreliableModel(SCENARIO, seed=seed) for seed in (3, 3, 4))
    requests = [native(question) for question in SCENARIO.questions]
    assert [first(request) for request in requests] == [
        same(request) for request in reversed(requests)
    ][::-1]
    assert [first(request) for request in requests] != [other(request) for request in requests]


def test_nothing_is_changed_or_shared() -> None:
    """The request is left as it was."""
    request = native(WEATHER)
    before = json.dumps(request)
    UnreliableModel(SCENARIO, seed=1)(request)
    assert json.dumps(request) == before


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_share(rate: float) -> None:
    """A failure rate outside 0 to 1 is a ValueError."""
    with pytest.raises(ValueError, match="failure_rate"):
        UnreliableModel(SCENARIO, failure_rate=rate)


@pytest.mark.parametrize("rate", [0.25, 0.6, 1.0])
def test_first_replies_fail_at_the_rate(rate: float) -> None:
    """Over 2,000 seeds the share of faulty first replies is the rate."""
    failed = sum(
        called(reply(UnreliableModel(SCENARIO, seed=seed, failure_rate=rate), native(WEATHER)))
        != right(WEATHER)
        for seed in range(2_000)
    )
    assert failed / 2_000 == pytest.approx(rate, abs=0.04)


def kind_of(drafts: Mapping[str, tuple[Draft, ...]], draft: Draft) -> str:
    """Return which fault of the catalogue wrote a draft; more than one may write the same text."""
    return next(
        name
        for name, made in drafts.items()
        if any((one, one.cut) == (draft, draft.cut) for one in made)
    )


def written(choice: dict[str, Any]) -> Draft:
    """Read back the one thing that a model wrote."""
    (draft,) = drafts_of(choice["message"])
    return replace(draft, cut=choice["finish_reason"] == "length")


def assert_shares(place: ReplyPlace, choices: Iterable[dict[str, Any]]) -> None:
    """Check that the weather question's faults come as often as the table says.

    Those that cannot be made are left out.
    """
    shares = SHARES["call" if place == "call" else "content"]
    target = Target.of(SCENARIO.tools[1], place=place, args=WEATHER.calls[0].args)
    drafts = {name: made for name in shares if (made := spoiled_drafts(target, name))}
    kinds = Counter(kind_of(drafts, written(choice)) for choice in choices)

    total = sum(shares[name] for name in drafts)
    assert {
        name for name in drafts if abs(kinds[name] / 2_000 - shares[name] / total) > 0.03
    } == set()
    assert set(shares) - set(drafts) <= {"boolean_as_text", "array_as_comma_list"}


@pytest.mark.slow
def test_native_faults_come_in_the_recorded_shares() -> None:
    """Over 2,000 seeds each kind of native fault comes as often as the table says, and each is a
    real fault.
    """
    models = (UnreliableModel(SCENARIO, seed=seed, failure_rate=1) for seed in range(2_000))
    choices = [reply(model, native(WEATHER)) for model in models]
    assert all(choice["finish_reason"] == "length" or faults_of(choice) for choice in choices)
    assert_shares("call", choices)


@pytest.mark.slow
def test_text_faults_come_in_the_recorded_shares() -> None:
    """Over 2,000 seeds each kind of fault of JSON in content comes as often as the table says."""
    models = (UnreliableModel(SCENARIO, seed=seed, failure_rate=1) for seed in range(2_000))
    assert_shares("union", [reply(model, text(WEATHER)) for model in models])


def share(place: str, *kinds: Kind) -> float:
    """Sum the shares of some kinds."""
    return sum(weight for name, weight in SHARES[place].items() if CATALOGUE[name].kind in kinds)


def test_the_table_sums_as_recorded() -> None:
    """79 % of failed native calls are wrong in the arguments, 13 % in the name, 7 % are not JSON or
    cut.
    """
    assert share("call", Kind.ARGS) == pytest.approx(79)
    assert share("call", Kind.TOOL) == pytest.approx(13)
    assert share("call", Kind.JSON, Kind.FINISH) == pytest.approx(7)
    assert SHARES["content"]["fenced"] + SHARES["content"]["prose_before"] == pytest.approx(34)


def asks_until_valid(model: UnreliableModel, question: Question, limit: int = 5) -> int:
    """Count the asks of a loop that corrects exactly; ``limit`` + 1 when it never gets there."""
    request = native(question, parallel_tool_calls=False)
    for asked in range(1, limit + 1):
        choice = reply(model, request)
        correction = "\n".join(["Not valid. Reply again, corrected:", *faults_of(choice)])

        if choice["finish_reason"] == "length":
            correction = "The reply was cut off at the token limit. Reply again, shorter."
        elif not faults_of(choice):
            return asked

        request = native(question, *corrected(choice, correction), parallel_tool_calls=False)

    return limit + 1


def test_exact_corrections_fix() -> None:
    """A loop that names each fault gets a valid call in 2 asks mostly, in 3 now and then, and
    always by then.
    """
    models = [UnreliableModel(SCENARIO, seed=seed, failure_rate=1) for seed in range(500)]
    asks = Counter(asks_until_valid(model, WEATHER) for model in models)
    assert set(asks) == {2, 3}
    assert asks[3] / 500 == pytest.approx(RELAPSE_RATE, abs=0.05)


def test_the_hopeless_question_is_never_fixed() -> None:
    """However exact the correction, the same mistake comes back."""
    for seed in range(20):
        assert (
            asks_until_valid(UnreliableModel(SCENARIO, seed=seed, failure_rate=0.01), HOPELESS) == 6
        )


@pytest.mark.parametrize(
    "correction", ["", "Not valid.", "Not valid. Call get_weather again with corrected arguments:"]
)
def test_an_empty_correction_changes_nothing(correction: str) -> None:
    """A correction that names no fault gets the same call again, to the letter."""
    for seed in range(100):
        model = UnreliableModel(SCENARIO, seed=seed, failure_rate=1)
        choice = reply(model, native(WEATHER))
        again = reply(model, native(WEATHER, *corrected(choice, correction)))
        assert called(again) == called(choice)


@pytest.mark.parametrize("correction", ["", "Not valid."])
def test_an_empty_correction_changes_no_text_either(correction: str) -> None:
    """The same holds in the text channel, where the correction is a turn of the user."""
    for seed in range(100):
        model = UnreliableModel(SCENARIO, seed=seed, failure_rate=1)
        choice = reply(model, text(WEATHER))
        again = reply(model, text(WEATHER, choice["message"], user(correction)))
        assert again["message"]["content"] == choice["message"]["content"]


def scoped(question: Question, choice: dict[str, Any], wrong: int) -> dict[str, Any]:
    """Ask again for one call of a reply, as the product does.

    Its tool is offered alone and forced; the siblings are kept.
    """
    calls = choice["message"]["tool_calls"]
    tool = calls[wrong]["function"]["name"]
    lines = [
        line.replace(f"/tool_calls/{wrong}/function/arguments", "") for line in faults_of(choice)
    ]
    turns = [
        {"role": "tool", "tool_call_id": call["id"], "content": "Valid, and kept as it is."}
        for call in calls
    ]
    turns[wrong]["content"] = "\n".join(["Not valid.", *lines])

    narrowed = [document for document in TOOLS if document["function"]["name"] == tool]  # type: ignore[index]
    forced = {"type": "function", "function": {"name": tool}}
    return native(question, choice["message"], *turns, tools=narrowed, tool_choice=forced)


@pytest.mark.parametrize("question", SCENARIO.questions[4:6], ids=lambda question: question.text)
def test_one_call_is_re_asked_alone(question: Question) -> None:
    """With the failing tool forced, only its call comes back, fixed or now and then with another
    fault.
    """
    seen: Counter[bool] = Counter()
    for seed in range(200):
        model = UnreliableModel(SCENARIO, seed=seed, failure_rate=1)
        choice = reply(model, native(question))
        if choice["finish_reason"] == "length":
            continue

        (wrong,) = (i for i, call in enumerate(called(choice)) if call != right(question)[i])
        if called(choice)[wrong][0] not in DOCUMENTS:
            continue

        again = called(reply(model, scoped(question, choice, wrong)))
        assert [name for name, _ in again] == [right(question)[wrong][0]]
        assert again[0] != called(choice)[wrong]
        seen[json.loads(again[0][1]) == question.calls[wrong].args] += 1

    assert seen[True] > 3 * seen[False] > 0


def test_calls_replayed_as_text_are_recognised() -> None:
    """Calls that no history can hold come back as the assistant's text; a correction still finds
    its call.
    """
    model = next(
        model
        for model in (UnreliableModel(SCENARIO, seed=seed, failure_rate=1) for seed in range(500))
        if "<|" in called(reply(model, native(WEATHER)))[0][0]
    )
    calls = reply(model, native(WEATHER))["message"]["tool_calls"]
    replayed = {"role": "assistant", "content": json.dumps(calls)}
    correction = "Not valid. Reply again, corrected:\n- /tool_calls/0/function/name: no such tool"
    again = reply(model, native(WEATHER, replayed, user(correction)))
    assert called(again)[0][0] == "get_weather"


def is_json(content: str) -> bool:
    """Return whether a content is JSON as it stands."""
    return Draft("", content).is_json


def test_text_corrections_fix() -> None:
    """In the text channel a user turn that names the fault is enough."""
    for seed in range(100):
        model = UnreliableModel(SCENARIO, seed=seed, failure_rate=1)
        choice = reply(model, text(WEATHER))
        said = choice["message"]
        correction = "- not valid JSON at line 1 column 1"

        if is_json(said["content"]):
            correction = "- /args/days: must be an integer"

        again = reply(model, text(WEATHER, said, user(f"Not valid.\n{correction}")))["message"][
            "content"
        ]
        assert again != said["content"]


def test_more_room_ends_the_cutting() -> None:
    """A cut reply reports the whole limit as spent; retried with a larger one it is whole."""
    model = next(
        model
        for model in (UnreliableModel(SCENARIO, seed=seed, failure_rate=1) for seed in range(500))
        if reply(model, native(WEATHER))["finish_reason"] == "length"
    )
    short = model(native(WEATHER, max_tokens=200))
    assert isinstance(short, dict)
    assert short["usage"]["completion_tokens"] == 200

    assert called(reply(model, native(WEATHER, max_completion_tokens=400))) == right(WEATHER)


def test_results_end_the_loop() -> None:
    """After the results of its calls the model answers in text that holds them."""
    model = UnreliableModel(SCENARIO, failure_rate=0)
    choice = reply(model, native(PARIS_AND_TOKYO))
    turns = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"{20 + i} degrees"}
        for i, call in enumerate(choice["message"]["tool_calls"])
    ]
    answer = reply(model, native(PARIS_AND_TOKYO, choice["message"], *turns))
    assert answer["finish_reason"] == "stop"

    assert "20 degrees" in answer["message"]["content"]
    assert "21 degrees" in answer["message"]["content"]


def test_without_parallel_calls_one_follows_the_other() -> None:
    """``parallel_tool_calls=False`` gets the second call after the result of the first."""
    model = UnreliableModel(SCENARIO, failure_rate=0)
    first = reply(model, native(PARIS_AND_TOKYO, parallel_tool_calls=False))
    assert called(first) == right(PARIS_AND_TOKYO)[:1]
    second = reply(
        model, native(PARIS_AND_TOKYO, *corrected(first, "14 degrees"), parallel_tool_calls=False)
    )
    assert called(second) == right(PARIS_AND_TOKYO)[1:]


def test_results_in_the_text_channel_end_the_loop() -> None:
    """A user turn after a right call in the text channel is its result."""
    model = UnreliableModel(SCENARIO, failure_rate=0)
    said = reply(model, text(WEATHER))["message"]
    assert json.loads(said["content"]) == {"tool": "get_weather", "args": WEATHER.calls[0].args}
    answer = json.loads(reply(model, text(WEATHER, said, user("4 degrees")))["message"]["content"])
    assert "4 degrees" in answer["answer"]


def test_results_of_a_fixed_call_end_the_loop_too() -> None:
    """A call that says what is right is right, whatever the order and spacing of its JSON."""
    model = UnreliableModel(SCENARIO, failure_rate=0)
    args = dict(reversed(WEATHER.calls[0].args.items()))
    said = {
        "role": "assistant",
        "content": json.dumps({"args": args, "tool": "get_weather"}, indent=1),
    }
    assert "4 degrees" in reply(model, text(WEATHER, said, user("4 degrees")))["message"]["content"]


def test_a_result_may_look_like_a_list_of_paths() -> None:
    """The result of a right call is a result, even when its lines begin with slashes."""
    model = UnreliableModel(SCENARIO, failure_rate=0)
    choice = reply(model, native(WEATHER))
    answer = reply(
        model, native(WEATHER, *corrected(choice, "/etc/hosts: 1 KB\n- /etc/passwd: 2 KB"))
    )
    assert answer["finish_reason"] == "stop"


def test_tool_choice_is_honoured() -> None:
    """``none`` gets no call, ``required`` one, a named function that one, a list of allowed ones
    one of them.
    """
    model = UnreliableModel(SCENARIO, failure_rate=0)
    named = {"type": "function", "function": {"name": "create_refund"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": TOOLS[1:2]}}
    assert called(reply(model, native(WEATHER, tool_choice="none"))) == []

    assert [name for name, _ in called(reply(model, native(POLICY, tool_choice="required")))] == [
        "search_products"
    ]
    assert [name for name, _ in called(reply(model, native(WEATHER, tool_choice=named)))] == [
        "create_refund"
    ]
    assert [name for name, _ in called(reply(model, native(POLICY, tool_choice=allowed)))] == [
        "get_weather"
    ]


def test_a_strange_question_calls_the_first_tool() -> None:
    """Anything can be asked: the first tool is called with arguments that fit it, then the result
    is told.
    """
    model = UnreliableModel(SCENARIO, failure_rate=0)
    parameters = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 3}, "kind": {"enum": ["x", "y"]}},
        "required": ["n", "kind"],
    }
    tools = [{"type": "function", "function": {"name": "mine", "parameters": parameters}}]
    choice = reply(model, {"model": "m", "messages": [user("anything")], "tools": tools})
    ((name, arguments),) = called(choice)
    assert name == "mine"

    assert Schema.compile(parameters).check(json.loads(arguments)) == ()
    turns = [user("anything"), *corrected(choice, "done")]
    assert (
        "done"
        in reply(model, {"model": "m", "messages": turns, "tools": tools})["message"]["content"]
    )


def test_a_strange_question_without_tools_is_answered() -> None:
    """Without tools there is a plain answer; a later question of the scenario is known again."""
    model = UnreliableModel(SCENARIO, failure_rate=1)
    turns = [user("hello"), {"role": "assistant", "content": "hi"}]
    assert reply(model, {"model": "m", "messages": turns[:1]})["message"]["content"]
    again = reply(model, {"model": "m", "messages": [*turns, user(POLICY.text)]})
    assert again["message"]["content"] == POLICY.answer


def test_structured_answers_are_known_by_their_schema() -> None:
    """``response_format`` gets the scenario's JSON for a schema it knows, else an example that
    fits.
    """
    model = UnreliableModel(SCENARIO, failure_rate=0)
    for name, document in (
        ("OrderSummary", OrderSummary.model_json_schema()),
        ("other", DOCUMENTS["get_weather"]),
    ):
        wanted = {"type": "json_schema", "json_schema": {"name": name, "schema": document}}
        content = json.loads(
            reply(model, native(SUMMARY, response_format=wanted))["message"]["content"]
        )
        assert Schema.compile(document).check(content) == ()
        assert (content == SUMMARY.structured["OrderSummary"]) == (name == "OrderSummary")


def test_final_answer_is_called_where_it_is_a_tool() -> None:
    """With a tool ``final_answer`` the answer is a call of it."""
    parameters = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    }
    final = {"type": "function", "function": {"name": "final_answer", "parameters": parameters}}
    model = UnreliableModel(SCENARIO, failure_rate=0)
    choice = reply(model, native(POLICY, tools=[*TOOLS, final], tool_choice="required"))
    assert called(choice) == [("final_answer", json.dumps({"answer": POLICY.answer}))]


@pytest.mark.parametrize(
    "options",
    [
        {"tools": "none"},
        {"tools": [{}]},
        {"tools": ["x"]},
        {"tool_choice": {"type": "function", "function": {"name": "nothing"}}},
        {"tool_choice": "sometimes"},
        {"tool_choice": 5},
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "strnig"}}}
            ]
        },
    ],
)
def test_a_request_that_is_none_gets_a_400(options: dict[str, Any]) -> None:
    """Broken tools, choices and schemas are refused in OpenAI's shape."""
    refused = UnreliableModel(SCENARIO)(native(Question("anything"), **options))
    assert isinstance(refused, HTTPReply)
    assert refused.status == 400
    assert json.loads(refused.body)["error"]["message"]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["auto", "f", "- /a: must"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner)
    ),
    max_leaves=12,
)
TURNS = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
    optional={"content": JSON_VALUES, "tool_calls": JSON_VALUES, "tool_call_id": JSON_VALUES},
)


@given(
    messages=st.lists(TURNS, min_size=1, max_size=5),
    options=st.dictionaries(
        st.sampled_from(
            ["tools", "tool_choice", "response_format", "max_tokens", "parallel_tool_calls"]
        ),
        JSON_VALUES,
    ),
    well_formed=st.booleans(),
)
def test_any_request_gets_a_response(
    messages: list[Any], options: dict[str, Any], well_formed: bool
) -> None:
    """The model answers any JSON with a completion or a 400; it never raises."""
    request = (
        {"model": "m", "messages": messages} | options | ({"tools": TOOLS} if well_formed else {})
    )
    response = UnreliableModel(SCENARIO, failure_rate=1)(request)
    if isinstance(response, HTTPReply):
        assert response.status == 400
    else:
        assert response["choices"][0]["message"]["role"] == "assistant"


def test_the_real_client_talks_to_the_model() -> None:
    """Over a socket the SDK parses every reply of the scenario, faulty ones included."""
    with (
        LoopbackServer(UnreliableModel(SCENARIO, seed=2, failure_rate=1)) as server,
        OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        for question in some(SCENARIO.questions):
            answer = client.chat.completions.create(**native(question))
            assert answer.choices[0].message.tool_calls or answer.choices[0].message.content
            assert answer.usage is not None
            assert (
                answer.usage.total_tokens
                == answer.usage.prompt_tokens + answer.usage.completion_tokens
            )


ARGS: dict[str, Any] = {"kind": "late", "count": 3, "ratio": 0.5, "sure": True, "names": ["a", "b"]}
CLOSED = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["late", "LOST"]},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "sure": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["kind", "count"],
}
OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def aimed(document: dict[str, Any], place: ReplyPlace = "call") -> Target:
    """Aim at the right call of a tool with these parameters."""
    kind: Any = document if place == "json" else Tool.from_json_schema("do_it", document)
    return Target.of(kind, place=place, args=ARGS)


@pytest.mark.parametrize("place", ["call", "union", "json"])
def test_every_fault_is_one(place: ReplyPlace) -> None:
    """A spoiled draft differs from the clean one and, where it is readable, breaks the schema or
    the name.
    """
    wanted = aimed(CLOSED, place)
    for fault in some(SHARES["call" if place == "call" else "content"]):
        drafts = spoiled_drafts(wanted, fault)

        for draft in some(drafts):
            assert draft != clean_draft(wanted)
            assert not is_met_by(wanted, draft)

            if not draft.is_json:
                assert CATALOGUE[fault].kind in {Kind.JSON, Kind.FINISH}
                continue

            value = json.loads(draft.text)
            assert wanted.schema is not None
            args = value["args"] if place == "union" else value
            assert wanted.schema.check(args) or draft.tool != clean_draft(wanted).tool


@pytest.mark.parametrize(
    "fault", ["commentary_key", "missing_required", "number_as_text", "array_for_scalar"]
)
def test_what_the_schema_admits_is_no_fault(fault: str) -> None:
    """Against a schema that takes everything no fault of the arguments can be made."""
    assert spoiled_drafts(aimed(OPEN), fault) == ()


@pytest.mark.parametrize("seed", range(50))
def test_only_faults_that_can_be_made_are_drawn(seed: int) -> None:
    """With an open schema the name or the form is spoiled, also when values were preferred."""
    for values_only in (False, True):
        drawn = draw(aimed(OPEN), random.Random(seed), values_only=values_only)
        assert drawn is not None
        assert CATALOGUE[drawn[0]].kind in {Kind.TOOL, Kind.JSON, Kind.FINISH}


@pytest.mark.parametrize("seed", range(50))
def test_values_are_preferred_where_asked(seed: int) -> None:
    """``values_only`` spoils the arguments, and what is avoided is not drawn."""
    avoided = {"commentary_key", "number_as_text"}
    drawn = draw(aimed(CLOSED), random.Random(seed), values_only=True, avoid=avoided)
    assert drawn is not None
    assert CATALOGUE[drawn[0]].kind is Kind.ARGS
    assert drawn[0] not in avoided


def test_plain_text_has_nothing_to_get_wrong() -> None:
    """No fault can be made of an answer in prose."""
    assert draw(Target.of(args="hello"), random.Random(0)) is None


@pytest.mark.parametrize("value", [{}, [], "text", 52, 5, None])
def test_small_values_can_be_malformed(value: Any) -> None:
    """``extra_closing_bracket`` and the cut leave text that is not JSON, for any JSON."""
    wanted = Target(value, "json", Schema.compile(True), declared={}, given=True)
    assert [one.is_json for one in spoiled_drafts(wanted, "extra_closing_bracket")] == [False]
    assert [bool(one.cut) for one in spoiled_drafts(wanted, CUT)] == [True]


PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TWO_TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "g"}},
]
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}}
CALL = {"type": "object", "properties": {"tool": {"const": "f"}, "args": PARAMETERS}}


def known() -> None:
    """A tool of the scenario."""


def read(*, system: str = "", **request: Any) -> ReplyDemands:
    """Read a request."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "hi"}]
    return read_demands({"messages": messages} | request, [known])


def test_tools_are_read_natively() -> None:
    """Parameters come by name; a tool without any has none."""
    sources = {name: tool.parameters.source for name, tool in read(tools=TWO_TOOLS).tools.items()}
    assert sources == {"f": PARAMETERS, "g": EMPTY}
    assert read(tools=TWO_TOOLS).place == "call"


@pytest.mark.parametrize(
    ("request_", "choice", "names", "parallel"),
    [
        ({}, "auto", ["f", "g"], True),
        ({"parallel_tool_calls": False}, "auto", ["f", "g"], False),
        ({"tool_choice": "required"}, "required", ["f", "g"], True),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "g", ["g"], False),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": TWO_TOOLS[1:]}}},
            "auto",
            ["g"],
            True,
        ),
    ],
)
def test_choices_are_read(
    request_: dict[str, Any], choice: str, names: list[str], parallel: bool
) -> None:
    """Every spelling of ``tool_choice`` comes out as a word or a name."""
    demands = read(tools=TWO_TOOLS, **request_)
    assert (demands.choice, list(demands.tools), demands.parallel) == (choice, names, parallel)


def test_without_tools_none_is_called() -> None:
    """A request without tools demands an answer."""
    assert (read().choice, read().tools, read().answer) == ("none", {}, None)


@pytest.mark.parametrize(
    ("forms", "choice", "names"),
    [([CALL, ANSWER], "auto", ["f"]), ([CALL], "required", ["f"]), ([ANSWER], "none", [])],
)
def test_the_union_is_read_from_the_instructions(
    forms: list[Any], choice: str, names: list[str]
) -> None:
    """The JSON Schema of the text channel says which tools and answers there are."""
    demands = read(system=f"Be kind.\nReply with JSON.\n{json.dumps({'anyOf': forms})}")
    assert (demands.place, demands.choice, list(demands.tools)) == ("union", choice, names)


def test_the_answer_of_a_union_may_have_a_schema() -> None:
    """An answer that is no string is structured, and called by its title."""
    document = {"type": "object", "title": "Invoice"}
    demands = read(system=json.dumps({"anyOf": [{"properties": {"answer": document}}]}))
    assert (demands.answer, demands.answer_name) == (document, "Invoice")


def test_instructions_in_words_are_understood() -> None:
    """Without a schema, words that ask for the union mean the scenario's tools; other JSON means
    nothing.
    """
    words = 'Reply in JSON: {"tool": "name", "args": {…}} or {"answer": "text"}'
    assert list(read(system=words).tools) == ["known"]
    assert read(system='{"anyOf": 5}\n{"anyOf": [5, {"properties": 5}]}\n{broken').place == "call"


@pytest.mark.parametrize(
    ("wanted", "name", "answer"),
    [
        (None, "", None),
        ({"type": "text"}, "", None),
        ({"type": "json_object"}, "", {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": EMPTY}}, "n", EMPTY),
    ],
)
def test_response_formats_are_read(wanted: Any, name: str, answer: Any) -> None:
    """``response_format`` gives the answer's schema and name."""
    demands = read(response_format=wanted)
    assert (demands.answer_name, demands.answer) == (name, answer)


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_limits_are_read(key: str) -> None:
    """Either spelling of the token limit counts; what is no number is no limit."""
    for limit in (7, None):
        assert token_limit({key: limit}) == limit


@pytest.mark.one_lane
def test_the_program_serves_the_model() -> None:
    """``python examples/unreliable_model.py`` names its URL and its questions; a wrapped client
    gets a valid reply there, and Ctrl-C ends it with 0.
    """
    program = str(Path(unreliable_model.__file__))
    words = [sys.executable, "-W", "error", program, "--port", "0", "--failure-rate", "1"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        told = [server.stdout.readline() for _ in range(len(SCENARIO.questions) + 1)]

        with sr.wrap(OpenAI(base_url=url, api_key="none"), tools=SCENARIO.tools) as client:
            exchange = client.exchange(model="m", messages=WEATHER.text)

        server.send_signal(signal.SIGINT)
        _, stderr = server.communicate(timeout=60)

    assert [line.strip() for line in told[1:]] == [one.text for one in SCENARIO.questions]
    assert exchange.attempts[0].issues
    assert exchange.reply.calls[0].tool == "get_weather"
    assert (server.returncode, stderr) == (0, "")
