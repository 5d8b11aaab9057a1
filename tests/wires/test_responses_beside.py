"""What nothing judges of a streamed response is passed on as it came.

That is thoughts, commentary, what the API's own tools tell, and events that nobody knows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import strictreply as sr
from support.scripted import Server, http
from support.scripted_responses import FLAT_SEARCH, call_item, response, text_item, wrap
from support.streamed_replies import EVENTS, ONCE, policy, typed_event

ASK: dict[str, Any] = {"model": "m", "input": "Find tea.", "tools": [FLAT_SEARCH]}
SHAPE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"format": {"type": "json_schema", "name": "a", "schema": SHAPE, "strict": False}}
GOOD = {"query": "tea"}
CREATED = "response.created"
DELTA = "response.reasoning_text.delta"


def place(item: Any, index: int) -> dict[str, Any]:
    """Where the events of an item are."""
    return {"item_id": item["id"], "output_index": index}


def frame(item: Any, index: int, *inner: dict[str, Any], **begun: Any) -> list[dict[str, Any]]:
    """The events of an item, between its beginning and its end."""
    at = {"output_index": index}
    first = item | begun
    if "status" in item:
        first["status"] = "in_progress"

    added = {"type": "response.output_item.added", **at, "item": first}
    done = {"type": "response.output_item.done", **at, "item": item}
    return [added, *(place(item, index) | one for one in inner), done]


def thought(id_: str = "rs", text: str = "hm, tea") -> dict[str, Any]:
    """A reasoning item as DeepSeek sends it."""
    part = {"type": "reasoning_text", "text": text}
    return {
        "type": "reasoning",
        "id": id_,
        "status": "completed",
        "summary": [],
        "content": [part],
    }


def thinking(item: Any, index: int = 0) -> list[dict[str, Any]]:
    """The events of a reasoning item, one piece a word."""
    text = item["content"][0]["text"]
    pieces = [{"type": DELTA, "content_index": 0, "delta": f"{one} "} for one in text.split(" ")]
    begun = {"type": "response.content_part.added", "content_index": 0}
    done = {"type": "response.reasoning_text.done", "content_index": 0, "text": text}
    last = {"type": "response.content_part.done", "content_index": 0, "part": item["content"][0]}
    empty = item["content"][0] | {"text": ""}
    return frame(item, index, begun | {"part": empty}, *pieces, done, last, content=[])


def calling(item: Any, index: int = 1) -> list[dict[str, Any]]:
    """The events of a call, its arguments in two pieces."""
    event = "response.function_call_arguments"
    text = item["arguments"]
    pieces = [{"type": f"{event}.delta", "delta": one} for one in (text[:5], text[5:])]
    done = {"type": f"{event}.done", "arguments": text, "name": item["name"]}
    return frame(item, index, *pieces, done, arguments="")


def speaking(item: Any, index: int = 1) -> list[dict[str, Any]]:
    """The events of a message, in two pieces with their log probabilities."""
    part = item["content"][0]
    text = part["text"]
    at = {"content_index": 0}
    piece = {"type": "response.output_text.delta", **at, "logprobs": [{"token": "x"}]}
    return frame(
        item,
        index,
        {"type": "response.content_part.added", **at, "part": part | {"text": ""}},
        *(piece | {"delta": one, "obfuscation": "ab"} for one in (text[:3], text[3:])),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        content=[],
    )


def stream(whole: Any, *told: list[dict[str, Any]], **end: Any) -> list[dict[str, Any]]:
    """The events of a response, numbered; ``end`` are members of the last one."""
    begun = whole | {"status": "in_progress", "output": []}
    events = [
        {"type": CREATED, "response": begun},
        {"type": "response.in_progress", "response": begun},
        *(event for one in told for event in one),
        {"type": "response.completed", "response": whole} | end,
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def body(events: list[dict[str, Any]]) -> Any:
    """A response with these events as its body."""
    return http.Response(200, content=b"".join(map(typed_event, events)), headers=EVENTS)


def plain(events: Any) -> list[dict[str, Any]]:
    """The events that the SDK yields, as JSON."""
    return [one.to_dict(mode="python", warnings=False) for one in events]


def given(*streams: list[dict[str, Any]], **ask: Any) -> list[dict[str, Any]]:
    """What the drop-in yields."""
    client = wrap(Server(*map(body, streams)).client(), policy=policy(early_stop="off"))
    return plain(client.responses.create(**ASK | ask, stream=True))


def raw(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the SDK itself yields for these events."""
    client: Any = Server(body(events)).client()
    return plain(client.responses.create(**ASK, stream=True))


