"""What authors write passes the strict type checker, and has the types that they expect."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from typing import Any, assert_type

from accord import Client, Server
from accord.types import CallToolResult, ElicitParams

server = Server("desk")


def add(a: int, b: int) -> int:
    return a + b


assert_type(server.tool(add, name="plus")(1, 2), int)
assert_type(server.prompt(add, title="Add")(1, 2), int)


@server.tool(name="minus")
def subtract(a: int, b: int) -> int:
    return a - b


def answer(question: ElicitParams) -> dict[str, object]:
    return dict.fromkeys(question.requested_schema["properties"], "x")


async def use(client: Client) -> None:
    assert_type(await client.call_tool("add"), CallToolResult)
    assert_type(await client.call_tool("add", result_type=int), int)
    assert_type(await client.call_tool("add", result_type=list[int]), list[int])
    assert_type(await client.call_tool("add", result_type=int | None), Any)
    task = await client.start_tool("add")
    assert_type(await task.result(result_type=str | None), Any)


def main() -> None:
    server.run(transport="streamable-http", port=8001)
"""


def test_a_program_of_an_author_passes_the_strict_type_checker(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", file],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
