"""Middleware: a journal of all requests, a limit on their rate, and tools whose calls change."""

import logging
import time
from typing import Any

from accord import Context, Server, ToolError
from accord.errors import RequestError
from accord.server import Proceed

server = Server("parcels")
log = logging.getLogger("parcels")


@server.middleware
async def journal(ctx: Context, proceed: Proceed) -> object:
    """Log how each request begins and ends."""
    log.info("%s begins", ctx.method)
    try:
        result = await proceed()
    except Exception as error:
        log.warning("%s failed: %s", ctx.method, error)
        raise
    log.info("%s is done", ctx.method)
    return result


class Rate:
    """A bucket of tokens: each request takes one, and they come back with time."""

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second, self.burst = per_second, burst
        self.tokens, self.then = float(burst), time.monotonic()

    async def __call__(self, ctx: Context, proceed: Proceed) -> object:
        now = time.monotonic()
        self.tokens = min(self.burst, self.tokens + (now - self.then) * self.per_second)
        self.then = now
        if self.tokens < 1:
            raise RequestError("rate limit exceeded", code=-32000)
        self.tokens -= 1
        return await proceed()


server.add_middleware(Rate(per_second=0.001, burst=12))


@server.middleware("tools/list")
async def hide_internal(ctx: Context, proceed: Proceed) -> object:
    """Leave internal tools out of the list."""
    page: Any = await proceed()
    page.tools = [tool for tool in page.tools if not tool.name.startswith("internal_")]
    return page


@server.middleware("tools/call")
async def guard(ctx: Context, proceed: Proceed) -> object:
    """Keep sealed parcels closed, and read codes in capitals."""
    name, arguments = ctx.params.name, ctx.params.arguments or {}
    if name == "open_parcel" and arguments["code"].startswith("seal"):
        raise ToolError("the parcel is sealed")
    capitals = {key: str(value).upper() for key, value in arguments.items()}
    return await proceed(params={"name": name, "arguments": capitals})


@server.tool
def track(code: str) -> str:
    """Say where a parcel is."""
    return f"{code} is on its way"


@server.tool
def open_parcel(code: str) -> str:
    """Open a parcel."""
    return f"{code} holds a lamp"


@server.tool
def internal_audit() -> str:
    """Count all parcels."""
    return "2 parcels"
