"""The sessions of an app: opened, found, ended; a limited number of them."""

import secrets
from collections.abc import Hashable, Iterator
from typing import Final

from accord.bindings import http
from accord.transports.http.server.callers import Callers, caller_key
from accord.transports.http.server.exchange import HttpExchange
from accord.transports.http.server.session import HttpSession
from accord.transports.http.server.state import AppState

# Seconds after which a session ends that its client has never named after `initialize`.
_UNOPENED_MOST: Final = 60.0
# Sessions of other callers that were used within these seconds are not ended to make room.
_RECENT: Final = 10.0
_BUSY: Final = (("retry-after", "5"),)
_UNKNOWN: Final = http.HttpRefusal(404, "the session is unknown or has ended; initialize anew")


class HttpSessions:
    """The sessions of an app.

    Args:
        state: of the app.
    """

    def __init__(self, state: AppState) -> None:
        self._state = state
        # By the bytes of the header, so that it need not be decoded.
        self._found: dict[bytes, HttpSession] = {}
        self._callers = Callers()

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._found.values()))

    def find(self, key: bytes, exchange: HttpExchange) -> HttpSession | http.HttpRefusal:
        """Return the session that a request names, if its caller has opened it."""
        session = self._found.get(key)
        principal = exchange.principal
        if session is None or not (
            session.principal is principal or session.principal == principal
        ):
            return _UNKNOWN  # session.end.terminated-404
        session.used = self._state.now()
        if not session.is_opened:
            session.is_opened = True
            self._callers.open(session)
        return session

    def begin(self, exchange: HttpExchange) -> HttpSession | http.HttpRefusal:
        """Make a session; it counts once it is kept."""
        if self._state.is_stopping:
            return http.HttpRefusal(503, "the server is stopping", code=-32000, headers=_BUSY)
        principal = exchange.principal
        caller = caller_key(principal, exchange.scope.get("client"))
        why = self._make_room(caller)
        if why is not None:
            return http.HttpRefusal(503, why, -32000, _BUSY)
        id = secrets.token_urlsafe(24)  # session.id.secure
        return HttpSession(self._state, id, principal=principal, caller=caller)

    def keep(self, session: HttpSession) -> None:
        """Let clients come back to a session."""
        self._make_room(session.caller)  # others may have been kept since it began
        self._found[session.id.encode()] = session
        session.is_opened = session.only_stream is not None
        self._callers.add(session)

    def _make_room(self, caller: Hashable) -> str | None:
        """End an idle session if there are too many; return the reason if none is idle.

        A caller loses its own sessions first, the longest idle before others.
        """
        options, callers = self._state.options, self._callers
        if callers.count(caller) >= options.sessions_per_caller:
            idle = callers.find_idle(caller)
            if idle is None:
                each = options.sessions_per_caller
                return f"{each} sessions of one caller are in use (sessions_per_caller)"
            self.end(idle)
        if len(self._found) >= options.sessions:
            idle = callers.find_idle(caller)
            if idle is None:
                idle = callers.find_idle_of_others(caller, self._state.now() - _RECENT)
            if idle is None:
                return f"{options.sessions} sessions are open (sessions)"
            self.end(idle)
        return None

    def end(self, session: HttpSession) -> None:
        """End a session."""
        self._found.pop(session.id.encode(), None)
        self._callers.remove(session)
        session.close()

    def sweep(self, now: float) -> None:
        """End sessions that have been idle for too long."""
        before = now - self._state.options.session_idle
        unopened = max(before, now - _UNOPENED_MOST)
        for session in self:
            if session.is_idle(before if session.is_opened else unopened):
                self.end(session)

    def close(self) -> None:
        """End all of them."""
        for session in self:
            self.end(session)
