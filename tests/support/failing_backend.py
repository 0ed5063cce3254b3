"""A backend that stops to answer when a test wants it to, or is used by others in between."""

from collections.abc import Awaitable, Callable
from typing import Any

from accord.errors import StoreUnavailable
from accord.sharing.backends.backend import Backend

RECORDS = ("now", "get", "put", "delete", "touch")
INDEXES = ("add", "remove", "members", "count")
OPERATIONS = frozenset(RECORDS + INDEXES)


class FailingBackend:
    """Passes operations on to another backend, until a test lets it fail.

    Attributes:
        left: how many more operations are carried out; None for all.
        counts: how many of each operation were asked for.
        failures: how many operations have failed.
        meanwhile: done once before the next operation that changes a record: another process is
            faster.
        at: what the name of that record begins with.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.left: int | None = None
        self.counts: dict[str, int] = {}
        self.failures = 0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.at = ""
        self.is_remote = backend.is_remote
        self.is_shared = backend.is_shared
        self.url = backend.url

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        return self._count(name, found) if name in OPERATIONS else found

    def _count(self, name: str, carry_out: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*args: Any, **options: Any) -> Any:
            self.counts[name] = self.counts.get(name, 0) + 1
            if self.left is not None:
                if self.left <= 0:
                    self.failures += 1
                    raise StoreUnavailable("the store does not answer")
                self.left -= 1
            is_change = name in ("put", "delete") and args[0].startswith(self.at)
            if self.meanwhile is not None and is_change:
                act, self.meanwhile = self.meanwhile, None
                await act()
            return await carry_out(*args, **options)

        return run
