"""One turn of an agent, step by step: what each step may find and must leave behind (AGN-036/draft-1).

:class:`AgentPipelineContextValidator` judges a context, :class:`PipelineRunner` takes one down the line with steps of
your own, and :func:`strictreply.run` is the tool loop that stands on both.
"""

from __future__ import annotations

from strictreply.pipeline._fingerprint import canonical, fingerprint
from strictreply.pipeline._kinds import AgentPipelineContextType, PipelineStep, ResponseKind, ResponseType
from strictreply.pipeline._line import Invoke, LineResult, LineStatus, StepBody, StepTrace, line_flow
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._published import pipeline_schemas
from strictreply.pipeline._reconciling import Approval, approval_of, reconcile
from strictreply.pipeline._results import (
    RULESET,
    InvokeCode,
    InvokeError,
    InvokeFailed,
    InvokeResult,
    IterationsExceeded,
)
from strictreply.pipeline._rules import Rule, Stage, StepRules, list_rules, list_steps
from strictreply.pipeline._runner import PipelineRunner
from strictreply.pipeline._sessions import (
    Claim,
    MemorySessionStore,
    SessionConflict,
    SessionStore,
    SessionStoreFailed,
    manifest_id,
    manifest_id_of,
)
from strictreply.pipeline._validator import AgentPipelineContextValidator
from strictreply.pipeline._values import (
    AgentContext,
    AgentPipelineContext,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    BuiltResponse,
    ConversationContext,
    Decision,
    Envelope,
    PromptContent,
    ResponsePayload,
    Session,
    ToolCallManifest,
    Turn,
    Value,
)
from strictreply.pipeline._walks import first_step, next_step, steps_of, type_of

__all__ = [
    "RULESET",
    "AgentContext",
    "AgentPipelineContext",
    "AgentPipelineContextType",
    "AgentPipelineContextValidator",
    "AgentResponse",
    "AgentToolCall",
    "AgentToolCallResult",
    "Approval",
    "BuiltResponse",
    "Claim",
    "ConversationContext",
    "Decision",
    "Envelope",
    "Invoke",
    "InvokeCode",
    "InvokeError",
    "InvokeFailed",
    "InvokeResult",
    "IterationsExceeded",
    "LineResult",
    "LineStatus",
    "LoopPolicy",
    "MemorySessionStore",
    "PipelineRunner",
    "PipelineStep",
    "PromptContent",
    "ResponseKind",
    "ResponsePayload",
    "ResponseType",
    "Rule",
    "Session",
    "SessionConflict",
    "SessionStore",
    "SessionStoreFailed",
    "Stage",
    "StepBody",
    "StepRules",
    "StepTrace",
    "ToolCallManifest",
    "Turn",
    "Value",
    "approval_of",
    "canonical",
    "fingerprint",
    "first_step",
    "line_flow",
    "list_rules",
    "list_steps",
    "manifest_id",
    "manifest_id_of",
    "next_step",
    "pipeline_schemas",
    "reconcile",
    "steps_of",
    "type_of",
]
