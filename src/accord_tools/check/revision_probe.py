"""Finds out which revisions a server speaks, and whether several copies of it can run at once."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, Self, TypeAlias

import msgspec

from accord.errors import ConnectFailed
from accord.protocol.revisions import BEFORE_HANDSHAKE, HANDSHAKE, REVISIONS
from accord.types import RevisionId
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
)
from accord_tools.check.probing.target import MESSAGE_PREFIX, ServerTarget

_LONGEST: Final = 1000
# The newest revision in which a server says by server/discover what it supports.
_WITHOUT_HANDSHAKE: Final = [row for row in REVISIONS.values() if not row.handshake][-1]

# What only results without a handshake have: that of server/discover, and all of them.
_STATELESS_MEMBERS: Final = ("supportedVersions", "resultType")

Opening: TypeAlias = Reply | str | None
"""The answer to initialize or server/discover, or why it is missing; None if it takes a token."""


async def spoken_revisions(subject: ServerTarget) -> list[RevisionId]:
    """Ask which revisions the server speaks over this transport.

    Raises:
        ConnectFailed: it speaks none of them, or cannot be reached.
    """
    async with RevisionProbe(subject) as probe:
        return await probe.find_revisions()


class RevisionProbe:
    """Connects to a server under each revision, and keeps the connections for the check.

    Launching a server is slow, so launched ones are used again.

    Attributes:
        target: the server; `one_at_a_time` is set if a second copy does not start.
        notes: remarks for the report.
    """

    def __init__(self, subject: ServerTarget) -> None:
        self.target = subject
        self.notes: list[str] = []
        self._kept: dict[RevisionId, list[RawConnection]] = {}
        self._has_run_twice = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_kept()

    async def _close_kept(self) -> None:
        kept, self._kept = self._kept, {}
        await asyncio.gather(*(line.close() for lines in kept.values() for line in lines))

    async def find_revisions(self, wanted: Sequence[RevisionId] = ()) -> list[RevisionId]:
        """Return the wanted revisions; by default all that the server speaks.

        Raises:
            ConnectFailed: it speaks none, or not one of the wanted; the message names the others.
        """
        reachable = _reachable(self.target)
        answers = await self._ask(wanted or reachable)
        if None in answers.values():
            # Without a token only refusals are checked, which hardly differ between revisions.
            return list(wanted) or [BEFORE_HANDSHAKE.id]
        if wanted and all(_may_speak(answers[each], each) for each in wanted):
            return list(wanted)
        others = [each for each in reachable if each not in answers]
        if others and any(isinstance(answer, Reply) for answer in answers.values()):
            answers |= await self._ask(others)
        found = _agreed_revisions(answers)
        if not found:
            raise ConnectFailed(self._explain_failure(answers))
        missing = [each for each in wanted if each not in found]
        if missing:
            raise ConnectFailed(
                f"{self.target.spec.name} does not speak {', '.join(missing)}; it speaks"
                f" {', '.join(found)}: choose one of these with --revision, or leave it out"
            )
        # It may answer with another revision although it speaks this one: the check judges that.
        return list(wanted) or found

    async def lines(self, revision: RevisionId) -> list[RawConnection]:
        """Return the open connections of a revision, or a new one."""
        kept = self._kept.pop(revision, [])
        if self.target.one_at_a_time:
            await self._close_kept()
        ended = [line for line in kept if line.ended is not None]
        await asyncio.gather(*(line.close() for line in ended))
        return [line for line in kept if line.ended is None] or [self.target.connection()]

    # -- asking

    async def _ask(self, revisions: Sequence[RevisionId]) -> dict[RevisionId, Opening]:
        """Connect under each revision, at once if possible."""
        if self.target.one_at_a_time:
            return {each: await self._open(each) for each in revisions}
        copies = list(revisions)
        if self.target.spec.command and len(copies) == 1 and not self._has_run_twice:
            # The check has to know whether a second copy runs beside the first.
            copies *= 2
        opened: dict[RevisionId, Opening] = {}
        failed: list[tuple[RevisionId, str]] = []
        for revision, answer in await self._open_at_once(copies):
            if isinstance(answer, str):
                failed.append((revision, answer))
            if not isinstance(opened.get(revision), Reply):
                opened[revision] = answer
        self._has_run_twice = True
        if any(isinstance(opened.get(each), Reply) for each in HANDSHAKE):
            # An older server may end at, or be silent on, a request before its handshake.
            failed = [each for each in failed if each[0] in HANDSHAKE]
        if failed and self.target.spec.command:
            opened |= await self._ask_alone(failed)
        return opened

    async def _open_at_once(self, copies: Sequence[RevisionId]) -> list[tuple[RevisionId, Opening]]:
        """Open several conversations; one without a handshake may be late or fail.

        Raises:
            ConnectFailed: the server cannot be launched or reached.
        """
        tasks = [asyncio.ensure_future(self._open(each)) for each in copies]
        first = [task for task, id in zip(tasks, copies, strict=True) if id in HANDSHAKE] or tasks
        try:
            await asyncio.wait(first)
            # Many older servers never answer what they do not know.
            await asyncio.wait(tasks, timeout=self.target.patience)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        # One failure must not leave other copies behind that are still launching.
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        found: list[tuple[RevisionId, Opening]] = []
        for revision, answer in zip(copies, answers, strict=True):
            if isinstance(answer, asyncio.CancelledError):
                found.append((revision, f"an answer to a request under {revision} did not arrive"))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append((revision, answer))
        return found

    async def _ask_alone(
        self, failed: Sequence[tuple[RevisionId, str]]
    ) -> dict[RevisionId, Opening]:
        """Try again, one copy at a time, the revisions that failed when several copies ran."""
        await self._close_kept()
        opened: dict[RevisionId, Opening] = {}
        before = self.target
        self.target = msgspec.structs.replace(before, one_at_a_time=True, at_once=1)
        for revision, why in reversed(failed):
            answer = await self._open(revision)
            if isinstance(answer, str):
                # It fails alone as well, so other copies are not the reason.
                break
            if not opened:
                self.notes.append(
                    "a second copy of the server did not start beside the first, but one copy"
                    f" alone does, so the copies were launched one at a time ({why})"
                )
            opened[revision] = answer
        if not opened:
            self.target = before
        return opened

    async def _open(self, revision: RevisionId) -> Opening:
        line = self.target.connection(is_judged=False)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(line)
                answer = await line.begin_conversation(revision)
                if answer.is_error and line.is_stateless:
                    answer = await _list_without_discovery(line) or answer
            except AuthorizationRequired:
                return None
            except (MessageTimeout, ConnectionEnded) as error:
                return add_stderr(str(error), line)
            is_kept = self.target.spec.command and not self.target.one_at_a_time
            if is_kept and _spoken_in(answer) == revision and line.log.judge():
                stack.pop_all()
                self._kept.setdefault(revision, []).append(line)
            return answer

    def _explain_failure(self, opened: Mapping[RevisionId, Opening]) -> str:
        """Return why the server speaks none of these revisions."""
        answers = [each for each in opened.values() if each is not None]
        known = _named_revisions(answers)
        reachable = _reachable(self.target)
        if any(each in reachable for each in known):
            return (
                f"{self.target.spec.name} names {', '.join(known)} as supported, but refuses to"
                f" begin a conversation under it: {describe_answers(answers)}"
            )
        if known:
            return (
                f"{self.target.spec.name} speaks {', '.join(known)}, but none of the revisions that"
                f" can be checked: {', '.join(reachable)}"
            )
        return describe_failure(self.target, answers)


def describe_failure(subject: ServerTarget, answers: Iterable[Reply | str]) -> str:
    """Return why the handshake with a server failed."""
    answers = list(answers)
    reasons = describe_answers(answers)
    if reasons.startswith(MESSAGE_PREFIX):
        # `accord run` launched it, and its own message is the best one.
        return reasons.removeprefix(MESSAGE_PREFIX)
    if any(isinstance(answer, Reply) and not answer.is_error for answer in answers):
        return f"{subject.spec.name} speaks no revision that accord knows: {reasons}"
    hint = "; is it another path?" if subject.spec.url else ""
    return f"{subject.spec.name}: {reasons}{hint}"


def describe_answers(answers: Iterable[Reply | str]) -> str:
    """Return what a server answered to the first request of each conversation."""
    return "; ".join(dict.fromkeys(_describe(answer) for answer in answers))[:_LONGEST]


def add_stderr(text: str, line: RawConnection) -> str:
    """Add the last lines of a launched server's standard error to a message."""
    stderr: list[str] = list(getattr(line.carrier, "stderr", ()))[-3:]
    if stderr and stderr[-1].startswith(MESSAGE_PREFIX):
        return stderr[-1]
    if any('"jsonrpc"' in each and '"result"' in each for each in stderr):
        text = f"{text}; it answers on standard error, not on standard output"
    return f"{text} (stderr: {' | '.join(stderr)})" if stderr else text


