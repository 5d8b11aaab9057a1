"""The rules of a tool-call manifest (AGN-036 section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from strictreply import Invalid, Limits, Tool
from strictreply.core import JSONObject, decode
from strictreply.core.judging import args_shape
from strictreply.core.text import pointer
from strictreply.loop.invoke_result import Breach
from strictreply.loop.invoke_result import InvokeCode as Code
from strictreply.pipeline._rule import (
    ARRAYS,
    PipelineRule,
    RuleEntry,
    RuleGroup,
    RuleStage,
    RuleSubject,
    entries,
    entries_rule,
    is_object,
    is_present,
    member_rule,
    placed,
    whole_rule,
)

CALLS: Final = "/tool_calls"
MANIFEST_RESULTS: Final = "/tool_call_results"

# For a program's own data, not for a model's reply.
RESULT_LIMITS: Final = Limits(reply_bytes=64_000_000, nodes=4_000_000)


def sound_entries(kind: str, path: str) -> tuple[PipelineRule, PipelineRule, PipelineRule]:
    """Return the rules for a list of objects, each with an id and the name of its tool.

    Other entries are reported by their index (P58).
    """

    def other_entries(subject: RuleSubject) -> list[Breach]:
        found = enumerate(entries(subject[path]))
        others = [index for index, value in found if not is_object(value)]
        return [Breach(path=pointer(path, index), index=index) for index in others]

    return (
        PipelineRule(f"{kind}_null", Code.NULL_ENTRY, other_entries),
        entries_rule(f"{kind}_id", Code.TOOL_CALL_ID_MISSING, path, "tool_call_id", is_present),
        entries_rule(f"{kind}_name", Code.NAME_MISSING, path, "name", is_present),
    )


def with_both(subject: RuleSubject, *, path: str) -> Iterator[Breach]:
    for entry in subject.entries_at(path):
        error = entry.text("error_message")
        if is_present(entry["result_json"]) and is_present(error):
            yield entry.breach("error_message", reason=error)


def _read_arguments(text: object, tool: Tool | None, at: str) -> JSONObject | Invalid:
    """Read a call's arguments as in a reply (P62, T27).

    An empty text is {} for a tool that requires no arguments.
    """
    if tool is not None and text == "" and not tool.parameters.check({}):
        return {}

    args = decode(text, at=at, names=tool.parameters.names if tool else frozenset())
    return args if isinstance(args, Invalid | dict) else Invalid((args_shape(args, at),))


def _unfit_arguments(
    subject: RuleSubject, *, readable: bool, with_tools: bool = True
) -> Iterator[Breach]:
    """Yield the calls whose arguments cannot be read.

    With ``readable``, yield those whose arguments can be read, but are not valid for the tool.
    """
    tools = subject.options.tools if with_tools else None

    for entry in subject.entries_at(CALLS):
        tool = None if tools is None else tools.get(entry.name or "")
        at = pointer(subject.at + entry.path, "arguments_json")
        args = _read_arguments(entry["arguments_json"], tool, at)

        if isinstance(args, Invalid):
            issues = () if readable else args.issues
        elif readable and tool is not None:
            issues = tool.parameters.check(args, at=at)
        else:
            issues = ()
        if issues:
            yield entry.breach("arguments_json", issues=issues)


def _undeclared(subject: RuleSubject) -> list[Breach]:
    tools = subject.options.tools
    if tools is None:
        return []

    named = [entry for entry in subject.entries_at(CALLS) if is_present(entry.name)]
    return [entry.breach("name") for entry in named if entry.name not in tools]


def _same_count(subject: RuleSubject) -> bool:
    return len(entries(subject[CALLS])) == len(entries(subject[MANIFEST_RESULTS]))


def _pairs(subject: RuleSubject) -> list[tuple[RuleEntry, RuleEntry]]:
    """Pair calls and results that have ids by their index; empty if their numbers differ."""
    if not _same_count(subject):
        return []

    calls = {entry.index: entry for entry in subject.entries_at(CALLS) if is_present(entry.id)}
    results = (entry for entry in subject.entries_at(MANIFEST_RESULTS) if is_present(entry.id))
    return [(calls[result.index], result) for result in results if result.index in calls]


def _mismatched(subject: RuleSubject, *, reordered: bool) -> list[Breach]:
    """Return the pairs whose ids differ.

    With ``reordered`` it is the first pair, if only the order differs (P53). Without it, it is
    all pairs, if more differs (P54).
    """
    pairs = _pairs(subject)
    called = [str(call.id) for call, _ in pairs]
    answered = [str(result.id) for _, result in pairs]
    if reordered != (called != answered and sorted(called) == sorted(answered)):
        return []

    differing = ((call, result) for call, result in pairs if call.id != result.id)
    breaches = [call.breach("tool_call_id", result_id=result.id) for call, result in differing]
    return breaches[:1] if reordered else breaches


def _renamed(subject: RuleSubject) -> Iterator[Breach]:
    for call, result in _pairs(subject):
        named = is_present(call.name) and is_present(result.name)
        if call.id == result.id and named and call.name != result.name:
            yield call.breach("name", result_name=result.name)


def _repeated(subject: RuleSubject) -> Iterable[Breach]:
    """Return the entries whose id is already in the same list.

    A pair that is repeated is reported once (P60).
    """
    found: dict[int, Breach] = {}
    for path in (CALLS, MANIFEST_RESULTS):
        seen: set[str | None] = {None}
        for entry in subject.entries_at(path):
            if is_present(entry.id) and entry.id in seen:
                found.setdefault(entry.index, entry.breach("tool_call_id"))
            seen.add(entry.id)

    return found.values()


def _without_result(subject: RuleSubject) -> Iterator[Breach]:
    """Yield the results without a JSON text, unless an error may replace it (P56, P57, X11)."""
    for entry in subject.entries_at(MANIFEST_RESULTS):
        error = entry.text("error_message")
        is_replaced = subject.options.allow_error_results and is_present(error)
        if not is_present(entry["result_json"]) and not is_replaced:
            yield entry.breach("result_json", reason=error)


def _unreadable_results(subject: RuleSubject) -> Iterator[Breach]:
    """Yield the results whose text is not JSON to the reader of replies, however long (P61)."""
    for entry in subject.entries_at(MANIFEST_RESULTS):
        text = entry["result_json"]
        at = pointer(subject.at + entry.path, "result_json")
        value = decode(text, RESULT_LIMITS, at=at) if is_present(text) else None
        if isinstance(value, Invalid):
            yield entry.breach("result_json", issues=value.issues)


def is_list(value: object) -> bool:
    return isinstance(value, ARRAYS)


CALL_RULES: Final = sound_entries("call", CALLS)
unreadable_arguments: Final = partial(_unfit_arguments, readable=False)
_manifest: Final = partial(placed, "manifest", section="5", stage=RuleStage.MANIFEST)

# Checked in this order: without lists there are no pairs.
MANIFEST: Final[tuple[RuleGroup, ...]] = (
    _manifest(member_rule("null", Code.NULL_MANIFEST, "", is_object)),
    _manifest(
        member_rule("calls_list", Code.MANIFEST_LIST, CALLS, is_list),
        member_rule("results_list", Code.MANIFEST_LIST, MANIFEST_RESULTS, is_list),
    ),
    _manifest(
        whole_rule("same_count", Code.COUNT_MISMATCH, "", _same_count),
        *chain.from_iterable(
            zip(CALL_RULES, sound_entries("result", MANIFEST_RESULTS), strict=True)
        ),
        PipelineRule("unique_id", Code.DUPLICATE_ID, _repeated),
        PipelineRule("same_order", Code.ORDER_MISMATCH, partial(_mismatched, reordered=True)),
        PipelineRule("same_id", Code.ID_MISMATCH, partial(_mismatched, reordered=False)),
        PipelineRule("same_name", Code.NAME_MISMATCH, _renamed),
        PipelineRule("result_json", Code.MISSING_RESULT_JSON, _without_result),
        PipelineRule(
            "result_and_error", Code.RESULT_AND_ERROR, partial(with_both, path=MANIFEST_RESULTS)
        ),
        PipelineRule("result_readable", Code.RESULT_NOT_JSON, _unreadable_results),
        PipelineRule("tool_declared", Code.UNKNOWN_TOOL, _undeclared),
        PipelineRule("arguments_readable", Code.ARGUMENTS_NOT_JSON, unreadable_arguments),
        PipelineRule("arguments_fit", Code.SCHEMA_ARGS, partial(_unfit_arguments, readable=True)),
    ),
)
