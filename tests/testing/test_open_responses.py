"""The kit's objects against the published schemas of both APIs, as PyPI's ``llm-comply`` has them.

Where that is not installed, the members that the Open Responses specification requires are still
held to their types.
"""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import Response

from strictreply.core import JSONObject
from strictreply.testing import (
    HTTPReply,
    ScriptServer,
    assistant,
    completion,
    native_call,
)
from support.streamed_replies import CHAT, events
from support.testing.asking import sent

WORDS = "llm-comply is not installed: its checks of the kit's objects are not run"
ASKED: JSONObject = {
    "model": "m",
    "input": "tea",
    "tools": [{"type": "function", "name": "search", "parameters": {"type": "object"}}],
    "reasoning": {"effort": "low"},
    "text": {"verbosity": "low"},
}
CALL = native_call("search", '{"query": "tea"}')
SERVED: dict[str, JSONObject] = {
    "a text": completion(assistant("Hello there.")),
    "a call": completion(assistant(None, [CALL])),
    "a text and two calls": completion(assistant("Hi", [CALL, CALL | {"id": "call_2"}])),
    "a call without arguments": completion(assistant(None, [native_call("search", "")])),
    "a refusal": completion(assistant(None, refusal="I cannot.")),
    "a cut text": completion(assistant("Hel"), finish_reason="length"),
    "a filtered text": completion(assistant("Hel"), finish_reason="content_filter"),
    "a thought": completion(assistant("Hi", reasoning_content="The user greets.")),
}
REQUIRED: dict[str, Any] = {
    "background": bool,
    "completed_at": int | None,
    "created_at": int,
    "error": None,
    "frequency_penalty": int | float,
    "id": str,
    "incomplete_details": dict | None,
    "instructions": str | None,
    "max_output_tokens": int | None,
    "max_tool_calls": int | None,
    "metadata": dict,
    "model": str,
    "object": str,
    "output": list,
    "parallel_tool_calls": bool,
    "presence_penalty": int | float,
    "previous_response_id": str | None,
    "prompt_cache_key": str | None,
    "reasoning": dict | None,
    "safety_identifier": str | None,
    "service_tier": str,
    "status": str,
    "store": bool,
    "temperature": int | float,
    "text": dict,
    "tool_choice": str | dict,
    "tools": list,
    "top_logprobs": int,
    "top_p": int | float,
    "truncation": str,
    "usage": dict | None,
}
"""What the specification requires of a response, and the types of it."""


SCHEMAS = {"open-responses": "openresponses.json", "openai-chat": "openai_chat.json"}


def module(name: str) -> Any:
    """A module of the package, or a skip; what it itself deprecates is no finding."""
    pytest.importorskip("llm_comply", reason=WORDS)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    return import_module(f"llm_comply.{name}")


def published(form: str) -> Any:
    """The schemas of a specification that the package holds."""
    specifications = Path(module("specs").__file__).parent
    return module("schema").SpecLoader(str(specifications / SCHEMAS[form]))


def told_in(reply: Any) -> list[Any]:
    """The data of the events of a stream."""
    lines = reply.content.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def posted(served: JSONObject | HTTPReply, asked: JSONObject = ASKED) -> Any:
    """The response in which something is served to a request of the API."""
    return sent(lambda _: served, "POST", "/v1/responses", json.dumps(asked).encode())


def streams_of(served: JSONObject) -> list[Any]:
    """A completion as the events of a response: written so, and translated from its chunks."""
    chunks = HTTPReply(200, CHAT.stream_headers, events(served), framing="chunked")
    return [posted(one, ASKED | {"stream": True}) for one in (served, chunks)]


@pytest.mark.one_lane
@pytest.mark.parametrize(("form", "checks"), [("open-responses", 13), ("openai-chat", 9)])
def test_the_kit_passes_every_check(form: str, checks: int) -> None:
    """All checks of the package, those of a reasoning model included, over a real socket."""
    tests = module("tests").get_tests(form)
    with ScriptServer() as server:
        config = module("config").ComplianceConfig(server.base_url, "none", model="gpt-5")
        suite = module("runner").TestRunner(config, tests, published(form)).run_all()

    assert [(one.name, one.errors) for one in suite.results if one.errors] == []
    assert (suite.passed, suite.total) == (checks, checks)


@pytest.mark.parametrize("name", SERVED)
def test_every_shape_is_of_the_specification(name: str) -> None:
    """Whole and in events, what the kit writes of any reply fits the published schemas."""
    schemas = published("open-responses")
    assert schemas.validate(posted(SERVED[name]).json(), "ResponseResource") == []

    known = {
        kind: title
        for title in schemas.schema_names
        if title.endswith("StreamingEvent")
        for kind in schemas.get_schema(title)["properties"]["type"]["enum"]
    }
    for reply in streams_of(SERVED[name]):
        for event in told_in(reply):
            assert schemas.validate(event, known[event["type"]]) == [], event["type"]


@pytest.mark.parametrize("name", SERVED)
def test_a_response_has_every_member(name: str) -> None:
    """Whole, and in each event that holds it, with values of the right types."""
    whole = posted(SERVED[name]).json()
    streamed = [
        one["response"]
        for reply in streams_of(SERVED[name])
        for one in told_in(reply)
        if "response" in one
    ]
    for response in (whole, *streamed):
        assert response.keys() == REQUIRED.keys()
        for member, kind in REQUIRED.items():
            value = response[member]
            assert value is None if kind is None else isinstance(value, kind), member
            assert not isinstance(value, bool) or kind is bool, member


def test_a_response_repeats_its_request() -> None:
    """What the request states is there, and beside it what the API says of the rest."""
    whole = posted(SERVED["a text"], ASKED | {"temperature": 0.5}).json()
    assert whole["temperature"] == 0.5
    assert whole["reasoning"] == {"effort": "low", "summary": None}
    assert whole["text"] == {"format": {"type": "text"}, "verbosity": "low"}

    (tool,) = whole["tools"]
    assert tool == ASKED["tools"][0] | {"description": None, "strict": None}


@pytest.mark.parametrize("name", SERVED)
def test_the_sdk_reads_what_is_written(name: str) -> None:
    """The SDK's own types take the response as it is, with nothing left over."""
    whole = posted(SERVED[name]).json()
    response = Response.model_validate(whole)
    assert response.model_dump(exclude_unset=True, mode="json", by_alias=True) == whole
