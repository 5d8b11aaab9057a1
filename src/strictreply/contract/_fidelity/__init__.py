"""Holding typed values to the JSON they are made of: pydantic must not change values silently."""
