"""Getting to know a server before it is checked: which revisions it speaks, and whether several
copies of it can run at the same time.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self, TypeAlias

import msgspec

from accord.check.probing.raw_connection import (
    CLIENT_INFO,
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
    Reply,
)
from accord.check.probing.subject import OWN_WORDS, Subject
from accord.errors import ConnectFailed
from accord.protocol.conversation import META_CAPABILITIES, META_VERSION
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId

_TOLD: Final = 1000
_META_INFO: Final = "io.modelcontextprotocol/clientInfo"

Answer: TypeAlias = Reply | str | None
"""How a server answers initialize; why it does not; None where it asks for authorization first."""


async def spoken_revisions(subject: Subject) -> list[RevisionId]:
    """Ask which revisions with a handshake the server speaks over this transport.

    Raises:
        ConnectFailed: none, or no server is there.
    """
    async with RevisionProbe(subject) as acquaintance:
        return await acquaintance.find_revisions()


class RevisionProbe:
    """Lines on which a server was asked what it speaks.

    Launching a server is dear: those that were are kept for the check of their revision.

    Attributes:
        subject: the server; launched one at a time from when it is found that it has to be.
        notes: what was found out, for the report.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
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

    async def find_revisions(self) -> list[RevisionId]:
        """Ask which revisions with a handshake the server speaks."""
        revisions = _reachable(self.subject)
        told = await self._ask(revisions)
        if None in told.values():
            # Nobody hears what it speaks: what is asked of the locked is much the same in all.
            return [revisions[-1]]
        found = _spoken(told)
        if not found:
            raise ConnectFailed(await self._why_unspoken(told))
        return found

    async def agree(self, wanted: Sequence[RevisionId]) -> list[RevisionId]:
        """Return the revisions that were asked for, once the server agreed to each of them.

        Raises:
            ConnectFailed: it does not speak one of them; says which ones it speaks.
        """
        told = await self._ask(wanted)
        if None in told.values() or all(_may_speak(told[each], each) for each in wanted):
            return list(wanted)
        others = [each for each in _reachable(self.subject) if each not in told]
        if any(isinstance(answer, Reply) for answer in told.values()):
            told |= await self._ask(others)
        found = _spoken(told)
        if not found:
            raise ConnectFailed(await self._why_unspoken(told))
        missing = [each for each in wanted if each not in found]
        if missing:
            raise ConnectFailed(
                f"{self.subject.name} does not speak {', '.join(missing)}; it speaks"
                f" {', '.join(found)}: choose of these with --revision, or leave it out"
            )
        # It answers with another revision although it speaks this one: that is judged.
        return list(wanted)

    async def lines(self, revision: RevisionId) -> list[RawConnection]:
        """Return lines for the check of a revision: opened already, or a new one."""
        kept = self._kept.pop(revision, [])
        if self.subject.one_at_a_time:
            await self._close_kept()
        ended = [line for line in kept if line.ended is not None]
        await asyncio.gather(*(line.close() for line in ended))
        return [line for line in kept if line.ended is None] or [self.subject.line()]

    # -- asking

    async def _ask(self, revisions: Sequence[RevisionId]) -> dict[RevisionId, Answer]:
        """Open a conversation under each revision, all at once where that is possible."""
        if self.subject.one_at_a_time:
            return {each: await self._opening(each) for each in revisions}
        copies = list(revisions)
        if self.subject.command and len(copies) == 1 and not self._has_run_twice:
            # Whether a second copy runs beside the first has to be known before a check begins.
            copies *= 2
        # A failure of one must not leave others behind that are still launching.
        answers = await asyncio.gather(*map(self._opening, copies), return_exceptions=True)
        told: dict[RevisionId, Answer] = {}
        failed: list[tuple[RevisionId, str]] = []
        for revision, answer in zip(copies, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, str):
                failed.append((revision, answer))
            if not isinstance(told.get(revision), Reply):
                told[revision] = answer
        self._has_run_twice = True
        if failed and self.subject.command:
            told |= await self._ask_alone(failed)
        return told

    async def _ask_alone(
        self, failed: Sequence[tuple[RevisionId, str]]
    ) -> dict[RevisionId, Answer]:
        """Ask again what failed while several copies ran; what works alone is launched alone."""
        await self._close_kept()
        told: dict[RevisionId, Answer] = {}
        before = self.subject
        self.subject = msgspec.structs.replace(before, one_at_a_time=True, at_once=1)
        for revision, why in reversed(failed):
            answer = await self._opening(revision)
            if isinstance(answer, str):
                # It fails alone as well, so the reason is another one.
                break
            if not told:
                self.notes.append(
                    "a second copy of the server did not start beside the first, which one copy"
                    f" alone does, so it was launched one at a time ({why})"
                )
            told[revision] = answer
        if not told:
            self.subject = before
        return told

    async def _opening(self, revision: RevisionId) -> Answer:
        line = self.subject.line(is_judged=False)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(line)
                answer = await line.initialize(revision)
            except AuthorizationRequired:
                return None
            except (MessageTimeout, ConnectionEnded) as error:
                return add_stderr(str(error), line)
            is_kept = self.subject.command and not self.subject.one_at_a_time
            if is_kept and _version(answer) == revision and line.log.judge():
                stack.pop_all()
                self._kept.setdefault(revision, []).append(line)
            return answer

    async def _why_unspoken(self, told: Mapping[RevisionId, Answer]) -> str:
        """Say why no conversation can be had with a server that was asked for all of these."""
        answers = [each for each in told.values() if each is not None]
        known = _named(answers)
        if not known and all(isinstance(each, Reply) and each.is_error for each in answers):
            known = await self._discover()
        if known:
            return (
                f"{self.subject.name} speaks {', '.join(known)}, and none of the revisions that"
                f" can be checked: {', '.join(_reachable(self.subject))}"
            )
        return describe_failure(self.subject, answers)

    async def _discover(self) -> list[str]:
        """Ask a server that refuses every handshake what it speaks without one."""
        newest = [row.id for row in REVISIONS.values() if not row.handshake][-1]
        meta = {META_VERSION: newest, META_CAPABILITIES: {}, _META_INFO: CLIENT_INFO}
        line = self.subject.line(is_judged=False)
        try:
            async with line:
                if hasattr(line.carrier, "version"):
                    line.carrier.version = newest
                reply = await line.ask("server/discover", {"_meta": meta})
        except (MessageTimeout, ConnectionEnded, ConnectFailed):
            return []
        return _texts(reply.result.get("supportedVersions")) or _named([reply])