CALL = call_item("search", GOOD)
ANSWER = text_item('{"a": 1}')
HELLO = text_item("Hello there, this is tea.")

WEB = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}}
FILE = {"type": "file_search_call", "id": "fs", "status": "completed", "queries": ["tea"]}
IMAGE = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"}
MCP = {"type": "mcp_call", "id": "mcp", "name": "look", "arguments": "{}", "server_label": "s"}
LISTED = {"type": "mcp_list_tools", "id": "mcpl", "server_label": "s", "tools": []}
CODE = {"type": "code_interpreter_call", "id": "ci", "status": "completed", "code": "1 + 1"}
SUMMARY = {"type": "reasoning", "id": "rs_s", "summary": [{"type": "summary_text", "text": "hm"}]}
COMMENT = text_item("I look.", phase="commentary")
NEW = {"type": "telepathy_call", "id": "t", "status": "completed", "aura": "blue"}
AT = {"summary_index": 0}

BESIDE: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "thoughts": (thought(), thinking(thought())),
    "a summary": (
        SUMMARY,
        frame(
            SUMMARY,
            0,
            {"type": "response.reasoning_summary_part.added", **AT, "part": {"text": ""}},
            {"type": "response.reasoning_summary_text.delta", **AT, "delta": "hm"},
            {"type": "response.reasoning_summary_text.done", **AT, "text": "hm"},
            {"type": "response.reasoning_summary_part.done", **AT, "part": {"text": "hm"}},
            summary=[],
        ),
    ),
    "a web search": (
        WEB,
        frame(WEB, 0, *({"type": f"response.web_search_call.{one}"} for one in ("searching",))),
    ),
    "a file search": (FILE, frame(FILE, 0, {"type": "response.file_search_call.completed"})),
    "an image": (
        IMAGE,
        frame(
            IMAGE,
            0,
            {"type": "response.image_generation_call.generating"},
            {"type": "response.image_generation_call.partial_image", "partial_image_b64": "AA"},
        ),
    ),
    "an MCP call": (
        MCP,
        frame(
            MCP,
            0,
            {"type": "response.mcp_call_arguments.delta", "delta": "{}"},
            {"type": "response.mcp_call_arguments.done", "arguments": "{}"},
            {"type": "response.mcp_call.completed"},
        ),
    ),
    "a list of tools": (LISTED, frame(LISTED, 0, {"type": "response.mcp_list_tools.completed"})),
    "a list of tools without its end": (
        LISTED,
        frame(LISTED, 0, {"type": "response.mcp_list_tools.completed"})[:-1],
    ),
    "code": (
        CODE,
        frame(
            CODE,
            0,
            {"type": "response.code_interpreter_call_code.delta", "delta": "1 + 1"},
            {"type": "response.code_interpreter_call.interpreting"},
        ),
    ),
    "commentary": (COMMENT, speaking(COMMENT, 0)),
    "an item of a new kind": (NEW, frame(NEW, 0, {"type": "response.telepathy_call.aura"})),
    "an event of a new kind": (
        thought(),
        [{"type": "response.ping", "cost": 3}, *thinking(thought()), {"type": "keepalive"}],
    ),
}
LAST: dict[str, tuple[Any, list[dict[str, Any]], dict[str, Any]]] = {
    "a call": (CALL, calling(CALL), {}),
    "an answer by a schema": (ANSWER, speaking(ANSWER), {"text": FORMAT, "tools": []}),
    "a text": (HELLO, speaking(HELLO), {}),
}


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("name", BESIDE)
def test_every_event_is_passed_on_as_it_came(name: str, last: str) -> None:
    """Nothing is lost, added or changed of a good stream, down to the members of its end."""
    item, events = BESIDE[name]
    end, told, ask = LAST[last]
    whole = stream(response(item, end), events, told, copilot_usage={"total": 3})
    assert given(whole, **ask) == raw(whole)


@pytest.mark.parametrize("last", ["a call", "an answer by a schema"])
@pytest.mark.parametrize("name", BESIDE)
def test_it_does_not_wait_for_what_is_judged(name: str, last: str) -> None:
    """It is there before the server has begun what is held; nothing of that is there."""
    item, events = BESIDE[name]
    end, told, ask = LAST[last]
    whole = stream(response(item, end), events, told)
    known = 2 + len(events)
    taken = 0

    def pieces() -> Iterator[bytes]:
        nonlocal taken
        for one in whole:
            taken += 1
            yield typed_event(one)

    server = Server(http.Response(200, content=pieces(), headers=EVENTS))
    came: list[dict[str, Any]] = []
    with wrap(server.client()).responses.create(**ASK | ask, stream=True) as stream_:
        for one in stream_:
            came += plain([one])
            if len(came) == known:
                break

    assert came == raw(whole[:known])
    assert taken <= known


