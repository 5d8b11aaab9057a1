"""JSON Schema as this library enforces it: compiled once, offline, closed, bounded in work."""

from __future__ import annotations

from strictreply.schema._compiled import Schema
from strictreply.schema._vocabulary import SchemaRule

__all__ = ["Schema", "SchemaRule"]
