"""A backend that counts what the store is asked for, and limits how long that may take."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from accord.errors import StoreUnavailable
from accord.sharing.backends.backend import Backend
from accord.sharing.backends.forwarding_backend import ForwardingBackend
from accord.sharing.workers.metrics import WorkerMetrics

__all__ = ["MeasuredBackend"]

Value = TypeVar("Value")


class MeasuredBackend(ForwardingBackend):
    """Passes everything on to a backend, and counts it.

    Args:
        backend: the store.
        metrics: where it is counted.
        patience: seconds that an operation may take; backends may have shorter limits.
    """

    def __init__(self, backend: Backend, metrics: WorkerMetrics, *, patience: float) -> None:
        super().__init__(backend, self._measure)
        self._patience = patience
        self._metrics = metrics

    async def _measure(self, operation: Awaitable[Value], /) -> Value:
        metrics, began = self._metrics, time.perf_counter()
        metrics.store_operations += 1
        try:
            async with asyncio.timeout(self._patience):
                return await operation
        except StoreUnavailable:
            metrics.store_errors += 1
            raise
        except TimeoutError:
            metrics.store_errors += 1
            why = f"the store {self.url} did not answer within {self._patience:g} s"
            raise StoreUnavailable(why) from None
        finally:
            metrics.store_seconds += time.perf_counter() - began
