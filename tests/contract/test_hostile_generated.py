"""Hostile replies and schemas made on demand.

The verdict is right and the work is bounded, however large they are.
"""

from __future__ import annotations

import json
import socket
import time
import tracemalloc
from typing import Any

import pytest

from strictreply import Contract, ContractError, Invalid, Valid
from support.hostile_inputs import INPUTS, HostileInput
from support.openai_shapes import call, completion, message

MAX_SECONDS = 2.0  # guards against hangs only; the figures are in benchmarks/hostile_cost.py
TRIES = 3  # other programs on the machine may make a try slower, and none faster
MAX_BYTES = 256_000_000


def checked(contract: Contract[Any], reply: Any) -> tuple[Valid[Any] | Invalid, float, int]:
    """Return a verdict with the seconds of CPU time and the most bytes that it took."""
    tracemalloc.start()  # makes it several times as slow
    try:
        started = time.process_time()
        verdict = contract.check(reply)
        spent = time.process_time() - started
        return verdict, spent, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.one_lane
@pytest.mark.parametrize("hostile", INPUTS, ids=lambda hostile: hostile.name)
def test_verdict_and_bounds(hostile: HostileInput) -> None:
    """Each input is refused for its fault, or accepted, without a hang and without filling the
    memory.
    """
    reply = hostile.make()
    verdict, spent, peak = checked(hostile.contract, reply)
    for _ in range(TRIES - 1):
        if spent >= MAX_SECONDS:
            verdict, spent, peak = checked(hostile.contract, reply)

    assert (verdict.issues[0].code if isinstance(verdict, Invalid) else None) == hostile.code
    assert len(getattr(verdict, "issues", ())) <= 8 * 32  # of 8 faulty calls, 32 each
    assert spent < MAX_SECONDS
    assert peak < MAX_BYTES


CUT = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    },
}
ARGUMENTS = json.dumps({"query": 'a "quoted" \\ \t é 😀', "limit": 10}, ensure_ascii=False)
NATIVE = Contract(tools=[CUT])
TEXT = Contract(tools=[CUT], channel="text")


def accepted_cuts(contract: Contract, whole: bytes) -> list[int]:
    """List the lengths at which a cut reply is still accepted."""
    return [end for end in range(len(whole) + 1) if isinstance(contract.check(whole[:end]), Valid)]


def test_a_text_cut_at_every_byte() -> None:
    """Only the whole of a reply is accepted, also where a cut splits a character."""
    whole = f'{{"tool":"search","args":{ARGUMENTS}}}'.encode()
    assert accepted_cuts(TEXT, whole) == [len(whole)]


def test_a_completion_cut_at_every_byte() -> None:
    """Only the whole of a completion is accepted."""
    whole = json.dumps(
        completion(message(None, [call("search", ARGUMENTS)])), ensure_ascii=False
    ).encode()
    assert accepted_cuts(NATIVE, whole) == [len(whole)]


def test_arguments_cut_at_every_character() -> None:
    """Only whole arguments are accepted; none at all are, for a tool that requires none."""
    cuts = [ARGUMENTS[:end] for end in range(len(ARGUMENTS) + 1)]
    accepted = [
        cut for cut in cuts if isinstance(NATIVE.check(message(None, [call("search", cut)])), Valid)
    ]
    assert accepted == ["", ARGUMENTS]


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Make a schema that refers to itself twice at each level: 2^levels ways to judge one value."""
    definitions: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "object"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_exploding_schemas_are_refused(keyword: str) -> None:
    """A schema whose work doubles with each level is refused where it is declared."""
    with pytest.raises(ContractError):
        Contract(tools=[{"name": "tool", "parameters": doubling(keyword, 30)}])


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^([a-zA-Z]+)*$",
        "(a|aa)+$",
        "(.*a){20}$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(x+x+)+y",
    ],
)
def test_backtracking_patterns_are_judged(pattern: str) -> None:
    """A pattern that costs others exponential time gets its verdict in linear time."""
    schema = {"type": "object", "properties": {"q": {"type": "string", "pattern": pattern}}}
    contract = Contract(tools=[{"name": "tool", "parameters": schema}])
    verdict = contract.check(message(None, [call("tool", {"q": "a" * 50_000 + "!"})]))
    assert isinstance(verdict, Invalid)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        (r"(a)\1", Valid),
        ("(?=a)a", Valid),
        ("(?<!a)b", Invalid),
        ("((a{1,1000}){1,1000}){1,1000}", Valid),
    ],
)
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_patterns_beyond_linear_time_are_judged_in_linear_time(pattern: str, kind: type) -> None:
    """A pattern that no linear engine can follow is held to as far as one can."""
    schema = {"type": "object", "properties": {"q": {"type": "string", "pattern": pattern}}}
    contract = Contract(tools=[{"name": "tool", "parameters": schema}])
    long = message(None, [call("tool", {"q": "a" * 50_000})])
    assert isinstance(contract.check(long), kind)
    assert isinstance(contract.check(message(None, [call("tool", {"q": 1})])), Invalid)


@pytest.mark.parametrize(
    "reference",
    ["file:///etc/hostname", "/etc/hostname", "other.json", "urn:nobody:here", "#/$defs/no"],
)
def test_references_elsewhere_are_refused(reference: str) -> None:
    """A reference to what is not in the schema is refused where it is declared; no file is read for
    it.
    """
    for schema in (
        {"$ref": reference},
        {"type": "object", "properties": {"q": {"$ref": reference}}},
    ):
        with pytest.raises(ContractError):
            Contract(tools=[{"name": "tool", "parameters": schema}])


def test_references_to_the_network_are_not_followed() -> None:
    """The server that a schema refers to gets no request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for schema in (
            {"$ref": address},
            {"$schema": address, "type": "object"},
            {"$dynamicRef": address},
        ):
            with pytest.raises(ContractError):
                Contract(tools=[{"name": "tool", "parameters": schema}])

        with pytest.raises(BlockingIOError):
            server.accept()
