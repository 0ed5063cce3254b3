"""No peer can make an endpoint or a monitor raise, and every reply is itself a message."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as some

from accord.protocol.codec import Codec
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import Event, Refused
from accord.protocol.jsonrpc import FAULT, Batch, Frame
from accord.protocol.monitor import Monitor
from accord.protocol.revisions import REVISIONS
from accord.trace import Record
from support.endpoints import HANDSHAKE, MODERN, initialize, initialized, only, opened
from support.messages import BYTES

INPUTS = some.lists(BYTES, min_size=1, max_size=6)
PHASES = some.sampled_from(["opening", "negotiating", "negotiated", "ready"])
ROLES = some.sampled_from(["client", "server"])
EVENTS = Event.__args__


def in_phase(phase: str, role: str, revision: str) -> Endpoint:
    """An endpoint that far into its opening, with requests of its own under way."""
    if phase == "ready":
        endpoint = getattr(opened(revision), role)
        for _ in range(3):
            endpoint.request("ping")
        return endpoint
    client, server = Endpoint("client", request_meta=MODERN), Endpoint("server")
    if phase != "opening":
        _, data = client.request("initialize", initialize(revision))
        exchange = only(server.receive(data)).exchange
        if phase == "negotiated":
            client.receive(server.respond(exchange, initialized(revision)))
    return client if role == "client" else server


def check_reply(reply: bytes) -> None:
    decoded = Codec().decode(reply)
    parts = [part for part, _ in decoded.parts] if isinstance(decoded, Batch) else [decoded]
    for part in parts:
        assert isinstance(part, Frame)
        assert part.kind == FAULT


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    phase=PHASES,
    role=ROLES,
    revision=some.sampled_from(HANDSHAKE),
    inputs=INPUTS,
)
def test_any_bytes_give_events_and_valid_replies(phase, role, revision, inputs):
    endpoint = in_phase(phase, role, revision)
    for data in inputs:
        events = endpoint.receive(data)
        assert events
        for event in events:
            assert isinstance(event, EVENTS)
            reply = getattr(event, "reply", None)
            if reply is not None:
                check_reply(reply)
            if isinstance(event, Refused):
                assert event.why


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    revision=some.none() | some.sampled_from(list(REVISIONS)),
    inputs=some.lists(some.tuples(ROLES, BYTES, some.booleans()), min_size=1, max_size=8),
)
def test_any_bytes_are_judged(revision, inputs):
    monitor = Monitor(revision=revision)
    for number, (sender, data, as_text) in enumerate(inputs, 1):
        if as_text:
            text = data.decode(errors="surrogateescape")
            record = Record(sender=sender, raw=text, number=number, t=100.0 * number)
        else:
            record = Record(sender=sender, message=msgspec.Raw(data), number=number)
        for violation in monitor.observe(record):
            assert violation.severity in ("fail", "warn")
    monitor.close()
    assert monitor.verdicts()
