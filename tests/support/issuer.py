"""An issuer of tokens for tests: keys, good tokens and bad ones, and a place to fetch the keys."""

import base64
import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from accord.http.client.guarded import HttpRequest, HttpResponse, NoResponse

ISSUER = "https://issuer.example"
RESOURCE = "https://desk.example/mcp"

_ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}


def private_key(name: str = "first", kind: str = "EC") -> Any:
    """A key pair of that name, the same in all tests of a run."""
    return _key_pair(name, kind)  # the cache tells apart what is left out and what is given


@cache
def _key_pair(name: str, kind: str) -> Any:
    if kind == "EC":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(name: str = "first", kind: str = "EC", **more: Any) -> dict[str, Any]:
    """The public half as a JWK."""
    algorithm = jwt.get_algorithm_by_name(_ALGORITHMS[kind])
    public = algorithm.to_jwk(private_key(name, kind).public_key(), as_dict=True)
    return {**public, "kid": name, "use": "sig", **more}


def jwks(*names: str) -> dict[str, Any]:
    return {"keys": [jwk(name) for name in names or ("first",)]}


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a good token, with changes; None leaves one out."""
    now = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": RESOURCE,
        "sub": "ann",
        "client_id": "laptop",
        "scope": "read",
        "iat": now,
        "exp": now + 600,
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(
    name: str = "first", kind: str = "EC", *, header: dict[str, Any] | None = None, **changes: Any
) -> str:
    """A token signed with a key; `changes` are of the claims."""
    given = {"kid": name, "typ": "at+jwt", **(header or {})}
    said = {key: value for key, value in given.items() if value is not None}
    return jwt.encode(
        claims(**changes), private_key(name, kind), algorithm=_ALGORITHMS[kind], headers=said
    )


def unsigned(header: dict[str, Any], **changes: Any) -> str:
    """A token whose signature is empty."""
    return f"{_part(header)}.{_part(claims(**changes))}."


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class Published:
    """What the issuer publishes: answers requests for keys, counts them, and may be down."""

    def __init__(self, *names: str) -> None:
        self.document: Any = jwks(*names)
        self.status = 200
        self.is_down = False
        self.asked: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        if self.is_down:
            raise NoResponse("connection refused")
        return HttpResponse(status=self.status, body=json.dumps(self.document).encode())
