"""The compiled schema (first cut: being deepened)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from strictreply.errors import ContractError
from strictreply.issues import Category, Issue, pointer, pointer_tokens, quote
from strictreply.schema.rules import Rule
from strictreply.typing import JSON, Extra, Formats

KEYWORDS = {
    "type": Rule.TYPE, "enum": Rule.ENUM, "const": Rule.CONST, "required": Rule.REQUIRED,
    "additionalProperties": Rule.EXTRA_KEY, "minimum": Rule.MINIMUM, "maximum": Rule.MAXIMUM,
}


def _close(node: object, root: bool) -> object:
    if isinstance(node, list):
        return [_close(item, False) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _close(value, False) for key, value in node.items()}
    if ("properties" in node or root) and "additionalProperties" not in node and isinstance(node.get("properties", {}), dict):
        closed["additionalProperties"] = False
    return closed


class Schema:
    """A schema, compiled."""

    __slots__ = ("_validator", "closed", "names", "source")

    def __init__(self, source: Mapping[str, Any] | bool, closed: Any, validator: Any, names: frozenset[str]) -> None:
        """Keep the parts."""
        self.source = source
        self.closed = closed
        self._validator = validator
        self.names = names

    @classmethod
    def compile(
        cls, document: object, *, extra: Extra = "forbid", formats: Formats = "assert", root_closed: bool = True
    ) -> Schema:
        """Compile."""
        if not isinstance(document, Mapping | bool):
            message = "a schema must be an object or a boolean"
            raise ContractError(message)
        source = copy.deepcopy(document if isinstance(document, bool) else dict(document))
        closed: Any = _close(source, root_closed) if extra == "forbid" else source
        try:
            validator = jsonschema_rs.validator_for(
                closed, offline=True, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=formats == "assert"
            )
        except ValueError as error:
            raise ContractError(str(error).splitlines()[0]) from None
        names: set[str] = set()
        _collect(source, names)
        return cls(source, closed, validator, frozenset(names))

    def check(self, value: JSON, *, at: str = "", place: str = "args") -> tuple[Issue, ...]:
        """Check."""
        if self._validator.is_valid(value):
            return ()
        issues = []
        for error in self._validator.iter_errors(value):
            rule = KEYWORDS.get(error.kind.name, Rule.ANY_OF)
            expected = getattr(error.kind, error.kind.__match_args__[0]) if error.kind.__match_args__ else ""
            words = ", ".join(map(str, expected)) if isinstance(expected, list) else str(expected)
            if rule is Rule.EXTRA_KEY:
                words = ", ".join(sorted(self.names))
            path = pointer(at, *(t if isinstance(t, int) or t in self.names else "*" for t in error.instance_path))
            found = quote(expected[0]) if rule is Rule.EXTRA_KEY else quote(error.instance)
            issues.append(
                Issue(f"{place}.{rule}", Category.FORMAT_ERROR, path, rule.template.format(expected=words, beside=""), "", found)
            )
        return tuple(issues[:32])

    def part(self, path: str) -> Any:
        """Give the sub-schema at an instance path."""
        node: Any = self.source
        for token in pointer_tokens(path):
            node = node.get("properties", {}).get(token) or node.get("items")
            if not isinstance(node, dict):
                return self.source
        return node

    def example(self) -> JSON | None:
        """Give a small valid instance."""
        if not isinstance(self.source, dict):
            return None
        value = _example(self.source)
        return value if not self.check(value) else None


def _collect(node: Any, names: set[str]) -> None:
    if isinstance(node, list):
        for item in node:
            _collect(item, names)
    elif isinstance(node, dict):
        names.update(node.get("properties", {}))
        for item in node.values():
            _collect(item, names)


def _example(node: Any) -> Any:
    if "const" in node:
        return node["const"]
    if node.get("enum"):
        return node["enum"][0]
    kind = node.get("type", "object")
    if kind == "object":
        return {name: _example(node.get("properties", {}).get(name, {})) for name in node.get("required", [])}
    return {"string": "text", "integer": node.get("minimum", 1), "number": node.get("minimum", 1),
            "boolean": True, "array": [], "null": None}.get(kind)
