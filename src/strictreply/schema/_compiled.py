"""A compiled schema: its source, the form that is enforced, and the checks of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from strictreply.reading._decoding import masked_pointer
from strictreply.schema._closing import NEWER, closed_graph, modern, shown_document, upgraded
from strictreply.schema._counted import UNIT_STEPS, beyond_judgements, colliding_units
from strictreply.schema._documents import Document, Graph, at_pointer, definitions_of, read_document
from strictreply.schema._engines import (
    SchemaEngine,
    SchemaParts,
    engine_for,
    engine_type,
    governing_node,
    member_names,
)
from strictreply.schema._explaining import Explainer, Places, contains, proposals, rule_issue
from strictreply.schema._heavy import BUILT, RULES, SIZE, heaviest
from strictreply.schema._linear import Linear, with_linear_patterns, with_unicode_patterns
from strictreply.schema._live import LiveSchema
from strictreply.schema._possible import KINDS, Kinds, KindTable, simplified
from strictreply.schema._vocabulary import SchemaRule, json_type
from strictreply.schema._work import MAX_STEPS, judgements_of, load_of, size_of
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._issues import Issue, pointer_tokens
from strictreply.values._limits import (
    DEFAULT_LIMITS,
    JSON,
    MAX_WORK,
    Extra,
    Formats,
    JSONObject,
    Spent,
    Work,
)

# judgements per place up to which any value within the limits is cheap, so that nothing is counted
FREE_LOAD = 64
# judgements of one value by one schema in one check; about 60 ms
MAX_JUDGEMENTS = FREE_LOAD * DEFAULT_LIMITS.nodes
# Judgements that count as one step of a reply's work, which its calls share: half of the work is
# left for explaining.
JUDGED_PER_STEP = 2 * MAX_JUDGEMENTS // MAX_WORK
# the same for pydantic, which retries each branch of a union at every level and fills in defaults
BUILT_PER_STEP = 20
MAX_TRIED = 8  # faults of an example for which another example is tried
MAX_SHOWN = 5  # places in one warning
FREE_BUILT = 4  # judgements per place up to which pydantic is cheap for any value within the limits


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """A JSON Schema that checks values, in bounded time and without network or disk.

    Create one with :meth:`compile`.
    """

    source: Document
    """The document as you wrote it, with older keywords modernized."""
    closed: Document
    """``source`` with its objects closed: the schema that is enforced."""
    shown: Document
    """``source`` with ``additionalProperties: false`` added where that is enforced."""
    names: frozenset[str]
    """All member names in the schema: only these occur in paths of issues."""
    _written: Graph
    """The sub-schemas of ``source``."""
    _graph: Graph
    """The sub-schemas of ``closed``."""
    _load: int | None
    """The steps that judging one value may take; None if it depends on the value."""
    _engine: SchemaEngine
    """Judges values by ``closed``."""
    _as_written: SchemaEngine | None
    """Judges values by ``source``; None if ``closed`` suffices."""
    _explainer: Explainer
    """Explains the faults of a value."""
    live: LiveSchema
    """Checks a value while it is being written."""
    _how: dict[str, Any]
    """The keywords that the schema was compiled with."""
    unheld: tuple[str, ...] = ()
    """The rules of ``source`` that are not enforced, in words; usually empty."""
    parts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values derived from parts of the schema, by place."""

    def __reduce__(self) -> tuple[object, ...]:
        # compiled again when unpickled: an engine cannot be pickled, and parts are found by
        # identity
        if not self._how:
            return Schema.unchecked, (self.shown, *self.unheld, self.source)

        return partial(Schema.compile, **self._how), (self.source,)

    @classmethod
    def unchecked(cls, shown: Any, why: str, enforced: Document) -> Schema:
        """Return a schema that enforces ``enforced``, while the model sees ``shown``.

        ``why`` says why ``shown`` cannot be enforced.
        """
        admits = cls.compile(enforced, extra="schema")
        return replace(admits, shown=shown, unheld=(why,), _how={})

    @property
    def asserts_formats(self) -> bool:
        """Whether ``format`` is enforced."""
        return self._how.get("formats") == "assert"

    @property
    def is_unchecked(self) -> bool:
        """Whether values are not checked against :attr:`shown`, because it cannot be enforced."""
        return not self._how

    @classmethod
    def compile(
        cls,
        document: object,
        *,
        extra: Extra = "forbid",
        formats: Formats = "assert",
        root_closed: bool = True,
        unicode_patterns: bool = False,
    ) -> Schema:
        r"""Compile a JSON Schema of draft 2020-12, 2019-09, or 07 to 03; the default is 2020-12.

        - ``extra="forbid"`` closes objects that list properties and do not mention others; with
          ``root_closed`` the root is always closed. ``"schema"`` enforces the schema as written.
        - ``formats="annotate"`` does not enforce ``format``.
        - ``unicode_patterns`` reads ``\w`` in patterns like pydantic instead of JSON Schema.

        A pattern that cannot be matched in linear time is not enforced; ``unheld`` lists it.

        Raises ContractError, with the place as ``path``, if the document is not a schema, does not
        fit its metaschema, has a reference to another document, an invalid pattern, or rules that
        could take unbounded or exponential work.
        """
        source = modern(read_document(document))
        engine_type().refuse_malformed(upgraded(source))
        how = {
            "extra": extra,
            "formats": formats,
            "root_closed": root_closed,
            "unicode_patterns": unicode_patterns,
        }
        try:
            return cls._compiled(source, Linear(source), how)
        except ContractError:
            linear = with_linear_patterns(source)
            if linear.document == source:
                raise
            return cls._compiled(source, linear, how)

    @classmethod
    def _compiled(cls, source: Document, linear: Linear, how: JSONObject) -> Schema:
        """Compile a schema whose patterns are already in the syntax of the engine."""
        extra = how["extra"]
        asserts = how["formats"] == "assert"
        document = linear.document
        written = Graph(document)
        if how["unicode_patterns"] and any("pattern" in node.schema for node in written.nodes):
            document = with_unicode_patterns(document)
            written = Graph(document)

        load = load_of(written)

        closed = written
        shown = source
        if extra == "forbid":
            try:
                closed = closed_graph(document, root_closed=how["root_closed"])
            except (AttributeError, TypeError) as error:
                # in a part that the metaschema does not check; the engine reports what is wrong
                engine_for(document, formats=asserts)
                raise ContractError(
                    "the schema is malformed in a part that only a reference reaches"
                ) from error

            load = load_of(closed)
            shown = shown_document(source, closed)

        engine = engine_for(closed.document, formats=asserts)
        # Closing the branches of a oneOf can turn two fitting branches into one, so the schema is
        # also enforced as written.
        chooses = extra == "forbid" and any("oneOf" in node.schema for node in written.nodes)
        as_written = engine_for(upgraded(document), formats=False) if chooses else None
        names = member_names(written)
        parts = SchemaParts(closed, engine)
        return cls(
            source=source,
            closed=closed.document,
            shown=shown,
            names=names,
            _written=written,
            _graph=closed,
            _load=load,
            _engine=engine,
            _as_written=as_written,
            _explainer=Explainer(parts, names),
            live=LiveSchema(parts),
            _how=how,
            unheld=linear.unheld,
        )

    def require_example(
        self, what: str, kinds: Kinds = KINDS, *, is_strangers: bool = False
    ) -> None:
        """Raise ContractError if certainly no value of ``kinds`` fits the schema.

        ``what`` names the declaration. If no example could be built, or none with a value at some
        described place, a ContractWarning lists the places; this proves nothing, because examples
        are built by simple means. With ``is_strangers`` a schema without an example is rejected,
        too: it is safer not to enforce it.
        """
        work = Work()
        full = islice(self._made(kinds, work, full=True), 1)
        if any(map(self._fits, full)):
            return

        enforced = upgraded(self.closed)
        is_unknown = self._load is None and not self._engine.remembers
        if enforced is not self.closed:  # in the older draft the newer keywords mean nothing
            is_unknown |= any(not NEWER.isdisjoint(node.schema) for node in self._graph.nodes)
        if is_unknown:
            return

        how = self._how | {"extra": "schema", "unicode_patterns": False}
        try:
            loose = self._compiled(enforced, Linear(simplified(enforced)), how)
        except ContractError:
            return  # a reference points into a part that an older draft spells differently

        loose.require_possible(what, kinds, work, is_strangers=is_strangers)

    def require_possible(self, what: str, kinds: Kinds, work: Work, *, is_strangers: bool) -> None:
        """Raise or warn like :meth:`require_example`, for a schema without undecidable rules."""
        root = self._graph.root
        if root is None:
            return  # a boolean schema needs no example

        table = KindTable(SchemaParts(self._graph, self._engine), root, kinds)
        table.require(root, what)

        certain = table.reasons()
        faults = [f"{at}: {words}" for at, words in certain] or self._faults(kinds, work)
        is_missing = not self._has_example("", kinds, work)
        part = what if is_missing else f"a part of {what}"
        message = f"no example of {part} could be built; possibly no value fits it"
        if certain and not is_missing:
            message = f"no value can ever fit {part}"

        message = "; ".join([message, *faults[:MAX_SHOWN]])
        if is_missing and is_strangers:
            raise ContractError(message)
        if is_missing or faults:
            warn_of_declaration(message)

    def _faults(self, kinds: Kinds, work: Work) -> list[str]:
        """Return the faults of a full example at the places where no example fits."""
        full = islice(self._made(kinds, work, full=True), 1)
        issues = {each.path: each for value in full for each in self.check(value)[:MAX_TRIED]}
        left = (each for path, each in issues.items() if not self._has_example(path, kinds, work))
        return [f"{each.path}: {each.message}".removeprefix(": ") for each in left]

    def _has_example(self, path: str, kinds: Kinds, work: Work) -> bool:
        """Return whether an example has a value at a place; true if no work is left to find one."""
        place = tuple(pointer_tokens(path))
        return any(map(self._fits, self._made(kinds, work, (place,)))) or not work.afford(1)

    def _made(
        self, kinds: Kinds, work: Work, wanted: Places = (), *, full: bool = False
    ) -> Iterator[JSON]:
        """Yield small instances of ``kinds`` with values at ``wanted`` places; not all may fit."""
        kind = next(iter(kinds)) if len(kinds) == 1 else ""
        for value in proposals(self._written.root, wanted, full=full, kind=kind, work=work):
            if json_type(value) in kinds and all(contains(value, place) for place in wanted):
                yield value

    def _fits(self, value: JSON) -> bool:
        work = Work()
        try:
            if self._is_too_much(value, work) or not self._engine.is_valid(value, work):
                return False
            return self._as_written is None or self._as_written.is_valid(value, work)
        except (Spent, ValueError, TypeError, OverflowError, RecursionError):
            return False

    def check(
        self,
        value: JSON,
        *,
        at: str = "",
        place: str = "args",
        work: Work | None = None,
        built: bool = False,
    ) -> tuple[Issue, ...]:
        """Return the faults of a value, at most 32; an empty tuple if it is valid.

        It never raises, and never coerces. ``10.0`` is an integer (JSON Schema 2020-12 section
        4.2.3), ``true`` is not a number.

        - ``at``: JSON Pointer to the value in the reply.
        - ``place``: the first part of the issues' codes.
        - ``work``: the work that the whole reply may still take; None for that of one reply. If it
          is used up, the last issue is ``<place>.unexamined``.
        - ``built``: whether pydantic will read the value next; a value for which that takes too
          long is ``<place>.too_complex``.
        """
        work = Work() if work is None else work
        before = work.taken
        try:
            if self._is_too_much(value, work):
                return self._too_complex(value, at, place, SIZE)
            if not self._engine.is_valid(value, work):
                return self._explained(value, at, place, work, before)
            if built and self.is_too_much_to_build(value, work):
                return (rule_issue(place, SchemaRule.TOO_COMPLEX, at, BUILT),)
            if self._as_written is None or self._as_written.is_valid(value, work):
                return ()

            rule = SchemaRule.ONE_OF
        except Spent:
            return self._too_complex(value, at, place, RULES)
        except (ValueError, TypeError, OverflowError, RecursionError):
            # not JSON, or too deep for the engine
            rule = SchemaRule.UNREADABLE

        return (rule_issue(place, rule, at),)

    def _explained(
        self, value: JSON, at: str, place: str, work: Work, before: int
    ) -> tuple[Issue, ...]:
        """Return the faults of a value, or the part of it that took most of the work.

        ``before`` is the work that other values had taken.
        """
        issues = self._explainer.issues(value, work, at=at, place=place)
        is_unnamed = issues[0].code == f"{place}.{SchemaRule.UNEXAMINED}"
        if is_unnamed and work.taken - before > work.limit // 2:
            return self._too_complex(value, at, place, SIZE)

        return issues

    def _too_complex(self, value: JSON, at: str, place: str, otherwise: str) -> tuple[Issue, ...]:
        """Return the issue for the part of a value that is too much work for the engine."""
        found = heaviest(self._graph, value, otherwise)
        path = masked_pointer(at, found.path, self.names)
        return (rule_issue(place, SchemaRule.TOO_COMPLEX, path, found.words),)

    def home_of(self, name: str, at: str) -> str:
        """Return words for the place in a value at ``at`` where a key belongs; empty if unknown."""
        return self._explainer.home_of(name, at)

    def part(self, path: str) -> JSON:
        """Return the sub-schema, in its shown form, for the value at a JSON Pointer.

        It is the whole schema if the sub-schema depends on the value.
        """
        node = governing_node(self._written, path)
        if node is None:
            return self.shown
        if node.pointer is None:
            return node.schema

        part: JSON = at_pointer(self.shown, pointer_tokens(node.pointer))
        return part

    def alone(self, path: str) -> JSONObject | None:
        """Return :meth:`part` with the definitions that it refers to.

        None if it is the whole schema or a boolean, or if it has other references.
        """
        part = self.part(path)
        if part is self.shown or not isinstance(part, dict):
            return None
        if not isinstance(self.shown, dict) or "$id" in self.shown:
            return None

        needed = definitions_of(part, self.shown)
        return None if needed is None else part | needed

    def example(self) -> JSON | None:
        """Return a small valid value, or None if none was found."""
        return next(self.examples(), None)

    def examples(self, wanted: Iterable[str] = ()) -> Iterator[JSON]:
        """Return small valid values that have a value at each of the ``wanted`` places.

        The places are JSON Pointers, in which ``*`` stands for any member. An item after the
        eighth is shown as the first item.
        """
        places = tuple(tuple(pointer_tokens(path)) for path in wanted)
        return filter(self._fits, self._made(KINDS, Work(), places))

    def _is_too_much(self, value: JSON, work: Work) -> bool:
        """Return whether judging a value may take too long: it is large, with many alternatives."""
        if self._load is None and not self._engine.remembers:
            return judgements_of(self._graph, value) > MAX_STEPS

        load = len(self._graph.nodes) if self._load is None else self._load
        beyond = beyond_judgements(self._engine.costs, value)
        if load <= FREE_LOAD and not beyond:
            return False

        judgements = (size_of(value, MAX_JUDGEMENTS // load + 1) + beyond) * load
        return judgements > MAX_JUDGEMENTS or not work.afford(judgements // JUDGED_PER_STEP)

    def is_too_much_to_build(self, value: JSON, work: Work) -> bool:
        """Return whether pydantic may take too long to read a value.

        With nested unions that depends on the depth of the value.
        """
        if self._engine.costs.of_keys and not work.afford(colliding_units(value) // UNIT_STEPS):
            return True
        if self._load is not None and self._load <= FREE_BUILT:
            return False

        if self._load is not None:
            most = MAX_WORK * BUILT_PER_STEP // self._load + 1
            judgements = size_of(value, most, scalars=False) * self._load
            if work.afford(judgements // BUILT_PER_STEP):
                return False
            if not any("discriminator" in node.schema for node in self._graph.nodes):
                return True

        return not work.afford(judgements_of(self._graph, value, built=True) // BUILT_PER_STEP)
