"""JSON-RPC 2.0 as MCP uses it: the frame, its kinds, request ids, standard error codes.

A frame keeps its body raw; what the body means is decided later, once, when its type is known.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from accord.errors import RemoteProtocolError
from accord.types._base import RequestId

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Kind: TypeAlias = Literal["request", "notification", "result", "fault"]
REQUEST: Final = "request"
NOTIFICATION: Final = "notification"
RESULT: Final = "result"
FAULT: Final = "fault"

VERSION_2_0: Final = "jsonrpc.message.version-2-0"
"""The requirement on all messages, broken where no other is."""

# Integers beyond 64 bits are legal JSON, but no peer of ours could echo them reliably.
ID_RANGE: Final = range(-(2**63), 2**63)
_Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=ID_RANGE[0], le=ID_RANGE[-1])]


class ErrorBody(msgspec.Struct, gc=False, omit_defaults=True):
    """The error of a response. `data` is absent, not null, unless it was given."""

    code: int
    message: str
    data: Any = UNSET


class Frame(msgspec.Struct, gc=False):
    """One JSON-RPC message with its body still raw.

    `id` is UNSET where the message has none, and None where it is null: only an error that answers
    an unreadable message may have that.
    """

    jsonrpc: Literal["2.0"]
    id: _Integer | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET

    @property
    def kind(self) -> Kind:
        """Which of the four kinds of message this is."""
        if self.method is not UNSET:
            return NOTIFICATION if self.id is UNSET else REQUEST
        return RESULT if self.error is UNSET else FAULT

    @property
    def body(self) -> Raw | None:
        """The raw params or result, where there is one."""
        if self.params is not UNSET:
            return self.params
        return None if self.result is UNSET else self.result


class MalformedMessage(RemoteProtocolError):
    """Bytes that are not a message, with the code to answer and the requirement that was broken.

    `id` is the one to answer, None where it cannot be read. `kind` is what it was meant to be, None
    where that does not show.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        requirement: str = VERSION_2_0,
        id: RequestId | None = None,
        kind: Kind | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.requirement = requirement
        self.id = id
        self.kind = kind


class BeyondLimits(MalformedMessage):
    """A message of the peer that is beyond one of our `Limits`.

    Attributes:
        excess: what it does, after "the message" or "the answer".
        setting: the member of `Limits`.
    """

    def __init__(
        self,
        excess: str,
        setting: str,
        *,
        what: str = "message",
        id: RequestId | None = None,
        kind: Kind | None = None,
    ) -> None:
        self.excess = excess
        self.setting = setting
        super().__init__(f"{what} {self.excess}", id=id, kind=kind)


@final
class Batch(msgspec.Struct):
    """A JSON array of messages with their bytes; one that is malformed spoils no other."""

    parts: list[tuple[Frame | MalformedMessage, Raw]]


def id_to_answer(part: Frame | MalformedMessage) -> RequestId | None:
    """Return the id under which a part of a batch expects an answer; None where it expects none."""
    if isinstance(part, MalformedMessage):
        return None if part.kind in (RESULT, FAULT) else part.id
    return None if part.method is UNSET or part.id is UNSET else part.id
