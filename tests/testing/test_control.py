"""A script over HTTP: what a test in another language sends and reads, over a real socket."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from openai import BadRequestError, OpenAI

from strictreply import Contract, Invalid, TransportFailed, wrap
from strictreply.core import JSONObject
from strictreply.testing import Kind, LoopbackServer, ScriptServer, assistant, completion
from strictreply.testing._control import ScriptControl
from strictreply.testing.faults import CATALOGUE

Answered: TypeAlias = tuple[int, Any]

HEADER = "x-strictreply-fault"
MAX_REQUESTS = 64  # after which a fault that is served for ever ends
MAX_BODY_BYTES = 8_000_000

PARAMETERS: JSONObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    },
    "required": ["query"],
    "additionalProperties": False,
}
SEARCH: Any = {"type": "function", "function": {"name": "search", "parameters": PARAMETERS}}
PING: Any = {"type": "function", "function": {"name": "ping"}}
USER: Any = {"role": "user", "content": "Find tea."}
CHAT: Any = {"model": "m", "messages": [USER], "tools": [SEARCH]}
RESPONSES: Any = {
    "model": "m",
    "input": "Find tea.",
    "tools": [{"type": "function", **SEARCH["function"]}],
}
ORDER: JSONObject = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}
FORMAT: Any = {
    "type": "json_schema",
    "json_schema": {"name": "Order", "schema": ORDER, "strict": True},
}
STRUCTURED: Any = {"model": "m", "messages": [USER], "response_format": FORMAT}


@dataclass(frozen=True, slots=True)
class Service:
    """A running server, as a program in another language knows it: by its address."""

    base_url: str
    port: int

    def send(
        self, method: str, path: str, body: object = None, step: str | None = None
    ) -> tuple[int, bytes]:
        """Send one request, with a step in the header where one is given.

        The status and the body are returned.
        """
        payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, payload, {} if step is None else {HEADER: step})
            response = connection.getresponse()
            return response.status, response.read()

    def ask(self, method: str, path: str, body: object = None, step: str | None = None) -> Answered:
        """Send one request; gives the status and the JSON of the body."""
        status, received = self.send(method, path, body, step)
        return status, json.loads(received)

    def script(self, *steps: object, **more: object) -> None:
        """Begin a script."""
        assert self.ask("POST", "/script", {"steps": [*steps], **more}) == (
            200,
            {"steps": len(steps)},
        )

    def chat(self, body: object = CHAT, step: str | None = None) -> Answered:
        """Ask for a completion."""
        return self.ask("POST", "/v1/chat/completions", body, step)

    def journal(self) -> list[Any]:
        """Return the journal of requests."""
        status, told = self.ask("GET", "/journal")
        assert status == 200
        return list(told["requests"])


@pytest.fixture
def service() -> Iterator[Service]:
    """Return the service that ``strictreply serve-script`` starts.

    What would hang or drip there is over sooner.
    """
    with ScriptServer(patience=0.5) as server:
        yield Service(server.base_url, server.port)


def repeated(
    times: int, seconds: float, step: str = "rate_limited_seconds", *, apart: bool = False
) -> list[str]:
    """Ask the same again and again, and return the verdicts.

    The asks are so many seconds apart by the control's clock.
    """
    now = iter(range(times))
    control = ScriptControl(clock=lambda: next(now) * seconds)
    with LoopbackServer(lambda _: completion(assistant("Tea.")), control=control) as server:
        service = Service(server.base_url, server.port)

        if not apart:
            service.script(then=step)

        for number in range(times):
            body = {**CHAT, "user": str(number)} if apart and number % 2 else CHAT
            service.chat(body, step=step if apart else None)

        return [found["verdict"] for found in service.ask("GET", "/journal")[1]["verdicts"]]


@pytest.mark.parametrize(
    ("times", "seconds", "step", "verdicts"),
    [
        (3, 1.0, "rate_limited_seconds", ["retry_after_ignored"] * 2),
        (3, 2.0, "rate_limited_seconds", []),
        (2, 0.0, "internal_server_error", []),
        (6, 0.0, "internal_server_error", ["retry_storm"]),
        (6, 0.1, "internal_server_error", []),
        (6, 0.0, "good", []),
    ],
)
def test_repeats_are_judged(times: int, seconds: float, step: str, verdicts: list[str]) -> None:
    """The journal reports a client that repeats sooner than Retry-After, or many times without a
    pause.
    """
    assert repeated(times, seconds, step) == verdicts


def test_other_requests_are_no_repeats() -> None:
    """Requests that differ, in their body or in the step that they name, are no repeats of each
    other.
    """
    assert repeated(8, 0.0, apart=True) == []


@pytest.fixture
def client(service: Service) -> Iterator[OpenAI]:
    """The real SDK at it, without its own retries."""
    with OpenAI(base_url=service.base_url, api_key="none", max_retries=0) as connected:
        yield connected


def message_of(answered: Answered) -> Any:
    """Return the message of a completion."""
    status, body = answered
    assert status == 200, body
    return body["choices"][0]["message"]


def arguments_of(answered: Answered) -> Any:
    """Return the arguments of the only call."""
    (call,) = message_of(answered)["tool_calls"]
    return json.loads(call["function"]["arguments"])


def told(answered: Answered) -> str:
    """Return the message of a 400."""
    status, body = answered
    assert status == 400, body
    return str(body["error"]["message"])


def test_without_a_script_replies_are_good(service: Service) -> None:
    """A call of the first tool, its end after a result, a structured answer, a text: as the request
    asks.
    """
    assert arguments_of(service.chat()) == {"query": "text"}
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query": "tea"}'},
    }
    turns = [
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1"},
    ]
    assert message_of(service.chat({**CHAT, "messages": turns}))["content"]

    assert json.loads(message_of(service.chat(STRUCTURED))["content"]).keys() == {"number"}
    assert message_of(service.chat({"model": "m", "messages": [USER]}))["content"]
    assert [one["served"] for one in service.journal()] == ["good"] * 4


def test_steps_are_served_in_order(service: Service) -> None:
    """Faults and good replies come in the script's order, made from each request; a further request
    is a 400.
    """
    service.script(
        "missing_required",
        {"fault": "wrong_type", "tool": "search", "at": "limit"},
        {"call": "search", "args": {"query": "tea"}},
        {"call": None},
        {"answer": "Hello."},
        {"answer": None},
        {"answer": {"number": 3}},
    )
    assert arguments_of(service.chat()) == {}
    assert not isinstance(arguments_of(service.chat())["limit"], int)
    assert arguments_of(service.chat()) == {"query": "tea"}

    assert arguments_of(service.chat()) == {"query": "text"}
    assert message_of(service.chat())["content"] == "Hello."
    assert json.loads(message_of(service.chat(STRUCTURED))["content"]).keys() == {"number"}
    assert json.loads(message_of(service.chat(STRUCTURED))["content"]) == {"number": 3}

    assert service.chat()[1]["error"]["code"] == "script_spent"


def test_then_is_served_for_all_that_follow(service: Service) -> None:
    """``then`` follows the steps, and ``good`` is whatever good reply the request asks for."""
    service.script("missing_required", then="good")
    assert arguments_of(service.chat()) == {}
    assert [arguments_of(service.chat()) for _ in range(3)] == [{"query": "text"}] * 3


def test_an_endless_loop_is_ended(service: Service) -> None:
    """A fault that is served for ever ends with a 400 that says so, as a scripted model's does."""
    service.script(then="missing_required")
    for _ in range(MAX_REQUESTS):
        assert service.chat()[0] == 200
    assert service.chat()[1]["error"]["code"] == "script_looped"
    service.script(then={"call": None})
    turns = [USER, *[{"role": "assistant", "content": "Once more."}] * MAX_REQUESTS]
    assert service.chat({**CHAT, "messages": turns})[1]["error"]["code"] == "script_looped"


