"""Object keys that look like indexes, paths or numbers are ordinary data.

They are never an exception, and have the right place.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import strictreply as sr
from strictreply import Issue
from strictreply.coordination import Topology, ValidationProcessor
from strictreply.core.text import pointer_tokens
from strictreply.schema import Schema
from support.scripted import USER, Client, call, completion

KEYS = (
    "0",
    "7",
    "007",
    "+1",
    "-0",
    "1e3",
    "",
    "~",
    "/",
    "~1",
    "٣",
    "²",
    "__proto__",
    "9" * 64,
    "18446744073709551615",
    "a",
)
NO_RETRY = sr.RetryPolicy(max_retries=0, transport_retries=0)

keys = st.sampled_from(KEYS)
values: st.SearchStrategy[Any] = st.recursive(
    st.integers(-3, 3) | st.sampled_from(["x", "", "7", True, None, 1.5]),
    lambda inner: st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(keys, values, max_size=5)


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas that speak of members by name, by pattern, and of all others."""
    members = st.dictionaries(keys, inner, max_size=3)
    named = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": members},
        optional={
            "additionalProperties": inner | st.booleans(),
            "patternProperties": st.dictionaries(
                st.sampled_from(["^[0-9]", "^$", "~|/"]), inner, max_size=2
            ),
            "required": st.lists(keys, max_size=2, unique=True),
            "propertyNames": st.just({"maxLength": 3}),
        },
    )

    unions = st.lists(inner, min_size=1, max_size=3)
    arrays = st.fixed_dictionaries({"type": st.just("array"), "items": inner})

    return (
        named
        | arrays
        | unions.map(lambda branches: {"anyOf": branches})
        | unions.map(lambda all_: {"allOf": all_})
    )


leaves = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "string", "minLength": 1},
        {"enum": ["x", 1]},
        {"const": "7"},
        {},
        {"type": "boolean"},
    ]
)
schemas = st.recursive(leaves, compounds, max_leaves=8)
tools = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(keys, schemas, max_size=4)},
    optional={
        "additionalProperties": schemas | st.booleans(),
        "required": st.lists(keys, max_size=2, unique=True),
    },
)
PRICES = {
    "type": "object",
    "properties": {"prices": {"type": "object", "additionalProperties": {"type": "integer"}}},
}


def is_place(value: Any, path: str) -> bool:
    """Return whether a pointer leads to a place in a value; ``*`` stands for any member."""
    places = [value]
    for token in pointer_tokens(path):
        below: list[Any] = []
        for place in places:
            if isinstance(place, dict):
                below += (
                    [*place.values()] if token == "*" else [place[token]] if token in place else []
                )
            elif (
                isinstance(place, list)
                and token.isascii()
                and token.isdecimal()
                and int(token) < len(place)
            ):
                below.append(place[int(token)])

        places = below

    return bool(places)


def parent(path: str) -> str:
    """Cut the last token off."""
    return path.rpartition("/")[0]


def is_true(issue: Issue, value: Any) -> bool:
    """Return whether an issue is about a place of the value.

    It may be about a member that an object there lacks, too.
    """
    return is_place(value, parent(issue.path) if issue.code.endswith("required") else issue.path)


@given(schema=schemas, value=values)
@example(schema={"additionalProperties": {"type": "integer"}}, value={"42": "cheap"})
@example(schema={"additionalProperties": {"type": "integer"}}, value={"007": "x", "7": 7})
@example(schema={"properties": {"": {"type": "integer"}}}, value={"": "x"})
@settings(max_examples=500)
def test_every_path_is_a_place_of_the_value(schema: Any, value: Any) -> None:
    """For any keys, an issue points to the member that was wrong."""
    for extra in ("forbid", "schema"):
        issues = Schema.compile(schema, extra=extra, root_closed=False).check(value)
        assert [issue for issue in issues if not is_true(issue, value)] == []


