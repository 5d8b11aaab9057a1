"""The shapes of JSON that pass between the rooms; no behaviour lives here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import JsonValue

JSON: TypeAlias = JsonValue
"""A value as a JSON text spells it."""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object whose members are read by name."""

Message: TypeAlias = Mapping[str, Any]
"""One turn of a conversation, as the Chat Completions API spells it."""

Request: TypeAlias = Mapping[str, Any]
"""The keyword arguments of one ``chat.completions.create`` call."""

Channel: TypeAlias = Literal["native", "text"]
"""Where a tool call is written: in ``tool_calls``, or as a JSON union in ``content``."""

Extra: TypeAlias = Literal["forbid", "schema"]
"""``forbid`` closes objects that do not speak of other members; ``schema`` takes a schema as written."""

Formats: TypeAlias = Literal["assert", "annotate"]
"""Whether ``format`` is a rule or a remark."""

Extraction: TypeAlias = Literal["strict", "fenced", "first_object", "after_think"]
"""How much text around the JSON is forgiven: none unless a name here says so."""

AnswerStyle: TypeAlias = Literal["union", "tool"]
"""Whether an answer is ``{"answer": …}`` or a call of the tool ``final_answer`` (requirement T14)."""

CallsAsText: TypeAlias = Literal["refuse", "answer"]
"""What a text answer is that is, as a whole, a call of a declared tool: a fault, or an answer like any other."""
