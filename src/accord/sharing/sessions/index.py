"""The index of open sessions in the store: how many there are, in all and of each caller."""

import asyncio
from typing import TYPE_CHECKING, Final

from accord.http.rules import gate
from accord.sharing.workers import names
from accord.sharing.workers.session_records import UNUSED_TTL
from accord.sharing.workers.session_tokens import identify_caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord.http.server.state import HttpOptions
    from accord.sharing.backends.backend import Backend
    from accord.sharing.sessions.session import SharedSession

_BUSY: Final = (("retry-after", "5"),)


class SessionIndex:
    """The index of the sessions that all workers serve together.

    Args:
        backend: the store.
        options: of the app; they limit the number of sessions.
    """

    def __init__(self, backend: "Backend", options: "HttpOptions") -> None:
        self._backend = backend
        self._options = options

    async def check_room(self, session: "SharedSession") -> gate.HttpRefusal | None:
        """Return why a new session is refused; None if there is room."""
        options = self._options
        if await self._backend.count(names.SESSIONS) >= options.sessions:
            why = f"{options.sessions} sessions are open (sessions)"
            return gate.HttpRefusal(503, why, -32000, _BUSY)
        if await self._backend.count(_caller_index(session)) >= options.sessions_per_caller:
            each = options.sessions_per_caller
            why = f"{each} sessions of one caller are in use (sessions_per_caller)"
            return gate.HttpRefusal(503, why, -32000, _BUSY)
        return None

    async def add(self, session: "SharedSession") -> None:
        """Count a new session, until it is used for the first time."""
        ttl = min(self._options.session_idle, UNUSED_TTL)
        await asyncio.gather(
            self._backend.add(names.SESSIONS, [session.sid], ttl=ttl),
            self._backend.add(_caller_index(session), [session.sid], ttl=ttl),
        )

    async def keep(self, used: "Sequence[SharedSession]") -> None:
        """Keep sessions that were used, with their records, for as long as one may be idle."""
        ttl = self._options.session_idle
        for session in used:
            await self._backend.touch(names.session_of(session.sid), ttl=ttl)
            await self._backend.add(_caller_index(session), [session.sid], ttl=ttl)
        if used:
            await self._backend.add(names.SESSIONS, [each.sid for each in used], ttl=ttl)

    async def remove(self, session: "SharedSession") -> None:
        """Count a session no more."""
        await asyncio.gather(
            self._backend.remove(names.SESSIONS, [session.sid]),
            self._backend.remove(_caller_index(session), [session.sid]),
        )


def _caller_index(session: "SharedSession") -> str:
    caller = identify_caller(session.principal) or str(session.caller).encode()
    return names.caller_index(caller.hex()[-60:])
