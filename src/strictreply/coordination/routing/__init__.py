"""From a verdict to what follows: the router, its decisions, and what it may be asked beside."""

from __future__ import annotations

from strictreply.coordination.routing._decisions import (
    BranchSpec,
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    StepType,
)
from strictreply.coordination.routing._router import Router

__all__ = ["BranchSpec", "ExecutionStep", "Router", "RoutingContext", "RoutingDecision", "StepType"]
