"""Run the program of each framework, with the guard and without it.

The first reply of the model that they talk to is malformed.

``python tools/run_frameworks.py`` runs every program of ``frameworks/`` in the environment that
holds its library, and ends with exit code 1 when one is not guarded; ``--only`` takes some by name,
``--guarded`` leaves out the comparison, ``--write`` puts the table into docs/frameworks.md, and
``--python`` names another environment, which then holds the libraries of all that run. It needs the
standard library only; environments that are missing are made on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "frameworks.md"
BEGIN = "<!-- frameworks:begin -->"
END = "<!-- frameworks:end -->"
SECONDS = 240
MAX_REQUESTS = 12
ANSWER = "Tea is here."
NO_STREAM = "it has none"
CORRECTION = "Not valid."
ENDS = ("final_answer", "submit")
CALL_AND_OUTPUT = ("function_call", "function_call_output")
JSONObject: TypeAlias = dict[str, Any]
COLUMNS = (
    "program",
    "library",
    "SDK",
    "guarded",
    "streamed",
    "without the guard",
    "streamed without it",
)

SCENARIOS: Mapping[str, tuple[str | None, str, str]] = {
    "duplicate key": (None, "{name}", '{"query": "tea", "query": "poison"}'),
    "extra key": (None, "{name}", '{"query": "tea", "admin": true}'),
    "wrong type": (None, "{name}", '{"query": 5}'),
    "unknown tool": (None, "delete_everything", '{"query": "tea"}'),
    "behind text": ("I will look. ", "{name}", '{"query": "tea", "query": "poison"}'),
}
"""What the first reply says: the text before its call, the tool's name, its arguments as text."""

OF_CLAUDE: Mapping[str, tuple[str | None, str, str]] = {
    **{name: SCENARIOS[name] for name in ("extra key", "wrong type", "unknown tool")},
    "behind text": ("I will look. ", "{name}", '{"query": 5}'),
}
"""The same on the Messages API, whose whole replies hold arguments that the server has parsed.

Only the pieces of a stream can hold a duplicate key there: see :func:`scenarios_of`.
"""

ANSWERS: Mapping[str, str] = {
    "answer of a wrong type": '{"answer": 5}',
    "answer with a duplicate key": '{"answer": "Tea is here.", "answer": "poison"}',
    "answer in prose": "There is tea.",
}
"""What the first structured answer says."""

PLAIN = {"run": "sync", "arun": "async"}
STREAMED = {"stream": "sync", "astream": "async"}
ANSWERED = {"answer": "structured", "aanswer": "structured"}
"""The functions of a program, and what they are called in the table."""


@dataclass(frozen=True, slots=True)
class Program:
    """A module of ``frameworks/``, the environment it runs in, and the distribution it is about.

    ``needs`` is what an environment of its own would install, the library where it is empty;
    ``sdk`` is the distribution that sends its requests.
    """

    module: str
    environment: str
    library: str
    title: str
    api: str = "chat"
    needs: tuple[str, ...] = ()
    sdk: str = "openai"
    python: Path | None = None

    @property
    def interpreter(self) -> Path:
        """The Python that runs it."""
        named = ROOT / f".venv-frameworks-{self.environment}" / "bin" / "python"
        return self.python or named


LANGCHAIN = ("langchain", "langchain-anthropic", "langchain-openai", "langgraph")
PYDANTIC_AI = ("pydantic-ai-slim[anthropic,openai]",)
STRANDS = ("strands-agents[anthropic,openai]",)
INSTRUCTOR = ("instructor", "anthropic<1")
LLAMA_INDEX = ("llama-index-core", "llama-index-llms-openai")

