"""Corrections say what to do, in words of what the model itself wrote."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply import Code, Contract, CorrectionContext, Issue, Remedy, TieredSteering
from strictreply.core.calls import fault_lines
from strictreply.core.text import pointer
from support.corrections import context, example_in, terms_of
from support.scripted import Client, call, completion

ENVELOPE = re.compile(r"tool_calls|/content|/function|/choices")
CORRECTED = [code for code in Code if code.remedy is Remedy.CORRECT]


def told(schema: Any, args: Any, tier: int = 3) -> str:
    """Return the correction of one call's arguments."""
    contract = Contract(tools=[{"name": "act", "parameters": schema}])
    message = completion(None, [call("act", args)])["choices"][0]["message"]
    return TieredSteering().correction(context(contract, message, tier))


def requested(*replies: Any, **keywords: Any) -> list[str]:
    """Return the corrections of a call that is answered so."""
    fake = Client(*replies)
    policy = sr.RetryPolicy(max_retries=len(replies) - 1)
    client: Any = sr.wrap(fake, policy=policy, **keywords)
    with pytest.raises(sr.ReplyRejected) as raised:
        client.reply(model="m", messages="x", tool_choice="required")

    return [attempt.correction or "" for attempt in raised.value.attempts[1:]]


@pytest.mark.parametrize("code", CORRECTED)
def test_no_correction_speaks_of_the_envelope(code: Code) -> None:
    """Wherever in a message a fault is, a model is told its own places and no member of the API."""
    words = dict.fromkeys(("expected", "names", "name", "limit", "line", "column"), "x")
    paths = ("/tool_calls", "/tool_calls/1", "/tool_calls/1/function/name", "/content", "")
    issues = [Issue.of(code, path, **words) for path in paths]
    lines = fault_lines(issues)
    assert lines
    assert [line for line in lines if ENVELOPE.search(line)] == []
    assert f"- {issues[0].message}" in lines
    assert f"- call 2: {issues[0].message}" in lines


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/tool_calls/1/function/arguments/filter/0", "call 2, /filter/0"),
        ("/tool_calls/0/custom/input", "call 1"),
        ("/content/total", "/total"),
        ("/args/content", "/args/content"),
        ("/answer/tool_calls/0", "/answer/tool_calls/0"),
    ],
)
def test_places_are_those_that_the_model_wrote(path: str, place: str) -> None:
    """Arguments are counted from their call, an answer from its own JSON."""
    issue = Issue.of(Code.SHAPE_EMPTY, path)
    assert fault_lines([issue]) == [f"- {place}: {issue.message}"]


def test_a_missing_call_is_asked_for_by_name() -> None:
    """Where a tool must be called the correction names the tools to call now."""
    tools = [{"name": "get_weather"}, {"name": "add"}]
    (first,) = requested(completion("no"), completion("no"), tools=tools)
    assert "Call one of the tools now: get_weather, add" in first


def test_corrections_are_numbered_by_themselves() -> None:
    """A reply that comes twice gets more help, and its correction the next number."""
    tools = [{"name": "act"}]
    second = requested(*[completion("no")] * 4, tools=tools)
    assert [words.splitlines()[0] for words in second] == [
        "Not valid. Reply again, corrected:",
        "Still not valid. Reply again, corrected:",
        "Still not valid (correction 3). Reply again, corrected:",
    ]


def test_the_number_is_the_tier_where_none_is_given() -> None:
    """A context of a program's own counts by its tier alone."""
    issues = (Issue.of(Code.SHAPE_EMPTY, "/a"),)
    words = TieredSteering().correction(CorrectionContext(issues, terms_of(), 4))
    assert words.startswith("Still not valid (correction 4).")


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, "x-"),
        (
            {
                "properties": {"own": {"type": "integer"}},
                "patternProperties": {"^[0-9]+$": {"type": "string"}},
                "additionalProperties": False,
            },
            "",
        ),
    ],
)
def test_patterns_of_names_are_told_and_shown(schema: dict[str, Any], key: str) -> None:
    """Where names are open by a pattern the correction names it, and its example has such a key."""
    words = told({"properties": {"headers": {"type": "object", **schema}}}, {"headers": {"y": 1}})
    (pattern,) = schema["patternProperties"]
    assert "must have no keys" not in words
    assert f'keys that match "{pattern}"' in words.replace("\\\\", "\\")
    shown = example_in(words)
    assert any(name.startswith(key) for name in shown["headers"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"pattern": "^[a-z]+$"}, 'text that matches "^[a-z]+$"'),
        ({"enum": ["a", "b"]}, 'one of "a", "b"'),
        ({"maxLength": 3}, "text of at most 3 characters"),
    ],
)
def test_names_of_keys_are_told(names: dict[str, Any], said: str) -> None:
    """The rule for names of keys stands in the correction."""
    words = told(
        {"properties": {"m": {"type": "object", "propertyNames": names}}}, {"m": {"QQQQ": 1}}
    )
    assert f"/m: each key must be {said}" in words


class Cat(BaseModel):
    """A branch of the union."""

    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    """The other branch."""

    kind: Literal["dog"] = "dog"
    bark: bool


class Owner(BaseModel):
    """Holds the union."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Holder(BaseModel):
    """The same without a discriminator."""

    pet: Cat | Dog | None


TAGGED = {
    "properties": {
        "pet": {
            "oneOf": [
                {"properties": {"version": {"const": number}, name: {}}, "required": [name]}
                for number, name in enumerate(("lives", "bark"), 1)
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("kind", "pet", "path", "said"),
    [
        (Owner, {"kind": "bird", "lives": 9}, "/pet/kind", 'must be one of "cat", "dog"'),
        (Holder, {"kind": "bird", "lives": 9}, "/pet/kind", 'must be one of "cat", "dog"'),
        (Holder, {"kind": 3, "bark": True}, "/pet/kind", 'must be one of "cat", "dog"'),
        (TAGGED, {"version": 3, "lives": 1}, "/pet/version", "must be one of 1, 2"),
        (TAGGED, {"version": True, "lives": 1}, "/pet/version", "must be one of 1, 2"),
    ],
)
def test_an_unknown_tag_is_told_every_branch(kind: Any, pet: Any, path: str, said: str) -> None:
    """A tag that no branch has is told the tags of all, also where the tag is optional."""
    tool: Any = {"name": "act", "parameters": kind} if isinstance(kind, dict) else kind
    contract = Contract(tools=[tool])
    (name,) = contract.by_name
    verdict = contract.check(completion(None, [call(name, {"pet": pet})]))
    assert isinstance(verdict, sr.Invalid)
    (issue,) = verdict.issues
    assert issue.path == pointer("/tool_calls", 0, "function", "arguments") + path
    assert issue.message == said


def test_the_schema_beside_a_tag_is_that_of_the_union() -> None:
    """The schema that a correction shows for a tag is not that of one branch."""
    contract = Contract(tools=[sr.Tool.of(Holder)])
    message = completion(None, [call("Holder", {"pet": {"kind": "bird", "lives": 9}})])
    words = TieredSteering().correction(context(contract, message["choices"][0]["message"], 2))
    assert '"dog"' in words
    assert 'Schema of /pet/kind: {"const"' not in words
