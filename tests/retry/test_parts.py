"""One value asked for alone.

It is the arguments in the text channel, or the wrong value of a large document.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import (
    CallFailed,
    Contract,
    DirectAnswer,
    Exchange,
    ReplyRejected,
    RetryPolicy,
    Tool,
    ToolCall,
)
from support.flows import play, refusal_of
from support.scripted import SCHEMA, USER, call, completion

KINDS: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "string"}, "a text", 7),
    ({"type": "integer"}, 3, "3"),
    ({"type": "array", "items": {"type": "number"}}, [1.5, 2], {}),
    (
        {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
        {"on": True},
        [],
    ),
]
SECTIONS = 6
GROUPS = 3
CELLS = 20
MAX_TOKENS = 200


def large_schema() -> dict[str, Any]:
    """Declare a report of 369 fields: 6 sections of 3 groups of 20 cells, and 9 at the top."""
    cells = {
        f"cell_{n}": {**KINDS[n % 4][0], "description": f"Cell {n} of its group."}
        for n in range(CELLS)
    }
    group = {"type": "object", "properties": cells, "required": list(cells)}
    groups = {f"group_{n}": {"$ref": "#/$defs/group"} for n in range(GROUPS)}
    section = {"type": "object", "properties": groups, "required": list(groups)}
    members = {f"section_{n}": section for n in range(SECTIONS)} | {
        f"top_{n}": {"type": "number"} for n in range(9)
    }

    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "$defs": {"group": group},
    }


def large_document() -> dict[str, Any]:
    """Write a report that fits."""
    group = {f"cell_{n}": KINDS[n % 4][1] for n in range(CELLS)}
    section = {f"group_{n}": group for n in range(GROUPS)}
    whole = {f"section_{n}": section for n in range(SECTIONS)} | {
        f"top_{n}": n + 0.5 for n in range(9)
    }
    return dict(json.loads(json.dumps(whole)))  # nothing in it is shared


SCHEMA_369 = large_schema()
GOOD = large_document()
PLACES: dict[str, tuple[Contract[Any], Callable[[Any], dict[str, Any]]]] = {
    "answer": (Contract(answer=SCHEMA_369), lambda value: completion(json.dumps(value))),
    "answer as text": (
        Contract(answer=SCHEMA_369, channel="text"),
        lambda value: completion(json.dumps({"answer": value})),
    ),
    "arguments": (
        Contract(tools=[Tool.from_json_schema("report", SCHEMA_369)]),
        lambda value: completion(calls=[call("report", value)]),
    ),
    "arguments as text": (
        Contract(tools=[Tool.from_json_schema("report", SCHEMA_369)], channel="text"),
        lambda value: completion(json.dumps({"tool": "report", "args": value})),
    ),
}
SEARCH = Tool.from_json_schema("search", SCHEMA)
QUIZ = Tool.from_json_schema(
    "quiz", {"type": "object", "properties": {"answer": {"type": "integer"}}}
)
TEXT = Contract(tools=[SEARCH, QUIZ], channel="text")
WRONG = completion('{"tool": "search", "args": {"query": 1}}')


def run(
    contract: Contract, *replies: Any, policy: RetryPolicy | None = None, **request: Any
) -> tuple[Exchange[Any] | CallFailed, Any]:
    """Make a call that these come of; gives its end and the requests."""
    played = play(contract, replies, policy, **request)
    return played.outcome, played.requests


def with_cell(place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Write the report with another value at a place."""
    whole = deepcopy(GOOD)
    holder: Any = whole
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    return whole


def spoken(outcome: Exchange[Any] | CallFailed) -> Any:
    """Read the plain JSON out of an accepted reply."""
    assert isinstance(outcome, Exchange)
    reply = outcome.reply
    assert isinstance(reply, DirectAnswer | ToolCall)
    return reply.answer if isinstance(reply, DirectAnswer) else reply.args


