"""The engines that decide whether a value fits: jsonschema-rs, or jsonschema where it has no wheel.

jsonschema-rs only decides. Its errors and their paths are not used to explain a value, for they are lossy: a member
named ``"007"`` comes back as the index 7, and one named ``""`` not at all.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from strictreply.schema._documents import DOCUMENT_URI, MAX_WORDS, NOT_LINEAR, Document, Graph, Node, malformed
from strictreply.schema._places import UnionChoice, choice_of
from strictreply.schema._vocabulary import DRAFT_2020, draft_of, ignores_siblings
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._json import JSON
from strictreply.values._limits import Work

if TYPE_CHECKING:
    import jsonschema_rs

    from strictreply.schema._reference_engine import ReferenceEngine

COMPILING = 10  # the steps that compiling a small schema costs
MAX_PATTERN_BYTES = 1_000_000  # the size of one compiled pattern, which its repeats multiply
HAS_RUST = find_spec("jsonschema_rs") is not None


class SchemaEngine(Protocol):
    """A compiled schema; ``is_valid`` may raise ValueError or RecursionError for what is not bounded JSON."""

    @property
    def remembers(self) -> bool:
        """Return whether a recurring schema is tried only once per place, so that validity alone is cheap."""
        ...

    def is_valid(self, value: JSON) -> bool:
        """Return whether a value fits."""
        ...

    def part(self, schema: dict[str, Any]) -> SchemaEngine:
        """Compile a schema that refers into the document by absolute references, at the price of what it reaches."""
        ...


@cache
def engine_type() -> type[RustEngine | ReferenceEngine]:
    """Return the engine in use: its ``refuse_malformed`` checks a schema against its metaschema."""
    if HAS_RUST:
        return RustEngine
    from strictreply.schema._reference_engine import ReferenceEngine  # noqa: PLC0415 - only the engine in use is imported

    return ReferenceEngine


def engine_for(document: Document, *, formats: bool) -> SchemaEngine:
    """Compile a document; raises ContractError that names the place when the engine cannot take it."""
    return engine_type()(document, formats=formats)


class RustEngine:
    """jsonschema-rs, offline, with its linear pattern engine."""

    __slots__ = ("_document", "_formats", "_registry", "_validator")

    remembers = True

    def __init__(self, document: Document, *, formats: bool, registry: jsonschema_rs.Registry | None = None) -> None:
        import jsonschema_rs  # noqa: PLC0415 - only the engine in use is imported

        self._document, self._formats, self._registry = document, formats, registry
        with _contract_errors(document):
            self._validator = jsonschema_rs.validator_for(
                document,
                offline=True,
                registry=registry,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES),
                validate_formats=formats,
                email_options=jsonschema_rs.EmailOptions(allow_display_text=False),
            )

    def is_valid(self, value: JSON) -> bool:
        """Return whether the value fits."""
        return self._validator.is_valid(value)

    @staticmethod
    def refuse_malformed(document: Document) -> None:
        """Check a schema against its metaschema."""
        import jsonschema_rs  # noqa: PLC0415 - only the engine in use is imported

        with _contract_errors(document):
            jsonschema_rs.meta.validate(document)

    def part(self, schema: dict[str, Any]) -> RustEngine:
        """Compile a schema beside the document, which is registered once."""
        import jsonschema_rs  # noqa: PLC0415 - only the engine in use is imported

        if self._registry is None and isinstance(self._document, dict):
            self._registry = jsonschema_rs.Registry([(self._document.get("$id", DOCUMENT_URI), self._document)])
        return RustEngine(schema, formats=self._formats, registry=self._registry)


@contextmanager
def _contract_errors(document: Document) -> Generator[None, None, None]:
    import jsonschema_rs  # noqa: PLC0415 - only the engine in use is imported

    try:
        yield
    except jsonschema_rs.ValidationError as error:
        while isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AnyOf) and any(error.kind.context):
            # A schema is one of several forms: the form that was followed deepest is the one that was meant.
            forms = (inner for form in error.kind.context for inner in form)
            error = max(forms, key=lambda each: len(each.instance_path))
        place = tuple(_walked(error.instance_path, document))
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format) and error.kind.format == "regex":
            raise ContractError(NOT_LINEAR, path=pointer("", *place)) from None
        raise malformed(place, error.message) from None
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise ContractError(str(error)[:MAX_WORDS]) from None


def _walked(path: Iterable[str | int], document: Any) -> Iterator[str | int]:
    """Follow a path of the engine as far as the document goes: a number may stand for a name that reads as one."""
    for token in path:
        names: list[Any] = [token]
        if isinstance(document, dict) and isinstance(token, int):
            names = [name for name in document if name.lstrip("+0") == str(token or "")]
        if len(names) != 1 or not isinstance(document, dict | list):
            return
        try:
            document = document[names[0]]
        except (LookupError, TypeError):
            return
        yield names[0]


class SchemaParts:
    """The parts of one compiled schema that explaining needs, compiled when first needed and kept with the schema."""

    __slots__ = ("_choices", "_engine", "_engines", "_silencing", "_uri", "contains_evaluates", "draft", "graph")

    def __init__(self, graph: Graph, engine: SchemaEngine) -> None:
        self.graph: Graph = graph
        self._engine = engine
        self._engines: dict[tuple[object, ...], SchemaEngine] = {}
        self._choices: dict[int, UnionChoice | None] = {}
        document = graph.document
        self.draft: str = draft_of(document)
        self._silencing = ignores_siblings(document)
        self.contains_evaluates: bool = self.draft == DRAFT_2020
        self._uri = document.get("$id", DOCUMENT_URI) if isinstance(document, dict) else DOCUMENT_URI

    def engine(self, key: tuple[object, ...], schema: dict[str, Any], work: Work) -> SchemaEngine:
        """Return the engine of a part, compiled once."""
        known = self._engines.get(key)
        if known is None:
            work.take(COMPILING)
            known = self._engines[key] = self._engine.part({"$schema": self.draft, **schema})
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

    def choice(self, node: Node, keyword: str, branches: Sequence[Node]) -> UnionChoice | None:
        """Return how the branches of a union exclude one another, if they do."""
        key = id(node.schema[keyword])
        if key not in self._choices:
            self._choices[key] = choice_of(branches)
        return self._choices[key]
