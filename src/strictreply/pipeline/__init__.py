"""One turn of an agent, step by step: the state before and after each step (AGN-036/draft-1).

:class:`AgentPipelineContextValidator` validates a context. :class:`PipelineRunner` runs a request
through steps of your own. :class:`PipelineObserver` applies the same rules to the steps of
:func:`strictreply.run`.
"""

from __future__ import annotations

from strictreply.loop import MemorySessionStore, SessionClaim, SessionStore, manifest_id, type_of
from strictreply.loop.invoke_result import RULESET, InvokeCode, InvokeError, InvokeResult
from strictreply.loop.values import (
    AgentContext,
    AgentPipelineContextType,
    AgentResponse,
    AgentToolCall,
    AgentToolCallResult,
    Decision,
    Envelope,
    LineStatus,
    PipelineStep,
    ResponseKind,
    Session,
    StepTrace,
    ToolCallManifest,
    Turn,
)
from strictreply.pipeline._line import LineResult, PipelineRunner, manifest_id_of
from strictreply.pipeline._rule import RuleStage
from strictreply.pipeline._run_observer import PipelineObserver
from strictreply.pipeline._validator import AgentPipelineContextValidator, list_rules
from strictreply.pipeline._values import (
    AgentPipelineContext,
    BuiltResponse,
    ConversationContext,
    PromptContent,
    ResponsePayload,
    ResponseType,
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
    "PipelineObserver",
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
