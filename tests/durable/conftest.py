"""What the tests of durable runs share: a PostgreSQL, and a database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from strictreply.integrations.dbos._durable_records import make_tables
from support.durable.postgres_server import fresh_database, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres: str) -> Iterator[str]:
    """The name of a database with DBOS's tables: to make them takes longer than to copy them."""
    with fresh_database(postgres) as url:
        make_tables(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
def postgres_url(postgres: str, postgres_template: str) -> Iterator[str]:
    """The URL of a database that nobody else uses, with DBOS's tables."""
    with fresh_database(postgres, template=postgres_template) as url:
        yield url
