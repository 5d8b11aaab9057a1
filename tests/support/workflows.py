"""What the workflows of ``.github`` and ``.ci/run`` do, as tests see it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github"
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((FOLDER / "workflows").glob("*.yml"))
}
TARGET = re.compile(r"[a-z][a-z0-9-]*")
_RULE = re.compile(rf"^({TARGET.pattern}):", re.MULTILINE)
_FROM_MATRIX = re.compile(r"\$\{\{ *matrix\.(\w+) *\}\}")


def jobs_of(workflow: str) -> dict[str, dict[str, Any]]:
    """Return the jobs of a workflow, by name."""
    jobs: dict[str, dict[str, Any]] = WORKFLOWS[workflow]["jobs"]
    return jobs


def steps() -> Iterator[Mapping[str, Any]]:
    """Give every step of every workflow, and every job that is another workflow."""
    for workflow in WORKFLOWS:
        for job in jobs_of(workflow).values():
            yield from job.get("steps", [job])


def targets_of(workflow: str) -> set[str]:
    """Return the targets of the Makefile that a workflow calls, those of a matrix too."""
    return {
        target
        for job in jobs_of(workflow).values()
        for step in job.get("steps", ())
        for script in scripts_of(step.get("run", ""), job)
        for target in called_targets(script)
    }


def scripts_of(script: str, job: Mapping[str, Any]) -> list[str]:
    """Return a step's script for each value of the matrix that it names."""
    named = _FROM_MATRIX.search(script)
    if named is None:
        return [script]
    values = matrix_values(job, named[1])
    return [_FROM_MATRIX.sub(value, script) for value in values]


def matrix_values(job: Mapping[str, Any], name: str) -> list[str]:
    """Return what a job's matrix has for a name, with what it includes."""
    matrix = job["strategy"]["matrix"]
    included = [one[name] for one in matrix.get("include", ()) if name in one]
    return [*matrix.get(name, ()), *included]


def called_targets(script: str) -> Iterator[str]:
    """Give the targets of each ``make`` in a shell script."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "make" in words:
            following = words[words.index("make") + 1 :]
            yield from filter(TARGET.fullmatch, following)


def rules() -> set[str]:
    """Return the targets that the Makefile has."""
    return set(_RULE.findall((ROOT / "Makefile").read_text("utf-8")))
