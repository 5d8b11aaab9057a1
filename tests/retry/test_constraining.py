"""The first correction constrains the reply, where its fault is one that a grammar excludes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

import strictreply as sr
from strictreply.contract._channels import constraint_schema, union_schema
from strictreply.testing import ScriptedModel, ok
from support.flows import play, refusal_of
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, Client, StatusError, call, completion

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WEATHER = sr.Tool.from_json_schema("weather", OTHER_SCHEMA)
NATIVE = sr.Contract(tools=[SEARCH, WEATHER])
TEXT = sr.Contract(tools=[SEARCH, WEATHER], channel="text")
GOOD = {"query": "tea"}
CALL = '{"tool": "search", "args": {"query": "tea"}}'
LEAK = '<tool_call>{"name": "search", "arguments": {"query": "tea"}}</tool_call>'


def steps(outcome: sr.Exchange[Any] | sr.CallFailed) -> list[str | None]:
    """Return the step that each attempt took."""
    return [attempt.escalation for attempt in outcome.attempts]


def branches(request: dict[str, Any]) -> list[list[str]]:
    """Return the members of each form that a request's schema admits."""
    schema = request["response_format"]["json_schema"]["schema"]
    forms: list[dict[str, Any]] = schema.get("anyOf", [schema])
    return [sorted(form["properties"]) for form in forms]


class TestTextChannel:
    """JSON in the content: the union goes into ``response_format``."""

    @pytest.mark.parametrize("bad", ["no JSON", "[1]", '{"tool": "search"}', '{"tool": "x"}', ""])
    def test_a_broken_form_is_constrained_at_once(self, bad: str) -> None:
        """JSON, shape and a tool that there is not are excluded by the schema of the union."""
        outcome, requests, _ = play(TEXT, [completion(bad), completion(CALL)])
        assert isinstance(outcome, sr.Exchange)
        assert ["response_format" in one for one in requests] == [False, True]
        assert branches(requests[1]) == [["args", "tool"], ["args", "tool"], ["answer"]]
        assert steps(outcome) == [None, "response_format"]

    def test_prose_that_was_cut_is_constrained(self) -> None:
        """It would have become no JSON, while an object that was cut is only asked for shorter."""
        cut = completion("Tea is", finish_reason="length")
        outcome, _, _ = play(TEXT, [cut, completion(CALL)])
        assert steps(outcome) == [None, "response_format"]
        begun = completion('{"tool": "sea', finish_reason="length")
        outcome, _, _ = play(TEXT, [begun, completion(CALL)])
        assert steps(outcome) == [None, None]

    def test_a_fault_in_a_value_is_not(self) -> None:
        """Arguments that break a rule of their schema are corrected in words first."""
        bad = completion('{"tool": "search", "args": {"query": 1}}')
        outcome, requests, _ = play(TEXT, [bad, completion(CALL)])
        assert steps(outcome) == [None, None]
        assert "response_format" not in requests[1]

    def test_it_stays_in_force(self) -> None:
        """A later fault of another kind is corrected under the same constraint."""
        replies = ["no", '{"tool": "search", "args": {"query": 1}}', CALL]
        outcome, _, _ = play(TEXT, list(map(completion, replies)))
        assert steps(outcome) == [None, "response_format", "response_format"]

    def test_the_users_words_stand_last(self) -> None:
        """The bad reply is shown, its correction joins the instructions, and the user's last turn
        is said again: a weak model would answer the correction.
        """
        outcome, requests, _ = play(TEXT, [completion("no"), completion(CALL)])
        turns = requests[1]["messages"]
        assert turns[-1] == USER[-1]
        assert turns[-2] == {"role": "assistant", "content": "no"}
        correction = outcome.attempts[1].correction
        assert correction
        assert turns[0]["content"].endswith(correction)

    def test_a_result_is_not_said_again(self) -> None:
        """Behind the result of a tool the correction is a turn of its own."""
        result = {"role": "tool", "tool_call_id": "a", "content": "1"}
        calls = {"role": "assistant", "content": None, "tool_calls": [call("search", GOOD, "a")]}
        messages = [*USER, calls, result]
        outcome, requests, _ = play(TEXT, [completion("no"), completion(CALL)], messages=messages)
        assert requests[1]["messages"][-1] == {
            "role": "user",
            "content": outcome.attempts[1].correction,
        }

    @pytest.mark.parametrize(
        "policy",
        [sr.RetryPolicy(constrain_retries=False), sr.RetryPolicy(keep_prompt_cache=True)],
        ids=["off", "cache"],
    )
    def test_a_policy_can_leave_it_out(self, policy: sr.RetryPolicy) -> None:
        """It is off by name, and where the prompt must stay as it is."""
        outcome, requests, _ = play(TEXT, [completion("no"), completion(CALL)], policy)
        assert steps(outcome) == [None, None]
        assert "response_format" not in requests[1]

    def test_a_format_of_the_callers_own_stays(self) -> None:
        """What the caller set is never changed."""
        wanted = {"type": "json_object"}
        outcome, requests, _ = play(
            TEXT, [completion("no"), completion(CALL)], response_format=wanted
        )
        assert [one["response_format"] for one in requests] == [wanted, wanted]
        assert steps(outcome) == [None, None]

    @pytest.mark.parametrize(
        "refused", [refusal_of("response_format"), StatusError(400, body={"message": "no"})]
    )
    def test_a_refusal_gives_the_ordinary_correction(self, refused: StatusError) -> None:
        """A constraint that is refused, in whatever words, is left out, and not tried again."""
        fake = Client(
            completion("no"), refused, completion(CALL), completion("no"), completion(CALL)
        )
        client = sr.wrap(fake, contract=TEXT)
        first = client.exchange(model="m", messages=USER)
        second = client.exchange(model="m", messages=USER)
        assert first.attempts[1].dropped_params == ("response_format",)
        assert steps(first) == [None, "response_format", None]
        assert fake.script.messages[2][-1]["content"] == first.attempts[2].correction
        assert steps(second) == [None, None]

    def test_a_server_that_does_not_hold_to_it_is_learnt(self) -> None:
        """A reply that breaks the very schema shows that the server only takes it."""
        replies = [completion(text) for text in ("no", "still no", CALL, "no", CALL)]
        fake = Client(*replies)
        client = sr.wrap(fake, contract=TEXT)
        first = client.exchange(model="m", messages=USER)
        second = client.exchange(model="m", messages=USER)
        assert steps(first) == [None, "response_format", None]
        assert steps(second) == [None, None]
        assert ["response_format" in one for one in fake.script.requests] == [
            False,
            True,
            False,
            False,
            False,
        ]


