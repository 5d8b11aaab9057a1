"""Run the program of each framework against a model whose first call is malformed, with the guard and without it.

``python tools/run_frameworks.py`` runs every program of ``frameworks/`` in the environment that holds its library, and
ends with exit code 1 when one is not guarded; ``--only`` takes some by name, ``--guarded`` leaves out the comparison,
``--write`` puts the table into docs/frameworks.md. It needs the standard library only; environments that are missing
are made on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "frameworks.md"
BEGIN, END = "<!-- frameworks:begin -->", "<!-- frameworks:end -->"
SECONDS = 240
MAX_REQUESTS = 12
ANSWER = "Tea is here."
COLUMNS = ("program", "library", "openai", "guarded", "streamed", "without the guard", "streamed without it")

SCENARIOS: Mapping[str, tuple[str | None, str, str]] = {
    "duplicate key": (None, "{name}", '{"query": "tea", "query": "poison"}'),
    "extra key": (None, "{name}", '{"query": "tea", "admin": true}'),
    "wrong type": (None, "{name}", '{"query": 5}'),
    "unknown tool": (None, "delete_everything", '{"query": "tea"}'),
    "behind text": ("I will look. ", "{name}", '{"query": "tea", "query": "poison"}'),
}
"""What the first reply says: the text before its call, the name of the tool, and its arguments as text."""

PLAIN, STREAMED = {"run": "sync", "arun": "async"}, {"stream": "sync", "astream": "async"}
"""The functions of a program, and what they are called in the table."""


@dataclass(frozen=True, slots=True)
class Program:
    """A module of ``frameworks/``, the environment it runs in, and the distribution it is about."""

    module: str
    environment: str
    library: str
    title: str

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return ROOT / f".venv-frameworks-{self.environment}" / "bin" / "python"


PROGRAMS = {
    program.module: program
    for program in (
        Program("langchain_model", "newest", "langchain-openai", "LangChain `ChatOpenAI`"),
        Program("langchain_agent", "newest", "langchain", "LangChain `create_agent`"),
        Program("langgraph_agent", "newest", "langgraph", "LangGraph's prebuilt agent"),
        Program("litellm_completion", "older", "litellm", "LiteLLM"),
        Program("pydantic_ai_agent", "newest", "pydantic-ai-slim", "pydantic-ai"),
        Program("openai_agents_agent", "newest", "openai-agents", "OpenAI Agents SDK"),
        Program("llama_index_agent", "older", "llama-index-core", "LlamaIndex"),
        Program("haystack_agent", "newest", "haystack-ai", "Haystack"),
        Program("autogen_agent", "newest", "autogen-ext", "AutoGen"),
        Program("crewai_agent", "pydantic12", "crewai", "CrewAI"),
        Program("smolagents_agent", "newest", "smolagents", "smolagents"),
        Program("agno_agent", "newest", "agno", "Agno"),
        Program("semantic_kernel_agent", "pydantic12", "semantic-kernel", "Semantic Kernel"),
        Program("instructor_extraction", "older", "instructor", "instructor"),
    )
}


class Model:
    """A model that writes one malformed call, then a good one, and answers once it was told a result of that."""

    def __init__(self, text: str | None, tool: str, arguments: str) -> None:
        self.text, self.tool, self.arguments = text, tool, arguments
        self.served: list[str] = []
        self.seen: list[str] = []
        self.asked_to_stream: list[bool] = []

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request."""
        self.asked_to_stream.append(bool(request.get("stream")))
        calls = [call for turn in request["messages"] for call in turn.get("tool_calls") or []]
        self.seen = [f"{call['function']['name']}({call['function']['arguments']})" for call in calls]
        if len(self.served) >= MAX_REQUESTS:
            raise RuntimeError("the program asks without an end")
        names = [tool["function"]["name"] for tool in request.get("tools") or []]
        name = next((name for name in names if name.endswith("search")), "search")
        if not self.served:
            return self._call("bad", self.tool.format(name=name), self.arguments, self.text)
        if "good" not in self.served:
            return self._call("good", name, '{"query": "tea"}')
        if "final_answer" in names:
            return self._call("end", "final_answer", json.dumps({"answer": ANSWER}))
        self.served.append("text")
        return _completion({"content": ANSWER}, "stop")

    def _call(self, kind: str, name: str, arguments: str, text: str | None = None) -> dict[str, Any]:
        self.served.append(kind)
        function = {"name": name, "arguments": arguments}
        call = {"id": f"call_{len(self.served)}", "type": "function", "function": function}
        return _completion({"content": text, "tool_calls": [call]}, "tool_calls")


