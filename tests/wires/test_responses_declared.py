"""Tools that a request of the Responses API declares elsewhere than in its list, and calls of the
API's own tools: what is the program's is judged, what the server runs is not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import ResponseToolSearchOutputItem

import strictreply as sr
from support.loops import some
from support.scripted import Server
from support.scripted_responses import FLAT_SEARCH, call_item, response, text_item, wrap
from support.streamed_replies import ONCE, policy, streamed_response

USER = {"role": "user", "content": "Find tea."}
OTHER = {
    "type": "function",
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
GOOD = {"query": "tea"}
SPACE = {"type": "namespace", "name": "shop", "description": "The shop.", "tools": [FLAT_SEARCH]}
ADDED = {"type": "additional_tools", "role": "developer", "tools": [FLAT_SEARCH]}
LOADED = {
    "type": "tool_search_output",
    "id": "tso",
    "call_id": "c",
    "execution": "client",
    "status": "completed",
    "tools": [FLAT_SEARCH],
}

PLACES: dict[str, tuple[dict[str, Any], str | None]] = {
    "an additional_tools item": ({"input": [ADDED, USER]}, None),
    "the same beside tools": ({"input": [ADDED, USER], "tools": [OTHER]}, "search"),
    "a namespace": ({"input": "Find tea.", "tools": [SPACE, OTHER]}, "shop"),
    "a namespace alone": ({"input": "Find tea.", "tools": [SPACE]}, "shop"),
    "what a tool search has loaded": ({"input": [USER, LOADED]}, "search"),
    "a namespace that it has loaded": ({"input": [USER, LOADED | {"tools": [SPACE]}]}, "shop"),
    "an object of the SDK": (
        {"input": [USER, ResponseToolSearchOutputItem.model_validate(LOADED)]},
        "search",
    ),
    "a deferred tool and its loading": (
        {
            "input": [USER, LOADED],
            "tools": [{"type": "tool_search"}, FLAT_SEARCH | {"defer_loading": True}],
        },
        "search",
    ),
}


def called(arguments: object = GOOD, space: str | None = None, **members: Any) -> dict[str, Any]:
    """A call of the tool, in a namespace where there is one."""
    spaced = {} if space is None else {"namespace": space}
    return call_item(members.pop("name", "search"), arguments, **spaced, **members)


def served(whole: dict[str, Any], *, is_streamed: bool) -> Any:
    """A response, or its events."""
    if not is_streamed:
        return whole

    return streamed_response(whole)


def asked(server: Server, *, is_streamed: bool, **request: Any) -> Any:
    """The response that the drop-in gives; it asks once again for what is wrong."""
    client = wrap(server.client(), policy=policy(max_retries=1))
    if not is_streamed:
        return client.responses.create(model="m", **request)

    *_, last = client.responses.create(model="m", **request, stream=True)
    return last.response


def sent_by(server: Server) -> list[dict[str, Any]]:
    """The requests that came to a server."""
    return [json.loads(one) for one in server.bodies]


BOTH = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@BOTH
@pytest.mark.parametrize("name", PLACES)
def test_what_the_request_declares_is_declared(name: str, is_streamed: bool) -> None:
    """A good call of it is a reply, and the request is sent as it was written."""
    request, space = PLACES[name]
    whole = response(called(space=space))
    server = Server(served(whole, is_streamed=is_streamed))
    given = asked(server, is_streamed=is_streamed, **request)
    assert given.output[0].to_dict() == whole["output"][0]
    sent = sent_by(server)[0]
    assert [one["type"] for one in sent.get("tools", [])] == [
        one["type"] for one in request.get("tools", [])
    ]
    if isinstance(request["input"], list):
        assert [one.get("type") for one in sent["input"]] == [
            getattr(one, "type", None) or one.get("type") for one in request["input"]
        ]
    else:
        assert sent["input"] == request["input"]


@BOTH
@pytest.mark.parametrize("name", PLACES)
def test_its_arguments_are_held_to_its_schema(name: str, is_streamed: bool) -> None:
    """A bad call is retried; the request has each tool once more where it was."""
    request, space = PLACES[name]
    bad = served(response(called({"query": 1}, space)), is_streamed=is_streamed)
    good = served(response(called(space=space, call_id="call_b")), is_streamed=is_streamed)
    server = Server(bad, good)
    given = asked(server, is_streamed=is_streamed, **request)
    assert json.loads(given.output[0].arguments) == GOOD
    assert getattr(given.output[0], "namespace", None) == space
    first, again = sent_by(server)
    own = [one.get("name") for one in request.get("tools", []) if one["type"] == "function"]
    assert [one.get("name") for one in again.get("tools", []) if one["type"] == "function"] in (
        own,
        [name for name in own if name == "search"],
    )
    if isinstance(request["input"], list):
        count = len(first["input"])
        assert again["input"][:count] == first["input"]


@pytest.mark.parametrize("name", PLACES)
def test_other_tools_stay_unknown(name: str) -> None:
    """What nothing declares is no tool."""
    request, _ = PLACES[name]
    server = Server(response(called(name="sell")))
    client = wrap(server.client(), policy=ONCE)
    with pytest.raises(sr.ReplyRejected) as refused:
        client.responses.create(model="m", **request)

    assert {issue.code for issue in refused.value.issues} == {"tool.unknown"}


@pytest.mark.parametrize("name", PLACES)
def test_a_typed_reply_names_the_tool(name: str) -> None:
    """``reply`` gives a call of the tool under the name that the model called."""
    request, space = PLACES[name]
    client = wrap(Server(response(called(space=space))).client(), api="responses", policy=ONCE)
    reply = client.reply(model="m", **request)
    assert (reply.tool, reply.args) == ("search", GOOD)


def test_tools_of_the_contract_stay_declared() -> None:
    """What the client was wrapped with is declared beside what the input declares."""
    weather = sr.Tool.from_openai({"type": "function", "function": OTHER})
    good = [called(), call_item("weather", {"city": "Oslo"}, "call_b")]
    server = Server(response(*good))
    client = wrap(server.client(), api="responses", policy=ONCE, tools=[weather], parallel=True)
    reply = client.reply(model="m", input=[ADDED, USER])
    assert [call.tool for call in reply.calls] == ["search", "weather"]
    assert [one["name"] for one in sent_by(server)[0]["tools"]] == ["weather"]


TWO: list[Any] = [
    SPACE,
    SPACE
    | {
        "name": "archive",
        "tools": [OTHER | {"name": "search"}, {"type": "custom", "name": "note"}],
    },
]


@pytest.mark.parametrize(
    ("space", "arguments", "is_good"),
    [
        ("shop", GOOD, True),
        ("archive", {"city": "Oslo"}, True),
        ("shop", {"city": "Oslo"}, False),
        ("archive", GOOD, False),
        (None, GOOD, False),
        ("other", GOOD, False),
    ],
)
@BOTH
def test_a_name_in_two_namespaces_is_two_tools(
    space: str | None, arguments: Any, is_good: bool, is_streamed: bool
) -> None:
    """Each call is held to the tool of its own namespace, and handed on as it came."""
    whole = response(called(arguments, space))
    client = wrap(Server(served(whole, is_streamed=is_streamed)).client(), policy=ONCE)
    request = {"model": "m", "input": "Find.", "tools": TWO}
    if not is_good:
        with pytest.raises(sr.ReplyRejected):
            list(client.responses.create(**request, stream=is_streamed))

        return

    given = client.responses.create(**request, stream=is_streamed)
    if is_streamed:
        *_, last = given
        given = last.response

    assert given.output[0].to_dict() == whole["output"][0]


def test_such_a_call_is_asked_for_again_by_its_own_name() -> None:
    """The correction forces the tool under its name, and the item keeps name and namespace."""
    bad = response(called({"city": 1}, "archive"))
    good = response(called({"city": "Oslo"}, "archive", call_id="call_b"))
    server = Server(bad, good)
    given = asked(server, is_streamed=False, input="Find.", tools=TWO)
    item = given.output[0].to_dict()
    assert (item["name"], item["namespace"]) == ("search", "archive")
    assert json.loads(item["arguments"]) == {"city": "Oslo"}
    again = sent_by(server)[1]
    assert again["tools"] == TWO
    assert again["tool_choice"] == {"type": "function", "name": "search"}


def test_a_choice_may_name_such_a_tool() -> None:
    """tool_choice is read and sent as it was written."""
    choice = {"type": "function", "name": "search"}
    server = Server(response(called(space="shop")))
    asked(server, is_streamed=False, input="Find.", tools=[SPACE], tool_choice=choice)
    assert sent_by(server)[0]["tool_choice"] == choice


@pytest.mark.parametrize("text", ["Nothing found.", None])
def test_a_call_may_be_required_of_a_namespace(text: str | None) -> None:
    """With declared tools a choice of "required" is held."""
    good = response(called(space="shop")) if text is None else response(text_item(text))
    client = wrap(Server(good).client(), policy=ONCE)
    request = {"model": "m", "input": "Find.", "tools": [SPACE], "tool_choice": "required"}
    if text is None:
        assert client.responses.create(**request).output[0].name == "search"
    else:
        with pytest.raises(sr.ReplyRejected):
            client.responses.create(**request)


SEARCHING = {
    "type": "tool_search_call",
    "id": "ts",
    "call_id": "call_s",
    "status": "completed",
    "arguments": {"goal": "tea"},
    "execution": "client",
}
SEARCHES = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}


@pytest.mark.parametrize("choice", ["auto", "required"])
@BOTH
def test_a_search_by_the_program_is_its_call(is_streamed: bool, choice: str) -> None:
    """It is passed on as it came, and a typed reply is a call of it, recorded as not judged."""
    whole = response(SEARCHING)
    request = {"input": "Find tea.", "tools": [SEARCHES], "tool_choice": choice}
    server = Server(served(whole, is_streamed=is_streamed), whole)
    given = asked(server, is_streamed=is_streamed, **request)
    assert given.output[0].to_dict() == SEARCHING
    client = wrap(server.client(), api="responses", policy=ONCE)
    exchange = client.exchange(model="m", **request)
    assert (exchange.reply.tool, exchange.reply.args) == ("tool_search_call", SEARCHING)
    assert exchange.reply.id == "call_s"
    assert exchange.attempts[-1].lenient == ("unjudged_tool_search_call",)


def test_a_search_by_the_server_is_no_answer() -> None:
    """What the server runs itself asks nothing of the program."""
    items: list[Any] = [
        SEARCHING | {"execution": "server", "call_id": None},
        LOADED | {"execution": "server"},
    ]
    client = wrap(Server(response(*items)).client(), policy=ONCE)
    with pytest.raises(sr.ReplyRejected) as refused:
        client.responses.create(model="m", input="Find.", tools=[{"type": "tool_search"}])

    assert {issue.code for issue in refused.value.issues} == {"reply.empty"}


def test_the_transcript_of_a_search_is_sent_back() -> None:
    """An answered search goes back with its answer, so that the next turn knows the tool."""
    server = Server(response(SEARCHING), response(called(space="search")))
    client = wrap(server.client(), api="responses", policy=ONCE)
    first = client.exchange(model="m", input="Find tea.", tools=[SEARCHES])
    loaded = LOADED | {"call_id": "call_s"}
    request = {"model": "m", "input": [*first.transcript, loaded], "tools": [SEARCHES]}
    assert client.reply(**request).tool == "search"
    kinds = [one.get("type") for one in sent_by(server)[1]["input"]]
    assert kinds[-2:] == ["tool_search_call", "tool_search_output"]


def test_a_granted_approval_is_sent_back_with_its_request() -> None:
    """An approval names its request by the id of the item, and both go back."""
    asks = {"type": "mcp_approval_request", "id": "mcpr", "name": "look", "arguments": "{}"}
    server = Server(response(asks | {"server_label": "s"}), response(text_item("Done.")))
    client = wrap(server.client(), api="responses", policy=ONCE)
    tools = [{"type": "mcp", "server_label": "s", "server_url": "https://mcp.example/"}]
    first = client.exchange(model="m", input="Look.", tools=tools)
    given = {"type": "mcp_approval_response", "approval_request_id": "mcpr", "approve": True}
    client.reply(model="m", input=[*first.transcript, given], tools=tools)
    kinds = [one.get("type") for one in sent_by(server)[1]["input"]]
    assert kinds[-2:] == ["mcp_approval_request", "mcp_approval_response"]


XAI = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "call_id": "xs_call_1",
    "name": "x_keyword_search",
    "input": '{"query": "tea"}',
    "status": "completed",
}
X_TOOLS = [{"type": "x_search"}]


@pytest.mark.parametrize(
    "item",
    [XAI, XAI | {"name": "x_thread_fetch", "call_id": "call_1"}, XAI | {"name": "view_x_video"}],
)
@BOTH
def test_a_search_that_xai_has_run_is_the_servers(is_streamed: bool, item: Any) -> None:
    """It stands beside the answer, and counts as a call where one is required."""
    whole = response(item, text_item("There is tea."))
    server = Server(served(whole, is_streamed=is_streamed), whole)
    request = {"input": "Find tea.", "tools": X_TOOLS, "tool_choice": "required"}
    given = asked(server, is_streamed=is_streamed, **request)
    assert [one.to_dict() for one in given.output] == whole["output"]
    client = wrap(server.client(), api="responses", policy=ONCE)
    exchange = client.exchange(model="m", **request)
    assert exchange.reply.answer == "There is tea."
    assert exchange.attempts[-1].lenient == ("call_of_server",)


def test_a_strict_reading_takes_it_for_a_call() -> None:
    """With ``dialects="strict"`` an undeclared custom call is malformed."""
    whole = response(XAI, text_item("There is tea."))
    client = wrap(Server(whole).client(), policy=ONCE, dialects="strict")
    with pytest.raises(sr.ReplyRejected) as refused:
        client.responses.create(model="m", input="Find tea.", tools=X_TOOLS)

    assert {issue.code for issue in refused.value.issues} == {"call.malformed"}


def test_other_undeclared_custom_calls_stay_malformed() -> None:
    """A custom call that nothing declares is no call of a server."""
    item = XAI | {"name": "write", "call_id": "call_1"}
    client = wrap(Server(response(item, text_item("Done."))).client(), policy=ONCE)
    with pytest.raises(sr.ReplyRejected) as refused:
        client.responses.create(model="m", input="Find tea.", tools=X_TOOLS)

    assert {issue.code for issue in refused.value.issues} == {"call.malformed"}


def test_calls_beside_a_search_of_the_server_keep_their_order() -> None:
    """A correction puts the arguments into the program's call, not into the search."""
    server = Server(response(XAI, called({"query": 1})), response(called(call_id="call_b")))
    given = asked(server, is_streamed=False, input="Find.", tools=[*X_TOOLS, FLAT_SEARCH])
    search, call = given.output
    assert search.to_dict() == XAI
    assert json.loads(call.arguments) == GOOD


