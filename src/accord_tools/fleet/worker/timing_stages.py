"""The stages that measure how fast a server answers, and how it ends."""

import contextlib
import signal
from collections.abc import Iterator
from math import ceil
from statistics import median
from time import monotonic
from typing import Final, Self

from accord.protocol.mirroring import mirrored_arguments
from accord.protocol.revisions import HANDSHAKE, newest
from accord_tools.arguments.samples import plain_arguments
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.tool_calls import ToolCall, tool_refusal
from accord_tools.fleet.results import BUSY, ServerTiming, StageState
from accord_tools.fleet.worker.job import WorkerReport
from accord_tools.fleet.worker.stages import LagMeter, ServerWork, StageOutcome

_TIMES: Final = 10
# A busy machine gives a server up to so many times longer, as much as the event loop is late.
_MOST_PATIENT: Final = 4.0
# Tools that are tried until one answers without an error.
_CANDIDATES: Final = 3
# Seconds that all calls of one tool may take together.
_CALL_SECONDS: Final = 10.0


class TimedServer:
    """One more copy of the server, or one more connection to it: measured, then stopped.

    Args:
        work: on the server.
        lag: tells how busy the machine is; on a busy one a server may take longer to end.
    """

    def __init__(self, work: ServerWork, lag: LagMeter) -> None:
        self._work = work
        self._lag = lag
        self._target = work.access.check_target()
        self._line: RawConnection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._line is not None:
            await self._line.close()

    # -- measure

    async def measure(self) -> StageOutcome:
        """Measure the time of answers to pings, and to calls of one tool."""
        from accord_tools.check.probing.target import with_form

        work = self._work
        revision = work.revision or newest(HANDSHAKE)
        self._target = await with_form(self._target)
        tools = list(self._readable_tools())
        for each in tools:
            with contextlib.suppress(ValueError):
                self._target.mirrored[each.name] = mirrored_arguments(each.tool["inputSchema"])
        line = self._target.connection(is_judged=False)
        await line.__aenter__()
        self._line = line
        await line.begin_conversation(revision)
        # A revision without a handshake has no ping.
        method = "server/discover" if line.is_stateless else "ping"
        pings = [await _time_request(line, method) for _ in range(_TIMES)]
        timing = ServerTiming(ping_median=_median(pings), ping_95=_percentile(pings))
        for each in tools[:_CANDIDATES]:
            taken = await self._time_calls(line, each)
            if taken:
                timing = ServerTiming(
                    ping_median=timing.ping_median,
                    ping_95=timing.ping_95,
                    call_median=_median(taken),
                    call_95=_percentile(taken),
                    tool=each.name,
                )
                break
        text = "" if timing.tool else "no tool was called: only pings were measured"
        return StageOutcome(WorkerReport(timing=timing, load_lag=self._lag.seconds), text=text)

    def _readable_tools(self) -> Iterator[ToolCall]:
        """Yield the tools that only read, and that may be called."""
        job = self._work.job
        listed = self._work.catalog.get("tools", [])
        for tool in listed if isinstance(listed, list) else []:
            if job.tools and tool.get("name") not in job.tools:
                continue
            if tool_refusal(tool, is_remote=bool(job.server.url)) is not None:
                continue
            arguments = plain_arguments(tool.get("inputSchema"))
            if arguments is not None:
                yield ToolCall(tool, arguments)

    async def _time_calls(self, line: RawConnection, tool: ToolCall) -> list[float]:
        """Return the seconds of each call; empty if the tool answers with an error."""
        calls = _TIMES if self._work.job.calls is None else min(_TIMES, self._work.job.calls)
        taken: list[float] = []
        while len(taken) < calls and sum(taken) < _CALL_SECONDS:
            began = monotonic()
            try:
                reply = await line.ask("tools/call", tool.params)
            except MessageTimeout:
                return []
            taken.append(monotonic() - began)
            if reply.is_error or reply.is_failed_call:
                return []
        return taken

    # -- stop

    async def stop(self) -> StageOutcome:
        """Close the input of the server, and see whether it and all that it started end."""
        line = self._line
        if line is None or self._target.spec.url:
            return StageOutcome(state="skipped", text="a server behind a URL is not stopped")
        carrier, seconds = line.carrier, self._target.leaving
        state: StageState = "passed"
        has_left = await carrier.end_input(seconds)
        if not has_left:
            # Measured while it was waited for, too.
            more = seconds * min(self._lag.seconds / BUSY, _MOST_PATIENT)
            has_left = await carrier.end_input(more)
            seconds = round(seconds + more, 1)
        if has_left:
            # Now, because closing also ends the rest of its group.
            self._work.note_leftovers()
            text = ""
        else:
            text = f"it did not end within {seconds:g} s after its input was closed"
            carrier.habits.stays = True
            if await carrier.exit_after(signal.SIGTERM) is None:
                text += f", nor within {self._target.leaving:g} s after SIGTERM, and was killed"
                carrier.habits.ignores_signal = True
            state = "failed"
        await line.close()
        self._line = None
        return StageOutcome(state=state, text=text)


async def _time_request(line: RawConnection, method: str) -> float:
    began = monotonic()
    await line.ask(method)
    return monotonic() - began


def _median(taken: list[float]) -> float:
    return round(median(taken), 6)


def _percentile(taken: list[float]) -> float:
    """Return the time within which 95 of 100 answers arrive."""
    return round(sorted(taken)[ceil(0.95 * len(taken)) - 1], 6)
