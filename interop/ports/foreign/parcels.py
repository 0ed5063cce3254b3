"""Middleware of FastMCP: its own for logs and for the rate, and one that intercepts calls."""

import logging
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.middleware.logging import LoggingMiddleware
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware

mcp = FastMCP("parcels")
log = logging.getLogger("parcels")


class Desk(Middleware):
    """Hides what is internal, reads codes in capitals, and keeps parcels that are sealed."""

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: CallNext) -> Any:
        return [tool for tool in await call_next(context) if not tool.name.startswith("internal_")]

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext) -> Any:
        message = context.message
        if message.name == "open_parcel" and message.arguments["code"].startswith("seal"):
            raise ToolError("the parcel is sealed")
        arguments = {key: str(value).upper() for key, value in (message.arguments or {}).items()}
        return await call_next(
            context.copy(message=message.model_copy(update={"arguments": arguments}))
        )


mcp.add_middleware(LoggingMiddleware(logger=log))
mcp.add_middleware(
    RateLimitingMiddleware(
        max_requests_per_second=0.001,
        burst_capacity=12,
        get_client_id=lambda context: "desk",
    )
)
mcp.add_middleware(Desk())


@mcp.tool
def track(code: str) -> str:
    """Say where a parcel is."""
    return f"{code} is on its way"


@mcp.tool
def open_parcel(code: str) -> str:
    """Open a parcel."""
    return f"{code} holds a lamp"


@mcp.tool
def internal_audit() -> str:
    """Count all parcels."""
    return "2 parcels"
