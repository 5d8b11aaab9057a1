"""Say what keeps a tag from being released: `make release-ready TAG=v0.2.0`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
UNSET = "set me"


def find_gaps(root: Path, tag: str) -> Iterator[str]:
    """Give, a sentence each, what is missing below ``root`` for a release of a tag."""
    declared = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    yield from find_version_gaps(root, tag, declared["project"]["version"])
    yield from find_address_gaps(declared)


def find_version_gaps(root: Path, tag: str, version: str) -> Iterator[str]:
    """Give what the tag, the version and the changelog say differently."""
    if tag != f"v{version}":
        yield f"pyproject.toml has version {version}: its tag is v{version}, not {tag or 'none'}."

    dated = re.compile(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE)
    if not dated.search((root / "CHANGELOG.md").read_text("utf-8")):
        yield f"CHANGELOG.md has no heading [{version}] with a date."


def find_address_gaps(declared: dict[str, Any]) -> Iterator[str]:
    """Give the addresses that are not set, or are set in one place of two."""
    addresses = declared["tool"]["strictreply"]["project"]
    for name, address in addresses.items():
        if address == UNSET:
            yield f"pyproject.toml has no {name} yet, in [tool.strictreply.project]."

    links = declared["project"].get("urls", {})
    if links.get("Repository", UNSET) != addresses["repository"]:
        yield "pyproject.toml has not that repository as Repository of [project.urls]."


def main() -> int:
    """Print the gaps; 1 where there are some."""
    tag = " ".join(sys.argv[1:])
    gaps = list(find_gaps(ROOT, tag))
    for gap in gaps:
        print(gap, file=sys.stderr)
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
