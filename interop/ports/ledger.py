"""Dependencies: nested, shared within a call, closed after it, given an argument of the tool."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypeAlias

from accord import Depends, Server, ToolError

server = Server("ledger")
events: list[str] = []


@asynccontextmanager
async def open_book() -> AsyncIterator[dict[str, int]]:
    """Open the book for one call."""
    events.append("open")
    try:
        yield {"anna": 120, "ben": 35}
    finally:
        events.append("close")


def balance_of(owner: str, book: Annotated[dict[str, int], Depends(open_book)]) -> int:
    """Look up an account, whose owner is an argument of the call."""
    events.append(f"look up {owner}")
    if owner not in book:
        raise ToolError(f"no account of {owner!r}")
    return book[owner]


Balance: TypeAlias = Annotated[int, Depends(balance_of)]


async def limit_of(balance: Balance) -> int:
    """Return how much may be paid at once."""
    return balance // 2


@server.tool
async def pay(
    owner: str, amount: int, balance: Balance, limit: Annotated[int, Depends(limit_of)]
) -> dict[str, int]:
    """Pay from an account, up to half of what is on it."""
    if amount > limit:
        raise ToolError(f"{amount} is over the limit of {limit}")
    return {"paid": amount, "left": balance - amount}


@server.tool
def journal() -> list[str]:
    """Say what has happened so far."""
    return events


@server.resource("ledger://{owner}")
def account(owner: str, balance: Balance) -> str:
    """The balance of an account."""
    return f"{owner}: {balance}"


@server.prompt
def remind(owner: str, balance: Balance) -> str:
    """Remind the owner of an account."""
    return f"Tell {owner} that {balance} is left."
