"""What a contract knows of names, and how a request narrows it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from strictreply import Contract, ContractError, wrap
from strictreply.core.judging import ContractKeywords
from support.openai_shapes import ADD, NOW
from support.scripted import Client

CONTRACT = Contract(tools=[ADD, NOW])


def test_names_are_all_that_the_contract_speaks_of() -> None:
    """Only these may stand in a path: the union's own members and those of every schema."""
    assert CONTRACT.names == {"tool", "args", "answer", "a", "b"}


def test_the_list_of_tools_is_capped() -> None:
    """A correction can name twenty tools and count the rest."""
    many = Contract(tools=[{"name": f"tool_{number}"} for number in range(25)])
    assert CONTRACT.tool_list == "add, now"
    assert many.tool_list.endswith("tool_19 and 5 more")
    assert "final_answer" in Contract(tools=[ADD], answer_style="tool").tool_list


@pytest.mark.parametrize("choice", ["auto", "required", "none", "add"])
def test_a_choice_that_can_be_met_is_taken(choice: str) -> None:
    """A word of the API, or the name of a declared tool."""
    assert CONTRACT.with_choice(choice).choice == choice


@pytest.mark.parametrize("choice", ["bogus", "", "final_answer"])
def test_a_choice_that_cannot_be_met_is_refused(choice: str) -> None:
    """A request that no reply could satisfy is refused before anything is sent."""
    with pytest.raises(ContractError):
        CONTRACT.with_choice(choice)
    with pytest.raises(ContractError):
        Contract().with_choice("required")


def test_a_scoped_ask_is_for_one_tool_alone() -> None:
    """Its contract holds that tool, demands it, and allows a single call."""
    only = Contract(tools=[ADD, NOW], parallel=True).only("now")
    assert ([tool.name for tool in only.tools], only.choice, only.parallel) == (
        ["now"],
        "now",
        False,
    )


def test_a_misspelt_keyword_is_refused() -> None:
    """An unknown keyword of a contract is a TypeError that lists the known ones, also in wrap()."""
    keywords: Any = {"tool": [ADD]}
    with pytest.raises(TypeError, match=r"'tool'.*tools"):
        Contract(**keywords)
    with pytest.raises(TypeError, match=r"'tool'.*tools"):
        wrap(Client(), **keywords)


def test_the_keywords_are_the_fields() -> None:
    """Every keyword of a contract is a field of it, but the one that goes into the answer."""
    named = {field.name for field in fields(Contract)}
    assert ContractKeywords.__annotations__.keys() - named == {"allow_blank_answers", "quarantine"}
    assert named - ContractKeywords.__annotations__.keys() == {
        "answer",
        "choice",
        "offered",
        "ids_may_repeat",
        "provider",
        "quarantined",
        "spaces",
    }


def test_a_contract_with_other_values_is_another() -> None:
    """What is replaced is replaced there alone; nothing is compiled again."""
    other = CONTRACT.replace(parallel=True)
    assert (CONTRACT.parallel, other.parallel) == (False, True)
    assert other.tools is CONTRACT.tools
    with pytest.raises(TypeError, match="'paralel'"):
        CONTRACT.replace(paralel=True)
    with pytest.raises(FrozenInstanceError):
        CONTRACT.parallel = True  # type: ignore[misc]


@pytest.mark.parametrize("name", ["auto", "required", "none"])
def test_words_of_the_api_are_no_tools_names(name: str) -> None:
    """A tool of that name could not be forced."""
    with pytest.raises(ContractError):
        Contract(tools=[{"name": name}])
