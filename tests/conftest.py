"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made, and how long each takes, says more about the machine than about us.
settings.register_profile("accord", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("accord")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Make what a test logged fit to be sent: a worker ends that cannot send half a character."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report
