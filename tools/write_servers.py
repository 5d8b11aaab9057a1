"""Write the tables of the ways of servers anew from the code.

``docs/servers.md`` has them by server, and the forms of errors; ``docs/verdicts.md`` has what is
read in their place, row by row. A test fails while a page and the code differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from strictreply.wires._dialects import DIALECTS, Dialect
from strictreply.wires._error_forms import ERROR_FORMS
from strictreply.wires._stream_dialects import (
    ENVELOPE_DIALECTS,
    MESSAGE_DIALECTS,
    RESPONSE_DIALECTS,
    STREAM_DIALECTS,
)

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "servers.md"
READINGS_PAGE = DOCS / "verdicts.md"
TABLES = {
    "completion": ENVELOPE_DIALECTS,
    "message": DIALECTS,
    "stream": STREAM_DIALECTS,
    "Responses": RESPONSE_DIALECTS,
    "Messages": MESSAGE_DIALECTS,
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


def readings(sends: str, *tables: Mapping[str, Dialect]) -> Iterator[str]:
    """Yield a table of what is read in place of what a server ``sends``."""
    yield f"| name | what the server {sends} | what is read | source |"
    yield "|---|---|---|---|"
    for rows in tables:
        for name, row in rows.items():
            yield f"| `{name}` | {row.sends} | {row.becomes} | {row.source} |"


def written(page: str) -> str:
    """Return the page of servers with its tables as the code has them."""
    return _with_tables(page, {"ways": ways(), "forms": forms()})


def readings_page(page: str) -> str:
    """Return the page of verdicts with its tables as the code has them."""
    tables = {
        "messages": readings("sends", ENVELOPE_DIALECTS, DIALECTS),
        "streams": readings("streams", STREAM_DIALECTS),
        "responses": readings("streams", RESPONSE_DIALECTS),
        "anthropic": readings("streams", MESSAGE_DIALECTS),
    }
    return _with_tables(page, tables)


def _with_tables(page: str, tables: Mapping[str, Iterable[str]]) -> str:
    for name, lines in tables.items():
        before, begin, rest = page.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END.format(name))
        table = "\n".join(lines)
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"

    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
    READINGS_PAGE.write_text(readings_page(READINGS_PAGE.read_text("utf-8")), "utf-8")
