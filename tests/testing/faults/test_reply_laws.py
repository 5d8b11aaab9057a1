"""What holds for every fault of a reply: of its text, form, calls, envelope and ending."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strictreply.testing._steps import Target
from strictreply.testing.faults import _call_faults as call_faults
from strictreply.testing.faults import _envelope_faults as envelope_faults
from strictreply.testing.faults import _json_faults as json_faults
from support.loops import some
from support.testing.faults.reply_laws import (
    as_json,
    assert_made,
    assert_recovers,
    assert_sent,
    assert_told,
    entries_of,
)

MODULES = (json_faults, call_faults, envelope_faults)
ENTRIES = {name: entry for module in MODULES for name, entry in entries_of(module).items()}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3)
)


def test_no_two_faults_have_the_same_name() -> None:
    """A name in one module is not one in another: the catalogue holds all faults by name."""
    assert len(ENTRIES) == sum(len(entries_of(module)) for module in MODULES)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_the_name_it_is_found_by_and_one_sentence(name: str) -> None:
    """The entry's name is the module's, and its summary is one line that ends in a full stop."""
    summary = ENTRIES[name].summary
    assert ENTRIES[name].name == name
    assert summary.endswith(".")
    assert "\n" not in summary


@pytest.mark.one_lane
@pytest.mark.parametrize("name", ENTRIES)
def test_each_meets_every_law_of_a_reply(name: str) -> None:
    """Of every tool and answer something is made, and the gate refuses all of it with the promised
    code.

    The wrapped client raises one of our errors, which names the code and nothing that the model
    invented. A good reply after the fault is taken unless another ask would not help; no prompt
    holds an invention.
    """
    assert_made(ENTRIES[name])
    assert_told(ENTRIES[name])
    assert_recovers(ENTRIES[name])


@pytest.mark.parametrize("name", ENTRIES)
def test_each_is_the_same_over_http(name: str) -> None:
    """The real SDK receives the fault as JSON, and the code is the same."""
    assert_sent(ENTRIES[name])


@settings(max_examples=30)
@given(value=VALUES)
def test_an_answer_of_any_form_can_be_given_to_every_fault(value: Any) -> None:
    """Whatever the good answer is, a fault is made of it or is not; nothing is raised, and all of
    it can be sent.
    """
    too_large = {"json.too_large", "json.too_many_nodes"}
    entries = [one for one in ENTRIES.values() if "json" in one.places]
    made = [
        fault
        for entry in entries
        if entry.code not in too_large
        for fault in entry.make(Target(value, "json"))
    ]

    for fault in some(made):
        sent = json.dumps(as_json(fault.served), ensure_ascii=False, allow_nan=False)
        assert sent.encode()
