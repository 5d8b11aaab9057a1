"""A PostgreSQL for the tests.

It is the one that is given, or one that is started for them, or none, and then it is said why.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "postgres.sh"
NOT_INSTALLED = 3


@contextmanager
def postgres_server() -> Iterator[str]:
    """Return a server's URL.

    It is STRICTREPLY_TEST_POSTGRES, or a server of Debian's package; where there is neither, the
    test is skipped.
    """
    given = os.environ.get("STRICTREPLY_TEST_POSTGRES")
    if given:
        yield given
        return

    # Not pytest's own directory: only its user may enter that, and PostgreSQL never runs as root.
    with tempfile.TemporaryDirectory(prefix="strictreply-postgres-") as folder:
        started = subprocess.run(
            [SCRIPT, "start", folder], capture_output=True, text=True, check=False
        )
        if started.returncode == NOT_INSTALLED:
            pytest.skip(
                "no PostgreSQL: install Debian's package postgresql, "
                "or set STRICTREPLY_TEST_POSTGRES to a URL"
            )

        assert started.returncode == 0, started.stderr

        try:
            yield started.stdout.strip()
        finally:
            subprocess.run([SCRIPT, "stop", folder], check=True)


@contextmanager
def fresh_database(server: str, *, template: str = "template1") -> Iterator[str]:
    """Yield the URL of a new database on a server.

    The database is a copy of ``template``, a database that nobody is connected to. It is dropped in
    the end, with whoever is still connected.
    """
    psycopg = pytest.importorskip(
        "psycopg", reason="psycopg, which talks to PostgreSQL, is an extra"
    )
    name = f"strictreply_{uuid4().hex}"

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")

        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def executed(url: str, statement: str, values: Sequence[object]) -> None:
    """Execute one statement in a database."""
    psycopg = pytest.importorskip(
        "psycopg", reason="psycopg, which talks to PostgreSQL, is an extra"
    )
    with psycopg.connect(url) as connection:
        connection.execute(statement, values)
