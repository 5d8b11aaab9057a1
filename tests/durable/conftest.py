"""What the tests of durable runs share: a PostgreSQL, and a database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from durable.postgres_server import fresh_database, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server."""
    with postgres_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """The URL of a database that nobody else uses."""
    with fresh_database(postgres) as url:
        yield url
