"""Cancellations: in time, too late, of unknown requests, and malformed ones."""

import asyncio
from typing import Any, Final

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import harmless_method, is_alive, unexpected_answers
from accord.types import JsonObject

_CANCELLED: Final = "notifications/cancelled"
_STOPS: Final = "cancellation.receiver.stops"
_SILENT: Final = "cancellation.receiver.frees-and-silent"
# A tool that takes this long is still running when a cancellation arrives.
_SLOW: Final = 0.08
_TOOLS: Final = 12


@scenario("cancellation.invalid-ignored", "cancellation.receiver.may-ignore", is_once=True)
async def cancels_unknown_requests(probe: Probe) -> None:
    async with probe.borrow(is_judged=False) as connection:
        method = harmless_method(probe.facts)
        done = await connection.ask(method)
        since = len(connection.received)
        senseless: list[object] = [
            {"requestId": "accord-check-never-sent", "reason": "a check"},
            {"requestId": done.message["id"]},
            {"reason": "a check"},
            {"requestId": {}},
            None,
        ]
        for params in senseless:
            await connection.notify(_CANCELLED, params)
        stray = await unexpected_answers(
            probe, connection, since, "cancellations of unknown requests"
        )
        if stray is None:
            return
        probe.holds(
            "cancellation.invalid-ignored",
            not stray,
            f"does not ignore a cancellation of an unknown request: {stray[0] if stray else ''}",
        )
        probe.holds("cancellation.receiver.may-ignore", condition=True, why="")


@scenario("cancellation.races", is_once=True)
async def cancels_while_the_answer_is_on_its_way(probe: Probe) -> None:
    async with probe.open() as connection:
        method = harmless_method(probe.facts)
        try:
            for _ in range(10):
                id = await connection.begin(method)
                await connection.notify(_CANCELLED, {"requestId": id, "reason": "a check"})
            await connection.ask(method)
        except (ConnectionEnded, MessageTimeout) as error:
            probe.fail("cancellation.races", f"fails after cancelled requests: {error}")
            connection.end("the server answers no further request")
        else:
            probe.holds("cancellation.races", condition=True, why="")


@scenario(_STOPS, _SILENT, needs="tools", is_once=True)
async def cancels_a_tool_that_takes_its_time(probe: Probe) -> None:
    async with probe.open() as connection:
        slow = await _slowest(probe, connection)
        if slow is None:
            for id in (_STOPS, _SILENT):
                probe.skip(id, "no tool that may be called takes long enough to be cancelled")
            return
        # On a busy machine the first cancellation may be too late.
        if await _cancel(probe, connection, *slow) or await _cancel(probe, connection, *slow):
            await is_alive(probe, connection, "a cancellation")
            return
        name, duration = slow[0]["name"], slow[1]
        probe.fail(
            _STOPS,
            f"continues a call of {name} that was cancelled, and answers it after {duration:.1f} s",
        )


async def _cancel(
    probe: Probe, connection: RawConnection, params: JsonObject, duration: float
) -> bool:
    """Cancel a call and judge the result; False if the call seems to continue."""
    id, left = await _begin_call(connection, params, duration)
    await connection.notify(_CANCELLED, {"requestId": id, "reason": "a check"})
    heard_then, began = len(connection.received), asyncio.get_running_loop().time()
    try:
        reply = await connection.reply_to(id, patience=2 * duration + probe.target.settling)
    except MessageTimeout:
        late = [each for each in connection.received[heard_then:] if _is_progress(each)]
        # Messages sent before the cancellation may still arrive.
        probe.holds(_STOPS, len(late) < 3, f"continues, and reports progress {len(late)} times")
        probe.holds(_SILENT, condition=True, why="")
        return True
    if reply.is_error:
        probe.holds(_STOPS, condition=True, why="")
        if _is_plain(connection):
            probe.skip(_SILENT, "over HTTP a response that is not a stream must end with an answer")
        else:
            what = f"a call of {params['name']} that was cancelled, and takes {duration:.1f} s"
            probe.fail(_SILENT, f"answers {what}: {reply}")
    elif asyncio.get_running_loop().time() - began < left / 2:
        # The call may have ended before the cancellation arrived.
        for requirement in (_STOPS, _SILENT):
            probe.skip(requirement, "the tool was quicker than its cancellation")
    else:
        return False
    return True


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
    last = next(
        (each for each in reversed(connection.log.records) if each.sender == "server"), None
    )
    return last is not None and last.http is not None and last.http.stream is None


def _is_progress(message: JsonObject) -> bool:
    return message.get("method") == "notifications/progress"


async def _slowest(probe: Probe, connection: RawConnection) -> tuple[JsonObject, float] | None:
    """Return the parameters and the duration of the slowest call."""
    found: tuple[JsonObject, float] | None = None
    for number, (tool, arguments) in enumerate(probe.facts.callable_tools()[:_TOOLS]):
        params = {
            "name": tool["name"],
            "arguments": arguments,
            "_meta": {"progressToken": f"cancel-{number}"},
        }
        duration = await _duration(connection, params)
        if duration >= _SLOW:
            # The first call may be slow for other reasons.
            duration = min(duration, await _duration(connection, params))
        if duration >= _SLOW and (found is None or duration > found[1]):
            found = params, duration
    return found


async def _duration(connection: RawConnection, params: JsonObject) -> float:
    """Call a tool and return the seconds it takes, 0 if it is refused."""
    began = asyncio.get_running_loop().time()
    reply = await connection.ask("tools/call", params)
    return 0.0 if reply.is_error else asyncio.get_running_loop().time() - began
