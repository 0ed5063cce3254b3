"""Proof Key for Code Exchange (RFC 7636), method S256 alone."""

import hashlib
import secrets
from base64 import urlsafe_b64encode

import msgspec


class Pkce(msgspec.Struct, frozen=True):
    """A secret verifier, and its challenge, which is public."""

    verifier: str
    challenge: str

    def __repr__(self) -> str:
        return f"Pkce(challenge={self.challenge!r})"


def new_pkce() -> Pkce:
    """Return a random verifier with its challenge."""
    verifier = secrets.token_urlsafe(48)
    return Pkce(verifier, challenge_of(verifier))


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
