"""When a tool-call manifest is valid (AGN-036 section 5), and what a response may hold (AGN-033, section 4.10).

Both are lists of calls and results, each call an id, a name and the JSON text of an object. A manifest without calls is
valid by this definition; that a continuation needs one stands with its steps (P63). A member of a response that is null
is not there; an empty list is there (P47, P48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from strictreply.contract._judge_call import args_shape
from strictreply.contract._tool import Tool
from strictreply.pipeline._invoke_result import InvokeCode
from strictreply.pipeline._rule import (
    ARRAYS,
    Breach,
    Breaches,
    Clause,
    Facts,
    RuleCondition,
    RuleEntry,
    RuleGroup,
    RuleStage,
    RuleSubject,
    entries,
    has_entries,
    is_null,
    is_object,
    is_present,
    placed,
    unless,
    where,
    where_each,
    where_each_entry,
)
from strictreply.pipeline._values import ResponseKind
from strictreply.reading._decoding import decode
from strictreply.values._issues import pointer
from strictreply.values._json import JSONObject
from strictreply.values._limits import Limits
from strictreply.values._replies import Invalid

CALLS: Final = "/tool_calls"
MANIFEST_RESULTS: Final = "/tool_call_results"
RESPONSE_RESULTS: Final = "/tool_results"

RESULT_LIMITS: Final = Limits(reply_bytes=64_000_000, nodes=4_000_000)
"""What a client may give as a result: a program's own data, not a model's reply."""


def _without_null_entries(kind: str, path: str) -> Clause:
    """Ask a list to hold objects alone; other entries are reported by their index (requirement P58)."""
    return Clause(
        f"{kind}_null",
        InvokeCode.NULL_ENTRY,
        f"a {kind} must be an object",
        lambda subject: [
            Breach(pointer(path, index), Facts(index=index))
            for index, value in enumerate(entries(subject[path]))
            if not is_object(value)
        ],
    )


def _with_id(kind: str, path: str) -> Clause:
    message = "a call must have an id" if kind == "call" else "a result must have the id of its call"
    return Clause(
        f"{kind}_id", InvokeCode.TOOL_CALL_ID_MISSING, message, where_each_entry(path, "tool_call_id", is_present)
    )


def _with_name(kind: str, path: str) -> Clause:
    message = f"a {kind} must name its tool"
    return Clause(f"{kind}_name", InvokeCode.NAME_MISSING, message, where_each_entry(path, "name", is_present))


def _without_both(path: str) -> Clause:
    """Ask a result not to be a success and a failure at once (requirement P50)."""

    def breaches(subject: RuleSubject) -> Iterator[Breach]:
        for entry in subject.entries_at(path):
            if is_present(entry["result_json"]) and is_present(entry.error):
                yield entry.breach("error_message", reason=entry.error)

    message = "a result must not hold an error beside its JSON"
    return Clause("result_and_error", InvokeCode.RESULT_AND_ERROR, message, breaches)


def _tool_of(entry: RuleEntry, subject: RuleSubject) -> Tool | None:
    tools = subject.options.tools
    return None if entry.name is None or tools is None else tools.get(entry.name)


def _place(subject: RuleSubject, entry: RuleEntry, member: str) -> str:
    """Point at a member of an entry from the root of what was handed in: issues inside its text go on from there."""
    return pointer(subject.at + entry.path, member)


def _arguments(entry: RuleEntry, subject: RuleSubject, tool: Tool | None) -> JSONObject | Invalid:
    """Read the JSON object in a call's arguments as a reply's are read (P62, T27).

    An empty text means no arguments for a tool that requires none.
    """
    text = entry["arguments_json"]
    if tool is not None and text == "" and not tool.parameters.check({}):
        return {}
    at = _place(subject, entry, "arguments_json")
    args = decode(text, at=at, names=tool.parameters.names if tool else frozenset())
    return args if isinstance(args, Invalid | dict) else Invalid((args_shape(args, at),))


def _unreadable_arguments(subject: RuleSubject) -> Iterator[Breach]:
    """Find the calls whose arguments are no JSON object (requirement P49)."""
    for entry in subject.entries_at(CALLS):
        args = _arguments(entry, subject, _tool_of(entry, subject))
        if isinstance(args, Invalid):
            yield entry.breach("arguments_json", issues=args.issues)


def _unfit_arguments(subject: RuleSubject) -> Iterator[Breach]:
    """Find the calls whose arguments do not fit their tool, where tools are given (requirement P62)."""
    for entry in subject.entries_at(CALLS):
        tool = _tool_of(entry, subject)
        args = _arguments(entry, subject, tool)
        if tool is None or isinstance(args, Invalid):
            continue
        if issues := tool.parameters.check(args, at=_place(subject, entry, "arguments_json")):
            yield entry.breach("arguments_json", issues=issues)


def _undeclared(subject: RuleSubject) -> Iterator[Breach]:
    for entry in subject.entries_at(CALLS) if subject.options.tools is not None else ():
        if is_present(entry.name) and _tool_of(entry, subject) is None:
            yield entry.breach("name")


_READABLE_ARGUMENTS: Final = (
    InvokeCode.ARGUMENTS_NOT_JSON,
    "the arguments must be the JSON text of an object",
    _unreadable_arguments,
)


def _same_count(subject: RuleSubject) -> bool:
    return len(entries(subject[CALLS])) == len(entries(subject[MANIFEST_RESULTS]))


def _pairs(subject: RuleSubject) -> list[tuple[RuleEntry, RuleEntry]]:
    """Pair calls and results that have ids by their places; none when there are more of the one than of the other."""
    if not _same_count(subject):
        return []
    calls = {entry.index: entry for entry in subject.entries_at(CALLS) if is_present(entry.id)}
    results = (entry for entry in subject.entries_at(MANIFEST_RESULTS) if is_present(entry.id))
    return [(calls[result.index], result) for result in results if result.index in calls]


def _mismatched(subject: RuleSubject, *, reordered: bool) -> list[Breach]:
    """Find the pairs whose ids differ, be it by capitals alone; the result's is ``result_id``.

    With ``reordered`` those of results that answer just these calls, in another order, of which the first is enough
    (P53); without it those of all others (P54).
    """
    pairs = _pairs(subject)
    called, answered = [str(call.id) for call, _ in pairs], [str(result.id) for _, result in pairs]
    if reordered != (called != answered and sorted(called) == sorted(answered)):
        return []
    breaches = [call.breach("tool_call_id", result_id=result.id) for call, result in pairs if call.id != result.id]
    return breaches[:1] if reordered else breaches


def _renamed(subject: RuleSubject) -> Iterator[Breach]:
    """Find the pairs of one id whose names differ; the result's is ``result_name`` (requirement P55, X20)."""
    for call, result in _pairs(subject):
        named = is_present(call.name) and is_present(result.name)
        if call.id == result.id and named and call.name != result.name:
            yield call.breach("name", result_name=result.name)


