"""Write ``docs/reference/codes.md`` anew from the code.

A test fails while the two differ, or a code has no words.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from strictreply import Code, Contract, Reason, Remedy
from strictreply.batch import ROW_CODES
from strictreply.coordination import AgentReplyCode, CoordinationCode
from strictreply.core.text import Worded
from strictreply.loop.invoke_result import InvokeCode
from strictreply.schema import SchemaRule
from strictreply.testing import Asked
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.specimens import SAMPLES, Specimen, excerpt, specimens

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "codes.md"
MAX_CAME = 160  # characters of a place
MAX_ASKED = 1_200
WIDTH = 78  # columns of a block

_HEAD = """# Issue codes

Every fault of a reply has a stable code, a category and a place. \
Programs match on `issue.code` and `issue.category`;
the words of `issue.message` may change. \
`tools/write_codes.py` writes this page from the code, with what a real run of
the loop sends.

| what the loop does | with |
|---|---|
| **corrects**: retries, saying what to change | most codes |
| **shortens**: retries with more tokens, or for a shorter reply | `reply.truncated` |
| **resends** the same request: it is the server's fault, not the model's \
| `reply.broken_off`, the other `envelope.*` |
| **stops**: a retry would not help; `ReplyHalted` is raised immediately \
| `reply.refusal`, `reply.content_filter`, `envelope.ambiguous` |

*reply* shows where the reply differs from a valid one, *sent* the correction. \
Codes that begin with `args.` are about the
arguments of a call. \
If a structured answer breaks the same rule, the code begins with `answer.` instead.
"""

_ROWS = """## Codes of rows

For [batches](../batch.md): these stand in the column `issues`, next to the codes of replies. \
The last issue of a row
says why the row has no result.

| code | message |
|---|---|"""

_OWN_RULES = """## Your own rules

These codes follow after the schema has accepted a value. \
Both are *FORMAT_ERROR*
and are corrected. Your check may also report codes of its own.

| code | when |
|---|---|
| `args.check`, `answer.check` | A validator of your pydantic model, or the `check` of a tool, \
raised ValueError. Its text is the message: make it say what to change. |
| `args.not_representable`, `answer.not_representable` | The declared type would change the value \
(round it, merge keys, drop a member), so your code would not get what the model wrote. |
"""

_DOES = {
    Remedy.CORRECT: "corrects",
    Remedy.SHORTEN: "shortens",
    Remedy.RESEND: "resends",
    Remedy.STOP: "stops",
}

_FAMILY_TO_DO = {
    "json": (
        "Nothing, if it is rare. If a model does it often, use native tool calls in place of the "
        "text channel, or `extraction=` to accept JSON with text around it."
    ),
    "shape": (
        "Nothing, if it is rare. If a model does it often in the text channel, and the endpoint "
        'supports tool calls, pass `channel="native"`.'
    ),
    "tool": (
        "State in each tool's description when to call it, and give tools names that differ "
        "clearly."
    ),
    "call": "Check the server: it does not write calls as the API specifies.",
    "reply": "Check the server, or the model's template.",
    "envelope": "Check the server, and any gateway in between: it sent no response of this API.",
    "args": (
        "State the rule in the schema (a type, an enum, a description): the model reads it with "
        "every request."
    ),
}
"""What a reader should do about a code whose row has no advice, by the family of the code."""


def codes_page() -> str:
    """Return the page."""
    lines = [_HEAD]
    rules = [(f"args.{rule.value}", rule) for rule in SchemaRule]
    families: dict[str, list[tuple[str, Worded]]] = {}

    for code, worded in [*((code.value, code) for code in Code), *rules]:
        families.setdefault(code.partition(".")[0], []).append((code, worded))

    for family, members in families.items():
        lines.append(f"## {family}\n")
        for code, worded in members:
            lines += _section(code, worded)

    lines.append(_OWN_RULES)
    lines.append("## Agents\n")
    lines.append(
        "Faults of agents' replies, declarations and states; replies with them are corrected.\n"
    )
    lines += _table([*AgentReplyCode, *CoordinationCode])
    lines.append("## Pipeline\n")
    lines.append(
        "Faults of steps and their contexts, by the published rules; "
        "none is about a model's reply.\n"
    )
    lines += _table(InvokeCode)

    lines.append(_ROWS)
    lines += [f"| `{code}` | {_ended(words)} |" for code, words in ROW_CODES.items()]
    ends = ", ".join(f"`{reason}`" for reason in Reason)
    lines.append(
        "| `call.<reason>` | Why the call ended: the `reason` of the exception, "
        f"such as {ends}. |\n"
    )
    return "\n".join(lines)


def _section(code: str, worded: Worded) -> Iterator[str]:
    yield f"### `{code}`\n"
    yield f"{_words(worded)} *{worded.category}*, {_DOES[worded.remedy]}.\n"

    found = _specimen(code)
    if found is None:
        if not worded.guidance.comes:
            raise SystemExit(
                f"{code}: no fault of the kit provokes it; "
                "add one, or say in its row when it comes: Guidance(comes=…)"
            )

        yield f"{worded.guidance.comes}\n"
    else:
        differing = excerpt(found.fault.served, found.target.clean, MAX_CAME).splitlines()
        asked = _asked(found)
        yield "```text"
        yield from _shown("reply", differing[:3])
        yield from _shown("sent", asked)
        yield "```\n"

    yield f"**To do.** {_to_do(code, worded)}\n"


def _shown(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Set lines beside their name, each wrapped; what is continued is indented by two more."""
    for number, line in enumerate(lines):
        begin = f"{'' if number else name:7}"
        yield from textwrap.wrap(
            line,
            WIDTH,
            initial_indent=begin,
            subsequent_indent=" " * 9,
            break_on_hyphens=False,
        ) or [begin.rstrip()]


