"""Stops a reply early, while it is still arriving.

If it stops a reply, the judge would reject every continuation with the same issue. A reply that is
not stopped may still be invalid: only the judge accepts.

It stops at the first piece after which no continuation fits, and only if it can name the issue that
the judge would report. So:

- Each JSON text is read piece by piece (:class:`IncrementalReader`). Each event (a key, a member,
  an item, the start, a part or the end of a value) is checked against the schemas that may apply to
  its place. If no alternative admits the event, no continuation can fit.
- The judge gets the rejected event and everything before it, as if the text ended there. Only an
  issue that the event itself can have caused (``_BROKEN``) counts: a required key may still follow,
  but an extra one cannot disappear.
- In doubt there is no early stop: for a name that may continue, for text that an extraction may
  remove, for a subclass of Answer that judges messages itself, for content next to possible calls.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from strictreply.contract._answer import Answer, PartialAnswer
from strictreply.contract._channels import is_final_answer, judge_args, judge_name, judge_union
from strictreply.reading._decoding import THINK_CLOSE, THINK_OPEN
from strictreply.reading._incremental import IncrementalReader, Partial, Stop
from strictreply.schema._live import ANYTHING, Alternative, LiveCheck, Place, object_of, text_place
from strictreply.schema._sent_form import SentForm
from strictreply.schema._sent_values import VALUE
from strictreply.values._drafts import CALLS_PLACE, TEXT_PLACE, arguments_place, name_place
from strictreply.values._issues import Code, Issue, pointer_tokens
from strictreply.values._limits import JSON, Limits, Work, utf8_size
from strictreply.values._replies import Invalid, StoppedEarly

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

_Explain: TypeAlias = Callable[[JSON], object]
_CHOICE = frozenset({"any_of", "one_of"})
_WHOLE = frozenset({"enum", "const", "forbidden", "not"}) | _CHOICE
_NAMED = frozenset({"unknown", "forced", "forbidden"})  # tools
_KEYS = frozenset(
    {"extra_key", "no_keys", "property_names", "forbidden", "tool_and_answer", "required"}
)
# The rules that each rejected event can have broken; None for any. A missing part breaks rules,
# too.
_BROKEN: dict[str, frozenset[str] | None] = {
    "key": _KEYS | _CHOICE,
    "member": frozenset({"max_properties"}),
    "item": frozenset({"max_items", "extra_items", "forbidden"}),
    "begins": frozenset({"type", "wrong_type", "not_object"}) | _WHOLE,
    "part": frozenset({"max_length"}) | _WHOLE | _NAMED,
    "scalar": None,
    "ends": None,
}
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n", re.IGNORECASE)
_CHARS_PER_TOKEN = 4
_MAX_ASKED = 8
_MAX_FENCE = 200  # characters of a fence's first line that are followed
_UNION = ("tool", "args", "answer")
_FENCE_START = re.compile(r"`{1,3}\Z|```(?:j|js|jso|json)?[ \t]*\r?\Z", re.IGNORECASE)


class EarlyStop:
    """Checks one arriving reply, for one attempt.

    :meth:`text` and :meth:`call` return the issue that no continuation can fix, or None. Do not
    feed more after an issue.
    """

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._calls: dict[int, _Call] = {}
        self._last: int | None = None
        self._written = 0
        self._content = 0
        self._most = contract.limits.reply_bytes

        # if text around the JSON may be dropped, only the JSON's characters count
        self._is_whole = contract.extraction == ("strict",) or contract.answer.is_text

        # a subclass of Answer that judges messages itself
        self._own = type(contract.answer) is not Answer
        self._answer: _Text | None = None
        self._typed: PartialAnswer | None = None

        schema = contract.answer.schema
        if contract.channel == "text":
            self._answer = _Text(contract, _union(contract), partial(_judge_union, contract), "")
        elif schema is not None and not self._own and contract.answer_style == "union":
            explain = partial(contract.answer.judge, at=TEXT_PLACE)
            place = ANYTHING if _answers_otherwise(contract) else schema.live.root
            self._answer = _Text(contract, place, explain, TEXT_PLACE)

        # next to calls, the content may be any text
        may_call = contract.choice != "none" and bool(contract.tools)
        self._is_free = contract.channel == "native" and may_call

    def text(self, piece: str) -> Issue | None:
        """Read a piece of ``message.content``."""
        self._last = None
        self._content += utf8_size(piece) if self._is_whole else len(piece)
        limit = self._most
        if self._content > limit:
            is_json = self._answer is not None and not self._calls
            code = Code.JSON_TOO_LARGE if is_json else Code.REPLY_TOO_LARGE
            path = "" if self._contract.channel == "text" else TEXT_PLACE
            return Issue.of(code, path, limit=limit)

        issue = self._answer.feed(piece) if self._answer is not None else None
        return None if self._is_free else issue

    def call(self, index: int, name: str | None, arguments: str) -> Issue | None:
        """Read a piece of the call at an index: of its name, of its arguments, or of both."""
        contract = self._contract
        if contract.channel == "text":
            expected = "a JSON object in the content"
            return Issue.of(Code.CALL_MALFORMED, CALLS_PLACE, expected=expected)

        if self._own or not (name or arguments):
            return None

        if (call := self._calls.get(index)) is None:
            call = self._calls[index] = _Call(contract)
            if len(self._calls) > contract.limits.calls:
                return Issue.of(Code.TOOL_TOO_MANY, CALLS_PLACE, limit=contract.limits.calls)
            if len(self._calls) > 1 and not contract.parallel:
                return Issue.of(Code.TOOL_SEVERAL, CALLS_PLACE)

        self._last = index
        size = utf8_size(arguments)
        call.came += size
        self._written += size

        if self._written > (limit := contract.limits.reply_bytes):
            return Issue.of(Code.JSON_TOO_LARGE, CALLS_PLACE, limit=limit)
        if call.args is not None and not name:
            return call.args.feed(arguments)

        return call.feed(name or "", arguments, sorted(self._calls).index(index))

    def stopped_early(self) -> StoppedEarly:
        """Return how much of the last text was received, and the least that its rest would need."""
        came = self._content
        schema = self._contract.answer.schema

        if self._last is not None:
            call = self._calls[self._last]
            tool = self._contract.by_name.get(call.name)
            came = call.came
            schema = None if tool is None else tool.parameters

        example = None if schema is None else schema.example()
        rest = len(json.dumps(example, separators=(",", ":"))) - came
        return StoppedEarly(came, None if example is None else max(0, rest) // _CHARS_PER_TOKEN)

    def partial(self) -> Partial[object] | None:
        """Return the structured answer so far.

        None for plain text, and before the answer starts.
        """
        answer = self._contract.answer
        if self._answer is None or answer.schema is None:
            return None

        partial = self._answer.partial()
        if partial is not None and self._contract.channel == "text":
            value = partial.value
            if not isinstance(value, dict) or "answer" not in value:
                return None

            at = "/answer"
            paths = tuple(path[len(at) :] for path in partial.open if path.startswith(at))
            partial = Partial(value["answer"], paths)

        sent = self._contract.sent
        if partial is not None and sent is not None and sent.answer is not None:
            partial = _declared_part(partial, sent.answer)

        if partial is None or answer.adapter is None:
            return partial

        if self._typed is None:
            names = answer.schema.names
            self._typed = PartialAnswer(answer.kind, answer.adapter, names, answer.extra)

        return replace(partial, answer=self._typed.grown(partial))


def _answers_otherwise(contract: Contract) -> bool:
    """Return whether the answer arrives in another form than declared, and is judged as a whole.

    It is the form for a provider's strict mode, of which only the JSON can be followed.
    """
    answer = None if contract.sent is None else contract.sent.answer
    return answer is not None and answer.restored is not None


def _declared_part(partial: Partial[object], form: SentForm) -> Partial[object] | None:
    """Return the declared form of an answer that is arriving in a provider's form.

    None before it starts.
    """
    if form.restored is None:
        return partial
    if not form.is_wrapped:
        return Partial(form.restored(partial.value), partial.open)

    value = partial.value
    if not isinstance(value, dict):
        # an endpoint that rejected the form got the schema as declared
        return partial
    if VALUE not in value:
        return partial if value else None

    at = f"/{VALUE}"
    paths = tuple(path[len(at) :] for path in partial.open if path.startswith(at))
    return Partial(form.restored({VALUE: value[VALUE]}), paths)


class _Followed:
    """One JSON text at a place of the reply; ``explain`` judges it when it is rejected."""

    def __init__(
        self, limits: Limits, place: Place, explain: _Explain, at: str, names: Collection[str]
    ) -> None:
        self._at = at
        self._names = names
        self._explain = explain
        self.reader = IncrementalReader(LiveCheck(place), limits)

    def feed(self, piece: str) -> Issue | None:
        stop = self.reader.feed(piece)
        if stop is None:
            return None
        if stop.code is not None:
            return self.reader.issue(stop.code, self._at, self._names)

        verdict = self._explain(stop.value)
        return _issue_of(stop, verdict.issues if isinstance(verdict, Invalid) else (), self._at)


def _issue_of(stop: Stop, issues: tuple[Issue, ...], at: str) -> Issue | None:
    """Return the issue that no continuation can fix, among the judge's issues so far.

    None in doubt.
    """
    place = [*pointer_tokens(at), *map(str, stop.place)]
    broken = _BROKEN[stop.event]
    choices: list[tuple[int, Issue]] = []

    for issue in issues:
        rule = issue.code.rpartition(".")[2]
        path = pointer_tokens(issue.path)
        # hidden names are ``*``
        pairs = zip(path, place, strict=False)
        if any(token != other and "*" not in (token, other) for token, other in pairs):
            continue

        is_at_place = len(path) == len(place) and (broken is None or rule in broken)
        if is_at_place or (len(path) > len(place) and stop.event == "ends"):
            return issue

        if len(path) <= len(place) and rule in _CHOICE:
            choices.append((len(path), issue))

    return max(choices, key=operator.itemgetter(0))[1] if choices else None


class _Call:
    """One native call: its name until the arguments begin, then its arguments."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self.name = ""
        self._held = ""  # arguments that were received before they could be read
        self.came = 0
        self.args: _Followed | None = None
        self._is_lost = False

    def feed(self, name: str, arguments: str, place: int) -> Issue | None:
        issue = self._take_name(name, name_place(place)) if name else None
        if issue is not None or self._is_lost or not arguments:
            return issue

        if not self.name or (self.args is None and (self._held + arguments).isspace()):
            self._held += arguments
            return None

        if self.args is None:
            contract = self._contract
            at = arguments_place(place)

            if issues := judge_name(contract, self.name, name_place(place), Work()):
                return issues[0]

            # without a tool, it is the answer
            tool = contract.by_name.get(self.name)
            names = contract.names if tool is None else tool.parameters.names
            explain = partial(judge_args, contract, self.name, at=at, call_id=None, work=Work())
            args_place = _args_place(contract, self.name)
            self.args = _Followed(contract.limits, args_place, explain, at, names)

            arguments = self._held + arguments
            self._held = ""

        return self.args.feed(arguments)

    def _take_name(self, piece: str, at: str) -> Issue | None:
        contract = self._contract
        whole = self.name + piece
        known = [each for each in contract.callable_names if each.startswith(whole)]

        # some servers write it in every chunk
        repeats = piece == self.name and piece in contract.callable_names
        if repeats or self.args is not None:
            if not repeats or (self.args is None and known):
                self._is_lost = True
                self.args = None

            return None

        self.name = whole
        return None if known else next(iter(judge_name(contract, whole, at, Work())), None)


