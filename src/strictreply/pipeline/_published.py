"""The JSON Schemas of what the pipeline takes and gives, for programs in any language: ``schemas/pipeline/``.

A schema says what each member is. What a context, a manifest or a response must hold besides is the rules' to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from strictreply.pipeline._results import InvokeResult
from strictreply.pipeline._values import (
    AgentPipelineContext,
    AgentResponse,
    Envelope,
    Session,
    ToolCallManifest,
    Turn,
    Value,
)
from strictreply.values._json import JSONObject

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

_PUBLISHED: Final[Mapping[str, tuple[str, type[Value]]]] = {
    "agent-pipeline-context": ("Everything that is known of one request", AgentPipelineContext),
    "envelope": ("A request as it was received", Envelope),
    "session": ("A conversation over several turns", Session),
    "turn": ("One request and everything until its response", Turn),
    "tool-call-manifest": ("Tool calls and their results, pairwise", ToolCallManifest),
    "agent-response": ("What a client gets", AgentResponse),
    "invoke-result": ("What a validation came to", InvokeResult),
}


def pipeline_schemas() -> dict[str, JSONObject]:
    """Give every published schema of the pipeline by its file name without ``.json``."""
    return {
        name: {"$schema": _DRAFT, "title": title, **_told(kind.json_schema())}
        for name, (title, kind) in _PUBLISHED.items()
    }


def _told(schema: JSONObject) -> JSONObject:
    """Leave out the titles that are names spelled anew, and tell what the code's documentation tells of each part."""
    return {key: _part(key, value) for key, value in schema.items() if key != "title"}


def _part(key: str, value: Any) -> Any:
    """Walk into whatever holds schemas: by name, or in a list."""
    match key, value:
        case (("properties" | "$defs"), dict()):
            return {name: _told(part) for name, part in value.items()}
        case "description", str():
            return _described(value)
        case _, dict():
            return _told(value)
        case _, list():
            return [_told(part) if isinstance(part, dict) else part for part in value]
        case _:
            return value


def _described(words: str) -> str:
    """Put a docstring into words for readers of any language: one line, no markup, JSON's word for nothing."""
    return " ".join(words.replace("``", "").replace("None", "null").split())
