"""A desk whose tools write down what they do, and the process that works there until it is killed at a chosen step."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from openai import OpenAI

import strictreply as sr
from strictreply.integrations.dbos import DurableRuns
from strictreply.pipeline.loop_policy import LoopPolicy
from strictreply.testing import ok
from strictreply.testing.wire import Served

TOOLS = ("look_up", "reserve", "notify")
STEPS = ("ask", *(f"tool {name}" for name in TOOLS), "ask")
ANSWER = "Your order is reserved."
Moment = Literal["unrecorded", "recorded"]


@dataclass(frozen=True)
class Kill:
    """Where a worker dies: its ``number``-th step is done, and its record not yet committed, or just committed.

    Only the first of several workers that comes there dies: it leaves the ``token`` behind.
    """

    number: int
    moment: Moment
    token: Path

    def take(self) -> bool:
        """Tell whether this process is the one to die."""
        try:
            self.token.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class DeskModel:
    """Serves the desk's model: three calls in one reply, then the answer; counts what it was asked in each state."""

    def __init__(self, tools: list[sr.Tool]) -> None:
        """Take the tools, and give each call an id of its own."""
        self.asked: Counter[str] = Counter()
        self._calls = ok.calls(*(ok.call(tool, order=7) for tool in tools))
        self._answer = ok.answer(ANSWER)

    def __call__(self, body: Any) -> Served:
        """Answer when the results are there."""
        over = body["messages"][-1]["role"] == "tool"
        self.asked["answer" if over else "calls"] += 1
        return (self._answer if over else self._calls).served


def tools(journal: Path) -> list[sr.Tool]:
    """Make the tools; each writes its name behind what it did."""

    def does(name: str) -> Callable[[Any], str]:
        def write(args: Any) -> str:
            with journal.open("a", encoding="utf-8") as lines:
                lines.write(f"{name} {json.dumps(args)}\n")
            return f"{name} done"

        return write

    schema = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
    return [sr.Tool.from_json_schema(name, schema, description="Work.", function=does(name)) for name in TOOLS]


def desk(base_url: str, url: str, journal: Path) -> DurableRuns:
    """Open the desk: one call after the other, so that steps have one order."""
    client = sr.wrap(
        OpenAI(base_url=base_url, api_key="none", timeout=20.0, max_retries=0), tools=tools(journal), parallel=True
    )
    return DurableRuns("desk", client, url=url, loop=LoopPolicy(concurrency=1), model="desk")


def done(journal: Path) -> Counter[str]:
    """Count what the tools did."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return Counter(line.partition(" ")[0] for line in lines)


def work(base_url: str, url: str, journal: Path, kill: Kill | None, up: Any) -> None:
    """Work at the desk until somebody kills this process, or it dies at its step; ``up`` is set when it serves."""
    with desk(base_url, url, journal).worker(poll_seconds=0.1):
        if kill is not None:
            die_at(kill)
        up.set()
        time.sleep(60)


def die_at(kill: Kill) -> None:
    """Have this process kill itself around the commit of one step's record; SQLAlchemy tells when that is."""
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