PROGRAMS = {
    program.module: program
    for program in (
        Program(
            "langchain_model",
            "newest",
            "langchain-openai",
            "LangChain `ChatOpenAI`",
            needs=LANGCHAIN,
        ),
        Program(
            "langchain_agent",
            "newest",
            "langchain",
            "LangChain `create_agent`",
            needs=LANGCHAIN,
        ),
        Program(
            "langgraph_agent",
            "newest",
            "langgraph",
            "LangGraph's prebuilt agent",
            needs=LANGCHAIN,
        ),
        Program("litellm_completion", "newest", "litellm", "LiteLLM"),
        Program(
            "pydantic_ai_agent",
            "newest",
            "pydantic-ai-slim",
            "pydantic-ai",
            needs=PYDANTIC_AI,
        ),
        Program("openai_agents_agent", "newest", "openai-agents", "OpenAI Agents SDK"),
        Program(
            "llama_index_agent",
            "older",
            "llama-index-core",
            "LlamaIndex",
            needs=LLAMA_INDEX,
        ),
        Program("haystack_agent", "newest", "haystack-ai", "Haystack"),
        Program(
            "autogen_agent",
            "newest",
            "autogen-ext",
            "AutoGen",
            needs=("autogen-agentchat", "autogen-ext[openai]"),
        ),
        Program("crewai_agent", "pydantic12", "crewai", "CrewAI"),
        Program(
            "smolagents_agent",
            "newest",
            "smolagents",
            "smolagents",
            needs=("smolagents[openai]",),
        ),
        Program("agno_agent", "newest", "agno", "Agno"),
        Program("semantic_kernel_agent", "pydantic12", "semantic-kernel", "Semantic Kernel"),
        Program(
            "instructor_extraction",
            "older",
            "instructor",
            "instructor",
            needs=INSTRUCTOR,
        ),
        Program(
            "google_adk_agent",
            "newest",
            "google-adk",
            "Google ADK",
            needs=("google-adk", "litellm"),
        ),
        Program(
            "strands_agent",
            "older",
            "strands-agents",
            "Strands Agents",
            needs=STRANDS,
        ),
        Program(
            "agent_framework_agent",
            "newest",
            "agent-framework-openai",
            "Microsoft Agent Framework",
        ),
        Program("magentic_chat", "newest", "magentic", "magentic"),
        Program(
            "mirascope_call",
            "older",
            "mirascope",
            "mirascope",
            needs=("mirascope[openai]",),
        ),
        Program("dspy_agent", "newest", "dspy", "DSPy"),
        Program(
            "openai_tool_runner",
            "newest",
            "openai",
            "openai's own tool runner, Responses",
            "responses",
        ),
        Program(
            "langchain_responses",
            "newest",
            "langchain-openai",
            "LangChain, `use_responses_api`",
            "responses",
            LANGCHAIN,
        ),
        Program(
            "pydantic_ai_responses",
            "newest",
            "pydantic-ai-slim",
            "pydantic-ai, Responses",
            "responses",
            PYDANTIC_AI,
        ),
        Program(
            "openai_agents_responses",
            "newest",
            "openai-agents",
            "OpenAI Agents SDK, Responses",
            "responses",
        ),
        Program(
            "agent_framework_responses",
            "newest",
            "agent-framework-openai",
            "Microsoft Agent Framework, Responses",
            "responses",
        ),
        Program(
            "llama_index_responses",
            "older",
            "llama-index-llms-openai",
            "LlamaIndex, Responses",
            "responses",
            LLAMA_INDEX,
        ),
        Program(
            "langchain_claude",
            "newest",
            "langchain-anthropic",
            "LangChain `ChatAnthropic`",
            "messages",
            LANGCHAIN,
            "anthropic",
        ),
        Program(
            "pydantic_ai_claude",
            "newest",
            "pydantic-ai-slim",
            "pydantic-ai on Claude",
            "messages",
            PYDANTIC_AI,
            "anthropic",
        ),
        Program(
            "litellm_claude",
            "newest",
            "litellm",
            "LiteLLM on Claude",
            "messages",
            sdk="httpx",
        ),
        Program(
            "instructor_claude",
            "older",
            "instructor",
            "instructor on Claude",
            "messages",
            INSTRUCTOR,
            "anthropic",
        ),
        Program(
            "strands_claude",
            "older",
            "strands-agents",
            "Strands Agents on Claude",
            "messages",
            STRANDS,
            "anthropic",
        ),
        Program(
            "claude_tool_runner",
            "newest",
            "anthropic",
            "anthropic's own tool runner",
            "messages",
            sdk="anthropic",
        ),
    )
}


