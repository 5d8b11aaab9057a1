"""When a tool-call manifest is valid (AGN-036 section 5): calls and results pairwise, each result a JSON text.

A manifest without calls is valid by this definition; that a continuation needs one stands with its steps (P63).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from strictreply.pipeline._results import InvokeCode
from strictreply.pipeline._rules.arguments import read_arguments, schema_issues, tool_named
from strictreply.pipeline._rules.entries import Entry, entries_at, where_each_entry, without_null_entries
from strictreply.pipeline._rules.reading import ARRAYS, entries, is_object, is_present
from strictreply.pipeline._rules.rule import Breach, Breaches, Group, Rule, Stage, Subject, unless, where
from strictreply.reading._decoding import decode
from strictreply.values._issues import pointer
from strictreply.values._limits import Limits
from strictreply.values._replies import Invalid

CALLS: Final = "/tool_calls"
RESULTS: Final = "/tool_call_results"

RESULT_LIMITS: Final = Limits(reply_bytes=64_000_000, nodes=4_000_000)
"""What a client may give as a result: a program's own data, not a model's reply."""


def _is_list(value: object) -> bool:
    """Tell whether something is an array."""
    return isinstance(value, ARRAYS)


def _same_count(subject: Subject) -> bool:
    """Tell whether there is a result for each call (requirement P52)."""
    return len(entries(subject[CALLS])) == len(entries(subject[RESULTS]))


def _pairs(subject: Subject) -> list[tuple[Entry, Entry]]:
    """Pair calls and results that have ids by their places; none when there are more of the one than of the other."""
    if not _same_count(subject):
        return []
    calls = {entry.index: entry for entry in entries_at(subject, CALLS) if is_present(entry.id)}
    results = (entry for entry in entries_at(subject, RESULTS) if is_present(entry.id))
    return [(calls[result.index], result) for result in results if result.index in calls]


def _is_reordered(subject: Subject) -> bool:
    """Tell whether the results answer just these calls, in another order."""
    pairs = _pairs(subject)
    called, answered = [str(call.id) for call, _ in pairs], [str(result.id) for _, result in pairs]
    return called != answered and sorted(called) == sorted(answered)


def _mismatched(subject: Subject) -> list[Breach]:
    """Find the pairs whose ids differ, be it by capitals alone; the result's is ``result_id``."""
    return [
        call.breach("tool_call_id", result_id=result.id) for call, result in _pairs(subject) if call.id != result.id
    ]


def _reordered(subject: Subject) -> list[Breach]:
    """Find the first place where the order differs (requirement P53)."""
    return _mismatched(subject)[:1] if _is_reordered(subject) else []


def _strange(subject: Subject) -> list[Breach]:
    """Find the results that answer another call than the one in their place (requirement P54)."""
    return [] if _is_reordered(subject) else _mismatched(subject)


def _renamed(subject: Subject) -> Iterator[Breach]:
    """Find the pairs of one id whose names differ; the result's is ``result_name`` (requirement P55, X20)."""
    for call, result in _pairs(subject):
        named = is_present(call.name) and is_present(result.name)
        if call.id == result.id and named and call.name != result.name:
            yield call.breach("name", result_name=result.name)


def _repeated(subject: Subject) -> Iterable[Breach]:
    """Find the entries whose id stood before in the same list; a pair that repeats is told once (requirement P60)."""
    told: dict[int, Breach] = {}
    for path in (CALLS, RESULTS):
        seen: set[str | None] = {None}
        for entry in entries_at(subject, path):
            if is_present(entry.id) and entry.id in seen:
                told.setdefault(entry.index, entry.breach("tool_call_id"))
            seen.add(entry.id)
    return told.values()


def _without_result(subject: Subject) -> Iterator[Breach]:
    """Find the results without a JSON text, unless an error may stand in its place (P56, P57, X11)."""
    for entry in entries_at(subject, RESULTS):
        excused = subject.options.allow_error_results and is_present(entry.error)
        if not is_present(entry["result_json"]) and not excused:
            yield entry.breach("result_json", reason=entry.error)


def _with_both(subject: Subject) -> Iterator[Breach]:
    """Find the results that are a success and a failure at once (requirement P50)."""
    for entry in entries_at(subject, RESULTS):
        if is_present(entry["result_json"]) and is_present(entry.error):
            yield entry.breach("error_message", reason=entry.error)


def _unreadable_results(subject: Subject) -> Iterator[Breach]:
    """Find the results whose text is no JSON to the reader of replies (requirement P61).

    A long one is JSON all the same: what goes to the model is cut as a tool's own result is.
    """
    for entry in entries_at(subject, RESULTS):
        text = entry["result_json"]
        value = decode(text, RESULT_LIMITS, at=_place(subject, entry, "result_json")) if is_present(text) else None
        if isinstance(value, Invalid):
            yield entry.breach("result_json", issues=value.issues)


