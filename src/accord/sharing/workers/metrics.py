"""Counts of what one worker does in the store, and how they are called."""

from typing import Final, NamedTuple

from accord.http.server.metrics import MetricFamily, MetricKind

__all__ = ["COUNTS", "CountRow", "WorkerMetrics"]


class WorkerMetrics:
    """Counts of one worker since its start, and what holds at present.

    Attributes:
        takeovers: lost workers whose work this one has taken over.
        fenced_appends: entries that were refused because another worker has taken over.
        missed_notifications: times that something new was found in a log without a notification.
        inbox_lag: messages that waited when the inbox was last read.
        store_errors: operations that the store did not answer, or failed.
        store_seconds: seconds that all operations of the store took together.
        store_operations: operations of the store.
        streams_followed: logs that responses of this worker follow at present.
        sessions_loaded: sessions that were read from the store.
        sessions_saved: changes of sessions that were written to the store.
        messages_sent: messages to other workers.
        messages_received: messages from other workers.
        lease_margin: seconds that were left of the lease when it was last renewed.
    """

    __slots__ = (
        "fenced_appends",
        "inbox_lag",
        "lease_margin",
        "messages_received",
        "messages_sent",
        "missed_notifications",
        "sessions_loaded",
        "sessions_saved",
        "store_errors",
        "store_operations",
        "store_seconds",
        "streams_followed",
        "takeovers",
    )

    def __init__(self) -> None:
        self.takeovers = 0
        self.fenced_appends = 0
        self.missed_notifications = 0
        self.inbox_lag = 0
        self.store_errors = 0
        self.store_seconds = 0.0
        self.store_operations = 0
        self.streams_followed = 0
        self.sessions_loaded = 0
        self.sessions_saved = 0
        self.messages_sent = 0
        self.messages_received = 0
        self.lease_margin = 0.0

    def describe(self) -> list[MetricFamily]:
        """Return the counts as metric families."""
        return [
            MetricFamily(row.name, row.kind, row.what, [({}, getattr(self, row.attribute))])
            for row in COUNTS
        ]


class CountRow(NamedTuple):
    """How one of the counts is published.

    Attributes:
        attribute: that of `WorkerMetrics`.
        name: of its metric family.
        kind: of its metric family.
        unit: as OpenTelemetry writes it.
        what: what is counted.
    """

    attribute: str
    name: str
    kind: MetricKind
    unit: str
    what: str


COUNTS: Final = (
    CountRow(
        "takeovers",
        "worker_takeovers",
        "counter",
        "{worker}",
        "Lost workers whose work this one has taken over.",
    ),
    CountRow(
        "fenced_appends",
        "worker_fenced_appends",
        "counter",
        "{append}",
        "Entries that were refused because another worker has taken over.",
    ),
    CountRow(
        "missed_notifications",
        "worker_missed_bells",
        "counter",
        "{bell}",
        "Times that something new was found in the store without a notification.",
    ),
    CountRow(
        "inbox_lag",
        "worker_inbox_lag",
        "gauge",
        "{message}",
        "Messages that waited when the inbox was last read.",
    ),
    CountRow(
        "store_errors",
        "store_errors",
        "counter",
        "{error}",
        "Operations that the store did not answer, or failed.",
    ),
    CountRow(
        "store_seconds",
        "store_seconds",
        "counter",
        "s",
        "Seconds that all operations of the store took together.",
    ),
    CountRow(
        "store_operations",
        "store_operations",
        "counter",
        "{operation}",
        "Operations of the store.",
    ),
    CountRow(
        "streams_followed",
        "worker_streams_followed",
        "gauge",
        "{stream}",
        "Logs in the store that responses of this worker follow.",
    ),
    CountRow(
        "sessions_loaded",
        "worker_sessions_loaded",
        "counter",
        "{session}",
        "Sessions that were read from the store.",
    ),
    CountRow(
        "sessions_saved",
        "worker_sessions_saved",
        "counter",
        "{session}",
        "Changes of sessions that were written to the store.",
    ),
    CountRow(
        "messages_sent",
        "worker_messages_sent",
        "counter",
        "{message}",
        "Messages to other workers.",
    ),
    CountRow(
        "messages_received",
        "worker_messages_received",
        "counter",
        "{message}",
        "Messages from other workers.",
    ),
    CountRow(
        "lease_margin",
        "worker_lease_margin_seconds",
        "gauge",
        "s",
        "Seconds that were left of the lease when it was last renewed.",
    ),
)
"""All counts of a worker, in the order in which they are published."""
