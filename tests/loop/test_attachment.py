"""What must hold for any model.

No tool runs on an unchecked reply, and every result stands under its own call.
"""

from __future__ import annotations

import json
import threading
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strictreply as sr
from strictreply.loop import AttemptMade, RunEvent, ToolStarted
from support.loop.loops import DONE, LOCATE, PATIENCE, Loop, spy
from support.scripted import JSONObject, call, completion

GOOD = {"query": "good"}
FAULTS: list[tuple[str, Any]] = [
    ("search", {"query": 1}),
    ("search", {"query": "bad", "more": 1}),
    ("search", {}),
    ("search", '{"query":"bad"'),
    ("search", '{"query":"bad","query":"bad"}'),
    ("unknown", GOOD),
    ("deliver", {"query": None}),
]
CALLS = st.sampled_from(
    [("search", GOOD), ("fetch", GOOD), ("search", {"query": "other"}), *FAULTS]
)
REPLIES = st.one_of(
    st.lists(CALLS, min_size=1, max_size=4).map(
        lambda calls: completion(
            calls=[call(name, args, f"c{index}") for index, (name, args) in enumerate(calls)]
        )
    ),
    st.sampled_from(
        [
            completion(""),
            completion("done"),
            completion(None),
            completion("cut", finish_reason="length"),
        ]
    ),
)


@pytest.mark.req("T43")
@settings(max_examples=200)
@given(st.lists(REPLIES, max_size=6), st.integers(0, 2), st.booleans())
def test_no_tool_runs_unless_the_whole_reply_passed(
    replies: list[JSONObject],
    retries: int,
    asynchronous: bool,
) -> None:
    """For any replies, good, bad and mixed: what runs is what an accepted reply calls, all of it,
    and nothing else.
    """
    accepted: list[sr.Attempt] = []
    ran: list[str] = []
    latest: list[bool] = []

    def watch(event: RunEvent) -> None:
        """Keep what was accepted, and what the model's last word was when a tool began."""
        if isinstance(event, AttemptMade):
            accepted.append(event.attempt)
        if isinstance(event, ToolStarted):
            latest.append(accepted[-1].accepted)

    tools = [spy(name, ran) for name in ("search", "fetch", "deliver")]
    policy = sr.RetryPolicy(max_retries=retries)
    loop = Loop(*replies, *[DONE] * 9, tools=tools, policy=policy, asynchronous=asynchronous)
    try:
        done = loop.run(on_event=watch, loop=sr.LoopPolicy(warn_at=99, suppress_at=100))
    except sr.StrictReplyError:
        pass
    else:
        called = [sorted(one.args.query for one in _calls(asked.reply)) for asked in done.replies]
        assert sorted(ran) == sorted(query for queries in called for query in queries)

    assert all(latest)
    assert set(ran) <= {"good", "other"}


def _calls(reply: sr.AssistantReply) -> tuple[sr.ToolCall, ...]:
    """Return the calls of a reply."""
    match reply:
        case sr.ToolCall():
            return (reply,)
        case sr.ToolCalls(calls=calls):
            return calls
        case _:
            return ()


ROUNDS = st.lists(
    st.lists(st.sampled_from(["search", "locate", "deliver"]), min_size=1, max_size=5),
    min_size=1,
    max_size=3,
)
IDS = st.permutations(["a", "b", "a.2", "call_1", "call_2"])


class Ordered:
    """A tool whose concurrent calls end in a given order, whatever order they began in."""

    def __init__(self, order: list[str]) -> None:
        """Take the queries in the order in which their calls shall end."""
        self.gates = {query: threading.Event() for query in order}
        self.after = dict(pairwise(order))
        if order:
            self.gates[order[0]].set()

    def end(self, query: str) -> str:
        """Wait until it is this call's turn to end."""
        assert self.gates[query].wait(PATIENCE)
        if query in self.after:
            self.gates[self.after[query]].set()
        return f"result of {query}"


@settings(max_examples=100)
@given(ROUNDS, st.data(), st.booleans())
def test_no_result_is_told_under_another_call(
    rounds: list[list[str]],
    data: st.DataObject,
    asynchronous: bool,
) -> None:
    """Each tool turn has the id of one call, once, and carries the result of that call's own
    arguments.

    This holds for any number of calls of any kinds, for ids that repeat over rounds, and for any
    order of ending and of the client's results.
    """
    numbers = count()
    replies: list[JSONObject] = []
    made: list[list[tuple[str, str]]] = []

    for kinds in rounds:
        made.append([(kind, str(next(numbers))) for kind in kinds])
        names = data.draw(IDS)
        replies.append(
            completion(
                calls=[
                    call(kind, {"query": query}, id_)
                    for (kind, query), id_ in zip(made[-1], names, strict=False)
                ]
            )
        )

    here = [
        data.draw(st.permutations([query for kind, query in one if kind == "search"]))
        for one in made
    ]
    # These run one after the other.
    allowed = [[query for kind, query in one if kind == "deliver"] for one in made]
    ends = {
        query: ordered
        for order in (*here, *allowed)
        for ordered in [Ordered(order)]
        for query in order
    }

    def end(query: str) -> str:
        """End in the order that was drawn."""
        return ends[query].end(query)

    tools = [
        sr.Tool.from_function(end, name="search"),
        sr.Tool.from_function(end, name="deliver", needs_approval=True),
        LOCATE,
    ]
    loop = Loop(*replies, DONE, tools=tools, asynchronous=asynchronous)
    policy = sr.LoopPolicy(concurrency=5)
    run = loop.run(loop=policy)
    while run.is_paused:
        given = [
            one.approved()
            if one.needs_approval
            else one.answered(f"result of {json.loads(one.arguments_json)['query']}")
            for one in run.pending
        ]
        run = loop.run(continuation=run, results=data.draw(st.permutations(given)), loop=policy)

    written = [one for turn in run.transcript for one in turn.get("tool_calls") or ()]
    asked = {one["id"]: json.loads(one["function"]["arguments"])["query"] for one in written}
    told = [
        (turn["tool_call_id"], turn["content"]) for turn in run.transcript if turn["role"] == "tool"
    ]
    assert told == [(id_, f"result of {query}") for id_, query in asked.items()]

    assert len(asked) == len(written) == sum(map(len, rounds))
