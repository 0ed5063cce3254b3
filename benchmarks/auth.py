"""What it costs to be protected: tools/call with a JWT against the same without, in one run.

    python benchmarks/auth.py [--quick]

Both are the same server on uvicorn; the CPU time of the server counts, the best of rounds that take
turns. A token that has been seen is not verified again, so that a third server gets a new token
with every request: what that costs is shown, and held to nothing. Exits 1 when the aim is missed.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from measure import HERE, Aim, Effort, Reading, Round, best, cpu_of
from web import _body, _free_port
from wire import OPENED, OPENING, Connection, connect

WIDTH: Final = 32
FRESH: Final = 4_000
ISSUER: Final = "https://issuer.example"
URL: Final = "http://127.0.0.1:8000/mcp"


class Issuer:
    """Signs tokens as identity providers do: RS256, with a key of 2048 bits."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        algorithm = jwt.get_algorithm_by_name("RS256")
        public: Any = algorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.jwk = json.dumps({**public, "kid": "bench"})

    def header(self, number: int = 0) -> bytes:
        claims = {
            "iss": ISSUER,
            "aud": URL,
            "sub": "somebody",
            "client_id": "bench",
            "scope": "use profile offline_access",
            "exp": int(time.time()) + 3600,
            "jti": str(number),
        }
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "bench"})
        return b"authorization: Bearer %b\r\n" % token.encode()


class Server:
    """A server process with connections to it, all with the same token or none."""

    def __init__(self, *jwk: str) -> None:
        self.port = _free_port()
        script = str(HERE / "peers" / "protected.py")
        self.process = subprocess.Popen([sys.executable, script, str(self.port), *jwk])
        self.connections: list[Connection] = []

    async def open(self, token: bytes) -> None:
        for _ in range(WIDTH):
            connection = await connect(self.port)
            connection.session = token
            response = await connection.post(OPENING)
            connection.session = _session_in(response) + token
            if b" 202 " not in (await connection.post(OPENED))[:20]:
                raise RuntimeError("the server does not take the end of the opening")
            self.connections.append(connection)
        answer = await self.connections[0].post(_body(0, "add", {"a": 1, "b": 2}))
        if b'"structuredContent":{"result":3}' not in answer:
            raise RuntimeError(f"the server answers {answer[:500]!r}")

    async def call(self, bodies: list[bytes], tokens: list[bytes] | None) -> None:
        share = len(bodies) // WIDTH

        async def some(connection: Connection, first: int) -> None:
            session = connection.session
            for at in range(first, first + share):
                if tokens is not None:
                    connection.session = _session_of(session) + tokens[at % len(tokens)]
                await connection.post(bodies[at])
            connection.session = session

        await asyncio.gather(*(some(each, share * at) for at, each in enumerate(self.connections)))

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.process.kill()
        self.process.wait()


def _session_in(response: bytes) -> bytes:
    head = response.split(b"\r\n\r\n", 1)[0].split(b"\r\n")
    return next(each for each in head if each.lower().startswith(b"mcp-session-id:")) + b"\r\n"


def _session_of(headers: bytes) -> bytes:
    return headers.split(b"\r\n", 1)[0] + b"\r\n"


@contextmanager
def running(*servers: Server) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    try:
        yield loop.run_until_complete
    finally:
        for server in servers:
            server.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def rounds_of(server: Server, run: Any, tokens: list[bytes] | None = None) -> Round:
    def calls(count: int) -> Reading:
        count = max(count // WIDTH, 1) * WIDTH
        bodies = [_body(number, "add", {"a": number, "b": 2}) for number in range(1, count + 1)]
        work: Coroutine[Any, Any, None] = server.call(bodies, tokens)
        cpu, start = cpu_of(server.process.pid), time.perf_counter()
        run(work)
        elapsed = time.perf_counter() - start
        return Reading(elapsed / count, (cpu_of(server.process.pid) - cpu) / count)

    return calls


def main() -> int:
    parser = argparse.ArgumentParser(description="What it costs to be protected.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    # The difference is small: many short rounds, of which the quietest count.
    effort = Effort(4, 0.05) if parser.parse_args().quick else Effort(40, 0.05)
    issuer = Issuer()
    is_open, protected, fresh = Server(), Server(issuer.jwk), Server(issuer.jwk)
    with running(is_open, protected, fresh) as run:
        header = issuer.header()
        for server, token in ((is_open, b""), (protected, header), (fresh, header)):
            run(server.open(token))
        found = best(
            {"open": rounds_of(is_open, run), "protected": rounds_of(protected, run)},
            effort,
            most=8_000,
        )
        tokens = [issuer.header(number) for number in range(1, FRESH + 1)]
        once = rounds_of(fresh, run, tokens)(FRESH)
    print("tools/call over HTTP, 32 connections, CPU time of the server")
    for name, cpu in (
        ("open", found["open"].cpu),
        ("protected, JWT seen before", found["protected"].cpu),
        ("protected, each JWT new", once.cpu),
    ):
        print(f"  {name:28}{cpu * 1e6:8.1f} µs")
    aim = Aim(found["protected"].cpu / found["open"].cpu, 1.1, 1.05, "of open", at_most=True)
    print(f"  protected / open: {aim}")
    return 0 if aim.reached else 1


if __name__ == "__main__":
    sys.exit(main())
