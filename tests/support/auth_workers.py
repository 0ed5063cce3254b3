"""Several workers of one authorization server, in this process or in processes of their own.

As a program it is one such worker: it reads requests from stdin and writes the answers to stdout.
"""

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from accord.auth.authorization_server.access_tokens import OwnTokenVerifier, RevokedGrants
from accord.auth.authorization_server.endpoints import Endpoints
from accord.auth.authorization_server.models import OAuthResponse, Request
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.sharing.backends.backend import Backend
from accord.sharing.backends.memory_backend import MemoryBackend
from accord.sharing.backends.urls import open_backend
from support.oauth import ADA, ISSUER, RESOURCE, Desk, desk_settings, file_store, loop_thread
from support.valkey import running_valkey
from support.waiting import LONG

TESTS = Path(__file__).parents[1]
KINDS = ("memory", "sqlite processes", "valkey processes")


class AuthWorker(Protocol):
    """One worker."""

    def respond(self, request: Request, now: float) -> OAuthResponse: ...

    def verify(self, token: str) -> str | None:
        """The subject of a token."""

    def rotate_keys(self) -> None: ...


class LocalWorker:
    """A worker in this process."""

    def __init__(self, store: AuthorizationStore, **settings: Any) -> None:
        self.store = store
        # Limits count names: a test that guesses takes a name of its own.
        users = dict.fromkeys(("ada", "charles", "grace"), ADA)
        self.endpoints = Endpoints(store, desk_settings(**{"users": users, **settings}))
        revoked = RevokedGrants(lambda: self.endpoints)
        self._verifier = OwnTokenVerifier(
            lambda: self.endpoints, issuer=ISSUER, audiences=(RESOURCE,), revoked=revoked
        )

    def respond(self, request: Request, now: float) -> OAuthResponse:
        return self.endpoints.respond(request, now)

    def verify(self, token: str) -> str | None:
        found = asyncio.run(self._verifier.verify(token))
        return None if found is None else found.subject

    def rotate_keys(self) -> None:
        self.endpoints.keys.rotate(self.store.now())


class _Order(msgspec.Struct, omit_defaults=True):
    """What a process is asked to do."""

    request: dict[str, Any] | None = None
    now: float = 0.0
    token: str | None = None


class ProcessWorker:
    """A worker in a process of its own."""

    def __init__(self, place: str) -> None:
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.auth_workers", place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        )

    def _ask(self, order: _Order) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._lock:
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        assert answer, "the worker has ended"
        return answer

    def respond(self, request: Request, now: float) -> OAuthResponse:
        fields = msgspec.structs.asdict(request)
        return msgspec.json.decode(self._ask(_Order(request=fields, now=now)), type=OAuthResponse)

    def verify(self, token: str) -> str | None:
        return msgspec.json.decode(self._ask(_Order(token=token)), type=str | None)

    def rotate_keys(self) -> None:
        self._ask(_Order())

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(LONG)
        finally:
            self.process.kill()
            self.process.wait(LONG)
            self.process.stdout.close()


class AuthWorkers:
    """Workers that share one store; each request goes to another one than the last."""

    def __init__(self, workers: Sequence[AuthWorker]) -> None:
        self.workers = list(workers)
        self._turn = 0

    def respond(self, request: Request, now: float) -> OAuthResponse:
        self._turn += 1
        return self.workers[self._turn % len(self.workers)].respond(request, now)

    def desk(self, worker: AuthWorker | None = None) -> Desk:
        """A browser and a client at an address of their own, at one worker or at all."""
        desk = Desk.__new__(Desk)
        desk.now = time.time()
        desk.endpoints = self if worker is None else worker  # type: ignore[assignment]  # all it does
        desk.resources = (RESOURCE,)
        desk.cookie = desk.known = None
        desk.address = f"2001:db8:{random.getrandbits(16):x}:{random.getrandbits(16):x}::1"
        return desk

    def at_once(self, ask: Callable[[Desk], Any], *, each: int = 3) -> list[Any]:
        """Let all workers do something at the same time, each several times."""
        desks = [self.desk(worker) for worker in self.workers for _ in range(each)]
        gate = threading.Barrier(len(desks))

        def run(desk: Desk) -> Any:
            gate.wait(LONG)
            return ask(desk)

        with ThreadPoolExecutor(len(desks)) as pool:
            return list(pool.map(run, desks))


@contextmanager
def running_workers(kind: str, folder: Path) -> Iterator[AuthWorkers]:
    """Run workers of a kind."""
    with ExitStack() as stack:
        if kind == "memory":
            backend = MemoryBackend()
            stores = [stack.enter_context(shared_store(backend)) for _ in range(2)]
            yield AuthWorkers([LocalWorker(each) for each in stores])
            return
        place = str(folder / "auth.db")
        if kind == "valkey processes":
            place = stack.enter_context(running_valkey()).url
        workers = []
        for _ in range(3):
            workers.append(ProcessWorker(place))
            stack.callback(workers[-1].close)
        yield AuthWorkers(workers)


@contextmanager
def shared_store(backend: Backend, **settings: Any) -> Iterator[AuthorizationStore]:
    """A store over a backend that is open meanwhile."""
    calls = loop_thread()
    calls.run(backend.open())
    try:
        yield AuthorizationStore(backend, calls, **{"client_ttl": 180 * 86_400.0, **settings})
    finally:
        calls.run(backend.close())


def main(place: str) -> None:
    """Be a worker until stdin ends."""
    with ExitStack() as stack:
        store: AuthorizationStore
        if "://" in place:
            store = stack.enter_context(shared_store(open_backend(place)))
        else:
            store = file_store(place)
        stack.callback(store.close)
        worker = LocalWorker(store)
        for line in sys.stdin.buffer:
            answer = _carry_out(worker, msgspec.json.decode(line, type=_Order))
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()


def _carry_out(worker: LocalWorker, order: _Order) -> Any:
    if order.request is not None:
        request = msgspec.convert(order.request | {"refusal": None}, Request)
        return worker.respond(request, order.now)
    if order.token is not None:
        return worker.verify(order.token)
    return worker.rotate_keys()


if __name__ == "__main__":
    main(sys.argv[1])
