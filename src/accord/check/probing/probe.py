"""What a scenario works with: connections to the server, facts about it, and its verdicts."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

import msgspec

from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.server_facts import ServerFacts, withheld_calls
from accord.check.probing.target import ServerTarget
from accord.check.verdicts import VerdictCollector
from accord.errors import AccordError
from accord.protocol.verdict import Evidence
from accord.types import JsonObject, RevisionId

# How many launched servers are kept for borrowing, by whether a monitor judges them. A scenario
# may need two judged ones.
_LAUNCHED: Final = {True: 2, False: 1}
# Seconds that a server gets even if it hung before.
_LEAST_PATIENCE: Final = 1.0

# The connection that a scenario uses, and the one it used last. Scenarios run as tasks at once.
_in_use: ContextVar[RawConnection] = ContextVar("line_in_use")
_used: ContextVar[RawConnection] = ContextVar("line_used")


class Probe:
    """A server under check, as one scenario sees it.

    Attributes:
        subject: how the server is reached.
        facts: what it says of itself.
        line: the first connection, on which the server was discovered.
        verdicts: what the scenarios found.
    """

    def __init__(self, subject: ServerTarget, facts: ServerFacts, line: RawConnection) -> None:
        self.target = subject
        self.facts = facts
        self.line = line
        self.verdicts = VerdictCollector("server", facts.revision)
        self._lines: list[RawConnection] = [line]
        # It does not shrink in `lose_patience`: starting takes its time.
        self._starting = subject.start_patience
        self._idle: dict[bool, list[RawConnection]] = {True: [], False: []}
        # Launching a server is slow: a scenario rather waits for a connection to be returned.
        self._turns = {
            is_judged: asyncio.Semaphore(kept if subject.command else subject.at_once)
            for is_judged, kept in _LAUNCHED.items()
        }

    @property
    def revision(self) -> RevisionId:
        """The revision under check."""
        return self.facts.revision

    def begin_scenario(self) -> None:
        """Forget the calls that earlier scenarios could not make."""
        withheld_calls.set("")

    @asynccontextmanager
    async def open(
        self,
        *,
        is_judged: bool = True,
        begins: bool = True,
        capabilities: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[RawConnection]:
        """Open a connection for this scenario alone.

        Args:
            is_judged: False if the scenario breaks rules, so that answers prove nothing.
            begins: whether to do the handshake.
            capabilities: what the client declares; everything by default.
            headers: in place of those of the subject.
        """
        line = await self._launch(is_judged=is_judged, headers=headers)
        before = _in_use.set(line)
        try:
            async with line:
                if begins:
                    await line.initialize(self.revision, capabilities=capabilities)
                yield line
        finally:
            _in_use.reset(before)
            _used.set(line)
            self._keep(line)

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
            line = idle.pop() if idle else await self._open_shared(is_judged)
            line.received.clear()
            line.proof = None
            before = _in_use.set(line)
            is_sound = False
            try:
                yield line
                is_sound = line.ended is None
            finally:
                _in_use.reset(before)
                _used.set(line)
                line.respond = None
                self._learn(line)
                if is_sound:
                    idle.append(line)
                else:
                    await self._dismiss(line)

    async def _open_shared(self, is_judged: bool) -> RawConnection:  # noqa: FBT001 - a key, not a switch
        line = await self._launch(is_judged=is_judged)
        try:
            await line.__aenter__()
            await line.initialize(self.revision)
        except BaseException:
            await self._dismiss(line)
            raise
        return line

    async def _launch(
        self, *, is_judged: bool, headers: Mapping[str, str] | None = None
    ) -> RawConnection:
        """Return a new connection; close idle ones first if the server can run only once."""
        if self.target.one_at_a_time and self.target.command:
            await self._dismiss_idle()
            if self._lines:
                raise AccordError("it takes two copies of the server at the same time")
        line = self.target.line(is_judged=is_judged, headers=headers, starting=self._starting)
        self._lines.append(line)
        return line

    def lend(self, line: RawConnection) -> None:
        """Add an open connection to those that can be borrowed."""
        if line not in self._lines:
            self._lines.append(line)
        self._idle[True].append(line)

    async def _dismiss(self, line: RawConnection) -> None:
        await line.close()
        self._keep(line)

    def _keep(self, line: RawConnection) -> None:
        """Keep what was learned on a connection that has ended."""
        self._lines.remove(line)
        self._learn(line)
        if line.log.monitor is not None:
            self.verdicts.tallies.append(line.log.monitor.tallies)

    async def dismiss_all(self) -> None:
        """Close the idle connections and the first one."""
        await self._dismiss_idle()
        if self.line in self._lines:
            await self._dismiss(self.line)

    async def _dismiss_idle(self) -> None:
        left = [line for lines in self._idle.values() for line in lines]
        for lines in self._idle.values():
            lines.clear()
        await asyncio.gather(*(self._dismiss(line) for line in left))

    def _learn(self, line: RawConnection) -> None:
        self.facts.asked |= line.asked
        for name, seconds in line.late.items():
            self.facts.slow.setdefault(name, f"it took longer than {seconds:.2g} s to answer")

    def adapt_pace(self) -> None:
        """Adapt the waiting times to the speed of the server."""
        habits = self.target.habits
        habits.startup_seconds = max(habits.startup_seconds, self.line.first_answer)
        self.target = self.target.adapt_times()
        self._starting = max(self._starting, self.target.start_patience)
        self.line.patience = max(self.line.patience, self.target.patience)

    def lose_patience(self) -> None:
        """Wait less from now on, because a server that hung once may hang in every scenario."""
        patience = min(self.target.patience, max(_LEAST_PATIENCE, self.target.patience / 2))
        self.target = msgspec.structs.replace(self.target, patience=patience)
        for line in self._lines:
            line.patience = min(line.patience, patience)

    # -- verdicts

    def holds(
        self,
        id: str,
        condition: object,
        why: str,
        *,
        evidence: Sequence[Evidence] | None = None,
    ) -> bool:
        """Record whether a requirement was kept; one breach outweighs every success.

        Args:
            id: the requirement; ignored if it does not hold in this revision.
            condition: what must be true.
            why: what the server does otherwise, to be read after "the server".
            evidence: the messages that show it; the last exchange by default.
        """
        if not condition and evidence is None:
            line = _in_use.get(_used.get(self.line))
            evidence = (line.proof and line.proof()) or line.log.last()
        return self.verdicts.hold(id, condition, why, evidence=evidence or ())

    def fail(self, id: str, why: str) -> None:
        """Record that a requirement was broken."""
        self.holds(id, condition=False, why=why)

    def skip(self, id: str, why: str) -> None:
        """Record why a requirement could not be put to the test."""
        # A call that could not be made is the reason for everything that is missing.
        self.verdicts.skip(id, withheld_calls.get() or why)

    def not_applicable(self, id: str, why: str) -> None:
        """Record why a requirement does not concern this server."""
        self.verdicts.exclude(id, why)
