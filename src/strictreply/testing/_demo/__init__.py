"""A model to try things on: it knows a shop's questions and gets its replies wrong in known ways.

``LoopbackServer(UnreliableModel(SCENARIO))`` of :mod:`strictreply.testing` is the whole demo server.
"""

from __future__ import annotations

from strictreply.testing._demo.faults import SHARES, Fault
from strictreply.testing._demo.scenario import SCENARIO, OrderSummary, Question, RightCall, Scenario
from strictreply.testing._demo.unreliable import UnreliableModel

__all__ = [
    "SCENARIO",
    "SHARES",
    "Fault",
    "OrderSummary",
    "Question",
    "RightCall",
    "Scenario",
    "UnreliableModel",
]
