"""Workflows, hooks, templates and policies say what the project's own files say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.loops import some
from support.workflows import (
    FOLDER,
    ROOT,
    WORKFLOWS,
    called_targets,
    jobs_of,
    matrix_values,
    rules,
    steps,
    targets_of,
)

pytestmark = pytest.mark.one_lane

PACKAGE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ADDRESSES = PACKAGE["tool"]["strictreply"]["project"]
POLICIES = [ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md"]
FORMS = [
    path for path in sorted((FOLDER / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]
WRITTEN = [
    *(path for path in sorted(FOLDER.rglob("*")) if path.is_file()),
    *POLICIES,
    ROOT / ".pre-commit-config.yaml",
    ROOT / "tools" / "release.py",
    ROOT / "docs" / "support.md",
    ROOT / "docs" / "upgrading.md",
]
KNOWN_HOSTS = {"www.contributor-covenant.org", "semver.org"}
HOST = re.compile(r"\b(?:[a-z0-9-]+\.)+(?:com|dev|io|net|org)\b")
MACHINE = re.compile(r"(?<![\w.:)~-])/(?:home|mnt|opt|root|tmp|Users|work)/")
CLASSIFIER = "Programming Language :: Python :: 3."


def by_path(path: Path) -> str:
    """Name a case by its path in the checkout."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_calls_targets_that_exist(workflow: str) -> None:
    """Each target that a workflow calls is a rule of the Makefile, and each workflow calls one."""
    targets = targets_of(workflow)
    assert targets
    assert targets <= rules()


def test_ci_calls_what_must_pass_before_a_change_goes_in() -> None:
    """CI calls each target that ``.ci/run`` calls, but the one that makes all environments."""
    needed = {*called_targets((ROOT / ".ci" / "run").read_text("utf-8"))}
    assert {"lint", "types", "test-newest", "wheel-smoke", "release-check"} <= needed
    assert needed - {"environments"} <= targets_of("ci.yml")


@pytest.mark.parametrize(
    ("script", "targets"),
    [
        ("make lint", ["lint"]),
        ("beside peers make survival ARGS=--sample", ["survival"]),
        ("make --jobs=2 lint types", ["lint", "types"]),
        (
            "make --keep-going \\\n    test-ray test-litellm || others=1",
            ["test-ray", "test-litellm"],
        ),
        ("# make nothing\nmade lint", []),
    ],
)
def test_the_targets_of_a_script(script: str, targets: list[str]) -> None:
    """Words behind ``make`` that are no options are its targets, up to an operator's variable."""
    assert [*called_targets(script)] == targets


def test_ci_runs_on_each_python_that_is_supported() -> None:
    """The tests run on the versions of the classifiers, and the oldest is the one required."""
    classified = [
        classifier.rpartition(" ")[2]
        for classifier in PACKAGE["project"]["classifiers"]
        if classifier.startswith(CLASSIFIER)
    ]
    assert matrix_values(jobs_of("ci.yml")["tests"], "python") == classified
    assert PACKAGE["project"]["requires-python"] == f">={classified[0]}"


def test_each_action_is_pinned_by_a_version() -> None:
    """An action of others stands with a version's tag, never with a branch."""
    used = [step["uses"] for step in steps() if "uses" in step]
    of_others = [name for name in used if not name.startswith("./")]
    assert of_others
    assert [name for name in of_others if not re.search(r"@v\d+(\.\d+)*$", name)] == []


def test_each_workflow_that_is_called_exists() -> None:
    """A workflow that another one calls is there, and lets itself be called."""
    called = [step["uses"] for step in steps() if step.get("uses", "").startswith("./")]
    for name in some(called):
        # YAML 1.1 reads the word `on` as true
        assert "workflow_call" in WORKFLOWS[Path(name).name][True]


def test_a_workflow_only_reads() -> None:
    """Workflows read the repository, keep no secret, and two jobs get an identity to publish by."""
    identified = {
        f"{workflow}:{name}"
        for workflow in WORKFLOWS
        for name, job in jobs_of(workflow).items()
        if job.get("permissions")
    }
    assert [one["permissions"] for one in WORKFLOWS.values()] == [{"contents": "read"}] * 4
    assert identified == {"docs.yml:deploy", "release.yml:publish"}
    assert not any("secrets." in path.read_text("utf-8") for path in WRITTEN)


def test_a_release_is_tested_and_attested() -> None:
    """What is published was built once, behind all of CI, and is attested."""
    jobs = jobs_of("release.yml")
    publishing = jobs["publish"]["steps"][-1]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["ci"]["uses"].endswith("/ci.yml")
    assert targets_of("release.yml") == {"release-ready", "release-check"}
    assert publishing["with"] == {"attestations": True}


@pytest.mark.parametrize("path", FORMS, ids=by_path)
def test_a_form_of_issues_is_complete(path: Path) -> None:
    """A form has a name, a description and fields, each with an id of its own and a label."""
    form = yaml.safe_load(path.read_text("utf-8"))
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert {"name", "description", "labels", "body"} <= set(form)
    assert fields
    assert sorted(ids) == sorted(set(ids))
    assert all(field["attributes"]["label"] for field in some(fields))


def test_the_templates_are_there() -> None:
    """There are forms for what is wrong and what is missing, and a template of pull requests."""
    assert [path.stem for path in FORMS] == ["bug", "feature"]
    assert (FOLDER / "PULL_REQUEST_TEMPLATE.md").is_file()


def test_the_hooks_are_of_our_environment() -> None:
    """What is checked before a commit runs with the pinned tools, which are those of the lock."""
    [repository] = hooks()
    lock = (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    modules = [hook["entry"].split(" ")[:3] for hook in repository["hooks"]]
    assert repository["repo"] == "local"
    assert [hook["id"] for hook in repository["hooks"]] == ["ruff-check", "ruff-format", "mypy"]
    for python, option, module in some(modules):
        assert (python, option) == (".venv/bin/python", "-m")
        assert re.search(rf"^{module}==", lock, re.MULTILINE)


def hooks() -> Any:
    """Return the repositories of hooks."""
    return yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]


@pytest.mark.parametrize("path", WRITTEN, ids=by_path)
def test_no_address_is_invented(path: Path) -> None:
    """No file names a host that is not known here, an address of mail, or a path of a machine."""
    text = path.read_text("utf-8")
    assert set(HOST.findall(text)) <= KNOWN_HOSTS
    assert not re.search(r"\w@\w+\.\w+", re.sub(r"uses: .*", "", text))
    assert not MACHINE.search(text)


def test_policies_refer_to_the_one_place_of_addresses() -> None:
    """Both policies name the table, and the address in it that they mean."""
    security, conduct = (path.read_text("utf-8") for path in POLICIES)
    assert {*ADDRESSES} == {"repository", "security-contact", "maintainers"}
    assert "`[tool.strictreply.project]`" in security
    assert "`[tool.strictreply.project]`" in conduct
    assert "`security-contact`" in security
    assert "`maintainers`" in conduct


def test_dependabot_leaves_the_locks_alone() -> None:
    """The actions are updated one by one, and the locks by ``make lock`` as a whole."""
    configured = yaml.safe_load((FOLDER / "dependabot.yml").read_text("utf-8"))
    assert [one["package-ecosystem"] for one in configured["updates"]] == ["github-actions"]
