"""What every test runs under."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# The same tree gives the same verdict on every machine: no deadline, no complaint about slow generation, no new dice.
settings.register_profile("strictreply", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# Dice for the hunt: pytest --hypothesis-profile=explore
settings.register_profile("explore", settings.get_profile("strictreply"), derandomize=False, max_examples=2_000)
settings.load_profile("strictreply")
