"""What is known of a request beside its message: where it came from, and with what headers."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = ["NO_FACTS", "RequestFacts", "readable"]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# What proves who somebody is is nothing that a handler could pass on by mistake.
_SECRET: Final = frozenset({b"authorization", b"proxy-authorization"})


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a request beside its message; over stdio and in memory that is nothing.

    Attributes:
        headers: with lower-case names.
        peer: address and port of the other end of the connection; behind a proxy, the proxy's.
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


def readable(headers: Iterable[tuple[bytes, bytes]], *, with_secrets: bool) -> Mapping[str, str]:
    """Return headers as text; those that carry a token only where nobody has looked at it."""
    return MappingProxyType(
        {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if with_secrets or name not in _SECRET
        }
    )
