"""One turn of an agent, step by step: what each step may find and must leave (AGN-036/draft-1).

:class:`AgentPipelineContextValidator` judges a context, :class:`PipelineRunner` takes one down the
line with steps of your own, and :func:`strictreply.run` is the tool loop built on both, with the
steps of ``_turn_steps``.
"""

from __future__ import annotations

from strictreply.pipeline._invoke_result import RULESET, InvokeCode, InvokeError, InvokeResult
from strictreply.pipeline._line import (
    LineResult,
    LineStatus,
    PipelineRunner,
    StepTrace,
    type_of,
)
from strictreply.pipeline._rule import RuleStage
from strictreply.pipeline._sessions import (
    MemorySessionStore,
    SessionClaim,
    SessionStore,
    manifest_id,
    manifest_id_of,
)
from strictreply.pipeline._validator import AgentPipelineContextValidator, list_rules
from strictreply.pipeline._values import (
    AgentContext,
    AgentPipelineContext,
    AgentPipelineContextType,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    BuiltResponse,
    ConversationContext,
    Decision,
    Envelope,
    PipelineStep,
    PromptContent,
    ResponseKind,
    ResponsePayload,
    ResponseType,
    Session,
    ToolCallManifest,
    Turn,
    fingerprint,
)

__all__ = [
    "RULESET",
    "AgentContext",
    "AgentPipelineContext",
    "AgentPipelineContextType",
    "AgentPipelineContextValidator",
    "AgentResponse",
    "AgentToolCall",
    "AgentToolCallResult",
    "BuiltResponse",
    "ConversationContext",
    "Decision",
    "Envelope",
    "InvokeCode",
    "InvokeError",
    "InvokeResult",
    "LineResult",
    "LineStatus",
    "MemorySessionStore",
    "PipelineRunner",
    "PipelineStep",
    "PromptContent",
    "ResponseKind",
    "ResponsePayload",
    "ResponseType",
    "RuleStage",
    "Session",
    "SessionClaim",
    "SessionStore",
    "StepTrace",
    "ToolCallManifest",
    "Turn",
    "fingerprint",
    "list_rules",
    "manifest_id",
    "manifest_id_of",
    "type_of",
]
