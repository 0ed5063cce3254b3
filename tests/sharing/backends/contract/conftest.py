"""The contract that every backend keeps, and how to run it for another one.

A backend of your own passes the same suite:

    ACCORD_CONTRACT_BACKEND=my_package.backend:make_backend pytest tests/sharing/backends/contract

`make_backend(namespace)` returns a client that is not open. Two clients with the same namespace see
the same data, in one process and, if `is_shared`, in several: for those a second process calls the
function, too. The module has to be importable (set PYTHONPATH), and the engine has to run already.

Tests get `backend` and `second`, two open clients of the same, empty data; `other`, a client in
another process; `stranger`, one with another namespace; and `store`, which makes more of them.
Those with `other` or `stranger` run for shared backends alone.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from accord.sharing import Backend
from support.store_process import OtherProcess, Recipe
from support.valkey import Valkey, running_valkey
from support.waiting import LONG

OWN = os.environ.get("ACCORD_CONTRACT_BACKEND")


class Store:
    """The engine under test, with a place in it for one test."""

    def __init__(self, make_recipe: Callable[[str], Recipe], *, is_shared: bool) -> None:
        self._make_recipe = make_recipe
        self._namespace = f"test-{uuid4().hex}"
        self._is_shared = is_shared
        self._only: Backend | None = None
        self.clients: list[Backend] = []

    def make(self) -> Backend:
        """Another client, which the test opens and closes."""
        if self._is_shared:
            return self.recipe.make()
        # The clients of memory that is not shared are one object.
        self._only = self._only or self.recipe.make()
        return self._only

    def make_stranger(self) -> Backend:
        """A client of the same engine with another namespace."""
        return self._make_recipe(f"{self._namespace}-2").make()

    @property
    def recipe(self) -> Recipe:
        return self._make_recipe(self._namespace)


# -- the kinds: how a client of each is made, in a folder of the test


def memory(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    return Recipe("accord.sharing:MemoryBackend")


def sealed(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    return Recipe("support.sealed_stores:make_sealed_memory")


def sqlite(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    return Recipe(
        "accord.sharing:SqliteBackend", (str(folder / "store.db"),), {"namespace": namespace}
    )


def sqlite_polling(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    recipe = sqlite(namespace, folder, request)
    return recipe._replace(keywords={**recipe.keywords, "notifications": "polling"})


def sqlite_blocking(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    recipe = sqlite(namespace, folder, request)
    return recipe._replace(factory="accord.sharing.backends.sqlite_backend:BlockingSqliteBackend")


def redis(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    url = request.getfixturevalue("valkey").url
    return Recipe("accord.sharing:RedisBackend", (url,), {"namespace": namespace})


def own(namespace: str, folder: Path, request: pytest.FixtureRequest) -> Recipe:
    return Recipe(OWN or "", (namespace,))


SHARED = [sqlite, sqlite_polling, sqlite_blocking, redis]
KINDS = [memory, sealed, *SHARED]
# The modules with notifications, which the blocking kind of SQLite has not; apart from those, the
# two other kinds of SQLite are one.
WITH_NOTIFICATIONS = ("test_notifications", "test_operation", "test_processes")
if OWN:
    KINDS = [own]
    SHARED = [own] if Recipe(OWN, ("probe",)).make().is_shared else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.fixturenames
    if "store" in names:
        kinds = SHARED if {"other", "stranger"} & set(names) else KINDS
        if metafunc.module.__name__.rpartition(".")[2] not in WITH_NOTIFICATIONS:
            kinds = [kind for kind in kinds if kind is not sqlite_polling]
        else:
            kinds = [kind for kind in kinds if kind is not sqlite_blocking]
        # Valkey is started for `make integration` alone.
        marks = {redis: [pytest.mark.integration]}
        rows = [pytest.param(kind, id=kind.__name__, marks=marks.get(kind, ())) for kind in kinds]
        metafunc.parametrize("store", rows, indirect=True)


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """One server for all tests; each has a namespace of its own."""
    with running_valkey() as server:
        yield server


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    kind = request.param
    return Store(
        lambda namespace: kind(namespace, tmp_path, request), is_shared=kind in (*SHARED, own)
    )


@pytest.fixture
def backend(store: Store) -> Backend:
    client = store.make()
    store.clients.append(client)
    return client


@pytest.fixture
def second(store: Store, backend: Backend) -> Backend:
    client = store.make()
    store.clients.append(client)
    return client


@pytest.fixture
def stranger(store: Store, backend: Backend) -> Backend:
    client = store.make_stranger()
    store.clients.append(client)
    return client


@pytest.fixture
def other(store: Store) -> Iterator[OtherProcess]:
    with OtherProcess(store.recipe) as process:
        yield process


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run async tests on a loop, on which the clients are open."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    clients: list[Any] = getattr(pyfuncitem.funcargs.get("store"), "clients", [])

    async def run_test() -> None:
        async with asyncio.timeout(3 * LONG):
            for client in clients:
                await client.open()
            try:
                await pyfuncitem.obj(**arguments)
            finally:
                for client in clients:
                    await client.close()

    asyncio.run(run_test())
    return True
