"""What only we do, each row beside the plain way to the same thing.

It is reading, LangGraph, DBOS, and sessions in SQLite.

``bench.py`` starts it in our environment: ``own.py [--quick]``. It prints lines as ``worker.py``
does.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from cases import (
    ANSWER,
    LOOP_CALLS,
    MODEL,
    QUESTION,
    Wire,
    completion,
    definition,
    look,
    loop_arguments,
    loop_requests,
    loop_wire,
    with_arguments,
)
from dbos import DBOS, DBOSClient, DBOSConfig
from langgraph.graph import END, START, StateGraph
from measuring import FULL, QUICK, Block, Effort, block, interleaved
from peers.strictreply_ways import LIMITS
from worker import SIZES, WrongValue, tell

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.dbos import DurableRuns
from strictreply.integrations.langgraph import ChatAgent, begin, to_langgraph

NAMES = ("ping", "pong")
TEAM = Topology.of(
    [("ping", "pong"), ("pong", "ping"), ("ping", "User"), ("pong", "User")], entry="ping"
)
TURNS = 10
IDLE_SECONDS = 5.0
POLL = 0.1
"""Seconds between two looks at the queue, and for the end, on both sides."""


def told(name: str, effort: Effort, plain: Block, ours: Block, shared: int = 1) -> None:
    """Measure ours beside the plain way.

    ``shared`` is how many of what the row counts one call does.
    """
    costs = interleaved([plain, ours], effort)
    for peer, cost in zip(("raw", "reply"), costs, strict=True):
        tell(
            row=name,
            peer=peer,
            seconds=cost.seconds / shared,
            ratio=cost.ratio,
            low=cost.low,
            high=cost.high,
        )


def reading(effort: Effort, *, quick: bool) -> None:
    """Measure ``Contract.check`` of a message, beside a parser of its call's arguments alone."""
    for size, count in list(SIZES.items())[: 2 if quick else None]:
        ask = with_arguments(count)
        text = json.dumps(ask.right)
        message = json.loads(ask.replied())["choices"][0]["message"]
        as_dict = sr.Contract(tools=[definition(ask.tool)], limits=LIMITS)
        typed = sr.Contract(tools=[ask.tool], limits=LIMITS)

        for contract in (as_dict, typed):
            if not isinstance(contract.check(message), sr.Valid):
                raise WrongValue

        def parsed(text: str = text) -> Any:
            return json.loads(text)

        def validated(
            text: str = text, validate: Callable[[str], Any] = ask.tool.model_validate_json
        ) -> Any:
            return validate(text)

        checked = block(_checking(as_dict, message))
        told(f"{size}: dict / json.loads", effort, block(parsed), checked)
        checked = block(_checking(typed, message))
        told(f"{size}: typed / pydantic", effort, block(validated), checked)


def _checking(contract: Any, message: Any) -> Callable[[], Any]:
    return lambda: contract.check(message)


class Plain(TypedDict):
    """The state of the plain graph."""

    messages: list[Any]
    turn: int
    next: str


def langgraph_step(effort: Effort) -> None:
    """Measure an agent's turn, judged and routed, beside a node with the SDK and ``json.loads``."""
    actions: list[dict[str, str]] = []
    for turn in range(TURNS - 1):
        other = NAMES[(turn + 1) % 2]
        hand_over = {"next_action": "invoke_agent", "action_input": other}
        actions.append(hand_over | {"request": f"turn {turn}"})

    actions.append({"next_action": "final_response", "content": "done"})
    replies = [completion(content=json.dumps(action)) for action in actions]
    wire = Wire(*replies)
    wire.bodies = []

    agents = [
        ChatAgent(name=name, client=sr.wrap(wire.client()), request={"model": MODEL}, goal="Play.")
        for name in NAMES
    ]
    ours = to_langgraph(TEAM, agents, max_loop_count=50, max_turns=50).compile()
    if ours.invoke(begin(TEAM, "Begin."))["loop_count"] != TURNS:
        raise WrongValue

    requests = [json.loads(body) for body in wire.bodies]
    wire.bodies = None
    client = Wire(*replies).client()

    def step(state: Plain) -> Any:
        response = client.chat.completions.create(**requests[state["turn"]])
        content = response.choices[0].message.content or ""
        following = json.loads(content).get("action_input", END)
        messages = [*state["messages"], {"role": "assistant", "content": content}]
        return {"messages": messages, "turn": state["turn"] + 1, "next": following}

    graph = StateGraph(Plain)
    for name in NAMES:
        graph.add_node(name, step)
        graph.add_conditional_edges(name, lambda state: state["next"], [*NAMES, END])

    graph.add_edge(START, "ping")
    plain = graph.compile()
    told(
        "LangGraph step",
        effort,
        block(lambda: plain.invoke({"messages": [], "turn": 0, "next": "ping"})),
        block(lambda: ours.invoke(begin(TEAM, "Begin."))),
        TURNS,
    )


