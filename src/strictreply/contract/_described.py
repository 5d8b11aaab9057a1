"""Adds the descriptions of annotations to the JSON Schema of a type.

pydantic ignores ``Doc("…")`` and plain strings in ``Annotated``. So strictreply walks the type and
its schema together. Each place of the schema gets the description of its annotation.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions
from pydantic import AliasChoices, RootModel, TypeAdapter
from pydantic.fields import FieldInfo

from strictreply.values._limits import JSONObject

_UNIONS = (Union, UnionType)
_OF_MEMBERS = (
    Required,
    NotRequired,
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)


def words_in(metadata: Iterable[object]) -> str:
    """Return the description in the metadata of an annotation: ``Doc("…")``, or a plain string.

    It is empty if there is none, or if a ``Field`` has one.
    """
    said = ""
    for each in metadata:
        if isinstance(each, FieldInfo) and each.description:
            return ""
        if isinstance(each, typing_extensions.Doc):
            said = each.documentation
        elif isinstance(each, str):
            said = said or each

    return said


def describe(document: JSONObject, adapter: TypeAdapter[object]) -> None:
    """Add the descriptions of annotations to the JSON Schema of an adapter's type.

    Existing descriptions stay. Nothing is added if the schema does not correspond to the
    annotation, for example if you wrote your own schema.
    """
    kept: Any = adapter
    _Walk(document).at(document, kept._type)  # noqa: SLF001 - pydantic has no public name


class _Walk:
    """One walk through a type and its schema; each class is visited once per place."""

    def __init__(self, document: JSONObject) -> None:
        self._defined: Any = document.get("$defs", {})
        self._seen: set[tuple[int, int]] = set()

    def at(self, schema: object, annotation: object) -> None:
        """Describe one place of the schema, and the places below it."""
        if not isinstance(schema, dict):
            return

        origin = get_origin(annotation)
        arguments = get_args(annotation)

        if origin is Annotated:
            if words := words_in(arguments[1:]):
                schema.setdefault("description", words)
            self.at(schema, arguments[0])
        elif origin in _OF_MEMBERS:
            self.at(schema, arguments[0])
        elif origin in _UNIONS:
            self._union(schema, arguments)
        elif isinstance(annotation, NewType):
            self.at(schema, annotation.__supertype__)
        else:
            self._defined_at(self._target(schema), annotation, origin, arguments)

    def _defined_at(
        self, schema: JSONObject, annotation: object, origin: object, arguments: tuple[object, ...]
    ) -> None:
        """Describe what a definition may contain: an alias, a class, or a container."""
        key = (id(schema), id(annotation))
        if isinstance(origin, type):
            self._container(schema, origin, arguments)
        elif key not in self._seen:
            self._seen.add(key)
            if isinstance(annotation, typing_extensions.TypeAliasType):
                self.at(schema, annotation.__value__)
            elif isinstance(annotation, type):
                self._class(schema, annotation, {})

    def _target(self, schema: JSONObject) -> JSONObject:
        """Follow references to definitions."""
        for _ in range(len(self._defined) + 1):
            name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
            found = self._defined.get(name)
            if not isinstance(found, dict):
                break

            schema = found

        return schema

    def _union(self, schema: JSONObject, arguments: tuple[object, ...]) -> None:
        """Describe the branches of a union; pydantic writes them in order, with null last."""
        branches = list(_branches(arguments, ""))
        forms: Any = schema.get("anyOf") or schema.get("oneOf") or [schema]
        if len(branches) == len(forms) - any(each == {"type": "null"} for each in forms):
            for form, (annotation, words) in zip(forms, branches, strict=False):
                self.at(form, Annotated[annotation, words] if words else annotation)

    def _class(self, schema: JSONObject, kind: type, given: Mapping[object, object]) -> None:
        """Describe the fields of a class; ``given`` has the types of its type variables."""
        members: Any = schema.get("properties", {})
        forms: Any = schema.get("prefixItems", ())  # of a NamedTuple

        for index, (names, annotation) in enumerate(_fields(kind)):
            filled = _filled(annotation, given)
            if issubclass(kind, RootModel):
                self.at(schema, filled)
            elif index < len(forms):
                self.at(forms[index], filled)
            elif named := next((name for name in names if name in members), None):
                self.at(members[named], filled)

    def _container(self, schema: JSONObject, origin: type, arguments: tuple[object, ...]) -> None:
        inner = [each for each in arguments if each is not Ellipsis]
        forms: Any = schema.get("prefixItems")
        if issubclass(origin, tuple) and isinstance(forms, list):
            for form, annotation in zip(forms, inner, strict=False):
                self.at(form, annotation)
        elif issubclass(origin, Mapping):
            patterns: Any = schema.get("patternProperties", {})
            for form in (schema.get("additionalProperties"), *patterns.values()):
                self.at(form, inner[-1])
        elif parameters := getattr(origin, "__parameters__", ()):  # of a generic class
            self._class(schema, origin, dict(zip(parameters, inner, strict=False)))
        elif inner:
            self.at(schema.get("items"), inner[-1])


def _filled(annotation: Any, given: Mapping[object, object]) -> object:
    """Return an annotation with its type variables replaced."""
    if annotation in given:
        return given[annotation]

    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or not given:
        return annotation

    return annotation[tuple(given.get(each, each) for each in parameters)]


def _branches(arguments: Iterable[object], words: str) -> Iterator[tuple[object, str]]:
    """Yield the branches of a union except None, with the descriptions of a nested union."""
    for argument in arguments:
        inner = argument
        said = words
        if get_origin(argument) is Annotated:
            inner, *metadata = get_args(argument)
            said = words_in(metadata) or words

        if get_origin(inner) in _UNIONS:
            yield from _branches(get_args(inner), said)
        elif inner is not type(None):
            yield argument, said


def _fields(kind: type) -> Iterator[tuple[list[str], object]]:
    """Yield the fields of a class, each with its possible names in JSON."""
    own: Any = getattr(kind, "__pydantic_fields__", None)
    if own:
        for name, field in own.items():
            aliases = field.validation_alias
            choices = aliases.choices if isinstance(aliases, AliasChoices) else [aliases]
            names = [each for each in (*choices, field.alias, name) if isinstance(each, str)]
            words = "" if field.description else words_in(field.metadata)
            annotation = field.annotation
            yield names, Annotated[annotation, words] if words else annotation
        return

    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if is_dataclass(kind) or typing_extensions.is_typeddict(kind) or is_named_tuple:
        yield from (([name], hint) for name, hint in _hints(kind).items())


def _hints(kind: type) -> Mapping[str, object]:
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - names that only pydantic finds, such as local ones
        own = inspect.get_annotations(kind)
        return {name: hint for name, hint in own.items() if not isinstance(hint, str)}
