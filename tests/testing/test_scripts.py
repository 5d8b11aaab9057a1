"""Scripts: what is served, what was asked, which texts came back, and how it is all told."""

from __future__ import annotations

import json
import re
import threading
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.testing import Asked, Fault, HTTPReply, ScriptedModel, Step, faults, ok
from support.testing.faults.spoken import CANARY


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


USER = {"role": "user", "content": "find tea"}
WORDS = st.text(min_size=3, max_size=12)


def ask(model: ScriptedModel, *turns: Any, **more: Any) -> Any:
    """Send one request."""
    return model({"model": "m", "messages": [USER, *turns], **more})


def invented(*words: str, name: str = "made_up") -> Step:
    """Make a fault whose texts only the model wrote."""
    return Fault(name, ok.answer().served, f"faults.{name}()", words)


def echoes_of(word: str, *turns: Any) -> list[tuple[int, str, str]]:
    """Serve a fault that invents a word, send these turns back, and give what was found."""
    model = ScriptedModel(invented(word), then=ok.answer())
    ask(model)
    ask(model, *turns)
    return list(model.echoes())


def test_steps_are_served_in_order_then_the_last_for_ever() -> None:
    """Each request gets the next step; further ones get ``then``."""
    model = ScriptedModel(ok.answer("a"), ok.answer("b"), then=ok.answer("c"))
    given = [ask(model)["choices"][0]["message"]["content"] for _ in range(4)]
    assert given == ["a", "b", "c", "c"]
    assert [request.step.source for request in model.requests if request.step] == [
        "ok.answer('a')",
        "ok.answer('b')",
        "ok.answer('c')",
        "ok.answer('c')",
    ]

    model.assert_spent()


def test_a_request_too_many_is_a_clear_400() -> None:
    """A request beyond the script is an error of the request, and ``assert_spent`` names it."""
    model = ScriptedModel(ok.answer())
    ask(model)
    given = ask(model)
    assert isinstance(given, HTTPReply)
    assert (given.status, json.loads(given.body)["error"]["code"]) == (400, "script_spent")
    assert model.requests[1].step is None
    with pytest.raises(AssertionError, match="request 2"):
        model.assert_spent()


def test_steps_that_were_not_asked_for_are_told() -> None:
    """A script that an app did not use up is a failed expectation."""
    model = ScriptedModel(ok.answer(), ok.answer(), ok.answer())
    ask(model)
    assert not model.spent
    with pytest.raises(AssertionError, match="2 of 3"):
        model.assert_spent()


def test_what_was_asked_is_what_it_was_then() -> None:
    """Neither an app that changes its messages, nor one that changes a reply, changes what was
    served or recorded.
    """
    step = ok.call(search, query="tea")
    model = ScriptedModel(step, step)
    request: Any = {
        "model": "m",
        "messages": [dict(USER)],
        "tools": [{"type": "function"}, 5],
        "stream": True,
    }
    served: Any = model(request)
    served["choices"].clear()

    request["messages"].append({"role": "user", "content": "more"})
    again: Any = model(request)
    again["choices"][0]["message"]["tool_calls"][0]["id"] = "call_1"
    assert again == step.served != served

    first = model.requests[0]
    assert (first.messages, first.tools, first.stream, first.number) == (
        [USER],
        [{"type": "function"}],
        True,
        1,
    )


@pytest.mark.parametrize("body", [{}, {"messages": None, "tools": 5}, {"messages": ["a", 5, None]}])
def test_odd_requests_are_recorded_too(body: Any) -> None:
    """A request without messages has none, and no prompts."""
    asked = Asked(1, body, None)
    assert (asked.messages, asked.tools, asked.prompts, asked.correction, asked.stream) == (
        [],
        [],
        [],
        "",
        False,
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (None, ""),
        (5, ""),
        (
            [
                {"type": "text", "text": "a"},
                {"type": "image_url"},
                {"text": None},
                {"text": "b"},
                "c",
                5,
            ],
            "a\nb\nc",
        ),
    ],
)
def test_the_text_of_a_turn(content: Any, text: str) -> None:
    """A text, or the texts of its parts."""
    assert Asked(1, {"messages": [USER | {"content": content}]}, None).prompts == [("user", text)]
    assert Asked(1, {"messages": [{"role": "user"}]}, None).prompts == [("user", "")]


def test_a_correction_is_what_the_first_request_did_not_say() -> None:
    """New turns are the correction, whether the app piles them up or not; the assistant's own turn
    is none.
    """
    model = ScriptedModel(then=ok.answer())
    reply = {"role": "assistant", "content": "bad"}
    ask(model)
    ask(model, reply, {"role": "user", "content": "again, please"})

    ask(
        model,
        reply,
        {"role": "tool", "content": [{"type": "text", "text": "no"}]},
        {"role": "user", "content": "now"},
    )
    assert [request.correction for request in model.requests] == ["", "again, please", "no\nnow"]


