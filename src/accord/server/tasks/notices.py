"""Progress and log messages of a task whose request is answered.

The extension has no notifications for either. What is new stands in the task, numbered, for the
client that asks about it; what a person should read is its status message as well.
"""

from collections import deque
from typing import Any, Final

import msgspec

from accord.types import ProgressParams

# What is kept for a client that asks now and then; beyond it, the oldest are dropped.
_COUNT_MOST: Final = 100
_BYTES_MOST: Final = 64 * 1024
_encode: Final = msgspec.json.Encoder().encode


class TaskNotices:
    """The latest progress and log messages of one task."""

    def __init__(self) -> None:
        self._latest: deque[bytes] = deque()
        self._size = 0
        self._count = 0

    def add(self, name: str, params: Any) -> None:
        """Keep one more."""
        self._count += 1
        if isinstance(params, ProgressParams):
            # Without the token: that of a request that is answered.
            names = ("progress", "total", "message")
            members = {each: getattr(params, each) for each in names}
            said: Any = {name: value for name, value in members.items() if value is not None}
        else:
            said = params
        notice = _encode({"number": self._count, "method": name, "params": said})
        self._latest.append(notice)
        self._size += len(notice)
        while len(self._latest) > _COUNT_MOST or self._size > _BYTES_MOST:
            self._size -= len(self._latest.popleft())

    def encode(self) -> bytes | None:
        """Return them as JSON; None before the first."""
        return b"[%b]" % b",".join(self._latest) if self._latest else None


def describe_progress(params: ProgressParams) -> str:
    """Return progress in words, for clients that show the status message alone."""
    if params.message is not None:
        return params.message
    return f"{params.progress:g}" + ("" if params.total is None else f" of {params.total:g}")
