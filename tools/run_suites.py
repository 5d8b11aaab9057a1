"""Run the tests of others on a wrapped client: openai-python's own chat tests, and LangChain's standard suites.

``python tools/run_suites.py`` runs each suite twice, on the raw client and on a wrapped one, compares them test by test
and ends with exit code 1 when one that passes raw fails wrapped and no reason for it stands in ``tools/suites.toml``, or
when a reason stands there for a test that passes. openai-python's tests are taken from its source distribution, of the
version and the hash that the lock names. It needs the standard library only; a missing environment is made on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VENV, LOCK = ROOT / ".venv-frameworks-suites", ROOT / "requirements" / "frameworks" / "suites.txt"
PYTHON = VENV / "bin" / "python"
REASONS = ROOT / "tools" / "suites.toml"
SECONDS = 400
SUITES = ("openai", "langchain")
CHAT = (
    "tests/api_resources/chat",
    "tests/lib/chat",
    "tests/lib/test_azure.py",
    "tests/lib/test_azure_deployment_path.py",
    "tests/test_client.py",
    "tests/test_module_client.py",
    "tests/test_request_body_routing_order.py",
    "tests/test_utils/test_logging.py",
)
"""openai-python's tests that reach chat completions, or the client itself."""

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
MESSAGE = {"role": "assistant", "content": "Tea is here.", "refusal": None}
CHOICE = {"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt", "choices": [CHOICE], "usage": USAGE
}
CLIENTS = {"openai": ("OpenAI", "AsyncOpenAI"), "openai.lib.azure": ("AzureOpenAI", "AsyncAzureOpenAI")}
"""The classes whose instances are wrapped, by the module that the tests import them from."""


def wrapping(module: str, name: str) -> None:
    """Put a class in the place of one of the SDK's whose instances are wrapped, as if each test had called ``wrap``."""
    import strictreply  # noqa: PLC0415 - in the suites' environment only

    holder = import_module(module)
    original: Any = getattr(holder, name)

    class Wrapping(type):
        def __call__(cls, *given: Any, **keywords: Any) -> Any:
            if any(base.__module__.startswith("strictreply.") for base in cls.__mro__):
                return super().__call__(*given, **keywords)
            made = original(*given, **keywords) if cls is substitute else super().__call__(*given, **keywords)
            return strictreply.wrap(made)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original) if cls is substitute else super().__instancecheck__(instance)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, original) if cls is substitute else super().__subclasscheck__(kind)

    members = {"__module__": original.__module__, "__doc__": original.__doc__, "__qualname__": original.__qualname__}
    substitute = Wrapping(original.__name__, (original,), members)
    for place in {module, "openai"}:
        setattr(import_module(place), name, substitute)


class Recorder:
    """A pytest plugin that notes how each test ended, and what it said when it failed."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}
        self.said: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note one phase of a test; the call counts, and what fails beside it."""
        if report.when == "call" or report.outcome != "passed":
            if self.ended.get(report.nodeid) != "failed":
                self.ended[report.nodeid] = report.outcome
            if report.outcome == "failed":
                crash = getattr(report.longrepr, "reprcrash", None)
                self.said.setdefault(report.nodeid, str(getattr(crash, "message", report.longrepr))[:400])


def inside(suite: str, folder: Path, *, wrapped: bool) -> dict[str, Any]:
    """Run a suite in this process; return how each test ended."""
    import pytest  # noqa: PLC0415 - as above

    from strictreply.testing import LoopbackServer  # noqa: PLC0415 - as above

    recorder, plain = Recorder(), ["-q", "-o", "addopts=", "-p", "no:strictreply", "-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider", "--tb=line"]
    if suite == "langchain":
        os.environ["STRICTREPLY_SUITE"] = "wrapped" if wrapped else "raw"
        arguments = ["-c", os.devnull, "--rootdir", str(ROOT), "-o", "asyncio_mode=auto", "--benchmark-disable", "tools/langchain_suite.py"]
        pytest.main([*plain, *arguments], plugins=[recorder])
    else:
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        with LoopbackServer(lambda _: ANSWER) as server:
            os.environ["TEST_API_BASE_URL"] = server.base_url
            if wrapped:
                for module, names in CLIENTS.items():
                    for name in names:
                        wrapping(module, name)
            pytest.main([*plain, *(os.environ.get("ONLY", "").split() or CHAT)], plugins=[recorder])
    return {"ended": recorder.ended, "said": recorder.said}


if __name__ == "__main__":
    print(json.dumps(inside(sys.argv[1], Path(sys.argv[2]), wrapped=sys.argv[3] == "wrapped")))
