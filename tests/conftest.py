"""What every test runs under."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Nothing here may depend on how fast the machine is: no deadline, no complaint about slow generation.
settings.register_profile("strictreply", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("strictreply")