def _repeated(subject: RuleSubject) -> Iterable[Breach]:
    """Find the entries whose id stood before in the same list; a pair that repeats is reported once (P60)."""
    found: dict[int, Breach] = {}
    for path in (CALLS, MANIFEST_RESULTS):
        seen: set[str | None] = {None}
        for entry in subject.entries_at(path):
            if is_present(entry.id) and entry.id in seen:
                found.setdefault(entry.index, entry.breach("tool_call_id"))
            seen.add(entry.id)
    return found.values()


def _without_result(subject: RuleSubject) -> Iterator[Breach]:
    """Find the results without a JSON text, unless an error may stand in its place (P56, P57, X11)."""
    for entry in subject.entries_at(MANIFEST_RESULTS):
        excused = subject.options.allow_error_results and is_present(entry.error)
        if not is_present(entry["result_json"]) and not excused:
            yield entry.breach("result_json", reason=entry.error)


def _unreadable_results(subject: RuleSubject) -> Iterator[Breach]:
    """Find the results whose text is no JSON to the reader of replies (requirement P61).

    A long one is JSON all the same: what goes to the model is cut as a tool's own result is.
    """
    for entry in subject.entries_at(MANIFEST_RESULTS):
        text = entry["result_json"]
        value = decode(text, RESULT_LIMITS, at=_place(subject, entry, "result_json")) if is_present(text) else None
        if isinstance(value, Invalid):
            yield entry.breach("result_json", issues=value.issues)


