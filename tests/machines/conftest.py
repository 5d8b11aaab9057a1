"""A PostgreSQL for the queue, as the tests of durable runs have one."""

from durable.conftest import postgres, postgres_template, postgres_url

__all__ = ["postgres", "postgres_template", "postgres_url"]
