"""The counts of a worker as observable instruments of OpenTelemetry.

A worker is there while a server is served with a store. Its counts are read when they are exported.
"""

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from accord.sharing.workers.metrics import ABOUT, COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, Meter, Observation

    from accord.server.core import ServerCore

# By the convention, a name has no unit, and a sum of seconds is a time.
_NAMES: Final = {
    "store_errors": "accord.store.errors",
    "store_operations": "accord.store.operations",
    "store_seconds": "accord.store.time",
}
# A meter keeps the first callback of an instrument alone; so all servers of a meter share it.
_observers: Final[weakref.WeakKeyDictionary[Any, "WorkerObserver"]] = weakref.WeakKeyDictionary()


def find_observer(meter: "Meter") -> "WorkerObserver":
    """Return what observes workers with a meter."""
    found = _observers.get(meter)
    if found is None:
        found = _observers[meter] = WorkerObserver(meter)
    return found


def instrument_name(attribute: str) -> str:
    """Return the name of the instrument for a count."""
    return _NAMES.get(attribute, f"accord.worker.{attribute}")


class WorkerObserver:
    """Reports the counts of the workers that servers have."""

    def __init__(self, meter: "Meter") -> None:
        self._servers: weakref.WeakSet[ServerCore] = weakref.WeakSet()
        self._last: Callable[[], ServerCore | None] = lambda: None
        for attribute, row in COUNTS.items():
            create = (
                meter.create_observable_counter
                if row.kind == "counter"
                else meter.create_observable_gauge
            )
            callback = partial(_observe, self._servers, attribute)
            create(instrument_name(attribute), [callback], row.unit, ABOUT[attribute])

    def add(self, server: "ServerCore") -> None:
        """Observe the worker of a server, whenever it has one."""
        if self._last() is not server:
            self._servers.add(server)
            self._last = weakref.ref(server)


def _observe(
    servers: "weakref.WeakSet[ServerCore]", attribute: str, _: "CallbackOptions"
) -> "Iterable[Observation]":
    from opentelemetry.metrics import Observation

    for server in list(servers):
        worker = server.worker
        if worker is not None:
            value = getattr(worker.metrics, attribute)
            yield Observation(value, {"accord.worker.id": worker.id})
