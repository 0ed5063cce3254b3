"""Handlers that fail in every way that Python has."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from accord import Context, Server
from accord.errors import RequestError


class Private(BaseException):
    """An exception that no `except Exception` catches."""


class Mute(Exception):
    """An exception whose text cannot be reported."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Unwritable:
    """A value that JSON does not carry."""


def _recursive() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


FAILURES: dict[str, BaseException] = {
    "StopIteration": StopIteration("over"),
    "StopAsyncIteration": StopAsyncIteration("over"),
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
    "Private": Private("private"),
    "BaseExceptionGroup": BaseExceptionGroup("all", [Private("one"), KeyboardInterrupt()]),
    "ExceptionGroup": ExceptionGroup("all", [ValueError("one"), StopIteration()]),
    "Mute": Mute(),
    "RecursionError": RecursionError(),
    "MemoryError": MemoryError(),
    "odd code": RequestError("odd", code="x"),  # type: ignore[arg-type]
    "odd message": RequestError(b"odd"),  # type: ignore[arg-type]
    "odd data": RequestError("odd", data=_recursive()),
}
VALUES: dict[str, Callable[[], Any]] = {
    "an object": Unwritable,
    "a generator": lambda: (each for each in "abc"),
    "a recursive list": _recursive,
    "half a character": lambda: "\ud800",
    "an exception": lambda: ValueError("returned"),
}
WAYS = [*FAILURES, *VALUES]


def failing_middleware(how: str) -> Server[None]:
    """Make a server whose middleware fails when tools are listed."""

    async def fail_at_list(ctx: Context, proceed: Callable[[], Awaitable[Any]]) -> Any:
        return fail(how) if ctx.method == "tools/list" else await proceed()

    made: Server[None] = Server("failing", middleware=[fail_at_list])
    made.add_tool(lambda: "x", name="x", description="The only one.")
    return made


def fail(how: str) -> Any:
    """Raise or return what the name says."""
    if how in FAILURES:
        raise FAILURES[how]
    return VALUES[how]()


server: Server[None] = Server("failing")


@server.tool
def sync_tool(how: str) -> Any:
    """Fail in a thread."""
    return fail(how)


@server.tool
async def async_tool(how: str) -> Any:
    """Fail on the loop, after a turn of it."""
    await asyncio.sleep(0)
    return fail(how)


@server.tool
async def eager_tool(how: str) -> Any:
    """Fail on the loop, at once."""
    return fail(how)


@server.tool(inline=True)
def inline_tool(how: str) -> Any:
    """Fail on the loop, as a plain function."""
    return fail(how)


@server.tool(timeout=60)
def timed_tool(how: str) -> Any:
    """Fail in a thread with a time limit."""
    return fail(how)


@server.tool
async def group_tool(how: str) -> str:
    """Fail in a task of a group."""

    async def work() -> None:
        fail(how)

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
    return "nothing happened"


@server.resource("sync://{how}")
def sync_resource(how: str) -> Any:
    """Fail in a thread."""
    return fail(how)


@server.resource("async://{how}")
async def async_resource(how: str) -> Any:
    """Fail on the loop."""
    return fail(how)


@server.prompt
def sync_prompt(how: str) -> Any:
    """Fail in a thread."""
    return fail(how)


@server.prompt
async def async_prompt(how: str) -> Any:
    """Fail on the loop."""
    return fail(how)


@server.completion("sync_prompt", "how")
def complete_sync(value: str) -> Any:
    """Fail in a thread."""
    return fail(value)


@server.completion("async_prompt", "how")
async def complete_async(value: str) -> Any:
    """Fail on the loop."""
    return fail(value)


@server.tool
def fork_in_thread() -> str:
    """Fork; the child returns as the parent does."""
    return f"{os.getpid()} {os.fork()}"


@server.tool
async def fork_on_loop(ctx: Context, awaits: bool = False) -> str:
    """Fork on the loop; the child tells something and goes on like the parent."""
    if awaits:
        await asyncio.sleep(0)
    parent, child = os.getpid(), os.fork()
    ctx.info(f"reported by {os.getpid()}" + "x" * 100_000)
    if awaits:
        await asyncio.sleep(0)
    return f"{parent} {child}"


@server.tool(inline=True)
def fork_inline() -> str:
    """Fork on the loop in a plain function."""
    return f"{os.getpid()} {os.fork()}"


@server.tool
def fork_and_raise() -> str:
    """Fork in a thread; the child raises."""
    parent, child = os.getpid(), os.fork()
    if child == 0:
        raise SystemExit(4)
    return f"{parent} {child}"


@server.prompt
def fork_prompt() -> str:
    """Fork in a prompt."""
    return f"{os.getpid()} {os.fork()}"


@server.resource("fork://now")
async def fork_resource() -> str:
    """Fork in a resource."""
    return f"{os.getpid()} {os.fork()}"


if __name__ == "__main__":
    server.run()
