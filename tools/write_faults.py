"""Write ``docs/faults.md`` from the code; a test fails while the two differ."""

from __future__ import annotations

from pathlib import Path

from strictreply.testing import Kind
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import ANYWHERE, Entry, Reading
from strictreply.testing.specimens import specimen
from strictreply.testing.survival import KIND_WORDS

MAX_CELL_CHARS = 110
MAX_CELL_LINES = 5
PAGE = Path(__file__).resolve().parents[1] / "docs" / "faults.md"

_HEAD = """# The catalogue of malformed replies

Every fault by its name, with the output of one example. `tools/write_faults.py` writes this page.
`strictreply faults --show NAME` prints an example without shortening it;
`--tools shop:TOOLS` makes it from your own tools.

```python
from strictreply.testing import faults


def search(query: str, limit: int = 5) -> None: ...  # your tool


faults.trailing_comma(search)  # one fault, made from your own tool
faults.wrong_type(search, "limit")  # at one place of its arguments
```

- *What is served* is the difference from a good reply: `reads` is followed by text as the model
  wrote it, `=` by JSON.
- *Code* is the issue code that a strict contract (`dialects="strict"`) reports.
- *By default* is what a wrapped client does with the reply without
  `dialects="strict"`. If it refuses the reply with another code, that code follows.
- *Where* lists the replies that can have the fault: `call` (a native call), `union` (the JSON
  union in the text), `json` (a structured answer), `prose` (plain text).
"""


def catalogue_page() -> str:
    """Return the page."""
    lines = [_HEAD, f"{len(CATALOGUE)} faults of {len(Kind)} kinds.\n"]
    for kind in Kind:
        lines.append(f"## {kind.value}: {KIND_WORDS[kind]}\n")
        lines += [
            "| fault | what is wrong | what is served | code | by default | where |",
            "|---|---|---|---|---|---|",
        ]

        lines += [_row(entry) for entry in CATALOGUE.values() if entry.kind is kind]
        lines.append("")

    return "\n".join(lines)


def _row(entry: Entry) -> str:
    needs = "".join(f", with `{name}={value!r}`" for name, value in entry.needs.items())
    over = ", only over Messages" if entry.api else ""
    where = "any" if set(entry.places) == set(ANYWHERE) else ", ".join(entry.places)

    shown = specimen(entry).shown(MAX_CELL_CHARS).splitlines()
    served = [_code(line) for line in shown[:MAX_CELL_LINES]]
    if len(shown) > MAX_CELL_LINES:
        served.append("…")

    what = entry.summary.replace("|", r"\|")
    verdicts = f"`{entry.code}` | {_default(entry)}"
    cells = f"{what} | {'<br>'.join(served)} | {verdicts} | {where}{needs}{over}"
    return f"| `{entry.name}` | {cells} |"


def _default(entry: Entry) -> str:
    """Return what a wrapped client does by default, with the code if it is another."""
    told, _, code = entry.by_default.partition(": ")
    if not code:
        return told

    is_same = entry.reading is Reading.REFUSED and code == entry.code
    return told if is_same else f"{told}: `{code}`"


def _code(text: str) -> str:
    """Quote text as code within a table: the fence is longer than any run of backticks in it."""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", r"\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(catalogue_page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
