"""Pure decisions about requests over HTTP that stand on their own, without a session.

Revisions without a handshake have no sessions: each request names its revision in its `_meta`, and
headers repeat what gateways need. One endpoint may serve such requests beside sessions, so the body
of each POST decides which it is, and its headers are compared with the body.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from accord.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    RequestError,
    UnsupportedRevision,
)
from accord.http.rules import headers as names
from accord.http.rules.headers import decode_headers
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.jsonrpc import Batch, Frame, MalformedMessage
from accord.protocol.mirroring import (
    METHOD_HEADER,
    NAME_HEADER,
    MirroredArgument,
    decode_header,
    find_mismatch,
    name_to_mirror,
)
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord.types._base import JsonObject, RequestId

Era: TypeAlias = Literal["session", "stateless"]
"""Whether a POST belongs to a session, or to a request that stands on its own."""

RawHeaders: TypeAlias = Mapping[bytes, bytes]

VERSION_KEY: Final = META_VERSION.encode()
"""What the body of every request contains that stands on its own."""

# Headers by which gateways route; a second value would let them see another request than we do.
_VERSION: Final = names.VERSION.encode()
_METHOD: Final = METHOD_HEADER.lower().encode()
_NAME: Final = NAME_HEADER.lower().encode()
_ROUTING: Final = (_VERSION, _METHOD, _NAME)

_STATUSES: Final = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}
_ENCODED: Final = b"=?"


class _Envelope(msgspec.Struct):
    meta: Any = msgspec.field(name="_meta", default=None)


_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode


def meta_in(frame: Frame) -> JsonObject:
    """Return the `_meta` of a message whose body is still raw; empty without one."""
    if frame.params is UNSET:
        return {}
    try:
        meta = _decode_envelope(frame.params).meta
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def names_own_revision(message: Frame | MalformedMessage) -> bool:
    """Whether a message names the revision that it belongs to."""
    return isinstance(message, Frame) and META_VERSION in meta_in(message)


def has_stateless(revisions: Collection[str]) -> bool:
    """Whether one of these revisions has requests that stand on their own."""
    return any(id not in HANDSHAKE for id in revisions)


def classify(
    message: Frame | Batch | MalformedMessage, version: str | None, supported: Sequence[str]
) -> Era:
    """Tell which era a POST belongs to: its body decides, the version header helps.

    Args:
        message: the body.
        version: the header `MCP-Protocol-Version`.
        supported: the revisions of the server.

    Raises:
        RequestError: it belongs to neither; the error is the answer.
    """
    if not has_stateless(supported):
        return "session"
    is_only = all(id not in HANDSHAKE for id in supported)
    is_new = version is not None and version not in HANDSHAKE
    if isinstance(message, Batch):
        if any(names_own_revision(part) for part, _ in message.parts):
            raise InvalidRequest("a request that names its revision may not be part of a batch")
        if is_only:
            raise InvalidRequest("this server takes one message in each POST")
        return "session"
    if names_own_revision(message):
        return "stateless"
    if isinstance(message, MalformedMessage):
        return "stateless" if is_only or (is_new and version in REVISIONS) else "session"
    if message.method == "initialize":
        return _classify_initialize(message, version, supported)
    if message.method is UNSET:
        if is_only:
            raise InvalidRequest("this server sends no requests, so it takes no responses")
        return "session"
    if is_only or (is_new and (message.id is not UNSET or version in REVISIONS)):
        return "stateless"
    return "session"


def _classify_initialize(message: Frame, version: str | None, supported: Sequence[str]) -> Era:
    if all(id not in HANDSHAKE for id in supported):
        raise refuse_revision(_requested_revision(message) or version, supported)
    if version in REVISIONS and version not in HANDSHAKE:
        raise HeaderMismatch(
            f"MCP-Protocol-Version is {version}, which has no initialize: name the revision in "
            "the _meta of each request"
        )
    return "session"


class _Requested(msgspec.Struct, rename="camel"):
    protocol_version: str | None = None


def _requested_revision(message: Frame) -> str | None:
    """Return the revision that `initialize` asks for."""
    if message.params is UNSET:
        return None
    try:
        return msgspec.json.decode(message.params, type=_Requested).protocol_version
    except (ValueError, RecursionError):
        return None


def refuse_revision(named: object, supported: Sequence[str]) -> UnsupportedRevision:
    """Return the error for a revision that the server does not speak."""
    return UnsupportedRevision(
        f"revision {named!r:.100} is not supported; this server speaks {', '.join(supported)}",
        data={"supported": list(supported), "requested": named},
    )


def find_fault(
    frame: Frame,
    headers: RawHeaders,
    supported: Sequence[str],
    repeated: Collection[bytes] = (),
) -> RequestError | None:
    """Return why a message that stands on its own is refused, as far as every message goes.

    Whether its method exists and whether its params fit is left to others, and comes after this.

    Args:
        frame: the message.
        headers: by lower-case name.
        supported: the revisions of the server.
        repeated: the names of headers that occur more than once.
    """
    meta = meta_in(frame)
    named = meta.get(META_VERSION)
    if frame.id is not UNSET:
        if META_VERSION not in meta:
            header = headers.get(_VERSION)
            version = None if header is None else header.decode("latin-1")
            if version is not None and version not in supported:
                return refuse_revision(version, supported)
            return InvalidParams(f"{frame.method}: _meta has no {META_VERSION}")
        if not isinstance(named, str):
            return InvalidParams(f"{frame.method}: {META_VERSION} is not a string")
        if not isinstance(meta.get(META_CAPABILITIES), dict):
            return InvalidParams(f"{frame.method}: _meta has no object {META_CAPABILITIES}")
    why = _find_mismatch(frame, named, headers, repeated)
    if why is not None:
        return HeaderMismatch(why)
    if named is not None and (named in HANDSHAKE or named not in supported):
        return refuse_revision(named, supported)
    return None


def _find_mismatch(
    frame: Frame, named: object, headers: RawHeaders, repeated: Collection[bytes]
) -> str | None:
    version = None if named is None else str(named)
    assert frame.method is not UNSET
    if frame.id is UNSET and _METHOD not in headers:
        # A notification may come without the headers that repeat the method and the name.
        return None if version is None else _compare(_VERSION, headers, version, is_plain=True)
    params = None if frame.params is UNSET else msgspec.json.decode(frame.params)
    name = name_to_mirror(frame.method, params)
    return find_header_mismatch(headers, version, frame.method, name, repeated)


def find_header_mismatch(
    headers: RawHeaders,
    version: str | None,
    method: str,
    name: str | None,
    repeated: Collection[bytes] = (),
) -> str | None:
    """Return how headers differ from the request that they repeat; None if they agree.

    Args:
        headers: by lower-case name.
        version: the revision in the `_meta` of the request, if it names one.
        method: its method.
        name: what it names, if it names something.
        repeated: the names of headers that occur more than once.
    """
    for header in _ROUTING:
        if header in repeated:
            return f"{header.decode()} occurs twice"
    why = None if version is None else _compare(_VERSION, headers, version, is_plain=True)
    why = why or _compare(_METHOD, headers, method, is_plain=True)
    if why is not None or name is None:
        return why
    # Some clients leave it out where the name is that of a task, and mean nothing by it.
    is_optional = method.startswith("tasks/") and _NAME not in headers
    return None if is_optional else _compare(_NAME, headers, name)


def _compare(
    header: bytes, headers: RawHeaders, expected: str, *, is_plain: bool = False
) -> str | None:
    given = headers.get(header)
    if given is None:
        return f"{header.decode()} is missing"
    text = given.decode("latin-1")
    value = text.strip(" \t") if is_plain else decode_header(text)
    if value is None:
        return f"{header.decode()} is malformed"
    if value != expected:
        return f"{header.decode()} is {value!r:.100}, but the body has {expected!r:.100}"
    return None


def repeats(headers: RawHeaders, method: str, name: str | None) -> bool:
    """Whether headers plainly repeat the method and the name of a request.

    If not, `find_header_mismatch` tells whether they differ, or are written in another way.
    """
    if headers.get(_METHOD) != method.encode():
        return False
    if name is None:
        return True
    given = headers.get(_NAME)
    return given == name.encode() and given.isascii() and given[:2] != _ENCODED


def find_argument_mismatch(
    mirrored: tuple[MirroredArgument, ...],
    arguments: object,
    headers: RawHeaders,
    repeated: Collection[bytes] = (),
) -> str | None:
    """Return how the `Mcp-Param` headers of a call differ from its arguments, decoded."""
    for each in mirrored:
        if repeated and each.header.lower().encode() in repeated:
            # A gateway that reads only one of them decides about another call.
            return f"{each.header} occurs twice"
    return find_mismatch(mirrored, arguments, decode_headers(headers.items(), with_secrets=True))


def status_of(code: int | None) -> int:
    """Return the status of an answer with an error of this code; None is for a result."""
    return 200 if code is None else _STATUSES.get(code, 200)


def status_of_refusal(code: int) -> int:
    """Return the status of an error for a message that was not served at all."""
    return _STATUSES.get(code, 400)


class _Fault(msgspec.Struct):
    code: int


class _ErrorReply(msgspec.Struct):
    error: _Fault


_decode_error: Final = msgspec.json.Decoder(_ErrorReply).decode


def code_in(reply: bytes) -> int:
    """Return the code of an error, as it is sent."""
    return _decode_error(reply).error.code


def id_of(message: Frame | Batch | MalformedMessage) -> RequestId | None:
    """Return the id under which a refused message is answered."""
    if isinstance(message, Batch) or (isinstance(message, Frame) and message.method is UNSET):
        return None
    return None if message.id is UNSET else message.id
