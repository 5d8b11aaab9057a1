"""The closed sets of the pipeline: request types, steps, outcomes and kinds of response."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class AgentPipelineContextType(StrEnum):
    """What a request is, told by the ids and results that it brings (AGN-036 section 3.1, requirement P26)."""

    INITIAL = "Initial"
    FOLLOW_ON = "FollowOn"
    CLIENT_TOOL_CALL_CONTINUATION = "ClientToolCallContinuation"


class PipelineStep(IntEnum):
    """The steps of the line; the numbers are stable (requirement P42).

    Those that end in 0 stand in AGN-036 sections 4.1 to 4.10; 35 restores a session for a continuation (X14), 65 is
    known and has no rules. The last three are other names that its sister documents have for two of them (X16).
    """

    REQUEST_HANDLER = 10
    SESSION_RESTORER = 20
    AGENT_CONTEXT_RESOLVER = 30
    CLIENT_TOOL_CALL_SESSION_RESTORER = 35
    CLIENT_TOOL_CONTINUATION_RESOLVER = 40
    AGENT_SESSION_CREATOR = 50
    AGENT_CONTEXT_LOADER = 60
    ACP_COMMAND_HANDLER = 65
    PROMPT_CONTENT_PROVIDER_INITIALIZER = 70
    REASONER = 80
    LLM_CLIENT = 90
    RESPONSE_BUILDER = 100

    SESSION_CONTEXT_RESOLVER = AGENT_CONTEXT_RESOLVER
    CONTEXT_PROVIDER_INITIALIZER = PROMPT_CONTENT_PROVIDER_INITIALIZER
    PROMPT_KNOWLEDGE_PROVIDER_INITIALIZER = PROMPT_CONTENT_PROVIDER_INITIALIZER


class ResponseType(StrEnum):
    """What the model's last reply leads to: the outcome, not the request's type (X18)."""

    NOT_READY = "NotReady"
    FINAL = "Final"
    TOOL_CONTINUATION = "ToolContinuation"
    SERVER_TOOLS = "ServerTools"
    """Calls that are run here, between two asks of one turn; never what a response is built from (X13)."""


class ResponseKind(StrEnum):
    """The closed kinds of a response (AGN-033, requirement P45)."""

    FINAL = "final"
    CLIENT_TOOL_CONTINUATION = "client_tool_continuation"
