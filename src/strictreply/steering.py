"""What we tell a model about its bad reply: our words and the schema's, never its own, at most 2 KB.

Each further correction says more than the one before: the list of faults; then the sub-schema that was broken; then
also a minimal valid example. A steering is any object with ``correction``; :class:`TieredSteering` is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from strictreply.answers import FINAL_ANSWER
from strictreply.describing import admits_answer, callable_tools, compact, union_schema
from strictreply.issues import Issue, Remedy
from strictreply.replies import Invalid
from strictreply.schema import Schema
from strictreply.terms import Terms
from strictreply.tools import Tool
from strictreply.typing import JSON

MAX_CORRECTION_BYTES = 2_000
MAX_LISTED_FAULTS = 12
MAX_LISTED_TOOLS = 12
SCHEMA_TIER = 2
EXAMPLE_TIER = 3
_ANSWER_PARTS = 6  # "", tool_calls, index, function, arguments, answer


@dataclass(frozen=True, slots=True)
class Situation:
    """What a correction is about.

    ``issues`` are the faults of the last reply, ``terms`` what it was held to, ``tier`` counts corrections from 1.
    ``tool`` is the declared tool whose arguments alone are re-asked, None for the whole reply; ``at`` is then the
    pointer to those arguments.
    """

    issues: tuple[Issue, ...]
    terms: Terms
    tier: int
    tool: str | None = None
    at: str = ""


class Steering(Protocol):
    """Anything that words corrections; it must not repeat what the model wrote (``Issue.found``)."""

    def correction(self, situation: Situation) -> str:
        """Say what to change, for the model to read."""
        ...


@dataclass(frozen=True, slots=True)
class TieredSteering:
    """The corrections we send: terse first, then with the broken sub-schema, then with an example that validates."""

    max_bytes: int = MAX_CORRECTION_BYTES

    def correction(self, situation: Situation) -> str:
        """Say what to change, in at most ``max_bytes`` bytes of UTF-8."""
        if any(issue.remedy is Remedy.SHORTEN for issue in situation.issues):
            return _within([_shortening(situation.tier), *_fault_lines(situation)], self.max_bytes)
        parts = [_headline(situation), *_fault_lines(situation)]
        if situation.tier >= SCHEMA_TIER:
            parts += _schema_line(situation)
        if situation.tier >= EXAMPLE_TIER:
            parts += _example_line(situation)
        return _within(parts, self.max_bytes)


def _headline(situation: Situation) -> str:
    """Say in one line what kind of correction this is."""
    ordinal = {1: "Not valid.", 2: "Still not valid."}.get(situation.tier, f"Not valid {situation.tier} times.")
    if situation.tool is not None:
        return f"{ordinal} Call {situation.tool} again with corrected arguments:"
    if any(_is_unreadable_content(issue, situation) for issue in situation.issues):
        return f"{ordinal} Reply again with the JSON alone, no prose or code fence around it:"
    return f"{ordinal} Reply again, corrected:"


def _is_unreadable_content(issue: Issue, situation: Situation) -> bool:
    """Tell whether a fault is that the content, which should be JSON, does not read as it."""
    in_content = situation.terms.channel == "text" or issue.path.startswith("/content")
    return in_content and issue.code.startswith("json.")


def _shortening(tier: int) -> str:
    """Ask for less; the text that was cut is no mistake to mend."""
    if tier == 1:
        return "The reply was cut off at the token limit. Reply again, shorter."
    return f"Correction {tier}: the reply was cut off at the token limit. Reply with the least that is needed."


def _fault_lines(situation: Situation) -> list[str]:
    """List each fault by its place, its rule and the nearest remedy; that a reply was cut is no fault to mend."""
    faults = [issue for issue in situation.issues if issue.remedy is not Remedy.SHORTEN]
    lines = dict.fromkeys(_fault_line(issue, situation.at) for issue in faults)
    shown = list(lines)[:MAX_LISTED_FAULTS]
    return [*shown, f"- and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else shown


def _fault_line(issue: Issue, at: str) -> str:
    """Spell one fault: ``- /limit: must be an integer``."""
    place = issue.path.removeprefix(at)
    hint = f" ({issue.hint})" if issue.hint else ""
    return f"- {place}: {issue.message}{hint}" if place else f"- {issue.message}{hint}"


def _schema_line(situation: Situation) -> list[str]:
    """Show the sub-schema of the first fault, or of the whole reply when the fault is in its shape."""
    schema = _schema_at_fault(situation)
    if schema is not None:
        place = _first_place(situation)
        return [f"Schema of {place or 'it'}: {compact(schema.part(place))}"]
    if situation.terms.channel == "text":
        return [f"Schema of the reply: {compact(union_schema(situation.terms))}"]
    return _tools_line(situation)


def _tools_line(situation: Situation) -> list[str]:
    """Recall the tools with their parameters' names, when the fault is in the calls as a whole."""
    shown = callable_tools(situation.terms)[:MAX_LISTED_TOOLS]
    signatures = [f"{tool.name}({', '.join(_parameters(tool))})" for tool in shown]
    if situation.terms.answer_style == "tool" and admits_answer(situation.terms):
        signatures.append(f"{FINAL_ANSWER}(answer)")
    return [f"Tools: {', '.join(signatures)}"] if signatures else []


