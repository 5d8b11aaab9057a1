"""Actions as tagged text: ``<next_action>invoke_agent</next_action><action_input>Worker</action_input>``."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from xml.sax.saxutils import escape

from strictreply.coordination._replies.processors import FORMAT_PRIORITY, RankedProcessor, ResponseProcessor
from strictreply.coordination.formats._interface import ActionFormat
from strictreply.coordination.formats._xml_reading import read_tagged
from strictreply.values._json import JSON, JSONObject
from strictreply.values._replies import Invalid

_PLAIN: Final = re.compile("[\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
"""Text that XML 1.0 can hold and gives back unchanged (section 2.2, and 2.11 on line ends)."""


class XMLProcessor(RankedProcessor):
    """Reads elements side by side, among them ``next_action``."""

    rank = FORMAT_PRIORITY
    views = ("text",)
    format_name = "xml"

    def can_process(self, response: Any) -> bool:
        """Take every text: that it is not tagged is what must be said."""
        return isinstance(response, str | bytes)

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Read the elements."""
        return read_tagged(response)


class XMLResponseFormat(ActionFormat):
    """One element for each member of an action; lists and objects stand in their element as JSON."""

    name = "xml"

    def spell(self, action: JSONObject) -> str:
        """Write an action on one line, unless a text of its has several."""
        return "".join(_element(name, value) for name, value in action.items())

    def rule(self) -> str:
        """Say how every reply is written."""
        return (
            "Reply with XML elements and nothing else: no prose, no code fence, no other elements, nothing nested. "
            "There is one element <next_action>, one for each member of that action, and if you like <thought>. "
            'A list or an object is written as JSON in its element, which then has the attribute type="json". '
            "Write &lt; for < and &amp; for & in texts."
        )

    def reminder(self) -> str:
        """Say which elements there are (requirement M65)."""
        return (
            "Please reply in XML alone, nothing around it: <next_action> names the action, "
            "<action_input> or the action's other elements say what it needs."
        )

    def create_processor(self) -> ResponseProcessor:
        """Make the processor that reads tagged text."""
        return XMLProcessor()


def _element(name: str, value: JSON) -> str:
    """Write one member: text where it comes back as it was, JSON otherwise."""
    if isinstance(value, str) and value == value.strip() and _PLAIN.fullmatch(value):
        return f"<{name}>{escape(value)}</{name}>"
    return f'<{name} type="json">{escape(json.dumps(value))}</{name}>'
