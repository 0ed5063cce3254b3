"""The protocol without I/O: bytes in, events out; intentions in, bytes out.

`Endpoint` plays one party, `Monitor` watches both, and `Conversation` is the state that either of
them drives. Nothing here reads, writes, waits or looks at a clock; docs/sans-io.md shows how to use
it. Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.protocol.catalogue import RULE_SET
    from accord.protocol.codec import Codec, Limits, decode, encode
    from accord.protocol.conversation import Conversation
    from accord.protocol.endpoint import Endpoint
    from accord.protocol.exchange import (
        Event,
        Exchange,
        FaultReceived,
        NotificationReceived,
        Refused,
        RequestReceived,
        ResultReceived,
        Step,
    )
    from accord.protocol.jsonrpc import Batch, ErrorBody, Frame, MalformedMessage
    from accord.protocol.monitor import Monitor
    from accord.protocol.party import Peer
    from accord.protocol.revisions import HANDSHAKE, REVISIONS, Method, Phase, Revision
    from accord.protocol.verdict import Verdict
    from accord.protocol.violation import Violation

__all__ = [
    "HANDSHAKE",
    "REVISIONS",
    "RULE_SET",
    "Batch",
    "Codec",
    "Conversation",
    "Endpoint",
    "ErrorBody",
    "Event",
    "Exchange",
    "FaultReceived",
    "Frame",
    "Limits",
    "MalformedMessage",
    "Method",
    "Monitor",
    "NotificationReceived",
    "Peer",
    "Phase",
    "Refused",
    "RequestReceived",
    "ResultReceived",
    "Revision",
    "Step",
    "Verdict",
    "Violation",
    "decode",
    "encode",
]

_HOMES = {
    "catalogue": ("RULE_SET",),
    "codec": ("Codec", "Limits", "decode", "encode"),
    "conversation": ("Conversation",),
    "endpoint": ("Endpoint",),
    "exchange": (
        "Event",
        "Exchange",
        "FaultReceived",
        "NotificationReceived",
        "Refused",
        "RequestReceived",
        "ResultReceived",
        "Step",
    ),
    "jsonrpc": ("Batch", "ErrorBody", "Frame", "MalformedMessage"),
    "monitor": ("Monitor",),
    "party": ("Peer",),
    "revisions": ("HANDSHAKE", "REVISIONS", "Method", "Phase", "Revision"),
    "verdict": ("Verdict",),
    "violation": ("Violation",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
