"""What the documentation site changes in pages, and what it says on each.

It changes the roles of docstrings, and links that lead out of docs/. It says the version, and where
the repository is once that is set.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>~?([^<]*)</code>")
_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\(\.\./(?:\.\./)?(?:"
    r"(?:benchmarks|examples|probes|schemas|src|tests|tools)/[^)]*"
    r"|(?:CODE_OF_CONDUCT|CONTRIBUTING|SECURITY)\.md[^)]*)\)"
)


def on_config(config: Any, **_: Any) -> Any:
    """Put the version below each page, and the repository above it, as pyproject.toml has them."""
    declared = Path(config.config_file_path).with_name("pyproject.toml").read_text("utf-8")
    package = tomllib.loads(declared)
    config.copyright = f"strictreply {package['project']['version']}"

    repository = package["tool"]["strictreply"]["project"]["repository"]
    if repository != "set me":
        config.repo_url = repository
        config.repo_name = "repository"
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave the words of links to files beside docs/, which the site does not hold."""
    return _OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show what a docstring's role names by its last part."""
    return _ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)
