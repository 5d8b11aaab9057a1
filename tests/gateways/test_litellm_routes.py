"""What the guard lets in: by LiteLLM's real proxy, and by the hooks alone."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

import strictreply as sr
from strictreply.testing import HTTPReply, faults, ok
from support.gateways.proxy import KEY, Proxy

pytestmark = pytest.mark.one_lane

PARAMETERS: Any = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["query"],
}
SEARCH = sr.Tool.from_json_schema("search", PARAMETERS)
TOOLS: Any = [{"type": "function", "function": {"name": "search", "parameters": PARAMETERS}}]
FLAT: Any = [{"type": "function", "name": "search", "parameters": PARAMETERS}]
CLAUDES: Any = [{"name": "search", "input_schema": PARAMETERS}]
GEMINIS: Any = [{"functionDeclarations": [{"name": "search", "parameters": PARAMETERS}]}]
GOOD = ok.call(SEARCH, query="tea")
BAD = faults.wrong_type(SEARCH, "limit")
ARGUMENTS = {"query": "tea"}


def sent(proxy: Proxy, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    """Send a request to the proxy."""
    headers |= {"authorization": f"Bearer {KEY}"}
    return httpx.request(method, proxy.url + path, json=body, headers=headers, timeout=60)


def chat(key: str, **more: Any) -> Any:
    """Return the body of a chat completion with a tool."""
    messages = [{"role": "user", "content": key}]
    return {"model": "own", "messages": messages, "tools": TOOLS} | more


def messages(key: str, **more: Any) -> Any:
    """Return the body of Anthropic's API."""
    turns = [{"role": "user", "content": key}]
    return {"model": "own", "max_tokens": 99, "messages": turns} | more


def contents(key: str, **more: Any) -> Any:
    """Return the body of Gemini's API."""
    return {"contents": [{"role": "user", "parts": [{"text": key}]}]} | more


def with_key(body: Any, key: str) -> Any:
    """Return a body in which ``CONVERSATION`` is the text that begins a conversation."""
    return json.loads(json.dumps(body).replace("CONVERSATION", key))


def plain(path: str, key: str, model: str) -> Any:
    """Return a request by a judged route that demands nothing."""
    if path == "/v1/responses":
        return {"model": model, "input": key}

    return messages(key, model=model)


JUDGED = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
GEMINI = "/v1beta/models/own:generateContent"
STREAMED_GEMINI = "/models/own:streamGenerateContent"
SCHEMA = {"responseMimeType": "application/json", "responseSchema": PARAMETERS}
FORM = {"type": "json_schema", "schema": PARAMETERS}
REFUSED: list[tuple[str, str, Any]] = [
    ("POST", "/queue/chat/completions", chat("CONVERSATION", priority=1)),
    ("POST", "/queue/chat/completions", chat("CONVERSATION", stream=True)),
    ("POST", "/cursor/chat/completions", {"model": "own", "input": "CONVERSATION", "tools": FLAT}),
    ("POST", "/v1/responses/compact", {"model": "own", "input": "CONVERSATION", "tools": FLAT}),
    ("GET", "/v1/responses/resp_1", None),
    ("GET", "/v1/responses/resp_1/input_items", None),
    ("POST", "/v1/responses/resp_1/cancel", None),
    ("POST", "/anthropic/v1/messages", messages("CONVERSATION", tools=CLAUDES)),
    ("POST", GEMINI, contents("CONVERSATION", tools=GEMINIS)),
    ("POST", GEMINI, contents("CONVERSATION", generationConfig=SCHEMA)),
    ("POST", STREAMED_GEMINI, contents("CONVERSATION", generationConfig=SCHEMA)),
    ("POST", "/gemini/v1beta/models/x:generateContent", contents("CONVERSATION")),
    ("POST", "/v1beta/interactions", {"model": "own", "input": "CONVERSATION", "tools": FLAT}),
    ("POST", "/v1/completions", {"model": "own", "prompt": "CONVERSATION", "tools": TOOLS}),
    ("POST", "/v1/batches", {"input_file_id": "CONVERSATION", "endpoint": "/v1/responses"}),
    ("GET", "/v1/files/file-1/content", None),
    ("GET", "/files/batch/1/content/", None),
    ("POST", "/v1/threads/thread_1/runs", {"assistant_id": "CONVERSATION", "tools": TOOLS}),
    ("POST", "/openai/v1/chat/completions", chat("CONVERSATION")),
    ("POST", "/openai_passthrough/v1/chat/completions", chat("CONVERSATION")),
    ("POST", "/vllm/v1/chat/completions", chat("CONVERSATION")),
    ("POST", "/a2a/agent/message/send", {"method": "message/send"}),
    ("POST", "/v1/realtime/client_secrets", {"model": "own"}),
    ("POST", "/v1/evals", {"name": "CONVERSATION"}),
    ("POST", "/v1/rag/query", {"model": "own", "messages": []}),
    ("POST", "/v9/brand/new", chat("CONVERSATION")),
    ("PUT", "/v1/chat/completions", chat("CONVERSATION")),
    ("POST", "//v1/chat/completions", chat("CONVERSATION")),
    ("GET", "/v9/brand/new", None),
]


