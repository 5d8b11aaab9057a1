"""The questions to a human and their answers, as they stand in a state, by schema.

A question has a kind, which says what an answer decides.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from itertools import count
from typing import Any, Final, Self, TypeAlias, cast

from strictreply import ContractError, Issue
from strictreply.coordination._actions import CoordinationCode, StateError
from strictreply.core import JSON, JSONObject
from strictreply.schema import Schema, SchemaRule

TEXT: Final[JSONObject] = {"type": "string"}
NAME: Final[JSONObject] = {"type": "string", "minLength": 1}
COUNT: Final[JSONObject] = {"type": "integer", "minimum": 0}
FLAG: Final[JSONObject] = {"type": "boolean"}
OBJECT: Final[JSONObject] = {"type": "object"}

_CODES: Final[Mapping[str, CoordinationCode]] = {
    SchemaRule.REQUIRED: CoordinationCode.STATE_MISSING_FIELD,
    SchemaRule.DEPENDENT_REQUIRED: CoordinationCode.STATE_MISSING_FIELD,
    SchemaRule.MINIMUM: CoordinationCode.STATE_NEGATIVE,
    SchemaRule.MIN_LENGTH: CoordinationCode.STATE_BLANK,
    SchemaRule.ENUM: CoordinationCode.STATE_UNKNOWN_WORD,
}
# Stands for a value that is not JSON of a state: no schema of a state admits a fraction.
_NOT_ADMITTED: Final = 0.5


def record(properties: JSONObject, *, optional: Collection[str] = ()) -> JSONObject:
    """Return the schema of an object with these members, and any others.

    All of these are required but the optional ones.
    """
    required: list[JSON] = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def optional(schema: JSONObject) -> JSONObject:
    """Return the schema of the same value, or null."""
    return {**schema, "type": [schema["type"], "null"]}


class StateSchema:
    """A JSON Schema of a part of a state; compiled when it is first used."""

    def __init__(self, document: JSONObject) -> None:
        self._document = document

    @cached_property
    def _compiled(self) -> Schema:
        return Schema.compile(self._document, extra="schema")

    def issues(self, value: object, at: str = "") -> tuple[Issue, ...]:
        """Return what is wrong with a value that stands at a JSON Pointer: at most 32 faults."""
        issues: list[Issue] = []
        for issue in self._compiled.check(_named_by(self._document, value), place="state"):
            rule = issue.code.partition(".")[2]
            code = _CODES.get(rule, CoordinationCode.STATE_WRONG_TYPE)
            if rule == str(SchemaRule.TYPE):
                part = cast("JSONObject", self._compiled.part(issue.path))
                if "properties" in part:
                    code = CoordinationCode.STATE_NOT_OBJECT

            message = code.template if code is CoordinationCode.STATE_BLANK else issue.message
            found = "" if issue.found == str(_NOT_ADMITTED) else issue.found
            place = at + issue.path
            issues.append(Issue(code.value, code.category, place, message, issue.hint, found))

        return tuple(issues)


def _named_by(schema: JSONObject, value: object) -> JSON:
    """Return a copy of what a schema names of a value, as plain JSON.

    Floats are not admitted, although JSON Schema takes 3.0 for an integer.
    """
    if isinstance(value, str):
        text = str(value) if value.strip() else ""  # NAME asks for a character that is not blank
        # half a surrogate pair is not JSON
        return text if text.isascii() else text.encode(errors="replace").decode()

    if value is None or isinstance(value, bool | int):
        return value

    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_named_by(schema["items"], item) for item in items] if "items" in schema else []

    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        known: Mapping[str, Any] = schema.get("properties", {})
        return {
            name: _named_by(part, members[name]) for name, part in known.items() if name in members
        }

    return _NOT_ADMITTED


class HumanDecision(StrEnum):
    """Everything an answer can decide."""

    APPROVE = "approve"
    REVISE = "revise"
    FEEDBACK = "feedback"
    SATISFIED = "satisfied"
    MORE = "more"
    ADJUST = "adjust"
    RETRY = "retry"
    SKIP = "skip"
    ABORT = "abort"


Words: TypeAlias = Mapping[str, HumanDecision]
"""What single answers mean, as whole texts; case, width and spaces around them do not matter."""


class HumanKind(StrEnum):
    """What is asked.

    ``words`` are the answers that decide, ``prompt`` is the default text of a request, and
    ``otherwise`` is what any other text decides, None when the human is asked again.
    """

    decisions: frozenset[HumanDecision]
    words: Words
    otherwise: HumanDecision | None
    prompt: str

    def __new__(
        cls, value: str, prompt: str, otherwise: HumanDecision | None, spelt: Mapping[str, str]
    ) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.decisions = frozenset(map(HumanDecision, spelt))
        member.otherwise = otherwise
        member.prompt = prompt

        member.words = {
            word: HumanDecision(one)
            for one, words in spelt.items()
            for word in (one, *words.split())
        }
        return member

    GENERAL = "general", "Please say how to go on.", HumanDecision.FEEDBACK, {"feedback": ""}
    PLAN_APPROVAL = (
        "plan_approval",
        "Do you agree with this plan? Answer approve or revise, or say what to change.",
        HumanDecision.FEEDBACK,
        {
            "approve": "approved yes y ok okay agree agreed 同意 批准 可以 好 好的 是 没问题",
            "revise": "no n 不同意 修改 不可以 不行",
            "feedback": "",
        },
    )
    COURSE_SELECTION = (
        "course_selection",
        "Are these courses what you want? Answer satisfied or more, or say what to adjust.",
        HumanDecision.ADJUST,
        {
            "satisfied": "yes y ok okay 满意 可以 好 好的",
            "more": "更多 再来 继续",
            "adjust": "no 调整 不满意",
        },
    )
    ERROR = (
        "error",
        "A step failed. Answer retry, skip or abort.",
        None,
        {"retry": "重试", "skip": "跳过", "abort": "cancel stop 中止 取消"},
    )


@dataclass(frozen=True, slots=True)
class PendingHuman:
    """One question to a human that is not answered yet."""

    id: str
    """Id of the question."""
    kind: HumanKind = HumanKind.GENERAL
    """What kind of question it is, which says what an answer decides."""
    prompt: str = ""
    """The text of the question; empty for none."""
    resume_to: str | None = None
    """The node that an answer leads to; None for the one where the graph begins."""
    skip_to: str | None = None
    """The node that ``skip`` leads to; None for none."""
    interrupted: str | None = None
    """The target that cancelling restores; None for none."""
    requested_at: str = ""
    """ISO 8601 time of the question; empty when unknown."""
    asked: int = 0
    """How often the prompt was put."""
    tell_to: str | None = None
    """The node that is told an answer once the line that asked is over; None until then."""
    carried: int = 0
    """Later runs that led the question to another entry."""
    redirected: int = 0
    """Answers to earlier questions that changed ``interrupted``."""

    @property
    def question(self) -> str:
        """The words to put: the request's own, or its kind's."""
        return self.prompt.strip() or self.kind.prompt

    def handed_over(self, target: str, *, tell_to: str | None = None) -> Self:
        """Return the question for the line that goes on at ``target``: any answer leads there."""
        return replace(self, resume_to=target, skip_to=target, interrupted=target, tell_to=tell_to)

    def carried_over(self, entry: str) -> Self:
        """Return the question for a new run that begins at ``entry``.

        It is carried over once; its asker is still told the answer.
        """
        if self.carried and self.resume_to == entry:
            return self

        question = self.handed_over(entry, tell_to=self.tell_to or self.resume_to)
        return replace(question, carried=self.carried + 1)

    def to_dict(self) -> JSONObject:
        """Return the request as JSON."""
        return asdict(self) | {"kind": self.kind.value}


@dataclass(frozen=True, slots=True)
class SettledHuman:
    """A request that is over: answered with ``decision``, or cancelled when there is no decision.

    ``settled_at`` is an ISO 8601 time.
    """

    request: PendingHuman
    decision: HumanDecision | None
    answer: str = ""
    settled_at: str = ""

    def to_dict(self) -> JSONObject:
        """Return how it was settled as JSON, beside the members of the request."""
        decision = self.decision and self.decision.value
        settled = {"decision": decision, "answer": self.answer, "settled_at": self.settled_at}
        return self.request.to_dict() | settled


HumanRequest: TypeAlias = PendingHuman | SettledHuman

_KINDS = {kind.value: kind for kind in HumanKind}  # type checkers take HumanKind(…) for its __new__
_OF_TYPE = {
    "str": TEXT,
    "str | None": optional(TEXT),
    "int": COUNT,
    "HumanKind": {"enum": [*_KINDS]},
}
_PENDING: JSONObject = {
    **{one.name: _OF_TYPE[str(one.type)] for one in fields(PendingHuman)},
    "id": NAME,
}
_SETTLED: JSONObject = {
    "decision": {"enum": [*map(str, HumanDecision), None]},
    "answer": TEXT,
    "settled_at": TEXT,
}
# A ledger that was kept by an earlier version has no ``redirected``.
_REQUEST: JSONObject = {
    **record(_PENDING | _SETTLED, optional=("redirected", *_SETTLED)),
    "dependentRequired": {"settled_at": ["decision", "answer"]},
}
LEDGER: Final[JSONObject] = {"type": "array", "items": _REQUEST}
_LEDGER = StateSchema(LEDGER)


def read_ledger(value: object, at: str = "") -> tuple[HumanRequest, ...]:
    """Return the requests of a ledger as a state holds it; raises StateError with every fault."""
    if issues := _LEDGER.issues(value, at):
        raise StateError(issues)

    found: list[HumanRequest] = []
    for entry in cast("list[Mapping[str, Any]]", value):
        parts: dict[str, Any] = {key: entry[key] for key in _PENDING if key in entry}
        parts["kind"] = _KINDS[entry["kind"]]
        request = PendingHuman(**parts)

        if "settled_at" in entry:
            decision = entry["decision"] and HumanDecision(entry["decision"])
            found.append(SettledHuman(request, decision, entry["answer"], entry["settled_at"]))
        else:
            found.append(request)

    return tuple(found)


def merge_ledgers(one: list[JSONObject], other: list[JSONObject]) -> list[JSONObject]:
    """Return two ledgers as one, as LangGraph's reducer: every request once, by its later entry.

    Raises StateError unless both are ledgers.
    """
    by_age = sorted((*read_ledger(one), *read_ledger(other)), key=_age)
    joined = {request_of(found).id: found for found in by_age}
    return [found.to_dict() for found in sorted(joined.values(), key=_requested)]


def _requested(found: HumanRequest) -> tuple[str, str]:
    request = request_of(found)
    return request.requested_at, request.id


def _age(found: HumanRequest) -> tuple[bool, int, int, int, str]:
    """Return what orders the entries of a request.

    A settled one is later than a pending one; else the one that was carried or asked more often is
    the later one.
    """
    request = request_of(found)
    total = json.dumps(found.to_dict(), sort_keys=True)  # so that no two entries are equally old
    settled = isinstance(found, SettledHuman)
    return settled, request.carried, request.redirected, request.asked, total


def request_of(found: HumanRequest) -> PendingHuman:
    """Return the question of a request, settled or not."""
    return found.request if isinstance(found, SettledHuman) else found


def unworded(ledger: Sequence[JSONObject], interrupted: str | None) -> PendingHuman:
    """Return the request of a flag that was set by hand.

    Its id follows from the ledger, so that it is added once.
    """
    # a ledger that was changed by hand may have any id
    taken = {entry.get("id") for entry in ledger}
    id_ = next(one for number in count(len(ledger)) if (one := f"flag-{number}") not in taken)
    return PendingHuman(id=id_, interrupted=interrupted)


def carry_over(ledger: list[JSONObject], entry: str, *, flagged: bool) -> list[JSONObject]:
    """Return the ledger of a new run, whose pending requests lead to ``entry``.

    A bare flag gets a request of its own.
    """
    pending = [found for found in read_ledger(ledger) if isinstance(found, PendingHuman)]
    if flagged and not pending:
        pending = [unworded(ledger, None)]
    return merge_ledgers(ledger, [request.carried_over(entry).to_dict() for request in pending])


def read_answer(
    kind: HumanKind, answer: str, *, words: Words | None = None
) -> HumanDecision | None:
    """Return what an answer decides, None when the human is to be asked again.

    An answer is a decision's name, or exactly one of the words of its kind; ``words`` adds to those
    and overrides them. Any other text decides ``kind.otherwise``: a word is never looked for inside
    a text, so no negation is taken for consent (requirement R26). Raises ContractError when
    ``words`` names a decision that this kind does not have, and, where it would pass for free text,
    for another kind's bare decision.
    """
    if foreign := sorted({*(words or {}).values()} - kind.decisions):
        raise ContractError(f"words of {kind.value!r} may not mean {', '.join(foreign)}")

    table = {**kind.words} | {_plain(word): decision for word, decision in (words or {}).items()}
    spelt = _plain(answer)
    mixes = kind.otherwise is not None and len(kind.decisions) > 1  # a name may pass for free text
    if spelt not in table and spelt in tuple(HumanDecision) and mixes:
        ways = f"answer {', '.join(sorted(kind.decisions))}, or say it in more words"
        raise ContractError(
            f"{spelt!r} does not answer a question of the kind {kind.value!r}: {ways}"
        )

    return table.get(spelt, kind.otherwise)


def _plain(answer: str) -> str:
    return unicodedata.normalize("NFKC", answer).casefold().strip()
