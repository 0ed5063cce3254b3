"""The value of `Mcp-Session-Id`: all that a worker needs to serve a plain request, and a seal.

So a worker that has never seen a session can serve it while the store is away, and an id that was
made up or altered is refused without asking the store. The seal is HMAC-SHA-256; clients can read
what they said of themselves, but cannot change it.
"""

import base64
import hmac
from hashlib import sha256
from typing import Final

import msgspec

from accord.principal import Principal, identity_text
from accord.sharing.backends.sealed_backend import KeyRing

__all__ = ["SessionToken", "SessionTokens", "identify_caller"]

FORMAT: Final = 1
_MAC_BYTES: Final = 16
_DIGEST_BYTES: Final = 9
# Longer names of clients are left out: ids travel with every request.
_NAME_MOST: Final = 40
# Far more than we make; proxies refuse headers of 8 KiB.
_LENGTH_MOST: Final = 2048


class SessionToken(msgspec.Struct, frozen=True, array_like=True):
    """What the id of a session says.

    Attributes:
        format: that of the token.
        sid: names the session in the store; 96 random bits.
        epoch: that of the store when the session began.
        issued: when it began, in seconds since 1970 by the clock of the store.
        caller: a digest of the principal that opened it; empty for an anonymous caller.
        revision: the protocol revision that was agreed on; empty if that is not settled yet.
        capabilities: those of the client, as dotted paths.
        client: its name and version.
        is_older_form: whether it belongs to the form with two endpoints.
    """

    format: int
    sid: str
    epoch: str
    issued: float
    caller: bytes
    revision: str = ""
    capabilities: tuple[str, ...] = ()
    client: tuple[str, str] = ("", "")
    is_older_form: bool = False


_decode: Final = msgspec.msgpack.Decoder(SessionToken).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class SessionTokens:
    """Seals and opens the ids of sessions.

    Args:
        keys: the first seals, all of them open.
    """

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys.derive("session id")

    def seal(self, token: SessionToken) -> bytes:
        """Return a token as the value of the header."""
        name, version = token.client
        if len(name) + len(version) > _NAME_MOST:
            token = msgspec.structs.replace(token, client=("", ""))
        payload = _encode(token)
        mac = hmac.digest(self._keys[0], payload, "sha256")[:_MAC_BYTES]
        return base64.urlsafe_b64encode(payload + mac).rstrip(b"=")

    def open(self, value: bytes) -> SessionToken | None:
        """Return what a value says; None if it was not made by a holder of the keys."""
        if len(value) > _LENGTH_MOST:
            return None
        try:
            sealed = base64.b64decode(value + b"=" * (-len(value) % 4), b"-_", validate=True)
        except ValueError:
            return None
        if base64.urlsafe_b64encode(sealed).rstrip(b"=") != value:
            return None  # one session has one id, though bits of the last character are not used
        payload, mac = sealed[:-_MAC_BYTES], sealed[-_MAC_BYTES:]
        for key in self._keys:
            if hmac.compare_digest(hmac.digest(key, payload, "sha256")[:_MAC_BYTES], mac):
                break
        else:
            return None
        try:
            token = _decode(payload)
        except (ValueError, RecursionError):
            return None
        return token if token.format == FORMAT else None


def identify_caller(principal: Principal | None) -> bytes:
    """Return a digest of a caller, the same on every worker; empty for an anonymous one."""
    if principal is None:
        return b""
    return sha256(identity_text(principal).encode()).digest()[:_DIGEST_BYTES]
