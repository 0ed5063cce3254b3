"""HTTP with SSE, the transport of the first revision: two endpoints."""

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import harmless

if TYPE_CHECKING:
    from accord.check.probing.http import SseCarrier
    from accord.check.probing.probe import Probe

__all__: list[str] = []


@scenario(
    "sse.endpoint.stream",
    "sse.endpoint.post",
    "sse.connect.endpoint-event",
    "sse.server.message-event",
    "sse.server.event-data-json",
    on=("sse",),
)
async def speaks_over_two_endpoints(probe: "Probe") -> None:
    async with probe.open(is_judged=False, capabilities={}) as line:
        carrier: SseCarrier = line.carrier
        probe.holds("sse.endpoint.stream", condition=True, why="")
        await line.ask("ping")
        await line.ask(harmless(probe.facts))
        for tool, arguments in probe.facts.callable_tools()[:3]:
            await line.ask("tools/call", {"name": tool["name"], "arguments": arguments})
        _judge_endpoint(probe, carrier)
        odd = [status for status in carrier.statuses if not 200 <= status < 300]
        probe.holds(
            "sse.endpoint.post", not odd, f"answers a message that was posted with status {odd[:1]}"
        )
        unnamed = [each.name for each in carrier.odd if _is_message(each.data)]
        probe.holds(
            "sse.server.message-event",
            not unnamed,
            f"sends a message as an event named {unnamed[:1]}, expected 'message'",
        )
        broken = [record.raw for record in line.log.records if record.raw is not None]
        probe.holds(
            "sse.server.event-data-json",
            not broken,
            f"sends a message event whose data is no JSON: {broken[:1]}",
        )


def _judge_endpoint(probe: "Probe", carrier: "SseCarrier") -> None:
    id = "sse.connect.endpoint-event"
    first = carrier.first
    assert first is not None
    if not probe.holds(
        id,
        first.name == "endpoint",
        f"sends an event {first.name!r} first, expected 'endpoint'",
    ):
        return
    text = first.data.decode(errors="replace")
    is_uri = False
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        is_uri = bool(parts.path or parts.query) and text == text.strip() and " " not in text
    probe.holds(id, is_uri, f"names the endpoint {text[:80]!r}, expected a URI")


def _is_message(data: bytes) -> bool:
    try:
        message = msgspec.json.decode(data)
    except ValueError:
        return False
    return isinstance(message, dict) and "jsonrpc" in message
