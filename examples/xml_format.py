"""Let agents write their actions in a format of your own: here XML.

A format spells an action, gives the rule for the prompt, and makes the
processor that reads a reply. The library does the rest: prompts, permissions,
verdicts and corrections.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import strictreply as sr
from strictreply.coordination import AgentReplyCode, Topology
from strictreply.coordination.formats import (
    ActionFormat,
    ResponseProcessor,
    register_format,
)
from strictreply.coordination.validation import ValidationProcessor
from strictreply.testing import ScriptedModel, ok

RULE = (
    "Reply with XML elements and nothing else: no prose, no code fence, "
    "nothing nested. The element <next_action> names the action; "
    "<action_input> or the action's other elements hold its details. "
    "A list or an object is written as JSON in its element, "
    'which then has the attribute type="json".'
)
# reads the JSON in an element
STRICT_JSON = sr.Contract(
    answer={
        "type": ["array", "boolean", "null", "number", "object", "string"]
    }
)


def malformed(expected: str) -> sr.Invalid:
    """Report a reply that is not in the format, without quoting it."""
    code = AgentReplyCode.FORMAT_MALFORMED
    return sr.Invalid((code.at("", expected=expected),))


class XMLProcessor(ResponseProcessor):
    """Reads a flat list of elements, one of them ``next_action``."""

    views = ("text",)
    format_name = "xml"

    def can_process(self, response: Any) -> bool:
        """Accept any text: a text that is not XML is reported as a fault."""
        return isinstance(response, str | bytes)

    def process(self, response: Any) -> dict[str, Any] | sr.Invalid:
        """Read each element as text, or as JSON if it has type="json"."""
        is_text = isinstance(response, str)
        text = response if is_text else response.decode("utf-8", "replace")
        if len(text) > sr.Limits().reply_bytes:
            return malformed("shorter")

        asides = ET.TreeBuilder(insert_comments=True, insert_pis=True)
        try:
            # no DOCTYPE is allowed inside an element: nothing is expanded
            parser = ET.XMLParser(target=asides)
            root = ET.fromstring(f"<reply>{text}</reply>", parser)
        except ET.ParseError as error:
            return malformed(
                f"well-formed XML (see line {error.position[0]})"
            )
        except UnicodeEncodeError:
            return malformed("a text without unpaired surrogates")

        action: dict[str, Any] = {}
        around = [root.text, *(element.tail for element in root)]
        if any(part and not part.isspace() for part in around):
            return malformed("elements alone, with no text around them")

        for element in root:
            name = element.tag
            # the tag of a comment is a function
            if callable(name) or len(element) or name in action:
                return malformed("elements side by side, each of them once")

            action[name] = (element.text or "").strip()
            if not element.attrib:
                continue
            if element.attrib != {"type": "json"}:
                return malformed('elements with no attribute but type="json"')

            content = {"role": "assistant", "content": action[name]}
            match STRICT_JSON.check(content):
                case sr.Valid(reply):
                    action[name] = reply.to_dict()["answer"]
                case sr.Invalid(issues):
                    here = (replace(issue, path="") for issue in issues)
                    return sr.Invalid(tuple(here))

        return action

    def priority(self) -> int:
        """Run after the processor of native tool calls (90), as JSON does."""
        return 80


class XMLResponseFormat(ActionFormat):
    """One element for each member of an action."""

    name = "xml"

    def spell(self, action: dict[str, Any]) -> str:
        """Write an action on one line."""
        return "".join(map(spelled, action, action.values()))

    def rule(self) -> str:
        """Return the rule for every reply."""
        return RULE

    def create_processor(self) -> ResponseProcessor:
        """Return the processor for this format."""
        return XMLProcessor()


def spelled(name: str, value: object) -> str:
    """Write an element, as JSON if XML might change the value."""
    text = value if isinstance(value, str) else "\n"
    if text.isprintable() and text == text.strip():
        return f"<{name}>{escape(text)}</{name}>"
    return f'<{name} type="json">{escape(json.dumps(value))}</{name}>'


def main() -> None:
    """Validate replies in XML, and correct one with a wrapped client."""
    register_format("xml", XMLResponseFormat)
    team = Topology.of(
        {"planner": ["writer"], "writer": ["planner", "User"]},
        entry="planner",
    )
    processor = ValidationProcessor(team, "xml")

    action = {"next_action": "invoke_agent", "action_input": "writer"}
    reply = XMLResponseFormat().spell(action)
    print(reply)
    print("hands over to:", processor.validate(reply, "planner").next_agents)
    for wrong in (reply.replace("writer", "nobody"), reply[:-1], "writer!"):
        print("rejected:", processor.validate(wrong, "planner").code)

    model = ScriptedModel(
        ok.answer("The writer should go on."), ok.answer(reply)
    )
    contract = sr.Contract(answer=processor.answer_kind("planner"))
    with sr.wrap(model.openai(), contract=contract) as client:
        decided = client.answer(model="any", messages="Plan an article.")
    print("corrected:", model.requests[1].correction)
    print("then hands over to:", decided.next_agents)


if __name__ == "__main__":
    main()
