"""One contender of the benchmarks over HTTP: python web.py CONTENDER MODE PORT TOOLS.

The mode is json, stream, stateless or standalone. All run on the same server, with the same
settings.
"""

import sys
from typing import Any


def accord(mode: str, tools: int) -> Any:
    import ours

    # JSON is what it answers with by itself where there is nothing to say before.
    how: dict[str, dict[str, Any]] = {
        "json": {},
        "stream": {"answers": "stream"},
        "stateless": {"stateless": True},
        "standalone": {},
    }
    return ours.build(tools).asgi(**how[mode])


def bare(mode: str, tools: int) -> Any:
    import bare_web

    return bare_web.App(mode)


def official(mode: str, tools: int) -> Any:
    import official as peer

    stateless = mode in ("stateless", "standalone")
    server = peer.build(tools)
    return server.streamable_http_app(json_response=mode != "stream", stateless_http=stateless)


def fastmcp(mode: str, tools: int) -> Any:
    import fast

    stateless = mode in ("stateless", "standalone")
    return fast.build(tools).http_app(json_response=mode != "stream", stateless_http=stateless)


APPS = {"accord": accord, "bare": bare, "official": official, "FastMCP": fastmcp}


def main() -> None:
    import uvicorn

    who, mode, port, tools = sys.argv[1:]
    uvicorn.run(
        APPS[who](mode, int(tools)),
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
