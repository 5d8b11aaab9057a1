"""How far a turn may go: bounds that mean something, and the guard against calls that repeat."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError, LoopPolicy, Tool
from strictreply.loop._results import suppressed_result
from strictreply.loop.values import AgentToolCall, ToolCallManifest
from strictreply.pipeline import AgentPipelineContextValidator

COUNTS = (
    "max_iterations",
    "warn_at",
    "suppress_at",
    "concurrency",
    "max_result_chars",
    "max_tokens_total",
)
NO_COUNTS: tuple[Any, ...] = (None, 2.5, 3.0, True, "4", float("nan"))

ONCE = LoopPolicy(warn_at=1, suppress_at=2)
"""A call runs once and never again."""

UNBOUNDED = {("max_tokens_total", None)}


def made(arguments: str, name: str = "search", id_: str = "tc1") -> AgentToolCall:
    """Make a call."""
    return AgentToolCall(tool_call_id=id_, name=name, arguments_json=arguments)


def spent(policy: LoopPolicy, *arguments: str) -> list[bool]:
    """Return for each call of a turn whether it is not to be run."""
    return [is_spent for _, is_spent in policy.suppressed([made(text) for text in arguments], ())]


@pytest.mark.parametrize(
    "bounds",
    [
        {"max_iterations": 0},
        {"concurrency": 0},
        {"warn_at": 0},
        {"max_result_chars": 0},
        {"max_result_chars": 150_001},
        {"tool_timeout": 0},
        {"tool_timeout": -1.0},
        {"tool_timeout": float("nan")},
        {"tool_timeout": True},
        {"tool_timeout": "5"},
        *(
            {count: no_count}
            for count in COUNTS
            for no_count in NO_COUNTS
            if (count, no_count) not in UNBOUNDED
        ),
    ],
    ids=lambda bounds: "-".join(map(str, *bounds.items())),
)
def test_bounds_that_no_turn_could_keep_are_refused(bounds: dict[str, Any]) -> None:
    """A bound that allows nothing, or is of another kind, is a ContractError that names it where it
    is declared.
    """
    with pytest.raises(ContractError, match=next(iter(bounds))):
        LoopPolicy(**bounds)


@dataclass(frozen=True, kw_only=True)
class NamedPolicy(LoopPolicy):
    """A program's own policy, with a field that is no bound."""

    name: str = ""


def test_a_policy_of_a_programs_own_may_have_more_fields() -> None:
    """The bounds of a subclass are checked, and its own fields are left alone."""
    assert NamedPolicy(name="careful").max_iterations == LoopPolicy().max_iterations
    with pytest.raises(ContractError, match="warn_at"):
        NamedPolicy(warn_at=0)


@pytest.mark.req("P72")
@pytest.mark.parametrize(("warn_at", "suppress_at"), [(2, 2), (3, 2), (1, 1)])
def test_what_is_suppressed_was_warned_of_before(warn_at: int, suppress_at: int) -> None:
    """A policy that would suppress a call no later than it warns of it is refused."""
    with pytest.raises(ContractError):
        LoopPolicy(warn_at=warn_at, suppress_at=suppress_at)


@pytest.mark.req("P72")
def test_the_second_of_one_call_is_warned_of_and_the_third_is_not_run() -> None:
    """Of the same call made once, twice, three times: it runs, it runs with a warning, it does not
    run.
    """
    policy = LoopPolicy()
    call = made('{"q":"a"}')
    assert spent(policy, *[call.arguments_json] * 4) == [False, False, True, True]
    assert [policy.repeated([call] * times) for times in range(1, 4)] == [
        [],
        ["search"],
        ["search"],
    ]


def test_calls_of_earlier_replies_count() -> None:
    """The guard counts over the whole turn, and a suppressed call counts as one that was made."""
    call = made("{}")
    assert [spent for _, spent in LoopPolicy().suppressed([call, call], [call])] == [False, True]
    assert [
        spent for _, spent in LoopPolicy(warn_at=1, suppress_at=2).suppressed([call], [call])
    ] == [True]


