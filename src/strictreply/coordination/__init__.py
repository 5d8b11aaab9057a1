"""Many agents, one conversation.

Who may follow whom, where a run goes next, and when a human is asked: ``validation`` makes a
verdict of a raw reply (``_processors``, ``_action_rules``, ``_permissions``, ``_topology``),
``routing`` decides what follows (``_decisions``, ``_error_policy``, ``_agent_steering``),
``_run_state`` holds a run.
"""

from __future__ import annotations

from strictreply.coordination._actions import (
    ActionType,
    AgentInvocation,
    Branch,
    BranchType,
    DeclarationError,
    StateError,
    ValidationResult,
)
from strictreply.coordination._agent_steering import (
    ActionSteering,
    AgentSteering,
    generate_steering,
    retry_with_steering,
)
from strictreply.coordination._counting import Activity, RunMetrics, ValidationMetrics, counted
from strictreply.coordination._decisions import (
    BranchSpec,
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    StepType,
)
from strictreply.coordination._error_policy import (
    ContentLoopGuard,
    ContentStreak,
    ErrorPolicy,
    Reaction,
)
from strictreply.coordination._next_node import (
    RouteRule,
    Routes,
    RouteStrategy,
    explain_route,
    route_next,
)
from strictreply.coordination._processors import (
    ErrorMessage,
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
)
from strictreply.coordination._run_parts import HumanKind, PendingHuman
from strictreply.coordination._run_state import (
    END,
    HUMAN_INPUT,
    AgentState,
    clear_human_input_request,
    create_initial_state,
    give_human_feedback,
    human_input,
    increment_loop_count,
    mark_complete,
    request_human_input,
    validate_state,
)
from strictreply.coordination._topology import END_NODE, USER, Topology
from strictreply.coordination.formats import (
    AgentContext,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    SystemPromptBuilder,
    get_format,
    is_format_registered,
    list_formats,
    register_format,
    set_default_format,
)
from strictreply.coordination.routing import Router, predict_next_route
from strictreply.coordination.validation import ValidationProcessor

__all__ = [
    "END",
    "END_NODE",
    "HUMAN_INPUT",
    "USER",
    "ActionSteering",
    "ActionType",
    "Activity",
    "AgentContext",
    "AgentInvocation",
    "AgentState",
    "AgentSteering",
    "BaseResponseFormat",
    "Branch",
    "BranchSpec",
    "BranchType",
    "ContentLoopGuard",
    "ContentStreak",
    "CoordinationContext",
    "DeclarationError",
    "ErrorMessage",
    "ErrorMessageProcessor",
    "ErrorPolicy",
    "ExecutionStep",
    "HumanKind",
    "JSONResponseFormat",
    "PendingHuman",
    "ProcessorChain",
    "Reaction",
    "ResponseProcessor",
    "RouteRule",
    "RouteStrategy",
    "Router",
    "Routes",
    "RoutingContext",
    "RoutingDecision",
    "RunMetrics",
    "StateError",
    "StepType",
    "StructuredJSONProcessor",
    "SystemPromptBuilder",
    "TextResponseProcessor",
    "ToolCallProcessor",
    "Topology",
    "ValidationMetrics",
    "ValidationProcessor",
    "ValidationResult",
    "clear_human_input_request",
    "counted",
    "create_initial_state",
    "explain_route",
    "generate_steering",
    "get_format",
    "give_human_feedback",
    "human_input",
    "increment_loop_count",
    "is_format_registered",
    "list_formats",
    "mark_complete",
    "predict_next_route",
    "register_format",
    "request_human_input",
    "retry_with_steering",
    "route_next",
    "set_default_format",
    "validate_state",
]
