"""Where the recorded data beside the checkout stands; tests that read it skip when it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="../shared (recorded replies, public suites) is not here"
)
