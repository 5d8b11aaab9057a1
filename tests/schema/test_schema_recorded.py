"""Recorded replies of real models and hostile schemas, held to independent verdicts."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from strictreply import ContractError
from strictreply.schema import Schema
from support.shared_data import SHARED, needs_shared


def strict_json(text: str) -> Any:
    """Read JSON that names no key twice and no NaN; raises ValueError else."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(pairs)
        return found

    def refuse(text: str) -> None:
        raise ValueError(text)

    return json.loads(text, object_pairs_hook=members, parse_constant=refuse)


def recorded_calls() -> Iterator[tuple[dict[str, Any], Any, bool]]:
    """Return parameters, arguments and verdict of the recorded native calls.

    Calls whose arguments are not JSON are left out.
    """
    with gzip.open(SHARED / "corpus" / "replies.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["mode"] != "tools" or not record["args_raw"]:
                continue

            tools = {
                tool["function"]["name"]: tool["function"].get("parameters") or {}
                for tool in record["tools"]
            }
            labels = record["label"].get("per_call") or []
            for call, label in zip(record["reply"].get("tool_calls") or [], labels, strict=False):
                try:
                    arguments = strict_json(call["arguments"])
                except ValueError:
                    continue

                if call["name"] in tools:
                    yield tools[call["name"]], arguments, label["class"] == "ok"


@needs_shared
def test_verdicts_on_recorded_calls_agree_with_the_oracle() -> None:
    """Every recorded tool can be declared, and each call is judged as jsonschema judged it on a
    closed copy.
    """
    compiled: dict[str, Schema] = {}
    seen = 0
    wrong = []

    for parameters, arguments, expected in recorded_calls():
        key = json.dumps(parameters)
        if key not in compiled:
            compiled[key] = Schema.compile(parameters, formats="annotate")

        seen += 1

        if (compiled[key].check(arguments) == ()) != expected:
            wrong.append((key, arguments))

    assert wrong == []
    assert seen > 3_000


@needs_shared
def test_hostile_schemas_get_the_right_verdict() -> None:
    """No hostile schema lets through what must be refused, and none raises anything but
    ContractError.
    """
    wrong = []
    for line in (SHARED / "hostile" / "replies.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["layer"] != "schema":
            continue

        schema, reply = record["body"]
        try:
            accepted = Schema.compile(schema).check(json.loads(reply)) == ()
        except ContractError:
            accepted = False

        if record["expect"] != "any" and accepted != (record["expect"] == "accept"):
            wrong.append(record["id"])

    assert wrong == []