def test_no_id_of_a_call_comes_twice(service: Service) -> None:
    """Good replies and faults of one script share their ids."""
    service.script("missing_required", {"call": None}, then="good")
    ids = [message_of(service.chat())["tool_calls"][0]["id"] for _ in range(4)]
    assert len({*ids}) == 4


def test_the_journal_tells_what_was_asked_and_served(service: Service) -> None:
    """Each request in order with its path and body, what was served for it, and what the app said
    anew.
    """
    service.script("missing_required", {"call": "search"})
    assert service.ask("GET", "/journal") == (200, {"spent": False, "requests": [], "verdicts": []})
    service.chat()
    again = {"model": "m", "input": [USER, {"role": "user", "content": "/query is required"}]}
    service.ask("POST", "/v1/responses?x=1", {**RESPONSES, **again})

    first, second = service.journal()
    fault = {
        "fault": "missing_required",
        "tool": "search",
        "place": "call",
        "at": "/query",
        "code": "args.required",
    }
    assert first == {
        "number": 1,
        "path": "/v1/chat/completions",
        "request": CHAT,
        "correction": "",
        "served": fault,
        "refused": None,
    }

    assert (second["path"], second["request"]) == ("/v1/responses?x=1", {**RESPONSES, **again})
    assert (second["correction"], second["served"]) == (
        "/query is required",
        {"call": "search", "args": {"query": "text"}},
    )

    assert service.ask("GET", "/v1/journal")[1]["spent"] is True
    service.script()
    assert service.journal() == []


