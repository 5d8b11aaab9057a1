"""The published schemas are taken by strict validators, and hold no word of our own work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "schemas"
FILES = sorted(FOLDER.rglob("*.json"))

OF_TYPES = {
    "string": {"minLength", "maxLength", "pattern", "contentMediaType"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "minItems", "maxItems", "uniqueItems", "prefixItems"},
    "object": {"properties", "required", "additionalProperties", "minProperties"},
}
"""The keywords that say something of one type only (JSON Schema 2020-12, validation, 6)."""


def schemas_in(
    schema: Any, types: frozenset[str]
) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield every schema inside one, with the types that it or one around it in place names."""
    if not isinstance(schema, dict):
        return

    named = schema.get("type")
    types = frozenset([named] if isinstance(named, str) else named or types)
    yield schema, types

    for holder in ("properties", "$defs"):
        for part in schema.get(holder, {}).values():
            yield from schemas_in(part, frozenset())

    for name in ("items", "additionalProperties"):
        yield from schemas_in(schema.get(name), frozenset())

    for name in ("anyOf", "allOf", "oneOf"):
        for part in schema.get(name, []):
            yield from schemas_in(part, types)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_keyword_stands_with_the_type_it_is_of(path: Path) -> None:
    """As ajv's strict mode wants it: no keyword of numbers beside a choice of types, and so on."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    found = list(schemas_in(schema, frozenset()))
    assert found

    for part, types in found:
        for kind, keywords in OF_TYPES.items():
            kinds = {"number", "integer"} if kind == "number" else {kind}
            if keywords & part.keys():
                assert kinds & types, (part, types)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_id_of_our_requirements_is_published(path: Path) -> None:
    """A reader of a schema knows nothing of our requirements."""
    text = path.read_text(encoding="utf-8")
    assert text
    assert not re.findall(r"\b[TMRPX]\d{1,3}\b|requirement", text)


def test_all_are_looked_at() -> None:
    """The folder holds the schemas of replies and of the pipeline."""
    assert len(FILES) >= 12
