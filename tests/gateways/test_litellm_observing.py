"""Mode observe of the guard in LiteLLM's real proxy, beside the same proxy without a guard."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import strictreply as sr
from strictreply.testing import HTTPReply, ScriptedModel, faults, ok
from strictreply.testing._serving import render
from strictreply.testing._wire import Pause, WireEnding
from support.gateways.proxy import Proxy

pytestmark = pytest.mark.one_lane

PARAMETERS: Any = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["query"],
}
MONEY: Any = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
SEARCH = sr.Tool.from_json_schema("search", PARAMETERS)
REFUND = sr.Tool.from_json_schema("refund", MONEY)
SCHEMAS = {"search": PARAMETERS, "refund": MONEY}
GOOD = ok.call(SEARCH, query="tea")
BAD = faults.wrong_type(SEARCH, "limit")
TEXT = ok.answer("Hello there, my friend.")
CUT = faults.stream_without_finish(SEARCH)
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
PATHS = [CHAT, RESPONSES, MESSAGES]

MADE = re.compile(
    r'(?<=")(chatcmpl|resp|msg|fc|rs)[-_][\w=-]{16,}(?=")|(?<="created)(_at)?": ?[\d.]+'
)
"""What LiteLLM itself makes anew for each reply: ids, and the time."""


def functions(*, flat: bool) -> list[Any]:
    """Return the tools in the form of OpenAI's APIs."""
    told = [{"name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
    if flat:
        return [{"type": "function", **one} for one in told]

    return [{"type": "function", "function": one} for one in told]


def body_for(path: str, key: str, **more: Any) -> Any:
    """Return a request with tools in the words of an API; None leaves a member out."""
    turns = [{"role": "user", "content": key}]
    if path == RESPONSES:
        body: Any = {"model": "own", "input": key, "tools": functions(flat=True)}
    elif path == MESSAGES:
        tools = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
        body = {"model": "own", "max_tokens": 99, "messages": turns, "tools": tools}
    else:
        body = {"model": "own", "messages": turns, "tools": functions(flat=False)}

    return {name: value for name, value in (body | more).items() if value is not None}


def sent(proxy: Proxy, path: str, body: Any, alias: str = "some") -> httpx.Response:
    """Send a request to the proxy by a key."""
    headers = {"authorization": f"Bearer sk-{alias}"}
    return httpx.post(proxy.url + path, json=body, headers=headers, timeout=60)


def recorded(step: Any, request: Any) -> Any:
    """Answer every request by the same bytes."""
    return ScriptedModel(step)(request)


def both(pair: tuple[Proxy, Proxy], path: str, step: Any, **more: Any) -> list[httpx.Response]:
    """Ask both proxies the same, and check that the model and the client saw no difference."""
    upstream = pair[0].upstream
    key = upstream.answer(partial(recorded, step))
    body = body_for(path, key, **more)
    watched, plain = (sent(proxy, path, body) for proxy in pair)

    first, second = upstream.asked(key)
    assert first == second
    assert watched.status_code == plain.status_code
    assert MADE.sub("…", watched.text) == MADE.sub("…", plain.text)
    assert set(watched.headers) - set(plain.headers) <= {
        "x-strictreply-outcome",
        "x-strictreply-attempts",
    }
    return [watched, plain]


def outcome_of(answered: httpx.Response) -> str | None:
    """Return what the headers say of the outcome."""
    outcome: str | None = answered.headers.get("x-strictreply-outcome")
    return outcome


def told(proxy: Proxy, answered: httpx.Response) -> list[str]:
    """Return what the guard has logged of a call."""
    call = answered.headers["x-litellm-call-id"]
    return [line for line in proxy.said() if call in line]


@pytest.mark.parametrize("model", ["own", "claude", "bridged"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("step", "outcome"), [(BAD, "observed"), (GOOD, "accepted")])
def test_a_whole_reply_is_passed_on_as_it_came(
    pair: tuple[Proxy, Proxy], path: str, model: str, step: Any, outcome: str
) -> None:
    """What a client gets and what a model is asked are those of the proxy without the guard."""
    watched, plain = both(pair, path, step, model=model)
    assert outcome_of(watched) == outcome
    assert outcome_of(plain) is None


@pytest.mark.parametrize("model", ["own", "claude", "bridged"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("step", [BAD, GOOD, TEXT, CUT])
def test_a_stream_is_passed_on_as_it_came(
    pair: tuple[Proxy, Proxy], path: str, model: str, step: Any
) -> None:
    """A stream has each of its bytes, also those of an end that LiteLLM made up."""
    watched, _ = both(pair, path, step, model=model, stream=True)
    assert outcome_of(watched) == "streamed"


@pytest.mark.parametrize("path", PATHS)
def test_the_verdict_is_told(pair: tuple[Proxy, Proxy], path: str) -> None:
    """Callbacks behind the guard read the mode, the outcome and the faults of a call; our log has
    them of a stream, too.
    """
    watched, _ = both(pair, path, BAD)
    call = watched.headers["x-litellm-call-id"]
    [ours] = [row["ours"] for row in pair[0].log("behind") if row["call"] == call]
    assert (ours["mode"], ours["outcome"]) == ("observe", "observed")
    assert (ours["attempts"], ours["issues"]) == (1, ["args.type"])

    streamed, _ = both(pair, path, BAD, stream=True)
    for answered in (watched, streamed):
        [line] = told(pair[0], answered)
        assert "'mode': 'observe', 'outcome': 'observed'" in line
        assert "args.type" in line

    fitting, _ = both(pair, path, GOOD, stream=True)
    assert told(pair[0], fitting) == []


@pytest.mark.parametrize("model", ["own", "bridged"])
@pytest.mark.parametrize("path", PATHS)
def test_an_end_that_is_made_up_is_seen(pair: tuple[Proxy, Proxy], path: str, model: str) -> None:
    """A stream that was cut is no reply that fits, whatever end LiteLLM writes under it."""
    proxy = pair[0]
    watched, _ = both(pair, path, CUT, model=model, stream=True)
    [line] = told(proxy, watched)
    assert "'outcome': 'observed'" in line

    key = proxy.upstream.script(CUT, GOOD)
    fixed = sent(proxy, path, body_for(path, key, model=model, stream=True), "strict-desk")
    assert "'outcome': 'fixed'" in told(proxy, fixed)[0]
    assert len(proxy.upstream.asked(key)) == 2


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_declared_contract_is_only_judged_by(
    pair: tuple[Proxy, Proxy], path: str, stream: bool
) -> None:
    """The contract of a model is not written into a request, and its reply is judged by it."""
    watched, _ = both(pair, path, GOOD, model="declared", tools=None, stream=stream)
    [line] = told(pair[0], watched)
    assert "tool.unknown" in line


@pytest.mark.parametrize(
    ("alias", "model", "outcome"),
    [
        ("some", "own", "observed"),
        ("some", "quiet", None),
        ("some", "nick", "fixed"),
        ("strict-desk", "own", "fixed"),
        ("strict-desk", "quiet", None),
        ("some+payments", "own", "fixed"),
        ("some+payments", "claude", "observed"),
        ("some+desk", "claude", "fixed"),
        ("some+repay", "own", "observed"),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_the_first_rule_that_fits_counts(
    pair: tuple[Proxy, Proxy], path: str, alias: str, model: str, outcome: str | None
) -> None:
    """Rules are chosen by the model, by the key's alias, and by the team's alias or id."""
    proxy = pair[0]
    key = proxy.upstream.script(BAD, GOOD)
    answered = sent(proxy, path, body_for(path, key, model=model), alias)
    assert outcome_of(answered) == outcome
    assert len(proxy.upstream.asked(key)) == (2 if outcome == "fixed" else 1)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_one_tool_is_enforced(pair: tuple[Proxy, Proxy], path: str, stream: bool) -> None:
    """With ``enforce`` a fault of its tool is corrected; one of another is passed on and told."""
    proxy = pair[0]
    wrong = faults.wrong_type(REFUND, "order")
    key = proxy.upstream.script(wrong, ok.call(REFUND, order=7))
    fixed = sent(proxy, path, body_for(path, key, stream=stream), "mixed")
    assert len(proxy.upstream.asked(key)) == 2
    assert "'mode': 'partial', 'outcome': 'fixed'" in told(proxy, fixed)[0]

    key = proxy.upstream.script(then=BAD)
    passed = sent(proxy, path, body_for(path, key, stream=stream), "mixed")
    assert len(proxy.upstream.asked(key)) == 1
    assert passed.status_code == 200
    assert "'mode': 'partial', 'outcome': 'observed'" in told(proxy, passed)[0]
    assert "zq7x" in passed.text


@pytest.mark.parametrize("path", PATHS)
def test_an_enforced_tool_is_not_written_into_a_request(
    pair: tuple[Proxy, Proxy], path: str
) -> None:
    """With ``enforce`` a declared contract judges, and the first request is the client's."""
    proxy = pair[0]
    key = proxy.upstream.script(then=TEXT)
    body = body_for(path, key, model="declared", tools=None)
    answered = sent(proxy, path, body, "mixed")
    assert outcome_of(answered) == "accepted"
    [asked] = proxy.upstream.asked(key)
    assert not asked.get("tools")


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {"n": 2}),
        (CHAT, {"output_format": {"type": "json_schema", "schema": PARAMETERS}}),
        (RESPONSES, {"response_format": {"type": "json_object"}}),
        (MESSAGES, {"response_format": {"type": "json_object"}}),
    ],
)
def test_what_cannot_be_judged_passes(pair: tuple[Proxy, Proxy], path: str, more: Any) -> None:
    """A request that is refused where replies are enforced is passed on, and has no verdict."""
    watched, _ = both(pair, path, GOOD, **more)
    assert outcome_of(watched) == "unjudged"

    key = pair[0].upstream.script(then=GOOD)
    for alias in ("strict-desk", "mixed"):
        refused = sent(pair[0], path, body_for(path, key, **more), alias)
        assert refused.status_code == 400

    assert pair[0].upstream.asked(key) == []


@pytest.mark.parametrize("path", ["/v1/completions", "/v1beta/models/own:generateContent"])
def test_a_route_that_is_not_judged_passes(pair: tuple[Proxy, Proxy], path: str) -> None:
    """A route that is refused where replies are enforced does what it does without the guard."""
    asked: Any = {"model": "own", "prompt": "Once", "tools": functions(flat=False)}
    if path != "/v1/completions":
        parts = [{"text": "Once"}]
        asked = {"contents": [{"role": "user", "parts": parts}], "tools": [{}], "x": 1}

    watched, plain = (sent(proxy, path, asked) for proxy in pair)
    assert watched.status_code == plain.status_code
    assert "not guarded" not in watched.text
    assert "not guarded" in sent(pair[0], path, asked, "strict-desk").text


def test_a_route_without_a_hook_passes(pair: tuple[Proxy, Proxy]) -> None:
    """The gate lets all routes through where the settings for all requests observe."""
    path = "/v1/threads"
    watched, plain = (sent(proxy, path, {}) for proxy in pair)
    assert watched.status_code == plain.status_code
    assert "not guarded" not in watched.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_fault_of_ours_is_no_fault_of_the_call(
    pair: tuple[Proxy, Proxy], path: str, stream: bool
) -> None:
    """What the guard cannot even read is passed on as it is, and logged."""
    before = len(pair[0].said())
    watched, _ = both(pair, path, GOOD, model="odd", stream=stream)
    assert watched.status_code == 200
    assert outcome_of(watched) == ("streamed" if stream else "unjudged")
    assert len(pair[0].said()) > before


class UntilRead(Pause):
    """A pause until the client has read a piece."""

    is_read: threading.Event

    def __init__(self, is_read: threading.Event) -> None:
        object.__setattr__(self, "is_read", is_read)  # it is frozen

    @property
    def seconds(self) -> float:
        """Wait, and let no more time pass."""
        return float(not self.is_read.wait(60))


def test_the_calls_of_a_stream_are_live(pair: tuple[Proxy, Proxy]) -> None:
    """The pieces of a call go out while the model is still writing it."""
    proxy = pair[0]
    whole = render(BAD.served, {"stream": True})
    is_read = threading.Event()
    parts = (*whole.parts[:4], UntilRead(is_read), *whole.parts[4:])
    key = proxy.upstream.answer(
        lambda request: HTTPReply(200, whole.headers, parts, WireEnding.WHOLE, "chunked")
    )

    headers = {"authorization": "Bearer sk-some"}
    body = body_for(CHAT, key, stream=True)
    came = ""
    with httpx.stream("POST", proxy.url + CHAT, json=body, headers=headers, timeout=60) as answer:
        for line in answer.iter_lines():
            came += line
            if "tool_calls" in line:
                is_read.set()

    assert "[DONE]" in came
    assert is_read.is_set()


class Logged:
    """What stands for LiteLLM's object of a call."""


def guard_with(**settings: Any) -> Any:
    """Return a guard; skip where there is no LiteLLM."""
    pytest.importorskip(
        "litellm", reason="LiteLLM is in an environment of its own: make test-litellm"
    )
    return import_module("strictreply.integrations.litellm").Guard(**settings)


def is_refused(guard: Any, caller: object = None, **more: Any) -> bool:
    """Return whether the guard's first hook refuses a request for two choices."""
    data = {"model": "m", "messages": [], "tools": functions(flat=False), "n": 2}
    data |= {"litellm_logging_obj": Logged()} | more
    try:
        hook = guard.async_pre_call_hook(
            data=data, call_type="acompletion", user_api_key_dict=caller
        )
        assert asyncio.run(hook) is None
    except Exception as error:  # noqa: BLE001 - what a proxy is told
        refused: Any = error
        assert (refused.status_code, refused.code) == (400, "contract")
        return True

    return False


def test_a_mode_may_be_a_function() -> None:
    """A function is asked for each call; what it fails at leaves its last good value in force."""
    modes: list[Any] = ["observe", "enforce", "off"]
    guard = guard_with(mode=lambda: modes.pop(0))
    assert [is_refused(guard) for _ in range(4)] == [False, True, False, False]


def test_the_environment_counts_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """``STRICTREPLY_MODE`` is the mode of a guard without one, and of no other."""
    policy = sr.RetryPolicy(max_retries=1)
    monkeypatch.setenv("STRICTREPLY_MODE", "observe")
    assert not is_refused(guard_with(policy=policy))
    assert is_refused(guard_with(mode="enforce"))

    monkeypatch.setenv("STRICTREPLY_MODE", "enforce")
    assert is_refused(guard_with(policy=policy))
    assert not is_refused(guard_with(mode="observe"))

    monkeypatch.delenv("STRICTREPLY_MODE")
    monkeypatch.setenv("STRICTREPLY_OBSERVE", "0.5")
    assert not is_refused(guard_with(policy=policy))


@pytest.mark.parametrize(
    ("rule", "caller"),
    [
        ({"key": "h4sh"}, {"key_alias": None, "api_key": "h4sh"}),
        ({"key": "*-desk"}, {"key_alias": "web-desk", "api_key": "h4sh"}),
        ({"team": "t-1"}, {"team_alias": None, "team_id": "t-1"}),
        ({"team": "pay*", "key": "a"}, {"team_alias": "payments", "key_alias": "a"}),
    ],
)
def test_a_rule_reads_what_litellm_knows_of_a_key(rule: Any, caller: Any) -> None:
    """A key is known by its alias or its hash, a team by its alias or id; all patterns must fit."""
    guard = guard_with(modes=[rule | {"mode": "observe"}])
    assert not is_refused(guard, SimpleNamespace(**caller))
    assert is_refused(guard, SimpleNamespace(key_alias="a", team_alias="other"))
    assert is_refused(guard)


def test_a_client_that_leaves_counts_nothing() -> None:
    """A stream that its client left is not judged, and nothing is told of it."""
    guard = guard_with(mode="observe")
    data: Any = {"model": "m", "messages": [], "tools": functions(flat=False), "stream": True}
    data["litellm_logging_obj"] = Logged()
    pieces: list[Any] = [{"choices": []}, {"choices": []}]

    async def stream() -> AsyncGenerator[Any]:
        for piece in pieces:
            yield piece

    async def leave() -> Any:
        await guard.async_pre_call_hook(data=data, call_type="acompletion")
        hooked = guard.async_post_call_streaming_iterator_hook(response=stream(), request_data=data)
        first = await anext(hooked)
        await hooked.aclose()
        return first

    assert asyncio.run(leave()) is pieces[0]
    assert "metadata" not in data


def test_a_stream_that_fails_fails_as_it_did() -> None:
    """The error of a stream is raised as it came, and the call is told as one without a reply."""
    guard = guard_with(mode="observe")
    data: Any = {"model": "m", "messages": [], "tools": functions(flat=False), "stream": True}
    data["litellm_logging_obj"] = Logged()
    failure = ConnectionError("gone")
    chunk = import_module("litellm").ModelResponseStream(id="chatcmpl-1", choices=[])

    async def stream() -> AsyncGenerator[Any]:
        yield chunk
        raise failure

    async def read() -> list[Any]:
        await guard.async_pre_call_hook(data=data, call_type="acompletion")
        hooked = guard.async_post_call_streaming_iterator_hook(response=stream(), request_data=data)
        return [piece async for piece in hooked]

    with pytest.raises(ConnectionError) as caught:
        asyncio.run(read())
    assert caught.value is failure
    ours = data["metadata"]["strictreply"]
    assert (ours["outcome"], ours["issues"], len(ours["failures"])) == ("observed", [], 1)
