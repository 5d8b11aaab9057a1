"""Where a reference leads: inside the document, or to a published metaschema; nothing is ever fetched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from strictreply.schema._vocabulary import REFERENCES, draft_of
from strictreply.values._issues import pointer_tokens

if TYPE_CHECKING:
    from referencing._core import Resolver


@dataclass(frozen=True, slots=True)
class Found:
    """What a reference led to, and the scope that holds from there on."""

    schema: Any
    scope: Scope


class Scope(Protocol):
    """The base that references are resolved against."""

    def inside(self, schema: dict[str, Any]) -> Scope:
        """Give the scope that holds inside ``schema``, which may have an ``$id`` of its own."""
        ...

    def lookup(self, reference: str) -> Found | None:
        """Follow a reference; None when it leads nowhere that is known offline."""
        ...


def scope_of(document: dict[str, Any]) -> Scope:
    """Choose how the document's references are resolved.

    Most documents only point into themselves (``#/$defs/…``), which needs no library; identifiers, anchors and
    metaschemas are the matter of ``referencing``, imported only for them.
    """
    if only_pointers(document):
        return PointerScope(document)
    from referencing.jsonschema import specification_with  # noqa: PLC0415 - seldom needed, slow to import

    specification = specification_with(draft_of(document))
    return RegistryScope.of(document, specification.create_resource(document))


def only_pointers(document: dict[str, Any]) -> bool:
    """Whether every reference is ``#`` or ``#/…`` and no sub-schema changes the base."""
    pending: list[Any] = list(document.values())
    if not all(_is_pointer(document[keyword]) for keyword in REFERENCES if keyword in document):
        return False
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            if "$id" in value or not all(_is_pointer(value[keyword]) for keyword in REFERENCES if keyword in value):
                return False
            pending.extend(value.values())
    return True


def _is_pointer(reference: object) -> bool:
    """Whether a reference points into its own document, or is no reference at all but a property's schema."""
    return not isinstance(reference, str) or reference == "#" or reference.startswith("#/")


def at_pointer(document: Any, tokens: list[str]) -> Any:
    """Walk JSON by reference tokens; raises LookupError or ValueError where there is nothing."""
    for token in tokens:
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


@dataclass(frozen=True, slots=True)
class PointerScope:
    """A document whose references all point into itself."""

    document: dict[str, Any]

    def inside(self, schema: dict[str, Any]) -> PointerScope:  # noqa: ARG002 - no identifier changes the base here
        """Stay in the document."""
        return self

    def lookup(self, reference: str) -> Found | None:
        """Follow the pointer."""
        try:
            found = at_pointer(self.document, pointer_tokens(unquote(reference[1:])))
        except (LookupError, ValueError, TypeError):
            return None
        return Found(found, self) if isinstance(found, dict | bool) else None


@dataclass(frozen=True, slots=True)
class RegistryScope:
    """A document with identifiers and anchors, resolved by the ``referencing`` library."""

    document: dict[str, Any]
    specification: Any
    resolver: Resolver[Any]

    @classmethod
    def of(cls, document: dict[str, Any], resource: Any) -> RegistryScope:
        """Make a registry of the published metaschemas and this document."""
        from jsonschema_specifications import REGISTRY  # noqa: PLC0415 - seldom needed, slow to import
        from referencing.jsonschema import specification_with  # noqa: PLC0415 - seldom needed, slow to import

        registry = REGISTRY.with_resource(resource.id() or "", resource)
        return cls(document, specification_with(draft_of(document)), registry.resolver_with_root(resource))

    def inside(self, schema: dict[str, Any]) -> RegistryScope:
        """Enter a sub-schema that may be a resource with an identifier of its own."""
        if "$id" not in schema or schema is self.document:
            return self
        inner = self.resolver.in_subresource(self.specification.create_resource(schema))
        return RegistryScope(self.document, self.specification, inner)

    def lookup(self, reference: str) -> Found | None:
        """Resolve an identifier, an anchor or a pointer among what is embedded or published."""
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - seldom needed, slow to import

        try:
            resolved = self.resolver.lookup(reference)
        except (Unresolvable, LookupError, ValueError, TypeError, AttributeError):
            return None
        if not isinstance(resolved.contents, dict | bool):
            return None
        return Found(resolved.contents, RegistryScope(self.document, self.specification, resolved.resolver))
