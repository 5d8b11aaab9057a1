"""The private names of an SDK on which its guard stands: what goes away is named here.

The suite runs on each supported version, so a version without one of them fails this test first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import strictreply
from strictreply.core import SDK
from strictreply.sdks._known import SDKS, sdk_behind, sdk_of
from strictreply.sdks._openai import OPENAI
from support.loops import some

SOURCES = Path(strictreply.__file__).parent / "sdks"
PRIVATE = re.compile(r"_[a-z]\w*")

OF_CLIENTS = (
    "_build_headers",
    "_build_request",
    "_prepare_options",
    "_prepare_url",
    "_process_response",
    "_process_response_data",
)
"""The methods of a client that a request passes."""

OF_RAW_RESPONSES = ("_cast_to", "_client", "_options", "_parsed_by_type", "_stream_cls")
"""The state of a raw response."""

CLASSES = (
    ("_base_client", "AsyncAPIClient"),
    ("_base_client", "SyncAPIClient"),
    ("_legacy_response", "LegacyAPIResponse"),
    ("_models", "FinalRequestOptions"),
    ("_response", "APIResponse"),
    ("_response", "AsyncAPIResponse"),
    ("_response", "BaseAPIResponse"),
    ("_types", "NOT_GIVEN"),
)
"""The modules that are private, with what is taken of them."""

ELSEWHERE = frozenset(
    {"_client", "_decoder", "_get", "_iter_events", "_post", "_request_id"}
    | {"_strict_response_validation", "_make_sse_decoder", "_make_status_error", "_workspace_id"}
)
"""What is set on objects, and held by the other tests of the client."""

OF_ANTHROPIC = frozenset(
    {"_lazy_tracer", "_middleware", "_middleware_chain", "_open_telemetry", "_otel", "_streaming"}
    | {"_build_middleware_chain", "_should_retry", "_should_retry_exception"}
    | {"_supports_message_threads", "_token_cache", "_tracer"}
)
"""The means of a client of the anthropic SDK, and what its streams are read by."""

OF_HTTP = frozenset(
    {"_connection", "_mounts", "_network_backend", "_network_stream", "_pool", "_transport"}
)
"""Of the HTTP library, whose bounds have tests of their own."""


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that code reads, by attribute or by a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            yield node.attr
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from PRIVATE.findall(node.value) if PRIVATE.fullmatch(node.value) else ()


def own_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that code itself defines: functions, annotated names, its own state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield target.attr
            if isinstance(target, ast.Name):
                yield target.id
        if isinstance(node, ast.keyword) and node.arg:
            yield node.arg


@pytest.mark.parametrize("name", OF_CLIENTS)
@pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI])
def test_a_client_has_each_method_on_the_way(kind: Any, name: str) -> None:
    """A request passes these methods of the SDK."""
    assert callable(getattr(kind, name, None)), f"openai {openai.__version__} has no {name}"


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_the_sdk_has_each_class(module: str, name: str) -> None:
    """The adapter takes these from the private modules of the SDK."""
    assert OPENAI.named(module, name) is not None


def test_a_raw_response_has_its_state() -> None:
    """A raw response is made anew with this state."""
    kind = OPENAI.named("_legacy_response", "LegacyAPIResponse")
    assert [one for one in OF_RAW_RESPONSES if one not in kind.__annotations__] == []


def test_each_private_name_that_is_read_is_known_here() -> None:
    """The lists above are whole: the adapter reads no private name that they do not hold."""
    known = {*OF_CLIENTS, *OF_RAW_RESPONSES, *(module for module, _ in CLASSES)}
    trees = [ast.parse(one.read_text(encoding="utf-8")) for one in SOURCES.glob("*.py")]
    ours = {name for tree in some(trees) for name in own_names(tree)}
    read = {name for tree in some(trees) for name in private_names(tree)}
    of_ours = {"_drop_in", "_guard", "_is_async", "_sdks", "_stored_reply", "_strictreply_"}
    assert read - ours - known - ELSEWHERE - OF_ANTHROPIC - OF_HTTP - of_ours == set()


def test_what_an_sdk_guards_is_there() -> None:
    """Each door of an SDK is a namespace of its client, with the classes that the door names."""
    client: Any = openai.OpenAI(api_key="k")
    for path, door in some(OPENAI.doors.items()):
        found = client
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found.create)
        assert OPENAI.named(*door.response) is OPENAI.response_type(door)
        assert OPENAI.named(*door.event) is OPENAI.event_type(door)


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.package)
def test_an_sdk_refuses_no_door(sdk: SDK) -> None:
    """What is refused or left open is no guarded namespace, and each refusal says the way to go."""
    assert sdk.refused.keys().isdisjoint(sdk.doors)
    assert set(sdk.unguarded).isdisjoint(sdk.doors)
    assert all(sdk.refusal(path).startswith(path) for path in some(sdk.refused))
    assert set(sdk.websockets.values()) <= sdk.refused.keys()


def test_an_sdk_is_known_by_the_class() -> None:
    """A client, a class derived from one and a namespace are of the SDK; other objects are not."""

    class Derived(openai.OpenAI):
        """A client of a program."""

    for client in some([openai.OpenAI(api_key="k"), Derived(api_key="k")]):
        assert sdk_behind(client) is OPENAI
        assert sdk_of(client.chat.completions) is OPENAI
        assert sdk_behind(client.chat.completions) is None

    assert sdk_behind(object()) is None
    assert sdk_of(object()) is None
