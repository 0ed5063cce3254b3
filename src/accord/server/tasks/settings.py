"""What a server allows its tasks."""

import msgspec

from accord.errors import RegistrationError
from accord.server.tasks.task_store import TaskStore


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the tasks of a server. Times are seconds.

    Attributes:
        store: keeps them; by default memory, or the store of the workers that serve together.
            `SqliteTaskStore` keeps them in a file.
        ttl: for how long after its creation a task is kept, where the client does not say. A task
            that still runs then is stopped.
        longest_ttl: the most that a client may ask for; None for no limit.
        poll_interval: how long clients should wait between two questions about a task, at most;
            about a young task of the extension they may ask sooner.
        grace: how long a call that may become a task (`task="optional"`) is waited for where the
            server decides: a result within that time is the answer, later it is a task.
        unfinished: how many unfinished tasks a principal may have. Callers without authorization
            share one number.
        kept: how many tasks of a principal are kept; beyond it, the oldest finished are dropped.
    """

    store: TaskStore | None = None
    ttl: float = 3600.0
    longest_ttl: float | None = 86_400.0
    poll_interval: float = 1.0
    grace: float = 1.0
    unfinished: int = 100
    kept: int = 1_000

    def __post_init__(self) -> None:
        for name in ("ttl", "poll_interval", "unfinished", "kept"):
            if not getattr(self, name) > 0:
                raise RegistrationError(f"tasks: {name} is {getattr(self, name)!r}, expected > 0")
        if not self.grace >= 0:
            raise RegistrationError(f"tasks: grace is {self.grace!r}, expected 0 or more")
        if self.longest_ttl is not None and self.longest_ttl < self.ttl:
            raise RegistrationError(
                f"tasks: longest_ttl is {self.longest_ttl:g}, less than ttl ({self.ttl:g})"
            )

    def clamp(self, asked: int | None) -> int:
        """Return the milliseconds for which a task is kept, by those that a client asked for."""
        wanted = round(self.ttl * 1000) if asked is None else max(1, asked)
        return wanted if self.longest_ttl is None else min(wanted, round(self.longest_ttl * 1000))
