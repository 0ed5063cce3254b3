"""Jobs that take long: the client comes back for the result, also after the server was restarted.

Run it: a server renders a scene as a task and keeps it in a file, is stopped, and is started again.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from accord import Context, Server, connect
from accord.server.tasks import TaskSettings
from accord.stores import SqliteTaskStore


def make(file: str) -> Server[Any]:
    """Make a server that keeps its tasks in a file."""
    settings = TaskSettings(store=SqliteTaskStore(file), poll_interval=0.1)
    server: Server[Any] = Server("render", tasks=settings)

    @server.tool(task="optional")
    async def render(ctx: Context, scene: str, frames: int = 3) -> str:
        """Render a scene.

        Args:
            scene: its name.
            frames: how many pictures.
        """
        for frame in range(1, frames + 1):
            if ctx.task is not None:
                await ctx.task.update(f"frame {frame} of {frames}")
            await asyncio.sleep(0.05)
        return f"{scene}: {frames} frames"

    return server


async def main(file: str) -> None:
    """Begin a job, follow it, lose the server, fetch the result from the next one."""
    command = [sys.executable, __file__, file]
    async with connect(command) as client:
        task = await client.start_tool("render", {"scene": "sea"})
        async for update in task:
            print(update.status, update.message or "")
    async with connect(command) as client:  # another process
        again = await client.task(task.id)
        print("after the restart:", (await again.result()).text)


if __name__ == "__main__":
    if sys.argv[1:]:
        make(sys.argv[1]).run()
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(str(Path(folder) / "tasks.db")))