def _completion(message: dict[str, Any], reason: str) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    told = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5"}
    return {**told, "choices": [choice], "usage": usage}


def attempt(module: Any, way: str, scenario: str) -> dict[str, Any]:
    """Run a program once; return what its tool was called with, what it came to, and what the model had written."""
    from strictreply.testing import LoopbackServer  # noqa: PLC0415 - in the framework's environment only

    ran: list[str] = []
    shown: list[str] = []

    def search(query: str) -> str:
        """Search the shop.

        Args:
            query: what to search for
        """
        ran.append(query)
        return ANSWER

    model = Model(*SCENARIOS[scenario])
    with LoopbackServer(model) as server:
        os.environ.update(OPENAI_BASE_URL=server.base_url, OPENAI_API_BASE=server.base_url, OPENAI_API_KEY="none")
        function = getattr(module, way)
        given = (search, shown.append) if way in STREAMED else (search,)
        try:
            with redirect_stdout(sys.stderr):
                came = asyncio.run(function(*given)) if iscoroutinefunction(function) else function(*given)
                came = "".join(shown) if came is None else str(came)
        except Exception as error:  # noqa: BLE001 - whatever a framework raises is its result
            traceback.print_exc()
            came = f"{type(error).__name__}: {error}"
    told = {"way": way, "scenario": scenario, "ran": ran, "came": came, "served": model.served, "seen": model.seen}
    return {**told, "pieces": [piece for piece in shown if piece], "asked_to_stream": model.asked_to_stream}


def inside(name: str, *, guarded: bool) -> list[dict[str, Any]]:
    """Run one program in all its ways, in this process."""
    import strictreply  # noqa: PLC0415 - as above

    if not guarded:
        strictreply.wrap = lambda client, **_: client
    module = importlib.import_module(f"frameworks.{name}")
    ways = [way for way in (*PLAIN, *STREAMED) if hasattr(module, way)]
    return [attempt(module, way, scenario) for way in ways for scenario in SCENARIOS]


