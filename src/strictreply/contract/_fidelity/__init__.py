"""Holding typed values to the JSON they are made of: pydantic must not change a value in silence."""

from __future__ import annotations

from strictreply.contract._fidelity.core_schemas import NOT_REPRESENTABLE, Fidelity, fidelity_of

__all__ = ("NOT_REPRESENTABLE", "Fidelity", "fidelity_of")
