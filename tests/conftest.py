"""What holds for the whole suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A machine that is busy is no fault of a strategy, and no example has a time of its own to keep.
settings.register_profile("suite", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
