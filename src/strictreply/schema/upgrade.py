"""Draft-07 spelled as 2020-12, so that closing and explaining know one vocabulary."""

from __future__ import annotations

from typing import Any

from strictreply.schema.documents import Document
from strictreply.schema.vocabulary import DRAFT_2020, LISTS, MAPS, ONE, draft_of, ignores_siblings

BESIDE_REF = frozenset({"definitions", "$defs", "title", "description", "default", "examples"})


def upgraded(document: Document) -> Document:
    """Give the same schema in a draft that has ``unevaluatedProperties``; newer drafts are returned as they are."""
    if isinstance(document, bool) or not ignores_siblings(draft_of(document)):
        return document
    return {**_upgraded(document), "$schema": DRAFT_2020}


def _upgraded(schema: Any) -> Any:
    """Rewrite one schema and those in it."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:  # the keywords beside it had no meaning and would get one
        schema = {name: value for name, value in schema.items() if name == "$ref" or name in BESIDE_REF}
    renamed: dict[str, Any] = {}
    for keyword, value in schema.items():
        renamed |= _keyword(schema, keyword, _deeper(keyword, value))
    return renamed


def _deeper(keyword: str, value: Any) -> Any:
    """Rewrite the schemas that a keyword holds."""
    if isinstance(value, list) and keyword in LISTS:
        return [_upgraded(item) for item in value]
    if isinstance(value, dict) and keyword in MAPS:
        return {name: _upgraded(item) for name, item in value.items()}
    return _upgraded(value) if keyword in ONE else value


def _keyword(schema: dict[str, Any], keyword: str, value: Any) -> dict[str, Any]:
    """Spell one keyword as 2020-12 does."""
    match keyword:
        case "items" if isinstance(value, list):
            return {"prefixItems": value}
        case "additionalItems":
            return {"items": value} if isinstance(schema.get("items"), list) else {}
        case "dependencies":
            names = {name: needed for name, needed in value.items() if isinstance(needed, list)}
            schemas = {name: needed for name, needed in value.items() if not isinstance(needed, list)}
            return {"dependentRequired": names, "dependentSchemas": schemas}
        case "$id" if isinstance(value, str) and value.startswith("#"):
            return {"$anchor": value[1:]}
        case _:
            return {keyword: value}
