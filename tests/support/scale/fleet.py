"""Four workers, a store, and what a scenario needs around them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from support.scale.audit import audit
from support.scale.balancer import Balancer
from support.scale.modern_client import ModernClient
from support.scale.older_client import OlderClient
from support.scale.processes import ServerProcesses
from support.scale.raw_client import RawClient
from support.scale.stores import StoreLink, TestedStore, ValkeyStore, running_store

WORKERS = 4
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")


class Fleet:
    """Workers with their store; they are whole again before each scenario."""

    def __init__(
        self, processes: ServerProcesses, store: TestedStore, link: StoreLink | None
    ) -> None:
        self.processes = processes
        self.store = store
        self.link = link
        self.ledger = processes.ledger

    @property
    def ports(self) -> list[int]:
        return self.processes.ports

    def repair(self) -> None:
        """Start workers again that have ended, and let go on what stands still."""
        processes = self.processes
        numbers = range(len(processes.ports))
        ended = [number for number in numbers if not processes.is_running(number)]
        for number in numbers:
            if number in ended:
                processes.start(number)
            else:
                processes.resume(number)
        for number in numbers:
            processes.wait_until_ready(number)

    @asynccontextmanager
    async def scenario(self, **options: Any) -> "AsyncIterator[Scenario]":
        """Run a scenario behind a balancer, and audit it at the end.

        Args:
            options: `policy` and `seed` of the balancer; `has_faults` of the audit; `front`, the
                port of another balancer.
        """
        has_faults, front = options.pop("has_faults", False), options.pop("front", None)
        async with Balancer(self.ports, **options) as balancer:
            scenario = Scenario(self, balancer, front or balancer.port)
            try:
                yield scenario
            finally:
                await scenario.close()
            audit(self.processes, scenario.clients, has_faults=has_faults, seed=options.get("seed"))


class Scenario:
    """The clients of one scenario, and the balancer between them and the workers."""

    def __init__(self, fleet: Fleet, balancer: Balancer, port: int) -> None:
        self.fleet = fleet
        self.balancer = balancer
        self.port = port
        self.clients: list[RawClient] = []
        self._others: list[ModernClient | OlderClient] = []
        self._made = 0
        # Keys of scenarios that share a ledger must differ.
        self._prefix = os.urandom(3).hex()

    def _name(self) -> str:
        self._made += 1
        return f"{self._prefix}-{self._made}"

    def client(self, revision: str = "2025-11-25", **options: Any) -> RawClient:
        """Make a client of a revision with sessions."""
        client = RawClient(self.port, revision=revision, name=self._name(), **options)
        self.clients.append(client)
        return client

    async def open(self, revision: str = "2025-11-25", **options: Any) -> RawClient:
        """Make a client, and begin its session."""
        worker = options.pop("worker", None)
        client = self.client(revision, **options)
        await client.open(worker=worker)
        return client

    def modern(self, **options: Any) -> ModernClient:
        """Make a client of 2026-07-28."""
        client = ModernClient(self.port, name=self._name(), **options)
        self._others.append(client)
        return client

    def older(self) -> OlderClient:
        """Make a client of the form with two endpoints."""
        client = OlderClient(self.port, name=self._name())
        self._others.append(client)
        return client

    async def close(self) -> None:
        """End all clients, and the sessions that they have not ended."""
        for other in self._others:
            await other.end_tasks()
        for client in self.clients:
            for listener in client.listeners:
                await listener.stop()
        for client in self.clients:
            await client.end_tasks()

    async def end_sessions(self) -> None:
        """End all sessions of clients."""
        for client in self.clients:
            if client.session is not None and not client.is_deleted:
                with contextlib.suppress(Exception):
                    await client.delete()


async def in_thread(function: Any, *args: Any) -> Any:
    """Wait for something that blocks, while clients and the balancer go on."""
    return await asyncio.to_thread(function, *args)


@contextmanager
def running_fleet(kind: str, folder: Path, **options: Any) -> Iterator[Fleet]:
    """Run workers with a store of a kind."""
    workers = options.pop("workers", WORKERS)
    with ExitStack() as stack:
        store = stack.enter_context(running_store(kind, folder))
        processes = ServerProcesses(folder, store=store.url, workers=workers, **options)
        link = None
        if isinstance(store, ValkeyStore) and workers > 1:
            # The connection of the last worker can be cut.
            link = stack.enter_context(StoreLink(store.valkey.port))
            processes.own_options[workers - 1]["store"] = link.url
            # Workers may be on several machines, and nothing may depend on their clocks.
            processes.own_options[1]["clock"] = -300.0
        stack.enter_context(processes)
        yield Fleet(processes, store, link)
