"""Compares typed values with their JSON, because pydantic must not change values silently."""
