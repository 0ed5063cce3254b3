"""One run of a client under check against an server: what it did, how it ended."""

from typing import TYPE_CHECKING, Any

from accord.check.probing.raw_connection import RawConnection
from accord.check.verdicts import VerdictCollector
from accord.protocol.monitor import Evidence
from accord.trace import Transport
from accord.types import RevisionId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord.check.fake_server.http_transport import ReceivedRequest
    from accord.check.fake_server.server import FakeServer


class ClientRun:
    """What happened when a client met an server.

    Attributes:
        server: the server's part.
        transport: what was played over.
        outcomes: the verdicts.
        path: over HTTP, the path of the server.
        requests: every HTTP request of the client, in order.
        most_streams: over HTTP, how many event streams were open at the same time.
        exit_code: how the client ended; None where it had to be stopped.
        usual_exit: how it ends where the server does everything right.
        was_connected: whether a connection was still open when the client had to be stopped.
        left_running: over stdio, whether a launched server outlived the client.
        stderr: the last lines that it wrote.
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
        """The conversations that the client began."""
        return self.server.lines

    @property
    def line(self) -> RawConnection | None:
        """The first conversation, None where the client began none."""
        return self.server.lines[0] if self.server.lines else None

    @property
    def is_initialized(self) -> bool:
        """Whether the client said that it is ready."""
        return bool(self.received("notifications/initialized"))

    @property
    def ended_as_usual(self) -> bool:
        """Whether the client ended as it does where the server does everything right."""
        return self.exit_code is not None and self.exit_code == self.usual_exit_code

    def received(self, method: str) -> list[dict[str, Any]]:
        """Return all messages of the client with this method."""
        return [
            message
            for line in self.lines
            for message in line.received
            if message.get("method") == method
        ]

    def holds(
        self, id: str, condition: object, why: str, *, request: "ReceivedRequest | None" = None
    ) -> bool:
        """Note whether a requirement was kept; a breach outweighs all that was kept.

        Args:
            id: the requirement.
            condition: what must be true.
            why: what the client does if it is not.
            request: the HTTP request that runs it; without one, the last messages do.
        """
        shown: list[Evidence] = []
        if not condition and request is not None:
            shown = [_shown(request)]
        elif not condition and self.lines:
            shown = self.lines[-1].log.last()
        return self.verdicts.hold(id, condition, why, evidence=shown)

    def fail(self, id: str, why: str) -> None:
        """Note that a requirement was broken."""
        self.holds(id, condition=False, why=why)

    def passes(self, *ids: str) -> None:
        """Note that requirements were kept."""
        for id in ids:
            self.holds(id, condition=True, why="")

    def skip(self, id: str, why: str) -> None:
        """Note that a requirement could not be put to the test, and why."""
        self.verdicts.skip(id, why)

    def not_applicable(self, id: str, why: str) -> None:
        """Note that a requirement does not concern this client, and why."""
        known = self.verdicts.found.get(id)
        if known is not None and known.verdict == "not-exercised":
            del self.verdicts.found[id]
        self.verdicts.exclude(id, why)


def _shown(request: "ReceivedRequest") -> Evidence:
    secret = ("authorization", "cookie")
    heads = "; ".join(
        f"{name}: {'***' if name in secret else text}" for name, text in request.headers.items()
    )
    text = f"{request.method} {request.path} [{heads}] {request.body[:400].decode(errors='replace')}"
    return Evidence("HTTP request", "client", None, text[:1000])
