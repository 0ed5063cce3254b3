"""What a monitor remembers beyond the open exchanges, in bounded space."""

from typing import TYPE_CHECKING, Any

import msgspec

from accord.protocol.party import Bounded
from accord.protocol.violation import Party
from accord.types._base import RequestId

if TYPE_CHECKING:
    from accord.protocol.exchange import Exchange


class KnownTask(msgspec.Struct, kw_only=True):
    """A task, by its last report: its owner, the request that became it, its questions."""

    owner: Party
    request: "Exchange | None" = None
    status: str | None = None
    asked: dict[str, Any] = {}
    answered: set[str] = set()


class Round(msgspec.Struct, kw_only=True):
    """Questions that a request was answered with; `ids` are of the request and its repeats."""

    ids: tuple[RequestId, ...]
    asked: dict[str, Any]


class Memory:
    """What deep rules need to know of earlier messages."""

    def __init__(self) -> None:
        self.tools: Bounded[str, dict[str, Any]] = Bounded()
        self.tool_pages: Bounded[str, frozenset[str]] = Bounded(1_000)
        """By cursor, the names of the tools on the pages before the one it leads to."""
        self.cursors: dict[str, Bounded[str, None]] = {}
        self.subscribed: Bounded[str, None] = Bounded()
        self.log_level: str | None = None
        self.tasks: Bounded[tuple[Party, str], KnownTask] = Bounded()
        """By owner and task id."""
        self.rounds: Bounded[str, Round] = Bounded()
        """By the state that was handed out, and by what was requested."""
        self.acknowledged: Bounded[RequestId, None] = Bounded()
        """The listen requests under way whose filter the server has confirmed."""
        self.facts: dict[str, Any] = {}
        """Scratch space of single rules, by requirement id."""

    def cursors_of(self, method: str) -> Bounded[str, None]:
        """The cursors a server has given out for a list method."""
        return self.cursors.setdefault(method, Bounded())
