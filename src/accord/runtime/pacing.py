"""What a handler may await after it has sent something: a turn of the loop, or a slow client."""

from collections.abc import Callable, Coroutine, Generator
from typing import Final


class Done:
    """The outcome of something that has already happened: may be awaited, need not be."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class Delayed(Done):
    """The same for a client that reads slowly: to await it is to wait until it has caught up."""

    __slots__ = ("_writable",)

    def __init__(self, writable: Callable[[], Coroutine[object, None, None]]) -> None:
        self._writable = writable

    def __await__(self) -> Generator[None, None, None]:
        return self._writable().__await__()


class Turn(Done):
    """The same for a handler that has sent a lot: to await it is to let others run."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


DONE: Final = Done()
TURN: Final = Turn()
