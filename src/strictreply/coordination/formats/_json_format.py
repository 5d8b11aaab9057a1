"""Actions as JSON objects: the default format."""

from __future__ import annotations

from strictreply.contract._describing import compact
from strictreply.coordination._replies.processors import ResponseProcessor, StructuredJSONProcessor
from strictreply.coordination.formats._interface import ActionFormat
from strictreply.values._json import JSONObject


class JSONResponseFormat(ActionFormat):
    """One JSON object with ``next_action`` and the members of that action."""

    name = "json"

    def spell(self, action: JSONObject) -> str:
        """Write an action as compact JSON."""
        return compact(action)

    def rule(self) -> str:
        """Say how every reply is written."""
        return (
            "Reply with exactly one JSON object and nothing else: no prose, no code fence, no other members. It has "
            'the member "next_action", the members of that action, and if you like "thought", a text.'
        )

    def reminder(self) -> str:
        """Say which members there are (requirement M65)."""
        return (
            "Please reply in JSON alone, nothing around it: next_action names the action, "
            "action_input or the action's other members say what it needs."
        )

    def create_processor(self) -> ResponseProcessor:
        """Make the processor that reads JSON objects with ``next_action``."""
        return StructuredJSONProcessor()
