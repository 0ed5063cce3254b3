"""The lifecycle of a connection: revisions, capabilities, requests out of order, and its end."""

import json
import re
import signal
from collections.abc import Iterable, Sequence
from typing import Final

from accord.protocol.revisions import REVISIONS, later_than
from accord.trace import Record
from accord_tools.check.probing.messages import are_several, is_request
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.target import StdioCarrier
from accord_tools.check.scenarios._scenario import (
    ANSWERED,
    OWN_UNJUDGED,
    SURVIVES,
    UNINITIALIZED,
    UNINITIALIZED_UNJUDGED,
    arrives,
    bare_scenario,
    call_all,
    harmless_method,
    is_alive,
    scenario,
    wait_for_answer,
)

_UNKNOWN: Final = "1999-12-31"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
# Where the answer to initialize names its revision.
_CHOSEN: Final = "/result/protocolVersion"
_ECHOES: Final = "lifecycle.version.server-echoes"
_OFFERS_OTHER: Final = "lifecycle.version.server-offers-other"
_OFFERS_LATEST: Final = "lifecycle.version.server-offers-latest"
_ERRORS: Final = "lifecycle.errors.handled"
_RESPECTED: Final = "lifecycle.capabilities.respected"


@bare_scenario(_ECHOES)
async def requests_the_revision_under_check(probe: Probe) -> None:
    # A server that does not speak the revision is not checked under it.
    first = probe.connection
    chosen = first.opening.get("protocolVersion")
    if not isinstance(chosen, str):
        probe.skip(_ECHOES, "the server names no revision")
        return
    why = f"answers {probe.revision} with {chosen!r}"
    is_same = chosen == probe.revision
    probe.holds(_ECHOES, is_same, why, evidence=first.opening_proof, at=_CHOSEN)


@scenario(_OFFERS_OTHER, _OFFERS_LATEST, opens=UNINITIALIZED, is_once=True, sends=("initialize",))
async def requests_an_unknown_revision(probe: Probe, connection: RawConnection) -> None:
    try:
        reply = await connection.initialize(_UNKNOWN, is_confirmed=False)
    except MessageTimeout:
        await _blame_for_silence(probe, connection, "initialize with an unknown revision")
        return
    offered = reply.result.get("protocolVersion")
    is_other = isinstance(offered, str) and offered != _UNKNOWN
    # README of the requirements, contradictions: an error -32602 that lists what is supported
    # is what 2025-06-18 shows in its example.
    is_refusal = reply.code == -32602
    why = f"answers an unknown revision with {reply}"
    probe.holds(_OFFERS_OTHER, is_other or is_refusal, why, at=_CHOSEN)
    if not is_other or not _DATE.fullmatch(str(offered)):
        probe.skip(_OFFERS_LATEST, "the server offers no other")
        return
    later = [row.id for row in later_than(str(offered)) if await _speaks(probe, row.id)]
    why = f"offers {offered} although it speaks {', '.join(later)}"
    probe.holds(_OFFERS_LATEST, not later, why, at=_CHOSEN)


async def _speaks(probe: Probe, revision: str) -> bool:
    if not REVISIONS[revision].handshake:
        return False
    async with probe.open(begins=False, is_judged=False) as connection:
        reply = await connection.initialize(revision, is_confirmed=False)
        return reply.result.get("protocolVersion") == revision


@scenario(_ERRORS, opens=UNINITIALIZED_UNJUDGED, is_once=True)
async def sends_invalid_initialize_parameters(probe: Probe, connection: RawConnection) -> None:
    try:
        reply = await connection.ask("initialize", {"protocolVersion": 7})
    except ConnectionEnded as error:
        probe.fail(_ERRORS, f"ends after a malformed initialize: {error}")
    except MessageTimeout:
        await _blame_for_silence(probe, connection, "a malformed initialize")
    else:
        why = f"accepts an initialize without capabilities and clientInfo: {reply}"
        probe.holds(_ERRORS, reply.is_error, why, at="/result")


