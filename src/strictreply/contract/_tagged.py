"""Discriminated unions: makes the tag a required member of every form."""

from __future__ import annotations

from collections import Counter
from typing import Any

from strictreply.schema._documents import objects_in
from strictreply.values._limits import JSONObject


def with_required_tags(document: JSONObject) -> JSONObject:
    """Return the schema of a type in which every form of a discriminated union requires its tag.

    pydantic makes a tag with a default optional, but rejects a value without it.
    """
    unions = [each for each, _ in objects_in(document) if _tag_of(each)]
    referred = Counter(each.get("$ref") for each, _ in objects_in(document))
    by_tags = Counter(
        form.get("$ref") for each in unions for form in _forms_of(each) if "$ref" in form
    )
    for union in unions:
        keyword = "oneOf" if "oneOf" in union else "anyOf"
        union[keyword] = [
            _tagged(form, str(_tag_of(union)), document, referred, by_tags)
            for form in _forms_of(union)
        ]

    return document


def _tag_of(schema: JSONObject) -> str | None:
    told: Any = schema.get("discriminator")
    name = told.get("propertyName") if isinstance(told, dict) else None
    return name if isinstance(name, str) and _forms_of(schema) else None


def _forms_of(schema: JSONObject) -> list[JSONObject]:
    forms: Any = schema.get("oneOf") or schema.get("anyOf")
    listed = forms if isinstance(forms, list) else []
    return listed if all(isinstance(form, dict) for form in listed) else []


def _tagged(
    form: JSONObject,
    tag: str,
    document: JSONObject,
    referred: Counter[str | None],
    by_tags: Counter[str | None],
) -> JSONObject:
    reference = form.get("$ref")
    if not isinstance(reference, str):
        return _requiring(form, tag)

    name = reference.removeprefix("#/$defs/")
    defined: Any = document.get("$defs", {}).get(name)
    if not isinstance(defined, dict) or tag in defined.get("required", ()):
        return form

    if referred[reference] == by_tags[reference]:
        document["$defs"][name] = _requiring(defined, tag)
        return form

    # also used elsewhere, where the default applies
    return _requiring(defined, tag)


def _requiring(schema: JSONObject, tag: str) -> JSONObject:
    if tag not in schema.get("properties", {}) or tag in schema.get("required", ()):
        return schema
    return schema | {"required": [tag, *schema.get("required", ())]}