def outside(program: Program, *, guarded: bool) -> list[dict[str, Any]]:
    """Run one program in its environment; raise RuntimeError when it gives no results."""
    command = [str(program.python), __file__, "--inside", program.module, *([] if guarded else ["--raw"])]
    quiet = {"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
    environment = os.environ | quiet | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError(f"{program.module} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    results: list[dict[str, Any]] = json.loads(lines[-1].removeprefix("RESULT "))
    return results


def saw_it(result: dict[str, Any]) -> bool:
    """Return whether the program ever saw the malformed call: it then stands in the conversation that it sent last."""
    _, name, arguments = SCENARIOS[result["scenario"]]
    return bool(result["served"][2:]) and any((arguments if "{" in name else name) in call for call in result["seen"])


def came_in_pieces(result: dict[str, Any]) -> bool:
    """Return whether the text that the model wrote last arrived as it was streamed, and all requests were for streams.

    What is a call is held until it is judged, so an answer that is one comes whole.
    """
    whole = result["served"][-1] != "text"
    return all(result["asked_to_stream"]) and (whole or len(result["pieces"]) > 1)


def faults(results: list[dict[str, Any]]) -> list[str]:
    """Say what breaks the law: the tool runs once, with the good arguments, and the program comes to its answer."""
    return [
        f"{one['way']}, {one['scenario']}: ran {one['ran']}, came to {one['came'][:200]!r}, served {one['served']}"
        for one in results
        if one["ran"] != ["tea"]
        or one["served"][:2] != ["bad", "good"]
        or saw_it(one)
        or one["came"].count(ANSWER) != 1
        or (one["way"] in STREAMED and not came_in_pieces(one))
    ]


def held(results: list[dict[str, Any]], ways: Mapping[str, str]) -> str:
    """Say whether the guard held in some of the ways, and in which."""
    tried = [one for one in results if one["way"] in ways]
    names = dict.fromkeys(ways[one["way"]] for one in tried)
    return f"{'NO' if faults(tried) else 'yes'}, {' and '.join(names)}"


def without_guard(results: list[dict[str, Any]], ways: Mapping[str, str]) -> str:
    """Say what the raw client let through: in which scenarios the tool ran with anything else, or what was raised."""
    harmed = {}
    for one in (one for one in results if one["way"] in ways):
        ran = ", ".join(map(repr, one["ran"]))
        if one["ran"] != ["tea"]:
            harmed[one["scenario"]] = f"ran {ran}" if ran else " ".join(one["came"].split())[:60]
    return "; ".join(f"{scenario}: {what}" for scenario, what in harmed.items()).replace("|", "\\|") or "nothing"


def row(program: Program, *, compares: bool) -> tuple[str, list[str]]:
    """Run a program with the guard, and without it where that ``compares``; return its row, and what is wrong."""
    print(f"running {program.module} ...", file=sys.stderr)
    try:
        guarded, raw = outside(program, guarded=True), outside(program, guarded=False) if compares else []
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"| {program.title} | | | NO | NO | {type(error).__name__} | |", [f"{program.module}: {error}"]
    wrong = [f"{program.module}: {fault}" for fault in faults(guarded)]
    asked = f"import importlib.metadata as m; print(m.version({program.library!r}), m.version('openai'))"
    library, openai = subprocess.check_output([program.python, "-c", asked], text=True).split()
    cells = [program.title, f"{program.library} {library}", openai]
    plain, streamed = (without_guard(raw, ways) if compares else "not run" for ways in (PLAIN, STREAMED))
    same = "the same" if compares and streamed == plain else streamed
    cells += [held(guarded, PLAIN), held(guarded, STREAMED), plain, same]
    return f"| {' | '.join(cells)} |", wrong


def prepare(environments: set[str]) -> None:
    """Make the environments that are missing, or older than their locks."""
    for name in sorted(environments):
        venv, lock = f".venv-frameworks-{name}", f"requirements/frameworks/{name}.txt"
        stamp = ROOT / venv / ".ready"
        sources = (ROOT / lock, ROOT / "pyproject.toml")
        if not stamp.exists() or any(source.stat().st_mtime > stamp.stat().st_mtime for source in sources):
            subprocess.run([ROOT / "tools" / "setup.sh", venv, lock], cwd=ROOT, check=True)


def main(arguments: list[str] | None = None) -> int:
    """Run programs; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="names of programs, separated by commas")
    parser.add_argument("--guarded", action="store_true", help="leave out the runs without the guard")
    parser.add_argument("--write", action="store_true", help="put the table into docs/frameworks.md")
    parser.add_argument("--inside", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print("\nRESULT " + json.dumps(inside(options.inside, guarded=not options.raw)))
        return 0
    unknown = [name for name in options.only.split(",") if name and name not in PROGRAMS]
    if options.write and (options.guarded or options.only):
        parser.error("--write takes no choice: the page's table shows all of every program")
    if unknown:
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    chosen = [PROGRAMS[name] for name in options.only.split(",") if name] or list(PROGRAMS.values())
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
