"""Random calls of many clients, while workers are killed, stopped and replaced, and the store too.

Every session is audited when it ends, so that a run of any length needs little memory.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from support.scale.audit import Problem, check_client, report
from support.scale.balancer import Balancer, Exchange, Fault
from support.scale.calls import Call
from support.scale.fleet import REVISIONS, Fleet, in_thread
from support.scale.modern_client import ModernClient, is_question
from support.scale.processes import LEASE
from support.scale.raw_client import RawClient
from support.scale.stores import ValkeyStore
from support.scale.watched_tasks import SessionTasks, WatchedTask
from support.waiting import LONG

CALLS_OF_SESSION = 30
"""After so many rounds a session ends, and its client opens another one."""


@dataclass
class Chaos:
    """One run.

    Args:
        fleet: the workers and their store.
        seed: of everything that is random.
        seconds: how long to disturb.
        clients: how many sessions at once; some requests stand on their own.
        requests: end after so many, if that is sooner.
        every: seconds between two disturbances of workers.
    """

    fleet: Fleet
    seed: int
    seconds: float
    clients: int = 8
    requests: int = 1_000_000
    every: float = 1.0
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.balancer: Balancer
        self.is_over = asyncio.Event()
        self._disturbed: set[int] = set()
        self._healing: set[asyncio.Task[None]] = set()
        self._stops: list[tuple[int, float, float]] = []
        self._names = 0

    async def run(self) -> None:
        """Run it, and fail if anything is wrong."""
        async with Balancer(self.fleet.ports, seed=self.seed) as self.balancer:
            self.balancer.inject = self._break
            work = [asyncio.create_task(self._live(number)) for number in range(self.clients)]
            work.append(asyncio.create_task(self._live_without_session()))
            try:
                await self._disturb(work)
                self.is_over.set()
                await asyncio.gather(*self._healing)
                async with asyncio.timeout(3 * LONG):
                    await asyncio.gather(*work)
            finally:
                self.is_over.set()
                for task in (*work, *self._healing):
                    task.cancel()
                await asyncio.gather(*work, *self._healing, return_exceptions=True)
        report(self.problems, self.fleet.processes, f"{self.seed}, {dict(self.counts)}")

    def summary(self) -> str:
        """What happened, in a line."""
        facts = ", ".join(f"{value} {name}" for name, value in sorted(self.counts.items()))
        return f"seed {self.seed}: {self.balancer.count} requests; {facts}"

    # -- disturbing

    async def _disturb(self, work: list["asyncio.Task[None]"]) -> None:
        began = time.monotonic()
        restart_at = self.seconds / 2 if isinstance(self.fleet.store, ValkeyStore) else None
        while time.monotonic() - began < self.seconds and self.balancer.count < self.requests:
            for task in work:
                if task.done():
                    await task  # it raises
            await asyncio.sleep(self.every * self.random.uniform(0.7, 1.3))
            if restart_at is not None and time.monotonic() - began > restart_at:
                restart_at = None
                await self._restart_store()
            free = [n for n in range(len(self.fleet.ports)) if n not in self._disturbed]
            if len(free) > 1:  # one is always left
                action = self.random.choice([self._kill, self._stop, self._terminate])
                self._spawn(action(self.random.choice(free)))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._healing.add(task)
        task.add_done_callback(self._note_healing)

    def _note_healing(self, task: "asyncio.Task[None]") -> None:
        self._healing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problems.append(Problem("start", str(error)))

    async def _restart_store(self) -> None:
        store = self.fleet.store
        assert isinstance(store, ValkeyStore)
        self.counts["restarts of the store"] += 1
        await in_thread(store.kill)
        await asyncio.sleep(0.3)
        await in_thread(store.start)

    async def _kill(self, number: int) -> None:
        self._disturbed.add(number)
        self.counts["killed workers"] += 1
        await in_thread(self.fleet.processes.kill, number)
        await self._start_again(number)

    async def _terminate(self, number: int) -> None:
        self._disturbed.add(number)
        self.counts["terminated workers"] += 1
        self.fleet.processes.terminate(number)
        await in_thread(self.fleet.processes.wait_for_end, number)
        await self._start_again(number)

    async def _stop(self, number: int) -> None:
        self._disturbed.add(number)
        self.counts["stopped workers"] += 1
        self.fleet.processes.stop(number)
        began = time.monotonic()
        await asyncio.sleep(LEASE * self.random.uniform(1.2, 2.0))
        self.fleet.processes.resume(number)
        self._stops.append((number, began, time.monotonic()))
        self._disturbed.discard(number)

    async def _start_again(self, number: int) -> None:
        """Start a worker, again if the store is away at that moment, as a process manager does."""
        processes = self.fleet.processes
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            processes.start(number)
            while processes.is_running(number) and not await in_thread(processes.is_ready, number):
                await asyncio.sleep(0.05)
            if processes.is_running(number):
                self._disturbed.discard(number)
                return
            self.counts["failed starts"] += 1
        raise AssertionError(f"worker {number} does not start:\n{processes.stderr(number)[-2000:]}")

    def _break(self, exchange: Exchange) -> Fault | None:
        """Break one connection in ten."""
        chance = self.random.random()
        if chance < 0.06:
            return Fault(cut_after_events=self.random.randint(0, 8))
        if chance < 0.08:
            return Fault(cut_after_bytes=self.random.randint(1, 2_000))
        if chance < 0.09:
            return Fault(delay=self.random.uniform(0, 0.3))
        if chance < 0.1 and exchange.method == "POST" and b'"method"' in exchange.body:
            return Fault(cut_request=True)
        return None

    # -- clients

    def _name(self) -> str:
        self._names += 1
        return f"{self.seed}.{self._names}"

    async def _live(self, number: int) -> None:
        """Use one session after the other."""
        random_ = random.Random(self.seed * 1000 + number)
        while not self.is_over.is_set():
            revision = random_.choice(REVISIONS)
            client = RawClient(self.balancer.port, revision=revision, name=self._name())
            async with client:
                if await self._open(client):
                    await self._use(client, random_)
                    await self._close(client)
            self._check(client)

    async def _open(self, client: RawClient) -> bool:
        """Open a session; a request whose outcome is unknown is given up."""
        try:
            await client.open()
        except AssertionError:
            unknown = client.calls[0].outcome in ("unknown", "refused")
            if not unknown and client.session is not None:
                raise
            client.calls.clear()
            self.counts["sessions not opened"] += 1
            return False
        self.counts["sessions"] += 1
        return True

    async def _use(self, client: RawClient, random_: random.Random) -> None:
        listener = client.listen() if random_.random() < 0.5 else None
        counted = [0]
        for number in range(CALLS_OF_SESSION):
            if self.is_over.is_set():
                break
            key = f"{client.name}/{number}"
            actions = [self._act(client, key, random_)]
            if random_.random() < 0.4:
                actions.append(self._act(client, f"{key}b", random_))
            await asyncio.gather(*actions)
            if random_.random() < 0.2:
                await self._count(client, f"{key}c", counted)
            if random_.random() < 0.1:
                await self._change(client, f"{key}l", random_)
        if listener is not None:
            await listener.stop()

    async def _act(self, client: RawClient, key: str, random_: random.Random) -> None:
        kinds = ("quick", "stream", "repeatable", "ask", "silent", "cancel", "task")
        kind = random_.choices(kinds, (4, 4, 4, 4, 1, 1, 1))[0]
        self.counts[f"{kind} calls"] += 1
        if kind == "quick":
            await client.call("quick", key)
        elif kind in ("stream", "repeatable"):
            await client.call(kind, key, steps=random_.randint(1, 30), pause=0.02)
        elif kind == "ask":
            asked = random_.choice(("sample", "roots"))
            await client.call("ask", key, kind=asked, times=random_.randint(1, 4))
        elif kind == "silent":
            await client.call("silent", key, seconds=random_.uniform(0, 1))
        elif kind == "cancel":
            await self._cancel(client, key, random_)
        elif client.revision == "2025-11-25":
            await self._run_task(client, key, random_)

    async def _cancel(self, client: RawClient, key: str, random_: random.Random) -> None:
        call = client.begin("stream", key, steps=20, pause=0.05)
        await asyncio.sleep(random_.uniform(0, 0.3))
        if call.outcome == "open" and call.view.last_id is not None:
            await client.cancel(call)
        assert call.task is not None
        await call.task
        if call.outcome == "answered" and call.was_cancelled:
            # The answer was under way, or the notification came too late.
            call.was_cancelled = False

    async def _count(self, client: RawClient, key: str, counted: list[int]) -> None:
        """Count in the state of the session: what was answered is never forgotten."""
        if counted[0] < 0:
            return
        call = await client.call("count", key)
        if call.outcome != "answered" or "error" in call.response:
            # It may still run, beside the next one, and the later one of both wins.
            counted[0] = -1
            return
        number = int(call.text)
        if number <= counted[0]:
            why = f"{client.name} counted {number} after {counted[0]}"
            earlier = [each for each in client.calls if each.tool == "count"][-6:]
            stops = [f"worker {n} stood still from {a:.3f} to {b:.3f}" for n, a, b in self._stops]
            excerpts = "\n".join(each.excerpt() for each in earlier)
            self.problems.append(Problem("state", why, "\n".join([excerpts, *stops[-20:]])))
        counted[0] = max(number, counted[0])

    async def _change(self, client: RawClient, key: str, random_: random.Random) -> None:
        if random_.random() < 0.5:
            await client.call("change", key)
        else:
            await client.call("touch", key, uri=f"note://{random_.randint(1, 5)}")

    async def _run_task(self, client: RawClient, key: str, random_: random.Random) -> None:
        tasks = SessionTasks(client)
        task = await tasks.start("work", key, steps=random_.randint(1, 20))
        if not isinstance(task, WatchedTask):
            return
        if random_.random() < 0.2:
            await task.cancel()
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            call = await tasks.about("tasks/get", task.id)
            if call.outcome == "answered":
                await self._look_at_task(task, call)
                if task.statuses and task.status in ("completed", "failed", "cancelled"):
                    self.counts[f"tasks {task.status}"] += 1
                    return
            await asyncio.sleep(0.2)
        self.problems.append(Problem("task", f"{task.id} of {key} does not end: {task.statuses}"))

    async def _look_at_task(self, task: WatchedTask, call: Call) -> None:
        if call.reason == "store-unavailable":
            return  # which is checked with all errors
        if "result" not in call.response:
            why = f"{task.id} of {task.key} is unknown"
            self.problems.append(Problem("task", why, call.excerpt()))
            return
        task.statuses.append(call.response["result"]["status"])

    async def _close(self, client: RawClient) -> None:
        """End the session, unless the connection breaks at that moment."""
        await asyncio.gather(*(call.task for call in client.calls if call.task is not None))
        for _ in range(50):
            try:
                if await client.delete() not in (502, 503):
                    return
            except Exception:  # tried again
                await asyncio.sleep(0.05)

    def _check(self, client: RawClient) -> None:
        """Audit a session that is over, and forget it."""
        client.is_deleted = False
        deletes = [each for each in client.attempts if each.method == "DELETE"]
        if any(each.status in (None, 502, 503) for each in deletes):
            # The first one may have been carried out.
            client.attempts = [each for each in client.attempts if each not in deletes]
        by_key = self.fleet.ledger.by_key()
        self.problems += check_client(client, by_key, has_faults=True)
        for call in client.calls:
            self.counts[f"calls {call.reason or call.outcome}"] += 1
            error = (call.response or {}).get("error")
            if error is not None and not self._is_expected(call, error["message"]):
                why = f"{client.name} {call.tool}: {error['message']}"
                self.problems.append(Problem("error", why, call.excerpt()))
        self.fleet.ledger.forget([call.key for call in client.calls])

    def _is_expected(self, call: Call, why: str) -> bool:
        """Whether an error is what the documentation says of the fault."""
        if "store" in why and "does not answer" in why:
            # A worker that stood still for longer than its patience has not heard the store. One
            # that stands still while it writes to a file keeps all others from it.
            is_file = not isinstance(self.fleet.store, ValkeyStore)
            return any(
                (is_file or attempt.worker == number)
                and attempt.at < end
                and (call.ended or end) > began
                for number, began, end in self._stops
                for attempt in call.view.attempts
            )
        # A task may have ended before it is cancelled.
        return call.reason == "worker-lost" or call.method == "tasks/cancel"

    async def _live_without_session(self) -> None:
        """Send requests that stand on their own."""
        random_ = random.Random(self.seed)
        client = ModernClient(self.balancer.port, name=self._name())
        number = 0
        while not self.is_over.is_set():
            number += 1
            key = f"{client.name}/{number}"
            tool, more = random_.choice(
                [("quick", {}), ("stream", {"steps": 5}), ("ask", {"kind": "sample", "times": 2})]
            )
            call = await client.call(tool, key, **more)
            self._check_modern(call, tool)
            client.calls.clear()
            client.attempts.clear()
            self.fleet.ledger.by_key()
            self.fleet.ledger.forget([key])
        self.problems += [Problem("I7", each) for each in client.recorder.report()]
        await client.end_tasks()

    def _check_modern(self, call: Call, tool: str) -> None:
        self.counts[f"stateless calls {call.outcome}"] += 1
        if call.outcome == "unknown":
            return  # the connection broke: such a request cannot be resumed
        is_right = (
            call.outcome == "answered" and not is_question(call) and "result" in call.response
        )
        if not is_right:
            self.problems.append(Problem("I1", f"{tool} of 2026-07-28", call.excerpt()))
        elif tool == "stream":
            numbers = [mark.number for mark in call.view.marks]
            if numbers != [1, 2, 3, 4, 5] or {mark.key for mark in call.view.marks} != {call.key}:
                self.problems.append(Problem("I2", f"{tool}: {numbers}", call.excerpt()))
