"""Run the tests of others on a wrapped client.

They are openai-python's own tests, and LangChain's standard suites.

``python tools/run_suites.py`` runs each suite twice, on the raw client and on a wrapped one,
compares them test by test and ends with exit code 1 when one that passes raw fails wrapped without
a reason in ``tools/suites.toml``, or a reason there explains none any more. openai-python's tests
are taken from its source distribution, of the version and the hash that the lock names.
``--python`` names another environment to run in, and then the version is the one that it holds. It
needs the standard library only; a missing environment is made on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv-frameworks-suites"
LOCK = ROOT / "requirements" / "frameworks" / "suites.txt"
PYTHON = VENV / "bin" / "python"
REASONS = ROOT / "tools" / "suites.toml"
PAGE = ROOT / "docs" / "suites.md"
BEGIN = "<!-- suites:begin -->"
END = "<!-- suites:end -->"
SECONDS = 1_500  # a busy machine takes three times as long
SUITES = ("openai", "langchain")
QUIET = shlex.split("""
    -q --tb=line -o addopts= -p no:strictreply -p no:cacheprovider
    -W ignore::pytest.PytestAssertRewriteWarning
""")
ON_LANGCHAIN = shlex.split(f"""
    -c {os.devnull} --rootdir . --benchmark-disable
    -o asyncio_mode=auto -o asyncio_default_test_loop_scope=session
""")
GUARDED = (
    "tests/api_resources/chat",
    "tests/api_resources/responses",
    "tests/api_resources/test_responses.py",
    "tests/lib/chat",
    "tests/lib/responses",
    "tests/lib/test_responses_input_file_history.py",
    "tests/lib/test_responses_tool_runner.py",
    "tests/lib/test_azure.py",
    "tests/lib/test_azure_deployment_path.py",
    "tests/test_client.py",
    "tests/test_module_client.py",
    "tests/test_request_body_routing_order.py",
    "tests/test_utils/test_logging.py",
)
"""openai-python's tests that reach chat completions, responses, or the client itself."""

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
MESSAGE = {"role": "assistant", "content": "Tea is here.", "refusal": None}
CHOICE = {"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt",
    "choices": [CHOICE],
    "usage": USAGE,
}
BEHIND = "\n... raised behind: "
"""What stands between an exception and the one before it."""

CLIENTS = {
    "openai": ("OpenAI", "AsyncOpenAI"),
    "openai.lib.azure": ("AzureOpenAI", "AsyncAzureOpenAI"),
}
"""The classes whose instances are wrapped, by the module that the tests import them from."""


def wrapping(module: str, name: str) -> None:
    """Put a class in the place of one of the SDK's whose instances are wrapped.

    It is as if each test had called ``wrap``.
    """
    import strictreply  # noqa: PLC0415 - in the suites' environment only

    holder = import_module(module)
    original: Any = getattr(holder, name)

    class Wrapping(type):
        def __call__(cls, *given: Any, **keywords: Any) -> Any:
            if any(base.__module__.startswith("strictreply.") for base in cls.__mro__):
                return super().__call__(*given, **keywords)

            if cls is substitute:
                made = original(*given, **keywords)
            else:
                made = super().__call__(*given, **keywords)
            return strictreply.wrap(made)

        def __instancecheck__(cls, instance: object) -> bool:
            if cls is substitute:
                return isinstance(instance, original)
            return super().__instancecheck__(instance)

        def __subclasscheck__(cls, kind: type) -> bool:
            if cls is substitute:
                return issubclass(kind, original)
            return super().__subclasscheck__(kind)

    members = {
        "__module__": original.__module__,
        "__doc__": original.__doc__,
        "__qualname__": original.__qualname__,
    }
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
        if report.when != "call" and report.outcome == "passed":
            return

        if self.ended.get(report.nodeid) != "failed":
            self.ended[report.nodeid] = report.outcome
        if report.outcome == "failed":
            self.said.setdefault(report.nodeid, words_of(report.longrepr))


def words_of(failure: Any) -> str:
    """Return what a failure says: the exception, and behind it those during which it was raised."""
    chain = [crash for _, crash, _ in getattr(failure, "chain", ())]
    said = [crash.message[:400] for crash in reversed(chain) if crash is not None]
    return BEHIND.join(said) or str(failure)[:400]


def inside(suite: str, folder: Path, *, wrapped: bool) -> dict[str, Any]:
    """Run a suite in this process; return how each test ended."""
    import pytest  # noqa: PLC0415 - as above

    from strictreply.testing import LoopbackServer  # noqa: PLC0415 - as above

    recorder = Recorder()
    if suite == "langchain":
        os.environ["STRICTREPLY_SUITE"] = "wrapped" if wrapped else "raw"
        os.chdir(ROOT)
        pytest.main([*QUIET, *ON_LANGCHAIN, "tools/langchain_suite.py"], plugins=[recorder])
    else:
        os.chdir(folder)
        sys.path.insert(0, str(folder))

        with LoopbackServer(lambda _: ANSWER) as server:
            os.environ["TEST_API_BASE_URL"] = server.base_url
            if wrapped:
                for module, names in CLIENTS.items():
                    for name in names:
                        wrapping(module, name)

            pytest.main([*QUIET, *GUARDED], plugins=[recorder])

    return {"ended": recorder.ended, "said": recorder.said}


