"""Counts of what a server does over HTTP, as Prometheus reads them."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accord.transports.http.server.app import HttpApp

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_METHODS: Final = ("POST", "GET", "DELETE", "OPTIONS", "HEAD")
_OTHER: Final = "other"
# The settings whose limits refuse connections.
_REASONS: Final = ("connections", "connections_per_address", "bodies_bytes")


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


def encode_metrics(app: "HttpApp", listener: ListenerMetrics | None) -> bytes:
    """Return what is known in the text format of Prometheus, version 0.0.4.

    Args:
        app: what is served.
        listener: serves it; None under another server.
    """
    state = app.state
    lines: list[str] = []
    if listener is not None:
        _add(lines, "connections_open", "gauge", "Open connections.", {"": listener.open})
        what = "Connections that were accepted."
        _add(lines, "connections_total", "counter", what, {"": listener.accepted})
        what = "Connections that were refused, by the setting that limits them."
        refused = {f'{{setting="{name}"}}': count for name, count in listener.refused.items()}
        _add(lines, "connections_refused_total", "counter", what, refused)
        responses = {
            f'{{method="{method}",status="{digit}xx"}}': count
            for method, counts in listener.responses.items()
            for digit, count in enumerate(counts)
            if count
        }
        what = "Responses by the method of the request and the class of the status."
        _add(lines, "responses_total", "counter", what, responses)
    what = "Requests that are being served, with those whose response is an open stream."
    _add(lines, "requests_open", "gauge", what, {"": app.under_way})
    _add(lines, "streams_open", "gauge", "Open event streams.", {"": len(state.readers)})
    what = "Requests that only listen for notifications."
    _add(lines, "listeners_open", "gauge", what, {"": state.listening})
    _add(lines, "sessions_open", "gauge", "Open sessions.", {"": len(app.sessions)})
    what = "Bytes of requests whose body is incomplete."
    _add(lines, "bodies_bytes", "gauge", what, {"": app.bodies.size})
    stopping = int(state.is_stopping)
    _add(lines, "stopping", "gauge", "1 once the server has begun to stop.", {"": stopping})
    return "".join(lines).encode()


def _add(lines: list[str], name: str, kind: str, what: str, values: dict[str, int]) -> None:
    lines.append(f"# HELP accord_{name} {what}\n# TYPE accord_{name} {kind}\n")
    lines += [f"accord_{name}{labels} {value}\n" for labels, value in values.items()]
