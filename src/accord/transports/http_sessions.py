"""The sessions of an app: opened, found, ended; a bounded number of them."""

import secrets
import time
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any, Final

from accord.bindings import http
from accord.transports.http_callers import Callers, caller_of
from accord.transports.http_exchange import HttpExchange
from accord.transports.http_session import HttpSession
from accord.transports.streams import Stream

__all__ = ["HttpSessions"]

# A stream that has come to its end can be resumed for as long as a client may take to come back.
_KEPT: Final = 120.0
# However few events it has, a stream costs a KB.
_RETIRED_MOST: Final = 10_000
# A client that never says anything after `initialize` was no client.
_UNOPENED_MOST: Final = 60.0
# Other callers' sessions that were used since then are not ended to make room.
_RECENT: Final = 10.0
# Verifiers take tokens for about as long after their end; a stream that ends at once helps nobody.
_LEEWAY: Final = 60.0
_BUSY: Final = (("retry-after", "5"),)
_UNKNOWN: Final = http.HttpRefusal(404, "the session is unknown or has ended; initialize anew")


class HttpSessions:
    """The sessions of an app."""

    def __init__(self, app: Any) -> None:
        self._app = app
        # By what the header says, so that it need not be decoded.
        self._found: dict[bytes, HttpSession] = {}
        self._callers = Callers()
        self._retired: deque[tuple[float, HttpSession, int]] = deque()

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: bytes | None) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._found.values()))

    def principal(self, exchange: HttpExchange) -> Any:
        """Return who sends a request."""
        principal_of = self._app.options.principal
        if principal_of is None:
            return exchange.scope.get("accord.principal")  # which a guard has put there
        return principal_of(exchange.scope)

    def lease(self, exchange: HttpExchange) -> float:
        """Return until when what a request asks for may go on: its token is good no longer."""
        expires_at: float | None = getattr(self.principal(exchange), "expires_at", None)
        if expires_at is None:
            return float("inf")
        left = expires_at - time.time()
        now: float = self._app.now()
        return now + (left if left > 0 else _LEEWAY)

    def find(self, key: bytes, exchange: HttpExchange) -> HttpSession | http.HttpRefusal:
        """Return the session that a request names."""
        session = self._found.get(key)
        principal = self.principal(exchange)
        if session is None or not (
            session.principal is principal or session.principal == principal
        ):
            return _UNKNOWN  # session.end.terminated-404
        session.used = self._app.now()
        if not session.is_opened:
            session.is_opened = True
            self._callers.open(session)
        return session

    def begin(self, exchange: HttpExchange) -> HttpSession | http.HttpRefusal:
        """Make a session; it counts from when it is kept."""
        if self._app.is_stopping:
            return http.HttpRefusal(503, "the server is stopping", code=-32000, headers=_BUSY)
        principal = self.principal(exchange)
        caller = caller_of(principal, exchange.scope.get("client"))
        why = self._make_room(caller)
        if why is not None:
            return http.HttpRefusal(503, why, -32000, _BUSY)
        id = secrets.token_urlsafe(24)  # session.id.secure
        return HttpSession(self._app, id, principal=principal, caller=caller)

    def keep(self, session: HttpSession) -> None:
        """Let clients come back to a session."""
        self._make_room(session.caller)  # others may have been kept since it began
        self._found[session.id.encode()] = session
        session.is_opened = session.only_stream is not None
        self._callers.add(session)

    def _make_room(self, caller: Hashable) -> str | None:
        """End a session for a new one where there are too many; returns why that is not possible.

        A caller gives up its own sessions first, the longest idle before others.
        """
        options, callers = self._app.options, self._callers
        if callers.count(caller) >= options.sessions_per_caller:
            idle = callers.find_idle(caller)
            if idle is None:
                each = options.sessions_per_caller
                return f"{each} sessions of one caller are in use (sessions_per_caller)"
            self.end(idle)
        if len(self._found) >= options.sessions:
            idle = callers.find_idle(caller)
            if idle is None:
                idle = callers.find_idle_of_others(caller, self._app.now() - _RECENT)
            if idle is None:
                return f"{options.sessions} sessions are open (sessions)"
            self.end(idle)
        return None

    def end(self, session: HttpSession) -> None:
        """End a session."""
        key = session.id.encode()
        self._found.pop(key, None)
        self._callers.remove(session)
        session.close()

    def retire(self, session: HttpSession, stream: Stream) -> None:
        """Keep a stream that has come to its end for a while."""
        self._retired.append((self._app.now() + _KEPT, session, stream.name))
        if len(self._retired) > _RETIRED_MOST:
            self._forget_oldest()

    def sweep(self, now: float) -> None:
        """End sessions that nobody has used for long; forget streams that nobody came back for."""
        while self._retired and self._retired[0][0] < now:
            self._forget_oldest()
        before = now - self._app.options.session_idle
        unopened = max(before, now - _UNOPENED_MOST)
        for session in self:
            if session.is_idle(before if session.is_opened else unopened):
                self.end(session)

    def _forget_oldest(self) -> None:
        _, session, name = self._retired.popleft()
        session.forget_stream(name)

    def close(self) -> None:
        """End all of them."""
        for session in self:
            self.end(session)
        self._retired.clear()
