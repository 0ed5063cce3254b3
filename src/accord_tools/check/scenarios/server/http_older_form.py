"""HTTP with SSE, the older form: a stream that names an endpoint, and POSTs to it."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import urljoin, urlsplit

from accord.http.rules.addresses import is_loopback
from accord.http.rules.sse import CONTENT_TYPE, Event
from accord.protocol.verdict import Evidence
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import (
    CONTENT_JSON,
    RawResponse,
    SseCarrier,
    exchange,
    is_own_place,
)
from accord_tools.check.probing.messages import decode_json
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.scenarios._scenario import (
    bare_scenario,
    harmless_method,
    initialize,
    scenario,
)

_STREAM: Final = "sse.endpoint.stream"
_POST: Final = "sse.endpoint.post"
_ENDPOINT: Final = "sse.connect.endpoint-event"
_EVENT: Final = "sse.server.message-event"
_DATA: Final = "sse.server.event-data-json"
_ALL: Final = (_STREAM, _POST, _ENDPOINT, _EVENT, _DATA)
_LOCKED: Final = (401, 403)
_URI: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_EVENT_LINE: Final = re.compile(rb"^(?:event|data):", re.MULTILINE)
FIRST_STEPS: Final = "takes the first steps by hand"
"""The name of the scenario that can run where no conversation begins."""


# -- by hand, since a fault here may keep a conversation from beginning


@bare_scenario(*_ALL, on=("sse",))
async def takes_the_first_steps_by_hand(probe: Probe) -> None:
    line = probe.target.reached_with(transport="http").connection(is_judged=False)
    headers = {"accept": CONTENT_TYPE, **probe.target.spec.headers}
    async with line, exchange(line, method="GET", headers=headers) as stream:
        await stream.until(lambda stream: bool(stream.names), line.longest)
        if not _judge_stream(probe, line, stream):
            return
        place = _judge_first_event(probe, line, stream)
        if place is None:
            probe.skip(_ALL, "the server names no endpoint that messages can be posted to")
            return
        message = initialize(probe.revision)
        posted = await _post(line, place, message, probe.target.spec.headers)
        if posted.status in _LOCKED:
            probe.skip(_ALL, f"the server asks for authorization: {posted}")
            return
        why = f"answers a posted message with {posted}"
        if probe.holds(_POST, posted.is_ok, why, evidence=_proof(line)):
            known = len(stream.events)
            await stream.until(lambda stream: len(stream.names) > known, line.patience)
            _judge_answer(probe, line, stream, posted, message)


def _proof(line: RawConnection) -> list[Evidence]:
    return line.proof() if line.proof is not None else []


def _judge_stream(probe: Probe, line: RawConnection, stream: RawResponse) -> bool:
    if stream.is_stream:
        probe.passes(_STREAM)
        return True
    if stream.is_ok and _EVENT_LINE.search(stream.body):
        why = f"sends its events with Content-Type {stream.content_type or 'missing'!r},"
        why = f"{why} expected {CONTENT_TYPE}"
        probe.holds(_STREAM, condition=None, why=why, evidence=_proof(line))
    probe.skip(_ALL, f"the server answers GET with {stream}, not with a stream of events")
    return False


def _judge_first_event(probe: Probe, line: RawConnection, stream: RawResponse) -> str | None:
    """Judge the endpoint event; return where messages go, None if the check posts nothing there."""
    if not stream.events:
        did = "ends its stream" if stream.has_ended else f"is silent for {line.longest:.3g} s"
        why = f"{did} where an event 'endpoint' is due first"
        probe.holds(_ENDPOINT, condition=None, why=why, evidence=_proof(line))
        return None
    judge_endpoint(probe, stream.events[0], probe.target.spec.url, _proof(line))
    named = next((each for each in stream.events if each.name == "endpoint"), None)
    text = "" if named is None else named.data.decode(errors="replace")
    if not _URI.fullmatch(text):
        return None
    place = urljoin(probe.target.spec.url, text)
    return place if is_own_place(probe.target.spec.url, place, probe.target.spec.headers) else None


async def _post(
    line: RawConnection, place: str, message: JsonObject, headers: Mapping[str, str]
) -> RawResponse:
    sent = {"content-type": CONTENT_JSON, **headers}
    async with exchange(line, message, url=place, headers=sent) as posted:
        await posted.rest(line.patience)
    return posted


def _judge_answer(
    probe: Probe,
    line: RawConnection,
    stream: RawResponse,
    posted: RawResponse,
    message: JsonObject,
) -> None:
    proof = line.log.evidence_of_exchange(message["id"]) or _proof(line)
    broken = [each for each in stream.events if each.name == "message" and not _is_json(each)]
    why = f"sends a message event with data that is not JSON: {_texts(broken)}"
    if broken:
        probe.holds(_DATA, not broken, why, evidence=proof)
        return
    if stream.answers_to(message["id"]):
        probe.passes(_DATA)
        named = [each.name for each in stream.events if _is_message(each.data)]
        odd = [name for name in named if name != "message"]
        why = f"sends a message as an event named {odd[:1]}, expected 'message'"
        probe.holds(_EVENT, not odd, why, evidence=proof)
    elif posted.answers_to(message["id"]):
        why = "answers initialize in the body of the POST, not by an event on the stream"
        probe.holds(_EVENT, condition=None, why=why, evidence=proof)


# -- in a conversation


@scenario(*_ALL, opens=partial(Probe.open, is_judged=False, capabilities={}), on=("sse",))
async def speaks_over_two_endpoints(probe: Probe, connection: RawConnection) -> None:
    carrier: SseCarrier = connection.carrier
    probe.passes(_STREAM)
    silence: MessageTimeout | None = None
    try:
        await connection.ask("ping")
        await connection.ask(harmless_method(probe.facts))
        for tool in probe.facts.callable_tools()[:3]:
            await connection.ask("tools/call", tool.params)
    except MessageTimeout as error:
        silence = error
    if silence is not None and carrier.in_bodies:
        text = carrier.in_bodies[-1][:80]
        probe.fail(_EVENT, f"answers in the body of a POST, not on the stream: {text!r}")
        silence = None
    is_explained = _judge_events(probe, connection, carrier)
    if silence is not None and not is_explained:
        raise silence


def _judge_events(probe: Probe, connection: RawConnection, carrier: SseCarrier) -> bool:
    """Judge what came, and where; return whether something went wrong."""
    assert carrier.first is not None
    judge_endpoint(probe, carrier.first, carrier.url)
    odd = [status for status in carrier.statuses if not 200 <= status < 300]
    unnamed = [each.name for each in carrier.odd if _is_message(each.data)]
    broken = [record.raw for record in connection.log.records if record.raw is not None]
    verdicts = [
        probe.holds(_POST, not odd, f"answers a posted message with status {odd[:1]}"),
        probe.holds(
            _EVENT,
            not unnamed,
            f"sends a message as an event named {unnamed[:1]}, expected 'message'",
        ),
        probe.holds(
            _DATA,
            not broken,
            f"sends a message event with data that is not JSON: {broken[:1]}",
        ),
    ]
    return not all(verdicts)


def judge_endpoint(
    probe: Probe, first: Event, url: str, evidence: list[Evidence] | None = None
) -> None:
    """Judge the first event of a stream, which names the endpoint."""
    why = f"sends an event {first.name!r} first, expected 'endpoint'"
    if not probe.holds(_ENDPOINT, first.name == "endpoint", why, evidence=evidence):
        return
    text = first.data.decode(errors="replace")
    why = f"names the endpoint {text[:80]!r}, expected a URI"
    if not probe.holds(_ENDPOINT, _is_uri(text), why, evidence=evidence):
        return
    place = urljoin(url, text)
    if not is_own_place(url, place, {}):
        why = f"names the endpoint {text[:80]!r}, which is this machine's own for every client"
        is_usable = is_loopback(urlsplit(url).hostname or "") or not _is_nobody_else(place)
        probe.holds(_ENDPOINT, is_usable, why, evidence=evidence)


def _is_uri(text: str) -> bool:
    if not _URI.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.path or parts.query)


def _is_nobody_else(place: str) -> bool:
    """Return whether an address means another machine for each client that uses it."""
    host = urlsplit(place).hostname or ""
    return is_loopback(host) or host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def _is_message(data: bytes) -> bool:
    message = decode_json(data)
    return isinstance(message, dict) and "jsonrpc" in message


def _is_json(event: Event) -> bool:
    return decode_json(event.data) is not None


def _texts(events: list[Event]) -> list[bytes]:
    return [each.data[:80] for each in events[:1]]