@pytest.mark.parametrize(("method", "path", "body"), REFUSED)
def test_what_is_not_listed_is_refused(proxy: Proxy, method: str, path: str, body: Any) -> None:
    """A route that cannot be judged is refused before a model is asked, and names one that can."""
    key = proxy.upstream.script(then=BAD)
    answered = sent(proxy, method, path, with_key(body, key))
    error = answered.json()["error"]
    assert (answered.status_code, error["type"]) == (400, "invalid_request_error")
    assert "/v1/chat/completions" in error["message"]
    assert proxy.upstream.asked(key) == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/health/readiness"),
        ("GET", "/model/info"),
        ("GET", "/key/info"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/rerank"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/audio/speech"),
        ("POST", "/v1/moderations"),
        ("GET", "/v1/files/file-1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/utils/token_counter"),
        ("GET", "/passed/by/setting"),
        ("POST", "/passed/by/setting"),
    ],
)
def test_what_holds_no_reply_passes(proxy: Proxy, method: str, path: str) -> None:
    """A route without a model's reply, and one that the settings name, is LiteLLM's to answer."""
    answered = sent(proxy, method, path, {"model": "own"} if method == "POST" else None)
    assert "not guarded" not in answered.text


def test_a_path_of_the_settings_is_not_judged(proxy: Proxy) -> None:
    """A route that the settings let through brings a reply as the model wrote it."""
    key = proxy.upstream.script(then=BAD)
    body = {"model": "own", "input": key, "tools": FLAT}
    answered = sent(proxy, "POST", "/interactions", body)
    assert answered.status_code == 200
    assert len(proxy.upstream.asked(key)) == 1


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/v1/realtime", "/vertex_ai/live"])
def test_websockets_are_refused(proxy: Proxy, path: str) -> None:
    """No reply comes by a websocket: the handshake is refused, with the reason."""
    client = pytest.importorskip("websockets.sync.client")
    refused = import_module("websockets.exceptions").InvalidStatus
    url = proxy.url.replace("http", "ws", 1) + f"{path}?model=own"
    headers = {"authorization": f"Bearer {KEY}"}

    with pytest.raises(refused) as caught:
        client.connect(url, additional_headers=headers)
    response = caught.value.response
    assert response.status_code == 400
    assert "/v1/chat/completions" in json.loads(response.body)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (GEMINI, contents("CONVERSATION")),
        (GEMINI, contents("CONVERSATION", generationConfig={"temperature": 0})),
    ],
)
def test_another_api_without_demands_is_untouched(proxy: Proxy, path: str, body: Any) -> None:
    """Where no member of a request can ask for a form, LiteLLM answers it as it always does."""
    key = proxy.upstream.script(ok.answer("Hello there."))
    answered = sent(proxy, "POST", path, with_key(body, key))
    assert answered.status_code == 200
    assert "Hello there." in answered.text


@pytest.mark.parametrize("stream", [False, True])
def test_tools_in_the_extra_body_are_judged(proxy: Proxy, stream: bool) -> None:
    """What a request demands in its ``extra_body`` is its contract, too."""
    key = proxy.upstream.script(BAD, GOOD)
    body = chat(key, stream=stream, extra_body={"tools": TOOLS})
    del body["tools"]
    answered = sent(proxy, "POST", "/v1/chat/completions", body)
    assert answered.headers["x-strictreply-outcome"] == ("streamed" if stream else "fixed")
    assert len(proxy.upstream.asked(key)) == 2


