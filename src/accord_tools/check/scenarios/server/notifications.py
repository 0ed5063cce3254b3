"""Notifications: log messages and progress of a server, and cancellations of its client."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.protocol.revisions import REVISIONS
from accord.protocol.verdict import Evidence
from accord.types import JsonObject, LoggingLevel
from accord_tools.check.probing.messages import new_notification, next_id, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.probing.tool_calls import PROLONGED, ToolCall
from accord_tools.check.scenarios._scenario import (
    ANSWERED,
    OWN,
    OWN_UNJUDGED,
    UNJUDGED,
    arrives,
    call_all,
    call_together,
    harmless_method,
    is_alive,
    scenario,
    unexpected_answers,
    wait_for_answer,
)

_SET: Final = "logging/setLevel"
_LEAST: Final = "logging.message.min-level"
_RESPECTED: Final = "lifecycle.capabilities.respected"
_INVALID: Final = "logging.set-level.invalid-params"
_USUAL: Final = "info"
_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
_OF_MESSAGES: Final = (
    "logging.levels.rfc5424",
    "logging.message.method",
    "logging.message.level-and-data",
    "logging.message.logger-optional",
    "logging.session-wide",
)
_LOGS_NOTHING: Final = "the server logs nothing while its tools are called"


@scenario(*_OF_MESSAGES, era="handshake", needs="logging", sends=(_SET, "tools/call"))
async def asks_for_all_log_messages(probe: Probe, connection: RawConnection) -> None:
    await connection.ask(_SET, {"level": _LEVELS[0]})
    await call_together(probe, connection)
    await connection.collect(probe.target.settling)
    await connection.ask(_SET, {"level": _USUAL})
    probe.skip(_OF_MESSAGES, _LOGS_NOTHING)


# The monitor would report the same under another id.
@scenario(_LEAST, _RESPECTED, opens=OWN_UNJUDGED, needs="logging", is_once=True)
async def sets_every_log_level(probe: Probe, connection: RawConnection) -> None:
    for level in _LEVELS:
        reply = await connection.ask(_SET, {"level": level})
        if reply.code == METHOD_NOT_FOUND:
            probe.fail(_RESPECTED, f"declares logging and does not know {_SET}")
            return
        if reply.is_error:
            probe.fail(_LEAST, f"does not accept the level {level}")
            return
    _, spoken = await _collect_levels(probe, connection, _LEVELS[0])
    if not spoken:
        probe.skip(_LEAST, _LOGS_NOTHING)
        return
    middle = _LEVELS[min(_LEVELS.index(level) for level in spoken) + 1 :][:1]
    for level in dict.fromkeys((*middle, _LEVELS[-1])):
        asked, spoken = await _collect_levels(probe, connection, level)
        lesser = _LEVELS[: _LEVELS.index(level)]
        below = [spoken[each] for each in lesser if each in spoken][:1]
        name = params_of(below[0])["level"] if below else ""
        why = f"logs at {name} although {level} was set"
        evidence = [*asked, *connection.log.evidence_of(below)]
        probe.holds(_LEAST, not below, why, evidence=evidence)


async def _collect_levels(
    probe: Probe, connection: RawConnection, level: str
) -> tuple[list[Evidence], JsonObject]:
    """Return one log message of each level from calls of all tools under this level.

    The exchange that set the level is returned first, as evidence.
    """
    reply = await connection.ask(_SET, {"level": level})
    since = len(connection.received)
    await call_together(probe, connection)
    await connection.collect(probe.target.settling)
    found: JsonObject = {}
    for each in connection.messages("notifications/message", since):
        name = params_of(each).get("level")
        if name in _LEVELS:
            found.setdefault(str(name), each)
    return connection.log.evidence_of_exchange(reply.id), found


@scenario(_INVALID, opens=UNJUDGED, needs="logging")
async def sets_an_unknown_log_level(probe: Probe, connection: RawConnection) -> None:
    reply = await connection.ask(_SET, {"level": "accord-check"})
    if reply.code == METHOD_NOT_FOUND:
        known = await connection.ask(_SET, {"level": _USUAL})
        if known.code == METHOD_NOT_FOUND:
            # lifecycle.capabilities.respected, which another scenario reports.
            probe.skip(_INVALID, f"the server does not know {_SET}")
            return
    probe.expects(_INVALID, reply, INVALID_PARAMS, "an unknown level")
    await is_alive(probe, connection, "an unknown log level")


# -- progress

_PROGRESS: Final = "notifications/progress"
# More than a user can read in a second.
_MOST: Final = 200
_REPORTED: Final = (
    "progress.notification.token",
    "progress.notification.progress",
    "progress.notification.total",
    "progress.notification.message",
    "progress.notification.method-name",
    "progress.value.increases",
    "progress.stops-after-completion",
    "progress.rate-limited",
)
_ACTIVE_ONLY: Final = "progress.notification.active-only"


@scenario(*_REPORTED, _ACTIVE_ONLY, ANSWERED, needs="tools", sends=("tools/call",))
async def asks_for_progress(probe: Probe, connection: RawConnection) -> None:
    wanted: dict[Any, Any] = {}
    for number, tool in enumerate(probe.facts.callable_tools()):
        for token in (f"token-{number}", 1000 + number):
            wanted[token] = await connection.start("tools/call", tool.with_progress(token))
    listed = await connection.start("tools/list")
    for token, id in wanted.items():
        what = f"a call with the progress token {token!r}"
        await wait_for_answer(probe, connection, id, what)
    await _judge_list_during_calls(probe, connection, listed, len(wanted))
    # Reports after the answer arrive soon after it.
    await connection.collect(probe.target.settling)
    reports = connection.messages(_PROGRESS)
    if not reports:
        probe.skip(_REPORTED, "no tool that may be called reports progress")
        return
    counts = Counter(str(params_of(each).get("progressToken")) for each in reports)
    token, most = counts.most_common(1)[0]
    why = f"reports progress on {token} {most} times during one short call"
    probe.holds("progress.rate-limited", most <= _MOST, why)


async def _judge_list_during_calls(
    probe: Probe, connection: RawConnection, id: Any, calls: int
) -> None:
    """Judge whether a list that was requested during calls is answered at all."""
    # A call may still be running, and hold up the list; a later list would wait too.
    if await is_alive(probe, connection, f"{calls} calls at once"):
        why = f"answers a later tools/list, and not the one sent during {calls} calls"
        probe.holds(ANSWERED, await arrives(connection, id, probe.target.settling), why)


@scenario(_ACTIVE_ONLY, needs="tools", sends=("tools/call",))
async def asks_for_no_progress(probe: Probe, connection: RawConnection) -> None:
    await call_all(probe, connection)
    await connection.collect(probe.target.settling)
    # With an id it is reported as jsonrpc.notification.no-id.
    uninvited = [each for each in connection.messages(_PROGRESS) if "id" not in each]
    if probe.facts.callable_tools():
        why = "reports progress although no request asked for it"
        probe.holds(_ACTIVE_ONLY, not uninvited, why)


# -- cancellations: in time, too late, of unknown requests, and malformed ones

_CANCELLED: Final = "notifications/cancelled"
_RACES: Final = "cancellation.races"
# Of every transport, and of stdio alone.
_STOPPING: Final = ("cancellation.receiver.stops", "stdio.cancel.stop-work")
_SILENCE: Final = ("cancellation.receiver.frees-and-silent", "stdio.cancel.no-further-messages")
# A tool that takes this long is still running when a cancellation arrives.
_SLOW: Final = 0.08
_TOOLS: Final = 12
# How often a call is cancelled at most.
_ATTEMPTS: Final = 3


def _cancels_by_closing(facts: ServerFacts) -> str | None:
    """Return why a request cannot be cancelled by a notification; None if it can."""
    if facts.transport == "http" and not REVISIONS[facts.revision].handshake:
        return "over HTTP a request without a session is cancelled by closing its response"
    return None


@scenario(
    "cancellation.invalid-ignored",
    "cancellation.receiver.may-ignore",
    opens=UNJUDGED,
    when=_cancels_by_closing,
    is_once=True,
)
async def cancels_unknown_requests(probe: Probe, connection: RawConnection) -> None:
    done = await connection.ask(harmless_method(probe.facts))
    since = len(connection.received)
    senseless: list[object] = [
        {"requestId": "accord-check-never-sent", "reason": "a check"},
        {"requestId": done.id},
        {"reason": "a check"},
        {"requestId": {}},
        None,
    ]
    for params in senseless:
        await connection.notify(_CANCELLED, params)
    after = "cancellations of unknown requests"
    stray = await unexpected_answers(probe, connection, since, after)
    if stray is None:
        if connection.ended is not None:
            why = "does not ignore a cancellation of an unknown request: it ends"
            probe.fail("cancellation.invalid-ignored", why)
        return
    why = f"does not ignore a cancellation of an unknown request: {stray[0] if stray else ''}"
    probe.holds("cancellation.invalid-ignored", not stray, why)
    probe.passes("cancellation.receiver.may-ignore")


@scenario(_RACES, opens=OWN, when=_cancels_by_closing, is_once=True)
async def cancels_while_the_answer_is_on_its_way(probe: Probe, connection: RawConnection) -> None:
    method = harmless_method(probe.facts)
    notice: JsonObject | None = None
    try:
        for _ in range(10):
            id = await connection.begin(method)
            notice = new_notification(_CANCELLED, {"requestId": id, "reason": "a check"})
            await connection.send(notice)
        await connection.ask(method)
    except (ConnectionEnded, MessageTimeout) as error:
        is_known = isinstance(error, ConnectionEnded) and await probe.ends_by_itself()
        if is_known or getattr(error, "is_garbled", False):
            raise
        connection.point_at(notice)
        probe.fail(_RACES, f"fails after cancelled requests: {error}")
        connection.end("the server answers no further request")
    else:
        probe.passes(_RACES)


@scenario(
    *_STOPPING,
    *_SILENCE,
    opens=OWN,
    needs="tools",
    when=_cancels_by_closing,
    is_once=True,
    sends=("tools/call",),
)
async def cancels_a_tool_that_takes_its_time(probe: Probe, connection: RawConnection) -> None:
    slow = await _slowest(probe, connection)
    if slow is None:
        why = "no tool that may be called takes long enough to be cancelled"
        probe.skip((*_STOPPING, *_SILENCE), why)
        return
    tool, duration = slow
    longest, continues, longer = duration, 0, tool.prolong()
    for _ in range(_ATTEMPTS):
        outcome = await _cancel(probe, connection, tool, duration, longest)
        if outcome == "judged":
            await is_alive(probe, connection, "a cancellation")
            return
        if outcome == "continues":
            # On a busy machine the first cancellation may arrive before its call.
            continues += 1
            if continues > 1:
                why = f"continues a call of {tool.name} that was cancelled, and answers it after"
                _blame_all(probe, _STOPPING, f"{why} {longest:.1f} s")
                return
        else:
            # Calls were measured that now take less time than the cancellation waits for.
            duration /= 2
        # On a busy machine a server ends a call before it reads the cancellation, unless the call
        # takes long.
        if longer is not None:
            tool, longest = longer, PROLONGED * slow[1]
    probe.skip((*_STOPPING, *_SILENCE), "the tool was quicker than its cancellation")


async def _cancel(
    probe: Probe, connection: RawConnection, tool: ToolCall, duration: float, longest: float
) -> Literal["judged", "continues", "too late"]:
    """Cancel a call and judge the result, unless the call seems to continue, or was over.

    Args:
        probe: gets the verdicts.
        connection: takes the call.
        tool: the call.
        duration: how long it takes at least, on a machine that is not busy.
        longest: how long it may take.
    """
    id, left = await _begin_call(connection, _with_own_token(tool), duration)
    await connection.notify(_CANCELLED, {"requestId": id, "reason": "a check"})
    since, began = len(connection.received), asyncio.get_running_loop().time()
    try:
        reply = await connection.reply_to(id, patience=2 * longest + probe.target.settling)
    except MessageTimeout:
        late = len(connection.messages(_PROGRESS, since))
        # Messages sent before the cancellation may still arrive.
        if late < 3:
            probe.passes(*_STOPPING)
        else:
            _blame_all(probe, _STOPPING, f"continues, and reports progress {late} times")
        probe.passes(*_SILENCE)
        return "judged"
    # The tool succeeds if it is not cancelled.
    if reply.is_error or reply.is_failed_call:
        probe.passes(*_STOPPING)
        if _is_plain(connection):
            probe.skip(
                _SILENCE, "over HTTP a response that is not a stream must end with an answer"
            )
        else:
            what = f"a call of {tool.name} that was cancelled, and takes {longest:.1f} s"
            _blame_all(probe, _SILENCE, f"answers {what}: {reply}")
        return "judged"
    # The call may have ended before the cancellation arrived.
    is_over = asyncio.get_running_loop().time() - began < left / 2
    return "too late" if is_over else "continues"


def _blame_all(probe: Probe, ids: Iterable[str], why: str) -> None:
    for id in ids:
        probe.fail(id, why)


async def _begin_call(
    connection: RawConnection, params: JsonObject, duration: float
) -> tuple[Any, float]:
    """Begin a call; return its id once it runs, and how long it should still take."""
    if connection.log.transport != "http":
        return await connection.begin("tools/call", params), duration
    # Only the answer may show that the call arrived, and the cancellation may overtake it.
    id = await connection.start("tools/call", params)
    await connection.collect(duration / 2)
    return id, duration / 2


def _is_plain(connection: RawConnection) -> bool:
    """Return whether the last answer was a plain JSON response."""
    if connection.log.transport != "http":
        return False
    answers = [each.http for each in connection.log.records if each.sender == "server"]
    return bool(answers) and answers[-1] is not None and answers[-1].stream is None


async def _slowest(probe: Probe, connection: RawConnection) -> tuple[ToolCall, float] | None:
    """Return the slowest call and its duration."""
    found: tuple[ToolCall, float] | None = None
    for tool in probe.facts.callable_tools()[:_TOOLS]:
        duration = await _duration(connection, tool)
        if duration >= _SLOW:
            # The first call may be slow for other reasons.
            duration = min(duration, await _duration(connection, tool))
        if duration >= _SLOW and (found is None or duration > found[1]):
            found = tool, duration
    return found


def _with_own_token(tool: ToolCall) -> JsonObject:
    # Late progress of an earlier call must not be taken for that of a later one.
    return tool.with_progress(f"cancel-{next_id()}")


async def _duration(connection: RawConnection, tool: ToolCall) -> float:
    """Call a tool and return the seconds it takes, 0 if it fails."""
    began = asyncio.get_running_loop().time()
    reply = await connection.ask("tools/call", _with_own_token(tool))
    has_failed = reply.is_error or reply.is_failed_call
    return 0.0 if has_failed else asyncio.get_running_loop().time() - began
