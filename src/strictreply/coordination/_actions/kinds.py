"""The actions an agent's reply may ask for, and where one came from; what each must hold stands with the formats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from strictreply.values._json import JSON


class ActionType(StrEnum):
    """What to do next; the values are the words of ``next_action`` (requirements M16 to M24)."""

    INVOKE_AGENT = "invoke_agent"
    PARALLEL_INVOKE = "parallel_invoke"
    CALL_TOOL = "call_tool"
    FINAL_RESPONSE = "final_response"
    END_CONVERSATION = "end_conversation"
    WAIT_AND_AGGREGATE = "wait_and_aggregate"
    ERROR_RECOVERY = "error_recovery"
    TERMINAL_ERROR = "terminal_error"
    AUTO_RETRY = "auto_retry"  # the system's own
    TERMINATE_WORKFLOW = "terminate_workflow"
    ASK_USER = "ask_user"


class Origin(StrEnum):
    """Who asked for an action: only the system's own need no permission (requirement X8)."""

    MODEL = "model"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class AgentInvocation:
    """One agent to hand over to, with its request, None when there is none.

    ``instance_id`` tells several invocations of the same agent apart (requirement M32).
    """

    agent_name: str
    request: JSON = None
    instance_id: str = ""


@dataclass(frozen=True, slots=True)
class Permitted:
    """What one agent may do at one moment: names only, so that it can be told, logged and kept.

    ``actions`` are in the order of :class:`ActionType`, ``agents`` are those it may hand over to, ``tools`` those it
    may call. :func:`strictreply.coordination.permitted_actions` works it out.
    """

    agent: str
    actions: tuple[ActionType, ...] = ()
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
