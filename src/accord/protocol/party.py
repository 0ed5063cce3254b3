"""What a conversation keeps of each party, in bounded space: open requests, tokens, used ids."""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

import msgspec

from accord.protocol.exchange import Exchange
from accord.types._base import ProgressToken, RequestId

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


# Late answers to cancelled requests are recognized within this many further cancellations.
_CANCELLED_REMEMBERED: Final = 1024
# Shared by all parties without cancelled requests or tokens in use: an idle conversation owns less.
_NONE_CANCELLED: Final[Bounded[RequestId, Exchange]] = Bounded(0)
_NONE_IN_USE: Final[dict[ProgressToken, Exchange]] = {}


class PartyState(msgspec.Struct):
    """One party of a conversation: its open requests, progress tokens and capabilities.

    `capabilities` are dotted paths, None while they are unknown. `used` is every id it ever used;
    only a conversation that remembers has it, and such a one forgets the oldest open requests: it
    cannot refuse any.
    """

    open: dict[RequestId, Exchange] = msgspec.field(default_factory=dict)
    tokens: dict[ProgressToken, Exchange] = msgspec.field(default_factory=lambda: _NONE_IN_USE)
    cancelled: Bounded[RequestId, Exchange] = msgspec.field(default_factory=lambda: _NONE_CANCELLED)
    capabilities: frozenset[str] | None = None
    info: object = None
    used: UsedIds | None = None

    def keep_token(self, exchange: Exchange, token: ProgressToken) -> None:
        """Know a request by its token; of two with the same, the first."""
        if self.tokens is _NONE_IN_USE:
            self.tokens = {}
        self.tokens.setdefault(token, exchange)

    def forget_token(self, exchange: Exchange) -> None:
        """Free the token of a request that is over."""
        if exchange.token is not None and self.tokens.get(exchange.token) is exchange:
            del self.tokens[exchange.token]

    def remember_cancelled(self, exchange: Exchange) -> None:
        """Recognize the answer to a request that may still come, although it is not wanted."""
        if self.cancelled is _NONE_CANCELLED:
            self.cancelled = Bounded(_CANCELLED_REMEMBERED)
        self.cancelled[exchange.id] = exchange
