"""What an answer decides, and a ledger that loses nothing."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.coordination import (
    CoordinationCode,
    HumanDecision,
    HumanKind,
    PendingHuman,
    StateError,
    create_initial_state,
    give_human_feedback,
    read_answer,
)
from strictreply.coordination.state import (
    SettledHuman,
    carry_over_requests,
    merge_ledgers,
    pending_requests,
    read_ledger,
    read_requests,
    with_requests,
)
from strictreply.core import JSONObject
from support.coordination.tutor import NOON, asked, state_with

PLAN = HumanKind.PLAN_APPROVAL
COURSES = HumanKind.COURSE_SELECTION
ERROR = HumanKind.ERROR
GENERAL = HumanKind.GENERAL


@pytest.mark.req("R25")
@pytest.mark.parametrize(
    ("kind", "decisions"),
    [
        (PLAN, {"approve", "revise", "feedback"}),
        (COURSES, {"satisfied", "more", "adjust"}),
        (ERROR, {"retry", "skip", "abort"}),
        (GENERAL, {"feedback"}),
    ],
)
def test_each_kind_has_its_decisions(kind: HumanKind, decisions: set[str]) -> None:
    """An answer to a kind of question decides one of a few named things, each by its own name."""
    assert kind.decisions == decisions
    assert {read_answer(kind, name) for name in decisions} == decisions
    assert all(decision in kind.decisions for decision in kind.words.values())
    assert kind.otherwise in {None, *kind.decisions}


@pytest.mark.req("R25")
@pytest.mark.parametrize(
    ("kind", "answer", "decision"),
    [
        (PLAN, "approve", HumanDecision.APPROVE),
        (PLAN, HumanDecision.APPROVE, HumanDecision.APPROVE),
        (PLAN, " Yes ", HumanDecision.APPROVE),
        (PLAN, "ＯＫ", HumanDecision.APPROVE),
        (PLAN, "同意", HumanDecision.APPROVE),
        (PLAN, "revise", HumanDecision.REVISE),
        (PLAN, "修改", HumanDecision.REVISE),
        (PLAN, "use fewer weeks", HumanDecision.FEEDBACK),
        (PLAN, "yes, but use fewer weeks", HumanDecision.FEEDBACK),
        (PLAN, "retry it", HumanDecision.FEEDBACK),
        (COURSES, "满意", HumanDecision.SATISFIED),
        (COURSES, "more", HumanDecision.MORE),
        (COURSES, "更多", HumanDecision.MORE),
        (COURSES, "satisfied, but show me more", HumanDecision.ADJUST),
        (COURSES, "not satisfied", HumanDecision.ADJUST),
        (COURSES, "something easier", HumanDecision.ADJUST),
        (GENERAL, "approve", HumanDecision.FEEDBACK),
        (GENERAL, "anything", HumanDecision.FEEDBACK),
        (ERROR, "RETRY", HumanDecision.RETRY),
        (ERROR, "跳过", HumanDecision.SKIP),
        (ERROR, "stop", HumanDecision.ABORT),
        (ERROR, "please retry", None),
        (ERROR, "do not abort", None),
        (ERROR, "approve", None),
    ],
)
def test_an_answer_is_a_word_or_free_text(
    kind: HumanKind, answer: str, decision: HumanDecision | None
) -> None:
    """A decision's name or one of its words decides it; the kind decides what other text means."""
    assert read_answer(kind, answer) is decision


@pytest.mark.req("R25")
@pytest.mark.parametrize("kind", [PLAN, COURSES])
@pytest.mark.parametrize("decision", HumanDecision)
def test_the_name_of_another_kinds_decision_decides_nothing(
    kind: HumanKind, decision: HumanDecision
) -> None:
    """Where free text is accepted, the bare name of another kind's decision is refused."""
    for spelt in (decision.value, f" {decision.value.upper()} "):
        if decision in kind.decisions:
            assert read_answer(kind, spelt) is decision
            continue

        with pytest.raises(ContractError):
            read_answer(kind, spelt)

        assert read_answer(kind, f"{spelt} it") is kind.otherwise
        (mine, *_) = kind.decisions
        assert read_answer(kind, spelt, words={decision.value: mine}) is mine


@pytest.mark.req("R26")
@pytest.mark.parametrize(
    "answer",
    [
        "不同意",
        "不可以",
        "I can't say yes",
        "disapprove",
        "not ok",
        "no",
        "yes?",
        "I do not approve",
        "approve?",
    ],
)
def test_a_negation_is_no_consent(answer: str) -> None:
    """No answer that merely contains a word of consent approves."""
    assert read_answer(PLAN, answer) in {HumanDecision.REVISE, HumanDecision.FEEDBACK}


