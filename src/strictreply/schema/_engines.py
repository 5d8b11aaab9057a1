"""Which engine judges on this platform, jsonschema-rs or jsonschema where it has no wheel; and parts of a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from strictreply.schema._documents import Document
from strictreply.schema._faults import DOCUMENT_URI, Engine
from strictreply.schema._graph import Graph, Node
from strictreply.schema._unions import Choice, choice_of
from strictreply.schema._vocabulary import DRAFT_2020, draft_of, ignores_siblings
from strictreply.values._limits import Work

COMPILING = 10
"""The steps that compiling a small schema costs."""

HAS_RUST = find_spec("jsonschema_rs") is not None


def engine_for(document: Document, *, formats: bool) -> Engine:
    """Compile a document; raises ContractError that names the place when the engine cannot take it."""
    if HAS_RUST:
        from strictreply.schema._rust_engine import RustEngine  # noqa: PLC0415 - only the engine in use is imported

        return RustEngine(document, formats=formats)
    from strictreply.schema._reference_engine import ReferenceEngine  # noqa: PLC0415 - only the engine in use is imported

    return ReferenceEngine(document, formats=formats)


def refuse_malformed(document: Document) -> None:
    """Check a schema against its metaschema; raises ContractError that names the place."""
    if HAS_RUST:
        from strictreply.schema._rust_engine import refuse_malformed as refuse  # noqa: PLC0415 - only the engine in use is imported
    else:
        from strictreply.schema._reference_engine import refuse_malformed as refuse  # noqa: PLC0415 - only the engine in use is imported
    refuse(document)


class Parts:
    """The parts of one compiled schema that explaining needs, compiled when first needed and kept with the schema."""

    __slots__ = ("_choices", "_draft", "_engine", "_engines", "_silencing", "_uri", "contains_evaluates", "graph")

    def __init__(self, graph: Graph, engine: Engine) -> None:
        """Hold the graph of a document, and the engine that compiled the document."""
        self.graph = graph
        self._engine = engine
        self._engines: dict[tuple[object, ...], Engine] = {}
        self._choices: dict[int, Choice | None] = {}
        document = graph.document
        self._draft = draft_of(document)
        self._silencing = ignores_siblings(self._draft)
        self.contains_evaluates = self._draft == DRAFT_2020
        self._uri = document.get("$id", DOCUMENT_URI) if isinstance(document, dict) else DOCUMENT_URI

    def engine(self, key: tuple[object, ...], schema: Callable[[], dict[str, Any]], work: Work) -> Engine:
        """Return the engine of a part, compiled once."""
        known = self._engines.get(key)
        if known is None:
            work.take(COMPILING)
            known = self._engines[key] = self._engine.part({"$schema": self._draft, **schema()})
        return known

    def refer(self, schema: object) -> dict[str, Any] | bool:
        """Return a schema that means a sub-schema of the document, wherever it stands."""
        node = self.graph.find(schema)
        if node is None:
            return schema if isinstance(schema, bool) else True
        if node.pointer is None:  # in a published metaschema, which the document cannot point into
            return node.schema
        return {"$ref": f"{self._uri.partition('#')[0]}#{quote(node.pointer, safe='/~')}"}

    def spoken(self, schema: dict[str, Any]) -> Iterable[str]:
        """Return the keywords of a schema that count: only the reference, where it silences those beside it."""
        return ("$ref",) if self._silencing and "$ref" in schema else schema

    def choice(self, node: Node, keyword: str, branches: Sequence[Node]) -> Choice | None:
        """Return how the branches of a union exclude one another, if they do."""
        key = id(node.schema[keyword])
        if key not in self._choices:
            self._choices[key] = choice_of(branches)
        return self._choices[key]
