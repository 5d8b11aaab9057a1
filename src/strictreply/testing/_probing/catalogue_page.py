"""The whole catalogue as a Markdown page: every fault by kind, with what the strict gate says and what is served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strictreply.testing._probing.page import KIND_WORDS
from strictreply.testing._probing.specimens import specimen
from strictreply.testing._steps import Kind
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import ANYWHERE, Entry

MAX_CHARS = 110
MAX_LINES = 5

_HEAD = """# The catalogue of malformed replies

Every fault by its name, with the output of one specimen; `tools/write_faults.py` writes this page. `strictreply faults
--show NAME` shows the same at full length, `--tools shop:TOOLS` makes it from your own tools.

```python
from strictreply.testing import faults

faults.trailing_comma(search)  # one fault, made from your own tool
faults.wrong_type(search, "limit")  # at one place of its arguments
```

*Where* says which replies can be spoiled: `call` (a native call), `union` (the JSON union in the text), `json` (a
structured answer), `prose` (plain text). What is shown is what differs from a good reply: `reads` gives a text as the
model wrote it, `=` gives JSON.
"""


def catalogue_page(tools: Sequence[object]) -> str:
    """Write the page, with specimens made from ``tools`` where that is possible."""
    sections = [_HEAD, f"{len(CATALOGUE)} faults of {len(Kind)} kinds.\n"]
    for kind in Kind:
        entries = [entry for entry in CATALOGUE.values() if entry.kind is kind]
        sections.append("\n".join(_section(kind, entries, tools)))
    return "\n".join(sections)


def _section(kind: Kind, entries: Sequence[Entry], tools: Sequence[object]) -> Iterator[str]:
    """Write one kind: a table with a row for each fault."""
    yield f"## {kind.value}: {KIND_WORDS[kind]}\n"
    yield "| fault | what is wrong | what is served | a strict gate says | where |"
    yield "|---|---|---|---|---|"
    for entry in entries:
        needs = "".join(f", with `{name}={value!r}`" for name, value in entry.needs.items())
        where = "any" if set(entry.places) == set(ANYWHERE) else ", ".join(entry.places)
        served = _served(entry, tools)
        yield f"| `{entry.name}` | {_cell(entry.summary)} | {served} | `{entry.code}` | {where}{needs} |"
    yield ""


def _served(entry: Entry, tools: Sequence[object]) -> str:
    """Write what one specimen serves, a line of code each."""
    found = specimen(entry, tools)
    lines = found.shown(MAX_CHARS).splitlines() if found else []
    return "<br>".join(_code(line) for line in lines[:MAX_LINES]) + ("<br>…" if len(lines) > MAX_LINES else "")


def _code(text: str) -> str:
    """Quote text as code within a table: the fence is longer than any run of backticks in it."""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return _cell(f"{fence}{pad}{text}{pad}{fence}")


def _cell(text: str) -> str:
    """Keep a table's cell together."""
    return text.replace("|", r"\|")
