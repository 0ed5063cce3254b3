"""The lifecycle of a connection, and its messages: revisions, order, batches, errors."""

import json
import re
import signal
from collections.abc import Iterable, Sequence
from typing import Any, Final

from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.protocol.revisions import REVISIONS, later_than
from accord.trace import Record
from accord.types import JsonObject
from accord_tools.check.probing.messages import (
    Reply,
    are_several,
    is_request,
    new_notification,
    new_request,
    next_id,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.target import StdioCarrier
from accord_tools.check.scenarios._scenario import (
    ANSWERED,
    MISSING_URI,
    OWN_UNJUDGED,
    SURVIVES,
    UNINITIALIZED,
    UNINITIALIZED_UNJUDGED,
    UNJUDGED,
    arrives,
    bare_scenario,
    call_all,
    harmless_method,
    is_alive,
    replies,
    scenario,
    send_and_wait,
    unexpected_answers,
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


# -- messages

# More than a usual pipe or line buffer (64 KiB) holds, less than any sensible limit.
_LARGE: Final = 256 * 1024
_DEEP: Final = 40
_MANY: Final = 20
# Seconds after which an answer is missing once a later request was answered.
_LATE: Final = 1.0


@scenario("ping.response.prompt", sends=("ping",))
async def pings(probe: Probe, connection: RawConnection) -> None:
    try:
        reply = await connection.ask("ping")
    except MessageTimeout as error:
        probe.fail("ping.response.prompt", f"answers no ping: {error}")
        return
    probe.holds("ping.response.prompt", not reply.is_error, f"answers ping with {reply}")


@scenario(ANSWERED, "jsonrpc.response.id-echo")
async def uses_ids_of_all_kinds(probe: Probe, connection: RawConnection) -> None:
    number = next_id()
    # A number and its text are two ids, which may be in flight together.
    ids: list[object] = [number, str(number), "accord-check", "ä €", 2**53 - 1, -number, 0]
    for id in ids:
        await connection.start(harmless_method(probe.facts), id=id)
    for id in ids:
        what = harmless_method(probe.facts)
        if id in ids[:2]:
            what += f", sent together with one whose id is {ids[id is number]!r},"
        await wait_for_answer(probe, connection, id, what)


@bare_scenario(ANSWERED, is_judged=True)
async def reuses_ids_of_another_connection(probe: Probe) -> None:
    method = harmless_method(probe.facts)
    async with probe.borrow() as one, probe.borrow() as other:
        id = next_id()
        await one.begin(method, id=id)
        await other.begin(method, id=id)
        await wait_for_answer(probe, one, id, method)
        await wait_for_answer(probe, other, id, method)


@scenario(ANSWERED)
async def sends_many_requests_at_once(probe: Probe, connection: RawConnection) -> None:
    ids = [await connection.start(harmless_method(probe.facts)) for _ in range(_MANY)]
    for id in ids:
        what = f"one of {_MANY} requests at once"
        if await wait_for_answer(probe, connection, id, what) is None:
            return
    await connection.collect(probe.target.settling)
    for id in ids:
        count = sum(each.id == id for each in replies(connection.received))
        probe.holds(ANSWERED, count == 1, f"answers id {id} {count} times")


@scenario("jsonrpc.notification.not-answered")
async def sends_unknown_notifications(probe: Probe, connection: RawConnection) -> None:
    since = len(connection.received)
    await connection.notify("notifications/accord-check/unknown")
    await connection.notify("accord-check/unknown", {"_meta": {"org.example/note": 1}})
    stray = await unexpected_answers(probe, connection, since, "an unknown notification")
    if stray is not None:
        why = f"answers a notification with {stray[0] if stray else ''}"
        probe.holds("jsonrpc.notification.not-answered", not stray, why)


@scenario(ANSWERED, on=("stdio",), is_once=True)
async def sends_large_and_deep_messages(probe: Probe, connection: RawConnection) -> None:
    nested: Any = 1
    for _ in range(_DEEP):
        nested = [nested]
    notes = {"large": "x" * _LARGE, "deep": nested, "odd": "\u2028\x00\U0001f30d"}
    for what, value in notes.items():
        params = {"_meta": {"org.example/note": value}}
        id = await connection.begin(harmless_method(probe.facts), params)
        if await wait_for_answer(probe, connection, id, f"a {what} request") is None:
            return


@bare_scenario("jsonrpc.batch.receive", is_judged=True)
async def sends_a_batch(probe: Probe) -> None:
    has_batches = REVISIONS[probe.revision].batching
    async with probe.open(is_judged=has_batches) as connection:
        if not has_batches:
            what = "a batch, which its revision does not have"
            await send_and_wait(probe, connection, _batch(probe), what)
        elif await _answers_batch(probe, connection, "a batch"):
            # Some servers refuse a whole batch because of one unknown notification.
            what = "a batch with an unknown notification (it answers plain batches)"
            notice = new_notification("notifications/accord-check/unknown")
            await _answers_batch(probe, connection, what, notice)


def _batch(probe: Probe, *between: JsonObject) -> list[JsonObject]:
    one = new_request(harmless_method(probe.facts))
    return [one, *between, new_request("ping", id=f"batch-{next_id()}")]


async def _answers_batch(
    probe: Probe, connection: RawConnection, what: str, *between: JsonObject
) -> bool:
    batch = _batch(probe, *between)
    # Once a later request is answered, a missing answer will not come.
    found = await send_and_wait(probe, connection, batch, what)
    if found is None:
        return False
    came = [each.id for each in found]
    ids = [batch[0]["id"], batch[-1]["id"]]
    missing = [id for id in ids if id not in came and not await arrives(connection, id, _LATE)]
    why = f"leaves {len(missing)} of 2 requests in {what} unanswered"
    refusals = [each for each in found if each.id is None and each.is_error]
    if missing and refusals:
        why = f"refuses {what} with {refusals[0]}"
    connection.point_at(batch, *(each.message for each in found))
    return probe.holds("jsonrpc.batch.receive", not missing, why)


# -- errors

_PARSE_ERROR: Final = "errors.code.parse-error"
_INVALID_REQUEST: Final = "errors.code.invalid-request"
_INVALID_PARAMS: Final = "errors.code.invalid-params"
_NOT_FOUND: Final = "errors.code.resource-not-found"
_NOT_FOUND_URI: Final = "errors.resource-not-found.data-uri"
_OK: Final = range(200, 300)
_NO_JSON: Final = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping"',
    b"this is not JSON",
    b"{'a': 1}",
)
_WITH_PARAMETERS: Final = {
    "tools": "tools/call",
    "resources": "resources/read",
    "prompts": "prompts/get",
}
_IGNORED: Final[dict[str, object]] = {
    "an answer to a request that it never sent": {"jsonrpc": "2.0", "id": 987654, "result": {}},
    "an error without id": {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}},
    "params that are a number": {"jsonrpc": "2.0", "method": "notifications/x", "params": 7},
    "an id that is null": {"jsonrpc": "2.0", "id": None, "method": "ping"},
    "an id that is an object": {"jsonrpc": "2.0", "id": {}, "method": "ping"},
    "an empty batch": b"[]",
    "text that is not UTF-8": b'{"jsonrpc": "2.0", "method": "\xff\xfe"}',
}