@pytest.mark.parametrize(
    ("request_body", "step", "words"),
    [
        (CHAT, {"fault": "wrong_type", "at": "/nope"}, "/query, /limit"),
        (CHAT, {"fault": "missing_required", "tool": "serch"}, "search"),
        (CHAT, "two_calls", '{"parallel_tool_calls": false}'),
        (CHAT, "stream_reset", '{"stream": true}'),
        (CHAT, "answer_in_object", "json"),
        (CHAT, {"fault": "missing_required", "place": "json"}, "response_format"),
        ({"model": "m", "messages": [USER]}, "missing_required", "plain text"),
        ({"model": "m", "messages": [USER]}, {"call": None}, "declares no tools"),
        ({**CHAT, "tools": [PING]}, "missing_required", "ping"),
        (CHAT, {"call": "search", "args": {"query": 7}}, "query"),
        ({**CHAT, "tool_choice": "required"}, {"answer": "Hello."}, "native calls of search"),
        ({**CHAT, "tool_choice": "none"}, {"call": "search"}, "plain text"),
        (STRUCTURED, {"answer": {"number": "3"}}, "structured answer"),
        (CHAT, {"answer": " "}, ""),
        ({**CHAT, "tool_choice": "serch"}, "missing_required", "serch"),
        ({**CHAT, "tool_choice": "serch"}, "good", "serch"),
        ({**CHAT, "tools": 7}, {"call": None}, "declares no tools"),
    ],
)
def test_what_cannot_be_made_is_a_400_that_says_why(
    service: Service, request_body: JSONObject, step: object, words: str
) -> None:
    """A step that cannot be made for a request is refused with the reason, which stands in the
    journal, too.
    """
    service.script(step)
    refused = service.chat(request_body)
    assert words in told(refused)
    (entry,) = service.journal()
    assert entry["served"] is None
    assert entry["refused"] in told(refused)


def test_a_fault_of_a_response_alone_is_told_apart(service: Service) -> None:
    """A fault that a response cannot have is a 400, and not the good reply that it would be."""
    assert service.chat(step="user_role")[0] == 200
    assert "user_role" in told(service.ask("POST", "/v1/responses", RESPONSES, "user_role"))


def test_a_known_way_of_servers_is_served_by_name(service: Service) -> None:
    """A fault for a strict contract can be served by name, also if known servers send it."""
    assert "id" not in message_of(service.chat(step="missing_call_id"))["tool_calls"][0]


@pytest.mark.parametrize(
    ("request_body", "step", "arguments"),
    [
        ({**CHAT, "tools": [PING, SEARCH]}, {"fault": "missing_required", "tool": "search"}, {}),
        (CHAT, {"fault": "missing_required", "args": {"query": "tea", "limit": 3}}, {"limit": 3}),
        ({**CHAT, "tool_choice": "none"}, "forbidden_call", {"query": "text"}),
        (
            {
                **CHAT,
                "tools": [PING, SEARCH],
                "tool_choice": {"type": "function", "function": {"name": "search"}},
            },
            "missing_required",
            {},
        ),
    ],
)
def test_a_fault_is_made_of_the_tool_that_fits(
    service: Service, request_body: JSONObject, step: object, arguments: JSONObject
) -> None:
    """Of the tool and the arguments that the step names, else of the first tool that the request
    lets be called.
    """
    assert arguments_of(
        service.chat(request_body, json.dumps(step) if isinstance(step, dict) else str(step))
    ) == (arguments)


def test_an_answer_is_spoiled_where_there_are_no_tools(service: Service) -> None:
    """Of a request with a response_format the structured answer is spoiled, else the text."""
    assert json.loads(message_of(service.chat(STRUCTURED, "missing_required"))["content"]) == {}
    assert service.chat({"model": "m", "messages": [USER]}, "blank_content")[1]["choices"]
    assert [one["served"]["place"] for one in service.journal()] == ["json", "prose"]