TOOLS_OF_PROGRAM: list[Any] = [
    {"type": "shell_call", "id": "sh", "call_id": "c", "status": "completed", "action": {}},
    {"type": "apply_patch_call", "id": "ap", "call_id": "c", "status": "completed"},
    {"type": "mcp_approval_request", "id": "mr", "name": "look", "arguments": "{}"},
    {"type": "computer_call", "id": "cu", "call_id": "c", "status": "completed", "action": {}},
    {"type": "tool_search_call", "id": "ts", "call_id": "c", "execution": "client"},
    call_item("search", GOOD),
]


@pytest.mark.parametrize("item", TOOLS_OF_PROGRAM, ids=[one["type"] for one in TOOLS_OF_PROGRAM])
def test_a_call_of_the_program_waits_for_the_whole_reply(item: Any) -> None:
    """What a program would act on comes when all of the reply has passed, and as it came."""
    events = frame(item, 1, {"type": "response.shell_call_command.delta", "delta": "ls"})
    if item["type"] == "function_call":
        events = calling(item)

    whole = stream(response(thought(), item), thinking(thought()), events)
    assert given(whole) == raw(whole)
    client = wrap(Server(body(whole[:-1])).client(), policy=ONCE)
    came: list[Any] = []
    with pytest.raises(sr.CallFailed):
        came.extend(client.responses.create(**ASK, stream=True))

    assert plain(came) == raw(whole[: 2 + len(thinking(thought()))])


def test_thoughts_behind_a_call_keep_their_place() -> None:
    """What stands behind something held waits with it, so that all come in the server's order."""
    later = thought("rs_2", "and milk")
    other = call_item("search", {"query": "milk"}, "call_b")
    events = [*thinking(thought()), *calling(CALL), *thinking(later, 2), *calling(other, 3)]
    whole = stream(response(thought(), CALL, later, other), events)
    assert given(whole) == raw(whole)


BAD = call_item("search", {"query": 1})
UNKNOWN = call_item("serach", GOOD)


def test_a_call_that_was_corrected_stands_among_what_came() -> None:
    """Only its own events are written anew: under its ids, in its place."""
    first = stream(
        response(thought(), BAD, COMMENT),
        thinking(thought()),
        calling(BAD),
        speaking(COMMENT, 2),
    )
    mended = call_item("search", GOOD, "call_new")
    told = given(first, stream(response(mended), calling(mended, 0)))
    arguments = json.dumps(GOOD)
    item = BAD | {"arguments": arguments}
    done = [one["item"] for one in told if one["type"] == "response.output_item.done"]
    assert done == [thought(), item, COMMENT]
    final = told[-1]["response"]
    assert (final["id"], final["output"]) == (first[0]["response"]["id"], done)
    others = [one for one in first if one.get("output_index") != 1][:-1]
    unnumbered = [one | {"sequence_number": 0} for one in told]
    assert all(one | {"sequence_number": 0} in unnumbered for one in others)


def ids(told: list[dict[str, Any]]) -> set[str]:
    """All ids under which the response was told."""
    return {one["response"]["id"] for one in told if "response" in one}


def after(*streams: Any, **ask: Any) -> tuple[list[dict[str, Any]], Any]:
    """What the drop-in yields of several tries, and what the SDK's own stream makes of them."""
    server = Server(*streams, *streams)
    client = wrap(server.client(), policy=policy())
    told = plain(client.responses.create(**ASK | ask, stream=True))
    with client.responses.stream(**ASK | ask) as helped:
        for _ in helped:
            pass

        return told, helped.get_final_response()


BROKEN = stream(response(thought(), CALL), thinking(thought())[:4])[:-1]
REFUSED: dict[str, list[dict[str, Any]]] = {
    "an unknown tool": stream(response(thought(), UNKNOWN), thinking(thought()), calling(UNKNOWN)),
    "a stream that broke off in its thoughts": BROKEN,
    "an error": [*BROKEN, {"type": "error", "code": "server_error", "message": "x"}],
}


@pytest.mark.parametrize("name", REFUSED)
def test_thoughts_of_a_refused_reply_are_told_and_not_kept(name: str) -> None:
    """What was shown stays shown, each item under an index of its own and ended; the response at
    the end is the accepted reply under the id that was told.
    """
    second = thought("rs_2", "now search")
    good = response(second, CALL)
    last = stream(good, thinking(second), calling(CALL))
    told, final = after(body(REFUSED[name]), body(last))
    assert ids(told) == ids(REFUSED[name])
    assert [one["sequence_number"] for one in told] == list(range(len(told)))
    added = [one for one in told if one["type"] == "response.output_item.added"]
    done = [one for one in told if one["type"] == "response.output_item.done"]
    assert [one["item"]["id"] for one in added] == ["rs", "rs_2", CALL["id"]]
    assert [one["output_index"] for one in added] == [0, 1, 2]
    assert [one["output_index"] for one in done] == [0, 1, 2]
    assert told[-1]["response"]["output"] == good["output"]
    assert [item.id for item in final.output] == ["rs_2", CALL["id"]]