def sessions(effort: Effort) -> None:
    """Measure how much longer a turn of the tool loop takes when its session is in SQLite.

    It is wall time.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = sr.SQLiteSessionStore(Path(folder, "sessions.sqlite"))
        without, within = (sr.wrap(loop_wire().client(), tools=[look]) for _ in range(2))
        told(
            "turn with a session in SQLite, wall",
            effort,
            block(lambda: sr.run(without, QUESTION, model=MODEL), time.perf_counter),
            block(lambda: sr.run(within, QUESTION, model=MODEL, sessions=store), time.perf_counter),
        )


Turn = Callable[[], Callable[[], Any]]
"""Starts a turn, and returns what waits for its end."""


@contextmanager
def _durable() -> Iterator[tuple[Turn, Turn]]:
    """Launch DBOS with our worker and a plain workflow of as many steps.

    Yield what starts a turn of each.
    """
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/dbos.sqlite"
        wrapped = sr.wrap(loop_wire().client(), tools=[look])
        runs = DurableRuns("bench", wrapped, url=url, model=MODEL)
        raw = loop_wire().client()
        requests = loop_requests()
        steps = [0]
        step: Any = DBOS.run_step

        @DBOS.workflow(name="plain")
        def plain() -> str:
            answer = ""
            for number, request in enumerate(requests):
                sent = step({"name": "ask"}, partial(raw.chat.completions.create, **request))
                answer = sent.choices[0].message.content or ""
                if number < LOOP_CALLS:
                    step({"name": "call"}, partial(look, **loop_arguments(number)))

            for number in range(steps[0] - 2 * LOOP_CALLS - 1):
                step({"name": "more"}, partial(str, number))

            return answer

        DBOS(config=DBOSConfig(name="bench", system_database_url=url))
        DBOS.launch()
        DBOS.register_queue("plain", polling_interval_sec=POLL)

        client = DBOSClient(system_database_url=url)
        try:
            with runs, runs.worker(poll_seconds=POLL, launch=False):
                first = runs.start(QUESTION)
                if first.result(poll_seconds=POLL).answer != ANSWER:
                    raise WrongValue

                steps[0] = len(DBOS.list_workflow_steps(first.turn_id(0)))
                where: Any = {"queue_name": "plain", "workflow_name": "plain"}

                def plain_turn() -> Callable[[], Any]:
                    handle: Any = client.enqueue(where | {"workflow_id": uuid.uuid4().hex})
                    return lambda: handle.get_result(polling_interval_sec=POLL)

                def our_turn() -> Callable[[], Any]:
                    run = runs.start(QUESTION)
                    return lambda: run.result(poll_seconds=POLL)

                if plain_turn()() != ANSWER:
                    raise WrongValue

                yield plain_turn, our_turn
        finally:
            client.destroy()
            DBOS.destroy()


def durable(effort: Effort, *, quick: bool) -> None:
    """Measure a durable turn beside a plain workflow of as many steps.

    Both are started and awaited the same way.
    """

    def batch(start: Turn) -> Block:
        def run(times: int) -> float:
            begun = time.process_time()
            for wait in [start() for _ in range(times)]:
                wait()
            return time.process_time() - begun

        return run

    # Several at once, so that looking at the queue and for the ends is little of what is measured.
    effort = replace(effort, block=0.1 if quick else 0.5)
    with _durable() as (plain, ours):
        told("durable turn", effort, batch(plain), batch(ours))


def idle(*, quick: bool) -> None:
    """Measure the CPU time of a worker that has nothing to do, as it is by default."""
    seconds = 1.0 if quick else IDLE_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/idle.sqlite"
        runs = DurableRuns("idle", sr.wrap(Wire(b"").client()), url=url, model=MODEL)

        with runs, runs.worker():
            time.sleep(seconds)  # it starts
            begun = time.process_time()
            time.sleep(seconds)
            taken = (time.process_time() - begun) / seconds
            tell(row="idle durable worker, CPU a second", peer="reply", seconds=taken)


def main() -> None:
    """Measure every row; a row that fails says so, and the next is measured."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    quick = "--quick" in sys.argv
    effort = QUICK if quick else FULL
    rows: dict[str, Callable[[], None]] = {
        "reading": lambda: reading(effort, quick=quick),
        "LangGraph step": lambda: langgraph_step(effort),
        "turn with a session in SQLite, wall": lambda: sessions(effort),
        "durable turn": lambda: durable(effort, quick=quick),
        "idle durable worker, CPU a second": lambda: idle(quick=quick),
    }
    for name, measure in rows.items():
        try:
            measure()
        except Exception as error:  # noqa: BLE001 - one row less
            why = f"failed: {type(error).__name__}"
            tell(row=name, peer="reply", why=why, detail=str(error)[:300])


if __name__ == "__main__":
    main()
