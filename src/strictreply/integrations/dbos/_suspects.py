"""Finds the run that kills its workers: a run that was in hand when a process died is a suspect, and is tried alone.

A process works on several runs, and when it dies nothing says which of them was the cause. So a suspect begins only
when no other suspect of its process is on trial, and its next death is counted before it begins: only the one on trial
is blamed. A recorded step ends the trial and the count. A run whose workers die on too many trials in a row, with
nothing recorded, is given up, and no other run with it.

The count stands in the attributes of the turn: ``drops``, and how many steps were ``recorded`` when it was counted.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeVar

from strictreply.integrations._extras import load
from strictreply.integrations.dbos._durable_records import DurableFailure, DurableRunFailed
from strictreply.values._limits import JSONObject

MAX_DROPS: Final = 5
"""A run is given up when so many workers died of it, one after the other, and it got no step further."""

_TRIAL_SECONDS: Final = 60.0
_TRIAL_GROWTH: Final = 4
_GATHER_SECONDS: Final = 0.1

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A suspect's place in the queue: who has died less often is tried first, then who came first."""

    deaths: int
    number: int
    came: float = field(compare=False)


class Trials:
    """Lets one suspect at a time begin; safe for threads.

    A trial keeps others out for a minute, and four times as long after each of its deaths: a tool that hangs does not
    hold up its neighbours for ever, and one that kills slowly is alone at last. ``clock`` gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._numbers = count()
        self._waiting: set[Ticket] = set()
        self.counted: dict[str, JSONObject] = {}
        """What the count of each turn on trial was before, by the id of its workflow."""
        self._holder: Ticket | None = None
        self._until = 0.0

    def enter(self, deaths: int) -> Ticket:
        """Wait until a suspect that died so often may begin."""
        with self._changed:
            ticket = Ticket(deaths, next(self._numbers), self._clock())
            self._waiting.add(ticket)
            self._changed.notify_all()
            while (patience := self._patience(ticket)) > 0:
                self._changed.wait(patience)
            self._waiting.remove(ticket)
            self._holder, self._until = ticket, self._clock() + _TRIAL_SECONDS * _TRIAL_GROWTH**deaths
            return ticket

    def leave(self, ticket: Ticket | None = None) -> None:
        """End a trial, None for whichever there is; nothing is done when it had kept others out for too long."""
        with self._changed:
            if ticket in {None, self._holder}:
                self._holder = None
            self._changed.notify_all()

    def _patience(self, ticket: Ticket) -> float:
        now = self._clock()
        held = self._until - now if self._holder is not None else 0.0
        # Who has died waits a moment for those who have died less: workers take up all runs of a dead one at once.
        gathering = ticket.came + _GATHER_SECONDS - now if ticket.deaths else 0.0
        behind = _TRIAL_SECONDS if min(self._waiting) != ticket else 0.0
        return min(max(held, gathering, behind), threading.TIMEOUT_MAX)


TRIALS: Final = Trials()
"""The trials of this process, for all kinds of runs that it works on: they die together."""


@dataclass(slots=True)
class TurnTrial:
    """One dispatch of a turn: on trial if it is a suspect's, until a step of it was done that had no record.

    ``workflow_id`` names the turn; ``trials`` are those of the process.
    """

    workflow_id: str
    trials: Trials = TRIALS
    _ticket: Ticket | None = None
    _stepped: bool = False
    _is_over: bool = False

    def begin(self) -> None:
        """Wait for the trial of a suspect, and count its death beforehand; anything else begins at once.

        Raises DurableRunFailed (RunGivenUp) when it has died too often, and DBOS's conflict when it was handed on to
        somebody else meanwhile.
        """
        status = self._status()
        # DBOS counts dispatches, and a run that was taken over has the attribute: all others are no suspects.
        if status.recovery_attempts <= 1 and "drops" not in (status.attributes or {}):
            return
        recorded = len(_outside(load("dbos").DBOS.list_workflow_steps, self.workflow_id, load_output=False))
        counted: JSONObject = status.attributes or {}
        drops = int(counted.get("drops", 0)) if counted.get("recorded", 0) == recorded else 0  # since its last step
        if drops + 1 >= MAX_DROPS:  # the first death is none of a trial
            message = f"{MAX_DROPS} worker processes in a row died while executing it; retry() tries it again"
            raise DurableRunFailed(DurableFailure.ended("RunGivenUp", message))
        self._ticket = self.trials.enter(drops)
        # While this one waited, its turn may have been stopped, or taken over by another worker.
        if self._is_over or self._status().recovery_attempts != status.recovery_attempts:
            self.end()
            raise load("dbos").error.DBOSWorkflowConflictIDError(self.workflow_id)
        self.trials.counted[self.workflow_id] = {"drops": drops, "recorded": recorded}
        death = {"drops": drops + 1, "recorded": recorded}
        _outside(load("dbos").DBOS.update_workflow_attributes, self.workflow_id, death, merge=True)

    def step(self) -> None:
        """Note that a step is done which had no record."""
        self._stepped = True

    def settle(self) -> None:
        """End the trial if a step was done: it is recorded now."""
        if self._stepped:
            self.end()

    def end(self) -> None:
        """End the trial, whatever came of it; one that is still waited for ends as soon as it begins."""
        self._is_over = True
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self.trials.counted.pop(self.workflow_id, None)
            self.trials.leave(ticket)

    def _status(self) -> Any:
        (status,) = _outside(
            load("dbos").DBOS.list_workflows, workflow_ids=[self.workflow_id], load_input=False, load_output=False
        )
        return status


def forgive() -> None:
    """Take back the counts of the trials in this process, which is about to stop regularly: that is no death."""
    with suppress(Exception):  # without a database the count stays, and the process stops all the same
        for workflow_id, counted in list(TRIALS.counted.items()):
            load("dbos").DBOS.update_workflow_attributes(workflow_id, counted, merge=True)


def _outside(call: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """Call DBOS as if from outside of a workflow: inside it would record the call as a step."""
    return contextvars.Context().run(call, *args, **options)
