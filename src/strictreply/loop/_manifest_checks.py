"""The rules of a manifest (AGN-036 section 5), for the calls and results of a run.

The manifests of a run contain typed entries, whose tools the contract has checked. A validator of
:mod:`strictreply.pipeline` judges any content by the same rules, and by the rules of the tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Unpack

from strictreply import Invalid, Limits
from strictreply.core import decode
from strictreply.core.judging import args_shape
from strictreply.core.text import pointer
from strictreply.loop.invoke_result import Breach, InvokeCode, InvokeError
from strictreply.loop.values import AgentToolCall, AgentToolCallResult, ToolCallManifest

# For a program's own data, not for a model's reply.
_RESULT_LIMITS: Final = Limits(reply_bytes=64_000_000, nodes=4_000_000)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def manifest_errors(manifest: ToolCallManifest, at: str = "") -> tuple[InvokeError, ...]:
    """Return the errors of calls and results, rule by rule; ``at`` is the manifest's place."""
    return _errors(_RULES, manifest, at)


def call_errors(manifest: ToolCallManifest) -> tuple[InvokeError, ...]:
    """Return the errors in a model's calls that the judge of replies does not find.

    They are in ids and arguments that UTF-8 cannot encode.
    """
    return _errors(_CALL_RULES, manifest, "")


def is_text(value: object) -> bool:
    """Return whether a value is a text that is not blank, and that UTF-8 can encode."""
    if not isinstance(value, str) or str.isspace(value) or not str.__len__(value):
        return False
    return str.isascii(value) or not _LONE_SURROGATE.search(value)


