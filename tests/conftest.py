"""What holds for all tests."""

import gc
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from support.stored_apps import IS_STORED, give_stores
from support.tables import pytest_addoption, pytest_terminal_summary

__all__ = ["pytest_addoption", "pytest_terminal_summary"]  # hooks

# How fast examples are made, and how long each takes, says more about the machine than about us.
settings.register_profile("accord", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("accord")

if IS_STORED:
    give_stores()

# Shells let what they start in the background ignore Ctrl-C, `nohup` lets it ignore the end of its
# terminal, and processes pass that on.
for _signal, _default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _default)

# The thousands of collected tests need not be looked at again by every collection of garbage,
# which took a tenth of the time.
gc.set_threshold(50_000, 20, 50)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave tests that start Valkey by a fixture to `make integration`."""
    if "valkey" in getattr(item, "fixturenames", ()):
        item.add_marker("integration")


def pytest_collection_finish() -> None:
    """Leave what was imported and collected to no further collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _servers_are_met_for_the_first_time() -> None:
    """Forget how servers were opened: another server may listen at the same port now."""
    negotiation = sys.modules.get("accord.client.negotiation")
    if negotiation is not None:
        negotiation.KNOWN_SERVERS.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Make what a test logged fit to be sent: a worker ends that cannot send half a character."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report
