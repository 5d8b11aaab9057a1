"""The table of rules is complete and enumerable.

Each rule has a case that breaks it alone, and one where it holds.
"""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from pipeline.test_core_rules import CASES as CORE_CASES
from pipeline.test_manifest_rules import CASES as MANIFEST_CASES
from pipeline.test_response_rules import CASES as RESPONSE_CASES
from pipeline.test_step_rules import CASES as STEP_CASES
from strictreply.loop.values import PipelineStep
from strictreply.pipeline import RuleStage, list_rules
from strictreply.pipeline._rule import PipelineRule, RuleSubject, ValidatorOptions
from strictreply.pipeline._validator import STEPS
from support.loops import some
from support.pipeline.contexts import INITIAL, Case, codes, judged, plain, received, rules

ENTRY_CASES = {"step.known": Case(PipelineStep.REQUEST_HANDLER, "Nope")}
CASES: dict[str, Case] = ENTRY_CASES | CORE_CASES | STEP_CASES | MANIFEST_CASES | RESPONSE_CASES
RULES = {rule.id: rule for rule in list_rules()}
SECTIONS = {"2.1", "3", "3.1", *(f"4.{number}" for number in range(1, 11)), "5"}


@pytest.mark.req("P9")
def test_every_rule_has_its_case_and_every_case_its_rule() -> None:
    """A rule without a case that breaks it, or a case of a rule that is no more, fails here; ids
    are unique.
    """
    assert list(CASES) == [rule.id for rule in list_rules()]


@pytest.mark.req("P9")
def test_the_table_covers_every_section() -> None:
    """Each section that states rules has rows; the RequestHandler's states the core again, and says
    so by its step.
    """
    core_again = {each.section for each in STEPS.values() if each.post == ()} - {
        rule.section for rule in list_rules()
    }
    assert {rule.section for rule in list_rules()} == SECTIONS - {"4.1"}
    assert core_again == {"4.1", ""}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_broken_alone_gives_exactly_its_id(name: str) -> None:
    """The bad content breaks this rule alone, as a value and as the JSON of another program."""
    rule = RULES[name]
    case = CASES[name]
    for bad in (case.bad, plain(case.bad)):
        result = judged(rule, bad, **case.options)
        assert set(rules(result)) == {name}
        assert set(codes(result)) == {rule.code.value}
        assert {error.message for error in result.errors} == {rule.message}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_holds_gives_nothing(name: str) -> None:
    """The good content is asked for this rule, breaks it not, and breaks no other."""
    rule = RULES[name]
    case = CASES[name]
    assert rule.when(RuleSubject(case.good, ValidatorOptions(**case.options)))
    for good in (case.good, plain(case.good)):
        assert rules(judged(rule, good, **case.options)) == []


@pytest.mark.parametrize(
    "name", [name for name, rule in RULES.items() if rule.profile == "extended"]
)
@pytest.mark.req("P25", "P51")
def test_what_only_the_implementation_asks_is_not_asked_as_published(name: str) -> None:
    """X21: a rule of the extended profile is broken in silence unless that profile is chosen."""
    assert rules(judged(RULES[name], CASES[name].bad)) == []


def test_the_published_rules_are_not_options() -> None:
    """Every rule of the published profile is asked in the extended one, too."""
    published = [name for name, rule in RULES.items() if rule.profile == "published"]
    assert [
        name
        for name in published
        if set(
            rules(
                judged(
                    RULES[name], CASES[name].bad, **{**CASES[name].options, "profile": "extended"}
                )
            )
        )
        != {name}
    ] == []


def test_a_row_says_where_it_stands() -> None:
    """Ids are dotted lower-case words; a rule of a step carries it, and its id begins with the step
    and the stage.
    """
    for rule in list_rules():
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", rule.id)
        assert (rule.step is not None) == (rule.stage in {RuleStage.PRE, RuleStage.POST})
        if rule.step is not None:
            assert rule.id.startswith(f"{rule.step.name.lower()}.{rule.stage}.")
    assert {rule.stage for rule in list_rules()} == set(RuleStage)


@pytest.mark.req("P75")
def test_the_words_of_a_rule_are_reasons() -> None:
    """A message is one short sentence of ours on what must hold: no address to a user, nothing to
    fill in.
    """
    for rule in some(list_rules()):
        assert len(rule.message) <= 100
        assert not re.search(r"[{}!?]|\byou\b|please|sorry", rule.message.lower())


def test_a_rule_is_one_value() -> None:
    """The table holds of a rule its place, its condition, its code and its predicate, and nothing
    else.
    """
    assert {each.name for each in fields(PipelineRule)} == {
        *("id", "section", "stage", "step", "code", "profile", "when", "breaches"),
    }
    assert judged(RULES["core.context"], received(INITIAL)).successful