class TestMissingCall:
    """A call that is demanded and does not come is asked for as an answer by a schema."""

    def asked(self, *replies: Any, **request: Any) -> Any:
        """Make a call that demands a tool."""
        return play(NATIVE, replies, **{"tool_choice": "required", **request})

    def test_it_is_read_as_the_native_call(self) -> None:
        """The request has the union and no tools, the completion has the call."""
        outcome, requests, _ = self.asked(completion("prose"), completion(CALL))
        assert isinstance(outcome, sr.Exchange)
        assert branches(requests[1]) == [["args", "tool"], ["args", "tool"]]
        assert requests[1].keys().isdisjoint({"tools", "tool_choice", "parallel_tool_calls"})
        assert steps(outcome) == [None, "constrained_call"]
        assert outcome.attempts[1].lenient == ("constrained_call",)
        assert outcome.reply.calls[0].args == GOOD

        made_of: Any = outcome.completion
        choice = made_of["choices"][0]
        (made,) = choice["message"]["tool_calls"]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
        assert json.loads(made["function"]["arguments"]) == GOOD
        assert made["id"] == outcome.reply.calls[0].id != ""

    def test_prose_that_was_cut_is_no_call(self) -> None:
        """The limit ended it, but no call had begun."""
        cut = completion("Tea is", finish_reason="length")
        outcome, _, _ = self.asked(cut, completion(CALL))
        assert steps(outcome) == [None, "constrained_call"]

    def test_a_named_tool_is_the_only_form(self) -> None:
        """The one that the caller demands."""
        named = {"type": "function", "function": {"name": "search"}}
        _, requests, _ = self.asked(completion("prose"), completion(CALL), tool_choice=named)
        assert branches(requests[1]) == [["args", "tool"]]

    def test_calls_in_the_conversation_keep_the_tools(self) -> None:
        """They are sent and forbidden then: some APIs refuse calls of tools that are not there."""
        calls = {"role": "assistant", "content": None, "tool_calls": [call("search", GOOD, "a")]}
        messages = [*USER, calls, {"role": "tool", "tool_call_id": "a", "content": "1"}]
        _, requests, _ = self.asked(completion("prose"), completion(CALL), messages=messages)
        assert requests[1]["tool_choice"] == "none"
        assert len(requests[1]["tools"]) == 2

    def test_its_arguments_are_judged_as_ever(self) -> None:
        """Faults have the places of a native call, and the next ask is for a call again."""
        bad = completion('{"tool": "search", "args": {"query": 1}}')
        outcome, requests, _ = self.asked(completion("prose"), bad, completion(CALL))
        assert isinstance(outcome, sr.Exchange)
        (issue,) = outcome.attempts[1].issues
        assert issue.path == "/tool_calls/0/function/arguments/query"
        assert steps(outcome) == [None, "constrained_call", "constrained_call"]
        assert branches(requests[2]) == [["args", "tool"]]
        assert outcome.reply.calls[0].args == GOOD

    def test_prose_again_ends_it(self) -> None:
        """A server that is not held to the schema is asked in the ordinary way."""
        replies = [
            completion("prose"),
            completion("more prose"),
            completion(None, [call("search", GOOD)]),
        ]
        outcome, requests, _ = self.asked(*replies)
        assert isinstance(outcome, sr.Exchange)
        assert [issue.code for issue in outcome.attempts[1].issues] == ["json.syntax"]
        assert steps(outcome) == [None, "constrained_call", None]
        assert requests[2]["tool_choice"] == "required"

    def test_a_refusal_restores_the_tools(self) -> None:
        """The same correction is sent as it would have been without the constraint."""
        good = completion(None, [call("search", GOOD)])
        outcome, requests, _ = self.asked(completion("prose"), refusal_of("response_format"), good)
        assert steps(outcome) == [None, "constrained_call", None]
        assert (requests[2]["tool_choice"], len(requests[2]["tools"])) == ("required", 2)

    def test_a_call_that_was_asked_for_alone(self) -> None:
        """Prose in place of the one call is followed by that call as an answer, spliced as ever."""
        wrong = completion(None, [call("search", {"query": 1}, "own")])
        outcome, requests, _ = play(NATIVE, [wrong, completion("prose"), completion(CALL)])
        assert isinstance(outcome, sr.Exchange)
        assert steps(outcome) == [None, None, "constrained_call"]
        assert branches(requests[2]) == [["args", "tool"]]
        assert outcome.reply == sr.ToolCall("search", GOOD, "own")

    @pytest.mark.parametrize(
        "policy",
        [sr.RetryPolicy(constrain_retries=False), sr.RetryPolicy(keep_prompt_cache=True)],
        ids=["off", "cache"],
    )
    def test_a_policy_can_leave_it_out(self, policy: sr.RetryPolicy) -> None:
        """The tools are sent once more then."""
        good = completion(None, [call("search", GOOD)])
        outcome, requests, _ = play(
            NATIVE, [completion("prose"), good], policy, tool_choice="required"
        )
        assert steps(outcome) == [None, None]
        assert requests[1]["tool_choice"] == "required"


