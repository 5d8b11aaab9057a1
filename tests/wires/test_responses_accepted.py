"""No request of ours breaks a rule of the Responses API, whatever the model wrote before it."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

import strictreply as sr
from support.loops import some
from support.responses_rules import refusals
from support.scripted import SCHEMA, Server
from support.scripted_responses import (
    FLAT_SEARCH,
    call_item,
    reasoning_item,
    response,
    text_item,
    wrap,
)

SEEDS = 10_000 if os.environ.get("STRICTREPLY_ALL_CORRECTIONS") else 400
POLICY = sr.RetryPolicy(max_retries=3, transport_retries=0)
WEATHER = FLAT_SEARCH | {"name": "weather"}
SQL = {
    "type": "custom",
    "name": "sql",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[A-Z ]+"},
}
FORMAT = {"type": "json_schema", "name": "found", "schema": SCHEMA}
ARGUMENTS = [
    '{"query": "tea"}',
    '{"query": 1}',
    '{"query": "tea", "limit": 99}',
    '{"query": ',
    "{}",
    "",
    "[1]",
    "text",
]
TEXTS = [
    "hello",
    '{"query": "tea"}',
    '{"query": 1}',
    "",
    '<tool_call>{"name": "search"}</tool_call>',
]


def thoughts(dice: random.Random) -> list[dict[str, Any]]:
    """No thought, one or two, with or without the server's own writing of them."""
    return [
        reasoning_item(
            summary=[{"type": "summary_text", "text": "hm"}] * dice.randrange(2),
            **({"encrypted_content": "opaque"} if dice.random() < 0.5 else {}),
        )
        for _ in range(dice.choice([0, 0, 1, 1, 2]))
    ]


def call_of(dice: random.Random, number: int) -> dict[str, Any]:
    """A call of a tool, right or wrong, or of one that is not there."""
    call_id = f"call_{number}_{dice.getrandbits(24):x}"

    if dice.random() < 0.15:
        text = dice.choice(["SELECT", "drop"])
        return {
            "id": f"ctc_{number}_{dice.getrandbits(24):x}",
            "type": "custom_tool_call",
            "call_id": call_id,
        } | {
            "name": "sql",
            "input": text,
        }

    arguments = dice.choice([ARGUMENTS[0], ARGUMENTS[0], *ARGUMENTS])
    return call_item(dice.choice(["search", "search", "weather", "serach"]), arguments, call_id)


def reply_of(dice: random.Random) -> dict[str, Any]:
    """Draw one reply of a model.

    It has commentary, thoughts, calls, texts and items of the server's tools, and is whole, cut or
    refused.
    """
    items: list[dict[str, Any]] = []

    if dice.random() < 0.3:
        items.append(text_item("I will look.", phase=dice.choice(["commentary", None])))

    if dice.random() < 0.2:
        items.append(
            {"type": "web_search_call", "id": f"ws_{dice.getrandbits(40):x}", "status": "completed"}
        )

    for number in range(dice.choice([0, 1, 1, 2, 3])):
        items += [*thoughts(dice), call_of(dice, number)]

    if not items or dice.random() < 0.3:
        items += [
            *thoughts(dice),
            text_item(dice.choice(TEXTS), phase=dice.choice(["final_answer", None])),
        ]

    ending = dice.random()
    if ending < 0.1:
        items += thoughts(dice)  # what it led to never came

    if ending < 0.2:
        return response(
            *items, status="incomplete", incomplete_details={"reason": "max_output_tokens"}
        )

    if ending < 0.23:
        items[-1] = text_item("x", content=[{"type": "refusal", "refusal": "no"}])

    if ending < 0.26:
        items.append(
            {"type": "computer_call", "id": f"cu_{dice.getrandbits(40):x}", "call_id": "call_cu"}
        )

    return response(*items)