class TestPayload:
    """The text channel asks for the arguments of the tool at fault alone."""

    @pytest.mark.parametrize(
        "reply", ['{"query": "tea"}', '{"tool":"search","args":{"query":"tea"}}']
    )
    def test_the_arguments_alone_are_asked_for(self, reply: str) -> None:
        """Instructions and correction say so; the whole union is taken as well."""
        outcome, requests = run(TEXT, WRONG, completion(reply))
        assert spoken(outcome) == {"query": "tea"}
        system, *_, bad, correction = requests[1]["messages"]
        assert json.loads(system["content"].splitlines()[-1]) == SEARCH.parameters.shown

        assert "the arguments of search" in system["content"]
        assert "the arguments of search" in correction["content"]
        assert bad["content"] == '{"tool": "search", "args": {"query": 1}}'
        assert isinstance(outcome, Exchange)

        assert json.loads(outcome.transcript[-1]["content"]) == {
            "tool": "search",
            "args": {"query": "tea"},
        }

    @pytest.mark.parametrize(
        ("reply", "code"),
        [
            ('{"tool":"quiz","args":{}}', "tool.switched"),
            ('{"answer":"x"}', "tool.switched"),
            ("no JSON", "json.syntax"),
            ("", "json.empty"),
            ('{"query":', "json.incomplete"),
        ],
    )
    def test_what_is_no_payload_leaves_the_call_in_its_place(self, reply: str, code: str) -> None:
        """Another tool, an answer and what cannot be read are faults, and the same arguments are
        asked for again.
        """
        outcome, requests = run(TEXT, WRONG, completion(reply), completion('{"query":"tea"}'))
        assert spoken(outcome) == {"query": "tea"}
        assert isinstance(outcome, Exchange)
        assert [issue.code for issue in outcome.attempts[1].issues] == [code]
        assert [made.scope for made in outcome.attempts] == [None, "search", "search"]
        assert requests[1]["messages"][-2] == requests[2]["messages"][-2]

    def test_arguments_named_like_the_union_are_arguments(self) -> None:
        """``{"answer": …}`` is no answer where the tool has a parameter of that name."""
        wrong = completion('{"tool":"quiz","args":{"answer":"1"}}')
        outcome, _ = run(TEXT, wrong, completion('{"answer":1}'))
        assert spoken(outcome) == {"answer": 1}

    def test_a_leniency_in_the_payload_is_recorded(self) -> None:
        """A fence around the arguments is read where the contract says so, and named."""
        fenced = Contract(tools=[SEARCH], channel="text", extraction="fenced")
        outcome, _ = run(fenced, WRONG, completion('```json\n{"query":"tea"}\n```'))
        assert isinstance(outcome, Exchange)
        assert "fenced" in outcome.attempts[1].lenient

    def test_the_callers_format_is_that_of_the_payload(self) -> None:
        """A ``json_schema`` format would refuse the arguments alone: it says what is asked for."""
        wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
        _, requests = run(TEXT, WRONG, completion('{"query":"tea"}'), response_format=wanted)
        assert requests[1]["response_format"]["json_schema"]["schema"] == SEARCH.parameters.shown

    def test_an_example_is_the_arguments_alone(self) -> None:
        """The third correction shows arguments, and they fit."""
        outcome, _ = run(
            TEXT, WRONG, *[completion('{"query":[]}'), completion('{"query":{}}')], WRONG
        )
        assert isinstance(outcome, ReplyRejected)
        shown = [attempt.correction or "" for attempt in outcome.attempts]
        example = next(line for line in shown[-1].splitlines() if "example" in line)
        assert SEARCH.parameters.check(json.loads(example.partition(": ")[2])) == ()


