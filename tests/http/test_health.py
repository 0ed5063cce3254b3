"""What health checks say: `/healthz` while the process serves, `/readyz` while it is ready."""

import asyncio

from accord.errors import StoreUnavailable
from accord.sharing import MemoryBackend
from accord.sharing.workers.overview import drain_workers, read_workers
from support.http_offer import offer
from support.listened import head, listened
from support.waiting import until_sync

OK = (200, {"status": "ok"})


def get(wire, path):
    """Return the status and what it says."""
    wire.send(head(method="GET", path=path))
    answer = wire.answer()
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    return answer.status, answer.json


class Store(MemoryBackend):
    """A store that can be away."""

    def __init__(self):
        super().__init__()
        self.is_away = False

    async def put(self, *args, **more):
        if self.is_away:
            raise StoreUnavailable("it is away")
        return await super().put(*args, **more)

    async def get(self, *args, **more):
        if self.is_away:
            raise StoreUnavailable("it is away")
        return await super().get(*args, **more)


def test_a_server_without_a_store_is_ready():
    with listened(offer().asgi()) as server, server.connect() as wire:
        assert get(wire, "/healthz") == OK
        assert get(wire, "/readyz") == OK


def test_a_server_that_stops_is_not_ready_and_says_so():
    app = offer().asgi()
    with listened(app) as server, server.connect() as wire:
        app.state.is_stopping = True
        reason = {"status": "unready", "reason": "the server is stopping"}
        assert get(wire, "/readyz") == (503, reason)
        assert get(wire, "/healthz") == OK


def test_a_worker_is_not_ready_while_its_store_does_not_answer():
    store = Store()
    app = offer().asgi(store=store, store_patience=0.05, lease=0.3)
    with listened(app) as server, server.connect() as wire:
        assert get(wire, "/readyz") == OK
        store.is_away = True
        until_sync(lambda: get(wire, "/readyz")[0] == 503)
        status, said = get(wire, "/readyz")
        assert status == 503
        assert said["status"] == "unready"
        assert "does not answer" in said["reason"]
        assert get(wire, "/healthz") == OK
        store.is_away = False
        until_sync(lambda: get(wire, "/readyz") == OK)


def test_a_worker_that_an_operator_drains_is_not_ready():
    store = Store()
    app = offer().asgi(store=store)

    async def drain():
        (worker,) = await read_workers(store)
        await drain_workers(store, [worker.id])

    with listened(app) as server, server.connect() as wire:
        asyncio.run_coroutine_threadsafe(drain(), app._loop).result(60)
        until_sync(lambda: get(wire, "/readyz")[0] == 503)
        reason = {"status": "unready", "reason": "the worker is draining"}
        assert get(wire, "/readyz") == (503, reason)
        assert get(wire, "/healthz") == OK
