"""The laws of patterns that no linear engine takes: what becomes of them is never stricter."""

from __future__ import annotations

import itertools
import pickle
import random
import re
import warnings
from typing import Any

import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply.core.schemas import engine_for
from strictreply.schema import Schema
from strictreply.schema._patterns import InvalidPattern, respelled
from support.scripted import call

EMAIL = (  # as Zod 4 writes it
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@"
    r"([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
)
SHORT_TEXTS = ["".join(text) for size in range(5) for text in itertools.product("abc", repeat=size)]


def of_texts(pattern: str) -> Schema:
    """Compile the schema of a text."""
    return Schema.compile({"type": "string", "pattern": pattern}, root_closed=False)


class _Writer:
    """Writes random patterns that look around."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def forms(self, depth: int) -> str:
        return "|".join(self._form(depth) for _ in range(self._rng.choice([1, 1, 1, 2])))

    def _form(self, depth: int) -> str:
        inner = "".join(self._piece(depth) for _ in range(self._rng.randrange(1, 4)))
        return self._rng.choice(["", "^", "^"]) + inner + self._rng.choice(["", "$", "$"])

    def _piece(self, depth: int) -> str:
        kind = self._rng.randrange(8)
        if kind < 3:
            return self._rng.choice(["a", "b", "c", ".", "[ab]", "[^a]", "\\w"])
        if kind == 3:
            return self._rng.choice("ab") + self._rng.choice(["*", "+", "?", "{2}", "{1,2}"])
        if kind == 4:
            behind = self._rng.choice(["(?<=", "(?<!"])
            return behind + self._rng.choice(["a", "b", "ab", "[bc]"]) + ")"
        if not depth:
            return "c"
        if kind == 5:
            return f"({self.forms(depth - 1)}){self._rng.choice(['', '', '?', '*'])}"

        return self._rng.choice(["(?=", "(?!"]) + self.forms(depth - 1) + ")"


@pytest.mark.parametrize("seed", range(8))
def test_what_becomes_of_a_pattern_is_never_stricter(seed: int) -> None:
    """Over random patterns an exact respelling finds what ``re`` finds, any other at least that."""
    writer = _Writer(seed)
    exact = 0
    widened = 0

    for pattern in (writer.forms(2) for _ in range(300)):
        if "(?" not in pattern:
            continue

        wanted = re.compile(pattern)
        made = respelled(pattern)
        engine = engine_for(made.schema, formats=False)
        exact += made.is_exact
        widened += not made.is_exact

        for text in SHORT_TEXTS:
            found = wanted.search(text) is not None
            if made.is_exact or found:
                assert engine.is_valid(text) is found, (pattern, text, made)

    assert exact > 40
    assert widened > 20


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (EMAIL, "ada@example.com", ".ada@example.com"),
        (EMAIL, "a.b@example.com", "a..b@example.com"),
        (r"^(?=.*[A-Z])(?=.*\d).+$", "aB1", "ab1"),
        (r"^(?=.{1,8}\.?$)[a-z0-9]+(?:\.[a-z0-9]+)*\.?$", "a.bc", "abcdefghi"),
        (r"^(?!-)[a-z-]+(?<!-)$", "a-b", "ab-"),
        (r"^(?!con$|nul$)\w+$", "cons", "con"),
        (r"^[a-z]{2}(?!x)[a-z]+$", "abyx", "abxy"),
        (r"^#(?:(?!00)\d{2}|x)$", "#01", "#00"),
        ("^.{1,20000}$", "a", ""),
        (r"^[\w-.]+$", "a-b.c", "a b"),
        ("^a{$", "a{", "a"),
        ("^[^]+$", "a", ""),
    ],
)
def test_patterns_with_conditions_are_held(pattern: str, good: str, bad: str) -> None:
    """Patterns that published tools have are held to the letter, without a warning."""
    schema = of_texts(pattern)
    assert schema.unheld == ()
    assert schema.check(good) == ()
    assert [issue.code for issue in schema.check(bad)] != []
    assert schema.shown == {"type": "string", "pattern": pattern}
    assert pickle.loads(pickle.dumps(schema)).check(bad) == schema.check(bad)  # noqa: S301


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"type": "string", "pattern": r"^(a+)-\1$"}, "aa-aa", "b"),
        ({"type": "string", "pattern": r"^((?!-)[a-z-]+\.)+$"}, "a.b.", "A."),
        ({"not": {"pattern": r"^(a)\1$"}, "type": "string"}, "ab", 1),
        ({"oneOf": [{"pattern": r"^(a+)\1$"}, {"pattern": "^ab$"}], "type": "string"}, "ab", "x"),
        ({"if": {"pattern": r"(a)\1"}, "then": {"maxLength": 2}, "maxLength": 3}, "abc", "aaaa"),
        ({"items": {"pattern": r"(a)\1"}, "contains": {"pattern": r"(b)\1"}}, ["aabb"], ["c"]),
        ({"patternProperties": {r"^(x)\1": {}}, "additionalProperties": False}, {"xxa": 1}, None),
        ({"patternProperties": {"^(?!x)a": {"type": "string"}}, "type": "object"}, {"a": "1"}, 7),
    ],
)
def test_what_cannot_be_held_is_left_out_and_named(part: Any, good: Any, bad: Any) -> None:
    """Where a condition cannot be written, no good value is refused, and the rest is held."""
    schema = Schema.compile({"properties": {"a": part}}, extra="schema")
    assert [line.partition(":")[0].startswith("/properties/a/") for line in schema.unheld] != []
    assert all("linear time" in line for line in schema.unheld)
    assert schema.check({"a": good}) == ()
    if bad is not None:
        assert schema.check({"a": bad}) != ()


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*a", "a\\"])
def test_a_text_that_is_no_pattern_is_refused(pattern: str) -> None:
    """What no engine reads is the author's mistake: an error with its place."""
    with pytest.raises(sr.ContractError) as caught:
        Schema.compile({"properties": {"a": {"pattern": pattern}}})

    assert caught.value.path == "/properties/a/pattern"


