"""Holding a client to every requirement that binds it: many runs, each against another server."""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import Any, Final, TypeAlias

import msgspec

from accord.check.outcomes import Outcome, judged
from accord.check.playing.actor import Actor
from accord.check.playing.performance import Performance
from accord.check.playing.pipes import PipeStage
from accord.check.playing.web import WebStage
from accord.check.probing.line import LineEnded, Silence
from accord.check.report import Report, Setting, merged
from accord.errors import ConnectFailed
from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.monitor import Verdict
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.protocol.scope import out_of_scope
from accord.trace import Transport
from accord.types import RevisionId

__all__ = ["ClientPlan", "check_client"]

log = logging.getLogger("accord.check")

_AT_ONCE: Final = 3
_LEAVING: Final = 3.0
_STDERR_KEPT: Final = 40
_BOUND: Final = frozenset({"client", "host", "both", "sender", "receiver"})

Step: TypeAlias = Callable[[str, int, int], None]
"""Told before each run: what the server does in it, how many are done, and of how many."""


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to check, and how.

    Attributes:
        command: runs the client; `{url}` and `{server}` stand for where the server is.
        transport: which HTTP form `{url}` speaks; `{server}` is always stdio.
        revisions: those to agree on; empty tries all of them.
        only: ids of requirements, or their beginnings; empty checks all.
        timeout: seconds that one run of the client may take.
        env: variables for the client, beside those of this process.
    """

    command: Sequence[str]
    transport: Transport = "http"
    revisions: Sequence[RevisionId] = ()
    only: Collection[str] = ()
    timeout: float = 30.0
    patience: float = 5.0
    env: Mapping[str, str] = {}

    @property
    def played_over(self) -> Transport:
        """What the client is spoken to over."""
        if any("{server}" in word for word in self.command):
            return "stdio"
        return self.transport

    def wants(self, id: str) -> bool:
        """Tell whether a requirement is to be checked."""
        return not self.only or any(
            id == each or id.startswith(f"{each.rstrip('.*')}.") for each in self.only
        )


async def check_client(plan: ClientPlan, *, step: Step | None = None) -> Report:
    """Run a client against one server after another, and report on all runs.

    Raises:
        ConnectFailed: the client cannot be launched, or never connects.
    """
    began = monotonic()
    actors = _cast(plan)
    room, done = asyncio.Semaphore(_AT_ONCE), 0
    shows: list[Performance] = []

    async def run(actor: Actor) -> None:
        nonlocal done
        async with room:
            if step is not None:
                step(actor.name, done, len(actors))
            shows.append(await _perform(plan, actor))
            done += 1

    # The first alone: a client that cannot be launched need not be launched twenty times.
    await run(actors[0])
    if not shows[0].lines and not shows[0].requests:
        told = " | ".join(list(shows[0].stderr)[-3:])
        ended = f"it ended with exit code {shows[0].exit_code}"
        raise ConnectFailed(f"the client never connected; {ended}{told and f': {told}'}"[:1000])
    async with asyncio.TaskGroup() as group:
        for actor in actors[1:]:
            group.create_task(run(actor))
    found = {
        revision: _verdicts(plan, revision, [each for each in shows if each.revision == revision])
        for revision in sorted({each.revision for each in shows}, reverse=True)
    }
    setting = Setting(
        transport=plan.played_over,
        seconds=round(monotonic() - began, 3),
        command=f"accord check client --transport {plan.transport}",
        command_end=f" -- {shlex.join(plan.command)}",
    )
    return merged(found, target=shlex.join(plan.command), party="client", setting=setting)


def _cast(plan: ClientPlan) -> list[Actor]:
    """Return the actors of all runs: the one who does all well under each revision, then others."""
    from accord.check.scenarios.client import PLAYS

    over = plan.played_over
    spoken = plan.revisions or [
        row.id
        for row in REVISIONS.values()
        if row.handshake and (over != "http" or row.streamable_http)
    ]
    well = [Actor(None), *(Actor(revision) for revision in sorted(spoken, reverse=True))]
    bad = [kind(None) for kind in PLAYS if over in kind.on and _is_wanted(plan, kind)]
    return [*(well[1:] if plan.revisions else well), *bad]


def _is_wanted(plan: ClientPlan, kind: type[Actor]) -> bool:
    return not plan.only or any(plan.wants(id) for id in kind.ids)


# -- one run


async def _perform(plan: ClientPlan, actor: Actor) -> Performance:
    over = plan.played_over
    newest = BEFORE_HANDSHAKE.id
    stage: Any
    if over == "stdio":
        stage = PipeStage(actor, patience=plan.patience)
    else:
        stage = WebStage(actor, is_older=over == "sse", patience=plan.patience)
    show = Performance(actor, over, actor.revision or newest)
    actor.stage = stage
    async with stage:
        place = {"{server}": shlex.join(getattr(stage, "command", ())), "{url}": stage_url(stage)}
        await _run_client(plan, _filled(plan.command, place, stage), show)
        show.requests = getattr(stage, "requests", [])
        agreed = next((each.revision for each in actor.lines if each.revision), None)
        if agreed is not None and agreed in REVISIONS:
            show.outcomes.revision = REVISIONS[agreed].id
        try:
            await actor.judge(show)
        except (LineEnded, Silence) as error:
            _leave_open(show, str(error))
        except Exception as error:
            log.exception("the play %r failed", actor.name)
            _leave_open(show, f"the check itself failed: {type(error).__name__}: {error}")
        else:
            _leave_open(show, "the client gave no occasion for it")
    for line in actor.lines:
        if line.tape.monitor is not None:
            show.outcomes.tallies.append(line.tape.monitor.tallies)
    return show


def stage_url(stage: Any) -> str:
    """Return where a stage is reached by HTTP; empty where it is not."""
    return str(getattr(stage, "url", ""))


def _filled(command: Sequence[str], place: Mapping[str, str], stage: Any) -> list[str]:
    """Put the place of the server into the command; `{server}` alone becomes several words."""
    words: list[str] = []
    for word in command:
        if word == "{server}":
            words += stage.command
            continue
        for name, value in place.items():
            word = word.replace(name, value)
        words.append(word)
    return words


async def _run_client(plan: ClientPlan, command: Sequence[str], show: Performance) -> None:
    kept: deque[str] = deque(maxlen=_STDERR_KEPT)
    show.stderr = kept
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **plan.env},
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise ConnectFailed(f"{command[0]} cannot be launched: {why}", command=command) from None
    assert process.stderr is not None
    reading = asyncio.get_running_loop().create_task(_keep(process.stderr, kept))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(plan.timeout):
                show.exit_code = await process.wait()
    finally:
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.name == "posix":
                    os.killpg(process.pid, number)
                elif process.returncode is None:
                    process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING):
                    await process.wait()
        reading.cancel()
        await asyncio.wait({reading})


async def _keep(stream: asyncio.StreamReader, kept: deque[str]) -> None:
    rest = b""
    while chunk := await stream.read(64 * 1024):
        *lines, rest = (rest + chunk).split(b"\n")
        kept.extend(line.decode(errors="replace") for line in lines)
        rest = rest[-10_000:]
    if rest:
        kept.append(rest.decode(errors="replace"))


def _leave_open(show: Performance, why: str) -> None:
    for id in show.actor.ids:
        show.skip(id, why)


# -- verdicts


def _verdicts(
    plan: ClientPlan, revision: RevisionId, shows: Sequence[Performance]
) -> list[Verdict]:
    """Return a verdict on each requirement that binds a client, from all runs of a revision."""
    from accord.check.report import VERDICTS

    rows = [
        row
        for row in catalogue().values()
        if row.holds_in(revision) and row.party in _BOUND and plan.wants(row.id)
    ]
    found = []
    for row in rows:
        known = [each for show in shows if (each := show.outcomes.outcome(row.id)) is not None]
        worst = min(known, key=lambda each: VERDICTS.index(each.verdict), default=None)
        found.append(judged(row, revision, worst or _untried(row, plan, shows)))
    return found


def _untried(row: Requirement, plan: ClientPlan, shows: Sequence[Performance]) -> Outcome:
    for show in shows:
        for line in show.lines:
            if line.tape.monitor is not None:
                reason = out_of_scope(row, line.tape.monitor.conversation, {plan.played_over})
                if reason is not None:
                    return Outcome("not-applicable", reason)
    if row.check == "human":
        return Outcome("not-exercised", "it takes a person to see this")
    return Outcome("not-exercised", "the client gave no occasion for it")
