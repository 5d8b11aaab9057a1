"""The libraries of extras.

An integration imports without its library, and names the extra when it is needed.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from strictreply.integrations import load
from strictreply.integrations.instructor import wrap


def test_without_instructor_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module imports anywhere; its first use without instructor names the extra."""
    # None is what Python finds where it is not installed.
    monkeypatch.setitem(sys.modules, "instructor", None)
    with pytest.raises(ImportError, match=r"pip install 'strictreply\[instructor\]'"):
        wrap(object())


@pytest.mark.parametrize(
    ("library", "extra"),
    [
        ("langgraph", "langgraph"),
        ("langchain_core", "langgraph"),
        ("dbos", "durable"),
        ("psycopg", "durable"),
        ("sqlalchemy", "durable"),
        ("instructor", "instructor"),
        ("opentelemetry", "otel"),
    ],
)
def test_who_lacks_the_extra_is_told_what_to_install(library: str, extra: str) -> None:
    """A missing library, or a missing module of it, gives the line to type."""
    with pytest.raises(ImportError, match=rf"pip install 'strictreply\[{extra}\]'"):
        load(f"{library}.no_such_module")


def test_a_module_that_is_missing_for_another_reason_is_told_as_it_is() -> None:
    """Only the absence of an extra's library is translated."""
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised:
        load("no_such_module")
    assert raised.value.name == "no_such_module"


def test_the_library_itself_never_loads_instructor() -> None:
    """Neither the core nor the integration's import loads it."""
    script = "import strictreply.integrations.instructor, sys; print('instructor' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("False", "")
