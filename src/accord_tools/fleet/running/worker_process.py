"""One worker, seen from its parent: started, listened to, and ended when its time is up."""

import asyncio
import os
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.protocol.verdict import VerdictName
from accord.secrets.filter import SecretFilter
from accord.stdio.child import Child, describe_exit
from accord.stdio.lines import LineReader
from accord_tools.fleet.results import StageName, StageResult, StageState
from accord_tools.fleet.worker.job import (
    DECODER,
    WorkerJob,
    WorkerProgress,
    WorkerReport,
    encode_job,
)

# Messages of workers have whole reports and catalogs.
_LONGEST: Final = 1 << 30
# Seconds that a worker may take to end its servers: it asks them, then kills them.
_ENDING: Final = 8.0
_STDERR_SHOWN: Final = 3
_KILLED: Final = 9

OnWorkerProgress: TypeAlias = Callable[[str, WorkerProgress], object]
"""Called with the name of a server and how far its worker is."""

WorkerEnd: TypeAlias = Literal["finished", "timed-out", "crashed", "interrupted"]


class DoubtfulVerdicts(NamedTuple):
    """Failures that a busy machine may have caused: requirements, and names of tests."""

    requirements: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


class WorkerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the work on one server ended, and what it found until then.

    Attributes:
        name: of the server in the fleet.
        ended: how; all but "finished" leave something out.
        report: what the stages found that ended; one that did not is "failed" or "timed-out".
        stage: the stage that did not end; None if all did.
        text: why it did not finish; empty if it did.
        seconds: of the whole.
        repeated: requirements and tests that were checked again alone, with the verdict before.
        doubtful: what failed while the machine was busy, and was not checked again yet.
    """

    name: str
    ended: WorkerEnd
    report: WorkerReport
    stage: StageName | None = None
    text: str = ""
    seconds: float = 0.0
    repeated: dict[str, VerdictName] = {}
    doubtful: DoubtfulVerdicts = DoubtfulVerdicts()


class WorkerProcess:
    """A worker for one job.

    Args:
        job: what it does.
        on_progress: called with each of its messages about progress.
    """

    def __init__(self, job: WorkerJob, on_progress: OnWorkerProgress | None = None) -> None:
        self._job = job
        self._on_progress = on_progress
        self._lines = LineReader(_LONGEST)
        self._report = WorkerReport()
        self._stage: StageName | None = None
        self._stage_began = 0.0
        self._now = ""
        self._rubbish = 0
        env = {name: value for name, value in os.environ.items() if name not in job.withheld}
        self._child = Child(
            [sys.executable, "-P", "-m", "accord_tools.fleet.worker"], env=env, on_output=self._read
        )

    def start(self) -> int:
        """Start the worker, and return its process id; to be called on the loop.

        Raises:
            ConnectFailed: it cannot be started.
        """
        self._child.start()
        assert self._child.pid is not None
        return self._child.pid

    async def finish(self) -> WorkerOutcome:
        """Wait for its end, or until its time is up; cancelling interrupts it."""
        began = monotonic()
        ended: WorkerEnd = "finished"
        try:
            self._child.write(encode_job(self._job))
            async with asyncio.timeout(self._job.time):
                await self._child.wait()
        except TimeoutError:
            ended = "timed-out"
        except asyncio.CancelledError:
            ended = "interrupted"
        finally:
            # Closing its input is what tells a worker to end everything.
            await self._child.stop(exit_grace=_ENDING, terminate_grace=0.5)
        if ended == "finished" and not self._report.is_complete:
            ended = "crashed"
        return self._outcome(ended, monotonic() - began)

    # -- messages

    def _read(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            try:
                message = DECODER.decode(line)  # type: ignore[arg-type]  # refuses what is not bytes
            except (msgspec.DecodeError, TypeError):
                self._rubbish += 1
                continue
            if isinstance(message, WorkerReport):
                self._report = self._report.with_part(message)
                self._stage = None
            else:
                self._note_progress(message)

    def _note_progress(self, message: WorkerProgress) -> None:
        if message.stage != self._stage:
            self._stage, self._stage_began = message.stage, monotonic()
        self._now = message.now
        if self._on_progress is not None:
            self._on_progress(self._job.name, message)

    # -- the end

    def _outcome(self, ended: WorkerEnd, seconds: float) -> WorkerOutcome:
        report, text = self._report, ""
        if ended != "finished":
            text = self._explain(ended)
            if self._stage is not None:
                took = round(monotonic() - self._stage_began, 3)
                state: StageState = "timed-out" if ended == "timed-out" else "failed"
                stage = StageResult(name=self._stage, state=state, seconds=took, text=text)
                report = msgspec.structs.replace(report, stages=(*report.stages, stage))
        return WorkerOutcome(
            name=self._job.name,
            ended=ended,
            report=report,
            stage=self._stage if text else None,
            text=text,
            seconds=round(seconds, 3),
        )

    def _explain(self, ended: WorkerEnd) -> str:
        where = f" in the stage {self._stage}" if self._stage else ""
        if self._now:
            where += f" ({self._now})"
        if ended == "timed-out":
            return (
                f"was not finished within {self._job.time:g} s, and was ended{where}; a larger time"
                " lets it finish, fewer revisions or calls make it quicker"
            )
        if ended == "interrupted":
            return f"was interrupted{where}"
        code = self._child.exit_code
        how = "disappeared" if code is None else describe_exit(code)
        text = f"the worker {how}{where}"
        if code == -_KILLED:
            text += "; the system does that when memory runs out, and a server could do it"
        if self._rubbish:
            text += f"; {self._rubbish} lines of its output are not messages"
        hide = SecretFilter(self._job.server.secrets).hide_any
        said = [hide(line) for line in [*self._child.stderr.lines][-_STDERR_SHOWN:]]
        return f"{text}; it said: {' | '.join(said)}" if said else text
