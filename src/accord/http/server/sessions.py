"""The sessions of an app: opened, found, ended; a limited number of them, also for each caller."""

import logging
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Hashable, Iterator, Sequence
from hashlib import sha256
from heapq import nlargest
from math import inf
from typing import Final, TypeAlias

from accord.http.rules import gate
from accord.http.rules.addresses import client_network
from accord.http.server.exchange import HttpExchange
from accord.http.server.session import HttpSession
from accord.http.server.state import AppState, ServedSession
from accord.principal import Principal

log = logging.getLogger("accord.http")

# So many random bytes stand at either end.
_RANDOM: Final = 12
_APP: Final = slice(12, 16)
_PROCESS: Final = slice(16, 20)
_TIME: Final = slice(20, 24)
_LENGTH: Final = 36
# Seconds after which a session ends that its client has never named after `initialize`.
_UNOPENED_MOST: Final = 60.0
# Sessions of other callers that were used within these seconds are not ended to make room.
_RECENT: Final = 10.0
_BUSY: Final = (("retry-after", "5"),)
_UNKNOWN: Final = gate.HttpRefusal(404, "the session is unknown or has ended; initialize anew")
_ELSEWHERE: Final = gate.HttpRefusal(
    404,
    "the session is one of another process of this server: several processes need a store, as in "
    "server.asgi(store=...); initialize anew",
)
# How many sessions of a caller are searched for an idle one; more would take too long.
_SEARCHED: Final = 1_000
# How many of the callers with most sessions are searched for an idle one.
_LARGEST: Final = 8


def caller_key(principal: Principal | None, peer: Sequence[object] | None) -> Hashable:
    """Return the key of the quota that a session counts in.

    Args:
        principal: the caller, if it is known.
        peer: the address and port of the client, as in the ASGI scope.
    """
    if principal is not None:
        return principal
    return ("peer", None if peer is None else client_network(str(peer[0])))


class _Caller:
    """The sessions of one caller: those never used after `initialize`, and the others.

    Both are in the order in which sessions were added. A session that was used since then is moved
    to the end when a search finds it, so that using a session costs nothing. The used ones form a
    ring that begins and ends here: each knows its neighbours, which costs 16 bytes.
    """

    __slots__ = ("_used", "after", "before", "key", "unused")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.unused: dict[HttpSession, None] = {}
        self.before: SessionPlace = self
        self.after: SessionPlace = self
        self._used = 0

    def __len__(self) -> int:
        return len(self.unused) + self._used

    @property
    def rank(self) -> tuple[int, float]:
        """The order in which callers make room: most sessions first, then longest idle."""
        oldest = next(iter(self.unused), None) or self.after
        return len(self), -oldest.used if isinstance(oldest, HttpSession) else 0.0

    def append(self, session: HttpSession) -> None:
        """Add a session that is used, at the end."""
        self._used += 1
        session.placed = session.used
        session.before, session.after = self.before, self
        self.before.after = self.before = session

    def remove(self, session: HttpSession) -> None:
        """Remove a session, used or not."""
        if session.before is None or session.after is None:
            self.unused.pop(session, None)
            return
        self._used -= 1
        session.before.after, session.after.before = session.after, session.before
        session.before = session.after = None

    def find_idle(self) -> HttpSession | None:
        """Return the session to end first; None if all are in use."""
        for session in self.unused:
            if session.is_idle(inf):
                return session
        for _ in range(min(self._used + 1, _SEARCHED)):
            first = self.after
            if not isinstance(first, HttpSession):
                break
            if first.used <= first.placed and first.is_idle(inf):
                return first
            self.remove(first)
            self.append(first)
        return None


SessionPlace: TypeAlias = HttpSession | _Caller
"""A place in the ring of a caller's sessions."""


