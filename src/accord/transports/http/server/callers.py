"""Whose the sessions of an app are: which one makes room for another."""

from collections import OrderedDict
from collections.abc import Hashable
from heapq import nlargest
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Any, Final

from accord.transports.http.server.session import HttpSession

__all__ = ["Callers", "caller_of"]

# How many sessions are looked at to find one that can end; a caller with more that are all busy
# would hold up the others.
_LOOKED_AT: Final = 1_000
# How many of the largest callers are asked for a session that can end.
_ASKED: Final = 8
# A provider gives each customer as many addresses as these bits leave.
_NETWORK_BITS: Final = 64


def caller_of(principal: Hashable, peer: Any) -> Hashable:
    """Return whose quota a session counts in.

    Args:
        principal: who sends the request, where that is known.
        peer: the address it comes from, as ASGI has it.
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
    """The sessions of one caller: those never used after they were opened, and the others.

    Both begin with the session that was placed there first. A session that was used since then is
    placed anew when it is met, so that using a session costs nothing.
    """

    __slots__ = ("unused", "used")

    def __init__(self) -> None:
        self.unused: dict[HttpSession, None] = {}
        self.used: OrderedDict[HttpSession, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self.unused) + len(self.used)

    @property
    def rank(self) -> tuple[int, float]:
        """Tells who has to make room first: the caller with the most, or the longest idle."""
        oldest = next(iter(self.unused), None) or next(iter(self.used), None)
        return len(self), 0.0 if oldest is None else -oldest.used

    def find_idle(self) -> HttpSession | None:
        """Return the session that can end first; None where all are in use."""
        for session in self.unused:
            if session.is_idle(inf):
                return session
        for _ in range(min(len(self.used) + 1, _LOOKED_AT) if self.used else 0):
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
        """Count a session in."""
        caller = self._callers.get(session.caller)
        if caller is None:
            caller = self._callers[session.caller] = _Caller()
        if session.is_opened:
            caller.used[session] = session.used
        else:
            caller.unused[session] = None

    def open(self, session: HttpSession) -> None:
        """Take note that a session is used for the first time."""
        caller = self._callers.get(session.caller)
        if caller is not None and session in caller.unused:
            del caller.unused[session]
            caller.used[session] = session.used

    def remove(self, session: HttpSession) -> None:
        """Count a session out."""
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
        """Return the session of a caller that can end first; None where all are in use."""
        found = self._callers.get(caller)
        return None if found is None else found.find_idle()

    def find_idle_of_others(self, caller: Hashable, before: float) -> HttpSession | None:
        """Return a session that can end for one of a caller that has none to give.

        Callers that have more sessions give one at any time, others only one that was not used
        since `before`.
        """
        own = self.count(caller)
        for each in nlargest(_ASKED, self._callers.values(), key=lambda each: each.rank):
            session = each.find_idle()
            if session is not None and (len(each) > own + 1 or session.used < before):
                return session
        return None
