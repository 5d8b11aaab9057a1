"""Measures the ways of one environment, each row interleaved with the raw SDK of that environment.

``bench.py`` starts it with the environment's Python: ``worker.py MODULE [--quick]``. Each line of
its stdout is a JSON object: a figure, a reason why there is none, or how a malformed reply was met.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cases import (
    ANSWER,
    REALISTIC,
    SMALL,
    Ask,
    Loopback,
    Wire,
    loop_replies,
    streamed,
    with_arguments,
    with_messages,
)
from measuring import (
    FULL,
    QUICK,
    Block,
    Effort,
    async_block,
    block,
    costs,
    held_bytes,
    import_costs,
    interleaved,
    percentile,
)
from openai.resources.chat.completions import AsyncCompletions, Completions
from peers import Cannot, Peer, Raw, arguments

RAW = Raw("raw")
SIZES = {"1 kB": 1_000, "100 kB": 100_000, "0.9 MB": 900_000, "4 MB": 4_000_000}
CONCURRENT = 1000
DELAY = 0.02
KIB = 1024

MALFORMED = {
    "wrong type": '{"query": "tea", "limit": "many"}',
    "key missing": '{"limit": 5}',
    "key not declared": '{"query": "tea", "limit": 5, "colour": "red"}',
    "out of range": '{"query": "tea", "limit": 99}',
    "number as text": '{"query": "tea", "limit": "5"}',
    "key twice": '{"query": "tea", "limit": 99, "limit": 5}',
    "cut off": '{"query": "tea", "limit": 5',
}


class WrongValue(Exception):
    """A way did not give what the model replied, so its cost means nothing."""


def tell(**line: Any) -> None:
    """Print a line for the driver, its figures with as many digits as mean something."""
    figures = {
        name: float(f"{value:.4g}") for name, value in line.items() if isinstance(value, float)
    }
    print(json.dumps(line | figures), flush=True)


class Rows:
    """The rows of one environment: what is measured, and with how much effort."""

    def __init__(self, peers: list[Peer], effort: Effort) -> None:
        """Keep the ways and make the event loop that all async calls run on."""
        self.peers = peers
        self.effort = effort
        self.runner = asyncio.Runner()

    def row(
        self, name: str, baseline: Block, make: Callable[[Peer], Block], calls: int = 1
    ) -> None:
        """Measure a row; ``calls`` raw calls are what each work is compared with."""
        works = dict(self._made(name, make))
        base, *found = interleaved([baseline, *works.values()], self.effort)
        tell(row=name, peer="raw", seconds=base.seconds * calls, ratio=1.0, low=1.0, high=1.0)
        for peer, cost in zip(works, found, strict=True):
            of = (cost.ratio / calls, cost.low / calls, cost.high / calls)
            tell(row=name, peer=peer, seconds=cost.seconds, ratio=of[0], low=of[1], high=of[2])

    def _made(
        self, name: str, make: Callable[[Peer], Any], peers: list[Peer] | None = None
    ) -> Iterator[tuple[str, Any]]:
        """Make the work of each way; say why there is none."""
        for peer in self.peers if peers is None else peers:
            try:
                yield peer.name, make(peer)
            except Cannot as reason:
                tell(row=name, peer=peer.name, why=str(reason))
            except Exception as error:  # noqa: BLE001 - a library's own; the row goes on without it
                why = f"failed: {type(error).__name__}"
                tell(row=name, peer=peer.name, why=why, detail=str(error)[:300])

    def checked(self, call: Callable[[], Any], right: Any) -> Block:
        """Return the block of a sync call that gives the right value."""
        if arguments(call()) != right:
            raise WrongValue
        return block(call)

    def achecked(self, call: Callable[[], Any], right: Any) -> Block:
        """Do the same for an async call."""

        async def once() -> Any:
            return await call()

        if arguments(self.runner.run(once())) != right:
            raise WrongValue
        return async_block(self.runner, call)

    def calls(self, name: str, ask: Ask) -> None:
        """Measure the sync call of a case."""

        def make(peer: Peer) -> Block:
            return self.checked(peer.call(Wire(ask.replied(peer.reply_tool)), ask), ask.right)

        self.row(name, block(RAW.call(Wire(ask.replied()), ask)), make)

    def acalls(self, name: str, ask: Ask) -> None:
        """Measure the async call of a case."""

        def make(peer: Peer) -> Block:
            return self.achecked(peer.acall(Wire(ask.replied(peer.reply_tool)), ask), ask.right)

        self.row(name, async_block(self.runner, RAW.acall(Wire(ask.replied()), ask)), make)

    def retries(self, name: str, ask: Ask, *, is_async: bool = False) -> None:
        """Measure a call whose first reply is wrong."""

        def make(peer: Peer) -> Block:
            if not peer.asks_again:
                raise Cannot("no retry")

            wire = _failing_once(ask, peer)
            if is_async:
                made = self.achecked(peer.acall(wire, ask), ask.right)
            else:
                made = self.checked(peer.call(wire, ask), ask.right)

            if wire.served != 2:  # noqa: PLR2004 - the wrong reply and the right one
                raise WrongValue

            return made

        wire = Wire(ask.replied())
        if is_async:
            raw = async_block(self.runner, RAW.acall(wire, ask))
        else:
            raw = block(RAW.call(wire, ask))
        self.row(name, raw, make, calls=2)

    def exhaustion(self, name: str, ask: Ask) -> None:
        """Measure a call whose three replies are all wrong: it must raise after the third."""

        def make(peer: Peer) -> Block:
            if not peer.asks_again:
                raise Cannot("no retry")

            wrong = json.dumps(ask.wrong)
            replies = [
                ask.replied(peer.reply_tool, arguments=wrong, number=number)
                for number in range(ask.attempts)
            ]
            wire = Wire(*replies)
            call = peer.call(wire, ask)

            def given_up() -> None:
                try:
                    call()
                except Exception:  # noqa: BLE001 - every library's own
                    return
                raise WrongValue

            given_up()
            if wire.served != ask.attempts:
                raise WrongValue

            return block(given_up)

        self.row(name, block(RAW.call(Wire(ask.replied()), ask)), make, calls=ask.attempts)

    def loops(self) -> None:
        """Measure a turn of the tool loop, sync and async."""

        def make(peer: Peer) -> Block:
            turn = peer.loop(Wire(*loop_replies()))
            if turn() != ANSWER:
                raise WrongValue
            return block(turn)

        def amake(peer: Peer) -> Block:
            turn = peer.aloop(Wire(*loop_replies()))

            async def once() -> Any:
                return await turn()

            if self.runner.run(once()) != ANSWER:
                raise WrongValue
            return async_block(self.runner, turn)

        self.row("tool loop", block(RAW.loop(Wire(*loop_replies()))), make)
        raw = async_block(self.runner, RAW.aloop(Wire(*loop_replies())))
        self.row("tool loop, async", raw, amake)

    def streams(self, chunks: int) -> None:
        """Measure a stream that calls a tool, to its end."""
        ask = with_arguments(12 * chunks)
        raw = async_block(self.runner, RAW.stream(Wire(streamed(ask, chunks)), ask))

        def make(peer: Peer) -> Block:
            wire = Wire(streamed(ask, chunks, peer.reply_tool))
            return self.achecked(peer.stream(wire, ask), ask.right)

        self.row(f"stream of {chunks:,} chunks", raw, make)

    def traced(self) -> None:
        """Measure the calls while a tracer stands over the SDK's ``create``."""
        with _tracer():
            self.calls("small, traced", SMALL)
            self.calls("realistic, traced", REALISTIC)

    def concurrent(self, *, over_sockets: bool, rounds: int) -> None:
        """Measure 1,000 calls at once of a server that takes 20 ms for each: wall time and p99."""
        name = "1,000 at once, over sockets" if over_sockets else "1,000 at once, in memory"
        # Over sockets, the pool of connections is most of the time: one way of each library is
        # enough.
        peers = self.peers[:1] if over_sockets else self.peers

        with ExitStack() as servers:

            def make(peer: Peer) -> Callable[[], Any]:
                body = SMALL.replied(peer.reply_tool)
                if over_sockets:
                    return peer.acall(Loopback(servers.enter_context(_server(body))), SMALL)

                wire = Wire(body)
                wire.delay = partial(asyncio.sleep, DELAY)
                return peer.acall(wire, SMALL)

            works = {"raw": make(RAW), **dict(self._made(f"{name}: wall", make, peers))}
            for call in works.values():
                self.runner.run(_burst(call, 20))

            bursts = [
                [self.runner.run(_burst(call, CONCURRENT)) for call in works.values()]
                for _ in range(rounds)
            ]

        for place, what in enumerate(("wall", "p99")):
            found = costs([[burst[place] for burst in taken] for taken in bursts])
            for peer, cost in zip(works, found, strict=True):
                tell(
                    row=f"{name}: {what}",
                    peer=peer,
                    seconds=cost.seconds,
                    ratio=cost.ratio,
                    low=cost.low,
                    high=cost.high,
                )

    def memory(self) -> None:
        """Measure what a client, a tool and a kept exchange hold."""
        few = SMALL
        many = replace(SMALL, further=50)
        long = with_messages(200)

        def client(ask: Ask, peer: Peer) -> float:
            wire = Wire(ask.replied(peer.reply_tool))

            def made() -> object:
                call = peer.call(wire, ask)
                call()
                return call

            return held_bytes(made, 5)

        def exchange(peer: Peer) -> float:
            return held_bytes(peer.kept(Wire(long.replied(peer.reply_tool)), long), 20)

        rows: dict[str, Callable[[Peer], float]] = {
            "memory of a client": partial(client, few),
            "memory of a tool": lambda peer: (client(many, peer) - client(few, peer)) / 50,
            "memory of a kept exchange": exchange,
        }
        for name, measure in rows.items():
            raw = measure(RAW)
            tell(row=name, peer="raw", kib=raw / KIB)
            for peer, held in self._made(name, measure):
                tell(row=name, peer=peer, kib=held / KIB)

    def malformed(self) -> None:
        """Report how each way meets malformed replies: the proof that it validates."""
        for peer in self.peers:
            for fault, text in MALFORMED.items():
                tell(malformed=fault, peer=peer.name, outcome=outcome(peer, text))

    def bodies(self) -> None:
        """Report the two requests of a call that was corrected once, to count the tokens."""
        for name, ask in (("small", SMALL), ("realistic", REALISTIC)):
            for peer in self.peers:
                if not peer.asks_again:
                    continue

                wire = _failing_once(ask, peer)
                wire.bodies = []
                peer.call(wire, ask)()
                requests = [body.decode() for body in wire.bodies]
                tell(bodies=name, peer=peer.name, requests=requests)