@scenario(
    ANSWERED,
    "ping.response.prompt",
    opens=UNINITIALIZED_UNJUDGED,
    era="handshake",
    on=("stdio", "sse"),
    is_once=True,
)
async def sends_requests_before_initialize(probe: Probe, connection: RawConnection) -> None:
    # The server may refuse them, but must answer.
    ping = await connection.begin("ping")
    try:
        is_pinged = await arrives(connection, ping)
    except ConnectionEnded as error:
        probe.fail(SURVIVES, f"ends after the first ping: {error}")
        return
    # A server that has not answered anything may still be starting.
    method = harmless_method(probe.facts)
    id = await connection.begin(method) if method != "ping" else None
    await connection.initialize(probe.revision)
    is_pinged = is_pinged or await arrives(connection, ping, probe.target.patience)
    probe.holds("ping.response.prompt", is_pinged, "answers no ping before initialize")
    if id is not None:
        await wait_for_answer(probe, connection, id, f"{method} before initialize")
    await is_alive(probe, connection, "requests before initialize")


async def _blame_for_silence(probe: Probe, connection: RawConnection, what: str) -> None:
    """Record a verdict on a first request without an answer, unless the server is starting.

    Raises:
        MessageTimeout: it does not answer a valid initialize either.
    """
    await connection.initialize(probe.revision)
    probe.fail(ANSWERED, f"leaves {what} unanswered")


@scenario(ANSWERED, opens=OWN_UNJUDGED, era="handshake", is_once=True)
async def initializes_twice(probe: Probe, connection: RawConnection) -> None:
    await connection.initialize(probe.revision)
    await is_alive(probe, connection, "a second initialize")


@scenario(
    "lifecycle.initialized.server-waits", opens=UNINITIALIZED, is_once=True, sends=("initialize",)
)
async def omits_the_initialized_notification(probe: Probe, connection: RawConnection) -> None:
    await connection.initialize(probe.revision, is_confirmed=False)
    await connection.collect(probe.target.settling)
    requests = [str(each["method"]) for each in connection.received if is_request(each)]
    early = [method for method in requests if method != "ping"]
    why = f"sends {', '.join(early)} before notifications/initialized"
    probe.holds("lifecycle.initialized.server-waits", not early, why)


@bare_scenario(_RESPECTED, needs="tools", is_once=True, sends=("tools/call",))
async def declares_no_capabilities(probe: Probe) -> None:
    if not probe.facts.callable_tools():
        probe.skip(_RESPECTED, "no tool may be called")
        return
    async with probe.open(capabilities={}) as connection:
        await call_all(probe, connection)
        # The monitor would report a request to the client.
        probe.passes(_RESPECTED)


# -- a launched server as a process

_STREAMS: Final = "stdio.server.reads-stdin-writes-stdout"
_EXITS: Final = "stdio.shutdown.server-exits"
_EXITS_ON_EOF: Final = "stdio.shutdown.server-exits-on-eof"
_SIGNALS: Final = "practice.shutdown.signals"
_ONLY_MESSAGES: Final = "stdio.server.stdout-only-messages"
_NEWLINE: Final = "stdio.framing.newline-delimited"
_NO_NEWLINE: Final = "stdio.framing.no-embedded-newline"
_LOGS: Final = ("stdio.server.stderr-logging", "practice.stdio.log-to-stderr")
# A message is searched from this many lines at most.
_STARTS: Final = 20
_decoder: Final = json.JSONDecoder(strict=False)


def _is_launched(probe: Probe, *ids: str) -> bool:
    if isinstance(probe.connection.carrier, StdioCarrier):
        return True
    probe.skip(ids, "the server is not a launched process")
    return False


@bare_scenario(_STREAMS, on=("stdio",), is_once=True)
async def reads_answers_from_stdout(probe: Probe) -> None:
    # A server that answers anywhere else cannot be checked at all.
    if _is_launched(probe, _STREAMS) and probe.connection.opening:
        probe.passes(_STREAMS)


