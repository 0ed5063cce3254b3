"""Counts of what a server does over HTTP, how they describe themselves, and the route for readers.

A metric family describes itself, so that a worker can pass on the counts of another version, with
families that it does not know. `/metrics` serves the counts of this process, or those of all
workers of the machine, which put theirs into the store: a reader meets any of them behind one
address. prometheus-client writes the text; it collects when it is asked, so that calls are not
slower for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import parse_qs

import msgspec

from accord.errors import MissingExtra, StoreError
from accord.http.rules import gate

if TYPE_CHECKING:
    from prometheus_client import Metric

    from accord.http.server.app import HttpApp
    from accord.http.server.exchange import HttpExchange
    from accord.sharing.workers.metrics import WorkerReports
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.http")

# That of reports.
FORMAT: Final = 1
_METHODS: Final = ("POST", "GET", "DELETE", "OPTIONS", "HEAD")
_OTHER: Final = "other"
# The settings whose limits refuse connections.
_REASONS: Final = ("connections", "connections_per_address", "bodies_bytes")
MetricKind: TypeAlias = Literal["counter", "gauge"]
Sample: TypeAlias = tuple[dict[str, str], int | float]
"""Labels, and the value that has them."""
_PREFIX: Final = "accord_"
# Seconds that a store gets; readers of metrics give up after ten by default.
_STORE_PATIENCE: Final = 2.0
_WHICH: Final = ("host", "all", "own")


class MetricFamily(msgspec.Struct, array_like=True, frozen=True):
    """A metric with a value for each combination of labels.

    Attributes:
        name: without the prefix of all metrics, and without the suffix of counters.
        kind: a counter only grows, until its worker ends.
        what: what is counted, in a sentence.
        samples: its values.
    """

    name: str
    kind: MetricKind
    what: str
    samples: list[Sample]


class CountReport(msgspec.Struct, array_like=True, frozen=True):
    """The counts of one worker.

    Attributes:
        format: that of the report.
        worker: its id.
        host: the machine it runs on.
        families: what it has counted.
    """

    format: int
    worker: str
    host: str
    families: list[MetricFamily]


class _ByMethod(dict[str, list[int]]):
    """Counts by method; clients cannot add to the methods."""

    def __missing__(self, method: str) -> list[int]:
        return self[_OTHER]


class ListenerMetrics:
    """Counts of a listener since its start.

    Attributes:
        accepted: connections.
        open: connections that have not ended.
        refused: connections that were refused, by the setting that limits them.
        responses: for each method a list of counts, by the first digit of the status.
    """

    __slots__ = ("accepted", "open", "refused", "responses")

    def __init__(self) -> None:
        self.accepted = 0
        self.open = 0
        self.refused = dict.fromkeys(_REASONS, 0)
        self.responses = _ByMethod({method: [0] * 10 for method in (*_METHODS, _OTHER)})


def collect_metrics(app: "HttpApp", listener: ListenerMetrics | None) -> list[MetricFamily]:
    """Return what is known of a server.

    Args:
        app: what is served.
        listener: serves it; None under another server.
    """
    state = app.state
    found = [] if listener is None else _describe_listener(listener)
    what = "Requests that are being served, with those whose response is an open stream."
    found.append(_gauge("requests_open", what, app.under_way))
    found.append(_gauge("streams_open", "Open event streams.", len(state.readers)))
    what = "Requests that only listen for notifications."
    found.append(_gauge("listeners_open", what, state.listening))
    found.append(_gauge("sessions_open", "Open sessions.", len(app.sessions)))
    what = "Bytes of requests whose body is incomplete."
    found.append(_gauge("bodies_bytes", what, app.bodies.size))
    stopping = int(state.is_stopping)
    found.append(_gauge("stopping", "1 once the server has begun to stop.", stopping))
    worker = getattr(state, "worker", None)
    if worker is not None:
        found += worker.metrics.describe()
    return found


def _describe_listener(listener: ListenerMetrics) -> list[MetricFamily]:
    responses: list[Sample] = [
        ({"method": method, "status": f"{digit}xx"}, count)
        for method, counts in listener.responses.items()
        for digit, count in enumerate(counts)
        if count
    ]
    return [
        _gauge("connections_open", "Open connections.", listener.open),
        MetricFamily(
            "connections", "counter", "Connections that were accepted.", [({}, listener.accepted)]
        ),
        MetricFamily(
            "connections_refused",
            "counter",
            "Connections that were refused, by the setting that limits them.",
            [({"setting": name}, count) for name, count in listener.refused.items()],
        ),
        MetricFamily(
            "responses",
            "counter",
            "Responses by the method of the request and the class of the status.",
            responses,
        ),
    ]


def _gauge(name: str, what: str, value: int) -> MetricFamily:
    return MetricFamily(name, "gauge", what, [({}, value)])


def join_reports(reports: Iterable[CountReport]) -> list[MetricFamily]:
    """Return the counts of several workers, each with the label of its worker.

    If workers of two versions disagree about the kind of a metric, the first one is right.
    """
    found: dict[str, MetricFamily] = {}
    for report in reports:
        for family in report.families:
            joined = found.get(family.name)
            if joined is None:
                joined = found[family.name] = MetricFamily(
                    family.name, family.kind, family.what, []
                )
            if joined.kind == family.kind:
                joined.samples.extend(
                    ({**labels, "worker": report.worker}, value) for labels, value in family.samples
                )
    return list(found.values())


class _Collector:
    """Metrics as prometheus-client reads them."""

    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client import Metric

        for family in self._families:
            metric = Metric(f"{_PREFIX}{family.name}", family.what, family.kind)
            suffix = "_total" if family.kind == "counter" else ""
            for labels, value in family.samples:
                metric.add_sample(f"{metric.name}{suffix}", labels, value)
            yield metric


def require_prometheus() -> None:
    """Raise MissingExtra if what writes the text is not installed."""
    if find_spec("prometheus_client") is None:
        raise MissingExtra("prometheus", needed_for="metrics=True, or --metrics,")


def encode_families(families: Iterable[MetricFamily], accept: str) -> tuple[bytes, str]:
    """Return metrics as text, in the format that an Accept header asks for, and its media type."""
    from prometheus_client.exposition import choose_encoder

    try:
        encode, kind = choose_encoder(accept)
    except (TypeError, ValueError):  # it has a version that is not a number
        encode, kind = choose_encoder("")
    return encode(_Collector(families)), kind


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
    accept = exchange.headers.get(b"accept", b"").decode("latin-1")
    body, kind = encode_families(families, accept)
    headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-store")]
    return exchange.respond(200, [*headers, (b"vary", b"accept")], body)
