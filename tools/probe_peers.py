"""Run the survival probe on every app of ``probes/``, and print one table.

Each app is run in its library's own environment.

``python tools/probe_peers.py`` prints it as Markdown; ``--write`` puts it between the marker lines
of docs/survival.md; ``--sample`` tries a part of the faults with each library, and all of them with
the wrapped client. It needs the standard library only; environments that are missing, or older than
their lock, are made on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "survival.md"
BEGIN = "<!-- survival:begin -->"
END = "<!-- survival:end -->"
OUTCOMES = {
    "accepted": "accepted",
    "leaked": "leaked",
    "hung": "hung",
    "looped": "looped",
    "crashed": "crashed",
    "answered_without_tool": "answered without tool",
    "misbehaved": "misbehaved",
    "unknown": "unknown",
    "nothing": "gave nothing",
    "read": "read as meant",
    "clean": "clean error",
    "recovered": "recovered",
    "not_applicable": "not applicable",
}
"""The outcomes as the probe spells them, worst first, and how the table heads them."""


@dataclass(frozen=True, slots=True)
class Lane:
    """An environment of one lock under ``requirements/peers/``."""

    name: str

    @property
    def lock(self) -> Path:
        """The lock file, relative to the checkout."""
        return Path("requirements", "peers", f"{self.name}.txt")

    @property
    def venv(self) -> Path:
        """The environment's folder, relative to the checkout."""
        return Path(f".venv-peer-{self.name}")

    def command(self, name: str) -> str:
        """Return the path of a command of the environment."""
        return str(ROOT / self.venv / "bin" / name)

    def prepare(self) -> None:
        """Make the environment, unless it is there and newer than what it is made from."""
        stamp = ROOT / self.venv / ".ready"
        sources = (ROOT / self.lock, ROOT / "pyproject.toml")
        newest = max(source.stat().st_mtime for source in sources)
        if not stamp.exists() or newest > stamp.stat().st_mtime:
            command = [ROOT / "tools" / "setup.sh", self.venv, self.lock]
            subprocess.run(command, cwd=ROOT, check=True)

    def ask(self, expression: str) -> str:
        """Evaluate an expression with the environment's Python.

        ``version`` returns a distribution's version.
        """
        program = f"from importlib.metadata import version; import platform; print({expression})"
        command = [self.command("python"), "-I", "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True, slots=True)
class App:
    """A module of ``probes/``, the environment it runs in and the distribution it is about."""

    module: str
    lane: Lane
    library: str

    @property
    def target(self) -> str:
        """The app as it is named to the probe."""
        return f"probes.{self.module}:app"


def _apps() -> tuple[App, ...]:
    """List the apps in the table's order."""
    openai = Lane("openai")
    instructor = Lane("instructor")
    pydantic_ai = Lane("pydantic-ai")
    langchain = Lane("langchain")
    agents = Lane("openai-agents")

    return (
        App("raw_sdk", openai, "openai"),
        App("raw_sdk_stream", openai, "openai"),
        App("instructor_app", instructor, "instructor"),
        App("instructor_json", instructor, "instructor"),
        App("langchain_app", langchain, "langchain-openai"),
        App("langchain_stream", langchain, "langchain-openai"),
        App("openai_agents_app", agents, "openai-agents"),
        App("pydantic_ai_app", pydantic_ai, "pydantic-ai-slim"),
        App("pydantic_ai_stream", pydantic_ai, "pydantic-ai-slim"),
        App("wrapped", openai, "strictreply"),
        App("wrapped_deadline", openai, "strictreply"),
        App("wrapped_stream", openai, "strictreply"),
    )


APPS = {app.module: app for app in _apps()}
GUARDED = "strictreply"
SAMPLE = ("tool", "finish", "envelope")
"""The kinds of faults that a sample tries with another library: none waits for a time-out."""


class ProbeFailed(Exception):
    """The probe ended without its report."""


def probe(app: App, folder: Path, kinds: Sequence[str]) -> Mapping[str, int]:
    """Run the probe on one app, and leave its report in ``folder``.

    Without ``kinds`` all faults are tried. Return the count of each outcome.
    """
    report = folder / f"{app.module}.json"
    report.unlink(missing_ok=True)
    print(f"probing {app.target} ...", file=sys.stderr)
    command = [app.lane.command("strictreply"), "probe", "--app", app.target, "--json", str(report)]
    command += [word for kind in kinds for word in ("--kind", kind)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    # Its status tells whether the app survived, which is for the table to say; a report there must
    # be.
    if not report.is_file():
        said = (done.stdout + done.stderr)[-2000:]
        raise ProbeFailed(f"{app.target}: no report, status {done.returncode}\n{said}")

    outcomes = json.loads(report.read_text(encoding="utf-8"))["outcomes"]
    if unknown := sorted(outcomes.keys() - OUTCOMES.keys()):
        raise ProbeFailed(
            f"{app.target}: the table has no column for {', '.join(unknown)}; add them to OUTCOMES"
        )

    return {name: int(outcomes.get(name, 0)) for name in OUTCOMES}


def row(app: App, outcomes: Mapping[str, int]) -> list[str]:
    """Return the cells of one app."""
    library = f"{app.library} {app.lane.ask(f'version({app.library!r})')}"
    link = f"[`{app.module}`](../probes/{app.module}.py)"
    return [link, library, app.lane.ask("version('openai')"), *map(str, outcomes.values())]


def table(results: Sequence[tuple[App, Mapping[str, int]]]) -> str:
    """Return the dated table as Markdown."""
    lane = results[0][0].lane
    python = lane.ask("platform.python_version()")
    strictreply = lane.ask("version('strictreply')")

    # A recovery is counted beside its run's outcome.
    faults = sorted({sum(outcomes.values()) - outcomes["recovered"] for _, outcomes in results})

    head = ["app", "library", "openai", *OUTCOMES.values()]
    rules = ["---"] * 3 + ["--:"] * len(OUTCOMES)
    rows = [head, rules, *(row(app, outcomes) for app, outcomes in results)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]

    # The libraries send different schemas of the one tool, so the apps need not see equally many
    # faults.
    count = str(faults[0]) if len(faults) == 1 else f"{faults[0]} to {faults[-1]}"
    machine = f"{platform.system()} {platform.machine()}"
    facts = f"{count} faults an app, strictreply {strictreply}, Python {python}, {machine}"
    made = f"{datetime.now(tz=UTC):%Y-%m-%d}, by `python tools/probe_peers.py --write`: {facts}."
    return "\n".join([*lines, "", made])


def placed(page: str, text: str) -> str:
    """Return the page with the text between its marker lines.

    Raises ValueError unless each of these is there once, in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}, once each and in this order")
    return f"{before}{begin}\n{text}\n{end}{after}"


def run(
    apps: Iterable[App], folder: Path, jobs: int, *, sample: bool
) -> list[tuple[App, Mapping[str, int]]]:
    """Prepare the environments, then probe the apps, ``jobs`` at a time."""
    apps = list(apps)
    for lane in dict.fromkeys(app.lane for app in apps):
        lane.prepare()

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        kinds = [SAMPLE if sample and app.library != GUARDED else () for app in apps]
        outcomes = pool.map(lambda app, some: probe(app, folder, some), apps, kinds)
        return list(zip(apps, outcomes, strict=True))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "apps", nargs="*", metavar="APP", help=f"of {', '.join(APPS)}; all when none is named"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/survival.md (all apps only)"
    )
    parser.add_argument(
        "--sample", action="store_true", help=f"try {', '.join(SAMPLE)} faults with other libraries"
    )
    parser.add_argument(
        "--reports",
        type=Path,
        metavar="FOLDER",
        help="keep the probe's JSON report of each app here",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="apps probed at a time (%(default)s)"
    )

    given = parser.parse_args()
    if unknown := [name for name in given.apps if name not in APPS]:
        parser.error(f"no such app: {', '.join(unknown)}; there are {', '.join(APPS)}")

    if given.write and (given.apps or given.sample):
        parser.error("--write takes no apps and no sample: the page's table shows all of them")

    return given


def main() -> None:
    """Do what the command line says."""
    given = arguments()
    page = PAGE.read_text(encoding="utf-8") if given.write else None
    if page is not None:
        placed(page, "")  # a page without its markers is found before the long run, not after

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given.reports or scratch).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        apps = [APPS[name] for name in given.apps or APPS]
        text = table(run(apps, folder, given.jobs, sample=given.sample))

    if page is not None:
        PAGE.write_text(placed(page, text), encoding="utf-8")

    print(text)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, ProbeFailed, subprocess.CalledProcessError) as error:
        sys.exit(f"probe_peers: {error}")
