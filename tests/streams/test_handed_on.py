"""What nothing judges is handed on as the raw client has it: members, usage, thoughts, the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from support.scripted import Server, completion
from support.streamed_replies import (
    ASK,
    DONE,
    ONCE,
    SEARCH,
    WEATHER,
    Body,
    event,
    over,
    part,
    policy,
    wrapped,
)

TOLD = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
SOME = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
TEA = '{"query": "tea"}'
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "A greeting."}]}
FILTER = {"hate": {"filtered": False, "severity": "safe"}}


class Search(BaseModel):
    """Search the shop."""

    query: str


def chunk(delta: Any = None, reason: str | None = None, **around: Any) -> bytes:
    """One event; ``choice`` are further members of its choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason, **around.pop("choice", {})}
    return of_choices([choice], **around)


def of_choices(choices: list[Any], **around: Any) -> bytes:
    """One event of these choices."""
    names: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    return event(names | {"choices": choices} | around)


BEGUN = chunk({"role": "assistant", "content": ""})
OH = chunk({"content": "Oh, the"})
REST = chunk({"content": " tea."})
CALLED = chunk(part(0, "a", name="search", arguments=TEA))
STOPPED = chunk({}, "stop")

BODIES: dict[str, list[bytes]] = {
    "usage beside the finish": [BEGUN, OH, REST, chunk({"content": ""}, "stop", usage=TOLD)],
    "usage beside a call and its finish": [
        BEGUN,
        chunk(part(0, "a", name="search", arguments=TEA), "tool_calls", usage=TOLD, p="abc"),
    ],
    "usage beside held calls": [BEGUN, CALLED, chunk({}, "tool_calls", usage=TOLD)],
    "usage in every chunk": [
        chunk({"content": "Oh, the"}, usage=SOME),
        chunk({"content": " tea."}, usage=SOME),
        chunk({}, "stop", usage=TOLD),
    ],
    "usage inside of the choice": [BEGUN, OH, chunk({}, "stop", choice={"usage": TOLD})],
    "a second finish with the usage": [
        BEGUN,
        OH,
        chunk({"content": ""}, "stop", choice={"native_finish_reason": "end_turn"}),
        chunk({"content": ""}, "stop", choice={"native_finish_reason": "end_turn"}, usage=TOLD),
    ],
    "a second finish behind calls": [
        BEGUN,
        CALLED,
        chunk({}, "tool_calls", choice={"native_finish_reason": "tool_use"}),
        chunk({}, "tool_calls", choice={"native_finish_reason": "tool_use"}, usage=TOLD),
    ],
    "a chunk without choices first": [
        of_choices([], id="", model="", created=0, object="", prompt_filter_results=[FILTER]),
        chunk({"content": "Oh, the"}, choice={"content_filter_results": FILTER}),
        chunk({"content": " tea."}, choice={"content_filter_results": FILTER}),
        chunk({}, "stop", choice={"content_filter_results": {}}),
    ],
    "a chunk without choices before a call": [
        of_choices([], id="", model="", created=0, object="", prompt_filter_results=[FILTER]),
        BEGUN,
        CALLED,
        chunk({}, "tool_calls"),
    ],
    "a chunk without choices among others": [OH, of_choices([], citations=["x"]), REST, STOPPED],
    "members of the last delta": [
        chunk({"content": "Oh, the", "token_id": 1}, choice={"text": "Oh, the", "seed": None}),
        chunk({"content": " tea.", "token_id": 2}, choice={"text": " tea."}),
        chunk({"content": "", "token_id": 3}, "stop", choice={"text": "", "seed": 5}),
    ],
    "a message in every choice": [
        chunk(
            {"content": "Oh, the"}, choice={"message": {"role": "assistant", "content": "Oh, the"}}
        ),
        chunk(
            {"content": " tea."},
            choice={"message": {"role": "assistant", "content": "Oh, the tea."}},
        ),
        chunk({}, "stop", choice={"message": {"role": "assistant", "content": "Oh, the tea."}}),
    ],
    "members around the first and the last chunk": [
        chunk({"role": "assistant", "content": ""}, x_groq={"id": "r", "seed": 1}),
        CALLED,
        chunk({}, "tool_calls", x_groq={"id": "r", "usage": TOLD}, usage=TOLD),
    ],
    "reasoning behind a text, beside calls": [
        BEGUN,
        OH,
        chunk({**part(0, "a", name="search", arguments=TEA), "reasoning": "because"}),
        chunk({"reasoning": " so"}, "tool_calls"),
    ],
    "reasoning before a call": [
        BEGUN,
        chunk({"reasoning": "I "}),
        chunk({"reasoning": "look."}),
        CALLED,
        chunk({}, "tool_calls"),
    ],
    "log probabilities of a held text": [
        BEGUN,
        OH,
        CALLED,
        chunk(
            {**part(0, arguments=" "), "content": " tea."}, choice={"logprobs": {"content": [1]}}
        ),
        chunk({"content": "!"}, "tool_calls", choice={"logprobs": {"content": [2]}}),
    ],
    "thoughts before a text": [
        BEGUN,
        chunk({"content": [THOUGHT]}),
        chunk({"content": [THOUGHT | {"signature": "s"}]}),
        OH,
        REST,
        STOPPED,
    ],
    "thoughts and a text in one list": [
        BEGUN,
        chunk({"content": [THOUGHT, {"type": "text", "text": "Oh, the"}]}),
        REST,
        STOPPED,
    ],
    "thoughts before a call": [
        BEGUN,
        chunk({"content": [THOUGHT]}),
        CALLED,
        chunk({}, "tool_calls"),
    ],
    "thoughts at the end": [
        BEGUN,
        OH,
        CALLED,
        chunk({"content": [THOUGHT]}),
        chunk({}, "tool_calls"),
    ],
}
"""Streams that a raw client reads without trouble, in which much stands that nothing judges."""