_VALUE_ALONE = b'"properties":{"value":'


def _failing_once(ask: Ask, peer: Peer) -> Wire:
    """Make clients of a server whose first answer is wrong.

    Then it answers as it is asked, with all arguments or with the value alone.
    """
    [field] = (name for name, value in ask.right.items() if ask.wrong[name] != value)
    texts = json.dumps(ask.wrong), json.dumps(ask.right), json.dumps({"value": ask.right[field]})
    replies = [
        ask.replied(peer.reply_tool, arguments=text, number=turn > 0)
        for turn, text in enumerate(texts)
    ]
    wire = Wire(*replies)
    wire.pick = lambda request: 1 + (_VALUE_ALONE in request) if wire.served % 2 else 0
    return wire


def outcome(peer: Peer, text: str) -> str:
    """State what became of one malformed reply that a good one follows."""
    bad = SMALL.replied(peer.reply_tool, arguments=text)
    wire = Wire(bad, SMALL.replied(peer.reply_tool, number=1))
    try:
        value = arguments(peer.call(wire, SMALL)())
    except Exception as error:  # noqa: BLE001 - every library's own
        return f"refused: {type(error).__name__}"

    if wire.served == 1:
        return "accepted"
    return "retried" if value == SMALL.right else "retried, wrong value"