@scenario(_PARSE_ERROR, SURVIVES, opens=UNJUDGED, is_once=True)
async def sends_text_that_is_not_json(probe: Probe, connection: RawConnection) -> None:
    for text in _NO_JSON:
        what = f"text that is not JSON ({text.decode()})"
        found = await send_and_wait(probe, connection, text, what)
        if found is None:
            return
        what = f"text that is not JSON ({text!r})"
        _expect(probe, connection, found, _PARSE_ERROR, -32700, what)


@scenario(_INVALID_REQUEST, SURVIVES, opens=UNJUDGED, is_once=True)
async def sends_json_that_is_not_a_request(probe: Probe, connection: RawConnection) -> None:
    valid = connection.request(harmless_method(probe.facts))
    messages: dict[str, object] = {
        "a request of JSON-RPC 1.0": valid | {"jsonrpc": "1.0", "id": next_id()},
        "a request without jsonrpc": {
            name: value for name, value in valid.items() if name != "jsonrpc"
        },
        "a method that is a number": {"jsonrpc": "2.0", "id": next_id(), "method": 7},
        "a message with nothing but an id": {"jsonrpc": "2.0", "id": next_id()},
        "a message that is a number": b"7",
    }
    for what, message in messages.items():
        found = await send_and_wait(probe, connection, message, what)
        if found is None:
            return
        _expect(probe, connection, found, _INVALID_REQUEST, -32600, what)


