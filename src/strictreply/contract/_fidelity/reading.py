"""From pydantic's core schema of a type to its parts, and to a validator without the user's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from pydantic_core import core_schema

from strictreply.contract._fidelity.parts import (
    Items,
    Keyed,
    Members,
    Nullable,
    Part,
    Reference,
    Risk,
    Root,
    Scalar,
    Text,
    Union,
)
from strictreply.contract._fidelity.spellings import KEY_WORDS, SPELLINGS, Spelling, encoded, one_of, text_of_bytes

Schema: TypeAlias = Any
"""A pydantic core schema; its TypedDicts differ between the versions of pydantic that we take."""

_OWN = ("pydantic.", "strictreply.")


class _Made:
    """What the probe makes of a model or a dataclass: its members, and no code."""

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(frozenset(vars(self).items()))


Read: TypeAlias = tuple[Schema, Part | None]
"""A schema of the probe, and what its values are held to: None for what is the user's own."""

_Named: TypeAlias = dict[str, tuple[str, Part | None]]
"""Which attribute each key of an object makes, and what is held there."""

_THEIRS: Read = (core_schema.any_schema(), None)


def _unchanged(value: Any, _: Any = None) -> Any:
    return value


def _handled(value: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(value)


@dataclass(slots=True)
class Reader:
    """One reading of a core schema; ``risk`` is the greatest of its places."""

    risk: Risk = Risk.NONE
    _parts: dict[str, Part | None] = field(default_factory=dict[str, Part | None])
    _config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _key: bool = False

    def read(self, schema: Schema) -> Read:
        """Read a schema: as its kind asks, or as the user's own when nothing here knows the kind."""
        kind = schema["type"]
        outer, self._config = self._config, schema.get("config") or self._config
        method = self._METHODS.get(kind)
        probe, part = method(self, schema) if method else self._scalar(schema)
        self._config = outer
        if "ref" in schema:
            self._parts[schema["ref"]] = part
            if probe.get("ref") != schema["ref"]:
                probe = {**(_chain(probe) if "ref" in probe else probe), "ref": schema["ref"]}
        return probe, part

    def _scalar(self, schema: Schema) -> Read:
        spelling = self._spelling(schema)
        return schema, None if spelling is None else self._held(spelling)

    def _held(self, spelling: Spelling) -> Part:
        """Hold a value to a spelling; keys are always compared, being text that is read as something else."""
        risk = Risk.ALWAYS if self._key and spelling is not SPELLINGS["str"] else Risk(spelling.risk)
        self.risk = max(self.risk, risk)
        words = KEY_WORDS.format(words=spelling.words) if self._key else spelling.words
        return Scalar(spelling.key if self._key else spelling.same, words, risk)

    def _spelling(self, schema: Schema) -> Spelling | None:
        """Choose how the value of a scalar schema is spelled."""
        match schema["type"]:
            case "str" if self._transforms(schema):
                return SPELLINGS["own-str"]
            case "bytes":
                return text_of_bytes(self._config.get("val_json_bytes", "utf8"))
            case "literal":
                return one_of(schema["expected"])
            case "enum" if "missing" not in schema:  # else its own method reads what is no member's value
                return one_of(schema["members"])
            case "enum":
                return None
            case kind:
                return SPELLINGS.get(kind)

    def _transforms(self, schema: Schema) -> bool:
        """Tell whether a text is changed as its declaration says."""
        own = ("strip_whitespace", "to_lower", "to_upper")
        configured = any(self._config.get(f"str_{name}") for name in own) or self._config.get("coerce_numbers_to_str")
        return bool(configured or schema.get("coerce_numbers_to_str")) or any(schema.get(name) for name in own)

    def _definitions(self, schema: Schema) -> Read:
        defined = [self.read(definition)[0] for definition in schema["definitions"]]
        probe, part = self.read(schema["schema"])
        return {"type": "definitions", "schema": probe, "definitions": defined}, part

    def _reference(self, schema: Schema) -> Read:
        return schema, Reference(schema["schema_ref"], self._parts)

    def _after(self, schema: Schema) -> Read:
        probe, part = self.read(schema["schema"])
        codec = encoded(schema["function"]["function"])
        unchanged = {"type": "no-info", "function": _unchanged}
        return {"type": "function-after", "function": unchanged, "schema": probe}, self._held(codec) if codec else part

    def _wrap(self, schema: Schema) -> Read:
        if not _is_own(schema):
            return _THEIRS
        probe, part = self.read(schema["schema"])
        handled = {"type": "no-info", "function": _handled}
        return {"type": "function-wrap", "function": handled, "schema": probe}, part

    def _plain(self, schema: Schema) -> Read:
        return (schema, self._held(SPELLINGS["opaque"])) if _is_own(schema) else _THEIRS

    def _theirs(self, _: Schema) -> Read:
        return _THEIRS

    def _default(self, schema: Schema) -> Read:
        if schema.get("on_error", "raise") != "raise":
            return _THEIRS
        probe, part = self.read(schema["schema"])
        return {"type": "default", "schema": probe, "default": None}, part

    def _nullable(self, schema: Schema) -> Read:
        probe, part = self.read(schema["schema"])
        return {**schema, "schema": probe}, None if part is None else Nullable(part, part.risk)

    def _inside(self, schema: Schema) -> Read:
        probe, part = self.read(schema["schema"])
        return {**schema, "schema": probe}, part

    def _first_step(self, schema: Schema) -> Read:
        probe, part = self.read(schema["steps"][0])
        return _chain(probe), part

    def _lax(self, schema: Schema) -> Read:
        lax = schema["lax_schema"]
        return self.read(schema["strict_schema"] if lax["type"] == "function-plain" else lax)

    def _from_json(self, schema: Schema) -> Read:
        return self.read(schema["json_schema"])

    def _json(self, schema: Schema) -> Read:
        probe, part = self.read(schema.get("schema", core_schema.any_schema()))
        self.risk = Risk.ALWAYS
        return {"type": "json", "schema": probe}, Text(part)

    def _union(self, schema: Schema) -> Read:
        """Read a union: what JSON types tell apart is chosen rightly, all else is compared."""
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        read = [self.read(choice) for choice in choices]
        kinds = {choice["type"] for choice in choices}
        clear = schema.get("mode", "smart") == "smart" and any(kinds <= apart for apart in _APART)
        return {**schema, "choices": [probe for probe, _ in read]}, self._chosen([part for _, part in read], clear)

    def _tagged(self, schema: Schema) -> Read:
        choices = {
            tag: self.read(choice) if isinstance(choice, Mapping) else (choice, None)
            for tag, choice in schema["choices"].items()
        }
        probe = {**schema, "choices": {tag: probe for tag, (probe, _) in choices.items()}}
        parts = [choices[tag][1] for tag, choice in schema["choices"].items() if isinstance(choice, Mapping)]
        return probe, self._chosen(parts, clear=not callable(schema["discriminator"]))

    def _chosen(self, parts: list[Part | None], clear: bool) -> Part | None:
        branches = tuple(part for part in parts if part is not None)
        if len(branches) < len(parts):
            return None
        risk = max(part.risk for part in branches) if clear else Risk.ALWAYS
        if not clear:
            self.risk = Risk.ALWAYS
        return Union(branches, risk)

    def _array(self, schema: Schema) -> Read:
        """Read an array; a set keeps its items in a list, so that each is compared, and an iterator is read at once."""
        probe, part = self.read(schema.get("items_schema", core_schema.any_schema()))
        bounds = {name: schema[name] for name in ("min_length", "max_length") if name in schema}
        distinct = schema["type"] in ("set", "frozenset")
        merges = distinct and not isinstance(part, Scalar) and probe is not _THEIRS[0]
        if merges:
            self.risk = Risk.ALWAYS
        risk = Risk.ALWAYS if merges else _risk(part)
        made = {"type": "list", "items_schema": probe, **bounds}
        return made, Items((), part, risk, list, distinct)

    def _tuple(self, schema: Schema) -> Read:
        read = [self.read(item) for item in schema["items_schema"]]
        variadic = schema.get("variadic_item_index")
        parts = [part for _, part in read]
        probe = {**schema, "items_schema": [probe for probe, _ in read]}
        rest = None if variadic is None else parts[variadic]
        if variadic is not None and variadic + 1 < len(parts):  # *args between others: no annotation makes it
            return _THEIRS
        return probe, Items(tuple(parts[:variadic]), rest, max(map(_risk, parts), default=Risk.NONE), tuple)

    def _named_tuple(self, schema: Schema) -> Read:
        """Read a named tuple: pydantic before 2.14 calls its class with arguments."""
        told = schema.get("fields") or schema.get("arguments_schema", {}).get("arguments_schema", ())
        read = [self.read(part["schema"]) for part in told]
        parts = tuple(part for _, part in read)
        probe = core_schema.tuple_schema([probe for probe, _ in read])
        return probe, Items(parts, None, max(map(_risk, parts), default=Risk.NONE), tuple)

    def _dict(self, schema: Schema) -> Read:
        """Read an object with keys of a type."""
        outer, self._key = self._key, True
        keys, key = self.read(schema.get("keys_schema", core_schema.any_schema()))
        self._key = outer
        values, part = self.read(schema.get("values_schema", core_schema.any_schema()))
        risk = max(_risk(key), _risk(part))
        return core_schema.dict_schema(keys, values), Keyed(key, part, risk)

    def _model(self, schema: Schema) -> Read:
        """Read a model or a dataclass: the probe makes its members without running its code."""
        made = type("_Made", (_Made,), {"__slots__": ()})
        bare: Schema = {"type": schema["type"], "cls": made, "config": schema.get("config") or {}}
        if schema.get("root_model"):
            probe, part = self.read(schema["schema"])
            return bare | {"schema": probe, "root_model": True}, None if part is None else Root(made, part, part.risk)
        inner = schema["schema"]
        if inner["type"] not in ("model-fields", "dataclass-args"):  # a validator around all members is the user's own
            return _THEIRS
        fields = {one["name"]: one for one in inner["fields"]} if schema["type"] == "dataclass" else inner["fields"]
        told, parts = self._fields(fields)
        extras, extra = self._extras(inner)
        probe = {**inner, "fields": list(told.values()) if schema["type"] == "dataclass" else told, **extras}
        probe.pop("computed_fields", None)
        own = {"fields": schema["fields"], "post_init": False} if schema["type"] == "dataclass" else {}
        return bare | own | {"schema": probe}, _members(made, parts, extra)

    def _typed_dict(self, schema: Schema) -> Read:
        told, parts = self._fields(schema["fields"])
        extras, extra = self._extras(schema)
        probe = {**schema, "fields": told, **extras}
        probe.pop("computed_fields", None)
        return probe, _members(dict, parts, extra)

    def _fields(self, fields: Mapping[str, Schema]) -> tuple[dict[str, Schema], _Named]:
        """Read named members: their schemas, and which key of the JSON makes which of them."""
        told: dict[str, Schema] = {}
        own: _Named = {}
        aliased: _Named = {}  # an alias of one member may be the name of another
        for name, declared in fields.items():
            probe, part = self.read(declared["schema"])
            told[name] = {**declared, "schema": probe}
            own[name] = name, part
            aliased |= dict.fromkeys(_aliases(declared.get("validation_alias")), (name, part))
        return told, own | aliased

    def _extras(self, schema: Schema) -> tuple[dict[str, Schema], Part | None]:
        if "extras_schema" not in schema:
            return {}, None
        probe, part = self.read(schema["extras_schema"])
        return {"extras_schema": probe}, part

    _METHODS: ClassVar[Mapping[str, Callable[..., Read]]] = {
        "definitions": _definitions,
        "definition-ref": _reference,
        "function-after": _after,
        "function-wrap": _wrap,
        "function-before": _theirs,
        "function-plain": _plain,
        "default": _default,
        "nullable": _nullable,
        "custom-error": _inside,
        "chain": _first_step,
        "lax-or-strict": _lax,
        "json-or-python": _from_json,
        "json": _json,
        "union": _union,
        "tagged-union": _tagged,
        **dict.fromkeys(("list", "deque", "set", "frozenset", "generator"), _array),
        "tuple": _tuple,
        **dict.fromkeys(("named-tuple", "call"), _named_tuple),
        **dict.fromkeys(("dict", "frozendict", "ordered-dict", "counter"), _dict),
        **dict.fromkeys(("model", "dataclass"), _model),
        "typed-dict": _typed_dict,
    }


def _is_own(schema: Schema) -> bool:
    """Tell whether a function validator is pydantic's, or one of ours that only hands on."""
    return str(getattr(schema["function"]["function"], "__module__", "")).startswith(_OWN)


def _risk(part: Part | None) -> Risk:
    return Risk.NONE if part is None else part.risk


def _members(kind: type, named: _Named, extras: Part | None) -> Members:
    parts = [(name, attribute, part) for name, (attribute, part) in named.items() if part is not None]
    risk = max([_risk(extras), *(part.risk for _, _, part in parts)])
    return Members(kind, tuple(parts), frozenset(named), extras, risk)


def _chain(schema: Schema) -> Schema:
    return {"type": "chain", "steps": [schema]}


def _aliases(alias: Any) -> tuple[str, ...]:
    """Name the keys of the JSON that make a member by an alias; what stands in deeper places is the user's own."""
    if isinstance(alias, str):
        return (alias,)
    paths: list[list[str]] = alias if alias and isinstance(alias[0], list) else [alias or []]
    return tuple(path[0] for path in paths if len(path) == 1)


_APART = (frozenset({"none", "str", "int", "float"}), frozenset({"none", "str", "bool"}))
"""Types that pydantic's smart mode never takes for each other: JSON has a type of its own for each."""