class TestSubtree:
    """A large document is repaired by its wrong value alone."""

    @pytest.mark.parametrize("name", PLACES)
    @pytest.mark.parametrize("cell", range(4))
    def test_one_wrong_field_of_369_costs_200_tokens(self, name: str, cell: int) -> None:
        """The part of a re-ask beyond the caller's own request has at most 800 characters, with
        schema and bad turn.
        """
        contract, write = PLACES[name]
        schema, right, wrong = KINDS[cell]
        place = ("section_3", "group_1", f"cell_{cell}")
        told = right if schema["type"] == "object" else {"value": right}
        answer = (
            completion(json.dumps(told))
            if name != "arguments"
            else completion(calls=[call("report", told)])
        )
        outcome, requests = run(contract, write(with_cell(place, wrong)), answer)
        assert spoken(outcome) == GOOD

        own = {"model": "small", "messages": USER}
        assert (len(json.dumps(requests[1])) - len(json.dumps(own))) / 4 <= MAX_TOKENS
        assert isinstance(outcome, Exchange)
        scope = "/" + "/".join(place)
        assert str(outcome.attempts[1].scope).removeprefix("report").startswith(scope)

    @pytest.mark.parametrize("name", PLACES)
    @pytest.mark.parametrize(
        "place", [("section_3", "group_1", f"cell_{cell}") for cell in range(4)] + [("top_3",)]
    )
    def test_one_missing_field_of_369_costs_200_tokens(
        self, name: str, place: tuple[str, ...]
    ) -> None:
        """Only its value is asked for, and put into its place."""
        contract, write = PLACES[name]
        right: Any = GOOD

        for step in place:
            right = right[step]

        told = right if isinstance(right, dict) else {"value": right}
        answer = (
            completion(json.dumps(told))
            if name != "arguments"
            else completion(calls=[call("report", told)])
        )

        bad = with_cell(place, None)
        holder: Any = bad

        for step in place[:-1]:
            holder = holder[step]

        del holder[place[-1]]
        outcome, requests = run(contract, write(bad), answer)
        assert spoken(outcome) == GOOD
        own = {"model": "small", "messages": USER}
        assert (len(json.dumps(requests[1])) - len(json.dumps(own))) / 4 <= MAX_TOKENS

        assert isinstance(outcome, Exchange)
        assert str(outcome.attempts[1].scope).removeprefix("report") == "/" + "/".join(place)

    def test_a_missing_key_that_only_the_model_named_the_way_to_is_no_place(self) -> None:
        """Below a name that nobody may be shown the object around it is asked for."""
        row = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        rows = {"type": "object", "additionalProperties": row}
        contract = Contract(
            answer={"type": "object", "properties": {"rows": rows, "note": {"type": "string"}}}
        )
        bad = {"rows": {"canary": {}}, "note": "n" * 2000}
        outcome, _ = run(contract, completion(json.dumps(bad)), completion('{"canary": {"n": 1}}'))
        assert spoken(outcome) == bad | {"rows": {"canary": {"n": 1}}}

        assert isinstance(outcome, Exchange)
        assert outcome.attempts[1].scope == "/rows"

    @given(
        st.sampled_from(list(PLACES)),
        st.integers(0, SECTIONS - 1),
        st.integers(0, GROUPS - 1),
        st.integers(0, 2),
    )
    def test_the_value_comes_back_in_its_place(
        self, name: str, section: int, group: int, cell: int
    ) -> None:
        """The rest of the document and the ids stay unchanged, wherever the value is."""
        contract, write = PLACES[name]
        place = (f"section_{section}", f"group_{group}", f"cell_{cell}")
        told = {"value": KINDS[cell][1]}
        answer = (
            completion(json.dumps(told))
            if name != "arguments"
            else completion(calls=[call("report", told, "z")])
        )
        outcome, _ = run(contract, write(with_cell(place, KINDS[cell][2])), answer)
        assert spoken(outcome) == GOOD

        assert isinstance(outcome, Exchange)
        assert str(outcome.attempts[1].scope).removeprefix("report") == "/" + "/".join(place)

    @pytest.mark.parametrize("name", PLACES)
    @pytest.mark.parametrize(
        "told", [{"value": "still no number"}, {"other": 1}, 3, "no JSON", {"tool": "x"}]
    )
    def test_in_vain_once_is_enough(self, name: str, told: Any) -> None:
        """When the value alone does not come right, the whole is asked for, and no part of it any
        more.
        """
        contract, write = PLACES[name]
        bad = write(with_cell(("top_3",), None))
        text = told if isinstance(told, str) else json.dumps(told)
        answer = (
            completion(text) if name != "arguments" else completion(calls=[call("report", text)])
        )
        outcome, requests = run(contract, bad, answer, bad, write(GOOD))
        assert spoken(outcome) == GOOD

        assert isinstance(outcome, Exchange)
        scopes = [made.scope for made in outcome.attempts]
        assert str(scopes[1]).endswith("/top_3")
        assert set(scopes[2:]) <= {None, "report"}

        assert "section_0" in json.dumps(requests[2])

    def test_tools_go_along_where_the_conversation_has_calls(self) -> None:
        """Some APIs refuse a history with calls in a request without tools: they are sent, and may
        not be called.
        """
        contract = Contract(answer=SCHEMA_369, tools=[SEARCH])
        earlier = completion(calls=[call("search", {"query": "a"}, "call_1")])["choices"][0][
            "message"
        ]
        history = [*USER, earlier, {"role": "tool", "tool_call_id": "call_1", "content": "x"}]
        bad = completion(json.dumps(with_cell(("top_3",), None)))

        for messages, tools in ((USER, None), (history, [SEARCH.definition])):
            outcome, requests = run(contract, bad, completion('{"value": 3.5}'), messages=messages)
            assert spoken(outcome) == GOOD
            assert requests[1].get("tools") == tools
            assert requests[1].get("tool_choice") == (tools and "none")

    def test_a_call_instead_of_the_value_is_none(self) -> None:
        """Where a value of an answer is asked for, a tool that is called brings nothing."""
        contract, write = PLACES["answer"]
        outcome, _ = run(
            contract,
            write(with_cell(("top_3",), None)),
            completion(calls=[call("x", {})]),
            write(GOOD),
        )
        assert spoken(outcome) == GOOD
        assert isinstance(outcome, Exchange)

        assert [issue.code for issue in outcome.attempts[1].issues] == ["call.malformed"]

    @pytest.mark.parametrize(
        "bad",
        [
            {"query": 1},
            [],
            with_cell(("top_3",), None) | {"top_4": None},
            {name: value for name, value in GOOD.items() if name not in {"top_3", "section_0"}},
            GOOD | {"another": 1},
        ],
    )
    def test_faults_of_the_whole_ask_for_the_whole(self, bad: Any) -> None:
        """Another document, faults far apart, two missing members or an extra one at the root."""
        contract, write = PLACES["answer"]
        outcome, requests = run(contract, write(bad), write(GOOD))
        assert spoken(outcome) == GOOD
        assert requests[1]["response_format"] == requests[0]["response_format"]

    def test_a_small_document_is_asked_for_as_a_whole(self) -> None:
        """Describing one of its values would cost as much."""
        outcome, _ = run(
            Contract(answer=SCHEMA), completion('{"query": 1}'), completion('{"query": "tea"}')
        )
        assert isinstance(outcome, Exchange)
        assert outcome.attempts[1].scope is None

    def test_a_name_that_only_the_model_wrote_is_no_place(self) -> None:
        """Below a member that the schema does not name, the object that holds it is asked for, or
        the whole.
        """
        rows = {"type": "object", "additionalProperties": {"type": "integer"}}
        schema = {
            "type": "object",
            "properties": {"rows": rows, "note": {"type": "string"}},
            "required": ["rows"],
        }
        contract = Contract(answer=schema)
        bad = {"rows": {"a": 1, "canary": "x"}, "note": "n" * 2000}
        outcome, requests = run(
            contract, completion(json.dumps(bad)), completion('{"a": 1, "b": 2}')
        )
        assert spoken(outcome) == bad | {"rows": {"a": 1, "b": 2}}

        assert isinstance(outcome, Exchange)
        assert outcome.attempts[1].scope == "/rows"
        assert "canary" not in requests[1]["messages"][-1]["content"]

    def test_the_sub_schema_of_another_branch_is_not_sent(self) -> None:
        """Where branches of a union say different things of one place, the whole is asked for."""
        forms = [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, "size": size},
                "required": ["kind", "size"],
            }
            for kind, size in (("a", {"type": "integer"}), ("b", {"type": "string"}))
        ]
        schema = {
            "type": "object",
            "properties": {"form": {"anyOf": forms}, "note": {"type": "string"}},
        }

        bad, good = ({"form": {"kind": "b", "size": size}, "note": "n" * 2000} for size in (3, "3"))
        outcome, _ = run(
            Contract(answer=schema), completion(json.dumps(bad)), completion(json.dumps(good))
        )
        assert spoken(outcome) == good
        assert isinstance(outcome, Exchange)

        assert outcome.attempts[1].scope is None

    def test_a_refused_format_is_said_in_words(self) -> None:
        """An endpoint without ``response_format`` is told the sub-schema, not the document's."""
        contract, write = PLACES["answer"]
        refused = refusal_of("response_format")
        answer = completion('{"value": 2.5}')
        outcome, requests = run(contract, write(with_cell(("top_3",), None)), refused, answer)
        assert isinstance(outcome, Exchange)

        assert "response_format" not in requests[2]
        assert json.loads(requests[2]["messages"][0]["content"].splitlines()[-1])["required"] == [
            "value"
        ]

    def test_siblings_of_the_call_stay(self) -> None:
        """A value inside one of several calls is spliced into that call."""
        contract = Contract(
            tools=[Tool.from_json_schema("report", SCHEMA_369), SEARCH], parallel=True
        )
        wrong = call("report", with_cell(("top_3",), None), "b")
        first = completion(calls=[call("search", {"query": "tea"}, "a"), wrong])
        outcome, requests = run(contract, first, completion(calls=[call("report", {"value": 3.5})]))
        assert isinstance(outcome, Exchange)

        kept, mended = outcome.transcript[-1]["tool_calls"]
        assert kept == call("search", {"query": "tea"}, "a")
        assert (mended["id"], json.loads(mended["function"]["arguments"])) == ("b", GOOD)
        assert (
            requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"value":null}'
        )


