"""From pydantic's core schema of a type to what holds its values to their JSON.

pydantic widens, rounds and merges. So a second validator, the *probe*, is made without the user's
code (but for discriminators of unions). What it makes of JSON is compared with that JSON, part by
part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeAlias
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema

from strictreply.contract._fidelity.comparing import (
    Comparison,
    Items,
    JsonText,
    Keyed,
    NamedMembers,
    Part,
    Reference,
    Risk,
    Root,
    Scalar,
    Union,
)
from strictreply.contract._fidelity.spellings import SPELLINGS, encoded, one_of, text_of_bytes
from strictreply.reading._decoding import masked_pointer
from strictreply.schema._explaining import rule_issue
from strictreply.schema._vocabulary import SchemaRule
from strictreply.values._issues import Category, Issue, quote
from strictreply.values._limits import JSON, Spent, Work

# pydantic's; its TypedDicts differ between the versions of pydantic that we take
CoreSchema: TypeAlias = Any
# the last part of an issue's code, behind ``args.`` or ``answer.``
NOT_REPRESENTABLE = "not_representable"
# how many places are compared, or branches tried, in one step of a reply's work
COMPARED_PER_STEP = 12

# With all digits made alike, one search finds whether there are as many in a row as 2**53 + 1 has:
# below it every integer is a float.
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * len(str(2**53 + 1))


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How values of one type are held to their JSON; ``part`` is None when nothing can differ."""

    part: Part | None
    probe: SchemaValidator | None
    risk: Risk

    def issues(
        self,
        judged: JSON,
        text: bytes,
        *,
        at: str,
        names: Collection[str],
        place: str,
        work: Work | None = None,
    ) -> tuple[Issue, ...]:
        """Report where the value made of ``judged`` would not say the same.

        ``text`` spells ``judged`` as JSON.
        """
        if self.part is None or self.probe is None:
            return ()

        floor = Risk.NONE if _LONG in text.translate(_ALIKE) else Risk.LONG_NUMBERS
        if self.risk <= floor:
            return ()

        try:
            value = self.probe.validate_json(text)
        except ValidationError:
            # the user's code made something of it that its type alone would refuse
            return ()

        work = Work() if work is None else work
        run = Comparison(floor, Work((work.limit - work.taken) * COMPARED_PER_STEP))
        try:
            self.part(value, judged, run)
        except Spent:
            return (rule_issue(place, SchemaRule.TOO_COMPLEX, at),)
        finally:
            work.afford(run.work.taken // COMPARED_PER_STEP)

        report = partial(Issue, f"{place}.{NOT_REPRESENTABLE}", Category.FORMAT_ERROR)
        return tuple(
            report(masked_pointer(at, steps, names), words, "", quote(found))
            for steps, words, found in run.found
        )


_KNOWN: WeakKeyDictionary[TypeAdapter[Any], Fidelity] = WeakKeyDictionary()


def fidelity_of(adapter: TypeAdapter[Any]) -> Fidelity:
    """Read how values of an adapter's type are held to their JSON, once for each adapter."""
    if adapter not in _KNOWN:
        reader = Reader()
        probe, part = reader.read(adapter.core_schema)
        known = Fidelity(None, None, Risk.NONE)

        # Some schemas of somebody's own cannot do without the code that was taken out of them.
        with suppress(SchemaError):
            known = Fidelity(part, SchemaValidator(probe), reader.risk) if reader.risk else known

        _KNOWN[adapter] = known

    return _KNOWN[adapter]


class _Made:
    """What the probe makes of a model or a dataclass: its members, and no code."""

    __slots__ = (
        "__dict__",
        "__pydantic_extra__",
        "__pydantic_fields_set__",
        "__pydantic_private__",
    )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(frozenset(vars(self).items()))


# A schema of the probe, and the part that its values are held to: None for what is the user's own.
Read: TypeAlias = tuple[CoreSchema, Part | None]
_THEIRS: Read = (core_schema.any_schema(), None)


@dataclass(slots=True)
class Reader:
    """One reading of a core schema; ``risk`` is the greatest of its places."""

    risk: Risk = Risk.NONE
    _parts: dict[str, Part | None] = field(default_factory=dict[str, Part | None])
    _config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _key: bool = False

    def read(self, schema: CoreSchema) -> Read:
        """Read a schema by its kind, or as the user's own when nothing here knows the kind."""
        outer = self._config
        self._config = schema.get("config") or self._config
        probe, part = self._METHODS.get(schema["type"], Reader._scalar)(self, schema)
        self._config = outer

        if "ref" in schema:
            self._parts[schema["ref"]] = part

            if probe.get("ref") != schema["ref"]:
                inner = {"type": "chain", "steps": [probe]} if "ref" in probe else probe
                probe = {**inner, "ref": schema["ref"]}

        return probe, part

    def _scalar(self, schema: CoreSchema) -> Read:
        kind: str = schema["type"]
        spelling: Scalar | None

        if kind == "bytes":
            spelling = text_of_bytes(self._config.get("val_json_bytes", "utf8"))
        elif kind == "literal":
            spelling = one_of(schema["expected"])
        elif kind == "enum":
            # one with a method of its own for values that no member has is the user's own
            spelling = None if "missing" in schema else one_of(schema["members"])
        else:
            names = ("strip_whitespace", "to_lower", "to_upper")
            changing = [schema.get(name) or self._config.get(f"str_{name}") for name in names]
            changing += [held.get("coerce_numbers_to_str") for held in (schema, self._config)]
            spelling = SPELLINGS.get("own-str" if kind == "str" and any(changing) else kind)

        return schema, None if spelling is None else self._held(spelling)

    def _held(self, spelling: Scalar) -> Part:
        if self._key and spelling is not SPELLINGS["str"]:
            spelling = spelling.as_key()

        self.risk = max(self.risk, spelling.risk)
        return spelling

    def _definitions(self, schema: CoreSchema) -> Read:
        defined = [self.read(definition)[0] for definition in schema["definitions"]]
        return self._inside(schema, type="definitions", definitions=defined)

    def _inside(self, schema: CoreSchema, **probe: Any) -> Read:
        inner, part = self.read(schema["schema"])
        return {**(probe or schema), "schema": inner}, part

    def _reference(self, schema: CoreSchema) -> Read:
        return schema, Reference(risk=Risk.ALWAYS, name=schema["schema_ref"], parts=self._parts)

    def _after(self, schema: CoreSchema) -> Read:
        unchanged: dict[str, str | Callable[[Any], Any]] = {
            "type": "no-info",
            "function": lambda value: value,
        }
        probe, part = self._inside(schema, type="function-after", function=unchanged)
        codec = encoded(schema["function"]["function"])
        return probe, self._held(codec) if codec else part

    def _delegated(self, schema: CoreSchema) -> Read:
        """Read what hands on to an inner schema, where no code of the user's comes between."""
        match schema["type"]:
            case "function-wrap" if _is_own(schema):
                handing = {"type": "no-info", "function": _handled}
                return self._inside(schema, type="function-wrap", function=handing)
            case "function-plain" if _is_own(schema):
                return schema, self._held(SPELLINGS["opaque"])
            case "default" if schema.get("on_error", "raise") == "raise":
                return self._inside(schema, type="default", default=None)
            case "chain":
                probe, part = self.read(schema["steps"][0])
                return {"type": "chain", "steps": [probe]}, part
            case "lax-or-strict":
                lax = schema["lax_schema"]
                is_code = lax["type"] == "function-plain"
                return self.read(schema["strict_schema"] if is_code else lax)
            case "json-or-python":
                return self.read(schema["json_schema"])
            case "typed-dict":
                return self._object(schema, dict)
            case _:
                return _THEIRS

    def _json(self, schema: CoreSchema) -> Read:
        probe, part = self.read(schema.get("schema", core_schema.any_schema()))
        self.risk = Risk.ALWAYS
        return {"type": "json", "schema": probe}, JsonText(risk=Risk.ALWAYS, inner=part)

    def _union(self, schema: CoreSchema) -> Read:
        """Read a union.

        Where a tag or the types of JSON tell the branches apart, the right one is chosen; all else
        is compared.
        """
        listed = schema["choices"]
        if schema["type"] == "tagged-union":
            # a choice that is not a schema names another tag
            tagged = [(tag, one) for tag, one in listed.items() if isinstance(one, Mapping)]
            read = {tag: self.read(choice) for tag, choice in tagged}
            probes = {tag: inner for tag, (inner, _) in read.items()}
            probe = {**schema, "choices": {**listed, **probes}}
            clear = not callable(schema["discriminator"])
        else:
            choices = [choice[0] if isinstance(choice, tuple) else choice for choice in listed]
            read = dict(enumerate(map(self.read, choices)))
            probe = {**schema, "choices": [inner for inner, _ in read.values()]}
            kinds = {choice["type"] for choice in choices}
            is_smart = schema.get("mode", "smart") == "smart"
            clear = is_smart and any(kinds <= apart for apart in _APART)

        branches = tuple(part for _, part in read.values() if part is not None)
        if len(branches) < len(read):
            return probe, None

        risk = max(part.risk for part in branches) if clear else Risk.ALWAYS
        self.risk = self.risk if clear else Risk.ALWAYS
        return probe, Union(risk=risk, branches=branches)

    def _array(self, schema: CoreSchema) -> Read:
        """Read an array.

        A set keeps its items in a list, so that each is compared, and an iterator is read at once.
        """
        probe, part = self.read(schema.get("items_schema", core_schema.any_schema()))
        bounds = {name: schema[name] for name in ("min_length", "max_length") if name in schema}
        distinct = schema["type"] in ("set", "frozenset")
        risk = _risk(part)

        if distinct and not isinstance(part, Scalar) and probe is not _THEIRS[0]:
            # it may merge items
            risk = Risk.ALWAYS
            self.risk = risk

        made = {"type": "list", "items_schema": probe, **bounds}
        return made, Items(risk=risk, kind=list, rest=part, distinct=distinct)

    def _tuple(self, schema: CoreSchema) -> Read:
        read = [self.read(item) for item in schema["items_schema"]]
        parts = tuple(part for _, part in read)

        variadic = schema.get("variadic_item_index")
        if variadic is not None and variadic + 1 < len(parts):
            # *args between others: no annotation makes it
            return _THEIRS

        rest = None if variadic is None else parts[variadic]
        probe = {**schema, "items_schema": [probe for probe, _ in read]}
        return probe, Items(risk=_risk(*parts), kind=tuple, first=parts[:variadic], rest=rest)

    def _named_tuple(self, schema: CoreSchema) -> Read:
        """Read a named tuple: pydantic before 2.14 calls its class with arguments."""
        members = schema.get("fields")
        if not members:
            members = schema.get("arguments_schema", {}).get("arguments_schema", ())

        return self._tuple({"type": "tuple", "items_schema": [part["schema"] for part in members]})

    def _dict(self, schema: CoreSchema) -> Read:
        outer = self._key
        self._key = True
        keys, key = self.read(schema.get("keys_schema", core_schema.any_schema()))
        self._key = outer
        values, part = self.read(schema.get("values_schema", core_schema.any_schema()))
        held = Keyed(risk=_risk(key, part), keys=key, values=part)
        return core_schema.dict_schema(keys, values), held

    def _model(self, schema: CoreSchema) -> Read:
        made = type("_Made", (_Made,), {"__slots__": ()})
        config = schema.get("config") or {}
        bare: CoreSchema = {"type": schema["type"], "cls": made, "config": config}

        if schema.get("root_model"):
            probe, part = self.read(schema["schema"])
            root = None if part is None else Root(risk=part.risk, kind=made, inner=part)
            return bare | {"schema": probe, "root_model": True}, root

        inner = schema["schema"]
        if inner["type"] not in ("model-fields", "dataclass-args"):
            # a validator around all members is the user's own
            return _THEIRS

        probe, part = self._object(inner, made)
        if schema["type"] == "dataclass":
            bare |= {"fields": schema["fields"], "post_init": False}

        return bare | {"schema": probe}, part

    def _object(self, schema: CoreSchema, made: type) -> Read:
        listed = schema["fields"]
        fields: dict[str, CoreSchema] = listed
        if type(listed) is not dict:
            fields = {each["name"]: each for each in listed}

        # by key of an object: the attribute it makes, and its part; an alias of one member may be
        # the name of another
        own: dict[str, tuple[str, Part | None]] = {}
        aliased: dict[str, tuple[str, Part | None]] = {}
        read: dict[str, CoreSchema] = {}

        for name, declared in fields.items():
            inner, part = self.read(declared["schema"])
            read[name] = {**declared, "schema": inner}
            own[name] = name, part
            alias: Any = declared.get("validation_alias") or []  # a name, a path, or several paths
            path: Any = [alias] if isinstance(alias, str) else alias
            paths: list[list[str]] = path if path and isinstance(path[0], list) else [path]
            aliased |= {path[0]: (name, part) for path in paths if len(path) == 1}

        probe = {**schema, "fields": read if fields is listed else list(read.values())}
        probe.pop("computed_fields", None)

        extras = None
        if "extras_schema" in schema:
            probe["extras_schema"], extras = self.read(schema["extras_schema"])

        named = own | aliased
        known = frozenset(named)
        parts = tuple(
            (name, attribute, part) for name, (attribute, part) in named.items() if part is not None
        )
        risk = _risk(extras, *(part for _, _, part in parts))
        held = NamedMembers(risk=risk, kind=made, parts=parts, known=known, extras=extras)
        return probe, held

    _METHODS: ClassVar[Mapping[str, Callable[..., Read]]] = {
        "definitions": _definitions,
        "definition-ref": _reference,
        "function-after": _after,
        "function-before": lambda *_: _THEIRS,
        **dict.fromkeys(("nullable", "custom-error"), _inside),
        **dict.fromkeys(
            ("function-wrap", "function-plain", "default", "chain", "typed-dict"), _delegated
        ),
        **dict.fromkeys(("lax-or-strict", "json-or-python"), _delegated),
        "json": _json,
        **dict.fromkeys(("union", "tagged-union"), _union),
        **dict.fromkeys(("list", "deque", "set", "frozenset", "generator"), _array),
        "tuple": _tuple,
        **dict.fromkeys(("named-tuple", "call"), _named_tuple),
        **dict.fromkeys(("dict", "frozendict", "ordered-dict", "counter"), _dict),
        **dict.fromkeys(("model", "dataclass"), _model),
    }


def _is_own(schema: CoreSchema) -> bool:
    module = str(getattr(schema["function"]["function"], "__module__", ""))
    return module.startswith(("pydantic.", "strictreply."))


def _handled(value: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(value)


def _risk(*parts: Part | None) -> Risk:
    return max((part.risk for part in parts if part is not None), default=Risk.NONE)


# Types that pydantic's smart mode never takes for each other: JSON has a type of its own for each.
_APART = (frozenset({"none", "str", "int", "float"}), frozenset({"none", "str", "bool"}))
