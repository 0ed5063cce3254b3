"""The benchmarks' server over HTTP, open or protected: python protected.py PORT [JWK].

With a JWK, requests need a JWT that its key has signed, for the URL that the client names.
"""

import json
import sys
from typing import Any

import ours
import uvicorn

from accord.auth import JwtVerifier, Protected

ISSUER = "https://issuer.example"
URL = "http://127.0.0.1:8000/mcp"


def build(jwk: str | None) -> Any:
    server = ours.build(100)
    if jwk is not None:
        verifier = JwtVerifier(ISSUER, keys=[json.loads(jwk)])
        server._core.auth = Protected(verifier, public_url=URL, scopes=["use"])
    return server.asgi()


def main() -> None:
    port, *jwk = sys.argv[1:]
    uvicorn.run(
        build(jwk[0] if jwk else None),
        port=int(port),
        http="httptools",
        loop="uvloop",
        ws="none",
        access_log=False,
        log_level="critical",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=600,
    )


if __name__ == "__main__":
    main()
