"""The support desk of the examples.

It is paused and resumed by other processes, and pays once, only when it was allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import strictreply as sr
from strictreply.pipeline import ResponseKind
from strictreply.testing import LoopbackServer
from support.programs import ran

if TYPE_CHECKING:
    from support_desk import Visit

Told: TypeAlias = "list[tuple[str, Visit | sr.InvokeFailed]]"

pytestmark = pytest.mark.one_lane

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAX_LINES = 220
STORY = [
    "customer: My order 1042 arrived broken. I want my money back.",
    (
        "  process N had tool.unknown corrected; ran find_order, return_policy; "
        'waits for take_photo {"order": 1042}'
    ),
    "the customer's phone: a photo",
    (
        "  process N had args.type corrected; ran nothing; "
        'waits for refund {"order": 1042, "amount": 29.9}'
    ),
    "the clerk: yes",
    (
        "  process N had reply.empty corrected; ran refund; "
        "answers: I have refunded 29.90 EUR for order 1042."
    ),
    "the clerk: yes, once more",
    "  refused: ALREADY_CONSUMED",
    "customer: I do not like my tent, order 1077.",
    (
        "  process N had args.extra_key corrected; ran find_order; "
        'waits for refund {"order": 1077, "amount": 99.0}'
    ),
    "the clerk: no",
    "  process N ran nothing; answers: I am sorry: we cannot refund order 1077, it was used.",
]


@pytest.fixture(scope="module")
def desk() -> Iterator[Any]:
    """The example as a module; the processes that it spawns find it in the same place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield import_module("support_desk")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the desk's processes share."""
    return tmp_path_factory.mktemp("desk")


@pytest.fixture(scope="module")
def outcomes(desk: Any, folder: Path) -> Told:
    """Return the whole story, played once, in this process.

    A visit knows of those before by the file and the JSON alone.
    """
    with LoopbackServer(desk.desk_model(*desk.desk_tools(folder / "refunds.txt"))) as server:
        return list(desk.story(partial(desk.visit, server.base_url, folder)))


@pytest.fixture(scope="module")
def visits(outcomes: Told) -> list[Visit]:
    """The visits that were served, in order."""
    return [outcome for _, outcome in outcomes if not isinstance(outcome, sr.InvokeFailed)]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the program prints, with a process for each visit."""
    status, stdout, stderr = ran(
        EXAMPLES / "support_desk.py", tmp_path_factory.mktemp("anywhere"), timeout=300
    )
    assert (status, stderr) == (0, "")
    return stdout.splitlines()


@pytest.fixture(scope="module")
def processes(printed: list[str]) -> list[str]:
    """The process of each visit, as the program prints them."""
    return [found[1] for line in printed if (found := re.search(r"process (\d+)", line))]


def test_every_visit_is_served_by_another_process(processes: list[str]) -> None:
    """Two customers come by five visits, each in a process of its own: what goes on is restored
    from the file.
    """
    assert len(set(processes)) == len(processes) == 5


def test_the_turn_that_waited_goes_on_in_the_next_process(visits: list[Visit]) -> None:
    """One turn pauses twice, for the client's tool and for an approval, and ends in a third
    process.
    """
    asked, wanted, paid, *_ = visits
    assert {
        (visit.response.session_id, visit.response.turn_id) for visit in (asked, wanted, paid)
    } == {(asked.response.session_id, asked.response.turn_id)}
    kinds = [visit.response.kind for visit in (asked, wanted, paid)]
    assert kinds == [
        ResponseKind.CLIENT_TOOL_CONTINUATION,
        ResponseKind.CLIENT_TOOL_CONTINUATION,
        ResponseKind.FINAL,
    ]

    (photo,) = asked.response.tool_calls or ()
    (refund,) = wanted.response.tool_calls or ()
    assert (photo.name, photo.requires_client_execution, photo.needs_approval) == (
        "take_photo",
        True,
        False,
    )

    assert (refund.name, refund.requires_client_execution, refund.needs_approval) == (
        "refund",
        True,
        True,
    )


def test_tools_run_where_they_belong(visits: list[Visit]) -> None:
    """The desk's tools run in the visit that called them; the client's never run here, the refund
    after approval.
    """
    assert [visit.ran for visit in visits] == [
        ("find_order", "return_policy"),
        (),
        ("refund",),
        ("find_order",),
        (),
    ]


def test_the_refund_is_paid_once_and_by_the_process_that_had_the_approval(
    folder: Path, visits: list[Visit], printed: list[str], processes: list[str]
) -> None:
    """The ledger has one line, written after the clerk's yes; neither the second click nor the
    denied case adds any.
    """
    assert visits[2].ran == ("refund",)
    assert (folder / "refunds.txt").read_text("utf-8").splitlines() == [
        f"{visits[2].pid} 1042 29.90"
    ]
    assert printed[-1] == f"paid (process, order, EUR): {processes[2]} 1042 29.90"


def test_a_second_click_is_refused(outcomes: Told) -> None:
    """The same approval, sent again, is told apart by its code."""
    (refused,) = [outcome for _, outcome in outcomes if isinstance(outcome, sr.InvokeFailed)]
    assert [error.code for error in refused.errors] == ["ALREADY_CONSUMED"]


def test_a_denied_refund_never_runs(visits: list[Visit]) -> None:
    """The model is told that it was not allowed, and the turn ends with an answer."""
    waiting, denied = visits[3:]
    assert [call.name for call in waiting.response.tool_calls or ()] == ["refund"]
    assert (denied.ran, denied.response.kind) == ((), ResponseKind.FINAL)


def test_what_was_malformed_is_corrected(visits: list[Visit]) -> None:
    """Wrong names, types, keys and empty replies come, and none of them ends a visit."""
    assert [visit.refused for visit in visits] == [
        ("tool.unknown",),
        ("args.type",),
        ("reply.empty",),
        ("args.extra_key",),
        (),
    ]


def test_the_program_tells_the_story(printed: list[str]) -> None:
    """Run from anywhere, without a key or a network, it ends well, warns of nothing and prints what
    came of it all.
    """
    assert [re.sub(r"process \d+", "process N", line) for line in printed[:-1]] == STORY


def test_the_example_is_short() -> None:
    """Neither of its files is long."""
    lengths = {
        path.name: len(path.read_text("utf-8").splitlines())
        for path in EXAMPLES.glob("support_desk*.py")
    }
    assert len(lengths) == 2
    assert {name for name, length in lengths.items() if length > MAX_LINES} == set()