def _describe(answer: Reply | str) -> str:
    if isinstance(answer, str):
        return answer
    if not answer.is_error:
        return f"it answers with {answer}"
    error = answer.message["error"]
    text = error.get("message") if isinstance(error, dict) else error
    code = "" if answer.code is None else f"error {answer.code}, "
    return f"it answers with {code}{text}"


def _named_revisions(answers: Iterable[Reply | str]) -> list[str]:
    """Return the revisions that refusals of initialize name as supported."""
    found: list[str] = []
    for answer in answers:
        error = answer.message.get("error") if isinstance(answer, Reply) else None
        data = error.get("data") if isinstance(error, dict) else None
        found += _strings(data.get("supported")) if isinstance(data, dict) else []
    return sorted(set(found))


def _strings(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _agreed_revisions(opened: Mapping[RevisionId, Opening]) -> list[RevisionId]:
    """Return the revisions that a server agreed to, even if another one was asked for."""
    agreed = {_spoken_in(answer) for answer in opened.values()}
    return [row.id for row in REVISIONS.values() if row.id in agreed]


def _may_speak(answer: Opening, revision: RevisionId) -> bool:
    """Return whether a server agreed to a revision, or named none in the handshake."""
    if not isinstance(answer, Reply) or answer.is_error:
        return False
    named = _spoken_in(answer)
    return named == revision or not isinstance(named, str)


async def _list_without_discovery(line: RawConnection) -> Reply | None:
    """Return a list that a server without discovery gives by the rules of its revision."""
    for method in ("tools/list", "resources/list", "prompts/list"):
        reply = await line.ask(method)
        if "resultType" in reply.result:
            return reply
    return None


def _spoken_in(answer: Opening) -> object:
    """Return the revision that a server agreed to, or in which it said what it supports."""
    if not isinstance(answer, Reply):
        return None
    result = answer.result
    if "protocolVersion" not in result and not result.keys().isdisjoint(_STATELESS_MEMBERS):
        return _WITHOUT_HANDSHAKE.id
    return result.get("protocolVersion")


def _reachable(subject: ServerTarget) -> list[RevisionId]:
    """Return the revisions that exist over the transport of a server."""
    is_streamable = subject.transport == "http"
    rows = HANDSHAKE if subject.transport == "sse" else REVISIONS
    return [row.id for row in rows.values() if row.streamable_http or not is_streamable]
