"""One table says what follows which fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category, Code, ContractError, Issue, RetryPolicy
from strictreply.coordination import AgentReplyCode, ErrorPolicy, Reaction
from support.coordination.routed import FAULTS

RETRY = Reaction.RETRY
END = Reaction.TERMINATE
ASK = Reaction.ESCALATE

TABLE = {
    Category.FORMAT_ERROR: RETRY,
    Category.PERMISSION_ERROR: RETRY,
    Category.ACTION_ERROR: RETRY,
    Category.API_TRANSIENT: RETRY,
    Category.API_TERMINAL: END,
    Category.TOOL_ERROR: ASK,
    Category.UNKNOWN: RETRY,
}


@pytest.mark.req("M74")
def test_there_are_seven_categories_and_each_code_has_one() -> None:
    """The categories are the published seven words, and every code of a fault has exactly one of
    them.
    """
    assert [category.value for category in Category] == [
        *(
            "FORMAT_ERROR",
            "PERMISSION_ERROR",
            "ACTION_ERROR",
            "API_TRANSIENT",
            "API_TERMINAL",
            "TOOL_ERROR",
            "UNKNOWN",
        )
    ]
    assert {code.category for code in (*Code, *AgentReplyCode)} <= set(Category)
    assert all(isinstance(code.category, Category) for code in (*Code, *AgentReplyCode))


@pytest.mark.req("M79")
@pytest.mark.parametrize(("category", "reaction"), TABLE.items())
def test_each_category_has_its_reaction(category: Category, reaction: Reaction) -> None:
    """The default table is total, and says what the published documents say."""
    assert set(ErrorPolicy().reactions) == set(Category)
    assert ErrorPolicy().reaction([FAULTS[category]]) is reaction


@pytest.mark.req("M79")
def test_strict_permissions_end_at_once() -> None:
    """With ``strict_permissions`` nothing else changes (X5)."""
    strict = ErrorPolicy(strict_permissions=True)
    assert {category: strict.reactions[category] for category in Category} == TABLE | {
        Category.PERMISSION_ERROR: END
    }


@given(st.dictionaries(st.sampled_from(Category), st.sampled_from(Reaction)), st.booleans())
def test_the_budget_stops_where_the_table_does(
    table: dict[Category, Reaction], strict: bool
) -> None:
    """A client's loop is told of exactly the categories that are not asked again; a policy made
    anew of one agrees.
    """
    policy = ErrorPolicy(
        reactions=table, strict_permissions=strict, budget=RetryPolicy(max_retries=7)
    )
    ending = {category for category in Category if policy.reactions[category] is not RETRY}
    assert (policy.budget.stop_on, policy.budget.max_retries) == (ending, 7)
    again = replace(policy, reactions={**policy.reactions, Category.ACTION_ERROR: RETRY})
    assert again.budget.stop_on == ending - {Category.ACTION_ERROR}


def test_the_gravest_fault_decides() -> None:
    """Of several faults the one with the gravest reaction decides, in any order."""
    format_fault = FAULTS[Category.FORMAT_ERROR]
    tool_fault = FAULTS[Category.TOOL_ERROR]
    terminal = FAULTS[Category.API_TERMINAL]
    policy = ErrorPolicy()
    assert policy.reaction([format_fault, tool_fault]) is ASK
    assert policy.reaction([tool_fault, terminal, format_fault]) is END
    assert policy.reaction([]) is policy.reactions[Category.UNKNOWN]


def test_what_another_ask_cannot_mend_is_not_asked_again() -> None:
    """A fault whose remedy is to stop ends, even where its category is retried."""
    generous = ErrorPolicy(reactions={Category.API_TERMINAL: RETRY})
    assert generous.reaction([Issue.of(Code.REPLY_REFUSAL)]) is END
    assert generous.reaction([FAULTS[Category.API_TERMINAL]]) is RETRY


def test_a_table_changes_single_categories() -> None:
    """Categories that a table does not name stay as published; a declared policy is immutable."""
    policy = ErrorPolicy(reactions={Category.UNKNOWN: ASK})
    assert dict(policy.reactions) == TABLE | {Category.UNKNOWN: ASK}
    with pytest.raises(TypeError):
        policy.reactions[Category.UNKNOWN] = END  # type: ignore[index]


@pytest.mark.parametrize("table", [{"NO_CATEGORY": RETRY}, {Category.UNKNOWN: "shrug"}])
def test_a_table_of_something_else_is_refused(table: dict[Category, Reaction]) -> None:
    """Only categories and reactions make a table."""
    with pytest.raises(ContractError):
        ErrorPolicy(reactions=table)


@pytest.mark.req("M89")
def test_the_two_budgets_are_apart() -> None:
    """Three corrections, and three repeats of a failed call; a Retry-After is obeyed up to 60 s."""
    budget = ErrorPolicy().budget
    assert (budget.max_retries, budget.transport_retries) == (3, 3)
    assert budget.max_retry_after == 60
