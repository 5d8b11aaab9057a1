"""``schemas/pipeline/`` is what the code makes, and it holds what the pipeline gives."""

from __future__ import annotations

import json
import runpy
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from strictreply.loop.values import PipelineStep, Value
from strictreply.pipeline import AgentPipelineContextValidator
from support.loops import some
from support.pipeline.contexts import (
    CONTINUATION,
    WALKS,
    after,
    before,
    received,
    response_of,
    waiting,
)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "schemas" / "pipeline"
SCHEMAS: dict[str, dict[str, Any]] = runpy.run_path(str(ROOT / "tools" / "write_schemas.py"))[
    "pipeline_schemas"
]()
VALIDATOR = AgentPipelineContextValidator()


def fits(name: str, value: object) -> bool:
    """Check a value against a published schema, as it stands in its file."""
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema).is_valid(json.loads(json.dumps(value)))


def test_the_files_are_what_the_code_makes() -> None:
    """``python tools/write_schemas.py`` would change nothing."""
    files = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")
    }
    assert files == SCHEMAS


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_is_a_schema_of_draft_2020_12(name: str) -> None:
    """Any validator of the draft can take it: the dialect is named, and the metaschema holds."""
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", SCHEMAS)
def test_words_are_for_readers_of_any_language(name: str) -> None:
    """No description holds markup of Python's documentation or its word for null; only the whole
    has a title.
    """
    written = json.dumps({key: value for key, value in SCHEMAS[name].items() if key != "title"})
    assert not any(
        mark in written for mark in ("``", ":class:", ":data:", ":meth:", "None", '"title": "')
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_member_is_described(name: str) -> None:
    """What stands below a field of a value is its member's description."""
    whole = SCHEMAS[name]
    values = [part for part in (whole, *whole.get("$defs", {}).values()) if "properties" in part]
    members = [pair for value in values for pair in value["properties"].items()]
    assert members
    assert [member for member, schema in members if not schema.get("description")] == []


def test_a_value_without_sources_has_a_schema_without_words() -> None:
    """A class that no file holds has the same schema, but for the descriptions of its members."""
    made: Any = make_dataclass("Made", [("size", int)], bases=(Value,))
    assert made.json_schema()["properties"] == {"size": {"title": "Size", "type": "integer"}}


@pytest.mark.parametrize("step", sorted({step for walk in WALKS.values() for step in walk}))
def test_contexts_fit_at_every_step(step: PipelineStep) -> None:
    """Each context of the line fits its schema, and so does each part published by itself."""
    for kind in some(kind for kind, walk in WALKS.items() if step in walk):
        told = after(step, kind).to_dict()
        assert fits("agent-pipeline-context", told)
        assert fits("envelope", told["envelope"])
        for name, member in (("session", told["session"]), ("turn", told["turn"])):
            assert member is None or fits(name, member)


def test_manifests_responses_and_results_fit() -> None:
    """Requests and responses of a client, and results of validations, fit their schemas."""
    manifest = before(PipelineStep.LLM_CLIENT, CONTINUATION).tool_call_manifest
    assert manifest is not None
    assert fits("tool-call-manifest", manifest.to_dict())

    for ctx in (before(PipelineStep.RESPONSE_BUILDER), waiting()):
        assert fits("agent-response", response_of(ctx).to_dict())

    bad: list[Any] = [
        None,
        {"type": 99},
        {"tool_calls": [{"arguments_json": "{"}], "tool_call_results": [{}]},
    ]
    for content in bad:
        assert fits("invoke-result", VALIDATOR.validate_core(content).to_dict())
        assert fits("invoke-result", VALIDATOR.validate_tool_call_manifest(content).to_dict())


def test_what_is_no_context_does_not_fit() -> None:
    """Another kind of member, a missing one, or one that nobody knows is refused."""
    told = received(CONTINUATION).to_dict()
    assert fits("agent-pipeline-context", told)

    changes: list[dict[str, Any]] = [
        {"type": "x"},
        {"envelope": None},
        {"more": 1},
        {"session": {}},
        {"prompt": {"ready": 1}},
    ]
    for change in changes:
        assert not fits("agent-pipeline-context", told | change)

    for name in ("type", "time_stamp", "correlation_id", "envelope"):
        assert not fits(
            "agent-pipeline-context", {key: value for key, value in told.items() if key != name}
        )
