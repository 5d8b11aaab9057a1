"""Write the tables of ``docs/servers.md`` anew from the code.

The tables are the ways of servers by server, and the forms of their errors. A test fails while page
and code differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from strictreply.wires._dialects import DIALECTS
from strictreply.wires._error_forms import ERROR_FORMS
from strictreply.wires._stream_dialects import ENVELOPE_DIALECTS, RESPONSE_DIALECTS, STREAM_DIALECTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "servers.md"
TABLES = {
    "completion": ENVELOPE_DIALECTS,
    "message": DIALECTS,
    "stream": STREAM_DIALECTS,
    "Responses": RESPONSE_DIALECTS,
}
UNNAMED = "not named"

_BEGIN = "<!-- {}: written by tools/write_servers.py -->"
_END = "<!-- end of {} -->"


def ways() -> Iterator[str]:
    """Yield the table of the ways of servers, by server."""
    by_server = defaultdict[str, list[str]](list)
    for where, rows in TABLES.items():
        for name, row in rows.items():
            for server in row.servers or (UNNAMED,):
                line = f"`{name}` | {where} | {row.sends} | {row.source}"
                by_server[server].append(line)

    yield "| server | row | in a | what the server sends | source |"
    yield "|---|---|---|---|---|"
    for server in sorted(by_server, key=lambda one: (one == UNNAMED, one.lower())):
        for line in by_server[server]:
            yield f"| {server} | {line} |"


def forms() -> Iterator[str]:
    """Yield the table of the forms of errors."""
    yield "| row | what the server sends | servers | source |"
    yield "|---|---|---|---|"
    for name, form in ERROR_FORMS.items():
        yield f"| `{name}` | {form.sends} | {', '.join(form.servers)} | {form.source} |"


def written(page: str) -> str:
    """Return a page with its tables as the code has them."""
    for name, lines in (("ways", ways()), ("forms", forms())):
        before, begin, rest = page.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END.format(name))
        table = "\n".join(lines)
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"

    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
