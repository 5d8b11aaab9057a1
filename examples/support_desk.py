"""A support desk whose conversations survive its processes.

It has tools on the server, one on the customer's phone, and a refund that a
clerk must approve. A new process serves every visit. The processes share only
an SQLite file, and the JSON that the client sends back.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from openai import OpenAI
from pydantic import Field
from support_desk_model import desk_model

import strictreply as sr
from strictreply.loop import RunEvent, ToolFinished
from strictreply.pipeline import (
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
)
from strictreply.testing import LoopbackServer

ORDERS = {
    1042: "a mug, 29.90 EUR, delivered on Monday",
    1077: "a tent, 99.00 EUR, delivered in May",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """What one process did: the replies it refused, and the tools it ran.

    ``response`` is for the client.
    """

    pid: int
    refused: tuple[str, ...]
    ran: tuple[str, ...]
    response: AgentResponse


Serve: TypeAlias = Callable[..., Visit]
"""Calls :func:`visit` in a new process, with what the client sent."""


def desk_tools(ledger: Path) -> list[sr.Tool]:
    """Declare the desk's tools; refunds are written to ``ledger``."""

    @sr.tool
    def find_order(number: Annotated[int, Field(ge=1000)]) -> str:
        """Look up an order."""
        if number not in ORDERS:
            raise sr.ToolError("no order has this number")
        return ORDERS[number]

    @sr.tool
    def return_policy(reason: Literal["broken", "late", "unwanted"]) -> str:
        """Return when we refund an order."""
        return "after a photo" if reason == "broken" else "within 14 days"

    @sr.tool(needs_approval=True)
    def refund(
        order: int, amount: Annotated[float, Field(gt=0, le=100)]
    ) -> str:
        """Refund an order, in EUR."""
        with ledger.open("a", encoding="utf-8") as book:
            book.write(f"{os.getpid()} {order} {amount:.2f}\n")
        return "paid"

    photo = {
        "type": "object",
        "properties": {"order": {"type": "integer"}},
        "required": ["order"],
    }
    # no function here: it runs on the customer's phone
    take_photo = sr.Tool.from_json_schema(
        "take_photo", photo, "Ask the customer for a photo."
    )
    return [find_order, return_policy, take_photo, refund]


def visit(
    base_url: str,
    folder: Path,
    message: str | None = None,
    *,
    paused: str | None = None,
    results: tuple[AgentToolCallResult | sr.Decision, ...] = (),
) -> Visit:
    """Serve one request of a client.

    The request is a message, or the previous response with the results that
    it asked for.
    """
    tools = desk_tools(folder / "refunds.txt")
    events = list[RunEvent]()
    openai = OpenAI(base_url=base_url, api_key="none", timeout=10.0)
    sessions = sr.SQLiteSessionStore(folder / "desk.sqlite")
    given: dict[str, Any] = {
        "continuation": paused,
        "results": results,
        "sessions": sessions,
    }

    with sr.wrap(openai, tools=tools, parallel=True) as client:
        run = sr.run(
            client, message, **given, on_event=events.append, model="desk-1"
        )

    refused = [one.issues[0].code for one in run.attempts if one.issues]
    finished = [one for one in events if isinstance(one, ToolFinished)]
    ran = sorted(event.call.tool for event in finished)
    return Visit(os.getpid(), tuple(refused), tuple(ran), run.response)


@contextmanager
def open_desk(folder: Path) -> Generator[Serve, None, None]:
    """Open the desk with its model.

    A new process serves each visit, and ends with it.
    """
    model = desk_model(*desk_tools(folder / "refunds.txt"))
    processes = ProcessPoolExecutor(
        max_workers=1, mp_context=get_context("spawn"), max_tasks_per_child=1
    )
    with LoopbackServer(model) as server, processes:

        def serve(*sent: Any, **more: Any) -> Visit:
            done = processes.submit(
                visit, server.base_url, folder, *sent, **more
            )
            return done.result()

        yield serve


def answered(
    serve: Serve, before: Visit, answer: Callable[[AgentToolCall], Any]
) -> Visit:
    """Send a paused response back as JSON, with results of its calls."""
    calls = before.response.tool_calls or ()
    results = tuple(map(answer, calls))
    return serve(paused=before.response.to_json(), results=results)


def story(serve: Serve) -> Iterator[tuple[str, Visit | sr.InvokeFailed]]:
    """Serve two customers: one gets a refund, the other does not.

    Yields each request, and its outcome.
    """

    def photo(call: AgentToolCall) -> Any:
        return call.answered("a mug in two pieces")

    def yes(call: AgentToolCall) -> Any:
        return call.approved()

    def no(call: AgentToolCall) -> Any:
        return call.denied("it was used")

    sent = "My order 1042 arrived broken. I want my money back."
    yield f"customer: {sent}", (asked := serve(sent))
    wanted = answered(serve, asked, photo)
    yield "the customer's phone: a photo", wanted
    yield "the clerk: yes", answered(serve, wanted, yes)

    try:
        answered(serve, wanted, yes)
    except sr.InvokeFailed as error:
        yield "the clerk: yes, once more", error

    sent = "I do not like my tent, order 1077."
    yield f"customer: {sent}", (other := serve(sent))
    yield "the clerk: no", answered(serve, other, no)


def in_words(outcome: Visit | sr.InvokeFailed) -> str:
    """Return the outcome of a visit in one line."""
    if isinstance(outcome, sr.InvokeFailed):
        return f"refused: {outcome.errors[0].code}"

    told = f"process {outcome.pid} "
    if outcome.refused:
        told += f"had {', '.join(outcome.refused)} corrected; "
    told += f"ran {', '.join(outcome.ran) or 'nothing'}; "

    calls = outcome.response.tool_calls or ()
    if not calls:
        return f"{told}answers: {outcome.response.primary_output_text}"
    asked = [f"{call.name} {call.arguments_json}" for call in calls]
    return f"{told}waits for {', '.join(asked)}"


def main() -> None:
    """Print the visits, and the payments."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_desk(Path(folder)) as serve,
    ):
        for sent, outcome in story(serve):
            print(f"{sent}\n  {in_words(outcome)}")

        paid = Path(folder, "refunds.txt").read_text("utf-8").splitlines()
        print("paid (process, order, EUR):", *paid)


if __name__ == "__main__":
    main()
