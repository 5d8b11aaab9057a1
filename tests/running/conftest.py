"""Both twins of the loop, for the laws that hold in each."""

from __future__ import annotations

from functools import partial

import pytest

from running.loops import Loop, Opened


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Open loops of one kind."""
    return partial(Loop, asynchronous=request.param)