def test_thoughts_wait_where_the_next_request_names_the_response() -> None:
    """With previous_response_id the id at the end is that of the accepted reply, from the start."""
    good = stream(response(thought(), CALL), thinking(thought()), calling(CALL))
    told, final = after(body(REFUSED["an unknown tool"]), body(good), previous_response_id="resp_0")
    assert told == raw(good)
    assert {final.id} == ids(good)


def test_a_beginning_alone_is_not_shown() -> None:
    """An item without any piece waits: a reply that is refused leaves no trace of it."""
    empty = {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "x"}
    bad = stream(response(empty, UNKNOWN), frame(empty, 0), calling(UNKNOWN))
    good = stream(response(thought(), CALL), thinking(thought()), calling(CALL))
    told, _ = after(body(bad), body(good))
    assert told == raw(good)


def test_an_async_client_does_the_same() -> None:
    """The async twin passes the same events on."""
    whole = stream(response(thought(), CALL), thinking(thought()), calling(CALL))

    async def told() -> list[dict[str, Any]]:
        client = wrap(Server(body(whole)).async_client())
        return plain([one async for one in await client.responses.create(**ASK, stream=True)])

    assert asyncio.run(told()) == raw(whole)


WITHOUT: dict[str, tuple[str, ...]] = {
    "no pieces": ("response.function_call_arguments.delta",),
    "no end of the arguments": ("response.function_call_arguments.done",),
    "no events but the item's end": (
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    ),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_call_that_came_in_part_is_written_anew(name: str) -> None:
    """Its events are all that the API sends, at its place among the others."""
    later = thought("rs_2", "and milk")
    whole = stream(
        response(thought(), CALL, later), thinking(thought()), calling(CALL), thinking(later, 2)
    )
    less = [one for one in whole if one["type"] not in WITHOUT[name]]
    told = given(less)
    kinds = [one["type"] for one in told if one["type"] != "response.function_call_arguments.delta"]
    assert kinds == [
        one["type"] for one in whole if one["type"] != "response.function_call_arguments.delta"
    ]
    event = "response.function_call_arguments.delta"
    assert "".join(one["delta"] for one in told if one["type"] == event) == CALL["arguments"]


def test_an_item_that_only_the_end_has_is_told() -> None:
    """It is written as the API would have sent it, under the index that it has at the end."""
    whole = stream(response(thought(), CALL), calling(CALL, 1))
    told = given(whole)
    added = [one for one in told if one["type"] == "response.output_item.added"]
    assert {(one["output_index"], one["item"]["type"]) for one in added} == {
        (0, "reasoning"),
        (1, "function_call"),
    }


def test_what_a_server_leaves_out_of_its_events_is_put_in() -> None:
    """Events without index, id or number get those of their item."""
    left_out = ("output_index", "item_id", "sequence_number")
    whole = stream(response(thought(), HELLO), thinking(thought()), speaking(HELLO))
    less = [
        {name: value for name, value in one.items() if name not in left_out}
        if one["type"] not in {DELTA, "response.reasoning_text.done"}
        else {name: value for name, value in one.items() if name != "output_index"}
        for one in whole
    ]
    told, final = after(body(less))
    assert [one.get("output_index") for one in told] == [one.get("output_index") for one in whole]
    assert [one["sequence_number"] for one in told] == list(range(len(whole)))
    assert final.output_text == "Hello there, this is tea."


def test_a_call_in_very_many_pieces_is_told_in_fewer() -> None:
    """What is kept of a held call is bounded: beyond that its arguments come in one piece."""
    arguments = json.dumps({"query": "x" * 30_000})
    item = call_item("search", arguments)
    event = "response.function_call_arguments"
    pieces = [{"type": f"{event}.delta", "delta": one} for one in arguments]
    done = {"type": f"{event}.done", "arguments": arguments, "name": "search"}
    whole = stream(
        response(thought(), item),
        thinking(thought()),
        frame(item, 1, *pieces, done, arguments=""),
    )
    told = given(whole)
    deltas = [one["delta"] for one in told if one["type"] == f"{event}.delta"]
    assert deltas == [arguments]
    assert told[-1]["response"] == whole[-1]["response"]
