"""What the documentation site changes in pages, and what it says on each.

It changes the roles of docstrings, and links that lead out of docs/. It says the version, and where
the repository is once that is set.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

_NAME = re.compile(r'(<div class="md-header__topic">\s*<span class="md-ellipsis">\s*strictreply)')
_CELL = re.compile(r"<td.*?</td>", flags=re.DOTALL)
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


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """Leave the words of links to files beside docs/, and say how a release is installed.

    There is a release when the repository is set (tools/release.py).
    """
    linked = _OUTSIDE.sub(r"\1", markdown)
    if not config.repo_url:
        return linked
    return linked.replace("pip install .  # in a checkout,", "pip install strictreply  #")


def on_page_content(html: str, **_: Any) -> str:
    """Show what a docstring's role names by its last part, and a bar in a table's code as a bar."""
    named = _ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)
    return _CELL.sub(lambda found: found[0].replace(r"\|", "|"), named)


def on_page_context(context: Any, page: Any, **_: Any) -> Any:
    """Tell the tab of a page of the reference from that of the page about the same thing."""
    if page.url.startswith("reference/") and not page.is_index:
        page.meta.setdefault("title", f"{page.title}, reference")
    return context


def on_post_page(output: str, config: Any, **_: Any) -> str:
    """Say the version beside the name, in the header."""
    number = config.copyright.removeprefix("strictreply ")
    version = f'<span class="site-version">{number}</span>'
    page, count = _NAME.subn(rf"\1 {version}", output, count=1)
    if not count:
        raise ValueError("the theme's header has changed: there is no name to put the version to")
    return page


def on_post_template(output_content: str, template_name: str, config: Any, **_: Any) -> str:
    """Say the version on the page of what is not found, too, and lead from there to the start."""
    if template_name != "404.html":
        return output_content

    there = '<p>Search above, or begin at the <a href="/index.html">start</a>.</p>'
    return on_post_page(output_content, config).replace("Not found</h1>", f"Not found</h1>{there}")
