"""What a response may hold (AGN-033, which AGN-036 section 4.10 refers to): the members by kind, calls and results.

A member that is null is not there; an empty list is there (requirements P47, P48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from strictreply.pipeline._kinds import ResponseKind
from strictreply.pipeline._results import InvokeCode
from strictreply.pipeline._rules.arguments import read_arguments
from strictreply.pipeline._rules.entries import entries_at, where_each_entry, without_null_entries
from strictreply.pipeline._rules.reading import ARRAYS, entries, has_entries, is_null, is_object, is_present
from strictreply.pipeline._rules.rule import (
    Breach,
    Breaches,
    Condition,
    Group,
    Rule,
    Stage,
    Subject,
    always,
    where,
    where_each,
)
from strictreply.values._issues import pointer
from strictreply.values._replies import Invalid

CALLS: Final = "/tool_calls"
RESULTS: Final = "/tool_results"
_FINAL_ALONE: Final = ("/primary_output_text", "/files", RESULTS, "/user_warnings", "/usage")
_KINDS: Final = frozenset(ResponseKind)
_CONTINUATION_ALONE: Final = (CALLS, "/tool_continuation_message")


def _has_kind(kind: ResponseKind) -> Condition:
    """Ask a rule of one kind of response alone."""
    return lambda subject: subject["/kind"] == kind


_FINAL: Final = _has_kind(ResponseKind.FINAL)
_CONTINUATION: Final = _has_kind(ResponseKind.CLIENT_TOOL_CONTINUATION)


def _is_kind(value: object) -> bool:
    """Tell whether a value is a kind of response, or its name as JSON spells it (requirement P45)."""
    return isinstance(value, str) and value in _KINDS


def _null_or(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    """Allow a member not to be there."""
    return lambda value: is_null(value) or holds(value)


def _is_list_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    """Tell whether something is an array of one kind of entries."""
    return lambda value: isinstance(value, ARRAYS) and all(map(holds, entries(value)))


def _is_text(value: object) -> bool:
    """Tell whether something is text, be it empty."""
    return isinstance(value, str)


def _is_duration(value: object) -> bool:
    """Tell whether something is a whole number of milliseconds."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_SHAPES: Final[tuple[tuple[str, Callable[[object], bool]], ...]] = (
    ("/files", _null_or(_is_list_of(is_object))),
    (RESULTS, _null_or(lambda value: isinstance(value, ARRAYS))),
    ("/user_warnings", _null_or(_is_list_of(_is_text))),
    ("/usage", _null_or(is_object)),
    ("/tool_continuation_message", _null_or(_is_text)),
)
"""What each allowed member is, where the requirements say no more of it."""


def _misshapen(subject: Subject) -> list[Breach]:
    """Find the allowed members that are of another kind than their names say."""
    return [Breach(path) for path, holds in _SHAPES if not holds(subject[path])]


def _with_both(subject: Subject) -> Iterator[Breach]:
    """Find the results that are a success and a failure at once (requirement P50)."""
    for entry in entries_at(subject, RESULTS):
        if is_present(entry["result_json"]) and is_present(entry.error):
            yield entry.breach("error_message", reason=entry.error)


def _with_neither(subject: Subject) -> Iterator[Breach]:
    """Find the results that say nothing (requirement P50)."""
    for entry in entries_at(subject, RESULTS):
        if not is_present(entry["result_json"]) and not is_present(entry.error):
            yield entry.breach("result_json")


def _unreadable_arguments(subject: Subject) -> Iterator[Breach]:
    """Find the calls whose arguments are no JSON object (requirement P49)."""
    for entry in entries_at(subject, CALLS):
        at = pointer(subject.at + entry.path, "arguments_json")
        args = read_arguments(entry["arguments_json"], at=at)
        if isinstance(args, Invalid):
            yield entry.breach("arguments_json", issues=args.issues)


