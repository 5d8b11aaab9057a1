"""One proxy for all tests of the guard in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.gateways.proxy import LITELLM, Proxy, observed, running


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The proxy, once for the session."""
    if not LITELLM.exists():
        pytest.skip("LiteLLM is in an environment of its own: make test-litellm")
    with running(tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Proxy]]:
    """A proxy whose guard observes, and one without a guard, once for the session."""
    if not LITELLM.exists():
        pytest.skip("LiteLLM is in an environment of its own: make test-litellm")
    with observed(tmp_path_factory.mktemp("pair")) as both:
        yield both
