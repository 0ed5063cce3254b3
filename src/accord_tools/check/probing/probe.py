"""What a scenario works with: connections to the server, facts about it, and its verdicts."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

import msgspec

from accord.errors import AccordError
from accord.protocol.verdict import Evidence
from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.server_facts import ServerFacts, withheld_calls
from accord_tools.check.probing.target import ServerTarget
from accord_tools.check.verdicts import VerdictCollector

# How many launched servers are kept for borrowing, by whether a monitor judges them. A scenario
# may need two judged ones.
_LAUNCHED: Final = {True: 2, False: 1}
# Seconds that a server gets even if it hung before.
_LEAST_PATIENCE: Final = 1.0
# How long a server is left alone to see whether it ends by itself: as a multiple of how long it
# ran before it ended, and in seconds at most.
_IDLE_SHARE: Final = 1.5
_IDLE_AT_MOST: Final = 10.0

# The connection that a scenario uses, and the one it used last. Scenarios run as tasks at once.
_in_use: ContextVar[RawConnection] = ContextVar("connection_in_use")
_used: ContextVar[RawConnection] = ContextVar("connection_used")


class Probe(VerdictCollector):
    """A server under check, as one scenario sees it, and what the scenarios found.

    Attributes:
        target: how the server is reached.
        facts: what it says of itself.
        connection: the first connection, on which the server was discovered.
        asking: the names of the tools that ask the client; None until that was found out.
    """

    def __init__(self, target: ServerTarget, facts: ServerFacts, connection: RawConnection) -> None:
        super().__init__("server", facts.revision)
        self.target = target
        self.facts = facts
        self.connection = connection
        self.asking: frozenset[str] | None = None
        self.asking_lock = asyncio.Lock()
        self._connections: list[RawConnection] = [connection]
        # It does not shrink in `lose_patience`: starting takes its time.
        self._starting = target.start_patience
        self._idle: dict[bool, list[RawConnection]] = {True: [], False: []}
        self._control = asyncio.Lock()
        # Launching a server is slow: a scenario rather waits for a connection to be returned.
        self._turns = {
            is_judged: asyncio.Semaphore(kept if target.spec.command else target.at_once)
            for is_judged, kept in _LAUNCHED.items()
        }

    @asynccontextmanager
    async def open(
        self, *, is_judged: bool = True, begins: bool = True, capabilities: JsonObject | None = None
    ) -> AsyncIterator[RawConnection]:
        """Open a connection for this scenario alone.

        Args:
            is_judged: False if the scenario breaks rules, so that answers prove nothing.
            begins: whether to do the handshake, or else to ask what the server supports.
            capabilities: what the client declares; everything by default.
        """
        connection = await self._launch(is_judged=is_judged)
        before = _in_use.set(connection)
        try:
            async with connection:
                if begins:
                    await connection.begin_conversation(self.revision, capabilities=capabilities)
                yield connection
        finally:
            _in_use.reset(before)
            _used.set(connection)
            self._keep(connection)

    @asynccontextmanager
    async def borrow(self, *, is_judged: bool = True) -> AsyncIterator[RawConnection]:
        """Borrow a connection that scenarios share, which saves a launch.

        The scenario must leave it as it was: no request open, no state changed. After an error
        the connection is closed.

        Args:
            is_judged: False if the scenario breaks rules, so that answers prove nothing.
        """
        async with self._turns[is_judged]:
            idle = self._idle[is_judged]
            connection = idle.pop() if idle else await self._open_shared(is_judged)
            connection.received.clear()
            connection.proof = None
            before = _in_use.set(connection)
            is_sound = False
            try:
                yield connection
                is_sound = connection.ended is None
            finally:
                _in_use.reset(before)
                _used.set(connection)
                connection.respond = None
                self._learn(connection)
                if is_sound:
                    idle.append(connection)
                else:
                    await self._dismiss(connection)

    async def _open_shared(self, is_judged: bool) -> RawConnection:  # noqa: FBT001 - a key, not a switch
        connection = await self._launch(is_judged=is_judged)
        try:
            await connection.__aenter__()
            await connection.begin_conversation(self.revision)
        except BaseException:
            await self._dismiss(connection)
            raise
        return connection

    async def _launch(self, *, is_judged: bool) -> RawConnection:
        """Return a new connection; close idle ones first if the server can run only once."""
        if self.target.one_at_a_time and self.target.spec.command:
            await self._dismiss_idle()
            if any(each.ended is None for each in self._connections):
                raise AccordError("it takes two copies of the server at the same time")
        connection = self.target.connection(is_judged=is_judged, starting=self._starting)
        self._connections.append(connection)
        return connection

    async def ends_by_itself(self) -> bool:
        """Return whether a copy that gets no message ends as the one did that was used last.

        Then its end proves nothing about the messages before it: it may lack its database.
        """
        habits, connection = self.target.habits, _in_use.get(_used.get(self.connection))
        async with self._control:
            idle = min(connection.lived * _IDLE_SHARE + self.target.settling, _IDLE_AT_MOST)
            if habits.ending or self.target.spec.url or idle <= habits.idled:
                return bool(habits.ending)
            try:
                other = await self._launch(is_judged=False)
            except AccordError:
                return False
            try:
                await other.__aenter__()
                await other.collect(idle)
                habits.ending, habits.idled = other.ended or "", idle
            except AccordError:
                return False
            finally:
                await self._dismiss(other)
        return bool(habits.ending)

    def lend(self, connection: RawConnection) -> None:
        """Add an open connection to those that can be borrowed."""
        if connection not in self._connections:
            self._connections.append(connection)
        self._idle[True].append(connection)

    async def _dismiss(self, connection: RawConnection) -> None:
        await connection.close()
        self._keep(connection)

    def _keep(self, connection: RawConnection) -> None:
        """Keep what was learned on a connection that has ended."""
        self._connections.remove(connection)
        self._learn(connection)
        if connection.log.monitor is not None:
            self.tallies.append(connection.log.monitor.tallies)

    async def dismiss_all(self) -> None:
        """Close the idle connections and the first one."""
        await self._dismiss_idle()
        if self.connection in self._connections:
            await self._dismiss(self.connection)

    async def _dismiss_idle(self) -> None:
        left = [connection for connections in self._idle.values() for connection in connections]
        for connections in self._idle.values():
            connections.clear()
        await asyncio.gather(*(self._dismiss(connection) for connection in left))

    def _learn(self, connection: RawConnection) -> None:
        self.facts.asked |= connection.asked
        for name, seconds in connection.late.items():
            self.facts.slow.setdefault(name, f"it took longer than {seconds:.2g} s to answer")

    def adapt_pace(self) -> None:
        """Adapt the waiting times to the speed of the server."""
        habits = self.target.habits
        habits.startup_seconds = max(habits.startup_seconds, self.connection.first_answer)
        self.target = self.target.adapt_times()
        self._starting = max(self._starting, self.target.start_patience)
        self.connection.patience = max(self.connection.patience, self.target.patience)

    def lose_patience(self) -> None:
        """Wait less from now on, because a server that hung once may hang in every scenario."""
        patience = min(self.target.patience, max(_LEAST_PATIENCE, self.target.patience / 2))
        self.target = msgspec.structs.replace(self.target, patience=patience)
        for connection in self._connections:
            connection.patience = min(connection.patience, patience)

    # -- verdicts

    def last_evidence(self) -> Sequence[Evidence]:
        """Return the last exchange of the scenario."""
        connection = _in_use.get(_used.get(self.connection))
        return (connection.proof and connection.proof()) or connection.log.last()

    def whole_message(self, evidence: Evidence) -> str:
        """Return the message of which an evidence may be an excerpt."""
        connection = _in_use.get(_used.get(self.connection))
        return connection.log.whole_message(evidence)

    def expects(self, id: str, reply: Reply, code: int, what: str) -> bool:
        """Record whether the answer to a message is an error with this code."""
        flaw = self._flaw_of_error(reply)
        if flaw is not None:
            self.fail(flaw, f"answers {what} with {reply}, whose error is malformed")
            self.skip(id, f"the breach is reported as {flaw}")
            return False
        if not isinstance(reply.code, int | None):
            self.skip(id, "the breach is reported as jsonrpc.error.code-integer")
            return False
        why = f"answers {what} with {reply}, expected error {code}"
        at = "/result" if reply.code is None else "/error/code"
        return self.holds(id, reply.code == code, why, at=at)

    def _flaw_of_error(self, reply: Reply) -> str | None:
        """Return the requirement that an error breaks by its form; None if it is well-formed."""
        # Over HTTP the error may stand for a status.
        if not reply.is_error or self.facts.transport != "stdio":
            return None
        if not isinstance(reply.error.get("message"), str) or "code" not in reply.error:
            return "jsonrpc.error.code-and-message"
        is_integer = isinstance(reply.code, int) and not isinstance(reply.code, bool)
        return None if is_integer else "jsonrpc.error.code-integer"

    def skip(self, ids: str | Iterable[str], why: str) -> None:
        """Record why requirements could not be put to the test."""
        # A call that could not be made is the reason for everything that is missing.
        super().skip(ids, withheld_calls.get() or why)
