"""Run the lanes that stand on packages of others with the newest releases of these, unlocked.

``python tools/newest.py`` makes a throw-away environment for each lane, runs it there, and prints
the versions that are locked, those that it ran with, and how it ended. Exit code 1 says that a lane
failed. ``python tools/newest.py tracers frameworks/dspy`` runs some, ``--list`` prints their names.
What a lane writes is kept under build/newest. It needs the standard library and uv.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
LOGS = ROOT / "build" / "newest"
SECONDS = 1800  # for one lane
BEAT = 15  # seconds between two lines that say what is going on
COLUMNS = ("lane", "package", "locked", "newest", "result")
TEST_TOOLS = frozenset({"editables", "hatchling", "pytest", "pytest-asyncio", "pytest-xdist"})
FAILED_TEST = r"(FAILED|ERROR) .+"
FAILED_INSTALL = r"\W*(error|cause|ERROR)\b.+|\W*Because .+"
FAILED = 1
INTERRUPTED = 130
SDK_TESTS = "python -m pytest --sdk-only -n auto --dist worksteal"


@dataclass(frozen=True, slots=True)
class Lane:
    """One environment, and the command that runs in it.

    ``requires`` is what is installed beside this project and its ``extras``. ``lock`` is the file
    under requirements/ that pins the same for every day, ``packages`` are those whose versions are
    told. ``python`` in the command is the environment's; ``fails`` is a line that tells a failure.
    """

    name: str
    requires: tuple[str, ...]
    extras: str
    lock: str
    packages: tuple[str, ...]
    command: str
    fails: str = FAILED_TEST
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a lane ended: the versions that it ran with, and the line that tells why it failed.

    ``failure`` is "" when it passed.
    """

    lane: Lane
    versions: Mapping[str, str]
    failure: str


