"""What keeps a tag from being released, and what the site says of the version."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.pages import DOCS

pytestmark = pytest.mark.one_lane

TOOLS = DOCS.parent / "tools"
RELEASE = runpy.run_path(str(TOOLS / "release.py"))
HOOKS = runpy.run_path(str(TOOLS / "site_hooks.py"))
REPOSITORY = "https://code.example/strictreply"
PACKAGE = """
[project]
version = "0.2.0"
[project.urls]
Repository = "{linked}"
[tool.strictreply.project]
repository = "{repository}"
maintainers = "{maintainers}"
"""


def checkout(
    folder: Path, *, day: str = "2026-12-31", linked: str = REPOSITORY, **addresses: str
) -> Path:
    """Write what a release is judged by."""
    told = {"repository": REPOSITORY, "maintainers": "Ann", **addresses}
    (folder / "pyproject.toml").write_text(PACKAGE.format(linked=linked, **told), "utf-8")
    (folder / "CHANGELOG.md").write_text(f"## [0.2.0] - {day}\n", "utf-8")
    return folder


def test_a_complete_release(tmp_path: Path) -> None:
    """A tag of the version is released once the changelog has its day and no address is unset."""
    assert [*RELEASE["find_gaps"](checkout(tmp_path), "v0.2.0")] == []


@pytest.mark.parametrize("tag", ["v0.2.1", "0.2.0", ""])
def test_another_tag_is_refused(tmp_path: Path, tag: str) -> None:
    """A tag that is not that of the version is a gap."""
    assert len([*RELEASE["find_gaps"](checkout(tmp_path), tag)]) == 1


def test_a_version_without_a_day_is_refused(tmp_path: Path) -> None:
    """A changelog that calls the version unreleased is a gap."""
    gaps = RELEASE["find_gaps"](checkout(tmp_path, day="unreleased"), "v0.2.0")
    assert len([*gaps]) == 1


@pytest.mark.parametrize(
    ("repository", "maintainers", "linked", "count"),
    [
        (REPOSITORY, "set me", REPOSITORY, 1),
        ("set me", "set me", REPOSITORY, 3),
        (REPOSITORY, "Ann", f"{REPOSITORY}-old", 1),
    ],
)
def test_an_unset_address_is_a_gap(
    tmp_path: Path, repository: str, maintainers: str, linked: str, count: int
) -> None:
    """Each address that says "set me" is a gap, and a link that is not the repository is one."""
    root = checkout(tmp_path, repository=repository, maintainers=maintainers, linked=linked)
    assert len([*RELEASE["find_gaps"](root, "v0.2.0")]) == count


def site(folder: Path) -> SimpleNamespace:
    """Return what the site's configuration becomes below a folder."""
    config = SimpleNamespace(config_file_path=str(folder / "mkdocs.yml"), repo_url=None)
    HOOKS["on_config"](config)
    return config


def test_the_site_says_its_version(tmp_path: Path) -> None:
    """Each page has the version, and a link to the repository that is set."""
    config = site(checkout(tmp_path))
    assert config.copyright.split(" ") == ["strictreply", "0.2.0"]
    assert config.repo_url == REPOSITORY


def test_the_site_invents_no_repository(tmp_path: Path) -> None:
    """A repository that is not set is no link."""
    assert site(checkout(tmp_path, repository="set me")).repo_url is None


@pytest.mark.parametrize(
    ("repository", "line"), [("set me", "pip install ."), (REPOSITORY, "pip install strictreply")]
)
def test_the_home_page_says_how_to_install(tmp_path: Path, repository: str, line: str) -> None:
    """Before a release it is installed from a checkout, then by its name."""
    home = (DOCS / "index.md").read_text("utf-8")
    config = site(checkout(tmp_path, repository=repository))
    assert f"$ {line}  #" in HOOKS["on_page_markdown"](home, config=config)
