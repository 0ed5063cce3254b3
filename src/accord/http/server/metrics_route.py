"""Serves counts at `/metrics`: those of this process, or those of all workers of the machine.

Workers put their counts into the store, since a reader meets any of them behind one address.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from accord.errors import StoreError
from accord.http.rules import gate
from accord.http.server.metrics import FORMAT, CountReport, MetricFamily, collect_metrics
from accord.http.server.metrics_text import (
    OPENMETRICS,
    PROMETHEUS,
    encode_families,
    is_openmetrics_wanted,
    join_reports,
)

if TYPE_CHECKING:
    from accord.http.server.app import HttpApp
    from accord.http.server.exchange import HttpExchange
    from accord.sharing.workers.reports import WorkerReports
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.http")

# Seconds that a store gets; readers of metrics give up after ten by default.
_STORE_PATIENCE: Final = 2.0
_WHICH: Final = ("host", "all", "own")


class MetricsRoute:
    """Serves the counts of an app, and of the workers that serve together with it."""

    def __init__(self, app: "HttpApp") -> None:
        self._app = app
        self._publishing: asyncio.Task[None] | None = None

    def collect(self) -> list[MetricFamily]:
        """Return the counts of this process."""
        return collect_metrics(self._app, self._app.listener_metrics)

    def start(self, worker: "Worker") -> None:
        """Begin to put the counts of this worker into the store."""
        work = self._reports_of(worker).publish_forever(lambda: worker.id)
        self._publishing = asyncio.create_task(work, name="accord-reports")

    def stop(self) -> None:
        """Put no more counts into the store."""
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None

    def serve(self, exchange: "HttpExchange") -> Awaitable[None]:
        """Respond with counts."""
        worker: Worker | None = getattr(self._app.state, "worker", None)
        if worker is None:
            return _respond(exchange, self.collect())
        query = parse_qs(exchange.scope.get("query_string", b"").decode("latin-1"))
        which = query.get("workers", ["host"])[-1]
        if which not in _WHICH:
            why = "workers is unknown, expected 'host' (default), 'all' or 'own'"
            return exchange.refuse(gate.HttpRefusal(400, why))
        return self._serve_shared(exchange, worker, which)

    async def _serve_shared(self, exchange: "HttpExchange", worker: "Worker", which: str) -> None:
        """Respond with the counts of several workers; with our own if the store is away."""
        reports = self._reports_of(worker)
        found = [CountReport(FORMAT, worker.id, reports.host, self.collect())]
        if which != "own":
            try:
                async with asyncio.timeout(_STORE_PATIENCE):
                    found = await reports.gather(worker.id, is_for_all_hosts=which == "all")
            except (StoreError, TimeoutError):
                log.debug("the counts of other workers could not be read")
        await _respond(exchange, join_reports(found))

    def _reports_of(self, worker: "Worker") -> "WorkerReports":
        reports: WorkerReports = worker.reports_of(self.collect)
        return reports


def _respond(exchange: "HttpExchange", families: list[MetricFamily]) -> Awaitable[None]:
    is_openmetrics = is_openmetrics_wanted(exchange.headers.get(b"accept"))
    kind = OPENMETRICS if is_openmetrics else PROMETHEUS
    headers = [(b"content-type", kind), (b"cache-control", b"no-store"), (b"vary", b"accept")]
    body = encode_families(families, is_openmetrics=is_openmetrics)
    return exchange.respond(200, headers, body)
