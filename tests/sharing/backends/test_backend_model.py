"""Random histories of two workers, judged by a model of what a backend promises."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from accord.errors import StoreError
from accord.sharing import Backend, MemoryBackend, SqliteBackend
from support.store_model import Event, State, explain
from support.tables import cases
from support.waiting import LONG

NAMES = some.sampled_from(["a", "b"])
TTLS = some.sampled_from([5.0, 50.0])
# What a worker expects: nothing, no record, the version that it saw last, an older one.
EXPECTED = some.sampled_from([None, "none", "seen", "seen", "old"])

OPERATIONS = some.one_of(
    some.fixed_dictionaries({"do": some.just("get"), "name": NAMES}),
    some.fixed_dictionaries(
        {"do": some.just("put"), "name": NAMES, "ttl": TTLS, "expect": EXPECTED}
    ),
    some.fixed_dictionaries({"do": some.just("delete"), "name": NAMES, "expect": EXPECTED}),
    some.fixed_dictionaries({"do": some.just("touch"), "name": NAMES, "ttl": TTLS}),
    some.fixed_dictionaries(
        {
            "do": some.just("append"),
            "name": NAMES,
            "ttl": TTLS,
            "count": some.integers(0, 3),
            "fence": some.sampled_from([None, "own", "own", "own", "higher"]),
            "after": some.sampled_from([None, None, "seen"]),
            "final": some.sampled_from([False, False, False, True]),
            "keep": some.sampled_from([0, 0, 1, 3]),
        }
    ),
    some.fixed_dictionaries(
        {
            "do": some.just("read"),
            "name": NAMES,
            "after": some.integers(0, 4),
            "limit": some.sampled_from([1, 2, 1000]),
        }
    ),
    some.fixed_dictionaries({"do": some.just("seize"), "name": NAMES}),
    some.fixed_dictionaries({"do": some.just("extend"), "name": NAMES, "ttl": TTLS}),
    some.fixed_dictionaries({"do": some.just("drop"), "name": NAMES}),
    some.fixed_dictionaries({"do": some.just("add"), "name": NAMES, "ttl": TTLS}),
    some.fixed_dictionaries({"do": some.just("remove"), "name": NAMES}),
    some.fixed_dictionaries({"do": some.just("members"), "name": NAMES}),
)
STEPS = some.lists(some.tuples(OPERATIONS, some.booleans()), max_size=3)
ROUNDS = some.lists(some.tuples(STEPS, STEPS, some.sampled_from([0.0, 0.0, 3.0, 6.0])), max_size=12)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class SimulatedWorker:
    """Carries out steps, with versions, fences and numbers that it has seen before."""

    def __init__(self, name: str, backend: Backend, clock: Callable[[], float]) -> None:
        self._name = name
        self._backend = backend
        self._clock = clock
        self._versions: dict[str, list[int]] = {}
        self._fences: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._written = 0

    async def act(self, steps: Any) -> list[Event]:
        events = []
        for step, pauses in steps:
            if pauses:
                await asyncio.sleep(0)
            events.append(await self._carry_out(**step))
        return events

    async def _carry_out(self, do: str, name: str, **options: Any) -> Event:
        arguments = getattr(self, f"_plan_{do}", lambda _, **rest: rest)(name, **options)
        call = getattr(self, f"_call_{do}", None)
        now = self._clock()
        try:
            if call is not None:
                result = await call(name, **arguments)
            else:
                result = await getattr(self._backend, do)(name, **arguments)
        except StoreError as error:
            result = error
        self._remember(do, name, arguments, result)
        return Event(do, name, arguments, result, now)

    def _make_value(self) -> bytes:
        self._written += 1
        return f"{self._name}{self._written}".encode()

    def _find_version(self, name: str, which: str | None) -> dict[str, int]:
        seen = self._versions.get(name, [])
        if which is None or (which != "none" and not seen):
            return {}
        return {"expect": 0 if which == "none" else seen[-1 if which == "seen" else 0]}

    def _plan_put(self, name: str, ttl: float, expect: str | None) -> dict[str, Any]:
        return {"value": self._make_value(), "ttl": ttl, **self._find_version(name, expect)}

    def _plan_delete(self, name: str, expect: str | None) -> dict[str, Any]:
        return self._find_version(name, expect)

    def _plan_append(
        self, name: str, count: int, fence: str | None, after: str | None, **options: Any
    ) -> dict[str, Any]:
        own = self._fences.get(name, 0)
        return {
            **options,
            "items": [self._make_value() for _ in range(count)] or [self._make_value()],
            "fence": None if fence is None else own + (fence == "higher"),
            "after": None if after is None else self._last.get(name, 0),
        }

    def _plan_seize(self, name: str) -> dict[str, Any]:
        return {"fence": self._fences.get(name, 0)}

    async def _call_add(self, name: str, ttl: float) -> None:
        await self._backend.add("index", [name], ttl=ttl)

    async def _call_remove(self, name: str) -> int:
        return await self._backend.remove("index", [name])

    async def _call_members(self, name: str) -> list[str]:
        return await self._backend.members("index")

    def _remember(self, do: str, name: str, arguments: dict[str, Any], result: Any) -> None:
        if do == "put" and isinstance(result, int):
            self._versions.setdefault(name, []).append(result)
        elif do == "get" and result is not None:
            self._versions.setdefault(name, []).append(result.version)
        elif do == "append" and isinstance(result, int):
            self._last[name] = result
            if arguments["fence"] is not None:
                self._fences[name] = arguments["fence"]
        elif do == "read" and result is not None:
            self._last[name], self._fences[name] = result.last, result.fence
        elif do == "seize" and result:
            self._fences[name] = arguments["fence"] + 1


async def judge(first: Backend, second: Backend, clock: Any, rounds: Any) -> None:
    """Let two workers act round by round; fail if no order explains what they saw."""
    workers = [SimulatedWorker("x", first, clock), SimulatedWorker("y", second, clock)]
    states = {State()}
    for own, others, seconds in rounds:
        events = await asyncio.gather(workers[0].act(own), workers[1].act(others))
        states = explain(states, *events)
        assert states, f"no order explains {events}"
        if isinstance(clock, Clock):
            clock.now += seconds


def check_memory(rounds: Any) -> None:
    clock = Clock()
    backend = MemoryBackend(clock=clock)
    asyncio.run(judge(backend, backend, clock, rounds))


@given(ROUNDS)
@settings(max_examples=300)
def test_some_order_explains_all_that_two_workers_see_of_memory(rounds: Any) -> None:
    check_memory(rounds)


@pytest.mark.thorough
@given(ROUNDS)
@settings(max_examples=10_000)
def test_some_order_explains_ten_thousand_histories_of_memory(rounds: Any) -> None:
    check_memory(rounds)


def test_some_order_explains_all_that_two_workers_see_of_sqlite(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("model") / "store.db"

    @given(ROUNDS)
    @settings(max_examples=40)
    def check(rounds: Any) -> None:
        asyncio.run(check_sqlite(file, rounds))

    check()


async def check_sqlite(file: Path, rounds: Any) -> None:
    namespace = uuid4().hex
    first, second = (SqliteBackend(file, namespace=namespace) for _ in range(2))
    async with asyncio.timeout(LONG):
        await first.open()
        await second.open()
        try:
            # Nothing expires here, so that the model needs no clock.
            await judge(first, second, lambda: 0.0, rounds)
        finally:
            await first.close()
            await second.close()


def event(do: str, result: Any, **arguments: Any) -> Event:
    return Event(do, "a", arguments, result, 0.0)


def added(result: int, item: bytes) -> Event:
    return event("append", result, items=[item], ttl=5.0, fence=0)


@cases(
    ("own", "others"),
    [
        ([added(1, b"x")], [added(1, b"y")]),
        ([added(2, b"x"), added(1, b"y")], []),
        ([event("seize", True, fence=0)], []),
        ([added(1, b"x"), event("seize", True, fence=0)], [event("seize", True, fence=0)]),
        ([event("put", 1, value=b"x", ttl=5.0, expect=0)], [event("put", 1, value=b"y", ttl=5.0)]),
        ([event("put", 1, value=b"x", ttl=5.0), event("get", None)], []),
        ([added(1, b"x"), event("read", None, after=0, limit=1)], []),
    ],
    ids=["number twice", "backwards", "no log", "seized twice", "same version", "lost", "no page"],
)
def test_the_model_refuses_a_wrong_history(own: list[Event], others: list[Event]) -> None:
    assert explain({State()}, own, others) == set()


def test_the_model_accepts_a_history_in_any_order_that_explains_it() -> None:
    own = [added(2, b"x"), event("seize", False, fence=0)]
    others = [added(1, b"y"), event("seize", True, fence=0)]
    assert len(explain({State()}, own, others)) == 1