def _is_list(value: object) -> bool:
    return isinstance(value, ARRAYS)


def _manifest(*rows: tuple[str, InvokeCode, str, Breaches] | Clause) -> RuleGroup:
    clauses = (row if isinstance(row, Clause) else Clause(*row) for row in rows)
    return placed("manifest", "5", RuleStage.MANIFEST, *clauses)


_PAIRED: Final = _manifest(
    ("same_count", InvokeCode.COUNT_MISMATCH, "there must be one result for each call", unless(_same_count)),
    _without_null_entries("call", CALLS),
    _without_null_entries("result", MANIFEST_RESULTS),
    _with_id("call", CALLS),
    _with_id("result", MANIFEST_RESULTS),
    _with_name("call", CALLS),
    _with_name("result", MANIFEST_RESULTS),
    ("unique_id", InvokeCode.DUPLICATE_ID, "no two calls may have the same id", _repeated),
    (
        "same_order",
        InvokeCode.ORDER_MISMATCH,
        "the results must stand in the order of the calls",
        lambda subject: _mismatched(subject, reordered=True),
    ),
    (
        "same_id",
        InvokeCode.ID_MISMATCH,
        "a result must have the id of the call in its place",
        lambda subject: _mismatched(subject, reordered=False),
    ),
    ("same_name", InvokeCode.NAME_MISMATCH, "a result must name the tool of its call", _renamed),
    ("result_json", InvokeCode.MISSING_RESULT_JSON, "a result must hold a JSON text", _without_result),
    _without_both(MANIFEST_RESULTS),
    ("result_readable", InvokeCode.RESULT_NOT_JSON, "a result must be a valid JSON text", _unreadable_results),
    ("tool_declared", InvokeCode.UNKNOWN_TOOL, "a call must name a declared tool", _undeclared),
    ("arguments_readable", *_READABLE_ARGUMENTS),
    ("arguments_fit", InvokeCode.SCHEMA_ARGS, "the arguments must fit the schema of the tool", _unfit_arguments),
)

MANIFEST: Final[tuple[RuleGroup, ...]] = (
    _manifest(("null", InvokeCode.NULL_MANIFEST, "there must be a manifest", where("", is_object))),
    _manifest(
        ("calls_list", InvokeCode.MANIFEST_LIST, "the calls must be a list", where(CALLS, _is_list)),
        ("results_list", InvokeCode.MANIFEST_LIST, "the results must be a list", where(MANIFEST_RESULTS, _is_list)),
    ),
    _PAIRED,
)
"""The groups in turn: what has no lists has no pairs."""

REPLY_CALLS: Final = (_manifest(_with_id("call", CALLS), ("arguments_readable", *_READABLE_ARGUMENTS)),)
"""What the judge of replies leaves open in the calls of a model's reply: ids of text that UTF-8 cannot encode."""


def _has_kind(kind: ResponseKind) -> RuleCondition:
    return lambda subject: subject["/kind"] == kind


_KINDS: Final = frozenset(ResponseKind)
_FINAL: Final = _has_kind(ResponseKind.FINAL)
_CONTINUATION: Final = _has_kind(ResponseKind.CLIENT_TOOL_CONTINUATION)
_FINAL_ALONE: Final = ("/primary_output_text", "/files", RESPONSE_RESULTS, "/user_warnings", "/usage")
_CONTINUATION_ALONE: Final = (CALLS, "/tool_continuation_message")


def _is_kind(value: object) -> bool:
    """Return whether a value is a kind of response, or its name as JSON spells it (requirement P45)."""
    return isinstance(value, str) and value in _KINDS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, ARRAYS) and all(map(holds, entries(value)))


