"""What the documentation site changes in pages.

That is the roles of docstrings, and links that lead out of docs/.
"""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>~?([^<]*)</code>")
_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\(\.\./(?:\.\./)?(?:benchmarks|examples|probes|schemas|src|tests|tools)/[^)]*\)"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave the words of links to files beside docs/, which the site does not hold."""
    return _OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show what a docstring's role names by its last part."""
    return _ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)