def test_a_repeatable_tool_may_be_called_the_same_way_again() -> None:
    """Its calls are never warned of or suppressed; those of any other tool in the turn are."""
    policy = LoopPolicy()
    poll = made("{}", name="status")
    other = made("{}")
    tools = {
        "status": Tool.from_json_schema("status", {}, repeatable=True),
        "search": Tool.from_json_schema("search", {}),
    }

    turn = [poll, other] * 4
    kept = [
        (call.name, spent) for call, spent in policy.suppressed(turn[4:], turn[:4], tools=tools)
    ]
    assert kept == [("status", False), ("search", True)] * 2
    assert policy.repeated(turn, tools=tools) == ["search"]

    assert policy.repeated(turn) == ["status", "search"]


@pytest.mark.req("P71")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":{"c":2,"d":3}}', '{ "b": {"d": 3, "c": 2}, "a": 1 }', True),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":"\\u00e4"}', '{"a":"ä"}', True),
        ('{"a":1}', '{"a":2}', False),
        ('{"a":1}', '{"b":1}', False),
        ("{}", "", False),
    ],
)
def test_calls_are_the_same_by_name_and_canonical_arguments(
    one: str, other: str, *, same: bool
) -> None:
    """The order of members, spaces and escapes make no difference; the order of an array and every
    value do.
    """
    assert spent(ONCE, one, other) == [False, same]
    assert LoopPolicy().repeated([made(one), made(other)]) == (["search"] if same else [])
    assert LoopPolicy().repeated([made(one), made(one, name="find")]) == []


@given(
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=4),
    st.randoms(),
)
def test_the_order_of_members_is_no_difference(arguments: dict[str, Any], dice: Any) -> None:
    """Calls with equal arguments are the same, in any order of their members."""
    members = list(arguments.items())
    dice.shuffle(members)
    assert spent(ONCE, json.dumps(arguments), json.dumps(dict(members))) == [False, True]


@pytest.mark.req("P73")
def test_values_are_compared_with_their_case() -> None:
    """``A`` and ``a`` are two calls: neither is warned of, and no third is suppressed for the
    other's sake.
    """
    calls = [made('{"q":"A"}'), made('{"q":"a"}')]
    assert LoopPolicy().repeated(calls) == []
    assert spent(LoopPolicy(), '{"q":"A"}', '{"q":"a"}', '{"q":"a"}') == [False, False, False]


def test_each_repeated_tool_is_named_once() -> None:
    """Tools are named in the order of their first calls, however many calls of theirs repeat."""
    calls = [made("{}", name) for name in ("b", "a", "b", "a", "b")] + [made('{"x":1}', "b")] * 2
    assert LoopPolicy().repeated(calls) == ["b", "a"]


class Read:
    """A call that counts how often its arguments are read."""

    name = "search"

    def __init__(self, number: int) -> None:
        """Take arguments of its own."""
        self.number = number
        self.reads = 0

    @property
    def arguments_json(self) -> str:
        """Count, and give them."""
        self.reads += 1
        return f'{{"q":{self.number}}}'


@pytest.mark.parametrize(("count", "reads"), [(1, 0), (2, 1), (200, 2)])
def test_the_guard_is_linear(count: int, reads: int) -> None:
    """Each call's arguments are read at most once for a question, and only of a tool that was
    called often enough.
    """
    calls: list[Any] = [Read(number) for number in range(count)]
    half = count // 2
    assert not any(spent for _, spent in LoopPolicy().suppressed(calls[half:], calls[:half]))
    assert LoopPolicy().repeated(calls) == []
    assert {call.reads for call in calls} == {reads}


@pytest.mark.req("P74")
@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_the_result_of_a_suppressed_call_keeps_a_manifest_valid(name: str, id_: str) -> None:
    """The result of a suppressed call is a JSON text under the call's id and name, which says what
    happened.
    """
    call = made("{}", name, id_)
    result = suppressed_result(call)
    manifest = ToolCallManifest(tool_calls=(call,), tool_call_results=(result,))
    assert AgentPipelineContextValidator().validate_tool_call_manifest(manifest).errors == ()
    said = json.loads(str(result.result_json))
    assert (said["suppressed"], said["tool"]) == (True, name)
    assert said["reason"] == "repeat_tool_call_detected"
    assert said.keys() == {"suppressed", "reason", "tool", "guidance"}
    assert suppressed_result(replace(call, arguments_json='{"a":1}')) == result
