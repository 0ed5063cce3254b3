"""Counts of what one worker does in the store, how they are called, and those of all workers."""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from accord.errors import StoreError, StoreUnavailable
from accord.http.server.metrics import FORMAT, CountReport, MetricFamily, MetricKind
from accord.http.settings import read_attributes
from accord.sharing.backends.backend import Backend, ForwardingBackend
from accord.sharing.workers import names

__all__ = [
    "ABOUT",
    "COUNTS",
    "CountRow",
    "MeasuredBackend",
    "WorkerMetrics",
    "WorkerReports",
    "read_reports",
    "report_of",
]

log = logging.getLogger("accord.sharing.workers")

Value = TypeVar("Value")

# Longer than a worker can be silent without being taken over.
_TTL: Final = 60.0
_EVERY: Final = 5.0
# Records that are read at the same time.
_AT_ONCE: Final = 64
_WORKERS_MOST: Final = 10_000


class CountRow(NamedTuple):
    """How one of the counts is published.

    Attributes:
        name: of its metric family.
        kind: of its metric family.
        unit: as OpenTelemetry writes it.
    """

    name: str
    kind: MetricKind
    unit: str


class WorkerMetrics(msgspec.Struct):
    """Counts of one worker since its start, and what holds at present.

    Attributes:
        takeovers: Lost workers whose work this one has taken over.
        fenced_appends: Entries that were refused because another worker has taken over.
        missed_notifications: Times that something new was found in the store without a
            notification.
        inbox_lag: Messages that waited when the inbox was last read.
        store_errors: Operations that the store did not answer, or failed.
        store_seconds: Seconds that all operations of the store took together.
        store_operations: Operations of the store.
        streams_followed: Logs in the store that responses of this worker follow.
        sessions_loaded: Sessions that were read from the store.
        sessions_saved: Changes of sessions that were written to the store.
        messages_sent: Messages to other workers.
        messages_received: Messages from other workers.
        lease_margin: Seconds that were left of the lease when it was last renewed.
    """

    takeovers: Annotated[int, CountRow("worker_takeovers", "counter", "{worker}")] = 0
    fenced_appends: Annotated[int, CountRow("worker_fenced_appends", "counter", "{append}")] = 0
    missed_notifications: Annotated[int, CountRow("worker_missed_bells", "counter", "{bell}")] = 0
    inbox_lag: Annotated[int, CountRow("worker_inbox_lag", "gauge", "{message}")] = 0
    store_errors: Annotated[int, CountRow("store_errors", "counter", "{error}")] = 0
    store_seconds: Annotated[float, CountRow("store_seconds", "counter", "s")] = 0.0
    store_operations: Annotated[int, CountRow("store_operations", "counter", "{operation}")] = 0
    streams_followed: Annotated[int, CountRow("worker_streams_followed", "gauge", "{stream}")] = 0
    sessions_loaded: Annotated[int, CountRow("worker_sessions_loaded", "counter", "{session}")] = 0
    sessions_saved: Annotated[int, CountRow("worker_sessions_saved", "counter", "{session}")] = 0
    messages_sent: Annotated[int, CountRow("worker_messages_sent", "counter", "{message}")] = 0
    messages_received: Annotated[
        int, CountRow("worker_messages_received", "counter", "{message}")
    ] = 0
    lease_margin: Annotated[float, CountRow("worker_lease_margin_seconds", "gauge", "s")] = 0.0

    def describe(self) -> list[MetricFamily]:
        """Return the counts as metric families."""
        return [
            MetricFamily(row.name, row.kind, ABOUT[attribute], [({}, getattr(self, attribute))])
            for attribute, row in COUNTS.items()
        ]


COUNTS: Final[dict[str, CountRow]] = {
    attribute: kind.__metadata__[0] for attribute, kind in WorkerMetrics.__annotations__.items()
}
"""All counts of a worker by attribute, in the order in which they are published."""
ABOUT: Final = dict.fromkeys(COUNTS, "") | read_attributes(WorkerMetrics)
"""What each of them counts."""


# -- operations of the store


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


# -- the counts of all workers, in the store


def report_of(worker: str) -> str:
    """Return the record with the counts of a worker."""
    return f"{{w{worker}}}m"


_decode: Final = msgspec.msgpack.Decoder(CountReport).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class WorkerReports:
    """Writes the counts of one worker to the store, and reads those of the others.

    Args:
        backend: the store; open.
        collect: returns the counts of this worker.
        host: the name of this machine, by default as the system knows it.
    """

    def __init__(
        self,
        backend: Backend,
        collect: Callable[[], list[MetricFamily]],
        *,
        host: str | None = None,
    ) -> None:
        self._backend = backend
        self._collect = collect
        self.host = host or socket.gethostname()

    async def publish(self, worker: str) -> CountReport:
        """Write the counts of this worker, and return them.

        Raises:
            StoreError: the store has not taken them.
        """
        report = CountReport(FORMAT, worker, self.host, self._collect())
        await self._backend.put(report_of(worker), _encode(report), ttl=_TTL)
        return report

    async def publish_forever(self, find_id: Callable[[], str]) -> None:
        """Write the counts again and again; `find_id` returns the present id of this worker."""
        while True:
            try:
                await self.publish(find_id())
            except StoreError as error:
                log.debug("the counts of this worker were not written: %s", error)
            await asyncio.sleep(_EVERY)

    async def withdraw(self, worker: str) -> None:
        """Delete the counts of a worker that ends."""
        await self._backend.delete(report_of(worker))

    async def gather(self, worker: str, *, is_for_all_hosts: bool = False) -> list[CountReport]:
        """Write the counts of this worker; return them with those of the others, sorted by id.

        Args:
            worker: the id of this one.
            is_for_all_hosts: whether workers of other machines count.

        Raises:
            StoreError: the store does not answer.
        """
        own = await self.publish(worker)
        found = await read_reports(self._backend)
        others = (
            each
            for each in found
            if each.worker != worker and (is_for_all_hosts or each.host == self.host)
        )
        return sorted((own, *others), key=lambda each: each.worker)


async def read_reports(backend: Backend) -> list[CountReport]:
    """Return the counts of all workers; those that cannot be read are left out.

    Raises:
        StoreError: the store does not answer.
    """
    ids = await backend.members(names.WORKERS, limit=_WORKERS_MOST)
    found: list[CountReport] = []
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        records = await asyncio.gather(*(backend.get(report_of(each)) for each in part))
        found += _decode_all([each.value for each in records if each is not None])
    return found


def _decode_all(values: Sequence[bytes]) -> list[CountReport]:
    found = []
    for value in values:
        try:
            report = _decode(value)
        except (ValueError, RecursionError):  # of a later version
            continue
        if report.format == FORMAT:
            found.append(report)
    return found