def source_tests(folder: Path, python: Path) -> Path:
    """Take openai-python's source distribution: as the lock pins it, else as installed.

    Return the folder that holds its tests.
    """
    required = pinned() if python == PYTHON else f"openai=={version_of('openai', python)}"
    (folder / "openai.txt").write_text(required, encoding="utf-8")
    download = shlex.split("""
        -m pip download --quiet --no-deps --no-binary openai --no-build-isolation
        --requirement openai.txt
    """)
    subprocess.run([python, *download], cwd=folder, check=True)

    (archive,) = folder.glob("openai-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")

    return folder / archive.name.removesuffix(".tar.gz")


def pinned() -> str:
    """Return the lines of the lock that pin openai; their hashes make pip require them."""
    lock = LOCK.read_text(encoding="utf-8")
    found = re.search(r"^openai==.*(?:\n +--hash=.*)+", lock, re.MULTILINE)
    if found is None:
        raise LookupError(f"{LOCK} pins no openai")

    return found[0]


def version_of(name: str, python: Path) -> str:
    """Return the version of a distribution in an environment."""
    asked = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.check_output([python, "-c", asked], text=True).strip()


def outside(suite: str, folder: Path, way: str, python: Path) -> dict[str, Any]:
    """Run a suite in its environment; raise RuntimeError when it gives no results."""
    print(f"running {suite} on the {way} client ...", file=sys.stderr)
    chosen: list[str | Path] = ["--inside", suite, "--folder", folder, "--way", way]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [python, __file__, *chosen],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError(
            f"{suite}, {way}: ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )

    results: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return results


def passed(results: Mapping[str, Any]) -> set[str]:
    """Return the tests that passed."""
    return {test for test, outcome in results["ended"].items() if outcome == "passed"}


def explained(test: str, said: str, reasons: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the first reason that names a test and the words it failed with.

    None when there is none.
    """
    name = test.partition("[")[0]
    for reason in reasons:
        if not any(fnmatchcase(name, glob) for glob in reason["tests"]):
            continue
        if re.search(reason["says"], said, re.DOTALL):
            return str(reason["reason"])

    return None


def compared(
    suite: str, raw: Mapping[str, Any], wrapped: Mapping[str, Any], reasons: list[dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """Return the rows of a suite's table, and what is wrong.

    Wrong are failures without a reason, and reasons without a failure.
    """
    good = passed(raw)
    failed = sorted(good - passed(wrapped))
    why = {test: explained(test, wrapped["said"].get(test, ""), reasons) for test in failed}
    counts = Counter(why.values())

    wrong = [] if good else [f"{suite}: no test passes on the raw client"]
    unexplained = [test for test in failed if why[test] is None]
    wrong += [f"{suite}: {test}: {wrapped['said'].get(test, 'not run')}" for test in unexplained]

    rows = [f"| {suite} | passes raw and wrapped | {len(good) - len(failed)} |"]
    for reason in (one["reason"] for one in reasons):
        rows.append(f"| {suite} | {reason} | {counts[reason]} |")
        if not counts[reason]:
            wrong.append(f"{suite}: nothing fails any more for: {reason}")

    return rows, wrong


def prepare() -> None:
    """Make the environment when it is missing, or older than its lock."""
    stamp = VENV / ".ready"
    newest = max(source.stat().st_mtime for source in (LOCK, ROOT / "pyproject.toml"))
    if not stamp.exists() or newest > stamp.stat().st_mtime:
        command: list[str | Path] = [ROOT / "tools" / "setup.sh", VENV.name, LOCK.relative_to(ROOT)]
        subprocess.run(command, cwd=ROOT, check=True)


def versions(python: Path) -> str:
    """Return the versions of what the suites come from."""
    names = ("openai", "langchain-openai", "langchain-tests")
    return ", ".join(f"{name} {version_of(name, python)}" for name in names)


def run(suites: list[str], python: Path) -> tuple[str, list[str]]:
    """Run suites on both clients; return the table, and what is wrong."""
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    if python == PYTHON:
        prepare()

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = source_tests(Path(scratch), python) if "openai" in suites else Path(scratch)
        each = [(suite, way) for suite in suites for way in ("raw", "wrapped")]
        ended = pool.map(lambda one: outside(one[0], folder, one[1], python), each)
        results = dict(zip(each, ended, strict=True))

    rows = ["| suite | | tests |", "|---|---|--:|"]
    wrong = []
    for suite in suites:
        raw = results[suite, "raw"]
        wrapped = results[suite, "wrapped"]
        more, faults = compared(suite, raw, wrapped, reasons.get(suite, []))
        rows += more
        wrong += faults

    return "\n".join([*rows, "", f"{versions(python)}, by `make suites ARGS=--write`."]), wrong


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all when none is named"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/suites.md (all suites only)"
    )
    parser.add_argument(
        "--python", type=Path, default=PYTHON, help="the Python of another environment to run in"
    )
    parser.add_argument("--inside", choices=SUITES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)

    given = parser.parse_args()
    if given.inside:
        results = inside(given.inside, given.folder, wrapped=given.way == "wrapped")
        print("\nRESULT " + json.dumps(results))
        return 0

    if unknown := [name for name in given.suites if name not in SUITES]:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")

    if given.write and (given.suites or given.python != PYTHON):
        parser.error("--write takes no choice: the page's table shows all suites, as locked")

    table, wrong = run(given.suites or list(SUITES), given.python)
    print(table)
    print(*wrong, sep="\n", file=sys.stderr)

    if given.write and not wrong:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")

    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