class Model:
    """A model that writes one malformed call or answer, then good ones.

    It answers once it has read the result of a call.

    ``text``, ``tool`` and ``arguments`` are the malformed call, ``answer`` is the malformed
    structured answer: None when there is none of these. ``served`` says what it wrote, ``seen``
    which calls stood in the last request itself, ``refused`` what was wrong with a request,
    ``is_corrected`` whether a request behind a malformed reply was our correction: None where that
    is not looked at.
    """

    def __init__(
        self, text: str | None, tool: str | None, arguments: str, answer: str | None = None
    ) -> None:
        self.text = text
        self.tool = tool
        self.arguments = arguments
        self.answer = answer

        self.served: list[str] = []
        self.seen: list[str] = []
        self.refused: list[str] = []
        self.asked_to_stream: list[bool] = []
        self.is_corrected: bool | None = None
        self._stored: dict[str, list[JSONObject]] = {}
        self._thoughts: dict[str, str] = {}

    def __call__(self, request: Mapping[str, Any]) -> JSONObject:
        """Answer one request of chat completions."""
        calls = [
            call["function"]
            for turn in request["messages"]
            for call in turn.get("tool_calls") or []
        ]
        names = [tool["function"]["name"] for tool in request.get("tools") or []]
        wanted = (request.get("response_format") or {}).get("type") == "json_schema"
        streams = bool(request.get("stream"))
        text, call = self._turn(calls, names, wanted=wanted, streams=streams)
        if call is None:
            return _completion({"content": text}, "stop")

        called = {"id": f"call_{len(self.served)}", "type": "function", "function": call}
        return _completion({"content": text, "tool_calls": [called]}, "tool_calls")

    def responded(self, request: Mapping[str, Any]) -> JSONObject:
        """Answer one request of the Responses API; ValueError says what is wrong with it."""
        given = request.get("input") or []
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]

        before = request.get("previous_response_id")
        items = [*self._stored[before], *given] if before else list(given)

        is_stored = request.get("store") is not False
        if wrong := list(self._wrong(items, is_stored=is_stored)):
            self.refused += wrong
            raise ValueError(wrong[0])

        calls = [item for item in given if item.get("type") == "function_call"]
        names = [tool["name"] for tool in request.get("tools") or [] if tool["type"] == "function"]
        wanted = ((request.get("text") or {}).get("format") or {}).get("type") == "json_schema"
        streams = bool(request.get("stream"))
        text, call = self._turn(calls, names, wanted=wanted, streams=streams)

        response = _response(len(self.served), text, call, request)
        if is_stored:
            output = response["output"]
            self._stored[response["id"]] = [*items, *output]
            self._thoughts |= {item["id"]: output[0]["id"] for item in output[1:2]}

        return response

    def said(self, request: Mapping[str, Any]) -> list[JSONObject]:
        """Return the blocks that answer one request of the Messages API."""
        if self.served[-1:] in (["bad"], ["wrong"]):
            self.is_corrected = CORRECTION in json.dumps(request["messages"][-1])

        blocks = [
            block
            for turn in request["messages"]
            if isinstance(turn["content"], list)
            for block in turn["content"]
        ]
        calls = [
            {"name": block["name"], "arguments": json.dumps(block["input"])}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        names = [tool["name"] for tool in request.get("tools") or [] if "input_schema" in tool]
        config = request.get("output_config") or {}
        wanted = bool(request.get("output_format") or config.get("format"))
        streams = bool(request.get("stream"))
        text, call = self._turn(calls, names, wanted=wanted, streams=streams)

        blocks = []
        if (request.get("thinking") or {}).get("type") in ("adaptive", "enabled"):
            blocks.append({"type": "thinking", "thinking": ""})  # the server signs it
        if text is not None:
            blocks.append({"type": "text", "text": text})
        if call is not None:
            # in the pieces of a stream the arguments stand as they were written
            given = call["arguments"] if streams else json.loads(call["arguments"])
            blocks.append({"type": "tool_use", "name": call["name"], "input": given})
        return blocks

    def _wrong(self, items: list[JSONObject], *, is_stored: bool) -> Iterator[str]:
        """Yield why the API would refuse some items, in its words."""
        ids = [item["id"] for item in items if item.get("id")]
        for one in ids:
            if ids.count(one) > 1:
                yield f"Duplicate item found with id {one}."

        called, told = (
            [item["call_id"] for item in items if item.get("type") == kind]
            for kind in CALL_AND_OUTPUT
        )
        for one in called:
            if told.count(one) != 1:
                yield f"No tool output found for function call {one}."
        for one in told:
            if one not in called:
                yield f"No tool call found for the output with call_id {one}."

        for item, after in zip(items, [*items[1:], {}], strict=True):
            kind = item.get("type")
            name = item.get("id")
            thought = self._thoughts.get(str(name), str(name))

            if kind == "reasoning" and "call_id" not in after and after.get("role") != "assistant":
                yield (
                    f"Item '{name}' of type 'reasoning' was provided without its "
                    "required following item."
                )

            if kind == "reasoning" and not (is_stored or item.get("encrypted_content")):
                yield (
                    f"Item with id '{name}' not found. "
                    "Items are not persisted when `store` is set to false."
                )

            if name is not None and thought not in ids:
                yield (
                    f"Item '{name}' of type '{kind}' was provided without its "
                    f"required 'reasoning' item: '{thought}'."
                )

    def _turn(
        self, calls: list[JSONObject], names: list[str], *, wanted: bool, streams: bool
    ) -> tuple[str | None, JSONObject | None]:
        """Return the text and the call that come next; ``wanted`` is a structured answer."""
        self.asked_to_stream.append(streams)
        self.seen = [f"{call['name']}({call['arguments']})" for call in calls]
        if len(self.served) >= MAX_REQUESTS:
            raise RuntimeError("the program asks without an end")

        name = next((name for name in names if name.endswith("search")), "search")
        if self.tool is not None and not self.served:
            return self._wrote("bad", self.text, self.tool.format(name=name), self.arguments)
        if "good" not in self.served and (names or self.tool is not None):
            return self._wrote("good", None, name, '{"query": "tea"}')
        if ends := [name for name in names if name in ENDS]:
            return self._wrote("end", None, ends[0], json.dumps({"answer": ANSWER}))
        if self.answer is not None and "wrong" not in self.served:
            return self._wrote("wrong", self.answer)

        return self._wrote("text", json.dumps({"answer": ANSWER}) if wanted else ANSWER)

    def _wrote(
        self, kind: str, text: str | None, name: str | None = None, arguments: str = ""
    ) -> tuple[str | None, JSONObject | None]:
        self.served.append(kind)
        return text, None if name is None else {"name": name, "arguments": arguments}


def _completion(message: JSONObject, reason: str) -> JSONObject:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [choice],
        "usage": usage,
    }