@pytest.mark.req("R26")
@given(
    before=st.text(max_size=8), after=st.text(max_size=8), word=st.sampled_from(sorted(PLAN.words))
)
def test_a_word_within_a_text_decides_nothing(before: str, after: str, word: str) -> None:
    """Only a whole answer that is a known word can approve."""
    answer = before + word + after
    assume(answer.strip().casefold() not in set(HumanDecision) - PLAN.decisions)

    if read_answer(PLAN, answer) is HumanDecision.APPROVE:
        known = {
            "approve",
            *(word for word, means in PLAN.words.items() if means is HumanDecision.APPROVE),
        }
        assert read_answer(PLAN, answer.strip()) is HumanDecision.APPROVE
        assert len(answer.strip()) <= max(map(len, known))


def test_a_caller_adds_words_of_any_language() -> None:
    """Further words are whole answers too, win over ours, and mean what the kind can decide."""
    words = {"Einverstanden": HumanDecision.APPROVE, "ok": HumanDecision.REVISE}
    assert read_answer(PLAN, "einverstanden", words=words) is HumanDecision.APPROVE
    assert read_answer(PLAN, "nicht einverstanden", words=words) is HumanDecision.FEEDBACK
    assert read_answer(PLAN, "OK", words=words) is HumanDecision.REVISE
    with pytest.raises(ContractError):
        read_answer(PLAN, "los", words={"los": HumanDecision.RETRY})


def settled(
    request: PendingHuman, decision: HumanDecision | None = HumanDecision.FEEDBACK, at: str = "x"
) -> SettledHuman:
    """Settle a request by hand."""
    return SettledHuman(request, decision, "fine", at)


@pytest.mark.req("R28")
@pytest.mark.parametrize(
    "found",
    [
        asked(),
        asked(kind=ERROR, resume_to="a", skip_to="b", asked=2),
        asked(resume_to="a").carried_over("b"),
        settled(asked()),
        settled(asked(), None),
    ],
)
def test_a_request_is_json(found: PendingHuman | SettledHuman) -> None:
    """A request, settled or not, goes through JSON and is the same."""
    assert read_ledger(json.loads(json.dumps([found.to_dict()]))) == (found,)


@pytest.mark.parametrize(
    ("ledger", "code", "path"),
    [
        (None, CoordinationCode.STATE_WRONG_TYPE, ""),
        ([5], CoordinationCode.STATE_NOT_OBJECT, "/0"),
        ([{**asked().to_dict(), "id": ""}], CoordinationCode.STATE_BLANK, "/0/id"),
        ([{**asked().to_dict(), "kind": "other"}], CoordinationCode.STATE_UNKNOWN_WORD, "/0/kind"),
        ([{**asked().to_dict(), "asked": True}], CoordinationCode.STATE_WRONG_TYPE, "/0/asked"),
        ([{**asked().to_dict(), "carried": -1}], CoordinationCode.STATE_NEGATIVE, "/0/carried"),
        ([{**asked().to_dict(), "tell_to": 5}], CoordinationCode.STATE_WRONG_TYPE, "/0/tell_to"),
        (
            [{**settled(asked()).to_dict(), "decision": "perhaps"}],
            CoordinationCode.STATE_UNKNOWN_WORD,
            "/0/decision",
        ),
        (
            [{**asked().to_dict(), "settled_at": "x"}],
            CoordinationCode.STATE_MISSING_FIELD,
            "/0/decision",
        ),
    ],
)
def test_a_broken_ledger_is_refused(ledger: Any, code: CoordinationCode, path: str) -> None:
    """A modified ledger is an error with its place; no request is dropped silently."""
    with pytest.raises(StateError) as caught:
        read_ledger(ledger)
    assert (caught.value.issues[0].code, caught.value.issues[0].path) == (code, path)


REQUESTS = st.builds(
    asked,
    id=st.sampled_from("abc"),
    kind=st.sampled_from(HumanKind),
    prompt=st.sampled_from(["", "Sure?"]),
    requested_at=st.sampled_from(["", NOON.isoformat()]),
    asked=st.integers(0, 2),
    carried=st.integers(0, 2),
)
FOUND = REQUESTS | st.builds(
    settled, REQUESTS, st.none() | st.sampled_from(HumanDecision), st.sampled_from("xy")
)
LEDGERS = st.lists(FOUND, max_size=4).map(lambda found: [one.to_dict() for one in found])


