"""DEBUG tells everything, raw replies through a redaction only; INFO tells nothing of a reply."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest

from strictreply import Attempt
from strictreply.coordination import ActionType, Branch, RoutingContext
from strictreply.coordination.metrics import VerdictWatch
from strictreply.coordination.routing import Router
from support.coordination.hostile import Raising
from support.coordination.routed import TEAM, decide, valid, verdict

RAW = {"next_action": "invoke_agent", "action_input": "SECRET-agent"}

pytestmark = pytest.mark.req("M115")


def tell(level: int, caplog: pytest.LogCaptureFixture, redact: bool = True) -> str:
    """Judge, route and log a bad reply at a level; give what was logged."""
    result = verdict(RAW)
    with caplog.at_level(level, logger="strictreply"):
        VerdictWatch(redact=(lambda text: text) if redact else None).judged(
            "Coordinator", result, RAW
        )
        asyncio.run(
            Router(TEAM).route(result, Branch(), RoutingContext(current_agent="Coordinator"))
        )
    return caplog.text


def test_debug_tells_all_four(caplog: pytest.LogCaptureFixture) -> None:
    """Raw reply, verdict, decision and the place of the fault are in the log."""
    told = tell(logging.DEBUG, caplog)
    for part in (
        "SECRET-agent",
        "topology.not_allowed",
        "/action_input",
        "retry_with_steering 'Coordinator'",
    ):
        assert part in told


def test_info_tells_nothing_of_a_reply(caplog: pytest.LogCaptureFixture) -> None:
    """At INFO there is no raw text, and no line at all."""
    assert tell(logging.INFO, caplog) == ""


def test_raw_replies_go_through_the_redaction(caplog: pytest.LogCaptureFixture) -> None:
    """Without a redaction no raw reply is logged; with one, what it gives."""
    assert "SECRET" not in tell(logging.DEBUG, caplog, redact=False)
    with caplog.at_level(logging.DEBUG, logger="strictreply"):
        VerdictWatch(redact=lambda text: text.replace("SECRET", "***")).judged(
            "A", verdict(RAW), RAW
        )
    assert "***-agent" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_raw_reply_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Any reply is logged as one line of JSON: it cannot forge a line of its own."""
    with caplog.at_level(logging.DEBUG, logger="strictreply"):
        for raw in ("a\nERROR forged", object(), None, {"deep": {1, 2}}, Raising()):
            VerdictWatch(redact=lambda text: text).judged("A", verdict("prose"), raw)
    assert caplog.records[-1].getMessage().endswith('"<Raising>"')
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_the_attempts_of_a_client_s_loop_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Each judged attempt is a line, a failed call none; the raw reply is the client's to log."""
    issue = verdict(RAW).issues
    watch = VerdictWatch(redact=lambda text: text)

    with caplog.at_level(logging.DEBUG, logger="strictreply"):
        watch.attempted("A", Attempt(1, {}, {"x": "SECRET"}, issue), None)
        watch.attempted("A", Attempt(2, {}, failure="gone"), None)
        watch.attempted("A", Attempt(3, {}, {"x": "SECRET"}), ActionType.FINAL_RESPONSE)

    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "reply of 'A': invalid (topology.not_allowed at /action_input)",
        "reply of 'A': final_response",
    ]


def test_steps_branches_and_ends_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """A decision is told by its reason, and by its steps, its branches or why it ends."""
    with caplog.at_level(logging.DEBUG, logger="strictreply"):
        decide(valid(ActionType.PARALLEL_INVOKE, "Worker1", "Worker2"))
        decide(valid(ActionType.INVOKE_AGENT, "Nobody"))
    assert "branch 'Worker1', branch 'Worker2'" in caplog.text
    assert "route of 'Coordinator': not_allowed: Coordinator: " in caplog.text


def test_no_handler_is_installed() -> None:
    """Importing the package sets no logging up: no handler on the root's logger or on ours."""
    script = (
        "import logging, strictreply.coordination.routing;"
        "import strictreply.coordination.steering;"
        "assert not logging.getLogger().handlers;"
        "assert not logging.getLogger('strictreply').handlers"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
