"""One contender of the benchmarks over HTTP: python web.py CONTENDER MODE PORT TOOLS.

The mode is json, stream, sessionless or stateless. `accord` runs as `server.run("http")` does, the
peers on the uvicorn that their plain installation brings (h11, asyncio). Those whose name ends in
"tuned", and the raw ASGI app, run on the fastest uvicorn there is (httptools, uvloop).
"""

import sys
from typing import Any

# JSON is what accord answers with by itself where there is nothing to say before.
SETTINGS: dict[str, dict[str, Any]] = {
    "json": {},
    "stream": {"answers": "stream"},
    "sessionless": {"sessions": False},
    "stateless": {},
}


def accord(mode: str, tools: int) -> Any:
    import ours

    return ours.build(tools).asgi(**SETTINGS[mode])


def bare(mode: str, tools: int) -> Any:
    import bare_web

    return bare_web.App(mode)


def official(mode: str, tools: int) -> Any:
    import official as peer

    stateless = mode in ("sessionless", "stateless")
    server = peer.build(tools)
    return server.streamable_http_app(json_response=mode != "stream", stateless_http=stateless)


def fastmcp(mode: str, tools: int) -> Any:
    import fast

    stateless = mode in ("sessionless", "stateless")
    return fast.build(tools).http_app(json_response=mode != "stream", stateless_http=stateless)


APPS = {
    "accord tuned": accord,
    "bare": bare,
    "official": official,
    "official tuned": official,
    "FastMCP": fastmcp,
}


def main() -> None:
    who, mode, port, tools = sys.argv[1:]
    if who == "accord":
        import ours

        ours.build(int(tools)).run("http", port=int(port), **SETTINGS[mode])
        return
    if who == "protocol":
        import bare_protocol

        bare_protocol.run(int(port))
        return
    import uvicorn

    is_tuned = who == "bare" or who.endswith(" tuned")
    uvicorn.run(
        APPS[who](mode, int(tools)),
        port=int(port),
        http="httptools" if is_tuned else "h11",
        loop="uvloop" if is_tuned else "asyncio",
        ws="none",
        access_log=False,
        log_level="critical",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=600,
    )


if __name__ == "__main__":
    main()