class TestCached:
    """``keep_prompt_cache=True``: everything before the correction stays, so that prompt caches
    hit.
    """

    CACHED = RetryPolicy(keep_prompt_cache=True)

    def test_tools_and_messages_stay_byte_for_byte(self) -> None:
        """One call is named by ``tool_choice``, several are listed as allowed; nothing else
        changes.
        """
        contract = Contract(tools=[SEARCH, QUIZ], parallel=True)
        wrong = [call("search", {"query": 1}, "a"), call("quiz", {"answer": "1"}, "b")]
        right = [call("search", {"query": "tea"}, "x"), call("quiz", {"answer": "1"}, "y")]
        last = completion(calls=[call("quiz", {"answer": 1})])
        outcome, requests = run(
            contract, *(completion(calls=one) for one in (wrong, right)), last, policy=self.CACHED
        )
        assert isinstance(outcome, Exchange)

        first, second, third = requests
        named = [{"type": "function", "function": {"name": name}} for name in ("search", "quiz")]
        assert second["tool_choice"]["allowed_tools"] == {"mode": "required", "tools": named}
        assert third["tool_choice"] == named[1]

        for later in (second, third):
            assert json.dumps(later["tools"]) == json.dumps(first["tools"])
            assert later["messages"][: len(USER)] == first["messages"]
            assert later.keys() - first.keys() == {"tool_choice"}

    @pytest.mark.parametrize("name", PLACES)
    def test_a_large_document_is_asked_for_as_a_whole(self, name: str) -> None:
        """Its part would need another schema before the correction."""
        contract, write = PLACES[name]
        bad = write(with_cell(("top_3",), None))
        outcome, (first, second) = run(contract, bad, write(GOOD), policy=self.CACHED)
        assert spoken(outcome) == GOOD
        assert second["messages"][: len(first["messages"])] == first["messages"]
        assert [second.get(key) for key in ("tools", "response_format")] == [
            first.get(key) for key in ("tools", "response_format")
        ]

    def test_a_format_that_demands_the_union_is_not_contradicted(self) -> None:
        """In the text channel the words alone ask for the arguments, unless the format that stays
        demands the union.
        """
        _, plain = run(TEXT, WRONG, completion('{"query":"tea"}'), policy=self.CACHED)
        assert plain[0]["messages"] == plain[1]["messages"][: len(plain[0]["messages"])]
        assert "the arguments of search" in plain[1]["messages"][-1]["content"]
        wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
        good = completion('{"tool":"search","args":{"query":"tea"}}')
        _, formed = run(TEXT, WRONG, good, policy=self.CACHED, response_format=wanted)
        assert formed[0]["response_format"] == formed[1]["response_format"]
        assert "arguments of" not in formed[1]["messages"][-1]["content"]