class TestCallAsText:
    """A call that the model wrote as text is forced, and asked for as an answer next."""

    def test_it_is_forced_at_once(self) -> None:
        """The choice was free: the first correction demands a call."""
        good = completion(None, [call("search", GOOD)])
        outcome, requests, _ = play(NATIVE, [completion(LEAK), good])
        assert steps(outcome) == [None, "forced_tool"]
        assert requests[1]["tool_choice"] == "required"

    def test_where_forcing_does_nothing_an_answer_by_schema_follows(self) -> None:
        """An answer is allowed in it, as it was at first."""
        replies = [completion(LEAK), completion(LEAK), completion('{"answer": "none"}')]
        outcome, requests, _ = play(NATIVE, replies)
        assert isinstance(outcome, sr.Exchange)
        assert steps(outcome) == [None, "forced_tool", "constrained_call"]
        assert branches(requests[2]) == [["args", "tool"], ["args", "tool"], ["answer"]]
        assert outcome.reply == sr.DirectAnswer("none")


class Item(BaseModel):
    """A thing of a shop."""

    name: str


class Order(BaseModel):
    """Order a thing."""

    item: Item
    gift: Item | None = None


def test_definitions_stand_at_the_root() -> None:
    """Servers look for them there, and the schema admits what the union of the prompt admits."""
    contract = sr.Contract(tools=[Order, SEARCH], answer=Order, channel="text")
    sent = constraint_schema(contract)
    assert '"$id"' not in json.dumps(sent)
    assert len(sent["$defs"]) == 2

    item = {"item": {"name": "x"}}
    values: list[Any] = [
        {"tool": "Order", "args": item},
        {"tool": "Order", "args": {"item": {"name": 1}}},
        {"tool": "search", "args": GOOD},
        {"tool": "Order", "args": GOOD},
        {"answer": item},
        {"answer": {}},
    ]
    verdicts = [
        [Draft202012Validator(schema).is_valid(value) for value in values]
        for schema in (sent, union_schema(contract))
    ]
    assert verdicts[0] == verdicts[1] == [True, False, True, False, True, False]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_every_api_hands_the_call_on_as_its_own(api: str, is_stream: bool) -> None:
    """A program finds a native call of its API, whole and streamed, also behind a wrong one."""
    wrong = '{"tool": "search", "args": {"query": 1}}'
    model = ScriptedModel(ok.answer("prose"), ok.answer(wrong), ok.union(SEARCH, query="tea"))
    client: Any = sr.wrap(
        model.anthropic() if api == "messages" else model.openai(), contract=NATIVE
    )
    asked: dict[str, Any] = {"model": "m", "stream": is_stream}
    if api == "chat":
        made = client.chat.completions.create(**asked, messages=USER, tool_choice="required")
        pieces = made if is_stream else [made]
        found = [
            one.function.name
            for piece in pieces
            for choice in piece.choices
            for one in (choice.delta if is_stream else choice.message).tool_calls or ()
            if one.function.name
        ]
    elif api == "responses":
        made = client.responses.create(**asked, input="find tea", tool_choice="required")
        last = list(made)[-1].response if is_stream else made
        found = [item.name for item in last.output if item.type == "function_call"]
    else:
        asked |= {"max_tokens": 99, "messages": [{"role": "user", "content": "find tea"}]}
        made = client.messages.create(**asked, tool_choice={"type": "any"})
        blocks = [
            event.content_block
            for event in (made if is_stream else ())
            if event.type == "content_block_start"
        ]
        found = [
            one.name for one in (blocks if is_stream else made.content) if one.type == "tool_use"
        ]

    assert found == ["search"]
    assert len(model.requests) == 3
