"""The engines that decide whether a value fits, and access to a schema by places of the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote

from strictreply.schema._counted import Costs, Counted, costs_of, metered
from strictreply.schema._documents import (
    DOCUMENT_URI,
    MAX_WORDS,
    NOT_LINEAR,
    Document,
    Graph,
    Node,
    malformed,
)
from strictreply.schema._vocabulary import (
    DRAFT_2020,
    REFERENCES,
    Applies,
    as_list,
    draft_of,
    ignores_siblings,
    json_type,
)
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._limits import JSON, JSONObject, Work

if TYPE_CHECKING or find_spec("jsonschema_rs") is not None:  # some platforms have no wheel
    import jsonschema_rs
if TYPE_CHECKING:
    from strictreply.schema._reference_engine import ReferenceEngine

MAX_WALKED = 500
NAMING = ("properties", "dependentRequired", "dependentSchemas", "dependencies")


def governing_node(graph: Graph, path: str) -> Node | None:
    """Return the schema for the value at a JSON Pointer; None if it depends on the value."""
    node = graph.root
    for token in pointer_tokens(path):
        if node is None:
            return None

        members = (_member(judge, token) for judge in node.judges())
        node = next(filter(None, members), None)

    return None if node is None else node.resolved("properties")


def member_names(graph: Graph) -> frozenset[str]:
    """Return every member name in a schema, at any depth."""
    names: set[Any] = set()
    for node in graph.nodes:
        values = [node.schema.get(keyword) for keyword in NAMING]
        maps = [members for members in values if isinstance(members, dict)]
        inner = chain.from_iterable(members.values() for members in maps)
        lists = [each for each in (node.schema.get("required"), *inner) if isinstance(each, list)]

        for listed in (*maps, *lists):
            names.update(name for name in listed if isinstance(name, str))

    return frozenset(names)


def missing_members(
    graph: Graph, holder: object, path: tuple[str | int, ...], name: str
) -> list[Node]:
    """Return the schemas of a member that ``holder`` lacks in the object at ``path``."""
    # the schema itself and its components come first: another branch of a union may differ
    node = graph.find(holder)
    named = [_member(judge, name) for judge in node.judges()] if node else []
    known = [target.resolved("properties") for target in named if target]
    if known:
        return known

    governing = governing_node(graph, pointer("", *path, name))
    return [] if governing is None else [governing]


def knows_member(node: Node, token: str) -> bool:
    """Return whether a schema, or one that judges the same value, describes a member or an item."""
    return any(
        token in judge.schema.get("properties", ()) or _member(judge, token) is not None
        for judge in node.judges()
    )


def homes(graph: Graph) -> dict[str, list[str]]:
    """Return the pointers to the objects in which each member name is allowed.

    They are listed nearest first, with ``*`` for an index.
    """
    found: dict[str, list[str]] = {}
    root = graph.nodes[:1]  # a boolean has none
    pending = [(node, "", frozenset[int]()) for node in root]

    for node, path, above in pending:  # grows during the iteration
        judges = node.judges()
        described = (judge.schema.get("properties", {}).items() for judge in judges)
        members = chain.from_iterable(described)
        for name in dict.fromkeys(name for name, member in members if member is not False):
            found.setdefault(name, []).append(path)

        inner = above | {id(judge) for judge in judges}
        edges = chain.from_iterable(judge.edges for judge in judges)
        places = ("properties", "prefixItems", "items")
        deeper = (edge for edge in edges if edge.keyword in places and id(edge.target) not in inner)
        for edge in islice(deeper, MAX_WALKED - len(pending)):
            token = str(edge.token) if edge.keyword == "properties" else "*"
            pending.append((edge.target, pointer(path, token), inner))

    return found


def _member(node: Node, token: str) -> Node | None:
    others = None
    for edge in node.along(Applies.MEMBER, Applies.ITEM):
        if edge.keyword in ("properties", "prefixItems") and str(edge.token) == token:
            return edge.target

        is_item = edge.keyword in ("items", "additionalItems") and token.isdigit()
        index = edge.token if edge.keyword == "items" else None
        is_here = is_item and (index is None or str(index) == token)
        if edge.keyword == "additionalProperties" or is_here:
            others = edge.target

    return others


class Tag(NamedTuple):
    """A member whose scalar values distinguish several branches of a union."""

    name: str
    values: tuple[Any, ...]
    branches: dict[str, int]  # the index of the branch by its value as JSON
    is_required: bool  # by each of them


class UnionChoice(NamedTuple):
    """A union in which each branch states one type; an integer counts as a number."""

    types: tuple[str, ...]  # all of them, as written
    branches: dict[str, tuple[int, ...]]  # the indexes of the branches by type
    tags: dict[str, Tag]  # of several branches of one type


def choice_of(branches: Sequence[Node]) -> UnionChoice | None:
    """Return how the branches exclude one another.

    None if a branch states no type, or several.
    """
    followed = [node.resolved().schema for node in branches]
    groups: dict[str, tuple[int, ...]] = {}
    stated: dict[str, None] = {}

    for index, schema in enumerate(followed):
        declared = schema.get("type")
        if declared is None and "properties" in schema:
            declared = "object"  # values of other types fit it, and have no fault

        named = map(kind_of, listed_values(schema)) if declared is None else as_list(declared)
        types = dict.fromkeys(name for name in named if isinstance(name, str))
        kinds = {"number" if name == "integer" else name for name in types}
        if len(kinds) != 1:
            return None

        kind = kinds.pop()
        stated |= types
        groups[kind] = (*groups.get(kind, ()), index)

    tags: dict[str, Tag] = {}
    for kind, group in groups.items():
        tag = _common_tag({index: followed[index] for index in group})
        if tag is not None:
            tags[kind] = tag

    return UnionChoice(tuple(stated), groups, tags)


def kind_of(value: JSON) -> str:
    """Return the JSON type of a value; an integer counts as a number."""
    return "number" if (kind := json_type(value)) == "integer" else kind


def listed_values(schema: Mapping[str, object]) -> list[Any]:
    """Return the values of ``const`` or ``enum``; none if there is neither."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return listed if isinstance(listed, list) else []


