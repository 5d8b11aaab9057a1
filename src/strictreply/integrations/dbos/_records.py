"""What a turn leaves in the database: its request, what each of its steps came to, its end. All of it is ASCII JSON.

A flow is sent only what was read from a record, so that a turn that is played again is told the same as the first time.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from strictreply.contract._contract import Contract
from strictreply.contract._judge import judge
from strictreply.integrations.dbos._failures import DurableRunFailed, Failure
from strictreply.pipeline._invoke_result import InvokeCode, InvokeError, InvokeFailed
from strictreply.pipeline._line import EffectRaised
from strictreply.pipeline._sessions import MemorySessionStore, SessionStore
from strictreply.pipeline._turn_effects import Asked, ToolOutcome
from strictreply.pipeline._values import (
    AgentResponse,
    AgentToolCallResult,
    Envelope,
    Session,
    ToolCallManifest,
    Turn,
    Value,
)
from strictreply.values._attempts import Usage
from strictreply.values._json import JSONObject
from strictreply.values._replies import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd(Value):
    """What a turn came to: its response, and the session, the turn and the calls that wait, as a store keeps them.

    ``asked`` are the replies that the turn accepted, each as its record.
    """

    response: AgentResponse
    session: Session
    turn: Turn
    waiting: ToolCallManifest | None = None
    asked: tuple[JSONObject, ...] = ()

    def store(self) -> SessionStore:
        """Give a store in memory that holds this and nothing else."""
        store = MemorySessionStore()
        store.save(replace(self.session, last_turn_id=""), self.turn, waiting=self.waiting)
        return store


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest(Value):
    """What a turn begins with: the request, when it came (ISO 8601), and the turn that it goes on from."""

    envelope: Envelope
    time_stamp: str
    before: TurnEnd | None = None

    def store(self) -> SessionStore:
        """Give a store in memory that holds the turn before, if there was one."""
        return MemorySessionStore() if self.before is None else self.before.store()


def ascii_json(value: JSONObject) -> str:
    """Spell a record; a lone surrogate is escaped, as no database takes one."""
    return json.dumps(value, separators=(",", ":"))


def asked_record(asked: Asked | EffectRaised) -> str:
    """Spell what asking the model came to: the message and its price, or what was raised."""
    if isinstance(asked, EffectRaised):
        return ascii_json({"failure": Failure.of(asked.error).to_dict()})
    return ascii_json(reply_record(asked))


def reply_record(asked: Asked) -> JSONObject:
    """Tell of an accepted reply: the message and its price."""
    return {"message": dict(asked.message), "usage": asdict(asked.usage)}


def asked_from(text: str, contract: Contract) -> Asked | EffectRaised:
    """Read what asking came to."""
    record: dict[str, Any] = json.loads(text)
    failure = failure_of(record)
    return reply_from(record, contract) if failure is None else EffectRaised(DurableRunFailed(failure))


def failure_of(record: object) -> Failure | None:
    """Give the failure that a record tells of, None for any other record."""
    return Failure(**record["failure"]) if isinstance(record, dict) and "failure" in record else None


def reply_from(record: dict[str, Any], contract: Contract) -> Asked | EffectRaised:
    """Read an accepted reply; its message is judged again, by the tools of this process."""
    verdict = judge(contract, record["message"])
    if isinstance(verdict, Invalid):
        message = "a recorded reply does not fit the tools given here; give those that the run was started with"
        error = InvokeError(code=InvokeCode.TOOLS_CHANGED, rule="loop.same_tools", message=message)
        return EffectRaised(InvokeFailed((replace(error, issues=verdict.issues),)))
    return Asked(record["message"], verdict.reply, Usage(**record["usage"]))


def outcome_record(outcome: ToolOutcome) -> str:
    """Spell the result of a call; what its tool raised is told by the result, and stays in this process."""
    return ascii_json(outcome.result.to_dict())


def outcome_from(text: str) -> ToolOutcome:
    """Read the result of a call."""
    return ToolOutcome(AgentToolCallResult.from_json(text))
