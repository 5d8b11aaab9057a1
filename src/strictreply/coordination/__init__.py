"""Many agents, one conversation: who may follow whom, where a run goes next, and when a human is asked."""

from __future__ import annotations

from strictreply.coordination._actions.branches import Branch, BranchType
from strictreply.coordination._actions.kinds import ActionType, AgentInvocation, Origin, Permitted
from strictreply.coordination._actions.permissions import permitted_actions
from strictreply.coordination._actions.terms import ActionTerms
from strictreply.coordination._faults import DeclarationError, StateError
from strictreply.coordination._replies.api_errors import ApiError, ApiErrorClass
from strictreply.coordination._replies.processors import (
    ErrorMessage,
    ErrorMessageProcessor,
    ProcessorChain,
    ResponseProcessor,
    StructuredJSONProcessor,
    TextResponseProcessor,
    ToolCallProcessor,
)
from strictreply.coordination._replies.results import Source, ValidationResult
from strictreply.coordination._runs.counting import apply_update, counted
from strictreply.coordination._runs.cycles import CycleLimit
from strictreply.coordination._runs.human_turn import (
    clear_human_input_request,
    give_human_feedback,
    human_input,
    last_answer,
    pending_requests,
    request_human_input,
)
from strictreply.coordination._runs.ledger import HumanDecision, HumanKind, PendingHuman, SettledHuman, read_answer
from strictreply.coordination._runs.next_node import (
    RouteDecision,
    RouteReason,
    RuleFailure,
    conditional_edge,
    explain_route,
    record_route,
    route_next,
)
from strictreply.coordination._runs.routes import RouteRule, Routes, RouteStrategy, edge_map
from strictreply.coordination._runs.run_metrics import Activity, MetricsSnapshot, RunMetrics, Tally
from strictreply.coordination._runs.states import (
    END,
    HUMAN_INPUT,
    AgentState,
    ChatMessage,
    Ending,
    RoutingEntry,
    create_initial_state,
    increment_loop_count,
    mark_complete,
    reset_loop_count,
    start_run,
    state_from_json,
    state_to_json,
    validate_state,
)
from strictreply.coordination._steering.content_loops import (
    CallModel,
    ContentLoop,
    ContentLoopGuard,
    ContentStreak,
    LikelyCause,
)
from strictreply.coordination._steering.error_policy import ErrorPolicy, Reaction
from strictreply.coordination._steering.retrying import ActionSteering, retry_with_steering
from strictreply.coordination._steering.wording import (
    AgentSteering,
    SteeringContext,
    SteeringMode,
    SteeringStats,
    generate_steering,
)
from strictreply.coordination._topology.graph import END_NODE, USER, Topology
from strictreply.coordination._topology.sources import Edge
from strictreply.coordination.formats import (
    ActionFormat,
    AgentContext,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    SystemPromptBuilder,
    XMLResponseFormat,
    get_format,
    is_format_registered,
    list_formats,
    register_format,
    set_default_format,
)
from strictreply.coordination.routing._cache import RouteCache, RouteKey
from strictreply.coordination.routing._decisions import (
    BranchSpec,
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
)
from strictreply.coordination.routing._prediction import predict_next_route
from strictreply.coordination.routing._recovery import question_of, resume_after_error
from strictreply.coordination.routing._router import Router
from strictreply.coordination.validation._answering import ActionAnswer
from strictreply.coordination.validation._format_lock import with_reply_format
from strictreply.coordination.validation._metrics import (
    ValidationCounts,
    ValidationMetrics,
    ValidationRecord,
    ValidationSnapshot,
)
from strictreply.coordination.validation._processor import Agent, ValidationProcessor

__all__ = [
    "END",
    "END_NODE",
    "HUMAN_INPUT",
    "USER",
    "ActionAnswer",
    "ActionFormat",
    "ActionSteering",
    "ActionTerms",
    "ActionType",
    "Activity",
    "Agent",
    "AgentContext",
    "AgentInvocation",
    "AgentState",
    "AgentSteering",
    "ApiError",
    "ApiErrorClass",
    "BaseResponseFormat",
    "Branch",
    "BranchSpec",
    "BranchType",
    "CallModel",
    "ChatMessage",
    "ContentLoop",
    "ContentLoopGuard",
    "ContentStreak",
    "CoordinationContext",
    "CycleLimit",
    "DeclarationError",
    "Edge",
    "Ending",
    "ErrorMessage",
    "ErrorMessageProcessor",
    "ErrorPolicy",
    "ExecutionStep",
    "HumanDecision",
    "HumanKind",
    "JSONResponseFormat",
    "LikelyCause",
    "MetricsSnapshot",
    "Origin",
    "PendingHuman",
    "Permitted",
    "ProcessorChain",
    "Reaction",
    "ResponseProcessor",
    "RouteCache",
    "RouteDecision",
    "RouteKey",
    "RouteReason",
    "RouteRule",
    "RouteStrategy",
    "Router",
    "Routes",
    "RoutingContext",
    "RoutingDecision",
    "RoutingEntry",
    "RoutingReason",
    "RuleFailure",
    "RunMetrics",
    "SettledHuman",
    "Source",
    "StateError",
    "SteeringContext",
    "SteeringMode",
    "SteeringStats",
    "StepType",
    "StructuredJSONProcessor",
    "SystemPromptBuilder",
    "Tally",
    "TextResponseProcessor",
    "ToolCallProcessor",
    "Topology",
    "ValidationCounts",
    "ValidationMetrics",
    "ValidationProcessor",
    "ValidationRecord",
    "ValidationResult",
    "ValidationSnapshot",
    "XMLResponseFormat",
    "apply_update",
    "clear_human_input_request",
    "conditional_edge",
    "counted",
    "create_initial_state",
    "edge_map",
    "explain_route",
    "generate_steering",
    "get_format",
    "give_human_feedback",
    "human_input",
    "increment_loop_count",
    "is_format_registered",
    "last_answer",
    "list_formats",
    "mark_complete",
    "pending_requests",
    "permitted_actions",
    "predict_next_route",
    "question_of",
    "read_answer",
    "record_route",
    "register_format",
    "request_human_input",
    "reset_loop_count",
    "resume_after_error",
    "retry_with_steering",
    "route_next",
    "set_default_format",
    "start_run",
    "state_from_json",
    "state_to_json",
    "validate_state",
    "with_reply_format",
]
