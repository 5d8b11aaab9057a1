"""Writes ``results.md``, and the cost tables of docs/evidence.md and docs/guide.md.

Everything comes from ``results.json``, including verdicts and sentences, so that no page can
disagree with it; a test checks that. ``python benchmarks/report.py`` rewrites the pages;
``tools/draw_charts.py`` draws the charts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from results import (
    CURVE,
    IDLE,
    MEMORY,
    MILLI,
    ROOT,
    SESSION,
    SOCKETS,
    STREAMS,
    Line,
    Results,
    cell,
    cells,
    shown_ratio,
    shown_seconds,
    table,
)
from targets import TARGETS

PAGE = ROOT / "benchmarks" / "results.md"
OURS = ("reply", "reply, dict tool", "create")


@dataclass(frozen=True, slots=True)
class Section:
    """A table of ratios: its heading, a sentence, and its rows."""

    heading: str
    words: str
    rows: tuple[str, ...]

    def text(self, results: Results) -> str:
        """Return the section."""
        rows = []
        for row in self.rows:
            raw = results.seconds(row, "raw")
            shown = "-" if raw is None else shown_seconds(raw)
            rows.append([row, shown, *cells(results, row, shown_ratio)])

        return f"## {self.heading}\n\n{self.words}\n\n{table(['', 'raw', *results.ways], rows)}"


SECTIONS = (
    Section(
        "One call",
        "A valid reply. *Small*: two short messages and one tool of two fields, as "
        "`create(messages=…, tools=…)`. *Realistic*: a system prompt, `temperature`, a named "
        "`tool_choice`, and a tool of ten fields. A library that is only async runs an event loop "
        "in its sync call; that time counts as the library's.",
        ("small", "small, async", "realistic", "realistic, async"),
    ),
    Section(
        "A reply that has to be retried",
        "The first reply has a field of the wrong type; the ratio is to two raw calls. Three "
        "wrong replies end with the library's error; the ratio is to three raw calls.",
        (
            "small, one retry",
            "small, one retry, async",
            "realistic, one retry",
            "realistic, one retry, async",
            "three wrong replies",
        ),
    ),
    Section(
        "Tools and messages",
        "The small call with this many tools declared, or at the end of this many messages of 200 "
        "characters.",
        (
            "1 tool",
            "50 tools",
            "200 tools",
            "1,000 tools",
            "2 messages",
            "200 messages",
            "1,000 messages",
        ),
    ),
    Section(
        "Large arguments",
        "A list of objects of three fields. The raw SDK does not read the arguments at all, so "
        "compare with `raw, then pydantic by hand`.",
        ("1 kB of arguments", "100 kB of arguments", "0.9 MB of arguments", "4 MB of arguments"),
    ),
    Section(
        "Under a tracer",
        "A function patched over the SDK's `create` stores request and completion as text, also in "
        "the raw column.",
        ("small, traced", "realistic, traced"),
    ),
    Section(
        "1,000 concurrent calls",
        "The small call a thousand times in `asyncio.gather`, against a server that takes 20 ms "
        "per call: wall time of all calls, and p99 of one call. In memory, and over a thousand "
        "sockets to a server process on the same machine.",
        (f"{MEMORY}: wall", f"{MEMORY}: p99", f"{SOCKETS}: wall", f"{SOCKETS}: p99"),
    ),
    Section(
        "A turn of the tool loop",
        "Three calls of a tool, one after the other, and an answer; the raw side sends the same "
        "four requests.",
        ("tool loop", "tool loop, async"),
    ),
    Section(
        "A stream",
        "The stream calls a tool. It is read to its end, and the arguments are validated.",
        STREAMS,
    ),
)

OWN = (
    "1 kB: dict / json.loads",
    "1 kB: typed / pydantic",
    "100 kB: dict / json.loads",
    "100 kB: typed / pydantic",
    "0.9 MB: dict / json.loads",
    "0.9 MB: typed / pydantic",
    "4 MB: dict / json.loads",
    "4 MB: typed / pydantic",
    "LangGraph step",
    "durable turn",
    SESSION,
)


def results_page(results: Results) -> str:
    """Return ``results.md``."""
    return "\n\n".join([*_opening(results), *_tables(results), *_more(results)]) + "\n"


def _opening(results: Results) -> Iterator[str]:
    about = results.about
    yield "# What a validated call costs"
    yield (
        f"Measured by `{about['command']}` on {about['date']}, in {about['took']}. Machine: "
        f"{about['machine']}; load {about['load']}."
    )

    yield (
        "Each library runs in its own locked environment (`requirements/bench/`), with the real "
        "SDK on an in-memory transport, and gets the same canned replies.\n\n"
        "- A figure is the CPU time of one call, divided by that of the raw SDK's call in the same "
        "process. 1.00 is the raw call, which validates nothing.\n"
        "- It is the median over rounds of interleaved blocks, after a warm-up. The garbage is "
        "collected before each block.\n"
        "- `raw` is the time of the raw call in strictreply's environment.\n"
        "- `-` means that there is no figure, with the reason in brackets if one is known."
    )
    versions = [
        [name, ", ".join(f"{library} {version}" for library, version in found.items())]
        for name, found in results.environments.items()
    ]
    yield f"## Versions\n\n{table(['environment', 'libraries'], versions)}"


def _tables(results: Results) -> Iterator[str]:
    rows = [target.cells(results) for target in TARGETS]
    met = sum(row[3] == "met" for row in rows)
    shown = table(["", "measured", "target", ""], rows)
    yield f"## Targets\n\n{met} of {len(rows)} are met.\n\n{shown}"
    yield _malformed(results)
    yield from (section.text(results) for section in SECTIONS)
    yield _own(results)
    yield _tokens(results)
    yield _memory(results)


def _malformed(results: Results) -> str:
    told = {
        (line["malformed"], line["peer"]): line["outcome"]
        for line in results.lines
        if "malformed" in line
    }
    faults = list(dict.fromkeys(fault for fault, _ in told))
    rows = [[way, *(told.get((fault, way), "-") for fault in faults)] for way in results.ways]

    return (
        "## What each library validates\n\n"
        "The first reply of the small call is malformed, the second is valid. The table shows how "
        "each library handled the first:\n\n"
        f"{table(['', *faults], rows)}"
    )


def _own(results: Results) -> str:
    rows = []
    for row in OWN:
        line = results.line(row, "reply")
        plain = results.seconds(row, "raw")
        ours = [cell(line, lambda line: shown_seconds(line["seconds"])), cell(line, shown_ratio)]
        rows.append([row, "-" if plain is None else shown_seconds(plain), *ours])

    idle = results.line(IDLE, "reply")
    rows.append([IDLE, "-", cell(idle, lambda line: shown_seconds(line["seconds"])), "-"])

    return (
        "## What only strictreply does\n\n"
        "Each is compared with the plain way to do the same:\n\n"
        "- `Contract.check` of a message, with the parser of its arguments;\n"
        "- an agent's turn, judged and routed, with a plain LangGraph node over the raw SDK;\n"
        "- a durable turn of three calls and an answer, with a plain DBOS workflow of as many "
        "steps, both from a queue;\n"
        "- a turn with a session, with one without.\n\n"
        f"{table(['', 'plain', 'strictreply', 'ratio'], rows)}"
    )


def _tokens(results: Results) -> str:
    rows = []
    for ask, counted in results.tokens.items():
        added = [f"{ask}: added to the messages"]
        whole = [f"{ask}: whole request, first → second"]
        for way in results.ways:
            found = counted.get(way)
            added.append("-" if found is None else str(round(found[1] - found[0])))
            whole.append("-" if found is None else f"{found[2]} → {found[3]}")

        rows += [added, whole]

    return (
        "## Tokens that one retry adds\n\n"
        "One field of the reply was wrong. The rows count the messages, and the whole request as "
        f"JSON. {results.about['tokens']}.\n\n"
        f"{table(['', *results.ways], rows)}"
    )


def _memory(results: Results) -> str:
    def kib(line: Line) -> str:
        return f"{line['kib']:.1f}"

    rows = []
    for row in ("memory of a client", "memory of a tool", "memory of a kept exchange"):
        raw = results.line(row, "raw")
        rows.append([f"{row}, KiB", kib(raw) if raw else "-", *cells(results, row, kib)])

    base = results.line("import", "raw")
    imports: dict[str, Callable[[Line], str]] = {
        "CPU ms": lambda line: f"{line['seconds'] * MILLI:.0f}",
        "MiB": lambda line: f"{line['mib']:.0f}",
    }
    for unit, show in imports.items():
        shown = show(base) if base else "-"
        rows.append([f"import, {unit}", shown, *cells(results, "import", show)])

    return (
        "## Memory and import\n\n"
        "By `tracemalloc`:\n\n"
        "- a client with one tool, after a call;\n"
        "- a tool of two fields, declared together with others;\n"
        "- what stays in memory of a call at the end of 200 messages, without the caller's own "
        "messages.\n\n"
        "The import is measured in a fresh process and includes the SDK's; its memory is the "
        "process's peak.\n\n"
        f"{table(['', 'raw', *results.ways], rows)}"
    )


def _more(results: Results) -> Iterator[str]:
    """Report the results of the batch and of the proxy, which are measured by other programs."""
    if results.batch:
        rows = [
            [_label(name), f"{value:,}" if isinstance(value, int) else str(value)]
            for name, value in results.batch.items()
            if name != CURVE
        ]
        yield (
            "## A million rows\n\n"
            "`python benchmarks/batch.py --rows 1000000`: `strictreply batch` compared with a bare "
            "asyncio loop over the raw SDK.\n\n"
            f"{table(['', 'measured'], rows)}\n\n"
            "![Memory over the rows](../docs/batch-memory.svg)"
        )

    if results.proxy:
        yield (
            "## LiteLLM's proxy\n\n"
            "`make bench-litellm`: the proxy alone and with the guard, in milliseconds.\n\n"
            f"{results.proxy}"
        )


def _label(name: str) -> str:
    """Return the label for a member of ``batch.json``."""
    label = "other load" if name == "beside" else name.replace("ours", "strictreply")
    return label.replace("_", " ")


def placed(page: str, name: str, text: str) -> str:
    """Return the page with the text between its marker lines.

    Raises ValueError unless each marker is there exactly once.
    """
    begin = f"<!-- {name}:begin -->"
    end = f"<!-- {name}:end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed or begin in rest or end in before + after:
        raise ValueError(f"the page needs the lines {begin} and {end}, once each and in this order")
    return f"{before}{begin}\n{text}\n{end}{after}"


SHORT = {
    "reply": "**strictreply**",
    "instructor": "instructor",
    "pydantic-ai": "pydantic-ai",
    "LangChain agent": "LangChain agent",
    "openai-agents": "openai-agents",
    "mirascope": "mirascope",
}
"""The libraries that retry, as the pages name them."""

SHORT_ROWS = {
    "realistic": "a valid reply",
    "realistic, one retry": "a retried reply, against two raw calls",
    "200 tools": "with 200 tools",
}


def short_table(results: Results) -> str:
    """Return the few ratios that docs/evidence.md shows."""
    ways = [way for way in SHORT if way in results.ways]
    rows = []
    for row, words in SHORT_ROWS.items():
        found = [cell(results.line(row, way), shown_ratio) for way in ways]
        rows.append([words, f"**{found[0]}**", *found[1:]])
    return table(["CPU time relative to the raw SDK", *(SHORT[way] for way in ways)], rows)


def costs_of_a_call(results: Results) -> list[float]:
    """Return what a validated call costs in raw calls, small and realistic, as far as measured."""
    found = (results.ratio(row) for row in ("small", "realistic"))
    return [ratio for ratio in found if ratio is not None]


def shown_range(found: Sequence[float]) -> str:
    """Write the lowest and the highest of some ratios."""
    low = f"{min(found):.2f}"
    high = f"{max(found):.2f}"
    return low if low == high else f"{low} to {high}"


def claim(results: Results) -> str:
    """Return one sentence on the measured cost of a validated call."""
    found = costs_of_a_call(results)
    if not found:
        return "What a validated call costs was not measured."

    times = shown_range(found)
    if max(found) < 1:
        return (
            "A validated call costs less CPU than an unvalidated one: "
            f"{times} times the raw call of the same run."
        )

    return (
        f"A validated call costs {times} times the CPU of an unvalidated one, "
        "the raw call of the same run."
    )


def source(results: Results) -> str:
    """Return where the figures of a page come from: command, date and machine."""
    return f"`{results.about['command']}`, {results.about['date']}, {results.about['machine']}"


def evidence_block(results: Results) -> str:
    """Return the cost lines of docs/evidence.md."""
    cost = f"{claim(results)} {source(results)}; [all figures](../benchmarks/results.md)."
    return f"{cost}{_of_rows(results)}\n\n{short_table(results)}"


def _of_rows(results: Results) -> str:
    """Return the sentence on many rows; empty where they were not measured."""
    if not results.batch:
        return ""

    rows = f"{results.batch['rows']:,}"
    most = max(megabytes for _, megabytes in results.batch[CURVE])
    return (
        f" `strictreply batch` processes {rows} rows (`python benchmarks/batch.py --rows "
        f"{rows.replace(',', '')}`) at {results.batch['ratio_of_rates']} times the rate of a bare "
        f"loop over the SDK, in {most:.0f} MB."
    )


GUIDE_ROWS = (
    "small",
    "realistic",
    "small, one retry",
    "realistic, one retry",
    "small, traced",
    "200 tools",
    "200 messages",
    "tool loop",
    *STREAMS,
)
CHECKED = {
    "1 kB: dict / json.loads": "as long as `json.loads`",
    "0.9 MB: dict / json.loads": "as long",
}


def guide_block(results: Results) -> str:
    """Return the cost table and charts of docs/guide.md."""
    ways = [way for way in OURS if way in results.ways]
    rows = [
        [row, *(cell(results.line(row, way), shown_ratio) for way in ways)] for row in GUIDE_ROWS
    ]

    checks = []
    for row, of in CHECKED.items():
        if (ratio := results.ratio(row)) is not None:
            checks.append(f"{ratio:.2f} times {of} for {row.partition(':')[0]}")

    return (
        f"{claim(results)} {source(results)}. The figures are CPU time divided by that of the raw "
        "call; a retry is compared with two raw calls, a tool loop with four ([every row, and the "
        "other libraries](../benchmarks/results.md)):\n\n"
        f"{table(['', *ways], rows)}\n\n"
        "![One call, compared with other libraries](costs.svg)\n\n"
        "![One reply that is retried](costs-retry.svg)\n\n"
        f"Reading and checking a reply's arguments takes {' and '.join(checks)}."
    )


def pages(results: Results) -> dict[Path, str]:
    """Return the new text of each page."""
    docs = ROOT / "docs"
    blocks = {docs / "evidence.md": evidence_block, docs / "guide.md": guide_block}
    written = {
        path: placed(path.read_text(encoding="utf-8"), "costs", made(results))
        for path, made in blocks.items()
    }
    return {PAGE: results_page(results), **written}


def write(results: Results) -> None:
    """Write the pages."""
    for path, text in pages(results).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Results.read())
