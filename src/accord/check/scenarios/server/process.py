"""A launched server as a process: its output, its exit, and signals."""

import signal
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from accord.check.probing.probe import Probe
from accord.check.probing.server_facts import ServerFacts
from accord.check.probing.stdio import StdioCarrier
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import harmless_method
from accord.trace import Record

_STREAMS: Final = "stdio.server.reads-stdin-writes-stdout"
_EXITS: Final = "stdio.shutdown.server-exits"
_SIGNALS: Final = "practice.shutdown.signals"
_ONLY_MESSAGES: Final = "stdio.server.stdout-only-messages"
_NEWLINE: Final = "stdio.framing.newline-delimited"
_NO_NEWLINE: Final = "stdio.framing.no-embedded-newline"
_LOGS: Final = ("stdio.server.stderr-logging", "practice.stdio.log-to-stderr")
_NO_PROCESS: Final = "the server is not a launched process"
# A message is searched in this many lines at most.
_SPREAD: Final = 200


def _not_launched(probe: Probe, *ids: str) -> bool:
    if isinstance(probe.connection.carrier, StdioCarrier):
        return True
    for id in ids:
        probe.skip(id, _NO_PROCESS)
    return False


@scenario(_STREAMS, on=("stdio",), is_once=True)
async def reads_answers_from_stdout(probe: Probe) -> None:
    # A server that answers anywhere else cannot be checked at all.
    if _not_launched(probe, _STREAMS) and probe.connection.opening:
        probe.holds(_STREAMS, condition=True, why="")


@scenario(*_LOGS, on=("stdio",))
async def reads_stderr(probe: Probe) -> None:
    if not _not_launched(probe, *_LOGS):
        return
    if probe.facts.is_logging:
        for id in _LOGS:
            probe.holds(id, condition=True, why="")
    for id in _LOGS:
        probe.skip(id, "the server writes nothing to standard error")


@scenario(_ONLY_MESSAGES, _NEWLINE, _NO_NEWLINE, _EXITS, on=("stdio",), is_once=True)
async def closes_the_input_of_an_idle_server(probe: Probe) -> None:
    if not _not_launched(probe, _EXITS):
        return
    async with probe.open() as connection:
        await connection.ask(harmless_method(probe.facts))
        await connection.collect(probe.target.settling)
        carrier: StdioCarrier = connection.carrier
        probe.holds(
            _EXITS, await carrier.end_input(), "keeps running after its standard input was closed"
        )
        _judge_lines(probe, connection.log.records)


def _judge_lines(probe: Probe, records: Iterable[Record]) -> None:
    """Judge lines that are not messages for their framing; the monitor reports the lines."""
    lines = [each for each in records if each.sender == "server"]
    texts = [each.raw for each in lines if each.raw is not None and each.raw.strip()]
    spread = any(
        _is_message("\n".join(texts[start:end]))
        for start in range(min(len(texts), 20))
        for end in range(start + 2, min(len(texts), start + _SPREAD) + 1)
    )
    probe.holds(_NO_NEWLINE, not spread, "splits a message into several lines")
    joined = next((text for text in texts if _are_several(text)), None)
    probe.holds(_NEWLINE, joined is None, f"puts several messages into a line: {joined!s:.100}")
    if not texts:
        probe.holds(_ONLY_MESSAGES, condition=True, why="")


def _is_message(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _are_several(text: str) -> bool:
    """Return whether a line is several messages in a row."""
    import json

    decoder, place, count = json.JSONDecoder(), 0, 0
    text = text.strip()
    try:
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            count += isinstance(value, dict)
            while place < len(text) and text[place].isspace():
                place += 1
    except (ValueError, RecursionError):
        return False
    return count > 1


@scenario(_EXITS, on=("stdio",), is_once=True)
async def closes_the_input_while_requests_are_in_flight(probe: Probe) -> None:
    if not _not_launched(probe, _EXITS):
        return
    async with probe.open() as connection:
        for method, params in _busy(probe.facts):
            await connection.begin(method, params)
        carrier: StdioCarrier = connection.carrier
        probe.holds(
            _EXITS,
            await carrier.end_input(),
            "keeps running after its standard input was closed while requests were in flight",
        )


def _busy(facts: ServerFacts) -> list[tuple[str, Any]]:
    called = [
        ("tools/call", {"name": tool["name"], "arguments": arguments})
        for tool, arguments in facts.callable_tools()[:4]
    ]
    return [(harmless_method(facts), {}), *called]


@scenario(_SIGNALS, on=("stdio",), is_once=True)
async def sends_sigterm(probe: Probe) -> None:
    await _send_signal(probe, signal.SIGTERM)


@scenario(_SIGNALS, on=("stdio",), is_once=True)
async def sends_sigint(probe: Probe) -> None:
    await _send_signal(probe, signal.SIGINT)


async def _send_signal(probe: Probe, number: signal.Signals) -> None:
    if not _not_launched(probe, _SIGNALS):
        return
    async with probe.open() as connection:
        await connection.ask(harmless_method(probe.facts))
        code = await connection.carrier.exit_after(number)
        how = "does not end" if code is None else f"ends with status {code}"
        probe.holds(_SIGNALS, code == 0, f"{how} after {number.name}, expected status 0")
