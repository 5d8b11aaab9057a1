"""The example in TypeScript: its own tests, under Node, against ``strictreply serve-script``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loops import some
from support.pages import Page

pytestmark = pytest.mark.one_lane

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "typescript"
MIN_NODE = 20
OUR_FAULTS = {"EUSAGE", "EINTEGRITY"}
"""What npm says of a lock that does not fit: no reason to skip."""

NODE = shutil.which("node")
NPM = shutil.which("npm")


@pytest.fixture
def base_url() -> Iterator[str]:
    """Start the command as a process of its own; gives where it serves."""
    words = [sys.executable, "-m", "strictreply", "serve-script", "--port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().partition("served at ")[2].partition(";")[0]
        server.kill()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Copy the example, and install what its lock names; skips where that cannot be had."""
    if NODE is None or NPM is None:
        pytest.skip("node and npm are not installed")

    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().removeprefix("v").partition(".")[0]) < MIN_NODE:
        pytest.skip(f"the example needs Node {MIN_NODE}; this is {version.strip()}")

    folder = tmp_path / "typescript"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "build"))

    done = npm(
        folder, "ci", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000"
    )
    if done.returncode:
        told = re.search(r"npm (?:error|ERR!) code (\w+)", done.stderr)
        assert told is None or told[1] not in OUR_FAULTS, done.stderr
        pytest.skip(
            f"npm cannot install the packages: {told[1] if told else done.stderr.strip()[-200:]}"
        )

    return folder


def npm(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run npm in the example's folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.run(
        [NPM or "npm", *words],
        cwd=folder,
        env=kept | env,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=240,
    )


def journal(base_url: str) -> Any:
    """Read what the model was asked."""
    # It is a loopback address.
    with urllib.request.urlopen(f"{base_url}/journal", timeout=30) as answered:  # noqa: S310
        return json.load(answered)["requests"]


def test_the_example_passes_its_tests_and_a_naive_one_does_not(
    example: Path, base_url: str
) -> None:
    """``npm test`` ends with 0 and its requests are in the journal; without one of the app's checks
    it ends with 1.
    """
    done = npm(example, "test", OPENAI_BASE_URL=base_url)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = journal(base_url)
    assert {entry["path"] for entry in asked} == {"/v1/chat/completions"}
    assert {entry["request"]["tools"][0]["function"]["name"] for entry in asked} == {"search"}
    assert {"args.required", "args.type", "args.maximum"} <= {
        (entry["served"] or {}).get("code") for entry in asked
    }

    app = example / "app.ts"
    checked = app.read_text("utf-8")
    naive = checked.replace("1 <= limit && limit <= 20", "true")
    assert naive != checked

    app.write_text(naive, "utf-8")
    assert npm(example, "test", OPENAI_BASE_URL=base_url).returncode == 1


def test_the_page_prints_the_example() -> None:
    """The TypeScript in docs/testing.md stands in the example's tests."""
    (printed,) = Page.named("testing.md").blocks("ts")
    assert printed in (EXAMPLE / "app.test.ts").read_text("utf-8")


def test_the_lock_names_no_place_to_download_from() -> None:
    """The lock pins every package by its hash, and its versions are those of the package file."""
    lock = json.loads((EXAMPLE / "package-lock.json").read_text("utf-8"))
    package = json.loads((EXAMPLE / "package.json").read_text("utf-8"))
    packages = {
        path.removeprefix("node_modules/"): entry
        for path, entry in lock["packages"].items()
        if path
    }
    assert all(
        "resolved" not in entry and entry["integrity"].startswith("sha512-")
        for entry in some(packages.values())
    )

    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert packages[name]["version"] == version
