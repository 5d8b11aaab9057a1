"""Write the tables of the retry policy anew from the code.

They are the rows of ``POLICY`` in ``docs/reference/policy.md``, and what each budget bounds in
``docs/howto/budget.md``. A test fails while a page and the code differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from strictreply.retry._policy import (
    BUDGETS,
    POLICY,
    Case,
    End,
    NextStep,
    PolicyRow,
    as_decided,
    continued,
    corrected,
    failed,
    halted,
    resent,
)

DOCS = Path(__file__).resolve().parents[1] / "docs"
POLICY_PAGE = DOCS / "reference" / "policy.md"
BUDGETS_PAGE = DOCS / "howto" / "budget.md"

_ERRORS = {"rejected": "ReplyRejected", "halted": "ReplyHalted", "failed": "TransportFailed"}
_THEN: Mapping[Callable[[Case], NextStep], str] = {
    failed: "`TransportFailed`, named after the failure",
    halted: "`ReplyHalted`, named after the fault",
    resent: "the same request again (tier 0)",
    corrected: "a correction of the next tier",
    continued: "the paused turn is sent back, to be continued",
    as_decided: "the step that was decided before",
}
_POLICY_HEAD = "| after | about | when | what follows |\n|---|---|---|---|\n"
_BUDGETS_HEAD = "| field | default | bounds |\n|---|---|---|\n"


def policy_rows() -> Iterator[str]:
    """Yield the table of what follows which fault."""
    for row in POLICY:
        about = f"`{row.about}`" if row.about else ""
        line = f"| {', '.join(row.after)} | {about} | {row.when} | {_then(row)} |"
        yield re.sub(" +", " ", line)


def _then(row: PolicyRow) -> str:
    if isinstance(row.then, End):
        return f"`{_ERRORS[row.then.how]}`, `{row.then.reason}`"

    return _THEN[row.then]


def budget_rows(lines: list[str]) -> list[str]:
    """Return the table of what each field bounds.

    A budget that is not in ``lines`` comes last; what is said of other fields stays.
    """
    rows = list(lines)
    for budget in BUDGETS:
        place = next((at for at, line in enumerate(rows) if _is_about(line, budget.about)), None)
        named = f"`{budget.about}`" if place is None else rows[place].split("|")[1].strip()
        row = f"| {named} | {budget.default} | {budget.bounds} |"
        if place is None:
            rows.append(row)
        else:
            rows[place] = row

    return rows


def _is_about(line: str, field: str) -> bool:
    return line.startswith(f"| `{field}`")


def policy_page(page: str) -> str:
    """Return the page of the policy with its table as the code has it."""
    return _with_table(page, _POLICY_HEAD, lambda _: list(policy_rows()))


def budgets_page(page: str) -> str:
    """Return the page of the budgets with its table as the code has it."""
    return _with_table(page, _BUDGETS_HEAD, budget_rows)


def _with_table(page: str, head: str, rows: Callable[[list[str]], list[str]]) -> str:
    before, _, rest = page.partition(head)
    table, end, after = rest.partition("\n\n")
    return "".join([before, head, "\n".join(rows(table.splitlines())), end, after])


if __name__ == "__main__":
    for path, written in ((POLICY_PAGE, policy_page), (BUDGETS_PAGE, budgets_page)):
        path.write_text(written(path.read_text("utf-8")), "utf-8")