WEB = SPACE | {"name": "web"}
NAMED = {"type": "namespace", "name": "shop"}
WEATHER = {"type": "function", "name": "weather"}
BARE = {"type": "function", "name": "search"}
ALLOWED: dict[str, tuple[list[Any], list[Any], dict[tuple[str | None, str], bool]]] = {
    "a namespace": (
        [SPACE, OTHER],
        [NAMED],
        {("shop", "search"): True, (None, "weather"): False},
    ),
    "a namespace beside a function": (
        [SPACE, WEB, OTHER],
        [NAMED, WEATHER],
        {("shop", "search"): True, ("web", "search"): False, (None, "weather"): True},
    ),
    "a namespace beside a tool of the server": (
        [SPACE, OTHER, {"type": "web_search"}],
        [NAMED, {"type": "web_search"}],
        {("shop", "search"): True, (None, "weather"): False},
    ),
    "a name in a namespace": (
        [SPACE, OTHER],
        [BARE],
        {("shop", "search"): True, (None, "weather"): False},
    ),
    "a name in two namespaces": (
        [SPACE, WEB, OTHER],
        [BARE],
        {("shop", "search"): True, ("web", "search"): True, (None, "weather"): False},
    ),
    "a name with its namespace": (
        [SPACE, WEB],
        [BARE | {"namespace": "shop"}],
        {("shop", "search"): True, ("web", "search"): False},
    ),
    "a name of the list, and of a namespace": (
        [FLAT_SEARCH, SPACE],
        [BARE],
        {(None, "search"): True, ("shop", "search"): False},
    ),
    "a function": ([SPACE, OTHER], [WEATHER], {("shop", "search"): False}),
    "a tool of the server alone": (
        [SPACE, {"type": "web_search"}],
        [{"type": "web_search"}],
        {("shop", "search"): False},
    ),
}


