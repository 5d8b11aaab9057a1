"""The verdict on one reply: valid for this agent at this moment, or what is wrong with it."""

from __future__ import annotations

from strictreply.coordination._actions.kinds import ActionType
from strictreply.coordination._replies.processors import ProcessorChain
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination.validation._processor import ValidationProcessor

__all__ = ["ActionType", "ProcessorChain", "ValidationProcessor", "ValidationResult"]
