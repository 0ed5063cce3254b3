"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# How fast examples are made, and how long each takes, says more about the machine than about us.
settings.register_profile("accord", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("accord")