def told(chunks: list[Any]) -> dict[str, Any]:
    """Put chunks together as a program does that takes all of them."""
    said: dict[str, Any] = {"text": "", "calls": {}, "thoughts": [], "reasons": set()}
    for one in chunks:
        plain = one.model_dump(mode="json", exclude_unset=True, warnings=False)
        for name, value in plain.items():
            if name not in ("choices", "object", "created") and value not in (None, ""):
                seen = said.setdefault(f"around {name}", [])
                seen += [] if value in seen else [value]

        for choice in plain["choices"]:
            _take(said, choice.pop("delta"))
            said["reasons"] |= {choice.pop("finish_reason", None)} - {None}
            for name, value in choice.items():
                if name == "logprobs" and value:
                    said.setdefault(name, []).extend(value["content"])
                elif name != "index" and value not in (None, "", {}):
                    said.setdefault(f"choice {name}", []).append(value)

    said["thoughts"] = "".join(said["thoughts"])
    return said


def _take(said: dict[str, Any], delta: dict[str, Any]) -> None:
    content = delta.pop("content", None)
    pieces: list[Any] = content if isinstance(content, list) else [{"text": content or ""}]
    for piece in pieces:
        if "thinking" in piece:
            said["thoughts"] += [one["text"] for one in piece["thinking"]]
            said["thoughts"] += [piece["signature"]] if "signature" in piece else []
        else:
            said["text"] += piece["text"]

    for one in delta.pop("tool_calls", None) or ():
        made = said["calls"].setdefault(one["index"], ["", "", ""])
        function = one["function"]
        given = (one.get("id"), function.get("name"), function.get("arguments"))
        said["calls"][one["index"]] = [a + (b or "") for a, b in zip(made, given, strict=True)]

    for name, value in delta.items():
        if name not in ("role", "refusal") and value is not None:
            known = said.setdefault(f"delta {name}", type(value)())
            said[f"delta {name}"] = known + value


def asked(client: Any, **keywords: Any) -> list[Any]:
    """The chunks of a sync client."""
    return list(client.chat.completions.create(**ASK, stream=True, **keywords))