@BOTH
@pytest.mark.parametrize("name", ALLOWED)
def test_a_list_of_allowed_tools_opens_what_it_names(name: str, is_streamed: bool) -> None:
    """A namespace stands for the tools in it, and the list is sent as it was written."""
    tools, allowed, calls = ALLOWED[name]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    for (space, tool), is_open in some(calls.items()):
        arguments = GOOD if tool == "search" else {"city": "Rome"}
        bad = response(called(arguments, space, name=tool))
        server = Server(served(bad, is_streamed=is_streamed), response(text_item("No.")))
        client = wrap(server.client(), policy=ONCE)
        request = {"model": "m", "input": "x", "tools": tools, "tool_choice": choice}
        if is_open:
            list(client.responses.create(**request, stream=is_streamed))
        else:
            with pytest.raises(sr.ReplyRejected) as refused:
                list(client.responses.create(**request, stream=is_streamed))

            assert {issue.code for issue in refused.value.issues} <= {
                "tool.unknown",
                "tool.several",
            }

        sent = sent_by(server)[0]["tool_choice"]
        assert sorted(map(json.dumps, sent["tools"])) == sorted(map(json.dumps, allowed))


def test_a_corrected_call_of_an_allowed_namespace_is_a_reply() -> None:
    """The correction asks for the tool under its own name."""
    bad, good = (response(called(one, "shop")) for one in ({"query": 1}, GOOD))
    server = Server(bad, good)
    choice = {"type": "allowed_tools", "mode": "required", "tools": [NAMED, WEATHER]}
    given = asked(
        server, is_streamed=False, input="x", tools=[SPACE, WEB, OTHER], tool_choice=choice
    )
    assert json.loads(given.output[0].arguments) == GOOD
    assert sent_by(server)[0]["tool_choice"] == choice