def _is_duration(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_SHAPES: Final[tuple[tuple[str, Callable[[object], bool]], ...]] = (
    ("/files", _is_list_of(is_object)),
    (RESPONSE_RESULTS, _is_list),
    ("/user_warnings", _is_list_of(_is_text)),
    ("/usage", is_object),
    ("/tool_continuation_message", _is_text),
)
"""What each allowed member is when it is there, where the requirements say no more of it."""


def _misshapen(subject: RuleSubject) -> list[Breach]:
    return [Breach(path) for path, holds in _SHAPES if not (is_null(subject[path]) or holds(subject[path]))]


def _with_neither(subject: RuleSubject) -> Iterator[Breach]:
    """Find the results that say nothing (requirement P50)."""
    for entry in subject.entries_at(RESPONSE_RESULTS):
        if not is_present(entry["result_json"]) and not is_present(entry.error):
            yield entry.breach("result_json")


def _unreadable_calls(subject: RuleSubject) -> Iterator[Breach]:
    """Find the calls whose arguments are no JSON object; a response is not held to tools."""
    for entry in subject.entries_at(CALLS):
        args = _arguments(entry, subject, None)
        if isinstance(args, Invalid):
            yield entry.breach("arguments_json", issues=args.issues)


_PRESENT: Final = (
    ("session_id", InvokeCode.RESPONSE_SESSION_ID, "a response must name its session"),
    ("turn_id", InvokeCode.RESPONSE_TURN_ID, "a response must name its turn"),
    ("mode_display_name", InvokeCode.RESPONSE_MODE, "a response must have the display name of its session's mode"),
)

_MEMBERS: Final = placed(
    "response",
    "4.10",
    RuleStage.RESPONSE,
    Clause(
        "kind",
        InvokeCode.RESPONSE_KIND,
        "the kind must be final or client_tool_continuation",
        where("/kind", _is_kind),
    ),
    *(Clause(name, code, message, where(f"/{name}", is_present)) for name, code, message in _PRESENT),
    Clause(
        "final.primary_output_text",
        InvokeCode.OUTPUT_TEXT_MISSING,
        "a final response must hold an output text that is not blank",
        where("/primary_output_text", is_present),
        _FINAL,
    ),
    Clause(
        "final.forbidden",
        InvokeCode.FORBIDDEN_MEMBER,
        "a final response must not hold this member, not even an empty one",
        where_each(_CONTINUATION_ALONE, is_null),
        _FINAL,
    ),
    Clause(
        "continuation.tool_calls",
        InvokeCode.TOOL_CALLS_MISSING,
        "a client tool continuation must hold at least one tool call",
        where(CALLS, has_entries),
        _CONTINUATION,
    ),
    Clause(
        "continuation.forbidden",
        InvokeCode.FORBIDDEN_MEMBER,
        "a client tool continuation must not hold this member, not even an empty one",
        where_each(_FINAL_ALONE, is_null),
        _CONTINUATION,
    ),
)

_CONTENTS: Final = placed(
    "response",
    "4.10",
    RuleStage.RESPONSE,
    Clause("shape", InvokeCode.RESPONSE_SHAPE, "this member must be of the kind that AGN-033 gives it", _misshapen),
    _without_null_entries("call", CALLS),
    _with_id("call", CALLS),
    _with_name("call", CALLS),
    Clause("call_arguments", InvokeCode.ARGUMENTS_NOT_JSON, _READABLE_ARGUMENTS[1], _unreadable_calls),
    _without_null_entries("result", RESPONSE_RESULTS),
    _with_id("result", RESPONSE_RESULTS),
    Clause(
        "result_time",
        InvokeCode.EXECUTION_MS,
        "the execution time of a result must be a whole number of milliseconds, 0 or more",
        where_each_entry(RESPONSE_RESULTS, "execution_ms", _is_duration),
    ),
    _without_both(RESPONSE_RESULTS),
    Clause("result_missing", InvokeCode.EMPTY_RESULT, "a result must hold a JSON text or an error", _with_neither),
)

RESPONSE: Final[tuple[RuleGroup, ...]] = (_MEMBERS, _CONTENTS)
"""The groups in turn: what a member holds is judged when all that must be there is, and nothing else."""