def name_of(requirement: str) -> str:
    """Return the name of the distribution that a requirement is about."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def required(name: str) -> tuple[str, ...]:
    """Return what an .in file under requirements/ lists."""
    lines = (REQUIREMENTS / f"{name}.in").read_text(encoding="utf-8").splitlines()
    without_comments = (line.partition("#")[0].strip() for line in lines)
    return tuple(line for line in without_comments if line)


def own_lanes() -> Iterator[Lane]:
    """Yield the lanes of our own tests, and of those of others."""
    tools = tuple(one for one in required("openai2") if name_of(one) in TEST_TOOLS)
    with_instructor = (
        "tests/integrations/test_instructor*.py tests/client/test_client*.py "
        "tests/pages/test_client_page.py"
    )
    tracers = tuple(one for one in map(name_of, required("tracers")) if one not in TEST_TOOLS)

    yield Lane(
        "openai", ("openai>=3", *tools), "cli,testing", "dev", ("openai", "pydantic"), SDK_TESTS
    )
    yield Lane("openai2", required("openai2"), "cli,testing", "openai2", ("openai",), SDK_TESTS)
    yield Lane(
        "instructor",
        required("instructor"),
        "cli,testing,instructor",
        "instructor",
        ("instructor", "openai"),
        f"{SDK_TESTS} {with_instructor}",
    )
    yield Lane(
        "litellm",
        required("litellm"),
        "testing,litellm",
        "litellm",
        ("litellm", "openai"),
        "python -m pytest tests/gateways",
    )
    yield Lane(
        "tracers",
        required("tracers"),
        "cli,testing,otel",
        "tracers",
        tracers,
        "python -m pytest -n auto tests/tracers",
        environment={"STRICTREPLY_TRACERS_LANE": "1"},
    )
    yield Lane(
        "prometheus",
        required("prometheus"),
        "testing,otel",
        "prometheus",
        ("opentelemetry-exporter-prometheus", "opentelemetry-sdk", "openai"),
        "python -m pytest tests/prometheus",
        environment={"STRICTREPLY_PROMETHEUS_LANE": "1"},
    )
    yield Lane(
        "suites",
        required("frameworks/suites"),
        "testing",
        "frameworks/suites",
        ("openai", "langchain-openai", "langchain-tests"),
        "python tools/run_suites.py --python=python",
        r"(openai|langchain): .+",
    )


def framework_lanes() -> Iterator[Lane]:
    """Yield a lane for each framework, because others in its environment might hold it back."""
    programs = runpy.run_path(str(ROOT / "tools" / "run_frameworks.py"))["PROGRAMS"].values()
    together: dict[tuple[str, ...], list[Any]] = {}
    for program in programs:
        together.setdefault(program.needs or (program.library,), []).append(program)

    for needs, alike in together.items():
        modules = [program.module for program in alike]
        yield Lane(
            f"frameworks/{name_of(needs[0])}",
            needs,
            "testing",
            f"frameworks/{alike[0].environment}",
            tuple(map(name_of, needs)),
            f"python tools/run_frameworks.py --guarded --only={','.join(modules)} --python=python",
            rf"({'|'.join(modules)}): .+",
        )


def locked(lane: Lane) -> dict[str, str]:
    """Return the versions that a lane's lock pins, by name."""
    text = (REQUIREMENTS / f"{lane.lock}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def first_line(log: str, pattern: str) -> str:
    """Return the first line of a log that tells a failure; the last one where none does."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    found = (line for line in lines if re.match(pattern, line))
    return next(found, lines[-1] if lines else "it wrote nothing")


def watched(
    command: Sequence[str | Path],
    log: Path,
    told: str,
    environment: Mapping[str, str],
) -> int:
    """Run a command with its output in a file, saying that it goes on; return its exit code.

    What it started ends with it: also when it takes too long, and on Ctrl-C.
    """
    began = monotonic()
    with log.open("ab") as output:
        running = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return running.wait(BEAT)

                passed = int(monotonic() - began)
                print(f"{told}, {passed} s ...", file=sys.stderr, flush=True)
                if passed > SECONDS:
                    output.write(f"\nFAILED took over {SECONDS} s\n".encode())
                    return FAILED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def floors(lane: Lane) -> list[str]:
    """Return what is installed: nothing older than what is locked, or a resolver might go back."""
    pinned = locked(lane)
    told = [f"{name}>={pinned[name]}" for name in map(name_of, lane.requires) if name in pinned]
    return [*lane.requires, *told]


def run(lane: Lane, folder: Path, told: str) -> Ended:
    """Make the environment of a lane in a folder, run it there, and take it away."""
    log = LOGS / f"{lane.name.replace('/', '-')}.log"
    log.unlink(missing_ok=True)
    wanted = folder / "lane.in"
    wanted.write_text("\n".join(floors(lane)) + "\n", encoding="utf-8")
    venv = folder / "venv"
    python = venv / "bin" / "python"

    print(f"{told}: installing ...", file=sys.stderr, flush=True)
    install: list[str | Path] = [ROOT / "tools" / "setup.sh", venv, wanted, lane.extras]
    if watched(install, log, f"{told}: installing", {}):
        return Ended(lane, {}, first_line(log.read_text(errors="replace"), FAILED_INSTALL))

    versions = {name: version_of(name, python) for name in lane.packages}
    print(f"{told}: running ...", file=sys.stderr, flush=True)
    command = [re.sub(r"(^|=)python$", rf"\g<1>{python}", one) for one in shlex.split(lane.command)]
    status = watched(expanded(command), log, f"{told}: running", lane.environment)
    shutil.rmtree(venv)
    if not status:
        return Ended(lane, versions, "")
    return Ended(lane, versions, first_line(log.read_text(errors="replace"), lane.fails))


def expanded(command: Sequence[str]) -> list[str]:
    """Return a command with the files that its patterns name."""
    return [
        name
        for one in command
        for name in (sorted(map(str, ROOT.glob(one))) if "*" in one else [one])
    ]


def version_of(name: str, python: Path) -> str:
    """Return the version of a distribution in an environment."""
    asked = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.check_output([python, "-c", asked], text=True).strip()


def released(names: Sequence[str]) -> dict[str, str]:
    """Return the newest release of each package, whatever it fits together with; {} without uv."""
    found = shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")
    command = shlex.split("pip compile --quiet --no-deps --no-header --no-annotate -")
    told = subprocess.run(
        [found, *command], input="\n".join(names), capture_output=True, text=True, check=False
    )
    return dict(re.findall(r"^([\w.-]+)==(\S+)", told.stdout, re.MULTILINE))


def rows(ended: Ended, newest: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield a row of the table for each package of a lane."""
    pinned = locked(ended.lane)
    for name in ended.lane.packages:
        ran = ended.versions.get(name, "not installed")
        out = newest.get(name, ran)
        is_held = ran not in (out, "not installed")
        version = f"{ran} (held back: {out} is out)" if is_held else ran
        result = f"FAILED: {ended.failure}" if ended.failure else "passed"
        yield [ended.lane.name, name, pinned.get(name, ""), version, result[:200]]


def table(all_rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in columns of the same width."""
    every = [COLUMNS, *all_rows]
    widths = [max(len(row[at]) for row in every) for at in range(len(COLUMNS))]
    padded = ((cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in every)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def run_all(
    chosen: Sequence[Lane], run_one: Callable[[Lane, Path, str], Ended] = run
) -> tuple[list[Ended], bool]:
    """Run lanes one after another; return how they ended, and whether Ctrl-C was pressed."""
    results: list[Ended] = []
    for number, lane in enumerate(chosen, start=1):
        told = f"[{number}/{len(chosen)}] {lane.name}"
        try:
            with tempfile.TemporaryDirectory(prefix="newest-") as folder:
                results.append(run_one(lane, Path(folder), told))
        except KeyboardInterrupt:
            return results, True
        except (OSError, subprocess.SubprocessError) as error:
            results.append(Ended(lane, {}, f"{type(error).__name__}: {error}"))

        said = results[-1].failure or "passed"
        print(f"{told}: {said[:200]}", file=sys.stderr, flush=True)

    return results, False


def chosen_of(names: Sequence[str], lanes: Sequence[Lane]) -> list[Lane]:
    """Return the lanes that names stand for, ``frameworks`` for all of these; all without names.

    LookupError says which name stands for none.
    """
    if not names:
        return list(lanes)

    for name in names:
        if not any(name in (lane.name, lane.name.partition("/")[0]) for lane in lanes):
            raise LookupError(f"no lane {name}; --list prints them")
    return [lane for lane in lanes if {lane.name, lane.name.partition("/")[0]}.intersection(names)]


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("lanes", nargs="*", metavar="LANE", help="some lanes; all without")
    parser.add_argument("--list", action="store_true", help="print the names of the lanes")
    given = parser.parse_args(arguments)
    lanes = [*own_lanes(), *framework_lanes()]
    if given.list:
        print(*(lane.name for lane in lanes), sep="\n")
        return 0

    try:
        chosen = chosen_of(given.lanes, lanes)
    except LookupError as error:
        parser.error(str(error))

    for one in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(one, signal.default_int_handler)

    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"What each lane writes is kept in {LOGS.relative_to(ROOT)}.", file=sys.stderr)
    results, is_interrupted = run_all(chosen)
    newest = released(sorted({name for one in results for name in one.lane.packages}))
    print(table([row for one in results for row in rows(one, newest)]))
    if is_interrupted:
        print(f"Interrupted: {len(results)} of {len(chosen)} lanes had ended.", file=sys.stderr)
        return INTERRUPTED
    return FAILED if any(one.failure for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