def test_the_header_speaks_for_one_request(service: Service, client: OpenAI) -> None:
    """The header of a request chooses its step whatever the script says, which goes on with the
    next request.
    """
    service.script({"call": "search", "args": {"query": "tea"}})
    spoiling = client.with_options(default_headers={HEADER: "missing_required"})
    for serving, arguments in ((spoiling, {}), (client, {"query": "tea"}), (spoiling, {})):
        made = serving.chat.completions.create(model="m", messages=CHAT["messages"], tools=[SEARCH])
        assert arguments_of((200, made.to_dict())) == arguments
    assert service.ask("GET", "/journal")[1]["spent"] is True


def test_the_header_reaches_streams_of_both_apis(client: OpenAI) -> None:
    """A stream of either API carries the fault, put together by the SDK itself."""
    spoiling = client.with_options(default_headers={HEADER: "missing_required"})
    chunks = spoiling.chat.completions.create(
        model="m", messages=CHAT["messages"], tools=[SEARCH], stream=True
    )
    deltas = [
        call
        for chunk in chunks
        for choice in chunk.choices
        for call in choice.delta.tool_calls or ()
    ]
    assert "".join(delta.function.arguments or "" for delta in deltas if delta.function) == "{}"

    with spoiling.responses.stream(
        model="m", input="Find tea.", tools=RESPONSES["tools"]
    ) as stream:
        (call,) = stream.get_final_response().output

    assert (call.type, getattr(call, "arguments", None)) == ("function_call", "{}")


def test_the_sdk_shows_why_a_header_is_refused(service: Service, client: OpenAI) -> None:
    """An unknown name is a 400 with the nearest names, which the journal keeps."""
    spoiling = client.with_options(default_headers={HEADER: "missing_requird"})
    with pytest.raises(BadRequestError, match="did you mean missing_required"):
        spoiling.chat.completions.create(model="m", messages=CHAT["messages"])
    assert "missing_required" in service.journal()[0]["refused"]


def a_fault_of_each_kind() -> list[str]:
    """Return the names of three faults of every kind that a call may have.

    They are the first, the middle and the last one.
    """
    chosen: list[str] = []
    for kind in Kind:
        names = [
            name
            for name, entry in CATALOGUE.items()
            if entry.kind is kind and entry.usual == "call"
        ]
        names = [name for name in names if not CATALOGUE[name].needs]
        chosen += dict.fromkeys(names[index] for index in (0, len(names) // 2, -1) if names)

    return chosen


@pytest.mark.parametrize("name", a_fault_of_each_kind())
def test_the_strict_gate_refuses_what_a_header_chose(service: Service, name: str) -> None:
    """A fault chosen by name is refused by the contract with these tools, or is no completion at
    all.
    """
    try:
        status, body = service.chat(step=name)
    except (OSError, ValueError, http.client.HTTPException):
        # a fault of the connection, or a body that is no JSON
        status = 0
        body = None

    (entry,) = service.journal()
    if entry["refused"] is None:
        gate = Contract(tools=[SEARCH], dialects="strict")
        is_completion = status == 200 and isinstance(body, dict) and "choices" in body
        assert not is_completion or isinstance(gate.check(body, api="chat"), Invalid)
        assert entry["served"]["code"] == CATALOGUE[name].code
    else:
        assert status == 400
        assert CATALOGUE[name].kind is Kind.ARGS  # the tool's schema has no such rule


def test_the_catalogue_is_there_to_loop_over(service: Service) -> None:
    """``GET /faults`` gives every entry, as ``strictreply faults --json`` does."""
    status, entries = service.ask("GET", "/faults")
    assert (status, [entry["name"] for entry in entries]) == (200, [*CATALOGUE])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"steps": [], "steps": ["good"]}', "twice"),
        ([], "an object"),
        ({}, "steps: is required"),
        ({"step": []}, 'did you mean "steps"'),
        ({"steps": [7]}, "steps.0: must be a string or an object (got 7)"),
        (
            {"steps": ["good", "missing_requird"]},
            "steps.1: no fault missing_requird; did you mean missing_required",
        ),
        ({"steps": [], "then": "nothing_of_the_kind"}, "then: no fault"),
        ({"steps": [], "then": None}, "then: must be a string or an object"),
        ({"steps": [{"fault": "missing_required", "tol": "x"}]}, 'did you mean "tool"'),
        (
            {"steps": [{"fault": "missing_required", "place": "attic"}]},
            "steps.0: place must be one of call",
        ),
        ({"steps": [{"call": "search", "answer": "x"}]}, "steps.0"),
        ({"steps": ["x" * 1_000]}, "200 characters"),
    ],
)
def test_a_wrong_script_is_refused(service: Service, body: object, words: str) -> None:
    """A 400 says what came, what was expected and what to write, and nothing is served after it."""
    service.script("missing_required")
    refused = told(service.ask("POST", "/script", body))
    assert words in refused
    assert "write for example" in refused
    status, body_after = service.chat()
    assert (status, body_after["error"]["code"]) == (400, "invalid_script")


