"""What ``run`` does not judge again is right.

Every step of every turn keeps to the rules, whatever the model says.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

import strictreply as sr
from loop.conftest import FullWalk
from strictreply.core import drive
from strictreply.loop import (
    AcceptedReply,
    AskModel,
    MemorySessionStore,
    Progress,
    RunLoop,
    run_flow,
)
from strictreply.loop.invoke_result import InvokeCode, InvokeError
from strictreply.loop.values import (
    AgentContext,
    Envelope,
    PipelineStep,
)
from strictreply.pipeline import PipelineObserver
from strictreply.pipeline._rule import PipelineRule
from support.loop.loops import DONE, Loop, Opened, asking, codes, ids, spy
from support.scripted import USER, Client, call, completion

NOT_IN_A_WALK = {PipelineStep.ACP_COMMAND_HANDLER}


def test_the_walks_are_all_judged(opened: Opened, full_walk: FullWalk) -> None:
    """Parallel calls, a client's, an approval, a denial, a failure and a repeat: every step is
    seen, and is right.
    """
    ran: list[str] = []

    def fails(query: str) -> str:
        raise ValueError(query)

    tools = [
        spy("search", ran),
        spy("book", ran, needs_approval=True),
        sr.Tool.from_function(fails, name="fails"),
        sr.Tool.from_json_schema(
            "locate", {"type": "object", "properties": {"query": {"type": "string"}}}
        ),
    ]
    several = [call(name, {"query": name}, name) for name in ("search", "fails", "locate", "book")]
    denied = asking("other", tool="book")
    loop = opened(
        completion(calls=several), denied, asking("search", x="y"), DONE, DONE, tools=tools
    )
    paused = loop.run()
    assert ids(paused) == ["locate", "book"]

    locate, book = paused.pending
    again = loop.run(continuation=paused, results=[locate.answered("here"), book.approved()])
    done = loop.run(continuation=again, results=[again.pending[0].denied("no")])
    more = loop.run("And now?", after=done)
    assert (more.answer, ran) == ("done", ["search", "book", "search"])

    assert {step for step, _, _ in full_walk.steps} == set(PipelineStep) - NOT_IN_A_WALK
    assert len(full_walk.manifests) >= 3


def test_the_proof_finds_what_is_wrong(opened: Opened, full_walk: FullWalk) -> None:
    """A context that breaks a rule between two steps is reported: the proof is not empty."""
    opened(DONE, tools=[]).run()
    step, before, after = full_walk.steps[2]
    full_walk.steps.insert(3, (step, before, replace(after, session=None)))
    full_walk.steps.insert(4, (step, full_walk.steps[3][2], after))
    assert InvokeCode.SESSION_MISSING in {error.code for error in full_walk.errors}
    full_walk.steps.clear()


@pytest.mark.parametrize("id_", ["\ud800", "call_\udfff"])
def test_an_id_that_cannot_be_encoded_is_refused_before_its_tool_runs(
    opened: Opened, id_: str
) -> None:
    """The judge of replies leaves such an id to the rules of a manifest, which are asked before
    anything is run.
    """
    ran: list[str] = []
    loop = opened(asking("q", q=id_), DONE, tools=[spy("search", ran)])

    with pytest.raises(sr.InvokeFailed) as caught:
        loop.run()

    assert (codes(caught.value), caught.value.step, ran) == (
        [InvokeCode.TOOL_CALL_ID_MISSING],
        "LLM_CLIENT",
        [],
    )


ENVELOPE = Envelope(
    org="o", user="u", instructions="Well?", messages=({"role": "user", "content": "Well?"},)
)


def opened_run(
    client: sr.StrictClient,
    envelope: Envelope,
    agent: str = "a",
    *,
    kind: type[RunLoop] = RunLoop,
    observer: PipelineObserver | None = None,
) -> RunLoop:
    """Open a run of a request."""
    return kind(
        request=envelope,
        contract=client.contract_for(model="m", messages=USER),
        policy=sr.LoopPolicy(),
        agent=AgentContext(id=agent),
        model="m",
        new_id=lambda: "i",
        correlation_id="c",
        time_stamp="t",
        observer=observer,
    )


class Thorough(RunLoop):
    """A run of which only the observer says what is wrong."""

    def errors_behind(self, state: Progress) -> Sequence[InvokeError]:
        """Return what the observer finds."""
        assert self.observer is not None
        return self.observer.after(self, state)


@pytest.mark.parametrize(
    ("changes", "agent", "answer", "codes_told"),
    [
        ({}, "a", "Yes.", []),
        ({"org": " "}, "a", "Yes.", [InvokeCode.CORE_ORG]),
        ({"user": None}, "a", "Yes.", [InvokeCode.CORE_USER]),
        ({"org": "", "instructions": ""}, "a", "Yes.", [InvokeCode.CORE_ORG]),
        ({"instructions": " "}, "a", "Yes.", [InvokeCode.INPUT_MISSING]),
        ({}, " ", "Yes.", [InvokeCode.AGENT_CONTEXT_MISSING]),
        ({}, "a", " ", [InvokeCode.OUTPUT_TEXT_MISSING]),
    ],
)
def test_the_short_way_finds_what_the_thorough_way_finds(
    changes: dict[str, Any],
    agent: str,
    answer: str,
    codes_told: list[InvokeCode],
    full_walk: FullWalk,
) -> None:
    """A request, an agent or an answer that breaks a rule ends a turn with the same codes, however
    often it is judged.

    Judged at every step, a fault may be found a step earlier: before the body that would have
    passed it on.
    """
    client = sr.wrap(Client(), tools=[spy("search", [])])
    envelope = replace(ENVELOPE, **changes)

    def perform(effect: Any) -> Any:
        if isinstance(effect, AskModel):
            return AcceptedReply({"role": "assistant", "content": answer}, sr.DirectAnswer(answer))
        return effect(MemorySessionStore())

    run = opened_run(client, envelope, agent)
    short = drive(run_flow(run), perform)
    run = opened_run(client, envelope, agent, kind=Thorough, observer=PipelineObserver())
    thorough = drive(run_flow(run), perform)
    assert [[error.code for error in end.errors] for end in (short, thorough)] == [codes_told] * 2

    full_walk.steps.clear()  # of the faulty turns


def test_a_turn_that_claimed_nothing_leaves_the_store_alone() -> None:
    """A turn that fails before it has claimed anything has no effect to perform, and so costs no
    access to a store.
    """
    flow = run_flow(opened_run(sr.wrap(Client()), replace(ENVELOPE, org=" ")))
    assert list(flow) == []


def judged(replies: int) -> int:
    """Return how many rules are asked in a run.

    The run's model calls a tool so often, and then answers.
    """
    ran: list[str] = []
    loop = Loop(
        *(asking(str(number)) for number in range(replies)), DONE, tools=[spy("search", ran)]
    )
    asked = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal asked
        asked += event == "call" and frame.f_code is PipelineRule.judge.__code__

    sys.setprofile(count)

    try:
        loop.run()
    finally:
        sys.setprofile(None)

    assert len(ran) == replies
    return asked


def test_a_run_without_an_observer_asks_no_rule() -> None:
    """What comes in from outside is checked by itself; no rule of AGN-036 is asked."""
    assert list(map(judged, (1, 2, 7))) == [0, 0, 0]


def test_a_run_without_an_observer_loads_no_pipeline() -> None:
    """The tool loop knows nothing of the pipeline that may stand over it."""
    script = (
        "import strictreply as sr, sys; sr.run, sr.arun, sr.InvokeFailed, sr.Decision; "
        "print(*(name for name in sys.modules if name.startswith('strictreply.pipeline')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