@contextmanager
def _tracer() -> Iterator[None]:
    """Put over both methods what the least tracer does: it keeps request and completion as text."""
    kept = deque[str](maxlen=8)
    sync = Completions.create
    asynchronous = AsyncCompletions.create

    def note(keywords: dict[str, Any], given: Any) -> Any:
        kept.append(json.dumps(keywords["messages"], default=str))
        kept.append(given.model_dump_json() if hasattr(given, "model_dump_json") else str(given))
        return given

    def create(self: Any, **keywords: Any) -> Any:
        return note(keywords, sync(self, **keywords))

    async def acreate(self: Any, **keywords: Any) -> Any:
        return note(keywords, await asynchronous(self, **keywords))

    _put(Completions, create)
    _put(AsyncCompletions, acreate)

    try:
        yield
    finally:
        _put(Completions, sync)
        _put(AsyncCompletions, asynchronous)


def _put(resource: Any, create: Any) -> None:
    resource.create = create


@contextmanager
def _server(body: bytes) -> Iterator[str]:
    """Start a server that always gives this response.

    It ends with the pipe to it, whatever ends us.
    """
    command = [sys.executable, "-I", str(Path(__file__).with_name("loopback_server.py"))]
    with subprocess.Popen(  # noqa: S603 - ours
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"body": body.decode(), "delay": DELAY}) + "\n")
        process.stdin.flush()

        yield process.stdout.readline().strip()


