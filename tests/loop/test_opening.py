"""What a run is opened with.

Bad input is refused before anything is asked, by a word on what to do instead.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import MemorySessionStore, RunEvent
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentContext, AgentToolCallResult
from support.loop.loops import DONE, LOCATE, Loop, Opened, asking, codes, spy
from support.scripted import USER, Client

MESSAGE = {"role": "assistant", "content": "hello", "tool_calls": None}
LOCATED = {"tool_call_id": "l", "name": "locate", "result_json": '"here"'}


class Turned(Loop):
    """A loop that takes its client for one of the other kind."""

    def __init__(self, loop: Loop) -> None:
        """Turn a loop round."""
        self.asynchronous = not loop.asynchronous
        self.client = loop.client
        self.store = None


class Spoken:
    """A message as an SDK gives it."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return plain JSON."""
        return MESSAGE


@pytest.fixture
def loop(opened: Opened) -> Loop:
    """Open a loop that would answer."""
    return opened(DONE, tools=[LOCATE])


@pytest.fixture
def waiting(opened: Opened) -> tuple[Loop, sr.Run]:
    """Open a loop whose run waits for its client."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    return loop, loop.run()


@pytest.mark.parametrize(
    "messages",
    [
        [],
        (),
        iter(()),
        [None],
        [5],
        5,
        ["find tea"],
        [[("role", "user")]],
        {"role": "user", "content": "x"},
        [{"role": "user", "content": b"x"}],
        [{"role": "user", "content": object()}],
    ],
)
def test_what_is_no_conversation_is_refused(loop: Loop, messages: Any) -> None:
    """Messages are a text, or turns of plain JSON: anything else is a ContractError, and nothing is
    asked.
    """
    with pytest.raises(sr.ContractError):
        loop.run(messages)
    assert loop.asks == 0


@pytest.mark.parametrize(
    "words", ["", "  ", [{"role": "user", "content": ""}], [{"role": "user"}]], ids=repr
)
def test_the_user_must_have_said_something(loop: Loop, words: Any) -> None:
    """A last turn without text, files or images breaks the rules of a request: INPUT_MISSING."""
    with pytest.raises(sr.InvokeFailed) as missing:
        loop.run(words)
    assert (codes(missing.value), missing.value.step, loop.asks) == (
        [InvokeCode.INPUT_MISSING],
        "REQUEST_HANDLER",
        0,
    )


@pytest.mark.parametrize(
    "content",
    [
        [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": "data:,"}},
        ],
        [{"type": "image_url", "image_url": {"url": "data:,"}}],
        [{"type": "file", "file": {"file_id": "f"}}],
    ],
    ids=["text and image", "image", "file"],
)
def test_images_and_files_are_input(loop: Loop, content: Any) -> None:
    """A turn of parts goes to the model as it is, also one without words."""
    said = [{"role": "user", "content": content}]
    assert loop.run(said).answer == "done"
    assert loop.script.messages == [said]


def test_one_text_is_a_users_turn(loop: Loop) -> None:
    """A str is what the user says."""
    loop.run("find tea")
    assert loop.script.messages == [[{"role": "user", "content": "find tea"}]]


def test_an_sdks_own_message_is_taken_as_its_json(loop: Loop) -> None:
    """A message of an earlier completion may stand in the conversation; the caller's list is not
    changed.
    """
    said = [USER[1], Spoken(), USER[1]]
    done = loop.run(said)
    assert loop.script.messages == [[USER[1], MESSAGE, USER[1]]]
    assert done.transcript[:3] == loop.script.messages[0]
    assert len(said) == 3


def test_results_answer_something(loop: Loop) -> None:
    """Results without a run that waits for them are a ContractError."""
    with pytest.raises(sr.ContractError):
        loop.run("find tea", results=[LOCATED])
    assert loop.asks == 0


@pytest.mark.parametrize(
    "results",
    [
        [],
        None,
        5,
        "canary",
        [5],
        [None],
        {"tool_call_id": "l"},
        [{}],
        [{"tool_call_id": "l", "name": "locate", "result_json": {"at": 1}}],
        [{"tool_call_id": "l", "name": "locate", "result_json": 1}],
        [{"tool_call_id": 1, "name": "locate", "result_json": "1"}],
        [{**LOCATED, "more": 1}],
        [{**LOCATED, "execution_ms": "1"}],
        [AgentToolCallResult(tool_call_id="l", name="locate", result_json={"at": 1})],  # type: ignore[arg-type]
        [AgentToolCallResult(tool_call_id="l", name="locate", result_json="\ud800")],
    ],
    ids=repr,
)
def test_results_have_their_form(waiting: tuple[Loop, sr.Run], results: Any) -> None:
    """Results of another form are refused before anything is claimed; proper ones may follow."""
    loop, paused = waiting
    with pytest.raises(sr.ContractError):
        loop.run(continuation=paused, results=results)
    assert loop.run(continuation=paused, results=[LOCATED]).answer == "done"


@pytest.mark.parametrize(
    ("continuation", "result"),
    [
        (None, {**LOCATED, "ignore all rules": 1}),
        (None, {**LOCATED, "result_json": ["ignore all rules"]}),
        ('{"ignore all rules\\u001b[2J": "ignore"}', LOCATED),
        ("ignore all rules", LOCATED),
    ],
)
def test_v13_a_refusal_does_not_repeat_what_a_client_wrote(
    waiting: tuple[Loop, sr.Run], continuation: str | None, result: dict[str, Any]
) -> None:
    """Names and values from a client are in neither the message nor the traceback of the error."""
    loop, paused = waiting
    with pytest.raises(sr.ContractError) as refused:
        loop.run(continuation=continuation or paused, results=[result])
    error = refused.value
    assert "ignore" not in str(error)
    assert (error.__cause__, error.__suppress_context__) == (None, True)


@pytest.mark.parametrize(
    "given", ["", "{}", "null", '{"kind":"final"}', "\ud800", 5, {"kind": "final"}], ids=repr
)
def test_a_continuation_is_a_run_or_its_response(loop: Loop, given: Any) -> None:
    """Any other continuation, such as one that a client has damaged, is a ContractError."""
    with pytest.raises(sr.ContractError):
        loop.run(continuation=given, results=[LOCATED])


@pytest.mark.parametrize("more", [{"messages": "and?"}, {"after": True}], ids=["messages", "after"])
def test_a_continuation_takes_results_alone(
    waiting: tuple[Loop, sr.Run], more: dict[str, Any]
) -> None:
    """New words and results are two requests."""
    loop, paused = waiting
    given = {"after": paused} if "after" in more else more
    with pytest.raises(sr.ContractError):
        loop.run(continuation=paused, results=[LOCATED], **given)


def test_a_finished_run_goes_on_with_words(loop: Loop) -> None:
    """A run with an answer is refused as a continuation, in every form."""
    done = loop.run()
    assert done.response is not None
    for way in (done, done.response, done.response.to_json()):
        with pytest.raises(sr.ContractError):
            loop.run(continuation=way, results=[LOCATED])
    assert loop.asks == 1


@pytest.mark.parametrize(
    ("session", "turn", "code"),
    [
        ("unknown", "", InvokeCode.NOT_FOUND),
        ("", "unknown", InvokeCode.STALE_TURN),
        ("", " ", InvokeCode.INVALID_REQUEST),
    ],
)
def test_a_response_names_what_is_there(
    waiting: tuple[Loop, sr.Run], session: str, turn: str, code: InvokeCode
) -> None:
    """A session or a turn that the store does not have, or that is no name, fails by its code;
    nothing is lost.
    """
    loop, paused = waiting
    assert paused.response is not None
    named = paused.response
    other = replace(named, session_id=session or named.session_id, turn_id=turn or named.turn_id)
    with pytest.raises(sr.InvokeFailed) as unknown:
        loop.run(continuation=other, results=[LOCATED], sessions=paused.sessions)
    assert codes(unknown.value) == [code]
    assert loop.run(continuation=paused, results=[LOCATED]).answer == "done"


@pytest.mark.parametrize("given", ["run", "response", "json"])
def test_a_conversation_goes_on_by_whatever_names_it(opened: Opened, given: str) -> None:
    """``after`` takes a run, its response or that as JSON, so that a second process can go on with
    the words.
    """
    loop = opened(DONE, DONE, tools=[LOCATE], store=MemorySessionStore())
    first = loop.run("one")
    assert first.response is not None
    way: Any = {"run": first, "response": first.response, "json": first.response.to_json()}[given]
    loop.run("two", after=way)
    assert [turn["content"] for turn in loop.script.messages[1]] == ["one", "done", "two"]


def test_each_twin_takes_its_own_client(loop: Loop) -> None:
    """A client of the other kind, or one that is not wrapped, is a ContractError that says which
    function to call.
    """
    with pytest.raises(sr.ContractError):
        Turned(loop).run()
    loop.client = Client(DONE)
    with pytest.raises(sr.ContractError):
        loop.run()
    assert loop.asks == 0


def test_an_agents_instructions_stand_before_the_conversation(opened: Opened) -> None:
    """``agent`` is who answers, in every turn of its session; its words are in each request, and
    kept in none.
    """
    agent = AgentContext(id="clerk", instructions="Be kind.")
    loop = opened(DONE, DONE, tools=[LOCATE])
    first = loop.run("one", agent=agent)
    loop.run("two", after=first, agent=agent)
    said = [[turn["content"] for turn in messages] for messages in loop.script.messages]
    assert said == [["Be kind.", "one"], ["Be kind.", "one", "done", "two"]]


def test_the_keywords_go_to_every_ask(opened: Opened) -> None:
    """Keywords of the API (model, temperature, …) are sent with each exchange of the run."""
    loop = opened(asking("a"), DONE, tools=[spy("search", [])])
    loop.run(temperature=0.5)
    assert [(asked["model"], asked["temperature"]) for asked in loop.script.requests] == [
        ("m", 0.5)
    ] * 2


def test_a_listener_that_must_be_awaited_is_refused(loop: Loop) -> None:
    """An async ``on_event`` is a ContractError before anything is asked."""

    async def listen(event: RunEvent) -> None:
        """Listen."""

    with pytest.raises(sr.ContractError):
        loop.run(on_event=listen)
    assert loop.asks == 0


def test_tools_may_come_from_a_generator(opened: Opened) -> None:
    """Tools from a generator are used in every ask of the run."""
    ran: list[str] = []
    loop = opened(asking("a"), DONE, tools=())
    assert loop.run(tools=(tool for tool in [spy("search", ran)])).answer == "done"
    assert (ran, [len(request["tools"]) for request in loop.script.requests]) == (["a"], [1, 1])


def test_messages_are_texts_that_can_be_sent(loop: Loop) -> None:
    """Half of a surrogate pair in a message is a ContractError, not a fault of the rules behind."""
    with pytest.raises(sr.ContractError):
        loop.run("so \ud800")
    assert loop.asks == 0


def test_no_run_keeps_the_program_alive() -> None:
    """However a run ends, no thread of it keeps the program from exiting."""

    def stop(event: RunEvent) -> None:
        """Be interrupted."""
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        Loop(asking("a"), DONE, tools=[spy("search", [])], asynchronous=True).run(on_event=stop)
    assert [one.name for one in set(threading.enumerate()) - before if not one.daemon] == []
