"""Makes a probe, and the parts for the comparison, from pydantic's core schema of a type.

The probe is a validator without the user's code, except for discriminators of unions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias

from pydantic import ByteSize
from pydantic_core import PydanticOmit, PydanticUseDefault, SchemaValidator, core_schema

from strictreply.contract._fidelity.comparing import (
    ANYTHING,
    Comparer,
    Items,
    JsonText,
    Keyed,
    Reference,
    Risk,
    Row,
    Scalar,
)
from strictreply.contract._fidelity.documents import (
    CoreSchema,
    JsonDocument,
    inlined_root,
    paths_of,
)
from strictreply.contract._fidelity.members import Member, NamedMembers, Reshaped, Root
from strictreply.contract._fidelity.spellings import SPELLINGS, encoded, one_of, text_of_bytes
from strictreply.contract._fidelity.unions import Union
from strictreply.schema import Schema


class _Made:
    """The probe's object for a model or a dataclass: its members, without code."""

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


class _Row(tuple[Any, ...]):
    """The probe's object for a named tuple."""

    __slots__ = ()
    names: ClassVar[list[str]] = []

    def __new__(cls, *items: object, **named: object) -> Self:
        return super().__new__(cls, (*items, *(named[name] for name in cls.names[len(items) :])))


# A schema of the probe, and the part for its values; None if the user's code makes the value.
Read: TypeAlias = tuple[CoreSchema, Comparer | None]
_THEIRS: Read = (core_schema.any_schema(), None)