@pytest.mark.parametrize(
    "step", ["{", "[]", '{"fault": 7}', '{"fault": "x", "tol": 1}', "", "no such fault", "é"]
)
def test_a_wrong_header_is_refused(service: Service, step: str) -> None:
    """A header that is not a step is a 400 that shows how to write one."""
    assert "write for example" in told(service.ask("POST", "/v1/chat/completions", CHAT, step))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/script", 405),
        ("POST", "/journal", 405),
        ("DELETE", "/faults", 405),
        ("GET", "/nothing", 404),
    ],
)
def test_paths_and_methods(service: Service, method: str, path: str, status: int) -> None:
    """An unknown path is a 404 that lists the paths, a known one with another method a 405."""
    answered, body = service.ask(method, path)
    assert answered == status
    assert status == 405 or all(
        known in body["error"]["message"] for known in ("/script", "/responses", "/faults")
    )


def test_a_body_that_is_too_large_is_refused(service: Service) -> None:
    """The limit of the server holds for scripts as well, and the next request is served."""
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as connection:
        connection.putrequest("POST", "/script")
        connection.putheader("Content-Length", str(MAX_BODY_BYTES + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413
    assert service.chat()[0] == 200


@pytest.mark.parametrize("depth", [200, *range(940, 1_000, 5), 5_000])
def test_what_is_nested_too_deeply_breaks_no_connection(service: Service, depth: int) -> None:
    """A request or a script of any depth gets an HTTP response, and a new script heals what it
    left.
    """
    nested = b"[" * depth + b"]" * depth
    asked = json.dumps(CHAT).encode()[:-1] + b', "x": ' + nested + b"}"
    assert service.send("POST", "/v1/chat/completions", asked)[0] in {200, 400}
    assert service.send("GET", "/journal")[0] in {200, 500}

    script = (
        b'{"steps": [{"call": null, "args": {"x": ' + nested + b'}}, {"answer": ' + nested + b"}]}"
    )
    assert service.send("POST", "/script", script)[0] in {200, 400}
    assert {service.send("POST", "/v1/chat/completions", CHAT)[0] for _ in range(2)} <= {
        200,
        400,
        500,
    }

    service.script()
    assert service.journal() == []


def test_the_journal_is_json_whatever_was_asked(service: Service) -> None:
    """NaN in a request, which is no JSON, is a text in the journal."""
    service.ask("POST", "/v1/chat/completions", {**CHAT, "temperature": float("nan")})
    assert service.journal()[0]["request"]["temperature"] == "NaN"


def test_clients_at_once_share_a_script(service: Service) -> None:
    """Each step is served once, whoever asks at the same time, and the journal counts every request
    once.
    """
    steps = [{"call": "search", "args": {"query": str(number)}} for number in range(24)]
    service.script(*steps)
    served: list[str] = []
    workers = [
        threading.Thread(
            target=lambda: served.extend(arguments_of(service.chat())["query"] for _ in range(6))
        )
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()

    for worker in workers:
        worker.join()

    assert sorted(served, key=int) == [str(number) for number in range(24)]
    journal = service.journal()
    assert [entry["number"] for entry in journal] == [*range(1, 25)]
    assert [entry["served"]["args"]["query"] for entry in journal] == [
        str(number) for number in range(24)
    ]


def test_one_odd_request_leaves_the_journal_readable(service: Service) -> None:
    """A number beyond a double is told as its text, an abyss as null; all else stays, and it is
    JSON for any reader.
    """
    service.script(then="good")
    service.send(
        "POST", "/v1/chat/completions", json.dumps(CHAT)[:-1].encode() + b', "temperature": 1e999}'
    )
    deep = b', "metadata": ' + b"[" * 900 + b"]" * 900 + b"}"
    assert (
        service.send("POST", "/v1/chat/completions", json.dumps(CHAT)[:-1].encode() + deep)[0]
        == 200
    )

    service.chat()
    status, received = service.send("GET", "/journal")
    requests = json.loads(received, parse_constant=pytest.fail)["requests"]
    assert (status, requests[0]["request"]["temperature"], requests[-1]["request"]) == (
        200,
        "1e999",
        CHAT,
    )


def test_a_long_conversation_is_no_endless_loop(service: Service) -> None:
    """Turns that came before the first request were not served here."""
    past = [USER, {"role": "assistant", "content": "Yes."}] * MAX_REQUESTS
    assert service.chat({**CHAT, "messages": [*past, USER]})[0] == 200


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_a_web_page_sets_no_script(service: Service, headers: dict[str, str]) -> None:
    """A request with another host name or origin is refused; a local page is not."""
    for name, value in [*headers.items(), ("Origin", "http://localhost:3000")]:
        with closing(
            http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        ) as connection:
            connection.request("POST", "/script", b'{"steps": []}', {name: value})
            expected = 403 if "evil" in value else 200
            assert connection.getresponse().status == expected


@pytest.mark.parametrize(
    "wrong", [{"tools": [{"type": []}]}, {"tools": [{"type": {}}], "tool_choice": {"type": []}}]
)
def test_an_odd_tool_is_no_error_of_the_server(service: Service, wrong: JSONObject) -> None:
    """A tool whose type is none is told so: the SDK would send a 500 again."""
    assert service.ask("POST", "/v1/responses", {**RESPONSES, **wrong})[0] == 400


@pytest.mark.parametrize(
    "wrong", [{"tools": 7}, {"tools": {"a": 1}}, {"input": 7}, {"input": {"a": 1}}, {"text": 7}]
)
def test_a_wrong_responses_request_is_told_so(service: Service, wrong: JSONObject) -> None:
    """A member that is no list, or no object, is a 400 that names it, as the API has it: not an
    error of the server.
    """
    (name,) = wrong
    assert name in told(service.ask("POST", "/v1/responses", {**RESPONSES, **wrong}))


@pytest.mark.parametrize("body", [{"steps": ["missing_requird"]}, {"step": []}, b"{"])
def test_a_rejected_script_serves_nothing(service: Service, body: Any) -> None:
    """Neither the script before nor good replies follow it, until another script is set."""
    service.script("missing_required", then="good")
    status, told = service.ask("POST", "/script", body)
    assert (status, told["error"]["code"]) == (400, "invalid_script")

    for _ in range(2):
        status, told = service.chat()
        assert (status, told["error"]["code"]) == (400, "invalid_script")
    journal = service.ask("GET", "/journal")[1]
    assert journal["spent"] is False
    assert [one["served"] for one in journal["requests"]] == [None] * 2
    assert all("rejected" in one["refused"] for one in journal["requests"])
    assert service.chat(step="good")[0] == 200

    service.script("good")
    assert service.chat()[0] == 200


def test_the_log_has_the_reason_of_every_refusal() -> None:
    """An app may hide the body of an HTTP 400: the server's own log does not."""
    log: list[str] = []
    with ScriptServer(log=log.append) as server:
        service = Service(server.base_url, server.port)
        service.ask("POST", "/script", {"steps": ["missing_requird"]})
        service.chat()
        service.script({"call": "find"})
        service.chat()
        service.chat()

    reasons = [line for line in log if line.startswith("HTTP 400: ")]
    parts = ("missing_requird", "rejected", "no tool find", "the script has 1 step")
    assert [part in line for part, line in zip(parts, reasons, strict=True)] == [True] * 4


def test_a_guarded_app_sees_why_its_request_was_refused(service: Service) -> None:
    """The error of a wrapped client has the reason of the server in its cause and explanation."""
    service.script({"call": "find"})
    with OpenAI(base_url=service.base_url, api_key="none", max_retries=0) as sdk:
        client = wrap(sdk, tools=[SEARCH])
        with pytest.raises(TransportFailed) as caught:
            client.reply(model="m", messages=[USER])
    assert caught.value.status_code == 400
    assert "the request declares no tool find" in str(caught.value.cause)
    assert "the request declares no tool find" in caught.value.explain()