@bare_scenario(*_LOGS, on=("stdio",))
async def reads_stderr(probe: Probe) -> None:
    if _is_launched(probe, *_LOGS):
        if probe.facts.is_logging:
            probe.passes(*_LOGS)
        probe.skip(_LOGS, "the server writes nothing to standard error")


@bare_scenario(
    _ONLY_MESSAGES,
    _NEWLINE,
    _NO_NEWLINE,
    _EXITS,
    _EXITS_ON_EOF,
    on=("stdio",),
    is_once=True,
    is_judged=True,
)
async def closes_the_input_of_an_idle_server(probe: Probe) -> None:
    if not _is_launched(probe, _EXITS, _EXITS_ON_EOF):
        return
    async with probe.open() as connection:
        try:
            await connection.ask(harmless_method(probe.facts))
        except MessageTimeout as error:
            if error.is_garbled:
                _judge_lines(probe, connection.log.records)
            raise
        await connection.collect(probe.target.settling)
        why = "keeps running after its standard input was closed"
        _judge_exit(probe, why, has_ended=await connection.carrier.end_input())
        _judge_lines(probe, connection.log.records)


def _judge_lines(probe: Probe, records: Iterable[Record]) -> None:
    """Judge lines that are not messages for their framing; the monitor reports the lines."""
    lines = [_foreign_text(each) for each in records if each.sender == "server"]
    texts = [text for text in lines if text]
    spread = any(_spans_lines(texts[start:]) for start in range(min(len(texts), _STARTS)))
    probe.holds(_NO_NEWLINE, not spread, "splits a message into several lines")
    joined = next((text for text in texts if are_several(text)), None)
    probe.holds(_NEWLINE, joined is None, f"puts several messages into a line: {joined!s:.100}")
    if not texts:
        probe.passes(_ONLY_MESSAGES)


def _judge_exit(probe: Probe, why: str, *, has_ended: bool) -> None:
    for id in (_EXITS, _EXITS_ON_EOF):
        probe.holds(id, has_ended, why)


def _foreign_text(record: Record) -> str:
    """Return a line that is not a message; empty for a message."""
    text = record.raw
    if text is None:
        # Inside a message that is split, a line may be a JSON text or number of its own.
        text = bytes(record.message or b"").decode(errors="replace")
        text = "" if text.lstrip()[:1] in ("{", "[") else text
    return text.strip()


def _spans_lines(lines: Sequence[str]) -> bool:
    """Return whether a message begins here and ends in a later line.

    One of its strings may have a raw newline.
    """
    text = "\n".join(lines)
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and "\n" in text[:end]


@bare_scenario(_EXITS, _EXITS_ON_EOF, on=("stdio",), is_once=True, sends=("tools/call",))
async def closes_the_input_while_requests_are_in_flight(probe: Probe) -> None:
    if not _is_launched(probe, _EXITS, _EXITS_ON_EOF):
        return
    async with probe.open() as connection:
        await connection.begin(harmless_method(probe.facts), {})
        for tool in probe.facts.callable_tools()[:4]:
            await connection.begin("tools/call", tool.params)
        why = "keeps running after its standard input was closed while requests were in flight"
        _judge_exit(probe, why, has_ended=await connection.carrier.end_input())


@bare_scenario(_SIGNALS, on=("stdio",), is_once=True)
async def sends_sigterm(probe: Probe) -> None:
    await _send_signal(probe, signal.SIGTERM)


@bare_scenario(_SIGNALS, on=("stdio",), is_once=True)
async def sends_sigint(probe: Probe) -> None:
    await _send_signal(probe, signal.SIGINT)


async def _send_signal(probe: Probe, number: signal.Signals) -> None:
    if not _is_launched(probe, _SIGNALS):
        return
    async with probe.open() as connection:
        await connection.ask(harmless_method(probe.facts))
        code = await connection.carrier.exit_after(number)
        how = "does not end" if code is None else f"ends with status {code}"
        probe.holds(_SIGNALS, code == 0, f"{how} after {number.name}, expected status 0")