class _Text:
    """A content that is JSON, after text that the contract's extraction may remove."""

    def __init__(self, contract: Contract, place: Place, explain: _Explain, at: str) -> None:
        self._modes = contract.extraction
        self._lead: str | None = ""  # the text before the JSON; None once the JSON has started
        # any text may be followed by the object that is taken
        self._is_lost = "first_object" in self._modes
        self._json = _Followed(contract.limits, place, explain, at, contract.names)

    def partial(self) -> Partial[object] | None:
        return None if self._is_lost else self._json.reader.partial()

    def feed(self, piece: str) -> Issue | None:
        if self._is_lost:
            return None
        if self._lead is not None and self._modes != ("strict",):
            piece = self._begun(self._lead + piece)

        return self._json.feed(piece) if piece else None

    def _begun(self, text: str) -> str:
        """Return the JSON behind what may be stripped, as far as it is there.

        The text is empty when the JSON has not begun.
        """
        self._lead = text
        start = text.lstrip()
        thinks = start.startswith(THINK_OPEN)
        if "after_think" in self._modes and (thinks or (start and THINK_OPEN.startswith(start))):
            if THINK_CLOSE not in text:
                if thinks:  # of the thought, only what may be a part of the closing tag is kept
                    self._lead = THINK_OPEN + start[len(THINK_OPEN) :][-len(THINK_CLOSE) :]

                return ""

            self._lead = text = text.partition(THINK_CLOSE)[2]
            self._modes = tuple(mode for mode in self._modes if mode != "after_think")
            start = text.lstrip()

        if not start:
            # one blank that JSON does not allow is enough to refuse it later
            self._lead = text.strip(" \t\n\r")[:1]
            return ""

        if "fenced" in self._modes and start.startswith("`"):
            fence = _FENCE.match(start)
            if fence is None:
                self._is_lost = len(start) > _MAX_FENCE or _FENCE_START.match(start) is None
                return ""

            self._json.reader.loose_end = True
            text = start[fence.end() :]

        self._lead = None
        return text


