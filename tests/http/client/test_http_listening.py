"""`subscriptions/listen` over HTTP: one POST each, with a long answer."""

import asyncio
import gc
import json
from typing import Any

import pytest

from accord import Server
from accord.http.settings import HttpLimits
from support.asgi import Asgi, Exchange
from support.listening import SUBSCRIPTION
from support.modern import meta
from support.running import in_virtual_time
from support.waiting import until

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
BURST = 0.1


def make(**settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", **settings)
    server.add_tool(lambda: "x", name="look", description="Look.")
    server.add_resource("note://{name}", lambda name: name)
    return server


class Listener:
    """A client that listens over HTTP."""

    def __init__(self, app: Any, id: Any, *, accept: str | None = None, **filters: Any) -> None:
        params = {"_meta": meta(), "notifications": filters}
        request = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
        headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": request["method"]}
        if accept is not None:
            headers["accept"] = accept
        body = json.dumps(request).encode()
        self.exchange: Exchange = Asgi(app).start("POST", body, **headers)

    async def events(self, count: int) -> list[Any]:
        """Wait for messages; return all of them."""
        await until(lambda: self.exchange.sent and len(self.exchange.events) >= count)
        return self.exchange.events

    @property
    def names(self) -> list[str]:
        return [each.get("method", "answer") for each in self.exchange.events]


@pytest.mark.requirement(
    "subscriptions.ack-first",
    "subscriptions.only-requested-kinds",
    "subscriptions.updated-only-for-watched",
    "meta.listen.subscription-id",
)
@in_virtual_time
async def test_each_stream_has_the_changes_that_its_request_asked_for() -> None:
    server = make()
    app = server.asgi()
    lists = Listener(app, 1, toolsListChanged=True)
    notes = Listener(app, 1, resourceSubscriptions=["note://a"])
    for each in (lists, notes):
        await each.events(1)
    assert lists.exchange.headers["content-type"] == "text/event-stream"
    server.add_tool(lambda: "x", name="new", description="New.")
    server.resource_updated("note://a")
    server.resource_updated("note://b")
    await asyncio.sleep(BURST)
    assert lists.names == [ACKNOWLEDGED, TOOLS]
    assert notes.names == [ACKNOWLEDGED, UPDATED]
    for event in (*lists.exchange.events, *notes.exchange.events):
        assert event["params"]["_meta"] == {SUBSCRIPTION: 1}
    await app.stop()


@pytest.mark.requirement("http.cancel.disconnect-is-cancel")
@in_virtual_time
async def test_a_client_that_disconnects_leaves_nothing_behind() -> None:
    server = make()
    app = server.asgi()
    listener = Listener(app, "L", toolsListChanged=True, resourceSubscriptions=["note://a"])
    await listener.events(1)
    assert len(server._core.hub) == 2
    listener.exchange.disconnect()
    await listener.exchange.done()
    assert len(server._core.hub) == 0
    server.resource_updated("note://a")
    await asyncio.sleep(BURST)
    assert listener.names == [ACKNOWLEDGED]
    await app.stop()


@pytest.mark.requirement(
    "subscriptions.graceful-end-result", "subscriptions.graceful-end-carries-id"
)
@in_virtual_time
async def test_the_end_of_the_server_answers_the_request_and_does_not_wait() -> None:
    server = make()
    app = server.asgi(grace=60)
    listener = Listener(app, "L", toolsListChanged=True)
    await listener.events(1)
    before = asyncio.get_running_loop().time()
    await app.stop()
    await listener.exchange.done()
    assert asyncio.get_running_loop().time() - before < 5
    acknowledged, answer = listener.exchange.events
    assert acknowledged["method"] == ACKNOWLEDGED
    assert answer["id"] == "L"
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["_meta"][SUBSCRIPTION] == "L"
    assert len(server._core.hub) == 0


@in_virtual_time
async def test_a_client_that_accepts_no_stream_cannot_listen() -> None:
    server = make()
    app = server.asgi()
    listener = Listener(app, 1, accept="application/json", toolsListChanged=True)
    await listener.exchange.done()
    assert listener.exchange.status == 406
    assert len(server._core.hub) == 0
    await app.stop()


class StuckExchange(Exchange):
    """A client that does not read from its third message on, until the test says so."""

    async def _send(self, message: Any) -> None:
        await super()._send(message)
        if len(self.sent) == 3:
            self.room = asyncio.Event()
            await self.room.wait()


@in_virtual_time
async def test_a_listener_that_does_not_read_delays_no_other_and_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = make()
    app = server.asgi(limits=HttpLimits(write_timeout=10_000))
    uris = [f"note://{number}" for number in range(20)]
    reading = Listener(app, 1, resourceSubscriptions=uris)
    await reading.events(1)
    with monkeypatch.context() as patch:
        patch.setattr("support.asgi.Exchange", StuckExchange)
        stuck = Listener(app, 2, resourceSubscriptions=uris)
    await stuck.events(1)
    for _ in range(100):
        for uri in uris:
            server.resource_updated(uri)
        await asyncio.sleep(BURST)
    assert len(reading.exchange.events) == 2_001
    assert len(stuck.exchange.events) <= 21
    stuck.exchange.room.set()  # type: ignore[attr-defined]
    await asyncio.sleep(BURST)
    # As many as fit into the stream, and one for each resource that changed after that.
    late = stuck.exchange.events
    assert len(late) < 1_000
    assert {event["params"]["uri"] for event in late[-20:]} == set(uris)
    await app.stop()


@in_virtual_time
async def test_subscriptions_are_freed_with_their_requests() -> None:
    server = make()
    app = server.asgi()
    listener = Listener(app, 1, toolsListChanged=True)
    await listener.events(1)
    (subscription,) = next(iter(server._core.hub._topics.values()))
    listener.exchange.disconnect()
    await listener.exchange.done()
    gc.collect()
    assert subscription() is None
    await app.stop()
