"""The rules of a response (AGN-033, AGN-036 section 4.10)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from strictreply.core.arguments import is_count
from strictreply.loop.invoke_result import Breach
from strictreply.loop.invoke_result import InvokeCode as Code
from strictreply.loop.values import ResponseKind
from strictreply.pipeline._manifest_rules import (
    CALL_RULES,
    CALLS,
    is_list,
    sound_entries,
    unreadable_arguments,
    with_both,
)
from strictreply.pipeline._rule import (
    ARRAYS,
    PipelineRule,
    Predicate,
    RuleGroup,
    RuleStage,
    RuleSubject,
    asked_when,
    entries,
    entries_rule,
    has_entries,
    is_null,
    is_object,
    is_one_of,
    is_present,
    member_is,
    member_rule,
    placed,
)

RESPONSE_RESULTS: Final = "/tool_results"


def _is_list_of(holds: Predicate) -> Predicate:
    return lambda value: isinstance(value, ARRAYS) and all(map(holds, entries(value)))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# For allowed members about which the requirements say nothing more.
_SHAPES: Final[tuple[tuple[str, Predicate], ...]] = (
    ("/files", _is_list_of(is_object)),
    (RESPONSE_RESULTS, is_list),
    ("/user_warnings", _is_list_of(_is_text)),
    ("/usage", is_object),
    ("/tool_continuation_message", _is_text),
)


def _misshapen(subject: RuleSubject) -> list[Breach]:
    given = ((path, holds) for path, holds in _SHAPES if not is_null(subject[path]))
    return [Breach(path=path) for path, holds in given if not holds(subject[path])]


def _with_neither(subject: RuleSubject) -> Iterator[Breach]:
    for entry in subject.entries_at(RESPONSE_RESULTS):
        if not (is_present(entry["result_json"]) or is_present(entry["error_message"])):
            yield entry.breach("result_json")


_FINAL: Final = member_is("/kind", ResponseKind.FINAL)
_CONTINUATION: Final = member_is("/kind", ResponseKind.CLIENT_TOOL_CONTINUATION)
# Null counts as absent, an empty list does not (P47, P48).
_FINAL_ALONE: Final = (
    "/primary_output_text",
    "/files",
    RESPONSE_RESULTS,
    "/user_warnings",
    "/usage",
)
_CONTINUATION_ALONE: Final = (CALLS, "/tool_continuation_message")
_response: Final = partial(placed, "response", section="4.10", stage=RuleStage.RESPONSE)

# Checked in this order: members are judged only if all required ones are there.
RESPONSE: Final[tuple[RuleGroup, ...]] = (
    _response(
        member_rule("kind", Code.RESPONSE_KIND, "/kind", is_one_of(ResponseKind)),
        member_rule("session_id", Code.RESPONSE_SESSION_ID, "/session_id", is_present),
        member_rule("turn_id", Code.RESPONSE_TURN_ID, "/turn_id", is_present),
        member_rule("mode_display_name", Code.RESPONSE_MODE, "/mode_display_name", is_present),
        *asked_when(
            _FINAL,
            member_rule(
                "final.primary_output_text",
                Code.OUTPUT_TEXT_MISSING,
                "/primary_output_text",
                is_present,
            ),
            member_rule("final.forbidden", Code.FORBIDDEN_MEMBER, _CONTINUATION_ALONE, is_null),
        ),
        *asked_when(
            _CONTINUATION,
            member_rule("continuation.tool_calls", Code.TOOL_CALLS_MISSING, CALLS, has_entries),
            member_rule("continuation.forbidden", Code.FORBIDDEN_MEMBER, _FINAL_ALONE, is_null),
        ),
    ),
    _response(
        PipelineRule("shape", Code.RESPONSE_SHAPE, _misshapen),
        *CALL_RULES,
        PipelineRule(
            "call_arguments",
            Code.ARGUMENTS_NOT_JSON,
            partial(unreadable_arguments, with_tools=False),
        ),
        *sound_entries("result", RESPONSE_RESULTS)[:2],
        entries_rule("result_time", Code.EXECUTION_MS, RESPONSE_RESULTS, "execution_ms", is_count),
        PipelineRule(
            "result_and_error", Code.RESULT_AND_ERROR, partial(with_both, path=RESPONSE_RESULTS)
        ),
        PipelineRule("result_missing", Code.EMPTY_RESULT, _with_neither),
    ),
)
