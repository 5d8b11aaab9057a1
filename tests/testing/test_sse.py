"""Completions as events: what an SDK puts together again is what was taken apart, faults included."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState

from scripted import USER
from strictreply.testing._sse import DONE, PIECES, chunks, event, events
from strictreply.testing._wire import assistant, completion, native_call
from strictreply.testing.mounting import openai_client

TEXT = st.text(max_size=30)
CALLS = st.lists(st.builds(native_call, TEXT, TEXT, TEXT), max_size=3)
COMPLETIONS = st.builds(
    lambda content, calls, refusal, reason: completion(
        assistant(content, calls, refusal=refusal), finish_reason=reason
    ),
    st.none() | TEXT,
    CALLS,
    st.none() | TEXT,
    st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
)


def read(served: Any, **options: Any) -> list[Any]:
    """Stream a completion through the real SDK, and give its chunks."""
    stream: Any = openai_client(lambda _: served).chat.completions
    return list(stream.create(model="m", messages=USER, stream=True, **options))


def data(served: Any, **options: Any) -> list[Any]:
    """Read the JSON of the events of a completion back."""
    *spelled, done = events(served, **options)
    assert done == DONE
    return [json.loads(one.removeprefix(b"data: ")) for one in spelled]


@given(served=COMPLETIONS)
def test_the_sdk_puts_the_completion_together_again(served: dict[str, Any]) -> None:
    """Content, refusal, calls and finish reason survive the way through the SDK's own assembler."""
    state: Any = ChatCompletionStreamState()
    for chunk in read(served):
        state.handle_chunk(chunk)
    choice, wanted = state.current_completion_snapshot.choices[0], served["choices"][0]
    assert choice.finish_reason == wanted["finish_reason"]
    assert choice.message.role == "assistant"
    assert (choice.message.content, choice.message.refusal) == (
        wanted["message"]["content"],
        wanted["message"]["refusal"],
    )
    calls = [
        native_call(call.function.name, call.function.arguments, call.id) for call in choice.message.tool_calls or []
    ]
    assert calls == wanted["message"].get("tool_calls", [])


def test_a_stream_is_spelled_as_the_api_does() -> None:
    """First the role, then a call's id and name, then its arguments in pieces, then the reason, then the usage."""
    served = completion(assistant(None, [native_call("f", '{"a":1}', "c1"), native_call("g", "", "c2")]))
    spelled = data(served, usage=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in spelled[:-1]]
    assert deltas[0] == {"role": "assistant", "content": None, "refusal": None}
    assert deltas[1] == {"tool_calls": [native_call("f", "", "c1") | {"index": 0}]}
    pieces = deltas[2:-2]
    assert 1 < len(pieces) <= PIECES
    assert "".join(piece["tool_calls"][0]["function"]["arguments"] for piece in pieces) == '{"a":1}'
    assert deltas[-2:] == [{"tool_calls": [native_call("g", "", "c2") | {"index": 1}]}, {}]
    assert [chunk["choices"][0]["finish_reason"] for chunk in spelled[-3:-1]] == [None, "tool_calls"]
    assert {chunk["object"] for chunk in spelled} == {"chat.completion.chunk"}


def test_the_usage_comes_when_asked_for() -> None:
    """``include_usage`` adds a last chunk with the tokens and no choice; otherwise no chunk speaks of them."""
    served = completion(assistant("hi"))
    *others, last = read(served, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.total_tokens == 15
    assert all(chunk.usage is None for chunk in others)
    assert all("usage" not in chunk for chunk in data(served))


@pytest.mark.parametrize(
    "spoiled",
    [
        None,
        [],
        "text",
        {},
        {"choices": []},
        {"choices": None},
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": []}, {"message": {}}]},
        {"error": {"message": "no"}},
    ],
)
def test_what_is_no_completion_is_one_event(spoiled: Any) -> None:
    """A spoiled envelope comes as it is, and the stream ends as every other."""
    assert data(spoiled) == [spoiled]


@pytest.mark.parametrize(
    ("message", "delta"),
    [
        ({"role": "user", "content": 5}, {"role": "user", "content": 5}),
        ({"content": [{"type": "text"}]}, {"content": [{"type": "text"}]}),
        ({"tool_calls": "none"}, {"tool_calls": "none"}),
        ({"tool_calls": []}, {"tool_calls": []}),
        ({"tool_calls": [None]}, {"tool_calls": [None]}),
        ({"tool_calls": [{"id": 1}]}, {"tool_calls": [{"id": 1, "index": 0}]}),
        ({"tool_calls": [{"function": []}]}, {"tool_calls": [{"function": [], "index": 0}]}),
        (
            {"tool_calls": [{"function": {"arguments": {"a": 1}}}]},
            {"tool_calls": [{"function": {"arguments": {"a": 1}}, "index": 0}]},
        ),
        ({"function_call": {"name": "f"}}, {"function_call": {"name": "f"}}),
    ],
)
def test_a_spoiled_value_stays_one(message: Any, delta: Any) -> None:
    """What is not of its type is in a delta as it was."""
    assert delta in [chunk["choices"][0].get("delta") for chunk in data(completion(message))]


@pytest.mark.parametrize("choice", [{}, {"index": 7}, {"finish_reason": 3, "logprobs": {"content": []}}])
def test_a_choice_keeps_what_it_has(choice: dict[str, Any]) -> None:
    """Nothing of a choice is invented: a missing index stays missing, and the last chunk holds how it ended."""
    *_, last = data({"choices": [{"message": {}, **choice}]})
    assert last["choices"] == [{"delta": {}, **choice}]


def test_several_choices_come_one_after_the_other() -> None:
    """Each keeps its own index."""
    choices = [{"index": index, "message": {"content": "x"}, "finish_reason": "stop"} for index in (0, 1)]
    indices = [chunk["choices"][0]["index"] for chunk in data({"choices": choices})]
    assert indices == sorted(indices)
    assert set(indices) == {0, 1}


def test_a_long_text_comes_in_few_pieces() -> None:
    """The number of events does not grow with the text."""
    assert len(list(chunks(completion(assistant("x" * 1_000_000))))) == PIECES + 2


@given(text=st.text(st.characters()))
def test_an_event_is_one_line_of_ascii(text: str) -> None:
    """Whatever a chunk holds, its event has no line break but the two that end it, also for lone surrogates."""
    spelled = event({"content": text})
    assert spelled.isascii()
    assert spelled.splitlines() == [spelled[:-2], b""]
    assert json.loads(spelled.removeprefix(b"data: ")) == {"content": text}
