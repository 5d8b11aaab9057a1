"""Recorded hostile replies: each verdict is right.

What they carry turns up nowhere but in the model's own turn.
"""

from __future__ import annotations

import json
import logging
import traceback
import warnings
from typing import Any

import pytest

from strictreply import (
    Contract,
    ContractError,
    ContractWarning,
    Invalid,
    RetryPolicy,
    StrictReplyError,
    ToolCall,
    Valid,
    wrap,
)
from strictreply.core import judge
from support.openai_shapes import call, completion, message
from support.scripted import Client
from support.shared_data import SHARED, needs_shared

pytestmark = needs_shared

ARGS = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 2000},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["query", "limit", "score"],
}
UNION = {
    "type": "object",
    "properties": {"tool": {"enum": ["search", "refund"]}, "args": ARGS},
    "required": ["tool", "args"],
}
CONTENT = Contract(
    tools=[{"name": name, "parameters": ARGS} for name in ("search", "refund")], channel="text"
)
TOOL = Contract(tools=[{"name": "Call", "parameters": UNION}])
CONTRACTS = {"content": CONTENT, "tool": TOOL}
TERMS: dict[str, Contract] = {
    mode: contract.with_choice("required") for mode, contract in CONTRACTS.items()
}


def recorded(*layers: str) -> list[dict[str, Any]]:
    """Read the cases of some layers, none when the data is absent."""
    path = SHARED / "hostile" / "replies.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [case for case in map(json.loads, lines) if case["layer"] in layers]


def by_mode(cases: list[dict[str, Any]]) -> list[Any]:
    """Return one parameter set for each case in each mode it applies to."""
    return [
        pytest.param(case, mode, id=f"{case['id']}-{mode}")
        for case in cases
        for mode in case["modes"]
    ]


def response_of(case: dict[str, Any], mode: str) -> Any:
    """Return what the model or the server sent.

    It is a text in the place that the mode names, or the whole response.
    """
    if case["layer"] == "envelope":
        return case["body"]
    text = case["body"]
    return completion(message(text) if mode == "content" else message(None, [call("Call", text)]))


def expected(case: dict[str, Any], mode: str) -> str:
    """Read what the case demands in a mode."""
    demand: str = case.get("expect_tool", case["expect"]) if mode == "tool" else case["expect"]
    return demand


def value_of(verdict: Valid) -> object:
    """Return an accepted call as the hostile cases write it: the union."""
    assert isinstance(verdict.reply, ToolCall)
    called = verdict.reply
    return called.args if called.tool == "Call" else {"tool": called.tool, "args": called.args}


WAYS_OF_SERVERS = {"tc_args_dict", "tc_id_missing", "tc_id_empty", "tc_id_int"}
"""What no model writes, and no re-ask mends: read as the API's form unless the contract is strict
about it.
"""


@pytest.mark.parametrize(("case", "mode"), by_mode(recorded("envelope")))
def test_only_ways_of_servers_are_read_otherwise(case: dict[str, Any], mode: str) -> None:
    """By default the verdict is the strict one but for the rows of the table, and these give the
    same arguments.
    """
    verdict = judge(TERMS[mode], response_of(case, mode))
    strict = judge(TERMS[mode].replace(dialects="strict"), response_of(case, mode))
    if case["id"] in WAYS_OF_SERVERS:
        assert isinstance(strict, Invalid)
        assert isinstance(verdict, Valid)
        assert verdict.lenient
    else:
        assert isinstance(verdict, Invalid) == isinstance(strict, Invalid)


@pytest.mark.parametrize(("case", "mode"), by_mode(recorded("text", "envelope")))
def test_verdict(case: dict[str, Any], mode: str) -> None:
    """A case to refuse is refused, a case to accept has exactly its value, and nothing else is
    raised.
    """
    verdict = judge(TERMS[mode].replace(dialects="strict"), response_of(case, mode))
    demand = expected(case, mode)
    if demand in {"reject", "policy"}:
        assert isinstance(verdict, Invalid)

    if demand == "accept":
        assert isinstance(verdict, Valid)
        assert json.dumps(value_of(verdict), sort_keys=True) == json.dumps(
            case["value"], sort_keys=True
        )


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in recorded("schema")])
def test_hostile_schema(case: dict[str, Any]) -> None:
    """A hostile schema is refused where it is declared, or judges its reply rightly."""
    schema, text = case["body"]
    try:
        with warnings.catch_warnings():
            # a pattern that cannot be matched in linear time is named, and not held
            warnings.simplefilter("ignore", ContractWarning)
            contract = Contract(tools=[{"name": "tool", "parameters": schema}])
    except ContractError:
        assert case["expect"] != "accept"
        return

    verdict = contract.check(message(None, [call("tool", text)]))

    if case["expect"] in {"reject", "policy"}:
        assert isinstance(verdict, Invalid)

    if case["expect"] == "accept":
        assert isinstance(verdict, Valid)
        assert isinstance(verdict.reply, ToolCall)
        assert verdict.reply.args == case["value"]


CARRIERS = by_mode([case for case in recorded("text", "envelope") if "canary" in case])


@pytest.mark.parametrize(("case", "mode"), CARRIERS)
def test_issues_hold_no_byte_of_the_model(case: dict[str, Any], mode: str) -> None:
    """Text of the reply is only in ``found``: not in messages, hints, paths or representations."""
    verdict = judge(TERMS[mode], response_of(case, mode))
    if isinstance(verdict, Invalid):
        told = [repr(verdict), str(verdict), verdict.summary]
        told += [
            text
            for issue in verdict.issues
            for text in (issue.message, issue.hint, issue.path, issue.dotted)
        ]
        assert [text for text in told if case["canary"] in text] == []


@pytest.mark.parametrize(("case", "mode"), CARRIERS)
def test_nothing_leaks_on_the_way(
    case: dict[str, Any], mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked again and given up on, a hostile reply is in its own assistant turn and in no other
    turn, error or log.
    """
    client = Client(*[response_of(case, mode)] * 2)
    guarded = wrap(
        client, contract=CONTRACTS[mode], policy=RetryPolicy(max_retries=1, transport_retries=0)
    )
    told: list[str] = []

    with caplog.at_level(logging.DEBUG):
        try:
            guarded.reply(
                model="m", messages=[{"role": "user", "content": "q"}], tool_choice="required"
            )
        except StrictReplyError as error:
            told = [str(error), repr(error), "".join(traceback.format_exception(error))]

    for request in client.script.requests:
        ours = request | {
            "messages": [turn for turn in request["messages"] if turn["role"] != "assistant"]
        }
        told.append(json.dumps(ours))

    told += [record.getMessage() for record in caplog.records]
    assert [text for text in told if case["canary"] in text] == []
    rendered = case.get("rendered")  # what a template in the reply would turn into
    assert rendered is None or rendered not in json.dumps(client.script.requests)