def test_unbalanced_patterns_are_malformed() -> None:
    """The parser itself refuses what does not close."""
    for pattern in ("(?!a", "(?=a))"):
        with pytest.raises(InvalidPattern):
            respelled(pattern)


def test_a_declared_tool_warns_of_its_pattern_once() -> None:
    """What is not held is told with tool and place where the tool is declared."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(a)\1$"}}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tool = sr.Tool.from_mcp({"name": "own_pattern", "inputSchema": schema})
        sr.Contract(tools=[tool])

    assert [warning.category for warning in caught] == [sr.ContractWarning]
    assert "'own_pattern'" in str(caught[0].message)
    assert "/properties/a/pattern" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_an_excluded_pattern_is_named() -> None:
    """The fault of a condition says which pattern the text must not match."""
    (issue,) = of_texts("^(?!a)b*").check("a")
    assert (issue.code, issue.message) == ("args.not", 'must not match the pattern "^(?:a)"')


class Named(BaseModel):
    """A model whose pattern is read by pydantic, too."""

    name: str = Field(pattern=r"^[\w.]+\s\d\W$")


def test_patterns_of_types_are_pydantics() -> None:
    r"""``\w`` of a type is Unicode's, as in pydantic; in a JSON Schema it is ECMA-262's."""
    contract = sr.Contract(tools=[Named])
    plain = Named.model_json_schema()
    given = sr.Contract(tools=[{"name": "Named", "parameters": plain}])
    reply = {"role": "assistant", "tool_calls": [call("Named", {"name": "größe ٣!"})]}

    verdict = contract.check(reply)
    assert isinstance(verdict, sr.Valid)
    assert isinstance(verdict.reply, sr.ToolCall)
    assert verdict.reply.args == Named(name="größe ٣!")
    assert isinstance(given.check(reply), sr.Invalid)
    shown = contract.tools[0].definition["function"]["parameters"]["properties"]["name"]
    assert shown["pattern"] == r"^[\w.]+\s\d\W$"
