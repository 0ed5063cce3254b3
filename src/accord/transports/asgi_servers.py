"""What ASGI does not tell an app, but the server that runs it knows. Nothing depends on it.

Servers tell apps that they stop only after all responses have ended, and event streams do not end
by themselves. So the signal that stops a server is noticed here as well.
"""

import signal
from contextlib import suppress
from types import FrameType
from typing import Any, Final

__all__ = ["is_stopping"]

# Where event loops keep what they put in place of a signal's handler: they learn of it otherwise.
_LOOPS: Final = ("asyncio.unix_events", "uvloop.loop")


class _Notice:
    """Takes note of a signal, and passes it on."""

    should_exit = False

    def __init__(self, before: Any) -> None:
        self._before = before

    def take(self, number: int, frame: FrameType | None) -> None:
        self.should_exit = True
        self._before(number, frame)


def is_stopping() -> bool:
    """Whether the server is waiting for responses to end; false where that cannot be known.

    uvicorn listens to signals with a method that leads to what it knows. Others, such as granian
    and hypercorn, have their loop listen, and a notice is put there.
    """
    listens = signal.getsignal(signal.SIGTERM)
    if getattr(listens, "__module__", "") in _LOOPS:
        with suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGTERM, _Notice(listens).take)
            signal.siginterrupt(signal.SIGTERM, False)
        return False
    server = getattr(listens, "__self__", None)
    return getattr(server, "should_exit", False) is True