def describe_failure(subject: Subject, answers: Iterable[Reply | str]) -> str:
    """Say why no conversation can be had with a server."""
    answers = list(answers)
    told = "; ".join(dict.fromkeys(_told(answer) for answer in answers))[:_TOLD]
    if told.startswith(OWN_WORDS):
        # It was launched by this program, which says best what is wrong.
        return told.removeprefix(OWN_WORDS)
    if any(isinstance(answer, Reply) and not answer.is_error for answer in answers):
        return f"{subject.name} speaks no revision that is known here: {told}"
    other = {"http": "sse", "sse": "http"}.get(subject.transport)
    hint = f"; is it another path, or --transport {other}?" if other else ""
    return f"{subject.name}: {told}{hint}"


def add_stderr(text: str, line: RawConnection) -> str:
    """Return what happened, and the last words of a launched server."""
    said: list[str] = list(getattr(line.carrier, "stderr", ()))[-3:]
    if said and said[-1].startswith(OWN_WORDS):
        return said[-1]
    if any('"jsonrpc"' in each and '"result"' in each for each in said):
        text = f"{text}; it answers on standard error, not on standard output"
    return f"{text} (stderr: {' | '.join(said)})" if said else text


def _told(answer: Reply | str) -> str:
    if isinstance(answer, str):
        return answer
    if not answer.is_error:
        return f"it answers initialize with {answer}"
    error = answer.message["error"]
    text = error.get("message") if isinstance(error, dict) else error
    code = "" if answer.code is None else f"error {answer.code}, "
    return f"it answers initialize with {code}{text}"


def _named(answers: Iterable[Reply | str]) -> list[str]:
    """Return the revisions that refusals of initialize name as those that are spoken."""
    found: list[str] = []
    for answer in answers:
        error = answer.message.get("error") if isinstance(answer, Reply) else None
        data = error.get("data") if isinstance(error, dict) else None
        found += _texts(data.get("supported")) if isinstance(data, dict) else []
    return sorted(set(found))


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _spoken(told: Mapping[RevisionId, Answer]) -> list[RevisionId]:
    """Return the revisions that a server agreed to, be it when it was asked for another."""
    agreed = {_version(answer) for answer in told.values()}
    return [row.id for row in REVISIONS.values() if row.id in agreed and row.handshake]


def _may_speak(answer: Answer, revision: RevisionId) -> bool:
    """Tell whether a server agreed to a revision, or opened a conversation and named none."""
    if not isinstance(answer, Reply) or answer.is_error:
        return False
    named = _version(answer)
    return named == revision or not isinstance(named, str)


def _version(answer: Answer) -> Any:
    return answer.result.get("protocolVersion") if isinstance(answer, Reply) else None


def _reachable(subject: Subject) -> list[RevisionId]:
    """Return the revisions that can be spoken over the transport of a subject."""
    return [
        row.id
        for row in REVISIONS.values()
        if row.handshake and (subject.transport != "http" or row.streamable_http)
    ]