UNREAD: list[tuple[Any, str]] = [
    ({"extra_body": {"extra_body": {"tools": TOOLS}}}, "extra_body inside"),
    ({"extra_body": "tools"}, "extra_body must be"),
    ({"output_format": FORM}, "output_format"),
    ({"output_config": {"format": FORM}}, "output_config.format"),
    ({"responseSchema": PARAMETERS}, "responseSchema"),
    ({"extra_body": {"generationConfig": SCHEMA}}, "generationConfig"),
    ({"text": {"format": FORM}}, "text.format"),
]
UNREAD_BESIDE_TOOLS: list[tuple[Any, str]] = [
    ({"model": "own,bridged"}, "several models"),
    ({"stream": "true"}, "stream must be"),
    ({"stream": 1}, "stream must be"),
    ({"extra_body": {"stream": "true"}}, "stream must be"),
]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        *(({"tools": TOOLS} | more, words) for more, words in UNREAD_BESIDE_TOOLS + UNREAD),
        *UNREAD,
    ],
)
def test_what_is_not_read_of_a_request_is_refused(proxy: Proxy, more: Any, words: str) -> None:
    """A demand in a place or a form that is not judged is an error that names it."""
    key = proxy.upstream.script(then=BAD)
    body = {"model": "own", "messages": [{"role": "user", "content": key}]} | more
    answered = sent(proxy, "POST", "/v1/chat/completions", body)
    error = answered.json()["error"]
    assert (answered.status_code, error["type"]) == (400, "invalid_request_error")
    assert words in error["message"]
    assert proxy.upstream.asked(key) == []


@pytest.mark.parametrize("model", ["alias", "falls"])
@pytest.mark.parametrize("path", JUDGED)
def test_a_declared_contract_holds_by_other_names(proxy: Proxy, model: str, path: str) -> None:
    """A model's contract holds where a request comes to it by an alias, or may fall back to it."""
    fields: Any = {"order": {"type": "integer"}, "reason": {"type": "string"}}
    refund = sr.Tool.from_json_schema("refund", {"type": "object", "properties": fields})
    key = proxy.upstream.script(GOOD, ok.call(refund, order=7, reason="late"))
    body = plain(path, key, model)

    answered = sent(proxy, "POST", path, body)
    assert answered.headers["x-strictreply-outcome"] == "fixed"
    assert "refund" in answered.text


@pytest.mark.parametrize("path", JUDGED)
def test_a_demand_of_the_deployment_is_refused(proxy: Proxy, path: str) -> None:
    """Tools that the settings of a deployment add to a request without demands are an error."""
    key = proxy.upstream.script(then=BAD)
    body = plain(path, key, "armed")

    answered = sent(proxy, "POST", path, body)
    assert answered.status_code == 400
    assert "declare them as the model's contract" in answered.json()["error"]["message"]
    assert proxy.upstream.asked(key) == []


def test_a_demand_of_a_fallback_is_refused(proxy: Proxy) -> None:
    """Tools that a request has for a fallback only are an error, once it would be asked."""

    def answer(request: Any) -> Any:
        failed = HTTPReply.json(500, {"error": {"message": "down"}})
        return failed if request["model"] == "broken" else BAD.served

    key = proxy.upstream.answer(answer)
    fallbacks = [{"model": "bridged", "tools": TOOLS}]
    body = chat(key, model="broken", fallbacks=fallbacks)
    del body["tools"]

    answered = sent(proxy, "POST", "/v1/chat/completions", body)
    assert answered.status_code >= 400
    assert "declare them as the model's contract" in answered.json()["error"]["message"]
    assert [request["model"] for request in proxy.upstream.asked(key)] == ["broken"]


class Logged:
    """What stands for LiteLLM's object of a call."""


def guard_with(**settings: Any) -> Any:
    """Return a guard; skip where there is no LiteLLM."""
    pytest.importorskip(
        "litellm", reason="LiteLLM is in an environment of its own: make test-litellm"
    )
    module = import_module("strictreply.integrations.litellm")
    return module.Guard(policy=sr.RetryPolicy(max_retries=1), **settings)


