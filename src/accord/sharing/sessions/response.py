"""The response to one POST of a session that several workers serve."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.http.server.session import PostResponse
from accord.http.server.stream import Stream
from accord.principal import Principal
from accord.protocol.exchange import Exchange

if TYPE_CHECKING:
    from accord.sharing.sessions.session import SharedSession

CALL_FORMAT: Final = 1


class StreamCall(msgspec.Struct, frozen=True, kw_only=True):
    """What another worker needs to end the requests of a stream, or to go on with them.

    Attributes:
        needs: the lowest format that a worker must know for that.
        token: the value of the session header.
        ids: those of the requests that the stream answers.
        frames: the requests, where they may be served again; else empty.
        principal: the caller, as far as handlers may ask for it.
        fence: that of the log.
    """

    needs: int = CALL_FORMAT
    token: bytes
    ids: list[int | str]
    frames: list[bytes] = []
    principal: Principal | None = None
    fence: int = 1


class SharedResponse(PostResponse):
    """The response to one POST of a shared session.

    Attributes:
        fence: that of the log of its stream.
        last: how many entries the log has already.
        answered: a request whose answer is there, but has to wait.
        batch_ids: those of all requests of a batch, whose answers leave together.
    """

    answered: Exchange | None = None
    batch_ids: tuple[int | str, ...] = ()
    owner: "SharedSession"
    fence = 1
    last = 0

    @property
    def requests(self) -> list[Exchange]:
        """The requests of the POST whose answers clients do not have."""
        waiting = self.owner.session.client.open.values()
        found = [each for each in waiting if each.origin is self]
        return found if self.answered is None else [*found, self.answered]

    def skips(self, data: bytes) -> bool:
        """Whether a message must not be sent."""
        return False

    def open_stream(self) -> Stream:
        if self.stream is None:
            self.stream = self.owner.open_logged(self)
            if self.is_primed and self.owner.is_kept:
                self.stream.prime()
            self._wake()
        return self.stream


def stream_recovery_record(sid: str, label: str) -> str:
    """Return the name of a stream among what its worker has to end."""
    return f"stream/{sid}/{label}"