def _response(
    number: int, text: str | None, call: JSONObject | None, request: Mapping[str, Any]
) -> JSONObject:
    """Make a response: a thought, the text, the call."""
    sealed = "reasoning.encrypted_content" in (request.get("include") or [])
    thought: JSONObject = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
    if sealed:
        thought["encrypted_content"] = f"sealed {number}"
    output = [thought]

    if text is not None:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        output.append(message)

    if call is not None:
        called = {
            "id": f"fc_{number}",
            "type": "function_call",
            "call_id": f"call_{number}",
            "status": "completed",
        }
        output.append(called | call)

    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
        "parallel_tool_calls": True,
        "output": output,
    }


def written(response: JSONObject) -> Iterator[bytes]:
    """Yield the events of a streamed response as they are sent, a text in several pieces."""
    # in the framework's environment only
    from strictreply.wires._responses_events import ResponsesSent  # noqa: PLC0415

    number = count()
    for event in ResponsesSent().rest(response, None):
        pieces: list[JSONObject] = [{}]
        if event["type"] == "response.output_text.delta":
            pieces = [{"delta": text} for text in re.findall(r".{1,4}", event["delta"])]

        for piece in pieces:
            told = event | {"sequence_number": next(number)} | piece
            yield b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(told).encode())


@contextmanager
def responses_server(model: Model) -> Iterator[str]:
    """Serve a model over the Responses API; yields the address that a client takes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            streams = request.get("stream")
            status = 200
            kind = "text/event-stream" if streams else "application/json"

            try:
                response = model.responded(request)
                body = b"".join(written(response)) if streams else json.dumps(response).encode()
            except (LookupError, RuntimeError, ValueError) as error:
                status = 400
                kind = "application/json"
                told = {"message": str(error), "type": "invalid_request_error"}
                body = json.dumps({"error": told}).encode()

            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def parsed(block: JSONObject) -> JSONObject:
    """Return a block as the API keeps it, whose arguments may be streamed as any text."""
    given = block.get("input")
    return block | {"input": json.loads(given)} if isinstance(given, str) else block


@contextmanager
def messages_server(model: Model) -> Iterator[str]:
    """Serve a model over the Messages API, as strict as it is; yields a client's address."""
    # of the tests, which need the standard library only
    from support.anthropic_rules import RulesServer, model_of  # noqa: PLC0415

    threads: dict[str, JSONObject] = {}

    class Server(RulesServer):
        """Keeps threads, too: the SDK's tool runner sends only what is new in one."""

        def answer(self, path: str, body: JSONObject) -> tuple[int, str, bytes]:
            thread = body.pop("thread", None) or {}
            kept = threads.get(str(thread.get("previous_message_id")), {"messages": []})
            whole = kept | body | {"messages": [*kept["messages"], *body["messages"]]}

            answered = super().answer(path, whole)
            if self.sent:
                turn = {"role": "assistant", "content": list(map(parsed, self.sent[-1]["content"]))}
                after = whole | {"messages": [*whole["messages"], turn]}
                threads[self.sent[-1]["id"]] = after
            return answered

    rules = model_of("claude-opus-4-8")
    with Server(*[model.said] * MAX_REQUESTS, model=rules) as server:
        yield server.url
        model.refused += [refusal.message for refusal in server.refused]