def hooked(guard: Any, call_type: str, **data: Any) -> Any:
    """Return what the guard's first hook makes of a request; it raises what it refuses."""
    asked = {"model": "m", "messages": [], "litellm_logging_obj": Logged()} | data
    return asyncio.run(guard.async_pre_call_hook(data=asked, call_type=call_type))


@pytest.mark.parametrize(
    ("call_type", "data"),
    [
        ("_aresponses_websocket", {"tools": FLAT}),
        ("_arealtime", {}),
        ("acompact_responses", {"tools": FLAT}),
        ("acreate_interaction", {"tools": FLAT}),
        ("agenerate_content", {"config": {"responseSchema": {}}}),
        ("pass_through_endpoint", {}),
        ("allm_passthrough_route", {}),
        ("acreate_batch", {}),
        ("aget_responses", {}),
        ("arun_thread", {}),
        ("a_call_type_of_a_later_release", {}),
        ("", {}),
    ],
)
def test_a_call_type_that_is_not_listed_is_refused(call_type: str, data: Any) -> None:
    """The hook refuses a call of LiteLLM's that it does not know, unless all others may pass."""
    with pytest.raises(Exception, match="not guarded") as caught:
        hooked(guard_with(), call_type, **data)
    withheld: Any = caught.value
    assert (withheld.status_code, withheld.type) == (400, "invalid_request_error")

    assert hooked(guard_with(other_routes="pass"), call_type, **data) is None


def test_a_call_without_its_log_is_refused() -> None:
    """A call that no later hook could recognise is refused."""
    with pytest.raises(Exception, match="not guarded"):
        hooked(guard_with(), "acompletion", tools=TOOLS, litellm_logging_obj=None)


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A router of LiteLLM's, in the place in which the proxy has it."""
    litellm = pytest.importorskip(
        "litellm", reason="LiteLLM is in an environment of its own: make test-litellm"
    )

    def deployed(name: str, **more: Any) -> Any:
        parameters = {"model": f"openai/{name}-x", "api_key": "none"}
        return {"model_name": name, "litellm_params": parameters, "model_info": more}

    models = [
        deployed("desk", id="desk-1", access_groups=["support"]),
        deployed("other"),
        deployed("openai/own-x"),
        deployed("first"),
        deployed("second"),
        deployed("team-desk", team_id="t1", team_public_model_name="teams"),
        deployed("any/*"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LiteLLM's own
        made = litellm.Router(
            model_list=models,
            model_group_alias={"alias": "desk", "hidden": {"model": "desk", "hidden": True}},
            fallbacks=[{"first": ["second"]}, {"second": ["desk"]}],
            context_window_fallbacks=[{"other": ["desk"]}],
        )
    server = SimpleNamespace(llm_router=made)
    monkeypatch.setitem(sys.modules, "litellm.proxy.proxy_server", server)
    return made


@sr.tool
def find(number: int) -> None:
    """Look something up."""


@sr.tool
def list_all() -> None:
    """List everything."""


FIND = sr.Contract(tools=[find])
LIST = sr.Contract(tools=[list_all])


@pytest.mark.usefixtures("router")
@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("desk", {}),
        ("alias", {}),
        ("hidden", {}),
        ("desk-1", {}),
        ("openai/desk-x", {}),
        ("support", {}),
        ("first", {}),
        ("second", {}),
        ("other", {}),
        ("unknown", {"fallbacks": ["desk"]}),
        ("unknown", {"fallbacks": [{"model": "alias"}]}),
        ("unknown", {"context_window_fallbacks": [{"unknown": ["desk"]}]}),
        ("unknown", {"router_settings_override": {"fallbacks": [{"unknown": ["desk"]}]}}),
        ("unknown,desk", {"fastest_response": True}),
    ],
)
def test_a_contract_holds_for_all_names_of_its_model(model: str, more: Any) -> None:
    """The contract of ``desk`` is written into a request that leads to it by any name."""
    asked = hooked(guard_with(contract={"desk": FIND}), "acompletion", model=model, **more)
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["find"]


