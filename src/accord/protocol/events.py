"""The events that an endpoint returns for the messages it receives."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from accord.errors import RemoteProtocolError, RequestError
from accord.protocol.exchange import Exchange
from accord.protocol.violation import Violation


class RequestReceived(msgspec.Struct):
    """The peer sends a request; the answer goes to `respond` or `fail`."""

    exchange: Exchange
    params: Any
    violations: Sequence[Violation] = ()


class NotificationReceived(msgspec.Struct):
    """The peer reports something; `exchange` is the request it is about, if it is about one.

    `reply` is what to send now: the answers to a batch that waited for nothing but the request that
    is cancelled here.
    """

    name: str
    params: Any
    exchange: Exchange | None = None
    violations: Sequence[Violation] = ()
    reply: bytes | None = None


class ResultReceived(msgspec.Struct):
    """The peer has answered our request."""

    exchange: Exchange
    result: Any
    violations: Sequence[Violation] = ()


class FaultReceived(msgspec.Struct):
    """Our request failed: by an error of the peer, or by a reply that breaks the protocol.

    Without an `exchange`, the peer could not read what we sent.
    """

    exchange: Exchange | None
    error: RequestError | RemoteProtocolError


class Refused(msgspec.Struct):
    """A message that has no effect; `reply` is what to send back, None where nothing is.

    `is_ignored` says that it is not wrong to send it: it is late, or means nothing to us.
    """

    why: str
    reply: bytes | None = None
    violations: Sequence[Violation] = ()
    is_ignored: bool = False


Event: TypeAlias = RequestReceived | NotificationReceived | ResultReceived | FaultReceived | Refused


class BatchReply(msgspec.Struct):
    """The answers to one batch, which leave together when nothing is waited for any more.

    Waited for are the open requests, and the end of the batch itself.
    """

    waiting: int = 1
    parts: list[bytes] = []
    size: int = 0

    def add(self, reply: bytes) -> bytes | None:
        """Take an answer; returns the whole array with the last one."""
        self.parts.append(reply)
        self.size += len(reply) + 1
        return self.release()

    def release(self) -> bytes | None:
        """Wait for one thing less; returns the whole array after the last."""
        self.waiting -= 1
        if self.waiting or not self.parts:
            return None
        return b"[%b]" % b",".join(self.parts)