def aasked(client: Any, **keywords: Any) -> list[Any]:
    """The chunks of an async client."""

    async def read() -> list[Any]:
        return [
            one
            async for one in await client.chat.completions.create(**ASK, stream=True, **keywords)
        ]

    return asyncio.run(read())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_all_that_the_raw_client_gives_is_given(body: list[bytes], is_async: bool) -> None:
    """Put together, the chunks of the wrapped client say what those of the raw one say."""
    server = Server(*(over(Body([*body, DONE])) for _ in range(2)))
    tools = [SEARCH, WEATHER]
    if is_async:
        raw = aasked(server.async_client())
        given = aasked(sr.wrap(server.async_client(), tools=tools, policy=ONCE))
    else:
        raw = asked(server.client())
        given = asked(sr.wrap(server.client(), tools=tools, policy=ONCE))

    assert told(given) == told(raw)


def test_what_stands_around_one_chunk_stands_around_one() -> None:
    """What the server says once is said once, though a text and its finish come in two chunks;
    what stands around every chunk stands around every one.
    """
    report = {"input": {"flagged": True}}
    steady = {"system_fingerprint": "fp"}
    body = [
        chunk({"role": "assistant", "content": "Oh, "}, moderation=report, **steady),
        chunk({"content": "tea."}, "stop", **steady),
        of_choices([], **steady),
    ]
    client = wrapped(Server(over(Body([*body, DONE]))), policy=ONCE)
    chunks = [one.to_dict() for one in asked(client)]
    assert [one.get("moderation") for one in chunks] == [report, *[None] * (len(chunks) - 1)]
    assert [one["system_fingerprint"] for one in chunks] == ["fp"] * len(chunks)
    assert "".join(c["delta"].get("content", "") for one in chunks for c in one["choices"]) == (
        "Oh, tea."
    )


def test_a_usage_of_its_own_is_for_those_who_ask() -> None:
    """We ask for that chunk ourselves: only a caller who asks for it, too, gets it."""
    body = [BEGUN, OH, STOPPED, of_choices([], usage=TOLD), DONE]
    server = Server(*(over(Body(body)) for _ in range(2)))
    client = sr.wrap(server.client(), policy=ONCE)
    assert all(one.choices for one in asked(client))

    last = asked(client, stream_options={"include_usage": True})[-1]
    assert (last.choices, last.usage.total_tokens) == ([], 7)


def test_a_usage_comes_once_also_where_it_is_asked_for() -> None:
    """Where the server puts it beside the finish reason, no chunk of ours repeats it."""
    body = [BEGUN, OH, chunk({}, "stop", usage=TOLD), DONE]
    chunks = asked(wrapped(Server(over(Body(body)))), stream_options={"include_usage": True})
    assert [one.usage.total_tokens for one in chunks if one.usage] == [7]


def test_a_sum_of_usages_stands_where_the_last_one_stood() -> None:
    """With ``usage_mode="total"`` the chunk of the finish reason has the sum of all requests."""
    bad = [BEGUN, chunk(part(0, "a", name="search", arguments="[]"), "tool_calls", usage=TOLD)]
    good = [BEGUN, CALLED, chunk({}, "tool_calls", usage=TOLD)]
    server = Server(*(over(Body([*body, DONE])) for body in (bad, good)))
    client = wrapped(server, usage_mode="total", policy=policy(early_stop="off"))
    assert [one.usage.total_tokens for one in asked(client) if one.usage] == [14]


