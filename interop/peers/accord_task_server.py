"""The accord server that runs tools as tasks for foreign clients.

    python accord_task_server.py [http FORM]

Written with the public names alone.
"""

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from accord import Context, Server, ToolError
from accord.server.tasks import TaskSettings

# A call that may be a task is one at once, however soon it ends.
server = Server("interop", version="1.2.3", tasks=TaskSettings(grace=0))


@dataclass
class Person:
    """The answer of the user."""

    name: str
    age: int


@server.tool(task="optional")
async def slow(text: str) -> str:
    """Take a moment.

    Args:
        text: what to say then
    """
    await asyncio.sleep(0.05)
    return f"slowly {text}"


@server.tool(task="optional")
async def slow_fail() -> str:
    """Fail after a moment."""
    await asyncio.sleep(0.05)
    raise ToolError("the task says no")


@server.tool(task="optional")
async def slow_ask(ctx: Context[Any], question: str) -> str:
    """Ask the user while it runs.

    Args:
        question: what to ask
    """
    person = await ctx.elicit(question, Person)
    return f"{person.name} is {person.age}"


@server.tool(task="optional")
async def slow_wait() -> str:
    """Take too long."""
    await asyncio.sleep(60)
    return "waited"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("http", port=0)
    else:
        server.run()
