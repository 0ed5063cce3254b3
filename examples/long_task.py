"""A tool that takes long, as a task: the client leaves, and comes back for the result.

python examples/long_task.py                               start, leave, come back
accord call examples/long_task.py render scene=sea         waits, and shows the status
"""

import asyncio

from accord import Context, Server, connect
from accord.server.tasks import SqliteTaskStore, TaskSettings

# The file outlives the process: results are there after a restart, and for other processes.
# Without a grace, a call is a task at once, and not only after a second.
settings = TaskSettings(store=SqliteTaskStore("films.db"), ttl=600, poll_interval=0.1, grace=0)
server = Server("films", tasks=settings)


@server.tool(task="optional")
async def render(ctx: Context, scene: str, frames: int = 3) -> str:
    """Render a scene."""
    for frame in range(1, frames + 1):
        if ctx.task is not None:  # None for clients that do not know tasks
            await ctx.task.update(f"frame {frame} of {frames}")
        await asyncio.sleep(0.2)
    return f"{scene}: {frames} frames"


async def main() -> None:
    async with connect(server) as client:
        task = await client.start_tool("render", {"scene": "sea"})
        print("started:", task.status)

    async with connect(server) as client:  # another connection: the id is enough
        task = await client.task(task.id)
        async for update in task:
            print(update.status, update.message or "")

    async with connect(__file__) as client:  # another process, with the same file
        task = await client.task(task.id)
        print("result:", (await task.result()).text)


if __name__ == "__main__":
    asyncio.run(main())
