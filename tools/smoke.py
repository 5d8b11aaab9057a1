"""Use the installed strictreply as a stranger would.

``smoke.py core`` expects to run without the cli extra, ``smoke.py cli`` with it, ``smoke.py
testing`` with the testing extra and pytest.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import strictreply as sr

CHECKOUT = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("strictreply")
TESTS = """
import pytest
import strictreply as sr

def search(query: str, limit: int = 5) -> list[str]:
    return []

@pytest.mark.malformed(tools=[search], kinds=["json", "args"])
def test_a_malformed_reply_is_mended(llm, no_backoff):
    messages = [{"role": "user", "content": "tea?"}]
    reply = sr.wrap(llm.openai(), tools=[search]).reply(model="m", messages=messages)
    assert reply.tool == "search"
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the console script beside this Python."""
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def require(condition: object, sentence: str) -> None:
    """Stop with the sentence that does not hold."""
    if not condition:
        sys.exit(f"smoke: it does not hold that {sentence}")


@sr.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def check_installed() -> None:
    """It is the wheel that is imported, with its licence to be typed, not the sources."""
    package = Path(sr.__file__).parent
    require(not package.is_relative_to(CHECKOUT), f"{package} is outside the checkout")
    require((package / "py.typed").is_file(), "the wheel holds py.typed")

    held = {path.name for path in (package / "schemas").rglob("*.json")}
    published = {path.name for path in (CHECKOUT / "schemas").rglob("*.json")}
    require(published and held == published, f"the wheel holds the published schemas: {held}")


def check_contract() -> None:
    """A reply that fits passes, one that does not is refused with a code."""
    contract = sr.Contract(tools=[add])
    verdict = contract.check(reply('{"a": 1, "b": 2}'))
    require(isinstance(verdict, sr.Valid), f"the valid call passes: {verdict}")

    verdict = contract.check(reply('{"a": 1, "c": 2}'))
    require(isinstance(verdict, sr.Invalid), f"the invalid call is refused: {verdict}")
    has_code = isinstance(verdict, sr.Invalid) and verdict.issues[0].code.startswith("args.")
    require(has_code, "the fault has its code")


def reply(arguments: str) -> dict[str, object]:
    """Return an assistant message that calls ``add`` with these arguments."""
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def check_without_cli() -> None:
    """Without its extra the command says what to install."""
    require(importlib.util.find_spec("typer") is None, "typer is not installed")
    done = run("--help")
    require(done.returncode != 0, "the command fails without typer")
    said = done.stdout + done.stderr
    require("strictreply[cli]" in said, f"the remedy is named: {said}")


def check_cli() -> None:
    """With the extra the command helps and prints a schema."""
    done = run("--help")
    helps = done.returncode == 0 and "schema" in done.stdout
    require(helps, f"--help works: {done.stdout}{done.stderr}")

    done = run("schema")
    require(done.returncode == 0, f"schema works: {done.stdout}{done.stderr}")
    require(isinstance(json.loads(done.stdout), dict), "the schema is a JSON object")


def check_testing() -> None:
    """With the extra pytest finds the fixtures and the mark, and the wrapped client passes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test_smoke.py")
        path.write_text(TESTS, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", str(path)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
        )

    require(done.returncode == 0, f"the tests pass: {done.stdout[-2000:]}{done.stderr}")


def main(step: str) -> None:
    """Run one of the steps."""
    check_installed()
    check_contract()
    {"core": check_without_cli, "cli": check_cli, "testing": check_testing}[step]()
    print(f"wheel smoke: {step} works")


if __name__ == "__main__":
    main(sys.argv[1])
