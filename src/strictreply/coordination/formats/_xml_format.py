"""Actions as tagged text: ``<next_action>invoke_agent</next_action><action_input>Worker</action_input>``.

expat reads it inside an element of ours. There XML admits no document type, so no entity can be declared or fetched.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Final, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from strictreply.coordination._actions import AgentReplyCode
from strictreply.coordination._permissions import member_names
from strictreply.coordination._processors import FORMAT_PRIORITY, RankedProcessor, ResponseProcessor, View
from strictreply.coordination.formats._action_formats import ActionFormat
from strictreply.reading._decoding import decode
from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._limits import DEFAULT_LIMITS, JSON, JSONObject, Limits
from strictreply.values._replies import Invalid

_ROOT: Final = "reply"
_OPENING: Final = f"<{_ROOT}>\n"  # a line of its own: lines are counted from behind it
_FIELD_DEPTH: Final = 2
MAX_ELEMENTS: Final = 256  # more elements than any action has members: the rest of a flood is not read


def read_tagged(text: str | bytes, limits: Limits = DEFAULT_LIMITS) -> JSONObject | Invalid:
    """Read ``<name>text</name>`` elements side by side into an object of texts, without white space around them.

    An element with ``type="json"`` holds a JSON value. All else that XML admits is Invalid, as is what breaks a limit.
    """
    written = text if isinstance(text, str) else text.decode("utf-8", "replace")
    if len(written.encode("utf-8", "surrogatepass")) > limits.reply_bytes:
        return Invalid((Issue.of(Code.JSON_TOO_LARGE, limit=limits.reply_bytes),))
    fields = _Fields()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = fields.opened
    parser.EndElementHandler = fields.closed
    parser.CharacterDataHandler = fields.text
    parser.ProcessingInstructionHandler = parser.CommentHandler = _refuse_aside
    try:
        parser.Parse(f"{_OPENING}{written}</{_ROOT}>".encode(), True)
    except _Refused as refusal:
        expected, *found = refusal.args
        return Invalid((AgentReplyCode.FORMAT_MALFORMED.at("", expected=expected, found="".join(found)),))
    except UnicodeEncodeError:
        return Invalid((Issue.of(Code.JSON_SURROGATE),))
    except expat.ExpatError as error:  # lines count from 1 in the reply
        line, column = error.lineno - 1, error.offset + 1
        return Invalid((AgentReplyCode.FORMAT_SYNTAX.at("", name="XML", line=line, column=column),))
    value: JSONObject = {**fields.texts}
    issues: list[Issue] = []
    names = member_names()
    for name in fields.in_json:
        at = pointer("", name if name in names else "*")
        decoded = decode(fields.texts[name], limits, at=at, names=names)
        if isinstance(decoded, Invalid):
            issues += decoded.issues
        else:
            value[name] = decoded
    return Invalid(tuple(issues)) if issues else value


class _Refused(Exception):
    """XML that a reply may not use: what was expected, and what came; it ends the parsing."""


class _Fields:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.in_json: list[str] = []
        self._depth, self._name, self._parts = 0, "", list[str]()

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            return
        if self._depth > _FIELD_DEPTH:
            raise _Refused('elements side by side; write lists and objects as JSON in an element with type="json"')
        if len(self.texts) == MAX_ELEMENTS:
            raise _Refused(f"at most {MAX_ELEMENTS} elements")
        if name in self.texts:
            raise _Refused("each element once", quote(name))
        if attributes and attributes != {"type": "json"}:
            raise _Refused('elements with no attribute but type="json"', quote(name))
        if attributes:
            self.in_json.append(name)
        self._name, self._parts = name, []

    def closed(self, name: str) -> None:
        if self._depth == _FIELD_DEPTH:
            self.texts[name] = "".join(self._parts).strip()
            self._name = ""
        self._depth -= 1

    def text(self, data: str) -> None:
        if self._name:
            self._parts.append(data)
        elif data.strip():
            raise _Refused("elements alone, no text around them", quote(data))


def _refuse_aside(*_parts: object) -> NoReturn:
    raise _Refused("elements alone: no processing instruction, no comment")


class XMLProcessor(RankedProcessor):
    """Reads elements side by side, among them ``next_action``."""

    rank = FORMAT_PRIORITY
    views: ClassVar[tuple[View, ...]] = ("text",)
    format_name = "xml"

    def can_process(self, response: Any) -> bool:
        """Take every text: where it is not tagged, that is the fault to report."""
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
        """Return how every reply is written."""
        return (
            "Reply with XML elements and nothing else: no prose, no code fence, no other elements, nothing nested. "
            "There is one element <next_action>, one for each member of that action, and if you like <thought>. "
            'A list or an object is written as JSON in its element, which then has the attribute type="json". '
            "Write &lt; for < and &amp; for & in texts."
        )

    def reminder(self) -> str:
        """Return which elements there are (requirement M65)."""
        details = "<next_action> names the action, <action_input> or the action's other elements hold its details."
        return f"Please reply in XML only, nothing around it: {details}"

    def create_processor(self) -> ResponseProcessor:
        """Make the processor that reads tagged text."""
        return XMLProcessor()


# text that XML 1.0 can hold and returns unchanged (section 2.2, and 2.11 on line ends)
_PLAIN: Final = re.compile("[\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def _element(name: str, value: JSON) -> str:
    if isinstance(value, str) and value == value.strip() and _PLAIN.fullmatch(value):
        return f"<{name}>{escape(value)}</{name}>"
    return f'<{name} type="json">{escape(json.dumps(value))}</{name}>'