def _parameters(tool: Tool) -> list[str]:
    """Name the parameters of a tool in order."""
    source = tool.parameters.source
    properties = source.get("properties") if isinstance(source, dict) else None
    return list(properties)[:MAX_LISTED_TOOLS] if isinstance(properties, dict) else []


def _example_line(situation: Situation) -> list[str]:
    """Show a minimal valid example, when one can be made."""
    example = example_for(situation)
    return [] if example is None else [f"A valid example: {compact(example)}"]


def example_for(situation: Situation) -> JSON:
    """Make the smallest reply that would be valid where the fault is; None when none can be made.

    For one native call, ``final_answer`` included, that is its arguments, for a fault in a structured answer the
    answer; in the text channel it is the whole JSON object.
    """
    terms, tool = situation.terms, situation.tool
    if tool is not None:
        args = _args_example(terms.tools[tool])
        return {"tool": tool, "args": args} if terms.channel == "text" and args is not None else args
    if terms.channel == "text":
        return _union_example(terms)
    answer = _answer_example(terms) if _is_about_answer(situation) else None
    return {"answer": answer} if answer is not None and terms.answer_style == "tool" else answer


def _args_example(tool: Tool) -> JSON:
    """Make arguments that the tool's schema and its model take."""
    args = tool.parameters.example()
    return None if args is None or isinstance(tool.build(args), Invalid) else args


def _answer_example(terms: Terms) -> JSON:
    """Make an answer that the contract takes."""
    answer: JSON = "…" if terms.answer.schema is None else terms.answer.schema.example()
    return None if answer is None or isinstance(terms.answer.judge(answer, ""), Invalid) else answer


def _union_example(terms: Terms) -> JSON:
    """Make an example of the first kind of reply that the text channel admits."""
    for tool in callable_tools(terms):
        args = _args_example(tool)
        if args is not None:
            return {"tool": tool.name, "args": args}
    answer = _answer_example(terms) if admits_answer(terms) else None
    if answer is None:
        return None
    return {"tool": FINAL_ANSWER, "args": {"answer": answer}} if terms.answer_style == "tool" else {"answer": answer}


def _schema_at_fault(situation: Situation) -> Schema | None:
    """Find the schema that the first fault broke: the tool's parameters, the answer's, or none."""
    terms, tool = situation.terms, situation.tool
    if tool is not None:
        return terms.tools[tool].parameters
    return terms.answer.schema if _is_about_answer(situation) else None


def _is_about_answer(situation: Situation) -> bool:
    """Tell whether the first fault lies in a structured answer."""
    first = situation.issues[0]
    in_content = situation.terms.channel == "native" and first.path.startswith("/content")
    return situation.terms.answer.schema is not None and (in_content or first.code.startswith("answer."))


def _first_place(situation: Situation) -> str:
    """Give the pointer of the first fault inside the value that its schema governs."""
    path = situation.issues[0].path
    return path.removeprefix(situation.at or _answer_place(situation.terms, path))


def _answer_place(terms: Terms, path: str) -> str:
    """Point to the answer in which ``path`` lies: it stands elsewhere in each channel and style of answering."""
    by_tool = terms.answer_style == "tool"
    if terms.channel == "text":
        return "/args/answer" if by_tool else "/answer"
    return "/".join(path.split("/")[:_ANSWER_PARTS]) if by_tool else "/content"


def _within(parts: list[str], limit: int) -> str:
    """Join the parts that fit; what does not fit whole is left out, only the headline and the first fault are cut."""
    text = _cut("\n".join(parts[:2]), limit)
    for part in parts[2:]:
        longer = f"{text}\n{part}"
        if len(longer.encode(errors="replace")) <= limit:
            text = longer
    return text


def _cut(text: str, limit: int) -> str:
    """Cut a text to so many bytes of UTF-8."""
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= limit else encoded[: max(0, limit - 3)].decode(errors="ignore") + "…"