class _ProtocolSessions:
    """The protocol sessions of an app, for the server behind it."""

    __slots__ = ("__weakref__", "_found")

    def __init__(self, found: dict[bytes, HttpSession]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[ServedSession]:
        for each in list(self._found.values()):
            yield each.session


class HttpSessions:
    """The sessions of an app, in all and by caller."""

    def __init__(self, state: AppState) -> None:
        self._state = state
        # By the bytes of the header, so that it need not be decoded.
        self._found: dict[bytes, HttpSession] = {}
        self._callers: dict[Hashable, _Caller] = {}
        self._listed = _ProtocolSessions(self._found)
        self._name = str(getattr(state.server, "name", ""))
        self._ids = SessionIds(self._name)
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._found.values()))

    def find(self, key: bytes, exchange: HttpExchange) -> HttpSession | gate.HttpRefusal:
        """Return the session that a request names, if its caller has opened it."""
        session = self._found.get(key)
        principal = exchange.principal
        if session is None or not (
            session.principal is principal or session.principal == principal
        ):
            # session.end.terminated-404
            return _UNKNOWN if session is not None else self._refuse_unknown(key)
        session.used = self._state.now()
        if session.after is None:
            self._note_first_use(session)
        return session

    def _refuse_unknown(self, key: bytes) -> gate.HttpRefusal:
        if not self._ids.is_of_other_process(key):
            return _UNKNOWN
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%r: a client sent a request of a session to this process that another one has "
                "opened: several processes need a store, as in "
                "server.asgi(store='sqlite:///%s.db'); see docs/scaling.md",
                self._name,
                self._name,
            )
        return _ELSEWHERE

    def _note_first_use(self, session: HttpSession) -> None:
        caller = self._callers[session.caller]
        caller.remove(session)
        caller.append(session)

    def begin(self, exchange: HttpExchange) -> HttpSession | gate.HttpRefusal:
        """Make a session; it counts once it is kept."""
        if self._state.is_stopping:
            return gate.HttpRefusal(503, "the server is stopping", code=-32000, headers=_BUSY)
        principal = exchange.principal
        caller = caller_key(principal, exchange.scope.get("client"))
        why = self._make_room(caller)
        if why is not None:
            return gate.HttpRefusal(503, why, -32000, _BUSY)
        return HttpSession(self._state, self._ids.make(), principal=principal, caller=caller)

    def keep(self, session: HttpSession) -> None:
        """Let clients come back to a session."""
        self._make_room(session.caller)  # others may have been kept since it began
        self._found[session.key] = session
        session.session.list_in(self._listed)
        caller = self._callers.get(session.caller)
        if caller is None:
            caller = self._callers[session.caller] = _Caller(session.caller)
        session.caller = caller.key  # one of the equal keys is enough
        if session.only_stream is None:
            caller.unused[session] = None
        else:
            caller.append(session)

    def _make_room(self, caller: Hashable) -> str | None:
        """End an idle session if there are too many; return the reason if none is idle.

        A caller loses its own sessions first, the longest idle before others.
        """
        options = self._state.options
        own = self._callers.get(caller) or _Caller(caller)
        if len(own) >= options.sessions_per_caller:
            idle = own.find_idle()
            if idle is None:
                each = options.sessions_per_caller
                return f"{each} sessions of one caller are in use (sessions_per_caller)"
            self.end(idle)
        if len(self._found) >= options.sessions:
            idle = own.find_idle() or self._find_idle_of_others(len(own))
            if idle is None:
                return f"{options.sessions} sessions are open (sessions)"
            self.end(idle)
        return None

    def _find_idle_of_others(self, own: int) -> HttpSession | None:
        """Return a session of another caller to end, for a caller whose own are all in use.

        Callers with more sessions lose any idle one; others only one that was not just used.
        """
        before = self._state.now() - _RECENT
        for each in nlargest(_LARGEST, self._callers.values(), key=lambda each: each.rank):
            session = each.find_idle()
            if session is not None and (len(each) > own + 1 or session.used < before):
                return session
        return None

    def end(self, session: HttpSession) -> None:
        was_kept = self._found.pop(session.key, None) is not None
        caller = self._callers.get(session.caller)
        if was_kept and caller is not None:
            caller.remove(session)
            if not caller:
                del self._callers[session.caller]
        session.close()

    def sweep(self, now: float) -> None:
        """End sessions that have been idle for too long."""
        before = now - self._state.options.session_idle
        unopened = max(before, now - _UNOPENED_MOST)
        for session in self:
            if session.is_idle(before if session.is_opened else unopened):
                self.end(session)
            else:
                session.release_tables()

    def close(self) -> None:
        for session in self:
            self.end(session)


class SessionIds:
    """Makes ids: the server, the process and the time, between random parts.

    An id of this server that was made while this process ran, and not by it, is that of a process
    beside it. One that was made before may be that of a process which it replaces.

    Args:
        name: of the server.
    """

    def __init__(self, name: str) -> None:
        self._app = sha256(name.encode()).digest()[:4]
        self._process = os.urandom(4)
        self._since = int(time.time())

    def make(self) -> bytes:
        """Return an id that cannot be guessed."""
        made = (int(time.time()) & 0xFFFFFFFF).to_bytes(4, "big")
        mark = self._app + self._process + made
        # session.id.secure
        random = secrets.token_bytes(2 * _RANDOM)
        return urlsafe_b64encode(random[:_RANDOM] + mark + random[_RANDOM:])

    def is_of_other_process(self, key: bytes) -> bool:
        """Whether a process that serves beside this one has made an id."""
        try:
            id = urlsafe_b64decode(key[: 2 * _LENGTH])
        except ValueError:
            return False
        return (
            len(id) == _LENGTH
            and id[_APP] == self._app
            and id[_PROCESS] != self._process
            and int.from_bytes(id[_TIME], "big") > self._since
        )
