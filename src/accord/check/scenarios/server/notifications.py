"""Log messages and progress that a server sends."""

from collections import Counter
from typing import Any, Final, get_args

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import call_together, is_alive, wait_for_answer
from accord.protocol.jsonrpc import INVALID_PARAMS
from accord.protocol.verdict import Evidence
from accord.types import JsonObject, LoggingLevel

_SET: Final = "logging/setLevel"
_LEAST: Final = "logging.message.min-level"
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


@scenario(*_OF_MESSAGES, needs="logging")
async def asks_for_all_log_messages(probe: Probe) -> None:
    async with probe.borrow() as connection:
        await connection.ask(_SET, {"level": _LEVELS[0]})
        await call_together(probe, connection)
        await connection.collect(probe.target.settling)
        await connection.ask(_SET, {"level": _USUAL})
        for id in _OF_MESSAGES:
            probe.skip(id, "the server logs nothing while its tools are called")


@scenario(_LEAST, needs="logging", is_once=True)
async def sets_every_log_level(probe: Probe) -> None:
    # The monitor would report the same under another id.
    async with probe.open(is_judged=False) as connection:
        refused = [
            level for level in _LEVELS if (await connection.ask(_SET, {"level": level})).is_error
        ]
        if refused:
            probe.fail(_LEAST, f"does not accept the level {refused[0]}")
            return
        _, spoken = await _collect_levels(probe, connection, _LEVELS[0])
        if not spoken:
            probe.skip(_LEAST, "the server logs nothing while its tools are called")
            return
        middle = _LEVELS[min(_LEVELS.index(level) for level in spoken) + 1 :][:1]
        for level in dict.fromkeys((*middle, _LEVELS[-1])):
            asked, spoken = await _collect_levels(probe, connection, level)
            lesser = _LEVELS[: _LEVELS.index(level)]
            below = next((each for each in lesser if each in spoken), None)
            probe.holds(
                _LEAST,
                below is None,
                f"logs at {below} although {level} was set",
                evidence=None
                if below is None
                else [*asked, *connection.log.evidence_of([spoken[below]])],
            )


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
    for each in connection.received[since:]:
        params = each.get("params")
        if each.get("method") == "notifications/message" and isinstance(params, dict):
            found.setdefault(str(params.get("level")), each)
    spoken = {name: each for name, each in found.items() if name in _LEVELS}
    return connection.log.evidence_of_exchange(reply.message.get("id")), spoken


@scenario(_INVALID, needs="logging")
async def sets_an_unknown_log_level(probe: Probe) -> None:
    async with probe.borrow(is_judged=False) as connection:
        reply = await connection.ask(_SET, {"level": "accord-check"})
        probe.holds(
            _INVALID,
            reply.code == INVALID_PARAMS,
            f"answers an unknown level with {reply}, expected error -32602",
        )
        await is_alive(probe, connection, "an unknown log level")


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


@scenario(*_REPORTED, needs="tools")
async def asks_for_progress(probe: Probe) -> None:
    tools = probe.facts.callable_tools()
    async with probe.borrow() as connection:
        wanted: dict[Any, Any] = {}
        for number, (tool, arguments) in enumerate(tools):
            for token in (f"token-{number}", 1000 + number):
                wanted[token] = await connection.start(
                    "tools/call",
                    {
                        "name": tool["name"],
                        "arguments": arguments,
                        "_meta": {"progressToken": token},
                    },
                )
        for token, id in wanted.items():
            await wait_for_answer(
                probe, connection, id, f"a call with the progress token {token!r}"
            )
        # Reports after the answer arrive soon after it.
        await connection.collect(probe.target.settling)
        reports = [each for each in connection.received if each.get("method") == _PROGRESS]
        if not reports:
            for id in _REPORTED:
                probe.skip(id, "no tool that may be called reports progress")
            return
        counts = Counter(str((each.get("params") or {}).get("progressToken")) for each in reports)
        token, most = counts.most_common(1)[0]
        probe.holds(
            "progress.rate-limited",
            most <= _MOST,
            f"reports progress on {token} {most} times during one short call",
        )


@scenario("progress.notification.active-only", needs="tools")
async def asks_for_no_progress(probe: Probe) -> None:
    async with probe.borrow() as connection:
        for tool, arguments in probe.facts.callable_tools():
            id = await connection.begin(
                "tools/call", {"name": tool["name"], "arguments": arguments}
            )
            await wait_for_answer(probe, connection, id, f"a call of {tool['name']}")
        await connection.collect(probe.target.settling)
        uninvited = [each for each in connection.received if each.get("method") == _PROGRESS]
        if probe.facts.callable_tools():
            probe.holds(
                "progress.notification.active-only",
                not uninvited,
                "reports progress although no request asked for it",
            )
