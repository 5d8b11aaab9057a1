"""Laws of the strategies: valid is what everybody takes, invalid what nobody does.

Both shrink to the least.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator

import strictreply as sr
from strictreply import Tool
from strictreply.testing import Fault, HTTPReply, Kind, ReplyPlace, ScriptedModel, strategies
from strictreply.testing._steps import Target
from strictreply.testing.faults import CATALOGUE
from support.testing.faults.schemas import schemas
from support.testing.faults.spoken import strict_contract
from support.testing.tool_sample import SAMPLE, search

CALL_ID = r"call_\d+"

TOOLS = {tool.name: tool for tool in map(sr.Tool.of, SAMPLE)}
PLACES: tuple[ReplyPlace, ...] = ("call", "union", "json")

tools = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
quick = settings(max_examples=15)


class Period(BaseModel):
    """A time between two others."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)

    @model_validator(mode="after")
    def in_order(self) -> Period:
        """Refuse what no schema can tell."""
        if self.last < self.first:
            raise ValueError("the last is before the first")
        return self


def declared(tool: Tool, place: ReplyPlace) -> Any:
    """Return the answer's format where there is no tool."""
    return tool.parameters.source if place == "json" else tool


@tools
def test_valid_arguments_are_taken_by_every_reader(tool: Tool) -> None:
    """Our gate takes them, and so does jsonschema, which knows nothing of us."""
    reference = jsonschema.Draft202012Validator(tool.parameters.closed)
    readable = not isinstance(
        tool.parameters.closed, bool
    ) and "07" not in tool.parameters.closed.get("$schema", "")

    @quick
    @given(args=strategies.valid_arguments(tool))
    def check(args: Any) -> None:
        """Check one value against both."""
        assert tool.parameters.check(args) == ()
        if readable:
            reference.validate(args)

    check()


@pytest.mark.parametrize("place", PLACES)
@tools
def test_valid_replies_pass_the_gate(tool: Tool, place: ReplyPlace) -> None:
    """Every good reply is a Valid of a contract with that tool, or that kind of answer."""
    contract = strict_contract(declared(tool, place), place)

    @settings(max_examples=5)
    @given(step=strategies.valid_replies(declared(tool, place), place=place))
    def check(step: Any) -> None:
        """Check one reply against the gate."""
        assert isinstance(contract.check(step.served), sr.Valid)

    check()


@tools
def test_invalid_replies_are_refused_with_their_code(tool: Tool) -> None:
    """No fault passes the gate, whatever arguments it was made on, and its code is among the
    issues.
    """
    contract = strict_contract(tool, "call")

    @quick
    @given(fault=strategies.invalid_replies(tool))
    def check(fault: Fault) -> None:
        """Check one fault against the gate."""
        assert not fault.needs
        if not isinstance(fault.served, HTTPReply):  # which no gate for completions sees
            verdict = contract.check(fault.served, api="chat")
            assert isinstance(verdict, sr.Invalid)
            assert fault.code in {issue.code for issue in verdict.issues}

    check()


@pytest.mark.parametrize(
    "kind", [Kind.ARGS, Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ENVELOPE, Kind.FINISH]
)
def test_kinds_choose_what_is_made(kind: Kind) -> None:
    """Only faults of the kinds that were asked for are made."""

    @quick
    @given(fault=strategies.invalid_replies(search, kinds=[kind]))
    def check(fault: Fault) -> None:
        """Look at one fault."""
        assert fault.kind is kind

    check()


@settings(max_examples=30)
@given(schema=schemas(), data=st.data())
def test_whatever_the_schema_values_fit(schema: Any, data: st.DataObject) -> None:
    """A bare JSON Schema will do, and what is made for it fits."""
    whole = {"type": "object", "properties": {"value": schema}}
    args = data.draw(strategies.valid_arguments(whole))
    assert sr.Tool.from_json_schema("t", whole).parameters.check(args) == ()


@pytest.mark.parametrize(
    "code", ["args.minimum", "args.required", "args.extra_key", "json.duplicate_key"]
)
def test_a_fault_shrinks_to_the_smallest(code: str) -> None:
    """The first entry with a property is found, on the smallest arguments and at the first place
    that it spoils.
    """
    fault = find(strategies.invalid_replies(search), lambda fault: fault.code == code)
    ordered = (
        entry
        for kind in strategies.REPLY_KINDS
        for entry in CATALOGUE.values()
        if entry.kind is kind
    )
    first = next(made for entry in ordered if entry.code == code for made in entry.all_for(search))
    assert (fault.name, fault.at, fault.served) == (first.name, first.at, first.served)


def test_arguments_shrink_to_the_example() -> None:
    """The least arguments are those of the schema's example; and with a property, the least that
    have it.
    """
    assert find(strategies.valid_arguments(search), lambda _: True) == {"query": "text"}
    assert find(strategies.valid_arguments(search), lambda args: "limit" in args) == {
        "query": "text",
        "limit": 5,
    }
    assert find(strategies.valid_arguments(search), lambda args: len(args["query"]) > 4) == {
        "query": "00000"
    }


@pytest.mark.parametrize(
    "name", ["Booking", "tree", "translate", "order", "addresses", "plot", "deliver"]
)
def test_more_than_examples_is_made(name: str) -> None:
    """Values are generated also where a schema recurs, composes and asks for formats."""
    examples = list(strategies._examples(Target.of(TOOLS[name])))
    made: list[Any] = []

    @settings(max_examples=30, database=None)
    @given(args=strategies.valid_arguments(TOOLS[name]))
    def collect(args: Any) -> None:
        """Keep what is no example."""
        made.extend([args] * (args not in examples))

    collect()
    assert made


def test_what_only_the_model_knows_is_kept() -> None:
    """Arguments that fit the schema and not the model's own validators are never made."""

    @settings(max_examples=50)
    @given(args=strategies.valid_arguments(Period))
    def check(args: Any) -> None:
        """Look at one period."""
        assert args["first"] <= args["last"]

    check()


def test_faults_are_steps_of_a_script() -> None:
    """A drawn fault can be served: a wrapped client is corrected once and then takes the good
    reply.
    """

    @quick
    @given(
        bad=strategies.invalid_replies(search, kinds=[Kind.ARGS]),
        good=strategies.valid_replies(search),
    )
    def check(bad: Fault, good: Any) -> None:
        """Play one script."""
        model = ScriptedModel(bad, good)
        for step in (bad, good):
            served = json.dumps(model({"messages": []}))
            assert re.sub(CALL_ID, "call_1", served) == re.sub(
                CALL_ID, "call_1", json.dumps(step.served)
            )
        model.assert_spent()

    check()


def test_no_kind_no_faults() -> None:
    """When nothing can be made of the requested kinds, the strategy is refused at once."""
    with pytest.raises(ValueError, match="kinds"):
        strategies.invalid_replies(search, kinds=[])


def test_without_hypothesis_the_import_says_what_to_install() -> None:
    """The rest of the kit does not need hypothesis; these strategies say which extra brings it."""
    script = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import strictreply.testing.faults\n"
        "try:\n    import strictreply.testing.strategies\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "pip install 'strictreply[testing]'" in done.stdout


def test_values_are_json() -> None:
    """Every drawn value can be written and read back."""

    @quick
    @given(args=strategies.valid_arguments(TOOLS["Booking"]))
    def check(args: Any) -> None:
        """Write one value and read it."""
        assert json.loads(json.dumps(args, allow_nan=False)) == args

    check()
