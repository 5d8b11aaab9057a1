"""The laws of the faults of replies, whatever their module.

They say what is made, and what a wrapped client says to it. The model is the kit's own script,
behind a client without HTTP or behind the real SDK over a mock transport.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from tenacity import wait_none

import strictreply as sr
from strictreply import Code, Remedy, Tool
from strictreply.core import JSON
from strictreply.testing import Fault, HTTPReply, ReplyPlace, ScriptedModel, Step, ok
from strictreply.testing._steps import Target
from strictreply.testing.faults import Entry
from support.scripted import USER, Server

ONCE = sr.RetryPolicy(max_retries=0, transport_retries=0)
TWICE = sr.RetryPolicy(max_retries=1, transport_retries=1, wait=wait_none())
STOPPING = {code for code in Code if code.remedy is Remedy.STOP}
ENDS = (sr.ReplyRejected, sr.ReplyHalted, sr.TransportFailed)


def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> list[str]:
    """Search the catalogue."""
    return [query] * limit


def ping() -> None:
    """See whether somebody is there."""


class Refund(BaseModel):
    """Pay the customer back."""

    order: int
    reason: Literal["late", "broken"]
    urgent: bool


TRIP = {
    "type": "object",
    "properties": {
        "guest": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
        "nights": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "note": {"type": ["string", "null"]},
    },
    "required": ["guest", "nights"],
}
NUMBERS = {"type": "array", "items": {"type": "integer"}, "minItems": 2}
TOOLS = {
    "search": (sr.Tool.of(search), {"query": "tea", "limit": 3}),
    "ping": (sr.Tool.of(ping), None),
    "Refund": (sr.Tool.of(Refund), None),
    "book.trip": (
        Tool.from_json_schema("book.trip", TRIP),
        {"guest": {"name": "Ада"}, "nights": [1], "note": None},
    ),
}
ANSWERS = {"Refund": (Refund, None), "trip": (TRIP, None), "numbers": (NUMBERS, None)}


NOT_MADE = {
    # The type is wrong before there could be a key too many.
    ("answer_in_object", "json", "numbers"),
}
"""What cannot be made, by entry, place and tool or answer; everything else can."""


def entries_of(module: ModuleType) -> dict[str, Entry]:
    """List the entries of one module by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Entry)}


def targets(entry: Entry) -> Iterator[tuple[str, Target]]:
    """Aim an entry at every tool, or answer, in each of its places."""
    return chain.from_iterable(map(_targets_in, entry.places))


@cache
def _targets_in(place: ReplyPlace) -> list[tuple[str, Target]]:
    """Aim at every tool, or answer, in one place."""
    declared: Any = {"prose": {"text": (None, None)}, "json": ANSWERS}.get(place, TOOLS)
    return [
        (name, Target.of(one, place=place, args=args)) for name, (one, args) in declared.items()
    ]


def faults(entry: Entry) -> Iterator[tuple[Target, Fault]]:
    """Make every fault of an entry, with what it was made of."""
    for _, target in targets(entry):
        for fault in made_of(entry, target):
            yield target, fault


def made_of(entry: Entry, target: Target) -> Iterator[Fault]:
    """Make every fault of an entry that is proved, of one good reply."""
    return entry.all_for(
        target.declared if target.schema else None, place=target.place, args=target.value
    )


def first_fault(entry: Entry) -> tuple[Target, Fault]:
    """Make one fault of an entry, where it usually is."""
    return next(faults(entry))


class Client:
    """A client without HTTP over a scripted model."""

    def __init__(self, model: ScriptedModel) -> None:
        """Offer ``chat.completions.create``."""
        self.model = model
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **request: Any) -> JSON:
        """Return the next step as JSON."""
        return as_json(self.model(request))


def as_json(served: JSON | HTTPReply) -> JSON:
    """Read what a client would of a response of status 200."""
    if not isinstance(served, HTTPReply):
        return served
    value: JSON = json.loads(served.body)
    return value


def ask(client: Any, target: Target, fault: Fault, policy: sr.RetryPolicy) -> sr.AssistantReply:
    """Ask through a wrapped client, with the keywords that the fault needs."""
    wrapped = sr.wrap(client, contract=target.contract, policy=policy)
    reply: sr.AssistantReply = wrapped.reply(model="m", messages=USER, **fault.needs)
    return reply


def ending_of(client: Any, target: Target, fault: Fault) -> sr.CallFailed:
    """Ask once, and give the error that the call ends in."""
    try:
        reply = ask(client, target, fault, ONCE)
    except ENDS as error:
        return error
    message = f"{fault.source} was accepted: {type(reply).__name__}"
    raise AssertionError(message)


def good_step(target: Target, fault: Fault) -> Step:
    """Return the good reply after the fault.

    It is the tool call, or an answer where no tool may be called.
    """
    if fault.needs.get("tool_choice") != "none":
        return Step("good", target.clean, "good")
    return ok.answer({"answer": "done"}) if target.place == "union" else ok.answer("done")


def assert_made(entry: Entry) -> None:
    """Every fault made is refused with the promised code, and of each tool at least one is made."""
    for name, target in targets(entry):
        made = list(entry.make(target))
        proved = list(made_of(entry, target))

        if (entry.name, target.place, name) in NOT_MADE:
            assert not proved, f"{entry.name} can be made of {name} in {target.place}"
        else:
            assert made, f"{entry.name} cannot be made of {name} in {target.place}"
            assert len(proved) == len(made), (
                f"{entry.name} of {name} in {target.place} is not what it promises"
            )


def assert_told(entry: Entry) -> None:
    """Assert that a wrapped client that may not retry ends in one of our errors.

    The promised code is among its issues.
    """
    for target, fault in faults(entry):
        error = ending_of(Client(ScriptedModel(fault)), target, fault)
        assert fault.code in {issue.code for issue in error.issues}, f"{fault.source} {fault.place}"
        assert not [word for word in fault.invented if word in f"{error}{error!r}"], fault.source


def assert_recovers(entry: Entry) -> None:
    """Assert that after the fault and a good reply the call succeeds.

    It need not where another ask would not help; no prompt echoes.
    """
    for target, fault in faults(entry):
        model = ScriptedModel(fault, good_step(target, fault))
        if fault.code in STOPPING:
            assert isinstance(ending_of(Client(model), target, fault), sr.ReplyHalted)
            continue
        ask(Client(model), target, fault, TWICE)
        model.assert_spent()
        model.assert_no_echo()


def assert_sent(entry: Entry) -> None:
    """Assert that over HTTP and the real SDK the same code comes.

    What is served is JSON that every body can carry.
    """
    target, fault = first_fault(entry)
    served = as_json(fault.served)
    body = json.dumps(served, ensure_ascii=False, allow_nan=False).encode()
    assert json.loads(body) == served
    with Server(body).client() as client:
        error = ending_of(client, target, fault)
    assert fault.code in {issue.code for issue in error.issues}
