"""One run of a client under check against a fake server."""

from typing import TYPE_CHECKING

from accord.check.probing.raw_connection import RawConnection
from accord.check.verdicts import VerdictCollector
from accord.protocol.verdict import Evidence
from accord.trace import Transport
from accord.types import JsonObject, RevisionId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord.check.fake_server.http_transport import ReceivedRequest
    from accord.check.fake_server.server import FakeServer


class ClientRun:
    """What a client sent to a fake server, and how it ended.

    Attributes:
        server: the fake server.
        transport: the transport between both.
        outcomes: the verdicts.
        path: over HTTP, the path of the server.
        requests: every HTTP request of the client, in order.
        most_streams: over HTTP, how many event streams were open at the same time.
        exit_code: the client's exit code; None if it had to be stopped.
        usual_exit_code: its exit code with a correct server.
        was_connected: whether a connection was still open when the client had to be stopped.
        left_servers_running: over stdio, whether a launched server outlived the client.
        stderr: the last lines that the client wrote.
    """

    def __init__(self, server: "FakeServer", transport: Transport, revision: RevisionId) -> None:
        self.server = server
        self.transport = transport
        self.verdicts = VerdictCollector("client", revision)
        self.path = ""
        self.requests: list[ReceivedRequest] = []
        self.most_streams = 0
        self.exit_code: int | None = None
        self.usual_exit_code: int | None = None
        self.was_connected = False
        self.left_servers_running = False
        self.stderr: Sequence[str] = ()

    @property
    def revision(self) -> RevisionId:
        """The revision that the requirements are judged by."""
        return self.verdicts.revision

    @property
    def lines(self) -> list[RawConnection]:
        """The connections that the client opened."""
        return self.server.lines

    @property
    def connection(self) -> RawConnection | None:
        """The first connection; None if the client opened none."""
        return self.server.lines[0] if self.server.lines else None

    @property
    def is_initialized(self) -> bool:
        """Whether the client sent notifications/initialized."""
        return bool(self.messages("notifications/initialized"))

    @property
    def ended_as_usual(self) -> bool:
        """Whether the client ended with the same exit code as with a correct server."""
        return self.exit_code is not None and self.exit_code == self.usual_exit_code

    def messages(self, method: str) -> list[JsonObject]:
        """Return the client's messages with this method."""
        return [
            message
            for line in self.lines
            for message in line.received
            if message.get("method") == method
        ]

    def holds(
        self, id: str, condition: object, why: str, *, request: "ReceivedRequest | None" = None
    ) -> bool:
        """Record whether a requirement was met; one violation outweighs every pass.

        Args:
            id: the requirement.
            condition: what must be true.
            why: what the client does otherwise, without a subject.
            request: the HTTP request that shows it; the last messages by default.
        """
        evidence: list[Evidence] = []
        if not condition and request is not None:
            evidence = [_evidence_of(request)]
        elif not condition and self.lines:
            evidence = self.lines[-1].log.last()
        return self.verdicts.hold(id, condition, why, evidence=evidence)

    def fail(self, id: str, why: str) -> None:
        """Record that a requirement was violated."""
        self.holds(id, condition=False, why=why)

    def passes(self, *ids: str) -> None:
        """Record that requirements were met."""
        for id in ids:
            self.holds(id, condition=True, why="")

    def skip(self, id: str, why: str) -> None:
        """Record why a requirement could not be tested."""
        self.verdicts.skip(id, why)

    def not_applicable(self, id: str, why: str) -> None:
        """Record why a requirement does not apply to this client."""
        known = self.verdicts.found.get(id)
        if known is not None and known.verdict == "not-exercised":
            del self.verdicts.found[id]
        self.verdicts.exclude(id, why)


def _evidence_of(request: "ReceivedRequest") -> Evidence:
    secret = ("authorization", "cookie")
    heads = "; ".join(
        f"{name}: {'***' if name in secret else text}" for name, text in request.headers.items()
    )
    text = (
        f"{request.method} {request.path} [{heads}] {request.body[:400].decode(errors='replace')}"
    )
    return Evidence("HTTP request", "client", None, text[:1000])
