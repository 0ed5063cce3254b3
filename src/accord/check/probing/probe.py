"""What a scenario has in hand: lines to the server, facts about it, and a place for verdicts."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.samples import hasty, sample
from accord.check.probing.subject import Subject
from accord.check.probing.tool_calls import DEFAULT_CALLS, CallLimit, CallPlan
from accord.check.probing.tools import refuse_tool
from accord.check.verdicts import VerdictCollector
from accord.errors import AccordError
from accord.protocol.monitor import Evidence, Verdict
from accord.trace import Transport
from accord.types import RevisionId

_PAGES: Final = 50
# How many launched servers are kept for borrowing: judged ones, one of which may need another,
# and one for what breaks the rules.
_LAUNCHED: Final = {True: 2, False: 1}
# A server with hundreds of tools is known by these.
_TOOLS: Final = 20
# Seconds that even a server gets that hung before.
_LEAST_PATIENCE: Final = 1.0

# The line that a scenario uses, and the one that it used last: several scenarios run at once, each
# as a task of its own.
_in_use: ContextVar[RawConnection] = ContextVar("line_in_use")
_used: ContextVar[RawConnection] = ContextVar("line_used")
# Which calls a scenario had to do without, because they are used up.
_withheld: ContextVar[str] = ContextVar("calls_withheld", default="")


class CheckRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a check may do to a server.

    Attributes:
        allow_writes: whether tools that change something may be called.
        tools: the only tools that may be called; empty leaves it to what they say of themselves.
        calls: how many calls each tool gets at most, in all of the check; 0 calls none.
    """

    allow_writes: bool = False
    tools: Collection[str] = ()
    calls: int = DEFAULT_CALLS