def test_what_was_held_of_a_bad_reply_is_not_handed_on() -> None:
    """The end is that of the reply that was accepted, under the names of the chunks before it."""
    bad = [OH, chunk(part(0, "a", name="search", arguments="[]"), "tool_calls", x=1, p="bad")]
    good = [CALLED, chunk({}, "tool_calls", x=2, id="other")]
    server = Server(*(over(Body([*body, DONE])) for body in (bad, good)))
    chunks = asked(wrapped(server, policy=policy(early_stop="off")))
    assert {one.id for one in chunks} == {"c"}
    assert [getattr(one, "p", None) for one in chunks] == [None] * len(chunks)
    assert chunks[-1].x == 2
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_message_with_calls_never_passes_beside_a_text() -> None:
    """A message beside live text whose calls no delta brought leaves the reply two meanings."""
    message = {"role": "assistant", "content": "Oh, the", "tool_calls": [{"id": "a"}]}
    body = [BEGUN, OH, chunk({"content": " tea."}, choice={"message": message}), STOPPED, DONE]
    with pytest.raises(sr.ReplyHalted) as told_why:
        asked(wrapped(Server(over(Body(body))), policy=ONCE))

    assert told_why.value.reason == "ambiguous"


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the SDK's, of any list
def test_the_sdks_own_stream_reads_an_answer_behind_thoughts() -> None:
    """``chat.completions.stream`` parses what was held, as it does for a raw client."""
    body = [BEGUN, chunk({"content": [THOUGHT]}), chunk({"content": TEA}), STOPPED, DONE]
    client = sr.wrap(Server(over(Body(body))).client(), policy=ONCE)
    with client.chat.completions.stream(**ASK, response_format=Search) as stream:
        given = stream.get_final_completion()

    assert given.choices[0].message.parsed == Search(query="tea")


def test_a_list_adds_to_a_text_as_the_text_in_it() -> None:
    """A program that joins deltas goes on where a raw client's list would end it."""
    body = [BEGUN, chunk({"content": [THOUGHT]}), OH, chunk({"content": [THOUGHT]}), REST, STOPPED]
    chunks = asked(wrapped(Server(over(Body([*body, DONE]))), policy=ONCE))
    text = ""
    for one in chunks:
        text += one.choices[0].delta.content or ""

    assert text == "Oh, the tea."
    assert [type(one.choices[0].delta.content) is str for one in chunks].count(False) >= 2


def test_a_list_is_one_also_where_somebody_else_reads_the_stream() -> None:
    """A program has put its own method over ``create``; the list adds to a text there, too."""
    body = [BEGUN, chunk({"content": [THOUGHT]}), OH, REST, STOPPED, DONE]
    inner = Server(over(Body(body))).client()
    create: Any = inner.chat.completions.create
    seen: list[Any] = []

    def spy(**keywords: Any) -> Any:
        seen.append(keywords)
        return create(**keywords)

    inner.chat.completions.create = spy  # type: ignore[method-assign]
    chunks = asked(sr.wrap(inner, policy=ONCE))
    assert seen
    assert told(chunks)["thoughts"] == "A greeting."
    text = ""
    for one in chunks:
        text += one.choices[0].delta.content or ""

    assert text == "Oh, the tea."


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed inside"])
def test_thoughts_of_a_whole_reply_are_handed_on(is_streamed: bool) -> None:
    """A content that is a list with thoughts comes as the raw client has it; texts alone join."""
    content: Any = [THOUGHT, {"type": "text", "text": "hello"}]
    inner = completion("hello")
    inner["choices"][0]["message"]["content"] = content
    step = over(Body([BEGUN, chunk({"content": content}), STOPPED, DONE]))
    server = Server(step if is_streamed else inner)
    once = policy(max_retries=0, early_stop="always" if is_streamed else "off")
    given = sr.wrap(server.client(), policy=once).chat.completions.create(**ASK)
    assert given.choices[0].message.content == content

    inner["choices"][0]["message"]["content"] = content[1:]
    given = wrapped(Server(inner)).chat.completions.create(**ASK)
    assert given.choices[0].message.content == "hello"


def test_parse_takes_the_text_beside_thoughts() -> None:
    """The SDK's ``parse`` reads texts alone; what it parsed is the answer, beside the thoughts."""
    content: Any = [THOUGHT, {"type": "text", "text": '{"query": "tea"}'}]
    inner = completion("")
    inner["choices"][0]["message"]["content"] = content
    client = sr.wrap(Server(inner).client(), policy=ONCE)
    given = client.chat.completions.parse(**ASK, response_format=Search)
    assert given.choices[0].message.parsed == Search(query="tea")
    assert given.choices[0].message.content == content
