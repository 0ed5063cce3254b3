"""The full check of a server in a thread of its own, so that the page stays live."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord.errors import AccordError
from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.raw_connection import RawCarrier
from accord_tools.check.probing.server_facts import CheckRules
from accord_tools.check.probing.target import ServerTarget, StdioCarrier
from accord_tools.check.server_check import CheckProgress, ServerPlan, check_server
from accord_tools.check.verdicts import is_chosen
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused, Download
from accord_tools.inspector.session import InspectedSession
from accord_tools.inspector.target_access import (
    check_words,
    current_target,
    make_safe,
    request_credentials,
    server_target,
)
from accord_tools.reports.delivery import find_renderer
from accord_tools.reports.report import VERDICTS, Report, RequirementResult, Setting

CheckState: TypeAlias = Literal["idle", "running", "done", "failed", "stopped"]
# Characters of one piece of evidence on the page.
_EVIDENCE: Final = 2_000
# How long the thread may take to end after the processes were killed.
_ENDING: Final = 5.0
_TRUNCATED: Final = "…"


class LaunchedTarget(ServerTarget, frozen=True, kw_only=True):
    """A target that remembers the processes that were launched for it.

    Attributes:
        launched: all of them, to end them at once.
    """

    launched: list[StdioCarrier] = msgspec.field(default_factory=list)

    def make_carrier(self) -> RawCarrier:
        """Return a carrier, and keep it if it launches a process."""
        made = super().make_carrier()
        if isinstance(made, StdioCarrier):
            self.launched.append(made)
        return made


class CheckRun:
    """The check of a session's server; one at a time.

    Attributes:
        state: of the newest check.
        error: why it could not be made.
        progress: how far it is.
        report: the result of the newest check that ended.
    """

    def __init__(self, session: InspectedSession) -> None:
        self.state: CheckState = "idle"
        self.error = ""
        self.progress: CheckProgress | None = None
        self.report: Report | None = None
        self._described: JsonObject | None = None
        self._session = session
        self._worker: _Worker | None = None

    async def start(
        self, revisions: Sequence[RevisionId], only: str = "", *, calls_tools: bool = False
    ) -> None:
        """Begin a check.

        Args:
            revisions: those to check; empty checks all that the server speaks.
            only: ids of requirements or areas, separated by spaces or commas; empty checks all.
            calls_tools: whether tools that may change something are called too.

        Raises:
            ActionRefused: one is under way, or something is unknown.
        """
        if self._worker is not None:
            raise ActionRefused("a check is under way; stop it first")
        chosen = only.replace(",", " ").split()
        _demand_known(revisions, chosen)
        plan = ServerPlan(
            revisions=tuple(revisions),
            only=chosen,
            rules=CheckRules(allow_writes=calls_tools),
        )
        worker = self._worker = _Worker(self, asyncio.get_running_loop(), plan)
        try:
            subject = await self._subject()
        except AccordError as error:
            self._worker = None
            self._change("failed", str(error))
            return
        if worker.is_stopped:
            self._worker = None
            self._change("stopped")
            return
        self.progress = None
        self._change("running")
        worker.begin(subject, self._setting())

    async def _subject(self) -> LaunchedTarget:
        target = current_target(self._session)
        found = server_target(target)
        known: dict[str, Any] = {
            name: getattr(found, name) for name in ServerTarget.__struct_fields__
        }
        headers = {**target.headers, **await request_credentials(self._session)}
        known["spec"] = msgspec.structs.replace(found.spec, headers=headers)
        return LaunchedTarget(**known)

    def _setting(self) -> Setting:
        words, end = check_words(make_safe(current_target(self._session)))
        return Setting(command=words, command_end=end, at=time.strftime("%Y-%m-%d %H:%M:%S"))

    async def stop(self) -> None:
        """Stop the check, and end all processes that it launched.

        Raises:
            ActionRefused: no check is under way.
        """
        worker = self._worker
        if worker is None:
            raise ActionRefused("no check is under way")
        self._change("stopped")
        await worker.stop()

    async def close(self) -> None:
        """End with the session."""
        if self._worker is not None:
            await self._worker.stop()

    # -- called by the worker, on the loop of the session

    def note_progress(self, progress: CheckProgress) -> None:
        """Take how far the check is."""
        self.progress = progress
        self._session.mark("check")

    def note_end(self, worker: "_Worker", report: Report | None, error: str) -> None:
        """Take the result, unless the check was stopped."""
        if self._worker is worker:
            self._worker = None
        if worker.is_stopped:
            self._change("stopped")
        elif report is not None:
            self.report, self._described = report, describe_report(report)
            self._change("done")
        else:
            self._change("failed", error)

    def _change(self, state: CheckState, error: str = "") -> None:
        self.state, self.error = state, error
        self._session.mark("check")

    # -- for the page

    def snapshot(self) -> JsonObject:
        """Return what the page shows."""
        progress = self.progress
        is_running = self.state == "running"
        return {
            "state": self.state,
            "error": self.error,
            "share": progress.share if progress is not None and is_running else 0.0,
            "scenario": progress.scenario if progress is not None and is_running else "",
            "revision": progress.revision if progress is not None and is_running else "",
            # It is large, and the page asks at each step of a check.
            "report": None if is_running else self._described,
        }


class _Worker:
    """One check in its thread."""

    def __init__(self, owner: CheckRun, loop: asyncio.AbstractEventLoop, plan: ServerPlan) -> None:
        self.is_stopped = False
        self._owner = owner
        self._home = loop
        self._plan = plan
        self._subject: LaunchedTarget | None = None
        self._ended = asyncio.Event()
        self._inner: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[Report] | None = None

    def begin(self, subject: LaunchedTarget, setting: Setting) -> None:
        self._subject = subject
        thread = threading.Thread(
            target=self._run, args=(subject, setting), name="accord-check", daemon=True
        )
        thread.start()

    def _run(self, subject: LaunchedTarget, setting: Setting) -> None:
        report: Report | None = None
        error = ""
        try:
            report = asyncio.run(self._check(subject, setting))
        except asyncio.CancelledError:
            pass
        except AccordError as failure:
            error = str(failure)
        except Exception as failure:
            error = f"the check itself failed: {type(failure).__name__}: {failure}"
            error = subject.hide_secrets(error)
        finally:
            self._kill()
            self._report(self._finish, report, error)

    async def _check(self, subject: LaunchedTarget, setting: Setting) -> Report:
        self._inner = asyncio.get_running_loop()
        self._work = asyncio.current_task()
        if self.is_stopped:
            raise asyncio.CancelledError
        return await check_server(subject, self._plan, step=self._step, setting=setting)

    def _step(self, progress: CheckProgress) -> None:
        self._report(self._owner.note_progress, progress)

    def _report(self, call: Any, *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of the page has ended
            self._home.call_soon_threadsafe(call, *args)

    def _finish(self, report: Report | None, error: str) -> None:
        self._ended.set()
        self._owner.note_end(self, report, error)

    async def stop(self) -> None:
        """End the check and its processes."""
        self.is_stopped = True
        if self._subject is None:
            return
        inner = self._inner
        if inner is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                inner.call_soon_threadsafe(self._cancel)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDING):
                await self._ended.wait()

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._kill()

    def _kill(self) -> None:
        """Kill all processes: waiting for each to end by itself takes too long."""
        subject = self._subject
        for carrier in subject.launched if subject is not None else ():
            carrier.child.abort()


def _demand_known(revisions: Sequence[str], only: Sequence[str]) -> None:
    for revision in revisions:
        if revision not in REVISIONS:
            raise ActionRefused(
                f"{revision!r} is not one of {', '.join(REVISIONS)}", field="revisions"
            )
    for each in only:
        if not any(is_chosen(id, [each]) for id in catalogue()):
            raise ActionRefused(f"there is no requirement {each!r}", field="only")


def describe_report(report: Report) -> JsonObject:
    """Return a report in the shape of the page, the worst results first."""
    from accord_tools.reports.wording import summary

    results = sorted(report.results, key=lambda each: VERDICTS.index(each.verdict))
    return {
        "summary": summary(report),
        "score": report.score,
        "counts": {verdict: report.count(verdict) for verdict in VERDICTS},
        "revisions": list(report.setting.revisions),
        "seconds": report.setting.seconds,
        "notes": list(report.setting.notes),
        "called": report.setting.call_counts,
        "not_called": dict(report.setting.not_called),
        "results": [_describe_result(each) for each in results],
    }


def _describe_result(result: RequirementResult) -> JsonObject:
    from accord_tools.reports.clauses import page_of

    evidence = [f"{each.party}: {each.message or each.why}" for each in result.evidence]
    shown: JsonObject = msgspec.to_builtins(result)
    return shown | {
        "mend": result.mend or "",
        "url": page_of(result.anchor) or "",
        "repeat": result.repeat or "",
        "evidence": [
            each if len(each) <= _EVIDENCE else each[:_EVIDENCE] + _TRUNCATED for each in evidence
        ],
    }


ReportFormat: TypeAlias = Literal["html", "json", "junit", "sarif", "text"]
_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "html": ("html", "text/html; charset=utf-8"),
    "json": ("json", "application/json"),
    "junit": ("xml", "application/xml"),
    "sarif": ("sarif", "application/sarif+json"),
    "text": ("txt", "text/plain; charset=utf-8"),
}


@action("check.get")
async def get_check(session: InspectedSession) -> object:
    """Return how far the check is, and the newest report."""
    return session.part(CheckRun).snapshot()


@action("check.start")
async def start_check(
    session: InspectedSession,
    *,
    revisions: tuple[RevisionId, ...] = (),
    only: str = "",
    calls_tools: bool = False,
) -> None:
    """Begin a check."""
    await session.part(CheckRun).start(revisions, only, calls_tools=calls_tools)


@action("check.stop")
async def stop_check(session: InspectedSession) -> None:
    """Stop the check."""
    await session.part(CheckRun).stop()


@action("check.download")
async def download_report(session: InspectedSession, *, format: ReportFormat = "html") -> object:
    """Return the newest report as a file."""
    report = session.part(CheckRun).report
    if report is None:
        raise ActionRefused("there is no report yet; run the check first")
    ending, media_type = _FILES[format]
    text = find_renderer(format)(report)
    return Download(f"accord-check.{ending}", media_type, [text.encode(errors="replace")])
