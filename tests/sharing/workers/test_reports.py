"""The counts of several workers, through a store."""

import asyncio
import contextlib
from typing import Any

import msgspec

from accord.errors import StoreUnavailable
from accord.http.server.metrics import MetricFamily
from accord.sharing import MemoryBackend
from accord.sharing.workers import names
from accord.sharing.workers.metrics import (
    COUNTS,
    WorkerMetrics,
    WorkerReports,
    read_reports,
    report_of,
)
from support.waiting import in_loop, until


class Worker:
    """A worker that counts calls."""

    def __init__(self, backend: Any, id: str, host: str = "here") -> None:
        self.backend = backend
        self.id = id
        self.calls = 0
        self.reports = WorkerReports(backend, self.collect, host=host)

    def collect(self) -> list[MetricFamily]:
        return [MetricFamily("calls", "counter", "Calls.", [({"kind": "x"}, self.calls)])]

    async def join(self) -> "Worker":
        await self.backend.add(names.WORKERS, [self.id], ttl=60)
        return self


def calls(reports: Any) -> dict[str, int]:
    return {each.worker: each.families[0].samples[0][1] for each in reports}


@in_loop
async def test_a_worker_shows_its_own_counts_and_those_of_the_others() -> None:
    backend = MemoryBackend()
    await backend.open()
    first = await Worker(backend, "b1").join()
    second = await Worker(backend, "a2").join()
    first.calls, second.calls = 3, 5
    await second.reports.publish("a2")
    found = await first.reports.gather("b1")
    assert [each.worker for each in found] == ["a2", "b1"]
    assert calls(found) == {"a2": 5, "b1": 3}
    await backend.close()


@in_loop
async def test_a_count_never_goes_back_whichever_worker_shows_it() -> None:
    backend = MemoryBackend()
    await backend.open()
    first = await Worker(backend, "w1").join()
    second = await Worker(backend, "w2").join()
    shown = {"w1": 0, "w2": 0}
    for turn in range(20):
        first.calls += 1
        second.calls += 2
        asked, id = ((first, "w1"), (second, "w2"))[turn % 2]
        found = calls(await asked.reports.gather(id))
        assert all(found[each] >= shown[each] for each in found), (turn, shown, found)
        shown |= found
    assert shown["w1"] > 0 < shown["w2"]
    await backend.close()


@in_loop
async def test_workers_of_other_machines_are_left_out_unless_all_are_wanted() -> None:
    backend = MemoryBackend()
    await backend.open()
    here = await Worker(backend, "w1").join()
    there = await Worker(backend, "w2", host="there").join()
    await there.reports.publish("w2")
    assert calls(await here.reports.gather("w1")) == {"w1": 0}
    everywhere = await here.reports.gather("w1", is_for_all_hosts=True)
    assert calls(everywhere) == {"w1": 0, "w2": 0}
    await backend.close()


@in_loop
async def test_workers_that_have_left_are_not_shown() -> None:
    backend = MemoryBackend()
    await backend.open()
    first = await Worker(backend, "w1").join()
    second = await Worker(backend, "w2").join()
    third = await Worker(backend, "w3").join()
    for each in (second, third):
        await each.reports.publish(each.id)
    await backend.remove(names.WORKERS, ["w2"])
    await third.reports.withdraw("w3")
    assert calls(await first.reports.gather("w1")) == {"w1": 0}
    await backend.close()


@in_loop
async def test_a_report_of_another_version_is_left_out() -> None:
    backend = MemoryBackend()
    await backend.open()
    first = await Worker(backend, "w1").join()
    for id, value in (("w2", b"\xc1"), ("w3", msgspec.msgpack.encode((2, "w3", "here", [])))):
        await Worker(backend, id).join()
        await backend.put(report_of(id), value, ttl=60)
    assert calls(await first.reports.gather("w1")) == {"w1": 0}
    await backend.close()


@in_loop
async def test_a_family_that_this_version_does_not_know_is_passed_on() -> None:
    backend = MemoryBackend()
    await backend.open()
    first = await Worker(backend, "w1").join()
    await Worker(backend, "w2").join()
    family = ("inventions", "gauge", "What a later version counts.", [({}, 1.5)])
    value = msgspec.msgpack.encode((1, "w2", "here", [family]))
    await backend.put(report_of("w2"), value, ttl=60)
    found = {each.worker: each.families for each in await first.reports.gather("w1")}
    assert found["w2"] == [MetricFamily(*family)]
    await backend.close()


class MovingWorker(Worker):
    """A worker whose store is away at first, and whose id changes."""

    def __init__(self, backend: Any) -> None:
        super().__init__(self, "w1")
        self._store = backend
        self.failures = 0
        self.is_away = True

    async def put(self, *args: Any, **more: Any) -> int:
        if self.is_away:
            self.failures += 1
            raise StoreUnavailable("the store is away")
        stored: int = await self._store.put(*args, **more)
        return stored


@in_loop
async def test_counts_are_written_again_and_again_under_the_present_id(monkeypatch: Any) -> None:
    monkeypatch.setattr("accord.sharing.workers.metrics._EVERY", 0.01)
    backend = MemoryBackend()
    await backend.open()
    worker = MovingWorker(backend)
    writing = asyncio.create_task(worker.reports.publish_forever(lambda: worker.id))
    await until(lambda: worker.failures >= 2)
    worker.is_away = False
    await backend.add(names.WORKERS, ["w1", "w2"], ttl=60)

    async def written() -> set[str]:
        return {each.worker for each in await read_reports(backend)}

    while "w1" not in await written():
        await asyncio.sleep(0.01)
    worker.id = "w2"
    while "w2" not in await written():
        await asyncio.sleep(0.01)
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    await backend.close()


def test_all_counts_of_a_worker_are_described_once() -> None:
    metrics = WorkerMetrics()
    for number, name in enumerate(COUNTS):
        setattr(metrics, name, number)
    found = metrics.describe()
    assert [family.samples[0][1] for family in found] == [*range(len(COUNTS))]
    assert len({family.name for family in found}) == len(found)
    assert all(family.what.endswith(".") for family in found)
