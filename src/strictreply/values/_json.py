"""Type aliases: JSON as it passes between the modules, and the literals that a contract takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import JsonValue

JSON: TypeAlias = JsonValue
"""Any JSON value."""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object whose members are read by name."""

Message: TypeAlias = Mapping[str, Any]
"""One turn of a conversation, in the form of the Chat Completions API."""

Channel: TypeAlias = Literal["native", "text"]
"""Where a tool call is written: in ``tool_calls``, or as a JSON union in ``content``."""

Extra: TypeAlias = Literal["forbid", "schema"]
"""``forbid`` closes objects that say nothing about other members; ``schema`` takes a schema as written."""

Formats: TypeAlias = Literal["assert", "annotate"]
"""Whether ``format`` is enforced or only an annotation."""

Extraction: TypeAlias = Literal["strict", "fenced", "first_object", "after_think"]
"""Which text around the JSON is tolerated: none but what is named."""

Dialects: TypeAlias = Literal["known", "strict"]
"""Whether the known ways of servers to write a message otherwise than the API are read, or the API's form alone."""

AnswerStyle: TypeAlias = Literal["union", "tool"]
"""Whether an answer is ``{"answer": …}`` or a call of the tool ``final_answer`` (requirement T14)."""

CallsAsText: TypeAlias = Literal["refuse", "answer"]
"""Whether a text answer that is, as a whole, a call of a declared tool is refused or accepted as an answer."""
