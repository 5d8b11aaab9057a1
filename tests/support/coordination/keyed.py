"""A third format, as an application may add one: an action's members stand under its name."""

from __future__ import annotations

import json
from typing import Any

from strictreply.coordination.formats import ActionFormat, ResponseProcessor


class KeyedProcessor(ResponseProcessor):
    """Reads an object with one key, the name of an action."""

    views = ("value",)
    format_name = "keyed"

    def can_process(self, response: Any) -> bool:
        """Return whether it is such an object; a member may not have another name."""
        return len(response) == 1 and all(
            "next_action" not in members for members in response.values()
        )

    def process(self, response: Any) -> dict[str, Any]:
        """Put the name among the members."""
        ((name, members),) = response.items()
        return {"next_action": name, **members}

    def priority(self) -> int:
        """Rank as formats do."""
        return 80


class KeyedFormat(ActionFormat):
    """An action format that writes the name of the action as the key of its members."""

    name = "keyed"

    def spell(self, action: dict[str, Any]) -> str:
        """Write an action."""
        return json.dumps(
            {action["next_action"]: {k: v for k, v in action.items() if k != "next_action"}}
        )

    def rule(self) -> str:
        """Return how an action is written."""
        return "Reply with one JSON object: the name of the action, and under it its members."

    def create_processor(self) -> ResponseProcessor:
        """Make the processor that reads it."""
        return KeyedProcessor()