async def _burst(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """Make so many calls at once; return the wall seconds of all and the p99 of one."""
    gc.collect()
    late: list[float] = []

    async def one() -> None:
        begun = time.perf_counter()
        await call()
        late.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return time.perf_counter() - begun, percentile(late, 0.99)


def imports(module: Any, times: int) -> None:
    """Measure the import beside that of the SDK, each in fresh processes."""
    (base, small), (taken, large) = import_costs(
        sys.executable, ["import openai", f"import openai; {module.IMPORTS}"], times
    )
    tell(row="import", peer="raw", seconds=base, ratio=1.0, mib=small)
    tell(row="import", peer=module.PEERS[0].name, seconds=taken, ratio=taken / base, mib=large)


def measure(module: Any, *, quick: bool) -> None:
    """Measure every row."""
    rows = Rows(module.PEERS, QUICK if quick else FULL)
    tell(versions={name: version(name) for name in module.DISTRIBUTIONS})
    rows.malformed()
    rows.bodies()

    for name, ask in (("small", SMALL), ("realistic", REALISTIC)):
        rows.calls(name, ask)
        rows.acalls(f"{name}, async", ask)
        rows.retries(f"{name}, one retry", ask)
        rows.retries(f"{name}, one retry, async", ask, is_async=True)

    rows.exhaustion("three wrong replies", REALISTIC)
    rows.traced()

    for tools in (1, 50, 200) if quick else (1, 50, 200, 1000):
        rows.calls(f"{tools:,} tool{'s' * (tools > 1)}", replace(SMALL, further=tools - 1))

    for messages in (2, 200) if quick else (2, 200, 1000):
        rows.calls(f"{messages:,} messages", with_messages(messages))

    for size, count in list(SIZES.items())[: 2 if quick else None]:
        rows.calls(f"{size} of arguments", with_arguments(count))

    rows.loops()

    for chunks in (200,) if quick else (200, 2000):
        rows.streams(chunks)

    rows.concurrent(over_sockets=False, rounds=1 if quick else 3)
    if not quick:
        rows.concurrent(over_sockets=True, rounds=2)

    rows.memory()
    imports(module, 3 if quick else 11)


def main() -> None:
    """Do what the command line says, with the libraries' own logs and warnings off."""
    name, *options = sys.argv[1:]
    # the driver reports a stop from the keyboard
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    # some libraries make a client of their own, which is never asked
    os.environ.setdefault("OPENAI_API_KEY", "none")
    measure(importlib.import_module(f"peers.{name}"), quick="--quick" in options)


if __name__ == "__main__":
    main()
