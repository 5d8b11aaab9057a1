"""What a request demands of the reply: which tools there are, whether one must be called, how an answer is spelled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from strictreply.testing._demo.conversation import fields, items, text_of
from strictreply.testing._targets import Place
from strictreply.values._json import JSON, JSONObject

FINAL_ANSWER = "final_answer"
_INSTRUCTION_ROLES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Demands:
    """The demands of one request.

    ``tools`` holds the parameters' schemas by name. ``choice`` is ``auto``, ``required``, ``none`` or a tool's name.
    ``place`` says where calls are written: natively, or in the union in the content. ``answer`` is the schema of a
    structured answer and ``answer_name`` what it is called; None when an answer is text. ``max_tokens`` is None when
    the request sets no limit.
    """

    tools: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    choice: str = "auto"
    parallel: bool = True
    place: Place = "call"
    answer: JSON = None
    answer_name: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Union:
    """What the instructions of the text channel demand; the fields are those of :class:`Demands`."""

    tools: Mapping[str, JSON]
    choice: str = "auto"
    answer: JSON = None
    answer_name: str = ""


def read_demands(request: JSONObject, known: Mapping[str, JSON]) -> Demands:
    """Read a request; ``known`` are the tools of a text channel that does not spell their schemas.

    Raises ValueError when ``tools`` or ``tool_choice`` are not as the API has them; its text is fit for the client.
    """
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    max_tokens = limit if isinstance(limit, int) else None
    if not request.get("tools"):
        union = _read_union(request, known)
        if union is not None:
            return Demands(union.tools, union.choice, False, "union", union.answer, union.answer_name, max_tokens)
    name, answer = _answer_format(request.get("response_format"))
    tools = _declared(request.get("tools"))
    choice, allowed = _choice(request.get("tool_choice"))
    if choice not in {"auto", "required", "none", *tools}:
        raise ValueError("'tool_choice' names a tool that is not in 'tools'")
    return Demands(
        tools={key: tools[key] for key in tools if allowed is None or key in allowed},
        choice=choice if tools else "none",
        parallel=request.get("parallel_tool_calls") is not False and choice not in tools,
        answer=answer,
        answer_name=name,
        max_tokens=max_tokens,
    )


def _declared(tools: object) -> dict[str, JSON]:
    """Read the tools' names and the schemas of their parameters."""
    if tools is not None and not isinstance(tools, list):
        raise ValueError("'tools' must be a list")
    declared: dict[str, JSON] = {}
    for tool in items(tools):
        function = fields(fields(tool).get("function"))
        if not isinstance(function.get("name"), str):
            raise ValueError("each of 'tools' must be {'type': 'function', 'function': {'name': …}}")  # noqa: TRY004 - an API error
        declared[function["name"]] = function.get("parameters") or {"type": "object", "properties": {}}
    return declared


def _choice(choice: object) -> tuple[str, frozenset[str] | None]:
    """Read ``tool_choice``: the choice, and the names it allows, None when it allows all."""
    if choice is None or isinstance(choice, str):
        return choice or "auto", None
    if fields(choice).get("type") == "allowed_tools":
        allowed = fields(fields(choice).get("allowed_tools"))
        return str(allowed.get("mode", "auto")), frozenset(_declared(allowed.get("tools")))
    name = fields(fields(choice).get("function")).get("name")
    if not isinstance(name, str):
        raise ValueError("'tool_choice' must be 'auto', 'required', 'none', a function or allowed_tools")  # noqa: TRY004 - an API error
    return name, None


def _answer_format(wanted: object) -> tuple[str, JSON]:
    """Read ``response_format``: the name and the schema of a structured answer, None for text."""
    if fields(wanted).get("type") not in {"json_object", "json_schema"}:
        return "", None
    described = fields(fields(wanted).get("json_schema"))
    return str(described.get("name", "")), described.get("schema", {"type": "object"})


def _read_union(request: JSONObject, known: Mapping[str, JSON]) -> _Union | None:
    """Read the text channel's demands out of the instructions; None when they ask for no JSON union."""
    turns = [turn for turn in request["messages"] if turn.get("role") in _INSTRUCTION_ROLES]
    text = "\n".join(text_of(turn) for turn in turns)
    for line in text.splitlines():
        forms = _forms(line)
        if forms:
            return _union_of(forms)
    if "JSON" in text and '"tool"' in text and '"answer"' in text:
        return _Union(known)
    return None


def _forms(line: str) -> list[JSONObject]:
    """Read the properties of each form of reply from a line that holds the union's schema."""
    try:
        schema: object = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        return []
    forms = [fields(fields(form).get("properties")) for form in items(fields(schema).get("anyOf"))]
    return [form for form in forms if "answer" in form or {"tool", "args"} <= form.keys()]


def _union_of(forms: list[JSONObject]) -> _Union:
    """Turn the forms of a reply into demands."""
    tools = {str(fields(form["tool"]).get("const", "")): form["args"] for form in forms if "tool" in form}
    answers = [fields(form["answer"]) for form in forms if "answer" in form]
    answer = answers[0] if answers and answers[0].get("type") != "string" else None
    choice = "required" if not answers else "auto" if tools else "none"
    return _Union(tools, choice, answer, str((answer or {}).get("title", "")))
