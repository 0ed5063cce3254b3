"""The sessions of an app by caller: which session makes room for a new one."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from heapq import nlargest
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Final

from accord.transports.http.server.session import HttpSession

# How many sessions of a caller are searched for an idle one; more would take too long.
_SEARCHED: Final = 1_000
# How many of the callers with most sessions are searched for an idle one.
_LARGEST: Final = 8
# Providers give each customer at least a /64 network (RFC 6177).
_NETWORK_BITS: Final = 64


def caller_key(principal: Hashable, peer: Sequence[object] | None) -> Hashable:
    """Return the key of the quota that a session counts in.

    Args:
        principal: the caller, if it is known.
        peer: the address and port of the client, as in the ASGI scope.
    """
    if principal is not None:
        try:
            hash(principal)
        except TypeError:
            pass
        else:
            return principal
    host = None if peer is None else str(peer[0])
    try:
        address = ip_address(host or "")
    except ValueError:
        return ("peer", host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return ("peer", int(address) >> _NETWORK_BITS)
    return ("peer", host)


class _Caller:
    """The sessions of one caller: those never used after `initialize`, and the others.

    Both are in the order in which sessions were added. A session that was used since then is moved
    to the end when a search finds it, so that using a session costs nothing.
    """

    __slots__ = ("unused", "used")

    def __init__(self) -> None:
        self.unused: dict[HttpSession, None] = {}
        self.used: OrderedDict[HttpSession, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self.unused) + len(self.used)

    @property
    def rank(self) -> tuple[int, float]:
        """The order in which callers make room: most sessions first, then longest idle."""
        oldest = next(iter(self.unused), None) or next(iter(self.used), None)
        return len(self), 0.0 if oldest is None else -oldest.used

    def find_idle(self) -> HttpSession | None:
        """Return the session to end first; None if all are in use."""
        for session in self.unused:
            if session.is_idle(inf):
                return session
        for _ in range(min(len(self.used) + 1, _SEARCHED) if self.used else 0):
            session, placed = next(iter(self.used.items()))
            if session.used <= placed and session.is_idle(inf):
                return session
            self.used[session] = session.used
            self.used.move_to_end(session)
        return None


class Callers:
    """The sessions of an app by caller."""

    def __init__(self) -> None:
        self._callers: dict[Hashable, _Caller] = {}

    def __len__(self) -> int:
        return len(self._callers)

    def add(self, session: HttpSession) -> None:
        """Add a session."""
        caller = self._callers.get(session.caller)
        if caller is None:
            caller = self._callers[session.caller] = _Caller()
        if session.is_opened:
            caller.used[session] = session.used
        else:
            caller.unused[session] = None

    def open(self, session: HttpSession) -> None:
        """Mark a session as used."""
        caller = self._callers.get(session.caller)
        if caller is not None and session in caller.unused:
            del caller.unused[session]
            caller.used[session] = session.used

    def remove(self, session: HttpSession) -> None:
        """Remove a session."""
        caller = self._callers.get(session.caller)
        if caller is not None:
            caller.unused.pop(session, None)
            caller.used.pop(session, None)
            if not caller:
                del self._callers[session.caller]

    def count(self, caller: Hashable) -> int:
        """Return how many sessions a caller has."""
        found = self._callers.get(caller)
        return 0 if found is None else len(found)

    def find_idle(self, caller: Hashable) -> HttpSession | None:
        """Return the session of a caller to end first; None if all are in use."""
        found = self._callers.get(caller)
        return None if found is None else found.find_idle()

    def find_idle_of_others(self, caller: Hashable, before: float) -> HttpSession | None:
        """Return a session of another caller to end, for a caller whose own are all in use.

        Callers with more sessions lose any idle one; others only one not used since `before`.
        """
        own = self.count(caller)
        for each in nlargest(_LARGEST, self._callers.values(), key=lambda each: each.rank):
            session = each.find_idle()
            if session is not None and (len(each) > own + 1 or session.used < before):
                return session
        return None
