"""The second engine, on jsonschema.

It is for platforms without a jsonschema-rs wheel, and the reference in tests.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from functools import cache, lru_cache, partial
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import jsonschema.validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from strictreply.schema._counted import Costs, Counted, costs_of, metered
from strictreply.schema._documents import DOCUMENT_URI, NOT_LINEAR, Document, Graph, malformed
from strictreply.schema._vocabulary import draft_of
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._limits import JSON, JSONObject, Work

Errors: TypeAlias = "Iterator[ValidationError]"
TIME = re.compile(
    r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[zZ]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
DURATION = re.compile(
    r"(?a)P(?=[\dT])(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)?"
    r"(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)"
)
UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
MAILBOX = re.compile(
    r"(?:[^\x00-\x20@<>()\[\],;:\\\".]+(?:\.[^\x00-\x20@<>()\[\],;:\\\".]+)*|\"[^\"\\]*\")@(.+)",
    re.DOTALL,
)
URI_CHARS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")
MAX_HOSTNAME = 253
LEAP_SECOND = 60
DAY_MINUTES = 24 * 60


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_ipv4 = partial(_parses, ipaddress.IPv4Address)


def _ipv6(text: str) -> bool:
    return "%" not in text and _parses(ipaddress.IPv6Address, text)


def _date(text: str) -> bool:
    is_spelled = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII))
    return is_spelled and _parses(date.fromisoformat, text)


def _time(text: str) -> bool:
    found = TIME.fullmatch(text)
    if not found:
        return False

    hours, minutes, seconds = (int(part) for part in found.groups()[:3])
    sign, ahead, past = found.groups()[3:]
    offset = 0
    if sign:
        offset = (int(ahead) * 60 + int(past)) * (-1 if sign == "+" else 1)

    day_ends = (hours * 60 + minutes + offset) % DAY_MINUTES == DAY_MINUTES - 1  # in UTC
    return seconds < LEAP_SECOND + day_ends and _parses(time.fromisoformat, text[:5])


def _hostname(text: str) -> bool:
    if not 0 < len(text) <= MAX_HOSTNAME:
        return False
    return all(LABEL.fullmatch(label) for label in text.split("."))


def _email(text: str) -> bool:
    found = MAILBOX.fullmatch(text)
    if not found or not text.isascii():
        return False

    domain = found[1]
    if domain[:1] == "[" and domain[-1:] == "]":
        literal = domain[1:-1]
        return _ipv6(literal[5:]) if literal.startswith("IPv6:") else _ipv4(literal)

    return _hostname(domain)


def _uri_reference(text: str) -> bool:
    if not URI_CHARS.fullmatch(text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False

    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError if it is not a port
    except ValueError:
        return False

    relative = not parts.scheme and not parts.netloc and ":" in parts.path.partition("/")[0]
    brackets = re.search(r"[\[\]]", parts.path + parts.query + parts.fragment)
    # at most one
    return not brackets and parts.netloc.count("@") < 2 and not relative  # noqa: PLR2004


def _date_time(text: str) -> bool:
    return text[10:11] in ("T", "t") and _date(text[:10]) and _time(text[11:])


def _idn_email(text: str) -> bool:
    return bool(MAILBOX.fullmatch(text)) and not re.search(r"\s", text.rpartition("@")[2])


def _uri(text: str) -> bool:
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)) and _uri_reference(text)


FORMAT_CHECKS: dict[str, Callable[[str], bool]] = {
    "date": _date,  # RFC 3339 full-date
    "time": _time,  # RFC 3339 full-time
    "date-time": _date_time,  # RFC 3339
    "duration": lambda text: bool(DURATION.fullmatch(text)),
    "email": _email,  # RFC 5321 mailbox
    # RFC 6531 mailbox, as far as it can be checked without the tables of Unicode
    "idn-email": _idn_email,
    "hostname": _hostname,  # RFC 1123
    "ipv4": _ipv4,
    "ipv6": _ipv6,  # RFC 4291, without a zone
    "uri": _uri,
    "uri-reference": _uri_reference,  # RFC 3986
    "uuid": lambda text: bool(UUID.fullmatch(text)),
    "json-pointer": lambda text: text[:1] in ("", "/") and not re.search(r"~(?![01])", text),
}


@lru_cache(maxsize=512)
def _pattern(text: str) -> Callable[[object], bool]:
    """Compile a pattern with pydantic-core's engine, which is linear; ``re`` is not."""
    schema = core_schema.str_schema(pattern=text, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


class _Descending(Protocol):
    """The part of a jsonschema validator by which keywords apply schemas to inner values."""

    def descend(
        self, instance: object, schema: object, path: str, schema_path: str = ...
    ) -> Errors: ...


def _check_pattern(_: Validator, pattern: str, instance: JSON, schema: JSONObject) -> Errors:
    if not Counted("pattern", schema, _pattern(pattern)).holds(instance):
        yield ValidationError("pattern")


def _check_unique(_: Validator, __: bool, instance: JSON, schema: JSONObject) -> Errors:
    if not Counted("uniqueItems", schema, lambda _: True).holds(instance):
        yield ValidationError("uniqueItems")


def _check_multiple(
    validator: Validator, divisor: float, instance: JSON, schema: JSONObject
) -> Errors:
    divided: Any = jsonschema.Draft202012Validator.VALIDATORS["multipleOf"]

    def is_multiple(value: JSON) -> bool:
        return next(divided(validator, divisor, value, schema) or iter(()), None) is None

    if not Counted("multipleOf", schema, is_multiple).holds(instance):
        yield ValidationError("multipleOf")


def _check_pattern_members(
    validator: _Descending, patterns: Mapping[str, object], instance: object, _: object
) -> Errors:
    for name, member in instance.items() if isinstance(instance, dict) else ():
        for pattern in (each for each in patterns if _pattern(each)(name)):
            yield from validator.descend(member, patterns[pattern], path=name, schema_path=pattern)


def _check_others(
    validator: _Descending, others: object, instance: object, schema: JSONObject
) -> Errors:
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", ())
    for name, member in instance.items() if isinstance(instance, dict) else ():
        if name not in named and not any(_pattern(pattern)(name) for pattern in patterns):
            yield from validator.descend(member, others, path=name)


LINEAR = {
    "pattern": _check_pattern,
    "uniqueItems": _check_unique,
    "multipleOf": _check_multiple,
    "patternProperties": _check_pattern_members,
    "additionalProperties": _check_others,
}


class ReferenceEngine:
    """jsonschema with a registry that fetches nothing, linear patterns, and own format checks."""

    remembers = False

    def __init__(
        self,
        document: Document,
        *,
        formats: bool,
        registry: Registry[Any] = REGISTRY,
        costs: Costs | None = None,
    ) -> None:
        self._document = document
        self.costs: Costs = costs_of(document) if costs is None else costs
        self._formats = formats
        self._registry = registry
        base = jsonschema.validators.validator_for({"$schema": draft_of(document)})
        extended = jsonschema.validators.extend(base, LINEAR)  # type: ignore[no-untyped-call]

        if registry is REGISTRY:  # the patterns of a part were checked with the document
            _refuse_patterns(document)

        checker = _format_checker() if formats else None
        self._validator = extended(document, registry=registry, format_checker=checker)

    def is_valid(self, value: JSON, work: Work | None = None) -> bool:
        """Return whether the value fits.

        ``work`` limits the cost of the counted keywords; None for a limit as for a whole reply.
        Raises Spent if it is used up.
        """
        try:
            with metered(Work() if work is None else work):
                return bool(self._validator.is_valid(value))
        except Unresolvable as error:
            raise ValueError(str(error)) from None

    @staticmethod
    def refuse_malformed(document: Document) -> None:
        """Check a schema against its metaschema."""
        written: Any = document
        draft = {"$schema": draft_of(document)}
        try:
            jsonschema.validators.validator_for(draft).check_schema(written)
        except SchemaError as error:
            raise malformed(tuple(error.absolute_path), error.message) from None

    def part(self, schema: JSONObject) -> ReferenceEngine:
        """Compile a schema that belongs to the document, which is registered once."""
        if self._registry is REGISTRY and isinstance(self._document, dict):
            resource = specification_with(draft_of(self._document)).create_resource(self._document)
            self._registry = REGISTRY.with_resource(resource.id() or DOCUMENT_URI, resource)

        return ReferenceEngine(
            schema, formats=self._formats, registry=self._registry, costs=self.costs
        )


@cache
def _format_checker() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())
    for name, holds in FORMAT_CHECKS.items():
        checker.checks(name)(partial(_holds_of_text, holds))

    return checker


def _holds_of_text(holds: Callable[[str], bool], value: object) -> bool:
    return not isinstance(value, str) or holds(value)


def _refuse_patterns(document: Document) -> None:
    nodes = [node for node in Graph(document).nodes if node.pointer is not None]
    looks_back = any("unevaluatedProperties" in node.schema for node in nodes)

    for node in nodes:
        place = node.pointer or ""
        members = node.schema.get("patternProperties", {})
        patterns = [(pointer(place, "pattern"), node.schema.get("pattern"))]
        patterns += [(pointer(place, "patternProperties", each), each) for each in members]

        for where, pattern in patterns:
            try:
                _pattern(pattern if isinstance(pattern, str) else "")
            except PatternError:
                raise ContractError(NOT_LINEAR, path=where) from None

        if members and looks_back:  # jsonschema itself matches these, and not in linear time
            words = (
                "patternProperties with unevaluatedProperties needs jsonschema-rs, "
                "which is not installed"
            )
            raise ContractError(words, path=place)
