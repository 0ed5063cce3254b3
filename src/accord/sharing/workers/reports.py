"""The counts of all workers, through the store.

With several workers behind one address, a reader of metrics meets any of them. So each worker
writes its counts to the store, and any of them can show those of the others.

A counter must never seem to go back. So a worker writes its counts before it shows them: whatever
another worker reads afterwards is at least as high.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from accord.errors import StoreError
from accord.http.server.metrics import FORMAT, CountReport, MetricFamily
from accord.sharing.backends.backend import Backend
from accord.sharing.workers import names

__all__ = ["WorkerReports", "report_of"]

log = logging.getLogger("accord.sharing.workers")

# Longer than a worker can be silent without being taken over.
_TTL: Final = 60.0
_EVERY: Final = 5.0
# Records that are read at the same time.
_AT_ONCE: Final = 64
_WORKERS_MOST: Final = 10_000


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