@contextmanager
def chat_server(model: Model) -> Iterator[str]:
    """Serve a model over chat completions; yields the address that a client takes."""
    # in the framework's environment only
    from strictreply.testing import LoopbackServer  # noqa: PLC0415

    with LoopbackServer(model) as server:
        yield server.base_url


SERVERS = {"chat": chat_server, "responses": responses_server, "messages": messages_server}


def scenarios_of(api: str, way: str) -> Mapping[str, tuple[str | None, str, str]]:
    """Return what the first reply of a program in one of its ways may say."""
    if api != "messages":
        return SCENARIOS
    if way not in STREAMED:
        return OF_CLAUDE

    return {"duplicate key": SCENARIOS["duplicate key"], **OF_CLAUDE}


def attempt(module: Any, api: str, way: str, scenario: str) -> dict[str, Any]:
    """Run a program once.

    Return what its tool was called with, its result, and what the model had written.
    """
    ran: list[str] = []
    shown: list[str] = []

    def search(query: str) -> str:
        """Search the shop.

        Args:
            query: what to search for
        """
        ran.append(query)
        return ANSWER

    if scenario in ANSWERS:
        model = Model(None, None, "", ANSWERS[scenario])
    else:
        model = Model(*scenarios_of(api, way)[scenario])

    with SERVERS[api](model) as address:
        os.environ.update(OPENAI_BASE_URL=address, OPENAI_API_BASE=address, OPENAI_API_KEY="none")
        os.environ.update(ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="none")
        function = getattr(module, way)
        given = (search, shown.append) if way in STREAMED else (search,)

        try:
            with redirect_stdout(sys.stderr):
                came = function(*given)
                if iscoroutinefunction(function):
                    came = asyncio.run(came)
                came = "".join(shown) if came is None else str(came)
        except Exception as error:  # noqa: BLE001 - whatever a framework raises is its result
            traceback.print_exc()
            came = f"{type(error).__name__}: {error}"

    return {
        "api": api,
        "way": way,
        "scenario": scenario,
        "ran": ran,
        "came": came,
        "served": model.served,
        "seen": model.seen,
        "refused": model.refused,
        "is_corrected": model.is_corrected,
        "pieces": [piece for piece in shown if piece],
        "asked_to_stream": model.asked_to_stream,
    }


