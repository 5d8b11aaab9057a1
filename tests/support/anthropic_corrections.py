"""Conversations with a guard over the Messages API: what is asked goes to the rules, in memory.

The guard is ``reply_flow``, which every client of ours drives. A caller goes on behind each reply
that it hands out: with the results of the calls, else with more words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import tenacity

import strictreply as sr
from strictreply.contract._contract import Check, Checked
from strictreply.core import CallPlan
from strictreply.retry._flow import (
    Call,
    Effect,
    Ended,
    Event,
    Noted,
    Outcome,
    Replied,
    Settled,
    reply_flow,
)
from strictreply.wires import WIRES
from support.anthropic_replies import TOOLS, Step
from support.anthropic_rules import Model, Refusal, RulesServer

JSONObject = dict[str, Any]

MESSAGES = WIRES["messages"]
USER: JSONObject = {"role": "user", "content": "Find tea."}
LONGEST = 12
"""Behind so many messages a caller begins anew."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request of the guard that the API does not take."""

    why: Refusal
    body: JSONObject
    is_correction: bool


@dataclass(slots=True)
class Conversations:
    """What came of some conversations with one server."""

    asked: Counter[str] = field(default_factory=Counter)
    """How many requests there were: ``first`` ones and ``correction``."""

    ends: Counter[str] = field(default_factory=Counter)
    """How the replies ended: ``settled``, else why not."""

    refused: list[Refused] = field(default_factory=list)


class _Refused(Exception):
    """The API does not take a request."""


def converse(
    replies: Iterator[Step],
    count: int,
    *,
    model: Model | None = None,
    policy: sr.RetryPolicy | None = None,
    **keywords: Any,
) -> Conversations:
    """Ask for ``count`` replies, one conversation after another, as a caller of a guard.

    ``replies`` are what the model writes. ``keywords`` stand in each request.
    """
    patient = policy or sr.RetryPolicy(wait=tenacity.wait_none())
    names = [sr.Tool.from_json_schema(tool["name"], tool["input_schema"]) for tool in TOOLS]
    contract = sr.Contract(tools=names, parallel=True)
    server = RulesServer(model=model)
    found = Conversations()
    turns = [USER]

    for _ in range(count):
        asked = {"model": "m", "max_tokens": 4096, "tools": TOOLS, "messages": turns, **keywords}
        plan = CallPlan(contract, MESSAGES.read(asked), patient, sr.TieredSteering())
        try:
            outcome = _outcome(replace(plan, wire=MESSAGES), server, replies, found)
        except _Refused:
            found.ends["refused"] += 1
            turns = [USER]
            continue

        if isinstance(outcome, Settled):
            found.ends["settled"] += 1
            turns = [*turns, *_behind(outcome)] if len(turns) < LONGEST else [USER]
        elif isinstance(outcome, Ended):
            found.ends[f"{outcome.end.how}: {outcome.end.reason}"] += 1
            turns = [USER]

    return found


def _outcome(
    plan: CallPlan, server: RulesServer, replies: Iterator[Step], found: Conversations
) -> Outcome:
    flow = reply_flow(plan)
    effect = next(flow)
    while True:
        try:
            effect = flow.send(_event(effect, server, replies, found))
        except StopIteration as ended:
            outcome: Outcome = ended.value
            return outcome


def _event(
    effect: Effect, server: RulesServer, replies: Iterator[Step], found: Conversations
) -> Event:
    if isinstance(effect, Check):
        return Checked(())
    if not isinstance(effect, Call):
        return Noted()

    server.script.append(next(replies))
    body = json.loads(json.dumps(effect.request))
    status, _, _ = server.answer("/v1/messages", body)
    found.asked["correction" if effect.corrects else "first"] += 1
    if status != 200:
        server.script.clear()
        found.refused.append(Refused(server.refused[-1], body, effect.corrects))
        raise _Refused

    return Replied(server.sent[-1])


def _behind(outcome: Settled) -> list[JSONObject]:
    """Return how a caller goes on: the turn that was handed out, and what it has to say to it.

    A paused turn goes back alone, and next to a waiting tool of the server only results do.
    """
    turn: JSONObject = json.loads(json.dumps(outcome.turn))
    if outcome.response.get("stop_reason") == "pause_turn":
        return [turn]

    ids = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": id_, "content": "black"} for id_ in ids]
    return [turn, {"role": "user", "content": results} if results else USER]
