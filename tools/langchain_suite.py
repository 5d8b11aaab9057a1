"""LangChain's standard suites over ``ChatOpenAI``.

``tools/run_suites.py`` runs them on raw and on wrapped clients; ``STRICTREPLY_SUITE`` says on
which. The model is a loopback server that calls the first tool when one
is required, answers with an instance of the schema when one is asked for, and in words otherwise.
What the suites stream is a stream.
"""

# mypy: disable-error-code="import-not-found, misc"
# LangChain is in the suites' environment alone.

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from openai import AsyncOpenAI, OpenAI

import strictreply as sr
from strictreply.testing import LoopbackServer

WRAPPED = os.environ.get("STRICTREPLY_SUITE") == "wrapped"
KNOWN = {"input": 3, "a": 3, "b": 4, "answer_style": "pirate", "location": "San Francisco"}
JOKE = {"setup": "Why do cats purr?", "punchline": "They are told to."}


def answered(request: Mapping[str, Any]) -> dict[str, Any]:
    """Play a sensible model."""
    tools = {
        tool["function"]["name"]: tool["function"]["parameters"]
        for tool in request.get("tools") or []
    }
    choice = request.get("tool_choice")
    turns = request["messages"]
    forced = choice["function"]["name"] if isinstance(choice, dict) else None
    asks = json.dumps(turns, ensure_ascii=False)

    if tools and choice != "none" and turns[-1]["role"] != "tool":
        name = forced or next(iter(tools))
        properties = tools[name].get("properties") or {}
        told = {key: _value(key, schema, asks) for key, schema in properties.items()}
        function = {"name": name, "arguments": json.dumps(told)}
        calls = [{"id": "call_" + str(len(turns)), "type": "function", "function": function}]
        return _completion(request, {"content": None, "tool_calls": calls}, "tool_calls")

    if (request.get("response_format") or {}).get("type") in {"json_schema", "json_object"}:
        return _completion(request, {"content": json.dumps(JOKE)}, "stop")

    return _completion(request, {"content": "Hello there."}, "stop")


def _value(name: str, schema: Mapping[str, Any], asks: str) -> Any:
    if name in JOKE or name in KNOWN:
        return JOKE.get(name, KNOWN.get(name))
    if schema.get("type") == "integer":
        return 3
    return "你好啊集团" if "你好" in asks else "こんにちは株式会社"


def _completion(request: Mapping[str, Any], message: dict[str, Any], reason: str) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": reason,
        "message": {"role": "assistant", "refusal": None, **message},
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [choice],
        "usage": usage,
    }


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    """Serve the model for all tests of the suites."""
    with LoopbackServer(answered) as serving, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", serving.base_url)
        patch.setenv("OPENAI_API_BASE", serving.base_url)
        patch.setenv("OPENAI_API_KEY", "none")
        yield serving.base_url


class Model(ChatOpenAI):
    """``ChatOpenAI`` with the suites' own clients, wrapped if the suites test wrapped ones.

    Its structured output calls ``root_client``, which it does not make if ``client`` is given.
    """

    def __init__(self, **keywords: Any) -> None:
        client = OpenAI()
        aclient = AsyncOpenAI()
        if WRAPPED:
            client = sr.wrap(client)
            aclient = sr.wrap(aclient)

        clients = {
            "root_client": client,
            "client": client.chat.completions,
            "root_async_client": aclient,
            "async_client": aclient.chat.completions,
        }
        super().__init__(**clients | keywords)


class Chosen:
    """What both suites are to know of the model."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        """The class under test."""
        return Model

    @property
    def chat_model_params(self) -> dict[str, Any]:
        """The keywords of its instances."""
        return {"model": "gpt-4o", "use_responses_api": False, "stream_usage": True}

    @property
    def supports_json_mode(self) -> bool:
        """It has a JSON mode."""
        return True

    @property
    def supports_image_inputs(self) -> bool:
        """It takes images."""
        return False

    @property
    def supports_model_override(self) -> bool:
        """The model can be named by the call."""
        return True

    @property
    def model_override_value(self) -> str:
        """The other model's name."""
        return "gpt-4o-mini"


class TestUnit(Chosen, ChatModelUnitTests):
    """The standard unit tests."""


class TestIntegration(Chosen, ChatModelIntegrationTests):
    """The standard integration tests that a loopback server can play."""
