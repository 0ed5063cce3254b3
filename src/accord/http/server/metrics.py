"""Counts of what a server does over HTTP, and how counts are described.

A metric family describes itself, so that a worker can pass on the counts of another version, with
families that it does not know.
"""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from accord.http.server.app import HttpApp

# That of reports.
FORMAT: Final = 1
_METHODS: Final = ("POST", "GET", "DELETE", "OPTIONS", "HEAD")
_OTHER: Final = "other"
# The settings whose limits refuse connections.
_REASONS: Final = ("connections", "connections_per_address", "bodies_bytes")


MetricKind: TypeAlias = Literal["counter", "gauge"]
Sample: TypeAlias = tuple[dict[str, str], int | float]
"""Labels, and the value that has them."""


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