@given(word=WORDS, before=st.text(max_size=5), after=st.text(max_size=5))
def test_an_echo_is_found_as_it_is_and_in_json(word: str, before: str, after: str) -> None:
    """A text comes back plainly, in a JSON text, or in JSON within JSON; each is an echo."""
    text = before + word + after
    if word in str(USER["content"]):
        return

    for written in (
        text,
        json.dumps(text),
        json.dumps({"a": json.dumps([text])}),
        json.dumps(text, ensure_ascii=False),
    ):
        assert echoes_of(word, {"role": "user", "content": written}) == [(2, "user", "made_up")]


@pytest.mark.parametrize("role", ["user", "system", "tool", "developer", "function"])
@pytest.mark.parametrize("parts", [False, True], ids=["text", "parts"])
def test_an_echo_is_one_in_any_turn_that_the_app_wrote(role: str, parts: bool) -> None:
    """Every role but the assistant's own is a prompt, in parts or not."""
    text = f"you wrote {CANARY}!"
    content: Any = (
        [{"type": "text", "text": "you see"}, {"type": "text", "text": text}] if parts else text
    )
    assert echoes_of(CANARY, {"role": role, "content": content}) == [(2, role, "made_up")]


def test_the_assistants_own_turn_is_no_echo() -> None:
    """A bad reply may be replayed as what it was."""
    calls = [{"id": "1", "type": "function", "function": {"name": CANARY, "arguments": CANARY}}]
    assert echoes_of(CANARY, {"role": "assistant", "content": CANARY, "tool_calls": calls}) == []


def test_what_the_app_said_before_is_its_own() -> None:
    """A word that stood in a prompt before the reply came is no echo of it, nor is an empty one."""
    assert echoes_of("tea", {"role": "user", "content": "find tea, please"}) == []
    assert echoes_of("", {"role": "user", "content": "anything"}) == []


def test_an_echo_of_an_earlier_reply_is_named_by_it() -> None:
    """Two faults with words of their own are told apart, however late their words come back."""
    model = ScriptedModel(
        invented("alpha", name="first"), invented("beta", name="second"), then=ok.answer()
    )
    ask(model)
    ask(model, {"role": "user", "content": "again"})
    ask(model, {"role": "user", "content": "alpha? beta?"})
    assert list(model.echoes()) == [(3, "user", "first"), (3, "user", "second")]


def test_the_message_of_an_echo_holds_no_word_of_it() -> None:
    """The error names request, role and fault, not the text, which may be an injection."""
    model = ScriptedModel(invented("alpha"), then=ok.answer())
    ask(model)
    model.assert_no_echo()
    ask(model, {"role": "tool", "content": "alpha"})
    with pytest.raises(AssertionError) as caught:
        model.assert_no_echo()
    assert "alpha" not in str(caught.value)
    assert all(word in str(caught.value) for word in ("request 2", "tool", "made_up"))


@pytest.mark.parametrize(
    "step",
    [
        faults.wrong_type,
        faults.CATALOGUE["wrong_type"],
        [ok.answer()],
        "wrong_type",
        None,
    ],
)
def test_what_is_no_step_is_refused_at_once(step: Any) -> None:
    """A fault that was not called, or a list, would otherwise fail when it is served."""
    with pytest.raises(TypeError, match="step"):
        ScriptedModel(step)
    if step is not None:
        with pytest.raises(TypeError, match="step"):
            ScriptedModel().script(then=step)


def test_a_new_script_forgets_the_old_one() -> None:
    """Scripting again begins anew, requests and all."""
    model = ScriptedModel(ok.answer("a"))
    ask(model)
    model.script(ok.answer("b"))
    assert (model.requests, model.steps) == ([], (ok.answer("b"),))


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (faults.wrong_type(search, "limit"), ok.call(search, query="a\n'b'")),
        (faults.rate_limited_seconds(), ok.calls(ok.call(search), ok.call(search))),
    ],
)
@pytest.mark.parametrize("then", [None, ok.answer()])
def test_the_source_makes_the_script_again(steps: tuple[Step, ...], then: Step | None) -> None:
    """The line that is printed for a failure, run as Python, gives an equal script."""
    first = ScriptedModel(*steps, then=then)
    llm = ScriptedModel()
    exec(first.source, {**globals(), "llm": llm})  # noqa: S102 - our own words
    assert llm.steps == first.steps
    assert llm.source == first.source


def test_the_story_tells_steps_and_requests_and_no_reply() -> None:
    """A story has the script, the gate's codes, the requests and the corrections, and nothing that
    the model wrote.
    """
    model = ScriptedModel(faults.wrong_type(search, "limit"), then=ok.answer())
    ask(model)
    ask(model, {"role": "user", "content": "limit must be a number"})
    told = model.story()

    for words in (
        "faults.wrong_type(search, '/limit')",
        "args.type",
        "request 2: 2 messages",
        "limit must be a number",
    ):
        assert words in told

    assert CANARY not in told


def test_a_quoted_reply_does_nothing_to_a_terminal_and_does_not_flood_it() -> None:
    """A correction is escaped and abridged; its lines stay lines."""
    model = ScriptedModel(then=ok.answer())
    ask(model)
    ask(model, {"role": "user", "content": f"wrong:\n\x1b[31m{'x' * 1_000_000}\u202e"})
    told = model.story()
    assert all(line.isprintable() for line in told.splitlines())
    assert "correction: wrong:\n\\x1b[31mxxx" in told
    assert len(told) < 5_000