class ServerFacts(msgspec.Struct, kw_only=True):
    """What a server says of itself under one revision.

    Attributes:
        annotations: of tools, by name, as any revision has them.
        refused: tools that are not called, with the reasons; `decide_calls` fills it.
        slow: tools that are not called any more, with the reason.
        settled: what scenarios found that need not be repeated, by their names.
        locked: why no conversation can be had with the server; empty where one can.
        is_logging: whether it wrote to its standard error until its lists were known.
        is_asking: whether any tool that may be called asked something of the client.
        asked: the methods of all that the server asked of the client.
        is_remote: whether the server was there before the check, behind a URL.
        limit: counts the calls of tools.
    """

    revision: RevisionId
    transport: Transport
    opening: Mapping[str, Any] = {}
    tools: list[dict[str, Any]] = []
    resources: list[dict[str, Any]] = []
    templates: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    annotations: Mapping[str, Any] = {}
    refused: dict[str, str] = {}
    slow: dict[str, str] = {}
    settled: dict[str, list[Verdict]] = {}
    locked: str = ""
    is_logging: bool = False
    is_asking: bool = False
    asked: set[str] = set()
    is_remote: bool = False
    rules: CheckRules = CheckRules()
    limit: CallLimit = msgspec.field(default_factory=CallLimit)

    def declares(self, path: str) -> bool:
        """Tell whether the server declared a capability, such as `resources.subscribe`."""
        place: Any = self.opening.get("capabilities")
        for part in path.split("."):
            if not isinstance(place, dict) or part not in place:
                return False
            place = place[part]
        return place is not None and place is not False

    def decide_calls(self) -> None:
        """Decide which of the tools may be called; the reasons for the others are kept."""
        named = self._named()
        # A name that is listed twice is refused as soon as one of the two is.
        self.refused = {
            tool["name"]: why for tool in named if (why := self._refusal(tool)) is not None
        }
        names = list(dict.fromkeys(tool["name"] for tool in named))
        allowed = [name for name in names if name not in self.refused]
        if not self.rules.tools:
            why = f"only {_TOOLS} of the tools that may be called are; choose it with --tool"
            self.refused |= dict.fromkeys(allowed[_TOOLS:], why)
        self.limit.decide(names, self.refused)

    def _named(self) -> list[dict[str, Any]]:
        return [tool for tool in self.tools if isinstance(tool.get("name"), str)]

    def _refusal(self, tool: Mapping[str, Any]) -> str | None:
        # Only later revisions have annotations, and a tool is the same tool in all of them.
        notes = tool.get("annotations") or self.annotations.get(str(tool.get("name")))
        why = refuse_tool(
            {**tool, "annotations": notes},
            allow_writes=self.rules.allow_writes,
            chosen=self.rules.tools,
            is_remote=self.is_remote,
        )
        if why is None and not self.limit.calls:
            return "--calls 0 allows no calls"
        if why is None and not isinstance(sample(tool.get("inputSchema")), dict):
            return "no arguments can be made from its inputSchema"
        return why

    def call_plan(self) -> CallPlan:
        """Return what will be called, as `decide_calls` decided."""
        names = dict.fromkeys(tool["name"] for tool in self._named())
        called = tuple(name for name in names if name not in self.refused)
        missing = sorted(name for name in self.rules.tools if name not in names)
        not_called = self.refused | dict.fromkeys(missing, "the server lists no such tool")
        return CallPlan(calls=self.limit.calls, called=called, not_called=not_called)

    def callable_tools(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the tools that may be called now, each with plain valid arguments."""
        allowed = [tool for tool in self._named() if self.refusal_for(tool) is None]
        withheld = [tool["name"] for tool in allowed if not self.limit.remaining(tool["name"])]
        if withheld:
            _withheld.set(self.limit.exhausted_text(withheld))
        return [
            (tool, sample(tool.get("inputSchema")) | hasty(tool.get("inputSchema")))
            for tool in allowed
            if tool["name"] not in withheld
        ]

    def refusal_for(self, tool: Mapping[str, Any]) -> str | None:
        """Say why a tool is not called any more; None where it may be."""
        name = str(tool.get("name"))
        return self.refused.get(name) or self.slow.get(name)

    def exhausted_text(self) -> str:
        """Say which tools have no calls left; empty where all have."""
        names = [name for name in self.call_plan().called if not self.limit.remaining(name)]
        return self.limit.exhausted_text(names) if names else ""


class Probe:
    """A server under check, as one scenario sees it.

    Attributes:
        subject: how the server is reached.
        facts: what it says of itself.
        line: the first one, on which the server told of itself.
        outcomes: what was found.
    """

    def __init__(self, subject: Subject, facts: ServerFacts, line: RawConnection) -> None:
        self.subject = subject
        self.facts = facts
        self.line = line
        self.verdicts = VerdictCollector("server", facts.revision)
        self._lines: list[RawConnection] = [line]
        # It does not shrink where the server loses our patience: to start takes what it takes.
        self._starting = subject.starting
        self._idle: dict[bool, list[RawConnection]] = {True: [], False: []}
        # Launching a server is dear: who wants a line waits rather than launches one more.
        self._turns = {
            is_judged: asyncio.Semaphore(kept if subject.command else subject.at_once)
            for is_judged, kept in _LAUNCHED.items()
        }

    @property
    def revision(self) -> RevisionId:
        """The revision under check."""
        return self.facts.revision

    def begin_scenario(self) -> None:
        """Forget what the scenarios before this one had to do without."""
        _withheld.set("")

    @asynccontextmanager
    async def open(
        self,
        *,
        is_judged: bool = True,
        begins: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[RawConnection]:
        """Open a line of this scenario's own.

        Args:
            is_judged: False where the scenario breaks rules, so that answers prove nothing.
            begins: whether the handshake is done.
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
        """Use a line that others used before: a launch less, for who leaves it as it was found.

        Nothing may be under way on it at the end, and nothing be set. Where something goes wrong,
        nobody uses it any more.

        Args:
            is_judged: False where the scenario breaks rules, so that answers prove nothing.
        """
        async with self._turns[is_judged]:
            idle = self._idle[is_judged]
            line = idle.pop() if idle else await self._opened(is_judged)
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

    async def _opened(self, is_judged: bool) -> RawConnection:  # noqa: FBT001 - a key, not a switch
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
        """Return a new line, and make room for it where a server can run only once."""
        if self.subject.one_at_a_time and self.subject.command:
            await self._dismiss_idle()
            if self._lines:
                raise AccordError("it takes two copies of the server at the same time")
        line = self.subject.line(is_judged=is_judged, headers=headers, starting=self._starting)
        self._lines.append(line)
        return line

    def lend(self, line: RawConnection) -> None:
        """Let a line that was opened already be borrowed like any other."""
        if line not in self._lines:
            self._lines.append(line)
        self._idle[True].append(line)

    async def _dismiss(self, line: RawConnection) -> None:
        await line.close()
        self._keep(line)

    def _keep(self, line: RawConnection) -> None:
        """Keep what was learned on a line that has ended."""
        self._lines.remove(line)
        self._learn(line)
        if line.log.monitor is not None:
            self.verdicts.tallies.append(line.log.monitor.tallies)

    async def dismiss_all(self) -> None:
        """End the lines that nobody will borrow again, and the first one."""
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
        """Give the server the time that its own speed asks for."""
        habits = self.subject.habits
        habits.starting = max(habits.starting, self.line.first_answer)
        self.subject = self.subject.paced()
        self._starting = max(self._starting, self.subject.starting)
        self.line.patience = max(self.line.patience, self.subject.patience)

    def lose_patience(self) -> None:
        """Wait less from now on: a server that hung once may hang in every scenario."""
        patience = min(self.subject.patience, max(_LEAST_PATIENCE, self.subject.patience / 2))
        self.subject = msgspec.structs.replace(self.subject, patience=patience)
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
        """Note whether a requirement was kept; a breach outweighs all that was kept.

        Args:
            id: the requirement; one that does not hold in this revision is not judged.
            condition: what must be true.
            why: what the server does if it is not, to be read after "the server".
            evidence: the messages that show it; by default the exchange that was tried last.
        """
        if not condition and evidence is None:
            line = _in_use.get(_used.get(self.line))
            evidence = (line.proof and line.proof()) or line.log.last()
        return self.verdicts.hold(id, condition, why, evidence=evidence or ())

    def fail(self, id: str, why: str) -> None:
        """Note that a requirement was broken."""
        self.holds(id, condition=False, why=why)

    def skip(self, id: str, why: str) -> None:
        """Note that a requirement could not be put to the test, and why."""
        # Where calls were used up, nothing else can be said about what was missing.
        self.verdicts.skip(id, _withheld.get() or why)

    def not_applicable(self, id: str, why: str) -> None:
        """Note that a requirement does not concern this server, and why."""
        self.verdicts.exclude(id, why)


async def list_all(line: RawConnection, method: str, member: str) -> list[dict[str, Any]]:
    """Return all entries of a list, page by page, within reason."""
    found: list[dict[str, Any]] = []
    cursor: Any = None
    for _ in range(_PAGES):
        reply = await line.ask(method, {} if cursor is None else {"cursor": cursor})
        entries = reply.result.get(member)
        if isinstance(entries, list):
            found += [each for each in entries if isinstance(each, dict)]
        cursor = reply.result.get("nextCursor")
        if cursor is None:
            break
    return found