@dataclass(slots=True)
class SchemaReader:
    """One reading of a core schema."""

    loose: bool = False
    """Whether objects may be shown with members that belong to no field."""
    risk: Risk = Risk.NONE
    """The highest risk of its places."""
    guards: bool = False
    """Whether pydantic's own code reads a value."""
    _chooses: bool = False
    """Whether the branches of a union have to be distinguished."""
    _drops: bool = False
    """Whether an object drops unknown members."""
    _keeps: bool = False
    """Whether an object keeps unknown members."""
    _defined: list[CoreSchema] = field(default_factory=list[Any])
    """The definitions that the schema refers to."""
    _probes: list[CoreSchema] = field(default_factory=list[Any])
    """The probes of the definitions."""
    _parts: dict[str, Comparer | None] = field(default_factory=dict[str, Comparer | None])
    """The parts of the definitions, by reference."""
    _config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The configuration at the present place."""
    _key: bool = False
    """Whether the present place is the key of an object."""

    @property
    def is_closing(self) -> bool:
        """Whether pydantic chooses branches better if it must not drop members."""
        return self._chooses and self._drops and not self._keeps

    def read(self, schema: CoreSchema) -> Read:
        """Read a schema by its kind; an unknown kind is treated as the user's code."""
        outer = self._config
        self._config = schema.get("config") or self._config
        probe, part = self._METHODS.get(schema["type"], SchemaReader._scalar)(self, schema)
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
        elif kind == "any":
            return schema, ANYTHING
        elif kind == "enum":
            # with its own method for values of no member, the user's code makes the value
            spelling = None if "missing" in schema else one_of(schema["members"])
        else:
            names = ("strip_whitespace", "to_lower", "to_upper")
            changing = [schema.get(name) or self._config.get(f"str_{name}") for name in names]
            changing += [held.get("coerce_numbers_to_str") for held in (schema, self._config)]
            spelling = SPELLINGS.get("own-str" if kind == "str" and any(changing) else kind)

        return schema, None if spelling is None else self._held(spelling)

    def _held(self, spelling: Scalar) -> Comparer:
        if self._key and spelling is not SPELLINGS["str"]:
            spelling = spelling.as_key()

        self.risk = max(self.risk, spelling.risk)
        return spelling

    def _definitions(self, schema: CoreSchema) -> Read:
        self._defined += schema["definitions"]
        defined = self._probes
        defined += [self.read(definition)[0] for definition in schema["definitions"]]
        return self._inside(schema, type="definitions", definitions=defined)

    def _inside(self, schema: CoreSchema, **probe: object) -> Read:
        inner, part = self.read(schema["schema"])
        return {**(probe or schema), "schema": inner}, part

    def _reference(self, schema: CoreSchema) -> Read:
        return schema, Reference(risk=Risk.ALWAYS, name=schema["schema_ref"], parts=self._parts)

    def _after(self, schema: CoreSchema) -> Read:
        function = schema["function"]["function"]
        spelling = encoded(function) or SPELLINGS.get(_reads_text(function))
        if spelling is not None:
            # pydantic's function, which makes a value from its text
            probe, _ = self.read(schema["schema"])
            self.guards = True
            made = {**schema, "schema": probe, "function": _guarded(schema)}
            return made, self._held(spelling)

        unchanged: dict[str, str | Callable[[Any], Any]] = {
            "type": "no-info",
            "function": lambda value: value,
        }
        probe, part = self._inside(schema, type="function-after", function=unchanged)
        if isinstance(part, Scalar):
            part = replace(part, keeps=False)
        elif part is not None and not _is_own(schema):
            part = replace(part, changed=True)

        return probe, part

    def _theirs(self, schema: CoreSchema) -> Read:
        """Read a place that the user's code makes; the accepted members of an object are known."""
        inner = schema.get("schema")
        if schema["type"] not in ("function-before", "function-wrap") or inner is None:
            return _THEIRS

        _, part = self.read(inner)
        if isinstance(part, NamedMembers) and part.real is not None:
            return _THEIRS[0], Reshaped(risk=Risk.NONE, real=part.real, members=part)
        if isinstance(part, Reshaped):
            return _THEIRS[0], part

        return _THEIRS

    def _delegated(self, schema: CoreSchema) -> Read:
        """Read a schema that only delegates to an inner one, without the user's code in between."""
        match schema["type"]:
            case "function-wrap" if _is_own(schema):
                handing = {"type": "no-info", "function": _handled}
                return self._inside(schema, type="function-wrap", function=handing)
            case "function-plain" if _is_own(schema):
                self.guards = True
                return {**schema, "function": _guarded(schema)}, self._held(SPELLINGS["opaque"])
            case "default":
                return self._default(schema)
            case "chain":
                probe, part = self.read(schema["steps"][0])
                return {"type": "chain", "steps": [probe]}, part
            case "lax-or-strict":
                lax = schema["lax_schema"]
                is_path = lax.get("custom_error_type") == "path_type"
                return self.read(lax["choices"][0] if is_path else lax)
            case "json-or-python":
                return self.read(schema["json_schema"])
            case "typed-dict":
                return self._object(schema, dict)
            case _:
                return self._theirs(schema)

    def _default(self, schema: CoreSchema) -> Read:
        match schema.get("on_error", "raise"):
            case "raise":
                return self._inside(schema, type="default", default=None)
            case "omit":  # its container may then have fewer items
                self.risk = Risk.ALWAYS
                probe, part = self._inside(schema, type="default", on_error="omit")
                return probe, None if part is None else replace(part, risk=Risk.ALWAYS)
            case _:
                return self._theirs(schema)

    def _json(self, schema: CoreSchema) -> Read:
        inner = schema.get("schema", core_schema.any_schema())
        probe, part = self.read(inner)
        self.risk = Risk.ALWAYS

        whole = core_schema.definitions_schema(inner, self._defined) if self._defined else inner
        document = inlined_root(JsonDocument().generate(whole, mode="validation"))
        held = Schema.compile(document, root_closed=False)
        text = JsonText(risk=Risk.ALWAYS, schema=held, inner=part)
        return {"type": "json", "schema": probe}, text

    def _union(self, schema: CoreSchema) -> Read:
        """Read a union.

        If a tag or the types of JSON distinguish the branches, the right one is chosen. All other
        unions are compared.
        """
        listed = schema["choices"]
        if schema["type"] == "tagged-union":
            # a choice that is not a schema refers to another tag
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

        known = [(inner, part) for inner, part in read.values() if part is not None]
        branches = tuple(part for _, part in known)
        anew = tuple(self._alone(inner) for inner, _ in known)
        theirs = len(known) < len(read)

        risk = _risk(*branches) if clear else Risk.ALWAYS
        self.risk = self.risk if clear else Risk.ALWAYS
        self._chooses = self._chooses or not clear
        return probe, Union(risk=risk, branches=branches, anew=anew, theirs=theirs)

    def _alone(self, probe: CoreSchema) -> Callable[[bytes], object]:
        """Return a function that reads JSON by one branch of a union; it is made on first use."""

        @cache
        def validator() -> SchemaValidator:
            whole = probe
            if self._probes:
                whole = core_schema.definitions_schema(probe, self._probes)
            return SchemaValidator(whole)

        return lambda text: validator().validate_json(text)

    def _array(self, schema: CoreSchema) -> Read:
        """Read an array.

        The items of a set are stored in a list, so that each is compared; an iterator is read
        immediately.
        """
        probe, part = self.read(schema.get("items_schema", core_schema.any_schema()))
        bounds = {name: schema[name] for name in ("min_length", "max_length") if name in schema}
        distinct = schema["type"] in ("set", "frozenset")
        risk = _risk(part)

        if distinct and not (isinstance(part, Scalar) and part.keeps):
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
            # *args between others: no annotation has this form
            return _THEIRS

        rest = None if variadic is None else parts[variadic]
        probe = {**schema, "items_schema": [probe for probe, _ in read]}
        return probe, Items(risk=_risk(*parts), kind=tuple, first=parts[:variadic], rest=rest)

    def _named_tuple(self, schema: CoreSchema) -> Read:
        """Read a named tuple: pydantic before 2.14 calls its class with arguments.

        It also reads an object as one, though the schema shows an array.
        """
        is_call = schema["type"] == "call"
        called: CoreSchema = schema.get("arguments_schema", {})
        members: list[CoreSchema] = (
            called.get("arguments_schema", ()) if is_call else schema["fields"]
        )
        if called and (not members or called.get("type") != "arguments"):
            return self._theirs(schema)

        read = [self.read(member["schema"]) for member in members]
        inner = [{**one, "schema": probe} for one, (probe, _) in zip(members, read, strict=True)]
        names = [member["name"] for member in members]
        made = type("_Row", (_Row,), {"names": names})
        real = schema["function"] if is_call else schema["cls"]

        probe: CoreSchema = {**schema, "fields": inner, "cls": made}
        if is_call:
            called = {**called, "arguments_schema": inner}
            probe = {"type": "call", "function": made, "arguments_schema": called}

        parts = tuple(part for _, part in read)
        how: Any = {"kind": made, "real": real, "spelled": object}
        return probe, Row(risk=_risk(*parts), first=parts, rest=None, names=tuple(names), **how)

    def _dict(self, schema: CoreSchema) -> Read:
        outer = self._key
        self._key = True
        keys, key = self.read(schema.get("keys_schema", core_schema.any_schema()))
        self._key = outer
        values, part = self.read(schema.get("values_schema", core_schema.any_schema()))
        risk = _risk(key, part)
        if key is not ANYTHING and not (isinstance(key, Scalar) and key.keeps):
            # it may merge keys
            risk = Risk.ALWAYS
            self.risk = risk

        held = Keyed(risk=risk, keys=key, values=part)
        return core_schema.dict_schema(keys, values), held

    def _model(self, schema: CoreSchema) -> Read:
        made = type("_Made", (_Made,), {"__slots__": ()})
        config = schema.get("config") or {}
        bare: CoreSchema = {"type": schema["type"], "cls": made, "config": config}
        real = schema["cls"]
        after: Any = getattr(real, str(schema.get("post_init")), None) or schema.get("post_init")
        changed = bool(after) and not str(getattr(after, "__module__", "")).startswith("pydantic.")

        if schema.get("root_model"):
            probe, part = self.read(schema["schema"])
            root = None
            if part is not None:
                how: Any = {"kind": made, "real": real, "changed": changed}
                root = Root(risk=part.risk, inner=part, **how)

            return bare | {"schema": probe, "root_model": True}, root

        inner = schema["schema"]
        is_theirs = False
        while inner["type"] not in ("model-fields", "dataclass-args"):
            if not inner["type"].startswith("function-") or "schema" not in inner:
                return _THEIRS

            # a validator around all members is the user's code
            is_theirs = True
            inner = inner["schema"]

        probe, part = self._object(inner, made)
        if is_theirs:
            return _THEIRS[0], Reshaped(risk=Risk.NONE, real=real, members=part)

        if schema["type"] == "dataclass":
            bare |= {"fields": schema["fields"], "post_init": False}

        return bare | {"schema": probe}, replace(part, real=real, changed=changed)

    def _object(self, schema: CoreSchema, made: type) -> tuple[CoreSchema, NamedMembers]:
        listed = schema["fields"]
        fields: dict[str, CoreSchema] = listed
        if type(listed) is not dict:
            fields = {each["name"]: each for each in listed}

        config: Mapping[str, Any] = {**self._config, **schema.get("config", {})}
        named: dict[str, Member] = {}
        others: list[Member] = []
        read: dict[str, CoreSchema] = {}
        parts: list[Comparer | None] = []

        for name, declared in fields.items():
            inner, part = self.read(declared["schema"])
            read[name] = {**declared, "schema": inner}
            parts.append(part)

            paths = paths_of(name, declared, config)
            member = Member(name, part, paths)
            key = paths[0][0] if len(paths) == 1 and len(paths[0]) == 1 else None
            if isinstance(key, str) and key not in named:
                named[key] = member
            else:
                others.append(member)

        probe = {**schema, "fields": read if fields is listed else list(read.values())}
        probe.pop("computed_fields", None)

        extras: Comparer | None = ANYTHING
        if "extras_schema" in schema:
            probe["extras_schema"], extras = self.read(schema["extras_schema"])

        extra = schema.get("extra_behavior") or config.get("extra_fields_behavior") or "ignore"
        self._keeps = self._keeps or extra == "allow"
        self._drops = self._drops or extra == "ignore"

        risk = Risk.ALWAYS if self.loose and extra == "ignore" else _risk(extras, *parts)
        self.risk = max(self.risk, risk)
        held = NamedMembers(
            risk=risk,
            kind=made,
            real=None,
            named=named,
            others=tuple(others),
            keeps=extra == "allow",
            extras=extras,
        )
        return probe, held

    _METHODS: ClassVar[Mapping[str, Callable[..., Read]]] = {
        "definitions": _definitions,
        "definition-ref": _reference,
        "function-after": _after,
        "function-before": _theirs,
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
    """The method that reads each kind of core schema."""


def _is_own(schema: CoreSchema) -> bool:
    module = str(getattr(schema["function"]["function"], "__module__", ""))
    return module.startswith(("pydantic.", "strictreply.", "collections", "functools"))


def _reads_text(function: object) -> str:
    """Return what pydantic's function makes from a text; empty for any other function."""
    name = str(getattr(function, "__qualname__", ""))
    if name.endswith("path_validator") or name.startswith("PathType."):
        return "path"
    if getattr(function, "__self__", None) is ByteSize:
        return "size"

    return "opaque" if getattr(function, "__module__", "") == "ipaddress" else ""


def _guarded(schema: CoreSchema) -> CoreSchema:
    """Return a pydantic function that rejects a value instead of raising any exception."""
    function = schema["function"]["function"]

    def guarded(*args: object) -> object:
        try:
            return function(*args)
        except (ValueError, AssertionError, PydanticOmit, PydanticUseDefault):
            raise
        except Exception as error:
            raise ValueError("cannot be read as the declared type") from error

    return {**schema["function"], "function": guarded}


def _handled(value: object, handler: Callable[[object], object]) -> object:
    return handler(value)


def _risk(*parts: Comparer | None) -> Risk:
    return max((part.risk for part in parts if part is not None), default=Risk.NONE)


# Types that pydantic's smart mode never confuses, because each has its own type in JSON.
_APART = (frozenset({"none", "str", "int", "float"}), frozenset({"none", "str", "bool"}))