def request_of(dice: random.Random) -> dict[str, Any]:
    """Draw one request of a program.

    It has tools or a format, is stored or not, and stands alone, behind another response or in a
    conversation.
    """
    request: dict[str, Any] = {
        "model": "m",
        "input": dice.choice(["find tea", [{"role": "user", "content": "x"}]]),
    }

    if dice.random() < 0.8:
        request["tools"] = [FLAT_SEARCH, WEATHER, SQL, {"type": "web_search"}]
        request["parallel_tool_calls"] = dice.random() < 0.7
        choice = dice.choice(["auto", "required", {"type": "function", "name": "search"}, None])
        request |= {"tool_choice": choice} if choice else {}

    if dice.random() < 0.4:
        request["text"] = {"format": FORMAT}

    if dice.random() < 0.4:
        request["store"] = False
        request["include"] = ["reasoning.encrypted_content"]
    elif dice.random() < 0.4:
        request |= dice.choice([{"previous_response_id": "resp_0"}, {"conversation": "conv_0"}])

    if dice.random() < 0.3:
        request["max_output_tokens"] = 100

    return request


class Api(Server):
    """A server that holds each request to the rules before it answers.

    It keeps what it would have stored.
    """

    def __init__(self, *answers: Any) -> None:
        """Begin with an earlier response, and a conversation."""
        super().__init__(*answers)
        self.refused: list[str] = []
        self.stored: dict[str, list[Any]] = {"resp_0": [], "conv_0": []}

    def handle(self, request: Any) -> Any:
        """Answer a request."""
        asked = json.loads(request.content)
        told = list(refusals(asked, self.stored))
        self.refused += [f"{one}: {json.dumps(asked['input'])}" for one in told]
        answer: Any = self.answers[0]

        given = asked["input"] if isinstance(asked["input"], list) else []
        before = self.stored.get(
            str(asked.get("previous_response_id") or asked.get("conversation")), []
        )
        whole = [*before, *given, *answer["output"]]
        self.stored[answer["id"]] = whole

        if asked.get("conversation"):
            self.stored["conv_0"] = whole

        return super().handle(request)


@pytest.mark.parametrize("part", range(4))
def test_no_correction_breaks_a_rule(part: int) -> None:
    """Splices, parallel calls, cuts, refusals: 0 requests that the API would refuse, and so in the
    turn after them.
    """
    for seed in some(range(part * SEEDS // 4, (part + 1) * SEEDS // 4)):
        dice = random.Random(seed)
        api = Api(*(reply_of(dice) for _ in range(4)))
        request = request_of(dice)
        policy = sr.RetryPolicy(
            max_retries=3, transport_retries=0, keep_prompt_cache=dice.choice([False, True])
        )
        client = wrap(api.client(), policy=policy)
        try:
            made = client.responses.create(**request)
        except sr.CallFailed:
            made = None

        assert not api.refused, (seed, api.refused)

        if made is not None:
            goes_on(client, request, made, api)
            assert not api.refused, (seed, api.refused)


def goes_on(client: Any, request: dict[str, Any], made: Any, api: Api) -> None:
    """Answer the calls of an accepted response, by its items or by its id, as programs do."""
    calls = [item for item in made.output if item.type in {"function_call", "custom_tool_call"}]
    if (
        not calls
        or any(item.type == "computer_call" for item in made.output)
        or "conversation" in request
    ):
        return

    outputs = [
        {"type": f"{item.type}_output", "call_id": item.call_id, "output": "[]"} for item in calls
    ]
    api.answers = [response(text_item('{"query": "tea"}'))]
    rest = {name: value for name, value in request.items() if name not in {"input", "tool_choice"}}
    given = (
        request["input"]
        if isinstance(request["input"], list)
        else [{"role": "user", "content": request["input"]}]
    )

    told = [item.to_dict(exclude_unset=True) for item in made.output]

    # As programs do: what was not written for them they leave out.
    if request.get("store") is False:
        told = [one for one in told if one["type"] != "reasoning" or one.get("encrypted_content")]

    if told and told[-1]["type"] != "reasoning":
        client.responses.create(**rest, input=[*given, *told, *outputs])
