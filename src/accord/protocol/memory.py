"""What a bystander remembers beyond the open exchanges, in bounded space."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from accord.protocol.violation import Party
from accord.types._base import RequestId

if TYPE_CHECKING:
    from accord.protocol.exchange import Exchange

Key = TypeVar("Key")
Value = TypeVar("Value")

# Enough for any real session; a recording that exceeds it is judged on the newest part.
REMEMBERED: Final = 100_000


class Bounded(OrderedDict[Key, Value], Generic[Key, Value]):
    """A dictionary that forgets its oldest entries beyond a limit."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self.limit:
            self.popitem(last=False)


class UsedIds:
    """Every id a party has used: a range, since most parties count, and what lies outside it."""

    def __init__(self) -> None:
        self._texts: Bounded[str, None] = Bounded()
        self._scattered: Bounded[int, None] = Bounded()
        self._low: int | None = None
        self._high: int | None = None

    def __contains__(self, id: RequestId) -> bool:
        if isinstance(id, str):
            return id in self._texts
        if self._low is not None and self._high is not None and self._low <= id <= self._high:
            return True
        return id in self._scattered

    def add(self, id: RequestId) -> None:
        """Remember an id."""
        if isinstance(id, str):
            self._texts[id] = None
        elif self._low is None or self._high is None:
            self._low = self._high = id
        elif id == self._high + 1:
            self._high = id
        elif id == self._low - 1:
            self._low = id
        elif id not in self:
            self._scattered[id] = None


class KnownTask(msgspec.Struct, kw_only=True):
    """A task, by its last report: whose it is, the request that became it, its questions."""

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