def _common_tag(branches: dict[int, JSONObject]) -> Tag | None:
    """Return a member of every branch, with the values that only one branch has for it.

    Only such values prove which branch is meant. A member that every branch requires comes first.
    """
    tags = {index: _tags_of(schema) for index, schema in branches.items()}
    first, *others = tags.values()
    found: list[Tag] = []

    for name in first if others else ():
        if not all(name in tag for tag in others):
            continue

        values = [value for tag in tags.values() for value in tag[name]]
        keys = {tag_key(value): index for index, tag in tags.items() for value in tag[name]}
        if len(keys) == len(values):
            is_required = all(name in schema.get("required", ()) for schema in branches.values())
            found.append(Tag(name, tuple(values), keys, is_required))

    return max(found, key=lambda tag: tag.is_required, default=None)


def tag_key(value: object) -> str:
    """Return a scalar as JSON, so that ``1`` and ``true`` differ."""
    return json.dumps(value)


def _tags_of(schema: JSONObject) -> dict[str, list[object]]:
    """Return the members of a branch that must each be one of some scalars, with these."""
    tags: dict[str, list[Any]] = {}

    for name, member in schema.get("properties", {}).items():
        if isinstance(member, dict):
            values = listed_values(member)
            if values and all(isinstance(value, str | int) for value in values):
                tags[name] = values

    return tags


COMPILING = 10  # the steps that compiling a small schema costs
MAX_PATTERN_BYTES = 1_000_000  # the size of one compiled pattern, which its repeats multiply


# A compiled schema. ``is_valid`` may raise ValueError or RecursionError for anything but bounded
# JSON. One that ``remembers`` tries a recursive schema only once per place, so checking is cheap.
SchemaEngine: TypeAlias = "RustEngine | ReferenceEngine"


@cache
def engine_type() -> type[SchemaEngine]:
    """Return the engine in use: its ``refuse_malformed`` checks a schema against its metaschema."""
    if find_spec("jsonschema_rs") is not None:
        return RustEngine

    # only the engine in use is imported
    from strictreply.schema._reference_engine import ReferenceEngine  # noqa: PLC0415

    return ReferenceEngine


def engine_for(document: Document, *, formats: bool) -> SchemaEngine:
    """Compile a document.

    Raises ContractError, with the place, if the engine rejects it.
    """
    return engine_type()(document, formats=formats)


class RustEngine:
    """jsonschema-rs, offline, with its linear pattern engine.

    It is used only to decide whether a value fits, because its paths are lossy (7 is "007").
    """

    remembers = True

    def __init__(
        self,
        document: Document,
        *,
        formats: bool,
        registry: jsonschema_rs.Registry | None = None,
        costs: Costs | None = None,
    ) -> None:
        self._document = document
        self._formats = formats
        self._registry = registry
        self.costs: Costs = costs_of(document) if costs is None else costs

        with _contract_errors(document):
            # a part is of a document that is already compiled
            validator = self._validator({}) if costs is None else None
            counted = {name: _COUNTED[name] for name in self.costs.keywords}
            if counted or validator is None:
                validator = self._validator(counted)

        self._judge: Callable[[JSON], bool] = validator.is_valid

    def _validator(self, keywords: dict[str, type[CountedKeyword]]) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(
            self._document,
            offline=True,
            registry=self._registry,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES),
            validate_formats=self._formats,
            email_options=jsonschema_rs.EmailOptions(allow_display_text=False),
            keywords=keywords or None,  # type: ignore[arg-type]
        )

    def is_valid(self, value: JSON, work: Work | None = None) -> bool:
        """Return whether the value fits.

        ``work`` is the work that the counted keywords may take, None for that of one reply. Raises
        Spent if it is used up.
        """
        if not self.costs.keywords:
            return self._judge(value)

        with metered(Work() if work is None else work):
            return self._judge(value)

    @staticmethod
    def refuse_malformed(document: Document) -> None:
        """Check a schema against its metaschema."""
        with _contract_errors(document):
            jsonschema_rs.meta.validate(document)

    def part(self, schema: JSONObject) -> RustEngine:
        """Compile a schema with absolute references into the document.

        The document is registered once, so only the referenced parts cost anything.
        """
        if self._registry is None and isinstance(self._document, dict):
            uri = self._document.get("$id", DOCUMENT_URI)
            self._registry = jsonschema_rs.Registry([(uri, self._document)])

        return RustEngine(schema, formats=self._formats, registry=self._registry, costs=self.costs)


