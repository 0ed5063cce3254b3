"""Headers of the protocol: their names, the values they may have, and the facts of a request."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from accord.protocol.syntax import is_http_token

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"
ACCEPT_BOTH: Final = "application/json, text/event-stream"

# Set by the transport itself; a caller's value would break the connection, not change it.
_RESERVED: Final = frozenset(
    {SESSION, VERSION, LAST_EVENT, "accept", "content-type", "content-length", "transfer-encoding"}
)
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# Credentials, which a handler could pass on by mistake.
_SECRET: Final = frozenset({b"authorization", b"proxy-authorization"})


def check_headers(headers: Mapping[Any, Any]) -> None:
    """Make sure that headers can be sent beside those of the protocol.

    Raises:
        ValueError: a name or a value is malformed, or the transport sets the header itself.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not is_http_token(name):
            raise ValueError(f"{name!r:.100} is not a valid header name")
        if not isinstance(value, str) or any(
            char == "\x7f" or (char < " " and char != "\t") for char in value
        ):
            # Not shown: values are often secret.
            raise ValueError(f"the value of header {name} is not text on one line")
        if name.lower() in _RESERVED:
            raise ValueError(f"header {name} is set by the transport")


def is_session_id(text: str) -> bool:
    """Return whether a session id holds only visible ASCII."""  # session.id.visible-ascii
    return bool(text) and all("\x21" <= char <= "\x7e" for char in text)


def accepts(accept: str | None, content_type: str) -> bool:
    """Return whether an Accept header admits a type; without the header everything is welcome."""
    if accept is None or not accept.strip():
        return True
    kind = content_type.partition("/")[0]
    ranks = {content_type: 3, f"{kind}/*": 2, "*/*": 1}
    best, welcome = 0, False
    for part in accept.split(","):
        name, _, parameters = part.partition(";")
        rank = ranks.get(name.strip().lower(), 0)
        if rank > best:  # the most specific range decides
            best, welcome = rank, not _is_refused(parameters)
    return welcome


def _is_refused(parameters: str) -> bool:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            return value.strip().rstrip("0") in ("", "0.", ".")
    return False


def media_type(content_type: str | None) -> str:
    """Return the type alone, without parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


def charset(content_type: str | None) -> str | None:
    """Return the charset that a Content-Type header names, in lower case; None without one."""
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return None


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a request beside its message; over stdio and in memory that is nothing.

    Attributes:
        headers: with lower-case names.
        peer: address and port of the other end of the connection; behind a proxy that is trusted
            (FORWARDED_ALLOW_IPS) those of its client, with port 0.
        session_id: which session it belongs to.
        url_path: what was asked for.
        query: the query string.
    """

    headers: Mapping[str, str] = _NOTHING
    peer: tuple[str, int] | None = None
    session_id: str | None = None
    url_path: str | None = None
    query: str = ""

    def __repr__(self) -> str:
        # Values of headers may be secret.
        return f"<RequestFacts of {self.peer!r}: {', '.join(self.headers)}>"


NO_FACTS: Final = RequestFacts()


def decode_headers(
    headers: Iterable[tuple[bytes, bytes]], *, with_secrets: bool
) -> Mapping[str, str]:
    """Return headers as text; credentials only if nothing has checked them yet."""
    return MappingProxyType(
        {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if with_secrets or name not in _SECRET
        }
    )
