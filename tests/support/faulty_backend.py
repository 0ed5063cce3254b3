"""A backend of one worker whose connection to the store can be cut, stand still or lose answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accord.errors import StoreUnavailable
from accord.sharing import MemoryBackend

OPERATIONS = frozenset(
    [
        "now",
        "get",
        "put",
        "delete",
        "touch",
        "add",
        "remove",
        "members",
        "count",
        "append",
        "read",
        "seize",
        "extend",
        "drop",
        "notify",
        "follow",
        "unfollow",
        "take",
        "describe",
    ]
)


class SharedStore:
    """What all workers of a test reach: a store in memory that can lose its data.

    Args:
        clock: returns the seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.backend = MemoryBackend(clock=clock)

    def lose_data(self) -> None:
        """Forget everything that is kept; notifications go on."""
        fresh = MemoryBackend(clock=self._clock)
        fresh._followers = self.backend._followers
        self.backend = fresh


@dataclass
class Fault:
    """What happens to operations of one kind.

    Attributes:
        operation: the operation.
        part: a part of the name that it is about.
        times: how often it happens yet.
        is_carried_out: whether the operation takes effect before it fails.
        seconds: how long it takes, in place of a failure.
        error: raised in place of StoreUnavailable.
    """

    operation: str
    part: str = ""
    times: int = 1
    is_carried_out: bool = False
    seconds: float | None = None
    error: Exception | None = None


class FaultyBackend:
    """The connection of one worker to the store.

    Attributes:
        is_cut: whether every operation fails.
        calls: the operations so far, and what they were about.
        faults: what goes wrong with the next operations.
    """

    url = "memory:"
    is_shared = False
    is_remote = False

    def __init__(self, store: SharedStore) -> None:
        self.store = store
        self.is_cut = False
        self.calls: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.followed: list[tuple[str, Any]] = []
        self._is_moving = asyncio.Event()
        self._is_moving.set()

    async def open(self) -> None:
        if self.is_cut:
            raise StoreUnavailable("the connection is cut")

    async def close(self) -> None:
        """End nothing: other workers use the store, too."""

    def stall(self) -> None:
        """Let every operation wait until `move_on`."""
        self._is_moving.clear()

    def move_on(self) -> None:
        self._is_moving.set()

    def cut(self) -> None:
        self.is_cut = True

    def mend(self) -> None:
        self.is_cut = False

    def fail(self, operation: str, part: str = "", **details: Any) -> Fault:
        """Let the next operation of a kind fail, or take its time."""
        fault = Fault(operation, part, **details)
        self.faults.append(fault)
        return fault

    def times(self, operation: str, part: str = "") -> int:
        """Return how often something was done so far."""
        return sum(name == operation and part in about for name, about in self.calls)

    def _find_fault(self, operation: str, about: str) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.operation == operation and fault.part in about:
                fault.times -= 1
                return fault
        return None

    async def _run(self, operation: str, *args: Any, **keywords: Any) -> Any:
        # An engine takes its time, in which other tasks run.
        await asyncio.sleep(0)
        await self._is_moving.wait()
        about = " ".join(str(each) for each in args if isinstance(each, str))
        self.calls.append((operation, about))
        if self.is_cut:
            raise StoreUnavailable("the connection is cut")
        fault = self._find_fault(operation, about)
        if fault is not None and fault.seconds is not None:
            await asyncio.sleep(fault.seconds)
        elif fault is not None and not fault.is_carried_out:
            raise fault.error or StoreUnavailable("the operation is lost")
        found = await getattr(self.store.backend, operation)(*args, **keywords)
        await asyncio.sleep(0)
        if fault is not None and fault.is_carried_out:
            raise fault.error or StoreUnavailable("the answer is lost")
        return found

    async def follow(self, topic: str, on_notify: Any) -> None:
        self.followed.append((topic, on_notify))
        await self._run("follow", topic, on_notify)

    async def unfollow(self, topic: str, on_notify: Any) -> None:
        if (topic, on_notify) in self.followed:
            self.followed.remove((topic, on_notify))
        await self._run("unfollow", topic, on_notify)

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(name)

        async def call(*args: Any, **keywords: Any) -> Any:
            return await self._run(name, *args, **keywords)

        return call
