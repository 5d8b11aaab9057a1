"""instructor is an extra: the integration imports without it, and says what to install when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from strictreply.integrations.instructor import wrap
from strictreply.integrations.instructor._library import load


def test_without_instructor_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module imports anywhere; its first use without instructor names the extra."""
    monkeypatch.setitem(sys.modules, "instructor", None)  # what Python finds where it is not installed
    with pytest.raises(ImportError, match=r"pip install 'strictreply\[instructor\]'"):
        wrap(object())


def test_a_module_that_is_missing_for_another_reason_is_told_as_it_is() -> None:
    """Only instructor's own absence is translated."""
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load("no_such_module")


def test_the_library_itself_never_loads_instructor() -> None:
    """Neither the core nor the integration's import loads it."""
    script = "import strictreply.integrations.instructor, sys; print('instructor' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