def _rule(name: str, code: InvokeCode, message: str, breaches: Breaches, *, when: Condition = always) -> Rule:
    """Make one row of the table."""
    return Rule(
        id=f"response.{name}",
        section="4.10",
        stage=Stage.RESPONSE,
        code=code,
        message=message,
        breaches=breaches,
        when=when,
    )


_EVERY: Final = (
    _rule(
        "kind",
        InvokeCode.RESPONSE_KIND,
        "the kind must be final or client_tool_continuation",
        where("/kind", _is_kind),
    ),
    _rule(
        "session_id",
        InvokeCode.RESPONSE_SESSION_ID,
        "a response must name its session",
        where("/session_id", is_present),
    ),
    _rule("turn_id", InvokeCode.RESPONSE_TURN_ID, "a response must name its turn", where("/turn_id", is_present)),
    _rule(
        "mode_display_name",
        InvokeCode.RESPONSE_MODE,
        "a response must tell the mode of its session",
        where("/mode_display_name", is_present),
    ),
)

_BY_KIND: Final = (
    _rule(
        "final.primary_output_text",
        InvokeCode.OUTPUT_TEXT_MISSING,
        "a final response must hold an output text that is not blank",
        where("/primary_output_text", is_present),
        when=_FINAL,
    ),
    _rule(
        "final.forbidden",
        InvokeCode.FORBIDDEN_MEMBER,
        "a final response must not hold this member, not even an empty one",
        where_each(_CONTINUATION_ALONE, is_null),
        when=_FINAL,
    ),
    _rule(
        "continuation.tool_calls",
        InvokeCode.TOOL_CALLS_MISSING,
        "a client tool continuation must hold one tool call at least",
        where(CALLS, has_entries),
        when=_CONTINUATION,
    ),
    _rule(
        "continuation.forbidden",
        InvokeCode.FORBIDDEN_MEMBER,
        "a client tool continuation must not hold this member, not even an empty one",
        where_each(_FINAL_ALONE, is_null),
        when=_CONTINUATION,
    ),
)

_MEMBERS: Final = (
    _rule("shape", InvokeCode.RESPONSE_SHAPE, "this member must be of the kind that AGN-033 gives it", _misshapen),
    _rule("call_null", InvokeCode.NULL_ENTRY, "a call must be an object", without_null_entries(CALLS)),
    _rule(
        "call_id",
        InvokeCode.TOOL_CALL_ID_MISSING,
        "a call must have an id",
        where_each_entry(CALLS, "tool_call_id", is_present),
    ),
    _rule(
        "call_name",
        InvokeCode.NAME_MISSING,
        "a call must name its tool",
        where_each_entry(CALLS, "name", is_present),
    ),
    _rule(
        "call_arguments",
        InvokeCode.ARGUMENTS_NOT_JSON,
        "the arguments must be the JSON text of an object",
        _unreadable_arguments,
    ),
    _rule("result_null", InvokeCode.NULL_ENTRY, "a result must be an object", without_null_entries(RESULTS)),
    _rule(
        "result_id",
        InvokeCode.TOOL_CALL_ID_MISSING,
        "a result must have the id of its call",
        where_each_entry(RESULTS, "tool_call_id", is_present),
    ),
    _rule(
        "result_time",
        InvokeCode.EXECUTION_MS,
        "a result must tell its time in whole milliseconds",
        where_each_entry(RESULTS, "execution_ms", _is_duration),
    ),
    _rule(
        "result_and_error",
        InvokeCode.RESULT_AND_ERROR,
        "a result must not hold an error beside its JSON",
        _with_both,
    ),
    _rule(
        "result_missing",
        InvokeCode.EMPTY_RESULT,
        "a result must hold a JSON text or an error",
        _with_neither,
    ),
)

RESPONSE: Final[tuple[Group, ...]] = ((*_EVERY, *_BY_KIND), _MEMBERS)
"""The groups in turn: what a member holds is judged when all that must be there is, and nothing else."""
