"""The server of the scale tests, as a process: `python served_tools.py '{"port": ..., ...}'`.

Every tool takes `key`, by which the client names the call in the ledger. What tools send carries
the key, the run and the number of the step, so that an audit can compare what was sent with what
clients saw.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests, where `support` is

from accord import Context, Server, ToolError
from accord.middleware import rate_limit
from accord.server.tasks import TaskSettings
from support.scale.ledger import LedgerWriter, Run

NAME = "scale"
RATE, BURST = 10.0, 12


def limited_caller(ctx: Context) -> str | None:
    """Return what shares a limit: calls of one tool with equal groups."""
    if ctx.params.name != "limited":
        return None
    return str(ctx.params.arguments["group"])


def build(ledger_path: str, **settings: Any) -> Server:
    """Make the server."""
    limit = rate_limit(RATE, burst=BURST, by=limited_caller)
    # Without a grace every call is a task, also one that ends at once.
    usual = {"log_level": "info", "middleware": [limit], "tasks": TaskSettings(grace=0)}
    server = Server(NAME, version="1", **{**usual, **settings})
    ledger: list[LedgerWriter] = []

    def begin(key: str) -> Run:
        if not ledger:  # not before a fork: the ids of processes are in it
            ledger.append(LedgerWriter(ledger_path))
        return ledger[0].begin(key)

    _add_calls(server, begin)
    _add_questions(server, begin)
    _add_tasks(server, begin)
    _add_changes(server, begin)
    return server


def _add_calls(server: Server, begin: Any) -> None:
    @server.tool
    async def quick(key: str, a: int = 1) -> str:
        """Answer at once."""
        run = begin(key)
        run.note("end")
        return f"{key}:{a}"

    @server.tool
    async def stream(ctx: Context, key: str, steps: int = 5, pause: float = 0.01) -> str:
        """Report steps, and answer."""
        return await _steps(ctx, begin(key), steps, pause)

    @server.tool(idempotent=True)
    async def repeatable(ctx: Context, key: str, steps: int = 5, pause: float = 0.01) -> str:
        """Report steps, and answer; may run again."""
        # Progress that does not rise is left out, so that numbers would be missing in a second run.
        return await _steps(ctx, begin(key), steps, pause, in_turn=False)

    @server.tool
    async def silent(key: str, seconds: float = 0.5) -> str:
        """Say nothing for a while, and answer."""
        run = begin(key)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            run.note("cancel")
            raise
        run.note("end")
        return key

    @server.tool
    async def count(ctx: Context, key: str) -> int:
        """Count the calls of this session."""
        run = begin(key)
        number: int = ctx.session.state.get("count", 0) + 1
        ctx.session.state["count"] = number
        run.note("end", number)
        return number

    @server.tool
    async def fail(key: str) -> str:
        """Fail."""
        begin(key).note("end")
        raise ToolError(f"failed {key}")

    @server.tool
    async def limited(key: str, group: str) -> str:
        """Answer, but not too often."""
        begin(key).note("end", group)
        return key

    @server.tool
    async def inventory(key: str) -> str:
        """Count what this worker holds."""
        begin(key).note("end")
        return json.dumps({"tasks": len(asyncio.all_tasks())})

    @server.tool
    async def flood(ctx: Context, key: str, steps: int) -> str:
        """Send many events, without a line in the ledger for each."""
        run = begin(key)
        for step in range(1, steps + 1):
            await ctx.progress(step, message=f"{key}|{run.name}|{step}")
        run.note("end", steps)
        return key


async def _steps(ctx: Context, run: Run, steps: int, pause: float, *, in_turn: bool = True) -> str:
    """Send steps as log messages; every second one as progress, if they take turns."""
    try:
        for step in range(1, steps + 1):
            mark = run.mark(step)
            if in_turn and step % 2 == 0:
                await ctx.progress(step, steps, message=mark)
            else:
                await ctx.info(mark)
            if not in_turn:
                await ctx.progress(step, steps)
            await asyncio.sleep(pause)
    except asyncio.CancelledError:
        run.note("cancel")
        raise
    run.note("end", steps)
    return f"{run.key}|{run.name}|{steps}"


def _add_questions(server: Server, begin: Any) -> None:
    @server.tool
    async def ask(ctx: Context, key: str, kind: str = "elicit", times: int = 1) -> str:
        """Ask the client, and answer with what it said."""
        run = begin(key)
        said = []
        try:
            for number in range(1, times + 1):
                question = f"{key}|{run.name}|{number}"
                run.note("ask", number)
                said.append(await _ask(ctx, kind, question, number))
                run.note("answer", said[-1])
        except asyncio.CancelledError:
            run.note("cancel")
            raise
        run.note("end")
        return json.dumps(said)

    async def _ask(ctx: Context, kind: str, question: str, number: int) -> str:
        if kind == "elicit":
            return await ctx.elicit(question, str, key=f"q{number}")
        if kind == "sample":
            result = await ctx.sample(question, key=f"q{number}")
            return str(result.content.text)  # type: ignore[union-attr]
        roots = await ctx.roots()
        return str(roots[0].uri)


def _add_tasks(server: Server, begin: Any) -> None:
    @server.tool(task="optional")
    async def work(ctx: Context, key: str, steps: int = 5, pause: float = 0.02) -> str:
        """Work for a while, as a task if the client wants one."""
        run = begin(key)
        try:
            for step in range(1, steps + 1):
                run.note("send", step)
                if ctx.task is not None:
                    await ctx.task.update(f"{key}|{run.name}|{step}")
                await asyncio.sleep(pause)
        except asyncio.CancelledError:
            run.note("cancel")
            raise
        run.note("end")
        return f"{key}|{run.name}|{steps}"

    @server.tool(task="optional")
    async def work_and_ask(ctx: Context, key: str) -> str:
        """Ask within a task."""
        run = begin(key)
        run.note("ask", 1)
        said = await ctx.elicit(f"{key}|{run.name}|1", str, key="q1")
        run.note("answer", said)
        run.note("end")
        return json.dumps([said])


def _add_changes(server: Server, begin: Any) -> None:
    @server.tool
    async def touch(key: str, uri: str) -> str:
        """Say that a resource has changed."""
        begin(key).note("end", uri)
        server.resource_updated(uri)
        return key

    @server.tool
    async def change(key: str, kind: str = "tools") -> str:
        """Say that a list has changed."""
        begin(key).note("end", kind)
        server.list_changed(kind)  # type: ignore[arg-type]
        return key

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        """Read a note."""
        return f"note {name}"

    @server.prompt
    def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"


def find_user(scope: Mapping[str, Any]) -> str | None:
    """Return the caller of a request, by a header."""
    for name, value in scope["headers"]:
        if name == b"x-user":
            return str(value, "latin-1")
    return None


def _end_with_parent() -> None:
    """End when the test process has ended, however that was."""
    while os.read(0, 1):
        pass
    os._exit(3)


def _set_clock(offset: float) -> None:
    """Let the clock of this process be wrong by so many seconds."""
    right = time.time
    time.time = lambda: right() + offset


def main() -> None:
    given = json.loads(sys.argv[1])
    _set_clock(given.pop("clock", 0.0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    settings: dict[str, Any] = given.pop("server", {})
    if "tasks" in given:
        settings["tasks"] = TaskSettings(**given.pop("tasks"))
    server = build(given.pop("ledger"), **settings)
    if given.pop("users", False):
        given["principal"] = find_user
    server.run("http", **given)


if __name__ == "__main__":
    main()