@pytest.mark.usefixtures("router")
@pytest.mark.parametrize(
    ("contracts", "model", "more", "name"),
    [
        ({"support": FIND}, "desk", {}, "find"),
        ({"any/*": FIND}, "any/model", {}, "find"),
        ({"any/*": FIND, "any/model": LIST}, "any/model", {}, "list_all"),
        ({"teams": FIND}, "team-desk", {}, "find"),
        ({"team-desk": FIND}, "teams", {"metadata": {"user_api_key_team_id": "t1"}}, "find"),
        ({"desk": FIND, "alias": LIST}, "alias", {}, "list_all"),
        ({"desk": FIND, "first": LIST}, "first", {}, "list_all"),
    ],
)
def test_the_nearest_contract_holds(contracts: Any, model: str, more: Any, name: str) -> None:
    """A contract counts by its own name first, then by the model's others, then by fallbacks."""
    asked = hooked(guard_with(contract=contracts), "acompletion", model=model, **more)
    assert [tool["function"]["name"] for tool in asked["tools"]] == [name]


@pytest.mark.usefixtures("router")
def test_a_name_of_its_own_is_another_model() -> None:
    """A model that is only called at its provider what another is called here has no contract."""
    guard = guard_with(contract={"desk": FIND})
    assert hooked(guard, "acompletion", model="openai/own-x") is None
    assert hooked(guard, "acompletion", model="desk-x") is None


@pytest.mark.usefixtures("router")
def test_two_contracts_for_one_request_are_refused() -> None:
    """A request that may be served by models with different contracts is an error."""
    guard = guard_with(contract={"desk": FIND, "other": LIST})
    with pytest.raises(Exception, match="different contracts"):
        hooked(guard, "acompletion", model="unknown", fallbacks=["desk", "other"])


@pytest.mark.usefixtures("router")
@pytest.mark.parametrize("call_type", ["agenerate_content", "text_completion"])
def test_a_contract_refuses_plain_requests_of_other_apis(call_type: str) -> None:
    """By an API that is not judged, no model with a contract is asked, by whatever name."""
    with pytest.raises(Exception, match="not guarded"):
        hooked(guard_with(contract={"desk": FIND}), call_type, model="alias")


def test_a_model_that_was_not_asked_for_is_not_let_in() -> None:
    """A plain request that ends at a model with a contract after all is refused there."""
    guard = guard_with(contract={"desk": FIND})
    logged = Logged()
    assert hooked(guard, "acompletion", model="auto", litellm_logging_obj=logged) is None

    call = {"litellm_logging_obj": logged, "metadata": {"model_group": "desk"}}
    with pytest.raises(Exception, match="declared contract"):
        asyncio.run(guard.async_pre_call_deployment_hook(call, None))


@pytest.mark.parametrize(
    ("added", "is_refused"),
    [
        ({"prompt": "Once upon a time"}, False),
        ({"tools": [], "response_format": {"type": "text"}, "text": {"verbosity": "low"}}, False),
        ({"extra_body": {"top_k": 3}, "output_config": {"effort": "low"}}, False),
        ({"extra_body": {"tools": TOOLS}}, True),
        ({"response_format": {"type": "json_object"}}, True),
        ({"text": {"format": FORM}}, True),
        ({"output_format": FORM}, True),
    ],
)
@pytest.mark.parametrize(
    "call_type", ["acompletion", "aresponses", "anthropic_messages", "text_completion"]
)
def test_a_plain_call_stays_plain(call_type: str, added: Any, is_refused: bool) -> None:
    """What a deployment or a fallback adds to a call without demands may be no form of a reply."""
    guard = guard_with()
    logged = Logged()
    body = {"proxy_server_request": {"body": {"model": "m"}}}
    assert hooked(guard, call_type, litellm_logging_obj=logged, **body) is None

    call = guard.async_pre_call_deployment_hook({"litellm_logging_obj": logged} | added, None)
    if is_refused:
        with pytest.raises(Exception, match="declare them"):
            asyncio.run(call)
    else:
        assert asyncio.run(call) is None


def test_an_error_of_the_sdk_is_raised(proxy: Proxy) -> None:
    """What the gate refuses is the SDK's own error."""
    with pytest.raises(openai.BadRequestError, match="not guarded"):
        proxy.client.batches.create(
            input_file_id="file-1", endpoint="/v1/chat/completions", completion_window="24h"
        )
