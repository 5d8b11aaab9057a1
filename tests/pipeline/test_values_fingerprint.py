"""One spelling for equal JSON, and a mark that no change of a context leaves as it was."""

from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.loop.values import PipelineStep
from strictreply.pipeline import AgentPipelineContext, fingerprint
from support.pipeline.contexts import WALKS, after, before, changed, plain, received

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


TOLD: dict[str, Any] = plain(received(next(iter(WALKS))))
"""A context, with all its members."""


def mark(value: object) -> str:
    """Return the fingerprint of the context with one more member."""
    return fingerprint({**TOLD, "q": value})


def reordered(value: Any) -> Any:
    """Write the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return [reordered(each) for each in value] if isinstance(value, list) else value


@given(JSON)
def test_equal_json_has_one_spelling(value: Any) -> None:
    """The mark is of the members in their order, in ASCII and without blanks."""
    assert mark(value) == mark(reordered(value))
    members = {name: member for name, member in TOLD.items() if name != "built"}
    spelled = json.dumps({**members, "q": value}, sort_keys=True, separators=(",", ":"))
    assert mark(value) == sha256(spelled.encode("ascii")).hexdigest()


def test_arrays_and_kinds_keep_their_differences() -> None:
    """Another order of an array, another case of a letter and another kind of value are another
    spelling.
    """
    pairs: list[tuple[Any, Any]] = [
        ([1, 2], [2, 1]),
        ("A", "a"),
        (1, True),
        (1, "1"),
        (1, 1.0),
        ({}, []),
        (None, ""),
    ]
    for one, other in pairs:
        assert mark(one) != mark(other)


def test_containers_are_spelled_as_the_json_they_stand_for() -> None:
    """Tuples are arrays, mappings objects, values of the pipeline their members."""
    assert mark(MappingProxyType({"b": (1, 2), "a": None})) == mark({"a": None, "b": [1, 2]})
    ctx = received(next(iter(WALKS)))
    assert mark(ctx) == mark(plain(ctx))


def deep() -> Any:
    """Nest lists deeper than they can be spelled."""
    value: Any = None
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {("a",): 1}, {"a": 1, 1: 2}, int])
def test_what_is_no_json_has_no_spelling(value: object) -> None:
    """Anything else is a ValueError, at any depth; so is a number of too many digits."""
    for content in (value, [value], {"a": {"b": value}}, 10**5000):
        with pytest.raises(ValueError):  # noqa: PT011 - one exception, raised here and by json
            mark(content)


def test_what_is_nested_too_deep_has_no_spelling() -> None:
    """Depth is a ValueError, too, not the end of the stack."""
    with pytest.raises(ValueError, match="must be JSON"):
        mark(deep())


@pytest.mark.req("P40")
def test_a_fingerprint_is_of_everything_but_the_response() -> None:
    """With and without its response a context has one mark; with any other member changed it has
    another.
    """
    ctx = after(PipelineStep.RESPONSE_BUILDER)
    bare = before(PipelineStep.RESPONSE_BUILDER)
    assert fingerprint(ctx) == fingerprint(bare) == fingerprint(plain(ctx))
    marks = {fingerprint(ctx)}

    for path in (
        "/type",
        "/time_stamp",
        "/correlation_id",
        "/envelope/user",
        "/session/id",
        "/turn/messages",
        "/prompt",
    ):
        marks.add(fingerprint(changed(ctx, {path: "other"})))

    assert len(marks) == 8
    assert all(len(mark) == 64 for mark in marks)


def sparse(value: Any) -> Any:
    """Leave out every member that is null, empty or 0, as other languages may write a context."""
    if isinstance(value, dict):
        kept = {name: sparse(member) for name, member in value.items()}
        return {name: member for name, member in kept.items() if member or name in {"org", "user"}}
    return [sparse(each) for each in value] if isinstance(value, list) else value


@pytest.mark.req("P40")
@pytest.mark.parametrize("step", PipelineStep)
def test_a_member_that_is_left_out_counts_as_its_default(step: PipelineStep) -> None:
    """A sparse mapping has the mark of the context that is read from the same JSON."""
    walks = [kind for kind, walk in WALKS.items() if step in walk]
    for kind in walks:
        told = sparse(plain(after(step, kind)))
        told["prompt"] = told.get("prompt", {})
        read = AgentPipelineContext.from_json(json.dumps(told))
        assert fingerprint(told) == fingerprint(read)
        assert fingerprint({**told, "envelope": {**told["envelope"], "extra": 1}}) != fingerprint(
            read
        )

    assert walks or step == PipelineStep.ACP_COMMAND_HANDLER


NODE = """
const crypto = require("node:crypto");
const sorted = (value) => Array.isArray(value) ? value.map(sorted)
    : value && typeof value === "object"
    ? Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]))
    : value;
const ctx = JSON.parse(process.argv[1]);
delete ctx.built;
const hex = (one) => one.charCodeAt(0).toString(16).padStart(4, "0");
const text = JSON.stringify(sorted(ctx))
    .replace(/[\\u007f-\\uffff]/g, (one) => "\\\\u" + hex(one));
console.log(crypto.createHash("sha256").update(text).digest("hex"));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.req("P40")
def test_another_language_makes_the_same_mark() -> None:
    """Node makes the documented hash of a context with letters beyond ASCII."""
    told = plain(
        changed(received(next(iter(WALKS))), {"/envelope/instructions": "größe 木 😀 \x7f"})
    )
    command = ["node", "-e", NODE, json.dumps(told)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == fingerprint(told)


@pytest.mark.parametrize("ctx", [None, 5, "x", []])
def test_what_has_no_members_has_no_fingerprint(ctx: object) -> None:
    """A context is an object; anything else is a ValueError."""
    with pytest.raises(ValueError, match="members"):
        fingerprint(ctx)
