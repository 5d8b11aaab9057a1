"""Write ``schemas/`` anew from the code.

The tests of what is published fail while the two differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from strictreply.cli._published_schemas import published_schemas
from strictreply.core import JSONObject
from strictreply.loop.invoke_result import InvokeResult
from strictreply.loop.values import (
    AgentResponse,
    Envelope,
    Session,
    ToolCallManifest,
    Turn,
    Value,
)
from strictreply.pipeline import AgentPipelineContext

FOLDER = Path(__file__).resolve().parents[1] / "schemas"

_ID: Final = r"[TMRPX]\d+"
_OUR_IDS: Final = re.compile(
    rf",? requirement {_ID}(?=\))|\s*\((?:requirement )?{_ID}(?: to {_ID})?\)"
)
"""How docstrings name the requirement that they fulfil, which no reader of a schema knows."""

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


def main() -> None:
    """Write the schemas of replies, and beside them those of the pipeline."""
    write(FOLDER, published_schemas())
    write(FOLDER / "pipeline", pipeline_schemas())


def write(folder: Path, schemas: Mapping[str, JSONObject]) -> None:
    """Write one file for each schema, and drop files of schemas that are gone."""
    texts = {
        f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()
    }
    folder.mkdir(exist_ok=True)

    for old in folder.glob("*.json"):
        if old.name not in texts:
            old.unlink()

    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")

    print(f"wrote {', '.join(texts)}")


def pipeline_schemas() -> dict[str, JSONObject]:
    """Return every published schema of the pipeline by its file name without ``.json``."""
    return {
        name: {"$schema": _DRAFT, "title": title, **_published(kind.json_schema())}
        for name, (title, kind) in _PUBLISHED.items()
    }


def _published(schema: JSONObject) -> JSONObject:
    """Leave out pydantic's titles, and write each description for readers of any language."""
    return {key: _part(key, value) for key, value in schema.items() if key != "title"}


def _part(key: str, value: Any) -> Any:
    match key, value:
        case (("properties" | "$defs"), dict()):
            return {name: _published(part) for name, part in value.items()}
        case "description", str():
            # a docstring as one line, without markup and our own ids, with JSON's word for None
            text = _OUR_IDS.sub("", value.replace("``", "").replace("None", "null"))
            return " ".join(text.split())
        case _, dict():
            return _published(value)
        case _, list():
            return [_published(part) if isinstance(part, dict) else part for part in value]
        case _:
            return value


if __name__ == "__main__":
    main()
