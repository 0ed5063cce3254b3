"""What workers send each other: to the inbox of one, or to all of them.

A message is MessagePack: its format, its kind, its body and the worker that sent it. A worker of a
later version may send kinds that this one does not know; those are left out.
"""

from typing import Final

import msgspec

__all__ = ["WorkerMessage", "decode_message", "encode_message"]

FORMAT: Final = 1


class WorkerMessage(msgspec.Struct, frozen=True, array_like=True):
    """One message between workers.

    Attributes:
        format: that of the message.
        kind: says how to read the body.
        body: what it says.
        sender: the id of the worker that sent it; empty for a command of an operator.
    """

    format: int
    kind: str
    body: bytes
    sender: str = ""


_decode: Final = msgspec.msgpack.Decoder(WorkerMessage).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_message(kind: str, body: bytes, sender: str = "") -> bytes:
    """Return a message as bytes."""
    return _encode(WorkerMessage(FORMAT, kind, body, sender))


def decode_message(data: bytes) -> WorkerMessage | None:
    """Return a message; None if it cannot be read here."""
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        return None