class CountedKeyword:
    """A keyword that strictreply implements for the engine, in the engine's interface."""

    keyword: str = ""

    def __init__(self, schema: JSONObject, expected: object, path: list[str | int]) -> None:
        del path
        options = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES)
        alone = jsonschema_rs.validator_for({self.keyword: expected}, pattern_options=options)
        self._counted = Counted(self.keyword, schema, alone.is_valid)

    def validate(self, instance: JSON) -> None:
        """Raise ValueError if a value does not fit the keyword."""
        if not self._counted.holds(instance):
            raise ValueError(self.keyword)


_COUNTED = {
    name: type(f"Counted_{name}", (CountedKeyword,), {"keyword": name})
    for name in ("uniqueItems", "pattern", "multipleOf")
}


@contextmanager
def _contract_errors(document: Document) -> Generator[None, None, None]:
    try:
        yield
    except jsonschema_rs.ValidationError as error:
        kinds = jsonschema_rs.ValidationErrorKind
        while isinstance(error.kind, kinds.AnyOf) and any(error.kind.context):
            # A schema is one of several forms: the form that was followed deepest is the intended
            # one.
            forms = (inner for form in error.kind.context for inner in form)
            error = max(forms, key=lambda each: len(each.instance_path))

        place = tuple(_walked(error.instance_path, document))
        if isinstance(error.kind, kinds.Format) and error.kind.format == "regex":
            raise ContractError(NOT_LINEAR, path=pointer("", *place)) from None

        raise malformed(place, error.message) from None
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise ContractError(str(error)[:MAX_WORDS]) from None


def _walked(path: Iterable[str | int], document: object) -> Iterator[str | int]:
    """Follow a path of the engine as far as it exists in the document.

    A number in it may be a name that looks like a number.
    """
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
    """The compiled parts of one schema for explaining.

    They are compiled at their first use, and kept with the schema.
    """

    def __init__(self, graph: Graph, engine: SchemaEngine) -> None:
        self.graph: Graph = graph
        """The object schemas of the document."""
        self._engine = engine
        self._engines: dict[tuple[object, ...], SchemaEngine] = {}
        self._choices: dict[int, UnionChoice | None] = {}

        document = graph.document
        self.draft: str = draft_of(document)
        """The dialect of JSON Schema."""
        self._silencing = ignores_siblings(document)
        self.contains_evaluates: bool = self.draft == DRAFT_2020
        """Whether items that ``contains`` matches count as evaluated."""
        self.is_dynamic: bool = any(
            keyword in node.schema for node in graph.nodes for keyword in REFERENCES[1:]
        )
        """Whether the schema has dynamic references."""

        self._uri = DOCUMENT_URI
        if isinstance(document, dict):
            self._uri = document.get("$id", DOCUMENT_URI)

    def has(self, key: tuple[object, ...]) -> bool:
        """Return whether the engine of a part is compiled."""
        return key in self._engines

    def engine(self, key: tuple[object, ...], schema: JSONObject) -> SchemaEngine:
        """Return the engine of a part, compiled once; ``schema`` is used only the first time."""
        if key not in self._engines:
            self._engines[key] = self._engine.part({"$schema": self.draft, **schema})

        return self._engines[key]

    def refer(self, schema: object) -> JSONObject | bool:
        """Return a schema that refers to a sub-schema of the document from anywhere."""
        node = self.graph.find(schema)
        if node is None:
            return schema if isinstance(schema, bool) else True
        if node.pointer is None:  # in a published metaschema, which the document cannot refer to
            return node.schema

        return {"$ref": f"{self._uri.partition('#')[0]}#{quote(node.pointer, safe='/~')}"}

    def spoken(self, schema: JSONObject) -> Iterable[str]:
        """Return the effective keywords of a schema.

        It is only the reference, if that disables the keywords next to it.
        """
        return ("$ref",) if self._silencing and "$ref" in schema else schema

    def choice(self, node: Node, keyword: str, branches: Sequence[Node]) -> UnionChoice | None:
        """Return how the branches of a union exclude one another, if they do."""
        key = id(node.schema[keyword])
        if key not in self._choices:
            self._choices[key] = choice_of(branches)

        return self._choices[key]