@given(value=st.dictionaries(keys, st.integers() | st.just("x"), max_size=6))
@settings(max_examples=200)
def test_the_wrong_members_are_named_and_no_others(value: dict[str, Any]) -> None:
    """With every key known to the schema, the paths are exactly those of the members that do not
    fit.
    """
    schema = Schema.compile({"properties": {key: {"type": "integer"} for key in KEYS}})
    wrong = {(key,) for key, member in value.items() if member == "x"}
    assert {tuple(pointer_tokens(issue.path)) for issue in schema.check(value)} == wrong


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@given(schema=tools, args=objects)
@example(schema=PRICES, args={"prices": {"42": "cheap"}})
@settings(max_examples=300)
def test_no_foreign_exception_in_either_channel(schema: Any, args: Any) -> None:
    """A verdict comes back for any keys: native arguments, the text union, a structured answer."""
    try:
        tool = sr.Tool.from_json_schema("t", schema)
    except sr.ContractError:
        reject()  # nothing can ever fit it, which is said when it is declared

    native = sr.Contract(tools=[tool]).check(completion(calls=[call("t", args)]))
    text = sr.Contract(tools=[tool], channel="text").check(json.dumps({"tool": "t", "args": args}))
    answer = sr.Contract(answer=schema).check(completion(json.dumps(args)))
    assert (
        isinstance(native, sr.Valid) == isinstance(text, sr.Valid) == isinstance(answer, sr.Valid)
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("steps", [2, 3])
def test_a_wrong_member_is_corrected_whatever_its_key(key: str, steps: int) -> None:
    """A client re-asks for a wrong member under any key, and gives the corrected reply, or says
    what was wrong.
    """
    bad = completion(calls=[call("t", {"prices": {key: "cheap"}})])
    good = completion(calls=[call("t", {"prices": {key: 1}})])
    tool = sr.Tool.from_json_schema("t", PRICES)
    fake = Client(bad, *([good] if steps == 2 else [bad, bad, bad]))
    client: Any = sr.wrap(fake, tools=[tool], policy=sr.RetryPolicy(max_retries=steps - 1))

    if steps == 2:
        assert client.reply(model="m", messages=USER) == sr.ToolCall(
            "t", {"prices": {key: 1}}, "call_a"
        )
    else:
        with pytest.raises(sr.ReplyRejected) as caught:
            client.reply(model="m", messages=USER)
        assert {issue.code for issue in caught.value.issues} == {"args.type"}
        assert caught.value.explain()


@pytest.mark.parametrize("key", KEYS)
def test_a_response_format_is_corrected_whatever_its_keys(key: str) -> None:
    """A json_schema response format given per call judges objects with any key."""
    wanted = {"type": "json_schema", "json_schema": {"name": "prices", "schema": PRICES}}
    fake = Client(
        completion(json.dumps({"prices": {key: "cheap"}})),
        completion(json.dumps({"prices": {key: 1}})),
    )
    client: Any = sr.wrap(fake)
    answer = client.reply(model="m", messages=USER, response_format=wanted)
    assert answer == sr.DirectAnswer({"prices": {key: 1}})


class Prices(BaseModel):
    """A model whose keys the user does not know."""

    prices: dict[str, int]


@pytest.mark.parametrize("key", KEYS)
def test_a_typed_answer_is_corrected_whatever_its_keys(key: str) -> None:
    """An answer of a pydantic type is judged and built with any key."""
    fake = Client(
        completion(json.dumps({"prices": {key: "cheap"}})),
        completion(json.dumps({"prices": {key: 1}})),
    )
    answer = sr.wrap(fake, answer=Prices).reply(model="m", messages=USER)
    assert answer == sr.DirectAnswer(Prices(prices={key: 1}))


@pytest.mark.parametrize("key", KEYS)
def test_a_tool_runs_with_any_key(key: str) -> None:
    """The tool loop corrects a wrong member under any key, and runs the tool once, with the
    corrected one.
    """
    ran: list[dict[str, int]] = []

    def price(prices: dict[str, int]) -> str:
        """Take prices."""
        ran.append(prices)
        return "ok"

    bad = completion(calls=[call("price", {"prices": {key: "cheap"}})])
    good = completion(calls=[call("price", {"prices": {key: 1}})])
    fake = Client(bad, good, completion("done"))
    client: Any = sr.wrap(fake, tools=[price], policy=sr.RetryPolicy(max_retries=1))
    sr.run(client, USER, model="m")

    assert ran == [{key: 1}]


@given(args=objects)
@settings(max_examples=100)
def test_an_agents_action_is_judged_with_any_key(args: dict[str, Any]) -> None:
    """Coordination judges tool arguments and requests with any key."""
    tool = sr.Tool.from_json_schema("t", PRICES)
    processor = ValidationProcessor(
        Topology.of([("a", "b"), ("b", "End")], entry="a"), tools=[tool]
    )

    for action in (
        {"next_action": "call_tool", "tool_calls": [call("t", args)]},
        {"next_action": "invoke_agent", "action_input": "b", "request": args},
        {"next_action": "parallel_invoke", "agents": ["b"], "agent_requests": args},
        args,
    ):
        assert processor.validate(json.dumps(action), "a").is_valid in (True, False)


@pytest.mark.parametrize("key", KEYS)
def test_a_langgraph_run_takes_any_key(key: str) -> None:
    """An agent in a graph whose tool arguments have any key is corrected, not broken off."""
    pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")
    # These imports need the extra.
    from strictreply.integrations.langgraph import begin, outcome_of, to_langgraph  # noqa: PLC0415
    from strictreply.testing import Step, ok  # noqa: PLC0415 - only with the extra
    from support.integrations.langgraph_runs import CONFIG, ONE_RETRY, Cast, agents, final  # noqa: PLC0415

    tool = sr.Tool.from_json_schema("t", PRICES, function=lambda args: sorted(args["prices"]))
    bad = Step("bad", completion(calls=[call("t", {"prices": {key: "cheap"}})]), "")
    cast = Cast(lead=[bad, ok.call(tool, prices={key: 1}), final()])
    team = Topology.of([("lead", "User")], entry="lead")
    built = to_langgraph(team, agents(cast, team, tools=[tool]), policy=ONE_RETRY).compile()
    done = built.invoke(begin(team, "Go."), CONFIG)
    assert outcome_of(done)["status"] == "completed"
