"""A desk whose tools write down what they do, and the process that works there.

The process works until it is killed at a chosen step.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from openai import OpenAI

import strictreply as sr
from strictreply.core import JSON
from strictreply.integrations.dbos import DurableRuns
from strictreply.testing import HTTPReply, ok

TOOLS: Final = ("look_up", "reserve", "notify")
ANSWER: Final = "Your order is reserved."
ORDER: Final = 7
POISON: Final = 666
"""The order that kills whoever looks it up."""
DEATHS: Final = 5
"""So many worker processes in a row die of a run before it is given up, as its page says."""
SCHEMA: Final = {
    "type": "object",
    "properties": {"order": {"type": "integer"}},
    "required": ["order"],
}
Moment = Literal["unrecorded", "recorded"]
Shape = Literal["one by one", "together"]

STEPS: Final[dict[Shape, tuple[str, ...]]] = {
    "one by one": ("ask 0", "look_up", "ask 1", "reserve", "ask 2", "notify", "ask 3"),
    "together": ("ask 0", *TOOLS, "ask 3"),
}
"""The steps of a turn whose tools are called in three replies, or in one; an ask is named by the
results it is told.
"""


@dataclass(frozen=True)
class Kill:
    """Where a worker dies, once its ``number``-th step is done.

    The record of the step is not yet committed then, or just committed. Only the first of several
    workers that comes there dies: it leaves the ``token`` behind.
    """

    number: int
    moment: Moment
    token: Path

    def take(self) -> bool:
        """Return whether this process is the one to die."""
        try:
            self.token.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True)
class Place:
    """Where a desk is.

    It names the model, the runs, the journal of the tools, and how many runs go on at the same
    time.
    """

    base_url: str
    url: str
    journal: Path
    concurrency: int = 1

    def runs(self) -> DurableRuns:
        """Open the desk."""
        client = sr.wrap(
            OpenAI(base_url=self.base_url, api_key="none", timeout=20.0, max_retries=0),
            tools=[
                sr.Tool.from_json_schema(name, SCHEMA, function=self._writes(name))
                for name in TOOLS
            ],
            parallel=True,
        )
        return DurableRuns(
            "desk",
            client,
            url=self.url,
            loop=sr.LoopPolicy(concurrency=self.concurrency),
            model="desk",
        )

    def done(self) -> Counter[str]:
        """Count what the tools did."""
        return Counter(self.journal.read_text("utf-8").split() if self.journal.exists() else ())

    def _writes(self, name: str) -> Callable[[Any], str]:
        """Make a tool that writes its name behind what was done."""

        def write(args: Any) -> str:
            if args["order"] == POISON:
                os.kill(os.getpid(), signal.SIGKILL)
            with self.journal.open("a", encoding="utf-8") as lines:
                lines.write(f"{name}\n")
            return f"{name} {args['order']}"

        return write


class DeskModel:
    """Serves the desk's model, and counts what it was asked.

    It gives the calls that are left of the shape, then the answer. The calls are about the order
    that the user asks for, if it is the poisoned one.
    """

    def __init__(self, shape: Shape) -> None:
        """Count the calls, so that each has an id of its own."""
        self.asked: Counter[str] = Counter()
        self._replies = {order: self._replies_about(order, shape) for order in (ORDER, POISON)}

    def __call__(self, body: Any) -> JSON | HTTPReply:
        """Return the reply that follows the results in the messages."""
        told = sum(message["role"] == "tool" for message in body["messages"])
        self.asked[f"ask {told}"] += 1
        order = POISON if str(POISON) in body["messages"][0]["content"] else ORDER
        served: JSON | HTTPReply = self._replies[order][told].served
        return served

    def _replies_about(self, order: int, shape: Shape) -> dict[int, Any]:
        """Make the replies by the number of results that they follow."""
        calls = [ok.call(sr.Tool.from_json_schema(name, SCHEMA), order=order) for name in TOOLS]
        replies = {"one by one": dict(enumerate(calls)), "together": {0: ok.calls(*calls)}}[shape]
        return {**replies, len(TOOLS): ok.answer(ANSWER)}


def work(place: Place, kill: Kill | None, up: Any) -> None:
    """Work at the desk until somebody kills this process, or it dies at its step.

    ``up`` is set when it serves.
    """
    with place.runs().worker(poll_seconds=0.05):
        if kill is not None:
            die_at(kill)
        up.set()
        time.sleep(60)


def die_at(kill: Kill) -> None:
    """Have this process kill itself around the commit of one step's record.

    SQLAlchemy tells when that is.
    """
    from sqlalchemy import Engine, Pool, event  # noqa: PLC0415 - it comes with the extra

    seen: Counter[str] = Counter()

    def die() -> None:
        if kill.take():
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(Engine, "after_cursor_execute")
    def wrote(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("INSERT INTO") and "operation_outputs" in statement:
            seen["steps"] += 1
            if seen["steps"] == kill.number and kill.moment == "unrecorded":
                die()
            connection.info["number"] = seen["steps"]

    @event.listens_for(Pool, "checkin")
    def committed(connection: Any, record: Any) -> None:
        if record.info.pop("number", 0) == kill.number and kill.moment == "recorded":
            die()
