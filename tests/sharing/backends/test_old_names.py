"""Names that backends had up to accord 0.2: taken until 0.4, each with a warning."""

import asyncio
from typing import Any

import pytest

from accord.sharing import KeyRing, MemoryBackend, SealedBackend, SqliteBackend
from accord.sharing.workers.worker import Worker
from support.waiting import in_loop


class BackendOfThirdParty:
    """A backend that was written for accord 0.2, on top of one of today."""

    def __init__(self) -> None:
        self._today = MemoryBackend()
        self.rung: list[str] = []

    async def ring(self, *topics: str) -> None:
        self.rung += topics
        await self._today.notify(*topics)

    async def append(self, log: str, items: Any, *, ring: Any = (), **options: Any) -> int:
        self.rung += ring
        return await self._today.append(log, items, notify=ring, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "notify":
            raise AttributeError(name)
        return getattr(self._today, name)


KEYS = KeyRing(["k" * 32])


@pytest.fixture(params=["memory", "sealed", "sqlite"])
def backend(request, tmp_path):
    backends = {
        "memory": MemoryBackend,
        "sealed": lambda: SealedBackend(MemoryBackend(), KEYS),
        "sqlite": lambda: SqliteBackend(tmp_path / "shared.db"),
    }
    return backends[request.param]()


@in_loop
async def test_ring_notifies_with_a_warning(backend):
    await backend.open()
    heard = asyncio.Event()
    await backend.follow("t", heard.set)
    with pytest.warns(DeprecationWarning, match=r"write notify\(\.\.\.\)") as warned:
        await backend.ring("t")
    assert warned[0].filename == __file__
    await asyncio.wait_for(heard.wait(), 5)
    await backend.close()


@in_loop
async def test_append_takes_ring_with_a_warning(backend):
    await backend.open()
    heard = asyncio.Event()
    await backend.follow("t", heard.set)
    with pytest.warns(DeprecationWarning, match=r"write notify=") as warned:
        assert await backend.append("l", [b"one"], ttl=60, ring=["t"]) == 1
    assert warned[0].filename == __file__
    await asyncio.wait_for(heard.wait(), 5)
    await backend.close()


def test_sqlite_takes_bells_with_a_warning(tmp_path):
    with pytest.warns(DeprecationWarning, match=r"write notifications="):
        SqliteBackend(tmp_path / "shared.db", bells="polling")


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: SealedBackend(each, KEYS)])
@in_loop
async def test_a_backend_that_was_written_for_0_2_serves_workers(wrap):
    third = BackendOfThirdParty()
    with pytest.warns(DeprecationWarning, match="BackendOfThirdParty has no notify"):
        worker = Worker(wrap(third), KEYS)
    await worker.start()
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    worker.on("word", heard.set_result)
    await worker.send(worker.id, "word", b"hello")
    assert await asyncio.wait_for(heard, 5) == b"hello"
    await worker.backend.notify("t")
    assert "t" in third.rung
    await worker.stop()
