"""A server to try things on: OpenAI-compatible, on loopback, with a model that is unreliable in known ways.

``DemoServer(UnreliableModel(SCENARIO))`` is the whole of it; any function of a request can stand in for the model.
"""

from __future__ import annotations

from strictreply.demo.faults import SHARES, Fault
from strictreply.demo.scenario import SCENARIO, OrderSummary, Question, RightCall, Scenario
from strictreply.demo.server import DemoServer
from strictreply.demo.unreliable import UnreliableModel
from strictreply.demo.wire import HTTPReply, Responder, error_reply

__all__ = [
    "SCENARIO",
    "SHARES",
    "DemoServer",
    "Fault",
    "HTTPReply",
    "OrderSummary",
    "Question",
    "Responder",
    "RightCall",
    "Scenario",
    "UnreliableModel",
    "error_reply",
]
