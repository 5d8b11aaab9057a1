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
import logging

logger = logging.getLogger("strictreply")
logger.setLevel("INFO")
if not logger.handlers:  # LiteLLM imports this module for each of its names
    logger.addHandler(logging.FileHandler("said.log"))


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


class Odd(CustomLogger):
    "Puts what is no reply of LiteLLM's in the place of those of one model."

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        return "odd" if data["model"] == "odd" else None

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict, response, request_data
    ):
        async for chunk in response:
            yield "odd" if request_data["model"] == "odd" else chunk


class Behind(CustomLogger):
    "Writes down what a callback behind the guard reads of a call."

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        held = {**(data.get("metadata") or {}), **(data.get("litellm_metadata") or {})}
        row = {"call": data["litellm_call_id"], "ours": held.get("strictreply")}
        with Path("behind.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\\n")


odd = Odd()
behind = Behind()


async def auth(request, api_key):
    from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth

    alias, _, team = api_key.removeprefix("sk-").partition("+")
    return UserAPIKeyAuth(
        api_key=api_key,
        key_alias=alias,
        team_id=f"{team}-1" if team else None,
        team_alias=team or None,
        aliases={"nick": "own"},
        user_role=LitellmUserRoles.PROXY_ADMIN,
    )
"""
"""A module beside the proxy's configuration: a contract, a log of LiteLLM's own kind, and keys.

A key is ``sk-<alias>+<team>``.
"""

ARMS = [
    {
        "type": "function",
        "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    }
]
FILED = {"tools": ARMS}


OBSERVING: dict[str, Any] = {
    "contract": {"declared": "beside:desk"},
    "policy": {"max_retries": 2},
    "mode": "observe",
    "modes": [
        {"model": "quiet", "mode": False},
        {"model": "ni?k", "mode": "enforce"},
        {"key": "strict-*", "mode": "enforce"},
        {"key": "mixed", "enforce": ["refund"]},
        {"team": "pay*", "model": "own", "mode": "enforce"},
        {"team": "desk-1", "mode": "enforce"},
    ],
}
"""The settings of a guard that observes, and enforces for some."""


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

    def said(self) -> list[str]:
        """Return the lines that the guard has logged so far."""
        return (self.folder / "said.log").read_text("utf-8").splitlines()

    def log(self, named: str = "log") -> list[Any]:
        """Return the rows that LiteLLM has logged so far, or a callback of that name."""
        file = self.folder / f"{named}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def configuration(base_url: str, guard: bool = True) -> dict[str, Any]:
    """Return the proxy's configuration.

    It has some models of one server, the guard with its settings, and a log.
    """
    names = ("own", "declared", "filed", "broken", "falls", "quiet", "odd")
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


def observing(base_url: str, guard: bool = True) -> dict[str, Any]:
    """Return the configuration of a proxy with keys, whose guard observes."""
    made = configuration(base_url, guard)
    callbacks = made["litellm_settings"]["callbacks"]
    made["litellm_settings"] |= {
        "callbacks": ["beside.odd", *callbacks, "beside.behind"],
        "strictreply": OBSERVING,
    }
    made["general_settings"]["custom_auth"] = "beside.auth"
    return made


@contextmanager
def running(folder: Path, *, guard: bool = True) -> Generator[Proxy]:
    """Run the proxy in a folder of its own, until it has listened and been used."""
    upstream = Upstream()
    with (
        LoopbackServer(upstream) as server,
        configured(folder, upstream, configuration(server.base_url, guard)) as proxy,
    ):
        yield proxy


@contextmanager
def observed(folder: Path) -> Generator[tuple[Proxy, Proxy]]:
    """Run a proxy whose guard observes, and one without a guard, before the same model."""
    upstream = Upstream()
    folders = [folder / "guarded", folder / "plain"]
    for one in folders:
        one.mkdir()

    with LoopbackServer(upstream) as server:
        guarded, plain = (observing(server.base_url, guard) for guard in (True, False))
        with (
            configured(folders[0], upstream, guarded) as watching,
            configured(folders[1], upstream, plain) as without,
        ):
            yield watching, without


@contextmanager
def configured(folder: Path, upstream: Upstream, configuration: dict[str, Any]) -> Generator[Proxy]:
    """Run a proxy with a configuration in a folder of its own."""
    (folder / "config.yaml").write_text(json.dumps(configuration))  # JSON is YAML
    (folder / "beside.py").write_text(DECLARED)
    (folder / "filed.json").write_text(json.dumps(FILED))

    with free_port() as port, started(folder, port) as (url, pid):
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