@given(one=LEDGERS, two=LEDGERS, three=LEDGERS)
def test_ledgers_merge_in_any_order(
    one: list[JSONObject], two: list[JSONObject], three: list[JSONObject]
) -> None:
    """However often and in whatever order parallel branches merge, the ledger is the same."""
    merged = merge_ledgers(merge_ledgers(one, two), three)
    for a, b, c in permutations((one, two, three)):
        assert merge_ledgers(a, merge_ledgers(b, c)) == merged
    assert merge_ledgers(merged, merged) == merged
    assert merge_ledgers(merged, two) == merged


@given(one=LEDGERS, two=LEDGERS)
def test_a_merge_loses_nothing(one: list[JSONObject], two: list[JSONObject]) -> None:
    """Every request of either ledger is in the merged one, settled exactly when one of them says
    so.
    """
    merged = {entry["id"]: entry for entry in merge_ledgers(one, two)}
    assert set(merged) == {entry["id"] for entry in one + two}

    for name, entry in merged.items():
        assert ("settled_at" in entry) == any(
            "settled_at" in found for found in one + two if found["id"] == name
        )
        assert entry in one + two
        newest = max(
            found["carried"]
            for found in one + two
            if found["id"] == name and ("settled_at" in found) == ("settled_at" in entry)
        )
        assert entry["carried"] == newest


def test_a_request_without_words_has_its_kinds() -> None:
    """A blank prompt is replaced by the words of the kind."""
    assert asked(prompt=" ", kind=ERROR).question == ERROR.prompt
    assert asked(prompt="Sure?").question == "Sure?"


def test_a_carried_request_leads_to_the_new_entry() -> None:
    """Answered, skipped or cancelled it leads there, who asked first is told, and each run that
    begins counts.
    """
    once = asked(kind=ERROR, resume_to="a", skip_to="b", interrupted="a").carried_over("c")
    twice = once.carried_over("d")
    assert (once.resume_to, once.skip_to, once.interrupted, once.tell_to, once.carried) == (
        "c",
        "c",
        "c",
        "a",
        1,
    )

    assert (twice.resume_to, twice.skip_to, twice.interrupted, twice.tell_to, twice.carried) == (
        "d",
        "d",
        "d",
        "a",
        2,
    )
    assert twice.carried_over("d") == twice
    assert merge_ledgers([twice.to_dict()], [once.to_dict()]) == [twice.to_dict()]


@pytest.mark.parametrize(
    "answer", [None, 5, True, ["approve"], {"decision": "approve"}, b"approve"]
)
def test_an_answer_is_text(answer: Any) -> None:
    """An answer that is not text is refused, and is not converted into feedback."""
    state = create_initial_state("Hi")
    with pytest.raises(ContractError):
        give_human_feedback(state, answer)
    assert give_human_feedback(state, "approve")["human_feedback"] == "approve"


def test_requests_are_read_and_noted() -> None:
    """A state gives all its requests in order; a later entry of one replaces the earlier."""
    first = asked(id="a", requested_at="1")
    second = asked(id="b", requested_at="2")
    state = with_requests(state_with(), second, first)
    assert read_requests(state) == (first, second)

    settled = SettledHuman(first, HumanDecision.FEEDBACK, "fine", "3")
    after = with_requests(state, settled)
    assert read_requests(after) == (settled, second)
    assert pending_requests(after) == (second,)
    assert read_requests(with_requests(after, first)) == (settled, second)
    assert read_requests(state) == (first, second)


@pytest.mark.parametrize("flagged", [True, False])
def test_a_new_run_leads_pending_requests_to_its_entry(flagged: bool) -> None:
    """Each answer leads to the entry, its asker is told; a flag that nobody asked for is a request,
    and what is settled stays.
    """
    settled = SettledHuman(asked(id="a"), HumanDecision.FEEDBACK, "fine", "1")
    waiting = asked(id="b", resume_to="writer")
    state = with_requests(state_with(requires_human_input=flagged), settled)

    carried = carry_over_requests(with_requests(state, waiting), "lead")
    (one,) = pending_requests(carried)
    assert (one.id, one.resume_to, one.skip_to, one.tell_to, one.carried) == (
        "b",
        "lead",
        "lead",
        "writer",
        1,
    )
    assert settled in read_requests(carried)
    assert carry_over_requests(carried, "lead") == carried

    bare = pending_requests(carry_over_requests(state, "lead"))
    assert [one.resume_to for one in bare] == ["lead"] * flagged


def test_a_broken_ledger_is_refused_wherever_it_is_read() -> None:
    """Nothing is read from, noted in or carried over with a ledger that is none."""
    broken = state_with(human_requests=[{"id": 5}])
    for read in (
        read_requests,
        pending_requests,
        with_requests,
        lambda state: carry_over_requests(state, "lead"),
    ):
        with pytest.raises(StateError) as refused:
            read(broken)
        assert "state.wrong_type" in {issue.code for issue in refused.value.issues}
