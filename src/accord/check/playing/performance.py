"""One run of a client under check against an actor: where it connects, how it ended."""

from typing import TYPE_CHECKING

from accord.check.outcomes import Outcomes
from accord.check.probing.line import Line
from accord.trace import Transport
from accord.types import RevisionId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord.check.playing.actor import Actor
    from accord.check.playing.web import HttpAsked

__all__ = ["Performance"]


class Performance:
    """What happened when a client met an actor.

    Attributes:
        actor: the server's part.
        transport: what was played over.
        revision: what the requirements are judged by.
        outcomes: the verdicts.
        requests: every HTTP request of the client, in order.
        exit_code: how the client ended; None where it had to be stopped.
        stderr: the last lines that it wrote.
    """

    def __init__(self, actor: "Actor", transport: Transport, revision: RevisionId) -> None:
        self.actor = actor
        self.transport = transport
        self.outcomes = Outcomes("client", revision)
        self.requests: list[HttpAsked] = []
        self.exit_code: int | None = None
        self.stderr: Sequence[str] = ()

    @property
    def revision(self) -> RevisionId:
        """The revision that the requirements are judged by."""
        return self.outcomes.revision

    @property
    def lines(self) -> list[Line]:
        """The conversations that the client began."""
        return self.actor.lines

    @property
    def line(self) -> Line | None:
        """The first conversation, None where the client began none."""
        return self.actor.lines[0] if self.actor.lines else None

    def heard(self, method: str) -> list[dict[str, object]]:
        """Return all messages of the client with this method."""
        return [
            message
            for line in self.lines
            for message in line.heard
            if message.get("method") == method
        ]

    def holds(self, id: str, condition: object, why: str, *, evidence: int = 4) -> bool:
        """Note whether a requirement was kept; a breach outweighs all that was kept."""
        shown = [] if condition or self.line is None else self.lines[-1].tape.last(evidence)
        return self.outcomes.hold(id, condition, why, evidence=shown)

    def broken(self, id: str, why: str) -> None:
        """Note that a requirement was broken."""
        self.holds(id, condition=False, why=why)

    def skip(self, id: str, why: str) -> None:
        """Note that a requirement could not be put to the test, and why."""
        self.outcomes.skip(id, why)

    def not_applicable(self, id: str, why: str) -> None:
        """Note that a requirement does not concern this client, and why."""
        self.outcomes.exclude(id, why)
