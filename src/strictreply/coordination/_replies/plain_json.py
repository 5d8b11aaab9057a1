"""Whether a Python value is JSON within the limits of a reply: what never was a text has not been read strictly."""

from __future__ import annotations

import math
from typing import Final, cast

from strictreply.schema import SchemaRule
from strictreply.values._issues import Category, Issue
from strictreply.values._limits import DEFAULT_LIMITS, Limits

UNREADABLE: Final = Issue(f"action.{SchemaRule.UNREADABLE}", Category.FORMAT_ERROR, "", SchemaRule.UNREADABLE.template)
"""The fault of a reply that cannot be looked at as JSON."""


def plain_issues(value: object, limits: Limits = DEFAULT_LIMITS) -> tuple[Issue, ...]:
    """Report a value that is not made of dicts with text as names, lists, text, finite numbers, booleans and None.

    It is also no JSON when it is nested deeper or has more values than ``limits`` say, as one that holds itself does.
    Work is bounded by them.
    """
    level, nodes = [value], 1
    for _ in range(limits.depth + 1):
        if not all(map(_is_node, level)):
            return (UNREADABLE,)
        level = [child for node in level for child in _children(node)]
        nodes += len(level)
        if not level:
            return ()
        if nodes > limits.nodes:
            break
    return (UNREADABLE,)


def _is_node(value: object) -> bool:
    """Tell whether a value is JSON as far as it goes itself."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_text(name) for name in cast("dict[object, object]", value))
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, list | int)


def _is_text(value: str) -> bool:
    """Tell text from what holds half of a surrogate pair."""
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _children(node: object) -> list[object]:
    """Give the values directly inside a container."""
    if isinstance(node, dict):
        return list(cast("dict[object, object]", node).values())
    return cast("list[object]", node) if isinstance(node, list) else []