def inside(name: str, *, guarded: bool) -> list[dict[str, Any]]:
    """Run one program in all its ways, in this process."""
    import strictreply  # noqa: PLC0415 - as above

    if not guarded:
        strictreply.wrap = lambda client, **_: client

    program = PROGRAMS[name]
    module = importlib.import_module(f"frameworks.{name}")
    ways = [way for way in (*PLAIN, *ANSWERED, *STREAMED) if hasattr(module, way)]

    results = []
    for way in ways:
        scenarios = ANSWERS if way in ANSWERED else scenarios_of(program.api, way)
        results += [attempt(module, program.api, way, one) for one in scenarios]
    return results


def outside(program: Program, *, guarded: bool) -> list[dict[str, Any]]:
    """Run one program in its environment; raise RuntimeError when it gives no results."""
    command = [str(program.interpreter), __file__, "--inside", program.module]
    if not guarded:
        command.append("--raw")

    environment = os.environ | {
        "OTEL_SDK_DISABLED": "true",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src", ROOT / "tests"))),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError(f"{program.module} ended with {done.returncode}:\n{done.stderr[-3000:]}")

    results: list[dict[str, Any]] = json.loads(lines[-1].removeprefix("RESULT "))
    return results


def saw_it(result: dict[str, Any]) -> bool:
    """Return whether the program ever saw the malformed call.

    The call then stands in the conversation that the program sent last.
    """
    _, name, arguments = scenarios_of(result["api"], result["way"])[result["scenario"]]
    mark = arguments if "{" in name else name
    return bool(result["served"][2:]) and any(mark in call for call in result["seen"])


def came_in_pieces(result: dict[str, Any]) -> bool:
    """Return whether the text that the model wrote last arrived as it was streamed.

    All requests must have been for streams. A call is held until it is judged, so an answer that
    is a call comes whole.
    """
    whole = result["served"][-1] != "text"
    return all(result["asked_to_stream"]) and (whole or len(result["pieces"]) > 1)


def came_through(result: dict[str, Any]) -> bool:
    """Return whether a good reply followed the malformed one, and is what the program came to."""
    if result["way"] in ANSWERED:
        return (*result["served"][-2:], result["came"]) == ("wrong", "text", ANSWER)
    return (*result["served"][:2], result["came"].count(ANSWER)) == ("bad", "good", 1)


def faults(results: list[dict[str, Any]]) -> list[str]:
    """Return what breaks the law.

    The tool runs once, with the good arguments, and the program reaches its answer.
    """

    def breaks(one: dict[str, Any]) -> bool:
        if one["ran"] != ["tea"] or one["refused"] or not came_through(one):
            return True
        if one["is_corrected"] is False:
            return True
        if one["way"] not in ANSWERED and saw_it(one):
            return True
        return one["way"] in STREAMED and not came_in_pieces(one)

    return [
        f"{one['way']}, {one['scenario']}: ran {one['ran']}, came to {one['came'][:200]!r}, "
        f"served {one['served']}, refused {one['refused']}"
        for one in results
        if breaks(one)
    ]


def held(results: list[dict[str, Any]], ways: Mapping[str, str]) -> str:
    """Return in which ways the guard held."""
    tried = [one for one in results if one["way"] in ways]
    if not tried:
        return NO_STREAM

    *names, last = dict.fromkeys(ways[one["way"]] for one in tried)
    listed = f"{', '.join(names)} and {last}" if names else last
    return f"{'NO' if faults(tried) else 'yes'}, {listed}"


def without_guard(results: list[dict[str, Any]], ways: Mapping[str, str]) -> str:
    """Return what the raw client let through.

    By scenario, it is what else the tool ran with, or what was raised.
    """
    harmed = {}
    for one in results:
        if one["way"] not in ways:
            continue

        ran = ", ".join(map(repr, one["ran"]))
        came = " ".join(one["came"].split())[:60]
        if one["way"] in ANSWERED and one["came"] != ANSWER:
            harmed[one["scenario"]] = came
        elif one["ran"] != ["tea"]:
            harmed[one["scenario"]] = f"ran {ran}" if ran else came

    told = "; ".join(f"{scenario}: {what}" for scenario, what in harmed.items())
    return told.replace("|", "\\|") or "nothing"


def row(program: Program, *, compares: bool) -> tuple[str, list[str]]:
    """Run a program with the guard, and without it where that ``compares``.

    Return its row, and what is wrong.
    """
    print(f"running {program.module} ...", file=sys.stderr)
    try:
        guarded = outside(program, guarded=True)
        raw = outside(program, guarded=False) if compares else []
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        failed = f"| {program.title} | | | NO | NO | {type(error).__name__} | |"
        return failed, [f"{program.module}: {error}"]

    wrong = [f"{program.module}: {fault}" for fault in faults(guarded)]
    asked = (
        "import importlib.metadata as m; "
        f"print(m.version({program.library!r}), m.version({program.sdk!r}))"
    )
    library, sdk = subprocess.check_output([program.interpreter, "-c", asked], text=True).split()
    cells = [program.title, f"{program.library} {library}", f"{program.sdk} {sdk}"]

    plain, answered, streamed = (without_guard(raw, ways) for ways in (PLAIN, ANSWERED, STREAMED))
    same = "the same" if streamed == plain else streamed
    if not any(one["way"] in STREAMED for one in guarded):
        same = NO_STREAM
    if any(one["way"] in ANSWERED for one in raw):
        plain += f"; {answered}"

    cells += [held(guarded, ways) for ways in (PLAIN | ANSWERED, STREAMED)]
    cells += [plain, same] if compares else ["not run", "not run"]
    return f"| {' | '.join(cells)} |", wrong


def prepare(environments: set[str]) -> None:
    """Make the environments that are missing, or older than their locks."""
    for name in sorted(environments):
        venv = f".venv-frameworks-{name}"
        lock = f"requirements/frameworks/{name}.txt"
        stamp = ROOT / venv / ".ready"
        sources = (ROOT / lock, ROOT / "pyproject.toml")

        if not _is_newest(stamp, sources):
            subprocess.run([ROOT / "tools" / "setup.sh", venv, lock], cwd=ROOT, check=True)


def _is_newest(stamp: Path, sources: Iterable[Path]) -> bool:
    if not stamp.exists():
        return False
    made = stamp.stat().st_mtime
    return all(source.stat().st_mtime <= made for source in sources)


def main(arguments: list[str] | None = None) -> int:
    """Run programs; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="names of programs, separated by commas")
    parser.add_argument(
        "--guarded", action="store_true", help="leave out the runs without the guard"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/frameworks.md"
    )
    parser.add_argument(
        "--python", type=Path, help="the Python of another environment, with what they all need"
    )
    parser.add_argument("--inside", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)

    options = parser.parse_args(arguments)
    if options.inside:
        print("\nRESULT " + json.dumps(inside(options.inside, guarded=not options.raw)))
        return 0

    names = [name for name in options.only.split(",") if name]
    unknown = [name for name in names if name not in PROGRAMS]
    if options.write and (options.guarded or options.only or options.python):
        parser.error("--write takes no choice: the page's table shows all of every program")
    if unknown:
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")

    chosen = [replace(PROGRAMS[name], python=options.python) for name in names or PROGRAMS]
    if options.python is None:
        prepare({program.environment for program in chosen})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(partial(row, compares=not options.guarded), chosen))

    head = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
    table = "\n".join([head, *(cells for cells, _ in rows)])
    print(table)

    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")

    wrong = [fault for _, faults_of in rows for fault in faults_of]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
