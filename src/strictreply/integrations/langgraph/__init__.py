"""Runs of coordinated agents on LangGraph (1.0 or newer; ``pip install 'strictreply[langgraph]'``).

:func:`to_langgraph` makes a ``StateGraph`` from a topology. Each agent calls its model through a
wrapped client, :mod:`strictreply.coordination` judges and routes its replies, and LangGraph
executes the graph, and stores and resumes its state.
"""

from __future__ import annotations

from strictreply.integrations.langgraph._graph_approvals import approvals_in
from strictreply.integrations.langgraph._graph_settings import ChatAgent
from strictreply.integrations.langgraph._graph_state import RunState, node_of
from strictreply.integrations.langgraph._graph_tools import executable_calls
from strictreply.integrations.langgraph._run_beginning import active_agent, begin
from strictreply.integrations.langgraph._run_outcomes import RunStatus, outcome_of, outcomes_of
from strictreply.integrations.langgraph._state_graph import StateKeywords, to_langgraph

__all__ = [
    "ChatAgent",
    "RunState",
    "RunStatus",
    "StateKeywords",
    "active_agent",
    "approvals_in",
    "begin",
    "executable_calls",
    "node_of",
    "outcome_of",
    "outcomes_of",
    "to_langgraph",
]