def _to_do(code: str, worded: Worded) -> str:
    """Return what a reader should do about a code."""
    told = worded.guidance.to_do or _FAMILY_TO_DO.get(code.partition(".")[0])
    if not told:
        raise SystemExit(f"{code}: say in its row what a reader should do: Guidance(to_do=…)")

    return told


def _specimen(code: str) -> Specimen | None:
    """Make the fault with this code that shows shortest, of the first sample that it can be of."""
    entries = [entry for entry in CATALOGUE.values() if entry.code == code]
    for tool in SAMPLES:
        found = [one for entry in entries for one in specimens(entry, [tool])]
        made = [one for one in found if isinstance(one.fault.served, dict)]
        if made:
            return min(made, key=_shown_length)

    return None


def _shown_length(one: Specimen) -> int:
    return len(excerpt(one.fault.served, one.target.clean, MAX_CAME))


def _asked(found: Specimen) -> list[str]:
    """Return what a guarded client says next; a sentence where it says nothing."""
    contract: Contract[Any] = found.target.contract
    question: dict[str, Any] = {
        "model": "any",
        "messages": [{"role": "user", "content": "…"}],
        **found.fault.needs,
    }

    first = contract.next_request(question).request or question
    following = contract.next_request(first, found.fault.served)
    if following.request is None:
        return ["(nothing: the call ends immediately)"]

    told = Asked(2, following.request, None, Asked(1, first, None)).correction
    return told[:MAX_ASKED].splitlines() if told else ["(the same request again)"]


def _table(codes: Iterable[Worded]) -> Iterator[str]:
    yield "| code | message | category |"
    yield "|---|---|---|"
    for code in codes:
        yield f"| `{code.value}` | {_words(code)} | {code.category} |"
    yield ""


def _words(code: Worded) -> str:
    return _ended(re.sub(r"(\{\w+\})+", "…", code.template))


def _ended(words: str) -> str:
    ended = words if words.endswith("…") else f"{words}."
    return f"{ended[:1].upper()}{ended[1:]}".replace("|", r"\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(codes_page(), encoding="utf-8")
