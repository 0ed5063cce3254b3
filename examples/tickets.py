"""A help desk on a database: a server for daily work.

    accord call examples/tickets.py open_ticket title='No paper' priority=high
    accord call examples/tickets.py find words=paper
    accord call examples/tickets.py ticket://1
    accord call examples/tickets.py close_ticket number=1    # asks you how it was solved

Tickets are kept in the file that the variable TICKETS names, tickets.db by default.
"""

import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from accord import Context, Server, ToolError
from accord.errors import ElicitationRefused
from accord.types import ToolAnnotations

READ_ONLY = ToolAnnotations(read_only_hint=True)
TABLE = """
    create table if not exists tickets (
        number integer primary key, title text, priority text, state text default 'open',
        solution text
    )
"""

Number = Annotated[int, Meta(ge=1, description="the number of the ticket")]
Title = Annotated[str, Meta(min_length=1, max_length=200, description="what is wrong")]
Priority = Annotated[Literal["low", "normal", "high"], "how much it hurts"]


@dataclass
class Ticket:
    number: int
    title: str
    priority: str
    state: str
    solution: str | None


class Desk:
    """The tickets. Plain tools run in threads, so that one of them at a time has the database."""

    def __init__(self, file: str) -> None:
        self._database = sqlite3.connect(file, check_same_thread=False)
        self._lock = threading.Lock()
        self.change(TABLE)

    def change(self, statement: str, *values: Any) -> int:
        """Run a statement; return the number of a new row."""
        with self._lock, self._database as database:
            return database.execute(statement, values).lastrowid or 0

    def select(self, condition: str, *values: Any) -> list[Ticket]:
        statement = f"select * from tickets where {condition} order by number"  # noqa: S608
        with self._lock:
            return [Ticket(*row) for row in self._database.execute(statement, values)]

    def ticket(self, number: int) -> Ticket:
        """Return one ticket; an unknown number is an error that the caller sees."""
        for found in self.select("number = ?", number):
            return found
        raise ToolError(f"ticket {number} does not exist")

    def close(self) -> None:
        self._database.close()


@asynccontextmanager
async def open_desk(server: Server[Desk]) -> AsyncIterator[Desk]:
    desk = Desk(os.environ.get("TICKETS", "tickets.db"))
    try:
        yield desk
    finally:
        desk.close()


server: Server[Desk] = Server(
    "tickets",
    version="1.0.0",
    instructions="Look for a ticket about the same before you open one.",
    lifespan=open_desk,
)


@server.tool
def open_ticket(ctx: Context[Desk], title: Title, priority: Priority = "normal") -> Ticket:
    """Open a ticket."""
    statement = "insert into tickets (title, priority) values (?, ?)"
    return ctx.state.ticket(ctx.state.change(statement, title, priority))


@server.tool(annotations=READ_ONLY)
def find(
    ctx: Context[Desk],
    words: Annotated[str, "part of the title"] = "",
    state: Annotated[Literal["open", "closed"], "which ones"] = "open",
) -> list[Ticket]:
    """Find tickets by their titles."""
    return ctx.state.select("state = ? and instr(lower(title), lower(?))", state, words)


@dataclass
class Closing:
    solution: Annotated[str, Meta(min_length=1, description="for those who have it next")]


@server.tool(annotations={"destructiveHint": False, "idempotentHint": True})
async def close_ticket(ctx: Context[Desk], number: Number) -> str:
    """Close a ticket, once the user has said how it was solved."""
    ticket = ctx.state.ticket(number)
    if ticket.state == "closed":
        return f"Ticket {number} is closed already."
    try:
        closing = await ctx.elicit(f"How was {ticket.title!r} solved?", Closing)
    except ElicitationRefused:
        return f"Ticket {number} stays open."
    statement = "update tickets set state = 'closed', solution = ? where number = ?"
    ctx.state.change(statement, closing.solution, number)
    server.resource_updated(f"ticket://{number}")
    return f"Ticket {number} is closed."


@server.resource("ticket://{number}", mime_type="application/json")
def ticket(ctx: Context[Desk], number: int) -> Ticket | None:
    """A ticket by its number; subscribers are notified when it is closed."""
    return next(iter(ctx.state.select("number = ?", number)), None)


@server.completion("ticket://{number}", "number")
def numbers(typed: str) -> list[str]:
    known = [str(each.number) for each in Context[Desk].current().state.select("state = 'open'")]
    return [number for number in known if number.startswith(typed)]


@server.prompt
def triage(ctx: Context[Desk]) -> str:
    """Put the open tickets in order."""
    lines = [
        f"{each.number} ({each.priority}): {each.title}"
        for each in ctx.state.select("state = 'open'")
    ]
    return "\n".join(["Which of these should be seen to first, and why?", *lines])


if __name__ == "__main__":
    server.run()