def _readable(text: object) -> str | None:
    """Return a text that UTF-8 can encode; None for anything else from a program."""
    return text if isinstance(text, str) and not _LONE_SURROGATE.search(text) else None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One call or result of a manifest, at its place."""

    value: AgentToolCall | AgentToolCallResult
    index: int
    path: str

    @property
    def id(self) -> str | None:
        return _readable(self.value.tool_call_id)

    @property
    def name(self) -> str | None:
        return _readable(self.value.name)

    def has(self, member: str) -> bool:
        return is_text(getattr(self.value, member))

    def text(self, member: str) -> str | None:
        return _readable(getattr(self.value, member))

    def breach(self, member: str, **facts: Unpack[Breach]) -> Breach:
        path = pointer(self.path, member)
        entry = Breach(path=path, index=self.index, tool_call_id=self.id, name=self.name)
        return {**entry, **facts}


@dataclass(frozen=True, slots=True)
class _Lists:
    """The two lists of a manifest at ``at``, with the places of their entries."""

    at: str
    calls: list[_Entry]
    results: list[_Entry]

    @classmethod
    def of(cls, manifest: ToolCallManifest, at: str) -> _Lists:
        calls = enumerate(manifest.tool_calls)
        results = enumerate(manifest.tool_call_results)
        return cls(
            at,
            [_Entry(one, index, f"{at}/tool_calls/{index}") for index, one in calls],
            [_Entry(one, index, f"{at}/tool_call_results/{index}") for index, one in results],
        )

    @property
    def pairs(self) -> list[tuple[_Entry, _Entry]]:
        """Pairs of calls and results with ids, by their index; empty if their numbers differ."""
        if len(self.calls) != len(self.results):
            return []

        both = zip(self.calls, self.results, strict=True)
        has_id = "tool_call_id"
        return [(call, result) for call, result in both if call.has(has_id) and result.has(has_id)]


def _counted(lists: _Lists) -> list[Breach]:
    return [] if len(lists.calls) == len(lists.results) else [Breach(path=lists.at)]


def _calls_without(member: str) -> _Finder:
    return lambda lists: [one.breach(member) for one in lists.calls if not one.has(member)]


def _results_without(member: str) -> _Finder:
    return lambda lists: [one.breach(member) for one in lists.results if not one.has(member)]


def _repeated(lists: _Lists) -> Iterable[Breach]:
    """Return the entries whose id is already in the same list; a pair is reported once (P60)."""
    found: dict[int, Breach] = {}
    for entries in (lists.calls, lists.results):
        seen: set[str | None] = set()
        for entry in entries:
            if entry.has("tool_call_id") and entry.id in seen:
                found.setdefault(entry.index, entry.breach("tool_call_id"))
            seen.add(entry.id)

    return found.values()


def _is_reordered(pairs: list[tuple[_Entry, _Entry]]) -> bool:
    called = [str(call.id) for call, _ in pairs]
    answered = [str(result.id) for _, result in pairs]
    return called != answered and sorted(called) == sorted(answered)


def _out_of_order(lists: _Lists) -> list[Breach]:
    """Return the first pair whose ids differ, if only the order differs (P53)."""
    return _differing(lists.pairs)[:1] if _is_reordered(lists.pairs) else []


def _of_other_calls(lists: _Lists) -> list[Breach]:
    """Return the pairs whose ids differ, if more than the order differs (P54)."""
    return [] if _is_reordered(lists.pairs) else _differing(lists.pairs)


def _differing(pairs: list[tuple[_Entry, _Entry]]) -> list[Breach]:
    differing = ((call, result) for call, result in pairs if call.id != result.id)
    return [call.breach("tool_call_id", result_id=result.id) for call, result in differing]


def _renamed(lists: _Lists) -> Iterator[Breach]:
    for call, result in lists.pairs:
        is_named = call.has("name") and result.has("name")
        if call.id == result.id and is_named and call.name != result.name:
            yield call.breach("name", result_name=result.name)


def _empty(lists: _Lists) -> Iterator[Breach]:
    """Yield the results without a JSON text (P56, P57)."""
    for one in lists.results:
        if not one.has("result_json"):
            yield one.breach("result_json", reason=one.text("error_message"))


def _with_both(lists: _Lists) -> Iterator[Breach]:
    for one in lists.results:
        if one.has("result_json") and one.has("error_message"):
            yield one.breach("error_message", reason=one.text("error_message"))


def _unreadable_results(lists: _Lists) -> Iterator[Breach]:
    """Yield the results whose text is not JSON to the reader of replies, however long (P61)."""
    for one in lists.results:
        if one.has("result_json"):
            at = pointer(one.path, "result_json")
            value = decode(one.text("result_json"), _RESULT_LIMITS, at=at)
            if isinstance(value, Invalid):
                yield one.breach("result_json", issues=value.issues)


def _unreadable_arguments(lists: _Lists) -> Iterator[Breach]:
    """Yield the calls whose arguments are not a JSON object to the reader of replies (P62)."""
    for one in lists.calls:
        at = pointer(one.path, "arguments_json")
        text = one.value.arguments_json if isinstance(one.value, AgentToolCall) else None
        args = decode(text, at=at)
        if isinstance(args, Invalid):
            yield one.breach("arguments_json", issues=args.issues)
        elif not isinstance(args, dict):
            yield one.breach("arguments_json", issues=(args_shape(args, at),))


_Finder = Callable[[_Lists], Iterable[Breach]]
_Row = tuple[str, InvokeCode, _Finder]

_CALL_ID: Final[_Row] = (
    "call_id",
    InvokeCode.TOOL_CALL_ID_MISSING,
    _calls_without("tool_call_id"),
)
_ARGUMENTS: Final[_Row] = (
    "arguments_readable",
    InvokeCode.ARGUMENTS_NOT_JSON,
    _unreadable_arguments,
)
_CALL_RULES: Final[tuple[_Row, ...]] = (_CALL_ID, _ARGUMENTS)
_RULES: Final[tuple[_Row, ...]] = (
    ("same_count", InvokeCode.COUNT_MISMATCH, _counted),
    _CALL_ID,
    ("result_id", InvokeCode.TOOL_CALL_ID_MISSING, _results_without("tool_call_id")),
    ("call_name", InvokeCode.NAME_MISSING, _calls_without("name")),
    ("result_name", InvokeCode.NAME_MISSING, _results_without("name")),
    ("unique_id", InvokeCode.DUPLICATE_ID, _repeated),
    ("same_order", InvokeCode.ORDER_MISMATCH, _out_of_order),
    ("same_id", InvokeCode.ID_MISMATCH, _of_other_calls),
    ("same_name", InvokeCode.NAME_MISMATCH, _renamed),
    ("result_json", InvokeCode.MISSING_RESULT_JSON, _empty),
    ("result_and_error", InvokeCode.RESULT_AND_ERROR, _with_both),
    ("result_readable", InvokeCode.RESULT_NOT_JSON, _unreadable_results),
    _ARGUMENTS,
)
"""The rules of a manifest in the order in which they are checked: id, code, and the check."""


def _errors(rules: Iterable[_Row], manifest: ToolCallManifest, at: str) -> tuple[InvokeError, ...]:
    lists = _Lists.of(manifest, at)
    return tuple(
        code.error(f"manifest.{rule}", **breach)
        for rule, code, found in rules
        for breach in found(lists)
    )
