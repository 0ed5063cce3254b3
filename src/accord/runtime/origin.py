"""Where a request was received, on transports that answer each on its own stream."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, UnsetType

from accord.protocol.exchange import Exchange

if TYPE_CHECKING:
    from accord.protocol.mirroring import MirroredArgument


class ClientFlow(Protocol):
    """How fast a client reads; of transports that can measure it."""

    @property
    def backlog(self) -> int:
        """How many bytes the client has yet to read."""

    @property
    def is_congested(self) -> bool:
        """Whether the backlog is above the high-water mark."""

    async def writable(self) -> None:
        """Wait until the client has caught up or disconnected."""


class Origin(ClientFlow, Protocol):
    """Where a request was received, on transports that answer each on its own stream."""

    @property
    def can_ask(self) -> bool:
        """Whether its stream can carry questions before the answer."""

    def reject(self, reply: bytes) -> None:
        """Take the answer to a message that could not be served."""

    def check(self, exchange: Exchange, params: Any) -> None:
        """Compare a request that stands on its own with what the transport says of it.

        Raises:
            HeaderMismatch: they differ.
        """

    def check_arguments(
        self, mirrored: "tuple[MirroredArgument, ...]", arguments: Raw | UnsetType
    ) -> None:
        """Compare the arguments of a call with the headers that repeat them; raises as `check`."""

    def listen(self, end: Callable[[], None]) -> None:
        """Keep the response open for a request that only listens: messages leave at once.

        Args:
            end: called once when the request should be answered: its token is no longer valid, or
                the server stops.

        Raises:
            RequestError: it cannot be kept open, or the caller has too many of them.
        """

    @property
    def can_hang_up(self) -> bool:
        """Whether the client will come back for the answer if the response ends without it."""

    def hang_up(self, retry: int | None) -> None:
        """End the response before the answer, if the client will come back for that."""

    def finish(self) -> None:
        """Note that the work for a request has ended, with or without an answer."""