def test_threads_share_a_script() -> None:
    """Requests from several threads at once get each step once, and are all recorded."""
    steps = [ok.answer(str(number)) for number in range(40)]
    model = ScriptedModel(*steps)
    given: list[str] = []

    def work() -> None:
        """Ask ten times."""
        given.extend(ask(model)["choices"][0]["message"]["content"] for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert sorted(given, key=int) == [str(number) for number in range(40)]
    assert [request.number for request in model.requests] == list(range(1, 41))
    model.assert_spent()


def test_good_steps_repeat_no_id_of_the_conversation() -> None:
    """A script of equal calls gives each an id of its own, as servers do; a fault is served as it
    is.
    """
    step = ok.call({"name": "now"})
    model = ScriptedModel(*[step] * 3)
    messages = list[Any]()
    for _ in range(3):
        served: Any = model({"messages": messages})
        messages.append(served["choices"][0]["message"])
    assert [turn["tool_calls"][0]["id"] for turn in messages] == ["call_1", "call_2", "call_3"]


def ids_of(served: Any) -> list[Any]:
    """Read the ids of the calls in what was served."""
    return [call["id"] for call in served["choices"][0]["message"]["tool_calls"]]


@pytest.mark.parametrize(
    "make", [ok.call, faults.wrong_type, faults.unknown_tool_beside_good_call, faults.cut_at_length]
)
def test_no_id_is_given_out_twice_in_a_run(make: Any) -> None:
    """Whatever step comes, and though no request quotes an earlier one, each reply has new ids."""
    model = ScriptedModel(
        make(search), ok.calls(ok.call(search), ok.call(search)), then=make(search)
    )
    given = [id_ for _ in range(5) for id_ in ids_of(model({"messages": [USER]}))]
    assert len(given) == len(set(given))


def test_streamed_faults_have_new_ids_too() -> None:
    """The ids in the events of a raw response are those of no other reply; within it each stays
    what it was.
    """
    model = ScriptedModel(then=faults.stream_calls_share_index(search))
    bodies = [model({"messages": [USER], "stream": True}) for _ in range(2)]
    ids = [
        set(re.findall(rb'"id": "(call_[0-9]+)"', body.body))
        for body in bodies
        if isinstance(body, HTTPReply)
    ]
    assert [len(one) for one in ids] == [2, 2]

    assert not ids[0] & ids[1]


@pytest.mark.parametrize(
    ("fault", "ids"),
    [
        (faults.duplicate_call_id, ["call_1", "call_1"]),
        (faults.null_call_id, [None]),
        (faults.empty_call_id, [""]),
        (faults.number_as_call_id, [7]),
    ],
)
def test_a_fault_about_ids_is_what_it_says(fault: Any, ids: list[Any]) -> None:
    """However often it is served, and whatever ids were given out: the same are wrong in the same
    way.
    """
    model = ScriptedModel(ok.call(search), then=fault(search))
    model({"messages": [USER]})
    assert [ids_of(model({"messages": [USER]})) for _ in range(2)] == [ids, ids]


def test_a_fault_is_not_served_for_ever() -> None:
    """After ``max_requests`` of them an endless loop gets a 400 that says so; good steps without a
    loop never do.
    """
    model = ScriptedModel(ok.call(search), then=faults.wrong_type(search), max_requests=3)
    given = [model({"messages": [USER]}) for _ in range(5)]
    assert [isinstance(one, HTTPReply) for one in given] == [False] * 4 + [True]
    assert isinstance(given[4], HTTPReply)

    assert (given[4].status, json.loads(given[4].body)["error"]["code"]) == (400, "script_looped")
    assert (model.looped, model.requests[4].step) == (True, None)
    many = ScriptedModel(then=ok.call(search), max_requests=3)
    assert not [
        one for one in (many({"messages": [USER]}) for _ in range(9)) if isinstance(one, HTTPReply)
    ]

    assert not many.looped


def test_a_tool_loop_on_good_calls_ends_too() -> None:
    """A conversation with as many turns of the model as requests are allowed is endless, however
    good the calls are.
    """
    model = ScriptedModel(then=ok.call(search), max_requests=3)
    messages = list[Any]([USER])
    while not isinstance(served := model({"messages": messages}), HTTPReply):
        messages.append(cast("Any", served)["choices"][0]["message"])
    assert (len(messages), model.looped) == (4, True)


def test_a_new_script_forgets_the_loop() -> None:
    """Ids, requests and the loop begin anew; a bound below one is refused."""
    model = ScriptedModel(then=faults.wrong_type(search), max_requests=1)
    for _ in range(2):
        model({"messages": [USER]})
    assert model.looped
    model.script(ok.call(search))
    assert (model.looped, ids_of(model({"messages": [USER]}))) == (False, ["call_1"])
    with pytest.raises(ValueError, match="max_requests"):
        ScriptedModel(max_requests=0)
