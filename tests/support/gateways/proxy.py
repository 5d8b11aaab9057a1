"""LiteLLM's own proxy with our guard in it, over loopback, and the scripted model behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from strictreply.testing import LoopbackServer, ScriptedModel, Step
from support.ports import free_port

KEY = "sk-loopback-3f9d1c77a5e84b02b6d0"
PATIENCE = (
    180.0  # seconds until the proxy listens: it imports a great deal, and the machine may be busy
)
# Otherwise litellm looks prices up on import.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
LITELLM = Path(sys.executable).parent / "litellm"

DECLARED = """
import strictreply as sr
from litellm.integrations.custom_logger import CustomLogger
from pathlib import Path
import json


@sr.tool
def refund(order: int, reason: str) -> None:
    "Give the money back."


desk = sr.Contract(tools=[refund])


class Log(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        metadata = kwargs["litellm_params"]["metadata"]
        row = {"call": kwargs["litellm_call_id"], "ours": metadata.get("strictreply")}
        standard = kwargs["standard_logging_object"]["metadata"]
        row["spend"] = (standard["spend_logs_metadata"] or {}).get("strictreply")
        with Path("log.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\\n")


log = Log()
"""
"""A module beside the proxy's configuration: a contract, and a log of LiteLLM's own kind."""

ARMS = [
    {
        "type": "function",
        "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    }
]
FILED = {"tools": ARMS}


class Upstream:
    """The model behind the proxy: a script for each conversation, found by its first message."""

    def __init__(self) -> None:
        self._scripts: dict[str, Callable[[Any], Any]] = {}
        self._lock = threading.Lock()
        self._asked: dict[str, list[Any]] = {}

    def __call__(self, request: Any) -> Any:
        """Answer one request."""
        begun = next(turn["content"] for turn in request["messages"] if turn["role"] == "user")
        key = begun if isinstance(begun, str) else begun[0]["text"]
        with self._lock:
            self._asked[key].append(request)
            return self._scripts[key](request)

    def script(self, *steps: Step, then: Step | None = None) -> str:
        """Set what one conversation gets; return the text that begins it."""
        return self.answer(ScriptedModel(*steps, then=then))

    def answer(self, responder: Callable[[Any], Any]) -> str:
        """Register a function that answers one conversation; return the text that begins it."""
        with self._lock:
            key = f"conversation {len(self._scripts)}"
            self._scripts[key] = responder
            self._asked[key] = []
        return key

    def asked(self, key: str) -> list[Any]:
        """Return the requests of one conversation, in order."""
        with self._lock:
            return list(self._asked[key])


class Proxy:
    """The running proxy, as a client sees it."""

    def __init__(self, url: str, pid: int, upstream: Upstream, folder: Path) -> None:
        self.pid = pid
        self.upstream = upstream
        self.folder = folder
        self.url = url
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60)

    def log(self) -> list[Any]:
        """Return the rows that LiteLLM has logged so far."""
        file = self.folder / "log.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def configuration(base_url: str, guard: bool = True) -> dict[str, Any]:
    """Return the proxy's configuration.

    It has some models of one server, the guard with its settings, and a log.
    """
    names = ("own", "declared", "filed", "broken", "falls")
    models: list[dict[str, Any]] = [
        {
            "model_name": name,
            "litellm_params": {
                "model": f"openai/{name}",
                "api_base": base_url,
                "api_key": "sk-none",
            },
        }
        for name in names
    ]

    # LiteLLM asks this one by the Messages API
    claude = {"model": "anthropic/claude-opus-4-8", "api_base": base_url.removesuffix("/v1")}
    # and this one by chat completions, as all models of its provider
    hosted = {"model": "hosted_vllm/hosted"}
    models += [
        {"model_name": "claude", "litellm_params": models[0]["litellm_params"] | claude},
        {"model_name": "hosted", "litellm_params": models[0]["litellm_params"] | hosted},
    ]

    # LiteLLM asks this one by chat completions, whatever a client asks by
    bridged = {"model": "openai/bridged", "use_chat_completions_api": True}
    models += [
        {"model_name": "bridged", "litellm_params": models[0]["litellm_params"] | bridged},
        {"model_name": "armed", "litellm_params": models[0]["litellm_params"] | {"tools": ARMS}},
    ]

    guards = ["strictreply.integrations.litellm.guard"] if guard else []
    contracts = {"declared": "beside:desk", "filed": "filed.json"}

    return {
        "model_list": models,
        "litellm_settings": {
            "callbacks": [*guards, "beside.log"],
            "strictreply": {
                "contract": contracts,
                "policy": {"max_retries": 2, "transport_retries": 1},
                "pass_routes": ["/passed/*", "/interactions"],
            },
            "fallbacks": [{"broken": ["own"]}, {"falls": ["declared"]}],
            "num_retries": 0,
        },
        "router_settings": {
            "disable_cooldowns": True,
            "model_group_alias": {"alias": "declared"},
        },
        "general_settings": {"master_key": KEY},
    }


@contextmanager
def running(folder: Path, *, guard: bool = True) -> Generator[Proxy]:
    """Run the proxy in a folder of its own, until it has listened and been used."""
    upstream = Upstream()
    with LoopbackServer(upstream) as server, free_port() as port:
        # JSON is YAML.
        (folder / "config.yaml").write_text(json.dumps(configuration(server.base_url, guard)))
        (folder / "beside.py").write_text(DECLARED)
        (folder / "filed.json").write_text(json.dumps(FILED))

        with started(folder, port) as (url, pid):
            proxy = Proxy(url, pid, upstream, folder)
            with proxy.client:
                yield proxy


@contextmanager
def started(folder: Path, port: int) -> Generator[tuple[str, int]]:
    """Start the proxy of a folder's ``config.yaml``, and end it afterwards.

    Its address and the id of its process are yielded.
    """
    quiet = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "PYTHONUNBUFFERED": "1",
    }
    command = [str(LITELLM), "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]

    with (folder / "proxy.log").open("w") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | quiet, stdout=said, stderr=said
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _await(f"{url}/health/liveliness", process)
            yield url, process.pid
        finally:
            process.terminate()
            process.wait(30)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=30).close()  # noqa: S310 - loopback
        except OSError:
            time.sleep(0.1)
        else:
            return

    raise RuntimeError("the proxy does not listen: its folder's proxy.log says why")
