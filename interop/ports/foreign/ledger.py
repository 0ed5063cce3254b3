"""Dependencies of FastMCP: nested, shared within a call, closed after it, given an argument."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import FastMCP
from fastmcp.dependencies import CallArgument, Depends
from fastmcp.exceptions import ToolError

mcp = FastMCP("ledger")
events: list[str] = []


@asynccontextmanager
async def open_book() -> AsyncIterator[dict[str, int]]:
    events.append("open")
    try:
        yield {"anna": 120, "ben": 35}
    finally:
        events.append("close")


def balance_of(owner: str = CallArgument(), book: dict[str, int] = Depends(open_book)) -> int:  # noqa: B008
    events.append(f"look up {owner}")
    if owner not in book:
        raise ToolError(f"no account of {owner!r}")
    return book[owner]


async def limit_of(balance: int = Depends(balance_of)) -> int:
    return balance // 2


@mcp.tool
async def pay(
    owner: str,
    amount: int,
    balance: int = Depends(balance_of),
    limit: int = Depends(limit_of),
) -> dict[str, int]:
    """Pay from an account, up to half of what is on it."""
    if amount > limit:
        raise ToolError(f"{amount} is over the limit of {limit}")
    return {"paid": amount, "left": balance - amount}


@mcp.tool
def journal() -> list[str]:
    """Say what has happened so far."""
    return events


@mcp.resource("ledger://{owner}")
def account(owner: str, balance: int = Depends(balance_of)) -> str:
    """The balance of an account."""
    return f"{owner}: {balance}"


@mcp.prompt
def remind(owner: str, balance: int = Depends(balance_of)) -> str:
    """Remind the owner of an account."""
    return f"Tell {owner} that {balance} is left."