def _undeclared(subject: Subject) -> Iterator[Breach]:
    """Find the calls of tools that are not among those given."""
    for entry in entries_at(subject, CALLS) if subject.options.tools is not None else ():
        if is_present(entry.name) and tool_named(entry.name, subject.options.tools) is None:
            yield entry.breach("name")


def _unreadable_arguments(subject: Subject) -> Iterator[Breach]:
    """Find the calls whose arguments are no JSON object (requirement P49)."""
    for entry in entries_at(subject, CALLS):
        tool = tool_named(entry.name, subject.options.tools)
        args = read_arguments(entry["arguments_json"], tool, at=_place(subject, entry, "arguments_json"))
        if isinstance(args, Invalid):
            yield entry.breach("arguments_json", issues=args.issues)


def _unfit_arguments(subject: Subject) -> Iterator[Breach]:
    """Find the calls whose arguments do not fit their tool, where tools are given (requirement P62)."""
    for entry in entries_at(subject, CALLS):
        tool = tool_named(entry.name, subject.options.tools)
        at = _place(subject, entry, "arguments_json")
        issues = schema_issues(entry["arguments_json"], tool, at=at) if tool else ()
        if issues:
            yield entry.breach("arguments_json", issues=issues)


def _place(subject: Subject, entry: Entry, member: str) -> str:
    """Point at a member of an entry from the root of what was handed in: issues inside its text go on from there."""
    return pointer(subject.at + entry.path, member)


def _rule(name: str, code: InvokeCode, message: str, breaches: Breaches) -> Rule:
    """Make one row of the table."""
    return Rule(id=f"manifest.{name}", section="5", stage=Stage.MANIFEST, code=code, message=message, breaches=breaches)


_FORM: Final = (_rule("null", InvokeCode.NULL_MANIFEST, "there must be a manifest", where("", is_object)),)

_LISTS: Final = (
    _rule("calls_list", InvokeCode.MANIFEST_LIST, "the calls must be a list", where(CALLS, _is_list)),
    _rule("results_list", InvokeCode.MANIFEST_LIST, "the results must be a list", where(RESULTS, _is_list)),
)

_PAIRS: Final = (
    _rule("same_count", InvokeCode.COUNT_MISMATCH, "there must be one result for each call", unless(_same_count)),
    _rule("call_null", InvokeCode.NULL_ENTRY, "a call must be an object", without_null_entries(CALLS)),
    _rule("result_null", InvokeCode.NULL_ENTRY, "a result must be an object", without_null_entries(RESULTS)),
    _rule(
        "call_id",
        InvokeCode.TOOL_CALL_ID_MISSING,
        "a call must have an id",
        where_each_entry(CALLS, "tool_call_id", is_present),
    ),
    _rule(
        "result_id",
        InvokeCode.TOOL_CALL_ID_MISSING,
        "a result must have the id of its call",
        where_each_entry(RESULTS, "tool_call_id", is_present),
    ),
    _rule(
        "call_name",
        InvokeCode.NAME_MISSING,
        "a call must name its tool",
        where_each_entry(CALLS, "name", is_present),
    ),
    _rule(
        "result_name",
        InvokeCode.NAME_MISSING,
        "a result must name its tool",
        where_each_entry(RESULTS, "name", is_present),
    ),
    _rule("unique_id", InvokeCode.DUPLICATE_ID, "no two calls may have the same id", _repeated),
    _rule("same_order", InvokeCode.ORDER_MISMATCH, "the results must stand in the order of the calls", _reordered),
    _rule("same_id", InvokeCode.ID_MISMATCH, "a result must have the id of the call in its place", _strange),
    _rule("same_name", InvokeCode.NAME_MISMATCH, "a result must name the tool of its call", _renamed),
    _rule("result_json", InvokeCode.MISSING_RESULT_JSON, "a result must hold a JSON text", _without_result),
    _rule(
        "result_and_error", InvokeCode.RESULT_AND_ERROR, "a result must not hold an error beside its JSON", _with_both
    ),
    _rule("result_readable", InvokeCode.RESULT_NOT_JSON, "a result must be a valid JSON text", _unreadable_results),
    _rule("tool_declared", InvokeCode.UNKNOWN_TOOL, "a call must name a declared tool", _undeclared),
    _rule(
        "arguments_readable",
        InvokeCode.ARGUMENTS_NOT_JSON,
        "the arguments must be the JSON text of an object",
        _unreadable_arguments,
    ),
    _rule("arguments_fit", InvokeCode.SCHEMA_ARGS, "the arguments must fit the schema of the tool", _unfit_arguments),
)

MANIFEST: Final[tuple[Group, ...]] = (_FORM, _LISTS, _PAIRS)
"""The groups in turn: what has no lists has no pairs."""
