"""One spelling for equal JSON, and the mark of a context made from it; neither knows what the members mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any, Final

BUILT: Final = "built"
"""The one member of a context that its fingerprint leaves out: the response, which carries the fingerprint."""


def canonical(value: object) -> str:
    """Spell JSON in the one way: names sorted, arrays in their order, nothing between, ASCII only.

    Values of the pipeline, tuples and mappings of any kind are spelled as the JSON that they stand for. Numbers keep
    their kind: ``1`` and ``1.0`` differ. Raises ValueError for what is not JSON, or nested too deep to be spelled.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_members)
    except (TypeError, RecursionError) as error:
        message = "only JSON has a canonical spelling: text, numbers, booleans, null, arrays, and objects of these"
        raise ValueError(message) from error


def fingerprint(ctx: object) -> str:
    """Mark everything that a context holds but ``built`` (requirement P40): equal contexts, equal marks.

    ``ctx`` is an AgentPipelineContext or a mapping of its members, which give the same 64 hexadecimal digits. Raises
    ValueError when it holds what is not JSON.
    """
    held = {name: member for name, member in _members(ctx).items() if name != BUILT}
    return sha256(canonical(held).encode()).hexdigest()


def _members(value: object) -> dict[str, Any]:
    """Give the members of an object; ValueError when it is none."""
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    message = f"{type(value).__name__} has no members that JSON could spell"
    raise ValueError(message)
