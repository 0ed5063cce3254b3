"""Reports before and after a call has become a task, where it becomes one."""

import asyncio

from accord import Context, Server
from accord.server.tasks import TaskSettings


def make() -> Server[None]:
    server: Server[None] = Server("reporting", tasks=TaskSettings(grace=0.1))

    async def report(ctx: Context, numbers: range) -> None:
        for number in numbers:
            await ctx.progress(number, 8, message=f"step {number}")
            await ctx.info({"step": number})

    @server.tool(task="optional")
    async def build(ctx: Context) -> str:
        """Build in eight steps, most of them when the grace is over."""
        await report(ctx, range(1, 4))
        while ctx.task is not None and not ctx.task.is_kept:
            await asyncio.sleep(0.01)
        await report(ctx, range(4, 9))
        return "built"

    return server


if __name__ == "__main__":
    make().run()
