"""The toy is known while its tests run, and to no other test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strictreply.core import register_api, register_sdk
from strictreply.sdks._known import SDKS
from strictreply.testing import register_writer
from strictreply.testing._serving import WRITERS
from strictreply.wires import WIRES
from toy.toy_api import TOY, TOY_WRITER
from toy.toy_engine import Engine
from toy.toy_sdk import TOY_SDK


@pytest.fixture(scope="module", autouse=True)
def _known() -> Iterator[None]:
    register_api(TOY)
    register_sdk(TOY_SDK)
    register_writer(TOY_WRITER)
    yield
    WIRES.pop(TOY.name)
    SDKS.remove(TOY_SDK)
    WRITERS.pop(TOY.name)


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Serve on loopback."""
    served = Engine()
    yield served
    served.server.shutdown()
    served.server.server_close()