def _answer_place(contract: Contract) -> Place:
    if type(contract.answer) is not Answer:
        return ANYTHING
    schema = contract.answer.schema
    return text_place(None) if schema is None else schema.live.root


def _args_place(contract: Contract, name: str) -> Place:
    if is_final_answer(contract, name):
        return Place((object_of({"answer": _answer_place(contract)}),))

    sent = None if contract.sent is None else contract.sent.tools.get(name)
    if sent is not None and sent.form.restored is not None:
        return ANYTHING.only("object")

    return contract.by_name[name].parameters.live.root.only("object")


def _judge_union(contract: Contract, value: JSON) -> object:
    """Judge the union.

    Where the tool is still to come, the issues are those that all of the tools would have.
    """
    names = contract.callable_names
    if not isinstance(value, dict) or value.keys() != {"args"} or not 0 < len(names) <= _MAX_ASKED:
        return judge_union(contract, value, Work())

    verdicts = [judge_union(contract, {**value, "tool": name}, Work()) for name in names]
    found = [verdict.issues if isinstance(verdict, Invalid) else () for verdict in verdicts]
    places = [{(issue.code, issue.path) for issue in issues} for issues in found]
    shared = set.intersection(*places)
    return Invalid(tuple(issue for issue in found[0] if (issue.code, issue.path) in shared))


def _is_called(contract: Contract, tool: str, name: JSON) -> bool:
    return name == tool and not judge_name(contract, name, "/tool", Work())


def _union(contract: Contract) -> Place:
    alternatives: list[Alternative] = []
    for name in contract.callable_names:
        tool = text_place((name,), partial(_is_called, contract, name))
        alternatives.append(object_of({"tool": tool, "args": _args_place(contract, name)}, _UNION))

    if not alternatives:
        no_tool = text_place((), lambda _: False)
        alternatives.append(object_of({"tool": no_tool, "args": ANYTHING}, _UNION))

    if contract.answer_style == "union" and contract.choice in {"auto", "none"}:
        alternatives.append(object_of({"answer": _answer_place(contract)}, _UNION))

    return Place(alternatives)
