"""What the tests of integrations share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def desk(request: pytest.FixtureRequest) -> Any:
    """Open a desk of one kind; only where LangGraph is."""
    from support.integrations.langgraph_desk import Desk  # noqa: PLC0415

    return Desk(awaited=request.param)
