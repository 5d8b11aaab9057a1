"""A schema, compiled once: what the user wrote, what is enforced, and the checks of values."""

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

# the judgements of one place that any value within the caps may cost, so that it need not be
# counted
FREE_LOAD = 64
# of one value by one schema in one check; about 60 ms
MAX_JUDGEMENTS = FREE_LOAD * DEFAULT_LIMITS.nodes
# The judgements that are one step of a reply's work, which its calls share: half of it is left for
# explaining.
JUDGED_PER_STEP = 2 * MAX_JUDGEMENTS // MAX_WORK
# for pydantic, which tries each branch of a union anew at every level and fills in its defaults
BUILT_PER_STEP = 20
MAX_TRIED = 8  # faults of an example of which it is tried whether another example is without them
MAX_SHOWN = 5  # places of one warning
FREE_BUILT = 4  # the judgements of one place that pydantic may make of any value within the caps


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schema:
    """A JSON Schema ready to judge values, in bounded time and without any network or disk.

    :meth:`compile` makes one.
    """

    source: Document
    """The document as the user wrote it, with older spellings made modern."""
    closed: Document
    """``source`` with its objects closed, which is enforced."""
    shown: Document
    """``source`` with ``additionalProperties: false`` where that is enforced."""
    names: frozenset[str]
    """Every member name of the schema: paths of issues are made of these only."""
    _written: Graph
    """The sub-schemas of ``source``."""
    _graph: Graph
    """The sub-schemas of ``closed``."""
    _load: int | None
    """The steps that judging one value may take; None where that depends on the value."""
    _engine: SchemaEngine
    """Judges values by ``closed``."""
    _as_written: SchemaEngine | None
    """Judges values by ``source``; None where that is the same."""
    _explainer: Explainer
    """Explains the faults of a value."""
    live: LiveSchema
    """Follows a value while it is written."""
    _how: dict[str, Any]
    """The keywords that the schema was compiled with."""
    unheld: tuple[str, ...] = ()
    """What of ``source`` is not enforced, seldom anything."""
    parts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values made of the schema's parts, by place."""

    def __reduce__(self) -> tuple[object, ...]:
        # compiled anew in the process that unpickles it: an engine is not data, and parts are known
        # by their identity
        if not self._how:
            return Schema.unchecked, (self.shown, *self.unheld, self.source)

        return partial(Schema.compile, **self._how), (self.source,)

    @classmethod
    def unchecked(cls, shown: Any, why: str, enforced: Document) -> Schema:
        """Return a schema that holds values to ``enforced``, though a model is ``shown`` another.

        ``why`` says what is wrong with ``shown``.
        """
        admits = cls.compile(enforced, extra="schema")
        return replace(admits, shown=shown, unheld=(why,), _how={})

    @property
    def asserts_formats(self) -> bool:
        """Whether a ``format`` is a rule, and no remark."""
        return self._how.get("formats") == "assert"

    @property
    def is_unchecked(self) -> bool:
        """Whether it is another schema than :attr:`shown` that values are held to."""
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
        r"""Compile a schema of 2020-12, 2019-09, or a draft from 07 down to 03.

        A schema that does not declare its draft is of 2020-12. ``extra="forbid"`` closes objects
        that list properties and say nothing about others, and with ``root_closed`` the root in any
        case; ``"schema"`` enforces the schema as written. ``formats="annotate"`` makes ``format`` a
        remark. ``unicode_patterns`` reads ``\w`` of patterns as pydantic does, not as JSON Schema.
        What of a pattern cannot be matched in linear time is left to ``unheld``. Raises
        ContractError, with the place as ``path``, for a document that is not a schema, does not fit
        its metaschema, refers to what is not embedded, holds an invalid pattern, or would be
        endless or exploding work.
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
        """Compile a schema whose patterns are written for the engine."""
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
                # in a place that the metaschema holds to no form; the engine says what is wrong
                engine_for(document, formats=asserts)
                raise ContractError(
                    "the schema is malformed in a place to which only a reference leads"
                ) from error

            load = load_of(closed)
            shown = shown_document(source, closed)

        engine = engine_for(closed.document, formats=asserts)
        # Closing the branches of a oneOf can leave one fit where two were: the schema as written
        # has a say too.
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
        """Raise ContractError when it is certain that no value of ``kinds`` fits the schema.

        ``what`` names the declaration. Warns with ContractWarning, once and with the places, when
        no example of it, or with a value at a described place, could be built. That proves nothing,
        as what makes examples is small; a stranger's schema is refused for the former too: it is
        better not held to.
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
            return  # a reference leads into what an older draft spells otherwise

        loose.require_possible(what, kinds, work, is_strangers=is_strangers)

    def require_possible(self, what: str, kinds: Kinds, work: Work, *, is_strangers: bool) -> None:
        """Raise or warn as :meth:`require_example`, of a schema without undecided rules."""
        root = self._graph.root
        if root is None:
            return  # a boolean says what it means

        table = KindTable(SchemaParts(self._graph, self._engine), root, kinds)
        table.require(root, what)

        certain = table.reasons()
        faults = [f"{at}: {words}" for at, words in certain] or self._faults(kinds, work)
        is_missing = not self._has_example("", kinds, work)
        part = what if is_missing else f"a part of {what}"
        message = f"no example of {part} could be built; it may admit nothing"
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
        """Return whether an example has a value at a place, also where no work is left for one."""
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
        """Judge a value: return an empty tuple when it is valid, else its faults, at most 32.

        This never raises, and coerces nothing. ``at`` is the JSON Pointer of the value in what is
        reported on, ``place`` the first part of the issues' codes. ``work`` is what the whole reply
        may still cost; None means as much as a reply of its own. When it is used up, the last issue
        is ``<place>.unexamined``. ``built`` says that pydantic makes a typed value of it next: what
        would take that too long is ``<place>.too_complex``. ``10.0`` is an integer (JSON Schema
        2020-12 section 4.2.3), ``true`` is not a number.
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
            # not JSON, or deeper than the engine reads
            rule = SchemaRule.UNREADABLE

        return (rule_issue(place, rule, at),)

    def _explained(
        self, value: JSON, at: str, place: str, work: Work, before: int
    ) -> tuple[Issue, ...]:
        """Return the faults of a value; where none was found, what of it took most of the work.

        ``before`` is what was taken of the work by other values.
        """
        issues = self._explainer.issues(value, work, at=at, place=place)
        is_unnamed = issues[0].code == f"{place}.{SchemaRule.UNEXAMINED}"
        if is_unnamed and work.taken - before > work.limit // 2:
            return self._too_complex(value, at, place, SIZE)

        return issues

    def _too_complex(self, value: JSON, at: str, place: str, otherwise: str) -> tuple[Issue, ...]:
        """Say what of a value is too much work for the engine, and where it stands."""
        found = heaviest(self._graph, value, otherwise)
        path = masked_pointer(at, found.path, self.names)
        return (rule_issue(place, SchemaRule.TOO_COMPLEX, path, found.words),)

    def home_of(self, name: str, at: str) -> str:
        """Return the words for where in a value at ``at`` a key belongs.

        They are empty when its name is not known.
        """
        return self._explainer.home_of(name, at)

    def part(self, path: str) -> JSON:
        """Return the sub-schema, as shown, that governs a JSON Pointer.

        It is the whole schema where only an instance decides.
        """
        node = governing_node(self._written, path)
        if node is None:
            return self.shown
        if node.pointer is None:
            return node.schema

        part: JSON = at_pointer(self.shown, pointer_tokens(node.pointer))
        return part

    def alone(self, path: str) -> JSONObject | None:
        """Return :meth:`part` with the definitions it refers to.

        None for the whole schema, for a boolean, and for a part with other references.
        """
        part = self.part(path)
        if part is self.shown or not isinstance(part, dict):
            return None
        if not isinstance(self.shown, dict) or "$id" in self.shown:
            return None

        needed = definitions_of(part, self.shown)
        return None if needed is None else part | needed

    def example(self) -> JSON | None:
        """Return a small valid instance made from the schema, None when none was found."""
        return next(self.examples(), None)

    def examples(self, wanted: Iterable[str] = ()) -> Iterator[JSON]:
        """Return small valid instances that have a value at each of the ``wanted`` places.

        These are JSON Pointers, in which ``*`` stands for any member. Items keep their index up to
        7, later ones are shown as the first.
        """
        places = tuple(tuple(pointer_tokens(path)) for path in wanted)
        return filter(self._fits, self._made(KINDS, Work(), places))

    def _is_too_much(self, value: JSON, work: Work) -> bool:
        """Return whether judging a value may take too long.

        It does for a large value, under choices among very many forms.
        """
        if self._load is None and not self._engine.remembers:
            return judgements_of(self._graph, value) > MAX_STEPS

        load = len(self._graph.nodes) if self._load is None else self._load
        beyond = beyond_judgements(self._engine.costs, value)
        if load <= FREE_LOAD and not beyond:
            return False

        judgements = (size_of(value, MAX_JUDGEMENTS // load + 1) + beyond) * load
        return judgements > MAX_JUDGEMENTS or not work.afford(judgements // JUDGED_PER_STEP)

    def is_too_much_to_build(self, value: JSON, work: Work) -> bool:
        """Return whether making a typed value may take too long.

        With one union inside another, that depends on the depth of the value.
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