def _expect(
    probe: Probe, connection: RawConnection, found: list[Reply], id: str, code: int, what: str
) -> None:
    # Over HTTP the status alone may refuse it.
    statuses = getattr(connection.carrier, "statuses", ())
    is_refused = any(status not in _OK for status in statuses[-2:])
    versioned = [each for each in found if "jsonrpc" in each.message]
    if found and not versioned and not is_refused:
        return  # jsonrpc.message.version-2-0, which the monitor reports
    found = versioned
    if not found:
        probe.holds(id, is_refused, f"does not answer {what}, expected error {code}")
        return
    probe.expects(id, next((each for each in found if each.code == code), found[0]), code, what)


@scenario(SURVIVES, opens=UNJUDGED, is_once=True)
async def sends_messages_that_must_be_ignored(probe: Probe, connection: RawConnection) -> None:
    for what, message in _IGNORED.items():
        if await send_and_wait(probe, connection, message, what) is None:
            return


_METHOD_NOT_FOUND: Final = "errors.code.method-not-found"


@scenario(_METHOD_NOT_FOUND)
async def calls_an_unknown_method(probe: Probe, connection: RawConnection) -> None:
    reply = await connection.ask("accord-check/no-such-method", {})
    if connection.is_stateless and connection.log.transport == "http":
        probe.skip(_METHOD_NOT_FOUND, "http.method-not-found.404 decides on status and code")
    else:
        probe.expects(_METHOD_NOT_FOUND, reply, METHOD_NOT_FOUND, "an unknown method")
    await is_alive(probe, connection, "an unknown method")


@bare_scenario(_INVALID_PARAMS, "errors.invalid-params.data-details")
async def omits_required_parameters(probe: Probe) -> None:
    methods = [each for name, each in _WITH_PARAMETERS.items() if probe.facts.declares(name)]
    if not methods:
        probe.skip(_INVALID_PARAMS, "no method that the server declared needs parameters")
        return
    async with probe.borrow(is_judged=False) as connection:
        for method in methods:
            reply = await connection.ask(method, {})
            if reply.code == METHOD_NOT_FOUND:
                # lifecycle.capabilities.respected, which another scenario reports.
                continue
            # A failing tool call may always be answered with isError.
            if method == "tools/call" and reply.is_failed_call:
                probe.passes(_INVALID_PARAMS)
            else:
                what = f"{method} without parameters"
                probe.expects(_INVALID_PARAMS, reply, INVALID_PARAMS, what)
            if reply.code == INVALID_PARAMS and "data" in reply.error:
                probe.passes("errors.invalid-params.data-details")
        await is_alive(probe, connection, "requests without the parameters they need")


@scenario(_NOT_FOUND, _NOT_FOUND_URI, needs="resources", sends=("resources/read",))
async def reads_an_unknown_resource(probe: Probe, connection: RawConnection) -> None:
    reply = await connection.ask("resources/read", {"uri": MISSING_URI})
    if reply.code == METHOD_NOT_FOUND:
        # lifecycle.capabilities.respected, which another scenario reports.
        probe.skip((_NOT_FOUND, _NOT_FOUND_URI), "the server does not know resources/read")
        return
    if reply.is_error and not isinstance(reply.code, int):
        # jsonrpc.error.code-integer, which the monitor reports.
        return
    why = f"answers an unknown resource with {reply}, expected error -32002"
    # Later revisions settled on -32602.
    if not probe.holds(_NOT_FOUND, reply.code in (-32002, -32602), why):
        return
    data = reply.error.get("data")
    if isinstance(data, dict) and "uri" in data:
        why = f"names {data['uri']!r} as missing when {MISSING_URI!r} was asked for"
        probe.holds(_NOT_FOUND_URI, data["uri"] == MISSING_URI, why)
    else:
        probe.skip(_NOT_FOUND_URI, "the error carries no uri, which is optional")
