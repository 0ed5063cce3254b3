"""A server written with FastMCP that runs tools as tasks.

python fastmcp_task_server.py [http FORM]
"""

import asyncio
import sys
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp_tasks import TasksExtension
from rounds import ask, elicitation
from serving import serve

server = FastMCP("interop", version="1.2.3")
server.add_extension(TasksExtension())
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


@server.tool(task=True, output_schema=None)
async def slow(text: str) -> str:
    """Take a moment."""
    await asyncio.sleep(0.05)
    return f"slowly {text}"


@server.tool(task=True, output_schema=None)
async def slow_fail() -> str:
    """Fail after a moment."""
    await asyncio.sleep(0.05)
    raise ToolError("the task says no")


@server.tool(task=True, output_schema=None)
async def slow_ask(ctx: Context, question: str) -> Any:
    """Ask the user while it runs."""
    answers = ctx.input_responses
    if not answers:
        return ask(user=elicitation(question, PERSON))
    person = answers["user"].content
    return f"{person['name']} is {person['age']}"


@server.tool(task=True, output_schema=None)
async def slow_wait() -> str:
    """Take too long."""
    await asyncio.sleep(60)
    return "waited"


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(server.http_app())
    else:
        server.run(show_banner=False, log_level="ERROR")
